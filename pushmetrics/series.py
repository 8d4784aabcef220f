"""A series: all live limits with equal tags, sampled as one, and what of it has been delivered."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import NamedTuple

from . import clock
from .catalog import COUNT, DISTRIBUTION, metrics_at
from .errors import SampleError
from .ledger import MAX_AGE_SECONDS, Ledger
from .model import Counters, Descriptor, Kind, Limit, Sample, Tags
from .reservoir import Reservoir

BUCKET_SECONDS = 10
"""Width of the Agent's buckets (datadog-agent, pkg/aggregator/time_sampler.go)."""

_WITH_VALUES = tuple(metric for metric in metrics_at("full") if metric.kind is not DISTRIBUTION)
_GAUGES = tuple(metric.name for metric in _WITH_VALUES if metric.kind is not COUNT)
_COUNTS = tuple(metric.name for metric in _WITH_VALUES if metric.kind is COUNT)
_LIMIT, _AVAILABLE = _GAUGES.index("limit"), _GAUGES.index("available")
_ACTIVE_PEAK, _QUEUE_PEAK = _GAUGES.index("active_peak"), _GAUGES.index("queue_depth_peak")
_OLDEST_WAIT = _GAUGES.index("oldest_wait_ms")
_TIMEOUTS, _REJECTED = _COUNTS.index("admission_timeouts_total"), _COUNTS.index("admission_rejected_total")
_CONTENDED = _COUNTS.index("contended_ms_total")
_TOTALS = tuple(
    (place, name.removesuffix("_total")) for place, name in enumerate(_COUNTS) if name != "contended_ms_total"
)
"""Of each count but the contended time, its place and its name in the counters."""

Reading = tuple[list[int], list[int]]
"""The gauges of a limit and the totals of its counts, each in the order of the catalogue.

The contended time is the one count that is no total: it is the time since the last reading.
"""


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
        # A spell may have been ended a little before `now`, by a thread that had to wait: less is there than was seen.
        seen = self.contended_ms
        self.contended_ms = max(seen, counters.contended_ms(now))
        return [slots, active, available, queue_depth, active_peak, queue_peak, oldest_wait_ms], [
            counters.admission_timeouts,
            counters.admission_cancelled,
            self.contended_ms - seen,
            counters.admissions,
            counters.admissions_queued,
            counters.admission_rejected,
        ]


def _combine(readings: list[Reading]) -> Reading:
    """Return the reading of limits with equal tags: the sums, but for two.

    Two limits that are contended at the same time are not contended for twice that time, and the oldest waiter of two
    queues is the older one.
    """
    if not readings:
        return [0] * len(_GAUGES), [0] * len(_COUNTS)
    gauges = zip(*(gauges for gauges, _ in readings), strict=True)
    counts = zip(*(counts for _, counts in readings), strict=True)
    return (
        [max(column) if place == _OLDEST_WAIT else sum(column) for place, column in enumerate(gauges)],
        [max(column) if place == _CONTENDED else sum(column) for place, column in enumerate(counts)],
    )


class Peak:
    """The highest value since the last delivered sample, and no lower than another sample of the same bucket.

    The Agent keeps the last gauge of a bucket, so a later sample of a bucket repeats the bucket's peak. What could
    not be delivered in its bucket is shown in the next one, and then forgotten.
    """

    __slots__ = ("_bucket", "_late", "_of_bucket", "_undelivered", "delivered")

    def __init__(self) -> None:
        self._bucket = self._of_bucket = self._undelivered = self._late = 0
        self.delivered = False
        """Set when the peak last returned was delivered; what follows from that is done when the next value comes."""

    def add(self, bucket: int, value: int) -> int:
        """Take a value of `bucket` in, and return the peak to show."""
        if bucket != self._bucket:
            late = 0 if self.delivered or bucket != self._bucket + 1 else self._undelivered
            self._late = late
            self._bucket = bucket
            self._of_bucket = self._undelivered = value
            self.delivered = False
            return late if late > value else value
        if self.delivered:
            # What came late belongs to this bucket now: a later sample of it must not be lower.
            if self._late > self._of_bucket:
                self._of_bucket = self._late
            self._undelivered = self._late = 0
            self.delivered = False
        if value > self._of_bucket:
            self._of_bucket = value
        if value > self._undelivered:
            self._undelivered = value
        return self._late if self._late > self._of_bucket else self._of_bucket


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

    def __init__(self, tags: Tags, lock: threading.RLock) -> None:
        self.tags = tags
        self.lock = lock
        """The registry's lock, which whoever reads or changes the series holds."""
        self.members: dict[int, Member] = {}
        self.ended_at: float | None = None
        """Monotonic time at which the last limit went, None while there is one."""
        self.finished = False
        """Whether the last sample, which says that it has ended, was delivered."""
        self.failing = False
        """Whether the last attempt to sample it raised."""
        self.samples = 0
        """Samples that were taken."""
        self.plan = _plan("core", False, False)
        self.descriptor = Descriptor("", self.plan.names, self.plan.kinds, tags)
        self._number_of_limits = 0  # That it has had so far.
        self._limit: int | None = None  # When it was last sampled.
        self._sampled_at = clock.monotonic()  # Or made, as long as it was not sampled.
        self._ledger = Ledger(len(_COUNTS))
        self._contended_ms = 0
        # Of the limits that have gone since the last sample: both peaks, and the contended time.
        self._gone = _NOTHING_GONE
        self._active_peak = Peak()
        self._queue_peak = Peak()
        self._waits: Reservoir | None = None
        # The oldest waits that were sampled and not delivered, with the bucket in which that was.
        self._offered_waits: tuple[int, tuple[float, ...], int] | None = None
        # Of the last sample: the lines still to be delivered, and the number of limits if there was none left.
        self._undelivered_lines = 0
        self._ending = 0
        self._planned_for: tuple[object, ...] = ()

    def add(self, member: Member) -> None:
        """Let a limit be part of the series; what it counts from now on is reported."""
        counters = member.counters
        member.series = self
        member.contended_ms = counters.contended_ms(clock.monotonic())
        for place, name in _TOTALS:
            self._ledger.shift(place, getattr(counters, name))
        counters.waits = None if self._waits is None else self._waits.add
        self.members[member.key] = member
        self._number_of_limits += 1
        self.ended_at = None
        self.finished = False

    def remove(self, member: Member) -> None:
        """Take over what a limit counted that is gone, or that is not to be reported any more."""
        del self.members[member.key]
        counters = member.counters
        now = clock.monotonic()
        for place, name in _TOTALS:
            self._ledger.shift(place, -getattr(counters, name))
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

    def sample(self, level: str, namespace: str, constant_tags: Tags) -> SeriesSample:
        """Read the limits; raises whatever one of them raises."""
        now = clock.monotonic()
        bucket = int(clock.wall() // BUCKET_SECONDS)
        members = self.members.values()
        if len(members) == 1:
            (member,) = members
            gauges, totals = member.read(now, member.gauges())
        else:
            # All gauges first: if one can not be read, the others have lost nothing yet.
            readable = [(member, member.gauges()) for member in members]
            gauges, totals = _combine([member.read(now, reading) for member, reading in readable])
        self._sampled_at = now
        if members:
            self._limit = gauges[_LIMIT]
            self._ending = 0
        else:
            gauges[_LIMIT] = gauges[_AVAILABLE] = self._limit or 0
            self._ending = self._number_of_limits
        if self._gone is not _NOTHING_GONE:
            gauges[_ACTIVE_PEAK] = max(gauges[_ACTIVE_PEAK], self._gone[0])
            gauges[_QUEUE_PEAK] = max(gauges[_QUEUE_PEAK], self._gone[1])
            totals[_CONTENDED] = max(totals[_CONTENDED], self._gone[2])
            self._gone = _NOTHING_GONE
        gauges[_ACTIVE_PEAK] = self._active_peak.add(bucket, gauges[_ACTIVE_PEAK])
        gauges[_QUEUE_PEAK] = self._queue_peak.add(bucket, gauges[_QUEUE_PEAK])
        totals[_CONTENDED] = self._contended_ms = self._contended_ms + totals[_CONTENDED]

        owed = self._ledger.owed(totals, now)
        can_time_out = owed[_TIMEOUTS] > 0  # Of a limit that is gone, perhaps.
        can_reject = owed[_REJECTED] > 0
        for member in members:
            counters = member.counters
            if counters.can_time_out:
                can_time_out = True
            if counters.can_reject:
                can_reject = True
        planned_for = (level, can_time_out, can_reject, namespace, constant_tags)
        if planned_for != self._planned_for:
            self._planned_for = planned_for
            self.plan = plan = _plan(level, can_time_out, can_reject)
            self.descriptor = Descriptor(namespace, plan.names, plan.kinds, self.tags + constant_tags)
        values = self.plan.select((*gauges, *owed))
        if self._waits is None:
            self._undelivered_lines = len(values)
            return SeriesSample(self, values)
        waits, one_in = self._choose_waits(self._waits, bucket)
        self._undelivered_lines = len(values) + len(waits)
        return SeriesSample(self, values, waits, one_in)

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

    def delivered(self, sample: SeriesSample, start: int, stop: int) -> None:
        """Take the lines `start` to `stop` of the last sample as delivered; an older one has no say any more."""
        if sample.number != self.samples:
            return
        self._undelivered_lines -= stop - start
        if start == 0 and stop >= len(sample.values):
            self._ledger.settled = self._active_peak.delivered = self._queue_peak.delivered = True
        else:
            self._delivered_in_part(sample, start, stop)
        if sample.waits and self._waits is not None:
            first = len(sample.values)
            self._waits.remove(sample.waits[max(0, start - first) : max(0, stop - first)], sample.one_in)
        if self._undelivered_lines == 0:
            self._ledger.settled = True
            self._offered_waits = None
            # Unless another limit came before this was delivered, be it for a moment.
            self.finished = self._ending == self._number_of_limits

    def _delivered_in_part(self, sample: SeriesSample, start: int, stop: int) -> None:
        plan = self.plan
        self._ledger.settle([(place, sample.values[line]) for line, place in plan.counts if start <= line < stop])
        if start <= plan.active_peak < stop:
            self._active_peak.delivered = True
        if start <= plan.queue_peak < stop:
            self._queue_peak.delivered = True

    def give_up(self) -> None:
        """Drop what it owes; it has ended, and nobody has taken its last sample for too long."""
        self._ledger.write_off([0] * len(_COUNTS))

    def write_off_what_is_old(self) -> None:
        """Drop what was counted while nobody reported for so long that nobody knows when it was."""
        now = clock.monotonic()
        if now - self._sampled_at > MAX_AGE_SECONDS:
            totals = [0] * len(_COUNTS)
            for member in self.members.values():
                member.contended_ms = member.counters.contended_ms(now)
                for place, name in _TOTALS:
                    totals[place] += getattr(member.counters, name)
            totals[_CONTENDED] = self._contended_ms
            self._ledger.write_off(totals)

    def take_expired(self) -> int:
        """Return the number of events dropped since the last call because nobody took them for too long."""
        expired = self._ledger.expired
        if not any(expired):
            return 0
        events = sum(expired[place] for place, _ in _TOTALS)
        for place in range(len(expired)):
            expired[place] = 0
        return events


class SeriesSample(Sample):
    """A sample that tells its series what of it was delivered."""

    __slots__ = ("number", "series")

    def __init__(self, series: Series, values: tuple[int, ...], waits: tuple[float, ...] = (), one_in: int = 1) -> None:
        self.descriptor = series.descriptor
        self.values = values
        self.waits = waits
        self.one_in = one_in
        self.series = series
        self.number = series.samples = series.samples + 1

    def delivered(self, start: int = 0, stop: int | None = None) -> None:
        """Move the lines out of what the series has still to deliver."""
        series = self.series
        with series.lock:
            series.delivered(self, start, len(self) if stop is None else stop)
