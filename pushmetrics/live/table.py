"""The table of the limits, any other metrics and the footer, drawn with rich as lines that fit a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from .board import Look
from .columns import COLUMNS, fill_style, usage
from .footer import footer_lines
from .limits import History, LimitRow
from .names import Names
from .others_table import OthersTable
from .plan import Plan, Widths, make_plan
from .styles import STYLES
from .text import Glyphs, bar, cut, safe, size, spark

HEADINGS = {column.key: (column.heading, column.short) for column in COLUMNS}
MARGIN = 2
"""At the left, with a mark at each limit that is full while work waits."""


class Table:
    """Draws looks. It remembers how wide everything has been, so that nothing moves without need."""

    def __init__(self, glyphs: Glyphs) -> None:
        self._glyphs = glyphs
        self._names = Names()
        self._widths = Widths()
        self._others = OthersTable(glyphs)

    def lines(self, look: Look, width: int, height: int, title: tuple[str, str], hint: str = "") -> list[Text]:
        """Return the lines of a picture. `title` stands at the left and the right of the first line."""
        footer = footer_lines(look, width, self._glyphs, hint)
        room = max(3, height - len(footer) - 4)
        limits = self._limits(look.ranked, width, room if not look.others else max(room - 5, room // 2))
        others = self._others.lines(look, width, room - len(limits) - 1) if look.others else []
        body = [*limits, *([Text(), *others] if others else [])]
        lines = [self._title(title, width), Text(), *body, Text(), *footer]
        for line in lines:
            line.truncate(width, overflow="crop")
            if self._glyphs.ascii_only:
                line.plain = line.plain.encode("ascii", "replace").decode()
        return lines

    def _title(self, title: tuple[str, str], width: int) -> Text:
        left, right = map(safe, title)
        right = cut(right, width - size(left) - 2 - MARGIN, self._glyphs)
        line = Text(" ")
        line.append(left, STYLES["title"])
        line.append(" " * max(1, width - 2 - size(left) - size(right)))
        line.append(right, STYLES["quiet"])
        return line

    def _limits(self, rows: Sequence[LimitRow], width: int, room: int) -> list[Text]:
        if not rows:
            return [Text("  No limit has been heard of yet.", STYLES["quiet"])]
        everyone = rows
        if len(rows) > room - 1:
            rows = rows[: room - 2]
        self._names.look(rows, everyone)
        self._grow(rows)
        forms = self._names.forms()
        plan = make_plan(width - MARGIN, [max(5, self._names.width(form)) for form in forms], self._widths, HEADINGS)
        names = self._names.parts(forms[plan.form])
        lines = [self._line(plan, row, name) for row, name in zip(rows, names, strict=True)]
        if hidden := len(everyone) - len(rows):
            lines.append(Text(f"  {self._glyphs.ellipsis} and {hidden} more limits", STYLES["quiet"]))
        return [self._heading(plan), *lines]

    def _grow(self, rows: Sequence[LimitRow]) -> None:
        for row in rows:
            used = usage(row)
            self._widths.usage = max(self._widths.usage, len(used.text) if used else 0)
            for column in COLUMNS:
                cell = column.cell(row)
                if cell is not None:
                    self._widths.grow(column.key, len(cell.text))

    def _heading(self, plan: Plan) -> Text:
        parts = [" " * (MARGIN - plan.gap) + " " * plan.gap + "limit".ljust(plan.name)[: plan.name]]
        if plan.usage:
            used = plan.usage + (plan.bar + 1 if plan.bar else 0)
            parts.append(("in use" if used >= 6 else "use").ljust(used)[:used])
        parts += [plan.heading(key, HEADINGS).rjust(plan.column(key, self._widths, HEADINGS)) for key in plan.columns]
        if plan.spark:
            long = "active and queued, last minute"
            parts.append(long if plan.spark >= len(long) else "last minute"[: plan.spark])
        return Text((" " * plan.gap).join(parts), STYLES["heading"])

    def _line(self, plan: Plan, row: LimitRow, name: Sequence[tuple[str, str]]) -> Text:
        gap = " " * plan.gap
        line = Text().append("! " if row.holds_up else "  ", STYLES["hot"])
        line.append_text(self._name(plan, name))
        if plan.usage:
            line.append(gap)
            line.append_text(self._usage(plan, row))
        for column in COLUMNS:
            if column.key in plan.columns:
                cell = column.cell(row)
                text = "" if cell is None else cell.text
                line.append(gap + text.rjust(plan.column(column.key, self._widths, HEADINGS)))
                if cell is not None and text:
                    line.stylize(STYLES[cell.style], len(line) - len(text))
        if plan.spark:
            line.append(gap)
            if row.minute is not None:
                line.append_text(self._spark(row.minute.history, row.value("limit"), plan.spark))
        if row.is_silent:
            line = Text(line.plain, STYLES["quiet"])
        return line

    def _name(self, plan: Plan, name: Sequence[tuple[str, str]]) -> Text:
        text = Text()
        for key, part in name:
            text.append(" " if text else "").append(part, STYLES["name" if key == "limit_name" else "part"])
        text.rstrip()
        if size(text.plain) > plan.name:
            text.right_crop(len(text) - len(cut(text.plain, plan.name, self._glyphs)) + 1)
            text.append(self._glyphs.ellipsis)
        text.pad_right(plan.name - size(text.plain))
        return text

    def _usage(self, plan: Plan, row: LimitRow) -> Text:
        text = Text()
        used = usage(row)
        if plan.bar:
            if row.fill is None:
                text.append(" " * (plan.bar + 1))
            else:
                filled, empty = bar(row.fill, plan.bar, self._glyphs)
                text.append(filled, STYLES[fill_style(row)]).append(empty, STYLES["track"]).append(" ")
        if used is not None:
            text.append(" " * (plan.usage - len(used.text))).append(used.text, STYLES[used.style])
        else:
            text.append(" " * plan.usage)
        return text

    def _spark(self, history: History, limit: float | None, cells: int) -> Text:
        text = Text()
        active, queued = (_grouped(part, history.newest, cells) for part in (history.active, history.queued))
        demand = [
            None if slots is None and waiters is None else (slots or 0.0) + (waiters or 0.0)
            for slots, waiters in zip(active, queued, strict=True)
        ]
        top = max([limit or 0.0, *(wanted for wanted in demand if wanted is not None)]) or 1.0
        for wanted, slots, waiters in zip(demand, active, queued, strict=True):
            if wanted is None:
                text.append(" ")
            else:
                full = limit is not None and slots is not None and slots >= limit
                style = "quiet" if not wanted else "hot" if waiters else "warm" if full else "good"
                text.append(spark(wanted, top, self._glyphs), STYLES[style])
        return text


def _grouped(values: Sequence[float | None], newest: int, cells: int) -> list[float | None]:
    """Return the highest of each group of buckets, `cells` groups, the newest last.

    Groups begin at the same buckets each time: so a cell moves to the left as time goes on, and does not change.
    """
    size = -(-len(values) // cells)
    groups: dict[int, float | None] = {newest // size - back: None for back in reversed(range(cells))}
    for back, value in enumerate(reversed(values)):
        group = (newest - back) // size
        if value is not None and group in groups:
            known = groups[group]
            groups[group] = value if known is None else max(known, value)
    return list(groups.values())
