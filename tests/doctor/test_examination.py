"""The examination as a whole: what it costs, what is not told apart, and that nothing secret is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pushmetrics.catalog import HEALTH_METRICS
from pushmetrics.doctor.examination import Examination, examine
from pushmetrics.doctor.finding import Finding

ENTITY = "8a3c1b9e-6f0d-4f6c-9f7c-2d1f5e4b3a29"

PROGRAM = """
from pushmetrics import MeteredSemaphore, Registry
registry = Registry()
plain = MeteredSemaphore(1, component="c", limit_name="plain", registry=registry)
timed = MeteredSemaphore(1, component="c", limit_name="timed", admission_timeout=1, registry=registry)
twin = MeteredSemaphore(1, component="c", limit_name="timed", registry=registry)
"""


@pytest.fixture(autouse=True)
def _nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSHMETRICS_SINK", "unix:///nowhere/dsd.socket")


def outlook(examination: Examination) -> dict[str, Finding]:
    return {finding.topic: finding for finding in examination.outlook}


def test_what_a_limit_costs_is_what_the_readme_says(monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (\d+) \| \d+ \| (\d+) \|$", readme, re.MULTILINE)
    cost = {level: f"{least} to {most}" for level, least, most in rows}
    monkeypatch.setenv("PUSHMETRICS_LEVEL", "full")

    text = outlook(examine())["custom metrics"].text

    assert text == (
        f"Each limit {cost['full']} at full (core {cost['core']}, standard {cost['standard']}), "
        f"the reporter {len(HEALTH_METRICS)}, in each process."
    )


def test_what_the_limits_of_a_program_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program_of_cost.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    examination = examine("program_of_cost:registry")

    assert [finding.text for finding in examination.limits] == ["c plain", "c timed"]
    standard, core, full = (11 + 12 + 6, 5 + 6 + 6, 16 + 17 + 6)  # As the README's table has it.
    assert outlook(examination)["custom metrics"].text == (
        f"{standard} at standard (core {core}, full {full}) in each process, the reporter's 6 included."
    )


@pytest.mark.parametrize(
    ("variables", "mark", "said"),
    [
        ({}, "note", "PUSHMETRICS_CONSTANT_TAGS=instance:a"),
        ({"DD_EXTERNAL_ENV": "cn-app"}, "note", "DD_CARDINALITY=orchestrator"),
        ({"DD_ENTITY_ID": ENTITY, "DD_CARDINALITY": "low"}, "note", "DD_CARDINALITY=orchestrator"),
        ({"DD_EXTERNAL_ENV": "cn-app", "DD_CARDINALITY": "orchestrator"}, "", "told apart"),
        ({"DD_EXTERNAL_ENV": "cn-app", "DD_CARDINALITY": "high"}, "", "told apart"),
        ({"DD_CARDINALITY": "high"}, "note", "PUSHMETRICS_CONSTANT_TAGS=instance:a"),
    ],
)
def test_who_is_not_told_apart(
    variables: dict[str, str], mark: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    finding = outlook(examine())["shared Agent"]

    assert finding.mark == mark
    assert said in " ".join((finding.text, *finding.details))


def test_nothing_is_sent_where_reporting_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSHMETRICS_ENABLED", "0")

    examination = examine()

    assert [finding.topic for finding in examination.agent] == ["address"]
    assert examination.marked("wrong") == ["reporting"]


SECRET = "hunter2"
KEY = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PUSHMETRICS_SINK", f"udp://me:{SECRET}@agent:8125"),
        ("PUSHMETRICS_SINK", f"udp://me:my {SECRET}/x@agent:8125"),
        ("PUSHMETRICS_SINK", f"me:{SECRET}@agent"),
        ("DD_DOGSTATSD_URL", f"https://api.datadoghq.com/?api_key={SECRET}&x=y"),
        ("DD_DOGSTATSD_URL", f"https://api.datadoghq.com/{KEY}"),
        ("DD_AGENT_HOST", f"me:{SECRET}@agent"),
        ("DD_DOGSTATSD_PORT", f"token={SECRET}"),
        ("PUSHMETRICS_CONSTANT_TAGS", f"api_key:{SECRET},password:{SECRET}"),
        ("PUSHMETRICS_CONSTANT_TAGS", KEY),
        ("PUSHMETRICS_CONSTANT_TAGS", f"host:{KEY}"),
        ("PUSHMETRICS_NAMESPACE", f"x{KEY}"),
        ("PUSHMETRICS_WORKER", KEY),
        ("DATADOG_TAGS", f"secret:{SECRET}"),
        ("DD_ENV", KEY),
        ("DD_API_KEY", KEY),
        ("DD_CARDINALITY", KEY.upper()),
    ],
)
def test_no_secret_is_shown(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if variable != "PUSHMETRICS_SINK":
        monkeypatch.setenv("PUSHMETRICS_ENABLED", "0")
        monkeypatch.delenv("PUSHMETRICS_SINK")
    monkeypatch.setenv(variable, value)

    shown = str(examine())

    assert SECRET not in shown
    assert KEY not in shown.lower()
    assert ("***" in shown) == (variable != "DD_API_KEY")


def test_what_could_harm_a_terminal_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding("t", "a\x1b[2Jb\n\tc\u202ed", details=("\x07", "x" * 3)).harmless()

    assert finding.text == "a?[2Jb c?d"
    assert finding.details == ("?", "xxx")
