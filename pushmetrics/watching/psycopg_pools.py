"""psycopg_pool.AsyncConnectionPool, by the statistics that it gives."""

from __future__ import annotations

from typing import Any

from ..model import WatchedState


def read(pool: Any) -> WatchedState:
    """Return the state: connections not in the pool, those being opened included, and clients that wait for one."""
    statistics = pool.get_stats()
    limit, queue_depth = statistics["pool_max"], statistics["requests_waiting"]
    active = 0 if pool.closed else statistics["pool_size"] - statistics["pool_available"]
    if not limit:  # Of a pool that keeps no connection, and opens any number.
        return WatchedState(active=active, queue_depth=queue_depth)
    return WatchedState(limit, active, max(0, limit - active), queue_depth)
