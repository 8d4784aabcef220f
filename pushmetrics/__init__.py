"""The state of an asyncio program's concurrency limits, pushed to Datadog.

>>> import asyncio
>>> from pushmetrics import MeteredSemaphore, Reporter
>>> limit = MeteredSemaphore(100, component="model_server", limit_name="upstream_requests")
>>> async def main():
...     async with Reporter():
...         async with limit:
...             ...  # call the model
"""

from __future__ import annotations

from .errors import AdmissionTimeoutError, PushmetricsError, QueueFullError
from .model import LimitStatistics
from .registry import Registry, default_registry
from .reporter import FlushResult, Reporter
from .semaphore import MeteredSemaphore
from .sinks import ConsoleSink, DogStatsDSink, MemorySink
from .watching import watch

__all__ = [
    "AdmissionTimeoutError",
    "ConsoleSink",
    "DogStatsDSink",
    "FlushResult",
    "LimitStatistics",
    "MemorySink",
    "MeteredSemaphore",
    "PushmetricsError",
    "QueueFullError",
    "Registry",
    "Reporter",
    "default_registry",
    "watch",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version  # Costs as much as the rest of the import.

        return version("pushmetrics")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
