"""How the public names are used, for mypy to read: `tox -e typing`. Nothing here is run.

A line with a `type: ignore` is a mistake that a user may make: if mypy stops finding it, the ignore is unused, and an
error.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import io
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, assert_type

from datadog.dogstatsd.base import DogStatsd

import pushmetrics
from pushmetrics import (
    AdmissionTimeoutError,
    ConsoleSink,
    DogStatsDSink,
    FlushResult,
    LimitStatistics,
    MemorySink,
    MeteredSemaphore,
    PushmetricsError,
    QueueFullError,
    Registry,
    Reporter,
    default_registry,
    watch,
)
from pushmetrics.model import Counters, Delivery, Descriptor, Kind, Limit, Sample, Sink
from pushmetrics.reporter_thread import ReporterThread
from pushmetrics.settings import Address
from pushmetrics.testing import ManualClock, RecordingSink

assert_type(pushmetrics.__version__, str)


# Limits.

registry = Registry(max_series=100)
assert_type(default_registry, Registry)

plain = MeteredSemaphore(component="model_server", limit_name="requests")
full = MeteredSemaphore(
    10,
    component="model_server",
    limit_name="requests",
    server="eu-1",
    tags={"region": "eu"},
    admission_timeout=2,
    max_queue_depth=100,
    registry=registry,
)
listed = MeteredSemaphore(1, component="c", limit_name="l", tags=["region:eu"], admission_timeout=None)
unreported = MeteredSemaphore(value=1, component="c", limit_name="l", server=None, tags=None, registry=None)

MeteredSemaphore(1)  # type: ignore[call-arg]  # component and limit_name are required
MeteredSemaphore(1, "c", "l")  # type: ignore[call-arg]  # and named
MeteredSemaphore(1.5, component="c", limit_name="l")  # type: ignore[arg-type]  # slots are whole
MeteredSemaphore(1, component="c", limit_name="l", admission_timeout="2")  # type: ignore[arg-type]  # seconds
MeteredSemaphore(1, component="c", limit_name="l", tags=[1])  # type: ignore[list-item]  # text
MeteredSemaphore(
    1,
    component="c",
    limit_name="l",
    admission_timeout=dt.timedelta(seconds=1),  # type: ignore[arg-type]  # seconds, too
)

as_the_stock_class: asyncio.BoundedSemaphore = full
as_a_limit: Limit = full

assert_type(full.limit, int)
assert_type(full.active, int)
assert_type(full.available, int)
assert_type(full.queue_depth, int)
assert_type(full.admissions, int)
assert_type(full.admissions_queued, int)
assert_type(full.admission_timeouts, int)
assert_type(full.admission_cancelled, int)
assert_type(full.admission_rejected, int)
assert_type(full.admission_timeout, float | None)
assert_type(full.max_queue_depth, int | None)
assert_type(full.tags, tuple[str, ...])
assert_type(full.counters, Counters)
assert_type(full.locked(), bool)
full.active = 3  # type: ignore[misc]  # read-only
full.limit = 3  # type: ignore[misc]  # set_limit() changes it

assert_type(full.statistics(), LimitStatistics)
statistics = full.statistics()
assert_type(statistics.oldest_wait_ms, int)
assert_type(statistics.contended_ms, int)
statistics.active = 3  # type: ignore[misc]  # frozen


async def acquire(seconds_left: float | None) -> None:
    async with full:
        pass
    async with full as nothing:
        assert_type(nothing, None)
    async with full.slot(timeout=seconds_left) as nothing:
        assert_type(nothing, None)
    async with full.slot():
        pass
    assert_type(await full.acquire(), Literal[True])
    assert_type(await full.acquire(timeout=0.5), Literal[True])
    await full.acquire(timeout=None)
    await full.acquire(0.5)  # type: ignore[call-arg]  # named
    await full.acquire(timeout="1")  # type: ignore[arg-type]  # seconds
    full.release()
    full.set_limit(20)
    full.set_limit(None)  # type: ignore[arg-type]  # there is always a limit
    with full:  # type: ignore[attr-defined]  # it is an async context manager
        pass


async def errors() -> None:
    try:
        await full.acquire(timeout=1)
    except AdmissionTimeoutError as timeout:
        standard: TimeoutError = timeout
        own: PushmetricsError = timeout
        raise standard from own
    except QueueFullError as refused:
        own = refused


# Limiters that somebody else made.

assert_type(watch(asyncio.BoundedSemaphore(3), component="c", limit_name="l"), asyncio.BoundedSemaphore)
executor = watch(
    ThreadPoolExecutor(3), component="c", limit_name="l", server="eu-1", tags={"region": "eu"}, registry=registry
)
assert_type(executor, ThreadPoolExecutor)
assert_type(executor in registry, bool)
registry.unregister(executor)
watch(executor)  # type: ignore[call-arg]  # component and limit_name are required
watch(executor, "c", "l")  # type: ignore[call-arg]  # and named
watch(executor, component="c", limit_name="l", registry=None)  # type: ignore[arg-type]  # there is always a registry


# The registry.

registry.register(full)
registry.unregister(full)
assert_type(full in registry, bool)
assert_type(len(registry), int)
assert_type(registry.max_series, int)
assert_type(registry.series_rejected, int)
assert_type(registry.collect(), Iterator[Sample])
registry.collect("core", "myapp.concurrency", ("team:search",))
registry.register(asyncio.Semaphore())  # type: ignore[arg-type]  # the stock class keeps no counts
Registry("100")  # type: ignore[arg-type]  # a number


class ForeignLimit:
    """The least that a limit of another kind must have."""

    def __init__(self) -> None:
        self._counters = Counters(3)

    @property
    def tags(self) -> tuple[str, ...]:
        return ("component:c", "limit_name:l")

    @property
    def counters(self) -> Counters:
        return self._counters

    def gauges(self) -> tuple[int, int, int, int]:
        return 1, 2, 0, 0


registry.register(ForeignLimit())


# Samples.

for sample in registry.collect():
    assert_type(sample, Sample)
    assert_type(sample.values, tuple[int, ...])
    assert_type(sample.waits, tuple[float, ...])
    assert_type(sample.one_in, int)
    assert_type(sample.value("active"), int)
    assert_type(sample.descriptor, Descriptor)
    assert_type(sample.descriptor.namespace, str)
    assert_type(sample.descriptor.names, tuple[str, ...])
    assert_type(sample.descriptor.kinds, tuple[Kind, ...])
    assert_type(sample.descriptor.tags, tuple[str, ...])
    assert_type(sample.descriptor.tag("server"), str | None)
    assert_type(len(sample), int)
    sample.delivered()
    sample.delivered(0, 3)


# Sinks.

to_the_agent = DogStatsDSink()
assert_type(DogStatsDSink("udp://localhost:8125", max_datagram_bytes=8192).address, Address)
DogStatsDSink(8125)  # type: ignore[arg-type]  # an address

to_a_stream = ConsoleSink(io.StringIO())
ConsoleSink("output.txt")  # type: ignore[arg-type]  # a stream that is open

memory = MemorySink(max_samples=100)
assert_type(memory.samples, deque[Sample])
assert_type(memory.latest("active", component="model_server"), int)
assert_type(memory.total("admissions_total"), int)
assert_type(memory.values("active", limit_name="requests"), list[int])


class OwnSink:
    """The least that a sink must have."""

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        for sample in samples:
            sample.delivered()
        return Delivery(datagrams=1, bytes=2, failures={"refused": 3})

    async def aclose(self) -> None:
        """Nothing is open."""


class NoSink:
    """Without aclose(), and what it pushes it says nothing of."""

    async def push(self, samples: Iterator[Sample]) -> None:
        """Forget them."""


sinks: list[Sink] = [to_the_agent, to_a_stream, memory, OwnSink(), RecordingSink()]


# The reporter.

Reporter()
Reporter(
    flush_interval=0.5,
    sink="udp://localhost:8125",
    namespace="myapp.concurrency",
    level="full",
    registry=registry,
    constant_tags=["team:search"],
    worker="auto",
)
Reporter(flush_interval=None, sink=None, namespace=None, level=None, constant_tags=None, worker=None)
Reporter(sink=OwnSink(), constant_tags=("team:search",), worker=3)
Reporter(sink=DogStatsd(host="localhost"))
Reporter(sink=NoSink())  # type: ignore[arg-type]  # no sink
Reporter(10)  # type: ignore[call-arg]  # named
Reporter(flush_interval="10")  # type: ignore[arg-type]  # seconds
Reporter(registry=None)  # type: ignore[arg-type]  # there is always a registry
Reporter(constant_tags=[("team", "search")])  # type: ignore[list-item]  # text
Reporter(worker="first")  # type: ignore[arg-type]  # a number


async def report() -> None:
    async with Reporter(sink=memory) as reporter:
        assert_type(reporter, Reporter)
        result = await reporter.flush()
        assert_type(result, FlushResult)
        assert_type(result.series, int)
        assert_type(result.datagrams, int)
        assert_type(result.bytes, int)
        assert_type(result.failures.get("ECONNREFUSED"), int | None)
        assert_type(reporter.is_running, bool)
        assert_type(reporter.statistics().flushes, int)
        assert_type(reporter.statistics().flush_duration_ms, int)
        assert_type(reporter.statistics().counts_expired, int)
    reporter = Reporter()
    assert_type(await reporter.start(), None)
    assert_type(await reporter.aclose(), None)
    thread = Reporter().in_thread()
    with thread as same:
        assert_type(same, ReporterThread)
        assert_type(same.is_running, bool)
    assert_type(thread.start(), None)
    assert_type(thread.close(), None)
    result.series = 3  # type: ignore[misc]  # a tuple
    with Reporter():  # type: ignore[attr-defined]  # it needs a loop
        pass


# For tests.


async def test() -> None:
    with ManualClock(wall=1_800_000_000, monotonic=0.0) as clock:
        assert_type(clock, ManualClock)
        assert_type(clock.wall(), float)
        assert_type(clock.monotonic(), float)
        await clock.advance(10)
        clock.stall(3)
        clock.set_wall(1_800_000_100)
    sink = RecordingSink()
    sink.refusing = True
    assert_type(sink.flushes, int)
    assert_type(sink.closed, bool)
    assert_type(sink.latest("active"), int)
