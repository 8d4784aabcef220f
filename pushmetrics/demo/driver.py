"""The rollout driver: runs rollouts in waves, a limited number at a time."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from contextlib import suppress

import aiohttp

from pushmetrics import MeteredSemaphore, Registry

from .verifier import Verifier

WAVE_SECONDS = 10.0
"""About how long the load takes to rise and fall."""

OVERLOAD = 2
"""How many rollouts want to run at the top of a wave, for each that may."""

STEP_SECONDS = 0.05
"""How often the driver looks whether the load has changed."""

BACK_OFF_SECONDS = 0.25
"""How long a rollout waits after the model server refused it."""

DRAIN_SECONDS = 2.0
"""How long the rollouts that still run at the end may go on."""

IMPATIENT = 0.08
"""How often the client of a rollout gives up when it takes too long."""

PATIENCE_SECONDS = (0.2, 1.2)


def rollouts_wanted(seconds: float, duration: float, top: int) -> int:
    """Return how many rollouts want to run: waves from 0 to `top`, the last of which ends at `duration`."""
    if not 0 <= seconds < duration:
        return 0
    waves = max(1, round(duration / WAVE_SECONDS))
    return round(top * math.sin(math.pi * waves * seconds / duration) ** 2)


class RolloutDriver:
    """Runs rollouts, `concurrency` at a time: each asks the model server and has its answer verified."""

    def __init__(self, concurrency: int, registry: Registry) -> None:
        self.limit = MeteredSemaphore(
            concurrency,
            component="rollout_driver",
            limit_name="rollouts",
            registry=registry,
        )
        self.outcomes: Counter[str] = Counter()
        """How the rollouts ended."""
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, model_url: str, verifier: Verifier, duration: float, stop: asyncio.Event) -> None:
        """Keep the service under load for `duration` seconds; `stop` ends it, and all that still runs, at once."""
        now = asyncio.get_running_loop().time
        began = now()
        top = OVERLOAD * self.limit.limit
        # aiohttp has a limit of its own, 100 connections, which would queue where nobody sees it.
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
            asyncio.TaskGroup() as rollouts,
        ):
            while (seconds := now() - began) < duration and not stop.is_set():
                while len(self._running) < rollouts_wanted(seconds, duration, top):
                    task = rollouts.create_task(self._rollout(session, model_url, verifier))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
                await _pause(stop, STEP_SECONDS)
            while self._running and now() - began < duration + DRAIN_SECONDS and not stop.is_set():
                await _pause(stop, STEP_SECONDS)
            for task in self._running:
                task.cancel()

    async def _rollout(self, session: aiohttp.ClientSession, model_url: str, verifier: Verifier) -> None:
        patience = random.uniform(*PATIENCE_SECONDS) if random.random() < IMPATIENT else None
        outcome = "cut off"
        try:
            async with asyncio.timeout(patience), self.limit:
                outcome = await _ask_and_verify(session, model_url, verifier)
        except TimeoutError:
            outcome = "given up"
        finally:
            self.outcomes[outcome] += 1


async def _ask_and_verify(session: aiohttp.ClientSession, model_url: str, verifier: Verifier) -> str:
    question = f"{random.randint(2, 99)} * {random.randint(2, 99)}"
    async with session.post(model_url, json={"input": question}) as response:
        answer = None if response.status == 503 else (await response.json())["output"]
    if answer is None:
        await asyncio.sleep(BACK_OFF_SECONDS)
        return "refused"
    return "right" if await verifier.verify(question, answer) else "wrong"


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
