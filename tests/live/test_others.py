"""Any other metrics, and the health of reporters and of the receiver."""

from __future__ import annotations

import pytest
from pushes import HEALTH, push

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics.live.board import GONE_SECONDS, Board
from pushmetrics.live.others import value_text
from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock


@pytest.mark.parametrize(
    ("line", "kind", "value"),
    [
        (b"a:4.5|g", "gauge", "4.5"),
        (b"a:7|c", "count", "7/s"),
        (b"a:x|s", "set", "1"),
        (b"a:2:2|d", "distribution", "avg 2  p95 2"),
        (b"a:2|h", "histogram", "avg 2  p95 2"),
        (b"a_ms:1500|ms", "histogram", "avg 1.5 s  p95 1.5 s"),
    ],
)
def test_what_there_is_to_say(line: bytes, kind: str, value: str, receiver: Receiver, board: Board) -> None:
    receiver.feed(line)

    (row,) = board.look(max_others=5).others

    assert (row.kind, value_text(row)) == (kind, value)


def test_a_rate_is_that_of_the_last_ten_seconds(clock: ManualClock, receiver: Receiver, board: Board) -> None:
    for _ in range(30):
        receiver.feed(b"a:20|c")
        clock.stall(10)
        (row,) = board.look(max_others=1).others
        assert row.value == 2

    assert row.total == 600


def test_a_rate_that_has_just_begun_is_no_guess_about_the_past(
    clock: ManualClock, receiver: Receiver, board: Board
) -> None:
    for _ in range(3):
        receiver.feed(b"a:20|c")
        clock.stall(1)

    (row,) = board.look(max_others=1).others

    assert row.value == 20


def test_they_are_sorted_and_bounded(receiver: Receiver, board: Board) -> None:
    for name in "cabd":
        receiver.feed(f"{name}:1|g|#x:2\n{name}:1|g|#x:1".encode())

    look = board.look(max_others=3)

    assert [(row.name, row.tags) for row in look.others] == [("a", ("x:1",)), ("a", ("x:2",)), ("b", ("x:1",))]
    assert look.more_others == 5


def test_what_is_long_silent_is_shown_no_more(clock: ManualClock, receiver: Receiver, board: Board) -> None:
    receiver.feed(b"a:1|g")
    clock.stall(GONE_SECONDS)
    assert len(board.look(max_others=5).others) == 1
    clock.stall(1)

    assert board.look(max_others=5).others == []


class TestReporters:
    def test_there_may_be_none(self, receiver: Receiver, board: Board) -> None:
        push(receiver, limit=4, active=1)

        assert board.look().reporters is None

    def test_several_are_taken_together(self, clock: ManualClock, receiver: Receiver, board: Board) -> None:
        for worker in (0, 1, 2):
            receiver.feed(HEALTH.replace(b"|g", b"|g|#worker:%d" % worker).replace(b"|c", b"|c|#worker:%d" % worker))
        receiver.feed(b"pushmetrics.send_failures_total:2|c|#worker:1\npushmetrics.flush_lag_ms:70|g|#worker:1")

        health = board.look().reporters

        assert health is not None
        assert (health.reporters, health.series, health.send_failures) == (3, 9, 2)
        assert (health.flush_lag_ms, health.flush_duration_ms) == (70, 2)

        clock.stall(120)
        assert board.look().reporters is None, "they have gone"

    async def test_one_in_this_process_says_more(self) -> None:
        registry = Registry()
        limit = MeteredSemaphore(1, component="a", limit_name="b", registry=registry)
        async with Receiver(bucket_seconds=1) as receiver:
            host, port = await receiver.listen_udp("127.0.0.1", 0)
            async with Reporter(sink=f"udp://{host}:{port}", registry=registry) as reporter, limit:
                await reporter.flush()
                health = Board(receiver, reporter.statistics).look().reporters

        assert health is not None
        assert health.statistics is not None
        assert health.statistics.flushes == 1
        assert health.series == 1


class TestReceiver:
    def test_the_last_reason_is_that_of_the_last_refusal(self, receiver: Receiver, board: Board) -> None:
        receiver.feed(b"a:1|q\nb:x|g")
        board.look()
        receiver.feed(b"c:2|q")

        health = board.look().receiver

        assert health is not None
        assert (health.statistics.refused, health.last_reason, health.last_example) == (3, "unknown type", "c:2|q")

    def test_no_refusal_has_no_reason(self, receiver: Receiver, board: Board) -> None:
        health = board.look().receiver

        assert health is not None
        assert (health.last_reason, health.last_example) == (None, "")

    def test_one_that_is_fed_has_no_health(self, receiver: Receiver) -> None:
        assert Board(receiver, listens=False).look().receiver is None
