"""What other people's servers make of what a reporter pushes: every line taken, every value as pushed.

Datadog's server ships 10 s after its start. Everything is sent to one of them, the tests that need no shipment come
first, and one wait is left for the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import pytest
from servers import Key
from servers.datadog_server import DatadogServer
from servers.etsy_statsd import EtsyStatsd

from pushmetrics import (
    AdmissionTimeoutError,
    DogStatsDSink,
    LimitStatistics,
    MeteredSemaphore,
    QueueFullError,
    Registry,
    Reporter,
)
from pushmetrics.catalog import HEALTH_METRICS, LEVELS, metrics_at
from pushmetrics.dogstatsd import parse
from pushmetrics.model import Delivery, Sample, Tags

pytest_plugins = ["servers.fixtures"]

pytestmark = pytest.mark.server

CONTAINER = "ci-3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860"


class Pushed:
    """What has been pushed, by the keys that the servers are asked by."""

    def __init__(self) -> None:
        self.gauges: dict[Key, float] = {}
        self.counts: Counter[Key] = Counter()
        self.waits: defaultdict[Key, list[float]] = defaultdict(list)
        self.waited: Counter[str] = Counter()
        self.lines = 0

    def note(self, sample: Sample, more_tags: Tags) -> None:
        descriptor = sample.descriptor
        pairs = (tag.partition(":") for tag in descriptor.tags + more_tags)
        tags = tuple(sorted((name, value) for name, _, value in pairs))
        for name, kind, value in zip(descriptor.names, descriptor.kinds, sample.values, strict=False):
            if kind == "g":
                self.gauges[f"{descriptor.namespace}.{name}", tags] = value
            else:
                self.counts[f"{descriptor.namespace}.{name}", tags] += value
        if sample.waits:
            name = f"{descriptor.namespace}.{descriptor.names[-1]}"
            self.waits[name, tags] += sample.waits
            self.waited[name] += len(sample.waits) * sample.one_in
        self.lines += len(sample)


class NotingSink:
    """Pushes to a real server and notes what; `more_tags` are those that the environment adds."""

    def __init__(self, port: int, pushed: Pushed, more_tags: Tags = ()) -> None:
        self.sink = DogStatsDSink(f"udp://127.0.0.1:{port}")
        self.pushed = pushed
        self.more_tags = more_tags

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        return await self.sink.push(self.noted(samples))

    def noted(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            self.pushed.note(sample, self.more_tags)
            yield sample

    async def aclose(self) -> None:
        await self.sink.aclose()


SHAPES: tuple[dict[str, Any], ...] = (
    {"limit_name": "plain"},
    {"limit_name": "of_a_server", "server": "http://10.0.0.1:8000/v1"},
    {"limit_name": "with_a_timeout", "admission_timeout": 0.001},
    {"limit_name": "that_rejects", "max_queue_depth": 2},
    {
        "limit_name": "with_everything",
        "server": "eu-1",
        "tags": {"region": "EU West", "zone": "b", "model": "Policy-7b", "tier": "1", "shard": "x" * 100},
        "admission_timeout": 0.001,
        "max_queue_depth": 2,
    },
    {"limit_name": "größe", "server": "日本", "tags": ["farbe:grün", "emoji:a😀b"]},
    {"limit_name": "shut", "value": 0, "admission_timeout": 0.001},
)

SETUPS: dict[str, tuple[tuple[str, ...], dict[str, str], Tags]] = {
    # Constant tags, variables, and the tags that those add.
    "plain": ((), {}, ()),
    "constant": (("team:search", "canary", "env:test"), {}, ()),
    "unified": (
        ("team:search",),
        {"DD_ENV": "prod", "DD_SERVICE": "shop", "DD_VERSION": "1.2.3", "DATADOG_TAGS": "url:a:b/c,blue"},
        ("url:a:b/c", "blue", "env:prod", "service:shop", "version:1.2.3"),
    ),
    "origin": ((), {"DD_EXTERNAL_ENV": "it-false,cn-app,pu-75a2b6d5", "DD_CARDINALITY": "low"}, ()),
}


async def use(limit: MeteredSemaphore) -> AsyncIterator[None]:
    """Let each of its metrics move, step by step, so that a flush fits in between."""
    slots = limit.limit
    for _ in range(slots):
        await limit.acquire()
    yield
    waiters = [asyncio.create_task(limit.acquire()) for _ in range(3)]
    await asyncio.sleep(0.001)
    yield
    waiters[0].cancel()
    await asyncio.gather(waiters[0], return_exceptions=True)
    if limit.admission_timeout is not None:
        with contextlib.suppress(AdmissionTimeoutError, QueueFullError):
            await limit.acquire(timeout=0.001)
    yield
    for _ in range(slots):
        limit.release()
    if not slots:
        for waiter in waiters:
            waiter.cancel()
    outcomes = await asyncio.gather(*waiters, return_exceptions=True)
    yield
    for _ in range(outcomes.count(True) - 1):  # One slot is left in use, for the gauges to show.
        limit.release()


def statistics_of(limits: list[MeteredSemaphore]) -> dict[Tags, LimitStatistics]:
    return {limit.tags: limit.statistics() for limit in limits}


async def push_shapes(port: int, pushed: Pushed, setup: str, level: str) -> dict[Tags, LimitStatistics]:
    """Report limits of every shape to a server, in a namespace of their own; return what they have counted."""
    constant_tags, variables, more_tags = SETUPS[setup]
    registry = Registry()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        if setup == "origin":
            patch.setattr("datadog.dogstatsd.base.Cgroup", lambda: type("Cgroup", (), {"container_id": CONTAINER}))
        else:
            patch.setenv("DD_ORIGIN_DETECTION_ENABLED", "false")
        sink = NotingSink(port, pushed, more_tags)
    limits = [
        MeteredSemaphore(**{"value": 2} | shape, component="Model Server", registry=registry)
        for shape in (SHAPES if setup == "plain" else SHAPES[3:6])
    ]
    reporter = Reporter(
        registry=registry, sink=sink, namespace=f"shapes.{setup}.{level}", level=level, constant_tags=constant_tags
    )
    async with reporter:
        used = [use(limit) for limit in limits]
        for _ in range(5):
            await reporter.flush()
            for steps in used:
                await anext(steps, None)
    assert reporter.statistics().failures == {}
    assert reporter.statistics().series == len(limits)
    return statistics_of(limits)


async def push_more_waits_than_fit(port: int, pushed: Pushed) -> None:
    registry = Registry()
    limit = MeteredSemaphore(0, component="model_server", limit_name="crowded", registry=registry)
    async with Reporter(
        registry=registry, sink=NotingSink(port, pushed), namespace="sampled", level="full", flush_interval=10
    ) as reporter:
        await reporter.flush()
        waiters = [asyncio.create_task(limit.acquire()) for _ in range(1200)]
        await asyncio.sleep(0)
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        assert (await reporter.flush()).failures == {}


class Service:
    """Does in small what the package is for: tasks that contend for limits, give up, and are cancelled."""

    def __init__(self, registry: Registry) -> None:
        self.random = Random(7)
        self.rollouts = MeteredSemaphore(20, component="driver", limit_name="rollouts", registry=registry)
        self.upstream = MeteredSemaphore(
            4,
            component="model_server",
            limit_name="upstream_requests",
            server="policy_model",
            admission_timeout=0.02,
            max_queue_depth=12,
            registry=registry,
        )
        self.verifier = MeteredSemaphore(2, component="verifier", limit_name="processes", registry=registry)
        self.limits = [self.rollouts, self.upstream, self.verifier]

    async def work(self) -> None:
        await asyncio.sleep(self.random.uniform(0, 0.004))

    async def rollout(self) -> None:
        async with self.rollouts:
            try:
                async with self.upstream:
                    await self.work()
            except (AdmissionTimeoutError, QueueFullError):
                return
            with contextlib.suppress(AdmissionTimeoutError):
                async with self.verifier.slot(timeout=self.random.choice([None, 0, 0.005, 1])):
                    await self.work()

    async def client(self, until: float) -> None:
        while time.monotonic() < until:
            rollout = asyncio.create_task(self.rollout())
            if self.random.random() < 0.2:
                await asyncio.sleep(self.random.uniform(0, 0.01))
                rollout.cancel()
            await asyncio.gather(rollout, return_exceptions=True)

    async def run(self, seconds: float, clients: int = 60) -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(self.client(until) for _ in range(clients)))


async def push_service(port: int, pushed: Pushed) -> dict[Tags, LimitStatistics]:
    registry = Registry()
    service = Service(registry)
    async with Reporter(
        registry=registry, sink=NotingSink(port, pushed), namespace="service", level="full", flush_interval=0.1
    ) as reporter:
        await reporter.flush()
        await service.run(seconds=1.2)
    assert reporter.statistics().failures == {}
    assert reporter.statistics().flushes >= 5
    return statistics_of(service.limits)


class Everything:
    """Datadog's server, with all that these tests send already sent."""

    def __init__(self, server: DatadogServer) -> None:
        self.server = server
        self.pushed = Pushed()
        self.statistics: dict[str, dict[Tags, LimitStatistics]] = {}

    async def send(self) -> None:
        port = self.server.port
        self.statistics["service"] = await push_service(port, self.pushed)
        for setup in SETUPS:
            for level in LEVELS:
                counted = await push_shapes(port, self.pushed, setup, level)
                self.statistics[f"shapes.{setup}.{level}"] = counted
                await asyncio.to_thread(self.server.settle)  # Its queue is no deeper than 1,024 datagrams.
        await push_more_waits_than_fit(port, self.pushed)


@pytest.fixture(scope="module")
def sent(datadog_server: DatadogServer) -> Everything:
    everything = Everything(datadog_server)
    asyncio.run(everything.send())
    datadog_server.settle()
    return everything


@pytest.fixture(scope="module")
def shipped(sent: Everything) -> Everything:
    """The same, after the server has said what it would post to Datadog."""
    pushed = sent.pushed

    def complete(server: DatadogServer) -> bool:
        counts = server.counts()
        return server.gauges().keys() >= pushed.gauges.keys() and all(
            counts.get(key, -1) >= total for key, total in pushed.counts.items()
        )

    sent.server.wait_for(complete)
    return sent


class TestTheLines:
    def test_datadogs_server_refuses_none(self, sent: Everything) -> None:
        assert sent.server.refused == []
        assert sent.server.errors == []
        assert sent.server.drops == 0
        assert len(sent.server.lines) == sent.pushed.lines

    def test_the_strict_parser_refuses_none(self, sent: Everything) -> None:
        for datagram in sent.server.received:
            assert parse(datagram.encode())[1] == []
            assert len(datagram.encode()) <= 1432

    def test_every_metric_of_every_level_is_among_them(self, sent: Everything) -> None:
        names = {line.partition(":")[0] for line in sent.server.lines}

        for setup in SETUPS:
            for level in LEVELS:
                prefix = f"shapes.{setup}.{level}."
                found = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
                assert found == {metric.name for metric in metrics_at(level)}
        assert {f"pushmetrics.{metric.name}" for metric in HEALTH_METRICS} <= names

    def test_each_shape_has_its_metrics_and_no_others(self, sent: Everything) -> None:
        names = defaultdict(set)
        for line in sent.server.lines:
            if found := re.fullmatch(r"shapes\.plain\.standard\.(\w+):.*limit_name:([^,|]+).*", line):
                names[found[2]].add(found[1])
        base = {metric.name for metric in metrics_at("standard")}
        timeouts, rejected = {"admission_timeouts_total"}, {"admission_rejected_total"}

        assert names == {
            "plain": base - timeouts - rejected,
            "of_a_server": base - timeouts - rejected,
            "with_a_timeout": base - rejected,
            "that_rejects": base - timeouts,
            "with_everything": base,
            "größe": base - timeouts - rejected,
            "shut": base - rejected,
        }

    def test_a_single_process_has_no_worker_tag(self, sent: Everything) -> None:
        assert not any("worker" in line for line in sent.server.lines)

    def test_origin_fields_are_on_every_line_where_they_are_set_and_nowhere_else(self, sent: Everything) -> None:
        end = f"|c:{CONTAINER}|e:it-false,cn-app,pu-75a2b6d5|card:low"
        for line in sent.server.lines:
            if not line.startswith("pushmetrics."):
                assert line.endswith(end) == line.startswith("shapes.origin.")
                assert ("|c:" in line) == line.startswith("shapes.origin.")

    def test_a_choice_of_waits_says_its_rate(self, sent: Everything) -> None:
        lines = [line for line in sent.server.lines if line.startswith("sampled.queue_duration_ms:")]

        assert len(lines) == 400
        assert all("|d|@0.333333333333|#component:" in line for line in lines)


async def test_etsys_statsd_has_the_same_gauges_and_counters(etsy_statsd: EtsyStatsd) -> None:
    pushed = Pushed()

    for setup in ("plain", "constant", "unified"):  # It does not know the fields of the fourth.
        for level in ("core", "standard"):
            await push_shapes(etsy_statsd.port, pushed, setup, level)

    gauges, counters = await asyncio.to_thread(lambda: (etsy_statsd.gauges(), etsy_statsd.counters()))
    assert etsy_statsd.refused == []
    assert gauges == pushed.gauges
    assert counters == pushed.counts


COUNTERS = {
    "admissions_total": "admissions",
    "admissions_queued_total": "admissions_queued",
    "admission_timeouts_total": "admission_timeouts",
    "admission_cancelled_total": "admission_cancelled",
    "admission_rejected_total": "admission_rejected",
    "contended_ms_total": "contended_ms",
}
GAUGES = ("limit", "active", "available", "queue_depth", "oldest_wait_ms")


def tags_of(key: Key) -> set[str]:
    return {f"{name}:{value}" for name, value in key[1]}


class TestWhatDatadogWouldGet:
    def test_gauges_have_the_last_value_and_their_tags(self, shipped: Everything) -> None:
        assert shipped.server.gauges() == shipped.pushed.gauges

    def test_counts_are_summed_over_all_flushes(self, shipped: Everything) -> None:
        assert shipped.server.counts() == shipped.pushed.counts

    def test_distributions_are_counted(self, shipped: Everything) -> None:
        distributions = shipped.server.distributions()

        assert distributions.keys() == shipped.pushed.waits.keys()
        for key, waits in shipped.pushed.waits.items():
            sketch = distributions[key]
            assert (sketch.cnt, sketch.min, sketch.max) == (len(waits), min(waits), max(waits))
            assert sketch.sum == pytest.approx(sum(waits), rel=1e-9)

    def test_nothing_is_both_a_gauge_and_a_count(self, shipped: Everything) -> None:
        kinds = {(series.metric, series.kind) for shipment in shipped.server.shipments for series in shipment.series}
        catalogue = {metric.name: metric.kind for metric in (*metrics_at("full"), *HEALTH_METRICS)}

        assert {name.rpartition(".")[2]: kind[0].lower() for name, kind in kinds} == {
            name: kind for name, kind in catalogue.items() if kind != "d"
        }

    def test_what_the_limits_say_of_themselves_is_what_arrived(self, shipped: Everything) -> None:
        """Every counter of every limit, and its gauges as it was left."""
        counts, gauges = shipped.server.counts(), shipped.server.gauges()
        for namespace, limits in shipped.statistics.items():
            for tags, statistics in limits.items():
                arrived = {
                    key[0].removeprefix(f"{namespace}."): value
                    for key, value in (counts | gauges).items()
                    if key[0].startswith(f"{namespace}.") and set(tags) <= tags_of(key)
                }
                for name, attribute in COUNTERS.items():
                    if name in arrived:
                        assert arrived[name] == getattr(statistics, attribute), (namespace, tags, name)
                for name in GAUGES:
                    if name in arrived:
                        assert arrived[name] == getattr(statistics, name), (namespace, tags, name)
                assert len(arrived) >= 5


def test_the_main_job(shipped: Everything) -> None:
    """A service under load: everything that happened to its limits has arrived, once."""
    counts = shipped.server.counts()
    totals: Counter[str] = Counter()
    for tags, counted in shipped.statistics["service"].items():
        mine = {key[0].removeprefix("service."): count for key, count in counts.items() if tags_of(key) == set(tags)}
        for name, attribute in COUNTERS.items():
            # What a limit can not have is missing, not 0.
            assert mine.get(name, 0) == getattr(counted, attribute)
            totals[attribute] += getattr(counted, attribute)

    # The load was one: each outcome came about, and many times.
    assert all(totals[attribute] >= 5 for attribute in COUNTERS.values()), totals
    waited = totals["admissions_queued"] + totals["admission_cancelled"]
    assert shipped.pushed.waited["service.queue_duration_ms"] > 0.98 * waited
    peaks = {key[0] for key, value in shipped.server.gauges().items() if key[0].startswith("service.") and value}
    assert peaks >= {"service.limit", "service.available", "service.active_peak"}
