"""httpx.AsyncClient and httpx.AsyncHTTPTransport by their pool, which is an httpcore.AsyncConnectionPool."""

from __future__ import annotations

import sys
from typing import Any

from ..errors import InvalidTypeError
from ..model import WatchedState


def read_client(client: Any) -> WatchedState:
    """Return the state of the only pool of a client; raises InvalidTypeError when it has several, or none."""
    transports = [client._transport, *client._mounts.values()]
    pools = {id(transport._pool): transport._pool for transport in transports if hasattr(transport, "_pool")}
    if len(pools) != 1:
        raise InvalidTypeError(
            f"it has {len(pools)} connection pools, one for each proxy and mounted transport that makes connections: "
            "watch each httpx.AsyncHTTPTransport that it was given"
        )
    return read_pool(*pools.values())


def read_transport(transport: Any) -> WatchedState:
    """Return the state of a transport's pool."""
    return read_pool(transport._pool)


def read_pool(pool: Any) -> WatchedState:
    """Return the state: connections that are no longer free, those being opened included, and requests without one."""
    # In one piece, since this may be another thread than the loop's.
    connections = [request.connection for request in tuple(pool._requests)]
    queue_depth = connections.count(None)
    # Over HTTP/2 several requests share a connection. One whose request was cancelled before it was opened has none.
    taken = {id(connection) for connection in connections if connection is not None}
    taken |= {id(one) for one in tuple(pool._connections) if not (one.is_idle() or one.is_closed())}
    active = len(taken)
    limit = pool._max_connections
    if limit == sys.maxsize:  # Which stands for none.
        return WatchedState(active=active, queue_depth=queue_depth)
    return WatchedState(limit, active, max(0, limit - active), queue_depth)
