"""A flush of many limits against the same metrics sent through the official client, and how long it holds the loop.

Both send to a port on loopback that another process reads; datagrams that it is too slow for are dropped by the
kernel, at no cost to the sender. The client sends no telemetry of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter, process_time

from datadog.dogstatsd.base import DogStatsd
from table import Row, fastest
from udp import drained_port

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics.catalog import COUNT
from pushmetrics.model import Sample

LEVEL = "standard"


def flush(quick: bool) -> list[Row]:
    """Measure flushes over UDP."""
    rounds, limits = (2, 200) if quick else (7, 10_000)
    with drained_port() as port, asyncio.Runner() as runner:
        first_holds = []
        for _ in range(2 if quick else 5):
            first = Reported(limits, f"udp://127.0.0.1:{port}")
            fastest(1, lambda first=first: runner.run(first.first_flush()))
            first_holds += first.holds
            runner.run(first.close())

        ours = Reported(limits, f"udp://127.0.0.1:{port}")
        runner.run(ours.first_flush())
        ours.holds.clear()
        buffered, unbuffered = (
            DogStatsd(host="127.0.0.1", port=port, disable_buffering=unbuffered, disable_telemetry=True)
            for unbuffered in (False, True)
        )
        samples = list(ours.registry.collect(LEVEL, "gym.concurrency"))
        per_flush, per_buffered_call, per_unbuffered_call = fastest(
            rounds,
            lambda: runner.run(ours.flush()),
            partial(call_client, buffered, samples),
            partial(call_client, unbuffered, samples),
        )
        runner.run(ours.close())
        buffered.stop()
        unbuffered.stop()
    per_sample = per_flush / sum(map(len, samples))
    what = f"flush of {limits:,} limits over UDP, per sample, sends included"
    hold = f"longest time that one flush of {limits:,} limits holds the loop"
    return [
        Row(what, "official client, buffered, per call", per_sample / per_buffered_call, 0.3),
        Row(what, "official client, unbuffered, per call", per_sample / per_unbuffered_call),
        Row(hold, "", min(ours.holds) * 1000, 5, " ms"),
        Row(f"{hold}, the first flush", "", min(first_holds) * 1000, 5, " ms"),
    ]


class Reported:
    """Limits in a registry with a reporter: a third is free, a third has a holder, a third is full with a waiter."""

    def __init__(self, limits: int, address: str) -> None:
        self.registry = Registry(max_series=2 * limits)
        self.limits = [
            MeteredSemaphore(2, component="benchmark", limit_name=f"limit_{number}", registry=self.registry)
            for number in range(limits)
        ]
        self.reporter = Reporter(sink=address, registry=self.registry, level=LEVEL)
        self.holds: list[float] = []
        """Of each flush, the seconds for which it kept the loop from everybody else."""
        self._waiters: list[asyncio.Task[bool]] = []

    async def first_flush(self) -> float:
        """Start the reporter, let it flush once, and return the seconds of CPU time."""
        for number, limit in enumerate(self.limits):
            for _ in range(number % 3):
                await limit.acquire()
            if limit.locked():
                self._waiters.append(asyncio.create_task(limit.acquire()))
        await asyncio.sleep(0)
        with longest_step(self.holds.append):
            began = process_time()
            await self.reporter.start()
            while not self.reporter.statistics().flushes:
                await asyncio.sleep(0.01)
            return process_time() - began

    async def flush(self) -> float:
        """Use each limit that is free, flush, and return the seconds of CPU time that the flush took."""
        for limit in self.limits:
            if not limit.locked():
                async with limit:
                    pass
        with longest_step(self.holds.append):
            began = process_time()
            result = await self.reporter.flush()
            seconds = process_time() - began
        assert result.series == len(self.limits) and not result.failures, result
        return seconds

    async def close(self) -> None:
        """Stop the reporter and all who wait."""
        await self.reporter.aclose()
        for waiter in self._waiters:
            waiter.cancel()
        if self._waiters:
            await asyncio.wait(self._waiters)


@contextmanager
def longest_step(report: Callable[[float], None]) -> Iterator[None]:
    """Report the seconds that the longest step of the event loop took by the wall clock."""
    longest = 0.0
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        nonlocal longest
        began = perf_counter()
        run(handle)
        longest = max(longest, perf_counter() - began)

    asyncio.Handle._run = timed
    try:
        yield
    finally:
        asyncio.Handle._run = run
    report(longest)


def call_client(client: DogStatsd, samples: list[Sample]) -> float:
    """Send the samples with a call for each value, and return the seconds of CPU time per call."""
    calls = [
        (client.increment if kind == COUNT else client.gauge, f"gym.concurrency.{name}", value, list(sample.descriptor.tags))
        for sample in samples
        for name, kind, value in zip(sample.descriptor.names, sample.descriptor.kinds, sample.values, strict=True)
    ]
    began = process_time()
    for call, name, value, tags in calls:
        call(name, value, tags=tags)
    client.flush()
    return (process_time() - began) / len(calls)
