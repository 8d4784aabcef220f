"""What all tests share: the strict switch, the choice of tests, and an environment without surprises."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from typing import NoReturn

import pytest
from hypothesis import settings

STRICT = os.environ.get("PUSHMETRICS_TEST_STRICT", "") not in {"", "0"}
"""Whether a skip is a failure, so that a green run hides nothing."""

# The real servers of nemo-gym have an environment of their own, `tox -e nemo-gym`, which brings it.
collect_ignore = [] if importlib.util.find_spec("nemo_gym") else ["fleet"]

# The settings of an Agent on the developer's machine are neither this suite's input nor its target.
for _name in list(os.environ):
    if _name.startswith(("DD_", "DATADOG_", "PUSHMETRICS_")) and not _name.startswith(
        ("PUSHMETRICS_TEST_", "PUSHMETRICS_STATSD_DIR")
    ):
        del os.environ[_name]

# Worker slots are shared by all processes of a user: those of another run would be seen in this one.
_runtime = tempfile.TemporaryDirectory(prefix="pushmetrics-tests-")
os.environ["XDG_RUNTIME_DIR"] = _runtime.name

# What a shell runs in the background ignores SIGINT, and so does what it starts: programs that tests interrupt would
# go on.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is slow, not wrong. pytest-timeout ends a test that hangs.
settings.register_profile("pushmetrics", settings(), deadline=None)
settings.load_profile("pushmetrics")


def missing(reason: str) -> NoReturn:
    """Skip the test for want of something on this machine; under the strict switch, fail it."""
    if STRICT:
        pytest.fail(f"missing: {reason}", pytrace=False)
    pytest.skip(reason)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--library-only-if",
        metavar="PYTHON",
        help="leave out the tests marked server, processes or demo if this interpreter runs here: they run on it",
    )


def pytest_configure(config: pytest.Config) -> None:
    python = config.getoption("--library-only-if")
    if python and not config.option.markexpr and _runs(python):
        config.option.markexpr = "not server and not processes and not demo"


def _runs(python: str) -> bool:
    """Return whether `python` is a working interpreter; version managers put names on PATH that are none."""
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, check=False, timeout=30).returncode == 0
    except OSError:
        return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if not item.get_closest_marker("allowed_skip"):
        _fail_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    report = yield
    _fail_skip(report)  # a file that skips itself, by importorskip for one
    return report


def _fail_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Under the strict switch, make a failure of a skip. An expected failure is no skip."""
    if STRICT and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason}\nA skip is a failure here: PUSHMETRICS_TEST_STRICT is set."
