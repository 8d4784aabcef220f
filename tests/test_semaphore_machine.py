"""Any interleaving of what a program can do to a semaphore, against a model that is too plain to be wrong.

The loop is run one pass at a time, and time stands still until a rule lets it pass. What a rule does happens outside of
the loop, in a callback of its next pass among the tasks that are woken there, or in another thread. The model is told
of each event where it happens, says what has to follow, and is compared with the semaphore after every event, so also
between a grant and the moment at which its task runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Any

import pytest
from conftest import missing
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from pushmetrics import AdmissionTimeoutError, MeteredSemaphore, QueueFullError
from pushmetrics.errors import ForeignThreadError, OverReleaseError
from pushmetrics.testing import ManualClock

try:
    import uvloop
except ImportError:
    uvloop = None

EXAMPLES = 100
STEPS = 50

DEFAULT = "the semaphore's own"
TIMEOUTS = st.sampled_from([2, None, 1, 2, 5, DEFAULT, 0])
WAY = st.sampled_from(["acquire", "async with", "slot"])
WHERE = st.sampled_from(["outside", "inside", "thread"])
NUMBER = st.integers(0, 7)
LIMIT = st.sampled_from([1, 2, 3, 4, 0])


class State(Enum):
    NEW = auto()
    WAITING = auto()
    GRANTED = auto()
    """Owns a slot, which its caller does not know yet."""
    TIMED_OUT = auto()
    """Its timer went off, which its caller does not know yet."""
    HOLDING = auto()
    DONE = auto()


PENDING = {State.WAITING, State.GRANTED, State.TIMED_OUT}


class Attempt:
    """One acquire, in a task or as a bare coroutine that the test drives by hand."""

    def __init__(self, way: str, timeout: Any) -> None:
        self.way = way
        self.given = timeout
        self.timeout: float | None = None
        self.state = State.NEW
        self.expected = ""
        """What its caller has to see, as far as it is decided."""
        self.cancelled = False
        self.queued_at: float | None = None
        self.exit: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.bare: Coroutine[Any, Any, Any] | None = None


class Model:
    """What section 3 of the contract says, with lists."""

    def __init__(self, limit: int, max_queue_depth: int | None, now: Callable[[], float]) -> None:
        self.limit = limit
        self.max_queue_depth = max_queue_depth
        self.now = now
        self.holders = 0
        self.granted: list[Attempt] = []
        """In the order in which they were granted a slot that their callers do not know of."""
        self.returning = 0
        """Slots that another thread has handed to the loop to pass on."""
        self.queue: list[Attempt] = []
        self.seen: Counter[str] = Counter()
        self.queued = 0
        self.waits: list[float] = []
        self.active_peak = self.queue_peak = 0
        self.contended = 0.0
        self.contended_since: float | None = None

    @property
    def active(self) -> int:
        return self.holders + len(self.granted) + self.returning

    @property
    def free(self) -> int:
        """Negative while more slots are in use than a lowered limit has."""
        return self.limit - self.active

    def changed(self) -> None:
        while self.free > 0 and self.queue:
            attempt = self.queue.pop(0)
            if not attempt.cancelled:
                attempt.state = State.GRANTED
                attempt.expected = "admitted"
                self.granted.append(attempt)
        self.active_peak = max(self.active_peak, self.active)
        self.queue_peak = max(self.queue_peak, len(self.queue))
        if self.queue and self.contended_since is None:
            self.contended_since = self.now()
        if not self.queue and self.contended_since is not None:
            self.contended += self.now() - self.contended_since
            self.contended_since = None

    def begins(self, attempt: Attempt, timeout: float | None) -> None:
        attempt.timeout = timeout
        if self.free > 0:
            attempt.state, attempt.expected = State.HOLDING, "admitted"
            self.holders += 1
        elif timeout == 0:
            attempt.expected = "timed out"
        elif self.max_queue_depth is not None and len(self.queue) >= self.max_queue_depth:
            attempt.expected = "rejected"
        else:
            attempt.state = State.WAITING
            attempt.queued_at = self.now()
            self.queue.append(attempt)
        self.changed()

    def timer_fires(self, attempt: Attempt) -> None:
        """A waiter that was granted a slot or cancelled before stays so."""
        if attempt.state is State.WAITING and not attempt.cancelled:
            self.queue.remove(attempt)
            attempt.state, attempt.expected = State.TIMED_OUT, "timed out"
            self.changed()

    def is_cancelled(self, attempt: Attempt) -> None:
        """Its task is told to cancel; it keeps its slot, or its place, until it runs."""
        attempt.cancelled = True
        attempt.expected = "cancelled"

    def sees(self, attempt: Attempt, outcome: str, slot_returns_later: bool = False) -> None:
        assert outcome == attempt.expected, f"the caller saw {outcome}, not {attempt.expected}"
        self.seen[outcome] += 1
        if attempt.queued_at is not None:
            self.waits.append((self.now() - attempt.queued_at) * 1000)
            self.queued += outcome == "admitted"
        if attempt in self.queue:
            self.queue.remove(attempt)
        if attempt in self.granted:
            self.granted.remove(attempt)
            self.holders += outcome == "admitted"
            self.returning += slot_returns_later
        attempt.state = State.HOLDING if outcome == "admitted" else State.DONE
        self.changed()

    def released(self) -> None:
        """By anybody: a semaphore knows how many hold a slot, not who."""
        assert self.holders > 0, "a release that had to be refused was not"
        self.holders -= 1
        self.changed()

    def slot_returns(self) -> None:
        self.returning -= 1
        self.changed()

    def set_limit(self, limit: int) -> None:
        self.limit = limit
        self.changed()


class SteppedLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, its timers included, by a clock that the test moves."""

    def __init__(self, clock: ManualClock, timer_fires: Callable[[], Callable[[], None]]) -> None:
        self.clock = clock
        self.timer_fires = timer_fires
        super().__init__()

    def time(self) -> float:
        return self.clock.monotonic()

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        fires = self.timer_fires()

        def fire() -> None:
            callback(*args)
            fires()

        return super().call_later(delay, fire, context=context)

    def fire_timers(self) -> None:
        """Nothing to do: a pass does so itself."""


if uvloop is not None:

    class SteppedUvloop(uvloop.Loop):
        """uvloop, but for its timers: those of libuv know no other clock than its own, so these are ours."""

        def __init__(self, clock: ManualClock, timer_fires: Callable[[], Callable[[], None]]) -> None:
            self.clock = clock
            self.timer_fires = timer_fires
            self.timers: list[tuple[float, Callable[[], None]]] = []
            super().__init__()

        def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
            fires = self.timer_fires()

            def fire() -> None:
                if not handle.cancelled():
                    callback(*args)
                    fires()

            handle = asyncio.Handle(fire, (), self, context)
            self.timers.append((self.clock.monotonic() + delay, fire))
            return handle

        def fire_timers(self) -> None:
            self.timers.sort(key=lambda timer: timer[0])
            while self.timers and self.timers[0][0] <= self.clock.monotonic():
                self.call_soon(self.timers.pop(0)[1])


def eager_task(loop: Any, coroutine: Coroutine[Any, Any, Any], **settings: Any) -> asyncio.Task[Any]:
    """As asyncio.eager_task_factory, which in Python 3.13.0 does not know all that a later uvloop gives it."""
    return asyncio.Task(coroutine, loop=loop, **(settings | {"eager_start": True}))


class SemaphoreMachine(RuleBasedStateMachine):
    def __init__(self, make_loop: Callable[..., Any], eager: bool) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.clock.__enter__()
        self.loop = make_loop(self.clock, self.timer_of_the_attempt_that_begins)
        if eager:
            self.loop.set_task_factory(eager_task)
        self.loop.set_exception_handler(
            lambda _, context: self.errors.append(context.get("exception") or AssertionError(context["message"]))
        )
        self.threads = ThreadPoolExecutor(1)
        self.errors: list[BaseException] = []
        self.failed = False
        self.attempts: list[Attempt] = []
        self.beginning: Attempt | None = None

    @initialize(
        limit=LIMIT,
        max_queue_depth=st.sampled_from([None, None, None, 3, 1]),
        admission_timeout=st.sampled_from([None, 2]),
    )
    def make(self, limit: int, max_queue_depth: int | None, admission_timeout: float | None) -> None:
        self.model = Model(limit, max_queue_depth, self.clock.monotonic)
        self.semaphore = MeteredSemaphore(
            limit,
            component="tests",
            limit_name="machine",
            admission_timeout=admission_timeout,
            max_queue_depth=max_queue_depth,
            registry=None,
        )
        self.waits: list[float] = []
        self.semaphore.counters.waits = self.waits.append

    # What a program can do.

    @rule(way=WAY, timeouts=st.lists(TIMEOUTS, min_size=1, max_size=4), inside=st.booleans())
    def start_tasks(self, way: str, timeouts: list[Any], inside: bool) -> None:
        def start(timeout: Any) -> None:
            attempt = Attempt(way, timeout)
            self.attempts.append(attempt)
            attempt.task = self.loop.create_task(self.run_attempt(attempt))

        for timeout in timeouts:
            self.act("inside" if inside else "outside", partial(start, timeout))

    @rule(timeout=TIMEOUTS)
    def start_bare(self, timeout: Any) -> None:
        attempt = Attempt("acquire", timeout)

        def start() -> None:
            self.attempts.append(attempt)
            attempt.bare = self.semaphore.acquire(**self.timeout_of(attempt))
            self.begins(attempt)
            self.advance(attempt)

        self.act("inside", start)

    @precondition(lambda self: self.pick(0, self.is_bare_and_can_go_on))
    @rule(number=NUMBER, where=WHERE)
    def resume_bare(self, number: int, where: str) -> None:
        def resume() -> None:
            attempt = self.pick(number, self.is_bare_and_can_go_on)
            if attempt is not None:
                self.advance(attempt)

        self.act(where, resume)

    @precondition(lambda self: self.pick(0, self.is_bare))
    @rule(number=NUMBER, where=WHERE)
    def close_bare(self, number: int, where: str) -> None:
        self.act(where, lambda: self.close(self.pick(number, self.is_bare), where == "thread"))

    @precondition(lambda self: self.pick(0, self.runs))
    @rule(number=NUMBER, inside=st.booleans())
    def cancel_task(self, number: int, inside: bool) -> None:
        self.act("inside" if inside else "outside", lambda: self.cancel(self.pick(number, self.runs)))

    @precondition(lambda self: self.pick(0, self.is_in_block))
    @rule(number=NUMBER, inside=st.booleans())
    def leave_block(self, number: int, inside: bool) -> None:
        def leave() -> None:
            attempt = self.pick(number, self.is_in_block)
            if attempt is not None:
                attempt.exit.set_result(None)

        self.act("inside" if inside else "outside", leave)

    @rule(number=NUMBER, where=WHERE, thief=st.sampled_from([False, False, False, True]))
    def release(self, number: int, where: str, thief: bool) -> None:
        """By somebody who acquired, or by somebody who did not; refused when nobody holds a slot any more."""

        def release() -> None:
            holder = None if thief else self.pick(number, self.holds)
            if self.model.holders == 0:
                with pytest.raises(OverReleaseError):
                    self.semaphore.release()
            elif where == "thread" and self.model.queue and self.model.free >= 0:
                with pytest.raises(ForeignThreadError):
                    self.semaphore.release()
            elif thief or holder is not None:
                self.semaphore.release()
                self.model.released()
                if holder is not None:
                    holder.state = State.DONE

        self.act(where, release)

    @rule(limit=LIMIT, where=WHERE)
    def set_limit(self, limit: int, where: str) -> None:
        def change() -> None:
            added = limit - self.model.limit
            if where == "thread" and self.model.queue and self.model.free + added > 0:
                with pytest.raises(ForeignThreadError):
                    self.semaphore.set_limit(limit)
            else:
                self.semaphore.set_limit(limit)
                self.model.set_limit(limit)

        self.act(where, change)

    @precondition(lambda self: self.model.queue)
    @rule(seconds=st.sampled_from([2, 5, 1, 0.25]), passes=st.integers(0, 2))
    def let_time_pass(self, seconds: float, passes: int) -> None:
        self.clock.stall(seconds)
        self.check()
        self.run(passes)

    @precondition(lambda self: self.pick(0, self.has_a_timer))
    @rule(number=NUMBER, cancel=st.booleans(), thread=st.booleans())
    def meet_a_timer(self, number: int, cancel: bool, thread: bool) -> None:
        """Something happens in the pass in which a timer goes off, just before that."""
        attempt = self.pick(number, self.has_a_timer)
        self.clock.stall(max(0, attempt.queued_at + attempt.timeout - self.clock.monotonic()))
        if not cancel:
            self.release(number, "inside", thief=True)
        elif attempt.task is not None:
            self.act("inside", partial(self.cancel, attempt))
        else:
            self.act("thread" if thread else "inside", partial(self.close, attempt, thread))
        self.run(1)

    @rule(passes=st.sampled_from([1, 1, 2, 8]))
    def run(self, passes: int) -> None:
        for _ in range(passes):
            self.loop.fire_timers()
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
            self.raise_errors()
            self.check()
        if passes == 8:
            self.check_settled()

    # How it is done.

    def act(self, where: str, action: Callable[[], None]) -> None:
        action = self.guarded(action)
        if where == "inside":
            self.loop.call_soon(action)
        elif where == "thread":
            self.threads.submit(action).result()
        else:
            action()
        self.raise_errors()

    def guarded(self, action: Callable[[], None]) -> Callable[[], None]:
        """Compare with the model afterwards, and keep what goes wrong, which a loop would only log."""

        def run() -> None:
            try:
                action()
                self.check()
            except BaseException as error:  # noqa: BLE001 - is raised again in the rule
                self.errors.append(error)

        return run

    def raise_errors(self) -> None:
        if self.errors:
            self.failed = True
            raise self.errors[0]

    def pick(self, number: int, suits: Callable[[Attempt], bool]) -> Attempt | None:
        suitable = [attempt for attempt in self.attempts if suits(attempt)]
        return suitable[number % len(suitable)] if suitable else None

    def close(self, attempt: Attempt | None, in_thread: bool) -> None:
        if attempt is None or attempt.state not in PENDING:
            return
        # In another thread nobody can be woken: the loop has to do it.
        later = in_thread and attempt.state is State.GRANTED and self.model.free >= 0 and bool(self.model.queue)
        attempt.bare.close()
        self.model.is_cancelled(attempt)
        self.model.sees(attempt, "cancelled", slot_returns_later=later)
        if later:
            self.loop.call_soon_threadsafe(self.guarded(self.model.slot_returns))

    def cancel(self, attempt: Attempt | None) -> None:
        if attempt is not None:
            attempt.task.cancel()
            if attempt.state in PENDING:
                self.model.is_cancelled(attempt)

    def has_a_timer(self, attempt: Attempt) -> bool:
        return attempt.state is State.WAITING and bool(attempt.timeout)

    def runs(self, attempt: Attempt) -> bool:
        return attempt.task is not None and not attempt.task.done()

    def is_bare(self, attempt: Attempt) -> bool:
        return attempt.bare is not None and attempt.state in PENDING

    def is_bare_and_can_go_on(self, attempt: Attempt) -> bool:
        return self.is_bare(attempt) and attempt.state is not State.WAITING

    def is_in_block(self, attempt: Attempt) -> bool:
        return attempt.exit is not None and not attempt.exit.done()

    def holds(self, attempt: Attempt) -> bool:
        return attempt.way == "acquire" and attempt.state is State.HOLDING

    def timeout_of(self, attempt: Attempt) -> dict[str, Any]:
        return {} if attempt.given is DEFAULT else {"timeout": attempt.given}

    def timer_of_the_attempt_that_begins(self) -> Callable[[], None]:
        return self.guarded(partial(self.model.timer_fires, self.beginning))

    def begins(self, attempt: Attempt) -> None:
        self.check()
        own = attempt.given is DEFAULT or attempt.way == "async with"
        self.model.begins(attempt, self.semaphore.admission_timeout if own else attempt.given)
        self.beginning = attempt

    def sees(self, attempt: Attempt, outcome: str) -> None:
        if outcome == "admitted" and attempt.state is State.GRANTED and attempt.task is not None:
            in_tasks = [granted for granted in self.model.granted if granted.task is not None]
            assert attempt is next(granted for granted in in_tasks if not granted.cancelled), "out of order"
        self.model.sees(attempt, outcome)
        self.check()

    async def run_attempt(self, attempt: Attempt) -> None:
        try:
            await self.enter(attempt)
            self.check()
        except BaseException as error:  # noqa: BLE001 - is raised again in the rule
            self.errors.append(error)

    async def enter(self, attempt: Attempt) -> None:
        self.begins(attempt)
        try:
            if attempt.way == "acquire":
                assert await self.semaphore.acquire(**self.timeout_of(attempt)) is True
                self.sees(attempt, "admitted")
            else:
                own = attempt.way == "async with"
                async with self.semaphore if own else self.semaphore.slot(**self.timeout_of(attempt)):
                    self.sees(attempt, "admitted")
                    attempt.exit = self.loop.create_future()
                    with suppress(asyncio.CancelledError):
                        await attempt.exit
                attempt.state = State.DONE
                self.model.released()
        except AdmissionTimeoutError:
            self.sees(attempt, "timed out")
            assert asyncio.current_task().cancelling() == 0
        except QueueFullError:
            self.sees(attempt, "rejected")
        except asyncio.CancelledError:
            self.sees(attempt, "cancelled")
        except OverReleaseError:  # At the end of the block, when somebody has given its slot back.
            attempt.state = State.DONE
            assert self.model.holders == 0

    def advance(self, attempt: Attempt) -> None:
        """Run a bare coroutine until it waits or ends."""
        try:
            attempt.bare.send(None)
        except StopIteration as end:
            self.sees(attempt, "admitted" if end.value is True else repr(end.value))
        except AdmissionTimeoutError:
            self.sees(attempt, "timed out")
        except QueueFullError:
            self.sees(attempt, "rejected")
        else:
            assert attempt.state is State.WAITING

    def check(self) -> None:
        """Compare everything that can be seen of the semaphore with the model."""
        model = self.model
        state = self.semaphore.statistics()
        now = self.clock.monotonic()
        head = next(iter(model.queue), None)
        contended = model.contended + (0 if model.contended_since is None else now - model.contended_since)
        assert vars(state) == {
            "limit": model.limit,
            "active": model.active,
            "available": max(0, model.free),
            "queue_depth": len(model.queue),
            "oldest_wait_ms": 0 if head is None else (now - head.queued_at) * 1000,
            "contended_ms": contended * 1000,
            "admissions": model.seen["admitted"],
            "admissions_queued": model.queued,
            "admission_timeouts": model.seen["timed out"],
            "admission_cancelled": model.seen["cancelled"],
            "admission_rejected": model.seen["rejected"],
        }
        assert self.semaphore.locked() == (model.free <= 0)
        assert self.waits == model.waits
        counters = self.semaphore.counters
        assert counters.limit - counters.lowest_value == model.active_peak
        assert counters.queue_depth_peak == model.queue_peak

        # The same once more, in the words of the contract.
        assert state.active + state.available == state.limit or (state.available == 0 and state.active > state.limit)
        assert not (state.available and state.queue_depth), "somebody queues beside a free slot"

    def check_settled(self) -> None:
        """Nobody sleeps who has something to do; and when nobody waits, each attempt has been counted once."""
        for attempt in self.attempts:
            if attempt.task is not None and attempt.state is State.WAITING:
                assert not attempt.cancelled
                assert not attempt.timeout or attempt.queued_at + attempt.timeout > self.clock.monotonic()
            elif attempt.task is not None:
                assert attempt.state not in PENDING
        state = self.semaphore.statistics()
        if not any(attempt.state in PENDING for attempt in self.attempts):
            begun = sum(attempt.expected != "" for attempt in self.attempts)
            assert begun == (
                state.admissions + state.admission_timeouts + state.admission_cancelled + state.admission_rejected
            )

    def teardown(self) -> None:
        try:
            if hasattr(self, "semaphore") and not self.failed:
                self.end_all()
        finally:
            self.threads.shutdown()
            self.loop.close()
            self.clock.__exit__(None, None, None)

    def end_all(self) -> None:
        """Whatever happened before, in the end everybody has got in or given up, and every slot is free."""
        self.run(8)
        for attempt in self.attempts[::2]:
            self.end(attempt)
        self.set_limit(2, "outside")
        while self.model.holders:
            self.release(0, "outside", thief=True)
            self.run(2)
        for attempt in self.attempts:
            self.end(attempt)
        self.run(8)
        while self.model.holders:
            self.release(0, "inside", thief=True)
            self.run(2)
        self.run(8)
        state = self.semaphore.statistics()
        assert (state.active, state.available, state.queue_depth) == (0, state.limit, 0)

    def end(self, attempt: Attempt) -> None:
        if attempt.task is not None:
            self.cancel(attempt)
        else:
            self.close(attempt, in_thread=False)


@pytest.mark.parametrize(
    "eager",
    [
        False,
        pytest.param(
            True,
            marks=[
                pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12"),
                pytest.mark.allowed_skip("eager tasks came with Python 3.12"),
            ],
        ),
    ],
    ids=["lazy", "eager"],
)
@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
@pytest.mark.timeout(300)  # To find the shortest way to a fault takes a while.
def test_any_interleaving(kind: str, eager: bool) -> None:
    if kind == "uvloop" and uvloop is None:
        missing("uvloop, from PyPI")
    make_loop = SteppedLoop if kind == "asyncio" else SteppedUvloop
    run_state_machine_as_test(
        lambda: SemaphoreMachine(make_loop, eager),
        settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS),
    )
