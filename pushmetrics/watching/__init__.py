"""Watching: what reports a limiter that somebody else made, as it is.

There is one small module for each family of limiters. None imports the library that it is for: a type is known by the
names of its classes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ..errors import InvalidTypeError
from ..redaction import redacted, shown
from ..registry import Registry, checked_registry, default_registry
from ..semaphore import MeteredSemaphore
from ..tags import limit_tags

Watched = TypeVar("Watched")


def watch(
    obj: Watched,
    *,
    component: str,
    limit_name: str,
    server: str | None = None,
    tags: Mapping[str, str] | Iterable[str] | None = None,
    registry: Registry = default_registry,
) -> Watched:
    """Report a limiter that somebody else made, and return it; it is neither replaced nor changed.

    >>> limit = watch(asyncio.BoundedSemaphore(10), component="model_server", limit_name="upstream_requests")

    It is read at each flush, so what it can not know has no metric: no such limiter counts its admissions, and an
    ``asyncio.Semaphore`` has forgotten how many slots it began with. It is not kept alive by being watched, and its
    series ends with it; an ``asyncpg.Pool``, which can not be referenced weakly, is to be given to
    ``registry.unregister(pool)``. To watch it again with the same tags does nothing, with others reports it under both.

    Args:
        obj: A limiter of asyncio, anyio, aiohttp, httpx, httpcore, concurrent.futures, SQLAlchemy, psycopg_pool or
            asyncpg; docs/watching.md has the classes, and the metrics of each.
        component: As for :class:`pushmetrics.MeteredSemaphore`, as are `limit_name`, `server` and `tags`.
        limit_name: What is limited.
        server: Name of the instance, where a program has several such limits.
        tags: Up to five more tags.
        registry: Where it is reported from.

    Raises :class:`pushmetrics.PushmetricsError` (a ValueError or TypeError) for an argument outside its range, for
    an object that is not of a known class, and for one of a version that can not be read.
    """
    from .families import CLASSES, reader_of  # Not before they are needed: `import pushmetrics` stays light.

    registry = checked_registry(registry)
    series_tags = limit_tags(component, limit_name, server, tags)
    read = reader_of(obj)
    if read is None:
        raise InvalidTypeError(
            f"watch: expected one of {', '.join(CLASSES)}, got {shown(obj)}. An object of your own that has tags, "
            "counters and gauges() can be given to registry.register()"
        )
    if isinstance(obj, MeteredSemaphore):
        raise InvalidTypeError(f"watch: {shown(obj)} reports itself; give it to registry.register()")
    try:
        registry.register_watched(obj, series_tags, read)
    except InvalidTypeError as error:
        raise InvalidTypeError(f"watch: {shown(obj)} can not be watched: {error}") from None
    except (Exception, asyncio.CancelledError) as error:
        why = f"{type(error).__name__}: {redacted(str(error))}"
        raise InvalidTypeError(
            f"watch: {shown(obj)} can not be read ({why}); it may be of a version that is not supported. Put a "
            "MeteredSemaphore in front of it, or give an object of your own that has tags, counters and gauges() to "
            "registry.register()"
        ) from error
    return obj
