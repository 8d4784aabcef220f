"""`pushmetrics demo` on a terminal, as a person sees it."""

from __future__ import annotations

import re

import pytest
from terminal import COLOUR, ENTER, LEAVE, on_a_terminal, terminal

pytestmark = [pytest.mark.demo, *on_a_terminal]

ROW = re.compile(r"^[! ] (upstream_requests|library_verifier|rollouts) .* \d+/\d+ ", re.MULTILINE)


def test_it_starts_resizes_and_leaves_a_clean_terminal_and_the_summary() -> None:
    with terminal("demo", "--duration", "60", "--flush-interval", "0.5") as screen:
        small = screen.show(r"! upstream_requests .* 4/4 +[1-9]")
        assert len(ROW.findall(small)) == 3
        assert re.search(r"^  receiver  .* 0 refused", small, re.MULTILINE)
        assert screen.colours >= {"red"}

        screen.resize(30, 200)
        large = screen.show(r"cancelled +admitted")
        screen.show(r"model_server +upstream_requests policy_model .* 4/4")
        assert len(large.splitlines()[2]) > 150

        screen.resize(12, 60)
        screen.show(r"\A(?!.*admitted)[^\n]*pushmetrics demo(?s:.*)Ctrl-C")
        assert all(len(line) <= 60 for line in screen.lines)

        screen.resize(40, 100)
        screen.type("\x03")
        status, left = screen.end()

    assert status == 0
    assert screen.raw.count(ENTER) == screen.raw.count(LEAVE) == 1
    assert screen.raw.rindex("\x1b[?25h") > screen.raw.rindex("\x1b[?25l")
    assert "\x1b" not in left.replace("\x1b[?25h", "")
    assert "Arrived in all" in left
    assert "counters arrived exactly as they happened" in left
    assert "cut off at the end" in left
    assert max(map(len, left.splitlines())) <= 100
    assert "Traceback" not in left


def test_without_colour_it_reads_as_well() -> None:
    with terminal("demo", "--duration", "2", NO_COLOR="1", columns=120) as screen:
        screen.show(r"! upstream_requests +▆+ +4/4")
        status, left = screen.end()

    assert status == 0
    assert not COLOUR.search(screen.raw)
    assert "exactly as they happened" in left


def test_plain_lines_for_whoever_prefers_them() -> None:
    with terminal("demo", "--duration", "1", "--plain") as screen:
        status, left = screen.end()

    assert status == 0
    assert "\x1b" not in screen.raw
    assert re.search(r"upstream_requests +limit  4 active", left)
    assert "exactly as they happened" in left
