"""ConsoleSink: one plain line for each limit and flush."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TextIO

from ..catalog import HEALTH_NAMESPACE
from ..model import Delivery, Sample

_SHORT_NAMES = {
    "limit": "limit",
    "active": "active",
    "queue_depth": "queued",
    "queue_depth_peak": "peak",
    "oldest_wait_ms": "oldest_ms",
    "admissions_total": "admitted",
    "admission_timeouts_total": "timeouts",
    "admission_cancelled_total": "cancelled",
    "admission_rejected_total": "rejected",
}


def line(tags: tuple[str, ...], values: Mapping[str, float]) -> str:
    """Return the line of one limit: the values of its tags, then those of its metrics that are there."""
    name = " ".join(tag.partition(":")[2] or tag for tag in tags)
    numbers = [f"{short} {values[full]:g}" for full, short in _SHORT_NAMES.items() if full in values]
    return "  ".join([name, *numbers])


class ConsoleSink:
    """Prints each limit at each flush. `stream` is standard output by default."""

    in_process = True

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Print the samples; the reporter's own health is left out."""
        stream = sys.stdout if self._stream is None else self._stream
        for sample in samples:
            descriptor = sample.descriptor
            if descriptor.namespace != HEALTH_NAMESPACE:
                values = dict(zip(descriptor.names, sample.values, strict=False))
                print(line(descriptor.tags, values), file=stream, flush=True)
            sample.delivered()
        return Delivery()

    async def aclose(self) -> None:
        """Leave the stream to its owner."""
