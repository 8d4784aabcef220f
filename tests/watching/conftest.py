"""Servers that answer when they are told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web


class SlowServer:
    """An HTTP server that answers no request before it may."""

    def __init__(self) -> None:
        self.url = ""
        self.requests = 0
        self._changed = asyncio.Condition()
        self._may_answer = asyncio.Event()

    async def handle(self, request: web.Request) -> web.Response:
        async with self._changed:
            self.requests += 1
            self._changed.notify_all()
        await self._may_answer.wait()
        return web.Response(text="done")

    async def has(self, requests: int) -> None:
        """Wait until so many requests have come."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.requests >= requests)

    def answer(self) -> None:
        """Answer all, from now on."""
        self._may_answer.set()


@pytest.fixture
async def slow_server() -> AsyncIterator[SlowServer]:
    server = SlowServer()
    app = web.Application()
    app.router.add_get("/", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = site.name if not site.name.endswith(":0") else f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    server.answer()
    await runner.cleanup()
