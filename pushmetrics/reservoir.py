"""A bounded, uniform choice of values, for the waits that a series reports as a distribution."""

from __future__ import annotations

import threading
from typing import Any

CAPACITY = 500
"""Values of a distribution that a series sends in one flush at the most."""


class Reservoir:
    """Keeps up to :data:`CAPACITY` of the values added, each with the same chance (Vitter's algorithm R).

    Values may be added in another thread than that which takes them.
    """

    __slots__ = ("_lock", "_random", "_values", "total")

    def __init__(self) -> None:
        self._values: list[float] = []
        self.total = 0
        """How many values those that are kept stand for."""
        self._random: Any = None
        # It can be entered again: the garbage collector closes coroutines that were waiting, at any time.
        self._lock = threading.RLock()

    def add(self, value: float) -> None:
        """Add a value."""
        with self._lock:
            values = self._values
            if len(values) < self.total and len(values) < CAPACITY:
                self._fill_up()
            self.total += 1
            if len(values) < CAPACITY:
                values.append(value)
                return
            place = int(self._generator().random() * self.total)
            if place < CAPACITY:
                values[place] = value

    def choose(self) -> tuple[tuple[float, ...], int]:
        """Return values and a whole number k, so that each value returned stands for k values added.

        k is whole because receivers weigh a value sampled at rate r with the whole part of 1/r. Up to k - 1 of those
        added are not stood for then, and are still there when the others have been removed: for the next choice.
        """
        with self._lock:
            values = self._values
            if len(values) == self.total:
                return tuple(values), 1
            one_in = -(-self.total // len(values))
            # By chance, since what came first stands first.
            return tuple(self._generator().sample(values, self.total // one_in)), one_in

    def remove(self, values: tuple[float, ...], one_in: int) -> None:
        """Take back values that :meth:`choose` returned, and those they stand for; what was added meanwhile stays."""
        with self._lock:
            kept = self._values
            for value in values:
                try:
                    kept.remove(value)
                except ValueError:  # Another one has taken its place since.
                    continue
            self.total = max(0, self.total - len(values) * one_in) if kept else 0
            while len(kept) > self.total:
                place = int(self._generator().random() * len(kept))
                kept[place] = kept[-1]
                del kept[-1]

    def _fill_up(self) -> None:
        """Let those that stand for several be there several times, so that what is added next counts no more."""
        values = self._values
        values += self._generator().choices(values, k=min(self.total, CAPACITY) - len(values))

    def _generator(self) -> Any:
        if self._random is None:
            from random import Random  # Costs more than the rest of the import, and few programs come here.

            self._random = Random()
        return self._random
