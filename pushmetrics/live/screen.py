"""A picture on a terminal, drawn over again and again; the terminal is left as it was found."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from .board import Board
from .suspending import Suspension
from .table import Table
from .text import ASCII, UNICODE, Glyphs

KEPT_RECORDS = 100


def can_draw(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal that can be drawn on."""
    console = _console(stream)
    return stream.isatty() and console.is_terminal and not (console.is_dumb_terminal or console.legacy_windows)


def glyphs_for(stream: TextIO) -> Glyphs:
    """Return the characters that can be shown on `stream`."""
    return ASCII if _console(stream).options.ascii_only else UNICODE


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, markup=False, emoji=False)


class Canvas:
    """A picture on a terminal, from :meth:`open` to :meth:`close`.

    `draw` is asked each time for the lines of a picture, given its width and height, the characters to draw with, and
    what was last logged, "" if nothing was: that would tear the picture, so it is kept and handed on at the end.
    """

    def __init__(self, stream: TextIO, draw: Callable[[int, int, Glyphs, str], list[Text]]) -> None:
        console = _console(stream)
        self._draw = draw
        self._log = _KeptLog()
        self._suspension = Suspension()
        self._glyphs = glyphs_for(stream)
        self._live = Live(
            _Picture(self._lines),
            console=console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def open(self) -> None:
        """Take the terminal over: its other page, so that this one is left as it was."""
        self._log.begin()
        self._live.start()
        self._suspension.begin()

    def refresh(self) -> None:
        """Draw, at the size that the terminal has now; stop first if Ctrl-Z was pressed."""
        self._suspension.stop_if_asked(self._live.stop, self._live.start)
        self._live.refresh()

    def close(self) -> None:
        """Give the terminal back. Doing so twice does no harm."""
        self._suspension.end()
        self._live.stop()
        self._log.end()

    def _lines(self, width: int, height: int) -> list[Text]:
        return self._draw(width, height, self._glyphs, self._log.last)


class Screen(Canvas):
    """The table of a board on a terminal.

    `title` is asked each time for what stands at the left and the right of the first line. What is logged is shown
    instead of the `hint`.
    """

    def __init__(self, stream: TextIO, board: Board, title: Callable[[], tuple[str, str]], hint: str) -> None:
        table = Table(glyphs_for(stream))

        def draw(width: int, height: int, glyphs: Glyphs, logged: str) -> list[Text]:
            return table.lines(board.look(minutes=height, max_others=height), width, height, title(), logged or hint)

        super().__init__(stream, draw)


class _Picture:
    def __init__(self, draw: Callable[[int, int], list[Text]]) -> None:
        self._draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.size
        for line in self._draw(width, height)[:height]:
            line.no_wrap = True
            line.overflow = "crop"
            yield line


class _KeptLog(logging.Handler):
    """Stands in for the handlers of the root logger, if standard error is a terminal, too."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self._records: deque[logging.LogRecord] = deque(maxlen=KEPT_RECORDS)
        self._handlers: list[logging.Handler] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)
        self.last = record.getMessage()

    def begin(self) -> None:
        if sys.stderr is not None and sys.stderr.isatty():
            root = logging.getLogger()
            self._handlers, root.handlers = root.handlers, [self]

    def end(self) -> None:
        if self._handlers is None:
            return
        root = logging.getLogger()
        root.handlers, self._handlers = self._handlers, None
        for record in self._records:
            root.handle(record)
        self._records.clear()
