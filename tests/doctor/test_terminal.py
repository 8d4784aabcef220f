"""`pushmetrics doctor` as a person runs it: on a terminal, in a pipe, and its exit status."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal import COLOUR, PROGRAM, on_a_terminal, terminal

from pushmetrics.doctor.report import MAX_LIMITS

CLOSED = "udp://127.0.0.1:1"
"""The port of tcpmux, at which nobody listens with UDP."""

MANY_LIMITS = """
from pushmetrics import MeteredSemaphore
limits = [MeteredSemaphore(4, component="api", limit_name=f"limit_{number}") for number in range(30)]
"""


@pytest.fixture
def agent() -> Iterator[str]:
    """The address of somebody who listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"udp://127.0.0.1:{sock.getsockname()[1]}"


def doctor(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", PROGRAM, "doctor", *arguments],
        env={**os.environ, "PYTHONUTF8": "1", **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


class TestOnATerminal:
    pytestmark = on_a_terminal

    def test_all_of_it_is_on_one_screen(self, agent: str) -> None:
        with terminal("doctor", PUSHMETRICS_SINK=agent, DD_ENV="prod", DD_SERVICE="api") as screen:
            seen = screen.show(r"Nothing is wrong: what a program pushes from here is taken\.")
            status, _ = screen.end()

        assert status == 0
        assert "What a program started here would do" in seen, "the first line has not scrolled away"
        assert re.search(r"^ok +listener +Somebody listens", seen, re.MULTILINE)
        assert screen.colours >= {"green"}

    def test_what_is_wrong_is_on_one_screen_too(self) -> None:
        with terminal("doctor", PUSHMETRICS_SINK=CLOSED) as screen:
            seen = screen.show(r"Wrong: listener\.")
            status, _ = screen.end()

        assert status == 1
        assert "What a program started here would do" in seen
        assert re.search(r"^wrong +listener +Nobody took the gauge", seen, re.MULTILINE)
        assert screen.colours >= {"red"}

    def test_without_colour_it_reads_as_well(self) -> None:
        with terminal("doctor", PUSHMETRICS_SINK=CLOSED, NO_COLOR="1") as screen:
            screen.show(r"Wrong: listener\.")
            status, _ = screen.end()

        assert status == 1
        assert not COLOUR.search(screen.raw)

    def test_of_many_limits_a_terminal_shows_a_few(self, agent: str, tmp_path: Path) -> None:
        (tmp_path / "service_of_many.py").write_text(MANY_LIMITS, encoding="utf-8")
        with terminal(
            "doctor", "--module", "service_of_many", lines=60, PUSHMETRICS_SINK=agent, PYTHONPATH=str(tmp_path)
        ) as screen:
            seen = screen.show(r"Nothing is wrong")
            screen.end()

        assert seen.count("api limit_") == MAX_LIMITS
        assert f"and {30 - MAX_LIMITS} more, which a pipe would show" in seen


class TestInAPipe:
    def test_all_is_well(self, agent: str, tmp_path: Path) -> None:
        (tmp_path / "service_of_many.py").write_text(MANY_LIMITS, encoding="utf-8")

        finished = doctor("--module", "service_of_many", cwd=tmp_path, PUSHMETRICS_SINK=agent)

        assert finished.returncode == 0, finished.stderr
        assert finished.stderr == ""
        assert "\x1b" not in finished.stdout
        assert max(map(len, finished.stdout.splitlines())) == 80
        assert finished.stdout.count("api limit_") == 30

    def test_everything_is_wrong_and_nothing_is_logged(self, tmp_path: Path) -> None:
        (tmp_path / "broken.py").write_text("1 / 0\n", encoding="utf-8")
        variables = {"PUSHMETRICS_LEVEL": "all", "DD_DOGSTATSD_PORT": "udp://10.0.0.1:8125", "DD_ENV": "?"}

        finished = doctor(
            "--module", "broken", cwd=tmp_path, DD_DOGSTATSD_URL=CLOSED, PUSHMETRICS_SINK="x", **variables
        )

        assert finished.returncode == 1
        assert finished.stderr == ""
        assert finished.stdout.splitlines()[-1] == "Wrong: level, client's tags, address, listener, limits."
        assert "broken can not be imported: ZeroDivisionError: division by zero (broken.py, line 1)" in " ".join(
            finished.stdout.split()
        )

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a device that is full")
    def test_a_full_disk_is_one_line(self, agent: str, tmp_path: Path) -> None:
        with Path("/dev/full").open("w") as full:
            finished = subprocess.run(
                [PROGRAM, "doctor"],
                env={**os.environ, "PUSHMETRICS_SINK": agent},
                cwd=tmp_path,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=30,
            )

        assert finished.returncode == 1
        assert re.fullmatch(r"Error: can not write the output \(.*\); write it elsewhere\n", finished.stderr)

    def test_what_the_client_logs_at_its_import_is_left_out(self, agent: str, tmp_path: Path) -> None:
        finished = doctor(cwd=tmp_path, PUSHMETRICS_SINK=agent, DD_DOGSTATSD_PORT="udp://10.0.0.1:8125")

        assert finished.returncode == 0
        assert finished.stderr == ""

    def test_a_reader_that_has_gone_is_no_error(self, agent: str, tmp_path: Path) -> None:
        command = f"'{sys.executable}' '{PROGRAM}' doctor | true"
        finished = subprocess.run(  # noqa: S602 - a pipe as a shell makes it
            command,
            shell=True,
            env={**os.environ, "PUSHMETRICS_SINK": agent},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

        assert finished.stderr == ""
