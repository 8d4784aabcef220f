"""What is owed, what was delivered, and what nobody took for too long."""

from __future__ import annotations

from operator import sub
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics.ledger import MAX_AGE_SECONDS, Ledger
from pushmetrics.testing import ManualClock, RecordingSink


def owed(ledger: Ledger, totals: tuple[int, ...], now: float, *, delivered: bool = False) -> tuple[int, ...]:
    return tuple(map(sub, totals, ledger.offer(totals, now, delivered)))


def test_what_is_not_settled_is_owed_again() -> None:
    ledger = Ledger(2)
    assert owed(ledger, (3, 5), 0) == (3, 5)
    ledger.settle_part([(0, 3)])
    assert owed(ledger, (4, 5), 1) == (1, 5)


def test_a_count_waits_for_as_long_as_it_may_and_no_longer() -> None:
    ledger = Ledger(1)
    for tick in range(0, 310, 10):
        assert owed(ledger, (7,), tick) == (7,)
    assert owed(ledger, (7,), 310) == (0,)
    assert ledger.expired == (7,)


def test_only_the_old_part_expires() -> None:
    ledger = Ledger(1)
    for tick in range(0, 1000, 10):
        (waiting,) = owed(ledger, (tick,), tick)  # One event a second.
        assert waiting <= MAX_AGE_SECONDS + 10
        assert waiting >= min(tick, MAX_AGE_SECONDS - 20)
    assert sum(ledger.expired) + waiting == 990


def test_a_delivery_ends_the_waiting() -> None:
    ledger = Ledger(1)
    for tick in range(0, 290, 10):
        owed(ledger, (7,), tick)
    assert owed(ledger, (8,), 290, delivered=True) == (1,)
    for tick in range(300, 580, 10):
        assert owed(ledger, (8,), tick) == (1,)
    ledger.settle()
    for tick in range(580, 870, 10):
        assert owed(ledger, (9,), tick) == (1,)


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["count", "deliver", "refuse", "shift"]),
            st.integers(1, 100),
            st.floats(0, 100),
        )
    )
)
def test_nothing_is_settled_twice_or_forgotten_without_being_counted(steps: list[tuple[str, int, float]]) -> None:
    ledger = Ledger(1)
    now, total, happened, delivered = 0.0, 0, 0, 0
    for step, number, seconds in steps:
        now += seconds
        if step == "count":
            total += number
            happened += number
        elif step == "shift":
            total += number
            ledger.shift((number,))
        else:
            (waiting,) = owed(ledger, (total,), now)
            assert waiting >= 0
            if step == "deliver":
                delivered += waiting
                ledger.settle()
    (waiting,) = owed(ledger, (total,), now)
    assert delivered + waiting + sum(ledger.expired) == happened


def test_its_memory_is_bounded_however_long_and_often_nobody_takes_anything() -> None:
    ledger = Ledger(1)
    for tick in range(100_000):
        owed(ledger, (tick,), tick / 10)
    assert len(ledger._marks) <= MAX_AGE_SECONDS / 10 + 2


async def test_an_agent_that_is_away_for_an_hour_gets_the_last_five_minutes() -> None:
    registry = Registry()
    sink = RecordingSink()
    limit = MeteredSemaphore(1, component="c", limit_name="l", registry=registry)
    with ManualClock() as clock:
        async with Reporter(registry=registry, sink=sink) as reporter:
            await clock.advance(10)
            sink.refusing = True
            for _ in range(360):
                await limit.acquire()
                limit.release()
                await clock.advance(10)
            sink.refusing = False
            await reporter.flush()

            assert 28 <= sink.total("admissions_total") <= 32
            assert sink.total("admissions_total") + registry.counts_expired == limit.admissions == 360
            assert reporter.statistics().counts_expired == registry.counts_expired
            await reporter.flush()
        assert sink.total("counts_expired_total") == registry.counts_expired


async def test_only_what_was_owed_then_expires_however_long_the_interval() -> None:
    ledger = Ledger(1)
    owed(ledger, (5,), 0)
    assert owed(ledger, (12,), 600) == (7,)
    assert ledger.expired == (5,)


async def test_an_agent_that_is_really_away_for_an_hour_gets_the_last_five_minutes(tmp_path: Path) -> None:
    registry = Registry()
    limit = MeteredSemaphore(1, component="c", limit_name="l", registry=registry)
    other = MeteredSemaphore(1, component="d", limit_name="l", registry=registry)
    with ManualClock() as clock:
        async with Reporter(registry=registry, sink=f"unix://{tmp_path}/missing.socket") as reporter:
            for _ in range(360):
                for each in (limit, other):
                    await each.acquire()
                    each.release()
                await clock.advance(10)
            owed = [sample.value("admissions_total") for sample in registry.collect("standard")]
            assert all(28 <= count <= 32 for count in owed)
            assert sum(owed) + registry.counts_expired == 720
            assert reporter.statistics().series == 2


async def test_a_reporter_that_starts_an_hour_late_does_not_report_the_hour() -> None:
    registry = Registry()
    sink = RecordingSink()
    with ManualClock() as clock:
        limit = MeteredSemaphore(1, component="c", limit_name="l", registry=registry)
        await limit.acquire()
        limit.release()
        await clock.advance(3600)
        async with Reporter(registry=registry, sink=sink, flush_interval=10):
            await limit.acquire()
            limit.release()

    assert sink.total("admissions_total") == 1
    assert sink.total("counts_expired_total") + registry.counts_expired >= 1


async def test_an_interval_longer_than_that_loses_nothing_as_long_as_it_is_taken() -> None:
    registry = Registry()
    sink = RecordingSink()
    limit = MeteredSemaphore(1, component="c", limit_name="l", registry=registry)
    with ManualClock() as clock:
        async with Reporter(registry=registry, sink=sink, flush_interval=1800):
            for _ in range(10):
                await limit.acquire()
                limit.release()
                await clock.advance(1800)

    assert sink.total("admissions_total") == 10
    assert registry.counts_expired == 0
