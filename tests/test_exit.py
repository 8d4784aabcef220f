"""How a program and a reporter end: what was counted last arrives, nothing waits, and nothing is left behind."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from pushmetrics import Registry, Reporter
from pushmetrics.dogstatsd import parse

if sys.platform == "win32":
    pytest.skip("Windows sends no signals to a process of its own accord", allow_module_level=True)

COMMON = """
import asyncio, logging, signal, socket, sys, time
from pushmetrics import MeteredSemaphore, Reporter

limit = MeteredSemaphore(1, component="program", limit_name="calls")
reporter = Reporter(sink=sys.argv[1])
logging.getLogger("asyncio").setLevel(logging.ERROR)  # On a busy machine it warns of slow callbacks.

async def count():
    # The first flush has gone, and the next one is seconds away.
    await reporter.flush()
    for _ in range(3):
        async with limit:
            pass
    print("ready", flush=True)
"""

WAITS = """
async def main():
    async with reporter:
        await count()
        await asyncio.Event().wait()
"""

ENDINGS = {
    "returns": """
async def main():
    async with reporter:
        await count()
asyncio.run(main())
""",
    "exception": """
async def main():
    async with reporter:
        await count()
        1 / 0
asyncio.run(main())
""",
    "exit": """
async def main():
    async with reporter:
        await count()
        sys.exit(3)
asyncio.run(main())
""",
    "interrupt": f"""
{WAITS}
asyncio.run(main())
""",
    "handled SIGTERM": """
async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    try:
        async with reporter:
            await count()
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        pass
asyncio.run(main())
""",
    "SIGTERM": f"""
{WAITS}
asyncio.run(main())
""",
    "closed loop": """
async def main():
    await reporter.start()
    await count()
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
""",
    "run without aclose": """
async def main():
    await reporter.start()
    await count()
asyncio.run(main())
""",
}

SIGNALS = {"interrupt": signal.SIGINT, "handled SIGTERM": signal.SIGTERM, "SIGTERM": signal.SIGTERM}


class Ended(NamedTuple):
    """A program that has ended."""

    status: int
    errors: str


def run(program: str, address: str, how: str) -> Ended:
    """Run a program to its end, every warning an error, and send it the signal that its ending needs.

    One that hangs fails the test; how fast a program ends is not measured here, since a busy machine is slow.
    """
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program, address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if how in SIGNALS:
            process.send_signal(SIGNALS[how])
        _, errors = process.communicate(timeout=50)
        return Ended(process.returncode, errors)


@pytest.fixture
def agent() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.setblocking(False)
        yield agent


def admissions(agent: socket.socket) -> float:
    total = 0.0
    while True:
        try:
            datagram = agent.recv(65536)
        except BlockingIOError:
            return total
        for line in parse(datagram)[0]:
            total += line.values[0] if line.name == "gym.concurrency.admissions_total" else 0


def test_programs_can_be_interrupted_though_the_tests_run_in_the_background_of_a_shell() -> None:
    code = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path.insert(0, sys.argv[1])
import conftest
sys.exit(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)
"""
    assert subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], check=False).returncode == 0


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("returns", 0, ""),
        ("run without aclose", 0, ""),
        ("exception", 1, "ZeroDivisionError: division by zero"),
        ("exit", 3, ""),
        ("interrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("handled SIGTERM", 0, ""),
    ],
)
def test_the_last_interval_arrives(how: str, status: int, said: str, agent: socket.socket) -> None:
    ended = run(COMMON + ENDINGS[how], f"udp://127.0.0.1:{agent.getsockname()[1]}", how)

    assert ended.status == status
    assert (ended.errors.splitlines() or [""])[-1] == said
    assert ended.errors.count("Traceback") == (1 if said == "ZeroDivisionError: division by zero" else bool(said) * 2)
    assert "Exception ignored" not in ended.errors
    assert admissions(agent) == 3


@pytest.mark.parametrize(("how", "status"), [("SIGTERM", -signal.SIGTERM), ("closed loop", 0)])
def test_what_ends_without_a_last_flush_ends_quietly(how: str, status: int, agent: socket.socket) -> None:
    ended = run(COMMON + ENDINGS[how], f"udp://127.0.0.1:{agent.getsockname()[1]}", how)

    assert ended.status == status
    # Of a loop that is closed under its tasks asyncio itself may complain, and rightly.
    assert ended.errors.count("Task was destroyed but it is pending!") <= (1 if how == "closed loop" else 0)
    assert "Exception ignored" not in ended.errors
    assert "Warning" not in ended.errors


SLOW_RESOLVER = """
import socket
real = socket.getaddrinfo
def getaddrinfo(*arguments, flags=0, **options):
    if not flags:
        time.sleep(3600)
    return real(*arguments, flags=flags, **options)
socket.getaddrinfo = getaddrinfo
"""


@pytest.mark.parametrize("how", ["returns", "interrupt", "SIGTERM", "closed loop"])
def test_a_resolver_that_hangs_does_not_hold_the_end_up(how: str) -> None:
    run(COMMON + SLOW_RESOLVER + ENDINGS[how], "udp://agent.example:8125", how)


@pytest.mark.parametrize("how", ["returns", "interrupt"])
def test_an_agent_whose_queue_is_full_does_not_hold_the_end_up(how: str, tmp_path: Path) -> None:
    path = tmp_path / "dsd.socket"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
    ):
        agent.bind(str(path))
        other.setblocking(False)
        other.connect(str(path))
        with suppress(OSError):  # EAGAIN on Linux, others elsewhere.
            while True:
                other.send(b"x")
        run(COMMON + ENDINGS[how], f"unix://{path}", how)


@pytest.mark.parametrize("how", ["returns", "interrupt"])
def test_an_agent_that_accepts_no_connection_does_not_hold_the_end_up(how: str, tmp_path: Path) -> None:
    path = tmp_path / "dsd.socket"
    with ExitStack() as stack:
        agent = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        agent.bind(str(path))
        agent.listen(0)
        with suppress(OSError):  # EAGAIN on Linux, others elsewhere.
            while True:  # A connect blocks when the backlog is full.
                client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                client.setblocking(False)
                client.connect(str(path))
        run(COMMON + ENDINGS[how], f"unixstream://{path}", how)


UDP4, UDP6 = (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_DGRAM)
DATAGRAM, STREAM = (socket.AF_UNIX, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM)


@pytest.mark.parametrize("alive", [True, False], ids=["alive", "gone"])
@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("udp://127.0.0.1", UDP4),
        ("udp://[::1]", UDP6),
        ("udp://localhost", UDP4),
        ("unix://", DATAGRAM),
        ("unixstream://", STREAM),
    ],
)
async def test_fifty_starts_and_stops_leave_nothing_open(
    address: str,
    kind: tuple[socket.AddressFamily, socket.SocketKind],
    alive: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pushmetrics.sinks.dogstatsd_sink.WAIT_SECONDS", 0.01)  # Nobody reads, so a queue is full soon.
    with socket.socket(*kind) as agent:
        if kind[0] is socket.AF_UNIX:
            agent.bind(str(tmp_path / "dsd.socket"))
            address += str(tmp_path / "dsd.socket")
        else:
            agent.bind(("::1" if kind is UDP6 else "127.0.0.1", 0))
            address += f":{agent.getsockname()[1]}"
        if kind is STREAM:
            agent.listen(100)
        if not alive:
            agent.close()

        before = open_descriptors()
        for _ in range(50):
            async with Reporter(registry=Registry(), sink=address) as reporter:
                await reporter.flush()
        for thread in threading.enumerate():
            if thread.name == "pushmetrics-lookup":
                await asyncio.to_thread(thread.join, 10)
        assert open_descriptors() == before


def open_descriptors() -> set[str]:
    return {descriptor.name for descriptor in Path("/dev/fd").iterdir()}
