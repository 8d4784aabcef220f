"""The reporter: one periodic task that samples a registry and pushes what it finds."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from . import clock
from .errors import ReporterStateError
from .health import Health
from .model import Delivery, Sample, Sink
from .registry import Registry, checked_registry, default_registry
from .series import BUCKET_SECONDS
from .settings import UNSET, ReporterSettings, Unset, Worker, reporter_settings
from .workers import Workers

if TYPE_CHECKING:
    from .reporter_thread import ReporterThread
    from .sinks import SinkLike

logger = logging.getLogger("pushmetrics")

CLOSE_SECONDS = 2.0
"""How long :meth:`Reporter.aclose` takes at the most, whatever the Agent does, and with it the end of its thread."""

FIRST_RETRY_SECONDS = 0.25
MAX_RETRY_SECONDS = 4.0
"""How long no tick flushes after one of which nothing was taken: the first wait, doubled each time, up to the last.

A dead Agent then costs no connect and no look-up at each tick of a short interval. Ticks that are 5 s or 10 s apart
are further apart than the longest wait, so with those nothing is left out.
"""

SILENT_SECONDS = 30.0
"""How long nothing more is said of an Agent after it was said that it went: it may come and go at each flush."""


class FlushResult(NamedTuple):
    """What one flush did."""

    series: int = 0
    """Limits' series that were sampled."""
    datagrams: int = 0
    """Datagrams that were taken."""
    bytes: int = 0
    """Bytes in them."""
    failures: Mapping[str, int] = {}
    """What was not taken, by reason; empty when all was."""


class ReporterStatistics(NamedTuple):
    """What a reporter has done since it was made, a flush that was cancelled left out."""

    flushes: int
    series: int
    """Series that the last flush sampled."""
    series_rejected: int
    """Sets of tags that are not reported because ``max_series`` was reached."""
    datagrams: int
    """Datagrams that were taken."""
    bytes: int
    """Bytes in them."""
    failures: Mapping[str, int]
    """What was not taken, by reason."""
    counts_expired: int
    """Events that were dropped because they had waited for the Agent for too long."""
    flush_lag_ms: int
    """How late the last flush began."""
    flush_duration_ms: int
    """How long it took."""


class Reporter:
    """Samples every limit of a registry periodically and pushes gauges and counts to the Datadog Agent.

    >>> reporter = Reporter(namespace="myapp.concurrency")
    >>> async def main():
    ...     async with reporter:
    ...         await serve()

    Made outside of the running loop, as here, it does not hold the loop up while the ``datadog`` client is imported.

    Args:
        flush_interval: Seconds between two flushes, 0.1 to 3600; 10 by default, the width of the Agent's buckets.
        sink: Where to push: None for the Agent that the DD_* variables name, an address such as
            ``"udp://localhost:8125"``, a ``datadog.dogstatsd.DogStatsd`` or ``aiodogstatsd.Client`` of yours, which
            stays yours, or a sink.
        namespace: What the names of the metrics begin with; "gym.concurrency" by default.
        level: "core", "standard" (the default) or "full": which metrics a limit has.
        registry: The limits to report.
        constant_tags: Tags of every metric, such as ``["team:search"]``.
        worker: How the processes of a host are told apart: "auto" (the default) gives the first that reports a group
            of limits no tag and the others ``worker:1``, ``worker:2`` and so on; an integer fixes the number, 0 for
            no tag; None adds no tag.

    Each argument but `registry` has a variable, such as PUSHMETRICS_FLUSH_INTERVAL; an argument wins over it.
    PUSHMETRICS_ENABLED=0 switches reporting off: then nothing is sent, and all methods go on working.

    Nothing that goes wrong while it runs is raised into the program: it is logged when it begins and when it ends.
    Raises :class:`pushmetrics.PushmetricsError` (a ValueError or TypeError) for a bad argument.
    """

    def __init__(
        self,
        *,
        flush_interval: float | None = None,
        sink: SinkLike = None,
        namespace: str | None = None,
        level: str | None = None,
        registry: Registry = default_registry,
        constant_tags: Iterable[str] | None = None,
        worker: Worker | Unset = UNSET,
    ) -> None:
        from .sinks import resolve_sink  # Not before one is needed: `import pushmetrics` stays light.

        self._settings = reporter_settings(
            flush_interval=flush_interval,
            namespace=namespace,
            level=level,
            constant_tags=constant_tags,
            worker=worker,
        )
        self._sink = resolve_sink(sink) if self._settings.enabled else None
        self._registry = checked_registry(registry)
        self._health = Health(registry)
        self._workers = self._new_workers()
        self._phase = self._new_phase()
        self._task: asyncio.Task[None] | None = None
        self._flushing: asyncio.Lock | None = None
        self._pid = os.getpid()
        self._closing = False
        self._reasons: set[str] = set()  # Why the sink did not take everything, as far as it was said.
        self._silent_until = 0.0
        self._failing = False
        self._retry_seconds = 0.0
        self._retry_at = 0.0

    def __repr__(self) -> str:
        return f"<Reporter of {self._settings.namespace} to {self._sink!r}>"

    @property
    def settings(self) -> ReporterSettings:
        """The settings that are in force, and where each came from."""
        return self._settings

    @property
    def is_running(self) -> bool:
        """Whether it has been started, has not been closed, and has a loop to run in."""
        task = self._task
        return task is not None and not task.done() and not task.get_loop().is_closed() and self._pid == os.getpid()

    async def start(self) -> None:
        """Begin to report in the running loop; the first flush follows at once.

        Raises :class:`ReporterStateError` when it runs already, or another one reports the same registry.
        """
        if self._sink is None:
            logger.info("Reporting is switched off by %s.", self._settings.sources["enabled"])
            return
        if self._pid != os.getpid():
            self._begin_anew()
        if self.is_running or self._closing:
            raise ReporterStateError(f"{self!r} is running already")
        self._registry.attach(self)
        if warning := interval_warning(self._settings.flush_interval):
            logger.warning(warning)
        self._flushing = asyncio.Lock()
        # Not by the loop's task factory: an eager task would run before it is known here, and take itself for closed.
        self._task = asyncio.Task(self._run(), name="pushmetrics-reporter")

    async def flush(self) -> FlushResult:
        """Sample and push now, beside the periodic flushes; returns what was taken and what was not.

        Raises :class:`ReporterStateError` when the reporter is not running, or is closed before the flush has its turn.
        """
        if self._sink is None:
            return FlushResult()
        if not self.is_running:
            raise ReporterStateError(f"{self!r} is not running; start it, or use 'async with'")
        if self._task is not None and self._task.get_loop() is not asyncio.get_running_loop():
            raise ReporterStateError(f"{self!r} runs in another event loop and flushes there")
        return await self._flush(lag=0.0)

    async def aclose(self) -> None:
        """Push once more and stop, within 2 s whatever the Agent does. Closing twice does no harm.

        In a fork's child, the parent's reporter is left alone.
        """
        if self._pid != os.getpid():
            return
        task, self._task = self._task, None
        if task is None or self._sink is None:
            return
        loop = task.get_loop()
        if loop is asyncio.get_running_loop():
            await self._end(task, last_flush=True)
        else:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
            await self._end(None, last_flush=False)

    def in_thread(self) -> ReporterThread:
        """Return a context manager that runs the reporter in a thread, on an event loop of its own.

        For programs whose loop may block: that is when its gauges are needed most.

        >>> with Reporter().in_thread():  # doctest: +SKIP
        ...     asyncio.run(serve())

        Leaving the block pushes once more and stops, within 2 s; ``start()`` and ``close()`` do the same by hand.
        """
        from .reporter_thread import ReporterThread  # Few programs come here.

        return ReporterThread(self, CLOSE_SECONDS)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    def statistics(self) -> ReporterStatistics:
        """Return what the reporter has done so far."""
        health = self._health
        return ReporterStatistics(
            flushes=health.flushes,
            series=self._registry.series_collected,
            series_rejected=self._registry.series_rejected,
            datagrams=health.datagrams,
            bytes=health.bytes,
            failures=dict(health.failures),
            counts_expired=self._registry.counts_expired,
            flush_lag_ms=health.flush_lag_ms,
            flush_duration_ms=health.flush_duration_ms,
        )

    async def _run(self) -> None:
        try:
            await self._flush(lag=0.0)
            while self._task is asyncio.current_task():  # A sink may have kept the cancel of aclose() to itself.
                delay = seconds_to_next_tick(clock.wall(), self._settings.flush_interval, self._phase)
                due = clock.monotonic() + delay
                await clock.sleep(delay)
                if clock.monotonic() >= self._retry_at:
                    await self._flush(lag=max(0.0, clock.monotonic() - due))
        except asyncio.CancelledError:
            if self._task is asyncio.current_task():
                # By nobody who has closed it: asyncio.run() does that to what is left when the program ends.
                self._task = None
                await self._end(None, last_flush=True)
            raise

    async def _end(self, task: asyncio.Task[None] | None, *, last_flush: bool) -> None:
        assert self._sink is not None, "only a started reporter ends"
        self._closing = True
        try:
            if last_flush and not await _ends_within(CLOSE_SECONDS * 0.8, self._last_flush(task)):
                logger.warning("The last flush did not end within %g s; what it held is lost.", CLOSE_SECONDS * 0.8)
        finally:
            try:
                await self._close_sink(self._sink)
                await self._workers.aclose(CLOSE_SECONDS * 0.05)
            finally:
                self._flushing = asyncio.Lock()  # Who still waits for the one before comes too late.
                self._workers = self._new_workers()  # Those before may be giving their slots back for a while yet.
                self._registry.detach(self)
                self._closing = False

    async def _last_flush(self, task: asyncio.Task[None] | None) -> None:
        assert self._flushing is not None, "only a started reporter flushes"
        try:
            async with self._flushing:
                pass  # A flush that is under way ends by itself, not in the middle of a frame, and is counted.
        finally:
            if task is not None:
                task.cancel()
        if task is not None:
            await asyncio.wait([task])
        await self._flush(lag=0.0)

    def _begin_anew(self) -> None:
        """Forget the parent's state in a fork's child: its task does not run here, and the rest is not ours."""
        self._pid = os.getpid()
        self._phase = self._new_phase()
        self._health = Health(self._registry)
        self._workers = self._new_workers()
        self._task = None
        self._closing = self._failing = False
        self._reasons.clear()
        self._silent_until = self._retry_seconds = self._retry_at = 0.0

    def _new_phase(self) -> float:
        # One of the process's own keeps the workers of a host from flushing all at once, and well inside a bucket.
        return min(self._settings.flush_interval, BUCKET_SECONDS) * (0.1 + 0.7 * os.urandom(1)[0] / 255)

    def _new_workers(self) -> Workers:
        settings = self._settings
        # What stays in the process, such as a MemorySink, is not mixed with what others send.
        alone = settings.worker == "auto" and getattr(self._sink, "in_process", False)
        return Workers(None if alone else settings.worker, settings.namespace, settings.constant_tags)

    async def _close_sink(self, sink: Sink) -> None:
        try:
            if not await _ends_within(CLOSE_SECONDS * 0.05, sink.aclose()):
                logger.error("%s did not close within %g s.", sink, CLOSE_SECONDS * 0.05)
        except Exception:
            logger.exception("%s could not be closed.", sink)

    async def _flush(self, lag: float) -> FlushResult:
        assert self._sink is not None, "only a started reporter flushes"
        flushing = self._flushing
        assert flushing is not None, "only a started reporter flushes"
        async with flushing:
            if flushing is not self._flushing:  # Another reporter may have the registry by now.
                raise ReporterStateError(f"{self!r} was closed before this flush had its turn")
            began = clock.monotonic()
            settings = self._settings
            await self._workers.look(self._registry)
            collected = self._registry.collect(settings.level, settings.namespace, self._workers.tags)
            samples = chain(collected, self._health_sample())
            self._health.flush_lag_ms = int(lag * 1000)
            try:
                delivery = _checked(await self._sink.push(samples))
                self._log_reachability(delivery)
                self._failing = False
            except BaseException as error:
                if not self._is_the_sinks_fault(error):
                    raise
                # Nor is it said each time of one that fails now and then.
                if not self._failing and clock.monotonic() >= self._silent_until:
                    logger.exception("%s failed; what it did not deliver is kept. This is said once.", self._sink)
                    self._failing = True
                    self._silent_until = clock.monotonic() + SILENT_SECONDS
                delivery = Delivery(failures={type(error).__name__: 1})
            await _drain(samples)
            self._back_off(delivery, began)
            self._health.note(delivery, clock.monotonic() - began)
            return FlushResult(self._registry.series_collected, delivery.datagrams, delivery.bytes, delivery.failures)

    def _back_off(self, delivery: Delivery, began: float) -> None:
        """Let the ticks rest for a while when nothing was taken; a flush that somebody asks for is never left out."""
        if delivery.failures and not delivery.datagrams:
            self._retry_seconds = min(2 * self._retry_seconds or FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
        else:
            self._retry_seconds = 0.0
        self._retry_at = began + self._retry_seconds

    def _health_sample(self) -> Iterator[Sample]:
        # The last sample of each flush: a receiver knows by it that the flush is complete.
        tags = self._workers.health_tags
        if tags is not None:
            yield self._health.sample(tags)

    def _is_the_sinks_fault(self, error: BaseException) -> bool:
        """Whether a sink raised it: it may wait for something that somebody cancels, who does not mean the flush."""
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            return task is not None and not task.cancelling()
        return isinstance(error, Exception)

    def _log_reachability(self, delivery: Delivery) -> None:
        """Say it when the Agent goes and when it is back: not at each flush, and at most once in SILENT_SECONDS."""
        new = delivery.failures.keys() - self._reasons
        if clock.monotonic() < self._silent_until:
            return
        if new:
            self._reasons |= new
            self._silent_until = clock.monotonic() + SILENT_SECONDS
            reasons = ", ".join(f"{reason} ({count})" for reason, count in delivery.failures.items())
            logger.warning("%s does not take everything: %s. What was refused is kept.", self._sink, reasons)
        elif not delivery.failures and self._reasons:
            self._reasons.clear()
            logger.info("%s takes everything again.", self._sink)


def interval_warning(interval: float) -> str:
    """Return what is to be said of a flush interval in seconds; nothing if it divides the Agent's buckets."""
    if interval <= BUCKET_SECONDS and abs(BUCKET_SECONDS / interval - round(BUCKET_SECONDS / interval)) <= 1e-6:
        return ""
    return (
        f"flush_interval={interval:g} s does not divide the Agent's buckets of {BUCKET_SECONDS} s: gauges will show "
        "gaps, and counts spikes. Use 10, 5, 2, 1, 0.5, 0.2 or 0.1."
    )


def _checked(delivery: Delivery) -> Delivery:
    """Return what a sink of somebody else's said, or raise here, where that is the sink's fault."""
    failures = {reason: int(count) for reason, count in delivery.failures.items()}
    return Delivery(int(delivery.datagrams), int(delivery.bytes), failures)


async def _ends_within(seconds: float, work: Awaitable[None]) -> bool:
    """Run `work`, and cancel it when it takes too long; one that does not let itself be cancelled is left behind."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    finally:
        if task.cancel():
            await asyncio.wait([task], timeout=0.05)
    if done and not task.cancelled():
        task.result()
    return bool(done)


async def _drain(samples: Iterator[Sample]) -> None:
    """Read what a sink left of a flush, so that counts which nobody takes grow older."""
    for number, _ in enumerate(samples):
        if number % 100 == 99:
            await asyncio.sleep(0)


def seconds_to_next_tick(wall: float, interval: float, phase: float) -> float:
    """Return how long to sleep from the wall-clock time `wall`, so that ticks fall on ``k * interval + phase``.

    The result lies between half an interval and one and a half: a tick that came a little early is not followed by a
    second one at once, a wall clock that stands still or is set by an hour changes the phase and nothing else, and
    a stall is followed by one tick, not by all that it missed.
    """
    seconds = interval - (wall - phase) % interval
    return seconds if seconds > interval / 2 else seconds + interval
