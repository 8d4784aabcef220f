"""The verifier: a limited number of processes, none of which is left behind."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from pushmetrics import Registry
from pushmetrics.demo import verifier
from pushmetrics.demo.verifier import Verifier


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """Every process that is started from now on."""
    started: list[Process] = []
    start = asyncio.create_subprocess_exec

    async def start_and_note(*arguments: str, **options: object) -> Process:
        process = await start(*arguments, **options)  # type: ignore[arg-type]  # Passed on as they came.
        started.append(process)
        return process

    monkeypatch.setattr(verifier.asyncio, "create_subprocess_exec", start_and_note)
    return started


async def test_it_verifies_in_no_more_processes_than_it_may(
    processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "CHECK_SECONDS", (0, 0))
    judge = Verifier(2, Registry())
    alive = []

    async def verify(answer: str) -> bool:
        verdict = await judge.verify("6 * 7", answer)
        alive.append(sum(process.returncode is None for process in processes))
        return verdict

    verdicts = await asyncio.gather(*(verify(answer) for answer in ("42", "43", "42", "41", "42")))

    assert verdicts == [True, False, True, False, True]
    assert len(processes) == 5
    assert max(alive) <= 2
    assert judge.limit.statistics().admissions_queued == 3
    assert judge.limit.active == 0


async def test_the_process_of_a_client_that_gives_up_is_gone(
    processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "CHECK_SECONDS", (60, 60))
    judge = Verifier(1, Registry())
    task = asyncio.create_task(judge.verify("6 * 7", "42"))
    while not processes:  # noqa: ASYNC110 - the list knows no event
        await asyncio.sleep(0.01)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert processes[0].returncode is not None
    assert judge.limit.active == 0


async def test_a_process_that_fails_is_not_taken_for_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "broken.py"
    program.write_text("raise SystemExit(3)", encoding="utf-8")
    monkeypatch.setattr(verifier, "_PROGRAM", program)

    with pytest.raises(ChildProcessError, match="ended with status 3"):
        await Verifier(1, Registry()).verify("6 * 7", "42")


async def test_a_process_that_can_not_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    with pytest.raises(OSError, match="/no/such/python"):
        await Verifier(1, Registry()).verify("6 * 7", "42")
