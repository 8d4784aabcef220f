"""Any other metrics, in a plain table of as many rows as there is room for."""

from __future__ import annotations

from rich.text import Text

from .board import Look
from .others import tags_text, value_text
from .styles import STYLES
from .text import Glyphs, cut, pad, safe, size

MIN_NAME = 16
MAX_NAME = 48


class OthersTable:
    """Draws the metrics that are no limit's. Columns only ever grow."""

    def __init__(self, glyphs: Glyphs) -> None:
        self._glyphs = glyphs
        self._name = len("other metrics")
        self._kind = len("kind")
        self._value = len("value")

    def lines(self, look: Look, width: int, room: int) -> list[Text]:
        """Return the heading and at most `room` - 1 further lines."""
        if room < 2:
            return []
        rows = look.others
        hidden = look.more_others
        if len(rows) + bool(hidden) > room - 1:
            hidden += len(rows) - (room - 2)
            rows = rows[: room - 2]
        cells = [(safe(row.name), row.kind, value_text(row), tags_text(row)) for row in rows]
        for name, kind, value, _ in cells:
            self._name = max(self._name, min(size(name), MAX_NAME))
            self._kind = max(self._kind, len(kind))
            self._value = max(self._value, len(value))
        name_width = max(MIN_NAME, min(self._name, width - self._kind - self._value - 8))
        tags_width = max(0, width - name_width - self._kind - self._value - 8)
        heading = ("other metrics", "kind", "value", "tags")
        lines = [
            Text(
                f"  {pad(cut(name, name_width, self._glyphs), name_width)}  {kind.ljust(self._kind)}  "
                f"{value.rjust(self._value)}  {cut(tags, tags_width, self._glyphs)}"
            )
            for name, kind, value, tags in (heading, *cells)
        ]
        lines[0].stylize(STYLES["heading"])
        if hidden > 0:
            lines.append(Text(f"  {self._glyphs.ellipsis} and {hidden} more", STYLES["quiet"]))
        return lines
