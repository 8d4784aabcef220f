"""The demo in this process, where something can be made to go wrong."""

from __future__ import annotations

import asyncio
import io
import signal
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from pushmetrics import cli
from pushmetrics.demo import driver, program
from pushmetrics.demo.arrivals import Arrivals
from pushmetrics.demo.plain import PlainLines
from pushmetrics.demo.program import run_demo
from pushmetrics.demo.settings import DemoSettings

pytestmark = pytest.mark.demo


@pytest.fixture(autouse=True)
def _short_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "DRAIN_SECONDS", 0.1)


@pytest.fixture(autouse=True)
def _restored_signals() -> Iterator[None]:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def demo(*arguments: str) -> Result:
    return CliRunner().invoke(cli.command_line(), ["demo", "--duration", "1", "--flush-interval", "0.2", *arguments])


def test_a_lost_datagram_is_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Arrivals.feed
    datagrams = []

    def lose_some(self: Arrivals, data: bytes) -> None:
        datagrams.append(data)
        if len(datagrams) % 5:
            take(self, data)

    monkeypatch.setattr(Arrivals, "feed", lose_some)

    result = demo()

    assert result.exit_code == 1
    assert "what arrived is not what happened" in result.output
    assert "exactly" not in result.output


def test_an_unreadable_line_is_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Arrivals.feed
    monkeypatch.setattr(Arrivals, "feed", lambda self, data: take(self, data + b"\nx:1|q"))

    result = demo()

    assert result.exit_code == 1
    assert "could not be read: unknown type" in result.output


def test_what_goes_wrong_in_a_rollout_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", "python")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fail)

    result = demo()

    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == (
        "Error: [Errno 13] Permission denied: 'python'; the demo needs ports on 127.0.0.1, some open files for each "
        "rollout, and two processes"
    )
    assert result.output.count("Error") == 1


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(driver, "rollouts_wanted", fail)

    with pytest.raises(ZeroDivisionError):
        run_demo(DemoSettings(duration=1), PlainLines(io.StringIO()))


def test_too_few_open_files_are_noticed_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda what: (64, 64))
    monkeypatch.setattr(program, "Arrivals", None)

    result = demo("--concurrency", "20")

    assert result.exit_code == 1
    assert result.output == (
        "Error: 20 rollouts at a time need up to 90 open files, and this shell allows 64; "
        "use a lower --concurrency, or run: ulimit -n 90\n"
    )


@pytest.mark.parametrize("variable", ["PUSHMETRICS_ENABLED=0", "DD_DOGSTATSD_DISABLE=true"])
def test_reporting_that_is_switched_off_is_an_error(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value)

    result = demo()

    assert result.exit_code == 1
    assert result.output == (
        "Error: reporting is switched off; unset PUSHMETRICS_ENABLED and DD_DOGSTATSD_DISABLE to see the demo\n"
    )


def test_an_address_that_is_none_is_one_warning_and_the_next_best_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DD_DOGSTATSD_URL", "http://x")
    monkeypatch.setenv("DD_AGENT_HOST", "127.0.0.1")
    monkeypatch.setenv("DD_DOGSTATSD_PORT", "9")

    result = demo("--agent")

    assert "to the Agent at udp://127.0.0.1:9;" in result.output


def test_the_variables_of_the_reporter_do_not_disturb_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSHMETRICS_NAMESPACE", "pushmetrics")
    monkeypatch.setenv("PUSHMETRICS_CONSTANT_TAGS", "team:search")
    monkeypatch.setenv("DD_ENV", "prod")

    result = demo()

    assert result.exit_code == 0
    assert "all 13 counters arrived exactly as they happened" in result.output


def test_limits_that_nobody_can_enter_are_shown_as_well() -> None:
    result = demo("--limit", "0", "--admission-timeout", "0")

    assert result.exit_code == 0
    assert "refused by the model server" in result.output
    assert "answered" not in result.output
