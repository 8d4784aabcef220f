"""The peaks of a series: what a sample would miss."""

from __future__ import annotations


class Peaks:
    """The peaks of active and of queue depth: the highest values since the last delivered sample.

    The Agent keeps the last gauge of a bucket, so a later sample of a bucket repeats the bucket's peak. What could
    not be delivered in its bucket is shown in the next one, and then forgotten.
    """

    __slots__ = ("_active", "_bucket", "_queue", "active_owed", "queue_owed")

    def __init__(self) -> None:
        self._bucket = self._active = self._queue = 0
        self.active_owed = self.queue_owed = 0
        """The peak of the last sample's bucket, what came late from the one before left out; 0 once delivered."""

    def add(self, bucket: int, active: int, queue: int, delivered: bool) -> tuple[int, int]:
        """Take values of `bucket` in, and return the peaks to show.

        `delivered` says that those that it returned last were delivered.
        """
        if delivered:
            self.active_owed = self.queue_owed = 0
        if bucket == self._bucket:
            if active > self.active_owed:
                self.active_owed = active
            if queue > self.queue_owed:
                self.queue_owed = queue
            least_active, least_queue = self._active, self._queue
        else:
            on_time = bucket == self._bucket + 1
            least_active = self.active_owed if on_time else 0
            least_queue = self.queue_owed if on_time else 0
            self._bucket = bucket
            self.active_owed = active
            self.queue_owed = queue
        self._active = active = active if active > least_active else least_active
        self._queue = queue = queue if queue > least_queue else least_queue
        return active, queue
