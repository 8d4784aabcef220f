"""The comparison: did every count that happened arrive, once?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pushmetrics import MeteredSemaphore
from pushmetrics.catalog import COUNT, metrics_at

from .readings import Readings


class Difference(NamedTuple):
    """A counter of which not the same arrived as happened."""

    limit: str
    counter: str
    arrived: int | None
    """None when the counter never arrived at all."""
    happened: int

    def __str__(self) -> str:
        arrived = "nothing" if self.arrived is None else self.arrived
        return f"{self.limit}: of {self.counter} {arrived} arrived, {self.happened} happened"


class Comparison(NamedTuple):
    """What was compared, and where it differs."""

    counters: int
    differences: tuple[Difference, ...]


def compare(readings: Readings, limits: Iterable[MeteredSemaphore], level: str) -> Comparison:
    """Compare the sums of the counts that arrived at `level` with what the limits themselves have counted."""
    differences = []
    counters = 0
    for limit in limits:
        statistics = limit.statistics()
        reading = readings.of(limit.tags)
        arrived = {} if reading is None else reading.totals
        for counter in dict.fromkeys([*_counters(limit, level), *arrived]):
            counters += 1
            # The total of x_total is the field x of the statistics.
            happened = getattr(statistics, counter.removesuffix("_total"), 0)
            if arrived.get(counter) != happened:
                name = " ".join(tag.partition(":")[2] for tag in limit.tags)
                differences.append(Difference(name, counter, arrived.get(counter), happened))
    return Comparison(counters, tuple(differences))


def _counters(limit: MeteredSemaphore, level: str) -> list[str]:
    """Return the counters that a limit has at `level`: one that cannot time out has no count of time-outs."""
    left_out = set()
    if limit.admission_timeout is None:
        left_out.add("admission_timeouts_total")
    if limit.max_queue_depth is None:
        left_out.add("admission_rejected_total")
    return [metric.name for metric in metrics_at(level) if metric.kind is COUNT and metric.name not in left_out]
