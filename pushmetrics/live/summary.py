"""The summary at the end: what each limit came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .limits import LimitKey, LimitRow
from .names import Names
from .plain import fitted
from .text import number, percent


def _total(metric: str) -> Callable[[LimitRow], str]:
    return lambda row: _text(row.value(metric))


def _text(value: float | None, text: Callable[[float], str] = number) -> str:
    return "" if value is None else text(value)


COLUMNS: Mapping[str, Callable[[LimitRow], str]] = {
    "peak": lambda row: _text(row.highest_active),
    "peak queue": lambda row: _text(row.highest_queue_depth),
    "contended": lambda row: _text(row.contended_in_all, percent),
    "admitted": _total("admissions_total"),
    "waited": _total("admissions_queued_total"),
    "timeouts": _total("admission_timeouts_total"),
    "cancelled": _total("admission_cancelled_total"),
    "rejected": _total("admission_rejected_total"),
}
"""By heading: the highest number of slots in use and of waiters, the share of time with a waiter, and the counters."""


def summary_lines(
    rows: Sequence[LimitRow],
    width: int | None,
    heading: str,
    more: Mapping[str, Mapping[LimitKey, str]] | None = None,
) -> list[str]:
    """Return a line of headings, the first of which is `heading`, and a line for each limit.

    `more` are further columns. A column in which no limit has anything is left out, and nothing is returned where there
    is none with anything. Where there is no room for all of them, the last ones give way.
    """
    columns = {label: [cell(row) for row in rows] for label, cell in COLUMNS.items()}
    for label, texts in (more or {}).items():
        columns[label] = [texts.get(row.key, "") for row in rows]
    columns = {label: texts for label, texts in columns.items() if any(texts)}
    if not columns:
        return []
    widths = {label: max(len(label), *map(len, texts)) for label, texts in columns.items()}
    cells = [[texts[place].rjust(widths[label]) for label, texts in columns.items()] for place in range(len(rows))]
    names = Names()
    names.look(rows)
    return fitted(names, cells, width, (heading, [label.rjust(widths[label]) for label in columns]))
