"""The examination as text: one screen, which reads without colour as well."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from ..live.plain import Writer
from ..live.styles import STYLES
from .examination import Examination
from .finding import Finding

MARKS = {"": STYLES["quiet"], "ok": STYLES["good"], "note": STYLES["warm"], "wrong": STYLES["hot"]}
MARK_WIDTH = 7
TOPIC_WIDTH = 16
MIN_WIDTH, MAX_WIDTH = 40, 100
MAX_LIMITS = 10
"""How many limits a terminal shows."""

TITLE = "What a program started here would do. Arguments in its code win over variables."


def write_report(examination: Examination, stream: TextIO) -> None:
    """Write what was found, and the verdict at the end."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    width = max(MIN_WIDTH, min(console.width, MAX_WIDTH))
    limits = examination.limits
    if console.is_terminal and len(limits) > MAX_LIMITS:
        more = Finding("", f"and {len(limits) - MAX_LIMITS} more, which a pipe would show")
        limits = (*limits[:MAX_LIMITS], more)
    sections = (
        examination.settings,
        examination.agent,
        (*examination.program, *limits),
        examination.outlook,
    )
    # Drawn in the colours of the stream, and written as all plain lines are, which takes any encoding.
    console.file = drawn = io.StringIO()
    for line in _lines(console, width, sections, _verdict(examination)):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    Writer(stream).lines(*(line.rstrip() for line in drawn.getvalue().splitlines()))


def _lines(
    console: Console, width: int, sections: Iterable[Iterable[Finding]], verdict: tuple[str, str]
) -> Iterator[Text]:
    yield from _wrapped(console, TITLE, width, STYLES["quiet"])
    yield Text()
    for section in sections:
        lines = [line for finding in section for line in _finding(console, width, finding)]
        if lines:
            yield from lines
            yield Text()
    mark, text = verdict
    yield from _wrapped(console, text, width, MARKS[mark] + STYLES["name"])


def _finding(console: Console, width: int, finding: Finding) -> Iterator[Text]:
    room = width - MARK_WIDTH - TOPIC_WIDTH
    body = _wrapped(console, finding.text, room)
    body[-1:] = _with_source(console, body[-1], finding.source, room)
    for detail in finding.details:
        body += _wrapped(console, detail, room, STYLES["name" if finding.mark == "wrong" else ""])
    mark, topic = finding.mark.ljust(MARK_WIDTH), finding.topic.ljust(TOPIC_WIDTH)
    head = Text.assemble((mark, MARKS[finding.mark]), topic)
    for line in body:
        yield Text.assemble(head, line)
        head = Text(" " * (MARK_WIDTH + TOPIC_WIDTH))


def _with_source(console: Console, line: Text, source: str, room: int) -> list[Text]:
    """Return a line with the source at its right end, or below it where there is no room."""
    gap = room - line.cell_len - cell_len(source)
    if gap < 2:
        return [line, *_wrapped(console, source, room, STYLES["quiet"])]
    return [Text.assemble(line, " " * gap, (source, STYLES["quiet"]))] if source else [line]


def _wrapped(console: Console, text: str, width: int, style: Style = STYLES[""]) -> list[Text]:
    lines = list(Text(text, style).wrap(console, width))
    for line in lines:
        line.rstrip()
    return lines


def _verdict(examination: Examination) -> tuple[str, str]:
    wrong, notes = (list(dict.fromkeys(examination.marked(mark))) for mark in ("wrong", "note"))
    if wrong:
        return "wrong", f"Wrong: {', '.join(wrong)}."
    if "listener" in notes:
        return "note", "Nothing is wrong that can be seen from here."
    return "ok", "Nothing is wrong: what a program pushes from here is taken."
