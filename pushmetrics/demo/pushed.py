"""For a real Agent, which shows nothing here: a sink that notes what goes through it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from pushmetrics import DogStatsDSink
from pushmetrics.model import Delivery, Sample

from .readings import Readings


class WatchedSink:
    """Hands samples on to `sink`, and takes a reading of what of them was delivered."""

    def __init__(self, sink: DogStatsDSink, readings: Readings) -> None:
        self.readings = readings
        self.last = Delivery()
        """What became of the last flush."""
        self.address = str(sink.address)
        self._sink = sink

    def __repr__(self) -> str:
        return repr(self._sink)

    @property
    def sink(self) -> WatchedSink:
        """What the reporter is given to push to."""
        return self

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Do nothing: each reading is taken in :meth:`push`."""
        yield

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Push, and note how that went."""
        self.last = await self._sink.push(_WatchedSample(sample, self.readings) for sample in samples)
        return self.last

    async def aclose(self) -> None:
        """Close the sink."""
        await self._sink.aclose()


class _WatchedSample(Sample):
    __slots__ = ("_readings", "_sample")

    def __init__(self, sample: Sample, readings: Readings) -> None:
        super().__init__(sample.descriptor, sample.values, sample.waits, sample.one_in)
        self._sample = sample
        self._readings = readings

    def delivered(self, start: int = 0, stop: int | None = None) -> None:
        self._sample.delivered(start, stop)
        descriptor = self.descriptor
        for line in range(start, len(self.values) if stop is None else min(stop, len(self.values))):
            name = f"{descriptor.namespace}.{descriptor.names[line]}"
            self._readings.take(name, descriptor.kinds[line], self.values[line], descriptor.tags)
