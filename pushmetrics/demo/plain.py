"""Plain lines: one for each limit and flush, which a pipe can take and a narrow terminal has room for."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import TextIO

from pushmetrics import PushmetricsError
from pushmetrics.catalog import metrics_at

from .comparison import Comparison
from .driver import OVERLOAD
from .readings import Reading, Readings
from .settings import DemoSettings
from .view import Outcome

_LINE = {
    "limit": "limit",
    "active": "active",
    "queue_depth": "queued",
    "queue_depth_peak": "peak",
    "admission_timeouts_total": "timeouts",
    "admission_cancelled_total": "cancelled",
}
"""The metrics in a line, and what they are called there; the last ones go where there is no room for them."""

_SUMMARY = {
    "admissions_total": "admitted",
    "admissions_queued_total": "after a wait",
    "admission_timeouts_total": "timeouts",
    "admission_cancelled_total": "cancelled",
    "contended_ms_total": "contended ms",
}

_ROLLOUTS = {
    "right": "answered right",
    "wrong": "answered wrong",
    "refused": "refused by the model server",
    "given up": "given up by the client",
    "cut off": "cut off at the end",
}

_NAMES = (("component", "limit_name", "server"), ("limit_name", "server"), ("limit_name",))
"""What a limit is called, for less and less room."""

_GAP = "  "


class PlainLines:
    """Writes lines whose columns stay where they are. `stream` is a terminal, a pipe or a file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._settings = DemoSettings()
        self._digits = 1

    def begin(self, settings: DemoSettings, address: str) -> None:
        """Say what runs, and where it pushes to."""
        self._settings = settings
        # As wide as the numbers can become, so that nothing moves when they do.
        self._digits = len(str(max(settings.limit, OVERLOAD * settings.concurrency)))
        self._text(f"Three limits, under load for {settings.duration:g} s; Ctrl-C ends it earlier.")
        pushing = f"Pushing every {settings.flush_interval:g} s at level {settings.level} to"
        if settings.agent:
            self._text(f"{pushing} the Agent at {address}; this was pushed:")
        else:
            self._text(f"{pushing} {address}; this arrived:")

    def tick(self, seconds: float, readings: Readings) -> None:
        """Write a line for each limit."""
        rows = []
        for reading in readings.limits:
            cells = []
            for metric, label in self._there(_LINE).items():
                digits = max(3, self._digits) if metric.endswith("_total") else self._digits
                value = reading.value(metric)
                cell = "" if value is None else f"{label} {value:>{digits}}"
                cells.append(cell.ljust(len(label) + 1 + digits))
            rows.append(cells)
        self._write("", f"{seconds:.1f} s", *_table(readings.limits, rows, self._line_width()))

    def end(self, readings: Readings, outcome: Outcome) -> None:
        """Write the counters, how the rollouts ended, and whether everything arrived."""
        columns = self._there(_SUMMARY)
        rows = [list(columns.values())]
        for reading in readings.limits:
            values = [(reading.value(metric), label) for metric, label in columns.items()]
            rows.append([f"{'' if value is None else value:>{len(label)}}" for value, label in values])
        heading = "Pushed in all" if self._settings.agent else "Arrived in all"
        self._write("", *_table(readings.limits, rows, self._line_width(), heading))
        if readings.limits:
            self._write("")
        rollouts = outcome.rollouts
        ended = [f"{rollouts[how]} {words}" for how, words in _ROLLOUTS.items() if how in rollouts]
        self._text(f"{sum(rollouts.values())} rollouts: {', '.join(ended) or 'none'}.")
        self._verdict(outcome)

    def _verdict(self, outcome: Outcome) -> None:
        for reason, count in outcome.unreadable.items():
            self._text(f"{count} of the lines that arrived could not be read: {reason}.")
        pushed = f"{outcome.flushes} flushes, {outcome.datagrams} datagrams"
        if outcome.owed:
            self._text(
                f"{pushed}; the Agent did not take the last flush ({', '.join(outcome.owed)}). Is it running? "
                "DD_AGENT_HOST and DD_DOGSTATSD_PORT say where it is."
            )
        elif outcome.comparison is None:
            self._text(f"{pushed}. What arrived cannot be seen from here, so nothing is compared.")
        else:
            self._write_comparison(pushed, outcome.comparison)

    def _write_comparison(self, pushed: str, comparison: Comparison) -> None:
        for difference in comparison.differences:
            self._text(f"{difference}.")
        if comparison.differences:
            differ = f"{len(comparison.differences)} of {comparison.counters} counters"
            self._text(f"{pushed}: what arrived is not what happened, in {differ}.")
        else:
            self._text(f"{pushed}: all {comparison.counters} counters arrived exactly as they happened.")

    def _there(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Return the columns whose metrics exist at the level of this run."""
        names = {metric.name for metric in metrics_at(self._settings.level)}
        return {metric: label for metric, label in columns.items() if metric in names}

    def _line_width(self) -> int | None:
        """Return how wide a line may be; None for as wide as it likes."""
        return shutil.get_terminal_size().columns if self._stream.isatty() else None

    def _text(self, text: str) -> None:
        width = self._line_width()
        self._write(*([text] if width is None else textwrap.wrap(text, min(width, 100), break_on_hyphens=False)))

    def _write(self, *lines: str) -> None:
        try:
            self._stream.writelines(f"{line}\n" for line in lines)
            self._stream.flush()
        except BrokenPipeError:
            raise  # Its reader has gone, which is no error.
        except OSError as error:
            raise PushmetricsError(f"can not write the output ({error}); write it elsewhere") from error


def _table(
    limits: Sequence[Reading], rows: Sequence[Sequence[str]], width: int | None, heading: str | None = None
) -> list[str]:
    """Return the rows, each behind the name of its limit; with a `heading`, the first row is that of the labels.

    Where they do not fit, the names give way first, then the last columns.
    """
    if not limits:
        return []
    cells = len(rows[0])
    forms = [_names(limits, keys, heading) for keys in _NAMES]
    names = forms[0]
    if width is not None:
        names = next((form for form in forms if _width(form, rows, cells) <= width), forms[-1])
        while cells > 1 and _width(names, rows, cells) > width:
            cells -= 1
    return [_GAP.join([name, *row[:cells]]).rstrip() for name, row in zip(names, rows, strict=True)]


def _width(names: Sequence[str], rows: Sequence[Sequence[str]], cells: int) -> int:
    return len(_GAP.join([names[0], *rows[0][:cells]]))


def _names(limits: Sequence[Reading], keys: Sequence[str], heading: str | None) -> list[str]:
    """Return the names of the limits, of equal width, made of the values of the tags `keys`."""
    columns = [[reading.tag(key) for reading in limits] for key in keys]
    widths = [max(map(len, column)) for column in columns]
    names = [" ".join(map(str.ljust, name, widths)) for name in zip(*columns, strict=True)]
    if heading is not None:
        names.insert(0, heading)
    width = max(map(len, names))
    return [name.ljust(width) for name in names]
