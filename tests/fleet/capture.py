"""What arrives at a DogStatsD port, with the time at which it arrived."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

NAMESPACE = "gym.concurrency."


class Line(NamedTuple):
    """One line: a gauge, or the delta of a count."""

    seconds: float
    """Since the capture began."""
    name: str
    value: float
    tags: frozenset[str]


class Capture:
    """A UDP port in a `with` statement. Each datagram is kept, and passed on to another port, too, if one is given."""

    def __init__(self, passed_on_to: int | None = None) -> None:
        self._passed_on_to = passed_on_to
        self._began = time.monotonic()
        self._lines: list[Line] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"udp://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", self._socket.getsockname())
        self._thread.join(5)
        self._socket.close()

    def _run(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as onward:
            while datagram := self._socket.recv(1 << 16):
                seconds = time.monotonic() - self._began
                if self._passed_on_to is not None:
                    onward.sendto(datagram, ("127.0.0.1", self._passed_on_to))
                with self._lock:
                    self._lines += [_parse(seconds, line) for line in datagram.decode().splitlines()]

    @property
    def now(self) -> float:
        """Seconds since the capture began: what comes later has more."""
        return time.monotonic() - self._began

    def lines(self, name: str, *tags: str, since: float = 0.0) -> list[Line]:
        """The lines of a metric of limits, with all of these tags, in the order in which they came."""
        with self._lock:
            return [
                line
                for line in self._lines
                if line.name == NAMESPACE + name and line.tags.issuperset(tags) and line.seconds >= since
            ]

    def values(self, name: str, *tags: str, since: float = 0.0) -> list[int]:
        """What a gauge was, without the repetitions: each value that follows another one."""
        found: list[int] = []
        for line in self.lines(name, *tags, since=since):
            if not found or found[-1] != line.value:
                found.append(int(line.value))
        return found

    def total(self, name: str, *tags: str, since: float = 0.0) -> int | None:
        """The sum of a count; None if it never came."""
        lines = self.lines(name, *tags, since=since)
        return int(sum(line.value for line in lines)) if lines else None

    def wait_for(self, name: str, value: int, *tags: str, seconds: float = 30) -> None:
        """Wait until the newest value of a gauge is `value`."""
        end = time.monotonic() + seconds
        while (self.values(name, *tags) or [None])[-1] != value:
            assert time.monotonic() < end, f"{name} {tags} is not {value}: {self.values(name, *tags)}"
            time.sleep(0.02)

    def series(self) -> set[frozenset[str]]:
        """The tags of each limit that was reported."""
        return {line.tags for line in self.lines("limit")}

    def table(self, *, since: float = 0.0) -> Iterator[str]:
        """The states of all limits as lines of text: one for each sample of a limit in which something is new."""
        with self._lock:
            lines = [line for line in self._lines if line.seconds >= since and line.name.startswith(NAMESPACE)]
        yield "seconds limit active queued timeouts cancelled  which"
        shown: dict[frozenset[str], dict[str, float]] = {}
        states: dict[frozenset[str], dict[str, float]] = {}
        for line, following in zip(lines, [*lines[1:], None], strict=True):
            state = states.setdefault(line.tags, {})
            name = line.name.removeprefix(NAMESPACE)
            state[name] = line.value + (state.get(name, 0) if name.endswith("_total") else 0)
            if following is not None and following.tags == line.tags and following.name != NAMESPACE + "limit":
                continue  # More of this sample follows.
            row = {column: state[column] for column in COLUMNS if column in state}
            if shown.get(line.tags) != row:
                shown[line.tags] = row
                cells = " ".join(
                    f"{'-' if column not in row else int(row[column]):>{width}}" for column, width in COLUMNS.items()
                )
                which = " ".join(tag.partition(":")[2] for tag in sorted(line.tags))
                yield f"{line.seconds - since:7.1f} {cells}  {which}"


COLUMNS = {
    "limit": 5,
    "active": 6,
    "queue_depth": 6,
    "admission_timeouts_total": 8,
    "admission_cancelled_total": 9,
}


def _parse(seconds: float, line: str) -> Line:
    metric, _, tags = line.partition("|#")
    name, _, value = metric.partition("|")[0].rpartition(":")
    return Line(seconds, name, float(value), frozenset(tags.split("|")[0].split(",")) - {""})
