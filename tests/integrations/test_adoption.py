"""An asyncio semaphore that becomes a metered one in place, and goes on as it was."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pushmetrics import MeteredSemaphore, PushmetricsError
from pushmetrics.integrations.adoption import adopt

NAMES = {"component": "agent_server", "limit_name": "sem"}


async def test_every_name_of_it_is_the_metered_one() -> None:
    semaphore = asyncio.Semaphore(2)
    held_elsewhere = {"the same": semaphore}

    adopted = adopt(semaphore, **NAMES)

    assert adopted is semaphore is held_elsewhere["the same"]
    async with held_elsewhere["the same"]:
        assert (adopted.limit, adopted.active, adopted.available) == (2, 1, 1)
    assert adopted.tags == ("component:agent_server", "limit_name:sem")


async def test_it_limits_as_before() -> None:
    semaphore = asyncio.Semaphore(1)
    adopted = adopt(semaphore, admission_timeout=0, **NAMES)
    assert adopted is not None

    async with semaphore:
        with pytest.raises(TimeoutError):
            await semaphore.acquire()

    assert adopted.admission_timeouts == 1
    assert not semaphore.locked()


def test_one_that_was_adopted_stays_as_it_is() -> None:
    semaphore = asyncio.Semaphore(1)
    first = adopt(semaphore, **NAMES)

    assert adopt(semaphore, component="other", limit_name="other") is first
    assert first.tags == ("component:agent_server", "limit_name:sem")


async def test_what_was_in_use_before_is_given_back() -> None:
    """Without a bound, the stock class does not know how many slots there were: they show as they come back."""
    semaphore = asyncio.Semaphore(3)
    await semaphore.acquire()
    adopted = adopt(semaphore, **NAMES)
    assert adopted is not None

    semaphore.release()

    assert (adopted.limit, adopted.active, adopted.available) == (3, 0, 3)


async def test_one_without_a_bound_still_has_none() -> None:
    """Two releases too many, in the moment in which the slot changes hands, are two more slots."""
    semaphore = asyncio.Semaphore(1)
    adopted = adopt(semaphore, **NAMES)
    assert adopted is not None
    await semaphore.acquire()
    waiting = asyncio.create_task(semaphore.acquire())
    await asyncio.sleep(0)

    semaphore.release()
    semaphore.release()
    semaphore.release()

    assert await waiting
    assert (adopted.limit, adopted.active) == (3, 1)


async def test_a_bounded_one_keeps_its_bound_and_its_holders() -> None:
    semaphore = asyncio.BoundedSemaphore(2)
    await semaphore.acquire()
    adopted = adopt(semaphore, **NAMES)
    assert adopted is not None

    assert (adopted.limit, adopted.active) == (2, 1)
    semaphore.release()
    with pytest.raises(ValueError, match="more often"):
        semaphore.release()


async def test_one_that_somebody_waits_for_is_left_alone() -> None:
    semaphore = asyncio.Semaphore(1)
    await semaphore.acquire()
    waiting = asyncio.create_task(semaphore.acquire())
    await asyncio.sleep(0)

    assert adopt(semaphore, **NAMES) is None
    assert type(semaphore) is asyncio.Semaphore
    semaphore.release()
    assert await waiting


class Special(asyncio.Semaphore):
    pass


@pytest.mark.parametrize(
    "other",
    [asyncio.Semaphore(0), Special(1), asyncio.Lock(), threading.Semaphore(1), None, MeteredSemaphore(1, **NAMES)],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_exactly_a_limit_of_asyncio_is_left_alone(other: object) -> None:
    kind = type(other)

    assert adopt(other, **NAMES) is None
    assert type(other) is kind


def test_a_bad_setting_changes_nothing() -> None:
    semaphore = asyncio.Semaphore(1)

    with pytest.raises(PushmetricsError):
        adopt(semaphore, component="agent_server", limit_name="")

    assert type(semaphore) is asyncio.Semaphore
    assert not hasattr(semaphore, "counters")
