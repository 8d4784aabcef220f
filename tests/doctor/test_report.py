"""The report: a screen of text, at any width, and the verdict at its end."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from pushmetrics.doctor.examination import Examination
from pushmetrics.doctor.finding import Finding, Mark
from pushmetrics.doctor.report import write_report

PATH = "/var/run/datadog/" + "long-name-" * 12

SETTINGS = (
    Finding("level", "standard", "default"),
    Finding("constant tags", "team:search, region:東京", "PUSHMETRICS_CONSTANT_TAGS"),
    Finding("address", f"unix://{PATH}", "DD_DOGSTATSD_URL"),
)


def examination(*agent: Finding, limits: int = 0) -> Examination:
    listed = tuple(Finding("", f"api limit_{number}", f"limit {number}") for number in range(limits))
    return Examination(SETTINGS, agent, (), listed, ())


def listener(mark: Mark) -> Finding:
    return Finding("listener", "What was found.", mark=mark, details=("What to do about it.",))


def written(found: Examination, encoding: str = "utf-8") -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    write_report(found, stream)
    stream.seek(0)
    return stream.read().splitlines()


def test_the_lines_of_a_pipe() -> None:
    lines = written(examination(listener("wrong"), limits=12))

    assert lines[2] == "       level           standard" + "default".rjust(80 - 31)
    assert "wrong  listener        What was found." in lines
    assert lines[lines.index("wrong  listener        What was found.") + 1].strip() == "What to do about it."
    assert sum("api limit_" in line for line in lines) == 12
    assert lines[-2:] == ["", "Wrong: listener."]
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 300])
def test_at_any_width_nothing_is_lost(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    lines = written(examination(listener("ok")))

    assert max(map(cell_len, lines)) <= max(40, min(100, columns))
    text = "".join("".join(lines).split())
    for finding in (*SETTINGS, listener("ok")):
        for part in (*finding[:3], *finding.details):
            assert "".join(part.split()) in text


@pytest.mark.parametrize(
    ("agent", "verdict"),
    [
        ((listener("ok"),), "Nothing is wrong: what a program pushes from here is taken."),
        ((listener("note"),), "Nothing is wrong that can be seen from here."),
        ((listener("wrong"), Finding("variable", "x", mark="wrong"), Finding("variable", "y", mark="wrong")), None),
        ((listener("ok"), Finding("level", "x", mark="note")), "Nothing is wrong: what a program"),
    ],
)
def test_the_verdict(agent: tuple[Finding, ...], verdict: str | None) -> None:
    assert written(examination(*agent))[-1].startswith(verdict or "Wrong: listener, variable.")


def test_a_stream_that_has_no_such_letters() -> None:
    assert any("region:??" in line for line in written(examination(), "ascii"))
