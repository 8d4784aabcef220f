"""What arrives: a receiver in the place of an Agent, which says when a flush is complete."""

from __future__ import annotations

import asyncio

from pushmetrics.catalog import HEALTH_METRICS, HEALTH_NAMESPACE
from pushmetrics.receiver import Receiver

from .settings import BUCKET_SECONDS

_END = f"{HEALTH_NAMESPACE}.{HEALTH_METRICS[-1].name}:".encode()
"""The last line of a flush. The lines before it may be in another datagram."""


class Arrivals(Receiver):
    """A receiver for the eye."""

    def __init__(self) -> None:
        super().__init__(bucket_seconds=BUCKET_SECONDS)
        self.flushed = asyncio.Event()
        """Set when a flush is complete; whoever waits for the next one clears it."""

    def feed(self, data: bytes) -> None:
        """Take a datagram. The reporter's own health ends a flush."""
        super().feed(data)
        if _END in data:
            self.flushed.set()
