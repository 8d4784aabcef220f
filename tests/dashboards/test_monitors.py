"""Each monitor goes to alert under a load that is made for it, and back to OK by itself."""

from __future__ import annotations

from collections import Counter

import pytest
from pretend_workers import Fleet

from pushmetrics import AdmissionTimeoutError, MeteredSemaphore
from pushmetrics.catalog import LEVELS
from pushmetrics.dashboards import load, load_all
from pushmetrics.dashboards.evaluate import State, monitor_states
from pushmetrics.dashboards.render import render

MINUTE = 6
"""Buckets of the Agent."""

CALLS = ("api", "calls", "s1", "prod", "x")


class Watch:
    """Evaluates a monitor once a minute, as Datadog does, and keeps its states."""

    def __init__(self, fleet: Fleet, name: str, namespace: str) -> None:
        (template,) = render([load(name)], namespace=namespace)
        self._body = template.body
        self._fleet = fleet
        self.states: dict[tuple[str, ...], State] = {}

    async def minutes(self, number: int) -> dict[tuple[str, ...], State]:
        """Let so many minutes pass; return the states at their end."""
        for _ in range(number):
            await self._fleet.buckets(MINUTE)
            self.look()
        return self.states

    def look(self) -> dict[tuple[str, ...], State]:
        """Return the states of this moment."""
        self.states = monitor_states(self._body, self._fleet.receiver, self._fleet.now, self.states)
        return self.states


def fleet_and_watch(name: str, workers: int = 2) -> tuple[Fleet, Watch]:
    fleet = Fleet(workers, namespace="my.limits", constant_tags=["env:prod", "service:x"])
    return fleet, Watch(fleet, name, "my.limits")


async def test_a_queue_that_is_never_empty_for_five_minutes_saturates_a_limit() -> None:
    fleet, watch = fleet_and_watch("limit_saturated")
    async with fleet:
        first, second = fleet.workers
        limits = [worker.limit(4) for worker in fleet.workers]
        await second.hold(limits[1], 3)  # It has a slot left.
        assert await watch.minutes(1) == {CALLS: "OK"}

        tasks = await first.hold(limits[0], 5)
        assert await watch.minutes(4) == {CALLS: "OK"}
        assert await watch.minutes(2) == {CALLS: "Alert"}

        await first.let_go(tasks[4:])  # Full, and nobody waits.
        assert await watch.minutes(1) == {CALLS: "OK"}
        assert limits[0].active == limits[0].limit


async def test_a_queue_that_grows_alerts_until_it_grows_no_more() -> None:
    fleet, watch = fleet_and_watch("queue_growing")
    async with fleet:
        limits = [worker.limit(1) for worker in fleet.workers]
        for worker, limit in zip(fleet.workers, limits, strict=True):
            await worker.hold(limit, 1)
        assert await watch.minutes(10) == {CALLS: "OK"}

        seen: list[State] = []
        for _ in range(8):
            for worker, limit in zip(fleet.workers, limits, strict=True):
                await worker.hold(limit, 3)
            seen.append((await watch.minutes(1))[CALLS])
        assert seen[0] == "OK"
        assert seen[-1] == "Alert"
        assert sum(limit.queue_depth for limit in limits) == 48

        assert await watch.minutes(11) == {CALLS: "OK"}  # As long as it was, and no longer.


async def test_time_outs_alert_and_zeros_let_it_recover() -> None:
    # dd-agent#1648: an alert on a count that is never sent as 0 can not recover.
    fleet, watch = fleet_and_watch("admission_timeouts")
    async with fleet:
        limits = [worker.limit(1, admission_timeout=5) for worker in fleet.workers]
        for worker, limit in zip(fleet.workers, limits, strict=True):
            await worker.hold(limit, 1)
        assert await watch.minutes(1) == {CALLS: "OK"}

        await time_out(limits[0], 5)
        await time_out(limits[1], 5)
        assert await watch.minutes(1) == {CALLS: "OK"}  # Ten are not more than ten.
        await time_out(limits[1], 1)
        assert await watch.minutes(1) == {CALLS: "Alert"}

        assert await watch.minutes(5) == {CALLS: "OK"}


async def time_out(limit: MeteredSemaphore, number: int) -> None:
    for _ in range(number):
        with pytest.raises(AdmissionTimeoutError):
            await limit.acquire(timeout=0)


async def test_an_old_waiter_warns_then_alerts_and_is_forgotten() -> None:
    fleet, watch = fleet_and_watch("oldest_wait")
    async with fleet:
        worker = fleet.workers[1]
        limit = worker.limit(1)
        assert await watch.minutes(1) == {CALLS: "OK"}

        tasks = await worker.hold(limit, 2)
        await fleet.buckets(1)
        assert watch.look() == {CALLS: "OK"}
        await fleet.buckets(1)
        assert watch.look() == {CALLS: "Warn"}
        assert await watch.minutes(1) == {CALLS: "Alert"}

        await worker.let_go(tasks)
        assert await watch.minutes(6) == {CALLS: "OK"}


async def test_a_reporter_that_falls_silent_is_no_data_and_comes_back() -> None:
    fleet, watch = fleet_and_watch("reporter_silent")
    reporters = ("prod", "x")
    async with fleet:
        for worker in fleet.workers:
            worker.limit(1)
        assert await watch.minutes(1) == {reporters: "OK"}

        fleet.workers[0].sink.silent = True  # The other one goes on.
        assert await watch.minutes(11) == {reporters: "OK"}
        fleet.workers[1].sink.silent = True
        assert await watch.minutes(9) == {reporters: "OK"}
        assert await watch.minutes(2) == {reporters: "No Data"}

        for worker in fleet.workers:
            worker.sink.silent = False
        assert await watch.minutes(1) == {reporters: "OK"}


async def test_a_reporter_without_a_limit_alerts() -> None:
    fleet, watch = fleet_and_watch("reporter_silent", workers=1)
    async with fleet:
        limit = fleet.workers[0].limit(1)
        assert await watch.minutes(1) == {("prod", "x"): "OK"}

        fleet.workers[0].registry.unregister(limit)
        assert await watch.minutes(12) == {("prod", "x"): "Alert"}

        fleet.workers[0].registry.register(limit)
        assert await watch.minutes(1) == {("prod", "x"): "OK"}


@pytest.mark.parametrize("name", ["limit_saturated", "oldest_wait"])
async def test_a_limit_that_goes_away_takes_its_alert_with_it(name: str) -> None:
    fleet, watch = fleet_and_watch(name, workers=1)
    async with fleet:
        worker = fleet.workers[0]
        limit = worker.limit(1)
        await worker.hold(limit, 2)
        assert await watch.minutes(6) == {CALLS: "Alert"}

        fleet.workers[0].registry.unregister(limit)
        assert await watch.minutes(6) == {CALLS: "OK"}


async def test_each_limit_alerts_for_itself() -> None:
    fleet, watch = fleet_and_watch("limit_saturated", workers=1)
    async with fleet:
        worker = fleet.workers[0]
        worker.limit(1, "free", server=None)
        await worker.hold(worker.limit(1, "full"), 2)

        assert await watch.minutes(6) == {
            ("api", "full", "s1", "prod", "x"): "Alert",
            ("api", "free", "N/A", "prod", "x"): "OK",
        }


def test_at_a_level_that_does_not_send_it_a_monitor_is_left_out() -> None:
    monitors = [template for template in load_all() if template.kind == "monitor"]
    left = {level: {template.name for template in render(monitors, level=level)} for level in LEVELS}

    assert left["full"] == left["standard"] == {template.name for template in monitors}
    assert left["standard"] - left["core"] == {"oldest_wait"}


def test_whoever_is_to_be_notified_stands_in_each_message() -> None:
    rendered = render(load_all(), notify=["@slack-oncall", "@me@example.com"])

    mentioned = Counter(
        template.kind
        for template in rendered
        if template.body.get("message", "").endswith("@slack-oncall @me@example.com")
    )
    assert mentioned == {"monitor": 5}
