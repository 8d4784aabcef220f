"""Datadog's own server, stopped and started: whatever is pushed meanwhile arrives in one of them, and once."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from random import Random, randrange

import pytest
from conftest import missing
from servers import ServerUnavailableError
from servers.datadog_server import DatadogServer

from pushmetrics import AdmissionTimeoutError, MeteredSemaphore, Registry, Reporter
from pushmetrics.dogstatsd import parse_line

pytestmark = pytest.mark.server

ROUNDS = 6
COUNTED = ("admissions", "admissions_queued", "admission_timeouts", "admission_cancelled", "contended_ms")
SEED = int(os.environ.get("PUSHMETRICS_TEST_CHAOS_SEED") or randrange(10**6))


def received(server: DatadogServer) -> Counter[tuple[str, str]]:
    """The counts of each limit, of all lines that the server has logged as received."""
    counts: Counter[tuple[str, str]] = Counter()
    assert server.refused == []
    for text in server.lines:
        line = parse_line(text.encode())
        if line.kind == "c" and line.tags:
            (limit,) = (tag.partition(":")[2] for tag in line.tags if tag.startswith("limit_name:"))
            counts[limit, line.name.removeprefix("gym.concurrency.")] += int(line.values[0])
    return counts


async def work(limits: list[MeteredSemaphore], random: Random) -> None:
    """Some admissions, time-outs and cancellations on each limit."""

    async def call(limit: MeteredSemaphore) -> None:
        try:
            async with limit.slot(timeout=random.choice([0, 0.001, 1])):
                await asyncio.sleep(random.random() / 100)
        except AdmissionTimeoutError:
            pass

    calls = [asyncio.create_task(call(limit)) for limit in limits for _ in range(random.randrange(8))]
    await asyncio.sleep(0.002)
    for each in calls:
        if random.random() < 0.2:
            each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_what_happens_while_the_server_is_away_arrives_when_it_is_back() -> None:
    print(f"PUSHMETRICS_TEST_CHAOS_SEED={SEED}")  # noqa: T201 - whoever sees it fail wants to repeat it
    random = Random(SEED)
    registry = Registry()
    limits = {
        name: MeteredSemaphore(1, component="c", limit_name=name, admission_timeout=1, registry=registry)
        for name in (f"limit-{number}" for number in range(10))
    }
    counts: Counter[tuple[str, str]] = Counter()
    with ExitStack() as servers:
        try:
            server = servers.enter_context(DatadogServer())
        except ServerUnavailableError as error:
            missing(str(error))

        async def stop() -> None:
            await asyncio.to_thread(server.settle)  # So that nothing is left in its buffer.
            await asyncio.to_thread(server.stop)
            counts.update(received(server))

        sink = f"udp://127.0.0.1:{server.port}"
        async with Reporter(registry=registry, sink=sink, flush_interval=3600) as reporter:
            for _ in range(ROUNDS):
                await work(list(limits.values()), random)
                assert (await reporter.flush()).failures == {}
                await stop()
                for _ in range(random.randrange(1, 4)):
                    await work(list(limits.values()), random)
                    assert (await reporter.flush()).failures == {"ECONNREFUSED": 1}
                server = servers.enter_context(DatadogServer(port=server.port))
            await work(list(limits.values()), random)
        await stop()

    happened: Counter[tuple[str, str]] = Counter()
    for name, limit in limits.items():
        statistics = asdict(limit.statistics())
        happened.update({(name, f"{metric}_total"): statistics[metric] for metric in COUNTED})
    assert happened.total() > 0
    assert +counts == +happened
