"""The footer: the health of the reporters and of the receiver, one line each."""

from __future__ import annotations

from rich.text import Text

from .board import Look
from .health import ReceiverHealth, ReporterHealth
from .styles import STYLES
from .text import Glyphs, cut, duration, number, safe, size


def footer_lines(look: Look, width: int, glyphs: Glyphs, hint: str = "") -> list[Text]:
    """Return the lines; what is wrong comes first, and stays when the rest does not fit."""
    lines = []
    if look.reporters is not None:
        lines.append(_line("reporter", *_reporter(look.reporters), width, glyphs))
    if look.receiver is not None:
        lines.append(_line("receiver", *_receiver(look.receiver), width, glyphs))
    if hint:
        lines.append(Text("  " + cut(safe(hint), width - 2, glyphs), STYLES["quiet"]))
    return lines


def _line(heading: str, wrong: list[str], rest: list[str], width: int, glyphs: Glyphs) -> Text:
    separator = f" {glyphs.dot} "
    line = Text().append(f"  {heading}  ", STYLES["heading"])
    room = width - len(line)
    bad = cut(safe(separator.join(wrong)), room, glyphs)
    line.append(bad, STYLES["warm"])
    room -= size(bad)
    for text in rest:
        part = (separator if len(line) > len(heading) + 4 else "") + text
        if len(part) > room:
            break
        line.append(part, STYLES["quiet"])
        room -= len(part)
    return line


def _reporter(health: ReporterHealth) -> tuple[list[str], list[str]]:
    wrong = []
    if health.send_failures:
        wrong.append(f"{number(health.send_failures)} refused")
    if health.series_rejected:
        wrong.append(f"{number(health.series_rejected)} series over the cap")
    if health.counts_expired:
        wrong.append(f"{number(health.counts_expired)} events expired")
    rest = [f"{number(health.reporters)} reporters"] if health.reporters > 1 else []
    rest.append(f"{number(health.series)} series")
    if health.statistics is not None:
        rest.append(f"{number(health.statistics.flushes)} flushes")
        rest.append(f"{number(health.statistics.datagrams)} datagrams")
    if not health.send_failures:
        rest.append("0 refused")
    rest.append(f"last flush {duration(health.flush_duration_ms) if health.flush_duration_ms else '<1 ms'}")
    rest.append(f"{duration(health.flush_lag_ms)} late" if health.flush_lag_ms else "on time")
    return wrong, rest


def _receiver(health: ReceiverHealth) -> tuple[list[str], list[str]]:
    statistics = health.statistics
    wrong = []
    if statistics.refused:
        wrong.append(f"{number(statistics.refused)} refused, last: {health.last_reason} ({health.last_example})")
    if statistics.lost:
        wrong.append(f"{number(statistics.lost)} lost")
    if statistics.bad_frames or statistics.turned_away:
        wrong.append(f"{number(statistics.bad_frames + statistics.turned_away)} streams closed")
    if statistics.evicted_series or statistics.evicted_points:
        wrong.append(f"{number(statistics.evicted_series)} series forgotten")
    rest = [f"{number(statistics.datagrams)} datagrams"]
    if not statistics.refused:
        rest.append("0 refused")
    if not statistics.lost:
        rest.append("losses unknown" if statistics.lost is None else "0 lost")
    rest += [f"{number(statistics.lines)} lines", f"{number(statistics.series)} series"]
    return wrong, rest
