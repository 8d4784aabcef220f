"""The health of those who push, as far as it was pushed or is known here, and of the receiver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..catalog import COUNT, HEALTH_METRICS, HEALTH_NAMESPACE
from ..receiver import ReceiverStatistics, Series
from ..reporter import ReporterStatistics

HEALTH_NAMES = {f"{HEALTH_NAMESPACE}.{metric.name}": metric.name for metric in HEALTH_METRICS}
"""The metrics of a reporter's own health, by full name."""

FORGOTTEN_SECONDS = 60.0
"""A reporter that has said nothing for so long is none any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReporterHealth:
    """The reporters that push here, taken together."""

    reporters: int
    """How many there are, as far as their tags tell them apart."""
    series: int
    flush_duration_ms: float
    """The longest of the latest flushes."""
    flush_lag_ms: float
    """The latest of them."""
    send_failures: int
    series_rejected: int
    counts_expired: int
    statistics: ReporterStatistics | None = None
    """More, of the reporter that is in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverHealth:
    """What the receiver took and what it did not."""

    statistics: ReceiverStatistics
    last_reason: str | None
    """Why the last line was refused; None if none was."""
    last_example: str
    """The beginning of that line, in ASCII and escaped."""


def reporter_health(
    health: Iterable[Series], now: float, statistics: ReporterStatistics | None
) -> ReporterHealth | None:
    """Add up what the series `health` say; None when there is no reporter."""
    gauges: defaultdict[str, list[float]] = defaultdict(list)
    counts: defaultdict[str, float] = defaultdict(float)
    for series in health:
        name = HEALTH_NAMES[series.name]
        if series.kind == COUNT:
            counts[name] += series.total
        elif now - series.seen <= FORGOTTEN_SECONDS and (point := series.latest()) is not None:
            gauges[name].append(point.value)
    reporters = len(gauges["series"])
    if statistics is None:
        return _together(reporters, gauges, counts) if reporters else None
    return ReporterHealth(
        reporters=1,
        series=statistics.series,
        flush_duration_ms=statistics.flush_duration_ms,
        flush_lag_ms=statistics.flush_lag_ms,
        send_failures=sum(statistics.failures.values()),
        series_rejected=statistics.series_rejected,
        counts_expired=int(counts["counts_expired_total"]),
        statistics=statistics,
    )


def _together(reporters: int, gauges: Mapping[str, list[float]], counts: Mapping[str, float]) -> ReporterHealth:
    return ReporterHealth(
        reporters=reporters,
        series=int(sum(gauges["series"])),
        flush_duration_ms=max(gauges["flush_duration_ms"], default=0.0),
        flush_lag_ms=max(gauges["flush_lag_ms"], default=0.0),
        send_failures=int(counts["send_failures_total"]),
        series_rejected=int(counts["series_rejected_total"]),
        counts_expired=int(counts["counts_expired_total"]),
    )


class Refusals:
    """Knows which reason for refusing a line was the last one."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._last: str | None = None

    def look(self, statistics: ReceiverStatistics) -> ReceiverHealth:
        """Compare with the last look."""
        for reason, refused in statistics.reasons.items():
            if refused.number != self._numbers.get(reason):
                self._numbers[reason] = refused.number
                self._last = reason
        example = "" if self._last is None else statistics.reasons[self._last].example
        return ReceiverHealth(statistics=statistics, last_reason=self._last, last_example=example)
