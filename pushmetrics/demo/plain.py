"""Plain lines: one for each limit and flush, for a pipe, a file, or whoever prefers them."""

from __future__ import annotations

from typing import TextIO

from pushmetrics.live.board import Board
from pushmetrics.live.plain import LimitLines, Writer

from .driver import OVERLOAD
from .ending import write_summary
from .settings import DemoSettings
from .view import Outcome


class PlainLines:
    """Writes lines whose columns stay where they are. `stream` is a terminal, a pipe or a file."""

    def __init__(self, stream: TextIO) -> None:
        self._writer = Writer(stream)

    def begin(self, settings: DemoSettings, address: str, board: Board) -> None:
        """Say what runs, and where it pushes to."""
        self._settings = settings
        self._board = board
        # As wide as the numbers can become, so that nothing moves when they do.
        self._lines = LimitLines(digits=len(str(max(settings.limit, OVERLOAD * settings.concurrency))))
        self._writer.text(f"Three limits, under load for {settings.duration:g} s; Ctrl-C ends it earlier.")
        pushing = f"Pushing every {settings.flush_interval:g} s at level {settings.level} to"
        if settings.agent:
            self._writer.text(f"{pushing} the Agent at {address}; this was pushed:")
        else:
            self._writer.text(f"{pushing} {address}; this arrived:")

    def tick(self, seconds: float) -> None:
        """Write a line for each limit."""
        limits = self._board.look().limits
        self._writer.lines("", f"{seconds:.1f} s", *self._lines.lines(limits, self._writer.width))

    def refresh(self, seconds: float) -> None:
        """Do nothing: what is written stays."""

    def close(self) -> None:
        """Do nothing."""

    def end(self, outcome: Outcome) -> None:
        """Write the summary."""
        write_summary(self._writer, self._settings, self._board, outcome)
