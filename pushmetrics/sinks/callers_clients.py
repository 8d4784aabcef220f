"""Sinks around a client that the caller has: it keeps its address, tags, namespace and telemetry, and its owner.

Both are used through their public methods alone, and are never connected, closed or set up by us. They are known by
their type without importing their libraries: whoever has such a client has imported them.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Protocol

from ..catalog import COUNT
from ..model import Delivery, Sample, Sink
from ..offload import offload

SAMPLES_PER_TURN = 50
"""Samples that are read, or handed to the client, before the loop has its turn."""

PAUSE_SECONDS = 0.02
"""What aiodogstatsd gets after each turn to empty its queue, which drops what it can not hold."""


class OfficialClient(Protocol):
    """What is used of a ``datadog.dogstatsd.DogStatsd``."""

    def gauge(self, metric: str, value: float, tags: list[str] | None = ..., sample_rate: float | None = ...) -> None:
        """Send a gauge."""

    def count(self, metric: str, value: float, tags: list[str] | None = ..., sample_rate: float | None = ...) -> None:
        """Send a count."""

    def distribution(
        self, metric: str, value: float, tags: list[str] | None = ..., sample_rate: float | None = ...
    ) -> None:
        """Send a value of a distribution."""

    def flush(self) -> Any:
        """Send what is buffered."""


class AioDogStatsDClient(Protocol):
    """What is used of an ``aiodogstatsd.Client``."""

    @property
    def connected(self) -> bool:
        """Whether it takes metrics."""

    def gauge(self, name: str, *, value: float, tags: Any = ..., sample_rate: Any = ...) -> None:
        """Send a gauge."""

    def increment(self, name: str, *, value: float = ..., tags: Any = ..., sample_rate: Any = ...) -> None:
        """Send a count."""

    def distribution(self, name: str, *, value: float, tags: Any = ..., sample_rate: Any = ...) -> None:
        """Send a value of a distribution."""


def sink_around(client: object) -> Sink | None:
    """Return a sink around a client that a caller may have; None when it is none that we know."""
    if _is_a(client, "datadog.dogstatsd.base", "DogStatsd"):
        return OfficialClientSink(client)  # type: ignore[arg-type]  # Just checked.
    if _is_a(client, "aiodogstatsd", "Client"):
        return AioDogStatsDSink(client)  # type: ignore[arg-type]  # Just checked.
    return None


def _is_a(instance: object, module: str, name: str) -> bool:
    known = getattr(sys.modules.get(module), name, None)
    return isinstance(known, type) and isinstance(instance, known)


class OfficialClientSink:
    """Pushes samples through the caller's ``DogStatsd``.

    Its calls may block, for a look-up, a connect or a full socket, so they are made in a thread. After each sample it
    is flushed, so that its own counters tell whether the sample was taken. What it refused as a whole is sent again;
    what it took in part is not, since it does not say which part. With its telemetry switched off, or with a sender
    thread of its own, it hardly tells, and everything counts as delivered.
    """

    def __init__(self, client: OfficialClient) -> None:
        self._client = client
        self._sending: asyncio.Future[Delivery] | None = None

    def __repr__(self) -> str:
        return f"<sink around {self._client!r}>"

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Hand the samples to the client."""
        if self._sending is not None and self._sending.get_loop() is asyncio.get_running_loop():
            # Of a flush that was cancelled. No sample is taken anew before it is known what became of the last one.
            await asyncio.wait([self._sending])
        datagrams, size, failures = 0, 0, Counter[str]()
        while batch := list(islice(samples, SAMPLES_PER_TURN)):
            self._sending = offload(partial(self._send, batch), "pushmetrics-client")
            delivery = await asyncio.shield(self._sending)
            datagrams += delivery.datagrams
            size += delivery.bytes
            failures.update(delivery.failures)
        return Delivery(datagrams, size, dict(failures))

    async def aclose(self) -> None:
        """Leave the client to its owner."""

    def _send(self, samples: list[Sample]) -> Delivery:
        datagrams = size = refused = 0
        for sample in samples:
            before = self._counters()
            self._call_client(sample)
            flushed = self._client.flush()
            sent, sent_bytes, dropped = map(_since, before, self._counters())
            datagrams += sent
            size += sent_bytes
            if not sent and (dropped or flushed is False):
                refused += 1
            else:
                sample.delivered()
        return Delivery(datagrams, size, {"refused by the client": refused} if refused else {})

    def _call_client(self, sample: Sample) -> None:
        client, descriptor = self._client, sample.descriptor
        tags = list(descriptor.tags)
        for name, kind, value in zip(descriptor.names, descriptor.kinds, sample.values, strict=False):
            call = client.count if kind is COUNT else client.gauge
            # The client's own rate would leave lines out by chance.
            call(f"{descriptor.namespace}.{name}", value, tags, 1)
        for wait in sample.waits:
            client.distribution(f"{descriptor.namespace}.{descriptor.names[-1]}", wait, tags, 1)

    def _counters(self) -> tuple[int, int, int]:
        client = self._client
        return (
            getattr(client, "packets_sent", 0),
            getattr(client, "bytes_sent", 0),
            getattr(client, "packets_dropped", 0),
        )


def _since(before: int, now: int) -> int:
    return now - before if now >= before else now  # It begins at 0 again after each telemetry of its own.


class AioDogStatsDSink:
    """Pushes samples through the caller's ``aiodogstatsd.Client``, in whose event loop the reporter has to run.

    It sends a datagram for each value and hides errors: all that it can be asked is whether it is connected. Then
    everything counts as delivered. A constant tag without a value is left out, since its tags are a mapping.
    """

    def __init__(self, client: AioDogStatsDClient) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<sink around {self._client!r}>"

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Hand the samples to the client."""
        for number, sample in enumerate(samples, 1):
            if not self._client.connected:
                return Delivery(failures={"not connected": 1})
            self._call_client(sample)
            sample.delivered()
            await asyncio.sleep(0 if number % SAMPLES_PER_TURN else PAUSE_SECONDS)
        return Delivery()

    async def aclose(self) -> None:
        """Leave the client to its owner."""

    def _call_client(self, sample: Sample) -> None:
        client, descriptor = self._client, sample.descriptor
        tags = dict(tag.split(":", 1) for tag in descriptor.tags if ":" in tag)
        for name, kind, value in zip(descriptor.names, descriptor.kinds, sample.values, strict=False):
            call = client.increment if kind is COUNT else client.gauge
            call(f"{descriptor.namespace}.{name}", value=value, tags=tags, sample_rate=1)
        for wait in sample.waits:
            client.distribution(f"{descriptor.namespace}.{descriptor.names[-1]}", value=wait, tags=tags, sample_rate=1)
