"""`pushmetrics demo` as a program of its own: what a person sees, and what is left when it has ended."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from pushmetrics.dogstatsd import parse

pytestmark = [
    pytest.mark.demo,
    pytest.mark.skipif(sys.platform == "win32", reason="process groups and their signals are POSIX"),
]

PROGRAM = str(Path(sysconfig.get_path("scripts"), "pushmetrics"))
AGREES = "all 13 counters arrived exactly as they happened"
LIMITS = {
    "rollout_driver rollouts": 16,
    "model_server upstream_requests policy_model": 4,
    "resources_server library_verifier math_with_judge": 2,
}
TRACES = re.compile(r"Traceback|Warning|Exception ignored|was never|was destroyed|KeyboardInterrupt")


class Demo:
    """A running demo, in a process group of its own as in a terminal, under all of Python's own checks."""

    def __init__(self, process: subprocess.Popen[str], token: str) -> None:
        self._process = process
        self._token = token
        self.lines: list[str] = []

    def read_until(self, pattern: str) -> None:
        """Read lines up to the first that `pattern` matches."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            if re.search(pattern, line):
                return
        pytest.fail(f"no line matches {pattern!r}:\n" + "\n".join(self.lines))

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, as a terminal does at Ctrl-C."""
        os.killpg(self._process.pid, number)

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit status and standard error."""
        rest, errors = self._process.communicate(timeout=30)
        self.lines += rest.splitlines()
        return self._process.returncode, errors

    def left_processes(self) -> list[str]:
        """Processes that it started and that are still there, after the moment that a killed one needs to go."""
        for _ in range(20):
            left = [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if self._token in _text(path)]
            if not left:
                break
            time.sleep(0.1)
        return left


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[Demo]:
    token = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", PROGRAM, "demo", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DEMO_TOKEN": token, **environment},
        start_new_session=True,
    ) as process:
        demo = Demo(process, token)
        try:
            yield demo
        finally:
            if process.poll() is None:
                process.kill()
        assert demo.left_processes() == []


class Tick(NamedTuple):
    """A line of one limit at one flush."""

    limit: str
    values: dict[str, int]


def ticks(lines: list[str]) -> list[Tick]:
    found = []
    for line in lines:
        if match := re.fullmatch(r"([a-z_ ]+?) +(limit +\d+(?: +[a-z]+ +\d+)+)", line):
            pairs = re.findall(r"([a-z]+) +(\d+)", match[2])
            found.append(Tick(" ".join(match[1].split()), {label: int(value) for label, value in pairs}))
    return found


def test_the_limits_fill_and_queue_and_time_out_and_drain_and_all_of_it_arrives() -> None:
    with running("--duration", "3") as demo:
        status, errors = demo.end()

    seen = ticks(demo.lines)
    assert status == 0, errors
    assert not TRACES.search(errors)
    assert re.fullmatch(r"Pushing every 1 s at level standard to udp://127\.0\.0\.1:\d+; this arrived:", demo.lines[1])
    assert {tick.limit for tick in seen} == set(LIMITS)
    for name, limit in LIMITS.items():
        values = [tick.values for tick in seen if tick.limit == name]
        assert len(values) >= 4, "one flush at the start, one each second, one at the end"
        assert {value["limit"] for value in values} == {limit}
        assert max(value["active"] for value in values) == limit
        assert max(value["peak"] for value in values) > 0
        assert (values[-1]["active"], values[-1]["queued"]) == (0, 0)
        assert [value["cancelled"] for value in values] == sorted(value["cancelled"] for value in values)
    server = [tick.values for tick in seen if tick.limit.startswith("model_server")]
    assert max(value["queued"] for value in server) > 0
    assert server[-1]["timeouts"] > 0
    assert all("timeouts" not in tick.values for tick in seen if not tick.limit.startswith("model_server"))
    assert re.search(r"\d+ rollouts: \d+ answered right, .*\d+ refused by the model server", "\n".join(demo.lines))
    assert AGREES in demo.lines[-1]


def test_the_columns_do_not_jump() -> None:
    with running("--duration", "1.5", "--flush-interval", "0.1") as demo:
        status, errors = demo.end()

    assert status == 0, errors
    for name in LIMITS:
        rows = [line for line in demo.lines if " ".join(line.split()).startswith(f"{name} limit")]
        assert len(rows) > 8
        assert len({tuple(word.end() for word in re.finditer(r"[a-z]+|\d+", row)) for row in rows}) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_with_the_last_flush_and_the_summary(number: signal.Signals) -> None:
    with running("--duration", "60") as demo:
        demo.read_until(r"model_server .* active  4  queued +[1-9]")
        began = time.monotonic()
        demo.signal_group(number)
        status, errors = demo.end()

    assert status == 0, errors
    assert not TRACES.search(errors)
    assert time.monotonic() - began < 10
    assert "cut off at the end" in "\n".join(demo.lines)
    assert AGREES in demo.lines[-1]
    assert [tick.values["active"] for tick in ticks(demo.lines)[-3:]] == [0, 0, 0]


def test_at_the_level_core_only_the_counters_of_that_level_exist() -> None:
    with running("--duration", "1", "--flush-interval", "0.2", "--level", "core") as demo:
        status, errors = demo.end()

    assert status == 0, errors
    assert {label for tick in ticks(demo.lines) for label in tick.values} == {
        "limit",
        "active",
        "queued",
        "timeouts",
        "cancelled",
    }
    assert "all 4 counters arrived exactly as they happened" in demo.lines[-1]


def test_with_agent_it_pushes_to_the_agent_that_the_variables_name() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        host, port = agent.getsockname()
        with running(
            "--agent", "--duration", "1", "--flush-interval", "0.5", DD_AGENT_HOST=host, DD_DOGSTATSD_PORT=str(port)
        ) as demo:
            status, errors = demo.end()
        agent.setblocking(False)
        totals: Counter[tuple[str, str]] = Counter()
        try:
            while True:
                lines, refused = parse(agent.recv(65535))
                assert not refused
                for line in lines:
                    if line.kind == "c" and line.tags:
                        totals[line.tags[0], line.name.rpartition(".")[2]] += int(line.values[0])
        except BlockingIOError:
            pass

    text = "\n".join(demo.lines)
    assert status == 0, errors
    assert f"to the Agent at udp://{host}:{port}; this was pushed:" in text
    assert "nothing is compared" in demo.lines[-1]
    assert "exactly" not in text
    last = {tick.limit: tick.values for tick in ticks(demo.lines)}
    for name, values in last.items():
        assert values["cancelled"] == totals[f"component:{name.split()[0]}", "admission_cancelled_total"]
    assert (
        last["model_server upstream_requests policy_model"]["timeouts"]
        == (totals["component:model_server", "admission_timeouts_total"])
    )


def test_with_an_agent_that_is_away_it_says_so_once_and_fails() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
    with running("--agent", "--duration", "1", "--flush-interval", "0.2", DD_DOGSTATSD_PORT=str(port)) as demo:
        status, errors = demo.end()

    said = [line for line in errors.splitlines() if line.startswith("pushmetrics:")]
    assert status == 1
    assert len(said) == 1
    assert "ECONNREFUSED" in said[0]
    assert "Is it running?" in "\n".join(demo.lines)
    assert ticks(demo.lines) == []


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    with running("--duration", "60", "--flush-interval", "0.1") as demo:
        demo.read_until("this arrived:")
        assert demo._process.stdout is not None
        demo._process.stdout.close()
        status = demo._process.wait(timeout=30)
        assert demo._process.stderr is not None
        errors = demo._process.stderr.read()

    assert status == 1
    assert not TRACES.search(errors)
