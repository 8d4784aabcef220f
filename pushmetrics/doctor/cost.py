"""What limits cost in custom metrics, counted from what they really send."""

from __future__ import annotations

from ..catalog import DISTRIBUTION, HEALTH_METRICS, LEVELS
from ..registry import Registry
from ..semaphore import MeteredSemaphore

TIMESERIES_OF_A_DISTRIBUTION = 5
"""count, sum, min, max and avg (https://docs.datadoghq.com/account_management/billing/custom_metrics/)."""

HEALTH = len(HEALTH_METRICS)
"""What the reporter's own health costs in each process."""


def costs(registry: Registry) -> dict[str, int]:
    """Return what the limits of `registry` cost at each level, the reporter's health not included."""
    return {level: _cost(registry, level) for level in LEVELS}


def costs_of_a_limit() -> tuple[dict[str, int], dict[str, int]]:
    """Return the least and the most that one limit costs at each level."""
    plain, eventful = Registry(), Registry()
    limits = (
        MeteredSemaphore(component="c", limit_name="l", registry=plain),
        MeteredSemaphore(component="c", limit_name="l", registry=eventful, admission_timeout=1, max_queue_depth=1),
    )
    found = costs(plain), costs(eventful)
    del limits  # Kept until now: a registry does not keep a limit.
    return found


def _cost(registry: Registry, level: str) -> int:
    descriptors = [sample.descriptor for sample in registry.collect(level)]
    distributions = sum(descriptor.kinds.count(DISTRIBUTION) for descriptor in descriptors)
    return sum(len(each.names) for each in descriptors) + distributions * (TIMESERIES_OF_A_DISTRIBUTION - 1)
