"""What panels of a dashboard look like, and how they are laid out on pages."""

from __future__ import annotations

from typing import Any

import pytest
from rich.text import Text

from pushmetrics.dashboards.evaluate import Layer, Panel
from pushmetrics.live.dashboard import TWO_COLUMNS, drawn_groups, framed, page_number, pages
from pushmetrics.live.panels import MOST_LINES, panel_lines, value_text
from pushmetrics.live.text import ASCII, UNICODE, size
from pushmetrics.query.lines import NO_TIME, Lines, Span

SPAN = Span(0.0, 80.0, 10.0)
WIDTH = 41
"""At which a point of the span has one cell."""


def layer(points: dict[tuple[str, ...], list[float | None]], *, reduced: bool = False, **more: Any) -> Layer:
    """A layer with values at each 10 s, None for a gap; of a widget with numbers, reduced to one value."""
    lines = {
        group: {10.0 * place: value for place, value in enumerate(values) if value is not None}
        for group, values in points.items()
    }
    fields = {"label": "queued", "palette": "semantic", "unit": "task"} | more
    span = NO_TIME if reduced else SPAN
    by = ("limit_name",) if any(points) else ()
    return Layer(lines=Lines(by=by, points=lines, span=span), **fields)


def panel(*layers: Layer, kind: str = "timeseries", **more: Any) -> Panel:
    return Panel(**{"kind": kind, "title": "Queue depth", "group": "Queues", "layers": layers} | more)


def drawn(one: Panel, width: int = WIDTH, glyphs: Any = UNICODE) -> list[str]:
    lines = panel_lines(one, width, glyphs)
    assert all(size(line.plain) <= width for line in lines)
    return [line.plain.rstrip() for line in lines]


def test_a_graph_has_a_sparkline_its_newest_and_its_highest_value() -> None:
    lines = drawn(panel(layer({("calls",): [0, 1, 2, 3, 4, 5, 6, None], ("N/A",): [0, 0, 0, 0, 0, 0, 0, 3]})))

    assert lines == [
        "Queue depth                   now     max",
        "calls            ▁▂▃▄▅▆▇                6",
        "queued           ▁▁▁▁▁▁▁▄       3       3",
    ]


def test_what_a_template_says_can_not_reach_the_terminal() -> None:
    evil = "\x1b[31mred\x1b]0;title\x07\x9b5m"
    for kind in ("timeseries", "toplist", "query_value"):
        one = panel(layer({(evil,): [1]}, label=evil, reduced=kind != "timeseries"), kind=kind, title=evil, group=evil)
        (group,) = drawn_groups([one], 200, UNICODE)
        text = group.heading.plain + "".join(line.plain for row in group.rows for line in row)

        assert "red" in text
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\x9b" not in text


def test_a_palette_of_datadogs_that_is_not_ours_is_drawn_as_any() -> None:
    assert len(drawn(panel(layer({("calls",): [1]}, palette="dog_classic")))) == 2


def test_what_can_not_be_drawn_says_why() -> None:
    one = panel(problem="sum:hits{*}: only gauges, counts and distributions are in the subset")

    assert drawn(one) == ["Queue depth", "sum:hits{*}: only gauges, counts and", "distributions are in the subset"]


def test_no_percentage_is_long() -> None:
    assert value_text(1.7e308, "percent") == "2e+308%"
    assert value_text(12.4, "percent") == "12%"


def test_many_points_share_a_cell_and_few_have_several() -> None:
    many = panel(layer({("calls",): [0, 0, 0, 6, 6, None, None, None]}))

    assert [drawn(many, width)[1].split()[1] for width in (34, 55)] == ["▁▇▇", "▁▁▁▁▁▁▇▇▇▇"]


def test_lines_share_a_scale_and_are_told_apart() -> None:
    lines = drawn(
        panel(
            layer({(): [2] * 8}, label="active", palette="cool"),
            layer({(): [4] * 8}, label="limit", palette="gray"),
        )
    )

    assert [line.split() for line in lines[1:]] == [["active", "▄" * 8, "2", "2"], ["limit", "▇" * 8, "4", "4"]]


def test_a_mark_is_in_the_scale() -> None:
    (_, line) = drawn(panel(layer({("calls",): [50] * 8}, unit="percent"), marks=(100.0,)))

    assert line.split() == ["calls", "▄" * 8, "50%", "50%"]


def test_of_many_lines_the_highest_are_drawn() -> None:
    lines = drawn(panel(layer({(f"limit{number}",): [number] * 8 for number in range(20)})))

    assert [line.split()[0] for line in lines[1:-1]] == [f"limit{19 - number}" for number in range(MOST_LINES)]
    assert lines[-1] == f"and {20 - MOST_LINES} more"


def test_no_data_is_said() -> None:
    assert drawn(panel(layer({}))) == ["Queue depth", "no data"]
    assert drawn(panel(layer({}, reduced=True), kind="toplist")) == ["Queue depth", "no data"]
    assert drawn(panel(layer({}, reduced=True), kind="query_value")) == ["Queue depth     no data"]


def test_a_top_list_is_sorted_and_has_the_colours_of_its_formats() -> None:
    top = layer(
        {("low",): [20.0], ("high",): [150.0], ("middle",): [90.0]},
        reduced=True,
        unit="percent",
        order="desc",
        most=2,
    )
    formats = ((">", 100.0, "white_on_red"), (">=", 80.0, "white_on_yellow"), ("<", 80.0, "white_on_green"))
    lines = panel_lines(panel(top, kind="toplist", formats=formats), 40, UNICODE)

    assert [line.plain for line in lines] == ["Queue depth", "   150% ▆▆▆▆▆▆▆▆▆▆ high", "    90% ▆▆▆▆▆▆▁▁▁▁ middle"]
    assert [{str(span.style) for span in line.spans} - {"dim"} for line in lines[1:]] == [{"bold red"}, {"yellow"}]


def test_a_number_stands_beside_its_title() -> None:
    number = layer({(): [1250.0]}, reduced=True, unit="millisecond")

    assert drawn(panel(number, kind="query_value")) == ["Queue depth       1.2 s"]


def test_a_note_is_not_drawn() -> None:
    assert panel_lines(Panel(kind="note", title="", group=""), 80, UNICODE) == []


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (850.0, "millisecond", "850 ms"),
        (0.0, "percent", "0%"),
        (0.4, "percent", "0.4%"),
        (66.666, "percent", "67%"),
        (2.8181, "task", "2.82"),
        (123456.0, "task", "123k"),
    ],
)
def test_values_have_their_units(value: float, unit: str, expected: str) -> None:
    assert value_text(value, unit) == expected


def test_without_unicode_it_is_drawn_in_ascii_and_nothing_moves_the_cursor() -> None:
    lines = drawn(panel(layer({("a\x1b[2J" + "é" * 100,): [1.0] * 8})), glyphs=ASCII)

    assert "\x1b" not in "".join(lines)
    assert "~" in lines[1]


@pytest.mark.parametrize("width", [40, 79, 80, 109, 110, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    panels = [panel(layer({(f"{'long name ' * 20}",): [1.0] * 8}), title="title " * 30) for _ in range(3)]
    for group in drawn_groups(panels, width, UNICODE):
        assert all(size(line.plain) <= width for row in group.rows for line in row)
        assert len(group.rows) == (3 if width < TWO_COLUMNS else 2)


def test_panels_are_put_on_pages_by_whole_rows_each_under_its_heading() -> None:
    panels = [
        panel(layer({("calls",): [1.0] * 8}), title=f"{group}{number}", group=group)
        for group in ("first", "second")
        for number in range(3)
    ]
    made = pages(drawn_groups(panels, 80, UNICODE), 8)

    headings = [
        [line.plain.split()[0] for line in page if not line.plain.startswith("calls") and line.plain] for page in made
    ]
    assert headings == [
        ["first", "first0", "first1", "first2"],
        ["second", "second0", "second1", "second2"],
    ]
    assert all(len(page) <= 8 for page in made)
    assert [page_number(2, seconds) for seconds in (0, 5.9, 6, 12)] == [0, 0, 1, 0]


def test_a_group_that_is_too_high_goes_on_under_the_same_heading() -> None:
    panels = [panel(layer({("calls",): [1.0] * 8}), title=str(number)) for number in range(4)]
    made = pages(drawn_groups(panels, 80, UNICODE), 5)

    assert [page[0].plain for page in made] == ["Queues", "Queues"]
    assert [[line.plain[0] for line in page if line.plain[:1].isdigit()] for page in made] == [["0", "1"], ["2", "3"]]


def test_nothing_to_draw_is_one_empty_page() -> None:
    assert pages([], 10) == [[]]


def test_what_has_no_room_at_the_right_is_left_out() -> None:
    assert framed("left", "right", 20, UNICODE).plain == "left           right"
    assert framed("left", "right", 9, UNICODE).plain == "left"
    assert framed("a longer left", "right", 8, UNICODE) == Text("a longe…", style=framed("", "", 1, UNICODE).style)
