"""Text into expressions and back, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushmetrics.errors import PushmetricsError, QueryError
from pushmetrics.query import Metric, MonitorQuery, Span, evaluate, metrics_of, parse, parse_monitor
from pushmetrics.query.expressions import (
    AGGREGATORS,
    FILL_METHODS,
    Expression,
    Fill,
    Function,
    Negative,
    Number,
    Operation,
    Reference,
    Rollup,
)
from pushmetrics.receiver import Receiver

QUERIES = [
    "sum:gym.concurrency.active{*}",
    "sum:gym.concurrency.active{$component,$limit_name,env:prod,!server:a} by {component,limit_name}",
    "max:gym.concurrency.oldest_wait_ms{*} by {limit_name}.rollup(max)",
    "sum:gym.concurrency.admissions_total{*}.as_count().rollup(sum, 60)",
    "max:gym.concurrency.contended_ms_total{env:prod}.as_rate().fill(zero, 60)",
    "clamp_max(default_zero(contended) / 1000, 1) * 100",
    "(active + queued) / slots * 100",
    "-active - (-2)",
]


def test_a_query_has_its_parts() -> None:
    query = "sum:a.b{$env,!server:x} by {limit_name, server}.as_count().rollup(sum,60).fill(null)"

    assert parse(query) == Metric(
        "sum",
        "a.b",
        scope=("$env", "!server:x"),
        by=("limit_name", "server"),
        modifier="as_count",
        rollup=Rollup("sum", 60),
        fill=Fill("null"),
    )


def test_products_bind_tighter_than_sums_and_both_from_the_left() -> None:
    one, two, three = map(Reference, ("a", "b", "c"))

    assert parse("a - b * c") == Operation("-", one, Operation("*", two, three))
    assert parse("a - b - c") == Operation("-", Operation("-", one, two), three)
    assert parse("a / -b") == Operation("/", one, Negative(two))
    assert parse("(a - b) * c") == Operation("*", Operation("-", one, two), three)


@pytest.mark.parametrize("query", QUERIES)
def test_what_is_written_out_parses_to_the_same(query: str) -> None:
    expression = parse(query)

    assert parse(str(expression)) == expression


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("avg(last_5m):sum:a{*} > 3", MonitorQuery("avg", 300, Metric("sum", "a"), ">", 3.0)),
        (
            "max(last_1h):max:a{*} by {env} <= -0.5",
            MonitorQuery("max", 3600, Metric("max", "a", (), ("env",)), "<=", -0.5),
        ),
        ("change(avg(last_5m),last_10m):sum:a{*} >= 20", MonitorQuery("avg", 300, Metric("sum", "a"), ">=", 20.0, 600)),
    ],
)
def test_a_monitors_query_has_its_parts(query: str, expected: MonitorQuery) -> None:
    assert parse_monitor(query) == expected
    assert parse_monitor(str(expected)) == expected


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("", "and it ends here"),
        ("gym.concurrency.active{*}", "gym.concurrency.active has no aggregator"),
        ("p95:a.b{*}", "an aggregator is one of sum, avg, max, min, got 'p95'"),
        ("count:a.b{*}", "an aggregator is one of sum, avg, max, min, got 'count'"),
        ("sum:a.b", "a scope such as {*}"),
        ("sum:a.b{*", "is not closed"),
        ("sum:a.b{}", "'' in a scope"),
        ("sum:a.b{env:*}", "'env:*' in a scope"),
        ("sum:a.b{env:$env}", "'env:$env' in a scope"),
        ("sum:a.b{$env*}", "'$env*' in a scope"),
        ("sum:a.b{env IN (prod,dev)}", "'env IN (prod' in a scope"),
        ("sum:a.b{*} by {}", "'' is no key"),
        ("sum:a.b{*}.as_count().as_rate()", ".as_rate() comes after another .as_count()"),
        ("sum:a.b{*}.weighted()", ".weighted() is not in the subset"),
        ("sum:a.b{*}.rollup(count)", "the method of a rollup is one of"),
        ("sum:a.b{*}.rollup(sum, 0)", "whole seconds from 1 to 86400"),
        ("sum:a.b{*}.rollup(sum, 1.5)", "whole seconds from 1 to 86400"),
        ("sum:a.b{*}.fill(zero, 601)", "whole seconds from 1 to 600"),
        ("top(sum:a.b{*}, 10, 'mean', 'desc')", "the function top() is not in the subset"),
        ("clamp_max(a)", "clamp_max() takes 2 arguments, got 1"),
        ("clamp_max(a, b)", "the second argument of clamp_max() is a number"),
        ("a + ", "and it ends here"),
        ("a b", "expected the end of the query, got 'b'"),
        ("a ** b", "got '*'"),
        ("a # b", "the character '#'"),
        ("(" * 60 + "a" + ")" * 60, "nested more than 50 deep"),
        ("-" * 60 + "a", "nested more than 50 deep"),
        ("a+" * 6000 + "a", "at most 10000 characters"),
    ],
)
def test_outside_of_the_subset_is_an_error_that_says_where(query: str, complaint: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(query)

    assert complaint in str(caught.value)
    assert "near character" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("sum:a{*} > 3", "begins with the time that it looks at, such as avg(last_5m):"),
        ("p95(last_5m):sum:a{*} > 3", "what is taken over the time of a monitor is one of"),
        ("avg(last_5):sum:a{*} > 3", "such as last_5m"),
        ("avg(last_2d):sum:a{*} > 3", "a time of up to a day"),
        ("avg(last_5m):sum:a{*} == 3", "one of >=, <=, >, <"),
        ("avg(last_5m):sum:a{*} > many", "the threshold, a number"),
        ("avg(last_5m):sum:a{*}", "one of >=, <=, >, < and a threshold"),
        ("pct_change(avg(last_5m),last_5m):sum:a{*} > 3", "what is taken over the time of a monitor"),
        ("avg(last_5m):sum:a{*} > 3 4", "expected the end of the query"),
    ],
)
def test_a_monitor_outside_of_the_subset_is_an_error(query: str, complaint: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_monitor(query)

    assert complaint in str(caught.value)


def test_a_query_is_a_string() -> None:
    with pytest.raises(PushmetricsError, match="a query is a string, got None"):
        parse(None)  # type: ignore[arg-type]  # What is wrong on purpose.


names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
tags = st.from_regex(r"!?[a-z][a-z0-9_.-]{0,6}:[a-z0-9_./-]{1,6}", fullmatch=True)
metrics = st.builds(
    Metric,
    st.sampled_from(AGGREGATORS),
    st.lists(names, min_size=2, max_size=3).map(".".join),
    scope=st.lists(st.one_of(tags, names.map("${}".format)), max_size=3).map(tuple),
    by=st.lists(names, max_size=3, unique=True).map(tuple),
    modifier=st.sampled_from([None, "as_count", "as_rate"]),
    rollup=st.none() | st.builds(Rollup, st.sampled_from(AGGREGATORS), st.none() | st.integers(1, 86400)),
    fill=st.none() | st.builds(Fill, st.sampled_from(FILL_METHODS), st.integers(1, 600)),
)
numbers = st.builds(Number, st.integers(0, 10**6).map(float) | st.integers(0, 10**6).map(lambda number: number / 1024))


def extended(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(Negative, inner),
        st.builds(Operation, st.sampled_from("+-*/"), inner, inner),
        st.builds(Function, st.just("default_zero"), st.tuples(inner)),
        st.builds(Function, st.sampled_from(["clamp_min", "clamp_max"]), st.tuples(inner, numbers)),
    )


expressions = st.recursive(st.one_of(metrics, numbers, st.builds(Reference, names)), extended, max_leaves=8)


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("sum:a{*}" + "+1" * 4_000, "more than 200 operators"),
        ("sum:a{*}" + "*1" * 4_000, "more than 200 operators"),
        ("a * " + "(a + a) * " * 150 + "a", "more than 200 operators"),
        ("sum:a{*}.rollup(sum, " + "9" * 5_000 + ")", "at most 100 digits, got one of 5000"),
        ("sum:a{*} * " + "9" * 100, "at most 100 digits"),
        ("sum:a{*} * 1." + "1" * 400, "at most 100 digits"),
        ("sum:a{*} * ٣", "has no meaning here"),
        ("sum:a{*}.rollup(sum, ٣)", "has no meaning here"),
    ],
)
def test_no_query_is_too_much_for_the_interpreter(query: str, complaint: str) -> None:
    with pytest.raises(QueryError, match=complaint):
        parse(query)
    with pytest.raises(QueryError):
        parse_monitor(f"avg(last_5m):{query} > 1")


@pytest.mark.parametrize(
    "query",
    [
        "sum:a{*}" + " + 1" * 200,
        "(" * 49 + "sum:a{*}" + " * 2)" * 49 + " + 1" * 151,
        "-" * 49 + "sum:a{*}",
        "-(" * 24 + "sum:a{*} + 1" + ")" * 24,
        "sum:a{*} * 0.00000000000000000001",
        "sum:a{*} * 0.30000000000000004",
        "sum:a{*} * " + "9" * 99,
    ],
)
def test_the_largest_query_is_written_out_and_evaluated(query: str) -> None:
    expression = parse(query)

    assert parse(str(expression)) == expression
    assert [metric.name for metric in metrics_of(expression)] == ["a"]
    assert evaluate(expression, Receiver(), Span.until(1000, 100, 10)).points == {}


@given(expressions)
def test_each_expression_survives_being_written_out(expression: Expression) -> None:
    assert parse(str(expression)) == expression


@given(
    st.builds(
        MonitorQuery,
        st.sampled_from(AGGREGATORS),
        st.integers(1, 1440).map(lambda minutes: minutes * 60),
        expressions,
        st.sampled_from([">", ">=", "<", "<="]),
        st.integers(-(10**6), 10**6).map(float),
        st.none() | st.integers(1, 1440).map(lambda minutes: minutes * 60),
    )
)
def test_each_monitors_query_survives_being_written_out(query: MonitorQuery) -> None:
    assert parse_monitor(str(query)) == query


@given(st.text(alphabet="sumavg:.{}()$*+-/, <>=!_019abcdefé\n\0", max_size=60) | st.text(max_size=60))
def test_any_text_is_parsed_or_refused_with_our_own_error(text: str) -> None:
    for read in (parse, parse_monitor):
        with suppress(QueryError):
            read(text)


@given(st.sampled_from(QUERIES), st.data())
def test_a_damaged_query_is_parsed_or_refused_with_our_own_error(query: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(query)))
    length = data.draw(st.integers(0, 3))
    try:
        expression = parse(query[:place] + data.draw(st.text(max_size=3)) + query[place + length :])
    except QueryError:
        return
    assert parse(str(expression)) == expression
