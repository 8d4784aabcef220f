"""What arrives of the limits of the real nemo-gym: its model server, its driver and its environment server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.datadog_server import DatadogServer

from fleet.capture import Capture
from fleet.programs import Gym, free_port
from fleet.recipe import SINGLE_TOOL_CALL, answer, policy, posted, rollouts

pytest_plugins = ["servers.fixtures"]

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

MODEL = ("component:model_server", "limit_name:upstream_requests", "server:policy_model")
DRIVER = ("component:rollout_driver", "limit_name:rollouts")
REVERIFIER = ("component:rollout_driver", "limit_name:reverifications")
AGENT = "example_single_tool_call_simple_agent"
PORT = free_port()
"""Of the model server, for the test that asks it without an agent."""

CAPTURE = os.environ.get("PUSHMETRICS_TEST_CAPTURE")
"""The file into which the first run is written; the docs quote it."""


@pytest.fixture(scope="module")
def capture(datadog_server: DatadogServer) -> Iterator[Capture]:
    """Datadog's server gets the same datagrams."""
    with Capture(passed_on_to=datadog_server.port) as capture:
        yield capture


@pytest.fixture(scope="module")
def gym(tmp_path_factory: pytest.TempPathFactory, stand_in: str, capture: Capture) -> Iterator[Gym]:
    settings = policy(stand_in, max_concurrent_requests=1, host="127.0.0.1", port=PORT)
    folder = tmp_path_factory.mktemp("one-request")
    with Gym(folder, capture.url, f"{SINGLE_TOOL_CALL}.yaml", more=settings) as gym:
        yield gym.start()


def test_three_rollouts_wait_for_each_other(gym: Gym, capture: Capture) -> None:
    began = capture.now
    succeeded = rollouts(gym, AGENT, 3)

    if CAPTURE:
        dispatched = capture.lines("limit", *DRIVER)[0].seconds
        Path(CAPTURE).write_text("\n".join(capture.table(since=dispatched - 0.1)) + "\n", encoding="utf-8")
    assert len(succeeded.read_text().splitlines()) == 3
    assert capture.values("limit", *MODEL, since=began) == [1]
    assert capture.values("active", *MODEL, since=began) == [0, 1, 0]
    assert capture.values("queue_depth", *MODEL, since=began)[-3:] == [2, 1, 0]
    assert capture.total("admissions_total", *MODEL, since=began) == 3
    assert capture.total("admission_cancelled_total", *MODEL, since=began) == 0
    assert capture.total("admission_timeouts_total", *MODEL) is None  # It has no time-out.
    assert capture.values("limit", *DRIVER) == [3]
    assert capture.values("active", *DRIVER)[-4:] == [3, 2, 1, 0]


def test_what_is_not_configured_has_no_series(gym: Gym, capture: Capture) -> None:
    assert capture.series() == {frozenset(MODEL), frozenset(DRIVER)}


def test_clients_that_go_away_are_cancelled_and_not_timed_out(gym: Gym, capture: Capture) -> None:
    began = capture.now
    first = posted(PORT, "/v1/responses", {"input": "hello"})
    capture.wait_for("active", 1, *MODEL)
    others = [posted(PORT, "/v1/responses", {"input": "hello"}) for _ in range(2)]
    capture.wait_for("queue_depth", 2, *MODEL)
    for connection in others:
        connection.close()

    assert "200 OK" in answer(first)
    capture.wait_for("active", 0, *MODEL)
    assert capture.total("admission_cancelled_total", *MODEL, since=began) == 2
    assert capture.total("admissions_total", *MODEL, since=began) == 1


def test_datadogs_own_server_takes_every_line(gym: Gym, datadog_server: DatadogServer) -> None:
    datadog_server.shipped()

    assert datadog_server.refused == []
    assert datadog_server.errors == []
    tags = dict(tag.split(":") for tag in MODEL)
    counts = {
        name: value for (name, where), value in datadog_server.counts().items() if tags.items() <= dict(where).items()
    }
    assert counts["gym.concurrency.admissions_total"] == 4
    assert counts["gym.concurrency.admission_cancelled_total"] == 2


def test_a_server_that_stops_says_what_it_did_last(gym: Gym, capture: Capture) -> None:
    began = capture.now
    with posted(PORT, "/v1/responses", {"input": "hello"}):
        capture.wait_for("active", 1, *MODEL)
        gym.stop_server("policy_model")

    assert capture.values("active", *MODEL)[-1] == 0
    assert capture.total("admissions_total", *MODEL, since=began) == 1
    assert "pushmetrics:" not in gym.printed()


def test_reverification(gym: Gym, capture: Capture) -> None:
    files = [
        "--inputs",
        "rollouts_materialized_inputs.jsonl",
        "--rollouts",
        "rollouts.jsonl",
        "--output",
        "again.jsonl",
    ]

    gym.end_all()  # It starts servers of its own, at the same ports.
    gym.run("eval", "reverify", *files, "--force", "--concurrency", "2")

    assert len((gym.folder / "unsafe_again.jsonl").read_text().splitlines()) == 3
    assert capture.values("limit", *REVERIFIER) == [2]
    assert capture.values("active", *REVERIFIER)[-1] == 0
    assert capture.total("admissions_total", *REVERIFIER) == 3
    assert capture.total("admissions_queued_total", *REVERIFIER) == 1
