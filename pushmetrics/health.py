"""The reporter's own health, pushed beside the limits as the series ``pushmetrics.*``."""

from __future__ import annotations

from collections import Counter

from .catalog import COUNT, HEALTH_METRICS, HEALTH_NAMESPACE
from .model import Delivery, Descriptor, Sample, Tags
from .registry import Registry

_COUNTS = tuple(metric.name for metric in HEALTH_METRICS if metric.kind is COUNT)


class Health:
    """What a reporter has done, and what of that has been delivered."""

    def __init__(self, registry: Registry) -> None:
        self.flushes = 0
        self.datagrams = 0
        self.bytes = 0
        self.failures: Counter[str] = Counter()
        self.flush_lag_ms = 0
        self.flush_duration_ms = 0
        self.reported = dict.fromkeys(_COUNTS, 0)
        """Of each count, the total that has been delivered."""
        self._registry = registry
        self._descriptor = _descriptor(())

    def note(self, delivery: Delivery, seconds: float) -> None:
        """Take the outcome of a flush in."""
        self.flushes += 1
        self.datagrams += delivery.datagrams
        self.bytes += delivery.bytes
        self.failures.update(delivery.failures)
        self.flush_duration_ms = int(seconds * 1000)

    def sample(self, tags: Tags) -> Sample:
        """Return the sample that ends a flush; its duration is that of the flush before."""
        if tags != self._descriptor.tags:
            self._descriptor = _descriptor(tags)
        now = {
            "series": self._registry.series_collected,
            "series_rejected_total": self._registry.series_rejected,
            "flush_lag_ms": self.flush_lag_ms,
            "flush_duration_ms": self.flush_duration_ms,
            "send_failures_total": self.failures.total(),
            "counts_expired_total": self._registry.counts_expired,
        }
        values = tuple(now[name] - self.reported.get(name, 0) for name in self._descriptor.names)
        return _HealthSample(self, self._descriptor, values)


def _descriptor(tags: Tags) -> Descriptor:
    return Descriptor(
        HEALTH_NAMESPACE,
        tuple(metric.name for metric in HEALTH_METRICS),
        tuple(metric.kind for metric in HEALTH_METRICS),
        tags,
    )


class _HealthSample(Sample):
    """A sample that tells the health what of it was delivered."""

    __slots__ = ("_health",)

    def __init__(self, health: Health, descriptor: Descriptor, values: tuple[int, ...]) -> None:
        super().__init__(descriptor, values)
        self._health = health

    def delivered(self, start: int = 0, stop: int | None = None) -> None:
        """Move the counts among the lines on to the delivered total."""
        for line in range(start, len(self.values) if stop is None else stop):
            name = self.descriptor.names[line]
            if name in self._health.reported:
                self._health.reported[name] += self.values[line]
