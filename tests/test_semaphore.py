"""MeteredSemaphore, one behaviour in each test. Any interleaving of them is in test_semaphore_machine.py."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from conftest import missing

from pushmetrics import (
    AdmissionTimeoutError,
    LimitStatistics,
    MeteredSemaphore,
    PushmetricsError,
    QueueFullError,
    Registry,
)
from pushmetrics.errors import ForeignThreadError, OverReleaseError
from pushmetrics.redaction import shown
from pushmetrics.testing import ManualClock

try:
    import uvloop
except ImportError:
    uvloop = None


def eager_only(test: Callable[..., Any]) -> Callable[..., Any]:
    reason = "eager tasks came with Python 3.12"
    return pytest.mark.skipif(sys.version_info < (3, 12), reason=reason)(pytest.mark.allowed_skip(reason)(test))


def make(value: int = 1, **settings: Any) -> MeteredSemaphore:
    return MeteredSemaphore(value, **{"component": "tests", "limit_name": "semaphore", "registry": None} | settings)


def state(semaphore: MeteredSemaphore) -> tuple[int, int, int]:
    return semaphore.active, semaphore.available, semaphore.queue_depth


def endings(semaphore: MeteredSemaphore) -> dict[str, int]:
    """How many attempts ended in which way, zeros left out."""
    counts = {
        "admitted": semaphore.admissions,
        "timed out": semaphore.admission_timeouts,
        "cancelled": semaphore.admission_cancelled,
        "rejected": semaphore.admission_rejected,
    }
    return {ending: count for ending, count in counts.items() if count}


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def full(value: int = 1, **settings: Any) -> MeteredSemaphore:
    """A semaphore whose slots are all taken."""
    semaphore = make(value, **settings)
    for _ in range(value):
        await semaphore.acquire()
    return semaphore


async def waiters(semaphore: MeteredSemaphore, number: int) -> list[asyncio.Task[Any]]:
    """Tasks that queue one behind the other."""
    tasks = [asyncio.create_task(semaphore.acquire()) for _ in range(number)]
    await turns()
    assert semaphore.queue_depth >= number
    return tasks


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def in_thread(call: Callable[[], Any]) -> Any:
    """Make a call in another thread while this one waits for it."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result()


class LoopTime:
    """The time of the running event loop, which stands still until it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: self.now)

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        await turns()


@pytest.fixture
async def loop_time(monkeypatch: pytest.MonkeyPatch) -> LoopTime:
    return LoopTime(monkeypatch)


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    with ManualClock() as clock:
        yield clock


class TestState:
    """The integers that an operator sees."""

    async def test_slots_that_are_taken_are_active(self) -> None:
        semaphore = make(3)
        assert state(semaphore) == (0, 3, 0)

        await semaphore.acquire()
        async with semaphore:
            assert state(semaphore) == (2, 1, 0)
            assert not semaphore.locked()
            async with semaphore.slot():
                assert state(semaphore) == (3, 0, 0)
                assert semaphore.locked()

        semaphore.release()
        assert state(semaphore) == (0, 3, 0)
        assert endings(semaphore) == {"admitted": 3}
        assert semaphore.admissions_queued == 0

    async def test_a_granted_slot_is_active_before_its_task_runs(self) -> None:
        semaphore = await full()
        (task,) = await waiters(semaphore, 1)

        semaphore.release()

        assert state(semaphore) == (1, 0, 0)
        assert not task.done()
        assert endings(semaphore) == {"admitted": 1}, "is counted when its caller sees it"
        assert await task is True
        assert endings(semaphore) == {"admitted": 2}
        assert semaphore.admissions_queued == 1

    async def test_slots_are_granted_in_the_order_of_the_queue(self) -> None:
        semaphore = await full(2)
        order: list[int] = []

        async def enter(number: int) -> None:
            async with semaphore:
                order.append(number)

        tasks = [asyncio.create_task(enter(number)) for number in range(9)]
        await turns()
        semaphore.release()
        semaphore.release()
        await asyncio.gather(*tasks)

        assert order == list(range(9))

    async def test_statistics_say_what_the_properties_say(self) -> None:
        semaphore = await full(2, max_queue_depth=2, admission_timeout=60)
        tasks = await waiters(semaphore, 2)
        for wrong in (semaphore.acquire(), semaphore.acquire(timeout=0)):
            with pytest.raises(PushmetricsError):
                await wrong
        await cancel(tasks.pop())

        statistics = semaphore.statistics()

        assert isinstance(statistics, LimitStatistics)
        for field in dataclasses.fields(LimitStatistics):
            value = getattr(statistics, field.name)
            assert type(value) is int
            assert value == getattr(semaphore, field.name, value)
        assert (statistics.limit, statistics.active, statistics.queue_depth) == (2, 2, 1)
        assert endings(semaphore) == {"admitted": 2, "rejected": 1, "timed out": 1, "cancelled": 1}
        await cancel(*tasks)

    async def test_statistics_are_frozen(self) -> None:
        semaphore = make()
        statistics = semaphore.statistics()

        await semaphore.acquire()

        assert statistics.active == 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            statistics.active = 1

    @pytest.mark.parametrize(
        "name",
        [
            *(field.name for field in dataclasses.fields(LimitStatistics) if not field.name.endswith("_ms")),
            "admission_timeout",
            "max_queue_depth",
            "tags",
        ],
    )
    def test_nobody_else_writes_the_state(self, name: str) -> None:
        semaphore = make()

        with pytest.raises(AttributeError):
            setattr(semaphore, name, 1)

    async def test_the_oldest_wait_is_that_of_the_head_of_the_queue(self, clock: ManualClock) -> None:
        semaphore = await full()
        assert semaphore.statistics().oldest_wait_ms == 0
        first = await waiters(semaphore, 1)
        await clock.advance(2)
        second = await waiters(semaphore, 1)
        await clock.advance(0.5)
        assert semaphore.statistics().oldest_wait_ms == 2500

        await cancel(*first)
        assert semaphore.statistics().oldest_wait_ms == 500

        semaphore.release()
        assert semaphore.statistics().oldest_wait_ms == 0, "granted, so it waits no more"
        await asyncio.gather(*second)

    async def test_contended_time_is_the_time_with_a_waiter(self, clock: ManualClock) -> None:
        semaphore = await full()
        await clock.advance(10)
        assert semaphore.statistics().contended_ms == 0, "full, but nobody waits"

        tasks = await waiters(semaphore, 2)
        await clock.advance(1)
        assert semaphore.statistics().contended_ms == 1000, "a spell that is still open counts"
        await cancel(tasks[0])
        await clock.advance(1)
        semaphore.release()
        await clock.advance(10)
        assert semaphore.statistics().contended_ms == 2000

        (task,) = await waiters(semaphore, 1)
        await clock.advance(0.25)
        await cancel(task)
        await clock.advance(10)
        assert semaphore.statistics().contended_ms == 2250

    async def test_a_timeout_ends_the_contended_time(self, clock: ManualClock, loop_time: LoopTime) -> None:
        semaphore = await full(admission_timeout=3)
        (task,) = await waiters(semaphore, 1)
        await clock.advance(3)
        await loop_time.advance(3)
        await clock.advance(10)

        assert semaphore.statistics().contended_ms == 3000
        assert isinstance(task.exception(), AdmissionTimeoutError)

    async def test_contended_time_ends_when_every_waiter_was_cancelled_before_a_release(
        self, clock: ManualClock
    ) -> None:
        semaphore = await full()
        tasks = await waiters(semaphore, 2)
        clock.stall(1)
        for task in tasks:
            task.cancel()
        semaphore.release()
        await asyncio.wait(tasks)
        clock.stall(10)

        assert semaphore.statistics().contended_ms == 1000

    async def test_each_wait_is_measured_however_it_ends(self, clock: ManualClock, loop_time: LoopTime) -> None:
        registry = Registry()
        list(registry.collect("full"))  # From now on somebody wants to know.
        semaphore = await full(registry=registry)
        admitted, cancelled = await waiters(semaphore, 2)
        timed_out = asyncio.create_task(semaphore.acquire(timeout=60))
        await turns()
        clock.stall(0.25)
        semaphore.release()
        await admitted
        clock.stall(0.5)
        await cancel(cancelled)
        clock.stall(1)
        await loop_time.advance(60)
        assert timed_out.done()

        (sample,) = registry.collect("full")
        assert sorted(sample.waits) == [250, 750, 1750]

    async def test_a_clock_that_goes_back_makes_no_negative_number(self, clock: ManualClock) -> None:
        semaphore = await full()
        (task,) = await waiters(semaphore, 1)
        clock.stall(-5)

        statistics = semaphore.statistics()
        assert (statistics.oldest_wait_ms, statistics.contended_ms) == (0, 0)
        await cancel(task)
        assert semaphore.statistics().contended_ms == 0

    async def test_repr_is_that_of_the_stock_class(self) -> None:
        semaphore = make(2)
        assert repr(semaphore).endswith("MeteredSemaphore object at " + hex(id(semaphore)) + " [unlocked, value:2]>")

        await semaphore.acquire()
        await semaphore.acquire()
        tasks = await waiters(semaphore, 3)
        assert repr(semaphore).endswith(" [locked, waiters:3]>")
        await cancel(*tasks)
        semaphore.set_limit(1)
        assert repr(semaphore).endswith(" [locked]>")

    def test_it_passes_for_the_stock_class(self) -> None:
        assert isinstance(make(), asyncio.BoundedSemaphore)

    def test_the_tags_are_in_normal_form(self) -> None:
        semaphore = make(component="Model Server", server="EU-1", tags={"Region": "eu"})

        assert semaphore.tags == ("component:model_server", "limit_name:semaphore", "server:eu-1", "region:eu")


class TestRelease:
    """Refused exactly when no holder has a slot to give back."""

    async def test_a_second_release_in_the_hand_off_window_is_refused(self) -> None:
        """The stock class lets it pass, and two tasks are inside a limit of 1."""
        semaphore = await full()
        inside = most_inside = 0

        async def enter() -> None:
            nonlocal inside, most_inside
            async with semaphore:
                inside += 1
                most_inside = max(most_inside, inside)
                await turns()
                inside -= 1

        tasks = [asyncio.create_task(enter()) for _ in range(2)]
        await turns()

        semaphore.release()
        for _ in range(2):
            with pytest.raises(OverReleaseError):
                semaphore.release()
        assert state(semaphore) == (1, 0, 1)

        await asyncio.gather(*tasks)
        assert most_inside == 1
        assert state(semaphore) == (0, 1, 0)

    @pytest.mark.parametrize("in_between", range(8))
    @pytest.mark.parametrize("position", range(4))
    async def test_one_release_too_many_at_each_position(self, position: int, in_between: int) -> None:
        """Limit 3, five waiters: some get in first, then three holders leave, with a turn of the loop or without."""
        semaphore = await full(3)
        tasks = await waiters(semaphore, 5)
        for _ in range(position):
            semaphore.release()
        await turns()
        assert semaphore.active == 3

        holders, granted = 3, 0
        for step in range(3):
            if in_between & (1 << step):
                await turns()
                holders, granted = holders + granted, 0
            depth = semaphore.queue_depth
            semaphore.release()  # Legal, so never refused.
            holders, granted = holders - 1, granted + (depth > 0)
            assert (semaphore.active, semaphore.queue_depth) == (holders + granted, max(0, depth - 1))
        for _ in range(holders):
            semaphore.release()
            granted = min(3, granted + 1)
        before = state(semaphore)
        with pytest.raises(OverReleaseError):
            semaphore.release()
        assert state(semaphore) == before

        await turns()
        assert before == state(semaphore)
        while not all(task.done() for task in tasks):
            semaphore.release()
            await turns()
        for _ in range(semaphore.active):
            semaphore.release()
        assert state(semaphore) == (0, 3, 0)

    @pytest.mark.parametrize("limit", [0, 1, 3])
    def test_a_release_of_what_nobody_took_is_refused(self, limit: int) -> None:
        semaphore = make(limit)

        with pytest.raises(OverReleaseError, match="released more often than acquired") as raised:
            semaphore.release()

        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, PushmetricsError)
        assert "tests semaphore" in str(raised.value)
        assert state(semaphore) == (0, limit, 0)

    async def test_a_block_that_was_left_already_is_refused_at_its_end(self) -> None:
        semaphore = make(2)

        with pytest.raises(OverReleaseError):
            async with semaphore:
                semaphore.release()

        assert state(semaphore) == (0, 2, 0)

    async def test_the_end_of_a_block_in_the_hand_off_window_is_refused(self) -> None:
        semaphore = make()

        async def leave_twice() -> None:
            async with semaphore:
                tasks.extend(await waiters(semaphore, 1))
                semaphore.release()  # To the waiter, so that nothing is left for the end of the block.

        tasks: list[asyncio.Task[Any]] = []
        with pytest.raises(OverReleaseError):
            await leave_twice()

        assert await tasks[0] is True
        assert state(semaphore) == (1, 0, 0)

    async def test_a_holder_may_release_while_another_slot_is_handed_over(self) -> None:
        semaphore = await full(2)
        tasks = await waiters(semaphore, 1)

        semaphore.release()
        semaphore.release()

        assert state(semaphore) == (1, 1, 0)
        await asyncio.gather(*tasks)


class TestSlot:
    """The context manager with a timeout of its own."""

    async def test_an_exception_inside_gives_the_slot_back(self) -> None:
        semaphore = make()

        for block in (semaphore, semaphore.slot()):
            with pytest.raises(ZeroDivisionError):
                async with block:
                    raise ZeroDivisionError

        assert state(semaphore) == (0, 1, 0)

    async def test_binds_nothing(self) -> None:
        async with make() as first, make().slot() as second:
            assert first is None
            assert second is None

    async def test_one_object_may_be_entered_again(self) -> None:
        semaphore = make(2)
        slot = semaphore.slot(timeout=1)

        async with slot, slot:
            assert semaphore.active == 2

        assert semaphore.active == 0

    async def test_a_timeout_leaves_nothing_behind(self) -> None:
        semaphore = await full()

        with pytest.raises(AdmissionTimeoutError):
            async with semaphore.slot(timeout=0):
                pytest.fail("nobody gets in")

        assert state(semaphore) == (1, 0, 0)
        assert endings(semaphore) == {"admitted": 1, "timed out": 1}


class TestTimeout:
    """The admission timeout lives inside the semaphore."""

    async def test_is_counted_as_a_timeout_and_nothing_else(self, loop_time: LoopTime) -> None:
        semaphore = await full()
        task = asyncio.create_task(semaphore.acquire(timeout=5))
        await turns()
        await loop_time.advance(4.9)
        assert state(semaphore) == (1, 0, 1)

        await loop_time.advance(0.2)

        with pytest.raises(AdmissionTimeoutError, match=r"tests semaphore: no slot within 5\.0 s \(limit 1") as raised:
            await task
        assert isinstance(raised.value, TimeoutError)
        assert isinstance(raised.value, PushmetricsError)
        assert state(semaphore) == (1, 0, 0)
        assert endings(semaphore) == {"admitted": 1, "timed out": 1}

    @pytest.mark.parametrize("way", ["acquire", "async with", "slot"])
    async def test_the_semaphores_own_holds_everywhere(self, way: str, loop_time: LoopTime) -> None:
        semaphore = await full(admission_timeout=2)

        async def enter() -> None:
            if way == "acquire":
                await semaphore.acquire()
            else:
                async with semaphore if way == "async with" else semaphore.slot():
                    pytest.fail("nobody gets in")

        task = asyncio.create_task(enter())
        await turns()
        await loop_time.advance(2)

        assert isinstance(task.exception(), AdmissionTimeoutError)

    @pytest.mark.parametrize(("given", "ends_after"), [(None, 10**6), (7, 7), (1, 1)])
    async def test_a_calls_own_comes_first(self, given: float | None, ends_after: float, loop_time: LoopTime) -> None:
        semaphore = await full(admission_timeout=2)

        async def enter() -> None:
            async with semaphore.slot(timeout=given):
                pytest.fail("nobody gets in")

        tasks = [asyncio.create_task(semaphore.acquire(timeout=given)), asyncio.create_task(enter())]
        await turns()
        await loop_time.advance(ends_after - 0.5)
        assert not any(task.done() for task in tasks)
        await loop_time.advance(1)

        assert [task.done() for task in tasks] == [given is not None] * 2
        await cancel(*tasks)

    async def test_of_zero_admits_when_a_slot_is_free(self) -> None:
        """Tornado read 0 as none, asyncio.wait_for refused (tornado#3271, cpython#75737)."""
        semaphore = make(3, admission_timeout=0)

        assert await semaphore.acquire(timeout=0) is True
        async with semaphore, semaphore.slot(timeout=0):
            assert semaphore.active == 3

        assert endings(semaphore) == {"admitted": 3}

    @pytest.mark.parametrize("zero", [0, 0.0, -0.0, Decimal(0)])
    async def test_of_zero_ends_at_once_when_none_is(self, zero: Any) -> None:
        semaphore = await full()
        attempt = semaphore.acquire(timeout=zero)

        with pytest.raises(AdmissionTimeoutError, match="no slot is free"):
            attempt.send(None)  # Its first step, so the loop had no turn.

        assert semaphore.queue_depth == 0
        assert endings(semaphore) == {"admitted": 1, "timed out": 1}

    async def test_a_grant_before_the_timer_in_one_pass_is_an_admission(self, loop_time: LoopTime) -> None:
        semaphore = await full()
        task = asyncio.create_task(semaphore.acquire(timeout=5))
        await turns()

        loop_time.now += 5
        # Runs in the pass in which the timer goes off, and before it: the timer finds a waiter that was granted.
        asyncio.get_running_loop().call_soon(semaphore.release)
        await turns()

        assert task.result() is True
        assert endings(semaphore) == {"admitted": 2}
        assert state(semaphore) == (1, 0, 0)

    async def test_a_timer_before_the_release_is_a_timeout_and_the_next_gets_the_slot(
        self, loop_time: LoopTime
    ) -> None:
        semaphore = await full()
        first, second = (asyncio.create_task(semaphore.acquire(timeout=timeout)) for timeout in (5, None))
        await turns()

        loop_time.now += 5
        asyncio.get_running_loop().call_later(0, semaphore.release)  # Due later than the timer, in the same pass.
        await turns()

        assert isinstance(first.exception(), AdmissionTimeoutError)
        assert second.result() is True
        assert state(semaphore) == (1, 0, 0)
        assert endings(semaphore) == {"admitted": 2, "timed out": 1}

    async def test_a_cancel_before_the_timer_in_one_pass_is_a_cancellation(self, loop_time: LoopTime) -> None:
        semaphore = await full()
        task = asyncio.create_task(semaphore.acquire(timeout=5))
        await turns()
        errors: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))

        loop_time.now += 5
        asyncio.get_running_loop().call_soon(task.cancel)  # Before the timer, in the same pass.
        await turns()

        assert task.cancelled()
        assert endings(semaphore) == {"admitted": 1, "cancelled": 1}
        assert errors == []

    async def test_a_cancel_between_the_timer_and_the_task_is_not_swallowed(self, loop_time: LoopTime) -> None:
        semaphore = await full()
        task = asyncio.create_task(semaphore.acquire(timeout=5))
        await turns()

        loop_time.now += 5
        asyncio.get_running_loop().call_later(0, task.cancel)  # Due later than the timer, in the same pass.
        await turns()

        assert task.cancelled()
        assert endings(semaphore) == {"admitted": 1, "cancelled": 1}
        assert state(semaphore) == (1, 0, 0)

    async def test_leaves_the_cancel_count_alone(self, loop_time: LoopTime) -> None:
        """A timeout made of task.cancel() breaks the TaskGroup around it (cpython#102780)."""
        semaphore = await full()
        steps: list[str] = []

        async def child() -> None:
            with pytest.raises(TimeoutError):
                await semaphore.acquire(timeout=5)
            assert asyncio.current_task().cancelling() == 0
            async with asyncio.TaskGroup() as inner:
                inner.create_task(turns())
            steps.append("child went on")

        async def parent() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(child())
                with pytest.raises(TimeoutError):
                    await semaphore.acquire(timeout=5)
                assert asyncio.current_task().cancelling() == 0
            steps.append("parent went on")

        task = asyncio.create_task(parent())
        await turns()
        await loop_time.advance(5)
        await task

        assert steps == ["child went on", "parent went on"]

    async def test_a_failing_sibling_in_a_task_group_is_a_cancellation(self) -> None:
        semaphore = await full(admission_timeout=60)

        async def fail() -> None:
            await turns()
            raise ZeroDivisionError

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(semaphore.acquire())
                group.create_task(fail())

        with pytest.raises(ExceptionGroup) as raised:
            await work()

        assert raised.group_contains(ZeroDivisionError)
        assert endings(semaphore) == {"admitted": 1, "cancelled": 1}

    @pytest.mark.parametrize("timeout", [0, 5])
    async def test_works_in_the_finally_of_a_cancelled_task(self, timeout: float, loop_time: LoopTime) -> None:
        """Where a timeout made of task.cancel() is taken for the cancel that is going on (cpython#102780)."""
        semaphore = await full()
        seen: list[BaseException] = []

        async def work() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                try:
                    async with semaphore.slot(timeout=timeout):
                        pytest.fail("nobody gets in")
                except TimeoutError as error:
                    seen.append(error)

        task = asyncio.create_task(work())
        await turns()
        task.cancel()
        await turns()
        await loop_time.advance(5)

        with pytest.raises(asyncio.CancelledError):
            await task
        assert [type(error) for error in seen] == [AdmissionTimeoutError]
        assert endings(semaphore) == {"admitted": 1, "timed out": 1}

    @pytest.mark.parametrize("stock", ["wait_for", "timeout"])
    async def test_a_timeout_of_asyncio_around_it_is_a_cancellation(self, stock: str, loop_time: LoopTime) -> None:
        semaphore = await full(admission_timeout=60)

        async def enter() -> None:
            if stock == "wait_for":
                await asyncio.wait_for(semaphore.acquire(), 5)
            else:
                async with asyncio.timeout(5):
                    await semaphore.acquire()

        task = asyncio.create_task(enter())
        await turns()
        await loop_time.advance(5)
        await turns()

        assert type(task.exception()) is TimeoutError
        assert endings(semaphore) == {"admitted": 1, "cancelled": 1}
        assert state(semaphore) == (1, 0, 0)

    async def test_needs_no_current_task(self, loop_time: LoopTime) -> None:
        """asyncio.timeout() does, and there is none in a callback (hypercorn#375, cpython#97696)."""
        semaphore = await full()
        attempts = [semaphore.acquire(timeout=5) for _ in range(2)]

        def begin() -> None:
            assert asyncio.current_task() is None
            for attempt in attempts:
                attempt.send(None)

        asyncio.get_running_loop().call_soon(begin)
        await turns()
        semaphore.release()
        await loop_time.advance(5)

        with pytest.raises(StopIteration):
            attempts[0].send(None)
        with pytest.raises(AdmissionTimeoutError):
            attempts[1].send(None)

    @pytest.mark.parametrize("where", ["nowhere", "semaphore", "call", "slot"])
    async def test_is_reported_only_where_it_can_happen(self, where: str) -> None:
        registry = Registry()
        semaphore = make(registry=registry, admission_timeout=5 if where == "semaphore" else None)
        if where == "call":
            await semaphore.acquire(timeout=5)
        if where == "slot":
            async with semaphore.slot(timeout=5):
                pass
        if where == "nowhere":
            await semaphore.acquire(timeout=None)

        (sample,) = registry.collect()

        assert ("admission_timeouts_total" in sample.descriptor.names) == (where != "nowhere")

    @pytest.mark.parametrize("timeout", [1e-9, 1e9, 1e300])
    async def test_any_finite_number_is_a_timeout(self, timeout: float) -> None:
        semaphore = await full()
        task = asyncio.create_task(semaphore.acquire(timeout=timeout))
        await turns(1)
        semaphore.release()

        assert await task is True


class TestCancellation:
    """A cancel is never swallowed, and nobody sleeps beside a free slot."""

    async def test_of_a_waiter_takes_it_out_of_the_queue(self) -> None:
        semaphore = await full()
        tasks = await waiters(semaphore, 3)

        await cancel(tasks[1])
        assert tasks[1].cancelled()
        assert state(semaphore) == (1, 0, 2)
        assert endings(semaphore) == {"admitted": 1, "cancelled": 1}

        semaphore.release()
        assert await tasks[0] is True
        await cancel(*tasks)
        assert state(semaphore) == (1, 0, 0)

    async def test_of_a_waiter_that_is_being_woken_passes_its_slot_on(self) -> None:
        """In asyncio, this left the semaphore shut (cpython#90155)."""
        semaphore = await full()
        first, second = await waiters(semaphore, 2)

        semaphore.release()
        first.cancel()
        await turns()

        assert first.cancelled()
        assert second.result() is True
        assert state(semaphore) == (1, 0, 0)
        assert endings(semaphore) == {"admitted": 2, "cancelled": 1}
        assert semaphore.admissions_queued == 1

    async def test_of_the_last_waiter_that_is_being_woken_frees_its_slot(self) -> None:
        semaphore = await full(2)
        tasks = await waiters(semaphore, 2)

        semaphore.release()
        semaphore.release()
        await cancel(*tasks)

        assert state(semaphore) == (0, 2, 0)
        await asyncio.gather(semaphore.acquire(), semaphore.acquire())

    async def test_newcomers_do_not_overtake_the_queue(self) -> None:
        """In asyncio, they did after a cancel at the wrong moment (cpython#90155)."""
        semaphore = await full()
        first, second = await waiters(semaphore, 2)
        semaphore.release()
        first.cancel()
        order: list[str] = []
        second.add_done_callback(lambda _: order.append("second"))

        async def newcomer() -> None:
            await semaphore.acquire()
            order.append("newcomer")

        newcomers = [asyncio.create_task(newcomer()) for _ in range(2)]
        await turns()
        assert order == ["second"]
        assert semaphore.queue_depth == 2

        semaphore.release()
        await newcomers[0]
        assert order == ["second", "newcomer"]
        await cancel(*newcomers)

    async def test_a_release_skips_waiters_that_were_cancelled_in_the_same_pass(self) -> None:
        semaphore = await full()
        tasks = await waiters(semaphore, 4)

        for task in tasks[:3]:
            task.cancel()
        semaphore.release()
        assert state(semaphore) == (1, 0, 0)
        await turns()

        assert [task.cancelled() for task in tasks] == [True, True, True, False]
        assert tasks[3].result() is True
        assert endings(semaphore) == {"admitted": 2, "cancelled": 3}

    async def test_a_release_frees_the_slot_when_every_waiter_was_cancelled_in_the_same_pass(self) -> None:
        semaphore = await full()
        tasks = await waiters(semaphore, 2)

        for task in tasks:
            task.cancel()
        semaphore.release()

        assert state(semaphore) == (0, 1, 0)
        await turns()
        assert endings(semaphore) == {"admitted": 1, "cancelled": 2}

    async def test_inside_a_block_gives_the_slot_to_the_next(self) -> None:
        semaphore = make()

        async def hold() -> None:
            async with semaphore:
                await asyncio.sleep(3600)

        first, second = (asyncio.create_task(hold()) for _ in range(2))
        await turns()
        await cancel(first)

        assert state(semaphore) == (1, 0, 0)
        assert endings(semaphore) == {"admitted": 2}
        await cancel(second)
        assert state(semaphore) == (0, 1, 0)

    async def test_a_task_that_nobody_refers_to_waits_on(self) -> None:
        """A task that only its own circle of references keeps is collected (HAP-python#460)."""
        semaphore = await full()
        admitted: list[bool] = []

        async def enter() -> None:
            async with semaphore:
                admitted.append(True)

        asyncio.get_running_loop().create_task(enter())
        await turns()
        gc.collect()
        semaphore.release()
        await turns()

        assert admitted == [True]

    @eager_only
    async def test_an_eager_task_is_admitted_or_queues_in_its_first_step(self) -> None:
        semaphore = make()
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)

        first = asyncio.create_task(semaphore.acquire())
        second = asyncio.create_task(semaphore.acquire(timeout=60))
        third = asyncio.create_task(semaphore.acquire(timeout=0))

        assert (first.done(), second.done(), third.done()) == (True, False, True)
        assert state(semaphore) == (1, 0, 1)
        assert isinstance(third.exception(), AdmissionTimeoutError)
        semaphore.release()
        assert await second is True


class TestClosedCoroutine:
    """A closed coroutine is a cancellation."""

    async def test_that_waits_leaves_the_queue(self) -> None:
        semaphore = await full()
        attempt = semaphore.acquire(timeout=60)
        attempt.send(None)
        assert state(semaphore) == (1, 0, 1)

        attempt.close()

        assert state(semaphore) == (1, 0, 0)
        assert endings(semaphore) == {"admitted": 1, "cancelled": 1}

    async def test_that_is_collected_leaves_the_queue(self) -> None:
        semaphore = await full()
        attempt = semaphore.acquire()
        attempt.send(None)

        del attempt
        gc.collect()

        assert state(semaphore) == (1, 0, 0)
        assert endings(semaphore) == {"admitted": 1, "cancelled": 1}

    async def test_that_was_granted_passes_its_slot_on(self) -> None:
        semaphore = await full()
        attempt = semaphore.acquire()
        attempt.send(None)
        (task,) = await waiters(semaphore, 1)
        semaphore.release()
        assert state(semaphore) == (1, 0, 1)

        attempt.close()

        assert state(semaphore) == (1, 0, 0)
        with pytest.raises(OverReleaseError):  # The slot is in the hand-off window again.
            semaphore.release()
        assert await task is True
        assert endings(semaphore) == {"admitted": 2, "cancelled": 1}

    async def test_that_timed_out_is_counted_once(self, loop_time: LoopTime) -> None:
        semaphore = await full()
        attempt = semaphore.acquire(timeout=5)
        attempt.send(None)
        await loop_time.advance(5)
        assert state(semaphore) == (1, 0, 0)

        attempt.close()

        assert state(semaphore) == (1, 0, 0)
        assert endings(semaphore) == {"admitted": 1, "cancelled": 1}

    async def test_that_waits_may_be_closed_in_another_thread(self) -> None:
        semaphore = await full()
        attempt = semaphore.acquire(timeout=60)
        attempt.send(None)

        in_thread(attempt.close)

        assert state(semaphore) == (1, 0, 0)
        semaphore.release()
        assert state(semaphore) == (0, 1, 0)

    async def test_that_was_granted_and_closed_in_another_thread_lets_the_loop_pass_its_slot_on(self) -> None:
        semaphore = await full()
        attempt = semaphore.acquire()
        attempt.send(None)
        (task,) = await waiters(semaphore, 1)
        semaphore.release()

        in_thread(attempt.close)

        assert state(semaphore) == (1, 0, 1), "on its way"
        with pytest.raises(OverReleaseError):  # It has no holder meanwhile.
            semaphore.release()
        await turns()
        assert task.result() is True
        assert state(semaphore) == (1, 0, 0)
        semaphore.release()
        assert state(semaphore) == (0, 1, 0)

    async def test_that_was_granted_and_closed_in_another_thread_frees_its_slot_when_nobody_waits(self) -> None:
        semaphore = await full()
        attempt = semaphore.acquire()
        attempt.send(None)
        semaphore.release()

        in_thread(attempt.close)

        assert state(semaphore) == (0, 1, 0)
        await semaphore.acquire()
        semaphore.release()


class TestThreads:
    """A release in a foreign thread works where nobody has to be woken, and is refused elsewhere, never lost."""

    async def test_a_release_with_nobody_waiting(self) -> None:
        semaphore = await full(2)

        await asyncio.to_thread(semaphore.release)

        assert state(semaphore) == (1, 1, 0)

    @pytest.mark.parametrize("call", ["release", "set_limit"])
    async def test_whoever_would_have_to_wake_a_waiter_is_refused(self, call: str) -> None:
        """In asyncio the waiter sleeps on, or counts are lost (cpython#120974, #128002)."""
        semaphore = await full()
        (task,) = await waiters(semaphore, 1)
        arguments = () if call == "release" else (2,)
        before = semaphore.statistics()

        with pytest.raises(ForeignThreadError, match=r"call_soon_threadsafe\(semaphore.release\)") as raised:
            await asyncio.to_thread(getattr(semaphore, call), *arguments)

        assert isinstance(raised.value, RuntimeError)
        assert isinstance(raised.value, PushmetricsError)
        after = dataclasses.replace(
            semaphore.statistics(), oldest_wait_ms=before.oldest_wait_ms, contended_ms=before.contended_ms
        )
        assert after == before
        asyncio.get_running_loop().call_soon_threadsafe(getattr(semaphore, call), *arguments)
        assert await task is True

    async def test_a_loop_of_its_own_does_not_help_a_foreign_thread(self) -> None:
        semaphore = await full()
        (task,) = await waiters(semaphore, 1)

        async def release() -> None:
            semaphore.release()

        with pytest.raises(ForeignThreadError):
            await asyncio.to_thread(asyncio.run, release())

        semaphore.release()
        assert await task is True

    async def test_a_release_too_many_is_called_that_in_any_thread(self) -> None:
        semaphore = await full()
        (task,) = await waiters(semaphore, 1)
        semaphore.release()

        with pytest.raises(OverReleaseError):
            await asyncio.to_thread(semaphore.release)

        assert await task is True

    async def test_a_lowered_limit_needs_nobody_to_be_woken(self) -> None:
        semaphore = await full(2)
        (task,) = await waiters(semaphore, 1)
        semaphore.set_limit(0)

        await asyncio.to_thread(semaphore.release)
        await asyncio.to_thread(semaphore.set_limit, 1)

        assert state(semaphore) == (1, 0, 1)
        await cancel(task)

    def test_a_release_while_another_task_is_about_to_queue_is_not_lost(self) -> None:
        """The thread sees no waiter, the task sees no slot, and the waiter sleeps on (cpython#120974)."""

        class Loop(asyncio.SelectorEventLoop):
            meanwhile: Callable[[], None] | None = None

            def create_future(self) -> asyncio.Future[Any]:
                meanwhile, self.meanwhile = self.meanwhile, None
                if meanwhile is not None:
                    in_thread(meanwhile)
                return super().create_future()

        async def main() -> None:
            semaphore = await full()
            loop = asyncio.get_running_loop()
            assert isinstance(loop, Loop)
            loop.meanwhile = semaphore.release

            async with asyncio.timeout(10):
                await semaphore.acquire()

            assert state(semaphore) == (1, 0, 0)
            assert endings(semaphore) == {"admitted": 2}
            semaphore.release()
            assert state(semaphore) == (0, 1, 0)

        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(main())

    async def test_counts_are_exact_when_threads_release(self) -> None:
        """The counts of a stock semaphore may be off after this (cpython#128002)."""
        number, each = 4, 2000
        semaphore = await full(number * each)
        semaphore.set_limit(number * each + 1)
        start = threading.Barrier(number + 1)

        def release() -> None:
            start.wait()
            for _ in range(each):
                semaphore.release()

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(number) as threads:
                releases = [threads.submit(release) for _ in range(number)]
                start.wait()
                for _ in range(each):
                    async with semaphore:
                        pass
                for done in releases:
                    done.result()
        finally:
            sys.setswitchinterval(interval)

        assert state(semaphore) == (0, number * each + 1, 0)
        assert semaphore.admissions == (number + 1) * each


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> Iterator[Callable[[], asyncio.AbstractEventLoop]]:
    """Makes event loops, closed afterwards, that keep it to themselves when a pending task is destroyed."""
    if request.param == "uvloop" and uvloop is None:
        missing("uvloop, from PyPI")
    loops: list[asyncio.AbstractEventLoop] = []

    def new() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop() if request.param == "asyncio" else uvloop.new_event_loop()
        loop.set_exception_handler(lambda _loop, _context: None)
        loops.append(loop)
        return loop

    yield new
    for loop in loops:
        loop.close()
    gc.collect()


class TestEventLoops:
    """One semaphore and several loops, as module-level semaphores meet them in tests and scripts."""

    @staticmethod
    def leave_waiters(
        loop: asyncio.AbstractEventLoop, semaphore: MeteredSemaphore, holders: int, number: int
    ) -> list[asyncio.Task[Any]]:
        """Close a loop in which there are holders and waiters still."""

        async def main() -> list[asyncio.Task[Any]]:
            for _ in range(holders):
                await semaphore.acquire()
            return await waiters(semaphore, number)

        tasks = loop.run_until_complete(main())
        loop.close()
        return tasks

    @pytest.mark.parametrize("limit", [1, 2, 3])
    @pytest.mark.parametrize("referenced", [True, False])
    def test_a_release_where_the_waiters_loop_is_closed_frees_the_slot(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop], limit: int, referenced: bool
    ) -> None:
        semaphore = make(limit)
        tasks = self.leave_waiters(new_loop(), semaphore, limit, 4)
        if not referenced:
            tasks.clear()
            gc.collect()

        async def main() -> None:
            for released in range(1, limit + 1):
                semaphore.release()
                assert state(semaphore) == (limit - released, released, 0)
            with pytest.raises(OverReleaseError):
                semaphore.release()
            for _ in range(2 * limit):
                async with semaphore:
                    assert state(semaphore) == (1, limit - 1, 0)

        new_loop().run_until_complete(main())
        tasks.clear()
        gc.collect()
        assert state(semaphore) == (0, limit, 0)
        assert endings(semaphore) == {"admitted": 3 * limit, "cancelled": 4}

    def test_a_task_that_only_its_waiter_keeps_is_no_double_release(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        """To wake it in a closed loop destroys it, and its coroutine comes back while the slot is handed over."""
        semaphore = make()
        self.leave_waiters(new_loop(), semaphore, 1, 4).clear()

        semaphore.release()

        assert state(semaphore) == (0, 1, 0)
        with pytest.raises(OverReleaseError):
            semaphore.release()
        gc.collect()
        assert state(semaphore) == (0, 1, 0)
        assert endings(semaphore) == {"admitted": 1, "cancelled": 4}

    def test_more_slots_where_the_waiters_loop_is_closed_are_free(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        semaphore = make()
        tasks = self.leave_waiters(new_loop(), semaphore, 1, 2)

        semaphore.set_limit(3)

        assert state(semaphore) == (1, 2, 0)
        tasks.clear()
        gc.collect()
        assert state(semaphore) == (1, 2, 0)

    def test_a_release_in_another_thread_where_the_waiters_loop_is_closed_frees_the_slot(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        """A worker thread whose loop has ended is no reason to refuse the main thread for ever."""
        semaphore = make()
        tasks = in_thread(lambda: self.leave_waiters(new_loop(), semaphore, 1, 2))

        semaphore.release()

        assert state(semaphore) == (0, 1, 0)
        tasks.clear()

    @pytest.mark.parametrize("elsewhere", [False, True])
    def test_a_slot_whose_owner_will_never_run_comes_back_with_its_coroutine(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop], elsewhere: bool
    ) -> None:
        semaphore = make()
        loop = new_loop()
        attempt = semaphore.acquire()

        async def main() -> list[asyncio.Task[Any]]:
            await semaphore.acquire()
            attempt.send(None)
            tasks = await waiters(semaphore, 2)
            semaphore.release()
            return tasks

        tasks = loop.run_until_complete(main())
        loop.close()
        assert state(semaphore) == (1, 0, 2)

        if elsewhere:
            in_thread(attempt.close)
        else:
            attempt.close()

        assert state(semaphore) == (0, 1, 0)
        with pytest.raises(OverReleaseError):
            semaphore.release()
        tasks.clear()

    @pytest.mark.parametrize("ours", [False, True], ids=["stock", "ours"])
    def test_contention_in_a_second_loop_is_an_error_as_in_the_stock_class(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop], ours: bool
    ) -> None:
        semaphore = make() if ours else asyncio.BoundedSemaphore()

        async def contend() -> None:
            async with semaphore:
                task = asyncio.create_task(semaphore.acquire())
                await turns()
            await task
            semaphore.release()

        new_loop().run_until_complete(contend())
        with pytest.raises(RuntimeError, match="is bound to a different event loop"):
            new_loop().run_until_complete(contend())

        if ours:
            assert state(semaphore) == (0, 1, 0)
            assert endings(semaphore) == {"admitted": 3}

    @pytest.mark.parametrize("ours", [False, True], ids=["stock", "ours"])
    def test_without_contention_any_loop_will_do(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop], ours: bool
    ) -> None:
        semaphore = make(2) if ours else asyncio.BoundedSemaphore(2)

        async def use() -> None:
            async with semaphore, semaphore:
                assert semaphore.locked()

        for _ in range(3):
            new_loop().run_until_complete(use())

    def test_a_release_between_two_runs_of_a_loop_wakes_in_the_second(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        loop = new_loop()
        semaphore = loop.run_until_complete(full())
        (task,) = loop.run_until_complete(waiters(semaphore, 1))

        semaphore.release()

        assert loop.run_until_complete(task) is True

    def test_the_thread_of_a_loop_is_the_one_that_runs_it_now(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        loop = new_loop()
        semaphore = loop.run_until_complete(full())
        (task,) = loop.run_until_complete(waiters(semaphore, 1))

        async def release() -> None:
            semaphore.release()

        in_thread(lambda: loop.run_until_complete(release()))

        assert loop.run_until_complete(task) is True

    def test_the_thread_that_ran_a_loop_before_is_a_foreign_one(
        self, new_loop: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        """A waiter that was woken from here would sleep on until something else wakes its loop (cpython#120974)."""
        loop = new_loop()
        semaphore = loop.run_until_complete(full())
        (task,) = loop.run_until_complete(waiters(semaphore, 1))

        async def let_the_main_thread_release() -> None:
            running.set()
            await asyncio.to_thread(tried.wait)
            semaphore.release()

        running, tried = threading.Event(), threading.Event()
        with ThreadPoolExecutor(1) as threads:
            run = threads.submit(loop.run_until_complete, let_the_main_thread_release())
            running.wait()
            try:
                with pytest.raises(ForeignThreadError):
                    semaphore.release()
            finally:
                tried.set()
            run.result()

        assert loop.run_until_complete(task) is True

    def test_a_timer_of_the_real_loop(self, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        """The only millisecond that is waited for: the clock of uvloop is not ours to move."""

        async def main() -> None:
            semaphore = await full()
            with pytest.raises(AdmissionTimeoutError):
                await semaphore.acquire(timeout=0.001)
            waiting = asyncio.create_task(semaphore.acquire(timeout=3600))
            await turns()
            semaphore.release()
            assert await waiting is True
            assert endings(semaphore) == {"admitted": 2, "timed out": 1}

        new_loop().run_until_complete(main())


class TestSetLimit:
    """More slots wake at once, fewer take effect as holders leave."""

    async def test_more_slots_wake_as_many_waiters_in_order(self) -> None:
        semaphore = await full()
        tasks = await waiters(semaphore, 4)

        semaphore.set_limit(3)

        assert semaphore.limit == 3
        assert state(semaphore) == (3, 0, 2)
        await turns()
        assert [task.done() for task in tasks] == [True, True, False, False]
        await cancel(*tasks)

    async def test_more_slots_than_waiters_are_free(self) -> None:
        semaphore = await full()
        tasks = await waiters(semaphore, 2)

        semaphore.set_limit(5)

        assert state(semaphore) == (3, 2, 0)
        await asyncio.gather(*tasks)

    async def test_more_slots_skip_waiters_that_were_cancelled_in_the_same_pass(self) -> None:
        semaphore = await full()
        tasks = await waiters(semaphore, 3)
        tasks[0].cancel()
        tasks[2].cancel()

        semaphore.set_limit(3)

        assert state(semaphore) == (2, 1, 0)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [task.cancelled() for task in tasks] == [True, False, True]

    async def test_fewer_slots_take_effect_as_holders_leave(self) -> None:
        semaphore = await full(4)
        (task,) = await waiters(semaphore, 1)

        semaphore.set_limit(2)
        assert state(semaphore) == (4, 0, 1)
        statistics = semaphore.statistics()
        assert (statistics.limit, statistics.active, statistics.available) == (2, 4, 0)
        semaphore.release()
        assert state(semaphore) == (3, 0, 1)
        semaphore.release()
        assert state(semaphore) == (2, 0, 1)

        semaphore.release()
        assert state(semaphore) == (2, 0, 0)
        assert await task is True
        semaphore.release()
        semaphore.release()
        assert state(semaphore) == (0, 2, 0)
        with pytest.raises(OverReleaseError):
            semaphore.release()

    async def test_a_block_ends_under_a_lowered_limit(self) -> None:
        semaphore = make(2)

        async with semaphore, semaphore:
            semaphore.set_limit(0)
            assert state(semaphore) == (2, 0, 0)
            assert semaphore.statistics().available == 0

        assert state(semaphore) == (0, 0, 0)

    async def test_a_lowered_limit_admits_nobody(self) -> None:
        semaphore = await full(2)
        semaphore.set_limit(1)
        semaphore.release()

        with pytest.raises(AdmissionTimeoutError):
            await semaphore.acquire(timeout=0)

    async def test_slots_that_come_back_are_no_more_than_were_taken_away(self) -> None:
        semaphore = await full(3)
        (task,) = await waiters(semaphore, 1)
        semaphore.set_limit(1)

        semaphore.set_limit(3)

        assert state(semaphore) == (3, 0, 1)
        semaphore.set_limit(4)
        assert state(semaphore) == (4, 0, 0)
        assert await task is True

    async def test_in_the_hand_off_window_leaves_the_count_of_holders_right(self) -> None:
        semaphore = await full(2)
        tasks = await waiters(semaphore, 2)
        semaphore.release()  # One holder, one slot on its way.

        semaphore.set_limit(1)
        semaphore.release()
        with pytest.raises(OverReleaseError):
            semaphore.release()

        await turns()
        assert [task.done() for task in tasks] == [True, False]
        assert state(semaphore) == (1, 0, 1)
        await cancel(*tasks)

    async def test_a_slot_granted_beyond_a_lowered_limit_is_not_passed_on(self) -> None:
        semaphore = await full(2)
        first, second = await waiters(semaphore, 2)
        semaphore.release()
        semaphore.set_limit(1)

        await cancel(first)

        assert state(semaphore) == (1, 0, 1)
        await cancel(second)

    async def test_zero_is_a_limit(self) -> None:
        semaphore = make(0)
        tasks = await waiters(semaphore, 2)
        assert semaphore.locked()

        semaphore.set_limit(1)
        semaphore.set_limit(0)

        assert state(semaphore) == (1, 0, 1)
        await turns()
        assert tasks[0].result() is True
        await cancel(*tasks)

    async def test_the_peak_stays_the_number_of_slots_that_were_in_use(self) -> None:
        registry = Registry()
        semaphore = make(3, registry=registry)

        async with semaphore, semaphore:
            pass
        semaphore.set_limit(10)
        (sample,) = registry.collect()
        assert sample.value("active_peak") == 2

        for _ in range(4):
            await semaphore.acquire()
        for _ in range(4):
            semaphore.release()
        semaphore.set_limit(1)
        (sample,) = registry.collect()
        assert sample.value("active_peak") == 4

    async def test_the_peak_knows_those_who_were_woken(self) -> None:
        registry = Registry()
        semaphore = await full(1, registry=registry)
        tasks = await waiters(semaphore, 3)

        semaphore.set_limit(4)
        await asyncio.gather(*tasks)
        for _ in range(4):
            semaphore.release()

        (sample,) = registry.collect()
        assert sample.value("active_peak") == 4
        assert sample.value("queue_depth_peak") == 3


class TestMaxQueueDepth:
    """An acquire that would be one waiter too many is refused at once."""

    @pytest.mark.parametrize("depth", [0, 1, 3])
    async def test_one_too_many_is_refused_at_once(self, depth: int) -> None:
        semaphore = await full(max_queue_depth=depth)
        tasks = await waiters(semaphore, depth)

        with pytest.raises(QueueFullError, match=rf"max_queue_depth={depth} \(limit 1, active 1") as raised:
            semaphore.acquire().send(None)

        assert isinstance(raised.value, PushmetricsError)
        assert not isinstance(raised.value, TimeoutError)
        assert state(semaphore) == (1, 0, depth)
        assert endings(semaphore) == {"admitted": 1, "rejected": 1}
        await cancel(*tasks)

    async def test_holds_for_blocks_as_well(self) -> None:
        semaphore = await full(max_queue_depth=0)

        for block in (semaphore, semaphore.slot(), semaphore.slot(timeout=60)):
            with pytest.raises(QueueFullError):
                async with block:
                    pytest.fail("nobody gets in")

        assert endings(semaphore) == {"admitted": 1, "rejected": 3}

    async def test_a_free_slot_comes_first(self) -> None:
        semaphore = make(max_queue_depth=0)

        async with semaphore:
            pass
        await semaphore.acquire(timeout=0)

        assert endings(semaphore) == {"admitted": 2}

    async def test_a_timeout_of_zero_comes_before_a_full_queue(self) -> None:
        semaphore = await full(max_queue_depth=0)

        with pytest.raises(AdmissionTimeoutError):
            await semaphore.acquire(timeout=0)

        assert endings(semaphore) == {"admitted": 1, "timed out": 1}

    async def test_who_leaves_the_queue_makes_room(self) -> None:
        semaphore = await full(max_queue_depth=1)
        first = await waiters(semaphore, 1)
        await cancel(*first)
        second = await waiters(semaphore, 1)
        semaphore.release()
        third = await waiters(semaphore, 1)  # The second has a slot, though its task has not run.

        await cancel(*second, *third)
        assert semaphore.admission_rejected == 0


class Integer:
    """As an integer of numpy: no int, but good for an index."""

    def __index__(self) -> int:
        return 7


VALUE, TYPE = ValueError, TypeError
SIX_TAGS = {f"key{number}": "x" for number in range(6)}

BAD_COUNTS = [(-1, VALUE), (1.0, TYPE), (True, TYPE), (False, TYPE), ("3", TYPE), (float("nan"), TYPE), ([], TYPE)]
BAD_TIMEOUTS = [
    (float("nan"), VALUE),
    (float("inf"), VALUE),
    (float("-inf"), VALUE),
    (-1, VALUE),
    (-0.001, VALUE),
    (10**400, VALUE),
    (Decimal("NaN"), VALUE),
    (Decimal("sNaN"), VALUE),
    (True, TYPE),
    (False, TYPE),
    ("1", TYPE),
    (timedelta(seconds=1), TYPE),
    (1j, TYPE),
    ([], TYPE),
]
BAD_NAMES = [
    ("", VALUE),
    (" ", VALUE),
    ("::", VALUE),
    ("\n|#", VALUE),
    (None, TYPE),
    (7, TYPE),
    (b"x", TYPE),
    ([], TYPE),
]

BAD_ARGUMENTS = [
    *(("value", given, error, "at least 0") for given, error in [*BAD_COUNTS, (None, TYPE)]),
    *(("max_queue_depth", given, error, "at least 0") for given, error in BAD_COUNTS),
    *(("admission_timeout", given, error, "at least 0, or None") for given, error in BAD_TIMEOUTS),
    *(
        (name, given, error, "normal form" if error is VALUE else "expected a string")
        for name in ("component", "limit_name", "server")
        for given, error in BAD_NAMES
        if not (name == "server" and given is None)
    ),
    *(
        ("tags", {key: "x"}, VALUE, "use another key")
        for key in (
            *("host", "device", "source", "env", "service", "version", "jmx_check_name"),
            *("component", "limit_name", "server", "worker", "dd.internal.entity_id", "Env", "HOST"),
        )
    ),
    ("tags", ["env:prod"], VALUE, "use another key"),
    ("tags", SIX_TAGS, VALUE, "at most 5"),
    ("tags", [f"{key}:{value}" for key, value in SIX_TAGS.items()], VALUE, "at most 5"),
    ("tags", {"": "x"}, VALUE, "starts with a letter"),
    ("tags", {"key": ""}, VALUE, "normal form"),
    ("tags", {"key": None}, TYPE, "expected a string"),
    ("tags", {7: "x"}, TYPE, "a key is a string"),
    ("tags", "key:x", TYPE, "a mapping or a list"),
    ("tags", ["bare"], VALUE, "'key:value' string"),
    ("tags", 7, TYPE, "a mapping or a list"),
]


def explains(error: BaseException, argument: str, given: object, allowed: str) -> bool:
    """Whether a message names the argument, what was given and what is allowed."""
    message = str(error)
    if isinstance(given, (dict, list)) and argument == "tags":
        # One tag of them is at fault, and named.
        pairs = given.items() if isinstance(given, dict) else [tag.partition(":")[::2] for tag in given]
        told = any(
            repr(key) in message or repr(value) in message or f"{key}:{value}" in message for key, value in pairs
        )
    else:
        told = shown(given) in message
    return message.startswith(argument) and told and allowed in message


class TestBadInput:
    """An error that names the argument, what was given and what is allowed."""

    @pytest.mark.parametrize(("argument", "given", "error", "allowed"), BAD_ARGUMENTS)
    def test_of_the_constructor(self, argument: str, given: Any, error: type[Exception], allowed: str) -> None:
        registry = Registry()
        arguments = {"component": "tests", "limit_name": "semaphore", "registry": registry} | {argument: given}

        with pytest.raises(PushmetricsError) as raised:
            MeteredSemaphore(**arguments)

        assert isinstance(raised.value, error)
        assert explains(raised.value, argument, given, allowed), str(raised.value)
        assert len(registry) == 0, "nothing is registered"
        assert list(registry.collect()) == []

    @pytest.mark.parametrize(("given", "error"), BAD_TIMEOUTS)
    async def test_of_a_calls_own_timeout(self, given: Any, error: type[Exception]) -> None:
        semaphore = make(2)  # A free slot does not hide a mistake.

        async def enter() -> None:
            async with semaphore.slot(timeout=given):
                pytest.fail("nobody gets in")

        attempts: list[Callable[[], Awaitable[Any]]] = [lambda: semaphore.acquire(timeout=given), enter]
        for attempt in attempts:
            with pytest.raises(PushmetricsError) as raised:
                await attempt()
            assert isinstance(raised.value, error)
            assert explains(raised.value, "timeout", given, "at least 0, or None"), str(raised.value)

        assert state(semaphore) == (0, 2, 0)
        assert endings(semaphore) == {}

    def test_of_a_slots_timeout_is_told_where_the_slot_is_made(self) -> None:
        with pytest.raises(PushmetricsError, match="timeout: "):
            make().slot(timeout=-1)

    @pytest.mark.parametrize(("given", "error"), [*BAD_COUNTS, (None, TYPE)])
    def test_of_set_limit(self, given: Any, error: type[Exception]) -> None:
        semaphore = make(2)

        with pytest.raises(PushmetricsError) as raised:
            semaphore.set_limit(given)

        assert isinstance(raised.value, error)
        assert explains(raised.value, "limit", given, "at least 0"), str(raised.value)
        assert semaphore.limit == 2

    @pytest.mark.parametrize("missing_argument", ["component", "limit_name"])
    def test_the_names_are_required(self, missing_argument: str) -> None:
        arguments = {"component": "tests", "limit_name": "semaphore", "registry": None}
        del arguments[missing_argument]

        with pytest.raises(TypeError, match=missing_argument):
            MeteredSemaphore(**arguments)

    def test_zero_is_a_limit(self) -> None:
        assert state(make(0, max_queue_depth=0, admission_timeout=0)) == (0, 0, 0)

    async def test_any_integer_is_a_limit_and_becomes_a_plain_one(self) -> None:
        semaphore = make(Integer(), max_queue_depth=Integer())
        assert type(semaphore.limit) is type(semaphore.available) is type(semaphore.max_queue_depth) is int
        assert state(semaphore) == (0, 7, 0)

        semaphore.set_limit(3)
        semaphore.set_limit(Integer())

        assert type(semaphore.limit) is type(semaphore.available) is int
        assert state(semaphore) == (0, 7, 0)

    @pytest.mark.parametrize("given", [2, 2.0, Decimal(2), Fraction(2)])
    def test_any_real_number_is_a_timeout_and_becomes_a_plain_one(self, given: Any) -> None:
        semaphore = make(admission_timeout=given)

        assert type(semaphore.admission_timeout) is float
        assert semaphore.admission_timeout == 2


class TestGarbage:
    """A limit goes when nobody uses it any more, registered or not."""

    async def test_a_semaphore_with_finished_waiters_goes_though_it_is_registered(self, loop_time: LoopTime) -> None:
        registry = Registry()
        semaphore = await full(registry=registry, admission_timeout=3600)
        tasks = await waiters(semaphore, 2)
        timed_out = asyncio.create_task(semaphore.acquire(timeout=5))
        await turns()
        await loop_time.advance(5)
        await cancel(tasks[1])
        semaphore.release()
        await turns()
        assert endings(semaphore) == {"admitted": 2, "cancelled": 1, "timed out": 1}
        assert semaphore in registry
        assert isinstance(timed_out.exception(), AdmissionTimeoutError)

        reference = weakref.ref(semaphore)
        del semaphore, tasks, timed_out
        gc.collect()

        assert reference() is None
        (sample,) = registry.collect()
        assert sample.value("admissions_total") == 2, "what it counted is not lost"

    async def test_a_timer_that_is_not_needed_any_more_keeps_nothing(self) -> None:
        semaphore = await full()
        first, second = (asyncio.create_task(semaphore.acquire(timeout=3600)) for _ in range(2))
        await turns()
        semaphore.release()
        await first
        await cancel(second)
        await turns()  # The callback that ran this far keeps what it was called with.

        reference = weakref.ref(semaphore)
        del semaphore, first, second
        gc.collect()

        assert reference() is None

    def test_a_semaphore_goes_with_its_waiters_and_their_loop(self) -> None:
        loop = asyncio.SelectorEventLoop()
        loop.set_exception_handler(lambda _loop, _context: None)
        semaphore = make()
        tasks = TestEventLoops.leave_waiters(loop, semaphore, 1, 3)

        reference = weakref.ref(semaphore)
        counters = semaphore.counters
        del semaphore, tasks, loop
        gc.collect()

        assert reference() is None
        assert counters.admission_cancelled == 3
