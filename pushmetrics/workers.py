"""Worker tags: what keeps the gauges of several processes on one host from overwriting each other."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterable, Mapping

from . import clock
from .catalog import HEALTH_NAMESPACE
from .model import Tags
from .offload import offload
from .registry import Registry
from .settings import Worker
from .slots import Slot, slot_files

logger = logging.getLogger("pushmetrics")

THREAD_NAME = "pushmetrics-workers"

WAIT_SECONDS = 1.0
"""How long a flush waits for the slots of new groups. What has none by then is in the next flush: sent without a tag,
it would overwrite another worker's gauges."""

GIVE_UP_SECONDS = 30.0
"""After so long without one more slot (a file system that hangs), what has none is sent without a tag."""

LOOK_SECONDS = 3600.0
"""How often the lock files are looked after, well within the days after which temporary files are removed."""

_HEALTH: Tags = ()
"""The key of the reporter's own health, which has no tags of a limit's."""


class Workers:
    """The tags that the series of one reporter get beside those of their limits: the constant ones, and the worker.

    With "auto", each group, the series with equal component and server, has the lowest worker slot that no other
    reporter of this user on this host has for the same names and constant tags. Slot 0 adds no tag, slot n adds
    ``worker:n``. A group keeps its slot until the registry has forgotten the last of its series.

    Used in one event loop at a time, in the process in which it was made.
    """

    def __init__(self, worker: Worker, namespace: str, constant_tags: Tags) -> None:
        self._auto = worker == "auto"
        self._namespace = namespace
        self._constant_tags = constant_tags
        self._by_number: dict[int, Tags] = {}
        self._all = self._with_worker(worker if isinstance(worker, int) else 0)
        """The tags where they are the same for everybody."""
        self._tags: dict[Tags, Tags] = {}
        self._seen: dict[Tags, Tags] = {}
        """Those as the last look saw them: its thread may go on, and what a flush was given must not change."""
        self._slots: dict[tuple[str, ...], Slot] = {}
        self._lock = threading.Lock()
        """Held by the one thread that takes slots or gives them back."""
        self._generation = slot_files.generation
        """That of the slots."""
        # A look at the registry that is under way, and what the last one saw.
        self._look: asyncio.Future[None] | None = None
        self._version = -1
        self._looked_at = 0.0
        self._progress_at = 0.0
        self._warned = False

    @property
    def tags(self) -> Tags | Mapping[Tags, Tags]:
        """The tags of all series, or of each by its limits' tags; one that is missing is not to be sent yet."""
        return self._seen if self._auto else self._all

    @property
    def health_tags(self) -> Tags | None:
        """The tags of the reporter's own health; None when it is not to be sent yet."""
        return self._seen.get(_HEALTH) if self._auto else self._all

    async def look(self, registry: Registry) -> None:
        """Take slots for what is new in the registry and give back those of what has gone, off the loop.

        Returns after WAIT_SECONDS at most; what was not done by then is done meanwhile. Never raises.
        """
        if not self._auto:
            return
        now = clock.monotonic()
        if self._look is not None and self._look.get_loop() is not asyncio.get_running_loop():
            self._look, self._version = None, -1
        if self._look is None and (
            registry.version != self._version
            or now - self._looked_at > LOOK_SECONDS
            or slot_files.generation != self._generation  # Somebody else here has found that all slots are void.
        ):
            self._version, self._looked_at, self._progress_at = registry.version, now, now
            self._look = offload(lambda: self._take_and_give_back(registry.tags()), THREAD_NAME)
        if self._look is None:
            return
        # Not by the clock that a test may have stopped: the thread goes on by real time.
        await asyncio.wait([self._look], timeout=WAIT_SECONDS)
        if self._look.done():
            error = self._look.exception()
            self._look = None
            if error is not None:
                self._do_without(registry, error)
        elif clock.monotonic() - self._progress_at > GIVE_UP_SECONDS:
            self._do_without(registry, TimeoutError(f"nothing happened for {GIVE_UP_SECONDS:g} s"))
        self._seen = self._tags.copy()

    async def aclose(self, timeout: float) -> None:
        """Give all slots back, in `timeout` seconds or later in the background. Never raises."""
        if self._auto and self._version >= 0:
            self._version = -1
            await asyncio.wait([offload(self._give_all_back, THREAD_NAME)], timeout=timeout)

    def _take_and_give_back(self, all_tags: Iterable[Tags]) -> None:
        """Hold exactly the slots of the series with these tags. Runs in a thread."""
        with self._lock:
            generation = slot_files.look_after()
            if generation != self._generation:
                self._generation = generation
                self._slots.clear()
                self._tags.clear()
            wanted = set()
            for number, tags in enumerate((_HEALTH, *all_tags)):
                if number % 100 == 99:
                    time.sleep(0)  # Lets the loop go on: only taking a slot does so, too.
                group = _group(tags, HEALTH_NAMESPACE if tags is _HEALTH else self._namespace, self._constant_tags)
                wanted.add(group)
                if tags in self._tags:
                    continue
                if group not in self._slots:
                    self._slots[group] = slot_files.take("\0".join(group).encode(), self)
                    self._progress_at = clock.monotonic()
                # What had to be sent without a tag before stays without.
                self._tags.setdefault(tags, self._with_worker(self._slots[group].number))
            for tags in self._tags.keys() - all_tags - {_HEALTH}:
                del self._tags[tags]
            for group in self._slots.keys() - wanted:
                slot_files.give_back(self._slots.pop(group), self)

    def _give_all_back(self) -> None:
        with self._lock:
            self._tags.clear()
            while self._slots:
                slot_files.give_back(self._slots.popitem()[1], self)

    def _do_without(self, registry: Registry, error: BaseException) -> None:
        for tags in (_HEALTH, *registry.tags()):
            self._tags.setdefault(tags, self._constant_tags)
        if not self._warned:
            self._warned = True
            logger.warning(
                "This process can not be told apart from others on this host, so its metrics have no worker tag: %s. "
                "If there are others, give each a number of its own in PUSHMETRICS_WORKER.",
                error,
            )

    def _with_worker(self, number: int) -> Tags:
        tags = self._by_number.get(number)
        if tags is None:
            tags = (*self._constant_tags, f"worker:{number}") if number else self._constant_tags
            self._by_number[number] = tags
        return tags


def _group(tags: Tags, namespace: str, constant_tags: Tags) -> tuple[str, ...]:
    component, server = "", ""
    for tag in tags:
        if tag.startswith("component:"):
            component = tag
        elif tag.startswith("server:"):
            server = tag
    return (namespace, component, server, *sorted(set(constant_tags)))
