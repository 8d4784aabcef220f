"""Makes docs/demo.svg: a capture of a running demo at the moment at which its limits are the fullest.

    python docs/picture.py

It needs the extra ``cli`` and takes a minute.
"""

from __future__ import annotations

import html
import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pushmetrics.demo.program import run_demo
from pushmetrics.demo.settings import DemoSettings
from pushmetrics.demo.table import title
from pushmetrics.demo.view import Outcome
from pushmetrics.live.board import Board, Look
from pushmetrics.live.table import Table
from pushmetrics.live.text import UNICODE

TARGET = Path(__file__).with_name("demo.svg")
SETTINGS = DemoSettings(duration=60)
WIDTH, HEIGHT = 120, 24
CHARACTER, LINE, BELOW = 12.2, 24.4, 5.9
"""In rich's pictures: the width of a character, the height of a line, and what of it is below the baseline."""

TEXT = r'<text class="(demo-r\d+)" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+" clip-path="([^"]+)">([^<]*)</text>'

FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


class Camera:
    """Stands where the terminal would be, and keeps the most telling picture."""

    def __init__(self) -> None:
        self.lines: list[Text] = []
        self._table = Table(UNICODE)
        self._best = 0.0

    def begin(self, settings: DemoSettings, address: str, board: Board) -> None:
        """Take a place in front of the board."""
        self._board = board
        self._address = address

    def tick(self, seconds: float) -> None:
        """Do nothing: pictures are taken between flushes."""

    def refresh(self, seconds: float) -> None:
        """Take a picture, and keep it if it is better."""
        look = self._board.look(minutes=HEIGHT)
        lines = self._table.lines(
            look, WIDTH, HEIGHT, title(SETTINGS, self._address, seconds), "Ctrl-C ends it earlier"
        )
        if (rank := telling(look, seconds)) > self._best:
            self._best, self.lines = rank, lines

    def close(self) -> None:
        """Do nothing."""

    def end(self, outcome: Outcome) -> None:
        """Insist on a run in which everything arrived."""
        if not outcome.good:
            sys.exit("not everything arrived; run it again on a machine with less to do")


def telling(look: Look, seconds: float) -> float:
    """Return how telling a moment is: the model server is on top and full, its queue is long, and another has room."""
    if seconds < SETTINGS.duration * 0.6 or not look.ranked:
        return 0.0
    first = look.ranked[0]
    if first.tag("component") != "model_server" or not first.holds_up:
        return 0.0
    has_room = any(0 < (row.fill or 0.0) < 1 for row in look.ranked)
    return (first.value("queue_depth") or 0.0) * (3 if has_room else 1)


def picture(lines: list[Text]) -> str:
    """Return the lines as SVG."""
    console = Console(width=WIDTH, file=io.StringIO(), record=True, force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(line, no_wrap=True, overflow="crop", highlight=False)
    svg = console.export_svg(title="", unique_id="demo")
    # A picture in a README may load nothing from elsewhere, so the font is one that the reader has. It may be of
    # another width: with each word at a place of its own, columns stay columns, and bars are drawn as terminals do.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", FONTS)
    return re.sub(TEXT, _drawn, svg)


def _drawn(match: re.Match[str]) -> str:
    """Return a piece of text as words and bars."""
    style, x, y, clip, escaped = match.groups()
    text = html.unescape(escaped).replace("\N{NO-BREAK SPACE}", " ")
    drawn = []
    for run in re.finditer(r"([▁-█])\1*|[^▁-█\s]+", text):
        left, width = float(x) + run.start() * CHARACTER, len(run[0]) * CHARACTER
        if run[1]:
            height = LINE * (ord(run[1]) - ord("▁") + 1) / 8
            top = float(y) + BELOW - height
            drawn.append(
                f'<rect class="{style}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
            )
        else:
            place = f'x="{left:.1f}" y="{y}" textLength="{width:.1f}" clip-path="{clip}"'
            drawn.append(f'<text class="{style}" {place}>{html.escape(run[0])}</text>')
    return "\n".join(drawn)


def main() -> None:
    """Run the demo and write the picture."""
    camera = Camera()
    run_demo(SETTINGS, camera)
    if not camera.lines:
        sys.exit("the model server's limit was never the fullest; run it again on a machine with less to do")
    TARGET.write_text(picture(camera.lines), encoding="utf-8")
    sys.stdout.write(f"wrote {TARGET}\n")


if __name__ == "__main__":
    main()
