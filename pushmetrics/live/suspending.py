"""Ctrl-Z: the terminal is given back while the program is stopped, and taken over again when it goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType


class Suspension:
    """Puts SIGTSTP off until the program says that it may be stopped. To be used in the main thread.

    Where there is no such signal (Windows), or whoever started the program has switched it off, it does nothing.
    """

    def __init__(self) -> None:
        self._number: int | None = getattr(signal, "SIGTSTP", None)
        self._asked_for = False
        self._watching = False

    def begin(self) -> None:
        """Put the signal off from now on."""
        if self._number is not None and signal.getsignal(self._number) is signal.SIG_DFL:
            signal.signal(self._number, self._note)
            self._watching = True

    def stop_if_asked(self, leave: Callable[[], None], come_back: Callable[[], None]) -> None:
        """If the signal came: call `leave`, stop, and call `come_back` once somebody lets the program go on."""
        if not self._asked_for:
            return
        assert self._number is not None, "where there is no such signal, none comes"
        self._asked_for = False
        leave()
        self.end()
        os.kill(os.getpid(), self._number)
        self.begin()
        come_back()

    def end(self) -> None:
        """Let the signal do again what it does."""
        if self._watching and self._number is not None:
            signal.signal(self._number, signal.SIG_DFL)
            self._watching = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._asked_for = True
