"""What `pushmetrics listen` shows: the live table, plain lines, or JSON lines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, TextIO

from .. import clock
from ..errors import PushmetricsError
from ..receiver import Receiver
from .board import Board
from .jsonlines import JsonLines
from .plain import LimitLines, OtherLines, Writer
from .screen import Screen, can_draw
from .summary import summary_lines
from .text import counted

MAX_OTHERS = 20
"""How many other metrics have a plain line at a time."""


class Output(Protocol):
    """Shows what a receiver takes. All methods are called in turn, in one task."""

    interval: float
    """Seconds between two ticks."""

    def begin(self, receiver: Receiver, addresses: Sequence[str]) -> None:
        """Start; `addresses` are those where the receiver listens."""
        ...

    def tick(self) -> None:
        """Show what there is."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was. Called once, whatever has happened."""
        ...

    def end(self) -> None:
        """Show the summary; the receiver is closed."""
        ...


def output_for(form: str, stream: TextIO, notes: TextIO | None) -> Output:
    """Return what shows it on `stream` as a "table", "plain" or as "json", whose `notes` go elsewhere, or nowhere.

    A table needs a terminal that can be drawn on; where there is none, it is plain lines.
    """
    if form == "json":
        return JsonOutput(stream, notes)
    return TableOutput(stream) if form == "table" and can_draw(stream) else PlainOutput(stream)


class PlainOutput:
    """Plain lines: of each limit, and of a few other metrics, when something of it has come."""

    interval = 1.0

    def __init__(self, stream: TextIO) -> None:
        self._writer = Writer(stream)
        self._limits = LimitLines()
        self._others = OtherLines()
        self._shown: dict[tuple[object, ...], float] = {}

    def begin(self, receiver: Receiver, addresses: Sequence[str]) -> None:
        """Say where it listens."""
        self._receiver = receiver
        self._board = Board(receiver)
        self._writer.text(f"Listening on {', '.join(addresses)}; Ctrl-C ends it.")

    def tick(self) -> None:
        """Write the lines of what is new."""
        look = self._board.look(max_others=self._receiver.statistics().series)
        limits = [row for row in look.limits if row.seen != self._shown.get(row.key)]
        others = [row for row in look.others if row.seen != self._shown.get(row.key)]
        self._shown = {row.key: row.seen for row in look.limits} | {row.key: row.seen for row in look.others}
        if not limits and not others:
            return
        width = self._writer.width
        lines = [
            "",
            time.strftime("%H:%M:%S", time.localtime(look.now)),
            *self._limits.lines(limits, width, look.limits),
        ]
        lines += self._others.lines(others[:MAX_OTHERS], width)
        if len(others) > MAX_OTHERS:
            lines.append(f"and {len(others) - MAX_OTHERS} more")
        self._writer.lines(*lines)

    def close(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Write the summary."""
        self.tick()
        write_end(self._writer, self._board, self._receiver)


class TableOutput:
    """The live table, and the summary when it has gone."""

    interval = 0.25

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._screen: Screen | None = None

    def begin(self, receiver: Receiver, addresses: Sequence[str]) -> None:
        """Take the terminal over."""
        self._receiver = receiver
        self._board = Board(receiver)
        began = clock.monotonic()

        def title() -> tuple[str, str]:
            return f"pushmetrics listen  {clock.monotonic() - began:.0f} s", ", ".join(addresses)

        self._screen = Screen(self._stream, self._board, title, "Ctrl-C ends it")
        self._screen.open()

    def tick(self) -> None:
        """Draw."""
        assert self._screen is not None, "only what has begun is drawn"
        self._screen.refresh()

    def close(self) -> None:
        """Give the terminal back."""
        if self._screen is not None:
            self._screen.close()

    def end(self) -> None:
        """Write the summary."""
        write_end(Writer(self._stream), self._board, self._receiver)


class JsonOutput:
    """JSON lines; everything else goes to `notes`, if it can be written there."""

    def __init__(self, stream: TextIO, notes: TextIO | None) -> None:
        self._stream = stream
        self._notes = None if notes is None else Writer(notes)

    def begin(self, receiver: Receiver, addresses: Sequence[str]) -> None:
        """Say where it listens."""
        self.interval = min(1.0, receiver.bucket_seconds)
        self._receiver = receiver
        self._json = JsonLines(self._stream, receiver)
        self._note(f"Listening on {', '.join(addresses)}.")

    def tick(self) -> None:
        """Write the buckets that are complete."""
        self._json.tick()

    def close(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Write the buckets that were still open."""
        self._json.tick(last=True)
        self._note(received(self._receiver))

    def _note(self, text: str) -> None:
        if self._notes is not None:
            with suppress(OSError, PushmetricsError):  # Who reads the objects can do without.
                self._notes.text(text)


def write_end(writer: Writer, board: Board, receiver: Receiver) -> None:
    """Write what the limits came to, and what was received."""
    look = board.look()
    lines = summary_lines(look.limits, writer.width, "In all")
    writer.lines("", *lines, *([""] if lines else []))
    if look.more_others:
        writer.text(f"{look.more_others} series of other metrics.")
    writer.text(received(receiver))


def received(receiver: Receiver) -> str:
    """Return what was received, refused and lost."""
    statistics = receiver.statistics()
    text = f"{counted(statistics.datagrams, 'datagram')} with {counted(statistics.lines, 'line')}"
    for reason, refused in statistics.reasons.items():
        text += f"; {refused.number} refused: {reason} ({refused.example})"
    if statistics.lost:
        text += f"; {counted(statistics.lost, 'datagram')} lost, since they came faster than they could be read"
    return text + "."
