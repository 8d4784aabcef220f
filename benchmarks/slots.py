"""What worker slots cost a process that reports many groups of limits, and what its event loop feels of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter, process_time
from unittest.mock import patch

from table import Row

from pushmetrics import MeteredSemaphore, Registry
from pushmetrics.workers import Workers

PROCESSES = 4

_OTHER = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from slots import taken
workers, *_ = asyncio.run(taken(int(sys.argv[2])))
print("taken", flush=True)
sys.stdin.read()
"""


def slots(quick: bool) -> list[Row]:
    """Measure the first process on a host, and the last of several."""
    limits = 200 if quick else 10_000
    idle = asyncio.run(lateness_of_an_idle_loop(0.1 if quick else 2))
    with tempfile.TemporaryDirectory() as directory, patch.dict(os.environ, XDG_RUNTIME_DIR=directory):
        with other_processes(PROCESSES - 1, limits):
            _, last, held_up = asyncio.run(taken(limits))
        _, first, _ = asyncio.run(taken(limits))
    what = f"taking worker slots for {limits:,} limits, each of a server of its own"
    return [
        Row(f"{what}, as the first process on the host, CPU", "", first * 1000, None, " ms"),
        Row(f"{what}, as the fourth, CPU", "", last * 1000, None, " ms"),
        Row("longest time that the event loop is late meanwhile, as the fourth", "", held_up * 1000, None, " ms"),
        Row("longest time that it is late with nothing to do, for 2 s", "", idle * 1000, None, " ms"),
    ]


async def taken(limits: int) -> tuple[Workers, float, float]:
    """Take the slots; return who holds them, the seconds of CPU time, and by how many the loop was late at most."""
    registry = Registry(max_series=limits)
    kept = [
        MeteredSemaphore(1, component="benchmark", limit_name="limit", server=f"server_{number}", registry=registry)
        for number in range(limits)
    ]
    workers = Workers("auto", "gym.concurrency", ())
    late = asyncio.create_task(lateness())
    await asyncio.sleep(0)
    began = process_time()
    while len(workers.tags) <= len(kept):  # The reporter's own health has one, too.
        await workers.look(registry)
    seconds = process_time() - began
    late.cancel()
    await asyncio.wait([late])
    return workers, seconds, late.result()


async def lateness_of_an_idle_loop(seconds: float) -> float:
    """Return what :func:`lateness` does on this machine by itself."""
    late = asyncio.create_task(lateness())
    await asyncio.sleep(seconds)
    late.cancel()
    await asyncio.wait([late])
    return late.result()


async def lateness() -> float:
    """Return, when cancelled, by how many seconds a timer of 1 ms was late at most."""
    worst = 0.0
    try:
        while True:
            began = perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, perf_counter() - began - 0.001)
    except asyncio.CancelledError:
        return worst


@contextmanager
def other_processes(number: int, limits: int) -> Iterator[None]:
    """Let so many processes take slots for the same limits, one after the other, and hold them."""
    program = [sys.executable, "-c", _OTHER, os.path.dirname(__file__), str(limits)]  # noqa: PTH120 - as an argument
    with ExitStack() as stack:
        for _ in range(number):
            process = stack.enter_context(
                subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        yield
