"""The periodic task: when it flushes, how it starts and ends, and what it does when something goes wrong."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import freezegun
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushmetrics import MemorySink, MeteredSemaphore, PushmetricsError, Registry, Reporter
from pushmetrics.errors import ReporterStateError
from pushmetrics.model import Delivery, Sample
from pushmetrics.reporter import seconds_to_next_tick
from pushmetrics.testing import ManualClock, RecordingSink

EAGER_REASON = "eager tasks came with Python 3.12"


def limit_of(registry: Registry, value: int = 3) -> MeteredSemaphore:
    return MeteredSemaphore(value, component="server", limit_name="requests", registry=registry)


class TimedSink(MemorySink):
    """Notes when it was pushed to."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.times: list[float] = []

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        self.times.append(self.clock.wall())
        return await super().push(samples)


class Hanging(RecordingSink):
    """Never comes to the end of a push."""

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")


class TestTicks:
    async def test_the_first_flush_is_at_start_and_the_others_once_in_each_bucket(self) -> None:
        with ManualClock(wall=1_800_000_003.7) as clock:
            sink = TimedSink(clock)
            async with Reporter(registry=Registry(), sink=sink):
                await clock.advance(60)

        first, *ticks = sink.times[:-1]
        assert first == 1_800_000_003.7
        phases = {round(time % 10, 6) for time in ticks}
        assert len(phases) == 1
        assert 1 <= phases.pop() <= 8
        buckets = [time // 10 for time in ticks]
        assert buckets == list(range(int(buckets[0]), int(buckets[0]) + len(buckets)))
        assert len(ticks) in {5, 6}

    async def test_they_do_not_drift(self) -> None:
        with ManualClock() as clock:
            sink = TimedSink(clock)
            async with Reporter(registry=Registry(), sink=sink, flush_interval=0.5):
                for _ in range(1000):
                    await clock.advance(0.37)

        ticks = sink.times[1:-1]
        assert len({round(time % 0.5, 4) for time in ticks}) == 1
        assert len(ticks) in {739, 740}

    async def test_a_stalled_loop_makes_one_flush_and_says_how_late_it_was(self) -> None:
        registry = Registry()
        with ManualClock() as clock:
            sink = TimedSink(clock)
            async with Reporter(registry=registry, sink=sink) as reporter:
                await clock.advance(30)
                before = len(sink.times)
                clock.stall(95)
                await clock.advance(0)
                lag = reporter.statistics().flush_lag_ms
                after = len(sink.times)
                await clock.advance(20)

        assert after - before == 1
        assert 85_000 <= lag <= 95_000
        assert len(sink.times) - 1 - after in {1, 2, 3}, "and then they go on as before"

    @pytest.mark.parametrize("step", [3600.0, -3600.0, 4.9, -0.001])
    async def test_setting_the_wall_clock_changes_the_phase_and_nothing_else(self, step: float) -> None:
        with ManualClock() as clock:
            sink = TimedSink(clock)
            async with Reporter(registry=Registry(), sink=sink):
                await clock.advance(30)
                before = len(sink.times)
                clock.set_wall(clock.wall() + step)
                await clock.advance(100)

        assert 9 <= len(sink.times) - 1 - before <= 11

    async def test_with_frozen_time_it_starts_flushes_and_closes(self) -> None:
        sink = RecordingSink()
        with freezegun.freeze_time("2027-01-15"):
            reporter = Reporter(registry=Registry(), sink=sink)
            await reporter.start()
            await reporter.flush()
            for _ in range(50):
                await asyncio.sleep(0)
            await reporter.aclose()

        assert sink.flushes == 3
        assert sink.closed

    @pytest.mark.allowed_skip(EAGER_REASON)
    @pytest.mark.skipif(sys.version_info < (3, 12), reason=EAGER_REASON)
    async def test_it_goes_on_where_tasks_are_eager(self) -> None:
        # Its first flush may then be over before start() knows the task.
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
        sink = RecordingSink()
        with ManualClock() as clock:
            async with Reporter(registry=Registry(), sink=sink, worker=None) as reporter:
                await clock.advance(30)
                running = reporter.is_running

        assert running
        assert sink.flushes in {4, 5}

    @given(
        wall=st.floats(0, 4e9),
        interval=st.sampled_from([0.1, 0.2, 1.0, 2.5, 7.0, 10.0, 60.0, 3600.0]),
        share=st.floats(0.1, 0.8),
    )
    def test_the_next_tick_is_on_the_phase_and_neither_at_once_nor_far(
        self, wall: float, interval: float, share: float
    ) -> None:
        phase = min(interval, 10) * share

        seconds = seconds_to_next_tick(wall, interval, phase)

        assert interval / 2 <= seconds <= 1.5 * interval + 1e-6
        off = (wall + seconds - phase) % interval
        assert min(off, interval - off) < 1e-5

    @pytest.mark.parametrize("interval", [0.1, 0.2, 0.5, 1, 2, 2.5, 5, 10])
    async def test_intervals_that_divide_a_bucket_are_fine(
        self, interval: float, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with Reporter(registry=Registry(), sink=MemorySink(), flush_interval=interval):
            pass

        assert caplog.records == []

    @pytest.mark.parametrize("interval", [0.3, 3, 7, 15, 60])
    async def test_other_intervals_get_one_warning(self, interval: float, caplog: pytest.LogCaptureFixture) -> None:
        async with Reporter(registry=Registry(), sink=MemorySink(), flush_interval=interval):
            pass

        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert f"flush_interval={interval}" in caplog.text


class TestBackOff:
    """A dead Agent does not cost a connect and a look-up at each tick of a short interval."""

    class Refusing(TimedSink):
        refusing = True

        async def push(self, samples: Iterator[Sample]) -> Delivery:
            delivery = await super().push(samples if not self.refusing else iter(()))
            return Delivery(failures={"ECONNREFUSED": 1}) if self.refusing else delivery

    async def test_the_waits_grow_up_to_a_bound_and_end_with_the_first_success(self) -> None:
        with ManualClock() as clock:
            sink = self.Refusing(clock)
            async with Reporter(registry=Registry(), sink=sink, flush_interval=0.1):
                await clock.advance(60)
                while_away = list(itertools.pairwise(sink.times))
                sink.refusing = False
                await clock.advance(5)
                sink.times.clear()
                await clock.advance(10)
                while_back = len(sink.times)

        waits = [later - earlier for earlier, later in while_away]
        assert waits[:4] == pytest.approx(
            [0.25, 0.5, 1, 2], abs=0.16
        )  # To the next tick, of which there are ten a second.
        assert waits[4:] == pytest.approx([4] * len(waits[4:]), abs=0.16)
        assert while_back in {99, 100, 101}

    async def test_a_success_makes_the_next_wait_short_again(self) -> None:
        with ManualClock() as clock:
            sink = self.Refusing(clock)
            async with Reporter(registry=Registry(), sink=sink, flush_interval=0.1):
                await clock.advance(60)
                sink.refusing = False
                await clock.advance(5)
                sink.refusing = True
                await clock.advance(0.2)
                sink.times.clear()
                await clock.advance(1)

        assert len(sink.times) >= 2

    @pytest.mark.parametrize("interval", [5, 10])
    async def test_with_the_usual_intervals_no_tick_is_left_out(self, interval: float) -> None:
        with ManualClock() as clock:
            sink = self.Refusing(clock)
            async with Reporter(registry=Registry(), sink=sink, flush_interval=interval):
                await clock.advance(300)

        assert len(sink.times) - 2 in {300 / interval, 300 / interval - 1}

    async def test_a_flush_that_is_asked_for_and_the_last_one_are_always_tried(self) -> None:
        registry = Registry()
        limit = limit_of(registry)
        with ManualClock() as clock:
            sink = self.Refusing(clock)
            async with Reporter(registry=registry, sink=sink, flush_interval=0.1) as reporter:
                await clock.advance(60)
                pushed = len(sink.times)
                for _ in range(3):
                    assert (await reporter.flush()).failures == {"ECONNREFUSED": 1}
                assert len(sink.times) == pushed + 3
                async with limit:
                    sink.refusing = False

        assert sink.total("admissions_total") == 1

    async def test_a_sink_that_takes_a_part_is_not_left_alone(self) -> None:
        class Partly(TimedSink):
            async def push(self, samples: Iterator[Sample]) -> Delivery:
                await super().push(samples)
                return Delivery(datagrams=1, failures={"line too long": 1})

        with ManualClock() as clock:
            sink = Partly(clock)
            async with Reporter(registry=Registry(), sink=sink, flush_interval=0.1):
                await clock.advance(10)

        assert len(sink.times) >= 99


class TestTheWay:
    async def test_limits_arrive_with_their_tags_and_namespace(self) -> None:
        registry = Registry()
        sink = MemorySink()
        limit = limit_of(registry)
        async with (
            Reporter(
                registry=registry, sink=sink, namespace="myapp.concurrency", constant_tags=["team:Search"]
            ) as reporter,
            limit,
        ):
            await reporter.flush()

        assert sink.latest("active", component="server", team="search") == 0
        assert 1 in sink.values("active", limit_name="requests")
        assert sink.total("admissions_total") == 1
        assert {sample.descriptor.namespace for sample in sink.samples} == {"myapp.concurrency", "pushmetrics"}

    async def test_the_last_flush_is_in_aclose_and_closing_twice_is_fine(self) -> None:
        registry = Registry()
        sink = RecordingSink()
        reporter = Reporter(registry=registry, sink=sink)
        await reporter.start()
        await reporter.flush()
        limit = limit_of(registry)
        async with limit:
            pass
        await reporter.aclose()
        await reporter.aclose()

        assert sink.total("admissions_total") == 1
        assert sink.closed

    async def test_a_flush_that_comes_to_its_turn_after_the_close_pushes_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By then another reporter may push the same counts."""
        monkeypatch.setattr("pushmetrics.reporter.CLOSE_SECONDS", 0.05)
        go = asyncio.Event()

        class Hanging(RecordingSink):
            async def push(self, samples: Iterator[Sample]) -> Delivery:
                if self.flushes:
                    await go.wait()
                return await super().push(samples)

        sink = Hanging()
        reporter = Reporter(registry=Registry(), sink=sink)
        await reporter.start()
        await asyncio.sleep(0)  # The first flush.
        flushes = [asyncio.create_task(reporter.flush()) for _ in range(2)]
        await asyncio.sleep(0)  # One hangs, and the other waits for it.
        await reporter.aclose()
        go.set()
        _, late = await asyncio.gather(*flushes, return_exceptions=True)

        assert isinstance(late, ReporterStateError)
        assert sink.flushes == 2

    async def test_a_flush_that_is_under_way_when_it_is_closed_ends_and_is_counted(self) -> None:
        class Slow(RecordingSink):
            async def push(self, samples: Iterator[Sample]) -> Delivery:
                await super().push(samples)
                await asyncio.sleep(0.01)
                return Delivery(datagrams=1)

        sink = Slow()
        reporter = Reporter(registry=Registry(), sink=sink)
        await reporter.start()
        await asyncio.sleep(0)  # The first flush begins, and waits.
        await reporter.aclose()

        assert reporter.statistics().datagrams == sink.flushes == 2

    async def test_flush_says_what_it_did(self) -> None:
        registry = Registry()
        limits = [limit_of(registry), MeteredSemaphore(1, component="c", limit_name="l", registry=registry)]
        sink = RecordingSink()
        async with Reporter(registry=registry, sink=sink) as reporter:
            assert (await reporter.flush()).series == len(limits)
            sink.refusing = True
            assert (await reporter.flush()).failures == {"refused": 3}
            sink.refusing = False
            assert (await reporter.flush()).failures == {}

    async def test_concurrent_flushes_wait_for_each_other(self) -> None:
        inside = 0
        most = 0

        class Slow(MemorySink):
            async def push(self, samples: Iterator[Sample]) -> Delivery:
                nonlocal inside, most
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                delivery = await super().push(samples)
                inside -= 1
                return delivery

        registry = Registry()
        limit = limit_of(registry)
        sink = Slow()
        async with Reporter(registry=registry, sink=sink) as reporter, limit:
            await asyncio.gather(*(reporter.flush() for _ in range(10)))

        assert most == 1
        assert sink.total("admissions_total") == 1

    async def test_its_health_goes_out_beside_the_limits(self) -> None:
        registry = Registry(max_series=1)
        sink = RecordingSink()
        limits = [limit_of(registry), MeteredSemaphore(1, component="c", limit_name="l", registry=registry)]
        async with Reporter(registry=registry, sink=sink, constant_tags=["team:a"]) as reporter:
            sink.refusing = True
            await reporter.flush()
            sink.refusing = False
            await reporter.flush()
            await reporter.flush()
            statistics = reporter.statistics()

        assert sink.latest("series", team="a") == 1
        assert sink.total("send_failures_total") == sum(statistics.failures.values()) > 0
        assert sink.total("series_rejected_total") == 1
        assert len(limits) == 2


class TestOnePerRegistry:
    async def test_a_second_reporter_is_refused_and_takes_over_when_the_first_is_closed(self) -> None:
        registry = Registry()
        first, second = (Reporter(registry=registry, sink=MemorySink()) for _ in range(2))
        await first.start()
        with pytest.raises(PushmetricsError, match="is reporting this registry already") as caught:
            await second.start()
        assert isinstance(caught.value, RuntimeError)
        await first.aclose()
        await second.start()
        await second.aclose()

    async def test_the_same_reporter_starts_twice_in_turn_but_not_at_once(self) -> None:
        reporter = Reporter(registry=Registry(), sink=MemorySink())
        async with reporter:
            with pytest.raises(PushmetricsError, match="is running already"):
                await reporter.start()
        async with reporter:
            await reporter.flush()

    async def test_flush_without_start_says_what_to_do(self) -> None:
        with pytest.raises(PushmetricsError, match="start it"):
            await Reporter(registry=Registry(), sink=MemorySink()).flush()

    def test_a_loop_that_was_closed_under_it_is_not_in_the_way_of_the_next(self) -> None:
        registry = Registry()
        reporter = Reporter(registry=registry, sink=MemorySink())
        loop = asyncio.new_event_loop()
        loop.run_until_complete(reporter.start())
        loop.run_until_complete(asyncio.sleep(0))
        task = reporter._task
        loop.close()

        async def again() -> None:
            async with Reporter(registry=registry, sink=MemorySink()) as other:
                await other.flush()
            await reporter.aclose()

        asyncio.run(again())
        assert task is not None
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # It was left behind on purpose.

    async def test_a_reporter_that_nobody_references_goes_on(self) -> None:
        sink = RecordingSink()
        registry = Registry()
        with ManualClock() as clock:
            await Reporter(registry=registry, sink=sink).start()
            gc.collect()
            await clock.advance(100)
            flushes = sink.flushes
            (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "pushmetrics-reporter")
            task.cancel()

        assert flushes >= 10

    async def test_a_closed_reporter_is_not_kept_alive(self) -> None:
        reporter = Reporter(registry=Registry(), sink=MemorySink())
        async with reporter:
            pass
        reference = weakref.ref(reporter)
        del reporter
        gc.collect()

        assert reference() is None


class TestAGlobalReporter:
    """One that outlives the loops of its tests, of which each has its own (pytest-asyncio#200, #1044)."""

    registry = Registry()
    sink = RecordingSink()
    reporter = Reporter(registry=registry, sink=sink)

    @pytest.mark.parametrize("turn", range(5))
    async def test_it_starts_in_each_loop_whatever_became_of_the_last_one(self, turn: int) -> None:
        await self.reporter.start()
        limit = limit_of(self.registry)
        async with limit:
            assert (await self.reporter.flush()).series == 1
        assert self.sink.values("active")[-1] == 1
        if turn not in {1, 2}:
            await self.reporter.aclose()


class TestWhenTheLoopEnds:
    def test_a_task_that_is_cancelled_with_all_others_flushes_once_more(self) -> None:
        registry, sink = Registry(), RecordingSink()
        reporter = Reporter(registry=registry, sink=sink)
        limit = limit_of(registry)

        async def main() -> None:
            await reporter.start()
            await reporter.flush()
            async with limit:
                pass

        for times in (1, 2):
            asyncio.run(main())
            assert sink.total("admissions_total") == times
            assert sink.closed
            assert not reporter.is_running
        asyncio.run(reporter.aclose())

    def test_a_sink_that_hangs_does_not_hold_the_end_up(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("pushmetrics.reporter.CLOSE_SECONDS", 0.05)
        sink = Hanging()

        async def main() -> None:
            await Reporter(registry=Registry(), sink=sink).start()
            await asyncio.sleep(0)

        asyncio.run(main())

        assert sink.closed
        assert "did not end within" in caplog.text


class TestWhenSomethingGoesWrong:
    async def test_a_sink_that_raises_is_logged_once_and_reporting_goes_on(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Failing(MemorySink):
            failing = True

            async def push(self, samples: Iterator[Sample]) -> Delivery:
                if self.failing:
                    raise ZeroDivisionError("no")
                return await super().push(samples)

        registry = Registry()
        limit = limit_of(registry)
        sink = Failing()
        with ManualClock() as clock:
            async with Reporter(registry=registry, sink=sink) as reporter, limit:
                await clock.advance(100)
                assert (await reporter.flush()).failures == {"ZeroDivisionError": 1}
                sink.failing = False
                await clock.advance(20)

        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert sink.total("admissions_total") == 1

    async def test_the_agent_that_goes_and_comes_back_is_one_line_each(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, logger="pushmetrics")
        sink = RecordingSink()
        with ManualClock() as clock:
            async with Reporter(registry=Registry(), sink=sink):
                await clock.advance(50)
                sink.refusing = True
                await clock.advance(100)
                sink.refusing = False
                await clock.advance(50)

        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]

    async def test_an_exception_in_the_program_passes_through_after_the_last_flush(self) -> None:
        sink = RecordingSink()
        with pytest.raises(ZeroDivisionError):
            async with Reporter(registry=Registry(), sink=sink):
                raise ZeroDivisionError
        assert sink.closed

    async def test_a_sink_that_hangs_does_not_hold_the_program_up(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("pushmetrics.reporter.CLOSE_SECONDS", 0.05)
        sink = Hanging()
        async with asyncio.timeout(5):
            async with Reporter(registry=Registry(), sink=sink):
                await asyncio.sleep(0)

        assert sink.closed
        assert "did not end within" in caplog.text

    async def test_a_close_that_is_cancelled_leaves_no_task_behind(self) -> None:
        before = asyncio.all_tasks()
        sink = Hanging()
        reporter = Reporter(registry=Registry(), sink=sink)
        await reporter.start()
        closing = asyncio.create_task(reporter.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

        assert sink.closed
        assert asyncio.all_tasks() == before

    async def test_a_sink_that_does_not_let_itself_be_cancelled_is_left_behind(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Stubborn(RecordingSink):
            def __init__(self) -> None:
                super().__init__()
                self.let_go = asyncio.Event()
                self.calls = 0

            async def _hold(self) -> None:
                self.calls += 1
                while not self.let_go.is_set():
                    with suppress(asyncio.CancelledError):
                        await self.let_go.wait()

            async def push(self, samples: Iterator[Sample]) -> Delivery:
                await self._hold()
                return Delivery()

            async def aclose(self) -> None:
                await self._hold()

        monkeypatch.setattr("pushmetrics.reporter.CLOSE_SECONDS", 0.2)
        before = asyncio.all_tasks()
        sink = Stubborn()
        async with asyncio.timeout(5):
            async with Reporter(registry=Registry(), sink=sink):
                await asyncio.sleep(0)

        assert "did not end within" in caplog.text
        assert "did not close within" in caplog.text
        sink.let_go.set()
        await asyncio.wait(asyncio.all_tasks() - before)
        assert sink.calls == 2, "what was left behind does not begin anything new"

    @pytest.mark.parametrize(
        "nonsense", [None, 3, Delivery(datagrams=None), Delivery(failures={"x": None}), SimpleNamespace(failures={})]
    )
    async def test_a_sink_that_gives_nonsense_back_is_a_failing_sink(
        self, caplog: pytest.LogCaptureFixture, nonsense: Any
    ) -> None:
        class Nonsense(RecordingSink):
            async def push(self, samples: Iterator[Sample]) -> Delivery:
                delivery: Delivery = nonsense
                return delivery

        async with Reporter(registry=Registry(), sink=Nonsense()) as reporter:
            assert (await reporter.flush()).failures in ({"AttributeError": 1}, {"TypeError": 1})
            assert reporter.is_running
        assert [record.levelname for record in caplog.records] == ["ERROR"]

    async def test_a_sink_whose_own_work_is_cancelled_is_a_failing_sink(self, caplog: pytest.LogCaptureFixture) -> None:
        class Cancelled(RecordingSink):
            async def push(self, samples: Iterator[Sample]) -> Delivery:
                raise asyncio.CancelledError

        async with Reporter(registry=Registry(), sink=Cancelled()) as reporter:
            assert (await reporter.flush()).failures == {"CancelledError": 1}
            assert reporter.is_running
        assert [record.levelname for record in caplog.records] == ["ERROR"]

    async def test_a_sink_that_can_not_be_closed_hurts_nobody(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Unclosable(RecordingSink):
            def __init__(self, error: Exception | None) -> None:
                super().__init__()
                self.error = error

            async def aclose(self) -> None:
                if self.error is None:
                    await asyncio.Event().wait()
                else:
                    raise self.error

        monkeypatch.setattr("pushmetrics.reporter.CLOSE_SECONDS", 0.2)
        for error in (ZeroDivisionError(), None):
            async with asyncio.timeout(5), Reporter(registry=Registry(), sink=Unclosable(error)):
                pass
        assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]

    async def test_an_agent_that_comes_and_goes_at_each_flush_does_not_flood_the_log(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, logger="pushmetrics")
        sink = RecordingSink()
        with ManualClock() as clock:
            async with Reporter(registry=Registry(), sink=sink, flush_interval=0.1):
                for _ in range(300):
                    sink.refusing = not sink.refusing
                    await clock.advance(0.1)

        assert len(caplog.records) <= 4

    async def test_a_sink_that_raises_now_and_then_does_not_flood_the_log(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Moody(RecordingSink):
            async def push(self, samples: Iterator[Sample]) -> Delivery:
                delivery = await super().push(samples)
                if self.flushes % 2:
                    raise ZeroDivisionError
                return delivery

        with ManualClock() as clock:
            async with Reporter(registry=Registry(), sink=Moody(), flush_interval=0.1):
                await clock.advance(45)

        assert len(caplog.records) == 2

    async def test_cancelling_the_program_ends_it(self) -> None:
        sink = RecordingSink()

        async def program() -> None:
            async with Reporter(registry=Registry(), sink=sink):
                await asyncio.Event().wait()

        task = asyncio.create_task(program())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sink.closed


class TestSwitchedOff:
    @pytest.mark.parametrize(("variable", "value"), [("PUSHMETRICS_ENABLED", "0"), ("DD_DOGSTATSD_DISABLE", "true")])
    async def test_everything_works_and_nothing_is_sent(
        self, variable: str, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, logger="pushmetrics")
        monkeypatch.setenv(variable, value)
        registry = Registry()
        limit = limit_of(registry)
        sink = RecordingSink()
        async with Reporter(registry=registry, sink=sink) as reporter, limit:
            assert (await reporter.flush()).series == 0

        assert sink.flushes == 0
        assert limit.admissions == 1
        assert variable in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"flush_interval": 0.05}, "flush_interval: expected seconds from 0.1 to 3600, got 0.05"),
        ({"flush_interval": "ten"}, "flush_interval"),
        ({"flush_interval": float("nan")}, "flush_interval"),
        ({"flush_interval": True}, "flush_interval"),
        ({"level": "all"}, "level: expected one of core, standard, full, got 'all'"),
        ({"namespace": ""}, "namespace"),
        ({"namespace": 7}, "namespace"),
        ({"constant_tags": 7}, "constant_tags"),
        ({"constant_tags": ["component:x"]}, "constant_tags"),
        ({"worker": -1}, "worker: expected an integer of at least 0, 'auto' or None, got -1"),
        ({"sink": 7}, "sink: expected None"),
        ({"sink": "http://x"}, "expected udp://host:port"),
        ({"sink": MemorySink}, "sink: expected None"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PushmetricsError, match=message) as caught:
        Reporter(**{"sink": MemorySink(), **arguments})
    assert isinstance(caught.value, (ValueError, TypeError))
