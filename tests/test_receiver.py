"""The receiver aggregates as the Agent does: buckets, kinds, rates, timestamps, expiry; and what can be read of it."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushmetrics.errors import InvalidTypeError, InvalidValueError
from pushmetrics.receiver import Distribution, Point, Receiver
from pushmetrics.receiver.distribution import MAX_BINS, Collector
from pushmetrics.testing import ManualClock

START = 1_800_000_000
"""What the manual clock shows at first: the start of a bucket."""


@pytest.fixture
def clock() -> ManualClock:
    with ManualClock() as clock:
        yield clock


@pytest.fixture
def receiver(clock: ManualClock) -> Receiver:
    return Receiver()


def values(points: list[Point]) -> list[tuple[float, float]]:
    """Time since START and value of each point."""
    return [(point.timestamp - START, point.value) for point in points]


class TestGauges:
    def test_the_last_value_of_a_bucket_counts(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:5|g\na:7.5|g\na:3|g")
        clock.stall(9.9)
        receiver.feed(b"a:4|g")
        clock.stall(0.1)

        assert values(receiver.points("a")) == [(0, 4)]

    def test_a_bucket_without_a_sample_is_a_gap(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g")
        clock.stall(30)
        receiver.feed(b"a:2|g")
        clock.stall(10)

        assert values(receiver.points("a")) == [(0, 1), (30, 2)]

    def test_a_sign_is_part_of_the_number_and_no_change(self, receiver: Receiver) -> None:
        receiver.feed(b"a:5|g\na:+4|g\nb:5|g\nb:-4|g")

        assert receiver.latest("a").value == 4
        assert receiver.latest("b").value == -4

    def test_of_packed_values_the_last_counts(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1:2:3|g")

        assert receiver.latest("a").value == 3


class TestCounts:
    def test_a_bucket_has_the_sum_and_the_rate(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:2|c\na:0.5|c\na:1:2:3|c")
        clock.stall(10)

        assert receiver.points("a") == [Point(START, 0.85, 8.5)]

    def test_a_sample_rate_is_a_weight(self, receiver: Receiver) -> None:
        receiver.feed(b"a:2|c|@0.1\na:3|c|@0.3")

        assert receiver.latest("a").sum == pytest.approx(30)

    def test_the_rate_is_by_the_width_of_the_bucket(self, clock: ManualClock) -> None:
        receiver = Receiver(bucket_seconds=2)
        receiver.feed(b"a:8|c")
        clock.stall(2)

        assert receiver.points("a") == [Point(START, 4, 8)]

    def test_an_idle_count_is_0_for_300_seconds_and_then_vanishes(self, clock: ManualClock, receiver: Receiver) -> None:
        clock.stall(3)
        receiver.feed(b"a:1|c")
        clock.stall(1000)

        points = receiver.points("a")

        # The last sample came at 3 s, and the Agent makes zeros for the buckets that begin before 303 s.
        assert [(point.timestamp - START, point.sum) for point in points] == [
            (0, 1),
            *((t, 0) for t in range(10, 301, 10)),
        ]
        assert receiver.points("a", open_bucket=True) == points

    def test_a_bucket_that_begins_300_seconds_later_has_no_zero(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:1|c")
        clock.stall(299.9)
        assert receiver.latest("a") == Point(START + 290, 0, 0)
        clock.stall(0.1)
        assert receiver.latest("a") == Point(START + 290, 0, 0)
        assert receiver.points("a", open_bucket=True)[-1] == Point(START + 290, 0, 0)
        clock.stall(10)

        assert receiver.points("a")[-1] == Point(START + 290, 0, 0)

    def test_zeros_are_the_same_however_often_somebody_looks(self, clock: ManualClock, receiver: Receiver) -> None:
        watched = Receiver()
        for one in (receiver, watched):
            one.feed(b"a:1|c")
        for _ in range(200):
            clock.stall(3.7)
            watched.series()

        assert watched.points("a") == receiver.points("a")

    def test_a_sample_ends_the_zeros_and_begins_them_anew(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:1|c")
        clock.stall(25)
        assert receiver.latest("a") == Point(START + 20, 0, 0)
        receiver.feed(b"a:2|c")
        clock.stall(1000)

        sums = [point.sum for point in receiver.points("a")]

        assert sums[:4] == [1, 0, 2, 0]
        assert len(sums) == 3 + 30

    def test_totals_outlive_the_history(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:2|c|#x:1,y:2\na:3|c|#y:2,x:1\na:5|c|#host:h,b\nb:1|g")
        clock.stall(7300)
        assert receiver.series() == []
        receiver.feed(b"a:1|c|#x:1,y:2")

        assert receiver.totals() == {("a", ("x:1", "y:2")): 6, ("a", ("b", "host:h")): 5}


class TestDistributions:
    @pytest.mark.parametrize("kind", ["d", "h", "ms"])
    def test_all_values_of_a_bucket_count(self, clock: ManualClock, receiver: Receiver, kind: str) -> None:
        receiver.feed(f"a:1:2|{kind}\na:9|{kind}".encode())
        clock.stall(10)

        (point,) = receiver.points("a")

        assert (point.timestamp, point.value, point.sum) == (START, 4, 12)
        assert point.distribution is not None
        assert (point.distribution.count, point.distribution.min, point.distribution.max) == (3, 1, 9)
        assert point.distribution.percentile(50) == pytest.approx(2, rel=0.01)

    def test_a_timing_is_a_histogram(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|ms\na:3|h")

        (series,) = receiver.series()

        assert series.kind == "h"
        assert receiver.latest("a").value == 2

    def test_a_sample_rate_counts_with_its_whole_part(self, receiver: Receiver) -> None:
        receiver.feed(b"a:10|d|@0.3\na:40|d")

        point = receiver.latest("a")

        assert point.distribution is not None
        assert point.distribution.count == 3 + 1
        assert point.distribution.avg == (3 * 10 + 40) / 4
        assert point.sum == pytest.approx(10 / 0.3 + 40)  # The Agent's sum takes the fraction along.

    def test_a_rate_above_1_is_1(self, receiver: Receiver) -> None:
        receiver.feed(b"a:10|d|@5")

        point = receiver.latest("a")

        assert point.distribution is not None
        assert (point.distribution.count, point.sum) == (1, 10)

    def test_an_empty_bucket_is_a_gap(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:1|d")
        clock.stall(20)
        receiver.feed(b"a:2|d")
        clock.stall(100)

        assert values(receiver.points("a")) == [(0, 1), (20, 2)]

    def test_buckets_can_be_merged(self, clock: ManualClock, receiver: Receiver) -> None:
        for number in range(100):
            receiver.feed(f"a:{number + 1}|d".encode())
            clock.stall(1)

        merged = Distribution([point.distribution for point in receiver.points("a") if point.distribution])

        assert (merged.count, merged.min, merged.max, merged.sum, merged.avg) == (100, 1, 100, 5050, 50.5)
        assert merged.percentile(95) == pytest.approx(95, rel=0.01)
        assert repr(merged) == "<Distribution of 100: min 1, avg 50.5, max 100>"

    @given(
        st.lists(st.floats(-1e12, 1e12) | st.integers(-1000, 1000).map(float), min_size=1, max_size=300),
        st.sampled_from([0, 1, 25, 50, 75, 90, 95, 99, 100]),
    )
    def test_percentiles_are_within_1_percent(self, numbers: list[float], percent: float) -> None:
        collector = Collector()
        for number in numbers:
            collector.add(number)

        exact = sorted(numbers)[round(percent / 100 * (len(numbers) - 1))]

        assert Distribution([collector]).percentile(percent) == pytest.approx(exact, rel=0.01, abs=2e-9)

    def test_the_bins_are_bounded_and_the_rest_stays_exact(self) -> None:
        numbers = [10 ** random.Random(n).uniform(-300, 300) for n in range(3 * MAX_BINS)]
        collector = Collector()
        for number in numbers:
            collector.add(number)

        distribution = Distribution([collector])

        assert len(collector.bins()) <= MAX_BINS
        assert (distribution.count, distribution.min, distribution.max) == (len(numbers), min(numbers), max(numbers))
        assert distribution.percentile(99) == pytest.approx(sorted(numbers)[round(0.99 * (len(numbers) - 1))], rel=0.01)


class TestSets:
    def test_different_members_of_a_bucket_are_counted(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:x|s\na:y|s\na:x|s\na:1:2|s\na:1|s\na:|s")
        clock.stall(10)
        receiver.feed(b"a:x|s")
        clock.stall(20)

        assert values(receiver.points("a")) == [(0, 4), (10, 1)]
        assert receiver.statistics().refused == 1


class TestTimestamps:
    def test_a_line_with_a_timestamp_is_not_aggregated(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(f"a:5|g|T{START - 33}\na:7|g|T{START - 33}\nb:4|c|T{START - 33}\nb:5|c|T{START - 33}".encode())
        receiver.feed(f"b:1|c|T{START - 32}\nb:9|c|@0.1|T{START - 31}".encode())
        clock.stall(100)

        assert values(receiver.points("a")) == [(-33, 7)]
        assert receiver.points("b") == [Point(START - 33, 0.5, 5), Point(START - 32, 0.1, 1), Point(START - 31, 0.9, 9)]
        assert receiver.totals() == {("b", ()): 15}

    def test_it_stands_beside_the_buckets(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g")
        receiver.feed(f"a:2|g|T{START + 15}\na:3|g|T{START - 15}".encode())
        clock.stall(10)
        receiver.feed(b"a:4|g")

        assert values(receiver.points("a", open_bucket=True)) == [(-15, 3), (0, 1), (10, 4), (15, 2)]
        assert receiver.latest("a").value == 2

    def test_the_bucket_of_the_same_second_replaces_it(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(f"a:2|g|T{START}\na:1|g".encode())
        assert values(receiver.points("a")) == [(0, 2)]
        assert values(receiver.points("a", open_bucket=True)) == [(0, 1)]
        clock.stall(10)

        assert values(receiver.points("a")) == [(0, 1)]

    @pytest.mark.parametrize(("offset", "is_taken"), [(-3601, False), (-3600, True), (600, True), (601, False)])
    def test_an_hour_past_to_ten_minutes_ahead(self, receiver: Receiver, offset: int, is_taken: bool) -> None:
        receiver.feed(f"a:1|g|T{START + offset}".encode())

        assert len(receiver.series()) == is_taken
        assert receiver.statistics().refused == (not is_taken)

    @pytest.mark.parametrize("line", [b"a:1|d|T1800000000", b"a:1|g|T", b"a:1|g|T-5", b"a:1|g|T1.5", b"a:1|c|T0"])
    def test_another_timestamp_is_refused(self, receiver: Receiver, line: bytes) -> None:
        receiver.feed(line)

        assert receiver.statistics().refused == 1
        assert receiver.series() == []


class TestIdentity:
    def test_tags_are_sorted_and_each_counts_once(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|c|#b:2,a:1\na:1|c|#a:1,b:2,a:1\na:1|c|#,a:1,,b:2,")

        (series,) = receiver.series()

        assert series.tags == ("a:1", "b:2")
        assert receiver.latest("a").sum == 3

    def test_origin_fields_are_no_part_of_it(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|c|#x:1|c:ci-0123|e:it-false,cn-app|card:low\na:1|c|#x:1|c:ci-9\na:1|c|#x:1|card:whatever")

        assert receiver.latest("a", "x:1").sum == 3
        assert len(receiver.series()) == 1

    def test_a_host_tag_is_the_host(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g|#x:1\na:2|g|#x:1,host:one\na:3|g|#host:two,x:1\na:4|g|#host:,x:1")

        found = {series.host: (series.tags, series.latest()) for series in receiver.series("a")}

        assert list(found) == [None, "one", "two", ""]
        assert {tags for tags, _ in found.values()} == {("x:1",)}
        assert receiver.latest("a", host="two").value == 3

    def test_tags_that_the_agent_consumes_are_gone(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g|#dd.internal.entity_id:e,x:1,dd.internal.card:low,dd.internal.jmx_check_name:j")

        (series,) = receiver.series()

        assert series.tags == ("x:1",)

    def test_a_name_with_two_kinds_is_two_series(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g\na:2|c\na:3|d")

        assert [(series.kind, series.tags) for series in receiver.series("a")] == [("g", ()), ("c", ()), ("d", ())]


class TestLines:
    @pytest.mark.parametrize(
        "line",
        [
            b"a:1|g|#",
            b"a:1|g|",
            b"a:1|g|unknown|#|more",
            b"a:1|g\r",
            b"a::1:|g",
            b"a:1e0|g",
            b"a:1.|g",
            b"a:9|g\na:1|g|#x|#",  # of a field that comes twice, the last
        ],
    )
    def test_what_the_agent_ignores_is_ignored(self, receiver: Receiver, line: bytes) -> None:
        receiver.feed(line)

        assert receiver.statistics().refused == 0
        assert receiver.latest("a").value == 1
        assert receiver.series()[-1].tags == ()

    @pytest.mark.parametrize(
        "line",
        [
            b"a",
            b"a:1",
            b"a|g",
            b"a:|g",
            b"a:::|g",
            b":1|g",
            b"a:1|q",
            b"a:1|",
            b"a:x|g",
            b"a:1:x|c",
            b"a:nan|g",
            b"a:inf|g",
            b"a:1e400|g",
            b"a:" + b"9" * 400 + b"|g",
            b"a:0x10|g",
            b"a:1_0|g",
            b"a: 1|g",
            b"a:\xd9\xa1|g",
            b"a:1|c|@0",
            b"a:1|c|@-1",
            b"a:1|c|@",
            b"a:1|c|@x",
            b"a:1|c|@1e-320",
            b"a\xff:1|g",
            b"a:1|g|#\xff",
            b"_e{1,1}:a|b",
            b"_sc|a|0",
            b"\x00",
        ],
    )
    def test_what_is_no_metric_is_refused_and_leaves_no_series(self, receiver: Receiver, line: bytes) -> None:
        receiver.feed(b"good:1|g\n" + line + b"\ngood:2|g")

        statistics = receiver.statistics()

        assert (statistics.lines, statistics.refused, statistics.series) == (3, 1, 1)
        assert receiver.latest("good").value == 2

    def test_a_refused_line_of_a_known_series_changes_nothing(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g\na:x|g\nb:1|c\nb:2:x|c\nd:1|d\nd:2:x|d\nb:1e308|c\nb:1e308|c\nd:1e308|d\nd:1e308|d\nb:|c")

        statistics = receiver.statistics()

        assert statistics.refused == 6
        assert {reason: refused.number for reason, refused in statistics.reasons.items()} == {
            "a value is no finite number": 3,
            "a sum too large for a float": 2,
            "no value or no type": 1,
        }
        assert (receiver.latest("a").value, receiver.latest("b").sum) == (1, 1e308)

    def test_examples_of_refused_lines_are_escaped_and_short(self, receiver: Receiver) -> None:
        receiver.feed(b"\x1b]0;owned\x07\xc2\x9b31m\xe2\x80\xae'\"\\" + b"x" * 1000)

        ((reason, refused),) = receiver.statistics().reasons.items()

        assert reason == "no value or no type"
        assert refused.example.startswith(r"\x1b]0;owned\x07\xc2\x9b31m\xe2\x80\xae")
        assert refused.example.isascii()
        assert refused.example.isprintable()
        assert len(refused.example) < 330

    def test_no_name_and_no_tag_can_reach_a_terminal_unescaped(self, receiver: Receiver) -> None:
        receiver.feed("a\x1b[2J\x9b:1|g|#\u202e:\x07,é:ü,host:\u2028x".encode())

        (series,) = receiver.series()

        assert (series.name, series.tags, series.host) == ("a_[2J_", ("_:_", "é:ü"), "_x")

    def test_lines_beyond_what_the_agent_reads_are_refused(self, receiver: Receiver) -> None:
        line = b"a:1|c|#x:" + b"x" * 90 + b"\n"
        datagram = (line * 100)[:9000]
        receiver.feed(datagram)

        whole = 8192 // len(line)
        assert receiver.latest("a").sum == whole
        statistics = receiver.statistics()
        assert statistics.refused == 1
        assert list(statistics.reasons) == ["beyond the 8192 bytes of a datagram"]

    @pytest.mark.parametrize(("size", "taken"), [(8192, 1), (8193, 0)])
    def test_a_line_of_8192_bytes_is_taken(self, receiver: Receiver, size: int, taken: int) -> None:
        receiver.feed((b"a:1|c|#" + b"x" * size)[:size] + b"\n")

        assert len(receiver.series()) == taken
        assert receiver.statistics().refused == 1 - taken

    def test_nothing_is_no_line(self, receiver: Receiver) -> None:
        receiver.feed(b"")
        receiver.feed(b"\n\n")

        assert (receiver.statistics().datagrams, receiver.statistics().lines) == (2, 0)


class TestClock:
    @pytest.mark.parametrize("width", [0.1, 0.3, 1, 2.5, 10, 60])
    def test_buckets_are_aligned_to_the_wall_clock(self, clock: ManualClock, width: float) -> None:
        receiver = Receiver(bucket_seconds=width)
        clock.stall(7.77)
        receiver.feed(b"a:1|g")

        start = receiver.latest("a").timestamp

        assert start <= clock.wall() < start + width
        assert start / width == pytest.approx(round(start / width), abs=1e-3)

    def test_a_clock_set_back_a_little_goes_on_in_the_same_bucket(self, clock: ManualClock, receiver: Receiver) -> None:
        clock.stall(11)
        receiver.feed(b"a:1|c")
        clock.set_wall(START + 8)
        receiver.feed(b"a:1|c")
        clock.set_wall(START + 12)
        receiver.feed(b"a:1|c")
        clock.stall(10)

        assert [point for point in receiver.points("a") if point.sum] == [Point(START + 10, 0.3, 3)]

    @pytest.mark.parametrize("step", [-3600, 3600, -86400])
    def test_a_clock_set_by_an_hour_loses_nothing_that_is_read(
        self, clock: ManualClock, receiver: Receiver, step: float
    ) -> None:
        receiver.feed(b"a:1|c\ng:1|g\nd:1|d\ns:1|s")
        clock.set_wall(START + step)
        receiver.feed(b"a:2|c\ng:2|g\nd:2|d\ns:2|s")
        clock.stall(10)

        for name in "agds":
            assert START + step in [point.timestamp for point in receiver.points(name)]
        assert receiver.totals() == {("a", ()): 3}
        assert [point.sum for point in receiver.points("a") if point.timestamp == START + step] == [2]

    def test_history_is_kept_for_an_hour(self, clock: ManualClock, receiver: Receiver) -> None:
        for _ in range(500):
            receiver.feed(b"a:1|g\nd:1|d")
            clock.stall(10)

        for name in ("a", "d"):
            points = receiver.points(name)
            assert [point.timestamp for point in points] == [clock.wall() - 10 * n for n in range(360, 0, -1)]
        assert receiver.statistics().points <= 2 * 361
        assert receiver.statistics().evicted_points == 0


class TestReading:
    def test_series_are_found_by_name_and_tags(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g|#x:1,y:1\na:2|g|#x:1,y:2\nb:3|g|#x:2,bare")

        def found(*arguments: str, **tags: str) -> list[float]:
            return [point.value for series in receiver.series(*arguments, **tags) if (point := series.latest())]

        assert found() == [1, 2, 3]
        assert found("a") == [1, 2]
        assert found("a", x="1", y="2") == [2]
        assert found("a", "x:1", y="1") == [1]
        assert found("b", "bare") == [3]
        assert found("a", x="3") == []

    def test_one_series_is_needed_for_its_points(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g|#x:1\na:2|g|#x:2")

        with pytest.raises(KeyError, match="2 series of a with the tags"):
            receiver.latest("a")
        with pytest.raises(KeyError, match=r"0 series of b with the tags \(x:1, y:2\)"):
            receiver.points("b", "x:1", y="2")
        assert receiver.latest("a", x="2").value == 2

    def test_the_open_bucket_and_the_last_closed_one(self, clock: ManualClock, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g\nc:1|c\nd:1|d")
        (gauge, count, distribution) = receiver.series()
        assert gauge.latest_closed() is count.latest_closed() is distribution.latest_closed() is None
        clock.stall(10)
        receiver.feed(b"a:2|g\nc:2|c\nd:2|d")

        for series in (gauge, count, distribution):
            closed, latest = series.latest_closed(), series.latest()
            assert closed is not None
            assert latest is not None
            assert (closed.timestamp, closed.sum) == (START, 1)
            assert (latest.timestamp, latest.sum) == (START + 10, 2)
            assert series.seen == START + 10

        clock.stall(10)
        assert gauge.latest() == gauge.latest_closed() == Point(START + 10, 2, 2)
        assert count.latest() == Point(START + 20, 0, 0)

    def test_points_of_the_last_seconds(self, clock: ManualClock, receiver: Receiver) -> None:
        for number in range(6):
            receiver.feed(f"a:{number}|g".encode())
            clock.stall(10)

        (series,) = receiver.series()

        assert values(series.points(20)) == [(40, 4), (50, 5)]
        assert values(series.points(20, open_bucket=True)) == [(40, 4), (50, 5)]
        assert len(series.points()) == 6

    @pytest.mark.parametrize("width", [0.1, 1, 10])
    def test_a_sparkline_of_the_last_minute(self, clock: ManualClock, width: float) -> None:
        receiver = Receiver(bucket_seconds=width)
        clock.stall(width * 100.5)
        for number in range(5):
            receiver.feed(f"a:{number}|g".encode())
            clock.stall(width * (1 + (number == 2)))
        receiver.feed(b"a:9|g")
        (series,) = receiver.series()

        recent = series.recent(60)

        assert len(recent) == round(60 / width)
        assert [point and point.value for point in recent[-6:]] == [1, 2, None, 3, 4, 9]

    def test_a_series_says_what_it_is(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g|#x:1,host:h")

        assert repr(receiver.series()[0]) == "<Series a g host:h, x:1>"
        assert repr(receiver) == "<Receiver with 1 series>"

    def test_statistics(self, receiver: Receiver) -> None:
        receiver.feed(b"a:1|g\nbad")
        receiver.feed(b"b:1|c")

        statistics = receiver.statistics()

        assert (statistics.datagrams, statistics.bytes, statistics.lines) == (2, 14, 3)
        assert (statistics.refused, statistics.lost, statistics.series) == (1, 0, 2)
        assert (statistics.connections, statistics.bad_frames, statistics.turned_away) == (0, 0, 0)


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ({"bucket_seconds": 0}, InvalidValueError),
            ({"bucket_seconds": -1}, InvalidValueError),
            ({"bucket_seconds": math.nan}, InvalidValueError),
            ({"bucket_seconds": math.inf}, InvalidValueError),
            ({"bucket_seconds": "10"}, InvalidTypeError),
            ({"bucket_seconds": True}, InvalidTypeError),
            ({"history_seconds": 5}, InvalidValueError),
            ({"max_series": 0}, InvalidValueError),
            ({"max_points": None}, InvalidTypeError),
            ({"max_bytes": 1}, InvalidValueError),
        ],
    )
    def test_bad_ones_are_refused(self, arguments: dict[str, object], error: type[Exception]) -> None:
        with pytest.raises(error, match=f"{next(iter(arguments))}: expected"):
            Receiver(**arguments)
