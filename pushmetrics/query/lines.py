"""What queries are evaluated over, and what they become: lines of points, one line for each group of tags."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from ..receiver import Series

Group = tuple[str, ...]
"""The values of the tags that a query is grouped by, in the order of its keys; :data:`NOT_THERE` for a missing tag."""

NOT_THERE = "N/A"
"""What Datadog calls the group of what has no such tag (https://docs.datadoghq.com/dashboards/functions/exclusion/)."""

Points = dict[float, float]
"""Values by the time, in seconds since 1970, at which their interval begins. A gap has no entry."""


class Source(Protocol):
    """Holds series; a :class:`pushmetrics.receiver.Receiver` does."""

    @property
    def bucket_seconds(self) -> float:
        """Width of a bucket; 10 is the Agent's."""
        ...

    def series(self, name: str, /) -> Sequence[Series]:
        """Return the series of this name."""
        ...


class Span(NamedTuple):
    """The time that is looked at. A point belongs to it that began at `start` or later and before `end`."""

    start: float
    end: float
    interval: float
    """Seconds from one point to the next, never less than a bucket."""

    @classmethod
    def until(cls, now: float, seconds: float, interval: float) -> Self:
        """Return the last `seconds` before the interval that `now` is in, which is not over yet."""
        end = interval_start(now, interval)
        return cls(end - seconds, end, interval)

    def starts(self) -> list[float]:
        """Return when each interval begins, oldest first."""
        first = interval_start(self.start, self.interval)
        number = math.ceil((self.end - first) / self.interval - 1e-6)
        return [round(first + place * self.interval, 3) for place in range(number)]


NO_TIME = Span(0.0, 1.0, 1.0)
"""Of lines that were reduced to one point each: it has no time of its own."""


def interval_start(timestamp: float, interval: float) -> float:
    """Return when the interval begins that holds `timestamp`: intervals are aligned to 1970, as Datadog's are."""
    return round(math.floor(timestamp / interval + 1e-6) * interval, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """What a query has become."""

    by: tuple[str, ...]
    """The keys of the tags that it is grouped by; empty for a query with one line."""
    points: Mapping[Group, Points]
    span: Span
    """With the interval that it really has."""
    counts: bool = False
    """Whether a gap means 0 in arithmetic: so it does for a count that is read as such."""
    interpolated: float = 0.0
    """The longest gap, in seconds, that ``default_zero`` fills with a straight line instead of 0."""
