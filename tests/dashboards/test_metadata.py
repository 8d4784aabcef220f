"""metadata.csv is what the catalogue says, and each fault in it would be found."""

from __future__ import annotations

import csv
import io

import pytest

from pushmetrics.catalog import COUNT, DISTRIBUTION, GAUGE
from pushmetrics.dashboards.check import catalogue
from pushmetrics.dashboards.templates import folder

METADATA = (folder() / "metadata.csv").read_text(encoding="utf-8")

COLUMNS = [
    "metric_name",
    "metric_type",
    "interval",
    "unit_name",
    "per_unit_name",
    "description",
    "orientation",
    "integration",
    "short_name",
    "curated_metric",
    "sample_tags",
]
"""https://docs.datadoghq.com/developers/integrations/check_references/#metrics-metadata-file"""

TYPES = {GAUGE: "gauge", COUNT: "count", DISTRIBUTION: "gauge"}  # Their list has no distribution.


def problems(text: str) -> list[str]:
    """Return what is wrong with the text of a metadata.csv of the default namespace."""
    rows = list(csv.DictReader(io.StringIO(text)))
    expected = catalogue()
    found = []
    if not rows or list(rows[0]) != COLUMNS:
        return [f"its columns are {','.join(COLUMNS)}"]
    if [row["metric_name"] for row in rows] != list(expected):
        found.append("it lists the metrics of the catalogue, each once and in its order")
    for row in rows:
        metric = expected.get(row["metric_name"])
        if metric is None:
            continue
        wanted = {
            "metric_type": TYPES[metric.kind],
            "unit_name": metric.unit,
            "description": metric.description,
        }
        found += [
            f"{row['metric_name']} has the {column} {row[column]!r}, the catalogue says {value!r}"
            for column, value in wanted.items()
            if row[column] != value
        ]
        if row["orientation"] not in {"-1", "0", "1"}:
            found.append(f"{row['metric_name']} has the orientation {row['orientation']!r}")
        if not row["description"].isascii() or "|" in row["description"] or len(row["description"]) > 400:
            found.append(f"{row['metric_name']}: a description is ASCII, has no | and 400 characters")
    return found


def test_it_is_the_catalogue() -> None:
    assert problems(METADATA) == []


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("metric_name", "name", "its columns are metric_name,"),
        ("gym.concurrency.limit,", "gym.concurrency.limits,", "it lists the metrics of the catalogue"),
        ("limit,gauge,10,task", "limit,count,10,task", "gym.concurrency.limit has the metric_type 'count'"),
        ("limit,gauge,10,task", "limit,gauge,10,slot", "gym.concurrency.limit has the unit_name 'slot'"),
        ("Configured slots.", "Slots.", "gym.concurrency.limit has the description 'Slots.'"),
        ("Configured slots.,0", "Configured slots.,2", "gym.concurrency.limit has the orientation '2'"),
        ("Configured slots.", "Configured | slots…", "a description is ASCII"),
    ],
)
def test_each_fault_of_the_metadata_is_found(before: str, after: str, complaint: str) -> None:
    assert before in METADATA

    assert any(complaint in problem for problem in problems(METADATA.replace(before, after, 1)))
