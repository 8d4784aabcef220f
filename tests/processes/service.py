"""A service with 25 slots in each process, all of them busy from its start to its end; run by hand or by a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pushmetrics import MeteredSemaphore, Reporter

SLOTS = 25

limit = MeteredSemaphore(SLOTS, component="service", limit_name="requests")
reporter = Reporter(namespace="service")


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Begin and end with the server, as an ASGI application; requests are not taken."""
    if scope["type"] != "lifespan":
        raise NotImplementedError
    await receive()
    for _ in range(SLOTS):
        await limit.acquire()
    await reporter.start()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await reporter.aclose()
    await send({"type": "lifespan.shutdown.complete"})


async def main() -> None:
    for _ in range(SLOTS):
        await limit.acquire()
    async with reporter:
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
