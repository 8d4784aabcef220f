"""A reporter in a thread of its own: a blocked loop still shows, and the thread ends as it should."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pushmetrics import AdmissionTimeoutError, MemorySink, MeteredSemaphore, PushmetricsError, Registry, Reporter
from pushmetrics.model import Delivery, Sample
from pushmetrics.receiver import Receiver
from pushmetrics.reporter_thread import ReporterThread
from pushmetrics.testing import RecordingSink


def limit_of(registry: Registry, value: int = 2) -> MeteredSemaphore:
    return MeteredSemaphore(value, component="api", limit_name="calls", registry=registry)


class HeldUp(MemorySink):
    """Does not let itself be cancelled: a push ends when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        while not self.go_on.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.001)
        return await super().push(samples)


class ClosesTheThread(RecordingSink):
    """A sink that has had enough after the first push."""

    thread: ReporterThread

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        self.thread.close()
        return await super().push(samples)


class TestTheThread:
    def test_it_flushes_at_the_start_and_at_the_end(self) -> None:
        registry, sink = Registry(), RecordingSink()
        limit = limit_of(registry)
        with Reporter(registry=registry, sink=sink).in_thread():
            asyncio.run(limit.acquire())

        assert sink.latest("active") == 1
        assert sink.total("admissions_total") == 1
        assert sink.closed

    def test_starting_and_closing_by_hand_any_number_of_times(self) -> None:
        registry, sink = Registry(), RecordingSink()
        thread = Reporter(registry=registry, sink=sink).in_thread()
        thread.close()
        for _ in range(3):
            thread.start()
            assert thread.is_running
            with pytest.raises(PushmetricsError, match="is running already"):
                thread.start()
            thread.close()
            thread.close()
            assert not thread.is_running

        assert sink.flushes >= 3

    def test_what_the_reporter_raises_at_the_start_is_raised(self) -> None:
        registry = Registry()
        with (
            Reporter(registry=registry, sink=MemorySink()).in_thread(),
            pytest.raises(PushmetricsError, match="is reporting this registry already"),
        ):
            Reporter(registry=registry, sink=MemorySink()).in_thread().start()

    async def test_another_loop_can_not_flush_it(self) -> None:
        reporter = Reporter(registry=Registry(), sink=MemorySink())
        with reporter.in_thread(), pytest.raises(PushmetricsError, match="runs in another event loop"):
            await reporter.flush()

    def test_closing_returns_whatever_the_agent_does(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("pushmetrics.reporter.CLOSE_SECONDS", 0.05)
        sink = HeldUp()
        thread = Reporter(registry=Registry(), sink=sink).in_thread()
        thread.start()
        (running,) = (one for one in threading.enumerate() if one.name == "pushmetrics-reporter")
        thread.close()

        assert "in a thread> did not end within 0.05 s; what it held is lost" in caplog.text
        sink.go_on.set()
        running.join()

    def test_closed_in_itself_it_ends_after_what_is_under_way(self, caplog: pytest.LogCaptureFixture) -> None:
        registry, sink = Registry(), ClosesTheThread()
        limit = limit_of(registry)
        asyncio.run(limit.acquire())
        sink.thread = Reporter(registry=registry, sink=sink).in_thread()
        sink.thread.start()
        for thread in threading.enumerate():
            if thread.name == "pushmetrics-reporter":
                thread.join()

        assert not sink.thread.is_running
        assert (sink.flushes, sink.closed) == (2, True)
        assert sink.total("admissions_total") == 1
        assert caplog.text == ""
        sink.thread.close()

    async def test_a_loop_that_is_blocked_still_shows(self) -> None:
        registry, sink = Registry(), RecordingSink()
        limit = limit_of(registry)
        with Reporter(registry=registry, sink=sink, flush_interval=0.1).in_thread():
            await limit.acquire()
            await limit.acquire()
            waiters = [asyncio.create_task(limit.acquire()) for _ in range(5)]
            await asyncio.sleep(0)
            sink.samples.clear()
            until = sink.flushes + 10
            while sink.flushes < until:
                time.sleep(0.01)  # noqa: ASYNC251 - to block the loop is the point
        flushes = [sample for sample in sink.samples if "active" in sample.descriptor.names]
        for waiter in waiters:
            waiter.cancel()
        await asyncio.wait(waiters)

        assert len(flushes) >= 10
        assert {sample.value("active") for sample in flushes} == {2}
        assert {sample.value("queue_depth") for sample in flushes} == {5}
        waits = [sample.value("oldest_wait_ms") for sample in flushes]
        assert waits == sorted(waits)
        assert waits[-1] > waits[1]


def end_of(program: str, agent: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c",
         textwrap.dedent(program), agent],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip


class TestTheEndOfTheProgram:
    USE = """
        import asyncio, os, sys
        from pushmetrics import MeteredSemaphore, Reporter

        limit = MeteredSemaphore(1, component="api", limit_name="calls")

        async def use():
            async with limit:
                await asyncio.sleep(0.1)  # The first flush is over.
    """

    async def totals_after(self, program: str) -> float:
        async with Receiver() as receiver:
            host, port = await receiver.listen_udp("127.0.0.1", 0)
            program = textwrap.dedent(self.USE) + textwrap.dedent(program)
            finished = await asyncio.to_thread(end_of, program, f"udp://{host}:{port}")
            assert (finished.returncode, finished.stderr) == (0, "")
            return receiver.totals()["gym.concurrency.admissions_total", ("component:api", "limit_name:calls")]

    @pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "thread = None; import gc; gc.collect()"])
    async def test_without_leaving_the_block_the_last_flush_is_made(self, end: str) -> None:
        program = f"""
            thread = Reporter(sink=sys.argv[1]).in_thread()
            thread.start()
            asyncio.run(use())
            {end}
        """
        assert await self.totals_after(program) == 1

    async def test_a_child_forked_meanwhile_starts_a_thread_of_its_own_or_none(self) -> None:
        program = """
            thread = Reporter(sink=sys.argv[1]).in_thread()
            with thread:
                asyncio.run(use())
                for starts in (False, True):
                    pid = os.fork()
                    if pid == 0:
                        assert not thread.is_running
                        if starts:
                            with Reporter(sink=sys.argv[1], worker=None).in_thread():
                                asyncio.run(use())
                        thread.close()
                        sys.exit(0)
                    assert os.waitpid(pid, 0)[1] == 0
                assert thread.is_running
                asyncio.run(use())
        """
        assert await self.totals_after(program) == 3


@pytest.fixture
def fast_switches() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Reader:
    """Collects from a registry in another thread, and notes what contradicts itself."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.stop = threading.Event()
        self.contradictions: list[str] = []
        self.totals: Counter[str] = Counter()
        self.waits = 0

    def read_on(self) -> None:
        while not self.stop.is_set():
            self.read()

    def read(self) -> None:
        for sample in self.registry.collect("full"):
            values = dict(zip(sample.descriptor.names, sample.values, strict=False))
            if not self.is_whole(values):
                self.contradictions.append(repr(sample))
            sample.delivered()
            self.totals.update({name: value for name, value in values.items() if name.endswith("_total")})
            self.waits += len(sample.waits) * sample.one_in

    @staticmethod
    def is_whole(values: dict[str, int]) -> bool:
        limit, active, available = values["limit"], values["active"], values["available"]
        return (
            (active + available == limit or (available == 0 and active > limit))
            and values["active_peak"] >= active
            and values["queue_depth_peak"] >= values["queue_depth"]
            and min(values.values()) >= 0
        )


async def use(semaphore: MeteredSemaphore, until: float) -> None:
    while time.monotonic() < until:
        with suppress(AdmissionTimeoutError):
            async with semaphore.slot(timeout=0.001):
                await asyncio.sleep(0)


async def change(semaphore: MeteredSemaphore, until: float) -> None:
    while time.monotonic() < until:
        for slots in (5, 1, 4, 2, 0, 3):
            semaphore.set_limit(slots)
            await asyncio.sleep(0)


async def use_and_change(semaphore: MeteredSemaphore, until: float) -> None:
    await asyncio.gather(change(semaphore, until), *(use(semaphore, until) for _ in range(6)))


@pytest.mark.usefixtures("fast_switches")
async def test_what_another_thread_reads_is_whole() -> None:
    """Limits of two loops are read while they work: no sample contradicts itself, no event is lost or doubled."""
    registry = Registry()
    limits = [MeteredSemaphore(3, component="api", limit_name=name, registry=registry) for name in ("here", "there")]
    reader = Reader(registry)
    until = time.monotonic() + 2
    reading = threading.Thread(target=reader.read_on)
    there = threading.Thread(target=lambda: asyncio.run(use_and_change(limits[1], until)))
    for thread in (reading, there):
        thread.start()
    await use_and_change(limits[0], until)
    there.join()
    reader.stop.set()
    reading.join()
    reader.read()

    assert reader.contradictions == []
    happened = [limit.statistics() for limit in limits]
    assert reader.totals["admissions_total"] == sum(one.admissions for one in happened)
    assert reader.totals["admissions_queued_total"] == sum(one.admissions_queued for one in happened)
    assert reader.totals["admission_timeouts_total"] == sum(one.admission_timeouts for one in happened)
    # A thread that has to wait for its turn at the end of a spell makes it longer for the reader, never shorter.
    assert reader.totals["contended_ms_total"] >= sum(one.contended_ms for one in happened)
    assert reader.waits > 0
