"""The comparison: did every count that happened arrive, once?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pushmetrics import MeteredSemaphore
from pushmetrics.catalog import COUNT, metrics_at
from pushmetrics.model import Tags

_KEYS = ("component:", "limit_name:", "server:")


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
    of_limits: Mapping[Tags, tuple[int, int]] = {}
    """By the tags of a limit, how many of its counters are exact, and how many it has."""


def own_tags(tags: Tags) -> Tags:
    """Return the tags that a limit of the demo has itself: constant ones say nothing about it."""
    return tuple(tag for tag in tags if tag.startswith(_KEYS))


def compare(totals: Mapping[tuple[str, Tags], float], limits: Iterable[MeteredSemaphore], level: str) -> Comparison:
    """Compare the sums of the counts that arrived at `level`, by name and tags, with what the limits have counted."""
    arrived: defaultdict[Tags, dict[str, int]] = defaultdict(dict)
    for (name, tags), total in totals.items():
        if own := own_tags(tags):  # The reporter's health has none.
            arrived[own][name.rpartition(".")[2]] = int(total)
    differences: list[Difference] = []
    of_limits = {}
    for limit in limits:
        counters = dict.fromkeys([*_counters(limit, level), *arrived[limit.tags]])
        found = list(_differences(limit, counters, arrived[limit.tags]))
        differences += found
        of_limits[limit.tags] = len(counters) - len(found), len(counters)
    return Comparison(sum(counters for _, counters in of_limits.values()), tuple(differences), of_limits)


def _differences(limit: MeteredSemaphore, counters: Iterable[str], arrived: Mapping[str, int]) -> Iterator[Difference]:
    statistics = limit.statistics()
    for counter in counters:
        # The total of x_total is the field x of the statistics.
        happened = getattr(statistics, counter.removesuffix("_total"), 0)
        if arrived.get(counter) != happened:
            name = " ".join(tag.partition(":")[2] for tag in limit.tags)
            yield Difference(name, counter, arrived.get(counter), happened)


def _counters(limit: MeteredSemaphore, level: str) -> list[str]:
    """Return the counters that a limit has at `level`: one that cannot time out has no count of time-outs."""
    left_out = set()
    if limit.admission_timeout is None:
        left_out.add("admission_timeouts_total")
    if limit.max_queue_depth is None:
        left_out.add("admission_rejected_total")
    return [metric.name for metric in metrics_at(level) if metric.kind is COUNT and metric.name not in left_out]
