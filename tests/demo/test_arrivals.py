"""When a flush is complete."""

from __future__ import annotations

from pushmetrics.catalog import HEALTH_METRICS
from pushmetrics.demo.arrivals import Arrivals


def test_a_flush_is_complete_with_the_last_line_of_its_health() -> None:
    arrivals = Arrivals()
    lines = [f"pushmetrics.{metric.name}:0|{metric.kind}".encode() for metric in HEALTH_METRICS]

    arrivals.feed(b"\n".join(lines[:-1]))
    assert not arrivals.flushed.is_set(), "the rest is in another datagram"
    arrivals.feed(lines[-1])
    assert arrivals.flushed.is_set()
