"""A receiver that is fed by hand, on a clock that stands still, and the board that looks at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pushmetrics.live.board import Board
from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    with ManualClock() as clock:
        yield clock


@pytest.fixture
def receiver(clock: ManualClock) -> Receiver:
    return Receiver(bucket_seconds=1)


@pytest.fixture
def board(receiver: Receiver) -> Board:
    return Board(receiver)
