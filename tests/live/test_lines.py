"""Plain lines, the summary, and JSON lines."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from pushes import DRIVER, SERVER, push, push_full

from pushmetrics.live.board import Board
from pushmetrics.live.jsonlines import JsonLines
from pushmetrics.live.output import MAX_OTHERS, PlainOutput
from pushmetrics.live.plain import LimitLines, Writer
from pushmetrics.live.summary import summary_lines
from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock


class TestPlainLines:
    def test_each_limit_has_a_line(self, receiver: Receiver) -> None:
        push(receiver, SERVER, limit=4, active=4, queue_depth=7, admission_timeouts_total=3, admission_rejected_total=1)
        push(receiver, DRIVER, limit=16, active=2, queue_depth=0)

        assert LimitLines().lines(Board(receiver).look().limits, None) == [
            "model_server   upstream_requests policy_model  limit  4  active 4  queued 7  timeouts   3  rejected   1",
            "rollout_driver rollouts                        limit 16  active 2  queued 0",
        ]

    def test_columns_only_grow(self, clock: ManualClock, receiver: Receiver) -> None:
        board, lines = Board(receiver), LimitLines()
        widths = []
        for depth in (1, 5000, 1):
            push(receiver, SERVER, limit=4, active=4, queue_depth=depth)
            clock.stall(1)
            widths.append(len(lines.lines(board.look().limits, None)[0]))

        assert widths[0] + 3 == widths[1] == widths[2]

    def test_a_character_that_the_stream_can_not_take_is_replaced(self) -> None:
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="latin-1")

        Writer(stream).lines("größe 模型")

        assert raw.getvalue() == "größe ??\n".encode("latin-1")


class TestPlainOutput:
    def output(self, receiver: Receiver) -> tuple[io.StringIO, PlainOutput]:
        stream = io.StringIO()
        output = PlainOutput(stream)
        output.begin(receiver, ["udp://localhost:8125", "unix:///tmp/x"])
        return stream, output

    def test_only_what_is_new_has_a_line(self, clock: ManualClock, receiver: Receiver) -> None:
        stream, output = self.output(receiver)
        output.tick()
        assert stream.getvalue() == "Listening on udp://localhost:8125, unix:///tmp/x; Ctrl-C ends it.\n"

        push(receiver, SERVER, limit=4, active=4)
        receiver.feed(b"a:1|g")
        output.tick()
        first = stream.getvalue()
        assert (first.count("active"), first.count("gauge")) == (1, 1)

        clock.stall(1)
        output.tick()
        assert stream.getvalue() == first

        clock.stall(1)
        receiver.feed(b"a:2|g")
        output.tick()
        rest = stream.getvalue().removeprefix(first)
        assert (rest.count("active"), rest.count("gauge")) == (0, 1)

    def test_a_name_does_not_depend_on_who_else_pushes_at_the_time(
        self, clock: ManualClock, receiver: Receiver
    ) -> None:
        stream, output = self.output(receiver)
        for worker in (1, 2, 1):
            push(receiver, (*SERVER, f"worker:{worker}"), limit=4, active=worker)
            output.tick()
            clock.stall(2)

        assert stream.getvalue().splitlines()[-1].startswith("model_server upstream_requests policy_model worker:1")

    def test_other_metrics_are_bounded(self, receiver: Receiver) -> None:
        stream, output = self.output(receiver)
        receiver.feed(b"\n".join(b"a%d:1|g" % number for number in range(MAX_OTHERS + 5)))

        output.tick()

        assert stream.getvalue().count("gauge") == MAX_OTHERS
        assert stream.getvalue().endswith("and 5 more\n")


class TestSummary:
    def test_what_a_limit_came_to(self, clock: ManualClock, receiver: Receiver) -> None:
        board = Board(receiver)
        for _ in range(11):
            push_full(receiver, SERVER, contended_ms_total=400, admission_timeouts_total=2)
            push_full(receiver, DRIVER, contended_ms_total=0, active_peak=16)
            rows = board.look().limits
            clock.stall(1)

        lines = summary_lines(rows, None, "In all", {"exact": {rows[0].key: "5/5"}})

        assert [" ".join(line.split()) for line in lines] == [
            "In all peak peak queue contended admitted waited timeouts cancelled exact",
            "model_server upstream_requests policy_model 4 12 40% 55 44 22 0 5/5",
            "rollout_driver rollouts 16 12 0% 55 44 0",
        ]
        assert lines[0].index("cancelled") + len("cancelled") == lines[1].rindex(" 0 ") + 2 == len(lines[2])

    @pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120])
    def test_it_fits(self, width: int, receiver: Receiver) -> None:
        push_full(receiver, SERVER, admission_timeouts_total=2, admission_rejected_total=1)

        lines = summary_lines(Board(receiver).look().limits, width, "In all")

        assert len(lines) == 2
        assert max(map(len, lines)) <= width
        assert lines[0].startswith("In all")

    def test_there_may_be_nothing_to_say(self, receiver: Receiver) -> None:
        push(receiver, SERVER, active=4)

        assert summary_lines([], None, "In all") == []
        assert summary_lines(Board(receiver).look().limits, None, "In all") == []


class TestJsonLines:
    def test_a_bucket_is_written_once_when_it_is_over(self, clock: ManualClock) -> None:
        receiver = Receiver(bucket_seconds=10)
        stream = io.StringIO()
        lines = JsonLines(stream, receiver)
        written = []
        for second in range(35):
            receiver.feed(b"a:%d|g|#t:1,b" % second)
            before = len(stream.getvalue())
            lines.tick()
            written += [(second, json.loads(line)) for line in stream.getvalue()[before:].splitlines()]
            clock.stall(1)

        assert [(second, one["timestamp"] - 1_800_000_000, one["value"]) for second, one in written] == [
            (10, 0, 9),
            (20, 10, 19),
            (30, 20, 29),
        ]
        assert written[0][1] == {
            "timestamp": 1_800_000_000,
            "interval": 10,
            "name": "a",
            "kind": "gauge",
            "tags": ["b", "t:1"],
            "value": 9,
            "complete": True,
        }

    def test_the_last_time_has_what_is_still_open(self, clock: ManualClock, receiver: Receiver) -> None:
        stream = io.StringIO()
        lines = JsonLines(stream, receiver)
        receiver.feed(b"a:3|c")
        clock.stall(1)
        receiver.feed(b"a:4|c")
        lines.tick(last=True)

        first, second = map(json.loads, stream.getvalue().splitlines())
        assert (first["sum"], first["complete"]) == (3, True)
        assert (second["sum"], second["complete"]) == (4, False)

    def test_a_late_line_with_a_timestamp_is_written_too(self, clock: ManualClock, receiver: Receiver) -> None:
        stream = io.StringIO()
        lines = JsonLines(stream, receiver)
        clock.stall(30)
        lines.tick()
        receiver.feed(b"a:3|c|T1800000010")
        lines.tick()
        receiver.feed(b"a:4|c|T1800000010")
        lines.tick()

        assert [(one["timestamp"], one["sum"]) for one in map(json.loads, stream.getvalue().splitlines())] == [
            (1_800_000_010, 3),
            (1_800_000_010, 4),
        ]

    def test_nothing_is_lost_when_nobody_looks_for_long(self, clock: ManualClock, receiver: Receiver) -> None:
        stream = io.StringIO()
        lines = JsonLines(stream, receiver)
        for second in range(200):
            receiver.feed(b"a:%d|g" % second)
            clock.stall(1)
        lines.tick()

        assert [json.loads(line)["value"] for line in stream.getvalue().splitlines()] == list(range(200))

    @pytest.mark.parametrize(
        ("line", "more"),
        [
            (b"a:1.5|g", {"kind": "gauge", "value": 1.5}),
            (b"a:3|c", {"kind": "count", "value": 3, "sum": 3}),
            (b"a:x|s", {"kind": "set", "value": 1}),
            (b"a:4:4|d", {"kind": "distribution", "value": 4, "count": 2, "sum": 8, "min": 4, "max": 4, "avg": 4}),
            (b"a:4|ms", {"kind": "histogram", "value": 4, "count": 1, "sum": 4, "min": 4, "max": 4, "avg": 4}),
        ],
    )
    def test_keys_of_each_kind(self, line: bytes, more: dict[str, Any], clock: ManualClock, receiver: Receiver) -> None:
        stream = io.StringIO()
        lines = JsonLines(stream, receiver)
        receiver.feed(line)
        clock.stall(1)
        lines.tick()

        content = json.loads(stream.getvalue())
        percentiles = {"p50", "p90", "p95", "p99"} if "count" in more else set()
        assert content.keys() == {"timestamp", "interval", "name", "tags", "complete", *more, *percentiles}
        assert content | more == content
        assert all(content[key] == 4 for key in percentiles)

    def test_every_line_is_ascii_and_json_whatever_is_in_it(self, clock: ManualClock, receiver: Receiver) -> None:
        stream = io.StringIO()
        lines = JsonLines(stream, receiver)
        receiver.feed('größe"\\\x1b:1|g|#\u2028,"x\x9b'.encode())
        clock.stall(1)
        lines.tick()

        (line,) = stream.getvalue().splitlines()
        assert line.isascii()
        assert line.isprintable()
        assert json.loads(line)["name"] == 'größe"\\_'
