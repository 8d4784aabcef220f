"""What is kept of what was seen."""

from __future__ import annotations

from pushmetrics.catalog import HEALTH_METRICS, LIMIT_METRICS
from pushmetrics.demo.readings import Readings

TAGS = ("component:model_server", "limit_name:upstream_requests", "server:policy_model")


def test_a_gauge_is_what_it_was_last_and_a_count_is_a_sum() -> None:
    readings = Readings()
    for active, admissions in ((4, 10), (2, 7), (3, 0)):
        readings.take("gym.concurrency.active", "g", active, TAGS)
        readings.take("gym.concurrency.admissions_total", "c", admissions, TAGS)

    (reading,) = readings.limits

    assert reading.value("active") == 3
    assert reading.value("admissions_total") == 17


def test_what_was_not_seen_has_no_value() -> None:
    readings = Readings()
    readings.take("gym.concurrency.active", "g", 0, TAGS)

    (reading,) = readings.limits

    assert reading.value("active") == 0
    assert reading.value("admission_timeouts_total") is None
    assert readings.of(TAGS[:2]) is None


def test_a_limit_is_known_by_its_own_tags_alone() -> None:
    readings = Readings()
    readings.take("gym.concurrency.active", "g", 1, (*TAGS, "env:prod", "team:search"))
    readings.take("gym.concurrency.active", "g", 2, TAGS)
    readings.take("gym.concurrency.active", "g", 3, TAGS[:2])

    assert [(reading.tag("server"), reading.value("active")) for reading in readings.limits] == [
        ("policy_model", 2),
        ("", 3),
    ]


def test_the_reporters_health_ends_a_flush_and_is_no_limit() -> None:
    readings = Readings()
    readings.take("gym.concurrency.active", "g", 1, TAGS)
    assert not readings.flushed.is_set()

    readings.take("pushmetrics.series", "g", 1, ())

    assert readings.flushed.is_set()
    assert len(readings.limits) == 1


def test_a_namespace_may_be_that_of_the_health() -> None:
    names = {metric.name for metrics in LIMIT_METRICS.values() for metric in metrics}
    readings = Readings()
    readings.take("pushmetrics.active", "g", 1, TAGS)

    assert [reading.value("active") for reading in readings.limits] == [1]
    assert names.isdisjoint(metric.name for metric in HEALTH_METRICS)
