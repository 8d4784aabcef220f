"""The load: waves that fill the limits and let them drain."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pushmetrics.demo.driver import rollouts_wanted


@pytest.mark.parametrize(("duration", "waves"), [(1, 1), (3, 1), (14, 1), (20, 2), (61.5, 6)])
def test_the_load_rises_and_falls_and_ends_at_nothing(duration: float, waves: int) -> None:
    load = [rollouts_wanted(step * duration / 1000, duration, 32) for step in range(1000)]
    tops = sum(before < top >= after for before, top, after in zip(load, load[1:], load[2:], strict=False) if top == 32)

    assert load[0] == load[-1] == 0
    assert max(load) == 32
    assert tops == waves
    assert all(abs(after - before) <= 1 + waves // 3 for before, after in pairwise(load))


@pytest.mark.parametrize("seconds", [-1, 3, 3.001, 1e9])
def test_there_is_no_load_outside_the_run(seconds: float) -> None:
    assert rollouts_wanted(seconds, 3, 32) == 0
