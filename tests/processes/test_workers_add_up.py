"""Several processes of one service: what they push adds up to what is there, whoever dies or is replaced."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pushmetrics.receiver import Receiver

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform == "win32", reason="no worker slots there"),
]

HERE = Path(__file__).parent
BUCKET_SECONDS = 2.0
"""The Agent's are of 10 s. The processes flush four times in each, so that one that is late leaves no gap."""

FOUR = {"", "worker:1", "worker:2", "worker:3"}
"""The worker tags of four processes."""

METRICS = ("service.limit", "service.active")


class Watched(Receiver):
    """What the processes pushed, summed over the tag `worker`."""

    def sums(self, since: float = 0) -> dict[str, list[float]]:
        """Of each metric, the sum of all series in each bucket that began after `since` and is over."""
        sums: dict[str, dict[int, float]] = {}
        for name in METRICS:
            of_bucket = sums.setdefault(name, {})
            for series in self.series(name):
                for point in series.points():
                    if point.timestamp >= since:
                        of_bucket[point.timestamp] = of_bucket.get(point.timestamp, 0) + point.value
        return {name: [value for _, value in sorted(of_bucket.items())] for name, of_bucket in sums.items()}

    def workers(self) -> set[str]:
        """The worker tags that ever came; "" for none."""
        tags = {series.tags for series in self.series("service.active")}
        return {next((tag for tag in one if tag.startswith("worker:")), "") for one in tags}

    def now(self) -> float:
        """The beginning of the newest bucket in which something came."""
        newest = [series.points(open_bucket=True)[-1].timestamp for series in self.series("service.active")]
        return max(newest, default=0)

    async def settle(self, total: float) -> None:
        """Wait until two buckets in a row, from now on, have this sum."""
        since = self.now()
        await until(lambda: all(values[-2:] == [total, total] for values in self.sums(since).values()))

    async def stay(self, total: float, buckets: int = 3) -> None:
        """See so many buckets, from now on, each of which has this sum."""
        since = self.now()
        await until(lambda: all(len(values) >= buckets for values in self.sums(since).values()))
        for values in self.sums(since).values():
            assert set(values) == {total}, values


async def until(condition: Callable[[], bool]) -> None:
    """Wait for other processes."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is in other processes sets no event here
            await asyncio.sleep(0.1)


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Watched]:
    async with Watched(bucket_seconds=BUCKET_SECONDS) as receiver:
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        monkeypatch.setenv("PUSHMETRICS_SINK", f"udp://{host}:{port}")
        monkeypatch.setenv("PUSHMETRICS_FLUSH_INTERVAL", "0.5")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setenv("HOME", str(tmp_path))  # Where gunicorn has its control socket.
        yield receiver


@asynccontextmanager
async def running(*command: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a server in a process group of its own, which is ended with it."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=HERE, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield process
        except BaseException:
            print(log.read_text())  # noqa: T201 - pytest shows it beside the failure
            raise
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), 20)
                except TimeoutError:
                    os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()


def workers_of(server: asyncio.subprocess.Process) -> set[int]:
    """The worker processes of a server: its children, but for the one that multiprocessing has beside them."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if parent == server.pid and b"resource_tracker" not in (status.parent / "cmdline").read_bytes():
                found.add(int(status.parent.name))
        except OSError:  # It ended meanwhile.
            continue
    return found


async def test_four_processes_one_of_which_is_killed_and_replaced(receiver: Watched) -> None:
    processes = []

    async def start() -> None:
        processes.append(await asyncio.create_subprocess_exec(sys.executable, HERE / "service.py"))

    try:
        for _ in range(4):
            await start()
        await receiver.settle(100)
        await receiver.stay(100)
        processes[1].kill()
        await receiver.settle(75)
        await receiver.stay(75)
        await start()
        await receiver.settle(100)
        await receiver.stay(100)
        assert receiver.workers() == FOUR
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


GUNICORN = ("-m", "gunicorn", "-k", "uvicorn_worker.UvicornWorker", "-w", "4", "-b", "127.0.0.1:0", "service:app")
SERVERS = {
    "gunicorn": GUNICORN,
    "gunicorn, preloaded": (*GUNICORN, "--preload"),
    "uvicorn": ("-m", "uvicorn", "--workers", "4", "--port", "0", "service:app"),
}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the workers are found through /proc")
@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_that_replaces_a_killed_worker_and_restarts_all_of_them(
    receiver: Watched, tmp_path: Path, name: str
) -> None:
    async with running(*SERVERS[name], log=tmp_path / "server.log") as server:
        await receiver.settle(100)
        await receiver.stay(100)
        first = workers_of(server)
        assert len(first) == 4

        os.kill(min(first), signal.SIGKILL)
        await until(lambda: min(first) not in workers_of(server) and len(workers_of(server)) == 4)
        await receiver.settle(100)
        await receiver.stay(100)
        assert receiver.workers() == FOUR

        second = workers_of(server)
        server.send_signal(signal.SIGHUP)
        await until(lambda: not second & workers_of(server) and len(workers_of(server)) == 4)
        await receiver.settle(100)
        await receiver.stay(100)
        assert len(receiver.workers()) <= 8, "as many as were ever alive at once"
