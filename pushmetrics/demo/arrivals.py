"""What arrives: a receiver in the place of an Agent, which says when a flush is complete."""

from __future__ import annotations

import asyncio

from pushmetrics.catalog import HEALTH_NAMESPACE
from pushmetrics.receiver import Receiver

BUCKET_SECONDS = 1
"""The Agent's buckets are of 10 s, which is slow to watch."""

_END = f"{HEALTH_NAMESPACE}.series:".encode()


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
