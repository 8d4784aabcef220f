"""The program that checks one answer."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from pushmetrics.demo import check_answer


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", check_answer.__file__, *arguments]


@pytest.mark.parametrize(("answer", "status"), [("42", check_answer.RIGHT), ("52", check_answer.WRONG)])
def test_it_tells_right_from_wrong(answer: str, status: int) -> None:
    assert subprocess.run(program("6 * 7", answer, "0"), check=False, timeout=30).returncode == status


def test_an_error_is_neither_right_nor_wrong() -> None:
    finished = subprocess.run(program("6 x 7", "42", "0"), check=False, timeout=30, stderr=subprocess.DEVNULL)

    assert finished.returncode not in {check_answer.RIGHT, check_answer.WRONG}


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals on Windows")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_for_the_demo_does_not_end_it(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(check_answer.time, "sleep", lambda seconds: signal.raise_signal(number))
    try:
        assert check_answer.main("6 * 7", "42", "0") == check_answer.RIGHT
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
