"""For tests of programs that use pushmetrics: a clock that stands still, and a sink that can refuse.

>>> with ManualClock() as clock:
...     registry = Registry()
...     sink = RecordingSink()
...     # start a Reporter(registry=registry, sink=sink), then:
...     await clock.advance(10)  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Iterator
from itertools import count
from types import TracebackType
from typing import Self

from . import clock
from .model import Delivery, Sample
from .offload import under_way
from .sinks import MemorySink
from .workers import THREAD_NAME

__all__ = ["ManualClock", "RecordingSink"]


class ManualClock:
    """Stands still until it is advanced; everything in pushmetrics reads it while it is entered.

    Args:
        wall: Seconds since 1970 that the wall clock shows, by default the start of a bucket of the Agent.
        monotonic: Seconds that the monotonic clock shows, by default the next whole second of the real one: what was
            made before is not from the future, and whole seconds that are added stay whole.

    Timers of the event loop, and with them admission timeouts, go on by real time.
    """

    def __init__(self, *, wall: float = 1_800_000_000.0, monotonic: float | None = None) -> None:
        self._wall = wall
        self._monotonic = float(math.ceil(clock.monotonic())) if monotonic is None else monotonic
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._saved: dict[str, object] = {}

    def __enter__(self) -> Self:
        self._saved = {name: getattr(clock, name) for name in clock.__all__}
        vars(clock).update(wall=self.wall, monotonic=self.monotonic, sleep=self.sleep)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        vars(clock).update(self._saved)

    def wall(self) -> float:
        """Return the wall-clock time in seconds since 1970."""
        return self._wall

    def monotonic(self) -> float:
        """Return the monotonic time in seconds."""
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced by `seconds`."""
        wakeup = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._numbers), wakeup))
        await wakeup

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, waking each sleeper at its time, and let what it starts come to rest.

        Raises ValueError for a negative number: a monotonic clock never goes back.
        """
        if not seconds >= 0:
            raise ValueError(f"a clock is advanced by at least 0 s, got {seconds!r}")
        await _settle()
        end = self._monotonic + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, wakeup = heapq.heappop(self._sleepers)
            self._move_to(max(due, self._monotonic))
            if not wakeup.done():
                wakeup.set_result(None)
            await _settle()
        self._move_to(end)
        await _settle()

    def stall(self, seconds: float) -> None:
        """Let `seconds` pass without waking anybody, as a blocked event loop does."""
        self._move_to(self._monotonic + seconds)

    def set_wall(self, wall: float) -> None:
        """Set the wall clock, as NTP or an administrator does; the monotonic clock goes on."""
        self._wall = wall

    def _move_to(self, monotonic: float) -> None:
        self._wall += monotonic - self._monotonic
        self._monotonic = monotonic


async def _settle() -> None:
    """Give the loop the turns that a flush into memory needs, and worker slots the time that they take."""
    for _ in range(20):
        if work := under_way(THREAD_NAME):
            await asyncio.wait(work, timeout=1)
        await asyncio.sleep(0)


class RecordingSink(MemorySink):
    """A MemorySink that can be told to refuse, as an Agent that is away does.

    >>> sink = RecordingSink()
    >>> sink.refusing = True  # from now on nothing is delivered, and counts wait for the next flush
    """

    def __init__(self, max_samples: int = 10_000) -> None:
        super().__init__(max_samples)
        self.refusing = False
        self.flushes = 0
        self.closed = False

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Keep the samples, or refuse them."""
        self.flushes += 1
        if self.refusing:
            return Delivery(failures={"refused": sum(1 for _ in samples)})
        return await super().push(samples)

    async def aclose(self) -> None:
        """Note that the reporter has closed it."""
        self.closed = True
