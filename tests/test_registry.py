"""What the registry reports: series, deltas, peaks, and the end of a limit."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from collected import collect, only
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pushmetrics import AdmissionTimeoutError, MeteredSemaphore, PushmetricsError, QueueFullError, Registry, Reporter
from pushmetrics.errors import InvalidTypeError
from pushmetrics.model import Counters, Sample
from pushmetrics.tags import limit_tags
from pushmetrics.testing import ManualClock


def limit_of(registry: Registry | None, value: int = 1, name: str = "requests", **options: Any) -> MeteredSemaphore:
    return MeteredSemaphore(value, component="server", limit_name=name, registry=registry, **options)


def admit(limit: MeteredSemaphore, **options: Any) -> bool:
    """Acquire without an event loop, which works as long as nobody has to wait."""
    try:
        limit.acquire(**options).send(None)
    except StopIteration as admitted:
        return bool(admitted.value)
    raise AssertionError("the acquire waits")


def test_gauges_are_what_they_are_and_counts_what_came_since() -> None:
    registry = Registry()
    limit = limit_of(registry, 3)
    admit(limit)
    admit(limit)
    limit.release()

    first = only(registry)
    second = only(registry)

    assert (first["limit"], first["active"], first["available"], first["queue_depth"]) == (3, 1, 2, 0)
    assert (first["admissions_total"], second["admissions_total"]) == (2, 0)
    assert (first["active_peak"], second["active_peak"]) == (2, 2), "the same bucket keeps its peak"


def test_a_refused_sample_is_in_the_next_one_and_a_delivered_one_is_not() -> None:
    registry = Registry()
    limit = limit_of(registry, 5)
    admit(limit)

    refused = only(registry, deliver=False)
    admit(limit)
    taken = only(registry)
    after = only(registry)

    assert [values["admissions_total"] for values in (refused, taken, after)] == [1, 2, 0]


def test_a_sample_delivered_in_parts_moves_the_counts_of_those_parts_only() -> None:
    registry = Registry()
    limit = limit_of(registry, 5, max_queue_depth=0, admission_timeout=0)
    admit(limit)
    (sample,) = registry.collect("standard")
    names = sample.descriptor.names
    queued = names.index("admissions_queued_total")

    sample.delivered(queued, len(sample))
    (again,) = registry.collect("standard")
    assert again.value("admissions_total") == 1
    again.delivered(queued, len(sample))
    again.delivered(0, queued)

    assert only(registry)["admissions_total"] == 0


def test_an_older_sample_has_no_say_any_more() -> None:
    registry = Registry()
    limit = limit_of(registry, 5)
    admit(limit)
    (old,) = registry.collect("standard")
    admit(limit)
    (new,) = registry.collect("standard")

    old.delivered()

    assert new.value("admissions_total") == 2
    assert only(registry)["admissions_total"] == 2


def test_metrics_that_a_limit_can_not_have_are_missing() -> None:
    registry = Registry()
    limit = limit_of(registry)

    assert {"admission_timeouts_total", "admission_rejected_total"}.isdisjoint(only(registry))

    admit(limit)
    with pytest.raises(AdmissionTimeoutError):
        admit(limit, timeout=0)

    assert only(registry)["admission_timeouts_total"] == 1
    assert "admission_rejected_total" in only_of(limit_of(None, max_queue_depth=1))


def only_of(limit: MeteredSemaphore) -> dict[str, int]:
    registry = Registry()
    registry.register(limit)
    return only(registry)


def test_the_levels_contain_each_other() -> None:
    registry = Registry()
    limit = limit_of(registry, max_queue_depth=1, admission_timeout=1)
    names = {level: set(next(registry.collect(level)).descriptor.names) for level in ("core", "standard", "full")}

    assert len(names["core"]) == 6
    assert len(names["standard"]) == 13
    assert names["core"] < names["standard"] < names["full"]
    assert limit.limit == 1


class Table(dict[tuple[str, ...], tuple[str, ...]]):
    """A mapping to constant tags that can be referenced weakly."""


def test_constant_tags_may_differ_from_series_to_series_and_from_flush_to_flush() -> None:
    registry = Registry()
    limits = [limit_of(registry, name=name) for name in ("a", "b")]
    a, b = (limit.tags for limit in limits)

    def tagged(table: Table) -> list[tuple[str, ...]]:
        return [sample.descriptor.tags for sample in registry.collect("core", "", table)]

    assert tagged(Table({a: ("x:1",)})) == [(*a, "x:1")]
    later = Table({a: ("x:1",), b: ("x:2",)})
    for _ in range(2):
        assert tagged(later) == [(*a, "x:1"), (*b, "x:2")]
    assert tagged(Table({b: ()})) == [b]


def test_a_collection_keeps_its_constant_tags_whatever_is_collected_meanwhile() -> None:
    registry = Registry()
    limits = [limit_of(registry, name=f"name-{number:02}") for number in range(40)]
    first = registry.collect("core", "", Table(dict.fromkeys(registry.tags(), ("x:1",))))

    found = [next(first)]
    list(registry.collect("core", "", Table(dict.fromkeys(registry.tags(), ("x:2",)))))
    found += first

    assert [sample.descriptor.tags for sample in found] == [(*limit.tags, "x:1") for limit in limits]


def test_a_table_of_constant_tags_is_not_kept_alive_by_the_series_that_were_in_it() -> None:
    registry = Registry()
    tables = []
    for number in range(3):
        limit = limit_of(registry, name=f"name-{number}")
        table = Table(dict.fromkeys(registry.tags(), ()))
        tables.append(weakref.ref(table))
        for sample in registry.collect("core", "", table):
            sample.delivered()
        del limit, table, sample

    assert [table() is None for table in tables] == [True, True, False]


@pytest.mark.parametrize("level", ["all", "", None, 1])
def test_an_unknown_level_is_refused(level: Any) -> None:
    with pytest.raises(PushmetricsError, match="level: expected one of core, standard, full, got "):
        next(Registry().collect(level))


@pytest.mark.parametrize("registry", [5, "default", Registry])
@pytest.mark.parametrize("user", ["semaphore", "reporter"])
def test_what_is_no_registry_is_refused(registry: Any, user: str) -> None:
    with pytest.raises(InvalidTypeError, match="registry: expected a Registry"):
        limit_of(registry) if user == "semaphore" else Reporter(registry=registry)


class Unmetered:
    """A limit that does not know how many were admitted."""

    unknown = frozenset({"admissions_total"})

    def __init__(self) -> None:
        self.tags = limit_tags("server", "requests")
        self.counters = Counters(1)

    def gauges(self) -> tuple[int, int, int, int]:
        return 0, 1, 0, 0


def test_what_is_owed_is_sent_each_time_that_one_comes_who_does_not_know_it() -> None:
    registry = Registry()
    limit, other = limit_of(registry, 100), Unmetered()
    for _ in range(2):
        admit(limit)
        registry.register(other)
        assert only(registry)["admissions_total"] == 1
        registry.unregister(other)
        assert only(registry)["admissions_total"] == 0


@pytest.mark.parametrize("change", ["unregister", "register"])
def test_a_limit_that_comes_or_goes_while_it_is_read_is_counted_once(change: str) -> None:
    """The garbage collector may end anything at any time, whose end may unregister anything."""
    registry = Registry()
    limit, other = limit_of(registry, 9), limit_of(registry, 9)
    for _ in range(5):
        admit(limit)
        admit(other)
    only(registry)
    if change == "register":
        registry.unregister(other)
        only(registry)

    class Eventful:
        tags, counters = ("component:eventful",), Counters(1)

        def gauges(self) -> tuple[int, int, int, int]:
            getattr(registry, change)(other)
            return 0, 1, 0, 0

    eventful, same = Eventful(), Unmetered()
    same.gauges = eventful.gauges  # type: ignore[method-assign]  # It is read between the two others' readings.
    same.unknown = frozenset()
    registry.register(eventful)
    registry.register(same)

    counts = [
        [
            sample.value("admissions_total")
            for sample in collect(registry).values()
            if "component:server" in sample.descriptor.tags
        ]
        for _ in range(3)
    ]

    assert counts == [[0], [0], [0]]
    assert (other in registry) == (change == "register")


def test_nothing_that_is_not_registered_is_in_a_registry() -> None:
    registry = Registry()
    for thing in (None, 5, SimpleNamespace(tags=([],)), SimpleNamespace(tags="a:b"), SimpleNamespace(tags=(1,))):
        registry.unregister(thing)
        assert thing not in registry


class TestEqualTags:
    def test_gauges_and_counters_add_up(self) -> None:
        registry = Registry()
        first, second = limit_of(registry, 2), limit_of(registry, 3)
        admit(first)
        admit(second)
        admit(second)

        values = only(registry)

        assert (values["limit"], values["active"], values["available"]) == (5, 3, 2)
        assert values["admissions_total"] == 3
        assert values["active_peak"] == 3

    async def test_waiting_times_are_the_larger_ones(self) -> None:
        registry = Registry()
        first, second = limit_of(registry, 0), limit_of(registry, 0)
        with ManualClock() as clock:
            tasks = [asyncio.create_task(first.acquire())]
            await clock.advance(2)
            tasks.append(asyncio.create_task(second.acquire()))
            await clock.advance(3)

            values = only(registry)
            await clock.advance(1)
            later = only(registry)

        assert (values["oldest_wait_ms"], values["contended_ms_total"]) == (5000, 5000)
        assert later["contended_ms_total"] == 1000
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def test_spellings_that_datadog_makes_equal_are_one_series(self) -> None:
        registry = Registry()
        limits = [
            MeteredSemaphore(1, component=component, limit_name="requests", registry=registry)
            for component in ("Model_", "model", "MODEL")
        ]

        assert only(registry)["limit"] == len(limits)

    def test_one_of_several_that_goes_takes_its_gauges_and_leaves_its_counts(self) -> None:
        registry = Registry()
        first, second = limit_of(registry, 25), limit_of(registry, 25)
        admit(first)
        assert only(registry)["limit"] == 50
        admit(second)
        del second

        values = only(registry)

        assert (values["limit"], values["active"], values["admissions_total"]) == (25, 1, 1)


class TestPeaks:
    def test_what_rose_and_fell_between_two_samples_shows(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 4)
        for _ in range(4):
            admit(limit)
        for _ in range(4):
            limit.release()

        values = only(registry)

        assert (values["active"], values["active_peak"]) == (0, 4)

    async def test_a_later_sample_of_the_bucket_carries_the_higher_one_and_the_next_bucket_does_not(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 4)
        with ManualClock() as clock:
            admit(limit)
            limit.release()
            peaks = [only(registry)["active_peak"]]
            await clock.advance(5)
            peaks.append(only(registry)["active_peak"])
            await clock.advance(5)
            peaks.append(only(registry)["active_peak"])

        assert peaks == [1, 1, 0]

    async def test_a_peak_that_was_refused_shows_one_bucket_late_and_then_never(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 4)
        with ManualClock() as clock:
            admit(limit)
            limit.release()
            only(registry, deliver=False)
            await clock.advance(10)
            late = only(registry, deliver=False)["active_peak"]
            await clock.advance(10)
            dropped = only(registry)["active_peak"]

        assert (late, dropped) == (1, 0)

    async def test_a_late_peak_that_was_delivered_is_not_overwritten_in_its_new_bucket(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 4)
        with ManualClock() as clock:
            admit(limit)
            limit.release()
            only(registry, deliver=False)
            await clock.advance(10)
            shown = [only(registry)["active_peak"], only(registry)["active_peak"]]

        assert shown == [1, 1]

    async def test_a_peak_is_never_below_what_is_now(self) -> None:
        """Another thread may acquire between the look at the gauges and that at the peaks, which starts them anew."""
        registry = Registry()
        limit = limit_of(registry, 1)
        admit(limit)
        waiting = asyncio.create_task(limit.acquire())
        await asyncio.sleep(0)
        limit.counters.lowest_value, limit.counters.queue_depth_peak = 1, 0

        values = only(registry)

        assert (values["active"], values["active_peak"]) == (1, 1)
        assert (values["queue_depth"], values["queue_depth_peak"]) == (1, 1)
        waiting.cancel()
        await asyncio.wait([waiting])

    def test_a_limit_that_came_and_went_between_two_samples_left_its_peak(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 3)
        admit(limit)
        admit(limit)
        limit.release()
        limit.release()
        del limit

        assert only(registry)["active_peak"] == 2


class TestTheEndOfALimit:
    def test_its_last_sample_says_that_nothing_is_active_and_then_the_series_is_gone(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 7)
        admit(limit)
        only(registry)
        admit(limit)
        del limit

        last = only(registry)

        assert (last["limit"], last["active"], last["available"], last["queue_depth"]) == (7, 0, 7, 0)
        assert last["admissions_total"] == 1
        assert collect(registry) == {}
        assert len(registry) == 0

    def test_its_last_sample_is_repeated_until_it_is_delivered(self) -> None:
        registry = Registry()
        limit = limit_of(registry)
        admit(limit)
        del limit

        assert [only(registry, deliver=False)["admissions_total"] for _ in range(3)] == [1, 1, 1]
        assert only(registry)["admissions_total"] == 1
        assert collect(registry) == {}

    async def test_its_last_sample_is_given_up_after_a_while_and_its_events_are_counted(self) -> None:
        registry = Registry()
        with ManualClock() as clock:
            limit = limit_of(registry)
            admit(limit)
            del limit
            only(registry, deliver=False)
            await clock.advance(301)

            assert collect(registry) == {}

        assert registry.counts_expired == 1

    def test_it_is_not_the_last_sample_if_a_limit_came_and_went_before_it_was_delivered(self) -> None:
        registry = Registry()
        limit = limit_of(registry)
        del limit
        (sample,) = registry.collect("standard")
        limit = limit_of(registry)
        admit(limit)
        del limit
        assert len(registry) == 1

        sample.delivered()

        assert only(registry)["admissions_total"] == 1
        assert collect(registry) == {}

    def test_unregister_ends_the_series_and_register_begins_it_without_what_came_between(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 5)
        admit(limit)
        registry.unregister(limit)
        admit(limit)

        last = only(registry)
        registry.register(limit)
        admit(limit)
        again = only(registry)

        assert (last["admissions_total"], again["admissions_total"], again["active"]) == (1, 1, 3)

    def test_registering_twice_and_unregistering_a_stranger_do_nothing(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 5)
        registry.register(limit)
        registry.unregister(limit_of(None))

        assert only(registry)["limit"] == 5
        assert limit in registry

    def test_a_new_owner_of_the_tags_starts_where_the_old_one_ended(self) -> None:
        registry = Registry()
        for _ in range(3):
            limit = limit_of(registry)
            for _ in range(10):
                admit(limit)
                limit.release()
            del limit
        new = limit_of(registry)

        assert only(registry)["admissions_total"] == 30
        admit(new)
        assert only(registry)["admissions_total"] == 1


def test_a_thousand_limits_made_used_and_dropped_between_two_samples_are_exact() -> None:
    registry = Registry(max_series=2000)
    expected: Counter[tuple[str, ...]] = Counter()
    references = []
    reused = set()
    seen_ids = set()
    for number in range(1000):
        limit = limit_of(registry, 2, name=f"name-{number % 7}", max_queue_depth=0)
        reused.add(id(limit) in seen_ids)
        seen_ids.add(id(limit))
        references.append(weakref.ref(limit))
        for _ in range(number % 3):
            admit(limit)
            expected[limit.tags] += 1
        if number % 100 == 99:
            totals = {tags: sample.value("admissions_total") for tags, sample in collect(registry).items()}
            assert all(total >= 0 for total in totals.values())
            expected.subtract(totals)
    del limit
    gc.collect()

    samples = collect(registry)
    expected.subtract({tags: sample.value("admissions_total") for tags, sample in samples.items()})

    assert reused == {False, True}, "ids were reused, or the test shows nothing"
    assert set(expected.values()) == {0}
    assert all(reference() is None for reference in references)
    assert collect(registry) == {}
    assert len(registry) == 0


class TestTheCap:
    async def test_tag_sets_over_the_cap_are_counted_logged_once_and_not_sent(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        registry = Registry(max_series=3)
        limits = [limit_of(registry, name=f"user-{number}") for number in range(10)]

        assert len(collect(registry)) == 3
        assert registry.series_rejected == 7
        assert len(caplog.records) == 1
        assert "max_series=3" in caplog.text
        assert len(limits) == 10

    async def test_those_that_have_ended_count_for_an_hour(self) -> None:
        registry = Registry(max_series=2)
        with ManualClock() as clock:
            for number in range(2):
                limit = limit_of(registry, name=f"user-{number}")
                del limit
            collect(registry)
            waiting = limit_of(registry, name="user-2")
            rejected = collect(registry)
            await clock.advance(3601)
            admit(waiting)
            admitted = only(registry)

        assert rejected == {}
        assert admitted["active"] == 1

    def test_without_a_reporter_ten_thousand_names_leave_nothing_behind(self) -> None:
        registry = Registry(max_series=100)
        for number in range(10_000):
            limit = limit_of(registry, name=f"user-{number}")
            del limit

        assert len(registry) <= 100
        assert len(registry._series) <= 100
        assert registry._rejected == {}
        assert not registry._gone

    def test_equal_tags_are_one_series_for_the_cap(self) -> None:
        registry = Registry(max_series=1)
        limits = [limit_of(registry, 2) for _ in range(5)]

        assert only(registry)["limit"] == 10
        assert registry.series_rejected == 0
        assert len(limits) == 5

    @pytest.mark.parametrize("bad", [0, -1, 1.5, "7", None, True])
    def test_bad_caps(self, bad: object) -> None:
        with pytest.raises(PushmetricsError, match=r"max_series: expected an integer of at least 1, got"):
            Registry(max_series=bad)  # type: ignore[arg-type]  # That is the test.


class Broken:
    """A limit of somebody else's that can not always be read."""

    def __init__(self) -> None:
        self.tags = ("component:broken",)
        self.counters = Counters(1)
        self.answer: Any = ZeroDivisionError

    def gauges(self) -> Any:
        if isinstance(self.answer, type):
            raise self.answer("broken")
        return self.answer


@pytest.mark.parametrize("answer", [ZeroDivisionError, (1.5, 0, 0, 0), (-1, 2, 0, 0), (None, 0, 0, 0), (1, 2), None])
def test_a_limit_that_can_not_be_read_costs_its_own_series_and_one_warning(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry()
    before, broken, after = limit_of(registry, name="a"), Broken(), limit_of(registry, name="b")
    registry.register(broken)
    broken.answer = answer

    assert [len(collect(registry)) for _ in range(3)] == [2, 2, 2]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "component:broken" in caplog.text

    broken.answer = (1, 0, 0, 0)
    assert len(collect(registry)) == 3
    assert before in registry
    assert after in registry

    broken.answer = answer
    assert len(collect(registry)) == 2
    assert len(caplog.records) == 1, "one that can be read now and then does not flood the log"


async def test_a_limit_that_could_not_be_read_for_an_hour_does_not_report_the_hour() -> None:
    registry = Registry()
    broken = Broken()
    registry.register(broken)
    with ManualClock() as clock:
        for _ in range(360):
            broken.counters.admissions += 1
            collect(registry)
            await clock.advance(10)
        broken.answer = (1, 0, 0, 0)

        assert only(registry)["admissions_total"] <= 1

    assert registry.counts_expired >= 359


def test_a_member_that_can_not_be_read_takes_nothing_from_the_others() -> None:
    registry = Registry()
    broken = Broken()
    limit = MeteredSemaphore(4, component="broken", limit_name="l", registry=registry)
    broken.tags = limit.tags
    registry.register(broken)
    admit(limit)
    limit.release()
    assert collect(registry) == {}
    broken.answer = (0, 1, 0, 0)

    assert only(registry)["active_peak"] == 1


@pytest.mark.parametrize("tags", [("a:b\n",), ("A:b",), (7,), ("",)])
def test_tags_that_are_not_in_normal_form_are_refused(tags: Any) -> None:
    registry = Registry()
    broken = Broken()
    broken.tags = tags
    with pytest.raises(PushmetricsError, match="normal form"):
        registry.register(broken)
    assert collect(registry) == {}


def test_what_can_not_be_referenced_weakly_is_refused_and_leaves_nothing() -> None:
    class Slotted:
        __slots__ = ("counters", "tags")

        def gauges(self) -> tuple[int, int, int, int]:
            return 0, 1, 0, 0

    registry = Registry()
    slotted = Slotted()
    slotted.tags = ("component:slotted",)
    slotted.counters = Counters(1)
    with pytest.raises(PushmetricsError, match="referenced weakly"):
        registry.register(slotted)
    assert len(registry) == 0


def test_an_empty_registry_is_true() -> None:
    assert Registry()


def test_what_is_no_limit_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a MeteredSemaphore"):
        Registry().register(asyncio.Semaphore())  # type: ignore[arg-type]  # That is the test.


def test_the_registry_may_change_while_it_is_read_from_other_threads() -> None:
    registry = Registry(max_series=100_000)
    stop = threading.Event()
    failures: list[BaseException] = []
    made = Counter[str]()

    def churn(name: str) -> None:
        try:
            number = 0
            while not stop.is_set():
                number += 1
                limit = limit_of(registry, name=f"{name}-{number % 50}")
                admit(limit)
                made[name] += 1
                del limit
        except BaseException as error:  # noqa: BLE001 - whatever it is, the main thread reports it
            failures.append(error)

    threads = [threading.Thread(target=churn, args=(f"thread{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    total = 0
    for _ in range(50):
        total += sum(sample.value("admissions_total") for sample in collect(registry).values())
    stop.set()
    for thread in threads:
        thread.join()
    total += sum(sample.value("admissions_total") for sample in collect(registry).values())

    assert failures == []
    assert total == made.total()


class TestWaits:
    async def test_each_wait_is_in_the_distribution_however_it_ended(self) -> None:
        registry = Registry()
        limit = limit_of(registry)
        collect(registry, "full")
        with ManualClock() as clock:
            admit(limit)
            admitted = asyncio.create_task(limit.acquire())
            cancelled = asyncio.create_task(limit.acquire())
            await clock.advance(1.5)
            cancelled.cancel()
            await clock.advance(1)
            limit.release()
            await admitted

            (sample,) = collect(registry, "full").values()

        assert sample.descriptor.names[-1] == "queue_duration_ms"
        assert sorted(sample.waits) == [1500.0, 2500.0]
        (after,) = collect(registry, "full").values()
        assert after.waits == ()

    async def test_refused_waits_are_carried_for_one_bucket(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 0)
        collect(registry, "full")
        with ManualClock() as clock:
            await wait_and_give_up(limit, clock, 1)
            first = collect(registry, "full", deliver=False)[limit.tags].waits
            await clock.advance(10)
            await wait_and_give_up(limit, clock, 0)
            second = collect(registry, "full", deliver=False)[limit.tags].waits
            await clock.advance(10)
            third = collect(registry, "full")[limit.tags].waits

        assert (first, second, third) == ((1000.0,), (1000.0, 0.0), (0.0,))

    async def test_delivered_ones_have_no_part_in_the_age_of_those_that_follow(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 0)
        collect(registry, "full")
        with ManualClock() as clock:
            for _ in range(3):
                await wait_and_give_up(limit, clock, 1)
                assert collect(registry, "full")[limit.tags].waits == (1000.0,)
                await clock.advance(30)

    async def test_more_waits_than_fit_are_a_uniform_choice(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 0)
        collect(registry, "full")
        await wait_and_be_cancelled(limit, 1234)

        (sample,) = collect(registry, "full").values()

        assert len(sample.waits) <= 500
        assert sample.one_in == 3
        assert 0 <= 1234 - len(sample.waits) * sample.one_in < sample.one_in

    @pytest.mark.parametrize("waits", [501, 1234, 1499, 7777])
    async def test_what_a_choice_does_not_stand_for_is_sent_before_a_series_ends(self, waits: int) -> None:
        registry = Registry()
        limit = limit_of(registry, 0)
        collect(registry, "full")
        await wait_and_be_cancelled(limit, waits)
        registry.unregister(limit)

        sent = 0
        for _ in range(5):
            for sample in collect(registry, "full").values():
                sent += len(sample.waits) * sample.one_in

        assert sent == waits
        assert len(registry) == 0

    async def test_other_levels_do_not_ask_for_them(self) -> None:
        registry = Registry()
        limit = limit_of(registry, 0)
        collect(registry, "full")
        collect(registry, "standard")

        assert limit.counters.waits is None


async def wait_and_be_cancelled(limit: MeteredSemaphore, waiters: int) -> None:
    tasks = [asyncio.create_task(limit.acquire()) for _ in range(waiters)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def wait_and_give_up(limit: MeteredSemaphore, clock: ManualClock, seconds: float) -> None:
    task = asyncio.create_task(limit.acquire())
    await clock.advance(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Accounting(RuleBasedStateMachine):
    """Limits with a few sets of tags come, count and go; samples are delivered, refused, or delivered in part.

    Whatever the order: what was delivered and what the next sample holds is what happened.
    """

    names = st.sampled_from(["a", "b", "c"])

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.limits: list[MeteredSemaphore] = []
        self.happened: Counter[tuple[str, str]] = Counter()
        self.arrived: Counter[tuple[str, str]] = Counter()

    @rule(name=names)
    def make(self, name: str) -> None:
        self.limits.append(limit_of(self.registry, 2, name=name, max_queue_depth=0))

    # Places are drawn, not limits: whoever remembers what was drawn would keep it alive.
    @precondition(lambda self: self.limits)
    @rule(place=st.integers(0, 100))
    def use(self, place: int) -> None:
        limit = self.limits[place % len(self.limits)]
        counted = limit in self.registry
        try:
            admit(limit)
            outcome = "admissions_total"
        except QueueFullError:
            outcome = "admission_rejected_total"
        if counted:
            self.happened[limit.tags[1], outcome] += 1

    @precondition(lambda self: self.limits)
    @rule(place=st.integers(0, 100))
    def give_back(self, place: int) -> None:
        limit = self.limits[place % len(self.limits)]
        if limit.active:
            limit.release()

    @precondition(lambda self: self.limits)
    @rule(place=st.integers(0, 100))
    def drop(self, place: int) -> None:
        del self.limits[place % len(self.limits)]

    @precondition(lambda self: self.limits)
    @rule(place=st.integers(0, 100))
    def unregister(self, place: int) -> None:
        self.registry.unregister(self.limits[place % len(self.limits)])

    @precondition(lambda self: self.limits)
    @rule(place=st.integers(0, 100))
    def register(self, place: int) -> None:
        self.registry.register(self.limits[place % len(self.limits)])

    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        for sample in self.registry.collect("standard"):
            cut = data.draw(st.integers(0, len(sample)), label="cut")
            order = [(0, cut), (cut, len(sample))]
            for start, stop in order if data.draw(st.booleans(), label="first part first") else reversed(order):
                if data.draw(st.booleans(), label="taken"):
                    sample.delivered(start, stop)
                    self.arrive(sample, start, stop)

    def arrive(self, sample: Sample, start: int, stop: int) -> None:
        for name, value in list(zip(sample.descriptor.names, sample.values, strict=False))[start:stop]:
            assert value >= 0, f"{name} went back"
            if name in {"admissions_total", "admission_rejected_total"}:
                self.arrived[sample.descriptor.tags[1], name] += value

    @invariant()
    def nothing_is_counted_twice(self) -> None:
        for key, count in self.arrived.items():
            assert count <= self.happened[key]

    def teardown(self) -> None:
        for sample in self.registry.collect("standard"):
            self.arrive(sample, 0, len(sample))
        assert +self.arrived == +self.happened


TestAccounting = pytest.mark.timeout(300)(Accounting.TestCase)  # To find the shortest way to a fault takes a while.
TestAccounting.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
