"""httpx's clients and httpcore's pools under real requests, compared with what the pool says of its connections."""

from __future__ import annotations

import asyncio
from typing import Any

import httpcore
import httpx
import pytest
from collected import only, passes, watching

from pushmetrics import PushmetricsError

FULL = {"limit": 2, "active": 2, "available": 0, "queue_depth": 3}
IDLE = {"limit": 2, "active": 0, "available": 2, "queue_depth": 0}
LIMITS = httpx.Limits(max_connections=2)


async def test_a_client_is_its_pool(slow_server: Any) -> None:
    async with httpx.AsyncClient(limits=LIMITS, trust_env=False) as client:
        registry = watching(client)
        requests = [asyncio.create_task(client.get(slow_server.url)) for _ in range(5)]
        await slow_server.has(2)
        full = only(registry)
        requests[-1].cancel()
        await passes()
        cancelled = only(registry)
        slow_server.answer()
        await asyncio.gather(*requests[:-1])
        idle = only(registry)

    assert full == FULL
    assert cancelled == FULL | {"queue_depth": 2}
    assert idle == IDLE


async def test_a_pool_of_httpcore_says_the_same_of_its_connections(slow_server: Any) -> None:
    async with httpcore.AsyncConnectionPool(max_connections=2) as pool:
        registry = watching(pool)
        requests = [asyncio.create_task(pool.request("GET", slow_server.url)) for _ in range(5)]
        await slow_server.has(2)

        assert only(registry) == FULL
        assert [connection.is_idle() for connection in pool.connections] == [False, False]
        slow_server.answer()
        await asyncio.gather(*requests)
        assert only(registry) == IDLE
        assert all(connection.is_idle() for connection in pool.connections), "and still open"


async def test_a_response_that_is_not_read_to_its_end_keeps_its_connection(slow_server: Any) -> None:
    slow_server.answer()
    async with httpx.AsyncClient(limits=LIMITS, trust_env=False) as client:
        registry = watching(client)
        async with client.stream("GET", slow_server.url):
            assert only(registry)["active"] == 1
        assert only(registry) == IDLE


async def test_no_limit_is_none() -> None:
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None), trust_env=False) as client:
        assert only(watching(client)) == {"active": 0, "queue_depth": 0}


async def test_a_client_with_a_pool_for_each_mount_is_watched_by_its_transports() -> None:
    transport = httpx.AsyncHTTPTransport(limits=LIMITS)
    async with httpx.AsyncClient(mounts={"https://": transport}, trust_env=False) as client:
        with pytest.raises(PushmetricsError, match=r"it has 2 connection pools.*httpx\.AsyncHTTPTransport"):
            watching(client)
        assert only(watching(transport)) == IDLE


async def test_a_client_without_a_pool_has_nothing_to_watch() -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as client:
        with pytest.raises(PushmetricsError, match="it has 0 connection pools"):
            watching(client)


class Unreachable(httpcore.AsyncNetworkBackend):
    """Where no connection is ever made."""

    async def connect_tcp(self, *arguments: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


async def test_a_connection_whose_request_was_cancelled_before_it_was_opened_is_not_free() -> None:
    """The pool goes on counting it against its limit."""
    pool = httpcore.AsyncConnectionPool(max_connections=1, network_backend=Unreachable())
    registry = watching(pool)
    requests = [asyncio.create_task(pool.request("GET", "http://nowhere")) for _ in range(2)]
    await passes()
    opening = only(registry)
    for request in requests:  # The second one is given a connection by the end of the first, and never runs.
        request.cancel()
    await asyncio.wait(requests)

    assert opening == {"limit": 1, "active": 1, "available": 0, "queue_depth": 1}
    assert [connection.is_idle() or connection.is_closed() for connection in pool.connections] == [False]
    assert only(registry) == {"limit": 1, "active": 1, "available": 0, "queue_depth": 0}
