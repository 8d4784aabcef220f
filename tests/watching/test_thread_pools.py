"""concurrent.futures.ThreadPoolExecutor under real threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from collected import only, watching


def test_its_limit_and_the_calls_that_no_thread_has_taken() -> None:
    may_end = threading.Event()
    both_started = threading.Barrier(3)

    def work() -> None:
        both_started.wait()
        may_end.wait()

    with ThreadPoolExecutor(2) as executor:
        registry = watching(executor)
        unused = only(registry)
        busy = [executor.submit(work) for _ in range(2)]
        both_started.wait()
        queued = [executor.submit(int) for _ in range(3)]
        full = only(registry)
        executor.shutdown(wait=False)
        shut_down = only(registry)
        may_end.set()
        assert [future.result() for future in busy + queued] == [None, None, 0, 0, 0]
    ended = only(registry)

    assert unused == {"limit": 2, "queue_depth": 0}
    assert full == {"limit": 2, "queue_depth": 3}
    assert shut_down == {"limit": 2}, "what tells the threads to end is in the queue, too"
    assert ended == unused
