"""The limits of a module: imported as uvicorn imports it, and whatever may go wrong with that."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pushmetrics import MeteredSemaphore, Registry
from pushmetrics.doctor.program import Program, read_program

IMPORTS = "from pushmetrics import MeteredSemaphore, Registry, default_registry, Reporter\n"
TWO_LIMITS = """
registry = Registry()
calls = MeteredSemaphore(100, component="api", limit_name="calls", server="eu", registry=registry)
jobs = MeteredSemaphore(4, component="api", limit_name="jobs", registry=registry)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of a program that is not installed, and no trace of it afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("program", "service"):
            del sys.modules[name]


def program(code: str, module: str = "program") -> Program:
    """Write `code` into the module ``program``, and read what `module` names."""
    Path("program.py").write_text(IMPORTS + code, encoding="utf-8")
    return read_program(module)


def complaint(found: Program) -> str:
    (finding,) = found.findings
    assert (finding.topic, finding.mark) == ("limits", "wrong")
    return " ".join((finding.text, *finding.details))


def test_the_limits_in_a_registry() -> None:
    found = program(TWO_LIMITS, "program:registry")

    assert [tuple(finding[:4]) for finding in found.findings] == [("limits", "2 in program:registry", "", "ok")]
    assert [(finding.text, finding.source) for finding in found.limits] == [
        ("api calls eu", "limit 100"),
        ("api jobs", "limit 4"),
    ]


def test_one_that_does_not_know_its_limit() -> None:
    code = "import asyncio\nfrom pushmetrics import watch\n"
    found = program(code + "jobs = watch(asyncio.Semaphore(4), component='api', limit_name='watched-jobs')\n")

    assert ("api watched-jobs", "limit not known") in [(finding.text, finding.source) for finding in found.limits]


def test_without_a_name_it_is_the_default_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    default, limit = Registry(), None
    monkeypatch.setattr("pushmetrics.doctor.program.default_registry", default)
    limit = MeteredSemaphore(3, component="api", limit_name="here", registry=default)

    found = program(TWO_LIMITS)

    assert found.registry is default
    assert [finding.text for finding in found.limits] == ["api here"]
    assert limit in default


def test_a_name_may_be_dotted_and_so_may_a_module() -> None:
    Path("service").mkdir()
    Path("service/app.py").write_text(f"{IMPORTS}{TWO_LIMITS}\nclass State: kept = registry\n", encoding="utf-8")

    assert len(read_program("service.app:State.kept").limits) == 2


def test_a_module_without_limits_is_to_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pushmetrics.doctor.program.default_registry", Registry())

    (finding,) = program("").findings

    assert (finding.text, finding.mark) == ("0 in program", "note")
    assert "none when it is imported" in finding.details[0]


def test_limits_over_the_cap_are_wrong() -> None:
    code = """
registry = Registry(max_series=2)
limits = [MeteredSemaphore(1, component="c", limit_name=f"user-{i}", registry=registry) for i in range(5)]
"""
    found = program(code, "program:registry")

    assert len(found.limits) == 2
    assert complaint(found).startswith("2 in program:registry 3 more are not sent, since max_series is 2.")


def test_a_limit_that_can_not_be_read_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    code = """
class Broken(MeteredSemaphore):
    def gauges(self): raise RuntimeError("broken")

registry = Registry()
broken = Broken(1, component="c", limit_name="broken", registry=registry)
good = MeteredSemaphore(1, component="c", limit_name="good", registry=registry)
"""
    found = program(code, "program:registry")

    assert [finding.text for finding in found.limits] == ["c good"]
    assert "Can not read the limit component:c limit_name:broken" in complaint(found)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os\nos.environ['NO_SUCH_VARIABLE']", "KeyError: 'NO_SUCH_VARIABLE' (program.py, line 3)"),
        ("def f():\n  raise ValueError('no\\nway')\nf()", "ValueError: no\nway (program.py, line 3)"),
        ("import sys; sys.exit('not today')", "SystemExit: not today (program.py, line 2)"),
        ("1 +", "SyntaxError: invalid syntax (program.py, line 2)"),
        ("import no_such_module_1", "ModuleNotFoundError: No module named 'no_such_module_1' (program.py, line 2)"),
        ("MeteredSemaphore(-1, component='c', limit_name='l')", "(program.py, line 2)"),
    ],
)
def test_a_module_that_raises_is_a_clear_line(code: str, said: str) -> None:
    found = program(code)

    assert found.registry is None
    assert complaint(found).startswith("program can not be imported: ")
    assert complaint(found).endswith(said)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("", "--module: expected module or module:registry, got ''."),
        (":registry", "--module: expected module or module:registry, got ':registry'."),
        ("program:", "--module: expected module or module:registry, got 'program:'."),
        ("no_such_module_1", "There is no module no_such_module_1 in "),
        ("no_such_module_1.app:x", "There is no module no_such_module_1 in "),
        ("program.py", "There is no module program.py in "),
        (".program", ".program can not be imported: TypeError"),
        ("program:nothing", "program has no nothing; without a name the default registry is taken."),
        ("program:registry.nothing", "program has no registry.nothing; without"),
        ("program:calls", "program:calls is no Registry but of type MeteredSemaphore; without a name the default"),
    ],
)
def test_a_name_that_leads_nowhere(module: str, said: str) -> None:
    assert complaint(program(TWO_LIMITS, module)).startswith(said)


def test_a_module_that_makes_its_names_itself_may_fail_in_any_way() -> None:
    found = program("def __getattr__(name):\n    raise RuntimeError('not yet')\n", "program:registry")

    assert complaint(found) == "program:registry can not be looked at: RuntimeError: not yet"


def test_what_the_module_prints_and_warns_of_is_not_in_the_way(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PUSHMETRICS_LEVEL", "all")

    program(f"print('hello')\nreporter = Reporter()\n{TWO_LIMITS}", "program:registry")

    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "hello\n")
    assert caplog.records == []


def test_ctrl_c_is_not_a_matter_of_the_module() -> None:
    with pytest.raises(KeyboardInterrupt):
        program("raise KeyboardInterrupt")
