"""The order of rows: what holds things up comes first, and nothing jumps about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

K = TypeVar("K")

MARGIN = 0.25
"""By how much of itself a pressure must change before it counts."""

LEAST = 0.1
"""By how much it must change at the least."""

HOLD_SECONDS = 3.0
"""How long rows stay where they are at the least."""


class Order(Generic[K]):
    """Keeps rows in the order of their pressures, the highest first, as far as the eye can follow.

    A row moves when its pressure has clearly changed since it last moved, and no more often than every 3 s. A new row
    comes in at its place at once; those that have gone leave the others as they are.
    """

    def __init__(self) -> None:
        self._places: dict[K, float] = {}  # In their order, each with the pressure for which it has its place.
        self._sorted_at = float("-inf")

    def sort(self, pressures: Mapping[K, float], now: float) -> list[K]:
        """Return the rows in order; `now` is the time in seconds."""
        before = self._places
        places = {key: place for key, place in before.items() if key in pressures}
        new = [key for key in pressures if key not in places]
        moving = now - self._sorted_at >= HOLD_SECONDS or now < self._sorted_at
        if moving:
            self._sorted_at = now
            for key, place in places.items():
                if _differ(place, pressures[key]):
                    places[key] = pressures[key]
        for key in new:
            places[key] = pressures[key]
        if moving or new:
            # Sorting is stable: rows with equal pressures stay as they are.
            places = dict(sorted(places.items(), key=lambda item: -item[1]))
        self._places = places
        return list(places)


def _differ(place: float, pressure: float) -> bool:
    return abs(pressure - place) > max(LEAST, MARGIN * abs(place))
