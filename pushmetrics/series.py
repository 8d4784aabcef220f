"""A series: all live limits with equal tags, sampled as one, and what of it has been delivered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from operator import itemgetter, neg
from typing import NamedTuple

from . import clock
from .catalog import DISTRIBUTION, LEVELS, metrics_at
from .ledger import MAX_AGE_SECONDS, Ledger
from .model import Descriptor, Kind, Naming, Sample, Tags
from .peaks import Peaks
from .reading import CONTENDED, COUNTS, GAUGES, Member, Reading, read_as_ended, read_as_one
from .reservoir import Reservoir

BUCKET_SECONDS = 10
"""Width of the Agent's buckets (datadog-agent, pkg/aggregator/time_sampler.go)."""

_NOTHING_GONE = (0, 0, 0)
_NONE: frozenset[str] = frozenset()
_WAITS = next(metric.name for metric in metrics_at("full") if metric.kind is DISTRIBUTION)


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
    """Its line in the sample, -1 for none."""
    can_time_out: bool
    can_reject: bool
    unknown: frozenset[str]
    """The metrics that are left out because not all limits know them."""


@cache
def _plan(level: str, can_time_out: bool, can_reject: bool, unknown: frozenset[str]) -> _Plan:
    left_out = set(unknown)
    if not can_time_out:
        left_out.add("admission_timeouts_total")
    if not can_reject:
        left_out.add("admission_rejected_total")
    chosen = [metric for metric in metrics_at(level) if metric.name not in left_out]
    names = tuple(metric.name for metric in chosen)
    places = [(*GAUGES, *COUNTS).index(metric.name) for metric in chosen if metric.kind is not DISTRIBUTION]
    return _Plan(
        names,
        tuple(metric.kind for metric in chosen),
        _select(places),
        tuple((line, COUNTS.index(name)) for line, name in enumerate(names) if name in COUNTS),
        names.index("active_peak") if "active_peak" in names else -1,
        names.index("queue_depth_peak") if "queue_depth_peak" in names else -1,
        can_time_out,
        can_reject,
        unknown,
    )


def _select(places: list[int]) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple(values[place] for place in places)  # Of one place, itemgetter returns no tuple.


class Series:
    """All live limits with equal tags.

    What the limits have counted, less what has been delivered, is what a sample contains. Only a delivery moves that
    base, so what was refused is in the next sample again, and nothing is in two delivered ones.
    """

    # There may be ten thousand of them, and a flush goes through all: what is small is fast.
    __slots__ = (
        "_contended_ms",
        "_descriptor",
        "_ending",
        "_gone",
        "_last",
        "_limit",
        "_naming",
        "_number_of_limits",
        "_offered_waits",
        "_only",
        "_parting",
        "_peaks",
        "_plan",
        "_sampled_at",
        "_unknown",
        "_waits",
        "constant_tags",
        "ended_at",
        "failing",
        "ledger",
        "lock",
        "members",
        "said_to_fail",
        "tagged_in",
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
        self.constant_tags: Tags | None = None
        """The tags that it gets besides, as the registry has looked them up; None if it is not to be sent yet."""
        self.tagged_in = 0
        """In which of the registry's mappings those were looked up, by number."""
        # What its samples are called, and which metrics they have, since the naming or the limits changed.
        self._naming: Naming | None = None
        self._plan = _plan("core", False, False, _NONE)
        self._descriptor: Descriptor
        self._unknown = _NONE  # The metrics that not all of its limits know.
        self._parting = _NONE  # Those that were in the last sample all the same, since it owed them.
        # The only member, if it knows all metrics; None if there are several, or none.
        self._only: Member | None = None
        self._number_of_limits = 0  # That it has had so far.
        self._limit: int | None = None  # When it was last sampled.
        self._sampled_at = clock.monotonic()  # Or made, as long as it was not sampled.
        self.ledger = Ledger(len(COUNTS))
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
        # Unless another limit came before that, be it for a moment, or some waits are left over from a choice of them.
        return (
            self._ending == self._number_of_limits
            and not self._last.undelivered
            and not self.members
            and (self._waits is None or not self._waits.total)
        )

    def add(self, member: Member) -> None:
        """Let a limit be part of the series; what it counts from now on is reported."""
        counters = member.counters
        member.contended_ms = counters.contended_ms(clock.monotonic())
        self.ledger.shift(member.totals())
        counters.waits = None if self._waits is None else self._waits.add
        self._unknown = self._unknown | member.unknown if self.members else member.unknown
        self.members[member.key] = member
        self._choose_only()
        self._number_of_limits += 1
        self.ended_at = None

    def remove(self, member: Member) -> None:
        """Take over what a limit counted that is gone, or that is not to be reported any more."""
        del self.members[member.key]
        self._parting = _NONE
        self._choose_only()
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
            # All slots are free now. How many that is, is not known either.
            self._unknown = member.unknown | {"available"} if "limit" in member.unknown else member.unknown

    def _choose_only(self) -> None:
        only = next(iter(self.members.values())) if len(self.members) == 1 else None
        self._only = only if only is None or not only.unknown else None
        if self._only is not None:
            self._unknown = _NONE
            if self._plan.unknown:
                self._naming = None

    def sample(self, naming: Naming, now: float, bucket: int) -> SeriesSample:
        """Read the limits; raises whatever one of them raises.

        `now` is the monotonic time, and `bucket` the number of the Agent's bucket.
        """
        # Every flush comes here for each series: what is written out would cost as much again if it were called.
        only = self._only
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
        ) = self._read_all(now) if only is None else only.read(now, only.gauges())
        self._limit = limit
        self._sampled_at = now
        if self._gone is not _NOTHING_GONE:
            active_peak = max(active_peak, self._gone[0])
            queue_peak = max(queue_peak, self._gone[1])
            contended_ms = max(contended_ms, self._gone[2])
            self._gone = _NOTHING_GONE
        self._contended_ms = contended_ms = self._contended_ms + contended_ms

        delivered = not self._last.undelivered
        if not delivered:
            self._settle_parts()
        active_peak, queue_peak = self._peaks.add(bucket, active_peak, queue_peak, delivered)
        totals = timeouts, cancelled, contended_ms, admissions, admissions_queued, rejected
        (
            past_timeouts,
            past_cancelled,
            past_contended_ms,
            past_admissions,
            past_admissions_queued,
            past_rejected,
        ) = self.ledger.offer(totals, now, delivered)

        # It may owe a count that only a limit could have that is gone.
        can_time_out = can_time_out or timeouts > past_timeouts
        can_reject = can_reject or rejected > past_rejected
        plan = self._plan
        if naming != self._naming or can_time_out != plan.can_time_out or can_reject != plan.can_reject:
            unknown = self._left_out(delivered)
            self._naming = naming
            self._plan = plan = _plan(naming.level, can_time_out, can_reject, unknown)
            self._descriptor = Descriptor(naming.namespace, plan.names, plan.kinds, self.tags + naming.constant_tags)
            self.keep_waits(naming.level == LEVELS[-1] and _WAITS not in unknown)
        self._last = sample = SeriesSample.__new__(SeriesSample)
        sample.descriptor = self._descriptor
        sample.values = values = plan.select(
            (
                limit,
                active,
                available,
                queue_depth,
                active_peak,
                queue_peak,
                oldest_wait_ms,
                timeouts - past_timeouts,
                cancelled - past_cancelled,
                contended_ms - past_contended_ms,
                admissions - past_admissions,
                admissions_queued - past_admissions_queued,
                rejected - past_rejected,
            )
        )
        sample.undelivered = len(values)
        sample.waits = sample.parts = ()
        sample.one_in = 1
        if self._waits is not None:
            if delivered:
                self._offered_waits = None
            sample.series = self
            sample.waits, sample.one_in = self._choose_waits(self._waits, bucket)
            sample.undelivered += len(sample.waits)
        return sample

    def _read_all(self, now: float) -> Reading:
        if self.members:
            reading = read_as_one(self.members.values(), now)
            if self._unknown:
                self._unknown = _NONE.union(*[member.unknown for member in self.members.values()])
        else:
            self._ending = self._number_of_limits
            reading = read_as_ended(self._limit or 0)
        if self._unknown != self._plan.unknown:
            self._naming = None
        return reading

    def _left_out(self, delivered: bool) -> frozenset[str]:
        """Return the metrics to leave out of the next sample, since not all limits know them.

        What was counted before the first limit came that does not know it is owed: it is in all samples until one of
        them is delivered.
        """
        newly = self._unknown - self._plan.unknown
        if delivered:
            newly -= self._parting
        owed = {name for name, count in zip(COUNTS, self.ledger.owed(), strict=True) if count}
        if self._waits is not None and self._waits.total:
            owed.add(_WAITS)
        self._parting = newly & owed
        return self._unknown - self._parting

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
        else:
            self.ledger.settle()

    def _settle_parts(self) -> None:
        last, plan = self._last, self._plan
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
        self.ledger.write_off((0,) * len(COUNTS))

    def write_off_what_is_old(self) -> None:
        """Drop what was counted while nobody reported for so long that nobody knows when it was."""
        now = clock.monotonic()
        if now - self._sampled_at > MAX_AGE_SECONDS:
            self._settle()
            for member in self.members.values():
                member.contended_ms = member.counters.contended_ms(now)
            counted = [member.totals() for member in self.members.values()]
            totals = [sum(column) for column in zip((0,) * len(COUNTS), *counted, strict=True)]
            totals[CONTENDED] = self._contended_ms
            self.ledger.write_off(tuple(totals))

    def take_expired(self) -> int:
        """Return the number of events dropped since the last call because nobody took them for too long."""
        expired, self.ledger.expired = self.ledger.expired, ()
        return sum(expired) - expired[CONTENDED] if expired else 0


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
