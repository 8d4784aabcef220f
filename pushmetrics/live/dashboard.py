"""A whole dashboard on a terminal: its groups in one column or two, and on pages where it is too long."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from rich.style import Style
from rich.text import Text

from ..dashboards.evaluate import Panel
from .panels import panel_lines
from .styles import STYLES
from .text import Glyphs, cut, safe, size

TWO_COLUMNS = 110
"""From how many cells on there are two columns."""

PAGE_SECONDS = 6.0
"""How long each page is shown."""

GAP = 3

HEADING = Style(bold=True, underline=True)


class Drawn(NamedTuple):
    """A group as it is drawn."""

    heading: Text
    rows: Sequence[Sequence[Text]]
    """The lines of each panel, or of two beside each other, which stay together."""


def drawn_groups(panels: Sequence[Panel], width: int, glyphs: Glyphs) -> list[Drawn]:
    """Return each group that has something to be drawn."""
    return [
        Drawn(Text(cut(safe(title), width, glyphs), style=HEADING), rows)
        for title, members in groupby(panels, lambda panel: panel.group)
        if (rows := _rows(list(members), width, glyphs))
    ]


def pages(groups: Sequence[Drawn], height: int) -> list[list[Text]]:
    """Return the lines of each page: at most `height` of them, and as many rows as fit, each under its heading."""
    made: list[list[Text]] = [[]]
    for heading, rows in groups:
        title = [heading]
        for row in rows:
            gap = [Text()] if title and made[-1] else []
            if made[-1] and len(made[-1]) + len(gap) + len(title) + len(row) > height:
                made.append([])
                gap, title = [], [heading]
            made[-1] += [*gap, *title, *row]
            title = []
    return made


def page_number(number_of_pages: int, seconds: float) -> int:
    """Return whose turn it is after `seconds`, counted from 0."""
    return int(seconds / PAGE_SECONDS) % number_of_pages


def framed(left: str, right: str, width: int, glyphs: Glyphs) -> Text:
    """Return a line with something at its left, and at its right if there is room."""
    text = Text(cut(left, width, glyphs), style=STYLES["title"])
    room = width - size(text.plain) - size(right)
    if room > 1:
        text.append(" " * room)
        text.append(right, style=STYLES["quiet"])
    return text


def _rows(panels: Sequence[Panel], width: int, glyphs: Glyphs) -> list[list[Text]]:
    columns = 2 if width >= TWO_COLUMNS else 1
    cell = (width - GAP * (columns - 1)) // columns
    blocks = [lines for panel in panels if (lines := panel_lines(panel, cell, glyphs))]
    rows = []
    for place in range(0, len(blocks), columns):
        row = blocks[place : place + columns]
        lines = []
        for number in range(max(map(len, row))):
            line = Text()
            for column, block in enumerate(row):
                line.append(" " * ((cell + GAP) * column - size(line.plain)))
                if number < len(block):
                    line.append_text(block[number])
            lines.append(line)
        rows.append(lines)
    return rows
