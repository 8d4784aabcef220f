"""A series: all live limits with equal tags, sampled as one, and what of it has been delivered."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import cache
from operator import itemgetter, neg, sub
from typing import NamedTuple

from . import clock
from .catalog import COUNT, DISTRIBUTION, metrics_at
from .errors import SampleError
from .ledger import MAX_AGE_SECONDS, Ledger, Totals
from .model import Counters, Descriptor, Kind, Limit, Sample, Tags
from .peaks import Peaks
from .reservoir import Reservoir

BUCKET_SECONDS = 10
"""Width of the Agent's buckets (datadog-agent, pkg/aggregator/time_sampler.go)."""

_WITH_VALUES = tuple(metric for metric in metrics_at("full") if metric.kind is not DISTRIBUTION)
_GAUGES = tuple(metric.name for metric in _WITH_VALUES if metric.kind is not COUNT)
_COUNTS = tuple(metric.name for metric in _WITH_VALUES if metric.kind is COUNT)
_TIMEOUTS, _REJECTED = _COUNTS.index("admission_timeouts_total"), _COUNTS.index("admission_rejected_total")
_CONTENDED = _COUNTS.index("contended_ms_total")
_TOTALS = tuple(name.removesuffix("_total") for name in _COUNTS if name != "contended_ms_total")
"""The names in the counters of all counts but the contended time."""

Reading = tuple[int, ...]
"""The gauges of a limit and the totals of its counts, each in the order of the catalogue, and what it can do.

The contended time is the one count that is no total: it is the time since the last reading.
"""
_LARGEST = frozenset(
    {_GAUGES.index("oldest_wait_ms"), len(_GAUGES) + _CONTENDED, len(_WITH_VALUES), len(_WITH_VALUES) + 1}
)
"""The places of a reading that do not add up. Two limits that are contended at the same time are not contended for
twice that time, the oldest waiter of two queues is the older one, and what one can do, both can do."""

_NOTHING_GONE = (0, 0, 0)


class Member(weakref.ref[Limit]):
    """A limit, held weakly, and its counters, which are kept when it is gone."""

    __slots__ = ("contended_ms", "counters", "key", "series", "slots")

    counters: Counters
    contended_ms: int  # How much of the contended time the series has taken over.
    key: int
    series: Series
    slots: int  # When the gauges were read.

    def gauges(self) -> tuple[int, int, int, int]:
        """Return active, available, queue depth and oldest wait; raises what the limit raises."""
        limit = self()
        counters = self.counters
        self.slots = counters.limit
        if limit is None:
            return 0, self.slots, 0, 0
        gauges = limit.gauges()
        while counters.limit != self.slots:  # Changed meanwhile, by another thread.
            self.slots = counters.limit
            gauges = limit.gauges()
        active, available, queue_depth, oldest_wait_ms = gauges
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
        slots = self.slots
        active_peak, counters.lowest_value = counters.limit - counters.lowest_value, counters.limit - active
        queue_peak, counters.queue_depth_peak = counters.queue_depth_peak, queue_depth
        if active > active_peak:  # It had begun between the gauges and the peaks of the last reading.
            active_peak = active
        if queue_depth > queue_peak:
            queue_peak = queue_depth
        contended_ms = 0
        if counters.contended_since is not None or counters.contended_seconds:
            # A spell may have ended a little before `now`, by a thread that had to wait: less is there than was seen.
            contended_ms, self.contended_ms = self.contended_ms, max(self.contended_ms, counters.contended_ms(now))
            contended_ms = self.contended_ms - contended_ms
        return (
            slots,
            active,
            available,
            queue_depth,
            active_peak,
            queue_peak,
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

    def totals(self, contended_ms: int = 0) -> Totals:
        """Return what the limit has counted, in the order of the counts, with `contended_ms` in its place."""
        totals = [getattr(self.counters, name) for name in _TOTALS]
        totals.insert(_CONTENDED, contended_ms)
        return tuple(totals)


class _Plan(NamedTuple):
    """Which metrics a series has, given its level and what its limits can do."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    select: Callable[[tuple[int, ...]], tuple[int, ...]]
    """From all gauges and counts to the values of a sample."""
    counts: tuple[tuple[int, int], ...]
    """Of each count, its line in the sample and its place among all counts."""
    active_peak: int
    """Its line in the sample, -1 for none."""
    queue_peak: int


@cache
def _plan(level: str, can_time_out: bool, can_reject: bool) -> _Plan:
    left_out = set()
    if not can_time_out:
        left_out.add("admission_timeouts_total")
    if not can_reject:
        left_out.add("admission_rejected_total")
    chosen = [metric for metric in metrics_at(level) if metric.name not in left_out]
    names = tuple(metric.name for metric in chosen)
    places = [(*_GAUGES, *_COUNTS).index(metric.name) for metric in chosen if metric.kind is not DISTRIBUTION]
    return _Plan(
        names,
        tuple(metric.kind for metric in chosen),
        itemgetter(*places),
        tuple((line, _COUNTS.index(name)) for line, name in enumerate(names) if name in _COUNTS),
        names.index("active_peak") if "active_peak" in names else -1,
        names.index("queue_depth_peak") if "queue_depth_peak" in names else -1,
    )


class Series:
    """All live limits with equal tags.

    What the limits have counted, less what has been delivered, is what a sample contains. Only a delivery moves that
    base, so what was refused is in the next sample again, and nothing is in two delivered ones.
    """

    # There may be ten thousand of them, and a flush goes through all: what is small is fast.
    __slots__ = (
        "_contended_ms",
        "_ending",
        "_gone",
        "_last",
        "_limit",
        "_number_of_limits",
        "_offered_waits",
        "_only",
        "_peaks",
        "_planned_for",
        "_sampled_at",
        "_waits",
        "descriptor",
        "ended_at",
        "failing",
        "ledger",
        "lock",
        "members",
        "plan",
        "said_to_fail",
        "tags",
    )

    def __init__(self, tags: Tags, lock: threading.RLock) -> None:
        self.tags = tags
        self.lock = lock
        """The registry's lock, which whoever reads or changes the series holds."""
        self.members: dict[int, Member] = {}
        self.ended_at: float | None = None
        """Monotonic time at which the last limit went, None while there is one."""
        self.failing = False
        """Whether the last attempt to sample it raised."""
        self.said_to_fail = False
        self.plan = _plan("core", False, False)
        self.descriptor = Descriptor("", self.plan.names, self.plan.kinds, tags)
        self._planned_for: tuple[object, ...] = ()
        self._only: Member | None = None  # The only member; None if there are several, or none.
        self._number_of_limits = 0  # That it has had so far.
        self._limit: int | None = None  # When it was last sampled.
        self._sampled_at = clock.monotonic()  # Or made, as long as it was not sampled.
        self.ledger = Ledger(len(_COUNTS))
        self._contended_ms = 0
        # Of the limits that have gone since the last sample: both peaks, and the contended time.
        self._gone = _NOTHING_GONE
        self._peaks = Peaks()
        self._waits: Reservoir | None = None
        # The oldest waits that were sampled and not delivered, with the bucket in which that was.
        self._offered_waits: tuple[int, tuple[float, ...], int] | None = None
        self._last = _delivered_sample()
        self._ending = 0  # The number of limits that it has had when it was last sampled, if there was none left.

    @property
    def finished(self) -> bool:
        """Whether the last sample, which says that it has ended, was delivered."""
        # Unless another limit came before that, be it for a moment.
        return self._ending == self._number_of_limits and not self._last.undelivered and not self.members

    def add(self, member: Member) -> None:
        """Let a limit be part of the series; what it counts from now on is reported."""
        counters = member.counters
        member.series = self
        member.contended_ms = counters.contended_ms(clock.monotonic())
        self.ledger.shift(member.totals())
        counters.waits = None if self._waits is None else self._waits.add
        self.members[member.key] = member
        self._only = member if len(self.members) == 1 else None
        self._number_of_limits += 1
        self.ended_at = None

    def remove(self, member: Member) -> None:
        """Take over what a limit counted that is gone, or that is not to be reported any more."""
        del self.members[member.key]
        self._only = next(iter(self.members.values())) if len(self.members) == 1 else None
        counters = member.counters
        now = clock.monotonic()
        self.ledger.shift(tuple(map(neg, member.totals())))
        self._gone = (
            max(self._gone[0], counters.limit - counters.lowest_value),
            max(self._gone[1], counters.queue_depth_peak),
            max(self._gone[2], counters.contended_ms(now) - member.contended_ms),
        )
        counters.waits = None
        if not self.members:
            self.ended_at = now
            if self._limit is None:
                self._limit = counters.limit

    def sample(self, level: str, namespace: str, constant_tags: Tags, now: float, bucket: int) -> SeriesSample:
        """Read the limits; raises whatever one of them raises.

        `now` is the monotonic time, and `bucket` the number of the Agent's bucket.
        """
        only = self._only
        reading = self._read_all(now) if only is None else only.read(now, only.gauges())
        (
            limit,
            active,
            available,
            queue_depth,
            active_peak,
            queue_peak,
            oldest_wait_ms,
            timeouts,
            cancelled,
            contended_ms,
            admissions,
            admissions_queued,
            rejected,
            can_time_out,
            can_reject,
        ) = reading
        self._limit = limit
        self._sampled_at = now
        if self._gone is not _NOTHING_GONE:
            active_peak = max(active_peak, self._gone[0])
            queue_peak = max(queue_peak, self._gone[1])
            contended_ms = max(contended_ms, self._gone[2])
            self._gone = _NOTHING_GONE
        self._contended_ms = contended_ms = self._contended_ms + contended_ms

        self._settle()
        active_peak, queue_peak = self._peaks.add(bucket, active_peak, queue_peak)
        totals = (timeouts, cancelled, contended_ms, admissions, admissions_queued, rejected)
        owed = tuple(map(sub, totals, self.ledger.offer(totals, now)))

        # It may owe a count that only a limit could have that is gone.
        can_time_out, can_reject = can_time_out or owed[_TIMEOUTS] > 0, can_reject or owed[_REJECTED] > 0
        planned_for = (level, can_time_out, can_reject, namespace, constant_tags)
        if planned_for != self._planned_for:
            self._planned_for = planned_for
            self.plan = plan = _plan(level, bool(can_time_out), bool(can_reject))
            self.descriptor = Descriptor(namespace, plan.names, plan.kinds, self.tags + constant_tags)
        self._last = sample = SeriesSample.__new__(SeriesSample)
        sample.descriptor = self.descriptor
        sample.values = values = self.plan.select(
            (limit, active, available, queue_depth, active_peak, queue_peak, oldest_wait_ms, *owed)
        )
        sample.waits, sample.one_in = (), 1
        sample.undelivered = len(values)
        sample.parts = ()
        if self._waits is not None:
            sample.series = self
            sample.waits, sample.one_in = self._choose_waits(self._waits, bucket)
            sample.undelivered += len(sample.waits)
        return sample

    def _read_all(self, now: float) -> Reading:
        """Return the reading of several limits as one, or what is said of a series whose last limit is gone."""
        if not self.members:
            self._ending = self._number_of_limits
            limit = self._limit or 0
            return (limit, 0, limit, *(0,) * (len(_WITH_VALUES) - 3), False, False)
        # All gauges first: if one can not be read, the others have lost nothing yet.
        readable = [(member, member.gauges()) for member in self.members.values()]
        columns = zip(*[member.read(now, gauges) for member, gauges in readable], strict=True)
        return tuple(max(column) if place in _LARGEST else sum(column) for place, column in enumerate(columns))

    def keep_waits(self, wanted: bool) -> None:
        """Say whether the limits shall note the wait of each waiter, for the distribution of the level "full"."""
        if wanted == (self._waits is not None):
            return
        self._waits = Reservoir() if wanted else None
        self._offered_waits = None
        for member in self.members.values():
            member.counters.waits = None if self._waits is None else self._waits.add

    def _choose_waits(self, waits: Reservoir, bucket: int) -> tuple[tuple[float, ...], int]:
        if self._offered_waits is not None:
            offered_in, values, one_in = self._offered_waits
            if bucket > offered_in + 1:  # Refused for more than a bucket.
                waits.remove(values, one_in)
                self._offered_waits = None
        values, one_in = waits.choose()
        if self._offered_waits is None:
            self._offered_waits = (bucket, values, one_in)
        return values, one_in

    def take_waits_back(self, sample: SeriesSample, start: int, stop: int) -> None:
        """Forget the waits among the lines `start` to `stop` of the last sample, at once: there is room for so many."""
        with self.lock:
            if sample is self._last and self._waits is not None:
                first = len(sample.values)
                self._waits.remove(sample.waits[max(0, start - first) : max(0, stop - first)], sample.one_in)

    def _settle(self) -> None:
        """Take over what of the last sample was delivered; an older one has no say any more."""
        if self._last.undelivered:
            self._settle_parts()
            return
        self.ledger.settle()
        peaks = self._peaks
        peaks.active_owed = peaks.queue_owed = 0
        self._offered_waits = None

    def _settle_parts(self) -> None:
        last, plan = self._last, self.plan
        for start, stop in last.parts:
            counts = [(place, last.values[line]) for line, place in plan.counts if start <= line < stop]
            self.ledger.settle_part(counts)
            if start <= plan.active_peak < stop:
                self._peaks.active_owed = 0
            if start <= plan.queue_peak < stop:
                self._peaks.queue_owed = 0
        last.parts = ()

    def give_up(self) -> None:
        """Drop what it owes; it has ended, and nobody has taken its last sample for too long."""
        self._settle()
        self.ledger.write_off((0,) * len(_COUNTS))

    def write_off_what_is_old(self) -> None:
        """Drop what was counted while nobody reported for so long that nobody knows when it was."""
        now = clock.monotonic()
        if now - self._sampled_at > MAX_AGE_SECONDS:
            self._settle()
            for member in self.members.values():
                member.contended_ms = member.counters.contended_ms(now)
            counted = [member.totals() for member in self.members.values()]
            totals = [sum(column) for column in zip((0,) * len(_COUNTS), *counted, strict=True)]
            totals[_CONTENDED] = self._contended_ms
            self.ledger.write_off(tuple(totals))

    def take_expired(self) -> int:
        """Return the number of events dropped since the last call because nobody took them for too long."""
        expired, self.ledger.expired = self.ledger.expired, ()
        return sum(expired) - expired[_CONTENDED] if expired else 0


class SeriesSample(Sample):
    """A sample that notes what of it was delivered, for its series to see when that is next sampled.

    Its series makes it without a constructor, a call that would cost as much as reading the limit does.
    """

    __slots__ = ("parts", "series", "undelivered")

    undelivered: int  # Lines.
    parts: tuple[tuple[int, int], ...]  # The lines that were delivered, unless all of them were.
    series: Series  # Only where there are waits.

    def delivered(self, start: int = 0, stop: int | None = None) -> None:
        """Take the lines out of what is still to be delivered."""
        if stop is None:
            stop = len(self.values) + len(self.waits)
        left = self.undelivered - stop + start
        if left:  # The rest is likely to follow.
            self.parts += ((start, stop),)
        self.undelivered = left
        if self.waits:
            self.series.take_waits_back(self, start, stop)


def _delivered_sample() -> SeriesSample:
    """Return what stands for the last sample of a series that has not been sampled yet."""
    sample = SeriesSample.__new__(SeriesSample)
    sample.undelivered, sample.parts = 0, ()
    return sample
