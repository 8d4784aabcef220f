"""Numbers, durations, bars and sparklines as text, and text that is safe on a terminal. No colours."""

from __future__ import annotations

import math
import unicodedata
from typing import NamedTuple


class Glyphs(NamedTuple):
    """The characters of a picture."""

    bar: str
    """From the smallest part of a cell to a whole one."""
    track: str
    """The part of a bar that is empty."""
    spark: str
    """From nothing to the top."""
    ellipsis: str
    dot: str

    @property
    def ascii_only(self) -> bool:
        """Whether a terminal can show nothing but ASCII."""
        return self.dot.isascii()


# Nothing here fills a line from top to bottom: neighbours would grow together.
UNICODE = Glyphs("▆", "▁", "▁▂▃▄▅▆▇", "…", "·")
ASCII = Glyphs("#", ".", "_.-=+*%#", "~", "-")


def safe(text: str) -> str:
    """Return `text` without what could move a cursor, change a colour or stack up; each such character becomes ``?``.

    The receiver lets none of it into names and tags. This is for what comes from elsewhere, and in case it does.
    """
    if text.isascii() and text.isprintable():
        return text
    text = unicodedata.normalize("NFC", text)
    return "".join("?" if unicodedata.category(one)[0] in "CMZ" and one != " " else one for one in text)


def number(value: float) -> str:
    """Return a number in seven characters, eight with a sign: 0, 4.25, 12345, 123k, 1.5M, 3e+20."""
    magnitude = abs(value)
    if not math.isfinite(value):
        return str(value)
    if magnitude < 99_999.5:
        if float(value).is_integer() or magnitude >= 999.5:
            return str(round(value))
        return f"{value:.3g}" if magnitude >= 0.001 else f"{value:.0e}"
    for factor, letter in ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")):
        if magnitude < 999.5 * factor:
            return f"{value / factor:.3g}{letter}"
    return f"{value:.0e}"


def duration(milliseconds: float) -> str:
    """Return a duration in six characters: 0, 850 ms, 1.2 s, 45 s, 12 min, 3.5 h."""
    if milliseconds < 0.5:
        return "0"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 9.95 else f"{number(round(hours))} h"


def percent(share: float) -> str:
    """Return a share of 1 in whole percent. Nothing but 0 is 0 %, and nothing but all of it is 100 %."""
    if share <= 0 or share >= 1:
        return "0%" if share <= 0 else "100%"
    return f"{min(99, max(1, round(share * 100)))}%"


def counted(count: int, thing: str) -> str:
    """Return how many there are of a thing whose plural ends in s."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def size(text: str) -> int:
    """Return how many cells of a terminal `text` takes: two for each wide character, as in Chinese."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def pad(text: str, width: int) -> str:
    """Return `text` with as many spaces behind it as it needs to fill `width` cells."""
    return text + " " * (width - size(text))


def cut(text: str, width: int, glyphs: Glyphs) -> str:
    """Return `text` in no more than `width` cells."""
    if size(text) <= width:
        return text
    if width <= 0:
        return ""
    while size(text) > width - 1:
        text = text[:-1]
    return text + glyphs.ellipsis


def bar(fraction: float, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """Return the filled and the empty part of a bar. It is full only at 1, and empty only at 0."""
    steps = len(glyphs.bar)
    whole = steps * width
    filled = math.ceil(fraction * whole) if fraction * whole < 1 else math.floor(fraction * whole + 1e-9)
    filled = max(0, min(filled, whole))
    text = glyphs.bar[-1] * (filled // steps)
    if filled % steps:
        text += glyphs.bar[filled % steps - 1]
    return text, glyphs.track * (width - len(text))


def spark(value: float, top: float, glyphs: Glyphs) -> str:
    """Return one cell of a sparkline: the lowest level for 0 alone, the highest for `top` and above."""
    levels = len(glyphs.spark) - 1
    if value <= 0:
        return glyphs.spark[0]
    return glyphs.spark[min(levels, max(1, math.ceil(value / top * levels - 1e-9)))]
