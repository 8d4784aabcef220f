"""concurrent.futures.ThreadPoolExecutor."""

from __future__ import annotations

from typing import Any

from ..model import WatchedState


def read(executor: Any) -> WatchedState:
    """Return the limit and the calls that no thread has taken yet, cancelled ones among them.

    How many threads are busy it does not know: its count of idle ones is too high in some versions of Python.
    """
    queue_depth: int | None = executor._work_queue.qsize()
    if executor._shutdown:
        # What tells the threads to end stands in the queue, too, once for each shutdown() and while no thread has it.
        queue_depth = None if any(thread.is_alive() for thread in tuple(executor._threads)) else 0
    return WatchedState(limit=executor._max_workers, queue_depth=queue_depth)
