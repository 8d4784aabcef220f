"""`pushmetrics dashboards show`, as a program: on a terminal, in a pipe, over a socket and with the demo."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pushes import DRIVER, HEALTH, SERVER
from terminal import terminal

from pushmetrics.dashboards import load


def lines_of(tags: tuple[str, ...], **values: int) -> bytes:
    suffix = ",".join(tags)
    kinds = {name: "c" if name.endswith("_total") else "g" for name in values}
    return "\n".join(
        f"gym.concurrency.{name}:{value}|{kinds[name]}|#{suffix}" for name, value in values.items()
    ).encode()


def show(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pushmetrics", "dashboards", "show", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def send_until_it_ends(program: subprocess.Popen[str], path: Path, payload: bytes) -> tuple[str, str]:
    def send() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            while program.poll() is None:
                if path.exists():
                    sender.connect(str(path))
                    sender.send(payload)
                time.sleep(0.05)

    def quietly() -> None:
        with suppress(OSError):  # It has ended meanwhile.
            send()

    sending = threading.Thread(target=quietly)
    sending.start()
    output, errors = program.communicate(timeout=40)
    sending.join()
    return output, errors


def test_in_a_pipe_all_of_it_is_printed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "dsd.socket"
    program = show(
        "limit_detail", "--unix", str(path), "--duration", "3", "--bucket", "0.5", "--pick", "limit_name=rollouts"
    )
    payload = b"\n".join(
        [
            lines_of(SERVER, limit=4, active=4, available=0, queue_depth=10),
            lines_of(DRIVER, limit=16, active=12, available=4, queue_depth=0),
            HEALTH,
        ]
    )
    output, errors = send_until_it_ends(program, path, payload)

    assert program.returncode == 0, errors
    assert errors == ""
    assert re.search(
        r"^Concurrency limit \(gym.concurrency\)  limit_name:rollouts\n900 s in buckets of 0.5 s, unix://", output
    )
    assert re.search(r"^Limit +16$", output, re.MULTILINE)
    assert re.search(r"^Queued +0$", output, re.MULTILINE)
    assert re.search(r"^active .*▆ +12 +12$", output, re.MULTILINE)
    assert re.search(r"^Oldest wait +no data$", output, re.MULTILINE)
    assert "\x1b" not in output


@pytest.mark.demo
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (132, 50)])
def test_with_the_demo_on_a_terminal_it_is_drawn_live_and_left_behind(columns: int, rows: int) -> None:
    with terminal(
        "dashboards", "show", "concurrency_limits", "--demo", "--duration", "5", columns=columns, lines=rows
    ) as screen:
        shown = screen.show(r"(?s)\d+% ▆+▁* upstream_requests model_server.*Ctrl-C ends it")
        status, left = screen.end()

    assert status == 0
    assert "Concurrency limits (gym.concurrency)" in shown
    assert "Wanted of each slot, active and queued" in shown
    assert re.search(r"rollouts rollout_driver", left)
    assert "The reporter's health" in left


def test_lines_that_no_query_can_take_cost_their_own_panels(tmp_path: Path) -> None:
    path = tmp_path / "dsd.socket"
    program = show("concurrency_limits", "--unix", str(path), "--duration", "2", "--bucket", "0.5")
    payload = b"\n".join(
        [
            lines_of(SERVER, limit=4, active=4, oldest_wait_ms=4_000),
            *(b"gym.concurrency.active_peak:5|%s|#limit_name:x" % kind for kind in (b"s", b"g")),
            *(b"gym.concurrency.queue_depth:1.7e308|g|#limit_name:huge,server:%s" % name for name in (b"a", b"b")),
        ]
    )
    output, errors = send_until_it_ends(program, path, payload)

    assert program.returncode == 0, errors
    assert errors == ""
    assert re.search(r"^Peak of active, by limit\nsum:gym.concurrency.active_peak\{", output, re.MULTILINE)
    assert "only gauges, counts and" in output
    assert re.search(r"^upstream_requests model_server .* 100%$", output, re.MULTILINE)


@pytest.mark.parametrize("damage", ["no variables", "other widgets", "other requests"])
def test_a_dashboard_of_another_form_is_an_error_before_anything_is_drawn(tmp_path: Path, damage: str) -> None:
    body = load("limit_detail").body
    if damage == "no variables":
        del body["template_variables"]
    else:
        others = {
            "other widgets": {"type": "free_text"},
            "other requests": {"type": "heatmap", "requests": {"fill": {}}},
        }
        body["widgets"] = [{"definition": others[damage]}]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    program = show(str(path), "--unix", str(tmp_path / "dsd.socket"), "--duration", "1")
    _, errors = program.communicate(timeout=40)

    assert program.returncode == 1
    assert errors.startswith("Error: mine has not the form of a dashboard that can be shown")


@pytest.mark.parametrize("key", ["alias", "palette", "comparator"])
def test_a_name_or_colour_that_is_no_text_is_an_error_before_there_is_data(tmp_path: Path, key: str) -> None:
    body = load("limit_detail").body
    title, place = next(places_of(key, body["widgets"]))
    place[key] = ["x"]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    program = show(str(path), "--unix", str(tmp_path / "dsd.socket"), "--duration", "1")
    _, errors = program.communicate(timeout=40)

    assert program.returncode == 1
    assert errors == f"Error: {title}: {key}: expected a string, got ['x']\n"


def places_of(key: str, value: Any, title: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object in a dashboard that has this key, with the title of its widget."""
    if isinstance(value, dict):
        title = value.get("title", title)
        if key in value:
            yield title, value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from places_of(key, item, title)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["concurrency_limits"], "say either --demo, or where to listen"),
        (["concurrency_limits", "--demo", "--udp", "localhost:0"], "say either --demo, or where to listen"),
        (["concurrency_limits", "--demo", "--bucket", "10"], "the demo has buckets of 1 s"),
        (["concurrency_limits", "--demo", "--pick", "env"], "expected NAME=VALUE, such as env=prod, got 'env'"),
        (["concurrency_limits", "--demo", "--pick", "region=eu"], "has no variable 'region'; it has: component"),
        (["oldest_wait", "--demo"], "oldest_wait is a monitor; a dashboard can be shown"),
        (["nothing", "--demo"], "there is no template 'nothing'; these are: concurrency_limits"),
    ],
)
def test_what_can_not_be_shown_is_an_error(arguments: list[str], complaint: str) -> None:
    program = show(*arguments)
    output, errors = program.communicate(timeout=40)

    assert program.returncode in {1, 2}
    assert output == ""
    assert complaint in errors
    assert "Traceback" not in errors
