"""Series: one metric with one set of tags, its open bucket and the closed ones of the last hour.

Nothing here runs by itself. A series closes its bucket when it is next written to or read, whatever time has passed.
What a bucket makes of its samples is in kinds.py.
"""

from __future__ import annotations

import math
import sys
from array import array
from bisect import bisect_left
from collections.abc import MutableSequence
from typing import Any, NamedTuple

from .. import clock
from ..model import Tags
from .distribution import Distribution

SERIES_BYTES = 1000
POINT_BYTES = 20


class Key(NamedTuple):
    """What tells series apart. Unlike for the Agent, a name that comes with two kinds is two series."""

    name: str
    kind: str
    tags: Tags
    host: str | None


class Point(NamedTuple):
    """One bucket of a series."""

    timestamp: float
    """Start of the bucket in seconds since 1970; of a line with ``|T``, its own second."""
    value: float
    """As Datadog stores it: the last value of a gauge, the events per second of a count, the number of different
    members of a set, the average of a distribution."""
    sum: float
    """The events of a count, the sum of a distribution; else the value."""
    distribution: Distribution | None = None
    """Count, minimum, maximum and percentiles, for the kinds d and h."""


class Frame:
    """How time is cut, how far back it is kept, and what all series together take; shared by all of a receiver."""

    __slots__ = ("_slack", "bytes", "history", "points", "width")

    def __init__(self, width: float, history: float) -> None:
        self.width = width
        self.history = history
        self.points = 0
        self.bytes = 0
        self._slack = 0.0 if float(width).is_integer() else 1e-4  # 0.3 / 0.1 is less than 3, and more so today.

    def index(self, now: float) -> int:
        """Return the number of the bucket that `now` is in."""
        return math.floor(now / self.width + self._slack)

    def start(self, index: int) -> float:
        """Return when a bucket begins."""
        return round(index * self.width, 3)


class Series:
    """One metric with one set of tags. To be read, and only in the thread of its receiver."""

    __slots__ = ("_frame", "_times", "_values", "host", "index", "kind", "name", "seen", "tags", "total")

    def __init__(self, frame: Frame, key: Key, index: int) -> None:
        self.name = key.name
        self.kind = key.kind
        """The type: g, c, s, d, or h for both histograms and timings."""
        self.tags = key.tags
        """Sorted, each once, without those that the Agent consumes."""
        self.host = key.host
        """What a ``host:`` tag said, None if there was none."""
        self.seen = 0.0
        """When the last sample came, in seconds since 1970."""
        self.total = 0.0
        """Of a count: all events since the receiver was made."""
        self.index = index
        """Number of the bucket that is open."""
        self._frame = frame
        self._times = array("d")
        self._values: MutableSequence[Any] = self._storage()
        frame.bytes += self._base_bytes()

    def __repr__(self) -> str:
        return f"<Series {self.name} {self.kind} {', '.join(self.tags_and_host)}>"

    @property
    def tags_and_host(self) -> Tags:
        """The tags, with the host among them if one was sent, as a query finds them at Datadog."""
        return self.tags if self.host is None else tuple(sorted((*self.tags, f"host:{self.host}")))

    def points(self, seconds: float | None = None, *, open_bucket: bool = False) -> list[Point]:
        """Return the closed buckets, oldest first: those that began in the last `seconds`, or all that are kept.

        A bucket without a sample is not there, except that an idle count goes on as 0 for 300 s. With `open_bucket`,
        what the bucket that is open holds so far comes too.
        """
        now = self._settle()
        since = now - min(self._frame.history, math.inf if seconds is None else seconds)
        first = bisect_left(self._times, since)
        points = list(map(self._point, self._times[first:], self._values[first:]))
        if open_bucket and (current := self._open()) is not None:
            place = bisect_left(points, current.timestamp, key=lambda point: point.timestamp)
            replaced = place < len(points) and points[place].timestamp == current.timestamp
            points[place : place + replaced] = [current]
        return points

    def latest(self) -> Point | None:
        """Return the newest bucket: the open one if it has a sample, else the last one; None if none is kept."""
        closed = self.latest_closed()
        current = self._open()
        if current is None or (closed is not None and closed.timestamp > current.timestamp):
            return closed
        return current

    def latest_closed(self) -> Point | None:
        """Return the newest bucket that is complete, None if none is kept."""
        self._settle()
        return self._point(self._times[-1], self._values[-1]) if self._times else None

    def recent(self, seconds: float) -> list[Point | None]:
        """Return one entry for each bucket of the last `seconds`, the open one last, None for a gap: a sparkline."""
        frame = self._frame
        entries: list[Point | None] = [None] * max(1, round(seconds / frame.width))
        first = frame.index(self._settle()) + 1 - len(entries)
        for point in self.points((len(entries) + 1) * frame.width, open_bucket=True):
            place = frame.index(point.timestamp) - first
            if 0 <= place < len(entries):
                entries[place] = point
        return entries

    # For the aggregator.

    def take(self, value: bytes, weight: float) -> None:
        """Take the value of a line into the open bucket; raises ParseError if it is none."""
        raise NotImplementedError

    def stamp(self, timestamp: float, value: bytes) -> None:
        """Take the value of a line with ``|T``, which is not aggregated: the last one of a second wins."""
        raise NotImplementedError

    def roll(self, index: int, now: float) -> None:
        """Let bucket `index` be the open one, close the one that is, and forget what is older than the history."""
        if index == self.index - 1:
            return  # The wall clock was set back a little; it will be there again.
        self._close(index)
        self.index = index
        self.drop_before(now - self._frame.history)

    def drop_before(self, timestamp: float) -> int:
        """Forget points, return how many."""
        number = bisect_left(self._times, timestamp)
        if number:
            self._frame.points -= number
            self._frame.bytes -= sum(map(self._point_bytes, self._values[:number]))
            del self._times[:number]
            del self._values[:number]
        return number

    def span(self) -> tuple[float, float] | None:
        """Return the times of the first and the last point, None if there is none."""
        return (self._times[0], self._times[-1]) if self._times else None

    def is_empty(self) -> bool:
        """Return whether there is nothing to be read."""
        return not self._times and self._open() is None

    def discard(self) -> int:
        """Give back what the series takes, for the last time; return how many points it had."""
        number = self.drop_before(math.inf)
        self._clear()
        self._frame.bytes -= self._base_bytes()
        return number

    def _base_bytes(self) -> int:
        return SERIES_BYTES + sum(map(sys.getsizeof, (self.name, self.host, *self.tags)))

    def _settle(self) -> float:
        now = clock.wall()
        index = self._frame.index(now)
        if index != self.index:
            self.roll(index, now)
        return now

    def _keep(self, timestamp: float, value: Any) -> Any:
        """Keep a point; return the value of the one that it replaces, None if it replaces none."""
        times, values, frame = self._times, self._values, self._frame
        frame.bytes += self._point_bytes(value)
        place = len(times) if not times or times[-1] < timestamp else bisect_left(times, timestamp)
        if place < len(times) and times[place] == timestamp:
            before, values[place] = values[place], value
            frame.bytes -= self._point_bytes(before)
            return before
        times.insert(place, timestamp)
        values.insert(place, value)
        frame.points += 1
        return None

    def _has(self, timestamp: float) -> bool:
        place = bisect_left(self._times, timestamp)
        return place < len(self._times) and self._times[place] == timestamp

    # What the kinds differ in: for most of them a point is one number.

    def _storage(self) -> MutableSequence[Any]:
        return array("d")

    def _point_bytes(self, value: Any) -> int:
        return POINT_BYTES

    def _point(self, timestamp: float, value: Any) -> Point:
        return Point(timestamp, value, value)

    def _open(self) -> Point | None:
        """Return what the open bucket holds, None if it is empty."""
        raise NotImplementedError

    def _close(self, index: int) -> None:
        """Keep what the open bucket holds and empty it; `index` is the next one to be opened."""
        current = self._open()
        if current is not None:
            self._keep(current.timestamp, current.value)
            self._clear()

    def _clear(self) -> None:
        """Empty the open bucket."""
        raise NotImplementedError
