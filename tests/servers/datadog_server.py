"""Datadog's own DogStatsD server (parser, aggregator, flusher), run for real and read through its trace log.

How long a test takes. What was received and what was refused is known within milliseconds. What the server made of
it (the aggregated series and distributions) is known only when it ships, and nothing hurries that: the 10 s are
compiled in and count from the start of the process, no variable changes them, and SIGTERM, SIGINT, SIGHUP, SIGUSR1
and SIGQUIT end the process without a flush. So ask `received` and `refused` where they can answer, share one server
between tests that need a shipment (names of their own keep them apart), and send everything before waiting once.

What this server does otherwise than the Agent:

- one value of a packed line (`a:1:2:3|d`) counts, the first; `@rate` is ignored
- `|T` is rounded down to 10 s, so that points of one bucket become one; a time to come is taken as now
- `|h`, `|s` and `|ms` are refused; `|#` alone is not, nor is an empty tag value (`a:` becomes `a`)
- a signed gauge (`+4|g`, `-5|g`) is an absolute value, as in the Agent
- it mends and refuses hardly anything: blanks and capitals in names and tags pass, and so does `nan`; sections may come
  in any order; a gauge and a count of one name and bucket become whichever came first
- equal tags of one line, and tags in another order, are one series; a `host:` tag stays a tag
- more than 100 tags: the line is refused; more than 10,240 series at once: the rest is lost (`errors` says so)
- its receive buffer holds some 90 full datagrams (`drops` counts the others), its queue 1,024 (`errors` tells); 20 full
  datagrams every 2 ms lose nothing here, 40 do
- at most 1,000 series and 1,000 distributions of a flush are shown; with more, asking for what was shipped fails
- a datagram is cut at 8192 bytes; one that is not UTF-8 is dropped whole
- the log shows an escape character (0x1b) of a datagram as the four characters \\x1b
- it listens on all addresses, on UDP only
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

from servers import Key, ServerUnavailableError, udp
from servers.datadog_log import MARK, DatadogLog, Distribution, Shipment

T = TypeVar("T")

PACKAGE = "datadog_serverless_compat"
SHIP_INTERVAL = 10.0

_ENVIRONMENT = {
    "ASCSVCRT_SPRING__APPLICATION__NAME": "ci",  # it starts only where it believes to be in a known cloud
    "DD_API_KEY": "0" * 32,
    "DD_SITE": "invalid",
    "DD_PROXY_HTTPS": "http://127.0.0.1:1",  # posting fails at once and on this host
    "DD_APM_RECEIVER_PORT": "0",
    "DD_LOG_LEVEL": "off,dogstatsd=trace,datadog_serverless_compat=debug",
    "NO_COLOR": "1",
}


class DatadogServer:
    """A running server, in a `with` statement.

    The waiting methods block: from a coroutine use `await asyncio.to_thread(server.shipped)`.
    `port` is chosen by the system unless a server is to take another one's place. `keep` bounds the memory: so many
    datagrams, refused lines and errors can be asked for. The log itself takes some 2 kB a datagram on the disk, in a
    file without a name.
    """

    port: int

    def __init__(self, *, port: int = 0, keep: int = 20_000) -> None:
        self._wanted_port = port
        self._keep = keep
        self._log = DatadogLog(keep)
        self._lock = threading.RLock()
        self._offset = 0
        self._mark = 0

    def __enter__(self) -> Self:
        # Into a file, not a pipe: a pipe that is not drained fast enough makes the server lose datagrams.
        self._file = tempfile.TemporaryFile()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = _start(self._file, self._wanted_port)
            self.wait_for(lambda _: self._log.listening, timeout=10)
            self.port = udp.port(self._process.pid)
            self._socket.connect(("127.0.0.1", self.port))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill the server; what it logged until then can still be asked for."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        with self._lock:
            self._read_log()
            self._file.close()
        self._socket.close()

    # what the server saw, at once

    @property
    def received(self) -> list[str]:
        """The datagrams, verbatim, in order."""
        with self._lock:
            log = self._read_log()
            if log.seen > self._keep:
                raise AssertionError(f"{log.seen} datagrams came; DatadogServer(keep=...) keeps {self._keep}")
            return list(log.received)

    @property
    def lines(self) -> list[str]:
        """The lines of all datagrams, in order."""
        return [line for datagram in self.received for line in datagram.split("\n") if line]

    @property
    def seen(self) -> int:
        """How many datagrams were received: cheap, and without the bound of `received`."""
        with self._lock:
            return self._read_log().seen

    @property
    def refused(self) -> list[str]:
        """The lines that the server could not parse or does not support."""
        with self._lock:
            return list(self._read_log().refused)

    @property
    def errors(self) -> list[str]:
        """What else it complained about: too many series, a full queue, datagrams that are not UTF-8, a panic."""
        with self._lock:
            return list(self._read_log().errors)

    @property
    def drops(self) -> int:
        """Datagrams that the kernel dropped because the server's receive buffer was full."""
        return udp.drops(self._running().pid)

    def settle(self, timeout: float = 5.0) -> None:
        """Return when the server has read everything that was sent before the call."""
        self._mark_place(timeout)

    # what the server made of it, when it ships

    def shipped(self, timeout: float = SHIP_INTERVAL + 5) -> Shipment:
        """Wait until everything that was sent before the call has been shipped; return what has been since the call."""
        before = len(self.shipments)
        mark = self._mark_place(timeout)
        self.wait_for(lambda server: server.shipments and self._log.mark_shipped >= mark, timeout)
        return sum(self.shipments[before:], start=Shipment())

    def counts(self) -> dict[Key, float]:
        """The total of each count over all shipments."""
        return self._total().counts()

    def gauges(self) -> dict[Key, float]:
        """The last value of each gauge."""
        return self._total().gauges()

    def distributions(self) -> dict[Key, Distribution]:
        """Each distribution, added up over all shipments."""
        return self._total().distributions()

    @property
    def shipments(self) -> list[Shipment]:
        """Every shipment so far, in order; empty ones leave no trace."""
        with self._lock:
            log = self._read_log()
            if log.unseen_batches:
                raise AssertionError(
                    f"{log.unseen_batches} batches were shipped unseen:"
                    " send fewer than 1,000 series in 10 s, or judge by `lines`"
                )
            return list(log.shipments)

    def wait_for(self, predicate: Callable[[DatadogServer], T], timeout: float = SHIP_INTERVAL + 5) -> T:
        """Wait until predicate(server) is true and return what it gave; AssertionError tells what the server saw."""
        deadline = time.monotonic() + timeout
        while True:
            alive = self._running().poll() is None
            late = time.monotonic() > deadline
            with self._lock:
                self._read_log()
                result = predicate(self)
            if result:
                return result
            if not alive:
                raise AssertionError(f"the server has ended; {self}")
            if late:
                raise AssertionError(f"not within {timeout} s; {self}")
            time.sleep(0.005)

    def __str__(self) -> str:
        with self._lock:
            log = self._read_log()
            facts = (
                f"datagrams: {log.seen}, shipments: {len(log.shipments)},"
                f" refused: {list(log.refused)[-5:]}, errors: {list(log.errors)[-5:]}, log:"
            )
            return "\n  ".join([facts, *log.tail])

    # the inside

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise AssertionError("the server runs inside of the `with` statement only")
        return self._process

    def _read_log(self) -> DatadogLog:
        while not self._file.closed and (chunk := os.pread(self._file.fileno(), 1 << 20, self._offset)):
            self._offset += len(chunk)
            self._log.feed(chunk)
        return self._log

    def _mark_place(self, timeout: float) -> int:
        with self._lock:
            self._mark += 1
            mark = self._mark
        deadline = time.monotonic() + timeout
        while True:
            # Again and again: a full receive buffer drops this datagram like any other.
            self._socket.send(f"{MARK}:{mark}|d".encode())
            left = deadline - time.monotonic()
            try:
                self.wait_for(lambda _: self._log.mark_received >= mark, min(0.25, left))
            except AssertionError:
                if left < 0.25 or self._running().poll() is not None:
                    raise
            else:
                return mark

    def _total(self) -> Shipment:
        return sum(self.shipments, start=Shipment())


def _start(output: IO[bytes], port: int) -> subprocess.Popen[bytes]:
    # The wheel's binary has no run bit. A running program needs its file no longer, so none can be left behind.
    with tempfile.TemporaryDirectory(prefix="dogstatsd-") as directory:
        program = Path(shutil.copy(_binary(), directory))
        program.chmod(0o700)
        try:
            return subprocess.Popen(
                [program],
                env={**_ENVIRONMENT, "DD_DOGSTATSD_PORT": str(port)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise ServerUnavailableError(f"Datadog's server does not start from {directory}: {error}") from error


def _binary() -> Path:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise ServerUnavailableError("Datadog's server comes for Linux on x86-64 only")
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec and spec.submodule_search_locations) or ():
        binary = Path(place, "bin/linux-amd64/datadog-serverless-compat")
        if binary.exists():
            return binary
    raise ServerUnavailableError("Datadog's server is missing: pip install datadog-serverless-compat==0.19.0")
