"""The clock and the sink that users have for their own tests."""

from __future__ import annotations

import asyncio

import pytest

from pushmetrics import MeteredSemaphore, Registry, Reporter, clock
from pushmetrics.testing import ManualClock, RecordingSink


async def test_time_stands_still_until_it_is_advanced() -> None:
    with ManualClock(wall=100.0, monotonic=7.0) as manual:
        assert (clock.wall(), clock.monotonic()) == (100.0, 7.0)
        await manual.advance(2.5)
        assert (clock.wall(), clock.monotonic()) == (102.5, 9.5)
        manual.set_wall(5.0)
        assert (clock.wall(), clock.monotonic()) == (5.0, 9.5)


async def test_sleepers_wake_in_their_order_and_at_their_time() -> None:
    woken: list[tuple[float, float]] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    with ManualClock(monotonic=0.0) as manual:
        tasks = [asyncio.create_task(sleep(seconds)) for seconds in (3, 1, 2)]
        await manual.advance(2)
        assert woken == [(1, 1.0), (2, 2.0)]
        await manual.advance(5)
        assert woken[-1] == (3, 3.0)
        await asyncio.gather(*tasks)


def test_it_leaves_the_real_clock_behind_also_after_an_error() -> None:
    real = (clock.wall, clock.monotonic, clock.sleep)
    with pytest.raises(ZeroDivisionError), ManualClock():
        raise ZeroDivisionError
    assert (clock.wall, clock.monotonic, clock.sleep) == real


async def test_a_clock_does_not_go_back() -> None:
    with ManualClock() as manual:
        for bad in (-1, float("nan")):
            with pytest.raises(ValueError, match="at least 0 s"):
                await manual.advance(bad)


async def test_a_refusing_sink_keeps_counts_waiting_as_an_agent_that_is_away_does() -> None:
    registry = Registry()
    sink = RecordingSink()
    limit = MeteredSemaphore(1, component="c", limit_name="l", registry=registry)
    async with Reporter(registry=registry, sink=sink) as reporter:
        await reporter.flush()
        sink.refusing = True
        async with limit:
            await reporter.flush()
        assert sink.total("admissions_total") == 0
        sink.refusing = False
        await reporter.flush()
        assert sink.total("admissions_total") == 1
