"""For a real Agent, which shows nothing here: a sink that notes what goes through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pushmetrics import DogStatsDSink
from pushmetrics.model import Delivery, Sample


class WatchedSink:
    """Hands samples on to `sink`, and feeds what of them was delivered to `feed`, as the lines that it was."""

    def __init__(self, sink: DogStatsDSink, feed: Callable[[bytes], None]) -> None:
        self.last = Delivery()
        """What became of the last flush."""
        self.address = str(sink.address)
        self._sink = sink
        self._feed = feed

    def __repr__(self) -> str:
        return repr(self._sink)

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Push, and note how that went."""
        self.last = await self._sink.push(_WatchedSample(sample, self._feed) for sample in samples)
        return self.last

    async def aclose(self) -> None:
        """Close the sink."""
        await self._sink.aclose()


class _WatchedSample(Sample):
    __slots__ = ("_feed", "_sample")

    def __init__(self, sample: Sample, feed: Callable[[bytes], None]) -> None:
        super().__init__(sample.descriptor, sample.values, sample.waits, sample.one_in)
        self._sample = sample
        self._feed = feed

    def delivered(self, start: int = 0, stop: int | None = None) -> None:
        self._sample.delivered(start, stop)
        descriptor = self.descriptor
        tags = f"|#{','.join(descriptor.tags)}" if descriptor.tags else ""
        lines = [
            f"{descriptor.namespace}.{descriptor.names[line]}:{self.values[line]}|{descriptor.kinds[line]}{tags}"
            for line in range(start, len(self.values) if stop is None else min(stop, len(self.values)))
        ]
        self._feed("\n".join(lines).encode())
