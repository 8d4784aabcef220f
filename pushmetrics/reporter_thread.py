"""A reporter on an event loop of its own, for programs whose loop may block."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

from .errors import ReporterStateError

logger = logging.getLogger("pushmetrics")


class AsyncReporter(Protocol):
    """What is run in the thread."""

    async def start(self) -> None:
        """Begin to report in the running loop."""
        ...

    async def aclose(self) -> None:
        """Push once more and stop."""
        ...


class ReporterThread:
    """Runs a reporter in a daemon thread; what :meth:`pushmetrics.Reporter.in_thread` returns.

    >>> with Reporter().in_thread():  # doctest: +SKIP
    ...     serve()

    A program that ends within the block has its last flush, too. Calls from several threads have to take turns.
    """

    def __init__(self, reporter: AsyncReporter, close_seconds: float) -> None:
        self._reporter = reporter
        self._close_seconds = close_seconds
        """How long the reporter's ``aclose()`` takes at the most."""
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def __repr__(self) -> str:
        return f"<{self._reporter!r} in a thread>"

    @property
    def is_running(self) -> bool:
        """Whether the thread has been started and has not ended. After a fork it does not run in the child."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, and return when the reporter runs; its first flush follows at once.

        Raises :class:`ReporterStateError` when it runs already, or another reporter reports the same registry.
        """
        if self.is_running:
            raise ReporterStateError(f"{self!r} is running already")
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._main, args=(started,), name="pushmetrics-reporter", daemon=True)
        self._thread.start()
        started.result()
        # Daemon threads go on until these functions have returned, and are stopped then.
        atexit.register(self.close)

    def close(self) -> None:
        """Push once more and stop, within 2 s whatever the Agent does. Closing twice does no harm.

        It waits for the thread, so in a running event loop call it with ``asyncio.to_thread``. In the thread itself,
        as from a sink or a limit of yours, it returns at once: the last push follows what is under way there.
        """
        thread = self._thread
        if thread is threading.current_thread():
            assert self._stop is not None, "it runs in the loop that has made it"
            self._stop.set()
            return
        atexit.unregister(self.close)
        self._thread = None
        if thread is None or not thread.is_alive():
            return
        assert self._loop is not None, "start() has waited for it"
        assert self._stop is not None, "start() has waited for it"
        with suppress(RuntimeError):  # It has ended by itself meanwhile.
            self._loop.call_soon_threadsafe(self._stop.set)
        thread.join(self._close_seconds)
        if thread.is_alive():
            logger.warning("%r did not end within %g s; what it held is lost.", self, self._close_seconds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def _main(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._report(started))
        except BaseException as error:
            if started.done():
                logger.exception("%r has ended.", self)
            else:
                started.set_exception(error)

    async def _report(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await self._reporter.start()
        started.set_result(None)
        await self._stop.wait()
        await self._reporter.aclose()
