"""A model server with two worker processes: each has a limit of its own, and nothing else reports for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.capture import Capture
from fleet.programs import Gym, free_port
from fleet.recipe import answer, posted

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

MODEL = ("component:model_server", "limit_name:upstream_requests", "server:policy_model")
PORT = free_port()
REQUESTS = 12
ASKED = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def gym(tmp_path_factory: pytest.TempPathFactory, stand_in: str, capture: Capture) -> Iterator[Gym]:
    settings = {
        "policy_model": {
            "responses_api_models": {
                "inference_provider": {  # In 0.7.0 openai_model can not have several workers.
                    "entrypoint": "app.py",
                    "host": "127.0.0.1",
                    "port": PORT,
                    "num_workers": 2,
                    "base_url": stand_in,
                    "api_key": "none",
                    "model": "stand-in",
                    "num_concurrent_requests": 1,
                }
            }
        }
    }
    with Gym(tmp_path_factory.mktemp("workers"), capture.url, more=settings) as gym:
        yield gym.start()


def test_each_worker_reports_its_own_limit(gym: Gym, capture: Capture) -> None:
    """The parent builds the server, too, and each worker builds it twice: none of these is reported."""
    first, second = frozenset(MODEL), frozenset([*MODEL, "worker:1"])

    answers = [
        answer(connection) for connection in [posted(PORT, "/v1/responses", {"input": "hi"}) for _ in range(REQUESTS)]
    ]

    assert ["200 OK" in text for text in answers] == [True] * REQUESTS
    assert capture.series() == {first, second}
    for line in capture.lines("limit", *MODEL):
        assert line.value == 1
    for line in capture.lines("active", *MODEL):
        assert line.value <= 1
    assert capture.total("admissions_total", *MODEL) == REQUESTS
