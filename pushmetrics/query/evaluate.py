"""Expressions into lines, by the rules of the Agent and of Datadog's backend.

The order of a query: scope, aggregation of each source over time, interpolation, aggregation over the sources of a
group, functions, arithmetic (https://docs.datadoghq.com/dashboards/guide/query-to-the-graph/).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite

from ..errors import QueryError
from .aggregate import REDUCERS, filled, metric_lines
from .expressions import Expression, Function, Metric, Negative, Number, Operation, Reference
from .lines import NO_TIME, Group, Lines, Points, Source, Span

OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def evaluate(
    expression: Expression,
    source: Source,
    span: Span,
    *,
    variables: Mapping[str, str] | None = None,
    queries: Mapping[str, Lines] | None = None,
) -> Lines:
    """Return the lines of an expression in a span of time.

    `variables` has a tag such as ``"env:prod"``, or ``"*"``, for each ``$name`` in a scope, and `queries` the lines for
    each name in a formula. Raises :class:`pushmetrics.errors.QueryError` for a name that is in neither, and for
    what has no meaning at Datadog: an average of counts, arithmetic between lines of other groups or intervals.
    """
    return _finite(_Evaluation(source, span, variables or {}, queries or {}).lines(expression))


def reduce(lines: Lines, aggregator: str) -> Lines:
    """Return one point for each line: "avg", "max", "min", "sum" or "last" of its points."""
    how = REDUCERS.get(aggregator)
    if how is None:
        raise QueryError(f"the aggregator of a query is one of {', '.join(REDUCERS)}, got {aggregator!r}")
    points = {
        group: {NO_TIME.start: how([value for _, value in sorted(line.items())])}
        for group, line in lines.points.items()
        if line
    }
    return _finite(replace(lines, points=points, span=NO_TIME, interpolated=0.0))


def _finite(lines: Lines) -> Lines:
    """Return the lines without what has become too large for a float: it has no value, as what is divided by 0."""
    points = {
        group: {start: value for start, value in line.items() if isfinite(value)}
        for group, line in lines.points.items()
    }
    return replace(lines, points=points)


class _Evaluation:
    def __init__(self, source: Source, span: Span, variables: Mapping[str, str], queries: Mapping[str, Lines]) -> None:
        self._source = source
        self._span = span
        self._variables = variables
        self._queries = queries

    def lines(self, expression: Expression) -> Lines:
        match expression:
            case Metric():
                return metric_lines(expression, self._source, self._span, self._variables)
            case Reference(name):
                if name not in self._queries:
                    raise QueryError(f"the formula names a query {name!r}; there are: {', '.join(self._queries)}")
                return self._queries[name]
            case Negative(operand):
                return _mapped(self.lines(operand), operator.neg)
            case Function("default_zero", (argument,)):
                return _default_zero(self.lines(argument))
            case Function(name, (argument, Number(bound))):
                return _clamped(self.lines(argument), min if name == "clamp_max" else max, bound)
            case Operation():
                return self._operation(expression)
        raise QueryError(f"{expression} has no points of its own; a query names a metric")

    def _operation(self, operation: Operation) -> Lines:
        compute = OPERATORS[operation.operator]
        match operation.left, operation.right:
            case Number(left), Number(right):
                raise QueryError(f"{left:g} {operation.operator} {right:g} has no points; a query names a metric")
            case other, Number(number):
                return _mapped(self.lines(other), lambda value: compute(value, number))
            case Number(number), other:
                return _mapped(self.lines(other), lambda value: compute(number, value))
        return _combined(self.lines(operation.left), self.lines(operation.right), compute, str(operation))


def _mapped(lines: Lines, function: Callable[[float], float]) -> Lines:
    points = {}
    for group, line in lines.points.items():
        mapped = {}
        for start, value in line.items():
            try:
                mapped[start] = function(value)
            except ZeroDivisionError:
                continue  # What is divided by nothing has no value: a gap, as at Datadog.
        points[group] = mapped
    return replace(lines, points=points)


def _default_zero(lines: Lines) -> Lines:
    """Fill each interval without a value: with a straight line where that is on, else with 0."""
    starts = lines.span.starts()
    points: dict[Group, Points] = {} if lines.by or lines.points else {(): {}}
    for group, line in lines.points.items():
        points[group] = dict(filled(line, starts, "linear", lines.interpolated) if lines.interpolated else line)
    for line in points.values():
        for start in starts:
            line.setdefault(start, 0.0)
    return replace(lines, points={group: dict(sorted(line.items())) for group, line in points.items()})


def _clamped(lines: Lines, bound: Callable[[float, float], float], value: float) -> Lines:
    """Clamp each point. A gap becomes the bound, too: https://docs.datadoghq.com/dashboards/functions/exclusion/."""
    starts = lines.span.starts()
    points = {
        group: {start: bound(line[start], value) if start in line else value for start in starts}
        for group, line in lines.points.items()
    }
    return replace(lines, points=points)


def _combined(left: Lines, right: Lines, compute: Callable[[float, float], float], text: str) -> Lines:
    if left.by != right.by:
        raise QueryError(f"{text}: both sides are grouped by the same keys, got {left.by} and {right.by}")
    if left.span.interval != right.span.interval:
        raise QueryError(f"{text}: both sides have the same interval; use the same .rollup() in both")
    points: dict[Group, Points] = {}
    for group in left.points.keys() & right.points.keys():
        one, other = left.points[group], right.points[group]
        starts = one.keys() & other.keys()
        if left.counts:
            starts |= other.keys()
        if right.counts:
            starts |= one.keys()
        line = {}
        for start in sorted(starts):
            # Counts are aligned as 0: https://docs.datadoghq.com/dashboards/functions/interpolation/#default-zero
            try:
                line[start] = compute(one.get(start, 0.0), other.get(start, 0.0))
            except ZeroDivisionError:
                continue
        points[group] = line
    return replace(
        left,
        points=points,
        counts=left.counts and right.counts,
        interpolated=min(left.interpolated, right.interpolated),
    )
