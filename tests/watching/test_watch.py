"""What holds for whatever is watched: how long, under which tags, beside whom, and what is refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import logging
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import asyncpg
import httpcore
import httpx
import psycopg_pool
import pytest
import sqlalchemy
from collected import collect, only, passes, watching
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, QueuePool

from pushmetrics import MeteredSemaphore, PushmetricsError, Registry, Reporter, watch
from pushmetrics.dogstatsd import parse
from pushmetrics.model import Counters
from pushmetrics.testing import ManualClock
from pushmetrics.watching.families import CLASSES

PAGE = Path(__file__).parents[2] / "docs" / "watching.md"
TAGS = {"component": "api", "limit_name": "calls"}
SERIES = ("component:api", "limit_name:calls")
FULL = {"limit": 2, "active": 2, "available": 0, "queue_depth": 1}


MAKERS: dict[str, Callable[[], Any]] = {
    "aiohttp.TCPConnector": aiohttp.TCPConnector,
    "anyio.CapacityLimiter": lambda: anyio.CapacityLimiter(2),
    "anyio.Semaphore": lambda: anyio.Semaphore(2, max_value=2),
    "asyncio.BoundedSemaphore": asyncio.BoundedSemaphore,
    "asyncio.Semaphore": asyncio.Semaphore,
    "asyncpg.Pool": lambda: asyncpg.create_pool("postgresql://nobody@127.0.0.1:1/none"),
    "concurrent.futures.ThreadPoolExecutor": concurrent.futures.ThreadPoolExecutor,
    "httpcore.AsyncConnectionPool": httpcore.AsyncConnectionPool,
    "httpx.AsyncClient": lambda: httpx.AsyncClient(trust_env=False),
    "httpx.AsyncHTTPTransport": httpx.AsyncHTTPTransport,
    "psycopg_pool.AsyncConnectionPool": lambda: psycopg_pool.AsyncConnectionPool(open=False),
    "sqlalchemy.AsyncEngine": lambda: create_async_engine("sqlite+aiosqlite:///a.db", poolclass=AsyncAdaptedQueuePool),
    "sqlalchemy.Engine": lambda: sqlalchemy.create_engine("sqlite:///a.db", poolclass=QueuePool),
    "sqlalchemy.QueuePool": lambda: QueuePool(lambda: None),
}
"""One of each class, not connected to anything."""


def metered(registry: Registry, value: int = 2, **options: Any) -> MeteredSemaphore:
    return MeteredSemaphore(value, **TAGS, registry=registry, **options)


async def cancel_waiters(semaphore: asyncio.Semaphore, number: int) -> None:
    tasks = [asyncio.create_task(semaphore.acquire()) for _ in range(number)]
    await passes()
    for task in tasks:
        task.cancel()
    await passes()


class OwnLimit:
    """The least that somebody's own limit must have, with metrics that it can not know."""

    tags = SERIES

    def __init__(self, *unknown: str) -> None:
        self.counters = Counters(3)
        self.unknown = frozenset(unknown)

    def gauges(self) -> tuple[int, int, int, int]:
        return 1, 2, 0, 0


class TestHowLong:
    @pytest.mark.parametrize("name", sorted(set(MAKERS) - {"asyncpg.Pool"}))
    async def test_nothing_is_kept_alive_by_being_watched(self, name: str) -> None:
        limiter = MAKERS[name]()
        registry, gone = watching(limiter), weakref.ref(limiter)
        known = only(registry)

        del limiter
        gc.collect()

        assert gone() is None
        last = only(registry)
        assert last.get("active", 0) == last.get("queue_depth", 0) == 0
        assert last.get("limit") == known.get("limit")
        assert set(last) == set(known) - ({"available"} if "limit" not in known else set())
        assert collect(registry) == {}

    @pytest.mark.parametrize("ended", ["with the object", "unregistered"])
    async def test_the_last_sample_says_that_nothing_is_active(self, ended: str) -> None:
        semaphore = asyncio.BoundedSemaphore(2)
        registry = watching(semaphore)
        await semaphore.acquire()
        before = only(registry)
        if ended == "unregistered":
            registry.unregister(semaphore)
            assert semaphore not in registry
        else:
            del semaphore

        assert before["active"] == 1
        assert only(registry) == {"limit": 2, "active": 0, "available": 2, "queue_depth": 0}
        assert collect(registry) == {}

    def test_one_that_was_never_sampled_makes_nothing_up(self) -> None:
        registry = watching(asyncio.Semaphore(2))

        assert only(registry) == {"queue_depth": 0}, "how many slots are free is not known of one that has no limit"

    def test_one_that_dies_while_others_are_read(self) -> None:
        mortal = [asyncio.Semaphore(2)]

        class Killer(asyncio.Semaphore):
            @property
            def _waiters(self) -> None:
                mortal.clear()

            @_waiters.setter
            def _waiters(self, value: object) -> None:
                pass

        registry, killer = Registry(), Killer()
        mortals = [mortal[0], asyncio.BoundedSemaphore(2)]
        mortal[:] = mortals
        watch(killer, component="api", limit_name="killer", registry=registry)
        mortal[:] = mortals
        watch(mortal[0], component="api", limit_name="plain", registry=registry)
        watch(mortal[1], component="api", limit_name="bounded", registry=registry)
        del mortals

        samples = collect(registry)

        values = {tags[1]: dict(zip(one.descriptor.names, one.values, strict=True)) for tags, one in samples.items()}
        assert values["limit_name:plain"] == {"queue_depth": 0}
        assert values["limit_name:bounded"] == {"limit": 2, "active": 0, "available": 2, "queue_depth": 0}

    def test_a_new_object_at_the_address_of_one_that_died_is_another(self) -> None:
        registry = Registry()
        addresses = set()
        for number in range(500):
            semaphore = asyncio.BoundedSemaphore(1 + number)
            addresses.add(id(semaphore))
            assert semaphore not in registry
            watch(semaphore, **TAGS, tags={"kind": str(number % 3)}, registry=registry)
            assert semaphore in registry
            values = [sample.value("limit") for sample in collect(registry).values()]
            assert 1 + number in values
            del semaphore

        assert len(addresses) < 500, "addresses come again"
        assert len(registry) == 1, "the last one has its last sample to come"
        collect(registry)
        assert len(registry) == 0
        assert not registry._watched

    def test_max_series_holds_for_them_too(self, caplog: pytest.LogCaptureFixture) -> None:
        registry = Registry(max_series=1)
        semaphores = [asyncio.Semaphore(number) for number in range(3)]
        for number, semaphore in enumerate(semaphores):
            watch(semaphore, component="api", limit_name=f"calls-{number}", registry=registry)

        assert [semaphore in registry for semaphore in semaphores] == [True, False, False]
        assert registry.series_rejected == 2
        assert len(collect(registry)) == 1
        assert len(caplog.records) == 1


class TestUnderWhichTags:
    async def test_the_object_itself_is_returned(self) -> None:
        semaphore = asyncio.Semaphore()
        before = dict(vars(semaphore))

        assert watch(semaphore, **TAGS, registry=Registry()) is semaphore
        assert vars(semaphore) == before

    def test_the_same_twice_is_one_and_with_other_tags_it_is_under_both(self) -> None:
        semaphore = asyncio.BoundedSemaphore(2)
        registry = watching(semaphore, server="a")
        watch(semaphore, component="API", limit_name="calls ", server="a", registry=registry)
        watch(semaphore, **TAGS, server="b", registry=registry)

        samples = collect(registry)

        assert set(samples) == {(*SERIES, "server:a"), (*SERIES, "server:b")}
        assert [sample.value("limit") for sample in samples.values()] == [2, 2]
        registry.unregister(semaphore)
        assert semaphore not in registry
        assert [sample.value("active") for sample in collect(registry).values()] == [0, 0]
        assert collect(registry) == {}

    def test_what_is_not_watched_is_not_in_it_and_unregistering_it_does_nothing(self) -> None:
        semaphore, other = asyncio.Semaphore(), asyncio.Semaphore()
        registry = watching(semaphore)

        registry.unregister(other)

        assert semaphore in registry
        assert other not in registry

    def test_it_can_be_watched_again(self) -> None:
        semaphore = asyncio.BoundedSemaphore(2)
        registry = watching(semaphore)
        registry.unregister(semaphore)
        watch(semaphore, **TAGS, registry=registry)

        assert only(registry)["limit"] == 2


class TestBesideOthers:
    async def test_two_with_equal_tags_add_up(self) -> None:
        first, second = asyncio.BoundedSemaphore(2), asyncio.BoundedSemaphore(5)
        registry = watching(first)
        watch(second, **TAGS, registry=registry)
        await first.acquire()

        assert only(registry) == {"limit": 7, "active": 1, "available": 6, "queue_depth": 0}

    async def test_what_one_does_not_know_is_not_known_of_their_sum(self) -> None:
        plain, bounded = asyncio.Semaphore(2), asyncio.BoundedSemaphore(5)
        registry = watching(plain)
        watch(bounded, **TAGS, registry=registry)
        both = only(registry)
        registry.unregister(plain)
        bounded_alone = only(registry)
        del bounded

        assert both == {"available": 7, "queue_depth": 0}
        assert bounded_alone == {"limit": 5, "active": 0, "available": 5, "queue_depth": 0}
        assert only(registry) == bounded_alone

    @pytest.mark.parametrize("level", ["core", "standard", "full"])
    async def test_beside_a_metered_one_only_what_both_know(self, level: str) -> None:
        registry = Registry()
        limit = metered(registry, admission_timeout=1, max_queue_depth=3)
        alone = list(only(registry, level))
        semaphore = watch(asyncio.BoundedSemaphore(5), **TAGS, registry=registry)
        at_first = only(registry, level)
        async with limit:
            then = only(registry, level)
        del semaphore

        assert at_first == {"limit": 7, "active": 0, "available": 7, "queue_depth": 0}
        assert then == {"limit": 7, "active": 1, "available": 6, "queue_depth": 0}
        assert list(only(registry, level)) == alone

    async def test_what_was_owed_when_it_came_is_sent_once(self) -> None:
        registry = Registry()
        with ManualClock():
            limit = metered(registry)
            await limit.acquire()
            await limit.acquire()
            await cancel_waiters(limit, 3)
            semaphore = watch(asyncio.BoundedSemaphore(5), **TAGS, registry=registry)
            refused = only(registry, deliver=False)
            taken = only(registry)
            await cancel_waiters(limit, 4)
            after = only(registry)
            registry.unregister(semaphore)
            await cancel_waiters(limit, 5)
            alone = only(registry)

        owed = {"admission_cancelled_total": 3, "admissions_total": 2}
        assert refused == taken == {"limit": 7, "active": 2, "available": 5, "queue_depth": 0} | owed
        assert set(after) == set(FULL), "of the sum it is not known"
        assert alone["admission_cancelled_total"] == 5

    async def test_what_a_limit_owed_that_is_gone_is_sent_though_another_took_its_place(self) -> None:
        registry = Registry()
        limit = metered(registry, 1, admission_timeout=0)
        async with limit:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await limit.acquire()
        del limit
        semaphore = watch(asyncio.BoundedSemaphore(5), **TAGS, registry=registry)
        first = only(registry)

        assert first["admission_timeouts_total"] == 3
        assert first["admissions_total"] == 1
        assert first["limit"] == 5
        assert set(only(registry)) == set(FULL)
        assert semaphore in registry

    async def test_peaks_after_it_are_those_of_the_one_that_knows_them(self) -> None:
        registry = Registry()
        limit, semaphore = metered(registry), asyncio.BoundedSemaphore(2)
        with ManualClock():
            watch(semaphore, **TAGS, registry=registry)
            only(registry)
            semaphore._bound_value = semaphore._value = 100
            only(registry)
            registry.unregister(semaphore)
            async with limit:
                pass

            assert only(registry)["active_peak"] == 1

    async def test_what_both_left_behind_between_two_ticks_is_sent(self) -> None:
        registry = Registry()
        limit = metered(registry)
        async with limit:
            pass
        semaphore = watch(asyncio.BoundedSemaphore(5), **TAGS, registry=registry)
        registry.unregister(limit)
        registry.unregister(semaphore)

        last = only(registry)

        assert last["admissions_total"] == 1
        assert (last["active"], last["queue_depth"]) == (0, 0)
        assert "active_peak" not in last
        assert collect(registry) == {}

    async def test_waits_that_were_owed_are_sent_and_later_ones_are_not_kept(self) -> None:
        registry = Registry()
        limit = metered(registry)
        only(registry, "full")
        async with limit, limit:
            await cancel_waiters(limit, 3)
            semaphore = watch(asyncio.BoundedSemaphore(5), **TAGS, registry=registry)
            (first,) = collect(registry, "full").values()
            await cancel_waiters(limit, 4)
            (second,) = collect(registry, "full").values()
            registry.unregister(semaphore)
            (third,) = collect(registry, "full").values()
            await cancel_waiters(limit, 5)
            (fourth,) = collect(registry, "full").values()

        assert [len(sample.waits) for sample in (first, second, third, fourth)] == [3, 0, 0, 5]

    @pytest.mark.parametrize("level", ["core", "standard", "full"])
    async def test_a_sample_of_which_nobody_knows_anything_has_no_line(self, level: str) -> None:
        registry = Registry()
        one, other = OwnLimit("limit", "active"), OwnLimit("available", "queue_depth")
        registry.register(one)
        everything = {*only(registry, "full"), *FULL, "queue_duration_ms"}
        other.unknown = frozenset(everything - {"limit", "active"})
        registry.register(other)

        assert only(registry, level) == {}

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
            agent.bind(("127.0.0.1", 0))
            async with Reporter(registry=registry, level=level, sink=f"udp://127.0.0.1:{agent.getsockname()[1]}") as up:
                result = await up.flush()
            lines, _ = parse(agent.recv(65536))
        assert result.failures == {}
        assert all(line.name.startswith("pushmetrics.") for line in lines)

    def test_a_limit_of_ones_own_says_what_it_can_not_know(self) -> None:
        registry, own = Registry(), OwnLimit("limit", "available", "active_peak", "oldest_wait_ms")
        registry.register(own)

        assert set(only(registry)) == {
            "active",
            "queue_depth",
            "admission_cancelled_total",
            "queue_depth_peak",
            "contended_ms_total",
            "admissions_total",
            "admissions_queued_total",
        }

    @pytest.mark.parametrize("unknown", [{"limits"}, ["limit"], "limit", None])
    def test_what_is_no_set_of_metrics_is_refused(self, unknown: Any) -> None:
        own = OwnLimit()
        own.unknown = unknown

        with pytest.raises(PushmetricsError, match="the attribute unknown"):
            Registry().register(own)


@pytest.mark.parametrize("level", ["core", "standard", "full"])
async def test_what_arrives_at_a_socket(level: str) -> None:
    registry = Registry()
    bounded = watch(asyncio.BoundedSemaphore(2), **TAGS, registry=registry)
    plain = watch(asyncio.Semaphore(3), component="api", limit_name="others", tags={"zone": "eu"}, registry=registry)
    tasks = [asyncio.create_task(bounded.acquire()) for _ in range(3)]
    await passes()

    def received() -> dict[tuple[str, ...], dict[str, tuple[str, float]]]:
        found: dict[tuple[str, ...], dict[str, tuple[str, float]]] = {}
        while True:
            try:
                lines, refused = parse(agent.recv(65536, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return found
            assert refused == []
            for line in lines:
                if line.name.startswith("myapp."):
                    found.setdefault(line.tags, {})[line.name.removeprefix("myapp.")] = (line.kind, *line.values)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        address = f"udp://127.0.0.1:{agent.getsockname()[1]}"
        async with Reporter(registry=registry, level=level, namespace="myapp", sink=address, worker=None) as reporter:
            await reporter.flush()
            first = received()
            registry.unregister(plain)
            await reporter.flush()
            second = received()
        third = received()

    others = ("component:api", "limit_name:others", "zone:eu")
    full = {name: ("g", value) for name, value in FULL.items()}
    assert first == {SERIES: full, others: {"available": ("g", 3), "queue_depth": ("g", 0)}}
    assert second == {SERIES: full, others: {"queue_depth": ("g", 0)}}
    assert third == {SERIES: full}
    for task in tasks:
        task.cancel()


class TestThreads:
    def test_many_threads_may_watch_and_collect_at_once(self) -> None:
        registry = Registry()
        kept: list[asyncio.BoundedSemaphore] = []
        failures: list[BaseException] = []
        start = threading.Barrier(5)

        def work(number: int) -> None:
            try:
                start.wait()
                for step in range(200):
                    semaphore = asyncio.BoundedSemaphore(1)
                    watch(semaphore, component="api", limit_name=f"calls-{number}", registry=registry)
                    if step % 3 == 0:
                        registry.unregister(semaphore)
                        assert semaphore not in registry
                kept.append(semaphore)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails with it
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        start.wait()
        while any(thread.is_alive() for thread in threads):
            collect(registry)
        for thread in threads:
            thread.join()

        assert failures == []
        assert len(registry._watched) == len(kept) == 4
        assert [sample.value("limit") for sample in collect(registry).values()] == [1, 1, 1, 1]


class TestWhatCanNotBeRead:
    def test_a_version_without_what_is_read_is_refused_at_once(self) -> None:
        semaphore = asyncio.Semaphore()
        del semaphore._value

        with pytest.raises(PushmetricsError, match=r"can not be read \(AttributeError: .*_value.*version") as caught:
            watch(semaphore, **TAGS, registry=Registry())
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value.__cause__, AttributeError)

    def test_one_that_says_nonsense_at_once_is_refused(self) -> None:
        semaphore, registry = asyncio.BoundedSemaphore(2), Registry()
        semaphore._bound_value = 1

        with pytest.raises(PushmetricsError, match=r"can not be read .*active=-1") as caught:
            watch(semaphore, **TAGS, registry=registry)
        assert isinstance(caught.value, TypeError)
        assert semaphore not in registry
        assert len(registry) == 0

    @pytest.mark.parametrize("value", [-1, 1.5, True, "many"])
    def test_one_that_says_nonsense_costs_its_own_series_and_one_warning(
        self, value: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        semaphore, sound = asyncio.Semaphore(2), asyncio.Semaphore(2)
        registry = watching(semaphore)
        watch(sound, component="api", limit_name="others", registry=registry)
        semaphore._value = value

        with caplog.at_level(logging.WARNING):
            broken = [collect(registry), collect(registry)]
        semaphore._value = 1

        assert [list(samples) for samples in broken] == [[("component:api", "limit_name:others")]] * 2
        assert len(caplog.records) == 1
        assert "component:api limit_name:calls" in caplog.text
        assert collect(registry)[SERIES].value("available") == 1, "it is read again when it can be"


class Asked(asyncio.Semaphore):
    """A semaphore of which a value is a call to somebody."""

    def __init__(self, call: Callable[[], int]) -> None:
        super().__init__()
        self.call = call

    @property
    def _value(self) -> int:
        return self.call() if hasattr(self, "call") else 1

    @_value.setter
    def _value(self, value: int) -> None:
        pass


def test_no_lock_is_held_while_an_object_is_asked() -> None:
    """It may wait for somebody who waits for the registry, to whom every semaphore that is made goes."""
    registry = Registry()

    def call() -> int:
        made: list[MeteredSemaphore] = []
        elsewhere = threading.Thread(
            target=lambda: made.append(MeteredSemaphore(1, component="api", limit_name="made", registry=registry)),
            daemon=True,
        )
        elsewhere.start()
        elsewhere.join(10)
        return len(made)

    semaphore = watch(Asked(call), **TAGS, registry=registry)

    assert collect(registry)[SERIES].value("available") == 1
    assert semaphore in registry


async def test_what_asks_a_cancelled_future_costs_its_own_series(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    future = asyncio.get_running_loop().create_future()
    future.set_result(1)
    asked, sound = Asked(future.result), asyncio.Semaphore(2)
    for semaphore, name in ((asked, "asked"), (sound, "sound")):
        watch(semaphore, component="api", limit_name=name, registry=registry)
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    asked.call = cancelled.result

    assert list(collect(registry)) == [("component:api", "limit_name:sound")]
    assert "component:api limit_name:asked" in caplog.text


def test_an_object_that_can_not_be_read_is_not_kept_alive_by_its_error() -> None:
    def fail() -> int:
        raise ZeroDivisionError

    registry = Registry()
    semaphore = watch(Asked(lambda: 1), **TAGS, registry=registry)
    semaphore.call = fail
    for _ in range(2):
        assert collect(registry) == {}
    reference = weakref.ref(semaphore)
    del semaphore
    gc.collect()

    assert reference() is None


def test_an_object_whose_tags_can_not_be_asked_for_is_watched_as_any_other() -> None:
    class Odd(asyncio.Semaphore):
        @property
        def tags(self) -> None:
            raise ZeroDivisionError

    semaphore, registry = Odd(), Registry()
    watch(semaphore, **TAGS, registry=registry)

    assert semaphore in registry
    registry.unregister(semaphore)
    assert semaphore not in registry


@pytest.mark.parametrize("name", CLASSES)
async def test_the_page_has_the_metrics_of_each_class(name: str) -> None:
    (row,) = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}` |")]
    limiter = MAKERS[name]()

    assert list(only(watching(limiter))) == [cell.strip(" `") for cell in row.split("|")[2].split(",")]


def test_no_library_is_imported_to_know_a_class_by() -> None:
    code = """
import asyncio, sys
from pushmetrics import PushmetricsError, watch
semaphore = watch(asyncio.Semaphore(), component="api", limit_name="calls")
try:
    watch(object(), component="api", limit_name="calls")
except PushmetricsError:
    print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)

    loaded = set(done.stdout.split())
    assert "pushmetrics" in loaded
    assert loaded.isdisjoint({"aiohttp", "anyio", "asyncpg", "httpcore", "httpx", "psycopg_pool", "sqlalchemy"})


class TestWhatIsRefused:
    @pytest.mark.parametrize("thing", [None, 5, "asyncio.Semaphore", asyncio.Lock(), threading.Semaphore(), object()])
    def test_what_is_of_no_known_class(self, thing: Any) -> None:
        with pytest.raises(
            PushmetricsError, match=r"asyncio\.Semaphore, .*anyio\.CapacityLimiter.*register\(\)"
        ) as caught:
            watch(thing, **TAGS, registry=Registry())
        assert isinstance(caught.value, TypeError)

    def test_a_class_that_only_has_the_name(self) -> None:
        class Semaphore:
            _value, _waiters = 1, ()

        with pytest.raises(PushmetricsError, match="expected one of"):
            watch(Semaphore(), **TAGS, registry=Registry())

    def test_a_metered_semaphore_which_reports_itself(self) -> None:
        limit = MeteredSemaphore(2, **TAGS, registry=None)
        registry = Registry()

        with pytest.raises(PushmetricsError, match=r"reports itself.*registry.register\(\)"):
            watch(limit, component="other", limit_name="tags", registry=registry)
        assert limit not in registry
        assert len(registry) == 0

    @pytest.mark.parametrize("registry", [None, "default", Registry])
    def test_what_is_no_registry(self, registry: Any) -> None:
        with pytest.raises(PushmetricsError, match="registry: expected a Registry"):
            watch(asyncio.Semaphore(), **TAGS, registry=registry)

    @pytest.mark.parametrize(
        "settings",
        [
            {"component": ""},
            {"component": 5},
            {"component": "_"},
            {"limit_name": None},
            {"limit_name": "|"},
            {"server": ""},
            {"server": 7},
            {"tags": {"host": "a"}},
            {"tags": {"env": "a"}},
            {"tags": {f"k{number}": "v" for number in range(6)}},
            {"tags": "a:b"},
            {"tags": [5]},
        ],
    )
    def test_bad_settings_are_refused_as_a_metered_semaphore_refuses_them(self, settings: dict[str, Any]) -> None:
        registry = Registry()
        with pytest.raises(PushmetricsError) as expected:
            MeteredSemaphore(**TAGS | settings, registry=registry)
        with pytest.raises(PushmetricsError) as caught:
            watch(asyncio.Semaphore(), **TAGS | settings, registry=registry)

        assert str(caught.value) == str(expected.value)
        assert type(caught.value) is type(expected.value)
        assert len(registry) == 0
