"""CPython's own semaphore tests, run on the stock classes and on ours: each test has the same outcome.

The tests are those of the interpreter that runs them, so a new version of Python brings its new tests along.
"""

from __future__ import annotations

import asyncio
import gc
import unittest
import warnings
from typing import Any
from unittest import mock

import pytest
from conftest import missing

from pushmetrics import MeteredSemaphore

SPARE = 8
"""More slots than any of the tests gives back without having taken them."""


class BoundedSemaphore(MeteredSemaphore):
    """Ours, with the arguments of the stock class."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(value, component="cpython", limit_name="semaphore_tests", registry=None)


class UnboundedSemaphore(BoundedSemaphore):
    """Ours, with holders who never leave: as many slots can be given back by others without being refused."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(value if value < 0 else value + SPARE)
        for _ in range(SPARE):
            with pytest.raises(StopIteration):
                self.acquire().send(None)


# Some tests ask for the name of the class, which is Semaphore in most of them.
STOCK_BOUNDED = type("Semaphore", (asyncio.BoundedSemaphore,), {})
OUR_BOUNDED = type("Semaphore", (BoundedSemaphore,), {})
OUR_UNBOUNDED = type("Semaphore", (UnboundedSemaphore,), {})

PRIVATE = "puts mocks into the private field _waiters, which has no append() here"

BOUNDED = {
    "test_repr": PRIVATE,
    "test_acquire_fifo_order_2": "limit 1: releases twice, and nobody holds a slot at the second; ours refuses that",
}
"""Tests with another outcome where both classes are bounded, and why."""

# The stock class makes whoever asks wait while a task that was granted a slot has yet to run. Here a granted slot is
# its owner's at once, so whatever is free beside it is free.
NO_DETOUR = "takes a free slot at once, although a task with a slot of its own has yet to run"

UNBOUNDED = {
    "test_repr": PRIVATE,
    "test_acquire_fifo_order_2": NO_DETOUR,
    "test_acquire_fifo_order_4": NO_DETOUR,  # Not in the older ones of the releases of 3.11 and 3.12.
}
"""Tests with another outcome where nothing is released too often, and why."""


class Outcomes(unittest.TestResult):
    """What became of each test, by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}

    def _note(self, test: unittest.TestCase, outcome: str) -> None:
        self.outcomes[test.id().rpartition(".")[2]] = outcome

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        self._note(test, "pass")

    def addFailure(self, test: unittest.TestCase, _err: Any) -> None:  # noqa: N802 - unittest's name
        self._note(test, "fail")

    def addError(self, test: unittest.TestCase, _err: Any) -> None:  # noqa: N802 - unittest's name
        self._note(test, "error")

    def addSkip(self, test: unittest.TestCase, _reason: str) -> None:  # noqa: N802 - unittest's name
        self._note(test, "skip")


@pytest.fixture(scope="module")
def cases() -> type[unittest.TestCase]:
    try:
        from test.test_asyncio.test_locks import SemaphoreTests
    except (ImportError, unittest.SkipTest) as error:
        missing(f"CPython's own tests, in the package libpython3-testsuite on Debian ({error})")
    return SemaphoreTests


def outcomes(cases: type[unittest.TestCase], semaphore: type, bounded: type) -> dict[str, str]:
    """Run the tests with these two in place of the classes of asyncio."""
    result = Outcomes()
    with (
        mock.patch.object(asyncio, "Semaphore", semaphore),
        mock.patch.object(asyncio, "BoundedSemaphore", bounded),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # CPython's own tests may use what CPython deprecates.
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(cases):
            test.run(result)
        gc.collect()  # A test that fails leaves tasks behind, which complain when they go: let it be now.
    return result.outcomes


def differing(stock: dict[str, str], ours: dict[str, str]) -> dict[str, str]:
    assert stock.keys() == ours.keys()
    return {name: f"{stock[name]} -> {ours[name]}" for name in stock if stock[name] != ours[name]}


def test_like_the_stock_bounded_semaphore(cases: type[unittest.TestCase]) -> None:
    stock = outcomes(cases, STOCK_BOUNDED, STOCK_BOUNDED)
    ours = outcomes(cases, OUR_BOUNDED, OUR_BOUNDED)

    # Equal, since an exception that is not needed any more has to go.
    assert differing(stock, ours).keys() == BOUNDED.keys(), differing(stock, ours)
    assert "pass" in stock.values()


def test_like_the_stock_semaphore_where_nothing_is_released_too_often(cases: type[unittest.TestCase]) -> None:
    """Half of the tests release what nobody holds, and end there with anything bounded. Here somebody holds it."""
    stock = outcomes(cases, asyncio.Semaphore, asyncio.BoundedSemaphore)
    ours = outcomes(cases, OUR_UNBOUNDED, OUR_BOUNDED)

    assert differing(stock, ours).keys() == UNBOUNDED.keys() & stock.keys(), differing(stock, ours)
    assert set(stock.values()) == {"pass"}
