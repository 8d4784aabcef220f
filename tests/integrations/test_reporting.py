"""The reporter of a program that does not know it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from pushmetrics import MeteredSemaphore, Registry, Reporter, sinks
from pushmetrics.integrations import reporting as module
from pushmetrics.integrations.reporting import Reporting
from pushmetrics.model import Sink
from pushmetrics.receiver import Receiver


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """An empty one: other tests have limits whose last values were not sent."""
    registry = Registry()
    monkeypatch.setattr(module, "registry", registry)
    return registry


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    async with Receiver(bucket_seconds=0.1) as receiver:
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        monkeypatch.setenv("PUSHMETRICS_SINK", f"udp://{host}:{port}")
        monkeypatch.setenv("PUSHMETRICS_FLUSH_INTERVAL", "0.1")
        yield receiver


def limit(name: str = "episodes") -> MeteredSemaphore:
    return MeteredSemaphore(2, component="environment_server", limit_name=name, registry=None)


async def arrived(receiver: Receiver, **tags: str) -> None:
    async with asyncio.timeout(10):
        while not receiver.series("gym.concurrency.limit", **tags):  # noqa: ASYNC110 - a receiver has no event for it
            await asyncio.sleep(0.01)


async def test_a_limit_is_reported_until_its_part_ends(receiver: Receiver, registry: Registry) -> None:
    episodes = limit()
    async with Reporting() as reporting:
        reporting.add(episodes)
        await arrived(receiver, limit_name="episodes")
        await episodes.acquire()
        await episodes.acquire()

    assert episodes not in registry
    await receiver.aclose()
    # The last push has what happened since the one before, and the state of a limit that has ended.
    assert receiver.totals()["gym.concurrency.admissions_total", episodes.tags] == 2
    assert receiver.latest("gym.concurrency.active").value == 0


async def test_a_part_that_ends_at_once_is_reported(receiver: Receiver) -> None:
    episodes = limit()
    async with Reporting() as reporting:
        reporting.add(episodes)
        await episodes.acquire()

    await receiver.aclose()
    assert receiver.totals()["gym.concurrency.admissions_total", episodes.tags] == 1


async def test_after_the_end_nothing_is_started(receiver: Receiver) -> None:
    """What was left in the loop to be done when a part ended finds that it has."""
    for _ in range(2):
        async with Reporting() as reporting:
            reporting.add(limit())

    await asyncio.sleep(0.01)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_a_loop_that_ended_without_the_part_is_not_in_the_way(
    monkeypatch: pytest.MonkeyPatch, registry: Registry
) -> None:
    """As when a server is killed by its own test, and another one starts in the same process."""
    monkeypatch.setenv("PUSHMETRICS_SINK", "udp://127.0.0.1:9")
    kept = limit("left"), limit("next")

    async def left() -> None:
        reporting = await Reporting().__aenter__()
        reporting.add(kept[0])
        await asyncio.sleep(0)

    async def following() -> None:
        async with Reporting() as reporting:
            reporting.add(kept[1])
            await asyncio.sleep(0.01)
            assert kept[1] in registry
        assert kept[1] not in registry

    asyncio.run(left())
    asyncio.run(following())


async def test_a_process_without_limits_sends_nothing(receiver: Receiver) -> None:
    async with Reporting():
        await asyncio.sleep(0.01)

    await receiver.aclose()
    assert receiver.statistics().datagrams == 0


async def test_parts_share_one_reporter_to_the_last_of_them(receiver: Receiver) -> None:
    first, second = Reporting(), Reporting()
    await first.__aenter__()
    await second.__aenter__()
    kept = limit("first"), limit("second")
    first.add(kept[0])
    second.add(kept[1])
    await arrived(receiver, limit_name="second")
    await first.__aexit__(None, None, None)
    await kept[1].acquire()
    await second.__aexit__(None, None, None)

    await receiver.aclose()
    assert receiver.latest("gym.concurrency.active_peak", limit_name="second").value == 1


async def test_a_second_life_is_reported_as_well(receiver: Receiver) -> None:
    for name in ("first", "second"):
        async with Reporting() as reporting:
            kept = limit(name)
            reporting.add(kept)
            await arrived(receiver, limit_name=name)


async def test_what_goes_wrong_is_said_and_the_program_runs_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_client(*_: object) -> None:
        raise ImportError("No module named 'datadog'")

    monkeypatch.setattr("pushmetrics.sinks.resolve_sink", no_client)
    async with Reporting() as reporting:
        kept = limit()
        reporting.add(kept)
        reporting.add(limit("another"))
        await asyncio.sleep(0.01)
        async with kept:
            pass

    assert [record.getMessage() for record in caplog.records] == [
        """The limits of this process are not reported: ImportError("No module named 'datadog'")."""
    ]


async def test_another_thread_may_add_one(receiver: Receiver) -> None:
    kept = limit()
    async with Reporting() as reporting:
        await asyncio.to_thread(reporting.add, kept)
        await arrived(receiver, limit_name="episodes")


async def test_a_client_that_is_slow_to_import_does_not_hold_the_loop_up(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported_in: list[threading.Thread] = []
    resolve = sinks.resolve_sink

    def import_the_client(sink: None) -> Sink:
        imported_in.append(threading.current_thread())
        return resolve(sink)

    monkeypatch.setattr(sinks, "resolve_sink", import_the_client)
    async with Reporting() as reporting:
        kept = limit()
        reporting.add(kept)
        await arrived(receiver, limit_name="episodes")

    assert [thread is threading.current_thread() for thread in imported_in] == [False]


async def test_limits_of_a_second_loop_are_reported_and_do_not_keep_the_first_loops_reporter(
    receiver: Receiver, registry: Registry
) -> None:
    here, there = limit("here"), limit("there")

    async def another() -> None:
        async with Reporting() as reporting:
            reporting.add(there)
            await asyncio.sleep(0)

    async with Reporting() as reporting:
        reporting.add(here)
        await arrived(receiver, limit_name="here")
        await asyncio.to_thread(asyncio.run, another())
        await arrived(receiver, limit_name="there")

    await Reporter(registry=registry).start()  # Which would be refused beside the one before.
