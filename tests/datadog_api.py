"""A stand-in for Datadog's API on loopback: it keeps dashboards and monitors as Datadog does, and can refuse.

What it answers has what Datadog adds: ids, authors, dates, fields with their defaults.
"""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

API_KEY = "0123456789abcdef0123456789abcdef"
APP_KEY = "fedcba9876543210fedcba9876543210fedcba98"


class FakeDatadog:
    """Runs in a thread of its own, since the official client blocks."""

    def __init__(self) -> None:
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.monitors: dict[int, dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.answers: list[tuple[int, bytes, dict[str, str]]] = []
        """What is answered first, instead of what was asked for."""
        self.url = ""
        self._numbers = iter(range(1000, 10**6))

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [call for call in self.calls if call[0] != "GET"]

    def refuse(self, status: int, body: Any = None, times: int = 1, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers += [(status, content, {name.replace("_", "-"): value for name, value in headers.items()})] * times

    def add_dashboard(self, body: dict[str, Any]) -> str:
        number = next(self._numbers)
        identifier = f"abc-{number}"
        self.dashboards[identifier] = decorated(body) | {
            "id": identifier,
            "author_handle": "me@example.com",
            "created_at": "2026-01-01T00:00:00Z",
            "url": f"/dashboard/{identifier}/x",
            "is_read_only": False,
            "notify_list": None,
        }
        return identifier

    def add_monitor(self, body: dict[str, Any]) -> int:
        number = next(self._numbers)
        added = {
            "id": number,
            "org_id": 1,
            "created": "2026-01-01",
            "overall_state": "OK",
            "multi": True,
            "deleted": None,
        }
        monitor = copy.deepcopy(body) | added
        monitor["options"] |= {"silenced": {}, "evaluation_delay": None}
        self.monitors[number] = monitor
        return number

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.calls.append((request.method, request.path.removeprefix("/api/v1")))
        if self.answers:
            status, content, headers = self.answers.pop(0)
            return web.Response(status=status, body=content, headers=headers, content_type="application/json")
        if request.headers.get("DD-API-KEY") != API_KEY or request.headers.get("DD-APPLICATION-KEY") != APP_KEY:
            return web.json_response({"errors": ["Forbidden"]}, status=403)
        assert API_KEY not in str(request.url)
        return await handler(request)

    async def _list_dashboards(self, request: web.Request) -> web.Response:
        start, count = int(request.query.get("start", 0)), int(request.query.get("count", 100))
        fields = ("id", "title", "description", "author_handle")
        summaries = [{field: body.get(field) for field in fields} for body in self.dashboards.values()]
        return web.json_response({"dashboards": summaries[start : start + count]})

    async def _get_dashboard(self, request: web.Request) -> web.Response:
        found = self.dashboards.get(request.match_info["id"])
        return web.json_response(found or {"errors": ["not found"]}, status=200 if found else 404)

    async def _create_dashboard(self, request: web.Request) -> web.Response:
        return web.json_response(self.dashboards[self.add_dashboard(await request.json())])

    async def _update_dashboard(self, request: web.Request) -> web.Response:
        identifier = request.match_info["id"]
        self.dashboards[identifier] |= decorated(await request.json())
        return web.json_response(self.dashboards[identifier])

    async def _list_monitors(self, request: web.Request) -> web.Response:
        tag = request.query.get("monitor_tags")
        return web.json_response([one for one in self.monitors.values() if tag is None or tag in one["tags"]])

    async def _create_monitor(self, request: web.Request) -> web.Response:
        return web.json_response(self.monitors[self.add_monitor(await request.json())])

    async def _update_monitor(self, request: web.Request) -> web.Response:
        number = int(request.match_info["id"])
        self.monitors[number] |= await request.json()
        return web.json_response(self.monitors[number])

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._guard])
        application.add_routes(
            [
                web.get("/api/v1/dashboard", self._list_dashboards),
                web.post("/api/v1/dashboard", self._create_dashboard),
                web.get("/api/v1/dashboard/{id}", self._get_dashboard),
                web.put("/api/v1/dashboard/{id}", self._update_dashboard),
                web.get("/api/v1/monitor", self._list_monitors),
                web.post("/api/v1/monitor", self._create_monitor),
                web.put("/api/v1/monitor/{id}", self._update_monitor),
            ]
        )
        return application


def decorated(body: dict[str, Any]) -> dict[str, Any]:
    """A dashboard as it is given back: each widget has an id, and what was a whole number may have a point."""
    body = copy.deepcopy(body)
    pending = list(body["widgets"])
    for number, widget in enumerate(pending):
        widget["id"] = 7_000_000 + number
        pending += widget["definition"].get("widgets", [])
        for request in widget["definition"].get("requests", []):
            for condition in request.get("conditional_formats", []):
                condition["value"] = float(condition["value"])
    return body


@contextmanager
def fake_datadog() -> Iterator[FakeDatadog]:
    fake = FakeDatadog()
    started, loop = threading.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        runner = web.AppRunner(fake.application(), access_log=None, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        fake.url = f"http://{host}:{port}"
        started.set()
        try:
            await stop.wait()
        finally:
            await runner.cleanup()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(10)
        yield fake
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
