"""What the tests of real nemo-gym servers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.capture import Capture
from fleet.stand_in import StandIn


@pytest.fixture(scope="session")
def stand_in() -> Iterator[str]:
    """The URL of a model that answers after a second."""
    with StandIn() as server:
        yield server.url


@pytest.fixture(scope="module")
def capture() -> Iterator[Capture]:
    """What a module's servers push."""
    with Capture() as capture:
        yield capture
