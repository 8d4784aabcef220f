"""The plain lines, as a person or a pipe sees them."""

from __future__ import annotations

import io
import re

import pytest

from pushmetrics import PushmetricsError
from pushmetrics.catalog import metrics_at
from pushmetrics.demo.comparison import Comparison, Difference
from pushmetrics.demo.plain import PlainLines
from pushmetrics.demo.settings import DemoSettings
from pushmetrics.demo.view import Outcome
from pushmetrics.live.board import Board
from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock

DRIVER = ("component:rollout_driver", "limit_name:rollouts")
SERVER = ("component:model_server", "limit_name:upstream_requests", "server:policy_model")
VERIFIER = ("component:resources_server", "limit_name:library_verifier", "server:math_with_judge")

TICK = """\
Three limits, under load for 20 s; Ctrl-C ends it earlier.
Pushing every 1 s at level standard to udp://127.0.0.1:50000; this arrived:

0.0 s
rollout_driver   rollouts                           limit  4  active  4  queued  0  peak  0                cancelled   0
model_server     upstream_requests policy_model     limit  4  active  4  queued 11  peak 15  timeouts   3  cancelled   0
resources_server library_verifier  math_with_judge  limit  4  active  4  queued  0  peak  0                cancelled   0
"""

END = """\

Arrived in all                                      peak  peak queue  contended  admitted  waited  timeouts  cancelled  exact
rollout_driver   rollouts                              4           0         0%         0       0                    0    4/4
model_server     upstream_requests policy_model        4           7        25%        22       0         0          0    5/5
resources_server library_verifier  math_with_judge     4           0         0%         0       0                    0    3/4

11 rollouts: 10 answered right, 1 given up by the client.
3 flushes, 12 datagrams: all 13 counters arrived exactly as they happened.
"""  # noqa: E501 - it is that wide where there is room


class Terminal(io.StringIO):
    """A terminal that keeps what was written on it."""

    def isatty(self) -> bool:
        return True


GAUGES = {"limit": 4, "active": 4, "queue_depth": 0, "active_peak": 4, "queue_depth_peak": 0}
COUNTS = {
    "admission_timeouts_total": 0,
    "admission_cancelled_total": 0,
    "admissions_total": 0,
    "admissions_queued_total": 0,
    "contended_ms_total": 0,
}
Values = dict[str, int]


def feed(receiver: Receiver, level: str, server: Values) -> None:
    """Push three limits; `server` is what is different about the second one."""
    names = {metric.name for metric in metrics_at(level)}
    for tags in (DRIVER, SERVER, VERIFIER):
        for name, value in (GAUGES | COUNTS).items():
            if name in names and (tags is SERVER or name != "admission_timeouts_total"):
                seen = server.get(name, value) if tags is SERVER else value
                kind = "c" if name in COUNTS else "g"
                receiver.feed(f"gym.concurrency.{name}:{seen}|{kind}|#{','.join(tags)}".encode())


def drawn(stream: io.StringIO, settings: DemoSettings, *ticks: Values, outcome: Outcome | None = None) -> list[str]:
    """The lines of a run with a flush every second; each is given as what is different about the model server."""
    view = PlainLines(stream)
    with ManualClock() as clock:
        receiver = Receiver(bucket_seconds=1)
        view.begin(settings, "udp://127.0.0.1:50000", Board(receiver))
        for seconds, values in enumerate(ticks):
            feed(receiver, settings.level, values)
            view.tick(seconds)
            clock.stall(1)
        if outcome is not None:
            view.end(outcome)
    return stream.getvalue().splitlines()


def test_a_pipe_gets_whole_names_and_all_numbers() -> None:
    values = {"queue_depth": 11, "queue_depth_peak": 15, "admission_timeouts_total": 3}

    assert drawn(io.StringIO(), DemoSettings(), values) == TICK.splitlines()


def test_columns_stay_where_they_are_while_numbers_grow() -> None:
    settings = DemoSettings(concurrency=100)
    large = {"limit": 100, "active": 100, "queue_depth": 200, "queue_depth_peak": 200, "admission_timeouts_total": 999}

    lines = drawn(io.StringIO(), settings, {}, large)

    starts = {tuple(word.start() for word in re.finditer("[a-z]+ ", line)) for line in lines if "model_server" in line}
    assert len(starts) == 1


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("level", ["core", "standard"])
def test_nothing_is_wider_than_the_terminal(width: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    outcome = Outcome(rollouts={"right": 10, "refused": 2}, flushes=3, datagrams=12, comparison=Comparison(13, ()))

    lines = drawn(Terminal(), DemoSettings(level=level), {}, outcome=outcome)

    assert max(map(len, lines)) <= width
    assert sum(line.startswith(("upstream_requests", "model_server")) for line in lines) == 2
    assert all("active" in line for line in lines if re.search(r"limit +\d", line))
    if width >= 80:
        assert sum("timeouts   0" in line for line in lines) == 1
    if width >= 120:
        assert all("cancelled" in line and "_" in line.split()[0] for line in lines if re.search(r"limit +\d", line))


def test_a_full_disk_is_an_error_and_a_reader_that_has_gone_is_none() -> None:
    class Full(io.StringIO):
        """A file on a full disk."""

        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    class Closed(io.StringIO):
        """A pipe that nobody reads any more."""

        def flush(self) -> None:
            raise BrokenPipeError

    with pytest.raises(PushmetricsError, match="No space left on device"):
        drawn(Full(), DemoSettings())
    with pytest.raises(BrokenPipeError):
        drawn(Closed(), DemoSettings())


def test_a_metric_that_the_level_lacks_has_no_column() -> None:
    outcome = Outcome(rollouts={}, flushes=3, datagrams=12, comparison=Comparison(4, ()))

    text = "\n".join(drawn(io.StringIO(), DemoSettings(level="core"), {}, outcome=outcome))

    assert "timeouts" in text
    assert not re.search("peak|admitted|waited|contended", text)


def test_the_end_says_that_all_arrived() -> None:
    outcome = Outcome(
        rollouts={"given up": 1, "right": 10},
        flushes=3,
        datagrams=12,
        comparison=Comparison(13, (), {DRIVER: (4, 4), SERVER: (5, 5), VERIFIER: (3, 4)}),
    )
    values = {"queue_depth_peak": 7, "admissions_total": 11, "contended_ms_total": 250}

    lines = drawn(io.StringIO(), DemoSettings(), values, values, outcome=outcome)

    assert lines[-8:] == END.splitlines()


def test_the_end_names_what_did_not_arrive() -> None:
    difference = Difference("model_server upstream_requests policy_model", "admission_timeouts_total", 11, 12)
    outcome = Outcome(
        rollouts={},
        flushes=3,
        datagrams=12,
        unreadable={"unknown type": 2},
        comparison=Comparison(13, (difference,)),
    )

    lines = drawn(io.StringIO(), DemoSettings(), {}, outcome=outcome)

    assert lines[-4:] == [
        "0 rollouts: none.",
        "2 of the lines that arrived could not be read: unknown type.",
        "model_server upstream_requests policy_model: of admission_timeouts_total 11 arrived, 12 happened.",
        "3 flushes, 12 datagrams: what arrived is not what happened, in 1 of 13 counters.",
    ]


def test_with_an_agent_it_claims_no_more_than_it_knows() -> None:
    settings = DemoSettings(agent=True)
    taken = Outcome(rollouts={}, flushes=3, datagrams=12)
    refused = Outcome(rollouts={}, flushes=3, datagrams=0, owed={"ECONNREFUSED": 1})

    text = "\n".join(drawn(io.StringIO(), settings, {}, outcome=taken))

    assert "to the Agent at udp://127.0.0.1:50000; this was pushed:" in text
    assert "Pushed in all" in text
    assert "nothing is compared" in text
    assert "this arrived:" not in text
    assert "Is it running?" in "\n".join(drawn(io.StringIO(), settings, outcome=refused))
