"""asyncio.Semaphore and asyncio.BoundedSemaphore."""

from __future__ import annotations

from typing import Any

from ..model import WatchedState


def read(semaphore: Any) -> WatchedState:
    """Return what a plain one knows, which has forgotten how many slots it began with."""
    return WatchedState(available=semaphore._value, queue_depth=_queue_depth(semaphore))


def read_bounded(semaphore: Any) -> WatchedState:
    """Return the state, slots granted to a waiter that has not run yet among the active ones."""
    limit, available = semaphore._bound_value, semaphore._value
    return WatchedState(limit, limit - available, available, _queue_depth(semaphore))


def _queue_depth(semaphore: Any) -> int:
    # A waiter that is done was granted a slot or cancelled, and its task has not run yet. In one piece, since this may
    # be another thread than the loop's; None before the first waiter.
    return sum(not waiter.done() for waiter in tuple(semaphore._waiters or ()))
