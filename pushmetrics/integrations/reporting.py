"""The reporter of a program that does not know it: it runs while a part of the program that has limits does."""

from __future__ import annotations

import asyncio
import logging
import os
from types import TracebackType
from typing import ClassVar, NamedTuple, Self
from weakref import WeakKeyDictionary, WeakSet

from ..errors import ReporterStateError
from ..offload import offload
from ..registry import Registry
from ..reporter import Reporter
from ..semaphore import MeteredSemaphore

logger = logging.getLogger("pushmetrics")

registry = Registry()
"""What integrations report: not the default registry, which a reporter of the program's own may be using."""


class Start(NamedTuple):
    """A reporter's start, which may be over."""

    task: asyncio.Task[Reporter | None]
    pid: int
    """The process of the task: a child has a copy of it, which does not run."""


class Reporting:
    """The limits of one part of the program: reported from its start, in its event loop, to its end.

    One reporter serves all parts of a loop. The first limit starts it, so that a process without limits sends nothing,
    and the last part closes it, which pushes once more. What goes wrong is logged, and the program runs on.
    """

    _open: ClassVar[set[Reporting]] = set()
    _starts: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, Start]] = WeakKeyDictionary()

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
            Reporting._starts[self._loop] = Start(self._loop.create_task(_started_reporter()), os.getpid())

    def _running(self) -> asyncio.Task[Reporter | None] | None:
        """Return the task that starts the reporter of this loop, which may be done, or None where there is none."""
        start = Reporting._starts.get(self._loop)
        return start.task if start is not None and start.pid == os.getpid() else None

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
        del Reporting._starts[self._loop]
        try:
            reporter = await starting
            if reporter is not None:
                await reporter.aclose()
        except Exception:
            logger.warning("The last values of the limits of this process are lost.", exc_info=True)


async def _started_reporter() -> Reporter | None:
    """Return a running reporter, None where there can be none."""
    try:
        # To make one imports the client, which would hold the program's loop up.
        reporter = await offload(lambda: Reporter(registry=registry), "pushmetrics-start")
        await reporter.start()
    except ReporterStateError:
        return None  # The one of another loop reports the limits of this one, too.
    except Exception as error:  # noqa: BLE001 - the program runs on, whatever it is
        logger.warning("The limits of this process are not reported: %r.", error)
        return None
    return reporter
