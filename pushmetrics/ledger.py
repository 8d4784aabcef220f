"""The ledger of a series: of each count what has been delivered, what is owed, and for how long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from operator import sub

MAX_AGE_SECONDS = 300.0
"""How long a count waits for the Agent. An hour's time-outs in one bucket would page somebody for nothing."""

MARK_SECONDS = 10.0
"""How finely ages are told apart, so that a long absence of the Agent costs a bounded amount of memory."""


class Ledger:
    """Totals come in, what is owed comes out, and only a delivery settles it.

    The places of a ledger are those of the totals that it is given.
    """

    __slots__ = ("_delivered", "_marks", "_offered", "_offered_at", "expired", "settled")

    def __init__(self, places: int) -> None:
        self._delivered = [0] * places
        # What was last offered and not taken as a whole, and when that was.
        self._offered: list[int] | None = None
        self._offered_at = 0.0
        self.settled = True
        """Set when all that was last owed was delivered; what follows from that is done when it is next asked."""
        # Of what is owed, the totals that had been reached by some time, oldest first.
        self._marks: deque[tuple[float, list[int]]] = deque()
        self.expired = [0] * places
        """Of each count, what was dropped because nobody took it for too long."""

    def owed(self, totals: list[int], now: float) -> tuple[int, ...]:
        """Return the totals less what was delivered, after dropping what is older than MAX_AGE_SECONDS."""
        if self._offered is not None:
            if self.settled:
                self._catch_up(self._offered)
            else:
                self._grow_older(self._offered, now)
        self.settled = False
        self._offered = totals
        self._offered_at = now
        return tuple(map(sub, totals, self._delivered))

    def settle(self, counts: Iterable[tuple[int, int]]) -> None:
        """Take some of the counts as delivered, each a place and how many."""
        for place, count in counts:
            self._delivered[place] += count

    def shift(self, place: int, count: int) -> None:
        """Let the total of a place be `count` higher, or lower, from now on without that being owed."""
        self._delivered[place] += count
        if self._offered is not None:
            self._offered[place] += count
        for _, totals in self._marks:
            totals[place] += count

    def write_off(self, totals: Sequence[int]) -> None:
        """Drop what is owed up to these totals."""
        if self.settled and self._offered is not None:
            self._catch_up(self._offered)
        for place, total in enumerate(totals):
            if total > self._delivered[place]:
                self.expired[place] += total - self._delivered[place]
                self._delivered[place] = total

    def _catch_up(self, offered: list[int]) -> None:
        self._delivered = offered
        self._offered = None
        if self._marks:
            self._marks.clear()

    def _grow_older(self, offered: list[int], now: float) -> None:
        marks = self._marks
        if not marks or self._offered_at - marks[-1][0] >= MARK_SECONDS:
            marks.append((self._offered_at, offered))
        while marks and now - marks[0][0] > MAX_AGE_SECONDS:
            self.write_off(marks.popleft()[1])
