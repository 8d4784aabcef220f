"""Templates into an account: what has to be made, what has to change, and nothing else."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..errors import InvalidValueError, PushmetricsError
from .check import MANAGED_MARK, MANAGED_TAG
from .templates import Body, Template

NO_FIELDS = {"attach_host_name", "cls", "id", "method", "params", "self", "what"}
"""What the API's client, or ours, would take for an argument of its own."""


class Api(Protocol):
    """What is asked of Datadog's API."""

    def dashboards(self) -> Iterable[Body]:
        """Return a summary of each dashboard."""
        ...

    def dashboard(self, identifier: str) -> Body:
        """Return a whole dashboard."""
        ...

    def monitors(self, tag: str) -> list[Body]:
        """Return all monitors with a tag."""
        ...

    def create(self, kind: str, body: Body) -> None:
        """Make a dashboard or a monitor."""
        ...

    def update(self, kind: str, identifier: Any, body: Body) -> None:
        """Write a dashboard or a monitor over."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a push does for one template."""

    template: Template
    action: Literal["create", "update", "keep"]
    identifier: Any = None
    """That of what is there already."""
    diff: str = ""
    """From what is there to the template; of all of it when nothing is there."""


def plan(api: Api, templates: Sequence[Template]) -> list[Change]:
    """Return what a push would do; nothing is written.

    What is there is known by its title and by a mark: the tag ``managed_by:pushmetrics`` of a monitor, a sentence in
    the description of a dashboard. Anything else with that title is somebody's own and is left alone. Raises
    :class:`pushmetrics.PushmetricsError` when there are two that could be meant.
    """
    for template in templates:
        if fields := sorted(NO_FIELDS & template.body.keys()):
            raise InvalidValueError(
                f"{template.name} holds {', '.join(fields)}, which a template may not; an export has it, so take it out"
            )
        if not is_managed(template.kind, template.body):
            mark = f"the sentence {MANAGED_MARK!r} in its description" if template.kind == "dashboard" else MANAGED_TAG
            raise PushmetricsError(f"{template.name} has no mark, so it would be made anew each time; add {mark}")
    dashboards = [summary for summary in api.dashboards() if is_managed("dashboard", summary)]
    monitors = api.monitors(MANAGED_TAG)
    changes = []
    for template in templates:
        if template.kind == "dashboard":
            found = [summary for summary in dashboards if summary.get("title") == template.title]
        else:
            found = [monitor for monitor in monitors if monitor.get("name") == template.title]
        if len(found) > 1:
            raise PushmetricsError(
                f"there are {len(found)} managed {template.kind}s called {template.title!r}; delete all but one"
            )
        if not found:
            changes.append(Change(template=template, action="create", diff=_diff(template, {})))
            continue
        identifier = found[0].get("id")
        there = api.dashboard(str(identifier)) if template.kind == "dashboard" else found[0]
        diff = _diff(template, _of_interest(there, template.body))
        changes.append(Change(template=template, action="update" if diff else "keep", identifier=identifier, diff=diff))
    return changes


def is_managed(kind: str, body: Body) -> bool:
    """Return whether a dashboard, or its summary, or a monitor has the mark of what a push has made."""
    if kind == "dashboard":
        return MANAGED_MARK in str(body.get("description"))
    tags = body.get("tags")
    return isinstance(tags, list) and MANAGED_TAG in tags


def apply(api: Api, change: Change) -> None:
    """Do what was planned for one template."""
    if change.action == "create":
        api.create(change.template.kind, change.template.body)
    elif change.action == "update":
        api.update(change.template.kind, change.identifier, change.template.body)


def _of_interest(there: Any, wanted: Any) -> Any:
    """Return what is there without what Datadog has added to it: ids, authors, dates, defaults."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return {key: _of_interest(there[key], item) for key, item in wanted.items() if key in there}
    if isinstance(there, list) and isinstance(wanted, list) and len(there) == len(wanted):
        return [_of_interest(*pair) for pair in zip(there, wanted, strict=True)]
    return there


def _diff(template: Template, there: Body) -> str:
    if there == template.body:
        return ""
    before, after = (json.dumps(body, indent=2, ensure_ascii=False).splitlines() for body in (there, template.body))
    return "\n".join(
        difflib.unified_diff(before if there else [], after, f"datadog/{template.name}", template.name, lineterm="")
    )
