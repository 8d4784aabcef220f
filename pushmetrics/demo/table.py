"""The live table of the demo, for a terminal."""

from __future__ import annotations

from typing import TextIO

from pushmetrics.live.board import Board
from pushmetrics.live.plain import Writer
from pushmetrics.live.screen import Screen, can_draw

from .ending import write_summary
from .plain import PlainLines
from .settings import DemoSettings
from .view import Outcome, View


def view_for(stream: TextIO, *, plain: bool) -> View:
    """Return who draws on `stream`: the table where it is a terminal that can show it, else plain lines."""
    return LiveTable(stream) if can_draw(stream) and not plain else PlainLines(stream)


def title(settings: DemoSettings, address: str, seconds: float) -> tuple[str, str]:
    """Return what stands at the left and the right of the first line."""
    left = f"pushmetrics demo  {min(seconds, settings.duration):.0f} s of {settings.duration:g} s"
    return left, f"{address}, every {settings.flush_interval:g} s"


class LiveTable:
    """Draws the table for as long as the demo runs, and leaves the summary behind."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._screen: Screen | None = None
        self._seconds = 0.0

    def begin(self, settings: DemoSettings, address: str, board: Board) -> None:
        """Take the terminal over."""
        self._settings = settings
        self._board = board
        self._screen = Screen(
            self._stream, board, lambda: title(settings, address, self._seconds), "Ctrl-C ends it earlier"
        )
        self._screen.open()

    def tick(self, seconds: float) -> None:
        """Do nothing: it is drawn a few times a second anyway."""

    def refresh(self, seconds: float) -> None:
        """Draw."""
        self._seconds = seconds
        if self._screen is not None:
            self._screen.refresh()

    def close(self) -> None:
        """Give the terminal back."""
        if self._screen is not None:
            self._screen.close()

    def end(self, outcome: Outcome) -> None:
        """Write the summary."""
        write_summary(Writer(self._stream), self._settings, self._board, outcome)
