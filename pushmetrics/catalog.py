"""The metric table: the only source of names, kinds, units and descriptions.

The documentation is checked against it. Units are from Datadog's list of metric units
(https://docs.datadoghq.com/metrics/units/), which knows ``task`` but neither ``slot`` nor ``permit``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .model import Kind

GAUGE: Final = "g"
COUNT: Final = "c"
DISTRIBUTION: Final = "d"


class Metric(NamedTuple):
    """One row of the catalogue."""

    name: str
    kind: Kind
    unit: str
    description: str


LEVELS = ("core", "standard", "full")
"""The levels of detail, each containing the ones before it."""

LIMIT_METRICS: dict[str, tuple[Metric, ...]] = {
    "core": (
        Metric("limit", GAUGE, "task", "Configured slots."),
        Metric("active", GAUGE, "task", "Slots in use, those just granted to a waiter included."),
        Metric("available", GAUGE, "task", "Slots free now."),
        Metric("queue_depth", GAUGE, "task", "Waiters without a slot."),
        Metric(
            "admission_timeouts_total",
            COUNT,
            "timeout",
            "Waiters that gave up at their admission timeout. Only for limits that can time out.",
        ),
        Metric("admission_cancelled_total", COUNT, "task", "Waiters cancelled before they were admitted."),
    ),
    "standard": (
        Metric("active_peak", GAUGE, "task", "Highest active since the last delivered sample."),
        Metric("queue_depth_peak", GAUGE, "task", "Highest queue_depth since the last delivered sample."),
        Metric("oldest_wait_ms", GAUGE, "millisecond", "Age of the waiter at the head of the queue, 0 if none."),
        Metric(
            "contended_ms_total",
            COUNT,
            "millisecond",
            "Time with at least one waiter, a spell that is still open included.",
        ),
        Metric("admissions_total", COUNT, "task", "Acquires that got a slot."),
        Metric("admissions_queued_total", COUNT, "task", "Of those, the ones that had to wait."),
        Metric(
            "admission_rejected_total",
            COUNT,
            "task",
            "Acquires refused because the queue was full. Only for limits with max_queue_depth.",
        ),
    ),
    "full": (
        Metric(
            "queue_duration_ms",
            DISTRIBUTION,
            "millisecond",
            "Wait of each waiter, however it ended.",
        ),
    ),
}
"""What each level adds to the levels before it, in the order in which a series lists its metrics."""

HEALTH_NAMESPACE = "pushmetrics"
"""Namespace of the reporter's own health, whatever the namespace of the limits."""

HEALTH_METRICS = (
    Metric("series", GAUGE, "", "Series that the last flush sampled."),
    Metric("series_rejected_total", COUNT, "", "Series not sent because max_series was reached."),
    Metric("flush_lag_ms", GAUGE, "millisecond", "How late the flush began."),
    Metric("flush_duration_ms", GAUGE, "millisecond", "How long the previous flush took."),
    Metric("send_failures_total", COUNT, "error", "Sends that were refused; what they held is kept."),
    Metric("counts_expired_total", COUNT, "", "Events dropped because the Agent was away for too long."),
)


def metrics_at(level: str) -> tuple[Metric, ...]:
    """Return the limit metrics of `level` ("core", "standard" or "full"), in their fixed order."""
    return tuple(metric for name in LEVELS[: LEVELS.index(level) + 1] for metric in LIMIT_METRICS[name])
