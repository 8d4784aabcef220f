"""What the trace log of Datadog's server says: datagrams received, lines refused, metrics shipped.

Bytes in, records out; no process and no thread (see datadog_server.py for those).
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from servers import Key, Tags, rust_debug

MARK = "harness.mark"
"""The distribution that the harness sends to find its place in the log; never reported."""

_ORIGIN_TAGS = {"origin:azurespringapp", "dd.origin:azurespringapp"}  # the server's own, on every metric
_BETWEEN_RECORDS = re.compile(rb"\n(?=(?:TRACE|DEBUG| INFO| WARN|ERROR) \w|\nthread ')")
_RECORD = re.compile(r" *(?P<level>[A-Z]+) [\w:]+: (?P<message>.*)", re.DOTALL)
_DATAGRAM_END = re.compile(rb" from [\d.]+:\d+\n\Z")
_FLUSHING = re.compile(r"Flushing (\d+) series and (\d+) distributions")
_FLUSHED = ("Failed to flush some metrics", "Successfully flushed")


@dataclass(frozen=True)
class Series:
    """One gauge or count of one shipment; its points are (Unix seconds at bucket start, value)."""

    metric: str
    kind: str  # "Gauge" or "Count"
    points: tuple[tuple[int, float], ...]
    tags: Tags

    @property
    def key(self) -> Key:
        return self.metric, self.tags


@dataclass(frozen=True)
class Distribution:
    """One distribution of one shipment."""

    metric: str
    tags: Tags
    cnt: int
    min: float
    max: float
    sum: float

    @property
    def key(self) -> Key:
        return self.metric, self.tags

    def __add__(self, other: Distribution) -> Distribution:
        return replace(
            self,
            cnt=self.cnt + other.cnt,
            min=min(self.min, other.min),
            max=max(self.max, other.max),
            sum=self.sum + other.sum,
        )


@dataclass(frozen=True)
class Shipment:
    """What one flush (or several, added up) would have posted to Datadog."""

    series: tuple[Series, ...] = ()
    sketches: tuple[Distribution, ...] = ()

    def __add__(self, other: Shipment) -> Shipment:
        return Shipment(self.series + other.series, self.sketches + other.sketches)

    def counts(self) -> dict[Key, float]:
        """The total of each count."""
        totals: dict[Key, float] = {}
        for series in self.series:
            if series.kind == "Count":
                totals[series.key] = totals.get(series.key, 0.0) + sum(value for _, value in series.points)
        return totals

    def gauges(self) -> dict[Key, float]:
        """The last value of each gauge: of its newest bucket, and of those the last one shipped."""
        gauges = [series for series in self.series if series.kind == "Gauge"]
        points = [(stamp, series.key, value) for series in gauges for stamp, value in series.points]
        return {key: value for _, key, value in sorted(points, key=lambda point: point[0])}

    def distributions(self) -> dict[Key, Distribution]:
        """Each distribution, added up."""
        merged: dict[Key, Distribution] = {}
        for sketch in self.sketches:
            merged[sketch.key] = merged[sketch.key] + sketch if sketch.key in merged else sketch
        return merged


class DatadogLog:
    """Feed it the log as it comes; read the attributes at any time."""

    def __init__(self, keep: int) -> None:
        self.listening = False
        self.seen = 0
        self.received: deque[str] = deque(maxlen=keep)
        self.refused: deque[str] = deque(maxlen=keep)
        self.errors: deque[str] = deque(maxlen=keep)
        self.tail: deque[str] = deque(maxlen=30)
        self.shipments: list[Shipment] = []
        self.unseen_batches = 0
        self.mark_received = 0
        self.mark_shipped = 0
        self._rest = b""
        self._open = Shipment()
        self._batches = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the log, cut anywhere."""
        *records, self._rest = _BETWEEN_RECORDS.split(self._rest + chunk)
        if _is_complete(self._rest):
            records.append(self._rest[:-1])
            self._rest = b""
        for record in records:
            self._read(record.decode(errors="replace"))

    def _read(self, record: str) -> None:
        self.tail.append(record[:500])
        match = _RECORD.fullmatch(record)
        if match is None:
            if " panicked at " in record:
                self.errors.append(record)
            return
        message = match["message"]
        subject, _, rest = message.partition(": ")
        if subject == "Received message":
            self._received(rest.rpartition(" from ")[0])
        elif message.startswith("Failed to parse metric "):
            line = message.removeprefix("Failed to parse metric ")
            self.refused.append(line.rpartition(": parse failure: ")[0])
        elif subject == "Unsupported metric type":
            self.refused.append(rest.rpartition(". unsupported metric type: ")[0])
        elif flushing := _FLUSHING.match(message):
            self._batches = int(flushing[1]) + int(flushing[2])
        elif subject == "Sending body":
            self._shipped(Shipment(series=tuple(map(_series, rust_debug.parse(rest)["series"]))))
        elif subject == "Sending distributions":
            sketches = rust_debug.parse(rest)["sketches"]
            self._shipped(Shipment(sketches=tuple(map(_distribution, sketches))))
        elif message.startswith(_FLUSHED):
            self._flushed()
        elif "starting to listen on port" in message:
            self.listening = True
        elif message.startswith("DogStatsD queue full") or (
            match["level"] in ("WARN", "ERROR") and subject != "Error shipping data"
        ):
            self.errors.append(message)

    def _received(self, datagram: str) -> None:
        if datagram.startswith(f"{MARK}:"):
            self.mark_received = int(datagram.split(":")[1].partition("|")[0])
        else:
            self.seen += 1
            self.received.append(datagram)

    def _shipped(self, part: Shipment) -> None:
        self._batches -= 1
        self._open += part

    def _flushed(self) -> None:
        # After a batch that cannot be posted (none ever can, here) the server drops the rest of the flush unseen.
        self.unseen_batches += self._batches
        marks = [d for d in self._open.sketches if d.metric == MARK]
        self.mark_shipped = max([self.mark_shipped, *(int(mark.max) for mark in marks)])
        ours = tuple(d for d in self._open.sketches if d.metric != MARK)
        self.shipments.append(Shipment(self._open.series, ours))
        self._open = Shipment()


def _is_complete(rest: bytes) -> bool:
    # A record normally ends where the next begins, which may be ten seconds later. Only datagrams hold raw newlines.
    if b": Received message: " in rest[:80]:
        return _DATAGRAM_END.search(rest) is not None
    return rest.endswith(b"\n") and rest != b"\n"


def _series(fields: dict[str, Any]) -> Series:
    points = tuple((point["timestamp"], point["value"]) for point in fields["points"])
    return Series(fields["metric"], fields["kind"], points, _tags(fields["tags"]))


def _distribution(fields: dict[str, Any]) -> Distribution:
    (first, *others) = (
        Distribution(fields["metric"], _tags(fields["tags"]), s["cnt"], s["min"], s["max"], s["sum"])
        for s in fields["dogsketches"]
    )
    return sum(others, start=first)


def _tags(tags: list[str]) -> Tags:
    pairs = (tag.partition(":") for tag in tags if tag not in _ORIGIN_TAGS)
    return tuple(sorted((name, value) for name, _, value in pairs))
