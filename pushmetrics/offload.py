"""Work that may block, done off the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

_T = TypeVar("_T")

_under_way: dict[asyncio.Future[Any], str] = {}


def offload(work: Callable[[], _T], name: str) -> asyncio.Future[_T]:
    """Start `work` in a thread called `name`, and return a future of what it returns or raises.

    The thread is a daemon: the loop's default executor would hold the program's exit up until slow work ends. The
    future raises OSError when no thread can be started.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]  # What `work` returned.
        else:
            future.set_exception(error)
            future.exception()  # Nobody may be waiting any more.

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as failure:  # noqa: BLE001 - whoever waits for the future gets it
            error = failure
        with suppress(RuntimeError):  # The loop was closed meanwhile.
            loop.call_soon_threadsafe(settle, result, error)
        _under_way.pop(future, None)

    _under_way[future] = name
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:  # Too many of them, or the interpreter is shutting down.
        settle(None, OSError(str(error)))
        _under_way.pop(future, None)
    return future


def under_way(name: str) -> list[asyncio.Future[Any]]:
    """Return the futures of all work of this name that was started in the running loop and has not ended."""
    loop = asyncio.get_running_loop()
    return [future for future, its_name in list(_under_way.items()) if its_name == name and future.get_loop() is loop]
