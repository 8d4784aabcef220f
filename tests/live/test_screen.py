"""The screen: what it draws on, and what is logged meanwhile."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest

from pushmetrics.live.board import Board
from pushmetrics.live.screen import KEPT_RECORDS, Screen, can_draw
from pushmetrics.receiver import Receiver


class Terminal(io.StringIO):
    """A terminal that keeps what was written on it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def handled() -> Iterator[list[str]]:
    """What reaches the handlers of the program."""
    messages: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    root = logging.getLogger()
    before = root.handlers
    root.handlers = [Kept()]
    yield messages
    root.handlers = before


def screen(stream: io.StringIO) -> Screen:
    return Screen(stream, Board(Receiver()), lambda: ("left", "right"), "the hint")


def test_a_pipe_and_a_dumb_terminal_are_not_drawn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_draw(Terminal())
    assert not can_draw(io.StringIO())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not can_draw(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not can_draw(Terminal())


def test_it_takes_the_other_page_and_gives_the_terminal_back() -> None:
    stream = Terminal()
    picture = screen(stream)
    picture.open()
    picture.refresh()
    picture.close()
    picture.close()

    text = stream.getvalue()
    assert text.startswith("\x1b[?1049h")
    assert text.endswith("\x1b[?1049l")
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1
    assert "the hint" in text
    assert "\x1b[2J" not in text.partition("the hint")[2], "a picture that is erased first flickers"


def test_what_is_logged_is_shown_and_handed_on_at_the_end(handled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    stream = Terminal()
    picture = screen(stream)
    picture.open()
    logging.getLogger("pushmetrics").warning("agent %s", "unreachable")
    picture.refresh()
    assert handled == []
    picture.close()

    assert "agent unreachable" in stream.getvalue()
    assert handled == ["agent unreachable"]
    logging.getLogger("pushmetrics").warning("later")
    assert handled[-1] == "later"


def test_of_a_flood_of_messages_the_last_are_kept(handled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    picture = screen(Terminal())
    picture.open()
    for number in range(KEPT_RECORDS + 20):
        logging.getLogger("pushmetrics").warning("%d", number)
    picture.close()

    assert handled == [str(number) for number in range(20, KEPT_RECORDS + 20)]


def test_what_goes_to_a_file_is_not_held_up(handled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    picture = screen(Terminal())
    picture.open()
    logging.getLogger("pushmetrics").warning("at once")
    assert handled == ["at once"]
    picture.close()
