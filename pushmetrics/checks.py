"""Numbers that a caller gives: each is in its range, or an error says what was given and what is allowed."""

from __future__ import annotations

import math
import sys
from operator import index

from .errors import InvalidTypeError, InvalidValueError
from .redaction import shown

_ENDLESS = sys.float_info.max


def integer(argument: str, value: object, least: int, most: int | None = None, *, besides: str = "") -> int:
    """Return `value` as a plain integer from `least` to `most`, None for no end.

    `besides` is what else the error says to be allowed. Raises :class:`InvalidTypeError` for what is no integer, True
    and False among it, and :class:`InvalidValueError` for one outside the range.
    """
    try:
        found = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]  # That is asked here.
    except TypeError:
        found = None
    if found is None:
        raise InvalidTypeError(f"{argument}: expected an integer {_range(least, most)}{besides}, got {shown(value)}")
    if found < least or (most is not None and found > most):
        raise InvalidValueError(f"{argument}: expected an integer {_range(least, most)}{besides}, got {shown(value)}")
    return found


def number(
    argument: str,
    value: object,
    least: float,
    most: float = _ENDLESS,
    *,
    what: str = "a number",
    besides: str = "",
    text: bool = False,
) -> float:
    """Return `value` as a finite float from `least` to `most`.

    `what` is what the error calls it, and `besides` what else is allowed. Whatever has a ``__float__`` is a number, but
    for True and False; with `text` a string is read, too, as that of a variable. Raises :class:`InvalidTypeError` for
    anything else, and :class:`InvalidValueError` for a number outside the range.
    """
    try:
        if isinstance(value, bool) or not (hasattr(value, "__float__") or (text and isinstance(value, str))):
            raise TypeError
        found = float(value)
    except TypeError:
        raise InvalidTypeError(
            f"{argument}: expected {what} {_range(least, most)}{besides}, got {shown(value)}"
        ) from None
    except (OverflowError, ValueError):  # 10**400, Decimal("sNaN"), "x"
        found = math.nan
    if not least <= found <= most:
        raise InvalidValueError(f"{argument}: expected {what} {_range(least, most)}{besides}, got {shown(value)}")
    return found


def _range(least: float, most: float | None) -> str:
    if most is None or most == _ENDLESS:
        return f"of at least {_plain(least)}"
    return f"from {_plain(least)} to {_plain(most)}"


def _plain(end: float) -> str:
    return f"{end:g}" if isinstance(end, float) else str(end)
