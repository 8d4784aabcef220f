"""MeteredSemaphore: a drop-in ``asyncio.BoundedSemaphore`` that counts with plain integers.

Beside the names of its base class it keeps to these rules:

- ``_value`` is the number of free slots; below zero only after the limit was lowered under its holders.
- Nobody queues beside a free slot: when ``_value`` is above zero, ``_waiters`` is empty.
- A slot is *granted* to the first waiter at once, in ``release()``, before that waiter's task runs. It counts as
  active from then on. ``_bound_value`` is the limit less the grants whose task has not run: when ``_value`` reaches
  it, no holder is left that could give a slot back.
"""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import get_ident
from types import TracebackType
from typing import Literal, final

from . import clock
from .checks import integer, number
from .errors import (
    AdmissionTimeoutError,
    ForeignThreadError,
    OverReleaseError,
    QueueFullError,
)
from .model import Counters, LimitStatistics, Tags
from .registry import Registry, checked_registry, default_registry
from .settings import UNSET, Unset
from .tags import limit_tags


class MeteredSemaphore(asyncio.BoundedSemaphore):
    """A drop-in ``asyncio.BoundedSemaphore`` that reports its state to Datadog.

    >>> limit = MeteredSemaphore(100, component="model_server", limit_name="upstream_requests")
    >>> async def call_upstream():
    ...     async with limit:
    ...         ...

    Acquiring and releasing touch plain integers only; a :class:`pushmetrics.Reporter` samples them periodically.

    Args:
        value: Number of slots, an integer of at least 0.
        component: The part of the program that owns the limit, such as "model_server". A tag, so its values should
            be few.
        limit_name: What is limited, such as "upstream_requests". A tag.
        server: Name of the instance, where a program has several such limits. A tag.
        tags: Up to five more tags, as a mapping or as ``"key:value"`` strings.
        admission_timeout: Seconds that an acquire may wait, None for as long as it takes, 0 for not at all.
        max_queue_depth: Number of waiters beyond which an acquire is refused at once, None for any number.
        registry: Where the limit is reported from; None for nowhere until ``registry.register(semaphore)``.

    Raises :class:`pushmetrics.PushmetricsError` for an argument outside its range; the error is a ValueError or a
    TypeError, too.
    """

    # OrderedDict: the first waiter is taken, and any waiter removed, in constant time. The values are the monotonic
    # times at which the waiters queued.
    _waiters: OrderedDict[asyncio.Future[bool], float]  # type: ignore[assignment]  # The base class has a deque.
    _value: int
    _bound_value: int
    _loop: asyncio.AbstractEventLoop  # The one of all waiters; bound by the base class.

    def __init__(
        self,
        value: int = 1,
        *,
        component: str,
        limit_name: str,
        server: str | None = None,
        tags: Mapping[str, str] | Iterable[str] | None = None,
        admission_timeout: float | None = None,
        max_queue_depth: int | None = None,
        registry: Registry | None = default_registry,
    ) -> None:
        limit = integer("value", value, 0)
        super().__init__(limit)
        self._waiters = OrderedDict()
        self._waiters_thread = 0
        self._admission_timeout = _checked_timeout("admission_timeout", admission_timeout)
        self._max_queue_depth = (
            None if max_queue_depth is None else integer("max_queue_depth", max_queue_depth, 0, besides=", or None")
        )
        self._tags = limit_tags(component, limit_name, server, tags)
        self._counters = Counters(limit)
        self._counters.can_time_out = self._admission_timeout is not None
        self._counters.can_reject = self._max_queue_depth is not None
        if registry is not None:
            checked_registry(registry, ", or None").register(self)

    # The state, as read-only integers.

    @property
    def limit(self) -> int:
        """Configured slots."""
        return self._counters.limit

    @property
    def active(self) -> int:
        """Slots in use, those granted to a waiter whose task has not run yet included."""
        return self._counters.limit - self._value

    @property
    def available(self) -> int:
        """Slots free now; 0 while more are in use than a lowered limit allows."""
        return max(0, self._value)

    @property
    def queue_depth(self) -> int:
        """Waiters without a slot."""
        return len(self._waiters)

    @property
    def admissions(self) -> int:
        """Acquires that got a slot."""
        return self._counters.admissions

    @property
    def admissions_queued(self) -> int:
        """Of the admissions, those that had to wait."""
        return self._counters.admissions_queued

    @property
    def admission_timeouts(self) -> int:
        """Acquires that gave up at their admission timeout."""
        return self._counters.admission_timeouts

    @property
    def admission_cancelled(self) -> int:
        """Waiters cancelled before they were admitted."""
        return self._counters.admission_cancelled

    @property
    def admission_rejected(self) -> int:
        """Acquires refused because the queue was full."""
        return self._counters.admission_rejected

    @property
    def admission_timeout(self) -> float | None:
        """Seconds that an acquire may wait by default, None for as long as it takes."""
        return self._admission_timeout

    @property
    def max_queue_depth(self) -> int | None:
        """Number of waiters beyond which an acquire is refused, None for any number."""
        return self._max_queue_depth

    @property
    def tags(self) -> Tags:
        """The tags of the limit's series, in Datadog's normal form."""
        return self._tags

    @property
    def counters(self) -> Counters:
        """The counting object, which a registry keeps when the semaphore is gone."""
        return self._counters

    def statistics(self) -> LimitStatistics:
        """Return all of the state at this instant."""
        counters = self._counters
        active, available, queue_depth, oldest_wait_ms = self.gauges()
        return LimitStatistics(
            limit=counters.limit,
            active=active,
            available=available,
            queue_depth=queue_depth,
            oldest_wait_ms=oldest_wait_ms,
            contended_ms=counters.contended_ms(clock.monotonic()),
            admissions=counters.admissions,
            admissions_queued=counters.admissions_queued,
            admission_timeouts=counters.admission_timeouts,
            admission_cancelled=counters.admission_cancelled,
            admission_rejected=counters.admission_rejected,
        )

    def gauges(self) -> tuple[int, int, int, int]:
        """Return the slots in use, the free slots, the waiters, and the age of the oldest waiter in ms."""
        value = self._value
        waiters = self._waiters
        active = self._counters.limit - value
        available = value if value > 0 else 0
        if not waiters:
            return active, available, 0, 0
        try:
            queued_at = next(iter(waiters.values()))
        except (RuntimeError, StopIteration):  # Another thread's loop changed the queue meanwhile.
            return active, available, len(waiters), 0
        return active, available, len(waiters), max(0, int((clock.monotonic() - queued_at) * 1000))

    # Acquiring. The path of a free slot is written out in both places: a call would cost what the base class costs.

    def locked(self) -> bool:
        """Return True if a slot can not be acquired immediately."""
        return self._value <= 0

    async def __aenter__(self) -> None:
        value = self._value
        if value > 0:
            self._value = value = value - 1
            counters = self._counters
            if value < counters.lowest_value:
                counters.lowest_value = value
            counters.admissions += 1
        else:
            await self._queue(self._admission_timeout)

    async def acquire(self, *, timeout: float | Unset | None = UNSET) -> Literal[True]:
        """Take a slot, waiting for one if none is free, and return True.

        `timeout` is in seconds: how long this call may wait, None for as long as it takes, 0 for not at all. It
        overrides the ``admission_timeout`` of the semaphore.

        Raises :class:`AdmissionTimeoutError`, which is a TimeoutError, when no slot became free in time, and
        :class:`QueueFullError` when ``max_queue_depth`` waiters are there already.
        """
        if timeout is UNSET:
            timeout = self._admission_timeout
        else:
            timeout = _checked_timeout("timeout", timeout)
            if timeout is not None:
                self._counters.can_time_out = True
        value = self._value
        if value > 0:
            self._value = value = value - 1
            counters = self._counters
            if value < counters.lowest_value:
                counters.lowest_value = value
            counters.admissions += 1
        else:
            await self._queue(timeout)
        return True

    def slot(self, *, timeout: float | Unset | None = UNSET) -> _Slot:
        """Return a context manager that holds a slot, with a timeout of its own.

        >>> async def answer(request):
        ...     async with limit.slot(timeout=request.seconds_left()):
        ...         ...

        `timeout` means what it means in :meth:`acquire`.
        """
        if timeout is not UNSET:
            timeout = _checked_timeout("timeout", timeout)
        return _Slot(self, timeout)

    async def _queue(self, timeout: float | None) -> None:
        """Wait for a slot, `timeout` seconds at most; the caller has seen that none is free."""
        counters = self._counters
        waiters = self._waiters
        if timeout == 0:
            counters.admission_timeouts += 1
            raise AdmissionTimeoutError(self._message("no slot is free"))
        if self._max_queue_depth is not None and len(waiters) >= self._max_queue_depth:
            counters.admission_rejected += 1
            raise QueueFullError(self._message(f"the queue is full, max_queue_depth={self._max_queue_depth}"))

        loop = _get_running_loop()
        if loop is not self._loop:  # The base class's own check that it has one loop.
            loop = self._get_loop()  # type: ignore[attr-defined]  # Of the base class.
        waiter: asyncio.Future[bool] = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, self._time_out, waiter)
        queued_at = clock.monotonic()
        if not waiters:
            counters.contended_since = queued_at
            self._waiters_thread = get_ident()
        waiters[waiter] = queued_at
        depth = len(waiters)
        if depth > counters.queue_depth_peak:
            counters.queue_depth_peak = depth
        if self._value > 0:  # Freed since the caller looked, by another thread or the garbage collector.
            self._value -= 1
            self._pass_on()

        try:
            granted = await waiter
        except BaseException:  # Cancelled, or the coroutine was closed.
            counters.admission_cancelled += 1
            self._leave(waiter)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if counters.waits is not None:
                counters.waits(round(max(0.0, clock.monotonic() - queued_at) * 1000, 3))
        if not granted:
            counters.admission_timeouts += 1
            raise AdmissionTimeoutError(self._message(f"no slot within {timeout} s"))
        self._bound_value += 1
        counters.admissions += 1
        counters.admissions_queued += 1

    def _time_out(self, waiter: asyncio.Future[bool]) -> None:
        # A waiter that was granted a slot or cancelled in this pass of the loop stays so.
        if not waiter.done() and self._waiters.pop(waiter, None) is not None:
            if not self._waiters:
                self._end_contention()
            waiter.set_result(False)

    def _leave(self, waiter: asyncio.Future[bool]) -> None:
        """Undo what was done for a waiter whose coroutine ends without being admitted."""
        if self._waiters.pop(waiter, None) is not None:
            if not self._waiters:
                self._end_contention()
        elif waiter.done() and not waiter.cancelled() and waiter.result():
            try:
                self._undo_grant()
            except ForeignThreadError:  # The coroutine was closed in another thread.
                waiter.get_loop().call_soon_threadsafe(self._undo_grant)

    def _undo_grant(self) -> None:
        self._pass_on()
        self._bound_value += 1

    # Releasing.

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        value = self._value
        if value >= self._bound_value:
            self.release()  # Which raises.
        elif self._waiters:
            self._pass_on()
        else:
            self._value = value + 1

    def release(self) -> None:
        """Give a slot back; the first waiter, if there is one, owns it from now on.

        Raises :class:`OverReleaseError`, which is a ValueError, when no holder has a slot to give back, and
        :class:`ForeignThreadError` in another thread than the event loop's when a waiter would have to be woken:
        use ``loop.call_soon_threadsafe(semaphore.release)`` there.
        """
        value = self._value
        if value >= self._bound_value:
            raise OverReleaseError(self._message("released more often than acquired"))
        if self._waiters:
            self._pass_on()
        else:
            self._value = value + 1

    def set_limit(self, limit: int) -> None:
        """Change the number of slots.

        More slots wake waiters at once. Fewer take effect as holders leave; until then ``available`` is 0.

        Raises :class:`PushmetricsError` (a ValueError or TypeError) unless `limit` is an integer of at least 0, and
        :class:`ForeignThreadError` where :meth:`release` does.
        """
        limit = integer("limit", limit, 0)
        counters = self._counters
        added = limit - counters.limit
        if self._value + added > 0 and self._waiters and _get_running_loop() is not self._loop:
            self._check_loop()
        counters.limit = limit
        counters.lowest_value += added
        self._bound_value += added
        self._value += added
        while self._value > 0 and self._waiters:
            self._value -= 1
            self._pass_on()
        counters.lowest_value = min(counters.lowest_value, self._value)

    def _pass_on(self) -> None:
        """Pass one slot, which counts as active now, to the first waiter; it becomes free when there is none."""
        waiters = self._waiters
        if waiters and self._value >= 0:
            if _get_running_loop() is not self._loop:
                self._check_loop()
            while waiters:
                waiter, _ = waiters.popitem(last=False)
                if waiter.done():  # Cancelled; its task has not run yet.
                    continue
                waiter.set_result(True)
                self._bound_value -= 1
                if not waiters:
                    self._end_contention()
                return
            self._end_contention()
        self._value += 1

    def _check_loop(self) -> None:
        """Make sure that waiters can be woken although their loop is not running here; forget those of a closed one."""
        if self._loop.is_closed():
            # No task of theirs will ever run. One by one, since what goes with a waiter may come back here.
            while self._waiters:
                self._waiters.popitem(last=False)
            self._end_contention()
        elif self._loop.is_running() or get_ident() != self._waiters_thread:
            raise ForeignThreadError(
                self._message(
                    "a waiter can only be woken in the thread of its event loop; "
                    "use loop.call_soon_threadsafe(semaphore.release)"
                )
            )

    def _end_contention(self) -> None:
        counters = self._counters
        since = counters.contended_since
        if since is not None:
            spell = max(0.0, clock.monotonic() - since)
            # No call between these two: a reporter in another thread sees the spell open or closed, never neither.
            counters.contended_since = None
            counters.contended_seconds += spell

    def _message(self, what: str) -> str:
        return (
            f"{' '.join(tag.partition(':')[2] for tag in self._tags)}: {what} "
            f"(limit {self.limit}, active {self.active}, queue depth {self.queue_depth})"
        )


@final
class _Slot:
    """One admission to a semaphore as an async context manager."""

    __slots__ = ("_semaphore", "_timeout")

    def __init__(self, semaphore: MeteredSemaphore, timeout: float | Unset | None) -> None:
        self._semaphore = semaphore
        self._timeout = timeout

    async def __aenter__(self) -> None:
        await self._semaphore.acquire(timeout=self._timeout)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._semaphore.release()


def _checked_timeout(argument: str, value: object) -> float | None:
    """Return `value` as a number of seconds, or None."""
    return None if value is None else number(argument, value, 0, what="seconds", besides=", or None")
