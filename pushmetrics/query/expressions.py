"""What a query is once it is parsed. ``str()`` gives a text that parses to an equal expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Aggregator = Literal["sum", "avg", "max", "min"]
AGGREGATORS: tuple[Aggregator, ...] = ("sum", "avg", "max", "min")

FillMethod = Literal["null", "zero", "last", "linear"]
FILL_METHODS: tuple[FillMethod, ...] = ("null", "zero", "last", "linear")

FILL_SECONDS = 300
MAX_FILL_SECONDS = 600
"""https://docs.datadoghq.com/dashboards/functions/interpolation/"""

FUNCTIONS = {"default_zero": 1, "clamp_min": 2, "clamp_max": 2}
"""The functions of the subset, with their number of arguments."""

UNIT_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
"""The units of a time such as ``last_5m``, the longest first."""

Modifier = Literal["as_count", "as_rate"]


def number_text(value: float) -> str:
    """Return a number as a query has it, without an exponent."""
    if value.is_integer():
        return str(int(value))
    return f"{Decimal(repr(value)):f}"


@dataclass(frozen=True, slots=True)
class Rollup:
    """How the points of one source become one point for each interval."""

    method: Aggregator
    seconds: int | None = None

    def __str__(self) -> str:
        return f".rollup({self.method})" if self.seconds is None else f".rollup({self.method}, {self.seconds})"


@dataclass(frozen=True, slots=True)
class Fill:
    """What stands in a gap of one source that is no longer than `seconds`."""

    method: FillMethod
    seconds: int = FILL_SECONDS

    def __str__(self) -> str:
        return f".fill({self.method}, {self.seconds})"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `aggregator` is taken over all sources that the scope finds, in each group of `by`."""

    aggregator: Aggregator
    name: str
    scope: tuple[str, ...] = ()
    """Each is ``key:value``, ``!key:value`` or ``$variable``; all have to hold, and none means ``*``."""
    by: tuple[str, ...] = ()
    modifier: Modifier | None = None
    rollup: Rollup | None = None
    fill: Fill | None = None

    def __str__(self) -> str:
        by = f" by {{{','.join(self.by)}}}" if self.by else ""
        modifier = f".{self.modifier}()" if self.modifier else ""
        text = f"{self.aggregator}:{self.name}{{{','.join(self.scope) or '*'}}}{by}{modifier}"
        return text + "".join(str(part) for part in (self.rollup, self.fill) if part)


@dataclass(frozen=True, slots=True)
class Number:
    """A number, 0 or above; a minus before it is a :class:`Negative`."""

    value: float

    def __str__(self) -> str:
        return number_text(self.value)


@dataclass(frozen=True, slots=True)
class Reference:
    """A query by its name, in a formula of a widget."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Negative:
    """Minus something."""

    operand: Expression

    def __str__(self) -> str:
        return f"-{_grouped(self.operand, isinstance(self.operand, Operation))}"


@dataclass(frozen=True, slots=True)
class Operation:
    """Arithmetic between two expressions, point by point."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression

    def __str__(self) -> str:
        # As few parentheses as the text may have had, since only so many in each other can be read back.
        left = _grouped(self.left, _binding(self.left) < _binding(self))
        return f"{left} {self.operator} {_grouped(self.right, _binding(self.right) <= _binding(self))}"


@dataclass(frozen=True, slots=True)
class Function:
    """One of :data:`FUNCTIONS`, applied to what the aggregation over time and space has left."""

    name: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


Expression = Metric | Number | Reference | Negative | Operation | Function


@dataclass(frozen=True, slots=True)
class MonitorQuery:
    """The query of a monitor: what is compared with a threshold, over how long a time."""

    aggregator: Aggregator
    window: int
    """Seconds over which it is aggregated."""
    expression: Expression
    comparator: Literal[">", ">=", "<", "<="]
    threshold: float
    shift: int | None = None
    """Of a change alert: what is aggregated is the difference to what was so many seconds ago."""

    def __str__(self) -> str:
        over = f"{self.aggregator}({_last(self.window)})"
        if self.shift is not None:
            over = f"change({over},{_last(self.shift)})"
        sign = "-" if self.threshold < 0 else ""
        return f"{over}:{self.expression} {self.comparator} {sign}{number_text(abs(self.threshold))}"


def metrics_of(expression: Expression) -> Iterator[Metric]:
    """Yield each metric in an expression."""
    return (leaf for leaf in _leaves(expression) if isinstance(leaf, Metric))


def references_of(expression: Expression) -> Iterator[str]:
    """Yield each name of a query in an expression."""
    return (leaf.name for leaf in _leaves(expression) if isinstance(leaf, Reference))


def _leaves(expression: Expression) -> Iterator[Metric | Number | Reference]:
    match expression:
        case Metric() | Number() | Reference():
            yield expression
        case Negative(operand):
            yield from _leaves(operand)
        case Operation(_, left, right):
            yield from _leaves(left)
            yield from _leaves(right)
        case Function(_, arguments):
            for argument in arguments:
                yield from _leaves(argument)


def _grouped(expression: Expression, needed: bool) -> str:
    return f"({expression})" if needed else str(expression)


def _binding(expression: Expression) -> int:
    """Return how tightly the parts of an expression are bound to each other."""
    if isinstance(expression, Operation):
        return 0 if expression.operator in "+-" else 1
    return 2


def _last(seconds: int) -> str:
    unit = next(unit for unit, length in UNIT_SECONDS.items() if seconds % length == 0)
    return f"last_{seconds // UNIT_SECONDS[unit]}{unit}"
