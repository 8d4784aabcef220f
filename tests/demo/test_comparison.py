"""The comparison, on what real limits push to a real listener, and on what somebody has tampered with."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from pushmetrics import AdmissionTimeoutError, MeteredSemaphore, QueueFullError, Registry, Reporter
from pushmetrics.catalog import COUNT, metrics_at
from pushmetrics.demo.arrivals import Arrivals
from pushmetrics.demo.comparison import Comparison, compare
from pushmetrics.demo.view import Outcome
from pushmetrics.dogstatsd import parse
from pushmetrics.live.board import Board

FLUSHES = 4


class TamperingArrivals(Arrivals):
    """Takes one of the datagrams that make a total grow `times` times; the first of them has the number 0."""

    def __init__(self, number: int, times: int) -> None:
        super().__init__()
        self.counting = 0
        """How many such datagrams have come."""
        self._number = number
        self._times = times

    def feed(self, data: bytes) -> None:
        lines, _ = parse(data)
        times = 1
        if any(line.kind == "c" and line.values[0] and line.name.startswith("gym.") for line in lines):
            times = self._times if self.counting == self._number else 1
            self.counting += 1
        for _ in range(times):
            super().feed(data)


def two_limits(registry: Registry) -> list[MeteredSemaphore]:
    return [
        MeteredSemaphore(1, component="driver", limit_name="rollouts", registry=registry),
        MeteredSemaphore(
            1,
            component="server",
            limit_name="requests",
            server="model",
            admission_timeout=60,
            max_queue_depth=1,
            registry=registry,
        ),
    ]


async def make_everything_happen(limit: MeteredSemaphore) -> None:
    """Let each counter of `limit` grow: by one, admissions by three."""

    async def hold() -> None:
        async with limit:
            await asyncio.sleep(0)

    async with limit:
        with suppress(AdmissionTimeoutError):
            await limit.acquire(timeout=0.003)
        waiter = asyncio.create_task(limit.acquire())
        await asyncio.sleep(0)
        if limit.max_queue_depth is not None:
            with pytest.raises(QueueFullError):
                await limit.acquire()
        waiter.cancel()
        await asyncio.wait([waiter])
    await asyncio.gather(hold(), hold())


async def push(level: str, number: int = -1, times: int = 1) -> tuple[TamperingArrivals, Comparison]:
    registry = Registry()
    limits = two_limits(registry)
    async with TamperingArrivals(number, times) as arrivals:
        host, port = await arrivals.listen_udp("127.0.0.1", 0)
        async with Reporter(sink=f"udp://{host}:{port}", registry=registry, level=level) as reporter:
            await reporter.flush()
            for _ in range(FLUSHES):
                await asyncio.gather(*map(make_everything_happen, limits))
                await reporter.flush()
    return arrivals, compare(arrivals.totals(), limits, level)


@pytest.mark.parametrize("level", ["core", "standard", "full"])
async def test_every_counter_that_arrived_equals_what_happened(level: str) -> None:
    arrivals, comparison = await push(level)

    counts = {metric.name for metric in metrics_at(level) if metric.kind is COUNT}
    limits = Board(arrivals).look().limits
    arrived = [{name for name in row.values if name.endswith("_total")} for row in limits]
    assert comparison.differences == ()
    assert arrivals.statistics().refused == 0
    assert arrived == [counts - {"admission_rejected_total"}, counts]  # A call's own timeout makes a limit time out.
    assert comparison.counters == sum(map(len, arrived))
    assert [row.value("admissions_total") for row in limits] == (
        [None, None] if level == "core" else [3 * FLUSHES, 3 * FLUSHES]
    )
    assert [*comparison.of_limits.values()] == [(len(names), len(names)) for names in arrived]


@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.parametrize("number", range(FLUSHES))
@pytest.mark.parametrize("level", ["core", "standard"])
async def test_a_datagram_that_is_lost_or_doubled_is_noticed(level: str, number: int, times: int) -> None:
    arrivals, comparison = await push(level, number, times)

    assert arrivals.counting >= FLUSHES
    assert comparison.differences
    for difference in comparison.differences:
        assert difference.arrived is not None
        assert (difference.arrived < difference.happened) is (times == 0)


def test_a_limit_that_never_arrived_differs_in_each_of_its_counters() -> None:
    limits = two_limits(Registry())

    comparison = compare({}, limits, "core")

    assert [str(difference) for difference in comparison.differences] == [
        "driver rollouts: of admission_cancelled_total nothing arrived, 0 happened",
        "server requests model: of admission_timeouts_total nothing arrived, 0 happened",
        "server requests model: of admission_cancelled_total nothing arrived, 0 happened",
    ]


def test_a_counter_that_nobody_has_is_a_difference() -> None:
    (limit, _) = two_limits(Registry())
    totals = {
        ("gym.concurrency.admission_cancelled_total", limit.tags): 0.0,
        ("gym.concurrency.made_up_total", ("env:prod", *limit.tags)): 2.0,
        ("pushmetrics.send_failures_total", ("env:prod",)): 3.0,
    }

    comparison = compare(totals, [limit], "core")

    (difference,) = comparison.differences
    assert comparison.of_limits == {limit.tags: (1, 2)}
    assert str(difference) == "driver rollouts: of made_up_total 2 arrived, 0 happened"


def test_a_run_is_good_only_if_nothing_is_missing() -> None:
    (limit, _) = two_limits(Registry())
    bad = compare({}, [limit], "core")
    good = bad._replace(differences=())

    def outcome(**arguments: object) -> Outcome:
        return Outcome(rollouts={}, flushes=1, datagrams=1, **arguments)  # type: ignore[arg-type]  # Checked at the call.

    assert outcome(comparison=good).good
    assert outcome().good
    assert not outcome(comparison=bad).good
    assert not outcome(comparison=good, unreadable={"unknown type": 1}).good
    assert not outcome(owed={"ECONNREFUSED": 1}).good
