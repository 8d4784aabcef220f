"""Peaks that are delivered late, or not at all."""

from __future__ import annotations

from pushmetrics.peaks import Peaks


def deliver(peaks: Peaks) -> None:
    peaks.active_owed = peaks.queue_owed = 0


def test_a_later_sample_of_a_bucket_repeats_its_peak() -> None:
    """The Agent keeps the last gauge of a bucket."""
    peaks = Peaks()
    assert peaks.add(1, 5, 7) == (5, 7)
    deliver(peaks)
    assert peaks.add(1, 2, 9) == (5, 9)
    deliver(peaks)
    assert peaks.add(2, 2, 1) == (2, 1)


def test_what_was_refused_is_shown_in_the_next_bucket_and_then_forgotten() -> None:
    peaks = Peaks()
    peaks.add(1, 5, 7)
    assert peaks.add(2, 1, 0) == (5, 7)
    assert peaks.add(3, 1, 0) == (1, 0)


def test_of_the_bucket_before_the_highest_that_was_refused_is_owed() -> None:
    peaks = Peaks()
    peaks.add(1, 5, 0)
    deliver(peaks)
    peaks.add(1, 3, 0)
    peaks.add(1, 4, 0)
    assert peaks.add(2, 1, 0) == (4, 0)


def test_a_bucket_that_was_left_out_has_made_it_too_late() -> None:
    peaks = Peaks()
    peaks.add(1, 5, 7)
    assert peaks.add(3, 1, 1) == (1, 1)
