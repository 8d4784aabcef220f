"""A program with fifty limits: admissions, time-outs, cancellations and refusals at random, and owners that change.

    python -m chaos.program ADDRESS SEED

It runs until its standard input is closed. Then it prints, as JSON, what the callers of its limits saw, and what the
push cost it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from random import Random
from typing import Any

from pushmetrics import AdmissionTimeoutError, MeteredSemaphore, QueueFullError, Registry, Reporter
from pushmetrics.model import Counters

NAMESPACE = "chaos"
FLUSH_INTERVAL = 0.2
LIMITS = 50
CALLERS = 3
"""For each limit."""
CONTENDED = "contended_ms_total"


class LogLines(logging.Handler):
    """Keeps what was said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Place:
    """One limit of the program: a semaphore, those that call it, and what they saw."""

    def __init__(self, name: str, random: Random, registry: Registry) -> None:
        self.name = name
        self.seen: Counter[str] = Counter()
        self._random = random
        self._registry = registry
        self._options: dict[str, Any] = {
            "admission_timeout": random.choice([None, 0.02, 0.1]),
            "max_queue_depth": random.choice([None, 1, 3]),
        }
        self._counters: list[Counters] = []
        self.renew()

    def renew(self) -> None:
        """Let another semaphore with the same tags take over; the old one goes when its last caller has gone."""
        self.limit = MeteredSemaphore(
            self._random.choice([1, 2, 3]),
            component="chaos",
            limit_name=self.name,
            registry=self._registry,
            **self._options,
        )
        self._counters.append(self.limit.counters)

    async def call(self, timeout: float | None, hold: float) -> None:
        limit = self.limit
        arguments = {} if timeout is None else {"timeout": timeout}
        try:
            await limit.acquire(**arguments)
        except AdmissionTimeoutError:
            self.seen["admission_timeouts_total"] += 1
            return
        except QueueFullError:
            self.seen["admission_rejected_total"] += 1
            return
        except asyncio.CancelledError:
            self.seen["admission_cancelled_total"] += 1
            raise
        self.seen["admissions_total"] += 1
        try:
            await asyncio.sleep(hold)
        finally:
            limit.release()

    async def caller(self, stopping: asyncio.Event) -> None:
        random = self._random
        while not stopping.is_set():
            await asyncio.sleep(random.random() * 0.15)
            call = asyncio.create_task(self.call(random.choice([None, 0, 0.01, 1.0]), random.random() * 0.1))
            if random.random() < 0.2:
                await asyncio.sleep(random.random() * 0.05)
                call.cancel()
            await asyncio.wait([call])

    def events(self) -> dict[str, int]:
        """What happened here, by the names of the metrics; no caller sees the last two."""
        now = time.monotonic()
        return dict(
            self.seen,
            admissions_queued_total=sum(counters.admissions_queued for counters in self._counters),
            **{CONTENDED: sum(counters.contended_ms(now) for counters in self._counters)},
        )

    @property
    def was_renewed(self) -> bool:
        """Then limits with equal tags have overlapped, and their contended time is the larger one, not the sum."""
        return len(self._counters) > 1


class Heartbeat:
    """The longest time for which the loop gave nobody a turn, beyond the time that was asked for."""

    longest = 0.0
    longest_cpu = 0.0
    """The most CPU time between two beats: what of it the program itself used, however busy the machine is."""
    interval = 0.005

    async def beat(self, stopping: asyncio.Event) -> None:
        last, last_cpu = time.monotonic(), time.thread_time()
        while not stopping.is_set():
            await asyncio.sleep(self.interval)
            now, now_cpu = time.monotonic(), time.thread_time()
            self.longest = max(self.longest, now - last - self.interval)
            self.longest_cpu = max(self.longest_cpu, now_cpu - last_cpu)
            last, last_cpu = now, now_cpu


async def renew_now_and_then(places: list[Place], random: Random, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        await asyncio.sleep(0.25)
        random.choice(places).renew()


async def stop_at_end_of_input(stopping: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.read()
    transport.close()
    stopping.set()


def resident_kib() -> int:
    """The most memory that the process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def main(address: str, seed: int) -> dict[str, Any]:
    log = LogLines()
    logger = logging.getLogger("pushmetrics")
    logger.setLevel(logging.INFO)
    logger.addHandler(log)
    logger.propagate = False
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # A busy machine makes slow callbacks, of which it warns.

    random = Random(seed)
    registry = Registry()
    places = [Place(f"limit-{number}", random, registry) for number in range(LIMITS)]
    stopping = asyncio.Event()
    heartbeat = Heartbeat()
    reporter = Reporter(registry=registry, sink=address, namespace=NAMESPACE, flush_interval=FLUSH_INTERVAL)
    async with reporter:
        await reporter.flush()
        before = resident_kib()
        work: list[Coroutine[Any, Any, None]] = [stop_at_end_of_input(stopping), heartbeat.beat(stopping)]
        work += [renew_now_and_then(places[: LIMITS // 5], random, stopping)]
        work += [place.caller(stopping) for place in places for _ in range(CALLERS)]
        await asyncio.gather(*work)
        # The receiver is up and reads by now, but may take some time.
        for _ in range(20):
            if not (await reporter.flush()).failures:
                break
    statistics = reporter.statistics()
    return {
        "events": {place.name: place.events() for place in places},
        "renewed": [place.name for place in places if place.was_renewed],
        "datagrams": statistics.datagrams,
        "flushes": statistics.flushes,
        "failures": statistics.failures,
        "counts_expired": statistics.counts_expired,
        "longest_gap_ms": round(heartbeat.longest * 1000),
        "longest_cpu_ms": round(heartbeat.longest_cpu * 1000),
        "memory_growth_kib": resident_kib() - before,
        "log": log.lines,
    }


if __name__ == "__main__":
    json.dump(asyncio.run(main(sys.argv[1], int(sys.argv[2]))), sys.stdout)
