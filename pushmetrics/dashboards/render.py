"""Templates for another namespace and another level."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..catalog import HEALTH_METRICS, HEALTH_NAMESPACE, LEVELS, metrics_at
from ..errors import InvalidValueError
from ..query import metrics_of, parse, parse_monitor
from ..redaction import shown
from ..settings import DEFAULT_NAMESPACE
from ..tags import metric_namespace
from .templates import Body, Template
from .widgets import lay_out

HANDLE = re.compile(r"@[A-Za-z0-9][A-Za-z0-9_.@+-]*")

_DEFAULT = re.compile(rf"(?<![\w.]){re.escape(DEFAULT_NAMESPACE)}(?!\w)")


def render(
    templates: Sequence[Template],
    *,
    namespace: str = DEFAULT_NAMESPACE,
    level: str = "full",
    notify: Sequence[str] = (),
) -> list[Template]:
    """Return templates for the metrics that a Reporter with this namespace and level sends.

    A widget, or a monitor, whose metric the level does not send is left out. `notify` are handles such as
    ``"@slack-oncall"`` that each monitor notifies. Raises :class:`pushmetrics.PushmetricsError` (a ValueError or
    TypeError) for a bad argument.
    """
    if level not in LEVELS:
        raise InvalidValueError(f"a level is one of {', '.join(LEVELS)}, got {shown(level)}")
    for handle in notify:
        if not HANDLE.fullmatch(handle):
            raise InvalidValueError(f"a handle is one such as @slack-oncall or @me@example.com, got {shown(handle)}")
    name = metric_namespace(namespace)
    sent = {f"{name}.{metric.name}" for metric in metrics_at(level)}
    sent |= {f"{HEALTH_NAMESPACE}.{metric.name}" for metric in HEALTH_METRICS}
    rendered = []
    for template in templates:
        body = _renamed(copy.deepcopy(template.body), name)
        if template.kind == "dashboard":
            body["widgets"] = _kept(body["widgets"], lambda query: _names(query) <= sent)
            lay_out(body["widgets"])
        elif not {metric.name for metric in metrics_of(parse_monitor(body["query"]).expression)} <= sent:
            continue
        elif notify:
            body["message"] += f"\n\n{' '.join(notify)}"
        rendered.append(replace(template, body=body))
    return rendered


def _renamed(value: Any, namespace: str) -> Any:
    """Return a value with the default namespace replaced in each text."""
    if isinstance(value, str):
        return _DEFAULT.sub(namespace, value)
    if isinstance(value, list):
        return [_renamed(item, namespace) for item in value]
    if isinstance(value, dict):
        return {key: _renamed(item, namespace) for key, item in value.items()}
    return value


def _names(query: str) -> set[str]:
    return {metric.name for metric in metrics_of(parse(query))}


def _kept(widgets: list[Body], is_sent: Callable[[str], bool]) -> list[Body]:
    """Return the widgets of which something is left; a group that holds nothing but notes is not."""
    kept = []
    for widget in widgets:
        definition = widget["definition"]
        if "requests" in definition:
            definition["requests"] = [
                request
                for request in definition["requests"]
                if all(is_sent(query["query"]) for query in request["queries"])
            ]
            if not definition["requests"]:
                continue
        if "widgets" in definition:
            definition["widgets"] = _kept(definition["widgets"], is_sent)
            if all(inner["definition"]["type"] == "note" for inner in definition["widgets"]):
                continue
        kept.append(widget)
    return kept
