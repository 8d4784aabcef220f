"""``pushmetrics dashboards``: what it lists, renders and finds. Pushing and showing have tests of their own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pushmetrics import cli
from pushmetrics.dashboards import check, load, load_all, names
from pushmetrics.dashboards.render import render

DASHBOARDS_README = Path(__file__).resolve().parents[1] / "dashboards" / "README.md"


def run(*arguments: str, **variables: str) -> Result:
    return CliRunner(env=variables).invoke(cli.command_line(), ["dashboards", *arguments], prog_name="pushmetrics")


def test_each_template_is_listed_with_its_title() -> None:
    lines = run("list").output.splitlines()

    assert [line.split()[:2] for line in lines] == [[one.name, one.kind] for one in load_all()]
    assert all(line.endswith(one.title) for line, one in zip(lines, load_all(), strict=True))


def test_a_template_is_printed_for_a_namespace_and_a_level() -> None:
    result = run("render", "limit_detail", "--namespace", "my.limits", "--level", "core")

    assert result.exit_code == 0
    (expected,) = render([load("limit_detail")], namespace="my.limits", level="core")
    assert json.loads(result.output) == expected.body


def test_the_reporters_own_variables_count_too() -> None:
    result = run("render", "limit_detail", PUSHMETRICS_NAMESPACE="my.limits", PUSHMETRICS_LEVEL="core")

    assert result.output == run("render", "limit_detail", "--namespace", "my.limits", "--level", "core").output


def test_all_templates_are_written_into_a_folder(tmp_path: Path) -> None:
    result = run("render", "--output", str(tmp_path / "new"), "--notify", "@me")

    assert result.exit_code == 0
    written = {path.relative_to(tmp_path / "new").as_posix() for path in tmp_path.rglob("*.json")}
    assert written == {f"{'monitors/' * (load(name).kind == 'monitor')}{name}.json" for name in names()}
    monitor = json.loads((tmp_path / "new" / "monitors" / "oldest_wait.json").read_text(encoding="utf-8"))
    assert monitor["message"].endswith("\n@me")


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["render"], 2, "7 templates can not be printed at once; say --output FOLDER."),
        (["render", "oldest_wait", "--level", "core"], 1, "at the level core nothing of oldest_wait is sent"),
        (["validate", "no_such_file.json"], 1, "no_such_file.json"),
        (["render", "nothing"], 1, "there is no template 'nothing'; these are: concurrency_limits"),
        (["render", "oldest_wait", "--notify", "me"], 1, "a handle is one such as @slack-oncall"),
        (["render", "oldest_wait", "--namespace", "é"], 1, "nothing of 'é' is left as a metric name"),
        (["validate", "--level", "all"], 2, "'all' is not one of 'core', 'standard', 'full'"),
    ],
)
def test_what_can_not_be_done_is_an_error(arguments: list[str], status: int, complaint: str) -> None:
    result = run(*arguments)

    assert result.exit_code == status
    assert complaint in result.output
    assert "Traceback" not in result.output


def test_what_is_good_is_said_to_be() -> None:
    result = run("validate", "--namespace", "my.limits")

    assert result.exit_code == 0
    assert result.output.splitlines() == [f"{name}: good" for name in names()]


def test_a_file_of_ones_own_is_taken_as_it_is(tmp_path: Path) -> None:
    run("render", "oldest_wait", "--namespace", "my.limits", "--output", str(tmp_path))
    path = tmp_path / "monitors" / "oldest_wait.json"
    path.write_text(path.read_text(encoding="utf-8").replace("30000", "5000"), encoding="utf-8")

    assert run("validate", str(path), "--namespace", "my.limits").output == "oldest_wait: good\n"
    assert "my.limits.oldest_wait_ms is not in the catalogue" in run("validate", str(path)).output


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "mine.json is no JSON: "),
        ("[" * 100_000, "mine.json is no JSON: "),
        ('{"title": "x", "widgets": [NaN]}', "mine.json is no JSON: NaN is no number"),
        ('{"title": "\\ud800", "widgets": []}', "mine.json is no JSON: "),
        ("[]", "mine.json is no dashboard, with a title and widgets, and no monitor"),
        ('{"title": "x"}', "mine.json is no dashboard"),
        ('{"title": "x", "widgets": 3}', "it has not the form of a dashboard"),
        ('{"name": "x", "query": 3}', "it has not the form of a monitor"),
    ],
)
def test_a_file_that_is_no_template_is_an_error(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text, encoding="utf-8")

    result = run("validate", str(path))

    assert result.exit_code == 1
    assert complaint in result.output
    assert "Traceback" not in result.output


def test_what_is_wrong_is_said_and_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "MANAGED_TAG", "managed_by:nobody")

    result = run("validate", "limit_detail", "oldest_wait")

    assert result.exit_code == 1
    assert "limit_detail: good\n" in result.output
    assert "oldest_wait: it has not the tag managed_by:nobody" in result.output


class TestThePapers:
    def test_the_readme_names_each_template(self) -> None:
        rows = re.findall(r"^\| `(\w+)` \|", DASHBOARDS_README.read_text(encoding="utf-8"), re.MULTILINE)

        assert sorted(rows) == sorted(names())

    def test_the_readme_names_commands_that_there_are(self) -> None:
        text = DASHBOARDS_README.read_text(encoding="utf-8")
        commands = set(re.findall(r"pushmetrics dashboards (\w+)", text))

        assert commands <= {*cli.command_line().commands["dashboards"].commands}  # type: ignore[attr-defined]  # A group.
