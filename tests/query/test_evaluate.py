"""Queries over buckets that were worked out by hand, after the examples in Datadog's documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from pushmetrics import clock
from pushmetrics.errors import QueryError
from pushmetrics.query import Lines, Span, evaluate, evaluate_monitor, parse, parse_monitor, reduce
from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock

START = 1_800_000_000.0
"""A multiple of 30 minutes."""

Line = Sequence[tuple[float, float]]


@pytest.fixture
def time() -> Iterator[ManualClock]:
    with ManualClock(wall=START) as manual:
        yield manual


def feed(time: ManualClock, receiver: Receiver, lines: Mapping[float, str]) -> None:
    """Feed lines at the given seconds after START, and go on to the end of the bucket of the last one."""
    for seconds, line in sorted(lines.items()):
        time.stall(START + seconds - clock.wall())
        receiver.feed(line.encode())
    time.stall(receiver.bucket_seconds)


def points(lines: Lines, *group: str) -> list[tuple[float, float]]:
    """The points of a group, by the seconds after START."""
    return [(start - START, pytest.approx(value)) for start, value in sorted(lines.points[group].items())]


def ask(query: str, receiver: Receiver, seconds: float = 300, interval: float = 10, **variables: str) -> Lines:
    return evaluate(parse(query), receiver, Span(START, START + seconds, interval), variables=variables)


class TestTheDocumentation:
    """Examples with numbers, from the pages that are named."""

    def test_sources_are_interpolated_where_another_has_a_point(self, time: ManualClock) -> None:
        # https://docs.datadoghq.com/metrics/guide/interpolation-the-fill-modifier-explained/: its first table, where
        # host A has 15 and 25, host B has 10 and 40, and the sum is 28.3 and 55 where only one of them has a point.
        receiver = Receiver()
        a, b = "net.bytes_rcvd:{}|g|#host:a", "net.bytes_rcvd:{}|g|#host:b"
        feed(time, receiver, {0: a.format(15), 10: b.format(10), 30: a.format(25), 40: b.format(40)})

        assert points(ask("sum:net.bytes_rcvd{*}", receiver)) == [(0, 15), (10, 28.333333333333332), (30, 55), (40, 40)]

    def test_no_interpolation_and_a_zero_for_a_gap(self, time: ManualClock) -> None:
        # The same page: fill(null) switches it off, fill(zero) puts 0 into the gaps.
        receiver = Receiver()
        a, b = "net.bytes_rcvd:{}|g|#host:a", "net.bytes_rcvd:{}|g|#host:b"
        feed(time, receiver, {0: a.format(15), 10: b.format(10), 30: a.format(25), 40: b.format(40)})

        assert points(ask("sum:net.bytes_rcvd{*}.fill(null)", receiver)) == [(0, 15), (10, 10), (30, 25), (40, 40)]
        assert points(ask("sum:net.bytes_rcvd{host:a}.fill(zero)", receiver, 40)) == [
            (0, 15),
            (10, 0),
            (20, 0),
            (30, 25),
        ]
        assert points(ask("sum:net.bytes_rcvd{host:a}.fill(last)", receiver, 40))[1:3] == [(10, 15), (20, 15)]
        assert points(ask("sum:net.bytes_rcvd{host:a}.fill(linear)", receiver, 30))[1:] == [(10, 55 / 3), (20, 65 / 3)]

    def test_a_count_is_stored_as_a_rate(self, time: ManualClock) -> None:
        # https://docs.datadoghq.com/metrics/types/?tab=count: 10 requests for 30 s, then 20, then none. As a rate that
        # is 0.33, 0.67 and 0 (?tab=rate), and StatsD's counters are normalised by the Agent's 10 s in the same way.
        receiver = Receiver(bucket_seconds=30)
        feed(
            time, receiver, {0: "number.of.requests:10|c", 30: "number.of.requests:20|c", 60: "number.of.requests:0|c"}
        )

        def read(modifier: str) -> list[tuple[float, float]]:
            return points(ask(f"sum:number.of.requests{{*}}{modifier}", receiver, 90, 30))

        assert read("") == read(".as_rate()") == [(0, 1 / 3), (30, 2 / 3), (60, 0)]
        assert read(".as_count()") == [(0, 10), (30, 20), (60, 0)]

    def test_as_rate_divides_by_the_rollup(self, time: ManualClock) -> None:
        # https://docs.datadoghq.com/metrics/custom_metrics/type_modifiers/?tab=count: 1 in each rollup of 20 s is
        # 0.05 as a rate; ?tab=rate: [0.05, 0.05] .as_count() gives [1, 1].
        receiver = Receiver()
        feed(time, receiver, {0: "a:1|c", 20: "a:1|c", 40: "a:1|c"})

        assert points(ask("sum:a{*}.as_rate().rollup(sum, 20)", receiver, 60)) == [(0, 0.05), (20, 0.05), (40, 0.05)]
        assert points(ask("sum:a{*}.as_count().rollup(sum, 20)", receiver, 60)) == [(0, 1), (20, 1), (40, 1)]

    def test_as_rate_over_a_long_rollup_is_the_mean_of_the_rates(self, time: ManualClock) -> None:
        # ?tab=rate: submitted every 60 s and rolled up over 1800 s, as_rate() is the sum of the rates by 30.
        receiver = Receiver(bucket_seconds=60)
        feed(time, receiver, {60 * minute: f"a:{60 * minute}|c" for minute in range(30)})
        rates = sum(range(30))

        assert points(ask("sum:a{*}.as_rate().rollup(sum, 1800)", receiver, 1800, 60)) == [(0, rates / 30)]

    def test_the_last_interval_counts_as_far_as_it_goes(self, time: ManualClock) -> None:
        # ?tab=rate: the rightmost partial bucket is the mean of what was observed, not an artificially low value.
        receiver = Receiver()
        feed(time, receiver, {10 * place: "a:20|c" for place in range(9)})

        assert points(ask("sum:a{*}.as_rate().rollup(sum, 60)", receiver, 90)) == [(0, 2), (60, 2)]

    def test_a_monitor_with_a_count_aggregates_before_it_divides(self, time: ManualClock) -> None:
        # https://docs.datadoghq.com/monitors/guide/as-count-in-monitor-evaluations/: errors 1 to 5 of 10 requests each
        # are 1.5 on the classic path, and 0.3 with as_count().
        receiver = Receiver()
        when = (30, 90, 160, 210, 280)
        feed(
            time,
            receiver,
            {
                seconds: f"requests.error:{number}|c\nrequests.total:10|c"
                for number, seconds in enumerate(when, start=1)
            },
        )
        query = "sum(last_5m):sum:requests.error{{*}}.{0}() / sum:requests.total{{*}}.{0}() > 0"

        def value(modifier: str) -> float:
            return evaluate_monitor(parse_monitor(query.format(modifier)), receiver, START + 300)[()]

        assert value("as_rate") == pytest.approx(1.5)
        assert value("as_count") == pytest.approx(0.3)

    def test_a_gauge_is_averaged_whatever_is_in_front_and_rolled_up_as_it_says(self, time: ManualClock) -> None:
        # https://docs.datadoghq.com/dashboards/functions/rollup/: .rollup(sum, 120), and an enforced default of avg.
        receiver = Receiver()
        feed(time, receiver, {10 * place: f"a:{place}|g" for place in range(24)})

        def read(query: str) -> list[float]:
            return [value for _, value in points(ask(query, receiver, 240, 120))]

        assert read("max:a{*}") == read("sum:a{*}") == [5.5, 17.5]
        assert read("sum:a{*}.rollup(sum, 120)") == [66, 210]
        assert read("max:a{*}.rollup(max)") == [11, 23]
        assert read("max:a{*}.rollup(min, 240)") == [0]

    def test_default_zero_fills_a_gauge_with_a_straight_line_first(self, time: ManualClock) -> None:
        # https://docs.datadoghq.com/dashboards/functions/interpolation/#default-zero: 0, or with interpolation, which
        # is on for gauges, up to 300 s.
        receiver = Receiver()
        feed(time, receiver, {20: "a:10|g", 40: "a:30|g"})

        assert points(ask("default_zero(sum:a{*})", receiver, 60)) == [
            (0, 0),
            (10, 0),
            (20, 10),
            (30, 20),
            (40, 30),
            (50, 0),
        ]

    def test_counts_are_aligned_as_zero_and_gauges_are_not(self, time: ManualClock) -> None:
        # The same page: counts are always aligned as 0 in arithmetic, so default_zero() makes no difference to them.
        receiver = Receiver()
        feed(time, receiver, {0: "c:4|c\ng:1|g\nh:1|g", 10: "h:1|g", 20: "d:6|c\ng:1|g\nh:1|g"})

        assert points(ask("sum:c{*}.as_count() + sum:d{*}.as_count()", receiver, 30)) == [(0, 4), (10, 0), (20, 6)]
        assert points(ask("sum:g{*} + sum:h{*}", receiver, 30)) == [(0, 2), (20, 2)]

    def test_a_clamp_makes_its_bound_of_a_gap(self, time: ManualClock) -> None:
        # https://docs.datadoghq.com/dashboards/functions/exclusion/#clamp, and why default_zero() comes before it.
        receiver = Receiver()
        feed(time, receiver, {0: "a:3|g", 400: "a:5|g"})
        far = 410.0

        def read(query: str) -> dict[float, float]:
            return dict(points(ask(query, receiver, far)))

        assert read("clamp_max(sum:a{*}, 4)")[200] == 4
        assert read("clamp_max(default_zero(sum:a{*}), 4)")[200] == 0
        assert read("clamp_min(sum:a{*}, 4)")[0] == 4
        assert read("clamp_max(sum:a{*}, 4)")[400] == 4

    def test_a_change_alert_aggregates_the_difference(self, time: ManualClock) -> None:
        # https://docs.datadoghq.com/monitors/types/metric/?tab=change
        receiver = Receiver()
        feed(time, receiver, {10 * place: f"a:{2 * place}|g" for place in range(60)})

        query = parse_monitor("change(avg(last_5m),last_5m):sum:a{*} > 0")

        assert evaluate_monitor(query, receiver, START + 600) == {(): pytest.approx(60)}


class TestGaps:
    def test_a_gap_of_one_source_stays_one(self, time: ManualClock) -> None:
        receiver = Receiver()
        feed(time, receiver, {0: "a:1|g", 50: "a:1|g"})

        assert points(ask("sum:a{*}", receiver)) == [(0, 1), (50, 1)]

    def test_a_gap_of_more_than_300_s_is_not_interpolated(self, time: ManualClock) -> None:
        receiver = Receiver()
        feed(time, receiver, {0: "a:1|g|#w:1", 310: "a:1|g|#w:1"} | {5 + 10 * n: "a:10|g|#w:2" for n in range(31)})

        values = dict(points(ask("sum:a{*}", receiver, 320)))

        assert (values[0], values[150], values[310]) == (11, 10, 1)

    def test_what_has_not_begun_or_has_ended_is_not_made_up(self, time: ManualClock) -> None:
        receiver = Receiver()
        feed(time, receiver, {0: "a:1|g|#w:1", 10: "a:1|g|#w:1\na:5|g|#w:2", 20: "a:5|g|#w:2"})

        assert points(ask("sum:a{*}", receiver)) == [(0, 1), (10, 6), (20, 5)]

    def test_nothing_is_no_line(self, time: ManualClock) -> None:
        receiver = Receiver()

        assert ask("sum:a{*} by {w}", receiver).points == {}
        assert ask("sum:a{*}", receiver).points == {}
        assert ask("default_zero(sum:a{*} by {w})", receiver).points == {}
        assert points(ask("default_zero(sum:a{*})", receiver, 20)) == [(0, 0), (10, 0)]


class TestScopesAndGroups:
    @pytest.fixture
    def receiver(self, time: ManualClock) -> Receiver:
        receiver = Receiver()
        feed(
            time,
            receiver,
            {
                0: "a:1|g|#env:prod,limit_name:x,server:s\n"
                "a:2|g|#env:prod,limit_name:y\n"
                "a:4|g|#env:dev,limit_name:x,server:s,host:h"
            },
        )
        return receiver

    @pytest.mark.parametrize(
        ("scope", "expected"),
        [
            ("*", 7),
            ("env:prod", 3),
            ("!env:prod", 4),
            ("env:prod,limit_name:x", 1),
            ("host:h", 4),
            ("$env", 3),
            ("$env,$name", 1),
            ("$env,$any", 3),
        ],
    )
    def test_all_of_a_scope_has_to_hold(self, receiver: Receiver, scope: str, expected: float) -> None:
        lines = ask(f"sum:a{{{scope}}}", receiver, env="env:prod", name="limit_name:x", any="*")

        assert points(lines) == [(0, expected)]

    def test_a_missing_tag_is_a_group_of_its_own(self, receiver: Receiver) -> None:
        lines = ask("sum:a{*} by {limit_name,server}", receiver)

        assert {group: list(line.values()) for group, line in lines.points.items()} == {
            ("x", "s"): [5],
            ("y", "N/A"): [2],
        }

    def test_groups_are_combined_with_their_own(self, receiver: Receiver) -> None:
        lines = ask("sum:a{*} by {limit_name} / sum:a{env:prod} by {limit_name}", receiver)

        assert lines.points == {("x",): {START: 5}, ("y",): {START: 1}}

    def test_an_aggregator_runs_over_the_sources(self, receiver: Receiver) -> None:
        values = [points(ask(f"{how}:a{{*}}", receiver))[0][1] for how in ("sum", "avg", "max", "min")]

        assert values == [7, 7 / 3, 4, 1]

    @pytest.mark.parametrize(
        ("query", "complaint"),
        [
            ("sum:a{$region}", "nothing is known of the variable $region"),
            ("sum:a{*} by {env} + sum:a{*}", "both sides are grouped by the same keys"),
            ("sum:a{*}.rollup(avg, 60) + sum:a{*}", "both sides have the same interval"),
            ("sum:a{*} + query2", "names a query 'query2'"),
            ("2 * 3", "has no points"),
            ("3", "has no points"),
        ],
    )
    def test_what_has_no_meaning_is_an_error(self, receiver: Receiver, query: str, complaint: str) -> None:
        with pytest.raises(QueryError) as caught:
            ask(query, receiver, env="*")

        assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("avg:c{*}.as_count()", "an average of counts"),
        ("sum:c{*}.as_count().rollup(max)", "a rollup of them that is no sum"),
        ("sum:d{*}.as_count()", "it takes no modifier"),
        ("sum:d{*}.rollup(max)", "it takes no modifier"),
        ("sum:s{*}", "only gauges, counts and distributions"),
        ("sum:both{*}", "and one of them a name"),
    ],
)
def test_a_kind_that_is_read_wrongly_is_an_error(time: ManualClock, query: str, complaint: str) -> None:
    receiver = Receiver()
    feed(time, receiver, {0: "c:1|c\nd:1|d\ns:x|s\nboth:1|g\nboth:1|d"})

    with pytest.raises(QueryError) as caught:
        ask(query, receiver)

    assert complaint in str(caught.value)


def test_a_distribution_is_merged_over_time_and_sources(time: ManualClock) -> None:
    # https://docs.datadoghq.com/metrics/distributions/: the aggregation is over all values, not over averages.
    receiver = Receiver()
    feed(time, receiver, {0: "d:1|d|#w:1\nd:1|d|#w:1\nd:1|d|#w:1\nd:9|d|#w:2", 10: "d:8|d|#w:1"})

    values = {how: points(ask(f"{how}:d{{*}}", receiver, 20, 20)) for how in ("sum", "avg", "max", "min")}

    assert values == {"sum": [(0, 20)], "avg": [(0, 4)], "max": [(0, 9)], "min": [(0, 1)]}


def test_divided_by_nothing_is_a_gap(time: ManualClock) -> None:
    receiver = Receiver()
    feed(time, receiver, {0: "a:1|g\nb:0|g", 10: "a:1|g\nb:2|g"})

    assert points(ask("sum:a{*} / sum:b{*}", receiver)) == [(10, 0.5)]
    assert points(ask("1 / sum:b{*}", receiver)) == [(10, 0.5)]


def test_idle_counts_are_zero_for_five_minutes_as_the_agents_are(time: ManualClock) -> None:
    # The Agent's dogstatsd_expiry_seconds is 300.
    receiver = Receiver()
    feed(time, receiver, {0: "a:5|c"})
    time.stall(600)

    values = dict(points(ask("sum:a{*}.as_count()", receiver, 600)))

    assert values == dict([(0.0, 5.0), *((10.0 * place, 0.0) for place in range(1, 30))])


@pytest.mark.parametrize(("aggregator", "expected"), [("avg", 2), ("max", 3), ("min", 1), ("sum", 6), ("last", 2)])
def test_a_line_is_reduced_to_one_point(time: ManualClock, aggregator: str, expected: float) -> None:
    receiver = Receiver()
    feed(time, receiver, {0: "a:1|g", 10: "a:3|g", 20: "a:2|g"})

    lines = reduce(ask("sum:a{*}", receiver), aggregator)

    assert [*lines.points[()].values()] == [expected]
    assert evaluate(parse("clamp_max(default_zero(q), 100)"), receiver, lines.span, queries={"q": lines}) == lines


def test_an_unknown_reduction_is_an_error(time: ManualClock) -> None:
    with pytest.raises(QueryError, match="the aggregator of a query is one of sum, avg, max, min, last, got 'p99'"):
        reduce(ask("sum:a{*}", Receiver()), "p99")


def test_a_span_ends_before_the_bucket_that_is_open() -> None:
    span = Span.until(START + 127, 60, 10)

    assert span == (START + 60, START + 120, 10)
    assert span.starts() == [START + 60 + 10 * place for place in range(6)]
    assert Span.until(100.35, 0.5, 0.1).starts() == [99.8, 99.9, 100.0, 100.1, 100.2]


def test_a_source_with_many_values_of_its_tags_is_refused_not_multiplied(time: ManualClock) -> None:
    receiver = Receiver()
    keys = ("component", "limit_name", "server")
    tags = ",".join(f"{key}:{number}" for key in keys for number in range(150))
    feed(time, receiver, {0: f"hits:1|g|#{tags}"})

    with pytest.raises(QueryError, match="the tags of one source put it into more than 100 groups"):
        ask("sum:hits{*} by {component,limit_name,server}", receiver)
    assert points(ask("sum:hits{*}", receiver)) == [(0, 1)]


def test_what_is_too_large_for_a_float_has_no_value(time: ManualClock) -> None:
    receiver = Receiver()
    feed(time, receiver, {0: "\n".join(f"hits:1.7e308|g|#host:{host}" for host in "abc")})

    assert ask("sum:hits{*}", receiver).points == {(): {}}
    assert ask("sum:hits{host:a} * 10 - sum:hits{host:b} * 10", receiver).points == {(): {}}
    assert points(ask("max:hits{*}", receiver)) == [(0, 1.7e308)]
