"""What a monitor compares with its threshold: one value for each group, at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from .evaluate import evaluate, reduce
from .expressions import Expression, Function, Metric, MonitorQuery, Negative, Number, Operation, Reference, metrics_of
from .lines import Group, Lines, Points, Source, Span


def evaluate_monitor(
    query: MonitorQuery, source: Source, now: float, *, variables: Mapping[str, str] | None = None
) -> dict[Group, float]:
    """Return the value of each group that has one, over the time that ends with the last complete bucket.

    A query with arithmetic and a count takes its own way: each metric is aggregated over the time first, then comes the
    arithmetic (https://docs.datadoghq.com/monitors/guide/as-count-in-monitor-evaluations/). Everything else is
    aggregated last. A change alert aggregates the difference between each point and the one `shift` seconds
    before it (https://docs.datadoghq.com/monitors/types/metric/).
    """
    width = float(source.bucket_seconds)
    span = Span.until(now, query.window, width)
    expression = query.expression
    by_metric = not isinstance(expression, Metric) and any(
        metric.modifier == "as_count" for metric in metrics_of(expression)
    )
    if by_metric and query.shift is None:
        named: dict[str, Lines] = {}

        def over_the_time(metric: Metric) -> Expression:
            name = f"query{len(named)}"
            named[name] = reduce(evaluate(metric, source, span, variables=variables), query.aggregator)
            return Reference(name)

        formula = _replaced(expression, over_the_time)
        lines = evaluate(formula, source, span, queries=named)
    else:
        lines = evaluate(expression, source, span, variables=variables)
        if query.shift is not None:
            earlier = Span(span.start - query.shift, span.end - query.shift, width)
            lines = _changes(lines, evaluate(expression, source, earlier, variables=variables), query.shift)
        lines = reduce(lines, query.aggregator)
    return {group: value for group, line in lines.points.items() for value in line.values()}


def _replaced(expression: Expression, replacement: Callable[[Metric], Expression]) -> Expression:
    """Return the expression with another one in the place of each metric."""
    match expression:
        case Metric():
            return replacement(expression)
        case Negative(operand):
            return Negative(_replaced(operand, replacement))
        case Operation(operator, left, right):
            return Operation(operator, _replaced(left, replacement), _replaced(right, replacement))
        case Function(name, arguments):
            return Function(name, tuple(_replaced(argument, replacement) for argument in arguments))
        case Number() | Reference():
            return expression


def _changes(lines: Lines, earlier: Lines, shift: float) -> Lines:
    points: dict[Group, Points] = {}
    for group, line in lines.points.items():
        before = earlier.points.get(group, {})
        points[group] = {
            start: value - before[round(start - shift, 3)]
            for start, value in line.items()
            if round(start - shift, 3) in before
        }
    return replace(lines, points=points)
