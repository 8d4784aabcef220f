"""The reporter of a program that does not know it: it runs while a part of the program does."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self
from weakref import WeakSet

from ..registry import Registry
from ..reporter import Reporter
from ..semaphore import MeteredSemaphore

logger = logging.getLogger("pushmetrics")

registry = Registry()
"""What integrations report: not the default registry, which a reporter of the program's own may be using."""


class Reporting:
    """The limits of one part of the program: reported from its start, in its event loop, to its end.

    One reporter serves all parts of a process: the first one starts it, and the last one closes it, which pushes once
    more. Whatever goes wrong is logged, and the program runs on without.
    """

    _reporter: Reporter | None = None
    _open = 0

    def __init__(self) -> None:
        self._limits: WeakSet[MeteredSemaphore] = WeakSet()

    def add(self, limit: MeteredSemaphore) -> None:
        """Report `limit` until the end of this part, or its own."""
        registry.register(limit)
        self._limits.add(limit)

    async def __aenter__(self) -> Self:
        cls = type(self)
        cls._open += 1
        try:
            if cls._reporter is None or not cls._reporter.is_running:  # A child's copy of it is not.
                cls._reporter = Reporter(registry=registry)
                await cls._reporter.start()
        except Exception:
            logger.warning("The limits of this process are not reported.", exc_info=True)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        cls = type(self)
        for limit in list(self._limits):
            registry.unregister(limit)
        cls._open -= 1
        if cls._open == 0 and cls._reporter is not None:
            reporter, cls._reporter = cls._reporter, None
            try:
                await reporter.aclose()
            except Exception:
                logger.warning("The last values of the limits of this process are lost.", exc_info=True)
