"""The model server: HTTP on loopback, with a limit on its requests upstream and an admission timeout."""

from __future__ import annotations

import asyncio
import random
from typing import Self

from aiohttp import web

from pushmetrics import AdmissionTimeoutError, MeteredSemaphore, QueueFullError, Registry

UPSTREAM_SECONDS = (0.3, 0.8)
"""What the model behind the server takes to answer."""

RIGHT_ANSWERS = 0.85
"""How often the model is right."""


class ModelServer:
    """Passes questions on to a model, `limit` at a time.

    A request that is not admitted within `admission_timeout` seconds, or that finds `max_queue_depth` others in the
    queue, is answered with 503.
    """

    def __init__(
        self, limit: int, admission_timeout: float, registry: Registry, *, max_queue_depth: int | None = None
    ) -> None:
        self.limit = MeteredSemaphore(
            limit,
            component="model_server",
            limit_name="upstream_requests",
            server="policy_model",
            admission_timeout=admission_timeout,
            max_queue_depth=max_queue_depth,
            registry=registry,
        )
        application = web.Application()
        application.router.add_post("/v1/responses", self._respond)
        # With handler_cancellation, a client that hangs up leaves the queue at once.
        self._runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)

    @property
    def url(self) -> str:
        """Where to post questions, once the server has been entered."""
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}/v1/responses"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        except BaseException:
            await self._runner.cleanup()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._runner.cleanup()

    async def _respond(self, request: web.Request) -> web.Response:
        question = (await request.json())["input"]
        try:
            async with self.limit:
                answer = await _call_model(question)
        except (AdmissionTimeoutError, QueueFullError) as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None
        return web.json_response({"output": answer})


async def _call_model(question: str) -> str:
    """Stand in for a model on somebody else's machine."""
    await asyncio.sleep(random.uniform(*UPSTREAM_SECONDS))
    left, right = question.split(" * ")
    product = int(left) * int(right)
    return str(product if random.random() < RIGHT_ANSWERS else product + 10)
