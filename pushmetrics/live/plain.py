"""Plain lines: one for each limit and each other metric, which a pipe can take and a narrow terminal has room for."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import TextIO

from ..errors import PushmetricsError
from .limits import LimitRow
from .names import Names
from .others import OtherRow, tags_text, value_text
from .text import number, pad, safe, size

LABELS = {
    "limit": "limit",
    "active": "active",
    "queue_depth": "queued",
    "queue_depth_peak": "peak",
    "admission_timeouts_total": "timeouts",
    "admission_cancelled_total": "cancelled",
    "admission_rejected_total": "rejected",
}
"""The metrics in a line, and what they are called there; the last ones go where there is no room for them."""

GAP = "  "
TEXT_WIDTH = 100


class Writer:
    """Writes lines no wider than the terminal, where `stream` is one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = stream.encoding or "utf-8"

    @property
    def width(self) -> int | None:
        """How wide a line may be; None for as wide as it likes."""
        return shutil.get_terminal_size().columns if self._stream.isatty() else None

    def lines(self, *lines: str) -> None:
        """Write lines as they are. A character that the stream can not take becomes ``?``."""
        text = "".join(f"{line}\n" for line in lines)
        try:
            self._stream.write(text.encode(self._encoding, "replace").decode(self._encoding))
            self._stream.flush()
        except BrokenPipeError:
            raise  # Its reader has gone, which is no error.
        except OSError as error:
            raise PushmetricsError(f"can not write the output ({error}); write it elsewhere") from error

    def text(self, text: str) -> None:
        """Write text in lines that fit."""
        width = self.width
        text = safe(text)
        self.lines(*([text] if width is None else textwrap.wrap(text, min(width, TEXT_WIDTH), break_on_hyphens=False)))


class LimitLines:
    """Makes a line of each limit. Columns only ever grow; numbers have room for `digits` from the beginning."""

    def __init__(self, digits: int = 1) -> None:
        self._names = Names()
        self._widths: dict[str, int] = {}
        self._digits = digits

    def lines(self, rows: Sequence[LimitRow], width: int | None, among: Sequence[LimitRow] = ()) -> list[str]:
        """Return a line for each limit, no wider than `width`; `among` which others, if there are more."""
        for metric in LABELS:
            least = max(3, self._digits) if metric.endswith("_total") else self._digits
            sizes = [len(number(value)) for row in rows if (value := row.value(metric)) is not None]
            if sizes:  # What no limit has needs no column.
                self._widths[metric] = max(least, self._widths.get(metric, 0), *sizes)
        self._names.look(rows, among)
        cells = [[self._cell(row, metric) for metric in LABELS if metric in self._widths] for row in rows]
        return fitted(self._names, cells, width)

    def _cell(self, row: LimitRow, metric: str) -> str:
        value, label, width = row.value(metric), LABELS[metric], self._widths[metric]
        return " " * (len(label) + 1 + width) if value is None else f"{label} {number(value):>{width}}"


class OtherLines:
    """Makes a line of each other metric. Columns only ever grow."""

    def __init__(self) -> None:
        self._widths = [0, 0, 0]

    def lines(self, rows: Sequence[OtherRow], width: int | None) -> list[str]:
        """Return a line for each metric, cut at `width`."""
        cells = [(safe(row.name), row.kind, value_text(row)) for row in rows]
        for place in range(len(self._widths)):
            self._widths[place] = max([self._widths[place], *(size(row[place]) for row in cells)])
        name_width, kind_width, value_width = self._widths
        return [
            GAP.join([pad(name, name_width), pad(kind, kind_width), value.rjust(value_width), tags_text(row)])[
                :width
            ].rstrip()
            for (name, kind, value), row in zip(cells, rows, strict=True)
        ]


def fitted(
    names: Names, rows: Sequence[Sequence[str]], width: int | None, heading: tuple[str, Sequence[str]] | None = None
) -> list[str]:
    """Return the rows, each behind the name of its limit, and in front of them the `heading`, if there is one.

    Where they do not fit into `width`, the names give way first, then the gaps, then the last columns.
    """
    if not rows:
        return []
    title, first = heading or ("", rows[0])
    body = [first, *rows] if heading else rows
    gap, cells = GAP, len(first)
    forms = names.forms()

    def needed(form: Sequence[str]) -> int:
        return len(gap.join([" " * max(len(title), names.width(form)), *first[:cells]]))

    form = next((form for form in forms if width is None or needed(form) <= width), forms[-1])
    if width is not None and needed(form) > width:
        gap = " "
        while cells > 1 and needed(form) > width:
            cells -= 1
    texts = [title, *names.texts(form)] if heading else names.texts(form)
    longest = max(len(title), names.width(form))
    return [
        gap.join([pad(text, longest), *row[:cells]]).rstrip()[:width] for text, row in zip(texts, body, strict=True)
    ]
