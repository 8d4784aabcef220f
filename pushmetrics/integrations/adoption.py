"""Makes a MeteredSemaphore of an asyncio semaphore that somebody else has made, and that others may hold."""

from __future__ import annotations

import asyncio
from typing import Any

from ..errors import OverReleaseError
from ..semaphore import MeteredSemaphore


class AdoptedSemaphore(MeteredSemaphore):
    """Was an asyncio semaphore; one without a bound still has none: a release too many adds a slot."""

    _bounded: bool

    def release(self) -> None:
        """Give a slot back, or add one, as ``asyncio.Semaphore`` does. A bounded one raises."""
        try:
            super().release()
        except OverReleaseError:
            if self._bounded:
                raise
            self.set_limit(self.limit + 1)


def adopt(semaphore: object, **settings: Any) -> AdoptedSemaphore | None:
    """Turn `semaphore` into a metered one with these settings, in place, and return it; it is not registered.

    In place, since the object may be known under other names, too: one of its own beside it would be a second limit.
    One that was adopted before is returned as it is. Returns None, and changes nothing, for anything that is not
    exactly an asyncio semaphore, that has no slot (it signals something then, it limits nothing), or that has waiters.

    Raises :class:`pushmetrics.PushmetricsError` for a bad setting, and changes nothing then.
    """
    if isinstance(semaphore, AdoptedSemaphore):
        return semaphore
    if type(semaphore) not in (asyncio.Semaphore, asyncio.BoundedSemaphore):
        return None
    state = vars(semaphore)
    free = state["_value"]
    limit = state.get("_bound_value", free)  # An unbounded one forgets: what is in use now is added at its release.
    if limit < 1 or state["_waiters"]:
        return None
    metered = AdoptedSemaphore(limit, registry=None, **settings)
    metered._bounded = "_bound_value" in state
    metered._value = metered.counters.lowest_value = free
    semaphore.__class__ = AdoptedSemaphore
    state.update(vars(metered))
    assert isinstance(semaphore, AdoptedSemaphore), "what was just made one"
    return semaphore
