"""Numbers, durations, bars and sparklines as text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushmetrics.live.text import ASCII, UNICODE, bar, counted, cut, duration, number, pad, percent, safe, size, spark

SETS = [UNICODE, ASCII]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (4.0, "4"),
        (-3, "-3"),
        (4.25, "4.25"),
        (0.5, "0.5"),
        (0.00012, "1e-04"),
        (1234.5, "1234"),
        (12345, "12345"),
        (99_999, "99999"),
        (99_999.7, "100k"),
        (123_456, "123k"),
        (1_500_000, "1.5M"),
        (-2e9, "-2G"),
        (3e20, "3e+20"),
        (math.inf, "inf"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(allow_nan=False))
def test_no_number_is_long(value: float) -> None:
    assert len(number(value)) <= 7 + (value < 0)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0"),
        (1, "1 ms"),
        (999, "999 ms"),
        (999.6, "1.0 s"),
        (1200, "1.2 s"),
        (9949, "9.9 s"),
        (9951, "10 s"),
        (99_400, "99 s"),
        (99_600, "2 min"),
        (3_600_000, "60 min"),
        (7_200_000, "2.0 h"),
        (360_000_000, "100 h"),
    ],
)
def test_durations(milliseconds: float, text: str) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.0001, "1%"), (0.5, "50%"), (0.999, "99%"), (1, "100%"), (1.2, "100%")]
)
def test_only_nothing_is_0_percent_and_only_all_is_100(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize("glyphs", SETS)
@given(fraction=st.floats(0, 3), width=st.integers(1, 60))
def test_a_bar_is_full_at_1_alone_and_empty_at_0_alone(glyphs: object, fraction: float, width: int) -> None:
    filled, empty = bar(fraction, width, glyphs)  # type: ignore[arg-type]  # One of the two sets.

    assert len(filled) + len(empty) == width
    assert (not filled) == (fraction == 0)
    assert (not empty) == (fraction >= 1 or (width == 1 and fraction > 0))


@pytest.mark.parametrize("glyphs", SETS)
def test_levels_of_a_sparkline(glyphs: object) -> None:
    cells = [spark(value, 10, glyphs) for value in (0, 0.01, 5, 9.99, 10, 11)]  # type: ignore[arg-type]  # See above.

    levels = [glyphs.spark.index(cell) for cell in cells]  # type: ignore[attr-defined]  # See above.
    assert levels[:2] == [0, 1]
    assert levels == sorted(levels)
    assert levels[-3:] == [len(glyphs.spark) - 1] * 3  # type: ignore[attr-defined]  # See above.


def test_the_glyphs_of_ascii_are_ascii() -> None:
    assert all(part.isascii() for part in ASCII)
    assert ASCII.ascii_only
    assert not UNICODE.ascii_only


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("model_server", "model_server"),
        ("größe 模型", "größe 模型"),
        ("a\x1b[31mb", "a?[31mb"),
        ("a\r\n\tb\x9b2J\x7f", "a???b?2J?"),
        ("a\u202eb\u200bc\ufeff", "a?b?c?"),
        ("e\u0301", "é"),
        ("z\u0300\u0301\u0302", "z???"),
        ("\u2028\u00a0\ud800", "???"),
    ],
)
def test_what_could_do_something_to_a_terminal_is_replaced(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(st.text())
def test_nothing_that_is_not_printable_gets_through(text: str) -> None:
    assert safe(text).isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"])), st.integers(0, 30))
def test_text_is_cut_to_cells(text: str, width: int) -> None:
    shortened = cut(text, width, UNICODE)

    assert size(shortened) <= width
    assert size(pad(shortened, width)) == width
    if size(text) <= width:
        assert shortened == text


def test_wide_characters_take_two_cells() -> None:
    assert size("模型") == 4
    assert cut("模型模型", 6, UNICODE) == "模型…"


def test_one_is_no_plural() -> None:
    assert [counted(count, "line") for count in (0, 1, 2)] == ["0 lines", "1 line", "2 lines"]
