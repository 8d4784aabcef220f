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

_READERS: dict[tuple[str, str], Reader] = {
    ("asyncio", "BoundedSemaphore"): asyncio_semaphores.read_bounded,
    ("asyncio", "Semaphore"): asyncio_semaphores.read,
    ("anyio", "CapacityLimiter"): anyio_limiters.read_capacity_limiter,
    ("anyio", "Semaphore"): anyio_limiters.read_semaphore,
    ("aiohttp", "BaseConnector"): aiohttp_connectors.read,
    ("httpx", "AsyncClient"): httpx_pools.read_client,
    ("httpx", "AsyncHTTPTransport"): httpx_pools.read_transport,
    ("httpcore", "AsyncConnectionPool"): httpx_pools.read_pool,
    ("concurrent", "ThreadPoolExecutor"): thread_pools.read,
    ("sqlalchemy", "QueuePool"): sqlalchemy_pools.read_pool,
    ("sqlalchemy", "Engine"): sqlalchemy_pools.read_engine,
    ("sqlalchemy", "AsyncEngine"): sqlalchemy_pools.read_engine,
    ("psycopg_pool", "AsyncConnectionPool"): psycopg_pools.read,
    ("asyncpg", "Pool"): asyncpg_pools.read,
}
"""By package and name of a class, which need not be where it is imported from: libraries move theirs about."""

CLASSES = tuple(
    f"{package}.{name}".replace("concurrent.", "concurrent.futures.").replace("BaseConnector", "TCPConnector")
    for package, name in _READERS
)
"""As their users call them."""


def reader_of(limiter: object) -> Reader | None:
    """Return what reads a limiter, None for an object of no known class."""
    names = ((str(base.__module__).partition(".")[0], base.__name__) for base in type(limiter).__mro__)
    return next((_READERS[name] for name in names if name in _READERS), None)
