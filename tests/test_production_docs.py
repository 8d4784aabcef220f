"""What docs/production.md says of the code: its examples run, and its queries are what the templates ask."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pushmetrics.catalog import COUNT
from pushmetrics.dashboards import load, load_all
from pushmetrics.dashboards.check import catalogue
from pushmetrics.query import Metric, metrics_of, parse_monitor

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "production.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ALERTS = re.findall(r"^\| [^|]+ \| `([^`]+)` \| ([^|]+) \| (?:`(\w+)` )?\|$", PAGE, re.MULTILINE)
"""Of each alert the query, the threshold, and the template, "" if there is none."""


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_each_example_runs(number: int, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLES[number]],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        cwd=tmp_path,
    )

    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("query", [query for query, *_ in ALERTS])
def test_each_query_names_metrics_that_are_there_and_counts_counts(query: str) -> None:
    metrics = list(metrics_of(parse_monitor(f"{query} > 0").expression))

    assert metrics
    for metric in metrics:
        assert (catalogue()[metric.name].kind is COUNT) == (metric.modifier == "as_count")


@pytest.mark.parametrize("monitor", [one.name for one in load_all() if one.kind == "monitor"])
def test_each_monitor_is_there_with_its_threshold(monitor: str) -> None:
    ((query, threshold),) = [(query, threshold) for query, threshold, template in ALERTS if template == monitor]
    compared = re.match(r"`([<>=]+ [\d.]+)`", threshold)
    assert compared
    ours, its = parse_monitor(f"{query} {compared[1]}"), parse_monitor(load(monitor).body["query"])

    assert isinstance(ours.expression, Metric)
    assert isinstance(its.expression, Metric)
    assert its.expression.by == (*ours.expression.by, "env", "service")
    assert replace(ours, expression=replace(ours.expression, by=its.expression.by)) == its
