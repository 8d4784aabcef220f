"""The semaphore against the standard library's, and against what people do to meter that one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from time import process_time
from typing import Any

from agent import agent, official_client
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, Gauge
from table import Row, fastest

from pushmetrics import MeteredSemaphore

STOCK = "`asyncio.BoundedSemaphore`"

Semaphore = asyncio.BoundedSemaphore
Program = Callable[..., Coroutine[Any, Any, float]]

stock = asyncio.BoundedSemaphore
ours = partial(MeteredSemaphore, component="benchmark", limit_name="semaphore", registry=None)


def in_loop(program: Program, make: Callable[[int], Semaphore], limit: int, *args: Any) -> Callable[[], float]:
    """Return a call that runs `program` with a new semaphore in a new loop."""

    async def run() -> float:
        return await program(make(limit), *args)

    return lambda: asyncio.run(run())


def ratio(rounds: int, program: Program, limit: int, *args: Any) -> float:
    """Return what `program` costs with our semaphore, as a multiple of what it costs with the stock one."""
    mine, theirs = fastest(rounds, in_loop(program, ours, limit, *args), in_loop(program, stock, limit, *args))
    return mine / theirs


def uncontended(quick: bool) -> list[Row]:
    """Nobody waits, which is what a limit should see most of the time."""
    rounds, times = (2, 1_000) if quick else (25, 20_000)
    return [
        Row(f"{what}, limit {limit}", STOCK, ratio(rounds, program, limit, times), 0.6)
        for what, program in (
            ("uncontended `async with`", _async_with),
            ("uncontended `acquire()` and `release()`", _acquire_release),
        )
        for limit in (10, 1)
    ]


async def _async_with(semaphore: Semaphore, times: int) -> float:
    began = process_time()
    for _ in range(times):
        async with semaphore:
            pass
    return process_time() - began


async def _acquire_release(semaphore: Semaphore, times: int) -> float:
    began = process_time()
    for _ in range(times):
        await semaphore.acquire()
        semaphore.release()
    return process_time() - began


def contended(quick: bool) -> list[Row]:
    """Everybody waits, and gives the slot back in the next pass of the loop."""
    rounds, turns = (2, 2) if quick else (25, 20)
    return [Row("200 tasks contending for 10 slots", STOCK, ratio(rounds, _contend, 10, 200, turns), 1.1)]


async def _contend(semaphore: Semaphore, tasks: int, turns: int) -> float:
    async def work() -> None:
        for _ in range(turns):
            async with semaphore:
                await asyncio.sleep(0)

    began = process_time()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return process_time() - began


def cancelled(quick: bool) -> list[Row]:
    """A server is shut down, or a client hangs up on all that it has asked for."""
    rounds, waiters = (2, 1_000) if quick else (5, 10_000)
    measured = ratio(rounds, _cancel, 1, waiters)
    return [Row(f"cancel {waiters:,} waiters, newest first", STOCK, measured, 0.3)]


async def _cancel(semaphore: Semaphore, waiters: int) -> float:
    await semaphore.acquire()
    tasks = [asyncio.create_task(semaphore.acquire()) for _ in range(waiters)]
    await asyncio.sleep(0)  # All of them queue.
    began = process_time()
    for task in reversed(tasks):
        task.cancel()
    await asyncio.wait(tasks)
    return process_time() - began


def timed_out(quick: bool) -> list[Row]:
    """Each waiter is queued, gives up, and says so."""
    # Long enough for all of them to queue before the first gives up. Nobody uses the CPU in between.
    rounds, waiters, seconds = (2, 500, 0.1) if quick else (9, 5_000, 0.5)

    async def built_in(semaphore: Semaphore) -> float:
        assert isinstance(semaphore, MeteredSemaphore)
        return await _time_out(semaphore, waiters, lambda: semaphore.acquire(timeout=seconds))

    async def around(semaphore: Semaphore) -> float:
        return await _time_out(semaphore, waiters, lambda: asyncio.wait_for(semaphore.acquire(), seconds))

    mine, theirs = fastest(rounds, in_loop(built_in, ours, 1), in_loop(around, stock, 1))
    return [Row(f"admission timeout of {waiters:,} waiters", "`asyncio.wait_for(acquire())`", mine / theirs, 1.2)]


async def _time_out(semaphore: Semaphore, waiters: int, acquire: Callable[[], Coroutine[Any, Any, Any]]) -> float:
    await semaphore.acquire()
    began = process_time()
    tasks = [asyncio.create_task(acquire()) for _ in range(waiters)]
    await asyncio.wait(tasks)
    seconds = process_time() - began
    assert all(isinstance(task.exception(), TimeoutError) for task in tasks)
    return seconds


def metered_by_hand(quick: bool) -> list[Row]:
    """A metrics library is called at each acquire and each release of the stock semaphore.

    Each as it is cheapest: its tags or labels are made once.
    """
    rounds, times = (2, 100) if quick else (9, 2_000)
    tags = {"component": "benchmark", "limit_name": "semaphore"}

    provider = MeterProvider(metric_readers=[InMemoryMetricReader()])
    counter = provider.get_meter("benchmark").create_up_down_counter("active")
    gauge = Gauge("active", "Slots in use.", tuple(tags), registry=CollectorRegistry()).labels(**tags)
    with agent("udp") as address:
        client = official_client(address, buffered=False)
        send = partial(client.gauge, "active", tags=[f"{key}:{value}" for key, value in tags.items()])
        by_hand = {
            "an OpenTelemetry UpDownCounter": (partial(counter.add, 1, tags), partial(counter.add, -1, tags)),
            "a prometheus_client Gauge": (gauge.inc, gauge.dec),
            "a gauge of the official client, unbuffered,": (partial(send, 1), partial(send, 0)),
        }
        programs = [in_loop(_call_at_each, stock, 10, times, up, down) for up, down in by_hand.values()]
        theirs, *seconds = fastest(rounds, in_loop(_async_with, stock, 10, times), *programs)
        client.stop()
    provider.shutdown()
    return [
        Row(f"uncontended `async with` and {what} at each acquire and release", STOCK, mine / theirs)
        for what, mine in zip(by_hand, seconds, strict=True)
    ]


async def _call_at_each(
    semaphore: Semaphore, times: int, acquired: Callable[[], object], released: Callable[[], object]
) -> float:
    began = process_time()
    for _ in range(times):
        async with semaphore:
            acquired()
        released()
    return process_time() - began
