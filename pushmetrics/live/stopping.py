"""What ends a picture: SIGINT, SIGTERM, or that its time is over."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any


@contextmanager
def set_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM set `stop`; from the second on they do what they did before."""
    loop = asyncio.get_running_loop()
    before: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, frame: FrameType | None) -> None:
        restore()
        loop.call_soon_threadsafe(stop.set)

    # Unlike loop.add_signal_handler, this works on Windows, too.
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # As a shell asks for in the background.
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        restore()


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait for `seconds`, or until `stop` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
