"""The one place that reads time, so that a test can put a clock of its own here.

``monotonic`` measures durations and is never set back. ``wall`` is read to line things up with the Agent's buckets, and
for nothing else. :class:`pushmetrics.testing.ManualClock` replaces all three for as long as it is entered; everything
that decides by time calls them through this module. Only sockets are waited for by the loop's own clock.
"""

from __future__ import annotations

from asyncio import sleep
from time import monotonic
from time import time as wall

__all__ = ["monotonic", "sleep", "wall"]
