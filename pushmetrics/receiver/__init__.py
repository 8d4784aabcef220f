"""A DogStatsD server for asyncio that aggregates as the Datadog Agent does, for a look at what Datadog would show.

>>> async def main():
...     async with Receiver() as receiver:
...         await receiver.listen_udp("localhost", 8125)
...         await asyncio.sleep(60)
...         for series in receiver.series():
...             print(series.name, series.tags, series.latest())
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ..checks import integer, number
from ..errors import InvalidTypeError, InvalidValueError
from ..model import Tags
from ..redaction import shown
from .aggregate import Aggregator
from .distribution import Distribution
from .history import Frame, Point, Series
from .listeners import DatagramListener, StreamListener, UdpTransport, UnixListener, listen_udp
from .sockets import bind_udp

__all__ = ["Distribution", "Point", "Receiver", "ReceiverStatistics", "Refused", "Series"]

CLOSE_SECONDS = 0.5
"""How long :meth:`Receiver.aclose` reads on, if a sender does not stop."""


class Refused(NamedTuple):
    """What was refused for one reason."""

    number: int
    example: str
    """The beginning of the latest one, in ASCII and with everything else escaped: safe on a terminal."""


class ReceiverStatistics(NamedTuple):
    """What a receiver has done since it was made, and what it holds."""

    datagrams: int
    """Datagrams, and frames of streams."""
    bytes: int
    """Bytes in them."""
    lines: int
    """Lines in them, those refused included."""
    refused: int
    """Lines that were refused."""
    reasons: Mapping[str, Refused]
    """The same by reason."""
    lost: int | None
    """Datagrams that came and were not read: by UDP while the receive buffer was full, as Linux counts them, or still
    there when the receiver had no more time to close. None if the system does not tell. Nobody knows what was lost on
    the way from another host, or what a sender gave up at a Unix socket: there it waits, or is told, when the queue
    is full."""
    connections: int
    """Streams that are open."""
    bad_frames: int
    """Streams that were closed for a bad or unfinished frame."""
    turned_away: int
    """Streams that were closed because there were too many."""
    series: int
    """Series that are held."""
    points: int
    """Closed buckets that are held."""
    bytes_held: int
    """About what series and points take in memory."""
    evicted_series: int
    """Series that were dropped to stay within the bounds."""
    evicted_points: int
    """Points that were dropped for that, before their time."""


class Receiver:
    """Takes DogStatsD lines and keeps what the Agent would have made of them, for an hour.

    Args:
        bucket_seconds: Width of a bucket, 0.1 to 3600; the Agent's is 10. A live view may want 1.
        history_seconds: How far back closed buckets are kept, one bucket at least.
        max_series: How many series are held at the most.
        max_points: How many points of all series are held at the most.
        max_bytes: About what they may take in memory; what it remembers of lines takes up to an eighth more.

    So at most 20,000 series with 4,000,000 points in about 144 MB, by default: 10,000 series have an hour then, and
    20,000 half an hour. What is over is dropped, the oldest points first and the series first that have been silent for
    the longest, and counted in :meth:`statistics`.

    A gauge has a point for each bucket with a sample, its last value. A count has the sum, read as a rate too, and goes
    on as 0 for 300 s. A distribution, histogram or timing has count, minimum, maximum, average, sum and percentiles; a
    set the number of different members. A line with ``|T`` is not aggregated: the last one of a second wins. Series
    are told apart by name, kind, tags and ``host:``. It differs from the Agent in this: buckets are there at once, not
    at the next flush; a name that comes with two kinds is two series; percentiles of histograms are within 1 %, not
    exact.

    It is used in one thread, and has neither a task nor a timer: a bucket is closed when somebody looks.

    Raises :class:`pushmetrics.PushmetricsError` (a ValueError or TypeError) for a bad argument.
    """

    def __init__(
        self,
        bucket_seconds: float = 10,
        history_seconds: float = 3600,
        *,
        max_series: int = 20_000,
        max_points: int = 4_000_000,
        max_bytes: int = 128 << 20,
    ) -> None:
        self.bucket_seconds = _seconds("bucket_seconds", bucket_seconds, 0.1, 3600)
        self.history_seconds = _seconds("history_seconds", history_seconds, self.bucket_seconds, 7 * 86400)
        self._aggregator = Aggregator(
            Frame(self.bucket_seconds, self.history_seconds),
            integer("max_series", max_series, 1, 10**9),
            integer("max_points", max_points, 1, 10**12),
            integer("max_bytes", max_bytes, 1 << 16, 1 << 40),
        )
        self._listeners: list[DatagramListener | UdpTransport] = []
        self._streams: list[StreamListener] = []
        self._datagrams = 0
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<Receiver with {self._aggregator.number_of_series} series>"

    async def listen_udp(
        self, host: str = "localhost", port: int = 8125, *, allow_remote: bool = False
    ) -> tuple[str, int]:
        """Take datagrams at an IP address of this host, or at both loopback addresses for "localhost".

        A port of 0 takes any that is free. Returns the address and the port.

        Raises :class:`pushmetrics.PushmetricsError` (a ValueError) for an address that other hosts can reach, unless
        `allow_remote`, and OSError when the port is taken.
        """
        sockets = bind_udp(host, port, allow_remote)
        for sock in sockets:
            self._listeners.append(await listen_udp(sock, self.feed))
        address = sockets[0].getsockname()
        return address[0], address[1]

    async def listen_unix(self, path: str | os.PathLike[str], *, mode: int = 0o600) -> None:
        """Take datagrams at a Unix socket, made with the permissions `mode`: only its user can write by default.

        Raises :class:`pushmetrics.PushmetricsError` (a ValueError) when there is something else at the path than a
        socket file of ours at which nobody listens, and OSError when the socket can not be made.
        """
        self._listeners.append(UnixListener(_path(path), mode, self.feed))

    async def listen_unixstream(self, path: str | os.PathLike[str], *, mode: int = 0o600) -> None:
        """Take streams at a Unix socket: frames of a length, four bytes little-endian, and so many bytes of lines.

        Raises as :meth:`listen_unix` does.
        """
        self._streams.append(StreamListener(_path(path), mode, self.feed))

    async def aclose(self) -> None:
        """Read what has arrived, and close the sockets. What was received can still be read. Twice does no harm."""
        loop = asyncio.get_running_loop()
        end = loop.time() + CLOSE_SECONDS
        try:
            while loop.time() < end:
                more = [listener.read() for listener in self._listeners]
                more += [stream.read_all() for stream in self._streams]
                if not any(more):
                    break
                await asyncio.sleep(0)
        finally:
            for listener in (*self._listeners, *self._streams):
                listener.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    def feed(self, data: bytes) -> None:
        """Take a datagram, as if it had come from a socket. Never raises, whatever is in it."""
        self._datagrams += 1
        self._bytes += len(data)
        self._aggregator.feed(data)

    def series(self, name: str | None = None, /, *tags: str, **more_tags: str) -> list[Series]:
        """Return the series that have something in the history, of this name and with all of these tags if given.

        >>> receiver.series("gym.concurrency.active", "region:eu", component="model_server")  # doctest: +SKIP
        """
        wanted = {*tags, *(f"{key}:{value}" for key, value in more_tags.items())}
        return [
            series
            for series in self._aggregator.series()
            if name in (None, series.name) and wanted.issubset(series.tags_and_host)
        ]

    def points(self, name: str, /, *tags: str, open_bucket: bool = False, **more_tags: str) -> list[Point]:
        """Return the buckets of the one series with this name and these tags, oldest first; see :meth:`Series.points`.

        Raises KeyError when there is none, or more than one.
        """
        return self._one(name, tags, more_tags).points(open_bucket=open_bucket)

    def latest(self, name: str, /, *tags: str, **more_tags: str) -> Point:
        """Return the newest bucket of the one series with this name and these tags; see :meth:`Series.latest`.

        Raises KeyError when there is none, or more than one.
        """
        point = self._one(name, tags, more_tags).latest()
        assert point is not None, "a series with something to be read"
        return point

    def totals(self) -> dict[tuple[str, Tags], float]:
        """Return the events of each count since the receiver was made, by name and tags (a host among them)."""
        return {(series.name, series.tags_and_host): series.total for series in self._aggregator.counts()}

    def statistics(self) -> ReceiverStatistics:
        """Return what was received, refused and lost, and what is held."""
        aggregator = self._aggregator
        lost = [listener.lost() for listener in self._listeners]
        reasons = {
            reason: Refused(count, ascii(aggregator.examples[reason])[2:-1])
            for reason, count in aggregator.refused.items()
        }
        return ReceiverStatistics(
            datagrams=self._datagrams,
            bytes=self._bytes,
            lines=aggregator.lines,
            refused=aggregator.refused.total(),
            reasons=reasons,
            lost=None if None in lost else sum(number or 0 for number in lost),
            connections=sum(len(stream.connections) for stream in self._streams),
            bad_frames=sum(stream.bad_frames for stream in self._streams),
            turned_away=sum(stream.turned_away for stream in self._streams),
            series=aggregator.number_of_series,
            points=aggregator.frame.points,
            bytes_held=aggregator.frame.bytes,
            evicted_series=aggregator.evicted_series,
            evicted_points=aggregator.evicted_points,
        )

    def _one(self, name: str, tags: tuple[str, ...], more_tags: Mapping[str, str]) -> Series:
        found = self.series(name, *tags, **more_tags)
        if len(found) != 1:
            wanted = ", ".join([*tags, *(f"{key}:{value}" for key, value in more_tags.items())])
            raise KeyError(f"{len(found)} series of {name} with the tags ({wanted}); one is needed")
        return found[0]


def _seconds(argument: str, value: object, least: float, most: float) -> float:
    seconds = number(argument, value, least, most, what="seconds")
    return int(seconds) if seconds.is_integer() else seconds


def _path(path: str | os.PathLike[str]) -> Path:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidTypeError(f"expected a path as a string, got {shown(path)}")
    if not text or "\0" in text:
        raise InvalidValueError(f"expected the path of a file, got {shown(path)}")
    return Path(text)
