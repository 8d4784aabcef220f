"""docs/picture.py, and the picture that it made."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest
from pushes import DRIVER, push_full

from pushmetrics.live.board import Board
from pushmetrics.live.table import HEADINGS, Table
from pushmetrics.live.text import UNICODE
from pushmetrics.receiver import Receiver

DOCS = Path(__file__).resolve().parents[1] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("picture", DOCS / "picture.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def texts(svg: str) -> list[str]:
    return [text for element in ET.fromstring(svg).iter(f"{SVG}text") if (text := element.text)]  # noqa: S314 - our own


def test_each_word_and_each_bar_has_its_place(script: ModuleType) -> None:
    receiver = Receiver(bucket_seconds=1)
    push_full(receiver)
    push_full(receiver, (*DRIVER, "tag:<&>"), limit=16, active=8, queue_depth=0)
    lines = Table(UNICODE).lines(Board(receiver).look(minutes=5), 120, 24, ("a", "b"))

    svg = script.picture(lines)

    assert {"limit", "upstream_requests", "4/4", "8/16", "850", "ms"} <= set(texts(svg))
    assert not re.search("[▁-█]", svg)
    bars = [
        float(element.attrib["width"])
        for element in ET.fromstring(svg).iter(f"{SVG}rect")  # noqa: S314 - our own
        if element.attrib.get("class", "").startswith("demo-r")
    ]
    assert max(bars) >= 8 * script.CHARACTER
    assert len(bars) >= 4


def test_the_picture_is_of_today_and_loads_nothing() -> None:
    svg = (DOCS / "demo.svg").read_text(encoding="utf-8")

    words = set(texts(svg))
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "").replace("https://www.textualize.io", "")
    assert {"upstream_requests", "library_verifier", "rollouts", "4/4", "!"} <= words
    assert {"receiver", "reporter", "pushmetrics", "demo"} <= words
    known = {word for forms in HEADINGS.values() for form in forms for word in form.split()}
    assert len(words & known) >= 6
