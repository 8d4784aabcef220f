"""What flows through the package: statistics of a limit, samples of a series, and who may give and take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Kind = Literal["g", "c", "d"]
"""The type of a metric, gauge, count or distribution, as the type field of a DogStatsD line has it."""

Tags = tuple[str, ...]
"""Tags in Datadog's normal form and in a fixed order; two equal tuples are one series."""


@dataclass(frozen=True)
class LimitStatistics:
    """All that a limit knows about itself at one instant.

    At every instant ``active + available == limit``, except after the limit was lowered below ``active``: then
    ``available`` is 0 until enough holders have left. Totals count since the limit was made.
    """

    limit: int
    """Configured slots."""
    active: int
    """Slots in use, those just granted to a waiter included."""
    available: int
    """Slots free now."""
    queue_depth: int
    """Waiters without a slot."""
    oldest_wait_ms: int
    """Age of the waiter at the head of the queue in milliseconds, 0 if none."""
    contended_ms: int
    """Time with at least one waiter in milliseconds, a spell that is still open included."""
    admissions: int
    """Acquires that got a slot."""
    admissions_queued: int
    """Of those, the ones that had to wait."""
    admission_timeouts: int
    """Waiters that gave up at their admission timeout."""
    admission_cancelled: int
    """Waiters cancelled before they were admitted."""
    admission_rejected: int
    """Acquires refused because the queue was full."""


class Naming(NamedTuple):
    """What the samples of a registry are called, beside the tags that each series has of its own."""

    level: str
    """Which metrics a series has: "core", "standard" or "full"."""
    namespace: str
    constant_tags: Tags


class Descriptor:
    """What stays the same from sample to sample of a series: names, kinds and tags.

    One object serves all samples with the same metrics, so a sink may keep what it prepared for it by identity.
    """

    __slots__ = ("__weakref__", "kinds", "names", "namespace", "tags")

    def __init__(self, namespace: str, names: Sequence[str], kinds: Sequence[Kind], tags: Tags) -> None:
        self.namespace = namespace
        self.names = tuple(names)
        self.kinds = tuple(kinds)
        self.tags = tags

    def __repr__(self) -> str:
        return f"<Descriptor {self.namespace} {', '.join(self.tags)}: {', '.join(self.names)}>"

    def tag(self, key: str) -> str | None:
        """Return the value of the tag `key`, or None when the series has no such tag."""
        prefix = key + ":"
        return next((tag[len(prefix) :] for tag in self.tags if tag.startswith(prefix)), None)


class Sample:
    """One series at one tick.

    A gauge's value is what it is now, a count's is the number of events not delivered yet. `waits` holds the values
    of the distribution that the level "full" has at the end of its names: all since the last delivered sample, or a
    uniform choice of one in `one_in`.

    The lines of a sample are numbered: first one for each of `values`, then one for each of `waits`. Whoever delivers
    lines says so with :meth:`delivered`; a count that is never called delivered is contained in the next sample.
    """

    __slots__ = ("descriptor", "one_in", "values", "waits")

    def __init__(
        self,
        descriptor: Descriptor,
        values: tuple[int, ...],
        waits: tuple[float, ...] = (),
        one_in: int = 1,
    ) -> None:
        self.descriptor = descriptor
        self.values = values
        self.waits = waits
        self.one_in = one_in

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.values) + len(self.waits)

    def delivered(self, start: int = 0, stop: int | None = None) -> None:
        """Say that the lines `start` up to but not including `stop` were delivered, all of them by default.

        A sample that does not fit one datagram is delivered in parts. Say it once for each part.
        """

    def value(self, name: str) -> int:
        """Return the value of the gauge or count `name`; raises KeyError when the series has no such metric."""
        for known, value in zip(self.descriptor.names, self.values, strict=False):
            if known == name:
                return value
        raise KeyError(name)

    def __repr__(self) -> str:
        pairs = (f"{name}={value}" for name, value in zip(self.descriptor.names, self.values, strict=False))
        return f"<Sample {', '.join(self.descriptor.tags)}: {', '.join(pairs)}>"


class Delivery(NamedTuple):
    """What a sink did with the samples of one flush.

    Failures without a datagram mean that nothing was taken: the next ticks of a short interval are then left out.
    """

    datagrams: int = 0
    """Datagrams that were taken."""
    bytes: int = 0
    """Bytes in them."""
    failures: Mapping[str, int] = {}
    """What was not taken, a number of datagrams or lines by reason."""


class WatchedState(NamedTuple):
    """What a limiter that somebody else made says of itself; None for what it can not know, or does not have."""

    limit: int | None = None
    """Configured slots."""
    active: int | None = None
    """Slots in use."""
    available: int | None = None
    """Slots free now."""
    queue_depth: int | None = None
    """Waiters without a slot."""


@runtime_checkable
class Sink(Protocol):
    """Takes samples away. Sinks own bytes and addresses; the reporter owns time.

    One that keeps them within the process, as a MemorySink does, has an attribute ``in_process = True``: what it takes
    needs no worker tag.
    """

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Take each sample and call its ``delivered`` when it was delivered; never block the loop.

        Samples are read from the limits while the iterator is advanced, so a sink that gives the loop a turn now
        and then keeps a flush of many limits short for everybody else.
        """
        ...

    async def aclose(self) -> None:
        """Give back what the sink opened. Called once, after the last push; twice does no harm."""
        ...


class Counters:
    """What a limit has counted: plain integers, held strongly by the registry, so that they outlive the limit.

    Its owner writes, the registry reads. The peaks are the exception: whoever samples them starts them anew.
    """

    __slots__ = (
        "admission_cancelled",
        "admission_rejected",
        "admission_timeouts",
        "admissions",
        "admissions_queued",
        "can_reject",
        "can_time_out",
        "contended_seconds",
        "contended_since",
        "limit",
        "lowest_value",
        "queue_depth_peak",
        "waits",
    )

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lowest_value = limit
        """Fewest free slots since the peaks were sampled; ``limit - lowest_value`` is the peak of active."""
        self.queue_depth_peak = 0
        self.admissions = 0
        self.admissions_queued = 0
        self.admission_timeouts = 0
        self.admission_cancelled = 0
        self.admission_rejected = 0
        self.contended_seconds = 0.0
        """Length of all finished spells with at least one waiter."""
        self.contended_since: float | None = None
        """Monotonic time at which the spell that is still open began, None if there is none."""
        self.can_time_out = False
        self.can_reject = False
        self.waits: Callable[[float], None] | None = None
        """Called with the wait of each waiter in milliseconds, when somebody wants to know."""

    def contended_ms(self, now: float) -> int:
        """Return the contended time in whole milliseconds, the open spell up to `now` included."""
        since = self.contended_since
        if since is None:
            return int(self.contended_seconds * 1000)
        return int((self.contended_seconds + max(0.0, now - since)) * 1000)


@runtime_checkable
class Limit(Protocol):
    """A limit as the registry sees it: held weakly, its counters strongly.

    One that can not know all metrics of the catalogue has an attribute ``unknown`` besides: the names of those that it
    can not know, read once, when it is registered. They are not sent, so whatever is given in their place does not
    matter, as long as it is an integer of at least 0.
    """

    @property
    def tags(self) -> Tags:
        """The tags in normal form, from :func:`pushmetrics.tags.limit_tags`."""
        ...

    @property
    def counters(self) -> Counters:
        """The totals and peaks; always the same object."""
        ...

    def gauges(self) -> tuple[int, int, int, int]:
        """Return the slots in use, the free slots, the waiters, and the age of the oldest waiter in ms.

        Called while every registry is locked, so it waits for nothing.
        """
        ...
