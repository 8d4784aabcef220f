"""What there is to draw, and who may draw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from .comparison import Comparison
from .readings import Readings
from .settings import DemoSettings


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run of the demo ended."""

    rollouts: Mapping[str, int]
    """Number of rollouts by how they ended."""
    flushes: int
    datagrams: int
    unreadable: Mapping[str, int] = field(default_factory=dict)
    """Lines that arrived and are no DogStatsD, by the reason."""
    owed: Mapping[str, int] = field(default_factory=dict)
    """What the Agent did not take of the last flush, by the reason."""
    comparison: Comparison | None = None
    """None where nobody can see what arrived."""

    @property
    def good(self) -> bool:
        """Whether everything arrived, as far as can be seen from here."""
        different = self.comparison is not None and self.comparison.differences
        return not (different or self.owed or self.unreadable)


class View(Protocol):
    """Draws a run of the demo. All its methods are called in turn, in the program's one task."""

    def begin(self, settings: DemoSettings, address: str) -> None:
        """Say what is about to happen; `address` is where the metrics go."""
        ...

    def tick(self, seconds: float, readings: Readings) -> None:
        """Draw what has been seen up to a flush, `seconds` after the beginning."""
        ...

    def end(self, readings: Readings, outcome: Outcome) -> None:
        """Draw the summary."""
        ...
