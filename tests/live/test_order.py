"""Rows are sorted by what holds things up, and do not jump about."""

from __future__ import annotations

import random

from pushmetrics.live.order import HOLD_SECONDS, Order


def test_the_highest_pressure_comes_first() -> None:
    order: Order[str] = Order()

    assert order.sort({"a": 0.2, "b": 3.0, "c": 1.0, "d": -1.0}, 0) == ["b", "c", "a", "d"]


def test_equal_rows_keep_the_order_in_which_they_came() -> None:
    order: Order[str] = Order()

    assert order.sort({"z": 1.0, "a": 1.0, "m": 1.0}, 0) == ["z", "a", "m"]
    assert order.sort({"a": 1.0, "m": 1.0, "z": 1.0}, 100) == ["z", "a", "m"]


def test_small_changes_move_nothing() -> None:
    order: Order[str] = Order()
    order.sort({"a": 1.0, "b": 0.9, "c": 0.05, "d": 0.0}, 0)
    rows = random.Random(1)

    for now in range(1, 200):
        jitter = {
            key: rows.uniform(0.85, 1.15) * value for key, value in {"a": 1.0, "b": 0.9, "c": 0.05, "d": 0.0}.items()
        }
        assert order.sort(jitter, now) == ["a", "b", "c", "d"]


def test_a_clear_change_moves_a_row_but_not_at_once() -> None:
    order: Order[str] = Order()
    order.sort({"a": 1.0, "b": 0.5}, 0)

    assert order.sort({"a": 1.0, "b": 2.0}, HOLD_SECONDS - 0.1) == ["a", "b"]
    assert order.sort({"a": 1.0, "b": 2.0}, HOLD_SECONDS) == ["b", "a"]
    assert order.sort({"a": 3.0, "b": 2.0}, HOLD_SECONDS + 0.1) == ["b", "a"]


def test_a_new_row_comes_in_at_its_place_and_one_that_goes_moves_nobody() -> None:
    order: Order[str] = Order()
    order.sort({"a": 1.0, "b": 0.5}, 0)

    assert order.sort({"a": 1.0, "b": 0.5, "c": 0.7}, 0.1) == ["a", "c", "b"]
    assert order.sort({"b": 0.5, "c": 0.7}, 0.2) == ["c", "b"]
    assert order.sort({}, 0.3) == []


def test_a_wall_clock_that_is_set_back_does_not_freeze_the_order() -> None:
    order: Order[str] = Order()
    order.sort({"a": 1.0, "b": 0.5}, 1000)

    assert order.sort({"a": 1.0, "b": 2.0}, 500) == ["b", "a"]
