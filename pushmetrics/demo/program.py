"""The program: the service, its reporter, and whoever draws, from the first flush to the last."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

from pushmetrics import DogStatsDSink, PushmetricsError, Registry, Reporter

from .comparison import compare
from .driver import RolloutDriver
from .listener import Listener
from .model_server import ModelServer
from .pushed import WatchedSink
from .readings import Readings
from .settings import DemoSettings
from .verifier import Verifier
from .view import Outcome, View

VERIFIER_PROCESSES = 2


def run_demo(settings: DemoSettings, view: View) -> Outcome:
    """Run the demo until its time is over, or SIGINT or SIGTERM comes, and return how it ended.

    To be called in the main thread. Raises :class:`PushmetricsError` for settings under which nothing is pushed, and
    OSError when a port can not be opened or a process can not be started. A second signal does what it does anywhere.
    """
    _check_open_files(settings.concurrency)
    readings = Readings()
    if settings.agent:
        return _run(Demo(settings, view, readings, WatchedSink(DogStatsDSink(), readings)))
    with Listener(readings) as listener:
        return _run(Demo(settings, view, readings, listener))


def _check_open_files(concurrency: int) -> None:
    """Refuse to start what would fail half-way."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, where the number is not limited in this way.
        return
    needed = 2 * concurrency + 50  # Both ends of each connection are here.
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        raise PushmetricsError(
            f"{concurrency} rollouts at a time need up to {needed} open files, and this shell allows {allowed}; "
            f"use a lower --concurrency, or run: ulimit -n {needed}"
        )


def _run(demo: Demo) -> Outcome:
    try:
        return asyncio.run(demo.run())
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]  # The tasks of the demo fail together, for one reason.
        raise error from None


class Demo:
    """One run. It is made before the event loop runs, since a sink imports the datadog client when it is made."""

    def __init__(
        self, settings: DemoSettings, view: View, readings: Readings, receiver: Listener | WatchedSink
    ) -> None:
        registry = Registry()
        self._settings = settings
        self._view = view
        self._readings = readings
        self._receiver = receiver
        self._driver = RolloutDriver(settings.concurrency, registry)
        self._model_server = ModelServer(settings.limit, settings.admission_timeout, registry)
        self._verifier = Verifier(VERIFIER_PROCESSES, registry)
        self._reporter = Reporter(
            flush_interval=settings.flush_interval,
            level=settings.level,
            sink=receiver.sink,
            registry=registry,
        )

    async def run(self) -> Outcome:
        """Run the service under load, draw each flush, and say how it ended."""
        stop = asyncio.Event()
        now = asyncio.get_running_loop().time
        began = now()

        def draw() -> None:
            self._readings.flushed.clear()
            self._view.tick(now() - began, self._readings)

        async def draw_each_flush() -> None:
            while await self._readings.flushed.wait():
                draw()

        receiver = self._receiver
        with _set_by_signals(stop):
            # They are left in turn: the server first, then the reporter, whose last flush has all that was counted,
            # then the listener, which takes that in.
            async with receiver.reading(), self._reporter, self._model_server:
                self._check_that_it_reports()
                self._view.begin(self._settings, receiver.address)
                async with asyncio.TaskGroup() as tasks:
                    drawing = tasks.create_task(draw_each_flush())
                    await self._driver.run(self._model_server.url, self._verifier, self._settings.duration, stop)
                    drawing.cancel()
            if self._readings.flushed.is_set():
                draw()
        outcome = self._outcome()
        self._view.end(self._readings, outcome)
        return outcome

    def _check_that_it_reports(self) -> None:
        if not self._reporter.is_running:
            raise PushmetricsError(
                "reporting is switched off; unset PUSHMETRICS_ENABLED and DD_DOGSTATSD_DISABLE to see the demo"
            )

    def _outcome(self) -> Outcome:
        statistics = self._reporter.statistics()
        outcome = Outcome(
            rollouts=dict(self._driver.outcomes), flushes=statistics.flushes, datagrams=statistics.datagrams
        )
        if isinstance(self._receiver, WatchedSink):
            return replace(outcome, owed=self._receiver.last.failures)
        limits = (self._driver.limit, self._model_server.limit, self._verifier.limit)
        comparison = compare(self._readings, limits, self._settings.level)
        return replace(outcome, unreadable=self._receiver.refused, comparison=comparison)


@contextmanager
def _set_by_signals(stop: asyncio.Event) -> Iterator[None]:
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
