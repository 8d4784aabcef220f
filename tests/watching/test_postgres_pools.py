"""The pools of asyncpg and of psycopg, with connections to a server that answers everything."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import asyncpg
import psycopg_pool
import pytest
from collected import collect, only, passes, watching

from .postgres import serving


@pytest.fixture
async def database() -> AsyncIterator[str]:
    async with serving() as url:
        yield url


async def test_asyncpg(database: str) -> None:
    async with asyncpg.create_pool(database, min_size=1, max_size=2, ssl=False) as pool:
        registry = watching(pool)
        idle = only(registry)
        first, second = await pool.acquire(), await pool.acquire()
        waiting = asyncio.ensure_future(pool.acquire())
        await passes()
        full, said = only(registry), (pool.get_size(), pool.get_idle_size())
        await pool.release(first)
        await pool.release(await waiting)
        await pool.release(second)

    assert idle == {"limit": 2, "active": 0, "available": 2}
    assert full == {"limit": 2, "active": 2, "available": 0}
    assert said == (2, 0)


async def test_a_pool_of_asyncpg_is_kept_until_it_is_unregistered(database: str) -> None:
    pool = asyncpg.create_pool(database, min_size=1, max_size=2, ssl=False)
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(pool)
    registry = watching(pool)
    holders = len(gc.get_referrers(pool))

    assert pool in registry
    registry.unregister(pool)

    assert pool not in registry
    assert len(gc.get_referrers(pool)) == holders - 1
    assert only(registry) == {"limit": 2, "active": 0, "available": 2}
    assert collect(registry) == {}


async def test_a_pool_of_psycopg_that_is_not_open_has_no_connections(database: str) -> None:
    pool = psycopg_pool.AsyncConnectionPool(database, min_size=2, max_size=3, open=False)
    registry = watching(pool)

    assert only(registry) == {"limit": 3, "active": 0, "available": 3, "queue_depth": 0}


async def test_a_pool_of_psycopg_that_keeps_no_connection(database: str) -> None:
    async with psycopg_pool.AsyncNullConnectionPool(
        f"{database}?sslmode=disable&gssencmode=disable", max_size=0, open=False
    ) as pool:
        registry = watching(pool)
        connection = await pool.getconn()
        used = only(registry)
        await pool.putconn(connection)

    assert used == {"active": 1, "queue_depth": 0}


async def test_psycopg(database: str) -> None:
    async with psycopg_pool.AsyncConnectionPool(
        f"{database}?sslmode=disable&gssencmode=disable", min_size=2, max_size=2, open=False
    ) as pool:
        await pool.wait()
        registry = watching(pool)
        idle = only(registry)
        connections = [await pool.getconn(), await pool.getconn()]
        waiting = [asyncio.create_task(pool.getconn()) for _ in range(3)]
        await passes()
        full, said = only(registry), pool.get_stats()
        for connection in connections:
            await pool.putconn(connection)
        for connection in [await waiting[0], await waiting[1]]:
            await pool.putconn(connection)
        await pool.putconn(await waiting[2])

    assert idle == {"limit": 2, "active": 0, "available": 2, "queue_depth": 0}
    assert full == {"limit": 2, "active": 2, "available": 0, "queue_depth": 3}
    assert (said["pool_size"], said["pool_available"], said["requests_waiting"]) == (2, 0, 3)
