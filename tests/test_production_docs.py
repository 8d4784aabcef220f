"""What docs/production.md says of the code: its examples run, and the metrics that it names are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pushmetrics.catalog import COUNT, HEALTH_METRICS, HEALTH_NAMESPACE, LIMIT_METRICS
from pushmetrics.settings import DEFAULT_NAMESPACE

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "production.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
METRICS = {f"{DEFAULT_NAMESPACE}.{metric.name}": metric for metrics in LIMIT_METRICS.values() for metric in metrics} | {
    f"{HEALTH_NAMESPACE}.{metric.name}": metric for metric in HEALTH_METRICS
}
QUERIES = re.findall(r"`(\w+\(last_\w+\):[^`]+)`", PAGE)


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


def test_the_queries_name_metrics_that_are_there_and_count_counts() -> None:
    assert len(QUERIES) == 10
    for query in QUERIES:
        names = re.findall(r":((?:gym|pushmetrics)[\w.]+)\{", query)
        assert names
        for name in names:
            assert (METRICS[name].kind is COUNT) == query.endswith(".as_count()"), query
