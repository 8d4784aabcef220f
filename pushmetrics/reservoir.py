"""A bounded, uniform choice of values, for the waits that a series reports as a distribution."""

from __future__ import annotations

from collections import Counter
from typing import Any

CAPACITY = 500
"""Values of a distribution that a series sends in one flush at the most."""


class Reservoir:
    """Keeps up to :data:`CAPACITY` of the values added, each with the same chance (Vitter's algorithm R)."""

    __slots__ = ("_random", "_values", "total")

    def __init__(self) -> None:
        self._values: list[float] = []
        self.total = 0
        self._random: Any = None

    def add(self, value: float) -> None:
        """Add a value."""
        self.total += 1
        if len(self._values) < CAPACITY:
            self._values.append(value)
            return
        place = int(self._uniform() * self.total)
        if place < CAPACITY:
            self._values[place] = value

    def choose(self) -> tuple[tuple[float, ...], int]:
        """Return values and a whole number k, so that each value returned stands for k values added.

        k is whole because receivers weigh a value sampled at rate r with the whole part of 1/r.
        """
        one_in = -(-self.total // CAPACITY) or 1
        return tuple(self._values[: round(self.total / one_in)]), one_in

    def remove(self, values: tuple[float, ...], one_in: int) -> None:
        """Take back values that :meth:`choose` returned; values added meanwhile stay."""
        going = Counter(values)
        staying = []
        for value in self._values:
            if going[value] > 0:
                going[value] -= 1
            else:
                staying.append(value)
        self._values = staying
        self.total = max(len(self._values), self.total - len(values) * one_in)

    def _uniform(self) -> float:
        if self._random is None:
            from random import Random  # Costs more than the rest of the import, and few programs come here.

            self._random = Random()
        result: float = self._random.random()
        return result
