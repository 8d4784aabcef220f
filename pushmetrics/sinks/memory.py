"""MemorySink: keeps what was pushed, for tests and for a look at a program from inside."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..model import Delivery, Sample


class MemorySink:
    """Keeps the samples of the last flushes, each of which counts as delivered.

    Args:
        max_samples: How many samples are kept; older ones are forgotten.

    >>> sink = MemorySink()
    >>> # after a flush of a reporter with sink=sink
    >>> sink.latest("active", component="model_server")  # doctest: +SKIP
    4
    """

    in_process = True

    def __init__(self, max_samples: int = 10_000) -> None:
        self.samples: deque[Sample] = deque(maxlen=max_samples)

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Keep the samples."""
        for sample in samples:
            self.samples.append(sample)
            sample.delivered()
        return Delivery()

    async def aclose(self) -> None:
        """Keep everything: the samples are there to be read afterwards."""

    def latest(self, name: str, **tags: str) -> int:
        """Return the last value of the gauge or count `name` in a series with these tags.

        Raises KeyError when there is none.
        """
        values = self.values(name, **tags)
        if not values:
            raise KeyError(f"no sample of {name} with the tags {tags}")
        return values[-1]

    def total(self, name: str, **tags: str) -> int:
        """Return the sum of all values of the count `name` in all series with these tags."""
        return sum(self.values(name, **tags))

    def values(self, name: str, **tags: str) -> list[int]:
        """Return all values of the gauge or count `name` in series with these tags, oldest first."""
        wanted = [f"{key}:{value}" for key, value in tags.items()]
        return [
            sample.value(name)
            for sample in self.samples
            if name in sample.descriptor.names and all(tag in sample.descriptor.tags for tag in wanted)
        ]
