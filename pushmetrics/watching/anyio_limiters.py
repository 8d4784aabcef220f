"""anyio.CapacityLimiter and anyio.Semaphore, by what they are documented to have."""

from __future__ import annotations

import math
from typing import Any

from ..model import WatchedState


def read_capacity_limiter(limiter: Any) -> WatchedState:
    """Return the state; one of infinitely many tokens limits nothing."""
    statistics = limiter.statistics()
    limit, active, queue_depth = statistics.total_tokens, statistics.borrowed_tokens, statistics.tasks_waiting
    if math.isinf(limit):
        return WatchedState(active=active, queue_depth=queue_depth)
    # More are borrowed than there are after total_tokens was lowered.
    return WatchedState(limit, active, max(0, limit - active), queue_depth)


def read_semaphore(semaphore: Any) -> WatchedState:
    """Return the state; one without a max_value has forgotten how many slots it began with."""
    limit, available, queue_depth = semaphore.max_value, semaphore.value, semaphore.statistics().tasks_waiting
    active = None if limit is None else limit - available
    return WatchedState(limit, active, available, queue_depth)
