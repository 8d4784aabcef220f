"""Which classes can be watched, and what reads each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..model import WatchedState
from . import (
    aiohttp_connectors,
    anyio_limiters,
    asyncio_semaphores,
    asyncpg_pools,
    httpx_pools,
    psycopg_pools,
    sqlalchemy_pools,
    thread_pools,
)

Reader = Callable[[Any], WatchedState]

_FAMILIES: dict[str, tuple[str, str, Reader]] = {
    "asyncio.BoundedSemaphore": ("asyncio", "BoundedSemaphore", asyncio_semaphores.read_bounded),
    "asyncio.Semaphore": ("asyncio", "Semaphore", asyncio_semaphores.read),
    "anyio.CapacityLimiter": ("anyio", "CapacityLimiter", anyio_limiters.read_capacity_limiter),
    "anyio.Semaphore": ("anyio", "Semaphore", anyio_limiters.read_semaphore),
    "aiohttp.TCPConnector": ("aiohttp", "BaseConnector", aiohttp_connectors.read),
    "httpx.AsyncClient": ("httpx", "AsyncClient", httpx_pools.read_client),
    "httpx.AsyncHTTPTransport": ("httpx", "AsyncHTTPTransport", httpx_pools.read_transport),
    "httpcore.AsyncConnectionPool": ("httpcore", "AsyncConnectionPool", httpx_pools.read_pool),
    "concurrent.futures.ThreadPoolExecutor": ("concurrent", "ThreadPoolExecutor", thread_pools.read),
    "sqlalchemy.QueuePool": ("sqlalchemy", "QueuePool", sqlalchemy_pools.read_pool),
    "sqlalchemy.Engine": ("sqlalchemy", "Engine", sqlalchemy_pools.read_engine),
    "sqlalchemy.AsyncEngine": ("sqlalchemy", "AsyncEngine", sqlalchemy_pools.read_engine),
    "psycopg_pool.AsyncConnectionPool": ("psycopg_pool", "AsyncConnectionPool", psycopg_pools.read),
    "asyncpg.Pool": ("asyncpg", "Pool", asyncpg_pools.read),
}
"""By what their users call them: package and name of a class, which need not be where it is imported from, since
libraries move theirs about; and what reads it."""

CLASSES = tuple(_FAMILIES)

_READERS = {(package, name): read for package, name, read in _FAMILIES.values()}


def reader_of(limiter: object) -> Reader | None:
    """Return what reads a limiter, None for an object of no known class."""
    names = ((str(base.__module__).partition(".")[0], base.__name__) for base in type(limiter).__mro__)
    return next((_READERS[name] for name in names if name in _READERS), None)
