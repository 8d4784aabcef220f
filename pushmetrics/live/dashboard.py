"""A whole dashboard on a terminal: its groups in one column or two, and on pages where it is too long."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from ..dashboards.evaluate import Panel
from .panels import panel_lines
from .styles import STYLES
from .text import Glyphs, cut, size

TWO_COLUMNS = 110
"""From how many cells on there are two columns."""

PAGE_SECONDS = 6.0
"""How long each page is shown."""

GAP = 3


def dashboard_lines(panels: Sequence[Panel], width: int, glyphs: Glyphs) -> list[list[Text]]:
    """Return the lines of each group that has something to be drawn, its title first."""
    return [
        lines
        for title, members in groupby(panels, lambda panel: panel.group)
        if len(lines := _group(title, list(members), width, glyphs)) > 1
    ]


def page(groups: Sequence[list[Text]], height: int, seconds: float) -> tuple[list[Text], int, int]:
    """Return the lines of the page whose turn it is after `seconds`, its number from 1 on, and how many there are.

    A page holds as many whole groups as fit; a group that is too high for one is cut into several.
    """
    height = max(height, 3)
    pages: list[list[Text]] = []
    for group in groups:
        heading, *rest = group
        for place in range(0, len(rest), height - 2):
            part = [heading, *rest[place : place + height - 2], Text()]
            if pages and len(pages[-1]) + len(part) - 1 <= height:
                pages[-1] += part
            else:
                pages.append(part)
    if not pages:
        return [], 1, 1
    number = int(seconds / PAGE_SECONDS) % len(pages)
    return pages[number], number + 1, len(pages)


def framed(left: str, right: str, width: int, glyphs: Glyphs) -> Text:
    """Return a line with something at its left, and at its right if there is room."""
    text = Text(cut(left, width, glyphs), style=STYLES["title"])
    room = width - size(text.plain) - size(right)
    if room > 1:
        text.append(" " * room)
        text.append(right, style=STYLES["quiet"])
    return text


def _group(title: str, panels: Sequence[Panel], width: int, glyphs: Glyphs) -> list[Text]:
    columns = 2 if width >= TWO_COLUMNS else 1
    cell = (width - GAP * (columns - 1)) // columns
    blocks = [lines for panel in panels if (lines := panel_lines(panel, cell, glyphs))]
    lines = [Text(cut(title, width, glyphs), style=STYLES["heading"])]
    for place in range(0, len(blocks), columns):
        row = blocks[place : place + columns]
        for number in range(max(map(len, row))):
            line = Text()
            for column, block in enumerate(row):
                if column:
                    line.append(" " * (cell * column + GAP * column - size(line.plain)))
                if number < len(block):
                    line.append_text(block[number])
            lines.append(line)
    return lines
