"""A terminal as a person has one: a program on a pseudo-terminal, and what is to be seen on it."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")
pyte = pytest.importorskip("pyte")

PROGRAM = str(Path(sysconfig.get_path("scripts"), "pushmetrics"))
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
"""Begin and end of the other page of a terminal, which leaves the usual one as it was."""

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")

on_a_terminal = [
    pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX"),
    # A fork beside threads: what it warns of can not happen to a child that starts another program at once.
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]
"""Marks of tests that use a terminal."""


class Terminal:
    """A program that runs on a terminal of its own."""

    def __init__(self, child: pexpect.spawn, lines: int, columns: int) -> None:
        self.raw = ""
        """All that the program has written."""
        self._child = child
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.Stream(self._screen)

    @property
    def lines(self) -> list[str]:
        """What is to be seen, without the empty lines at the end."""
        lines = [line.rstrip() for line in self._screen.display]
        while lines and not lines[-1]:
            del lines[-1]
        return lines

    @property
    def colours(self) -> set[str]:
        """The colours to be seen, besides the usual one."""
        cells = (cell for line in self._screen.buffer.values() for cell in line.values())
        return {cell.fg for cell in cells} - {"default"}

    def show(self, pattern: str, seconds: float = 20) -> str:
        """Wait until `pattern` is to be seen; return all that is."""
        end = time.monotonic() + seconds
        while not re.search(pattern, "\n".join(self.lines)):
            if time.monotonic() > end or not self._read():
                pytest.fail(f"{pattern!r} is not to be seen:\n" + "\n".join(self.lines))
        return "\n".join(self.lines)

    def resize(self, lines: int, columns: int) -> None:
        """Give the terminal another size."""
        self._screen.resize(lines, columns)
        self._child.setwinsize(lines, columns)

    def type(self, text: str) -> None:
        """Press keys."""
        self._child.send(text)

    def end(self) -> tuple[int | None, str]:
        """Wait for the end; return the exit status and what is left on the usual page."""
        while self._read():
            pass
        self._child.close()
        return self._child.exitstatus, self.raw.rpartition(LEAVE)[2].replace("\r\n", "\n")

    def _read(self) -> bool:
        try:
            text = self._child.read_nonblocking(65536, timeout=20)
        except pexpect.EOF:
            return False
        self.raw += text
        self._stream.feed(text)
        return True


@contextmanager
def terminal(
    *arguments: str, program: str = PROGRAM, lines: int = 24, columns: int = 80, **environment: str
) -> Iterator[Terminal]:
    """Run ``pushmetrics``, or another program, on a terminal of 256 colours."""
    unwanted = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
    variables = {name: value for name, value in os.environ.items() if name not in unwanted}
    child = pexpect.spawn(
        program,
        [*arguments],
        dimensions=(lines, columns),
        encoding="utf-8",
        codec_errors="replace",
        env={**variables, "TERM": "xterm-256color", "PYTHONUTF8": "1", **environment},
    )
    try:
        yield Terminal(child, lines, columns)
    finally:
        child.close(force=True)
