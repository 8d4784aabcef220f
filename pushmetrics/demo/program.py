"""The program: the service, its reporter, and whoever draws, from the first flush to the last."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from pushmetrics import DogStatsDSink, PushmetricsError, Registry, Reporter, clock
from pushmetrics.live.board import Board
from pushmetrics.live.stopping import set_by_signals

from .arrivals import Arrivals
from .comparison import compare
from .driver import RolloutDriver
from .model_server import ModelServer
from .pushed import WatchedSink
from .settings import DemoSettings
from .verifier import Verifier
from .view import Outcome, View

VERIFIER_PROCESSES = 2

REFRESH_SECONDS = 0.25
"""How often a view is asked to draw again while nothing arrives."""


def run_demo(settings: DemoSettings, view: View) -> Outcome:
    """Run the demo until its time is over, or SIGINT or SIGTERM comes, and return how it ended.

    To be called in the main thread. Raises :class:`PushmetricsError` for settings under which nothing is pushed, and
    OSError when a port can not be opened or a process can not be started. A second signal does what it does anywhere.
    """
    _check_open_files(settings.concurrency)
    # A sink imports the datadog client when it is made: better now than while the loop runs.
    agent = DogStatsDSink() if settings.agent else None
    try:
        return asyncio.run(_run(settings, view, agent))
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]  # The tasks of the demo fail together, for one reason.
        raise error from None
    finally:
        view.close()


async def _run(settings: DemoSettings, view: View, agent: DogStatsDSink | None) -> Outcome:
    arrivals = Arrivals()
    watched = None if agent is None else WatchedSink(agent, arrivals.feed)
    # The receiver is left last, and takes in what the reporter's last flush has left in its socket.
    async with arrivals:
        if watched is None:
            host, port = await arrivals.listen_udp("127.0.0.1", 0)
            address = f"udp://{host}:{port}"
            demo = Demo(settings, view, arrivals, address, address)
        else:
            demo = Demo(settings, view, arrivals, watched, watched.address)
        await demo.run()
    demo.draw_what_is_new()
    outcome = (
        demo.outcome() if watched is None else replace(demo.outcome(), comparison=None, owed=watched.last.failures)
    )
    view.close()
    view.end(outcome)
    return outcome


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


class Demo:
    """One run of the service, with its reporter."""

    def __init__(
        self, settings: DemoSettings, view: View, arrivals: Arrivals, sink: str | WatchedSink, address: str
    ) -> None:
        registry = Registry()
        self._settings = settings
        self._view = view
        self._arrivals = arrivals
        self._sink = sink
        self._address = address
        self._driver = RolloutDriver(settings.concurrency, registry)
        self._model_server = ModelServer(settings.limit, settings.admission_timeout, registry)
        self._verifier = Verifier(VERIFIER_PROCESSES, registry)
        self._reporter = Reporter(
            flush_interval=settings.flush_interval,
            level=settings.level,
            namespace=settings.namespace,
            sink=sink,
            registry=registry,
        )
        self._began = clock.monotonic()

    async def run(self) -> None:
        """Run the service under load, and draw what arrives."""
        stop = asyncio.Event()
        # They are left in turn: the server first, then the reporter, whose last flush has all that was counted.
        with set_by_signals(stop):
            async with self._reporter, self._model_server:
                self._check_that_it_reports()
                board = Board(self._arrivals, self._reporter.statistics, listens=isinstance(self._sink, str))
                self._view.begin(self._settings, self._address, board)
                async with asyncio.TaskGroup() as tasks:
                    drawing = tasks.create_task(self._draw())
                    await self._driver.run(self._model_server.url, self._verifier, self._settings.duration, stop)
                    drawing.cancel()

    async def _draw(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._arrivals.flushed.wait()
            self.draw_what_is_new()
            self._view.refresh(self._seconds())

    def draw_what_is_new(self) -> None:
        """Draw a flush that has arrived, if there is one."""
        if self._arrivals.flushed.is_set():
            self._arrivals.flushed.clear()
            self._view.tick(self._seconds())

    def outcome(self) -> Outcome:
        """Return how it ended, and whether what arrived is what happened."""
        statistics = self._reporter.statistics()
        limits = (self._driver.limit, self._model_server.limit, self._verifier.limit)
        refused = self._arrivals.statistics().reasons
        return Outcome(
            rollouts=dict(self._driver.outcomes),
            flushes=statistics.flushes,
            datagrams=statistics.datagrams,
            unreadable={reason: number for reason, (number, _) in refused.items()},
            comparison=compare(self._arrivals.totals(), limits, self._settings.level),
        )

    def _seconds(self) -> float:
        return clock.monotonic() - self._began

    def _check_that_it_reports(self) -> None:
        if not self._reporter.is_running:
            raise PushmetricsError(
                "reporting is switched off; unset PUSHMETRICS_ENABLED and DD_DOGSTATSD_DISABLE to see the demo"
            )
