"""The styles of a picture. Colours are the sixteen that each terminal has in its own taste."""

from __future__ import annotations

from rich.style import Style

STYLES = {
    "": Style(),
    "quiet": Style(dim=True),
    "good": Style(color="green"),
    "warm": Style(color="yellow"),
    "hot": Style(color="red", bold=True),
    "track": Style(dim=True),
    "name": Style(bold=True),
    "part": Style(),
    "title": Style(bold=True),
    "heading": Style(dim=True),
}
