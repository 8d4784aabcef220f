"""What a registry reports, collected without a reporter."""

from __future__ import annotations

import asyncio
from typing import Any

from pushmetrics import Registry, watch
from pushmetrics.model import Sample


def collect(registry: Registry, level: str = "standard", *, deliver: bool = True) -> dict[tuple[str, ...], Sample]:
    samples = {}
    for sample in registry.collect(level):
        assert sample.descriptor.tags not in samples, "one series, one sample"
        samples[sample.descriptor.tags] = sample
        if deliver:
            sample.delivered()
    return samples


def only(registry: Registry, level: str = "standard", *, deliver: bool = True) -> dict[str, int]:
    (sample,) = collect(registry, level, deliver=deliver).values()
    return dict(zip(sample.descriptor.names, sample.values, strict=False))


def watching(limiter: object, **options: Any) -> Registry:
    """Return a registry that reports a limiter of another library, and nothing else."""
    registry = Registry()
    watch(limiter, **{"component": "api", "limit_name": "calls", "registry": registry} | options)
    return registry


async def passes() -> None:
    """Let the tasks run until they wait for each other."""
    for _ in range(10):
        await asyncio.sleep(0)
