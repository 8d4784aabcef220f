"""What a bucket makes of its samples, for each kind of metric, after pkg/metrics in the Agent's sources."""

from __future__ import annotations

import math
from collections.abc import MutableSequence

from ..dogstatsd import ParseError, parse_values
from .distribution import Collector, Distribution
from .history import POINT_BYTES, Frame, Key, Point, Series

EXPIRY_SECONDS = 300
"""How long an idle count goes on as 0: dogstatsd_expiry_seconds of the Agent."""

MEMBER_BYTES = 100


class Gauge(Series):
    """The last value of a bucket counts."""

    __slots__ = ("_last",)

    def __init__(self, frame: Frame, key: Key, index: int) -> None:
        super().__init__(frame, key, index)
        self._last: float | None = None

    def take(self, value: bytes, weight: float) -> None:
        """Take the last value."""
        self._last = _numbers(value)[-1]

    def stamp(self, timestamp: float, value: bytes) -> None:
        """Keep the last value."""
        self._keep(timestamp, _numbers(value)[-1])

    def _open(self) -> Point | None:
        return None if self._last is None else self._point(self._frame.start(self.index), self._last)

    def _clear(self) -> None:
        self._last = None


class Count(Series):
    """The sum of a bucket counts. It is what is kept; what Datadog stores is the sum by the width."""

    __slots__ = ("_sampled", "_sum")

    def __init__(self, frame: Frame, key: Key, index: int) -> None:
        super().__init__(frame, key, index)
        self._sum: float | None = None
        self._sampled = -math.inf  # When the last sample came that was aggregated.

    def take(self, value: bytes, weight: float) -> None:
        """Add the values, each `weight` times."""
        events = sum(_numbers(value)) * weight
        bucket = events if self._sum is None else self._sum + events
        self._count(events, bucket)
        self._sum = bucket

    def stamp(self, timestamp: float, value: bytes) -> None:
        """Keep the last value as it is: the Agent ignores a sample rate here (no_aggregation_stream_worker.go)."""
        events = _numbers(value)[-1]
        self._count(events, events)
        self.total -= self._keep(timestamp, events) or 0.0

    def _count(self, events: float, bucket: float) -> None:
        total = self.total + events
        if not (math.isfinite(bucket) and math.isfinite(total)):
            raise ParseError("a sum too large for a float")
        self.total = total

    def _point(self, timestamp: float, value: float) -> Point:
        return Point(timestamp, value / self._frame.width, value)

    def _open(self) -> Point | None:
        start = self._frame.start(self.index)
        if self._sum is None and start >= self._sampled + EXPIRY_SECONDS:
            return None
        return self._point(start, self._sum or 0.0)

    def _close(self, index: int) -> None:
        idle = self.index
        if self._sum is not None:
            self._sampled = self.seen
            self._keep(self._frame.start(idle), self._sum)
            self._sum = None
        while idle < index and (start := self._frame.start(idle)) < self._sampled + EXPIRY_SECONDS:
            if not self._has(start):
                self._keep(start, 0.0)
            idle += 1

    def _clear(self) -> None:
        self._sum = None
        self._sampled = -math.inf


class UniqueSet(Series):
    """The number of different members in a bucket counts."""

    __slots__ = ("_members",)

    def __init__(self, frame: Frame, key: Key, index: int) -> None:
        super().__init__(frame, key, index)
        self._members: set[int] = set()

    def take(self, value: bytes, weight: float) -> None:
        """Add a member."""
        before = len(self._members)
        self._members.add(hash(value))  # 64 bits, of a hash with a random key: two alike are not to be expected.
        self._frame.bytes += MEMBER_BYTES * (len(self._members) - before)

    def _open(self) -> Point | None:
        return self._point(self._frame.start(self.index), float(len(self._members))) if self._members else None

    def _clear(self) -> None:
        self._frame.bytes -= MEMBER_BYTES * len(self._members)
        self._members = set()


class Distributed(Series):
    """A distribution, a histogram or a timing: all values of a bucket count."""

    __slots__ = ("_collector",)

    def __init__(self, frame: Frame, key: Key, index: int) -> None:
        super().__init__(frame, key, index)
        self._collector = Collector()

    def take(self, value: bytes, weight: float) -> None:
        """Add the values, each `weight` times."""
        numbers = _numbers(value)
        collector = self._collector
        before = collector.bytes_held
        try:
            for number in numbers:
                collector.add(number, weight)
        except OverflowError as error:
            raise ParseError("a sum too large for a float") from error
        finally:
            self._frame.bytes += collector.bytes_held - before

    def _storage(self) -> MutableSequence[Distribution]:
        return []

    def _point_bytes(self, value: Distribution) -> int:
        return POINT_BYTES + value.bytes_held

    def _point(self, timestamp: float, value: Distribution) -> Point:
        return Point(timestamp, value.avg, value.sum, value)

    def _open(self) -> Point | None:
        if not self._collector.count:
            return None
        return self._point(self._frame.start(self.index), Distribution([self._collector]))

    def _close(self, index: int) -> None:
        current = self._open()
        if current is not None:
            self._keep(current.timestamp, current.distribution)
            self._clear()

    def _clear(self) -> None:
        self._frame.bytes -= self._collector.bytes_held
        self._collector = Collector()


KINDS: dict[str, type[Series]] = {
    "g": Gauge,
    "c": Count,
    "s": UniqueSet,
    "d": Distributed,
    "h": Distributed,
}


def _numbers(value: bytes) -> tuple[float, ...]:
    """Return the numbers of a value as the Agent reads it; there is one at least."""
    if value.isdigit() and len(value) < 300:
        return (float(value),)
    return parse_values(value, strict=False)
