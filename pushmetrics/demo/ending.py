"""The summary: what the limits came to, how the rollouts ended, and whether everything arrived."""

from __future__ import annotations

from pushmetrics.live.board import Board
from pushmetrics.live.plain import Writer
from pushmetrics.live.summary import summary_lines

from .comparison import Comparison, own_tags
from .settings import DemoSettings
from .view import Outcome

_ROLLOUTS = {
    "right": "answered right",
    "wrong": "answered wrong",
    "refused": "refused by the model server",
    "given up": "given up by the client",
    "cut off": "cut off at the end",
}


def write_summary(writer: Writer, settings: DemoSettings, board: Board, outcome: Outcome) -> None:
    """Write all of it."""
    rows = board.look().limits
    of_limits = outcome.comparison.of_limits if outcome.comparison else {}
    exact = {row.key: of_limits[tags] for row in rows if (tags := own_tags(row.key.tags)) in of_limits}
    heading = "Pushed in all" if settings.agent else "Arrived in all"
    lines = summary_lines(rows, writer.width, heading, {"exact": {key: f"{a}/{b}" for key, (a, b) in exact.items()}})
    writer.lines("", *lines)
    if rows:
        writer.lines("")
    rollouts = outcome.rollouts
    ended = [f"{rollouts[how]} {words}" for how, words in _ROLLOUTS.items() if how in rollouts]
    writer.text(f"{sum(rollouts.values())} rollouts: {', '.join(ended) or 'none'}.")
    _write_verdict(writer, outcome)


def _write_verdict(writer: Writer, outcome: Outcome) -> None:
    for reason, count in outcome.unreadable.items():
        writer.text(f"{count} of the lines that arrived could not be read: {reason}.")
    pushed = f"{outcome.flushes} flushes, {outcome.datagrams} datagrams"
    if outcome.owed:
        writer.text(
            f"{pushed}; the Agent did not take the last flush ({', '.join(outcome.owed)}). Is it running? "
            "DD_AGENT_HOST and DD_DOGSTATSD_PORT say where it is."
        )
    elif outcome.comparison is None:
        writer.text(f"{pushed}. What arrived cannot be seen from here, so nothing is compared.")
    else:
        _write_comparison(writer, pushed, outcome.comparison)


def _write_comparison(writer: Writer, pushed: str, comparison: Comparison) -> None:
    for difference in comparison.differences:
        writer.text(f"{difference}.")
    if comparison.differences:
        differ = f"{len(comparison.differences)} of {comparison.counters} counters"
        writer.text(f"{pushed}: what arrived is not what happened, in {differ}.")
    else:
        writer.text(f"{pushed}: all {comparison.counters} counters arrived exactly as they happened.")
