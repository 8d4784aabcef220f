"""The registry: which limits are reported.

It holds a limit weakly and its counters strongly, so nothing that a limit has counted is lost with it, and a limit
that nobody uses any more is not kept alive by its metrics.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import clock
from .catalog import LEVELS
from .checks import integer
from .errors import InvalidTypeError, ReporterStateError
from .ledger import MAX_AGE_SECONDS
from .model import Limit, Naming, Sample, Tags, WatchedState
from .reading import Member
from .redaction import shown
from .series import BUCKET_SECONDS, Series
from .settings import checked_level

logger = logging.getLogger("pushmetrics")

BILLED_SECONDS = 3600.0
"""A set of tags is billed for the hour in which it was sent
(https://docs.datadoghq.com/account_management/billing/custom_metrics/)."""

SERIES_AT_A_TIME = 16
"""Series that are read at the same moment: to take the lock and look at the clocks costs as much as to read one."""


_lock = threading.RLock()
"""Held while any registry is read or changed, and during a fork, so that the child finds none half changed."""

_registries: weakref.WeakSet[Registry] = weakref.WeakSet()


class Registry:
    """The limits of a program that one reporter reports.

    Args:
        max_series: Distinct sets of tags to report in any hour, those that have ended included, since that is what
            is billed; an integer of at least 1. A set beyond it is not sent, counted in :attr:`series_rejected`, and
            logged once.

    It may be used from several threads.
    """

    def __init__(self, max_series: int = 1000) -> None:
        self.max_series = integer("max_series", max_series, 1)
        self.series_rejected = 0
        """Sets of tags that were not reported because max_series was reached, counted when they come."""
        self.series_collected = 0
        """Series in the last collection, so far if it is under way."""
        self.counts_expired = 0
        """Events dropped because they waited for the Agent for too long."""
        self.version = 0
        """Raised when a set of tags is reported for the first time, or forgotten."""
        self._lock = _lock
        self._series: dict[Tags, Series] = {}  # Those that have ended stay for as long as they are billed.
        self._ended: dict[Tags, Series] = {}  # Those among them.
        self._rejected: dict[Tags, Series] = {}
        self._watched: dict[int, dict[Tags, Member]] = {}  # Of the objects that are no limits, by their id.
        self._rejection_logged = False
        # The latest mapping to constant tags, and the number of those that there were.
        self._constant_tags: Mapping[Tags, Tags] | None = None
        self._mappings = 0
        self._wants_waits = False
        # Limits that have gone or are not to be reported any more. The garbage collector may call back anywhere, also
        # while the lock is held: so that callback only appends, and the next caller takes over what they counted.
        self._gone: deque[Member] = deque()
        # Those that have come while others were read.
        self._coming: deque[Member] = deque()
        self._is_reading = False
        self._reporter: Any = None
        _registries.add(self)

    def register(self, limit: Limit) -> None:
        """Report `limit` from now on; registering it again does nothing.

        Raises :class:`InvalidTypeError` for an object that is no limit.
        """
        if not isinstance(limit, Limit):
            raise InvalidTypeError(
                "register: expected a MeteredSemaphore, or an object with tags, counters and gauges(), "
                f"got {shown(limit)}"
            )
        with self._lock:
            self._catch_up()
            tags = limit.tags
            series = self._find(tags)
            if series is None or id(limit) not in series.members:
                self._add_in_turn(Member.of(limit, self._gone.append))

    def register_watched(self, watched: Any, tags: Tags, read: Callable[[Any], WatchedState]) -> None:
        """Report an object that is no limit itself, as `read` says; once more with the same tags does nothing.

        This is what :func:`pushmetrics.watch` does with the objects that it knows. Raises what `read` raises.
        """
        from .watched import WatchedMember  # Not before it is needed: `import pushmetrics` stays light.

        member = WatchedMember.watching(watched, tags, read, self._gone.append)
        with self._lock:
            self._catch_up()
            if tags not in self._watched.get(member.key, ()):
                self._watched.setdefault(member.key, {})[tags] = member
                self._add_in_turn(member)

    def unregister(self, limit: object) -> None:
        """Stop reporting `limit`: what it has counted is sent, and its series ends unless others share its tags.

        `limit` may also be an object that was given to :func:`pushmetrics.watch`, which then ends under all tags with
        which it was. Does nothing for anything that is not registered.
        """
        tags = _tags_of(limit)
        with self._lock:
            self._catch_up()
            self._gone.extend(member for _, member in self._reported(limit, tags))
            self._catch_up()

    def __contains__(self, limit: object) -> bool:
        tags = _tags_of(limit)
        with self._lock:
            self._catch_up()
            return any(series.tags in self._series for series, _ in self._reported(limit, tags))

    def __bool__(self) -> bool:
        return True  # An empty one is a registry, too: `registry or Registry()` shall not replace it.

    def __len__(self) -> int:
        """Return the number of series that are reported, those with a last sample still to deliver included."""
        with self._lock:
            self._catch_up()
            return sum(not series.finished for series in self._series.values())

    def tags(self) -> list[Tags]:
        """Return the tags of each series, those included that have ended and not been forgotten yet."""
        with self._lock:
            return list(self._series)

    def collect(
        self, level: str = "full", namespace: str = "", constant_tags: Tags | Mapping[Tags, Tags] = ()
    ) -> Iterator[Sample]:
        """Yield a sample of each series, read when it or one of the few before it is yielded.

        `constant_tags` come behind the tags of each series. Where they are not the same for all they are a mapping
        from a series' tags, and a series that is not in it is left out for now. Such a mapping is not changed after
        it was given here: give another one.

        A limit that can not be read is logged once and left out. Until a sample is called delivered, what it counts
        is in the next one, too. Only the latest sample of a series can be called delivered, and the level decides
        which waits are kept: so collect from a registry of your own, not beside a reporter. Raises
        :class:`InvalidValueError` for an unknown level.
        """
        by_tags = constant_tags if isinstance(constant_tags, Mapping) else None
        naming = Naming(level, namespace, () if isinstance(constant_tags, Mapping) else constant_tags)
        with self._lock:
            self._keep_waits(LEVELS.index(checked_level(level)) == len(LEVELS) - 1)
            self._catch_up()
            self._forget_old()
            all_series = list(self._series.values())
            self.series_collected = 0
            if by_tags is not self._constant_tags:
                self._constant_tags = by_tags
                self._mappings += 1
            mapping = self._mappings
        for first in range(0, len(all_series), SERIES_AT_A_TIME):
            some_series = all_series[first : first + SERIES_AT_A_TIME]
            if self._watched:  # Before the lock is held: what is asked is not ours, and may wait for whatever it likes.
                for member in [member for series in some_series for member in list(series.members.values())]:
                    member.look()
            yield from self._samples(some_series, naming, by_tags, mapping)

    def _samples(
        self, some_series: list[Series], naming: Naming, by_tags: Mapping[Tags, Tags] | None, mapping: int
    ) -> list[Sample]:
        samples: list[Sample] = []
        with self._lock, self._reading():
            now = clock.monotonic()
            bucket = int(clock.wall() // BUCKET_SECONDS)
            for series in some_series:
                if not series.members and series.finished:
                    continue
                if by_tags is not None:
                    if series.tagged_in != mapping:  # To look tags up in each flush costs as much as lines.
                        series.tagged_in, series.constant_tags = mapping, by_tags.get(series.tags)
                    if series.constant_tags is None:
                        continue
                    if series.constant_tags is not naming.constant_tags:
                        naming = naming._replace(constant_tags=series.constant_tags)
                if series.failing:
                    series.write_off_what_is_old()
                try:
                    samples.append(series.sample(naming, now, bucket))
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, it is said; a
                    # limit may ask a future that was cancelled
                    _say_that_it_fails(series, error)
                    series.failing = True
                    continue
                series.failing = False
                if series.ledger.expired:
                    self.counts_expired += series.take_expired()
            self.series_collected += len(samples)
        return samples

    def attach(self, reporter: Any) -> None:
        """Make `reporter` the only one of this registry; raises :class:`ReporterStateError` if there is another."""
        with self._lock:
            # One whose loop was closed under it can not close itself any more, and is not in the way.
            if self._reporter is not None and self._reporter is not reporter and self._reporter.is_running:
                raise ReporterStateError(
                    f"{self._reporter!r} is reporting this registry already; two reporters would steal each other's "
                    "counts and peaks. Close that one first, or give this one a Registry() of its own"
                )
            self._reporter = reporter
            for series in (*self._series.values(), *self._rejected.values()):
                series.write_off_what_is_old()

    def detach(self, reporter: Any) -> None:
        """Let another reporter take the place of `reporter`."""
        with self._lock:
            if self._reporter is reporter:
                self._reporter = None

    def _begin_anew(self) -> None:
        """Register each limit anew, in a fork's child: what was counted so far is the parent's to send."""
        self._catch_up()
        series = (*self._series.values(), *self._rejected.values())
        self._series, self._ended, self._rejected = {}, {}, {}
        self._reporter = None
        for member in [member for one in series for member in one.members.values()]:
            member.begin_anew()
            self._add(member)
        self.series_rejected = self.series_collected = self.counts_expired = 0

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Let limits neither come nor go while others are read: the garbage collector may call anybody then."""
        self._is_reading = True
        try:
            yield
        finally:
            self._is_reading = False

    def _add_in_turn(self, member: Member) -> None:
        if self._is_reading:
            self._coming.append(member)
        else:
            self._add(member)

    def _add(self, member: Member) -> None:
        (self._find(member.tags) or self._new_series(member.tags)).add(member)
        self._ended.pop(member.tags, None)

    def _reported(self, limit: object, tags: Tags) -> list[tuple[Series, Member]]:
        """Return what reports an object: one member of a series, several for one that is watched with several tags."""
        found = [self._find(one) for one in self._watched.get(id(limit)) or (tags,)]
        return [(series, series.members[id(limit)]) for series in found if series and id(limit) in series.members]

    def _find(self, tags: Tags) -> Series | None:
        return self._series.get(tags) or self._rejected.get(tags)

    def _new_series(self, tags: Tags) -> Series:
        series = Series(tags, self._lock)
        series.keep_waits(self._wants_waits)
        if len(self._series) >= self.max_series:
            self._forget_old()
        if len(self._series) < self.max_series:
            self._series[tags] = series
            self.version += 1
        else:
            self._reject(series)
        return series

    def _reject(self, series: Series) -> None:
        self._rejected[series.tags] = series
        self.series_rejected += 1
        if not self._rejection_logged:
            self._rejection_logged = True
            logger.warning(
                "max_series=%d sets of tags were reported within the hour, so %s and any further one is not reported. "
                "Each set is billed: use tags with few values, or raise max_series. This is said once.",
                self.max_series,
                " ".join(series.tags),
            )

    def _catch_up(self) -> None:
        """Take over the limits that have come or gone meanwhile."""
        if self._is_reading:
            return
        while self._coming:
            member = self._coming.popleft()
            series = self._find(member.tags)
            if series is None or member.key not in series.members:
                self._add(member)
        while self._gone:
            member = self._gone.popleft()
            series = self._find(member.tags)
            if series is not None and series.members.get(member.key) is member:
                self._remove(series, member)

    def _remove(self, series: Series, member: Member) -> None:
        series.remove(member)
        watched = self._watched.get(member.key)
        if watched is not None and watched.get(member.tags) is member:
            del watched[member.tags]
            if not watched:
                del self._watched[member.key]
        if not series.members and self._rejected.pop(series.tags, None) is None:
            self._ended[series.tags] = series

    def _forget_old(self) -> None:
        """Make room: drop the series that have ended and are no longer billed or waited for."""
        now = clock.monotonic()
        for tags, series in list(self._ended.items()):
            max_age = BILLED_SECONDS if series.finished else MAX_AGE_SECONDS
            if now - (series.ended_at or now) > max_age:
                series.give_up()
                self.counts_expired += series.take_expired()
                del self._series[tags], self._ended[tags]
                self.version += 1
        while self._rejected and len(self._series) < self.max_series:
            tags = next(iter(self._rejected))
            series = self._rejected.pop(tags)
            series.write_off_what_is_old()
            self._series[tags] = series
            self.version += 1

    def _keep_waits(self, wanted: bool) -> None:
        if wanted != self._wants_waits:
            self._wants_waits = wanted
            for series in (*self._series.values(), *self._rejected.values()):
                series.keep_waits(wanted)


def _say_that_it_fails(series: Series, error: BaseException) -> None:
    if not series.said_to_fail:
        series.said_to_fail = True
        logger.warning(
            "Can not read the limit %s, so it is not reported. This is said once.",
            " ".join(series.tags),
            exc_info=error,
        )


def _tags_of(limit: object) -> Tags:
    """Return the tags of a limit, those of none for anything else, whatever it is."""
    try:
        tags = getattr(limit, "tags", ())
        hash(tags)
    except Exception:  # noqa: BLE001 - it may be of anybody's making
        return ()
    return tags if isinstance(tags, tuple) else ()


def checked_registry(registry: object, besides: str = "") -> Registry:
    """Return `registry` if it is one; raises :class:`InvalidTypeError`, in which `besides` is what else is allowed."""
    if not isinstance(registry, Registry):
        raise InvalidTypeError(f"registry: expected a Registry{besides}, got {shown(registry)}")
    return registry


default_registry = Registry()
"""The registry of every limit that is made without one of its own."""


def _after_fork() -> None:
    """Leave to the parent what is its own."""
    try:
        for registry in list(_registries):
            registry._begin_anew()
    finally:
        _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork)
