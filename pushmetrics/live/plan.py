"""How a table makes do with the width that it has: what is shortened, and what gives way, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

Headings = Mapping[str, tuple[str, str]]
"""The headings of all columns in their order, each in full and short."""

SPARKS = (60, 30, 20, 15, 12, 10)
"""Widths of a sparkline: whole numbers of its cells make up a minute of one-second buckets."""

MAX_BAR = 24
MIN_BAR = 8
COMFORTABLE_BAR = 12
MIN_NAME = 12

FIRST_TO_GO = ("admitted", "p95", "active_peak", "contended")
LAST_TO_GO = ("rejected", "oldest", "queued_peak", "cancelled", "timeouts")
"""The columns that give way, in this order."""

STAY = ("queued",)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is in a line of the table. Widths are in characters; 0 for what is left out."""

    name: int
    """Width of the names."""
    form: int
    """Which form of the names, 0 for the longest."""
    bar: int
    usage: int
    columns: tuple[str, ...]
    spark: int
    long: frozenset[str]
    """The columns that have their headings in full."""
    gap: int
    """Between two columns."""

    def heading(self, key: str, headings: Headings) -> str:
        """Return the heading of a column."""
        full, short = headings[key]
        return full if key in self.long else short

    def column(self, key: str, widths: Widths, headings: Headings) -> int:
        """Return the width of a column."""
        return max(widths.cell(key), len(self.heading(key, headings)))


class Widths:
    """The widths of what is in a table. They only ever grow, so that columns stay where they are."""

    def __init__(self) -> None:
        self.usage = 0
        self._cells: dict[str, int] = {}

    def grow(self, key: str, width: int) -> None:
        """Make room in a column; one that was never given any does not exist."""
        self._cells[key] = max(width, self._cells.get(key, 0))

    def cell(self, key: str) -> int:
        """Return the width of what is in a column."""
        return self._cells[key]

    def known(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that exist."""
        return tuple(key for key in keys if key in self._cells)


def make_plan(width: int, names: Sequence[int], widths: Widths, headings: Headings) -> Plan:
    """Return what fits into `width`; `names` are the widths of the forms of the names, the longest first.

    What is left over goes to headings, then to the sparkline, then to the bar.
    """
    columns = widths.known([*headings])
    plan = Plan(names[0], 0, COMFORTABLE_BAR, widths.usage, columns, SPARKS[2], frozenset(columns), gap=2)
    for candidate in _concessions(plan, names):
        plan = candidate
        if _width(plan, widths, headings) <= width:
            break
    for key in (*STAY, *reversed(FIRST_TO_GO + LAST_TO_GO)):
        longer = replace(plan, long=plan.long | {key})
        if key in plan.columns and _width(longer, widths, headings) <= width:
            plan = longer
    room = width - _width(plan, widths, headings)
    if plan.spark and room > 0:
        spark = next((spark for spark in SPARKS if spark <= plan.spark + room), plan.spark)
        room -= spark - plan.spark
        plan = replace(plan, spark=spark)
    if plan.bar and room > 0:
        plan = replace(plan, bar=min(MAX_BAR, plan.bar + room))
    return plan


def _width(plan: Plan, widths: Widths, headings: Headings) -> int:
    parts = [plan.name]
    if plan.usage:
        parts.append(plan.usage + (plan.bar + 1 if plan.bar else 0))
    parts += [plan.column(key, widths, headings) for key in plan.columns]
    if plan.spark:
        parts.append(plan.spark)
    return sum(parts) + plan.gap * (len(parts) - 1)


def _concessions(plan: Plan, names: Sequence[int]) -> Iterator[Plan]:
    """Yield plans that need less and less room."""
    yield plan
    for key in FIRST_TO_GO[:2]:
        yield (plan := _without(plan, key))
    yield (plan := replace(plan, long=frozenset()))
    for form in range(1, len(names)):
        yield (plan := replace(plan, form=form, name=names[form]))
    for spark in SPARKS[3:5]:
        yield (plan := replace(plan, spark=spark))
    for key in FIRST_TO_GO[2:]:
        yield (plan := _without(plan, key))
    yield (plan := replace(plan, gap=1))
    yield (plan := replace(plan, bar=MIN_BAR))
    yield (plan := replace(plan, spark=SPARKS[-1]))
    while plan.name > 2 * MIN_NAME:
        yield (plan := replace(plan, name=plan.name - 1))
    for key in LAST_TO_GO[:2]:
        yield (plan := _without(plan, key))
    yield (plan := replace(plan, spark=0))
    while plan.name > MIN_NAME:
        yield (plan := replace(plan, name=plan.name - 1))
    for key in LAST_TO_GO[2:]:
        yield (plan := _without(plan, key))
    yield replace(plan, bar=0)


def _without(plan: Plan, key: str) -> Plan:
    return replace(plan, columns=tuple(known for known in plan.columns if known != key))
