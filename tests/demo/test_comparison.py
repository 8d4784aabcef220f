"""The comparison, on what real limits push to a real listener, and on what somebody has tampered with."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from pushmetrics import AdmissionTimeoutError, MeteredSemaphore, QueueFullError, Registry, Reporter
from pushmetrics.catalog import COUNT, metrics_at
from pushmetrics.demo.comparison import Comparison, compare
from pushmetrics.demo.listener import Listener
from pushmetrics.demo.readings import Readings
from pushmetrics.demo.view import Outcome
from pushmetrics.dogstatsd import parse

FLUSHES = 4


class TamperingListener(Listener):
    """Takes one of the datagrams that make a total grow `times` times; the first of them has the number 0."""

    def __init__(self, readings: Readings, number: int, times: int) -> None:
        super().__init__(readings)
        self.counting = 0
        """How many such datagrams have come."""
        self._number = number
        self._times = times

    def datagram_received(self, data: bytes, addr: object) -> None:
        lines, _ = parse(data)
        times = 1
        if any(line.kind == "c" and line.values[0] and line.name.startswith("gym.") for line in lines):
            times = self._times if self.counting == self._number else 1
            self.counting += 1
        for _ in range(times):
            super().datagram_received(data, addr)


def two_limits(registry: Registry) -> list[MeteredSemaphore]:
    return [
        MeteredSemaphore(1, component="driver", limit_name="rollouts", registry=registry),
        MeteredSemaphore(
            1,
            component="server",
            limit_name="requests",
            server="model",
            admission_timeout=0.01,
            max_queue_depth=1,
            registry=registry,
        ),
    ]


async def make_everything_happen(limit: MeteredSemaphore) -> None:
    """Let each counter of `limit` grow: by one, admissions by three."""

    async def hold() -> None:
        async with limit:
            await asyncio.sleep(0.002)

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


async def push(level: str, number: int = -1, times: int = 1) -> tuple[TamperingListener, Comparison]:
    registry = Registry()
    limits = two_limits(registry)
    readings = Readings()
    with TamperingListener(readings, number, times) as listener:
        async with listener.reading(), Reporter(sink=listener.sink, registry=registry, level=level) as reporter:
            await reporter.flush()
            for _ in range(FLUSHES):
                await asyncio.gather(*map(make_everything_happen, limits))
                await reporter.flush()
        return listener, compare(readings, limits, level)


@pytest.mark.parametrize("level", ["core", "standard", "full"])
async def test_every_counter_that_arrived_equals_what_happened(level: str) -> None:
    listener, comparison = await push(level)

    counts = {metric.name for metric in metrics_at(level) if metric.kind is COUNT}
    arrived = [set(reading.totals) for reading in listener.readings.limits]
    assert comparison.differences == ()
    assert not listener.refused
    assert arrived == [counts - {"admission_rejected_total"}, counts]  # A call's own timeout makes a limit time out.
    assert comparison.counters == sum(map(len, arrived))
    assert [reading.value("admissions_total") for reading in listener.readings.limits] == (
        [None, None] if level == "core" else [3 * FLUSHES, 3 * FLUSHES]
    )


@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.parametrize("number", range(FLUSHES))
@pytest.mark.parametrize("level", ["core", "standard"])
async def test_a_datagram_that_is_lost_or_doubled_is_noticed(level: str, number: int, times: int) -> None:
    listener, comparison = await push(level, number, times)

    assert listener.counting >= FLUSHES
    assert comparison.differences
    for difference in comparison.differences:
        assert difference.arrived is not None
        assert (difference.arrived < difference.happened) is (times == 0)


def test_a_limit_that_never_arrived_differs_in_each_of_its_counters() -> None:
    limits = two_limits(Registry())

    comparison = compare(Readings(), limits, "core")

    assert [str(difference) for difference in comparison.differences] == [
        "driver rollouts: of admission_cancelled_total nothing arrived, 0 happened",
        "server requests model: of admission_timeouts_total nothing arrived, 0 happened",
        "server requests model: of admission_cancelled_total nothing arrived, 0 happened",
    ]


def test_a_counter_that_nobody_has_is_a_difference() -> None:
    (limit, _) = two_limits(Registry())
    readings = Readings()
    readings.take("gym.concurrency.admission_cancelled_total", "c", 0, limit.tags)
    readings.take("gym.concurrency.made_up_total", "c", 2, limit.tags)

    (difference,) = compare(readings, [limit], "core").differences

    assert str(difference) == "driver rollouts: of made_up_total 2 arrived, 0 happened"


def test_a_run_is_good_only_if_nothing_is_missing() -> None:
    (limit, _) = two_limits(Registry())
    bad = compare(Readings(), [limit], "core")
    good = bad._replace(differences=())

    def outcome(**arguments: object) -> Outcome:
        return Outcome(rollouts={}, flushes=1, datagrams=1, **arguments)  # type: ignore[arg-type]  # Checked at the call.

    assert outcome(comparison=good).good
    assert outcome().good
    assert not outcome(comparison=bad).good
    assert not outcome(comparison=good, unreadable={"unknown type": 1}).good
    assert not outcome(owed={"ECONNREFUSED": 1}).good
