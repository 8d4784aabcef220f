"""Any other metric: its name, kind and tags, and what there is to say of it in one number."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Tags
from ..receiver import Distribution, Series
from .text import duration, number, safe

KIND_NAMES = {"g": "gauge", "c": "count", "s": "set", "d": "distribution", "h": "histogram"}

RECENT_SECONDS = 10.0
"""Over how long a rate and a distribution are taken: the Agent's bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRow:
    """A series at one moment."""

    name: str
    kind: str
    """gauge, count, set, distribution or histogram."""
    tags: Tags
    value: float | None
    """The newest value of a gauge or a set; the events per second of a count over the last 10 s."""
    total: float | None
    """The events of a count since it was first heard of."""
    distribution: Distribution | None
    """The values of the last 10 s or, if there were none, the newest ones."""
    seen: float
    """When the last sample came, in seconds since 1970."""

    @property
    def key(self) -> tuple[str, str, Tags]:
        """What tells series apart."""
        return self.name, self.kind, self.tags


def other_row(series: Series, width: float) -> OtherRow:
    """Look at a series; `width` is that of a bucket in seconds."""
    value = total = distribution = None
    if series.kind == "c":
        total = series.total
        # The open bucket has just begun, and would make each rate too low. It counts where there is no other.
        closed = [point.sum for point in series.points(max(RECENT_SECONDS, width) + width)]
        buckets = max(1, round(RECENT_SECONDS / width))
        point = series.latest()
        if closed:
            value = sum(closed[-buckets:]) / (len(closed[-buckets:]) * width)
        elif point is not None:
            value = point.value
    elif series.kind in ("d", "h"):
        parts = [point.distribution for point in series.recent(RECENT_SECONDS) if point and point.distribution]
        point = series.latest()
        if not parts and point is not None and point.distribution is not None:
            parts = [point.distribution]
        distribution = Distribution(parts) if parts else None
    else:
        point = series.latest()
        value = None if point is None else point.value
    return OtherRow(
        name=series.name,
        kind=KIND_NAMES[series.kind],
        tags=series.tags_and_host,
        value=value,
        total=total,
        distribution=distribution,
        seen=series.seen,
    )


def value_text(row: OtherRow) -> str:
    """Return what there is to say of a metric: a value, a rate, or an average and the highest."""
    if row.distribution is not None:
        unit = duration if row.name.endswith("_ms") else number
        found = row.distribution
        return f"avg {unit(found.avg)}  p95 {unit(found.percentile(95))}"
    if row.value is None:
        return ""
    return f"{number(row.value)}/s" if row.kind == "count" else number(row.value)


def tags_text(row: OtherRow) -> str:
    """Return the tags, safe for a terminal."""
    return safe(", ".join(row.tags))
