"""aiohttp.TCPConnector, and the other connectors of a client session."""

from __future__ import annotations

from typing import Any

from ..model import WatchedState


def read(connector: Any) -> WatchedState:
    """Return the state: connections in use, those being opened included, and requests that wait for one.

    Requests that wait because of ``limit_per_host`` are among them. A limit of 0 is none.
    """
    limit, active = connector.limit, len(connector._acquired)
    # In one piece, since this may be another thread than the loop's.
    waiters = [waiter for queue in tuple(connector._waiters.values()) for waiter in tuple(queue)]
    queue_depth = sum(not waiter.done() for waiter in waiters)
    if not limit:
        return WatchedState(active=active, queue_depth=queue_depth)
    return WatchedState(limit, active, max(0, limit - active), queue_depth)
