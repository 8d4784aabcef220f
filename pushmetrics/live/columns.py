"""The columns of the table: what each says of a limit, and in which of a few styles."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .limits import LimitRow
from .text import duration, number, percent


class Cell(NamedTuple):
    """What stands in one place of a table."""

    text: str
    style: str = ""
    """"" for the usual, "quiet" for what needs no look, "good", "warm", "hot" for how full or how bad it is."""


class Column(NamedTuple):
    """Numbers, at the right of their column."""

    key: str
    heading: str
    short: str
    """The heading where there is little room."""
    cell: Callable[[LimitRow], Cell | None]
    """None when the limit has no such value."""


def fill_style(row: LimitRow) -> str:
    """Return the style for how full a limit is: hot when it is full and work waits."""
    fill = row.fill
    if fill is None:
        return ""
    return "hot" if row.holds_up else "warm" if fill >= 0.75 else "good"


def usage(row: LimitRow) -> Cell | None:
    """Return ``active/limit``, with ``-`` for the one that is missing."""
    active, limit = row.value("active"), row.value("limit")
    if active is None and limit is None:
        return None
    text = "/".join("-" if value is None else number(value) for value in (active, limit))
    return Cell(text, "quiet" if not active else fill_style(row))


def _numeric(value: float | None, style: str = "", text: Callable[[float], str] = number) -> Cell | None:
    if value is None:
        return None
    return Cell(text(value), style if value else "quiet")


def _value(metric: str, style: str = "") -> Callable[[LimitRow], Cell | None]:
    return lambda row: _numeric(row.value(metric), style)


def _queued(row: LimitRow) -> Cell | None:
    return _numeric(row.value("queue_depth"), "hot" if row.holds_up else "warm")


def _active_peak(row: LimitRow) -> Cell | None:
    return _numeric(row.minute.active_peak) if row.minute else None


def _queued_peak(row: LimitRow) -> Cell | None:
    return _numeric(row.minute.queue_depth_peak) if row.minute else None


def _p95(row: LimitRow) -> Cell | None:
    return _numeric(row.minute.waits.percentile(95), text=duration) if row.minute and row.minute.waits else None


COLUMNS = (
    Column("active_peak", "peak", "peak", _active_peak),
    Column("queued", "queued", "queue", _queued),
    Column("queued_peak", "peak", "peak", _queued_peak),
    Column("oldest", "oldest wait", "oldest", lambda row: _numeric(row.value("oldest_wait_ms"), text=duration)),
    Column("p95", "p95 wait", "p95", _p95),
    Column("contended", "contended", "cont", lambda row: _numeric(row.contended, text=percent)),
    Column("timeouts", "timed out", "t/out", _value("admission_timeouts_total", "warm")),
    Column("cancelled", "cancelled", "canc", _value("admission_cancelled_total")),
    Column("rejected", "rejected", "rej", _value("admission_rejected_total", "warm")),
    Column("admitted", "admitted", "adm", _value("admissions_total")),
)
