"""What is reported of an object that is no limit itself: read from outside, and held weakly where that can be."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

from .catalog import metrics_at
from .errors import SampleError
from .model import Counters, Tags, WatchedState
from .reading import Member

_ALWAYS_UNKNOWN = frozenset(metric.name for metric in metrics_at("full")) - frozenset(WatchedState._fields)
"""Who looks at times sees no peaks, and counts nothing."""


class _Kept:
    """Stands for an object that can not be referenced weakly, and keeps it."""

    __slots__ = ("__weakref__", "watched")

    def __init__(self, watched: object) -> None:
        self.watched = watched


class WatchedMember(Member):
    """An object that somebody else made, and how to read it. What it knows may change from one reading to the next."""

    __slots__ = ("_kept", "_read", "_state")

    _kept: _Kept | None
    _read: Callable[[Any], WatchedState]
    _state: WatchedState | BaseException
    """What it said of itself when it was last asked, or what it raised."""

    @classmethod
    def watching(
        cls,
        watched: object,
        tags: Tags,
        read: Callable[[Any], WatchedState],
        when_gone: Callable[[Any], None],
    ) -> WatchedMember:
        """Return what reports `watched` with these tags, once it could be read; raises what `read` raises."""
        kept = None
        try:
            member = cls(watched, when_gone)  # type: ignore[arg-type]  # It is no limit.
        except TypeError:
            kept = _Kept(watched)
            member = cls(kept, when_gone)  # type: ignore[arg-type]  # It is no limit.
        member._kept = kept
        member._read = read
        member.key = id(watched)
        member.tags = tags
        member.counters = Counters(0)
        member.look()
        if isinstance(member._state, BaseException):
            raise member._state
        member.gauges()
        return member

    def look(self) -> None:
        """Ask the object, whose code is not ours: it may wait for a lock whose owner waits for the registry's."""
        watched: object = self()
        if watched is None:
            return
        try:
            self._state = self._read(self._kept.watched if self._kept is not None else watched)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - raised where the gauges are asked for
            # Its traceback would keep the object alive, by the variables of those who were asked.
            traceback.clear_frames(error.__traceback__)
            self._state = error
        finally:
            del watched

    def gauges(self) -> tuple[int, int, int, int]:
        """Return the gauges, 0 in place of an unknown one, and take over the limit and what is unknown."""
        counters = self.counters
        if self() is None:  # All slots are free now; how many that is, is known if the limit is.
            if "limit" in self.unknown:
                self.unknown |= {"available"}
            return 0, counters.limit, 0, 0
        state = self._state
        if isinstance(state, BaseException):
            raise SampleError("it could not be asked") from state
        known = {name: value for name, value in zip(state._fields, state, strict=True) if value is not None}
        if any(isinstance(value, bool) or not isinstance(value, int) or value < 0 for value in known.values()):
            raise SampleError(f"what a limiter says of itself is integers of at least 0, got {state}")
        self.unknown = _ALWAYS_UNKNOWN.union(set(state._fields) - set(known))
        limit, active, available, queue_depth = (value or 0 for value in state)
        self.slots = counters.limit = limit
        counters.lowest_value = limit - active  # Of a peak no more is known than this.
        return active, available, queue_depth, 0
