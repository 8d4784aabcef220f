"""asyncio's own semaphores, compared with a model of what a semaphore is, and with the library's own words."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from collected import only, passes, watching
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule


async def test_a_bounded_one_says_all_four_and_nothing_else() -> None:
    semaphore = asyncio.BoundedSemaphore(2)
    registry = watching(semaphore)
    tasks = [asyncio.create_task(semaphore.acquire()) for _ in range(5)]
    await passes()

    full = only(registry)
    semaphore.release()
    handed_over = only(registry)
    tasks[-1].cancel()
    just_cancelled = only(registry)
    for task in tasks:
        task.cancel()

    assert full == {"limit": 2, "active": 2, "available": 0, "queue_depth": 3}
    assert handed_over == {"limit": 2, "active": 2, "available": 0, "queue_depth": 2}, "the slot has an owner"
    assert just_cancelled["queue_depth"] == 1, "a waiter that is done does not wait"


async def test_a_plain_one_has_forgotten_its_limit() -> None:
    semaphore = asyncio.Semaphore(3)
    registry = watching(semaphore)
    await semaphore.acquire()

    assert only(registry) == {"available": 2, "queue_depth": 0}
    semaphore.release()
    semaphore.release()
    assert only(registry) == {"available": 4, "queue_depth": 0}, "a release too many adds a slot"


async def test_it_says_what_the_semaphore_says_of_itself() -> None:
    semaphore = asyncio.BoundedSemaphore(1)
    registry = watching(semaphore)
    tasks = [asyncio.create_task(semaphore.acquire()) for _ in range(4)]
    await passes()

    (waiters,) = re.findall(r"waiters:(\d+)", repr(semaphore))
    assert only(registry)["queue_depth"] == int(waiters) == 3
    for task in tasks:
        task.cancel()


async def test_another_bound_shows_at_the_next_tick() -> None:
    semaphore: Any = asyncio.BoundedSemaphore(2)
    registry = watching(semaphore)
    only(registry)

    semaphore._bound_value += 3
    semaphore._value += 3

    assert only(registry) == {"limit": 5, "active": 0, "available": 5, "queue_depth": 0}


class ASemaphoreAndItsModel(RuleBasedStateMachine):
    """Random acquires, releases and cancels; after each, what is reported is what the tasks know."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.semaphore = asyncio.BoundedSemaphore(3)
        self.registry = watching(self.semaphore)
        self.tasks: list[asyncio.Task[Any]] = []
        self.held = 0

    def teardown(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.loop.run_until_complete(passes())
        self.loop.close()

    async def take(self) -> None:
        await self.semaphore.acquire()
        self.held += 1

    def settle(self) -> None:
        self.loop.run_until_complete(passes())
        self.tasks = [task for task in self.tasks if not task.done()]

    @rule(number=st.integers(1, 4))
    def acquire(self, number: int) -> None:
        self.tasks += [self.loop.create_task(self.take()) for _ in range(number)]
        self.settle()

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        self.held -= 1
        self.semaphore.release()
        self.settle()

    @precondition(lambda self: self.tasks)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.tasks)).cancel()
        self.settle()

    @precondition(lambda self: self.held and self.tasks)
    @rule(data=st.data())
    def release_and_cancel_in_one_pass(self, data: st.DataObject) -> None:
        self.held -= 1
        self.semaphore.release()
        data.draw(st.sampled_from(self.tasks)).cancel()
        self.settle()

    @invariant()
    def what_is_reported_is_so(self) -> None:
        assert only(self.registry) == {
            "limit": 3,
            "active": self.held,
            "available": 3 - self.held,
            "queue_depth": len(self.tasks),
        }


test_random_use = ASemaphoreAndItsModel.TestCase
test_random_use = pytest.mark.timeout(60)(test_random_use)
