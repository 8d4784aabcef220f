"""Templates into what there is to draw: each widget with the lines of its queries and formulas, and monitors' states.

Whoever draws takes these, so that a terminal and a page show the same values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import InvalidTypeError, InvalidValueError, QueryError
from ..query import Group, Lines, Source, Span, evaluate, evaluate_monitor, parse, parse_monitor, reduce
from ..query.expressions import UNIT_SECONDS
from ..redaction import shown
from .templates import Body

State = Literal["Alert", "Warn", "OK", "No Data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one formula of a widget has become."""

    label: str
    """What the formula is called in a legend."""
    palette: str
    unit: str
    """The name of a unit at Datadog, "" if there is none."""
    lines: Lines
    """Of a toplist or a query_value, each line has one point."""
    order: Literal["asc", "desc"] | None = None
    """How a toplist is sorted."""
    most: int | None = None
    """How many lines of a toplist are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One widget."""

    kind: str
    """timeseries, toplist, query_value or note."""
    title: str
    group: str
    """The title of the group that it is in, "" if it is in none."""
    layers: tuple[Layer, ...] = ()
    queries: tuple[tuple[str, Lines], ...] = ()
    """Each query as it is written, with what it has become before any formula."""
    formats: tuple[tuple[str, float, str], ...] = ()
    """Conditional formats: a comparator, a value and a palette; the first that holds counts."""
    marks: tuple[float, ...] = ()
    """Where a line is drawn across a graph."""
    problem: str = ""
    """Why there is nothing to draw."""


def variables_of(body: Body, picked: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what each variable of a dashboard stands for in a scope: a tag, or ``*``.

    `picked` has the values of those that do not keep their default. Raises :class:`pushmetrics.PushmetricsError` (a
    ValueError) for one that the dashboard does not have.
    """
    picked = picked or {}
    declared = {variable["name"]: variable for variable in body["template_variables"]}
    for name in picked:
        if name not in declared:
            raise InvalidValueError(f"the dashboard has no variable {name!r}; it has: {', '.join(declared)}")
    values = {name: picked.get(name, variable["default"]) for name, variable in declared.items()}
    return {name: value if value == "*" else f"{declared[name]['prefix']}:{value}" for name, value in values.items()}


def evaluate_dashboard(
    body: Body,
    source: Source,
    now: float,
    seconds: float,
    *,
    picked: Mapping[str, str] | None = None,
    strict: bool = True,
) -> list[Panel]:
    """Return the panels of a dashboard over the last `seconds`, in the order in which they are read.

    A point is as wide as a bucket of the source, or as a ``.rollup()`` says. Over longer times Datadog rolls points up
    by itself, to keep a graph below 1500 of them. A query that can not be evaluated raises
    :class:`pushmetrics.errors.QueryError`, or costs its own panel if not `strict`. Raises
    :class:`pushmetrics.PushmetricsError` (a TypeError) for a name or a colour that is no text.
    """
    reader = _Reader(source, now, seconds, variables_of(body, picked), strict=strict)
    return list(reader.panels(body["widgets"], ""))


class _Reader:
    def __init__(
        self, source: Source, now: float, seconds: float, variables: Mapping[str, str], *, strict: bool
    ) -> None:
        self._strict = strict
        self._source = source
        self._now = now
        self._seconds = seconds
        self._variables = variables

    def panels(self, widgets: list[Body], group: str) -> Iterator[Panel]:
        for widget in widgets:
            definition = widget["definition"]
            kind, title = definition["type"], definition.get("title", "")
            if kind == "group":
                yield from self.panels(definition["widgets"], title)
                continue
            if kind == "note":
                yield Panel(kind=kind, title="", group=group)
                continue
            try:
                yield self._panel(definition, kind, title, group)
            except QueryError as error:
                if self._strict:
                    raise
                yield Panel(kind=kind, title=title, group=group, problem=str(error))

    def _panel(self, definition: Body, kind: str, title: str, group: str) -> Panel:
        seconds = self._seconds
        if live := definition.get("time", {}).get("live_span"):
            seconds = int(live[:-1]) * UNIT_SECONDS[live[-1]]
        span = Span.until(self._now, seconds, float(self._source.bucket_seconds))
        layers: list[Layer] = []
        queries: list[tuple[str, Lines]] = []
        for request in definition["requests"]:
            by_name: dict[str, Lines] = {}
            for query in request["queries"]:
                lines = evaluate(parse(query["query"]), self._source, span, variables=self._variables)
                queries.append((query["query"], lines))
                by_name[query["name"]] = reduce(lines, query["aggregator"]) if "aggregator" in query else lines
            layers += self._layers(request, by_name, span, title)
        return Panel(
            kind=kind,
            title=title,
            group=group,
            layers=tuple(layers),
            queries=tuple(queries),
            formats=tuple(
                (_text(condition, "comparator", title), float(condition["value"]), _text(condition, "palette", title))
                for condition in definition["requests"][0].get("conditional_formats", ())
            ),
            marks=tuple(float(marker["value"].removeprefix("y = ")) for marker in definition.get("markers", ())),
        )

    def _layers(self, request: Body, queries: Mapping[str, Lines], span: Span, title: str) -> Iterator[Layer]:
        style = request.get("style", {})
        for formula in request["formulas"]:
            limit = formula.get("limit", {})
            yield Layer(
                label=_text(formula, "alias", title) if "alias" in formula else formula["formula"],
                palette=_text(style, "palette", title) if "palette" in style else "",
                unit=formula.get("number_format", {}).get("unit", {}).get("unit_name", ""),
                lines=evaluate(parse(formula["formula"]), self._source, span, queries=queries),
                order=limit.get("order"),
                most=limit.get("count"),
            )


def _text(body: Body, key: str, title: str) -> str:
    """Return what has to be text; anything else would be found out when there is data to draw, and not before."""
    value = body[key]
    if not isinstance(value, str):
        raise InvalidTypeError(f"{title}: {key}: expected a string, got {shown(value)}")
    return value


def monitor_states(
    body: Body, source: Source, now: float, before: Mapping[Group, State] | None = None
) -> dict[Group, State]:
    """Return the state of each group of a monitor, given those of the evaluation `before`.

    A group that has alerted goes back when its value is behind the recovery threshold, if there is one, else behind the
    threshold itself; one that is missing is what ``on_missing_data`` says
    (https://docs.datadoghq.com/monitors/guide/on_missing_data/). How long Datadog spares a new group is left out.
    """
    query = parse_monitor(body["query"])
    options = body["options"]
    before = before or {}
    states: dict[Group, State] = {}
    for group, value in evaluate_monitor(query, source, now).items():
        states[group] = _state(value, query.comparator, options["thresholds"], before.get(group, "OK"))
    missing: State = "OK" if options["on_missing_data"] == "resolve" else "No Data"
    return {group: missing for group in before if group not in states} | states


def _state(value: float, comparator: str, thresholds: Mapping[str, float], before: State) -> State:
    for state, name in (("Alert", "critical"), ("Warn", "warning")):
        if name not in thresholds:
            continue
        still = before == state and f"{name}_recovery" in thresholds
        if holds(value, comparator, thresholds[f"{name}_recovery" if still else name]):
            return "Alert" if state == "Alert" else "Warn"
    return "OK"


def holds(value: float, comparator: str, threshold: float) -> bool:
    """Return whether a comparison holds: >, >=, < or <=."""
    if comparator.startswith(">"):
        return value > threshold or (comparator == ">=" and value == threshold)
    return value < threshold or (comparator == "<=" and value == threshold)
