"""Lines into series, as the Agent aggregates them, within bounds of memory. No socket and no task."""

from __future__ import annotations

import heapq
import logging
from collections import Counter

from .. import clock
from ..dogstatsd import MAX_LINE_BYTES, Line, ParseError, parse_shape, split_line
from .history import Frame, Key, Series
from .kinds import KINDS

logger = logging.getLogger("pushmetrics")

PAST_SECONDS = 3600
AHEAD_SECONDS = 600
"""What Datadog takes of a line with ``|T``: an hour past to ten minutes ahead."""

CONSUMED = ("dd.internal.entity_id:", "dd.internal.card:", "dd.internal.jmx_check_name:")
"""Tags that the Agent takes out (extractTagsMetadata in comp/dogstatsd/server/impl/enrich.go in its sources)."""

EXAMPLE_BYTES = 80


class Aggregator:
    """All that was received, as series.

    It holds at most `max_series` series and `max_points` points, and all of it takes about `max_bytes` bytes. What is
    over is dropped and counted: of points the oldest, of series those that have been silent for the longest.
    """

    def __init__(self, frame: Frame, max_series: int, max_points: int, max_bytes: int) -> None:
        self.frame = frame
        self.lines = 0
        self.refused: Counter[str] = Counter()
        self.examples: dict[str, bytes] = {}
        self.evicted_series = 0
        self.evicted_points = 0
        self._max_series = max_series
        self._max_points = max_points
        self._max_bytes = max_bytes
        self._series: dict[Key, Series] = {}
        # What was made of a name and of what follows the value: it comes again and again. Cleared when it is full.
        self._routes: dict[tuple[bytes, bytes], tuple[Series, float]] = {}
        self._routes_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take a datagram, or the payload of a frame: lines with a newline between them. Never raises."""
        now = clock.wall()
        index = self.frame.index(now)
        routes = self._routes
        lines = data.split(b"\n")
        if len(data) > MAX_LINE_BYTES:
            lines = self._within_bounds(data)
        for line in lines:
            if not line:
                continue
            self.lines += 1
            head, _, rest = line.partition(b"|")
            name, _, value = head.partition(b":")
            route = routes.get((name, rest))
            try:
                if route is None or not value:
                    self._take(line, now, index)
                    continue
                series, weight = route
                if series.index != index:
                    series.roll(index, now)
                series.take(value, weight)
                series.seen = now
            except ParseError as error:
                self.refuse(str(error), line)
        if self.frame.bytes > self._max_bytes or self.frame.points > self._max_points:
            self._shrink(now)

    def refuse(self, reason: str, line: bytes) -> None:
        """Count something that was not taken; its beginning is kept as the latest example of the reason."""
        self.refused[reason] += 1
        self.examples[reason] = line[:EXAMPLE_BYTES]

    def series(self) -> list[Series]:
        """Return the series of which there is something to be read, in the order in which they came."""
        self._settle(clock.wall())
        return [series for series in self._series.values() if not series.is_empty()]

    def counts(self) -> list[Series]:
        """Return the series that are counts, those without history included."""
        return [series for series in self._series.values() if series.kind == "c"]

    @property
    def number_of_series(self) -> int:
        """How many series are held, those without history included."""
        return len(self._series)

    def _settle(self, now: float) -> None:
        """Close the buckets that are over, and let expire what is older than the history."""
        index = self.frame.index(now)
        for series in self._series.values():
            if series.index != index:
                series.roll(index, now)

    def _within_bounds(self, data: bytes) -> list[bytes]:
        """Return the lines that the Agent would see whole; it cuts a datagram, wherever that is."""
        if not data[MAX_LINE_BYTES:].strip(b"\n"):
            return data[:MAX_LINE_BYTES].split(b"\n")
        cut = data.rfind(b"\n", 0, MAX_LINE_BYTES + 1)
        self.lines += 1
        self.refuse(f"beyond the {MAX_LINE_BYTES} bytes of a datagram", data[cut + 1 : cut + 1 + EXAMPLE_BYTES])
        return data[:cut].split(b"\n") if cut > 0 else []

    def _take(self, line: bytes, now: float, index: int) -> None:
        """Take a line of which the series is not known yet, or that is not aggregated."""
        name, value, rest = split_line(line)
        shape = parse_shape(name, rest, strict=False)
        if shape.timestamp is not None and not -PAST_SECONDS <= shape.timestamp - now <= AHEAD_SECONDS:
            raise ParseError("a timestamp more than an hour past or ten minutes ahead")
        key = _key(shape)
        weight = 1 / shape.rate
        known = self._series.get(key)
        series = known or KINDS[key.kind](self.frame, key, index)
        if series.index != index:
            series.roll(index, now)
        try:
            if shape.timestamp is None:
                series.take(value, weight)
            else:
                series.stamp(float(shape.timestamp), value)
        except ParseError:
            if known is None:
                series.discard()
            raise
        series.seen = now
        if known is None:
            if len(self._series) >= self._max_series:
                self._evict(max(1, self._max_series // 64))
            self._series[key] = series
        if shape.timestamp is None:
            self._remember(name, rest, series, weight)

    def _remember(self, name: bytes, rest: bytes, series: Series, weight: float) -> None:
        self._routes_bytes += len(name) + len(rest) + 400
        if self._routes_bytes > self._max_bytes // 8:
            self._forget_routes()
        self._routes[name, rest] = series, weight

    def _forget_routes(self) -> None:
        self._routes.clear()
        self._routes_bytes = 0

    def _evict(self, number: int) -> None:
        """Drop the series that have been silent for the longest."""
        if not self.evicted_series:
            logger.warning(
                "The receiver holds as much as it may (%d series, %.1f MB); from now on it forgets the oldest series.",
                self._max_series,
                self._max_bytes / 2**20,
            )
        for key, series in heapq.nsmallest(number, self._series.items(), key=lambda item: item[1].seen):
            self.evicted_points += series.discard()
            self.evicted_series += 1
            del self._series[key]
        self._forget_routes()

    def _shrink(self, now: float) -> None:
        """Drop what is expired, then the oldest points, then the most silent series, until an eighth is free."""
        frame = self.frame
        most_points, most_bytes = self._max_points * 7 // 8, self._max_bytes * 7 // 8
        self._settle(now)
        while frame.points and (frame.points > most_points or frame.bytes > most_bytes):
            spans = [span for series in self._series.values() if (span := series.span())]
            first, last = min(span[0] for span in spans), max(span[1] for span in spans)
            cut = first + max((last - first) / 8, frame.width / 2)
            self.evicted_points += sum(series.drop_before(cut) for series in self._series.values())
        while self._series and frame.bytes > most_bytes:
            self._evict(max(1, len(self._series) // 8))


def _key(shape: Line) -> Key:
    host = None
    tags = set()
    for tag in shape.tags:
        if tag.startswith("host:"):
            host = tag[len("host:") :]
        elif not tag.startswith(CONSUMED):
            tags.add(tag)
    return Key(shape.name, "h" if shape.kind == "ms" else shape.kind, tuple(sorted(tags)), host)
