"""Reading a limit: its gauges, peaks and totals as one tuple of integers, whatever its thread does meanwhile."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, Self

from .catalog import COUNT, DISTRIBUTION, metrics_at
from .errors import InvalidTypeError, InvalidValueError, SampleError
from .model import Counters, Limit, Tags
from .redaction import shown
from .tags import normalize

_WITH_VALUES = tuple(metric for metric in metrics_at("full") if metric.kind is not DISTRIBUTION)
GAUGES = tuple(metric.name for metric in _WITH_VALUES if metric.kind is not COUNT)
COUNTS = tuple(metric.name for metric in _WITH_VALUES if metric.kind is COUNT)
CONTENDED = COUNTS.index("contended_ms_total")
_TOTALS = tuple(name.removesuffix("_total") for name in COUNTS if name != "contended_ms_total")
"""The names in the counters of all counts but the contended time."""

Reading = tuple[int, ...]
"""The gauges of a limit and the totals of its counts, each in the order of the catalogue, and what it can do.

The contended time is the one count that is no total: it is the time since the last reading.
"""
_LARGEST = frozenset(
    {GAUGES.index("oldest_wait_ms"), len(GAUGES) + CONTENDED, len(_WITH_VALUES), len(_WITH_VALUES) + 1}
)
"""The places of a reading that do not add up. Two limits that are contended at the same time are not contended for
twice that time, the oldest waiter of two queues is the older one, and what one can do, both can do."""


class Member(weakref.ref[Limit]):
    """A limit, held weakly, and its counters, which are kept when it is gone."""

    __slots__ = ("contended_ms", "counters", "key", "slots", "tags", "unknown")

    counters: Counters
    contended_ms: int  # How much of the contended time the series has taken over.
    key: int
    slots: int  # When the gauges were read.
    tags: Tags
    unknown: frozenset[str]  # The metrics that it can not know.

    @classmethod
    def of(cls, limit: Limit, when_gone: Callable[[Any], None]) -> Self:
        """Return what reads `limit` and calls `when_gone` at its end; raises an error if that is not possible."""
        if not all(isinstance(tag, str) and tag and normalize(tag) == tag for tag in limit.tags):
            raise InvalidValueError(
                f"register: the tags of a limit are in Datadog's normal form, as limit_tags() makes them, "
                f"got {shown(limit.tags)}"
            )
        try:
            member = cls(limit, when_gone)
        except TypeError:
            raise InvalidTypeError(f"register: a limit can be referenced weakly, and {shown(limit)} can not") from None
        member.key = id(limit)
        member.tags = limit.tags
        member.counters = limit.counters
        member.unknown = _checked_unknown(limit)
        return member

    def look(self) -> None:
        """Ask the object beforehand where it can not be asked while the registry is locked, as a limit can."""

    def gauges(self) -> tuple[int, int, int, int]:
        """Return active, available, queue depth and oldest wait; raises what the limit raises."""
        limit = self()
        counters = self.counters
        self.slots = slots = counters.limit
        if limit is None:
            return 0, slots, 0, 0
        gauges = active, available, queue_depth, oldest_wait_ms = limit.gauges()
        while counters.limit != slots:  # Changed meanwhile, by another thread.
            self.slots = slots = counters.limit
            gauges = active, available, queue_depth, oldest_wait_ms = limit.gauges()
        # One negative number makes the union of their bits negative, and anything but integers has none.
        if active | available | queue_depth | oldest_wait_ms < 0:
            raise SampleError(
                f"gauges are at least 0, got active {active}, available {available}, "
                f"queue depth {queue_depth}, oldest wait {oldest_wait_ms}"
            )
        return gauges

    def read(self, now: float, gauges: tuple[int, int, int, int]) -> Reading:
        """Return the whole reading, and start the peaks anew.

        The limit may be at work in another thread all the while. No call, and so no other thread, comes between
        reading a peak and starting it anew.
        """
        active, available, queue_depth, oldest_wait_ms = gauges
        counters = self.counters
        active_peak, counters.lowest_value = counters.limit - counters.lowest_value, counters.limit - active
        queue_peak, counters.queue_depth_peak = counters.queue_depth_peak, queue_depth
        contended_ms = 0
        if counters.contended_since is not None or counters.contended_seconds:
            # A spell may have ended a little before `now`, by a thread that had to wait: less is there than was seen.
            contended_ms, self.contended_ms = self.contended_ms, max(self.contended_ms, counters.contended_ms(now))
            contended_ms = self.contended_ms - contended_ms
        return (
            self.slots,
            active,
            available,
            queue_depth,
            # What is now may have begun between the gauges and the peaks of the last reading.
            active_peak if active_peak > active else active,
            queue_peak if queue_peak > queue_depth else queue_depth,
            oldest_wait_ms,
            counters.admission_timeouts,
            counters.admission_cancelled,
            contended_ms,
            counters.admissions,
            counters.admissions_queued,
            counters.admission_rejected,
            counters.can_time_out,
            counters.can_reject,
        )

    def begin_anew(self) -> None:
        """Forget the peaks, in a fork's child; what is in use now is in the next ones.

        The limit is not asked: it may wait for a lock that a thread of the parent held.
        """
        counters = self.counters
        counters.lowest_value, counters.queue_depth_peak = counters.limit, 0

    def totals(self, contended_ms: int = 0) -> tuple[int, ...]:
        """Return what the limit has counted, in the order of the counts, with `contended_ms` in its place."""
        totals = [getattr(self.counters, name) for name in _TOTALS]
        totals.insert(CONTENDED, contended_ms)
        return tuple(totals)


def _checked_unknown(limit: Limit) -> frozenset[str]:
    if not hasattr(limit, "unknown"):
        return frozenset()
    unknown: object = limit.unknown
    names = {metric.name for metric in metrics_at("full")}
    if not isinstance(unknown, (frozenset, set)) or not unknown <= names:
        raise InvalidValueError(
            f"register: the attribute unknown of a limit is a set of names of metrics ({', '.join(sorted(names))}), "
            f"got {shown(unknown)}"
        )
    return frozenset(unknown)


def read_as_one(members: Iterable[Member], now: float) -> Reading:
    """Return the reading of several limits with equal tags; raises what one of them raises."""
    # All gauges first: if one can not be read, the others have lost nothing yet.
    readable = [(member, member.gauges()) for member in members]
    columns = zip(*[member.read(now, gauges) for member, gauges in readable], strict=True)
    return tuple(max(column) if place in _LARGEST else sum(column) for place, column in enumerate(columns))


def read_as_ended(limit: int) -> Reading:
    """Return what is said of a series whose last limit, of so many slots, is gone."""
    return (limit, 0, limit, *(0,) * (len(_WITH_VALUES) - 3), False, False)
