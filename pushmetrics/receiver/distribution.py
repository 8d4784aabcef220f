"""Distributions in bounded memory: exact count, sum, minimum and maximum, and percentiles within 1 %.

Values are counted in bins whose bounds grow by the factor that the Agent's own sketch has (pkg/util/quantile/config.go
in its sources). So distributions can be merged over series and over time, and have percentiles as a whole.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable

GROWTH = math.log1p(2 / 128)
"""Logarithm of the factor from one bin to the next: the Agent's relative accuracy is 1/128."""

SMALLEST = 1e-9
"""Below it a value counts as 0 in percentiles."""

_ORIGIN = math.log(SMALLEST)
_LARGEST = math.log(1.7e308)

MAX_BINS = 4096
"""Of more bins the lowest are made one, as in the Agent; all values from 1e-9 to 1e18 fit, if they have one sign."""

BASE_BYTES = 400
OPEN_BIN_BYTES = 100
CLOSED_BIN_BYTES = 12


class Distribution:
    """What is known of many values; it does not change any more."""

    count: int
    """How many values, each as often as its sample rate says."""
    sum: float
    min: float
    max: float
    weighted: float
    """The sum of the values, each as often as it was counted, from which the average comes."""

    __slots__ = ("_counts", "_keys", "count", "max", "min", "sum", "weighted")

    def __init__(self, parts: Iterable[Distribution | Collector]) -> None:
        """Merge the parts; raises ValueError when there are none."""
        parts = list(parts)
        bins = parts[0].bins() if len(parts) == 1 else _added_up(part.bins() for part in parts)
        self._keys = array("i", sorted(bins))
        self._counts = array("d", map(bins.__getitem__, self._keys))
        self.count = sum(part.count for part in parts)
        self.sum = sum(part.sum for part in parts)
        self.weighted = sum(part.weighted for part in parts)
        self.min = min(part.min for part in parts)
        self.max = max(part.max for part in parts)

    def __repr__(self) -> str:
        return f"<Distribution of {self.count}: min {self.min:g}, avg {self.avg:g}, max {self.max:g}>"

    @property
    def avg(self) -> float:
        """The average of the values."""
        return min(max(self.weighted / self.count, self.min), self.max)

    def percentile(self, percent: float) -> float:
        """Return the value that `percent` (0 to 100) of the values do not exceed, within 1 % of itself."""
        if percent <= 0:
            return self.min
        if percent >= 100:
            return self.max
        rank = round(percent / 100 * (self.count - 1))
        seen = 0.0
        for key, count in zip(self._keys, self._counts, strict=True):
            seen += count
            if seen > rank:
                return min(max(_center(key), self.min), self.max)
        return self.max

    def bins(self) -> dict[int, int]:
        """Return how many values are in each bin."""
        return dict(zip(self._keys, map(int, self._counts), strict=True))

    @property
    def bytes_held(self) -> int:
        """About what it takes in memory."""
        return BASE_BYTES + CLOSED_BIN_BYTES * len(self._keys)


class Collector:
    """A distribution that still takes values."""

    __slots__ = ("_bins", "count", "max", "min", "sum", "weighted")

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self.weighted = 0.0
        self.count = 0
        self.sum = 0.0
        self.min = math.inf
        self.max = -math.inf

    def add(self, value: float, weight: float = 1.0) -> None:
        """Take a finite value that stands for `weight` values, 1/rate for a sample rate.

        As in the Agent, the count grows by the whole part of the weight, by 1 at least, and the sum by all of it.
        Raises OverflowError, and takes nothing, when the sum leaves what a float can hold.
        """
        number = int(weight) or 1
        total = self.sum + value * max(weight, 1.0)
        if not math.isfinite(total):
            raise OverflowError("the sum is too large for a float")
        self.sum = total
        self.count += number
        self.weighted += value * number
        if value < self.min:
            self.min = value
        if value > self.max:
            self.max = value
        key = _key(value)
        bins = self._bins
        bins[key] = bins.get(key, 0) + number
        if len(bins) > MAX_BINS:
            self._collapse()

    def bins(self) -> dict[int, int]:
        """Return how many values are in each bin."""
        return self._bins

    @property
    def bytes_held(self) -> int:
        """About what it takes in memory."""
        return OPEN_BIN_BYTES * len(self._bins)

    def _collapse(self) -> None:
        lowest = sorted(self._bins)[: MAX_BINS // 4]
        self._bins[lowest[-1]] = sum(self._bins.pop(key) for key in lowest)


def _added_up(all_bins: Iterable[dict[int, int]]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for bins in all_bins:
        total.update(bins)
    return total


def _key(value: float) -> int:
    """Return the bin of a value: 0 around 0, growing with the value, negative for negative ones."""
    if value > SMALLEST:
        return round((math.log(value) - _ORIGIN) / GROWTH) + 1
    if value < -SMALLEST:
        return -round((math.log(-value) - _ORIGIN) / GROWTH) - 1
    return 0


def _center(key: int) -> float:
    if key == 0:
        return 0.0
    return math.copysign(math.exp(min(_ORIGIN + (abs(key) - 1) * GROWTH, _LARGEST)), key)
