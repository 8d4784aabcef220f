"""Limits as they were received: what is known of them, and nothing else."""

from __future__ import annotations

import pytest
from pushes import DRIVER, SERVER, VERIFIER, push, push_full

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics.catalog import metrics_at
from pushmetrics.live.board import GONE_SECONDS, Board
from pushmetrics.live.limits import SILENT_SECONDS, LimitRow
from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock


def only(board: Board) -> LimitRow:
    (row,) = board.look(minutes=1).limits
    return row


class TestWhatALimitIs:
    @pytest.mark.parametrize("namespace", ["gym.concurrency", "myapp", "a.b.c", "pushmetrics"])
    def test_any_namespace_will_do(self, namespace: str, receiver: Receiver, board: Board) -> None:
        push(receiver, namespace=namespace, limit=4, active=1)

        row = only(board)

        assert row.key == (namespace, SERVER)
        assert (row.tag("component"), row.tag("server"), row.tag("worker")) == ("model_server", "policy_model", "")

    @pytest.mark.parametrize("name", ["limit", "active"])
    def test_one_of_two_gauges_with_a_limit_name_is_enough(self, name: str, receiver: Receiver, board: Board) -> None:
        push(receiver, DRIVER, **{name: 3})

        assert only(board).values == {name: 3}

    def test_two_metrics_are_enough_without_a_name(self, receiver: Receiver, board: Board) -> None:
        push(receiver, ("pool:a",), active=3, queue_depth=1)

        assert only(board).values == {"active": 3, "queue_depth": 1}

    def test_a_gauge_that_is_called_active_is_no_limit(self, receiver: Receiver, board: Board) -> None:
        push(receiver, ("pool:a",), namespace="jvm.threads", active=3)

        look = board.look(max_others=10)

        assert look.limits == []
        assert [row.name for row in look.others] == ["jvm.threads.active"]

    def test_one_that_knows_neither_is_one_if_it_has_a_queue_and_a_name(self, receiver: Receiver, board: Board) -> None:
        push(receiver, DRIVER, available=3, queue_depth=1)
        push(receiver, ("pool:a",), available=3, queue_depth=1)

        assert only(board).key.tags == DRIVER

    def test_a_metric_of_another_kind_is_not_the_limits(self, receiver: Receiver, board: Board) -> None:
        push(receiver, limit=4, active=3)
        receiver.feed(f"gym.concurrency.queue_depth:9|c|#{','.join(SERVER)}".encode())

        look = board.look(max_others=10)

        assert look.limits[0].value("queue_depth") is None
        assert [(row.name, row.kind) for row in look.others] == [("gym.concurrency.queue_depth", "count")]

    def test_other_tags_or_another_namespace_or_host_make_another_limit(self, receiver: Receiver, board: Board) -> None:
        for tags in (SERVER, (*SERVER, "worker:1"), ("host:h", *SERVER)):
            push(receiver, tags, limit=4, active=1)
        push(receiver, namespace="myapp", limit=4, active=1)

        assert len(board.look().limits) == 4


class TestValues:
    def test_gauges_are_the_newest_and_counts_are_totals(
        self, clock: ManualClock, receiver: Receiver, board: Board
    ) -> None:
        push(receiver, limit=4, active=3, queue_depth=2, oldest_wait_ms=70, admissions_total=5)
        clock.stall(30)
        push(receiver, limit=5, active=1, queue_depth=0, oldest_wait_ms=0, admissions_total=7)

        assert only(board).values == {
            "limit": 5,
            "active": 1,
            "queue_depth": 0,
            "oldest_wait_ms": 0,
            "admissions_total": 12,
        }

    def test_missing_stays_missing(self, receiver: Receiver, board: Board) -> None:
        push(receiver, active=3)

        row = only(board)

        assert row.value("limit") is None
        assert row.fill is None
        assert not row.holds_up
        assert (row.highest_active, row.highest_queue_depth, row.contended, row.contended_in_all) == (None,) * 4
        assert row.minute is not None
        assert (row.minute.active_peak, row.minute.queue_depth_peak, row.minute.waits) == (None,) * 3
        assert set(row.minute.history.queued) == {None}

    async def test_all_that_a_reporter_pushes_belongs_to_its_limit(self) -> None:
        registry = Registry()
        limit = MeteredSemaphore(
            2, component="api", limit_name="calls", admission_timeout=1, max_queue_depth=3, registry=registry
        )
        async with Receiver(bucket_seconds=1) as receiver:
            host, port = await receiver.listen_udp("127.0.0.1", 0)
            async with Reporter(sink=f"udp://{host}:{port}", registry=registry, level="full") as reporter, limit:
                await reporter.flush()
                await limit.acquire()
                limit.release()
        look = Board(receiver).look(minutes=1, max_others=10)

        assert set(look.limits[0].values) == {metric.name for metric in metrics_at("full")} - {"queue_duration_ms"}
        assert look.others == []
        assert look.reporters is not None

    @pytest.mark.parametrize(
        ("values", "state"),
        [
            ((4, 1, 0), (0.25, False)),
            ((4, 4, 0), (1, False)),
            ((4, 4, 1), (1, True)),
            ((4, 3, 1), (0.75, False)),
            ((0, 0, 3), (1, True)),
        ],
    )
    def test_a_limit_holds_things_up_when_it_is_full_and_work_waits(
        self, values: tuple[int, int, int], state: tuple[float, bool], receiver: Receiver, board: Board
    ) -> None:
        push(receiver, **dict(zip(("limit", "active", "queue_depth"), values, strict=True)))

        row = only(board)

        assert (row.fill, row.holds_up) == state


class TestPeaks:
    def test_those_of_the_last_minute_and_those_of_all_time(
        self, clock: ManualClock, receiver: Receiver, board: Board
    ) -> None:
        for peak in (9, 3, 5):
            push(receiver, limit=10, active=1, active_peak=peak, queue_depth_peak=peak * 2)
            clock.stall(50)
        push(receiver, limit=10, active=1, active_peak=2, queue_depth_peak=4)

        row = only(board)

        assert row.minute is not None
        assert (row.minute.active_peak, row.minute.queue_depth_peak) == (5, 10)
        assert (row.highest_active, row.highest_queue_depth) == (9, 18)

    def test_the_highest_of_all_time_outlives_the_history(self, clock: ManualClock) -> None:
        receiver = Receiver(bucket_seconds=1, history_seconds=60)
        board = Board(receiver)
        push(receiver, limit=10, active=1, active_peak=9)
        board.look()
        for _ in range(10):
            clock.stall(20)
            push(receiver, limit=10, active=1, active_peak=1)
            board.look()

        assert only(board).highest_active == 9


class TestShareOfTimeContended:
    def test_what_came_with_the_first_sample_is_not_counted(
        self, clock: ManualClock, receiver: Receiver, board: Board
    ) -> None:
        push_full(receiver, contended_ms_total=60_000)
        assert only(board).contended is None
        for _ in range(4):
            clock.stall(10)
            push_full(receiver, contended_ms_total=2500)
            row = only(board)

        assert (row.contended, row.contended_in_all) == (0.25, 0.25)

    def test_the_last_minute_forgets_what_was_before(
        self, clock: ManualClock, receiver: Receiver, board: Board
    ) -> None:
        for contended in [10_000] * 12 + [0] * 12:
            push_full(receiver, contended_ms_total=contended)
            board.look()
            clock.stall(10)

        row = only(board)

        assert row.contended == 0
        assert row.contended_in_all == pytest.approx(11 / 23)

    def test_it_is_never_above_1(self, clock: ManualClock, receiver: Receiver, board: Board) -> None:
        for _ in range(3):
            push_full(receiver, contended_ms_total=25_000)
            board.look()
            clock.stall(10)

        assert only(board).contended == 1


class TestHistory:
    def test_it_has_a_bucket_for_each_second(self, clock: ManualClock, receiver: Receiver, board: Board) -> None:
        for second in range(100):
            push(receiver, limit=4, active=second % 5, queue_depth=second)
            clock.stall(1)

        row = only(board)

        assert row.minute is not None
        history = row.minute.history
        assert history.newest == int(clock.wall())
        assert len(history.active) == len(history.queued) == 60
        assert history.queued[-2] == 99
        assert history.queued[0] == 41

    def test_a_value_stands_for_its_bucket_at_the_agent_and_no_longer(
        self, clock: ManualClock, receiver: Receiver, board: Board
    ) -> None:
        for value in (1, 2):
            push(receiver, limit=4, active=value)
            clock.stall(10)
        clock.stall(30)

        row = only(board)

        assert row.minute is not None
        active = row.minute.history.active
        assert active.count(1) == 10
        assert active.count(2) == 12
        assert active[-1] is None

    @pytest.mark.parametrize("width", [0.1, 1, 7, 10, 120])
    def test_any_width_of_a_bucket(self, width: float, clock: ManualClock) -> None:
        receiver = Receiver(bucket_seconds=width)
        board = Board(receiver)
        push_full(receiver)

        row = only(board)

        assert row.minute is not None
        assert row.minute.history.active[-1] == 4
        assert row.pressure == 3.5

    def test_the_waits_of_a_minute_are_one_distribution(
        self, clock: ManualClock, receiver: Receiver, board: Board
    ) -> None:
        for wait in range(100):
            push(receiver, limit=4, active=1, queue_duration_ms=wait)
            clock.stall(0.5)

        row = only(board)

        assert row.minute is not None
        assert row.minute.waits is not None
        assert row.minute.waits.count == 100
        assert row.minute.waits.percentile(95) == pytest.approx(94, rel=0.02)

    def test_it_is_there_for_those_that_are_asked_for(self, receiver: Receiver, board: Board) -> None:
        for number in range(5):
            push(receiver, (f"limit_name:l{number}",), limit=4, active=number)

        look = board.look(minutes=2)

        assert [row.minute is not None for row in look.ranked] == [True, True, False, False, False]
        assert [row.tag("limit_name") for row in look.ranked[:2]] == ["l4", "l3"]
        assert [row.tag("limit_name") for row in look.limits] == ["l0", "l1", "l2", "l3", "l4"]


class TestRank:
    def test_the_one_with_the_longest_queue_for_each_slot_is_on_top(
        self, clock: ManualClock, receiver: Receiver, board: Board
    ) -> None:
        for _ in range(10):
            push(receiver, DRIVER, limit=16, active=16, queue_depth=15)
            push(receiver, VERIFIER, limit=2, active=1, queue_depth=0)
            push(receiver, SERVER, limit=4, active=4, queue_depth=8)
            clock.stall(1)

        assert [row.tag("component") for row in board.look().ranked] == [
            "model_server",
            "rollout_driver",
            "resources_server",
        ]

    def test_a_moment_moves_nothing(self, clock: ManualClock, receiver: Receiver, board: Board) -> None:
        orders = set()
        for second in range(120):
            push(receiver, DRIVER, limit=4, active=4, queue_depth=4)
            push(receiver, SERVER, limit=4, active=4, queue_depth=10 if second % 10 == 0 else 2)
            orders.add(tuple(row.key for row in board.look().ranked))
            clock.stall(1)

        assert len(orders) <= 2, "one at the first moment, one from then on"

    @pytest.mark.parametrize(
        ("values", "pressure"),
        [
            ({"limit": 4, "active": 2}, 0.5),
            ({"limit": 4, "active": 4, "queue_depth": 6}, 2.5),
            ({"limit": 0, "active": 0, "queue_depth": 2}, 4),
            ({"active": 3}, 0.5),
            ({"active": 0, "queue_depth": 0}, 0),
            ({"active": 0, "queue_depth": 3}, 4),
            ({"limit": 3}, 0),
        ],
    )
    def test_pressure_of_what_is_known(
        self, values: dict[str, float], pressure: float, receiver: Receiver, board: Board
    ) -> None:
        push(receiver, **values)

        assert only(board).pressure == pressure

    def test_a_silent_limit_sinks_and_then_is_shown_no_more(
        self, clock: ManualClock, receiver: Receiver, board: Board
    ) -> None:
        push_full(receiver, SERVER)
        while clock.wall() - 1_800_000_000 <= SILENT_SECONDS + 5:
            push(receiver, DRIVER, limit=4, active=0)
            clock.stall(5)

        silent = board.look().ranked[-1]
        assert silent.is_silent
        assert silent.key.tags == SERVER

        clock.stall(GONE_SECONDS)
        push(receiver, DRIVER, limit=4, active=0)
        look = board.look()
        assert [row.key.tags for row in look.ranked] == [DRIVER]
        assert [row.key.tags for row in look.limits] == [SERVER, DRIVER], "the summary still has it"

    def test_one_that_is_pushed_seldom_is_not_silent_in_between(
        self, clock: ManualClock, receiver: Receiver, board: Board
    ) -> None:
        for _ in range(3):
            push_full(receiver)
            board.look()
            clock.stall(60)
        clock.stall(100)
        assert not only(board).is_silent
        clock.stall(60)
        assert only(board).is_silent
