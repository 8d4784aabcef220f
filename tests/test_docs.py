"""What the README and the pages say of the code: tables are the code's, and examples run."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pushmetrics import MeteredSemaphore, Registry
from pushmetrics.catalog import COUNT, DISTRIBUTION, HEALTH_METRICS, HEALTH_NAMESPACE, LEVELS, LIMIT_METRICS
from pushmetrics.dashboards import load, load_all
from pushmetrics.dashboards.check import catalogue
from pushmetrics.integrations import nemo_gym
from pushmetrics.query import Metric, metrics_of, parse_monitor
from pushmetrics.settings import reporter_settings
from pushmetrics.watching.families import CLASSES

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PRODUCTION = (DOCS / "production.md").read_text(encoding="utf-8")
WATCHING = (DOCS / "watching.md").read_text(encoding="utf-8")
EXAMPLES = {
    f"{page}-{number}": example
    for page, text in {"README": README, "production": PRODUCTION, "watching": WATCHING}.items()
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
}
KINDS = {"g": "gauge", "c": "count", "d": "distribution"}
TIMESERIES_OF_A_DISTRIBUTION = 5
"""count, sum, min, max and avg, https://docs.datadoghq.com/account_management/billing/custom_metrics/"""


def table_under(heading: str) -> Iterator[list[str]]:
    """The rows of the first table under a heading, without its own two."""
    section = README.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    for row in rows[2:]:
        yield [cell.strip() for cell in row.strip("|").split("|")]


def test_the_table_of_metrics_is_the_catalogue() -> None:
    catalogue = [
        [level, f"`{metric.name}`", KINDS[metric.kind], metric.unit, metric.description]
        for level in LEVELS
        for metric in LIMIT_METRICS[level]
    ]

    assert list(table_under("What a limit reports")) == catalogue


def test_the_health_metrics_are_all_named() -> None:
    for metric in HEALTH_METRICS:
        assert f"`{HEALTH_NAMESPACE}.{metric.name}`" in README


def test_the_costs_are_what_a_limit_really_sends() -> None:
    kinds_of_limits = [{}, {"admission_timeout": 1.0}, {"admission_timeout": 1.0, "max_queue_depth": 5}]
    expected = []
    for level in LEVELS:
        row = [level]
        for options in kinds_of_limits:
            registry = Registry()
            limit = MeteredSemaphore(1, component="c", limit_name="l", registry=registry, **options)  # type: ignore[arg-type]  # Of two types.
            (sample,) = registry.collect(level)
            names = len(sample.descriptor.names)
            distributions = sample.descriptor.kinds.count(DISTRIBUTION)
            row.append(str(names + distributions * (TIMESERIES_OF_A_DISTRIBUTION - 1)))
            assert limit in registry
        expected.append(row)

    assert list(table_under("What it costs in custom metrics")) == expected


def test_the_table_of_settings_names_each_variable_and_default() -> None:
    defaults = reporter_settings(environ={})
    rows = {variable.strip("`"): default.strip("`") for _, variable, default, _ in table_under("Settings")}

    assert rows["PUSHMETRICS_FLUSH_INTERVAL"] == f"{defaults.flush_interval:g}"
    assert rows["PUSHMETRICS_NAMESPACE"] == defaults.namespace
    assert rows["PUSHMETRICS_LEVEL"] == defaults.level
    assert rows["PUSHMETRICS_WORKER"] == defaults.worker
    assert {f"PUSHMETRICS_{name.upper()}" for name in defaults.sources} <= set(rows)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_runs(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    if "async def test_" in example:
        function = re.findall(r"async def (test_\w+)", example)[0]
        example = f"import asyncio\n{example}\nasyncio.run({function}())\n"
    elif "# before" in example:
        imports = "import asyncio\nfrom pushmetrics import MeteredSemaphore"
        example = f"{imports}\nasync def main():\n{textwrap.indent(example, '    ')}\nasyncio.run(main())\n"
    # The first of them reports to an Agent that is not there, which must cost the program nothing.
    finished = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", example],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        cwd=tmp_path,
    )

    assert finished.returncode == 0, finished.stderr


class TestThePageOnNemoGym:
    PAGE = (DOCS / "concurrency-limit-metrics.md").read_text(encoding="utf-8")

    def test_it_has_each_name_that_the_integration_gives(self) -> None:
        for component, limit_name in {(component, name) for (component, _), name in nemo_gym.LIMIT_NAMES.items()}:
            assert f"| `{component}` | `{limit_name}` |" in self.PAGE

    def test_its_example_is_the_capture_of_a_real_run(self) -> None:
        (quoted,) = re.findall(r"```text\n(.*?)```", self.PAGE, re.DOTALL)

        assert quoted == (DOCS / "nemo-gym-capture.txt").read_text(encoding="utf-8")


def test_the_page_on_watching_has_each_class() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \|", WATCHING, re.MULTILINE)

    assert sorted(rows) == sorted(CLASSES)


class TestThePageOnProduction:
    ALERTS = re.findall(r"^\| [^|]+ \| `([^`]+)` \| ([^|]+) \| (?:`(\w+)` )?\|$", PRODUCTION, re.MULTILINE)
    """Of each alert the query, the threshold, and the template, "" if there is none."""

    def test_its_queries_name_metrics_that_are_there_and_count_counts(self) -> None:
        for query, *_ in self.ALERTS:
            metrics = list(metrics_of(parse_monitor(f"{query} > 0").expression))
            assert metrics
            for metric in metrics:
                assert (catalogue()[metric.name].kind is COUNT) == (metric.modifier == "as_count"), query

    @pytest.mark.parametrize("monitor", [one.name for one in load_all() if one.kind == "monitor"])
    def test_it_has_each_monitor_with_its_threshold(self, monitor: str) -> None:
        ((query, threshold),) = [
            (query, threshold) for query, threshold, template in self.ALERTS if template == monitor
        ]
        compared = re.match(r"`([<>=]+ [\d.]+)`", threshold)
        assert compared
        ours, its = parse_monitor(f"{query} {compared[1]}"), parse_monitor(load(monitor).body["query"])

        assert isinstance(ours.expression, Metric)
        assert isinstance(its.expression, Metric)
        assert its.expression.by == (*ours.expression.by, "env", "service")
        assert replace(ours, expression=replace(ours.expression, by=its.expression.by)) == its
