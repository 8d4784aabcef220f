"""Templates for another namespace and another level."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pushmetrics
from pushmetrics.catalog import HEALTH_NAMESPACE, LEVELS, metrics_at
from pushmetrics.dashboards import load, load_all, names
from pushmetrics.dashboards.render import render
from pushmetrics.dashboards.templates import folder
from pushmetrics.dashboards.widgets import definitions, queries
from pushmetrics.errors import InvalidTypeError, InvalidValueError, PushmetricsError
from pushmetrics.query import metrics_of, parse


def test_all_templates_are_found_by_their_names() -> None:
    assert names()[:2] == ["concurrency_limits", "limit_detail"]
    assert {load(name).kind for name in names()[2:]} == {"monitor"}
    assert len(names()) == len(set(names())) == 7


def test_templates_come_with_the_package_or_with_its_checkout() -> None:
    package = Path(pushmetrics.__file__).parent

    assert folder() in {package / "_dashboards", package.parent / "dashboards"}
    assert (folder() / "metadata.csv").is_file()


def test_an_unknown_template_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(
        InvalidValueError, match=r"no template '\.\./secrets'; these are: concurrency_limits, limit_detail"
    ):
        load("../secrets")


@pytest.mark.parametrize("level", LEVELS)
def test_no_widget_asks_for_what_a_level_does_not_send(level: str) -> None:
    sent = {f"my.limits.{metric.name}" for metric in metrics_at(level)}
    for template in render(load_all(), namespace="my.limits", level=level):
        if template.kind == "dashboard":
            asked = {metric.name for _, query in queries(template.body) for metric in metrics_of(parse(query))}
            assert asked
            assert {name for name in asked if not name.startswith(f"{HEALTH_NAMESPACE}.")} <= sent
            groups = [one for one in definitions(template.body["widgets"]) if one["type"] == "group"]
            assert groups
            assert all({inner["definition"]["type"] for inner in one["widgets"]} != {"note"} for one in groups)


def test_the_levels_differ_in_what_they_show() -> None:
    shown = {
        level: {
            definition.get("title")
            for template in render(load_all()[:2], level=level)
            for definition in definitions(template.body["widgets"])
        }
        for level in LEVELS
    }

    assert shown["full"] - shown["standard"] >= {"Waits of all (level full)", "Longest wait, by limit"}
    assert shown["standard"] - shown["core"] >= {"Peaks", "Oldest wait", "Share of time contended", "Admissions"}
    assert shown["core"] >= {"Wanted of each slot, active and queued", "Active against limit", "Ended without a slot"}


def test_as_they_are_they_are_rendered_for_the_defaults() -> None:
    assert render(load_all()) == load_all()


@pytest.mark.parametrize("level", LEVELS)
def test_no_widget_overlaps_another_or_leaves_the_page(level: str) -> None:
    for template in render(load_all()[:2], level=level):
        pages = [template.body["widgets"]]
        pages += [one["widgets"] for one in definitions(template.body["widgets"]) if one["type"] == "group"]
        for widgets in pages:
            cells = [
                (layout["x"] + column, layout["y"] + row)
                for layout in (widget["layout"] for widget in widgets)
                for column in range(layout["width"])
                for row in range(layout["height"])
            ]
            assert len(cells) == len(set(cells))
            assert max(column for column, _ in cells) < 12


def test_nothing_is_left_of_the_default_namespace() -> None:
    text = json.dumps([template.body for template in render(load_all(), namespace="my.limits")])

    assert "gym" not in text
    assert "Concurrency limits (my.limits)" in text


def test_a_namespace_is_put_into_datadogs_form_as_a_reporter_does() -> None:
    (template,) = render([load("limit_saturated")], namespace="my app/é")

    assert "sum:my_app.queue_depth{*}" in template.body["query"].replace("__", "_").replace("_.", ".")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"level": "all"}, "a level is one of core, standard, full, got 'all'"),
        ({"namespace": "é"}, "nothing of 'é' is left as a metric name"),
        ({"namespace": 3}, "expected a string"),
        ({"notify": ["oncall"]}, "a handle is one such as @slack-oncall"),
        ({"notify": ["@a}} {{b"]}, "a handle is one such as @slack-oncall"),
    ],
)
def test_a_bad_argument_is_an_error(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(PushmetricsError, match=complaint) as caught:
        render(load_all(), **options)  # type: ignore[arg-type]  # What is wrong on purpose.

    assert isinstance(caught.value, (InvalidTypeError, InvalidValueError))
