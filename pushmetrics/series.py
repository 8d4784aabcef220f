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

_SCALARS = tuple(metric for metric in metrics_at("full") if metric.kind is not DISTRIBUTION)
_PLACES = {metric.name: place for place, metric in enumerate(_SCALARS)}
_LIMIT = _PLACES["limit"]
_AVAILABLE = _PLACES["available"]
_ACTIVE_PEAK = _PLACES["active_peak"]
_QUEUE_PEAK = _PLACES["queue_depth_peak"]
_CONTENDED = _PLACES["contended_ms_total"]
_TIMEOUTS = _PLACES["admission_timeouts_total"]
_REJECTED = _PLACES["admission_rejected_total"]
_TOTALS = (
    (_TIMEOUTS, "admission_timeouts"),
    (_PLACES["admission_cancelled_total"], "admission_cancelled"),
    (_PLACES["admissions_total"], "admissions"),
    (_PLACES["admissions_queued_total"], "admissions_queued"),
    (_REJECTED, "admission_rejected"),
)
"""Of each count but the contended time, its place in a reading and its name in the counters."""

# Equal tags add up, but two limits that are contended at the same time are not contended for twice that time, and the
# oldest waiter of two queues is the older one.
_LARGER = frozenset({"oldest_wait_ms", "contended_ms_total"})

Reading = list[int]
"""The values of all metrics of one limit, in the order of the catalogue, with counts as totals."""


class Member(weakref.ref[Limit]):
    """A limit, held weakly, and its counters, which are kept when it is gone."""

    __slots__ = ("contended_ms", "counters", "key", "series")

    counters: Counters
    contended_ms: int  # How much of the contended time the series has taken over.
    key: int
    series: Series

    def read(self, now: float) -> Reading:
        """Read the limit and start its peaks anew; all zeros but the totals when it is gone."""
        counters = self.counters
        slots = counters.limit
        limit = self()
        if limit is None:
            active = queue_depth = oldest_wait_ms = 0
            available = slots
        else:
            active, available, queue_depth, oldest_wait_ms = limit.gauges()
            # One negative number makes the union of their bits negative, and anything but integers has none.
            if active | available | queue_depth | oldest_wait_ms < 0:
                raise SampleError(
                    f"gauges are at least 0, got active {active}, available {available}, "
                    f"queue depth {queue_depth}, oldest wait {oldest_wait_ms}"
                )
        active_peak, counters.lowest_value = slots - counters.lowest_value, slots - active
        queue_peak, counters.queue_depth_peak = counters.queue_depth_peak, queue_depth
        seen, self.contended_ms = self.contended_ms, counters.contended_ms(now)
        return [
            slots,
            active,
            available,
            queue_depth,
            counters.admission_timeouts,
            counters.admission_cancelled,
            active_peak,
            queue_peak,
            oldest_wait_ms,
            self.contended_ms - seen,  # The one count that is no total here, so that the larger can be chosen.
            counters.admissions,
            counters.admissions_queued,
            counters.admission_rejected,
        ]


def _combine(readings: list[Reading]) -> Reading:
    if not readings:
        return [0] * len(_SCALARS)
    return [
        max(column) if metric.name in _LARGER else sum(column)
        for metric, column in zip(_SCALARS, zip(*readings, strict=True), strict=True)
    ]


class Peak:
    """The highest value since the last delivered sample, and no lower than another sample of the same bucket.

    The Agent keeps the last gauge of a bucket, so a later sample of a bucket repeats the bucket's peak. What could
    not be delivered in its bucket is shown in the next one, and then forgotten.
    """

    __slots__ = ("_bucket", "_late", "_of_bucket", "_undelivered")

    def __init__(self) -> None:
        self._bucket = self._of_bucket = self._undelivered = self._late = 0

    def add(self, bucket: int, value: int) -> int:
        """Take a value of `bucket` in, and return the peak to show."""
        if bucket != self._bucket:
            self._late = self._undelivered if bucket == self._bucket + 1 else 0
            self._bucket = bucket
            self._of_bucket = self._undelivered = value
        else:
            self._of_bucket = max(self._of_bucket, value)
            self._undelivered = max(self._undelivered, value)
        return max(self._of_bucket, self._late)

    def delivered(self) -> None:
        """Say that the peak last returned was delivered."""
        # What came late belongs to this bucket now: a later sample of it must not be lower.
        self._of_bucket = max(self._of_bucket, self._late)
        self._undelivered = self._late = 0


class _Plan(NamedTuple):
    """Which metrics a series has, given its level and what its limits can do."""

    level: str
    can_time_out: bool
    can_reject: bool
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    select: Callable[[tuple[int, ...]], tuple[int, ...]]
    counts: tuple[tuple[int, int], ...]
    """Of each count, its line in the sample and its place in a reading."""
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
    scalars = [metric for metric in chosen if metric in _SCALARS]
    names = tuple(metric.name for metric in chosen)
    return _Plan(
        level,
        can_time_out,
        can_reject,
        names,
        tuple(metric.kind for metric in chosen),
        itemgetter(*(_SCALARS.index(metric) for metric in scalars)),
        tuple((line, _SCALARS.index(metric)) for line, metric in enumerate(scalars) if metric.kind is COUNT),
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
        self.plan = _plan("core", False, False)
        self.descriptor = Descriptor("", self.plan.names, self.plan.kinds, tags)
        self._number_of_limits = 0  # That it has had so far.
        self._limit = 0
        self._sampled_at = clock.monotonic()  # Or made, as long as it was not sampled.
        self._sampled = False
        # Its places are those of a reading; nothing is ever delivered of a gauge, so it is owed as it is.
        self._ledger = Ledger(len(_SCALARS))
        self._contended_ms = 0
        self._contended_ms_of_gone = 0
        self._active_peak = Peak()
        self._queue_peak = Peak()
        self._waits: Reservoir | None = None
        # The oldest waits that were sampled and not delivered, with the bucket in which that was.
        self._offered_waits: tuple[int, tuple[float, ...], int] | None = None
        self._constant_tags: Tags = ()

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
        self._contended_ms_of_gone = max(self._contended_ms_of_gone, counters.contended_ms(now) - member.contended_ms)
        bucket = int(clock.wall() // BUCKET_SECONDS)
        self._active_peak.add(bucket, counters.limit - counters.lowest_value)
        self._queue_peak.add(bucket, counters.queue_depth_peak)
        counters.waits = None
        if not self._sampled:
            self._limit = counters.limit
        if not self.members:
            self.ended_at = now

    def sample(self, level: str, namespace: str, constant_tags: Tags) -> SeriesSample:
        """Read the limits; raises whatever one of them raises."""
        now = clock.monotonic()
        bucket = int(clock.wall() // BUCKET_SECONDS)
        members = tuple(self.members.values())
        readings = [member.read(now) for member in members]
        reading = readings[0] if len(readings) == 1 else _combine(readings)
        self._sampled_at = now
        if members:
            self._limit = reading[_LIMIT]
            self._sampled = True
        else:
            reading[_LIMIT] = reading[_AVAILABLE] = self._limit
        reading[_ACTIVE_PEAK] = self._active_peak.add(bucket, reading[_ACTIVE_PEAK])
        reading[_QUEUE_PEAK] = self._queue_peak.add(bucket, reading[_QUEUE_PEAK])
        self._contended_ms += max(reading[_CONTENDED], self._contended_ms_of_gone)
        self._contended_ms_of_gone = 0
        reading[_CONTENDED] = self._contended_ms

        owed = self._ledger.owed(reading, now)
        can_time_out = owed[_TIMEOUTS] > 0  # Of a limit that is gone, perhaps.
        can_reject = owed[_REJECTED] > 0
        for member in members:
            can_time_out |= member.counters.can_time_out
            can_reject |= member.counters.can_reject
        plan = _plan(level, can_time_out, can_reject)
        values = plan.select(owed)
        descriptor = self.descriptor
        if plan is not self.plan or namespace != descriptor.namespace or constant_tags != self._constant_tags:
            self.plan = plan
            self._constant_tags = constant_tags
            self.descriptor = Descriptor(namespace, plan.names, plan.kinds, self.tags + constant_tags)
        if self._waits is None:
            return SeriesSample(self, values)
        return SeriesSample(self, values, *self._choose_waits(self._waits, bucket))

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
        """Take the lines `start` to `stop` of a sample of this series as delivered."""
        plan = sample.plan
        values = sample.values
        self._ledger.settle([(place, values[line]) for line, place in plan.counts if start <= line < stop])
        if start <= plan.active_peak < stop:
            self._active_peak.delivered()
        if start <= plan.queue_peak < stop:
            self._queue_peak.delivered()
        if sample.waits and stop > len(values) and self._waits is not None:
            self._waits.remove(sample.waits[max(0, start - len(values)) : stop - len(values)], sample.one_in)
        sample.undelivered_lines -= stop - start
        if sample.undelivered_lines == 0:
            self._ledger.all_settled()
            self._offered_waits = None
            self.finished = sample.is_last_of == self._number_of_limits

    def number_if_ended(self) -> int:
        """Return how many limits it has had if there is none left, else 0: a sample taken then is the last one.

        Unless another limit comes before that sample is delivered, be it for a moment: then the number has changed.
        """
        return 0 if self.members else self._number_of_limits

    def give_up(self) -> None:
        """Drop what it owes; it has ended, and nobody has taken its last sample for too long."""
        self._ledger.write_off([0] * len(_SCALARS))

    def write_off_what_is_old(self) -> None:
        """Drop what was counted while nobody reported for so long that nobody knows when it was."""
        now = clock.monotonic()
        if now - self._sampled_at > MAX_AGE_SECONDS:
            totals = [0] * len(_SCALARS)
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

    __slots__ = ("is_last_of", "plan", "series", "undelivered_lines")

    def __init__(self, series: Series, values: tuple[int, ...], waits: tuple[float, ...] = (), one_in: int = 1) -> None:
        super().__init__(series.descriptor, values, waits, one_in)
        self.series = series
        self.plan = series.plan
        self.is_last_of = series.number_if_ended()
        self.undelivered_lines = len(self)

    def delivered(self, start: int = 0, stop: int | None = None) -> None:
        """Move the lines out of what the series has still to deliver."""
        with self.series.lock:
            self.series.delivered(self, start, len(self) if stop is None else stop)
