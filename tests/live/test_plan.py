"""What gives way when a terminal is narrow."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pushmetrics.live.columns import COLUMNS
from pushmetrics.live.plan import FIRST_TO_GO, LAST_TO_GO, STAY, Plan, Widths, make_plan

HEADINGS = {column.key: (column.heading, column.short) for column in COLUMNS}
NAMES = [50, 33, 17]


def plans(cell: int = 6) -> list[Plan]:
    """Plans for every width, the narrowest first."""
    widths = Widths()
    widths.usage = 5
    for key in HEADINGS:
        widths.grow(key, cell)
    return [make_plan(width, NAMES, widths, HEADINGS) for width in range(1, 260)]


def test_each_column_has_its_turn() -> None:
    assert sorted(HEADINGS) == sorted(FIRST_TO_GO + LAST_TO_GO + STAY)


def test_more_room_never_shows_fewer_columns_or_less_of_a_name() -> None:
    for narrow, wide in pairwise(plans()):
        assert set(narrow.columns) <= set(wide.columns)
        assert wide.form <= narrow.form
        assert wide.name >= narrow.name


def test_everything_has_room_at_last_and_the_queue_is_always_there() -> None:
    first, *_, last = plans()

    assert last.columns == tuple(HEADINGS)
    assert last.long == frozenset(HEADINGS)
    assert (last.form, last.spark, last.bar) == (0, 60, 24)
    assert first.columns == STAY
    assert first.name <= 12


@pytest.mark.parametrize("width", [80, 120, 200])
def test_what_an_operator_looks_for_first_is_there_at_usual_widths(width: int) -> None:
    plan = plans()[width - 1]

    assert {"queued", "queued_peak", "oldest", "timeouts", "cancelled"} <= set(plan.columns)
    assert plan.bar >= 8
    assert plan.spark >= 10


def test_a_column_of_which_there_is_nothing_does_not_exist() -> None:
    widths = Widths()
    widths.grow("queued", 3)

    assert make_plan(200, NAMES, widths, HEADINGS).columns == ("queued",)


def test_widths_only_grow() -> None:
    widths = Widths()
    for width in (3, 12, 4):
        widths.grow("queued", width)

    assert widths.cell("queued") == 12
