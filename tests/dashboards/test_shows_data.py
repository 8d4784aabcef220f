"""Every query of every widget shows data: of the demo's service, and the right values of a load that is known."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from pretend_workers import PHASE, Fleet, Worker

from pushmetrics import AdmissionTimeoutError, MeteredSemaphore, QueueFullError, Registry, Reporter, clock
from pushmetrics.catalog import LEVELS, metrics_at
from pushmetrics.dashboards import load
from pushmetrics.dashboards.evaluate import Panel, evaluate_dashboard
from pushmetrics.dashboards.render import render
from pushmetrics.demo.driver import RolloutDriver
from pushmetrics.demo.model_server import ModelServer
from pushmetrics.demo.verifier import Verifier
from pushmetrics.errors import InvalidValueError
from pushmetrics.receiver import Receiver
from pushmetrics.settings import DEFAULT_NAMESPACE

DASHBOARDS = ("concurrency_limits", "limit_detail")

SECONDS = 6.0
BUCKET = 0.5
OTHER_NAMESPACE = "myapp.limits"
PICKS = {
    "component": "model_server",
    "limit_name": "upstream_requests",
    "server": "policy_model",
    "env": "prod",
    "service": "rollouts",
}
"""Values of the model server, which has each metric that there is."""


@dataclass(frozen=True)
class Run:
    """What has arrived of a run of the demo's service, and what happened in it."""

    receiver: Receiver
    now: float
    limits: tuple[MeteredSemaphore, ...]

    def panels(self, name: str, level: str, namespace: str, **picked: str) -> list[Panel]:
        (template,) = render([load(name)], namespace=namespace, level=level)
        return evaluate_dashboard(template.body, self.receiver, self.now, 2 * SECONDS, picked=picked)


async def run_service(level: str, namespace: str) -> Run:
    registry = Registry()
    driver, verifier = RolloutDriver(6, registry), Verifier(1, registry)
    # Only a limit with a bounded queue has rejections, and only one with a timeout has time-outs.
    server = ModelServer(2, 0.4, registry, max_queue_depth=3)
    async with Receiver(bucket_seconds=BUCKET) as receiver:
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        reporter = Reporter(
            flush_interval=BUCKET / 2,
            sink=f"udp://{host}:{port}",
            level=level,
            namespace=namespace,
            registry=registry,
            constant_tags=("env:prod", "service:rollouts"),
            worker=None,
        )
        async with reporter, server:
            await driver.run(server.url, verifier, SECONDS, asyncio.Event())
    return Run(receiver, clock.wall() + BUCKET, (driver.limit, server.limit, verifier.limit))


@pytest.fixture(scope="module")
def runs() -> dict[tuple[str, str], Run]:
    """Runs of the service by level and namespace, all of them at once."""
    wanted = [*((level, DEFAULT_NAMESPACE) for level in LEVELS), ("full", OTHER_NAMESPACE)]

    async def run_all() -> list[Run]:
        return await asyncio.gather(*(run_service(*which) for which in wanted))

    return dict(zip(wanted, asyncio.run(run_all()), strict=True))


def empty(panels: list[Panel]) -> list[str]:
    """Each query, and each formula, that shows nothing."""
    shown = [(panel.title, what, lines) for panel in panels for what, lines in panel.queries]
    shown += [(panel.title, layer.label, layer.lines) for panel in panels for layer in panel.layers]
    return [f"{title}: {what}" for title, what, lines in shown if not any(lines.points.values())]


@pytest.mark.demo
class TestOfTheDemosService:
    @pytest.mark.parametrize("name", DASHBOARDS)
    @pytest.mark.parametrize("level", LEVELS)
    def test_each_query_of_each_widget_shows_data(
        self, runs: dict[tuple[str, str], Run], name: str, level: str
    ) -> None:
        panels = runs[level, DEFAULT_NAMESPACE].panels(name, level, DEFAULT_NAMESPACE)

        assert sum(len(panel.queries) for panel in panels) >= 9
        assert empty(panels) == []

    @pytest.mark.parametrize("name", DASHBOARDS)
    def test_under_another_namespace_too(self, runs: dict[tuple[str, str], Run], name: str) -> None:
        run = runs["full", OTHER_NAMESPACE]

        assert empty(run.panels(name, "full", OTHER_NAMESPACE)) == []
        # What was not rendered for it finds the reporter's health, and nothing else.
        assert empty(run.panels(name, "full", DEFAULT_NAMESPACE)) != []

    @pytest.mark.parametrize("name", DASHBOARDS)
    @pytest.mark.parametrize("variable", PICKS)
    def test_with_each_variable_picked(self, runs: dict[tuple[str, str], Run], name: str, variable: str) -> None:
        run = runs["full", DEFAULT_NAMESPACE]

        assert empty(run.panels(name, "full", DEFAULT_NAMESPACE, **{variable: PICKS[variable]})) == []
        nobodys = run.panels(name, "full", DEFAULT_NAMESPACE, **{variable: "nobodys"})
        of_limits = [lines for panel in nobodys for query, lines in panel.queries if DEFAULT_NAMESPACE in query]
        assert of_limits
        assert not any(lines.points for lines in of_limits), f"{variable} is not in each scope"

    @pytest.mark.parametrize("name", DASHBOARDS)
    def test_with_all_variables_picked(self, runs: dict[tuple[str, str], Run], name: str) -> None:
        assert empty(runs["full", DEFAULT_NAMESPACE].panels(name, "full", DEFAULT_NAMESPACE, **PICKS)) == []

    def test_each_metric_of_the_catalogue_is_shown_somewhere(self, runs: dict[tuple[str, str], Run]) -> None:
        run = runs["full", DEFAULT_NAMESPACE]
        queries = " ".join(
            query
            for name in DASHBOARDS
            for panel in run.panels(name, "full", DEFAULT_NAMESPACE)
            for query, _ in panel.queries
        )

        assert [metric.name for metric in metrics_at("full") if f".{metric.name}{{" not in queries] == []

    def test_what_was_counted_is_what_the_bars_add_up_to(self, runs: dict[tuple[str, str], Run]) -> None:
        run = runs["full", DEFAULT_NAMESPACE]
        panels = run.panels("concurrency_limits", "full", DEFAULT_NAMESPACE)
        shown = {
            layer.label: sum(sum(points.values()) for points in layer.lines.points.values())
            for panel in panels
            if panel.title in {"Admissions", "Ended without a slot"}
            for layer in panel.layers
        }
        totals = [limit.statistics() for limit in run.limits]

        assert shown == {
            "at once": sum(one.admissions - one.admissions_queued for one in totals),
            "after a wait": sum(one.admissions_queued for one in totals),
            "timed out": sum(one.admission_timeouts for one in totals),
            "rejected, queue full": sum(one.admission_rejected for one in totals),
            "cancelled by the caller": sum(one.admission_cancelled for one in totals),
        }
        assert shown["after a wait"] > 0


async def put_under_load(worker: Worker) -> tuple[MeteredSemaphore, list[asyncio.Task[None]]]:
    """Fill a limit of 4: 2 wait, and of those who asked, 1 was cancelled, 1 rejected, and 2 timed out."""
    limit = worker.limit(4, max_queue_depth=3)
    holders = await worker.hold(limit, 4)
    waiters = await worker.hold(limit, 3)
    for _ in range(2):
        with pytest.raises(AdmissionTimeoutError):
            await limit.acquire(timeout=0)
    with pytest.raises(QueueFullError):
        await limit.acquire()
    await worker.let_go(waiters[2:])
    return limit, holders


def values(panel: Panel, place: int) -> dict[tuple[str, ...], float]:
    """The values of a panel by label and group, in the bucket at `place`, from the newest on."""
    found = {}
    for layer in panel.layers:
        starts = layer.lines.span.starts()
        for group, points in layer.lines.points.items():
            found[layer.label, *group] = points.get(starts[place])
    return found


LIMIT = ("api", "calls", "s1")


@pytest.mark.parametrize("number", [1, 4])
async def test_a_known_load_has_the_right_values(number: int) -> None:
    async with Fleet(number, level="full", constant_tags=["env:prod", "service:x"]) as fleet:
        loads = [await put_under_load(worker) for worker in fleet.workers]
        await fleet.buckets(3)  # The third ends when the fourth begins; in each the flush comes after 6 s.
        by_title = {}
        for name in DASHBOARDS:
            panels = evaluate_dashboard(load(name).body, fleet.receiver, fleet.now, 30)
            by_title |= {(name, panel.title): panel for panel in panels}
            assert empty(panels) == []
        overview = {title: panel for (name, title), panel in by_title.items() if name == "concurrency_limits"}
        detail = {title: panel for (name, title), panel in by_title.items() if name == "limit_detail"}

        # What holds things up: everything is added up over the workers, and shares are shares.
        assert values(overview["Wanted of each slot, active and queued"], 0) == {("wanted", *LIMIT): 150}
        assert values(overview["Share of time contended"], 0) == {
            ("contended", *LIMIT): pytest.approx((100 * PHASE / 10 + 100 + 100) / 3)
        }
        assert values(overview["Oldest wait"], 0) == {("oldest wait", *LIMIT): (20 + PHASE) * 1000}

        assert values(overview["Active against limit"], -1) == {("active",): 4 * number, ("limit",): 4 * number}
        assert values(overview["Slots in use, by limit"], -1) == {("in use", *LIMIT): 100}
        assert values(overview["Queue depth, by limit"], -1) == {("queued", *LIMIT): 2 * number}
        assert values(overview["Oldest wait, by limit"], -2) == {("oldest wait", *LIMIT): (10 + PHASE) * 1000}
        assert values(overview["Share of time contended, by limit"], -1) == {("contended", *LIMIT): 100}
        assert values(overview["Share of time contended, by limit"], 0) == {("contended", *LIMIT): 10 * PHASE}
        assert values(overview["Peak of active, by limit"], 0) == {("peak of active", *LIMIT): 4 * number}
        assert values(overview["Peak of the queue, by limit"], 0) == {("peak of the queue", *LIMIT): 3 * number}
        assert values(overview["Peak of the queue, by limit"], -1) == {("peak of the queue", *LIMIT): 2 * number}
        assert values(overview["Admissions"], 0) == {("at once",): 4 * number, ("after a wait",): 0}
        assert values(overview["Ended without a slot"], 0) == {
            ("timed out",): 2 * number,
            ("rejected, queue full",): number,
            ("cancelled by the caller",): number,
        }
        assert values(overview["Ended without a slot"], -1) == {
            ("timed out",): 0,
            ("rejected, queue full",): 0,
            ("cancelled by the caller",): 0,
        }
        assert values(overview["Series reported"], -1) == {("series",): number}
        assert values(overview["How late flushes began"], -1) == {("late",): 0}
        assert values(overview["Events expired"], -1) == {("expired",): 0}

        assert values(detail["Limit"], 0) == {("limit",): 4 * number}
        assert values(detail["Active"], 0) == {("active",): 4 * number}
        assert values(detail["Queued"], 0) == {("queued",): 2 * number}
        assert values(detail["Got no slot"], 0) == {("got no slot",): 50}
        assert values(detail["Free slots"], -1) == {("free",): 0}

        for worker, (_, holders) in zip(fleet.workers, loads, strict=True):
            await worker.let_go(holders[:3])
        await fleet.buckets(1)
        panels = evaluate_dashboard(load("concurrency_limits").body, fleet.receiver, fleet.now, 30)
        overview = {panel.title: panel for panel in panels}

        assert values(overview["Active against limit"], -1) == {("active",): 3 * number, ("limit",): 4 * number}
        assert values(overview["Queue depth, by limit"], -1) == {("queued", *LIMIT): 0}
        assert values(overview["Admissions"], -1) == {("at once",): 0, ("after a wait",): 2 * number}
        longest = values(overview["Longest wait, by limit"], -1)[("longest", *LIMIT)]
        assert longest == pytest.approx(30_000, rel=0.001)


async def test_a_limit_that_can_neither_time_out_nor_reject_breaks_no_formula() -> None:
    async with Fleet() as fleet:
        (worker,) = fleet.workers
        limit = worker.limit(1)
        await worker.hold(limit, 1)
        (waiter,) = await worker.hold(limit, 1)
        await worker.let_go([waiter])
        await fleet.buckets(2)
        panels = {
            panel.title: panel for panel in evaluate_dashboard(load("limit_detail").body, fleet.receiver, fleet.now, 20)
        }

        assert {"admission_timeouts_total", "admission_rejected_total"}.isdisjoint(
            series.name.rpartition(".")[2] for series in fleet.receiver.series()
        )
        assert values(panels["Got no slot"], 0) == {("got no slot",): 50}


async def test_what_a_worker_owes_comes_late_and_is_cut_at_100_percent() -> None:
    async with Fleet(2) as fleet:
        first = fleet.workers[0]
        limits = [worker.limit(1) for worker in fleet.workers]
        for worker, limit in zip(fleet.workers, limits, strict=True):
            await worker.hold(limit, 2)
        await fleet.buckets(1)
        first.sink.silent = True  # It delivers nothing, and so owes it.
        await fleet.buckets(3)
        first.sink.silent = False
        await fleet.buckets(1)
        panels = evaluate_dashboard(load("concurrency_limits").body, fleet.receiver, fleet.now, 10)

        (late,) = fleet.receiver.series(f"{DEFAULT_NAMESPACE}.contended_ms_total", "limit_name:calls", "worker:1")
        assert late.points(10)[-1].sum == 10_000
        (owed,) = (
            series
            for series in fleet.receiver.series(f"{DEFAULT_NAMESPACE}.contended_ms_total")
            if not any(tag.startswith("worker:") for tag in series.tags)
        )
        assert owed.points(10)[-1].sum == 40_000
        shares = {panel.title: values(panel, -1) for panel in panels if panel.title.startswith("Share of time")}
        assert {*shares["Share of time contended, by limit"].values()} == {100}


def test_a_variable_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InvalidValueError, match="has no variable 'region'; it has: component, limit_name, server, env"):
        evaluate_dashboard(load("limit_detail").body, Receiver(), clock.wall(), 60, picked={"region": "eu"})
