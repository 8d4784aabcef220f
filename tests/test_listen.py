"""`pushmetrics listen` as a program of its own, and what it makes of the traffic of others."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from datadog.dogstatsd import DogStatsd
from terminal import ENTER, LEAVE, PROGRAM, on_a_terminal, terminal

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics import cli as command_line
from pushmetrics.errors import InvalidValueError
from pushmetrics.listen import parse_host_port
from pushmetrics.live.jsonlines import JsonLines
from pushmetrics.receiver import Receiver

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and Unix sockets are POSIX")
TRACES = re.compile(r"Traceback|Warning|Exception ignored|was never|was destroyed|KeyboardInterrupt")


class Listening:
    """A running ``pushmetrics listen``, under all of Python's own checks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ports(self, stream: str = "stdout") -> list[int]:
        """Wait until it listens, return its UDP ports."""
        line = getattr(self._process, stream).readline()
        assert line.startswith("Listening on "), line
        return [int(port) for port in re.findall(r"udp://\S+:(\d+)", line)]

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Interrupt it; return the exit status, standard output and standard error."""
        self._process.send_signal(number)
        output, errors = self._process.communicate(timeout=30)
        assert not TRACES.search(errors)
        return self._process.returncode, output, errors


@contextmanager
def listening(*arguments: str) -> Iterator[Listening]:
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-m", "pushmetrics", "listen", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUTF8": "1"},
    ) as process:
        try:
            yield Listening(process)
        finally:
            if process.poll() is None:
                process.kill()


def send_with_the_official_client(client: DogStatsd) -> None:
    """Some of everything, twice for a count."""
    with client:
        client.gauge("myapp.limits.limit", 4, tags=["component:api", "limit_name:calls"])
        client.gauge("myapp.limits.active", 4, tags=["component:api", "limit_name:calls"])
        client.gauge("myapp.limits.queue_depth", 7, tags=["component:api", "limit_name:calls"])
        client.increment("myapp.requests", 3, tags=["route:/a"])
        client.increment("myapp.requests", 4, tags=["route:/a"])
        client.distribution("myapp.latency_ms", 12.5)
        client.set("myapp.users", "u1")
    client.close_socket()


@POSIX
def test_json_lines_of_the_official_client_over_udp_and_unix(tmp_path: Path) -> None:
    path = tmp_path / "dsd.socket"
    with listening("--json", "--udp", "127.0.0.1:0", "--unix", str(path)) as program:
        (port,) = program.ports("stderr")
        send_with_the_official_client(DogStatsd(host="127.0.0.1", port=port, disable_telemetry=True))
        send_with_the_official_client(DogStatsd(socket_path=str(path), disable_telemetry=True))
        status, output, errors = program.end()

    assert status == 0
    assert "refused" not in errors
    objects = [json.loads(line) for line in output.splitlines()]
    assert {(one["name"], one["kind"]) for one in objects} == {
        ("myapp.limits.limit", "gauge"),
        ("myapp.limits.active", "gauge"),
        ("myapp.limits.queue_depth", "gauge"),
        ("myapp.requests", "count"),
        ("myapp.latency_ms", "distribution"),
        ("myapp.users", "set"),
    }
    assert sum(one["sum"] for one in objects if one["kind"] == "count") == 14
    assert sum(one["count"] for one in objects if one["kind"] == "distribution") == 2
    (gauge, *_) = [one for one in objects if one["name"] == "myapp.limits.queue_depth"]
    assert gauge == {
        "timestamp": gauge["timestamp"],
        "interval": 10,
        "name": "myapp.limits.queue_depth",
        "kind": "gauge",
        "tags": ["component:api", "limit_name:calls"],
        "value": 7,
        "complete": gauge["complete"],
    }
    assert gauge["timestamp"] % 10 == 0
    assert objects[-1]["complete"] is False
    assert re.search(r"\d datagrams? with 14 lines\.", errors)


@POSIX
def test_plain_lines_and_the_summary() -> None:
    with listening("--udp", "localhost:0", "--udp", "127.0.0.1:0") as program:
        first, second = program.ports()
        send_with_the_official_client(DogStatsd(host="127.0.0.1", port=first, disable_telemetry=True))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"evil\x1b[2J\n[bold]x:1|g|#a:[/]\x9b\x07\n", ("127.0.0.1", second))
        lines = [program.line() for _ in range(6)]
        status, output, _ = program.end(signal.SIGTERM)

    text = "".join(lines) + output
    assert status == 0
    assert re.search(r"^\d\d:\d\d:\d\d$", text, re.MULTILINE)
    assert re.search(r"^api calls  limit 4  active 4  queued 7$", text, re.MULTILINE)
    assert re.search(r"^myapp.requests +count +[\d.]+/s  route:/a$", text, re.MULTILINE)
    assert "In all" not in text, "no counter and no peak of the limit is known"
    assert "3 series of other metrics" in text
    assert "1 refused: no value or no type (evil\\x1b[2J); 1 refused: not UTF-8 ([bold]x:1|g|#a:[/]\\x9b\\x07)" in text
    assert all(character.isprintable() or character == "\n" for character in text)


@POSIX
def test_a_reporter_is_shown_with_its_limits(tmp_path: Path) -> None:
    path = tmp_path / "dsd.socket"

    async def service() -> None:
        registry = Registry()
        limit = MeteredSemaphore(2, component="api", limit_name="calls", registry=registry)
        async with Reporter(sink=f"unixstream://{path}", registry=registry), limit, limit:
            waiter = asyncio.create_task(limit.acquire())
            await asyncio.sleep(0.05)
            waiter.cancel()

    with listening("--unixstream", str(path)) as program:
        assert program.ports() == []
        asyncio.run(service())
        status, output, _ = program.end()

    assert status == 0
    assert not path.exists()
    assert re.search(r"^api calls  limit 2  active [02]  queued 0  peak 1  cancelled +1$", output, re.MULTILINE)
    assert re.search(r"^In all +peak  peak queue  .*admitted  waited  cancelled$", output, re.MULTILINE)
    assert re.search(r"^api calls +2 +1 .* 2 +0 +1$", output, re.MULTILINE)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command_line.command_line(), ["listen", *arguments], prog_name="pushmetrics")


def test_it_ends_after_its_time() -> None:
    result = run("--udp", "127.0.0.1:0", "--duration", "0.1")

    assert result.exit_code == 0
    assert result.output.endswith("0 datagrams with 0 lines.\n")


def test_a_port_in_use_is_one_line() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{other.getsockname()[1]}"

        result = run("--udp", address)

    assert result.exit_code == 1
    assert result.output == (
        f"Error: can not listen on udp://{address}: somebody listens there already, an Agent perhaps; stop that, or "
        "choose another port\n"
    )


@POSIX
@pytest.mark.parametrize("option", ["--unix", "--unixstream"])
def test_a_path_that_exists_is_one_line_and_is_left_alone(option: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("precious")

    result = run(option, str(path))

    assert result.exit_code == 1
    assert result.output == (f"Error: {path} exists and is no socket; it is not replaced, choose another path\n")
    assert path.read_text() == "precious"


@POSIX
@pytest.mark.parametrize(
    ("path", "advice"),
    [("missing/dsd.socket", "the directory does not exist; make it first"), ("x" * 200, "path too long")],
)
def test_a_path_that_can_not_be_made_is_one_line(path: str, advice: str, tmp_path: Path) -> None:
    result = run("--unix", str(tmp_path / path))

    assert result.exit_code == 1
    assert re.fullmatch(rf"Error: can not listen on unix://\S+: .*{advice}.*\n", result.output)


def test_what_opened_already_is_closed_when_the_next_can_not_be(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    result = run("--udp", f"127.0.0.1:{port}", "--udp", f"127.0.0.1:{port}")

    assert result.exit_code == 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind(("127.0.0.1", port))


def test_other_hosts_are_let_in_on_demand_alone() -> None:
    refused = run("--udp", "0.0.0.0:0")
    allowed = run("--udp", "0.0.0.0:0", "--allow-remote", "--duration", "0.1")

    assert refused.exit_code == 1
    assert refused.output == (
        "Error: udp://0.0.0.0:0 can be reached from other hosts, and whoever reaches it can write; listen on "
        "127.0.0.1, or say --allow-remote\n"
    )
    assert allowed.exit_code == 0


@pytest.mark.parametrize(
    "text", ["8125", "localhost", "localhost:", ":8125", "localhost:65536", "localhost:-1", "::1:80"]
)
def test_a_bad_address_is_a_usage_error(text: str) -> None:
    result = run("--udp", text)

    assert result.exit_code == 2
    assert "expected HOST:PORT" in result.output
    assert "localhost:8125" in result.output


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("localhost:8125", ("localhost", 8125)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:65535", ("::1", 65535))],
)
def test_addresses(text: str, parsed: tuple[str, int]) -> None:
    assert parse_host_port(text) == parsed


@pytest.mark.parametrize("text", ["example.com:80", "[127.0.0.1]:80", "127.0.0.1:8_0", "127.0.0.1:٣"])
def test_other_addresses_are_none(text: str) -> None:
    with pytest.raises(InvalidValueError, match="expected HOST:PORT"):
        parse_host_port(text)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--plain", "--json"], "exclude each other"),
        (["--duration", "0"], "is not in the range 0.1<=x<=86400"),
        (["--bucket", "nan"], "is not in the range 0.1<=x<=3600"),
        (["--unix"], "requires an argument"),
    ],
)
def test_a_bad_option_is_a_usage_error(arguments: list[str], complaint: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert complaint in result.output


@POSIX
def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    with listening("--json", "--bucket", "0.1", "--udp", "127.0.0.1:0") as program:
        (port,) = program.ports("stderr")
        process = program._process
        assert process.stdout is not None
        process.stdout.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"a:1|c", ("127.0.0.1", port))
        status = process.wait(timeout=30)
        assert process.stderr is not None
        errors = process.stderr.read()

    assert status == 1
    assert not TRACES.search(errors)


@POSIX
@pytest.mark.parametrize("standard_error", ["&-", *(path for path in ["/dev/full"] if Path(path).exists())])
def test_notes_that_can_not_be_written_are_left_out(standard_error: str) -> None:
    arguments = ["-m", "pushmetrics", "listen", "--json", "--udp", "127.0.0.1:0", "--duration", "0.1"]
    finished = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" 2>{standard_error}', sys.executable, *arguments],
        capture_output=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        check=False,
        timeout=30,
    )

    assert (finished.returncode, finished.stdout) == (0, b"")


class TestOnATerminal:
    """The table, as a person sees it."""

    pytestmark = on_a_terminal

    def test_it_shows_what_comes_and_leaves_a_clean_terminal(self, tmp_path: Path) -> None:
        path = tmp_path / "dsd.socket"
        with terminal("listen", "--unix", str(path), "--udp", "127.0.0.1:0", columns=100) as screen:
            screen.show("No limit has been heard of yet")
            send_with_the_official_client(DogStatsd(socket_path=str(path), disable_telemetry=True))
            shown = screen.show(r"! api calls +▆+ 4/4 +7")
            screen.type("\x03")
            status, left = screen.end()

        assert status == 0
        assert re.search(r"myapp.latency_ms +distribution +avg 12 ms +p95 12 ms", shown)
        assert re.search(r"myapp.requests +count +7/s  route:/a", shown)
        assert screen.raw.count(ENTER) == screen.raw.count(LEAVE) == 1
        assert re.fullmatch(
            r"\s+3 series of other metrics\.\n\d datagrams? with 7 lines\.\n", left.replace("\x1b[?25h", "")
        )

    def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(self) -> None:
        with terminal("--norc", "--noprofile", "-i", program="bash", PS1="$ ") as shell:
            shell.show(r"\$$")
            shell.type(f"{PROGRAM} listen --udp 127.0.0.1:0\n")
            shell.show("No limit has been heard of yet")
            shell.type("\x1a")
            shell.show("Stopped")
            assert shell.raw.count(ENTER) == shell.raw.count(LEAVE) == 1
            shell.type("fg\n")
            shell.show("No limit has been heard of yet")
            assert (shell.raw.count(ENTER), shell.raw.count(LEAVE)) == (2, 1)
            shell.type("\x03")
            shell.show("0 datagrams with 0 lines.")

        assert shell.raw.count(LEAVE) == 2

    def test_on_a_terminal_that_can_not_be_drawn_on_there_are_plain_lines(self) -> None:
        with terminal("listen", "--udp", "127.0.0.1:0", "--duration", "0.1", TERM="dumb") as screen:
            status, left = screen.end()

        assert status == 0
        assert "\x1b" not in screen.raw
        assert re.fullmatch(r"Listening on udp://127.0.0.1:\d+; Ctrl-C ends it.\n\n0 datagrams with 0 lines.\n", left)

    def test_without_a_standard_error_it_is_drawn_all_the_same(self) -> None:
        program = f"exec {PROGRAM} listen --udp 127.0.0.1:0 2>&-"
        with terminal("-c", program, program="sh") as screen:
            screen.show("No limit has been heard of yet")
            screen.type("\x03")
            status, left = screen.end()

        assert status == 0
        assert "0 datagrams with 0 lines." in left

    def test_without_unicode_it_is_drawn_in_ascii(self, tmp_path: Path) -> None:
        path = tmp_path / "dsd.socket"
        variables = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
        with terminal("listen", "--unix", str(path), columns=100, **variables) as screen:
            screen.show("No limit has been heard of yet")
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.connect(str(path))
                sender.send("n.limit:4|g|#limit_name:größe\nn.active:2|g|#limit_name:größe\nx:1|q".encode())
            screen.show(r"gr\?\?e +#{12}\.{12} +2/4")
            screen.type("\x03")
            status, left = screen.end()

        assert status == 0
        assert screen.raw.isascii()
        assert "1 refused: unknown type (x:1|q)" in left


def test_each_key_of_the_json_lines_is_documented() -> None:
    receiver = Receiver()
    stream = io.StringIO()
    lines = JsonLines(stream, receiver)
    receiver.feed(b"a:1|g\nb:1|c\nc:1|d\nd:1|h\ne:1|s")
    lines.tick(last=True)
    objects = [json.loads(line) for line in stream.getvalue().splitlines()]

    described = set(re.findall(r"[a-z0-9]+", run("--help").output))

    assert {key for one in objects for key in one} <= described
    assert {one["kind"] for one in objects} <= described
