"""SQLAlchemy's QueuePool and AsyncAdaptedQueuePool, and engines by the pool that they have at the time."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidTypeError
from ..model import WatchedState


def read_engine(engine: Any) -> WatchedState:
    """Return the state of an engine's pool, another one after each ``dispose()``."""
    pool = engine.pool
    if not hasattr(pool, "_max_overflow"):
        raise InvalidTypeError(f"its pool is a {type(pool).__name__}, and only a QueuePool limits connections")
    return read_pool(pool)


def read_pool(pool: Any) -> WatchedState:
    """Return the state: connections that are checked out. Who waits for one, a pool does not tell."""
    active = max(0, pool.checkedout())  # Below 0 when connections come back to a pool that was disposed of.
    size, overflow = pool.size(), pool._max_overflow
    if size == 0 or overflow < 0:  # Which stands for no limit.
        return WatchedState(active=active)
    limit = size + overflow
    return WatchedState(limit, active, max(0, limit - active))
