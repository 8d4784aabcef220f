"""Peaks that are delivered late, or not at all."""

from __future__ import annotations

from pushmetrics.peaks import Peaks


def test_a_later_sample_of_a_bucket_repeats_its_peak() -> None:
    """The Agent keeps the last gauge of a bucket."""
    peaks = Peaks()
    assert peaks.add(1, 5, 7, delivered=True) == (5, 7)
    assert peaks.add(1, 2, 9, delivered=True) == (5, 9)
    assert peaks.add(2, 2, 1, delivered=True) == (2, 1)


def test_what_was_refused_is_shown_in_the_next_bucket_and_then_forgotten() -> None:
    peaks = Peaks()
    peaks.add(1, 5, 7, delivered=True)
    assert peaks.add(2, 1, 0, delivered=False) == (5, 7)
    assert peaks.add(3, 1, 0, delivered=False) == (1, 0)


def test_of_the_bucket_before_the_highest_that_was_refused_is_owed() -> None:
    peaks = Peaks()
    peaks.add(1, 5, 0, delivered=True)
    peaks.add(1, 3, 0, delivered=True)
    peaks.add(1, 4, 0, delivered=False)
    assert peaks.add(2, 1, 0, delivered=False) == (4, 0)


def test_a_bucket_that_was_left_out_has_made_it_too_late() -> None:
    peaks = Peaks()
    peaks.add(1, 5, 7, delivered=True)
    assert peaks.add(3, 1, 1, delivered=False) == (1, 1)
