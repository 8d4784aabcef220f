"""Byte for byte what the official client sends: each metric, under each combination of its variables."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from datadog.dogstatsd.base import DogStatsd

from pushmetrics import DogStatsDSink, MeteredSemaphore, Registry, Reporter
from pushmetrics.catalog import DISTRIBUTION, HEALTH_METRICS, LEVELS, Metric, metrics_at
from pushmetrics.dogstatsd import Line, Template, parse_line, rate_field
from pushmetrics.model import Descriptor, Sample
from pushmetrics.sinks.official_client import LineSuffix

VARIABLES = {
    "DD_ENV": "prod",
    "DD_SERVICE": "shop",
    "DD_VERSION": "1.2.3",
    "DATADOG_TAGS": "team:search,canary,url:a:b/c",
    "DD_ENTITY_ID": "3f2a-1b",
    "DD_EXTERNAL_ENV": "it-false,cn-app,pu-75a2b6d5",
    "DD_CARDINALITY": "low",
    "DATADOG_CARDINALITY": "orchestrator",
    "DD_ORIGIN_DETECTION_ENABLED": "false",
}
CONTAINER = "a container id"
"""Not a variable; the client reads it from the kernel."""

TAGS = ("component:model_server", "limit_name:requests", "server:eu-1", "zone:é")
CONSTANT_TAGS = ("region:eu-west-1", "blue")
NAMESPACE = "gym.concurrency"


class Recorder:
    """Where the client expects a socket."""

    def __init__(self) -> None:
        self.sent = b""

    def send(self, data: bytes) -> int:
        self.sent = data
        return len(data)

    def close(self) -> None:
        pass


class OfficialClient:
    """The official client, set up as its documentation says, and what it sends for a call."""

    def __init__(self, namespace: str, constant_tags: tuple[str, ...]) -> None:
        self.client = DogStatsd(
            namespace=namespace,
            constant_tags=list(constant_tags),
            # initialize() gives it to the client like this.
            cardinality=os.environ.get("DATADOG_CARDINALITY", os.environ.get("DD_CARDINALITY")),
            disable_telemetry=True,
        )
        self.recorder = Recorder()
        self.client.socket = self.recorder

    def line(self, metric: Metric, value: float, tags: tuple[str, ...], rate: float = 1) -> bytes:
        method = {"g": self.client.gauge, "c": self.client.count, "d": self.client.distribution}[metric.kind]
        method(metric.name, value, tags=list(tags), sample_rate=rate)
        return self.recorder.sent.removesuffix(b"\n")


@pytest.fixture(autouse=True)
def every_sample_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datadog.dogstatsd.base.random", lambda: 0.0)


@pytest.fixture(autouse=True)
def no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    set_container(monkeypatch, None)


def set_container(patch: pytest.MonkeyPatch, container_id: str | None) -> None:
    class Cgroup:
        def __init__(self) -> None:
            self.container_id = container_id

    patch.setattr("datadog.dogstatsd.base.Cgroup", Cgroup)


def set_up(patch: pytest.MonkeyPatch, chosen: tuple[str, ...]) -> None:
    for name in chosen:
        if name == CONTAINER:
            set_container(patch, "ci-3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860")
        else:
            patch.setenv(name, VARIABLES[name])


def combinations() -> Iterator[tuple[str, ...]]:
    everything = (*VARIABLES, CONTAINER)
    for size in range(len(everything) + 1):
        yield from itertools.combinations(everything, size)


FEW = [(), *((name,) for name in (*VARIABLES, CONTAINER)), (*VARIABLES, CONTAINER), (*list(VARIABLES)[:7], CONTAINER)]
"""None, each alone, all, and all that leave the container id there."""


def sample_of(level: str, one_in: int = 1, *, tags: tuple[str, ...] = TAGS + CONSTANT_TAGS) -> Sample:
    metrics = metrics_at(level)
    descriptor = Descriptor(NAMESPACE, [metric.name for metric in metrics], [metric.kind for metric in metrics], tags)
    scalars = sum(metric.kind != DISTRIBUTION for metric in metrics)
    values = tuple(7 ** (place + 1) for place in range(scalars - 1))
    return Sample(descriptor, (0, *values), (0.0, 0.001, 1234.5, 99999999.999)[: 4 * (level == "full")], one_in)


def expected(official: OfficialClient, sample: Sample, tags: tuple[str, ...]) -> list[bytes]:
    metrics = {metric.name: metric for metric in metrics_at("full")}
    named = zip(sample.descriptor.names, sample.values, strict=False)
    rate = float(rate_field(sample.one_in).removeprefix("|@") or 1)
    waits = metrics["queue_duration_ms"]
    return [official.line(metrics[name], value, tags) for name, value in named] + [
        official.line(waits, wait, tags, rate) for wait in sample.waits
    ]


def written(sample: Sample) -> list[bytes]:
    return Template(sample.descriptor, LineSuffix()(sample.descriptor.tags)).fill(sample).splitlines()


def test_each_metric_of_each_level_under_every_combination_of_variables() -> None:
    sample = sample_of("full", 4)
    seen = set()
    for chosen in combinations():
        with pytest.MonkeyPatch.context() as patch:
            set_up(patch, chosen)
            official = OfficialClient(NAMESPACE, CONSTANT_TAGS)

            lines = written(sample)

            assert lines == expected(official, sample, TAGS)
        seen.add(lines[0].partition(b"|")[2])

    # Two of the variables hide another one: origin detection off, the container id; the cardinality, the other.
    assert len(seen) == 2**6 * 3 * 2
    names = {line.split(b":")[0].decode().removeprefix(f"{NAMESPACE}.") for line in lines}
    assert names == {metric.name for metric in metrics_at("full")}


@pytest.mark.parametrize("one_in", [*range(1, 40), 99, 1000, 1234, 3125, 9999])
def test_sample_rates(one_in: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to one in ten thousand: a smaller rate is 5e-05 to the client, and an exponent is no number for others."""
    set_up(monkeypatch, ("DD_ENV", "DD_CARDINALITY"))
    sample = sample_of("full", one_in)

    assert written(sample) == expected(OfficialClient(NAMESPACE, CONSTANT_TAGS), sample, TAGS)
    assert (b"|@0." in written(sample)[-1]) == (one_in > 1)


@pytest.mark.parametrize(
    ("tags", "constant_tags"),
    [((), ()), (TAGS, ()), ((), CONSTANT_TAGS), (TAGS, CONSTANT_TAGS), (("canary",), ("env:dev", "service:x"))],
)
@pytest.mark.parametrize("namespace", ["gym.concurrency", "a", "MyApp.x_1"])
@pytest.mark.parametrize("chosen", [(), ("DD_ENV", "DATADOG_TAGS"), ("DD_EXTERNAL_ENV",)])
def test_with_and_without_tags(
    tags: tuple[str, ...],
    constant_tags: tuple[str, ...],
    namespace: str,
    chosen: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_up(monkeypatch, chosen)
    descriptor = Descriptor(namespace, ["limit"], ["g"], tags + constant_tags)
    sample = Sample(descriptor, (100,))

    assert written(sample) == expected(OfficialClient(namespace, constant_tags), sample, tags)


@pytest.fixture
def agent() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.setblocking(False)
        yield agent


def address_of(agent: socket.socket) -> str:
    return f"udp://127.0.0.1:{agent.getsockname()[1]}"


def received(agent: socket.socket) -> list[bytes]:
    lines: list[bytes] = []
    while True:
        try:
            lines += agent.recv(65536).split(b"\n")
        except BlockingIOError:
            return lines


@pytest.mark.parametrize("chosen", FEW, ids=lambda chosen: " ".join(chosen) or "nothing")
async def test_what_the_sink_sends_over_a_socket(
    chosen: tuple[str, ...], agent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(monkeypatch, chosen)
    official = OfficialClient(NAMESPACE, CONSTANT_TAGS)
    sink = DogStatsDSink(address_of(agent))
    for level in LEVELS:
        sample = sample_of(level, 3)

        await sink.push(iter([sample]))

        assert received(agent) == expected(official, sample, TAGS)
    await sink.aclose()


def again(official: OfficialClient, data: bytes, constant_tags: tuple[str, ...]) -> bytes:
    """The line that the client sends for the call of which `data` is ours."""
    line: Line = parse_line(data)
    metrics = {metric.name: metric for metric in (*metrics_at("full"), *HEALTH_METRICS)}
    metric = metrics[line.name.removeprefix(f"{official.client.namespace}.")]
    value: Any = line.values[0] if metric.kind == DISTRIBUTION else int(line.values[0])
    own = line.tags[: line.tags.index(constant_tags[0])]
    return official.line(metric, value, own, line.rate)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("chosen", [FEW[0], *FEW[-2:]], ids=["nothing", "everything", "and the container"])
async def test_what_a_reporter_sends_its_health_included(
    level: str, chosen: tuple[str, ...], agent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(monkeypatch, chosen)
    registry = Registry()
    limit = MeteredSemaphore(
        1,
        component="model_server",
        limit_name="requests",
        server="eu-1",
        tags={"zone": "é", "model": "Policy"},
        admission_timeout=0.001,
        max_queue_depth=600,
        registry=registry,
    )
    async with Reporter(
        registry=registry, sink=address_of(agent), level=level, constant_tags=CONSTANT_TAGS, flush_interval=10
    ) as reporter:
        await reporter.flush()
        async with limit:
            await asyncio.gather(*(limit.acquire() for _ in range(502)), return_exceptions=True)
            await reporter.flush()

    lines = [line for line in received(agent) if line]

    clients = {namespace: OfficialClient(namespace, CONSTANT_TAGS) for namespace in (NAMESPACE, "pushmetrics")}
    for line in lines:
        assert line == again(
            clients["pushmetrics" if line.startswith(b"pushmetrics.") else NAMESPACE], line, CONSTANT_TAGS
        )
    names = {line.split(b":")[0].decode() for line in lines}
    assert names == {f"{NAMESPACE}.{metric.name}" for metric in metrics_at(level)} | {
        f"pushmetrics.{metric.name}" for metric in HEALTH_METRICS
    }
    assert any(b"|@0.5|" in line for line in lines) == (level == "full")
