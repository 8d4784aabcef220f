"""The verifier: checks each answer in a process of its own, few at a time."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from subprocess import DEVNULL

from pushmetrics import MeteredSemaphore, Registry

from .check_answer import RIGHT, WRONG

CHECK_SECONDS = (0.1, 0.35)
"""What a check takes, beside the start of its process."""

_PROGRAM = Path(__file__).with_name("check_answer.py")


class Verifier:
    """Verifies answers, `processes` at a time."""

    def __init__(self, processes: int, registry: Registry) -> None:
        self.limit = MeteredSemaphore(
            processes,
            component="resources_server",
            limit_name="library_verifier",
            server="math_with_judge",
            registry=registry,
        )

    async def verify(self, question: str, answer: str) -> bool:
        """Return whether `answer` is right; raises OSError when no process could be started."""
        async with self.limit:
            status = await _run_check(question, answer, random.uniform(*CHECK_SECONDS))
        if status not in (RIGHT, WRONG):
            raise ChildProcessError(f"{_PROGRAM} ended with status {status}")
        return status == RIGHT


async def _run_check(question: str, answer: str, seconds: float) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",  # Isolated and without site-packages: it starts in a tenth of the time.
        "-S",
        str(_PROGRAM),
        question,
        answer,
        str(seconds),
        stdin=DEVNULL,
        stdout=DEVNULL,
        start_new_session=True,  # Ctrl-C is for the demo, which ends its processes itself.
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:  # The client gave up.
            process.kill()
            await process.wait()
