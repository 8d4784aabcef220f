"""anyio's limiters under tasks of its own, compared with what their statistics say."""

from __future__ import annotations

import math

import anyio
from collected import only, passes, watching


async def test_a_capacity_limiter_says_all_four() -> None:
    limiter = anyio.CapacityLimiter(2)
    registry = watching(limiter)
    may_end = anyio.Event()

    async def work() -> None:
        async with limiter:
            await may_end.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(work)
        await passes()
        full, said = only(registry), limiter.statistics()
        limiter.total_tokens = 4
        await passes()
        raised = only(registry)
        limiter.total_tokens = 1
        lowered = only(registry)
        may_end.set()
    idle = only(registry)

    assert full == {"limit": 2, "active": 2, "available": 0, "queue_depth": 3}
    assert (full["limit"], full["active"], full["queue_depth"]) == (
        said.total_tokens,
        said.borrowed_tokens,
        said.tasks_waiting,
    )
    assert raised == {"limit": 4, "active": 4, "available": 0, "queue_depth": 1}
    assert lowered == {"limit": 1, "active": 4, "available": 0, "queue_depth": 1}
    assert idle == {"limit": 1, "active": 0, "available": 1, "queue_depth": 0}


async def test_infinitely_many_tokens_are_no_limit_as_long_as_they_are() -> None:
    limiter = anyio.CapacityLimiter(math.inf)
    registry = watching(limiter)
    limiter.acquire_on_behalf_of_nowait("somebody")

    unlimited = only(registry)
    limiter.total_tokens = 3
    limited = only(registry)
    limiter.total_tokens = math.inf
    unlimited_again = only(registry)

    assert unlimited == unlimited_again == {"active": 1, "queue_depth": 0}
    assert limited == {"limit": 3, "active": 1, "available": 2, "queue_depth": 0}


async def test_the_threads_of_anyio_can_be_watched() -> None:
    limiter = anyio.to_thread.current_default_thread_limiter()
    registry = watching(limiter)

    inside = await anyio.to_thread.run_sync(only, registry)

    assert inside == {"limit": 40, "active": 1, "available": 39, "queue_depth": 0}


async def test_a_semaphore_has_a_limit_if_it_has_a_max_value() -> None:
    bounded, plain = anyio.Semaphore(2, max_value=2), anyio.Semaphore(2)
    registries = watching(bounded), watching(plain)

    async def work(semaphore: anyio.Semaphore) -> None:
        async with semaphore:
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        for semaphore in (bounded, plain):
            for _ in range(3):
                tasks.start_soon(work, semaphore)
        await passes()
        seen = [only(registry) for registry in registries]
        waiting = [semaphore.statistics().tasks_waiting for semaphore in (bounded, plain)]
        tasks.cancel_scope.cancel()

    assert seen == [
        {"limit": 2, "active": 2, "available": 0, "queue_depth": 1},
        {"available": 0, "queue_depth": 1},
    ]
    assert waiting == [1, 1]
    assert only(registries[0]) == {"limit": 2, "active": 0, "available": 2, "queue_depth": 0}


def test_those_made_before_there_is_a_loop_are_watched_through_it() -> None:
    limiter, semaphore = anyio.CapacityLimiter(2), anyio.Semaphore(1, max_value=1)
    registries = watching(limiter), watching(semaphore)
    before = [only(registry) for registry in registries]

    async def main() -> list[dict[str, int]]:
        async with limiter, semaphore:
            return [only(registry) for registry in registries]

    assert before == [
        {"limit": 2, "active": 0, "available": 2, "queue_depth": 0},
        {"limit": 1, "active": 0, "available": 1, "queue_depth": 0},
    ]
    assert anyio.run(main) == [
        {"limit": 2, "active": 1, "available": 1, "queue_depth": 0},
        {"limit": 1, "active": 1, "available": 0, "queue_depth": 0},
    ]
