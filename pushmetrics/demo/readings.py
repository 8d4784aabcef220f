"""What has been seen of each limit, wherever it was seen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from pushmetrics.catalog import COUNT, GAUGE, HEALTH_METRICS, HEALTH_NAMESPACE

_HEALTH = frozenset(f"{HEALTH_NAMESPACE}.{metric.name}" for metric in HEALTH_METRICS)
_KEYS = ("component:", "limit_name:", "server:")


class Reading:
    """One limit: the newest value of each gauge, and the sum of each count."""

    def __init__(self, tags: tuple[str, ...]) -> None:
        self.tags = tags
        """component, limit_name and, where there is one, server."""
        self.gauges: dict[str, int] = {}
        self.totals: Counter[str] = Counter()

    def tag(self, key: str) -> str:
        """Return the value of a tag, "" when the limit has none."""
        return next((tag[len(key) + 1 :] for tag in self.tags if tag.startswith(f"{key}:")), "")

    def value(self, metric: str) -> int | None:
        """Return a gauge as it is now or a count's sum; None when the limit has no such metric."""
        return self.gauges.get(metric, self.totals.get(metric))


class Readings:
    """All limits that have been seen, in the order in which they came."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str, ...], Reading] = {}
        self.flushed = asyncio.Event()
        """Set when a flush is complete; whoever waits for the next one clears it."""

    @property
    def limits(self) -> tuple[Reading, ...]:
        """The limits, in the order in which they came."""
        return tuple(self._limits.values())

    def of(self, tags: tuple[str, ...]) -> Reading | None:
        """Return the limit with these tags."""
        return self._limits.get(tags)

    def take(self, name: str, kind: str, value: float, tags: Iterable[str]) -> None:
        """Take one value of the metric `name`, whose namespace it still has."""
        if name in _HEALTH:
            self.flushed.set()  # The reporter's own health ends a flush.
            return
        metric = name.rpartition(".")[2]
        own = tuple(tag for tag in tags if tag.startswith(_KEYS))  # Constant tags say nothing about the limit.
        reading = self._limits.get(own)
        if reading is None:
            reading = self._limits[own] = Reading(own)
        if kind == GAUGE:
            reading.gauges[metric] = int(value)
        elif kind == COUNT:
            reading.totals[metric] += int(value)
