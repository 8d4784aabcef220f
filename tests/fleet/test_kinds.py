"""One server of each kind, whose limits nemo-gym builds as attributes: they show under load, named after those."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.capture import Capture
from fleet.programs import Gym, free_port
from fleet.recipe import answer, model_server, posted
from fleet.stand_in import RESPONSE

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

PORTS = {name: free_port() for name in ("litellm", "provider", "math", "judge", "harness")}
ASKED = {"input": [{"role": "user", "content": "What is 1 + 1?"}]}


def answered(text: str) -> dict[str, Any]:
    """A request to verify an answer."""
    message = RESPONSE["output"][0] | {"content": [{"type": "output_text", "text": text, "annotations": []}]}
    response = RESPONSE | {"output": [message]}
    return {"responses_create_params": ASKED, "response": response, "question": "1 + 1", "expected_answer": "2"}


@pytest.fixture(scope="module")
def gym(tmp_path_factory: pytest.TempPathFactory, stand_in: str, capture: Capture) -> Iterator[Gym]:
    folder = tmp_path_factory.mktemp("kinds")
    sources = folder / "sources.tar.gz"
    tarfile.open(sources, "w:gz").close()
    model = {"type": "responses_api_models", "name": "provider"}

    def block(kind: str, server: str, name: str, **settings: Any) -> dict[str, Any]:
        return {kind: {server: {"entrypoint": "app.py", "host": "127.0.0.1", "port": PORTS[name], **settings}}}

    settings = {
        "litellm": model_server(
            stand_in, "litellm_model", host="127.0.0.1", port=PORTS["litellm"], max_concurrent_requests=1
        ),
        "provider": block(
            "responses_api_models",
            "inference_provider",
            "provider",
            base_url=stand_in,
            api_key="none",
            model="stand-in",
            num_concurrent_requests=1,
        ),
        "math": block(
            "resources_servers",
            "math_with_judge",
            "math",
            domain="math",
            judge_model_server=model,
            judge_responses_create_params={"input": []},
            should_use_judge=False,
            library_verifier_max_concurrency=1,
        ),
        "judge": block(
            "resources_servers",
            "equivalence_llm_judge",
            "judge",
            domain="knowledge",
            judge_model_server=model,
            judge_responses_create_params={"input": []},
            judge_endpoint_max_concurrency=1,
        ),
        "harness": block(
            "responses_api_agents",
            "harness_agent",
            "harness",
            resources_server={"type": "resources_servers", "name": "math"},
            model_server=model,
            agent="simple_strands",
            concurrency=2,
            sandbox_provider={"local": {"concurrency": 1}},
            gym_source=str(sources),
            setup_commands=["sleep 1; false"],
        ),
    }
    with Gym(folder, capture.url, more=settings) as gym:
        yield gym.start()


REQUESTS = {
    "litellm": ("/v1/responses", ASKED, "model_server", "upstream_requests"),
    "provider": ("/v1/chat/completions", {"messages": ASKED["input"]}, "model_server", "upstream_requests"),
    "math": ("/verify", answered(r"\boxed{2}"), "resources_server", "library_verifier"),
    "judge": ("/verify", answered("2"), "resources_server", "judge_endpoint_max_concurrency"),
}


@pytest.mark.parametrize("server", REQUESTS)
def test_a_server_that_lets_one_through(gym: Gym, capture: Capture, server: str) -> None:
    path, body, component, limit_name = REQUESTS[server]
    limit = (f"component:{component}", f"limit_name:{limit_name}", f"server:{server}")

    answers = [answer(connection) for connection in [posted(PORTS[server], path, body) for _ in range(3)]]

    assert ["200 OK" in text for text in answers] == [True] * 3, answers
    capture.wait_for("active", 0, *limit)
    assert capture.values("limit", *limit) == [1]
    assert max(capture.values("active_peak", *limit)) == 1
    assert max(capture.values("queue_depth_peak", *limit)) == 2
    assert capture.total("admissions_total", *limit) == 3
    assert capture.total("admissions_queued_total", *limit) == 2


def test_an_agent_and_its_sandbox_provider(gym: Gym, capture: Capture) -> None:
    """The agent runs two at a time, in sandboxes that run one command at a time. Each run fails in its set-up."""
    agent = ("component:agent_server", "limit_name:sem", "server:harness")
    sandboxes = ("component:sandbox_provider", "limit_name:semaphore", "provider:local", "server:harness")

    body = {"responses_create_params": ASKED}
    answers = [answer(connection) for connection in [posted(PORTS["harness"], "/run", body) for _ in range(3)]]

    assert ["setup failed" in text for text in answers] == [True] * 3, answers
    capture.wait_for("active", 0, *agent)
    assert capture.values("limit", *agent) == [2]
    assert max(capture.values("active_peak", *agent)) == 2
    assert max(capture.values("queue_depth_peak", *agent)) == 1
    assert capture.values("limit", *sandboxes) == [1]
    assert max(capture.values("active_peak", *sandboxes)) == 1
    assert max(capture.values("queue_depth_peak", *sandboxes)) == 1
