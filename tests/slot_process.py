"""Another process of this user that takes worker slots when it is told to."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

PROGRAM = """
import sys
from pushmetrics.slots import slot_files
holder = slot_files  # Anything that lives.
for line in sys.stdin:
    print(slot_files.take(bytes.fromhex(line), holder).number, flush=True)
"""


class Process:
    """Takes slots and holds them until it is killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def take(self, group: bytes) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{group.hex()}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


NewProcess = Callable[[], Process]


@pytest.fixture
def new_process() -> Iterator[NewProcess]:
    processes = []

    def new() -> Process:
        processes.append(Process())
        return processes[-1]

    yield new
    for process in processes:
        process.kill()
