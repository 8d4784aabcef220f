"""One panel of a dashboard as lines of text: graphs as sparklines, top lists as bars, numbers as numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.style import Style
from rich.text import Text

from ..dashboards.evaluate import Layer, Panel, holds
from ..query import Group
from ..query.lines import NOT_THERE
from .styles import STYLES
from .text import Glyphs, bar, cut, duration, number, pad, safe, size, spark

MOST_LINES = 6
"""How many lines of a graph are drawn, those that are the highest."""

VALUE_WIDTH = 7
TITLE_WIDTH = 16
LABEL_SHARE = 0.4
"""How much of the width the names of lines take."""

PALETTES = {
    "cool": Style(color="blue"),
    "orange": Style(color="yellow"),
    "warm": Style(color="red"),
    "purple": Style(color="magenta"),
    "gray": Style(dim=True),
    "semantic": Style(color="cyan"),
    "": Style(color="cyan"),
}
"""The palettes of the templates in the colours of a terminal."""

_FORMATS = {"red": STYLES["hot"], "yellow": STYLES["warm"], "green": STYLES["good"]}


def value_text(value: float, unit: str) -> str:
    """Return a value with its unit, in seven characters."""
    if unit == "millisecond":
        return duration(value)
    if unit == "percent":
        return f"{number(round(value))}%" if value >= 9.95 or value <= 0 else f"{value:.1f}%"
    return number(round(value, 2))


def panel_lines(panel: Panel, width: int, glyphs: Glyphs) -> list[Text]:
    """Return a panel in lines of at most `width` cells, its title first; nothing of a note."""
    if panel.kind == "note":
        return []
    if panel.problem:
        lines = textwrap.wrap(safe(panel.problem), max(1, width))
        return [_title(panel, width, glyphs), *(Text(line, style=STYLES["hot"]) for line in lines)]
    draw = {"toplist": _toplist, "query_value": _number}.get(panel.kind, _graph)
    return list(draw(panel, width, glyphs))


def _title(panel: Panel, width: int, glyphs: Glyphs, right: str = "") -> Text:
    text = Text().append(cut(safe(panel.title), width - len(right) - 1, glyphs), style=STYLES["title"])
    if right:
        text.append(" " * (width - size(text.plain) - len(right)))
        text.append(right, style=STYLES["heading"])
    return text


def _graph(panel: Panel, width: int, glyphs: Glyphs) -> Iterator[Text]:
    rows = [(layer, group, points) for layer in panel.layers for group, points in _highest(layer) if points]
    tops = [max(points.values()) for _, _, points in rows]
    top = max([*tops, *panel.marks], default=0.0)
    shown = rows[: max(MOST_LINES, len(panel.layers))]
    yield _title(panel, width, glyphs, "" if not rows else f"{'now':>{VALUE_WIDTH}} {'max':>{VALUE_WIDTH}}")
    if not rows:
        yield Text("no data", style=STYLES["quiet"])
        return
    labels = [_label(layer, group, several=len(panel.layers) > 1) for layer, group, _ in shown]
    label_width = int(width * LABEL_SHARE)  # The same for all, so that the same time is below itself.
    cells = max(1, width - label_width - 2 * VALUE_WIDTH - 3)
    for (layer, _, points), label in zip(shown, labels, strict=True):
        starts = layer.lines.span.starts()
        last = points.get(starts[-1]) if starts else None
        newest = "" if last is None else value_text(last, layer.unit)
        highest = value_text(max(points.values()), layer.unit)
        line = Text(pad(cut(label, label_width, glyphs), label_width) + " ")
        line.append(
            _sparks([points.get(start) for start in starts], cells, top, glyphs),
            style=PALETTES.get(layer.palette, PALETTES[""]),
        )
        line.append(f" {newest:>{VALUE_WIDTH}} ")
        line.append(f"{highest:>{VALUE_WIDTH}}", style=STYLES["quiet"])
        yield line
    if len(rows) > len(shown):
        yield Text(f"and {len(rows) - len(shown)} more", style=STYLES["quiet"])


def _highest(layer: Layer) -> list[tuple[Group, dict[float, float]]]:
    return sorted(layer.lines.points.items(), key=lambda item: (-max(item[1].values(), default=0.0), item[0]))


def _sparks(values: Sequence[float | None], cells: int, top: float, glyphs: Glyphs) -> str:
    """Return a sparkline in `cells` cells; a gap is a space, and of several values in a cell the highest counts."""
    text = ""
    for cell in range(cells):
        place, end = cell * len(values) // cells, (cell + 1) * len(values) // cells
        known = [value for value in values[place : max(end, place + 1)] if value is not None]
        text += spark(max(known), top or 1.0, glyphs) if known else " "
    return text


def _toplist(panel: Panel, width: int, glyphs: Glyphs) -> Iterator[Text]:
    yield _title(panel, width, glyphs)
    for layer in panel.layers:
        rows = [(next(iter(points.values())), group) for group, points in layer.lines.points.items() if points]
        rows.sort(key=lambda row: (row[0] if layer.order == "asc" else -row[0], row[1]))
        if not rows:
            yield Text("no data", style=STYLES["quiet"])
        top = max((value for value, _ in rows), default=0.0)
        bar_width = max(4, width // 4)
        for value, group in rows[: layer.most]:
            style = _style(panel, value)
            filled, track = bar(value / top if top > 0 else 0.0, bar_width, glyphs)
            line = Text().append(f"{value_text(value, layer.unit):>{VALUE_WIDTH}} ", style=style)
            line.append(filled, style=style).append(track, style=STYLES["track"])
            line.append(" " + cut(_label(layer, group, several=False), width - bar_width - VALUE_WIDTH - 2, glyphs))
            yield line


def _number(panel: Panel, width: int, glyphs: Glyphs) -> Iterator[Text]:
    for layer in panel.layers:
        values = [value for points in layer.lines.points.values() for value in points.values()]
        title = pad(cut(safe(panel.title), width - VALUE_WIDTH - 1, glyphs), TITLE_WIDTH)
        line = Text().append(title, style=STYLES["title"])
        if values:
            line.append(f"{value_text(values[0], layer.unit):>{VALUE_WIDTH}}", style=_style(panel, values[0]))
        else:
            line.append("no data", style=STYLES["quiet"])
        yield line


def _style(panel: Panel, value: float) -> Style:
    for comparator, bound, palette in panel.formats:
        if holds(value, comparator, bound):
            return _FORMATS.get(palette.rpartition("_")[2], Style())
    return Style()


def _label(layer: Layer, group: Group, *, several: bool) -> str:
    # What is picked to see more of it comes first, since the end may be cut off.
    tags = sorted(zip(layer.lines.by, group, strict=True), key=lambda tag: tag[0] != "limit_name")
    names = " ".join(safe(value) for _, value in tags if value != NOT_THERE)
    label = safe(layer.label)
    return f"{names} {label}" if names and several else names or label
