"""Worker tags: which series get one, when they do, and what happens where there is none to be had."""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import freezegun
import pytest

from pushmetrics import MemorySink, MeteredSemaphore, Registry, Reporter
from pushmetrics.slots import SlotFiles
from pushmetrics.testing import ManualClock, RecordingSink
from pushmetrics.workers import Workers

if TYPE_CHECKING:
    from slot_process import NewProcess

pytest_plugins = ["slot_process"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no worker slots there")


class SharedSink(RecordingSink):
    """Takes samples as an Agent does, which gets those of other processes, too."""

    in_process = False


@pytest.fixture(autouse=True)
def slot_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlotFiles:
    """Lock files of the test's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    files = SlotFiles()
    monkeypatch.setattr("pushmetrics.workers.slot_files", files)
    return files


GROUP = b"gym.concurrency\0component:api\0"
"""That of the limits below, without a server."""


def limit_of(registry: Registry, limit_name: str = "calls", **options: Any) -> MeteredSemaphore:
    return MeteredSemaphore(2, component="api", limit_name=limit_name, registry=registry, **options)


def workers_in(sink: MemorySink, name: str, **tags: str) -> set[str | None]:
    """The worker tags of all samples with such a metric and tags."""
    wanted = {f"{key}:{value}" for key, value in tags.items()}
    return {
        sample.descriptor.tag("worker")
        for sample in sink.samples
        if name in sample.descriptor.names and wanted.issubset(sample.descriptor.tags)
    }


async def reported(registry: Registry, **options: Any) -> SharedSink:
    """Flush once and return what arrived."""
    sink = SharedSink()
    async with Reporter(registry=registry, sink=sink, **options) as reporter:
        await reporter.flush()
    return sink


class TestAuto:
    async def test_the_first_has_no_tag_and_the_others_have_a_number(self) -> None:
        registries = [Registry(), Registry(), Registry()]
        limits = [limit_of(registry) for registry in registries]
        sinks = [SharedSink() for _ in registries]
        reporters = [Reporter(registry=registry, sink=sink) for registry, sink in zip(registries, sinks, strict=True)]
        for reporter in reporters:
            await reporter.start()
            await reporter.flush()
        for reporter in reporters:
            await reporter.aclose()

        assert len(limits) == 3
        assert [workers_in(sink, "active") for sink in sinks] == [{None}, {"1"}, {"2"}]
        assert [workers_in(sink, "series") for sink in sinks] == [{None}, {"1"}, {"2"}], "and so does its health"

    async def test_each_group_has_a_number_of_its_own(self) -> None:
        async def other(registry: Registry, **options: Any) -> None:
            await reporter_of(registry, **options).start()

        reporters = []

        def reporter_of(registry: Registry, **options: Any) -> Reporter:
            reporters.append(Reporter(registry=registry, sink=SharedSink(), **options))
            return reporters[-1]

        shared = Registry()
        limits = [limit_of(shared, server="a")]
        await other(shared, constant_tags=["team:x", "tier:1"])
        await reporters[0].flush()

        registry = Registry()
        limits += [
            limit_of(registry, server="a"),
            limit_of(registry, "others", server="a"),
            limit_of(registry, server="b"),
            limit_of(registry),
        ]
        sink = await reported(registry, constant_tags=["tier:1", "team:x"])
        elsewhere = await reported(registry, constant_tags=["team:y"])
        named = await reported(registry, namespace="another", constant_tags=["team:x", "tier:1"])
        await reporters[0].aclose()

        assert workers_in(sink, "active", server="a", limit_name="calls") == {"1"}
        assert workers_in(sink, "active", server="a", limit_name="others") == {"1"}
        assert workers_in(sink, "active", server="b") == {None}
        assert workers_in(elsewhere, "active") == {None}
        assert workers_in(named, "active") == {None}
        assert len(limits) == 5

    async def test_closing_gives_the_slots_back_and_starting_again_takes_the_lowest(self) -> None:
        registry = Registry()
        limit = limit_of(registry)
        for _ in range(3):
            assert workers_in(await reported(registry), "active") == {None}
        assert limit in registry

    def test_a_reporter_that_starts_again_after_its_loop_was_closed_has_its_number_again(self) -> None:
        registry, sink = Registry(), SharedSink()
        limit = limit_of(registry)
        reporter = Reporter(registry=registry, sink=sink)
        for _ in range(3):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(reporter.start())
            loop.run_until_complete(reporter.flush())
            task = reporter._task
            loop.close()
            assert task is not None
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # It was left behind on purpose.

        assert workers_in(sink, "active") == {None}
        assert limit in registry

    async def test_a_group_that_is_gone_gives_its_slot_back_when_it_is_forgotten(self, new_process: NewProcess) -> None:
        registry = Registry()
        with ManualClock() as clock:
            async with Reporter(registry=registry, sink=SharedSink()):
                limit = limit_of(registry)
                await clock.advance(10)
                del limit
                await clock.advance(20)
                assert new_process().take(GROUP) == 1, "it may come back within the hour"
                await clock.advance(3700)
                assert new_process().take(GROUP) == 0

    async def test_a_group_that_comes_back_has_its_number_again(self, slot_files: SlotFiles) -> None:
        registry, first = Registry(), Registry()
        kept = limit_of(first)
        sink = SharedSink()
        async with Reporter(registry=first, sink=SharedSink()) as other:
            await other.flush()
            with ManualClock() as clock:
                async with Reporter(registry=registry, sink=sink):
                    for _ in range(3):
                        limit = limit_of(registry)
                        await clock.advance(20)
                        del limit
                        await clock.advance(20)

        assert workers_in(sink, "active") == {"1"}
        assert kept in first

    async def test_files_that_were_removed_are_followed_by_others(
        self, tmp_path: Path, new_process: NewProcess
    ) -> None:
        registry, sink = Registry(), SharedSink()
        limit = limit_of(registry)
        with ManualClock() as clock:
            async with Reporter(registry=registry, sink=sink):
                await clock.advance(10)
                shutil.rmtree(tmp_path / "pushmetrics")
                first = new_process()
                assert first.take(GROUP) == 0
                sink.samples.clear()
                await clock.advance(3700)
                assert new_process().take(GROUP) == 2

        assert workers_in(sink, "active") == {None, "1"}
        assert limit in registry

    async def test_what_one_reporter_finds_removed_every_reporter_takes_anew(
        self, tmp_path: Path, new_process: NewProcess
    ) -> None:
        registries, sinks = [Registry(), Registry()], [SharedSink(), SharedSink()]
        limits = [limit_of(registry) for registry in registries]
        with ManualClock() as clock:
            async with (
                Reporter(registry=registries[0], sink=sinks[0]) as first,
                Reporter(registry=registries[1], sink=sinks[1]) as second,
            ):
                await first.flush()
                await second.flush()
                shutil.rmtree(tmp_path / "pushmetrics")
                elsewhere = new_process()
                assert elsewhere.take(GROUP) == 0
                limits.append(limit_of(registries[0], "more"))  # Only then is there a look before the hour is over.
                await clock.advance(20)
                for sink in sinks:
                    sink.samples.clear()
                await clock.advance(20)

        assert sorted(map(str, workers_in(sinks[0], "active") | workers_in(sinks[1], "active"))) == ["1", "2"]
        assert workers_in(sinks[0], "active").isdisjoint(workers_in(sinks[1], "active"))
        assert len(limits) == 3

    async def test_with_frozen_time_they_are_taken_and_given_back(self, new_process: NewProcess) -> None:
        registry, sink = Registry(), SharedSink()
        limit = limit_of(registry)
        with freezegun.freeze_time("2027-01-15"):
            async with Reporter(registry=registry, sink=sink) as reporter:
                assert (await reporter.flush()).series == 1
                assert new_process().take(GROUP) == 1

        assert new_process().take(GROUP) == 0
        assert limit in registry


class TestFixed:
    @pytest.mark.parametrize(("worker", "tag"), [(3, "3"), (0, None), (None, None)])
    async def test_a_number_is_as_given(self, worker: int | None, tag: str | None, tmp_path: Path) -> None:
        registry = Registry()
        limit = limit_of(registry)
        sink = await reported(registry, worker=worker)

        assert workers_in(sink, "active") == workers_in(sink, "series") == {tag}
        assert list(tmp_path.iterdir()) == []
        assert limit in registry

    async def test_the_variable_fixes_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PUSHMETRICS_WORKER", "7")
        registry = Registry()
        limit = limit_of(registry)

        assert workers_in(await reported(registry), "active") == {"7"}
        assert limit in registry

    async def test_what_stays_in_the_process_needs_no_tag(self, tmp_path: Path) -> None:
        async with Reporter(registry=Registry(), sink=MemorySink()) as reporter:
            await reporter.flush()

        assert list(tmp_path.iterdir()) == []


@pytest.fixture
def go_on(slot_files: SlotFiles, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """No slot is taken before this is set, and a flush does not wait for long."""
    go_on = threading.Event()
    take = slot_files.take

    def slow_take(group: bytes, holder: object) -> Any:
        go_on.wait()
        return take(group, holder)

    monkeypatch.setattr(slot_files, "take", slow_take)
    monkeypatch.setattr("pushmetrics.workers.WAIT_SECONDS", 0.01)
    return go_on


class TestTakingThem:
    async def test_the_loop_is_not_held_up_and_nothing_is_sent_before_its_tag_is_known(
        self, go_on: threading.Event
    ) -> None:
        registry, sink = Registry(), SharedSink()
        limit = limit_of(registry)
        async with Reporter(registry=registry, sink=sink) as reporter:
            async with limit:
                pass
            assert (await reporter.flush()).series == 0
            assert list(sink.samples) == []
            go_on.set()
            while not sink.samples:
                await reporter.flush()

        assert sink.total("admissions_total") == 1, "what was counted meanwhile is not lost"

    async def test_limits_that_come_later_do_not_wait_for_the_next_but_one_flush(self) -> None:
        registry, sink = Registry(), SharedSink()
        async with Reporter(registry=registry, sink=sink) as reporter:
            await reporter.flush()
            limits = [limit_of(registry, server=f"s{number}") for number in range(100)]
            assert (await reporter.flush()).series == len(limits)

    async def test_a_file_system_that_hangs_costs_the_tag_and_not_the_metrics(
        self, go_on: threading.Event, new_process: NewProcess, caplog: pytest.LogCaptureFixture
    ) -> None:
        registry, sink = Registry(), SharedSink()
        limit = limit_of(registry)
        new_process().take(GROUP)
        with ManualClock() as clock:
            async with Reporter(registry=registry, sink=sink) as reporter:
                await reporter.flush()
                clock.stall(31)
                assert (await reporter.flush()).series == 1
                go_on.set()
                await clock.advance(30)

        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert workers_in(sink, "active") == {None}, "nor does a tag come later, when the others have it"
        assert limit in registry

    async def test_slots_that_are_given_back_late_are_not_those_of_the_next_start(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go_on, given_back = threading.Event(), threading.Event()
        give_all_back = Workers._give_all_back

        def give_all_back_late(workers: Workers) -> None:  # As a thread does that has its turn late.
            go_on.wait()
            give_all_back(workers)
            given_back.set()

        monkeypatch.setattr(Workers, "_give_all_back", give_all_back_late)
        registry = Registry()
        limit = limit_of(registry)
        reporter = Reporter(registry=registry, sink=SharedSink())
        async with reporter:
            await reporter.flush()
        async with reporter:
            await reporter.flush()
            go_on.set()
            await asyncio.to_thread(given_back.wait)
            assert (await reporter.flush()).series == 1
        assert limit in registry


class TestWithoutSlots:
    @pytest.fixture(params=["no directory", "no file locks", "no thread"])
    def without(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        if request.param == "no directory":
            (tmp_path / "pushmetrics").write_text("in the way")
        elif request.param == "no file locks":
            monkeypatch.setattr("os.name", "nt")
        else:

            def refuse(thread: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            monkeypatch.setattr(threading.Thread, "start", refuse)

    @pytest.mark.usefixtures("without")
    async def test_there_is_one_warning_no_tag_and_no_failure(self, caplog: pytest.LogCaptureFixture) -> None:
        registry, sink = Registry(), SharedSink()
        limits = [limit_of(registry, server="a")]
        with ManualClock() as clock:
            async with Reporter(registry=registry, sink=sink):
                await clock.advance(30)
                limits.append(limit_of(registry, server="b"))
                await clock.advance(30)

        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "PUSHMETRICS_WORKER" in caplog.text
        assert workers_in(sink, "active", server="a") == workers_in(sink, "active", server="b") == {None}
        assert workers_in(sink, "series") == {None}
        assert len(limits) == 2
