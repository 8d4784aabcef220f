"""The table as it is drawn: at several widths, with and without colours, and whatever is in it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pushes import DRIVER, HEALTH, SERVER, VERIFIER, push, push_full
from rich.console import Console
from rich.text import Text

from pushmetrics.live.board import Board, Look
from pushmetrics.live.table import Table, _grouped
from pushmetrics.live.text import ASCII, UNICODE, Glyphs
from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock

TITLE = ("pushmetrics demo  32 s of 60 s", "udp://127.0.0.1:50000, every 1 s")

AT_80 = """\
 pushmetrics demo  32 s of 60 s                udp://127.0.0.1:50000, every 1 s

  limit             in use             queue peak oldest t/out canc last minute
! upstream_requests ▆▆▆▆▆▆▆▆▆▆▆▆   4/4    10   12 850 ms    16    0      ▅▇▇▇▇▇▇
! rollouts          ▆▆▆▆▆▆▆▆▆▆▆▆ 16/16     3    5  20 ms          0      ▄▇▇▇▇▇▇
  library_verifier  ▆▆▆▆▆▆▁▁▁▁▁▁   1/2     0    1      0          0      ▄▄▄▄▄▄▄

  other metrics     kind   value  tags
  app.requests      count  2.7/s  route:/a
  app.users         gauge     31  env:prod, route:/a

  reporter  3 series · 0 refused · last flush 2 ms · 1 ms late
  receiver  1 refused, last: unknown type (x:1|q) · 161 datagrams · 0 lost
  Ctrl-C ends it
"""

AT_120 = """\
 pushmetrics demo  32 s of 60 s                                                        udp://127.0.0.1:50000, every 1 s

  limit              in use                 peak  queued  peak  oldest  cont  timed out  cancelled  last minute
! upstream_requests  ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆   4/4     4      10    12  850 ms  100%         16          0           ▄▅▇▇▇▇▇▇▇▇▇
! rollouts           ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆ 16/16    16       3     5   20 ms   30%                     0           ▃▅▇▇▇▇▇▇▇▇▇
  library_verifier   ▆▆▆▆▆▆▆▁▁▁▁▁▁▁▁   1/2     2       0     1       0    0%                     0           ▄▄▄▄▄▄▄▄▄▄▄

  other metrics     kind   value  tags
  app.requests      count  2.7/s  route:/a
  app.users         gauge     31  env:prod, route:/a

  reporter  3 series · 0 refused · last flush 2 ms · 1 ms late
  receiver  1 refused, last: unknown type (x:1|q) · 161 datagrams · 0 lost · 1345 lines · 42 series
  Ctrl-C ends it
"""

AT_200 = """\
 pushmetrics demo  32 s of 60 s                                                                                                                                        udp://127.0.0.1:50000, every 1 s

  limit                                               in use                          peak  queued  peak  oldest wait  contended  timed out  cancelled  admitted  active and queued, last minute
! model_server     upstream_requests policy_model     ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆   4/4     4      10    12       850 ms       100%         16          0       160                ▄▄▅▆▇▇▇▇▇▇▇▇▇▇▇▇
! rollout_driver   rollouts                           ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆ 16/16    16       3     5        20 ms        30%                     0       160                ▂▃▅▆▇▇▇▇▇▇▇▇▇▇▇▇
  resources_server library_verifier  math_with_judge  ▆▆▆▆▆▆▆▆▆▆▆▆▁▁▁▁▁▁▁▁▁▁▁▁   1/2     2       0     1            0         0%                     0       160                ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄

  other metrics     kind   value  tags
  app.requests      count  2.7/s  route:/a
  app.users         gauge     31  env:prod, route:/a

  reporter  3 series · 0 refused · last flush 2 ms · 1 ms late
  receiver  1 refused, last: unknown type (x:1|q) · 161 datagrams · 0 lost · 1345 lines · 42 series
  Ctrl-C ends it
"""  # noqa: E501 - the picture is that wide

IN_ASCII = """\
 pushmetrics demo  32 s of 60 s                udp://127.0.0.1:50000, every 1 s

  limit             in use             queue peak oldest t/out canc last minute
! upstream_requests ############   4/4    10   12 850 ms    16    0      +######
! rollouts          ############ 16/16     3    5  20 ms          0      =######
  library_verifier  ######......   1/2     0    1      0          0      +++++++

  other metrics     kind   value  tags
  app.requests      count  2.7/s  route:/a
  app.users         gauge     31  env:prod, route:/a

  reporter  3 series - 0 refused - last flush 2 ms - 1 ms late
  receiver  1 refused, last: unknown type (x:1|q) - 161 datagrams - 0 lost
  Ctrl-C ends it
"""


def scene(seconds: int = 32) -> Iterator[tuple[ManualClock, Receiver, Board]]:
    """Three limits under load, two other metrics and a refused line; a tick each second."""
    with ManualClock() as clock:
        receiver = Receiver(bucket_seconds=1)
        board = Board(receiver)
        receiver.feed(b"x:1|q")
        for second in range(seconds):
            push_full(receiver, SERVER, queue_depth=min(10, second), admission_timeouts_total=second % 2)
            push_full(
                receiver,
                DRIVER,
                limit=16,
                active=16 if second > 8 else 2 * second,
                active_peak=16,
                queue_depth=3 if second > 8 else 0,
                queue_depth_peak=5,
                oldest_wait_ms=20,
                contended_ms_total=300,
            )
            push_full(
                receiver,
                VERIFIER,
                limit=2,
                active=1,
                active_peak=2,
                queue_depth=0,
                queue_depth_peak=1,
                oldest_wait_ms=0,
                contended_ms_total=0,
            )
            receiver.feed(HEALTH)
            receiver.feed(b"app.users:%d|g|#env:prod,route:/a\napp.requests:%d|c|#route:/a" % (second, second % 6))
            yield clock, receiver, board
            clock.stall(1)


def looked(seconds: int = 32) -> Look:
    for _, _, board in scene(seconds):
        look = board.look(minutes=50, max_others=50)
    return look


def plain(lines: list[Text]) -> str:
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(r"\d/\d", line) and "/s" not in line]


@pytest.mark.parametrize(
    ("width", "glyphs", "picture"),
    [(80, UNICODE, AT_80), (120, UNICODE, AT_120), (200, UNICODE, AT_200), (80, ASCII, IN_ASCII)],
)
def test_pictures(width: int, glyphs: Glyphs, picture: str) -> None:
    assert plain(Table(glyphs).lines(looked(), width, 24, TITLE, "Ctrl-C ends it")) == picture


def drawn(lines: list[Text], **options: Any) -> str:
    """What a terminal of 120 columns would get."""
    stream = io.StringIO()
    console = Console(
        file=stream, width=120, force_terminal=True, highlight=False, markup=False, emoji=False, **options
    )
    for line in lines:
        console.print(line, no_wrap=True, overflow="crop")
    return stream.getvalue()


def test_a_bar_turns_colour_as_it_fills() -> None:
    table = Table(UNICODE)
    colours = []
    for active, queued in ((0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 1)):
        with ManualClock():
            receiver = Receiver(bucket_seconds=1)
            push(receiver, limit=4, active=active, queue_depth=queued)
            lines = table.lines(Board(receiver).look(minutes=1), 120, 24, TITLE)
        bars = re.findall(r"\x1b\[([\d;]+)m▆+", drawn(lines, color_system="standard"))
        colours.append(bars[0] if bars else "")

    assert colours == ["", "32", "32", "33", "33", "1;31"]


def test_without_colour_the_same_is_to_be_read() -> None:
    lines = Table(UNICODE).lines(looked(), 120, 24, TITLE, "Ctrl-C ends it")

    text = drawn(lines, no_color=True, color_system="standard")

    assert not re.search(r"\x1b\[[\d;]*3\d", text)
    assert plain([Text(line) for line in re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()]) == AT_120


@pytest.mark.parametrize("width", [1, 10, 20, 30, 40, 50, 60, 70, 79, 81, 95, 100, 110, 130, 140, 160, 180, 250])
@pytest.mark.parametrize("height", [1, 5, 10, 24])
def test_nothing_is_wider_than_the_terminal(width: int, height: int) -> None:
    lines = Table(UNICODE).lines(looked(3), width, height, TITLE, "Ctrl-C ends it")

    assert all(line.cell_len <= width for line in lines)
    if height >= 10 and width >= 20:
        assert len(rows(plain(lines))) >= 1


def test_columns_stay_where_they_are_while_numbers_grow_and_shrink() -> None:
    table = Table(UNICODE)
    starts = []
    with ManualClock() as clock:
        receiver = Receiver(bucket_seconds=1)
        board = Board(receiver)
        for size in (1, 10, 1000, 100_000, 1000, 1):
            push_full(receiver, SERVER, limit=4 * size, active=3 * size, queue_depth=size, oldest_wait_ms=size)
            push_full(receiver, DRIVER, limit=2, active=1)
            heading = plain(table.lines(board.look(minutes=9), 140, 24, TITLE)).splitlines()[2]
            starts.append([word.end() for word in re.finditer(r"\S+", heading)])
            clock.stall(1)

    assert starts[3] == starts[4] == starts[5]
    assert all(before[2] <= after[2] for before, after in pairwise(starts))


def test_a_cell_of_the_sparkline_moves_and_does_not_change() -> None:
    values: list[float | None] = [float((7 * place) % 31) for place in range(200)]
    pictures = [_grouped(values[newest - 59 : newest + 1], newest, 12) for newest in range(100, 160)]

    for before, after in pairwise(pictures):
        stayed = after[1:-1] == before[1:-1]
        moved = after[1:-1] == before[2:]
        assert stayed or moved


@given(
    st.lists(st.none() | st.floats(0, 100), min_size=6, max_size=600),
    st.integers(0, 10**10),
    st.sampled_from([10, 12, 15, 20, 30, 60]),
)
def test_a_sparkline_has_its_width_and_its_newest_value(values: list[float | None], newest: int, cells: int) -> None:
    grouped = _grouped(values, newest, cells)

    assert len(grouped) == cells
    if values[-1] is not None:
        assert grouped[-1] is not None
        assert grouped[-1] >= values[-1]


EVIL = [
    "\x1b[2J\x1b[31m",
    "[bold red]x[/]",
    "\r\n\x00\x07\x9b",
    "\u202e\u200b\ufeff",
    ":skull:",
    "größe模型",
]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("evil", EVIL)
def test_no_value_does_anything_to_the_terminal(evil: str, glyphs: Glyphs) -> None:
    with ManualClock():
        receiver = Receiver(bucket_seconds=1)
        board = Board(receiver)
        for name in ("one", "two"):
            text = f"limit_name:{name}{evil},component:{evil},worker:{name}{evil}"
            receiver.feed(f"ns.{evil}.limit:4|g|#{text}\nns.{evil}.active:4|g|#{text}".encode())
            receiver.feed(f"app{evil}:1|g|#{text}\n{evil}:1|q".encode())
        look = board.look(minutes=5, max_others=5)
        lines = Table(glyphs).lines(look, 160, 24, (f"title {evil}", evil), f"logged: {evil}")

    text = drawn(lines, color_system=None)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert text.isascii() or glyphs is UNICODE
    assert len(text.splitlines()) == len(lines)
    if evil.isascii() and evil.isprintable():
        assert evil in text


def test_limits_with_the_same_name_are_told_apart() -> None:
    with ManualClock():
        receiver = Receiver(bucket_seconds=1)
        for tags in (SERVER, (*SERVER, "worker:1"), (*SERVER, "worker:2")):
            push_full(receiver, tags)
        push_full(receiver, ("env:prod", *SERVER))
        text = plain(Table(UNICODE).lines(Board(receiver).look(minutes=9), 100, 24, TITLE))

    names = {re.split(r" ▆", row)[0] for row in rows(text)}
    assert len(names) == 4
    assert any("worker:2" in name for name in names)


def test_what_has_no_room_is_counted() -> None:
    with ManualClock():
        receiver = Receiver(bucket_seconds=1)
        for number in range(40):
            push_full(receiver, (f"limit_name:l{number}",))
            receiver.feed(b"app.metric%d:1|g" % number)
        look = Board(receiver).look(minutes=20, max_others=20)
        lines = plain(Table(UNICODE).lines(look, 80, 20, TITLE)).splitlines()

    assert len(lines) <= 20
    shown = len(rows("\n".join(lines)))
    assert f"  … and {40 - shown} more limits" in lines
    others = sum(line.startswith("  app.metric") for line in lines)
    assert others >= 1
    assert f"  … and {40 - others} more" in lines


def test_a_limit_of_which_little_is_known() -> None:
    with ManualClock() as clock:
        receiver = Receiver(bucket_seconds=1)
        push(receiver, SERVER, active=3)
        push(receiver, DRIVER, limit=5)
        push(receiver, VERIFIER, limit=0, active=0, queue_depth=2)
        text = plain(Table(UNICODE).lines(Board(receiver).look(minutes=9), 100, 24, TITLE))
        clock.stall(1)

    assert re.search(r"^  model_server +upstream_requests policy_model +3/- *", text, re.MULTILINE)
    assert re.search(r"^  rollout_driver +rollouts +-/5 *", text, re.MULTILINE)
    assert re.search(r"^! resources_server +library_verifier +math_with_judge +▆+ 0/0 +2 +▇$", text, re.MULTILINE)
    assert "peak" not in text


def test_before_anything_has_come() -> None:
    with ManualClock():
        text = plain(Table(UNICODE).lines(Board(Receiver()).look(), 80, 24, TITLE, "Ctrl-C ends it"))

    assert "No limit has been heard of yet." in text
    assert "receiver  0 datagrams · 0 refused · 0 lost" in text


def test_the_footer_says_what_is_wrong() -> None:
    with ManualClock():
        receiver = Receiver(bucket_seconds=1, max_series=100)
        receiver.feed(HEALTH + b"\npushmetrics.send_failures_total:5|c\npushmetrics.series_rejected_total:2|c")
        receiver.feed(b"pushmetrics.counts_expired_total:7|c\nx:1|q")
        lines = Table(UNICODE).lines(Board(receiver).look(), 120, 24, TITLE)

    text = plain(lines)
    assert "reporter  5 refused · 2 series over the cap · 7 events expired · 3 series" in text
    assert "receiver  1 refused, last: unknown type (x:1|q) · 2 datagrams" in text
    assert "\x1b[33m5 refused" in drawn(lines, color_system="standard")


def test_a_silent_limit_is_dim_as_a_whole() -> None:
    with ManualClock() as clock:
        receiver = Receiver(bucket_seconds=1)
        board = Board(receiver)
        push_full(receiver)
        board.look()
        clock.stall(40)
        lines = Table(UNICODE).lines(board.look(minutes=1), 120, 24, TITLE)

    (row,) = [line for line in drawn(lines, color_system="standard").splitlines() if "4/4" in line]
    assert re.fullmatch(r"\x1b\[2m[^\x1b]+\x1b\[0m", row)
