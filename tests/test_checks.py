"""Numbers that a caller gives."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import pytest

from pushmetrics.checks import integer, number
from pushmetrics.errors import InvalidTypeError, InvalidValueError

ENDLESS = 10**5000
"""More digits than Python turns into text (sys.get_int_max_str_digits)."""


class Size(IntEnum):
    SMALL = 3


@pytest.mark.parametrize("value", [3, Size.SMALL])
def test_what_is_an_integer_becomes_a_plain_one(value: int) -> None:
    found = integer("size", value, 0)

    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        pytest.param(-ENDLESS, InvalidValueError, id="endless"),
        (511, InvalidValueError),
        (8193, InvalidValueError),
        *((bad, InvalidTypeError) for bad in (True, None, 600.0, "600", [600])),
    ],
)
def test_another_integer_is_told_by_its_argument_what_is_allowed_and_what_was_given(
    value: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^size: expected an integer from 512 to 8192, got "):
        integer("size", value, 512, 8192)


def test_what_else_is_allowed_is_said_too() -> None:
    with pytest.raises(InvalidValueError, match=r"^worker: expected an integer of at least 0, or None, got -1$"):
        integer("worker", -1, 0, besides=", or None")


@pytest.mark.parametrize("value", [0.5, Fraction(1, 2), Decimal("0.5")])
def test_what_is_a_number_becomes_a_float(value: float) -> None:
    found = number("timeout", value, 0)

    assert (found, type(found)) == (0.5, float)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *((bad, InvalidValueError) for bad in (-0.1, math.nan, math.inf, 10**400, Decimal("sNaN"))),
        *((bad, InvalidTypeError) for bad in (True, None, "1", b"1", 1j, dt.timedelta(seconds=1))),
    ],
)
def test_another_number_is_told_by_its_argument_what_is_allowed_and_what_was_given(
    value: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^timeout: expected seconds of at least 0, got "):
        number("timeout", value, 0, what="seconds")


@pytest.mark.parametrize("value", ["x", "", "0.05", "nan", "1e999"])
def test_text_that_is_no_number_in_the_range_is_quoted(value: str) -> None:
    with pytest.raises(InvalidValueError, match=rf"^interval: expected a number from 0\.1 to 3600, got '{value}'$"):
        number("interval", value, 0.1, 3600.0, text=True)


def test_text_is_read_where_it_is_allowed() -> None:
    assert number("interval", "2", 0.1, 3600.0, text=True) == 2.0
