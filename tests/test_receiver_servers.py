"""The receiver makes of the same lines, bucket by bucket, what Datadog's own server ships.

Three streams go to both at the same moment: generated lines, what a Reporter sends while a program is busy with its
limits, and what `pushmetrics demo` sends. What that server is known to do otherwise is listed in
servers/datadog_server.py; lines that would meet it (packed values, sample rates, histograms, sets) are left out here.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
import sys
import time
from collections import defaultdict
from contextlib import closing, suppress
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from servers import Key
from servers.datadog_log import Shipment
from servers.datadog_server import DatadogServer

from pushmetrics import DogStatsDSink, MeteredSemaphore, Registry, Reporter
from pushmetrics.errors import AdmissionTimeoutError
from pushmetrics.receiver import Distribution, Receiver, Series

pytest_plugins = ["servers.fixtures"]
pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]

BUCKET = 10


class Both:
    """Gives each datagram to the server and to the receiver, in the same bucket of either."""

    def __init__(self, server: DatadogServer) -> None:
        self.server = server
        self.receiver = Receiver()
        self.refused_before = len(server.refused)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(("127.0.0.1", server.port))

    def send(self, datagram: bytes) -> None:
        self._socket.send(datagram)
        self.receiver.feed(datagram)

    def close(self) -> None:
        self._socket.close()


def wait_for_the_middle_of_a_bucket() -> None:
    """Both read the clock when they read the datagram, so nothing may be under way at the end of a bucket."""
    second = time.time() % BUCKET
    if not 0.2 < second < BUCKET - 3:
        time.sleep((0.2 - second) % BUCKET + 0.05)


NUMBERS = st.one_of(
    st.integers(-1000, 1000).map(str),
    st.integers(0, 10**15).map(str),
    st.floats(-1e9, 1e9, width=32).map(repr),
    st.sampled_from(["+4", ".5", "5.", "1e3", "1E-3", "-0", "007", "1e300", "1.7976931348623157e308"]),
)
TAGS = st.lists(
    st.sampled_from(["a:1", "a:2", "b:x/y.z", "flag", "url:a:b", "UPPER:Case", "ü:é", 'q:say_"yes"', "n:-1", "t:"]),
    max_size=4,
    unique=True,
)
BAD_LINES = st.sampled_from(
    [
        "bad",
        "bad:1",
        "bad:|g",
        ":1|g",
        "bad:1|q",
        "bad:x|g",
        "bad:1_0|g",
        "bad:0x1|g",
        "bad:1e|c",
        "bad: 1|g",
        "bad:--1|c",
    ]
)
FIELDS = st.tuples(
    st.sampled_from(["", "|@1", "|@1.0"]),
    st.none(),
    st.sampled_from(["", "|c:ci-0123", "|c:in-42"]),
    st.sampled_from(["", "|e:it-false,cn-app,pu-1"]),
    st.sampled_from(["", "|card:low", "|card:none"]),
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line that both understand, or that both refuse."""
    if draw(st.integers(0, 9)) == 0:
        return draw(BAD_LINES)
    kind = draw(st.sampled_from("gcd"))
    name = f"generated.{kind}{draw(st.integers(0, 9))}"
    number = draw(NUMBERS)
    if kind != "g" and abs(float(number)) > 1e200:
        number = "1"  # The sum of several would be infinite, which only ours refuses.
    tags = draw(TAGS)
    if tags and draw(st.booleans()):
        tags.insert(0, tags[0])
    rate, _, container, external, cardinality = draw(FIELDS)
    timestamp = ""
    if kind == "g" and draw(st.integers(0, 9)) == 0:
        # Rounded to 10 s by that server.
        timestamp = f"|T{(int(time.time()) // BUCKET - draw(st.integers(2, 300))) * BUCKET}"
    suffix = f"|#{','.join(tags)}" if tags else ""
    return f"{name}:{number}|{kind}{rate}{suffix}{container}{external}{cardinality}{timestamp}"


def generated(examples: int) -> list[list[str]]:
    """Lines that hypothesis makes."""
    made: list[list[str]] = []

    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(lines(), min_size=1, max_size=10))
    def make(example: list[str]) -> None:
        made.append(example)

    make()
    return made


def send_generated(both: Both, examples: list[list[str]]) -> None:
    """Send each example as one datagram, all of them in one bucket."""
    wait_for_the_middle_of_a_bucket()
    began = time.time() // BUCKET
    for number, example in enumerate(examples):
        both.send("\n".join(example).encode())
        if number % 20 == 19:
            time.sleep(0.002)
    both.server.settle()
    assert time.time() // BUCKET == began, "this machine is too slow to send so many lines in one bucket"


class Relay(asyncio.DatagramProtocol):
    """Where the Reporter sends to."""

    def __init__(self, both: Both) -> None:
        self.both = both
        self.recorded: list[bytes] = []

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.recorded.append(data)
        self.both.send(data)


async def start_demo(port: int) -> asyncio.subprocess.Process:
    await asyncio.to_thread(wait_for_the_middle_of_a_bucket)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pushmetrics", "demo", "--agent", "--plain", "--duration", "4", "--level", "full"),
        env={**os.environ, "DD_DOGSTATSD_URL": f"udp://127.0.0.1:{port}"},
        stdout=asyncio.subprocess.DEVNULL,
    )


async def run_reporter(both: Both, seconds: float) -> list[bytes]:
    """Let a Reporter report busy limits for some seconds; return the datagrams that it sent."""
    rng = random.Random(5)
    registry = Registry()
    loop = asyncio.get_running_loop()
    transport, relay = await loop.create_datagram_endpoint(lambda: Relay(both), local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    limits = [
        MeteredSemaphore(
            2 + number, component="judge", limit_name=f"limit{number}", max_queue_depth=20, registry=registry
        )
        for number in range(3)
    ]

    async def work() -> None:
        while True:
            with suppress(AdmissionTimeoutError):
                async with rng.choice(limits).slot(timeout=rng.choice([None, 0.02])):
                    await asyncio.sleep(rng.random() / 20)

    reporter = Reporter(
        flush_interval=1,
        sink=DogStatsDSink(f"udp://127.0.0.1:{port}"),
        level="full",
        registry=registry,
        constant_tags=["team:judge"],
    )
    demo = await start_demo(port)
    async with reporter:
        workers = [asyncio.create_task(work()) for _ in range(15)]
        await asyncio.sleep(seconds)
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
        assert await demo.wait() == 0
        # The last flush comes when it closes, so not at the end of a bucket.
        await asyncio.to_thread(wait_for_the_middle_of_a_bucket)
    await asyncio.sleep(0.1)
    transport.close()
    return relay.recorded


class Run(NamedTuple):
    both: Both
    shipment: Shipment
    generated: int
    recorded: list[bytes]
    server_refused: list[str]


@pytest.fixture(scope="module")
def run(datadog_server: DatadogServer) -> Run:
    """Send all streams, over at least two buckets, and wait once until they have been shipped."""
    with closing(Both(datadog_server)) as both:
        examples = generated(300)
        send_generated(both, examples[::2])
        recorded = asyncio.run(run_reporter(both, 11))
        send_generated(both, examples[1::2])
        both.server.shipped()
    number = sum(map(len, examples))
    return Run(both, sum(datadog_server.shipments, start=Shipment()), number, recorded, datadog_server.refused)


def key(series: Series) -> Key:
    pairs = (tag.partition(":") for tag in series.tags_and_host)
    return series.name, tuple(sorted((name, value) for name, _, value in pairs))


def shipped_points(shipment: Shipment, kind: str) -> dict[Key, dict[int, float]]:
    """By series and bucket. A bucket that was open when the server shipped comes in two parts."""
    points: dict[Key, dict[int, float]] = defaultdict(dict)
    for series in shipment.series:
        if series.kind == kind:
            buckets = points[series.key]
            for timestamp, value in series.points:
                buckets[timestamp] = value + (buckets.get(timestamp, 0.0) if kind == "Count" else 0.0)
    return points


def test_every_series_of_the_server_is_one_of_ours_and_no_other(run: Run) -> None:
    theirs = {(series.key, series.kind) for series in run.shipment.series}
    theirs |= {(sketch.key, "Distribution") for sketch in run.shipment.sketches}
    kinds = {"g": "Gauge", "c": "Count", "d": "Distribution"}

    ours = {(key(series), kinds[series.kind]) for series in run.both.receiver.series()}

    assert ours == theirs
    assert len(ours) > 100
    assert run.both.server.errors == []
    assert run.both.server.drops == 0


def test_gauges_are_those_of_the_server_bucket_by_bucket(run: Run) -> None:
    theirs = shipped_points(run.shipment, "Gauge")

    ours = {
        key(series): {point.timestamp: point.value for point in series.points(open_bucket=True)}
        for series in run.both.receiver.series()
        if series.kind == "g"
    }

    assert ours == theirs
    reported = {timestamp for (name, _), points in ours.items() if name.startswith("gym.") for timestamp in points}
    assert len(reported) >= 2


def test_counts_are_those_of_the_server_bucket_by_bucket(run: Run) -> None:
    theirs = shipped_points(run.shipment, "Count")

    counts = [series for series in run.both.receiver.series() if series.kind == "c"]

    assert {key(series) for series in counts} == set(theirs)
    for series in counts:
        points = {point.timestamp: point for point in series.points(open_bucket=True)}
        for timestamp, value in theirs[key(series)].items():
            assert points[timestamp].sum == pytest.approx(value, rel=1e-12, abs=1e-6)
            assert points[timestamp].value == points[timestamp].sum / BUCKET
        # Theirs does not go on with zeros.
        assert all(points[timestamp].sum == 0 for timestamp in set(points) - set(theirs[key(series)]))
        assert series.total == pytest.approx(math.fsum(theirs[key(series)].values()), rel=1e-12, abs=1e-6)


def test_distributions_are_those_of_the_server(run: Run) -> None:
    theirs = run.shipment.distributions()

    distributions = [series for series in run.both.receiver.series() if series.kind == "d"]

    assert {key(series) for series in distributions} == set(theirs)
    for series in distributions:
        expected = theirs[key(series)]
        merged = Distribution([p.distribution for p in series.points(open_bucket=True) if p.distribution])
        assert (merged.count, merged.min, merged.max) == (expected.cnt, expected.min, expected.max)
        assert merged.sum == pytest.approx(expected.sum, rel=1e-9, abs=1e-6)


def test_lines_are_refused_by_both_or_by_none(run: Run) -> None:
    statistics = run.both.receiver.statistics()

    assert statistics.refused == len(run.server_refused) - run.both.refused_before > 10
    assert statistics.lines == run.generated + sum(len(data.split()) for data in run.recorded)


def test_the_stream_of_the_reporter_had_everything_in_it(run: Run) -> None:
    names = {series.name.rpartition(".")[2] for series in run.both.receiver.series() if series.name.startswith("gym.")}
    queued = [
        series.total
        for series in run.both.receiver.series("gym.concurrency.admission_timeouts_total", component="judge")
    ]

    assert {"limit", "active", "queue_depth", "queue_duration_ms", "admissions_total"} <= names
    assert len(queued) == 3
    assert sum(queued) > 0
    assert len(run.recorded) > 11
    for component in ("rollout_driver", "model_server", "resources_server"):
        assert run.both.receiver.series("gym.concurrency.admissions_total", component=component)
