"""aiohttp's connectors under real requests."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from collected import only, passes, watching


async def test_connections_in_use_and_requests_that_wait(slow_server: Any) -> None:
    connector = aiohttp.TCPConnector(limit=2)
    registry = watching(connector)
    async with aiohttp.ClientSession(connector=connector) as session:
        requests = [asyncio.create_task(session.get(slow_server.url)) for _ in range(5)]
        await slow_server.has(2)
        full = only(registry)
        requests[-1].cancel()
        cancelled_just_now = only(registry)
        slow_server.answer()
        for response in await asyncio.gather(*requests[:-1]):
            assert await response.text() == "done"
        idle = only(registry)

    assert full == {"limit": 2, "active": 2, "available": 0, "queue_depth": 3}
    assert cancelled_just_now["queue_depth"] == 2, "though its task has not run yet"
    assert idle == {"limit": 2, "active": 0, "available": 2, "queue_depth": 0}
    assert slow_server.requests == 4


async def test_a_limit_of_0_is_none(slow_server: Any) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    registry = watching(connector)
    async with aiohttp.ClientSession(connector=connector) as session:
        requests = [asyncio.create_task(session.get(slow_server.url)) for _ in range(3)]
        await slow_server.has(3)

        assert only(registry) == {"active": 3, "queue_depth": 0}
        slow_server.answer()
        await asyncio.gather(*requests)


async def test_what_waits_for_a_host_waits(slow_server: Any) -> None:
    connector = aiohttp.TCPConnector(limit=10, limit_per_host=1)
    registry = watching(connector)
    async with aiohttp.ClientSession(connector=connector) as session:
        requests = [asyncio.create_task(session.get(slow_server.url)) for _ in range(3)]
        await slow_server.has(1)
        await passes()

        assert only(registry) == {"limit": 10, "active": 1, "available": 9, "queue_depth": 2}
        slow_server.answer()
        await asyncio.gather(*requests)
