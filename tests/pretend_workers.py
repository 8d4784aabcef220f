"""Worker processes in one process: each has a registry and a reporter of its own, and all feed one receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics.model import Delivery, Sample
from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock

BUCKET = 10.0
PHASE = 6.0
"""Seconds into a bucket at which each worker flushes."""


class WorkerSink:
    """Writes the lines of a worker."""

    def __init__(self, feed: Callable[[bytes], None]) -> None:
        self._feed = feed
        self.silent = False

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        for sample in samples:
            if self.silent:
                continue
            descriptor = sample.descriptor
            values = [*sample.values, *sample.waits]
            names = [*descriptor.names, *[descriptor.names[-1]] * (len(values) - len(descriptor.names))]
            kinds = [*descriptor.kinds, *[descriptor.kinds[-1]] * (len(values) - len(descriptor.kinds))]
            tags = ",".join(descriptor.tags)
            self._feed(
                "\n".join(
                    f"{descriptor.namespace}.{name}:{value:g}|{kind}{'|#' if tags else ''}{tags}"
                    for name, kind, value in zip(names, kinds, values, strict=False)
                ).encode()
            )
            sample.delivered()
        return Delivery(datagrams=1)

    async def aclose(self) -> None:
        pass


class Worker:
    """One process."""

    def __init__(self, receiver: Receiver, number: int, options: dict[str, Any]) -> None:
        self.registry = Registry()
        self.sink = WorkerSink(receiver.feed)
        self.reporter = Reporter(registry=self.registry, sink=self.sink, worker=number, **options)
        self.reporter._phase = PHASE  # A reporter chooses its own by chance.
        self._limits: list[MeteredSemaphore] = []  # A registry does not keep them.
        self._tasks: list[asyncio.Task[None]] = []

    def limit(self, value: int, name: str = "calls", **more: Any) -> MeteredSemaphore:
        """Make a limit that this process reports, and keep it."""
        settings = {"component": "api", "server": "s1"} | more
        limit = MeteredSemaphore(value, limit_name=name, registry=self.registry, **settings)
        self._limits.append(limit)
        return limit

    async def hold(self, limit: MeteredSemaphore, number: int) -> list[asyncio.Task[None]]:
        """Let so many tasks acquire the limit and keep it, or wait for it; returns them."""
        tasks = [asyncio.create_task(_hold(limit)) for _ in range(number)]
        self._tasks += tasks
        await asyncio.sleep(0)
        return tasks

    async def let_go(self, tasks: list[asyncio.Task[None]] | None = None) -> None:
        """Cancel tasks, all by default: those that hold release, those that wait are cancelled."""
        tasks = self._tasks if tasks is None else tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _hold(limit: MeteredSemaphore) -> None:
    async with limit:
        await asyncio.Event().wait()


class Fleet:
    """Several workers, the receiver that they feed, and the clock by which all of them live."""

    def __init__(self, number: int = 1, **options: Any) -> None:
        self.clock = ManualClock()
        self.receiver = Receiver(bucket_seconds=BUCKET)
        self.workers = [Worker(self.receiver, place, options) for place in range(number)]
        self._stack = AsyncExitStack()

    @property
    def now(self) -> float:
        return self.clock.wall()

    async def __aenter__(self) -> Self:
        self._stack.enter_context(self.clock)
        for worker in self.workers:
            await self._stack.enter_async_context(worker.reporter)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        for worker in self.workers:
            await worker.let_go()
        await self._stack.aclose()

    async def buckets(self, number: int = 1) -> None:
        """Let so many buckets of the Agent pass."""
        for _ in range(number):
            await self.clock.advance(BUCKET)
