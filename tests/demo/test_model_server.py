"""The model server, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from pushmetrics import Registry
from pushmetrics.demo import model_server
from pushmetrics.demo.model_server import ModelServer


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


async def ask(session: aiohttp.ClientSession, server: ModelServer) -> tuple[int, str]:
    async with session.post(server.url, json={"input": "6 * 7"}) as response:
        return response.status, await response.text()


async def test_it_is_there_for_this_machine_alone(session: aiohttp.ClientSession) -> None:
    async with ModelServer(1, 1.0, Registry()) as server:
        assert server.url.startswith("http://127.0.0.1:")


async def test_an_admitted_question_is_answered(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_server, "UPSTREAM_SECONDS", (0, 0))
    async with ModelServer(1, 1.0, Registry()) as server:
        answers = {await ask(session, server) for _ in range(50)}

        assert answers == {(200, '{"output": "42"}'), (200, '{"output": "52"}')}
        assert server.limit.admissions == 50


async def test_a_question_that_waited_too_long_is_answered_with_503(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_server, "UPSTREAM_SECONDS", (0.5, 0.5))
    async with ModelServer(1, 0.1, Registry()) as server:
        (first, _), (second, text) = await asyncio.gather(ask(session, server), ask(session, server))

        assert (first, second) == (200, 503)
        assert "model_server upstream_requests policy_model: no slot within 0.1 s" in text
        assert server.limit.admission_timeouts == 1


async def test_a_question_that_finds_the_queue_full_is_answered_with_503(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_server, "UPSTREAM_SECONDS", (0.5, 0.5))
    async with ModelServer(1, 30.0, Registry(), max_queue_depth=1) as server:
        answers = await asyncio.gather(*(ask(session, server) for _ in range(3)))

        assert sorted(status for status, _ in answers) == [200, 200, 503]
        assert server.limit.admission_rejected == 1


async def test_a_client_that_hangs_up_leaves_the_queue(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_server, "UPSTREAM_SECONDS", (60, 60))
    async with ModelServer(1, 30.0, Registry()) as server:
        clients = [asyncio.create_task(ask(session, server)) for _ in range(2)]
        while server.limit.queue_depth < 1:  # noqa: ASYNC110 - a server tells nobody when it has a queue
            await asyncio.sleep(0.01)
        for client in clients:
            client.cancel()
        while server.limit.active or server.limit.queue_depth:  # noqa: ASYNC110 - nor when it has none
            await asyncio.sleep(0.01)

        assert server.limit.admission_cancelled == 1
        assert server.limit.admission_timeouts == 0
