"""One metric into lines: scope, groups, aggregation over time, interpolation, aggregation over sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, product
from math import prod

from .. import clock
from ..errors import QueryError
from ..receiver import Distribution, Point, Series
from .expressions import FILL_SECONDS, Aggregator, Fill, Metric
from .lines import NOT_THERE, Group, Lines, Points, Source, Span, interval_start

MAX_GROUPS_OF_A_SOURCE = 100
"""A source belongs to a group for each combination of its values, which one line can make millions of."""

REDUCERS: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "avg": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
    "last": lambda values: values[-1],
}


def metric_lines(metric: Metric, source: Source, span: Span, variables: Mapping[str, str]) -> Lines:
    """Return the lines of a metric in a span of time; see :func:`pushmetrics.query.evaluate`."""
    interval = max(span.interval, float(source.bucket_seconds))
    if metric.rollup and metric.rollup.seconds:
        interval = max(interval, metric.rollup.seconds)
    span = span._replace(interval=interval)
    groups: defaultdict[Group, list[Series]] = defaultdict(list)
    for series in source.series(metric.name):
        tags = series.tags_and_host
        if _in_scope(metric, frozenset(tags), variables):
            values = [_values(tags, key) for key in metric.by]
            if prod(map(len, values)) > MAX_GROUPS_OF_A_SOURCE:
                raise QueryError(
                    f"{metric}: the tags of one source put it into more than {MAX_GROUPS_OF_A_SOURCE} groups"
                )
            for group in product(*values):
                groups[group].append(series)
    kinds = {series.kind for sources in groups.values() for series in sources}
    _check_kinds(metric, kinds)
    # On a gauge, .as_count() and .as_rate() have no effect.
    counts = metric.modifier is not None and kinds != {"g"}
    fill = metric.fill or Fill("null" if counts else "linear", FILL_SECONDS)
    if kinds == {"d"}:
        lines = {group: _distributions(metric.aggregator, sources, span) for group, sources in groups.items()}
    else:
        lines = {group: _numbers(metric, sources, span, fill) for group, sources in groups.items()}
    return Lines(
        by=metric.by,
        points={group: points for group, points in lines.items() if points},
        span=span,
        counts=counts,
        interpolated=0.0 if counts or kinds == {"d"} or fill.method == "null" else fill.seconds,
    )


def _in_scope(metric: Metric, tags: frozenset[str], variables: Mapping[str, str]) -> bool:
    for item in metric.scope:
        wanted = item
        if item.startswith("$"):
            if item[1:] not in variables:
                raise QueryError(f"{metric}: nothing is known of the variable {item}")
            wanted = variables[item[1:]]
            if wanted == "*":
                continue
        if (wanted.removeprefix("!") in tags) == wanted.startswith("!"):
            return False
    return True


def _values(tags: Iterable[str], key: str) -> list[str]:
    return [tag[len(key) + 1 :] for tag in tags if tag.startswith(f"{key}:")] or [NOT_THERE]


def _check_kinds(metric: Metric, kinds: set[str]) -> None:
    if kinds - {"g", "c", "d"} or (len(kinds) > 1 and "d" in kinds):
        raise QueryError(f"{metric}: only gauges, counts and distributions are in the subset, and one of them a name")
    averaged = metric.aggregator == "avg" or (metric.rollup and metric.rollup.method != "sum")
    if "c" in kinds and metric.modifier == "as_count" and averaged:
        raise QueryError(f"{metric}: an average of counts, or a rollup of them that is no sum, means nothing")
    if "d" in kinds and (metric.modifier or metric.rollup or metric.fill):
        raise QueryError(f"{metric}: a distribution is aggregated over time and sources at once; it takes no modifier")


def _numbers(metric: Metric, sources: list[Series], span: Span, fill: Fill) -> Points:
    """Return one line of several sources: each over time, then with its gaps filled, then all of them."""
    around = 0.0 if fill.method == "null" else float(fill.seconds)
    lines = []
    for series in sources:
        bins = _binned(series, span, around)
        lines.append({start: _over_time(metric, series.kind, points, _seconds(start, span)) for start, points in bins})
    # Unless it is asked for, a gap is filled where another source has a point, so that the two can be added up, and
    # nowhere else: https://docs.datadoghq.com/metrics/guide/interpolation-the-fill-modifier-explained/
    starts = span.starts() if metric.fill else sorted({start for line in lines for start in line})
    if metric.fill or len(lines) > 1:
        lines = [filled(line, starts, fill.method, fill.seconds) for line in lines]
    first = interval_start(span.start, span.interval)
    points = {}
    for start in starts:
        values = [line[start] for line in lines if start in line]
        if values and first <= start < span.end:
            points[start] = REDUCERS[metric.aggregator](values)
    return points


def _binned(series: Series, span: Span, around: float = 0.0) -> Iterator[tuple[float, list[Point]]]:
    """Yield when each interval begins and its points, `around` seconds before and after the span included."""
    first, last = span.start - around, span.end + around
    points = [
        point
        for point in series.points(max(0.0, clock.wall() - first + span.interval))
        if first <= point.timestamp < last
    ]
    for start, group in groupby(points, lambda point: interval_start(point.timestamp, span.interval)):
        yield start, list(group)


def _seconds(start: float, span: Span) -> float:
    """Return how much of the interval that begins at `start` is in the span: of the last one, perhaps only a part."""
    return min(span.interval, span.end - start) if start < span.end else span.interval


def _over_time(metric: Metric, kind: str, points: list[Point], seconds: float) -> float:
    """Return what the points of one source come to in one interval, of which `seconds` are in the span.

    A count is stored as a rate: .as_count() gives the events of the interval, .as_rate() the events of each second
    in it, the last interval as far as it goes, and without either it is the average of the rates
    (https://docs.datadoghq.com/metrics/custom_metrics/type_modifiers/?tab=rate). The average is what Datadog takes of a
    gauge whatever the aggregator in front is, unless .rollup() says otherwise
    (https://docs.datadoghq.com/dashboards/functions/rollup/).
    """
    if kind == "c" and metric.modifier:
        events = sum(point.sum for point in points)
        return events if metric.modifier == "as_count" else events / seconds
    if len(points) == 1:
        return points[0].value
    method: Aggregator = metric.rollup.method if metric.rollup else "avg"
    return REDUCERS[method]([point.value for point in points])


def _distributions(aggregator: Aggregator, sources: list[Series], span: Span) -> Points:
    """Return one line of distributions, which are merged before anything is taken of them."""
    merged: defaultdict[float, list[Distribution]] = defaultdict(list)
    for series in sources:
        for start, points in _binned(series, span):
            merged[start] += [point.distribution for point in points if point.distribution is not None]
    return {start: getattr(Distribution(parts), aggregator) for start, parts in sorted(merged.items()) if parts}


def filled(line: Points, starts: list[float], method: str, seconds: float) -> Points:
    """Return a line with its gaps filled at `starts`: those of at most `seconds` from one known point to the next."""
    if method == "null" or not line:
        return line
    known = sorted(line)
    whole = dict(line)
    place = 0
    for start in starts:
        while place < len(known) and known[place] <= start:
            place += 1
        if start in line or place == 0:
            continue
        before = known[place - 1]
        after = known[place] if place < len(known) else None
        if method == "linear":
            if after is not None and after - before <= seconds:
                share = (start - before) / (after - before)
                whole[start] = line[before] + share * (line[after] - line[before])
        elif (after if after is not None else start) - before <= seconds:
            whole[start] = 0.0 if method == "zero" else line[before]
    return whole
