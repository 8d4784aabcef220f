"""How things are timed, and the table of what came out."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table."""

    what: str
    against: str
    measured: float
    at_most: float | None = None
    """The bar; None for a row that is there to compare with."""
    unit: str = ""
    """Empty for a ratio."""

    @property
    def missed(self) -> bool:
        """Whether there is a bar and it was missed."""
        return self.at_most is not None and self.measured > self.at_most

    def cells(self) -> tuple[str, ...]:
        """Return the row as text."""
        measured = math.ceil(self.measured * 100) / 100  # Up: what misses its bar must not look as if it met it.
        return (
            self.what,
            self.against or "-",
            f"{measured:.2f}{self.unit}",
            "-" if self.at_most is None else f"{self.at_most:g}{self.unit}",
            "-" if self.at_most is None else "**missed**" if self.missed else "met",
        )


def print_table(rows: Iterable[Row]) -> None:
    """Print the rows as a Markdown table."""
    print("| what | against | measured | at most | verdict |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row.cells())} |")


def fastest(rounds: int, *programs: Callable[[], float]) -> list[float]:
    """Return the least of what each program, which times itself, returned in so many rounds.

    The programs run in turn, so that a machine that slows down slows them all down, and without the garbage
    collector, which would come in one of them for what another has left.
    """
    times = [math.inf] * len(programs)
    for _ in range(rounds):
        for place, program in enumerate(programs):
            gc.collect()
            gc.disable()
            try:
                times[place] = min(times[place], program())
            finally:
                gc.enable()
    return times
