"""One limit as it was received: its newest values, its last minute, and what it came to since the beginning."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..catalog import COUNT, metrics_at
from ..model import Tags
from ..receiver import Distribution, Series

KINDS = {metric.name: metric.kind for metric in metrics_at("full")}
"""The kind of each metric that a limit may have."""

MINUTE = 60.0

HELD_SECONDS = 12.0
"""For how long a sample stands when no other comes: the Agent's bucket of 10 s, and a little for one that is late."""

PRESSURE_SECONDS = 10.0
"""Over how long the pressure is averaged, so that a moment moves nothing."""

SILENT_SECONDS = 30.0
"""A limit that is pushed as usual is silent after this time; one that is pushed seldom, after three pushes missed."""


class LimitKey(NamedTuple):
    """What tells limits apart."""

    namespace: str
    tags: Tags
    """Sorted, a host among them if there is one."""


class History(NamedTuple):
    """The last minute, one entry for each bucket, the newest last; None where nothing is known."""

    newest: int
    """Number of the newest bucket, so that a drawing can group buckets in the same way each time."""
    active: tuple[float | None, ...]
    queued: tuple[float | None, ...]


class Minute(NamedTuple):
    """What happened to a limit in the last minute."""

    active_peak: float | None
    queue_depth_peak: float | None
    waits: Distribution | None
    """What waiters waited, in milliseconds."""
    history: History


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRow:
    """A limit at one moment. What was not received is None, or not there: nothing is made up."""

    key: LimitKey
    values: Mapping[str, float]
    """By name in the catalogue: the newest value of a gauge, the events of a count since it was first heard of."""
    highest_active: float | None
    """Highest since it was first heard of."""
    highest_queue_depth: float | None
    """Highest since it was first heard of."""
    contended: float | None
    """Share of the last minute with at least one waiter, 0 to 1."""
    contended_in_all: float | None
    """The same since it was first heard of."""
    pressure: float
    """How much is wanted of each slot, active and queued, over the last 10 s. Above 1, work piles up."""
    seen: float
    """When the last sample came, in seconds since 1970."""
    is_silent: bool
    minute: Minute | None = None
    """None where nobody has asked for it."""

    def value(self, metric: str) -> float | None:
        """Return the value of a metric of the catalogue; None when the limit has none."""
        return self.values.get(metric)

    def tag(self, key: str) -> str:
        """Return the value of a tag, "" when the limit has no such tag."""
        return next((tag[len(key) + 1 :] for tag in self.key.tags if tag.startswith(f"{key}:")), "")

    @property
    def fill(self) -> float | None:
        """How full it is, 0 to 1 and above; None when that is not known."""
        limit, active = self.value("limit"), self.value("active")
        if limit is None or active is None:
            return None
        return active / limit if limit > 0 else 1.0

    @property
    def holds_up(self) -> bool:
        """Whether it is full and work waits."""
        return bool(self.value("queue_depth")) and (self.fill is None or self.fill >= 1)


def is_limit(key: LimitKey, metrics: Mapping[str, Series]) -> bool:
    """Return whether these metrics, of one namespace and with the same tags, are those of a limit.

    It has a gauge ``limit`` or ``active``, and the tag ``limit_name`` or another metric of the catalogue: there is many
    a gauge called ``active`` that has nothing to do with limits. One that is watched and knows neither has the tag and
    a ``queue_depth``.
    """
    is_named = any(tag.startswith("limit_name:") for tag in key.tags)
    if "limit" in metrics or "active" in metrics:
        return is_named or len(metrics) > 1
    return is_named and "queue_depth" in metrics


class LimitWatch:
    """Follows one limit from look to look."""

    def __init__(self, key: LimitKey) -> None:
        self.key = key
        self._looked: float | None = None
        self._seen = 0.0
        self._pause = 0.0  # Between the last two samples.
        self._highest: dict[str, float] = {}
        self._contended: deque[tuple[float, float]] = deque()  # When a sample came, and the total with it.
        self._first: tuple[float, float] | None = None

    def row(self, metrics: Mapping[str, Series], now: float, width: float) -> LimitRow:
        """Look at the limit; `width` is that of a bucket in seconds."""
        seen = max(series.seen for series in metrics.values())
        if seen > self._seen:
            self._pause = seen - self._seen if self._seen else 0.0
            self._seen = seen
        values = {}
        for name, series in metrics.items():
            point = None if series.kind == COUNT else series.latest()
            if series.kind == COUNT:
                values[name] = series.total
            elif point is not None:
                values[name] = point.value
        self._note_peaks(metrics, now, width)
        shares = self._shares(metrics.get("contended_ms_total"))
        silent = now - seen > max(SILENT_SECONDS, 3 * self._pause)
        return LimitRow(
            key=self.key,
            values=values,
            highest_active=self._highest.get("active_peak"),
            highest_queue_depth=self._highest.get("queue_depth_peak"),
            contended=shares[0],
            contended_in_all=shares[1],
            pressure=-1.0
            if silent
            else _pressure(_history(metrics, PRESSURE_SECONDS, now, width), values.get("limit")),
            seen=seen,
            is_silent=silent,
        )

    def _note_peaks(self, metrics: Mapping[str, Series], now: float, width: float) -> None:
        since = None if self._looked is None else now - self._looked + 2 * width
        self._looked = now
        for name in ("active_peak", "queue_depth_peak"):
            if name in metrics:
                for point in metrics[name].points(since, open_bucket=True):
                    self._highest[name] = max(point.value, self._highest.get(name, point.value))

    def _shares(self, series: Series | None) -> tuple[float | None, float | None]:
        """Return the share of time contended, of the last minute and in all.

        What came with the first sample is left out: nobody here knows how much time it is about.
        """
        if series is None:
            return None, None
        newest = (series.seen, series.total)
        samples = self._contended
        if self._first is None:
            self._first = newest
        if not samples or newest[0] > samples[-1][0]:
            samples.append(newest)
        while len(samples) > 2 and samples[1][0] <= newest[0] - MINUTE:
            samples.popleft()
        return _share(samples[0], newest), _share(self._first, newest)


def _share(first: tuple[float, float], last: tuple[float, float]) -> float | None:
    seconds = last[0] - first[0]
    return min(1.0, max(0.0, (last[1] - first[1]) / 1000 / seconds)) if seconds > 0 else None


def last_minute(metrics: Mapping[str, Series], now: float, width: float) -> Minute:
    """Return what happened to a limit with these metrics in the last minute."""
    return Minute(
        _peak(metrics.get("active_peak")),
        _peak(metrics.get("queue_depth_peak")),
        _waits(metrics.get("queue_duration_ms")),
        _history(metrics, MINUTE, now, width),
    )


def _peak(series: Series | None) -> float | None:
    points = [] if series is None else series.recent(MINUTE)
    return max((point.value for point in points if point is not None), default=None)


def _waits(series: Series | None) -> Distribution | None:
    points = [] if series is None else series.recent(MINUTE)
    parts = [point.distribution for point in points if point is not None and point.distribution]
    return Distribution(parts) if parts else None


def _history(metrics: Mapping[str, Series], seconds: float, now: float, width: float) -> History:
    active, queued = (_filled(metrics.get(name), seconds, width) for name in ("active", "queue_depth"))
    return History(int(now / width + 1e-4), active, queued)


def _filled(series: Series | None, seconds: float, width: float) -> tuple[float | None, ...]:
    """Return the buckets of the last `seconds`; a gap holds the value before it for a while."""
    number = max(1, round(seconds / width))
    if series is None:
        return (None,) * number
    held = max(1, int(HELD_SECONDS / width))
    entries: list[float | None] = []
    value, age = None, held
    for point in series.recent((number + held) * width):
        age += 1
        if point is not None:
            value, age = point.value, 0
        entries.append(value if age < held else None)
    return tuple(entries[-number:])


def _pressure(history: History, limit: float | None) -> float:
    demands = []
    for active, queued in zip(history.active, history.queued, strict=True):
        if active is None and queued is None:
            continue
        if limit is None or active is None:
            demands.append(1 + queued if queued else 0.5 if active else 0.0)
        else:
            demands.append((active + (queued or 0.0)) / max(limit, 0.5))
    return sum(demands) / len(demands) if demands else 0.0
