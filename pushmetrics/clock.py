"""The one place that reads time, so that a test can put a clock of its own here.

``monotonic`` measures durations and is never set back. ``wall`` is read for one thing only: to line the ticks of the
reporter up with the Agent's buckets. :class:`pushmetrics.testing.ManualClock` replaces all three for as long as it
is entered; everything else calls them through this module and keeps no reference of its own.
"""

from __future__ import annotations

from asyncio import sleep
from time import monotonic
from time import time as wall

__all__ = ["monotonic", "sleep", "wall"]
