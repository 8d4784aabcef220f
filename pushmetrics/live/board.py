"""The board: what a receiver holds, sorted into limits, the reporters' own health and any other metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .. import clock
from ..receiver import Receiver, Series
from ..reporter import ReporterStatistics
from .health import HEALTH_NAMES, ReceiverHealth, Refusals, ReporterHealth, reporter_health
from .limits import KINDS, LimitKey, LimitRow, LimitWatch, is_limit, last_minute
from .order import Order
from .others import OtherRow, other_row

GONE_SECONDS = 300.0
"""What has been silent for so long is shown no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is to be seen at one moment."""

    now: float
    """Seconds since 1970."""
    limits: Sequence[LimitRow]
    """In the order in which they came."""
    ranked: Sequence[LimitRow]
    """What holds things up comes first, and what is silent last; those of which nothing came for long are left out."""
    others: Sequence[OtherRow]
    """Those of the last minutes, sorted by name and tags; no more than were asked for."""
    more_others: int
    """How many there are beside them."""
    reporters: ReporterHealth | None
    receiver: ReceiverHealth | None
    """None where nothing comes over a socket."""


class Board:
    """Looks at a receiver again and again.

    `statistics` are those of a reporter in this process, if there is one. `listens` is False for a receiver that is fed
    in this process: its own health says nothing.
    """

    def __init__(
        self,
        receiver: Receiver,
        statistics: Callable[[], ReporterStatistics] | None = None,
        *,
        listens: bool = True,
    ) -> None:
        self._receiver = receiver
        self._listens = listens
        self._statistics = statistics
        self._watches: dict[LimitKey, LimitWatch] = {}
        self._places: dict[Series, tuple[LimitKey, str] | None] = {}
        self._order: Order[LimitKey] = Order()
        self._refusals = Refusals()

    @property
    def receiver(self) -> Receiver:
        """What it looks at."""
        return self._receiver

    def look(self, *, minutes: int = 0, max_others: int = 0) -> Look:
        """Return what is to be seen now: the last minute of the first `minutes` limits, at most `max_others` others."""
        now = clock.wall()
        width = self._receiver.bucket_seconds
        groups, health, others = self._sorted_out()
        self._watches = {key: self._watches.get(key) or LimitWatch(key) for key in groups}
        rows = {key: self._watches[key].row(metrics, now, width) for key, metrics in groups.items()}
        order = self._order.sort({key: row.pressure for key, row in rows.items()}, now)
        for key in order[:minutes]:
            rows[key] = replace(rows[key], minute=last_minute(groups[key], now, width))
        others = [series for series in others if now - series.seen <= GONE_SECONDS]
        others.sort(key=lambda series: (series.name, series.tags_and_host))
        return Look(
            now=now,
            limits=[*rows.values()],
            ranked=[
                row for row in map(rows.__getitem__, order) if not (row.is_silent and now - row.seen > GONE_SECONDS)
            ],
            others=[other_row(series, width) for series in others[:max_others]],
            more_others=max(0, len(others) - max_others),
            reporters=reporter_health(health, now, self._statistics() if self._statistics else None),
            receiver=self._refusals.look(self._receiver.statistics()) if self._listens else None,
        )

    def _sorted_out(self) -> tuple[dict[LimitKey, dict[str, Series]], list[Series], list[Series]]:
        """Return the metrics of the limits, the health of the reporters, and the rest."""
        groups: dict[LimitKey, dict[str, Series]] = {}
        health: list[Series] = []
        others: list[Series] = []
        current = self._receiver.series()
        self._places = {
            series: self._places[series] if series in self._places else _place(series) for series in current
        }
        for series, place in self._places.items():
            if place is not None:
                groups.setdefault(place[0], {})[place[1]] = series
            elif series.name in HEALTH_NAMES:
                health.append(series)
            else:
                others.append(series)
        limits = {}
        for key, metrics in groups.items():
            if is_limit(key, metrics):
                limits[key] = metrics
            else:
                others.extend(metrics.values())
        return limits, health, others


def _place(series: Series) -> tuple[LimitKey, str] | None:
    """Return the limit that a series may belong to, and its name in the catalogue."""
    namespace, _, metric = series.name.rpartition(".")
    if series.kind != KINDS.get(metric):
        return None
    return LimitKey(namespace, series.tags_and_host), metric
