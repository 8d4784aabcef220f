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

from typing import TYPE_CHECKING, Any

from .errors import AdmissionTimeoutError, PushmetricsError, QueueFullError
from .model import LimitStatistics
from .registry import Registry, default_registry
from .reporter import FlushResult, Reporter
from .semaphore import MeteredSemaphore

if TYPE_CHECKING:
    from .sinks import ConsoleSink, DogStatsDSink, MemorySink
    from .watching import watch

    __version__: str

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


_FIRST_USED = {"ConsoleSink": "sinks", "DogStatsDSink": "sinks", "MemorySink": "sinks", "watch": "watching"}
"""What is imported when it is used, since a module that only makes semaphores does without: from where."""


def __getattr__(name: str) -> Any:
    if name in _FIRST_USED:
        from importlib import import_module

        return getattr(import_module(f".{_FIRST_USED[name]}", __name__), name)
    if name == "__version__":
        from importlib.metadata import version  # Costs as much as the rest of the import.

        return version("pushmetrics")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
