"""Etsy's statsd, the StatsD server that the others come from, run for real and read over its management port.

It keeps an exact value of every gauge and a running total of every counter; it never flushes here, so nothing is
reset. An answer takes milliseconds. It speaks plain DogStatsD 1.0 lines only:

- `|c:`, `|e:`, `|card:` and `|T` after the tags become part of the last tag's value
- `|d` is counted as a counter; so is any unknown type; `|h` as well
- packed values (`a:1:2|g`) are all read; `@rate` of a counter is honoured, any other third field is a bad line
- a signed gauge (`+4|g`) changes a gauge that exists and is not 0, else it sets it
- `;` in a tag becomes `_`; tags are not sorted or made unique by the server (here they are sorted for the key)
- its receive buffer holds some hundred datagrams: a burst of more loses the rest (`drops` tells)
- a line without a value, a type it cannot split off, a value that is no number: a bad line
"""

import json
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from servers import Key, ServerUnavailableError, install, udp

MARK = "harness.mark"
OWN = "statsd."
"""The prefix of the series that the server keeps about itself; never reported."""

_NEVER = 24 * 60 * 60 * 1000  # milliseconds
# Node.js 23 no longer has util.log, which this server calls.
_SHIM = "require('util').log = (...args) => console.log(args.join(' '));"
_ENTRY = re.compile(
    r"""\s*(?:'(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>[A-Za-z_$][\w$]*))
        :\s(?P<value>-?[\w.+-]+)\s*(?:,|\Z)""",
    re.VERBOSE,
)


class EtsyStatsd:
    """A running server, in a `with` statement. Answers take all into account that was sent before the question."""

    port: int

    def __init__(self) -> None:
        self._mark = 0

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="statsd-")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill the server and remove its files."""
        self._kill()
        self._socket.close()
        self._directory.cleanup()

    def gauges(self) -> dict[Key, float]:
        """The value of every gauge."""
        return self._table("gauges")

    def counters(self) -> dict[Key, float]:
        """The total of every counter since the start; bare `|d` lines are in here too."""
        return self._table("counters")

    def stats(self) -> dict[str, int]:
        """What the server says of itself: `messages.bad_lines_seen`, `messages.last_msg_seen`, `uptime`."""
        self.settle()
        lines = (line.rpartition(": ") for line in self._ask("stats").splitlines() if line)
        return {name: int(value) for name, _, value in lines}

    @property
    def refused(self) -> list[str]:
        """The lines that it could not read."""
        self.settle()
        return re.findall(r'Bad line: .* in msg "(.*)"$', self._output(), re.MULTILINE)

    @property
    def drops(self) -> int:
        """Datagrams that the kernel dropped because the server's receive buffer was full (Linux only)."""
        return udp.drops(self._process.pid) if self._process else 0

    def settle(self, timeout: float = 5.0) -> None:
        """Return when the server has read everything that was sent before the call."""
        self._mark += 1
        name = f"{MARK}.{self._mark}"
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self._socket.send(f"{name}:1|ms".encode())  # a timer: no series of ours is one
            if name in self._ask("timers"):
                self._ask(f"deltimers {name}")
                return
        raise AssertionError(f"statsd did not catch up within {timeout} s: {self._output()}")

    def _start(self) -> None:
        program, node = install.program(), shutil.which("node")
        if node is None:
            raise ServerUnavailableError("Etsy's statsd needs Node.js, and there is no node on PATH")
        if program is None:
            raise ServerUnavailableError("Etsy's statsd is missing: python tests/servers/install.py")
        # The server cannot choose free ports itself, and between our choice and its start another may take one.
        for _ in range(3):
            udp, tcp = _free_port(socket.SOCK_DGRAM), _free_port(socket.SOCK_STREAM)
            self._spawn([node, "--require", "./shim.js", str(program), "config.js"], udp, tcp)
            if self._is_up(tcp):
                self.port, self._management = udp, ("127.0.0.1", tcp)
                self._socket.connect(("127.0.0.1", udp))
                return self.settle()
            self._kill()
        raise ServerUnavailableError(f"Etsy's statsd does not start: {self._output()}")

    def _spawn(self, command: list[str], udp: int, tcp: int) -> None:
        config = {
            "address": "127.0.0.1",
            "port": udp,
            "mgmt_address": "127.0.0.1",
            "mgmt_port": tcp,
            "flushInterval": _NEVER,
            "backends": [],
            "deleteIdleStats": False,
            "keyNameSanitize": False,
            "automaticConfigReload": False,
        }
        place = Path(self._directory.name)
        (place / "config.js").write_text(json.dumps(config), encoding="utf-8")
        (place / "shim.js").write_text(_SHIM, encoding="utf-8")
        with (place / "output").open("wb") as output:
            self._process = subprocess.Popen(
                command, cwd=place, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def _is_up(self, tcp: int) -> bool:
        deadline = time.monotonic() + 10
        while self._process is not None and self._process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", tcp), timeout=1).close()
            except OSError:
                time.sleep(0.01)  # Node.js needs some 50 ms to start
            else:
                return True
        return False

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _output(self) -> str:
        return Path(self._directory.name, "output").read_text(encoding="utf-8", errors="replace")

    def _ask(self, command: str) -> str:
        with socket.create_connection(self._management, timeout=5) as connection:
            connection.sendall(command.encode())
            answer = b""
            while not answer.endswith(b"END\n\n"):
                chunk = connection.recv(1 << 16)
                if not chunk:
                    raise AssertionError(f"statsd broke off its answer to {command!r}: {answer!r}")
                answer += chunk
        return answer.decode().removesuffix("END\n\n")

    def _table(self, command: str) -> dict[Key, float]:
        self.settle()
        table = parse(self._ask(command))
        return {_key(name): value for name, value in table.items() if not name.startswith(OWN)}


def parse(text: str) -> dict[str, float]:
    """The numbers in an object as Node.js prints it: `{ a: 1, 'b;k=v': 2.5 }`."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"not an object as Node.js prints it: {text[:80]!r}")
    inside = text[1:-1].rstrip()
    numbers: dict[str, float] = {}
    position = 0
    while position < len(inside):
        entry = _ENTRY.match(inside, position)
        if entry is None:
            raise ValueError(f"not a name and a number: {inside[position : position + 80]!r}")
        quoted = entry["single"] if entry["single"] is not None else entry["double"]
        name = entry["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        numbers[name] = float(entry["value"])
        position = entry.end()
    return numbers


def _key(name: str) -> Key:
    metric, *tags = name.split(";")
    pairs = (tag.partition("=") for tag in tags)
    return metric, tuple(sorted((key, value) for key, _, value in pairs))


def _free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
