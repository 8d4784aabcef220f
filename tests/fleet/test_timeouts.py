"""Time-outs of the real nemo-gym's limits: upstream requests wait for 0.5 s here, and episodes for 1.5 s."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.capture import Capture
from fleet.programs import Gym, free_port
from fleet.recipe import SINGLE_TOOL_CALL, answer, policy, posted, rollouts

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

MODEL = ("component:model_server", "limit_name:upstream_requests", "server:policy_model")
EPISODES = (
    "component:environment_server",
    "limit_name:episodes",
    "server:example_single_tool_call_single_agent_turn",
)
PORT = free_port()
"""Of the model server."""


@pytest.fixture(scope="module")
def gym(tmp_path_factory: pytest.TempPathFactory, stand_in: str, capture: Capture) -> Iterator[Gym]:
    episodes = {"max_concurrent_episodes": 1, "queue_timeout_seconds": 1.5}
    settings = policy(
        stand_in, max_concurrent_requests=1, upstream_pool_timeout_seconds=0.5, host="127.0.0.1", port=PORT
    )
    settings["example_single_tool_call_single_agent_turn"] = {
        "environment_servers": {"single_agent_turn_legacy": episodes}
    }
    folder = tmp_path_factory.mktemp("timeouts")
    with Gym(folder, capture.url, f"{SINGLE_TOOL_CALL}_single_agent_turn.yaml", more=settings) as gym:
        yield gym.start()


def test_upstream_requests(gym: Gym, capture: Capture) -> None:
    connections = [posted(PORT, "/v1/responses", {"input": "hello"}) for _ in range(3)]

    answers = sorted(answer(connection) for connection in connections)

    assert [text.split(" ")[1] for text in answers] == ["200", "500", "500"]
    assert "no slot within 0.5 s" in answers[-1]
    capture.wait_for("active", 0, *MODEL)
    assert capture.values("limit", *MODEL) == [1]
    assert max(capture.values("queue_depth", *MODEL)) == 2
    assert capture.total("admission_timeouts_total", *MODEL) == 2
    assert capture.total("admission_cancelled_total", *MODEL) == 0


def test_episodes(gym: Gym, capture: Capture) -> None:
    succeeded = rollouts(gym, "example_single_tool_call_session_agent", 4, name="episodes")

    failures = succeeded.with_name("episodes_failures.jsonl").read_text().splitlines()
    assert len(succeeded.read_text().splitlines()) == 2
    assert len(failures) == 2
    assert all("Episode admission timed out" in failure for failure in failures)
    assert capture.values("limit", *EPISODES) == [1]
    assert capture.values("queue_depth", *EPISODES)[-3:] == [3, 2, 0]
    assert capture.total("admission_timeouts_total", *EPISODES) == 2
    assert capture.total("admission_cancelled_total", *EPISODES) == 0
