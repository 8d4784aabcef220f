"""The reporter of a program that does not know it: it runs while a part of the program that has limits does."""

from __future__ import annotations

import asyncio
import logging
import os
from types import TracebackType
from typing import ClassVar, Self
from weakref import WeakSet

from ..registry import Registry
from ..reporter import Reporter
from ..semaphore import MeteredSemaphore

logger = logging.getLogger("pushmetrics")

registry = Registry()
"""What integrations report: not the default registry, which a reporter of the program's own may be using."""


class Reporting:
    """The limits of one part of the program: reported from its start, in its event loop, to its end.

    One reporter serves all parts of a loop. The first limit starts it, so that a process without limits sends nothing,
    and the last part closes it, which pushes once more. What goes wrong is logged, and the program runs on.
    """

    _open: ClassVar[set[Reporting]] = set()
    _starting: ClassVar[asyncio.Task[Reporter | None] | None] = None
    _pid: ClassVar[int] = 0
    """The process of that task: a child has a copy of it, which does not run."""

    def __init__(self) -> None:
        self._limits: WeakSet[MeteredSemaphore] = WeakSet()
        self._any = False

    def add(self, limit: MeteredSemaphore) -> None:
        """Report `limit` until the end of this part, or its own. Any thread may call it."""
        registry.register(limit)
        self._limits.add(limit)
        self._any = True
        self._loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        if self in Reporting._open and self._running() is None:
            Reporting._pid = os.getpid()
            Reporting._starting = self._loop.create_task(_started_reporter())

    def _running(self) -> asyncio.Task[Reporter | None] | None:
        """Return the task that starts the reporter of this loop, which may be done, or None where there is none."""
        starting = Reporting._starting
        if starting is None or Reporting._pid != os.getpid() or starting.get_loop() is not self._loop:
            return None
        return starting

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        Reporting._open.add(self)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._any:
            self._start()  # If the loop did not come to it.
        Reporting._open.discard(self)
        for limit in list(self._limits):
            registry.unregister(limit)
        starting = self._running()
        if starting is None or any(other._loop is self._loop for other in Reporting._open):
            return
        Reporting._starting = None
        try:
            reporter = await starting
            if reporter is not None:
                await reporter.aclose()
        except Exception:
            logger.warning("The last values of the limits of this process are lost.", exc_info=True)


async def _started_reporter() -> Reporter | None:
    """Return a running reporter, None where there can be none."""
    try:
        reporter = Reporter(registry=registry)
        await reporter.start()
    except Exception as error:  # noqa: BLE001 - the program runs on, whatever it is
        logger.warning("The limits of this process are not reported: %r.", error)
        return None
    return reporter
