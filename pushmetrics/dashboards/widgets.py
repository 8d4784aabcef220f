"""Walking through a dashboard: its widgets, and the requests, queries and formulas in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .templates import Body

COLUMNS = 12
"""How wide a dashboard is (https://docs.datadoghq.com/dashboards/#dashboard-layout)."""


def definitions(widgets: list[Body]) -> Iterator[Body]:
    """Yield what defines each widget: a group, then those inside of it."""
    for widget in widgets:
        definition = widget["definition"]
        yield definition
        yield from definitions(definition.get("widgets", []))


def requests(body: Body) -> Iterator[tuple[str, Body]]:
    """Yield each request of a dashboard, with the title of its widget."""
    for definition in definitions(body["widgets"]):
        for request in definition.get("requests", []):
            yield str(definition.get("title", definition["type"])), request


def queries(body: Body) -> Iterator[tuple[str, str]]:
    """Yield the text of each query, with the title of its widget."""
    for title, request in requests(body):
        for query in request["queries"]:
            yield title, str(query["query"])


def lay_out(widgets: list[Body]) -> int:
    """Put widgets from left to right and from top to bottom, a group as high as it needs; return the whole height."""
    left = top = row = 0
    for widget in widgets:
        layout: dict[str, Any] = widget["layout"]
        if "widgets" in widget["definition"]:
            layout["height"] = lay_out(widget["definition"]["widgets"]) + 1  # Its title.
        if left + layout["width"] > COLUMNS:
            left, top, row = 0, top + row, 0
        layout["x"], layout["y"] = left, top
        left += layout["width"]
        row = max(row, layout["height"])
    return top + row
