"""The templates are what the catalogue says, and each fault that others shipped would be found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pushmetrics.catalog import LEVELS
from pushmetrics.dashboards import Template, load, load_all, schema
from pushmetrics.dashboards.check import problems
from pushmetrics.dashboards.render import render

Fault = Callable[[Any], Any]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("namespace", ["gym.concurrency", "my.limits"])
def test_no_template_has_a_fault(level: str, namespace: str) -> None:
    rendered = render(load_all(), namespace=namespace, level=level)

    assert [problem for template in rendered for problem in problems(template, namespace)] == []


def test_datadogs_own_schema_knows_each_part_of_each_template() -> None:
    assert [problem for template in load_all() for problem in schema.problems(template)] == []


def active(body: Any) -> Any:
    """The request of the graph `Active against limit` that asks for active."""
    return body["widgets"][2]["definition"]["widgets"][1]["definition"]["requests"][0]


def timed_out(body: Any) -> Any:
    """The request that asks for time-outs."""
    return body["widgets"][5]["definition"]["widgets"][2]["definition"]["requests"][0]


def with_query(text: str) -> Fault:
    return lambda body: active(body)["queries"][0].update(query=text)


SCOPE = "$component,$limit_name,$server,$env,$service"
DASHBOARD_FAULTS: list[tuple[Fault, str]] = [
    # terraform-provider-datadog#1162, #3148: export leftovers, `q` beside `queries`, formulas naming no query.
    (lambda body: body.update(id="abc-def-ghi"), "id is left over from an export"),
    (lambda body: body["widgets"][0].update(id=123), "widgets.0.id is left over from an export"),
    (lambda body: body.update(author_handle="me@example.com"), "author_handle is left over"),
    (lambda body: active(body).update(q="sum:a{*}"), "a request has queries, formulas and a response_format, and no q"),
    (lambda body: active(body)["formulas"][0].update(formula="query2"), "names a query query2, and there is none"),
    (lambda body: active(body)["formulas"][0].update(formula="query2"), "no formula names the query active"),
    (lambda body: active(body)["queries"].append(active(body)["queries"][0]), "two of its queries have one name"),
    # documentation#8786, dd-agent#659: a count without .as_count(), an average of a count.
    (
        lambda body: timed_out(body)["queries"][0].update(
            query=f"sum:gym.concurrency.admission_timeouts_total{{{SCOPE}}}"
        ),
        "a count is read with .as_count()",
    ),
    (with_query(f"avg:gym.concurrency.active{{{SCOPE}}}"), "an average over processes says nothing"),
    (with_query(f"sum:gym.concurrency.active{{{SCOPE}}}.as_count()"), ".as_count() is for counts"),
    # documentation#18910: a wildcard behind `$var`; an empty prefix.
    (with_query("sum:gym.concurrency.active{$limit_name*}"), "a variable stands alone in a scope"),
    (with_query("sum:gym.concurrency.active{limit_name:$limit_name}"), "a variable stands alone in a scope"),
    (lambda body: body["template_variables"][1].update(prefix=""), "the variable limit_name lacks a prefix"),
    (lambda body: body["template_variables"][1].pop("default"), "the variable limit_name lacks a prefix, a default"),
    # documentation#35343: tags that the backend rewrites, so that template and code disagree.
    (with_query("sum:gym.concurrency.active{*} by {Limit_Name}"), "has no tag Limit_Name"),
    (with_query("sum:gym.concurrency.active{*} by {worker}"), "has no tag worker"),
    (with_query("sum:pushmetrics.series{limit_name:x}"), "pushmetrics.series has no tag limit_name"),
    (with_query("sum:gym.concurrency.activ{*}"), "gym.concurrency.activ is not in the catalogue"),
    (with_query("sum:gym.concurrency.active{$region}"), "the variable $region is not declared"),
    (with_query("sum:gym.concurrency.active{*} + sum:gym.concurrency.limit{*}"), "arithmetic belongs into a formula"),
    (with_query("sum:gym.concurrency.active"), "a scope such as {*}"),
    (
        lambda body: body["template_variables"].append(
            {"name": "version", "prefix": "version", "available_values": [], "default": "*"}
        ),
        "the variable version is used nowhere",
    ),
    (
        lambda body: active(body)["formulas"][0].pop("number_format"),
        "active has the unit '', the catalogue says 'task'",
    ),
    (
        lambda body: active(body)["formulas"][0]["number_format"]["unit"].update(unit_name="timeout"),
        "active has the unit 'timeout'",
    ),
    (
        lambda body: body["widgets"][2]["definition"]["widgets"][1]["definition"].update(title="Active [tasks]"),
        "carries a unit",
    ),
    (lambda body: body.update(description="mine"), "does not say 'Managed by pushmetrics'"),
    (lambda body: body.pop("layout_type"), "it has no layout_type"),
    (lambda body: body.pop("widgets"), "it has not the form of a dashboard"),
    (lambda body: active(body)["formulas"][0].update(formula="top(active, 3)"), "top() is not in the subset"),
]

MONITOR_FAULTS: list[tuple[Fault, str]] = [
    (lambda body: body.update(id=1), "id is left over from an export"),
    (lambda body: body["options"]["thresholds"].update(critical=5), "its critical threshold is 5, its query says 10"),
    (lambda body: body["options"].update(on_missing_data="default"), "it never recovers"),
    (lambda body: body.update(tags=["team:x"]), "it has not the tag managed_by:pushmetrics"),
    (lambda body: body.update(message=body["message"].replace("**Turn**", "")), "its message has no **Turn**"),
    (lambda body: body.update(message=body["message"] + "{{#is_alert}}"), "a block of its message is not closed"),
    (lambda body: body.update(message=body["message"] + "{{host.name}}"), "its message names host"),
    (lambda body: body.update(query=body["query"].replace(".as_count()", "")), "a count is read with .as_count()"),
    (lambda body: body.update(query="nonsense"), "the query of a monitor begins with"),
]


def damaged(template: Template, fault: Fault) -> Template:
    body = copy.deepcopy(template.body)
    fault(body)
    return replace(template, body=body)


@pytest.mark.parametrize(
    ("name", "fault", "complaint"),
    [
        *(("concurrency_limits", *fault) for fault in DASHBOARD_FAULTS),
        *(("admission_timeouts", *fault) for fault in MONITOR_FAULTS),
    ],
)
def test_each_fault_is_found(name: str, fault: Fault, complaint: str) -> None:
    found = problems(damaged(load(name), fault))

    assert any(complaint in problem for problem in found), found
    assert all(problem.startswith(f"{name}: ") for problem in found)


@pytest.mark.parametrize(
    ("name", "fault", "complaint"),
    [
        ("concurrency_limits", lambda body: body.update(colour="red"), "colour is in none of the models"),
        (
            "concurrency_limits",
            lambda body: active(body)["formulas"][0].update(unit="task"),
            "widgets.2.definition.widgets.1.definition.requests.0.formulas.0.unit is in none of the models",
        ),
        ("concurrency_limits", lambda body: active(body).update(display_type="pie"), "widgets.2.definition fits none"),
        ("concurrency_limits", lambda body: body.update(layout_type="round"), "fits none of the models"),
        ("concurrency_limits", lambda body: body.pop("widgets"), "widgets"),
        (
            "oldest_wait",
            lambda body: body["options"].update(on_missing_data="shrug"),
            "options.on_missing_data fits none",
        ),
        ("oldest_wait", lambda body: body.update(severity=1), "severity is in none of the models"),
    ],
)
def test_what_datadogs_schema_does_not_know_is_found(name: str, fault: Fault, complaint: str) -> None:
    # The client itself refuses none of it: it keeps what it does not understand, and says nothing.
    found = schema.problems(damaged(load(name), fault))

    assert any(complaint in problem for problem in found), found
