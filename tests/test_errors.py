"""The values that a message quotes."""

from __future__ import annotations

import pytest

from pushmetrics import MeteredSemaphore, PushmetricsError, Registry, Reporter
from pushmetrics.redaction import shown

ENDLESS = -(10**5000)
"""More digits than Python turns into text (sys.get_int_max_str_digits)."""


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def test_a_value_is_quoted_as_python_shows_it() -> None:
    assert [shown(value) for value in ("a\nb", -3, None, ["x"])] == ["'a\\nb'", "-3", "None", "['x']"]


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000, 10**4000, ENDLESS, Silent(), [Silent()], ["x" * 10_000] * 1000],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_any_size_and_manners_is_quoted_briefly(value: object) -> None:
    assert 0 < len(shown(value)) < 2000


def test_a_bad_argument_of_any_manners_is_told_by_our_own_error() -> None:
    with pytest.raises(PushmetricsError, match="expected an integer of at least 0"):
        MeteredSemaphore(ENDLESS, component="c", limit_name="l", registry=None)
    with pytest.raises(PushmetricsError, match="max_series"):
        Registry(max_series=ENDLESS)
    with pytest.raises(PushmetricsError, match="flush_interval"):
        Reporter(flush_interval=Silent())  # type: ignore[arg-type] # the bad argument is the test
