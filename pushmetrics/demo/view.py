"""What there is to draw, and who may draw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pushmetrics.live.board import Board

from .comparison import Comparison
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

    def begin(self, settings: DemoSettings, address: str, board: Board) -> None:
        """Say what is about to happen; `address` is where the metrics go, and `board` shows what has arrived."""
        ...

    def tick(self, seconds: float) -> None:
        """Draw what has arrived with a flush, `seconds` after the beginning."""
        ...

    def refresh(self, seconds: float) -> None:
        """Draw again, if that makes a difference; called a few times a second."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was. Called once at the least, whatever has happened."""
        ...

    def end(self, outcome: Outcome) -> None:
        """Write the summary; called last, if nothing went wrong."""
        ...
