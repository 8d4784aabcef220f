"""What holds for the project as a whole: public names, the cost of an import, and what the papers say of the code."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest

import pushmetrics

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
IN_TOX = "TOX_ENV_NAME" in os.environ
SUPPRESSED = re.compile(r"# (noqa|type: ignore)\b")
SUPPRESSED_WITH_REASON = re.compile(r"# (noqa: [A-Z]+\d+(, [A-Z]+\d+)*|type: ignore\[[a-z, -]+\]) +[#-] \w")


def run_python(code: str) -> str:
    """Run `code` in an interpreter of its own, away from the checkout, and return what it printed."""
    finished = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_all_is_sorted_and_names_each_thing_once() -> None:
    assert list(pushmetrics.__all__) == sorted(set(pushmetrics.__all__))


@pytest.mark.parametrize("name", pushmetrics.__all__)
def test_each_public_name_can_be_imported(name: str) -> None:
    assert getattr(pushmetrics, name) is not None
    assert name in dir(pushmetrics)


@pytest.mark.parametrize("statement", ["import pushmetrics", "from pushmetrics import *"])
def test_an_import_brings_no_client_and_no_extra(statement: str) -> None:
    code = f"{statement}; import sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"

    loaded = set(run_python(code).split())

    assert "pushmetrics" in loaded
    assert loaded.isdisjoint({"aiodogstatsd", "aiohttp", "click", "datadog", "requests", "rich"})


def test_the_version_is_said_in_one_place() -> None:
    assert pushmetrics.__version__ == metadata.version("pushmetrics") == PYPROJECT["project"]["version"]


def test_the_changelog_knows_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert headings[0] == "Unreleased"
    assert PYPROJECT["project"]["version"] in headings


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files("pushmetrics").joinpath("py.typed").is_file()


def test_the_library_itself_needs_the_datadog_client_alone() -> None:
    required = [line for line in metadata.requires("pushmetrics") or [] if "extra ==" not in line]

    assert [re.split(r"[^\w-]", line)[0] for line in required] == ["datadog"]


def test_the_oldest_allowed_client_is_one_that_is_tested() -> None:
    (oldest,) = re.findall(r"datadog==(\S+)", (ROOT / "tox.ini").read_text(encoding="utf-8"))

    assert PYPROJECT["project"]["dependencies"] == [f"datadog>={oldest}"]


@pytest.mark.skipif(not IN_TOX, reason="outside of tox the checkout may be what is tested")
def test_what_is_tested_is_the_installed_wheel() -> None:
    imported = Path(pushmetrics.__file__).resolve()
    started = Path(run_python("import pushmetrics; print(pushmetrics.__file__)").strip()).resolve()

    assert imported == started
    assert imported.is_relative_to(Path(sys.prefix).resolve())


def test_ci_runs_the_test_command_of_the_readme() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (command,) = re.findall(r"^TEST_COMMAND='(.+)'$", ci, re.MULTILINE)

    assert command.endswith("tox"), "the command runs tox with its default environments"
    assert command in [line.strip() for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()]


def test_every_supported_interpreter_is_tested_by_default() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    environments = [name.strip() for name in tox["tox"]["env_list"].split(",")]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PYPROJECT["project"]["classifiers"]))
    interpreters = [f"py{version.replace('.', '')}" for version in versions]

    assert environments == [*interpreters, "nemo-gym", "lint", "typing", "imports"]
    assert PYPROJECT["project"]["requires-python"] == f">={versions[0]}"


def test_each_rule_that_is_ignored_has_its_reason_beside_it() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    ignored = settings.partition("\nignore = [")[2].partition("\n[tool.mypy]")[0]
    rules = [line for line in ignored.splitlines() if line.startswith('    "')]
    suppressed = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in ("pushmetrics", "tests", "benchmarks", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if SUPPRESSED.search(line) and not SUPPRESSED_WITH_REASON.search(line)
    ]

    assert rules
    assert [line for line in rules if "#" not in line] == []
    assert suppressed == []


def run_suite(folder: Path, suite: str, environment: dict[str, str], *arguments: str) -> tuple[dict[str, int], str]:
    """Run `suite` under our conftest and settings; return the number of tests by outcome, and what was printed."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "test_small.py").write_text(suite, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if name != "PUSHMETRICS_TEST_STRICT"}
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "--color=no", "-p", "no:cacheprovider", "-o", "pythonpath=.", *arguments, "."],
        cwd=folder,
        env=variables | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    last = (finished.stdout.splitlines() or [finished.stderr])[-1]
    return {outcome: int(number) for number, outcome in re.findall(r"(\d+) ([a-z]+)", last)}, finished.stdout


class TestTheStrictSwitch:
    """A suite that skips everything must not look green where nothing may be missing."""

    SUITE = """
import pytest
from conftest import missing

def test_calls_missing(): missing("no such server")
def test_calls_skip(): pytest.skip("not today")
@pytest.mark.skipif(True, reason="marked")
def test_is_marked(): pass
@pytest.mark.allowed_skip("the interpreter is too old for it")
def test_is_allowed(): pytest.skip("too old")
@pytest.mark.xfail
def test_is_expected_to_fail(): assert False
def test_passes(): pass
"""

    def test_off_a_skip_names_its_reason(self, tmp_path: Path) -> None:
        outcomes, printed = run_suite(tmp_path, self.SUITE, {})

        assert outcomes == {"skipped": 4, "xfailed": 1, "passed": 1}
        assert "no such server" in printed

    def test_on_a_skip_is_a_failure_unless_it_is_allowed(self, tmp_path: Path) -> None:
        outcomes, printed = run_suite(tmp_path, self.SUITE, {"PUSHMETRICS_TEST_STRICT": "1"})

        assert outcomes == {"failed": 2, "error": 1, "skipped": 1, "xfailed": 1, "passed": 1}
        assert "no such server" in printed

    def test_on_a_file_that_skips_itself_is_an_error(self, tmp_path: Path) -> None:
        suite = "import pytest\n\npytest.importorskip('no_such_module')\n"

        outcomes, printed = run_suite(tmp_path, suite, {"PUSHMETRICS_TEST_STRICT": "1"})

        assert outcomes == {"error": 1}
        assert "no_such_module" in printed


class TestTheLibrarysOwnTests:
    """`--library-only-if` leaves the heavy tests to another interpreter, and keeps them where there is none."""

    SUITE = """
import pytest

@pytest.mark.server
def test_of_a_server(): pass
@pytest.mark.demo
def test_of_the_demo(): pass
def test_of_the_library(): pass
"""

    def test_the_heavy_tests_are_left_to_an_interpreter_that_is_there(self, tmp_path: Path) -> None:
        outcomes, _ = run_suite(tmp_path, self.SUITE, {}, "--library-only-if", sys.executable)

        assert outcomes == {"passed": 1, "deselected": 2}

    def test_the_heavy_tests_run_where_there_is_no_other_interpreter(self, tmp_path: Path) -> None:
        outcomes, _ = run_suite(tmp_path, self.SUITE, {}, "--library-only-if", "python-that-nobody-has")

        assert outcomes == {"passed": 3}
