"""The receiver stays within its bounds, whatever comes, and says what it dropped.

A million fuzzed datagrams, as before a release:
PUSHMETRICS_TEST_FUZZ=1000000 pytest tests/test_receiver_bounds.py -k fuzz
"""

from __future__ import annotations

import gc
import logging
import os
import random
import resource
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock

FUZZED = int(os.environ.get("PUSHMETRICS_TEST_FUZZ") or 30_000)
START = 1_800_000_000
BOUND = 128 << 10


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    with ManualClock() as clock:
        yield clock


def unaccounted(receiver: Receiver) -> tuple[int, int]:
    """Points and bytes that are left on the books when everything has been thrown away: 0 and 0."""
    aggregator = receiver._aggregator
    aggregator._evict(len(aggregator._series))
    return aggregator.frame.points, aggregator.frame.bytes


class TestSeries:
    def test_the_most_silent_go_first(self, clock: ManualClock) -> None:
        receiver = Receiver(max_series=10)
        for number in range(10):
            receiver.feed(f"a{number}:1|c".encode())
            clock.stall(1)
        receiver.feed(b"a0:1|c")
        receiver.feed(b"new:1|c")

        assert [series.name for series in receiver.series()] == ["a0", *(f"a{n}" for n in range(2, 10)), "new"]
        assert receiver.statistics().evicted_series == 1
        assert ("a1", ()) not in receiver.totals()

    def test_one_that_comes_back_is_new(self, clock: ManualClock) -> None:
        receiver = Receiver(max_series=1)
        receiver.feed(b"a:1|c\nb:1|c\na:5|c\na:1|c")

        assert receiver.totals() == {("a", ()): 6}
        assert receiver.statistics().evicted_series == 2

    def test_one_that_somebody_still_looks_at_takes_nothing(self, clock: ManualClock) -> None:
        receiver = Receiver(max_series=1)
        receiver.feed(b"a:1|c")
        clock.stall(10)
        (series,) = receiver.series()
        receiver.feed(b"b:1|g")
        before = receiver.statistics()
        clock.stall(5)
        assert series.points(open_bucket=True) == []
        clock.stall(100)
        assert series.latest() is None

        assert receiver.statistics() == before

    def test_refused_lines_push_nobody_out(self, clock: ManualClock) -> None:
        receiver = Receiver(max_series=2)
        receiver.feed(b"a:1|c\nb:1|c")
        for number in range(100):
            receiver.feed(f"c{number}:x|c\nd{number}:1e308|c|@0.1\ne{number}:|s".encode())

        assert receiver.totals() == {("a", ()): 1, ("b", ()): 1}
        assert receiver.statistics().evicted_series == 0
        assert unaccounted(receiver) == (0, 0)

    def test_it_is_logged_once(self, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
        receiver = Receiver(max_series=3)
        with caplog.at_level(logging.INFO, logger="pushmetrics"):
            for number in range(100):
                receiver.feed(f"a{number}:1|c".encode())

        (record,) = caplog.records
        assert "3 series" in record.message


class TestPoints:
    @pytest.mark.parametrize("kind", "gcsd")
    def test_the_oldest_go_first(self, clock: ManualClock, kind: str) -> None:
        receiver = Receiver(max_points=100)
        for _ in range(130):
            receiver.feed(f"a:1|{kind}\nb:1|{kind}".encode())
            clock.stall(10)

        statistics = receiver.statistics()
        points = receiver.points("a")

        assert statistics.points <= 102
        assert statistics.evicted_points >= 2 * 130 - 102
        assert [point.timestamp for point in points] == [clock.wall() - 10 * n for n in range(len(points), 0, -1)]
        assert len(points) >= 35
        assert [point.timestamp for point in receiver.points("b")] == [point.timestamp for point in points]

    def test_what_is_expired_is_not_called_dropped(self, clock: ManualClock) -> None:
        receiver = Receiver(history_seconds=100, max_points=40)
        for number in range(100):
            for _ in range(10):
                receiver.feed(f"a{number}:1|g".encode())
                clock.stall(10)

        assert receiver.statistics().evicted_points == 0
        assert len(receiver.series()) <= 2

    def test_points_ahead_are_dropped_too(self, clock: ManualClock) -> None:
        receiver = Receiver(max_points=50)
        for number in range(600):
            receiver.feed(f"a:1|g|T{START + number}".encode())

        assert receiver.statistics().points <= 50
        assert receiver.latest("a").timestamp == START + 599


FLOODS: dict[str, Callable[[int], str]] = {
    "names": lambda n: f"a{n}:1|c",
    "tags": lambda n: f"a:1|g|#x:{n}",
    "long tags": lambda n: f"a:1|g|#{n}" + "x" * 5000,
    "tags in many orders": lambda n: f"a:1|g|#x:{n % 97},y:{n % 89},x:{n % 97},z",
    "members": lambda n: f"a:{n}|s",
    "values": lambda n: f"a:{1.01 ** (n % 60000)}|d",
    "distributions": lambda n: f"a{n % 50}:{1.3 ** (n % 2000)}|h",
    "timestamps": lambda n: f"a{n % 97}:1|c|T{START - 3599 + n % 4000}",
    "timestamps that come again": lambda n: f"a:{n}|g|T{START - n % 50}",
    "fields": lambda n: f"a:1|g|field{n}",
    "rates": lambda n: f"a:1|c|@{1 / (n + 1)}",
    "reasons": lambda n: f"a{n}:{n}x|{n}",
}


class TestMemory:
    @pytest.mark.parametrize("flood", FLOODS)
    def test_a_flood_of_one_kind_is_bounded(self, clock: ManualClock, flood: str) -> None:
        receiver = Receiver(max_bytes=BOUND)
        line = FLOODS[flood]
        tracemalloc.start()
        try:
            for number in range(3000):
                receiver.feed(line(number).encode())
                if number % 1000 == 999:
                    clock.stall(3)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert most < 1.5 * BOUND + (64 << 10)
        assert receiver.statistics().bytes_held <= 1.02 * BOUND
        assert receiver.statistics().lines == 3000
        assert unaccounted(receiver) == (0, 0)

    def test_what_it_says_it_holds_is_what_it_holds(self, clock: ManualClock) -> None:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            receiver = Receiver()
            for bucket in range(50):
                lines = [f"limit{n}:{bucket * n}|{'gc'[n % 2]}|#component:c{n},limit_name:x" for n in range(100)]
                lines += [f"wait{n}:{bucket * n % 997}|d|#component:c{n}" for n in range(100)]
                receiver.feed("\n".join(lines).encode())
                clock.stall(10)
            receiver.series()
            lines.clear()
            gc.collect()
            held = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()

        assert 0.5 < receiver.statistics().bytes_held / held < 2


def fuzzed(rng: random.Random) -> Callable[[], bytes]:
    """Return a source of datagrams: good ones, bad ones, and every kind of damage to good ones."""
    kinds = ["g", "c", "d", "h", "ms", "s", "q", ""]
    numbers = ["0", "1", "-1.5", "+4", "1e300", "1e-300", "nan", "1:2:3", "::", "", "x", "9" * 400]
    fields = [
        "#a:1,b:2",
        "#",
        "@0.1",
        "@1e-13",
        "@2",
        "c:ci-1",
        "e:it-x",
        "card:low",
        f"T{START}",
        "T0",
        "?",
        "#host:h",
    ]
    pieces = [
        b"|",
        b":",
        b"#",
        b"@",
        b",",
        b"\n",
        b"\r",
        b"\0",
        b"\x1b[2J",
        b"\xff",
        b"\xe2\x80\xae",
        b"_e{",
        b"|T",
        b"|#",
    ]

    def line() -> bytes:
        name = f"name{rng.randrange(40)}"
        rest = "|".join([rng.choice(kinds[: 6 + 2 * (rng.random() < 0.1)]), *rng.sample(fields, rng.randrange(4))])
        return f"{name}:{rng.choice(numbers)}|{rest}".encode()

    def datagram() -> bytes:
        what = rng.random()
        if what < 0.05:
            return rng.randbytes(rng.randrange(200))
        if what < 0.052:
            return b"\n".join(line() for _ in range(rng.randrange(400)))
        data = bytearray(b"\n".join(line() for _ in range(rng.choice([1, 1, 1, 4]))))
        for _ in range(rng.randrange(4) if what < 0.6 else 0):
            place = rng.randrange(len(data) + 1)
            match rng.randrange(4):
                case 0:
                    data[place:place] = rng.choice(pieces)
                case 1:
                    del data[place : place + rng.randrange(1, 9)]
                case 2:
                    data[place : place + 1] = rng.randbytes(1)
                case 3:
                    data[place:place] = data[rng.randrange(len(data) + 1) :][:20]
        return bytes(data)

    return datagram


def resident() -> int:
    """Bytes of this process in memory; 0 where that is not to be read."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except OSError:
        return 0


@pytest.mark.timeout(60 + FUZZED // 1000)
def test_fuzzed_datagrams_do_no_harm_and_take_no_memory(clock: ManualClock) -> None:
    rng = random.Random(FUZZED)
    datagram = fuzzed(rng)
    receiver = Receiver(max_series=500, max_points=20_000, max_bytes=1 << 20)
    lines = size = before = 0
    # Tracing makes all of it five times as slow, so the last tenth is traced, and the pages are looked at before that.
    warm, traced = FUZZED // 5, FUZZED * 9 // 10
    try:
        for number in range(FUZZED):
            data = datagram()
            lines += sum(1 for line in data.split(b"\n") if line)
            size += len(data)
            receiver.feed(data)
            if number % 500 == 0:
                clock.stall(rng.choice([0.1, 5, 10, 700]))
                receiver.series()
            if number % 5000 == 0:
                clock.set_wall(clock.wall() + rng.choice([-3600, -15, 0, 0, 15, 3600]))
            if number == warm:
                before = resident()
            if number == traced:
                assert resident() - before < 8 << 20
                tracemalloc.start()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    statistics = receiver.statistics()

    assert most < 2 << 20
    assert (statistics.datagrams, statistics.bytes) == (FUZZED, size)
    assert 0.9 * lines < statistics.lines <= lines
    assert statistics.refused == sum(refused.number for refused in statistics.reasons.values())
    assert 0.1 * lines < statistics.refused < 0.9 * lines
    assert len(statistics.reasons) < 20
    assert all(refused.example.isascii() and refused.example.isprintable() for refused in statistics.reasons.values())
    assert all((series.name + "".join(series.tags_and_host)).isprintable() for series in receiver.series())
    assert statistics.series <= 500
    assert statistics.points <= 20_000
    assert unaccounted(receiver) == (0, 0)
