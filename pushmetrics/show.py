"""`pushmetrics dashboards show`: evaluates a template over what is received, again and again, and draws it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from rich.text import Text

from . import clock
from .dashboards import Template
from .dashboards.evaluate import evaluate_dashboard
from .demo.program import run_demo
from .demo.settings import DemoSettings
from .demo.view import Outcome
from .errors import InvalidValueError, PushmetricsError
from .listen import ListenSettings, open_sockets
from .live.board import Board
from .live.dashboard import Drawn, drawn_groups, framed, page_number, pages
from .live.plain import Writer
from .live.screen import Canvas, can_draw, glyphs_for
from .live.stopping import pause, set_by_signals
from .live.text import UNICODE, Glyphs, cut, safe
from .receiver import Receiver

REFRESH_SECONDS = 1.0

PIPE_WIDTH = 100

FIRST_BUCKETS = 10
"""How long a graph is at the least."""

BUSY = 10
"""How many times longer than an evaluation takes the pause after it is, so that there is time to receive."""


@dataclass(frozen=True, kw_only=True)
class ShowSettings:
    """What is shown, and over how long a time."""

    template: Template
    """A dashboard."""
    seconds: float
    """How far back a graph goes."""
    picked: Mapping[str, str] = field(default_factory=dict)
    """Values of template variables."""


class Show:
    """Draws a dashboard over a receiver: on a terminal as a live picture, and at the end, or elsewhere, as text."""

    def __init__(self, settings: ShowSettings, receiver: Receiver, stream: TextIO, source: str) -> None:
        if settings.template.kind != "dashboard":
            raise InvalidValueError(f"{settings.template.name} is a monitor; a dashboard can be shown")
        _try(settings)  # What is bad about it is better said before the terminal is taken.
        self._settings = settings
        self._receiver = receiver
        self._stream = stream
        self._source = source
        self._began = clock.monotonic()
        self._next = 0.0
        self._canvas = Canvas(stream, self._draw) if can_draw(stream) else None
        if self._canvas is not None:
            self._canvas.open()

    def refresh(self) -> None:
        """Draw, if it is time to do so."""
        now = clock.monotonic()
        if self._canvas is not None and now >= self._next:
            self._canvas.refresh()
            self._next = now + max(REFRESH_SECONDS, BUSY * (clock.monotonic() - now))

    def close(self) -> None:
        """Give the terminal back. Doing so twice does no harm."""
        if self._canvas is not None:
            self._canvas.close()

    def end(self) -> None:
        """Write all of it, as it is now."""
        writer = Writer(self._stream)
        width = writer.width or PIPE_WIDTH
        glyphs = glyphs_for(self._stream)
        (whole,) = pages(self._groups(width, glyphs), sys.maxsize)
        title, span = self._title()
        lines = [Text(cut(title, width, glyphs)), Text(cut(span, width, glyphs)), Text(), *whole]
        writer.lines(*(line.plain.rstrip() for line in lines))

    def _draw(self, width: int, height: int, glyphs: Glyphs, logged: str) -> list[Text]:
        made = pages(self._groups(width, glyphs), height - 3)
        number = page_number(len(made), clock.monotonic() - self._began)
        lines = [framed(*self._title(), width, glyphs), Text(), *made[number]]
        lines = lines[: height - 1] + [Text()] * (height - 1 - len(lines))
        turn = f"page {number + 1} of {len(made)}" if len(made) > 1 else ""
        return [*lines, framed(logged or "Ctrl-C ends it", turn, width, glyphs)]

    def _title(self) -> tuple[str, str]:
        """Return what is shown, and of which time and place."""
        picked = "".join(f"  {name}:{value}" for name, value in self._settings.picked.items())
        span = f"{self._settings.seconds:g} s in buckets of {self._receiver.bucket_seconds:g} s, {self._source}"
        return safe(f"{self._settings.template.title}{picked}"), safe(span)

    def _groups(self, width: int, glyphs: Glyphs) -> list[Drawn]:
        # Before there was anything to receive, there is nothing to draw: a graph grows to its full time.
        elapsed = clock.monotonic() - self._began + self._receiver.bucket_seconds
        panels = evaluate_dashboard(
            self._settings.template.body,
            self._receiver,
            clock.wall(),
            min(self._settings.seconds, max(elapsed, FIRST_BUCKETS * self._receiver.bucket_seconds)),
            picked=self._settings.picked,
            strict=False,  # What came may not be what a query can be evaluated over, which costs only its own panel.
        )
        return drawn_groups(panels, width, glyphs)


def _try(settings: ShowSettings) -> None:
    """Draw the template over nothing; raises :class:`PushmetricsError` for what can never be shown."""
    try:
        panels = evaluate_dashboard(
            settings.template.body, Receiver(), clock.wall(), settings.seconds, picked=settings.picked
        )
        drawn_groups(panels, PIPE_WIDTH, UNICODE)
    except PushmetricsError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InvalidValueError(
            f"{settings.template.name} has not the form of a dashboard that can be shown, with a title, widgets with "
            f"queries and formulas, and template_variables: {type(error).__name__} {error}"
        ) from None


def run_show(settings: ShowSettings, listen: ListenSettings, stream: TextIO) -> None:
    """Show a dashboard of what is received until the time is over, or SIGINT or SIGTERM comes.

    To be called in the main thread. Raises :class:`PushmetricsError` when it can not listen where it should.
    """
    asyncio.run(_show(settings, listen, stream))


async def _show(settings: ShowSettings, listen: ListenSettings, stream: TextIO) -> None:
    stop = asyncio.Event()
    with set_by_signals(stop):
        async with Receiver(bucket_seconds=listen.bucket) as receiver:
            addresses = await open_sockets(receiver, listen)
            show = Show(settings, receiver, stream, ", ".join(addresses))
            end = None if listen.duration is None else clock.monotonic() + listen.duration
            try:
                while not stop.is_set() and (end is None or clock.monotonic() < end):
                    show.refresh()
                    await pause(stop, 0.25)
            finally:
                show.close()
        show.end()


def run_show_of_demo(settings: ShowSettings, demo: DemoSettings, stream: TextIO) -> bool:
    """Run the demo's service under a dashboard; return whether everything arrived that was counted.

    To be called in the main thread. Raises what :func:`pushmetrics.demo.program.run_demo` does.
    """
    return run_demo(demo, DemoView(settings, stream)).good


class DemoView:
    """Stands where the demo's table would be."""

    def __init__(self, settings: ShowSettings, stream: TextIO) -> None:
        self._settings = settings
        self._stream = stream
        self._show: Show | None = None

    def begin(self, settings: DemoSettings, address: str, board: Board) -> None:
        """Take the terminal over."""
        self._show = Show(self._settings, board.receiver, self._stream, f"the demo at {address}")

    def tick(self, seconds: float) -> None:
        """Do nothing: it is drawn as often as there is time."""

    def refresh(self, seconds: float) -> None:
        """Draw."""
        if self._show is not None:
            self._show.refresh()

    def close(self) -> None:
        """Give the terminal back."""
        if self._show is not None:
            self._show.close()

    def end(self, outcome: Outcome) -> None:
        """Write all of it, as it is now."""
        if self._show is not None:
            self._show.end()
