"""Finding the templates: in the wheel, or in the checkout of an editable install."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import InvalidValueError

Body = dict[str, Any]
"""What Datadog's API takes and gives."""

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Template:
    """A dashboard or a monitor."""

    name: str
    """What it is called on the command line."""
    kind: Literal["dashboard", "monitor"]
    body: Body

    @property
    def title(self) -> str:
        """What it is called at Datadog."""
        return str(self.body["title" if self.kind == "dashboard" else "name"])


def folder() -> Path:
    """Return the folder ``dashboards`` of the wheel, else that of the checkout."""
    shipped = _PACKAGE / "_dashboards"
    return shipped if shipped.is_dir() else _PACKAGE.parent / "dashboards"


def names() -> list[str]:
    """Return the names of all templates, dashboards first."""
    return [path.stem for path in _paths()]


def load(name: str) -> Template:
    """Return a template by its name; raises :class:`pushmetrics.PushmetricsError` (a ValueError) if there is none."""
    for path in _paths():
        if path.stem == name:
            kind: Literal["dashboard", "monitor"] = "monitor" if path.parent.name == "monitors" else "dashboard"
            return Template(name, kind, json.loads(path.read_text(encoding="utf-8")))
    raise InvalidValueError(f"there is no template {name!r}; these are: {', '.join(names())}")


def load_file(path: Path) -> Template:
    """Return a template of your own: a file that was rendered and then changed, or an export without its ids.

    Raises :class:`pushmetrics.PushmetricsError` (a ValueError) for what is no template, and OSError.
    """
    try:
        body = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
        json.dumps(body, ensure_ascii=False).encode()  # Half a character can be written as \ud800, and not be sent.
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"{path} is no JSON: {error}") from None
    if isinstance(body, dict):
        if "title" in body and "widgets" in body:
            return Template(path.stem, "dashboard", body)
        if "name" in body and "query" in body:
            return Template(path.stem, "monitor", body)
    raise InvalidValueError(
        f"{path} is no dashboard, with a title and widgets, and no monitor, with a name and a query"
    )


def load_all() -> list[Template]:
    """Return all templates, dashboards first."""
    return [load(name) for name in names()]


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _paths() -> list[Path]:
    datadog = folder() / "datadog"
    return [*sorted(datadog.glob("*.json")), *sorted((datadog / "monitors").glob("*.json"))]
