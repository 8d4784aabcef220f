"""A flush of many limits against the same metrics sent with the official client, and how long it holds the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from resource import RUSAGE_SELF, getrusage
from time import perf_counter, process_time, thread_time
from unittest.mock import patch

from agent import agent, official_client
from datadog.dogstatsd.base import DogStatsd
from table import Row, fastest

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics.catalog import COUNT
from pushmetrics.dogstatsd import Template, pack
from pushmetrics.model import Sample
from pushmetrics.settings import parse_address
from pushmetrics.sinks.dogstatsd_sink import PAUSE_SECONDS
from pushmetrics.sinks.official_client import LineSuffix
from pushmetrics.sinks.udp import UdpTransport
from pushmetrics.sinks.unix import UnixTransport

LEVEL = "standard"
NAMESPACE = "gym.concurrency"


def flush(quick: bool) -> list[Row]:
    """Measure flushes over UDP and over a Unix socket."""
    return _rows("udp", "UDP", 0.3, quick) + _rows("unix", "a Unix socket", 0.2, quick)


def _rows(scheme: str, name: str, at_most: float, quick: bool) -> list[Row]:
    rounds, limits = (2, 200) if quick else (7, 10_000)
    with agent(scheme) as address, asyncio.Runner() as runner:

        def first_flush() -> float:
            reported = Reported(limits, address)
            seconds = runner.run(reported.start())
            runner.run(reported.close())
            return seconds

        (first_hold,) = fastest(rounds, first_flush)

        ours = Reported(limits, address)
        runner.run(ours.start())
        samples = list(ours.registry.collect(LEVEL, NAMESPACE))
        buffered = official_client(address, buffered=True)
        unbuffered = official_client(address, buffered=False)
        ready_made = ReadyMade(samples, address)
        per_flush, per_sending, per_buffered_call, per_unbuffered_call = fastest(
            rounds,
            lambda: runner.run(ours.flush()),
            lambda: runner.run(ready_made.send()),
            partial(call_client, buffered, samples),
            partial(call_client, unbuffered, samples),
        )
        runner.run(ours.close())
        ready_made.transport.close()
        buffered.stop()
        unbuffered.stop()

    number_of_samples = sum(map(len, samples))
    per_sample = per_flush / number_of_samples
    what = f"flush of {limits:,} limits over {name}, per sample, sends included"
    sending = f"of it, to send its datagrams over {name}, made before, with its pauses"
    hold = f"longest time that {{}} flush of {limits:,} limits over {name} holds the loop"
    return [
        Row(what, "official client, buffered, per call", per_sample / per_buffered_call, at_most),
        Row(sending, "official client, buffered, per call", per_sending / number_of_samples / per_buffered_call),
        Row(what, "official client, unbuffered, per call", per_sample / per_unbuffered_call),
        Row(hold.format("the first"), "", first_hold * 1000, 5, " ms"),
        Row(hold.format("a later"), "", min(ours.holds) * 1000, 5, " ms"),
    ]


class Reported:
    """Limits with a reporter: a third is used before each flush, a third is held, a third is full with a waiter."""

    def __init__(self, limits: int, address: str) -> None:
        self.registry = Registry(max_series=limits)
        self.limits = [
            MeteredSemaphore(2, component="benchmark", limit_name=f"limit_{number}", registry=self.registry)
            for number in range(limits)
        ]
        self.reporter = Reporter(sink=address, registry=self.registry, level=LEVEL, namespace=NAMESPACE)
        self.holds: list[float] = []
        """Of each flush but the first, the seconds of its longest step, which keeps the loop from everybody else."""
        self._waiters: list[asyncio.Task[bool]] = []

    async def start(self) -> float:
        """Start the reporter and return the seconds of the longest step of its first flush."""
        for number, limit in enumerate(self.limits):
            for _ in range(number % 3):
                await limit.acquire()
            if limit.locked():
                self._waiters.append(asyncio.create_task(limit.acquire()))
        await asyncio.sleep(0)  # They queue.
        with timed_steps() as steps:
            await self.reporter.start()
            await asyncio.create_task(self.reporter.flush())  # It begins when the first one, at the start, has ended.
        return max(steps)

    async def flush(self) -> float:
        """Use the limits, flush, and return the seconds of CPU time that the flush took."""
        uses = 1 + len(self.holds) % 2  # Not the same every time: what stays as it is would cost less to send again.
        for limit in self.limits[::3]:
            for _ in range(uses):
                async with limit:
                    pass
        with timed_steps() as steps:
            began = process_time()
            result = await asyncio.create_task(self.reporter.flush())
            seconds = process_time() - began
        assert result.series == len(self.limits), result
        assert not result.failures, result
        self.holds.append(max(steps))
        return seconds

    async def close(self) -> None:
        """Stop the reporter and all who wait."""
        await self.reporter.aclose()
        for waiter in self._waiters:
            waiter.cancel()
        await asyncio.gather(*self._waiters, return_exceptions=True)


class ReadyMade:
    """The datagrams of a flush, made before it is timed: to send them is the least that a flush can cost."""

    def __init__(self, samples: list[Sample], address: str) -> None:
        scheme, host, port, path = parse_address(address)
        self.transport = UdpTransport(host, port) if scheme == "udp" else UnixTransport(path)
        suffix = LineSuffix()
        templates = [Template(sample.descriptor, suffix(sample.descriptor.tags)) for sample in samples]
        filled = ((sample, template.fill(sample)) for sample, template in zip(samples, templates, strict=True))
        self._datagrams = [data for data, _ in pack(filled, self.transport.max_bytes)]

    async def send(self) -> float:
        """Send them as a sink does, and return the seconds of CPU time."""
        began = process_time()
        await self.transport.open()
        for number, data in enumerate(self._datagrams, 1):
            while not self._is_taken(data):
                await self.transport.writable()
            if self.transport.burst is not None and number % self.transport.burst == 0:
                self.transport.confirm()
                await asyncio.sleep(PAUSE_SECONDS)
        return process_time() - began

    def _is_taken(self, data: bytes) -> bool:
        try:
            self.transport.send(data)
        except BlockingIOError:
            return False
        return True


@contextmanager
def timed_steps() -> Iterator[list[float]]:
    """Yield a list that gets the seconds that each step of the event loop takes.

    By the wall clock, unless another program was given the CPU meanwhile: then the CPU time of the step. A task that
    is to be timed starts inside: the step that is under way is not seen.
    """
    steps: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        preemptions, cpu, began = getrusage(RUSAGE_SELF).ru_nivcsw, thread_time(), perf_counter()
        run(handle)
        seconds = perf_counter() - began
        if getrusage(RUSAGE_SELF).ru_nivcsw > preemptions:
            seconds = thread_time() - cpu
        steps.append(seconds)

    with patch.object(asyncio.Handle, "_run", timed):
        yield steps


def call_client(client: DogStatsd, samples: list[Sample]) -> float:
    """Send the samples with a call for each value, and return the seconds of CPU time per call."""
    calls = []
    for sample in samples:
        descriptor = sample.descriptor
        tags = list(descriptor.tags)
        for name, kind, value in zip(descriptor.names, descriptor.kinds, sample.values, strict=True):
            call = client.increment if kind == COUNT else client.gauge
            calls.append((call, f"{NAMESPACE}.{name}", value, tags))
    began = process_time()
    for call, name, value, tags in calls:
        call(name, value, tags=tags)
    client.flush()
    return (process_time() - began) / len(calls)
