"""JSON lines: one object for each series and closed bucket, for other programs to read."""

from __future__ import annotations

import json
from typing import Any, TextIO

from .. import clock
from ..receiver import Point, Receiver, Series
from .others import KIND_NAMES

PERCENTILES = (50, 90, 95, 99)

WINDOW_SECONDS = 60.0
"""How far back it looks for what is new. A line with ``|T`` that comes later than that is not written."""


class JsonLines:
    """Writes what a receiver aggregates, when it is complete.

    Each object has these keys: ``timestamp`` (start of the bucket, in seconds since 1970), ``interval`` (its width in
    seconds), ``name``, ``kind`` (gauge, count, set, distribution or histogram), ``tags`` (a sorted list of strings),
    ``value`` (as Datadog stores it: the last of a gauge, the events per second of a count, the members of a set, the
    average of a distribution or histogram) and ``complete``: false at the end, for the bucket that was still open. A
    count has ``sum``, too, the events; a distribution or histogram has ``count``, ``sum``, ``min``, ``max``, ``avg``,
    ``p50``, ``p90``, ``p95`` and ``p99``. A bucket that a late line with ``|T`` changed is written again.
    """

    def __init__(self, stream: TextIO, receiver: Receiver) -> None:
        self._stream = stream
        self._receiver = receiver
        self._written: dict[Series, dict[float, float]] = {}
        self._looked = clock.wall()

    def tick(self, *, last: bool = False) -> None:
        """Write what has been closed since the last time; if it is the `last`, what is still open, too."""
        now = clock.wall()
        width = self._receiver.bucket_seconds
        window = max(WINDOW_SECONDS, now - self._looked) + 2 * width
        self._looked = now
        written: dict[Series, dict[float, float]] = {}
        for series in self._receiver.series():
            before = self._written.get(series, {})
            after = written[series] = {}
            for point in series.points(window):
                after[point.timestamp] = point.sum
                if before.get(point.timestamp) != point.sum:
                    self._write(series, point, complete=True)
            if last:
                for point in series.points(window, open_bucket=True):
                    if after.get(point.timestamp) != point.sum:
                        self._write(series, point, complete=False)
        self._written = written
        self._stream.flush()

    def _write(self, series: Series, point: Point, *, complete: bool) -> None:
        content = {
            "timestamp": _number(point.timestamp),
            "interval": self._receiver.bucket_seconds,
            "name": series.name,
            "kind": KIND_NAMES[series.kind],
            "tags": list(series.tags_and_host),
            "value": _number(point.value),
            **_more(series, point),
            "complete": complete,
        }
        self._stream.write(json.dumps(content) + "\n")


def _more(series: Series, point: Point) -> dict[str, Any]:
    if series.kind == "c":
        return {"sum": _number(point.sum)}
    found = point.distribution
    if found is None:
        return {}
    return {
        "count": found.count,
        "sum": _number(point.sum),
        "min": _number(found.min),
        "max": _number(found.max),
        "avg": _number(found.avg),
        **{f"p{percent}": _number(found.percentile(percent)) for percent in PERCENTILES},
    }


def _number(value: float) -> float | int:
    return int(value) if abs(value) < 2**53 and float(value).is_integer() else value
