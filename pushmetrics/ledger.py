"""The ledger of a series: of each count what has been delivered, what is owed, and for how long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import add, sub

Totals = tuple[int, ...]
"""A number for each place of a ledger. Tuples: what was offered may be what was delivered, the very same object."""

MAX_AGE_SECONDS = 300.0
"""How long a count waits for the Agent. An hour's time-outs in one bucket would page somebody for nothing."""

MARK_SECONDS = 10.0
"""How finely ages are told apart, so that a long absence of the Agent costs a bounded amount of memory."""


class Ledger:
    """Totals come in, what is owed comes out, and only a delivery settles it.

    The places of a ledger are those of the totals that it is given.
    """

    __slots__ = ("_delivered", "_marks", "_offered", "_offered_at", "expired")

    def __init__(self, places: int) -> None:
        self._delivered: Totals = (0,) * places
        # The last totals, and when they came; the same object as what was delivered when all of them was.
        self._offered = self._delivered
        self._offered_at = 0.0
        # Of what is owed, the totals that had been reached by some time, oldest first; None when nothing waits.
        self._marks: deque[tuple[float, Totals]] | None = None
        self.expired: Totals = ()
        """Of each count, what was dropped because nobody took it for too long; empty if nothing was."""

    def offer(self, totals: Totals, now: float, delivered: bool) -> Totals:
        """Take the totals at the monotonic time `now`, and return what of them is not owed.

        That is what was delivered, and what is dropped because it is older than MAX_AGE_SECONDS. `delivered` says
        that all that was last owed was delivered.
        """
        if delivered:
            self._delivered = self._offered
            self._marks = None
        elif self._offered is not self._delivered:
            self._grow_older(now)
        self._offered = totals
        self._offered_at = now
        return self._delivered

    def owed(self) -> Totals:
        """Return what was last offered, less what was delivered of it."""
        return tuple(map(sub, self._offered, self._delivered))

    def settle(self) -> None:
        """Take all that was last owed as delivered."""
        self._delivered = self._offered
        self._marks = None

    def settle_part(self, counts: Iterable[tuple[int, int]]) -> None:
        """Take some of the counts as delivered, each a place and how many."""
        delivered = list(self._delivered)
        for place, count in counts:
            delivered[place] += count
        self._delivered = tuple(delivered)

    def shift(self, change: Totals) -> None:
        """Let the totals be higher, or lower, by `change` from now on without that being owed."""
        settled = self._offered is self._delivered
        self._delivered = _sum(self._delivered, change)
        self._offered = self._delivered if settled else _sum(self._offered, change)
        if self._marks:
            self._marks = deque((reached_at, _sum(totals, change)) for reached_at, totals in self._marks)

    def write_off(self, totals: Totals) -> None:
        """Drop what is owed up to these totals."""
        dropped = tuple(max(0, total - delivered) for total, delivered in zip(totals, self._delivered, strict=True))
        if any(dropped):
            settled = self._offered is self._delivered
            self._delivered = _sum(self._delivered, dropped)
            if settled:
                self._offered = self._delivered
            self.expired = _sum(self.expired, dropped) if self.expired else dropped

    def _grow_older(self, now: float) -> None:
        if self._marks is None:
            self._marks = deque()
        marks = self._marks
        if not marks or self._offered_at - marks[-1][0] >= MARK_SECONDS:
            marks.append((self._offered_at, self._offered))
        while marks and now - marks[0][0] > MAX_AGE_SECONDS:
            self.write_off(marks.popleft()[1])


def _sum(one: Totals, other: Totals) -> Totals:
    return tuple(map(add, one, other))
