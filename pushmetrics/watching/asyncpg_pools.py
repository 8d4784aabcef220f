"""asyncpg.Pool, by its public methods. It can not be referenced weakly."""

from __future__ import annotations

from typing import Any

from ..model import WatchedState


def read(pool: Any) -> WatchedState:
    """Return the state: connections that are in use. Who waits for one, a pool does not tell."""
    limit, active = pool.get_max_size(), pool.get_size() - pool.get_idle_size()
    return WatchedState(limit, active, limit - active)
