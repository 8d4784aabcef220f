"""Templates against the catalogue, and against what others got wrong. Each check yields what is wrong, as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ..catalog import COUNT, DISTRIBUTION, HEALTH_METRICS, HEALTH_NAMESPACE, Metric, metrics_at
from ..errors import QueryError
from ..query import Expression, MonitorQuery, metrics_of, parse, parse_monitor
from ..query import Metric as Query
from ..query.expressions import Reference, references_of
from ..settings import DEFAULT_NAMESPACE
from .templates import Body, Template
from .widgets import definitions, requests

LIMIT_TAGS = ("component", "limit_name", "server")
ALL_TAGS = ("env", "service")
"""What constant tags, or the Agent, may add to every metric."""

LEFT_OVER = {
    "author_handle",
    "author_name",
    "created",
    "created_at",
    "creator",
    "id",
    "is_read_only",
    "modified",
    "modified_at",
    "notify_list",
    "org_id",
    "overall_state",
    "restricted_roles",
    "url",
}
"""What an export has and a template may not."""

MANAGED_TAG = "managed_by:pushmetrics"
MANAGED_MARK = "Managed by pushmetrics"
"""In the description of a dashboard: its tags may be nothing but teams (https://docs.datadoghq.com/api/latest/dashboards/)."""

_UNIT_IN_TITLE = re.compile(
    r"%|\b(ms|milliseconds?|seconds?|sec|percent|tasks?|timeouts?|errors?|/s)\b|\[.*\]", re.IGNORECASE
)
_WILDCARD = re.compile(r"\$\w+\*|:\$")


def catalogue(namespace: str = DEFAULT_NAMESPACE) -> dict[str, Metric]:
    """Return each metric that may be sent under a namespace, by its whole name."""
    found = {f"{namespace}.{metric.name}": metric for metric in metrics_at("full")}
    return found | {f"{HEALTH_NAMESPACE}.{metric.name}": metric for metric in HEALTH_METRICS}


def problems(template: Template, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
    """Return what is wrong with a template, each with the place where it is; an empty list if nothing is."""
    check = _dashboard if template.kind == "dashboard" else _monitor
    try:
        found = [*_left_over(template.body, ""), *check(template.body, namespace)]
    except (KeyError, TypeError, AttributeError) as error:
        found = [f"it has not the form of a {template.kind}: {type(error).__name__} {error}"]
    return [f"{template.name}: {problem}" for problem in found]


def _left_over(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in LEFT_OVER:
                yield f"{path}{key} is left over from an export"
            yield from _left_over(item, f"{path}{key}.")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _left_over(item, f"{path}{number}.")


# Dashboards.


def _dashboard(body: Body, namespace: str) -> Iterator[str]:
    for field in ("title", "description", "layout_type", "template_variables", "widgets"):
        if not body.get(field):
            yield f"it has no {field}"
    if MANAGED_MARK not in body["description"]:
        yield f"its description does not say {MANAGED_MARK!r}, by which push finds it again"
    declared = {variable["name"]: variable for variable in body["template_variables"]}
    used: set[str] = set()
    for variable in declared.values():
        if not (variable.get("prefix") and variable.get("default") and "available_values" in variable):
            yield f"the variable {variable['name']} lacks a prefix, a default or available_values"
        if variable.get("prefix") not in (*LIMIT_TAGS, *ALL_TAGS):
            yield f"the variable {variable['name']} has a prefix that is no tag of ours"
    for definition in definitions(body["widgets"]):
        if _UNIT_IN_TITLE.search(str(definition.get("title", ""))):
            yield f"the title {definition['title']!r} carries a unit; a unit belongs into number_format"
    for title, request in requests(body):
        for problem in _request(request, namespace, declared, used):
            yield f"{title}: {problem}"
    for name in sorted(declared.keys() - used):
        yield f"the variable {name} is used nowhere"


def _request(request: Body, namespace: str, declared: dict[str, Body], used: set[str]) -> Iterator[str]:
    if "q" in request or not {"queries", "formulas", "response_format"} <= request.keys():
        yield "a request has queries, formulas and a response_format, and no q"
        return
    by_name: dict[str, Query] = {}
    for query in request["queries"]:
        if _WILDCARD.search(query["query"]):
            yield f"{query['query']}: a variable stands alone in a scope: no key before it, no wildcard behind it"
        try:
            expression = parse(query["query"])
        except QueryError as error:
            yield str(error)
            continue
        if not isinstance(expression, Query):
            yield f"{query['query']}: arithmetic belongs into a formula"
            continue
        by_name[query["name"]] = expression
        used.update(item[1:] for item in expression.scope if item.startswith("$"))
        yield from _metric(expression, namespace, declared)
        if request["response_format"] == "scalar" and "aggregator" not in query:
            yield f"{query['name']}: a scalar needs an aggregator"
    if len({query["name"] for query in request["queries"]}) < len(request["queries"]):
        yield "two of its queries have one name"
    yield from _formulas(request["formulas"], by_name, namespace)


def _formulas(formulas: Sequence[Body], queries: dict[str, Query], namespace: str) -> Iterator[str]:
    named: set[str] = set()
    for formula in formulas:
        try:
            expression = parse(formula["formula"])
        except QueryError as error:
            yield str(error)
            continue
        named.update(references_of(expression))
        yield from _unit(formula, expression, queries, namespace)
    for name in sorted(named - queries.keys()):
        yield f"a formula names a query {name}, and there is none"
    for name in sorted(queries.keys() - named):
        yield f"no formula names the query {name}"


def _unit(formula: Body, expression: Expression, queries: dict[str, Query], namespace: str) -> Iterator[str]:
    unit = formula.get("number_format", {}).get("unit", {}).get("unit_name", "")
    if isinstance(expression, Reference):
        query = queries.get(expression.name)
        metric = catalogue(namespace).get(query.name) if query else None
        if metric is not None and unit != metric.unit:
            yield f"{formula['formula']} has the unit {unit!r}, the catalogue says {metric.unit!r}"
    elif not unit:
        yield f"{formula['formula']} has no unit"


def _metric(query: Query, namespace: str, declared: dict[str, Body]) -> Iterator[str]:
    """Check one query: its name, its tags, and that it is read as its kind has to be."""
    metric = catalogue(namespace).get(query.name)
    if metric is None:
        yield f"{query.name} is not in the catalogue"
        return
    of_limit = not query.name.startswith(f"{HEALTH_NAMESPACE}.")
    allowed = (*LIMIT_TAGS, *ALL_TAGS) if of_limit else ALL_TAGS
    keys = [*query.by]
    for item in query.scope:
        if not item.startswith("$"):
            keys.append(item.lstrip("!").partition(":")[0])
        elif item[1:] in declared:
            keys.append(declared[item[1:]].get("prefix", ""))
        else:
            yield f"{query}: the variable {item} is not declared"
    for key in keys:
        if key not in allowed:
            yield f"{query}: {query.name} has no tag {key}"
    if metric.kind == COUNT and query.modifier is None:
        yield f"{query}: a count is read with .as_count() or, as a share of time, with .as_rate()"
    if metric.kind != COUNT and query.modifier is not None:
        yield f"{query}: .{query.modifier}() is for counts"
    if query.aggregator == "avg" and metric.kind != DISTRIBUTION:
        yield f"{query}: an average over processes says nothing; take sum or max"


# Monitors.


def _monitor(body: Body, namespace: str) -> Iterator[str]:
    for field in ("name", "type", "query", "message", "options", "tags"):
        if not body.get(field):
            yield f"it has no {field}"
    if MANAGED_TAG not in body["tags"]:
        yield f"it has not the tag {MANAGED_TAG}, by which push finds it again"
    try:
        query = parse_monitor(body["query"])
    except QueryError as error:
        yield str(error)
        return
    for metric in metrics_of(query.expression):
        yield from _metric(metric, namespace, {})
    yield from _options(body, query)
    yield from _message(str(body["message"]), query)


def _options(body: Body, query: MonitorQuery) -> Iterator[str]:
    thresholds = body["options"].get("thresholds", {})
    if thresholds.get("critical") != query.threshold:
        yield f"its critical threshold is {thresholds.get('critical')}, its query says {query.threshold:g}"
    if body["options"].get("on_missing_data") not in {"resolve", "show_and_notify_no_data"}:
        yield "on_missing_data is neither resolve nor show_and_notify_no_data: when the series ends, it never recovers"


def _message(message: str, query: MonitorQuery) -> Iterator[str]:
    for part in ("**Wrong**", "**Look**", "**Turn**", "{{#is_recovery}}"):
        if part not in message:
            yield f"its message has no {part}"
    opened = re.findall(r"\{\{[#^](\w+)\}\}", message)
    if Counter(opened) != Counter(re.findall(r"\{\{/(\w+)\}\}", message)):
        yield "a block of its message is not closed"
    keys = {key for metric in metrics_of(query.expression) for key in metric.by}
    for key in re.findall(r"\{\{(\w+)\.name\}\}", message):
        if key not in keys:
            yield f"its message names {key}, by which it is not grouped"
