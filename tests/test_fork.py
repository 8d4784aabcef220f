"""A fork: the child has its own counts, socket and slots, and the parent keeps its own."""

from __future__ import annotations

import asyncio
import socket
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from pushmetrics.receiver import Receiver

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork there")

HEAD = """
import asyncio, logging, os, signal, sys, warnings
signal.alarm(60)  # It ends, though the test that waits for it may have been killed.
from pushmetrics import MeteredSemaphore, Registry, Reporter, default_registry

warnings.simplefilter("ignore", DeprecationWarning)  # Threads and forks do not mix, and people mix them.
ADDRESS = sys.argv[1]
limit = MeteredSemaphore(3, component="api", limit_name="calls")

async def use(times):
    for _ in range(times):
        async with limit:
            pass
"""


@pytest.fixture(params=["udp", "unix", "unixstream"])
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Receiver, str]]:
    async with Receiver(bucket_seconds=1) as receiver:
        if request.param == "udp":
            host, port = await receiver.listen_udp("127.0.0.1", 0)
            yield receiver, f"udp://{host}:{port}"
        else:
            path = tmp_path / "agent.socket"
            await getattr(receiver, f"listen_{request.param}")(path)
            yield receiver, f"{request.param}://{path}"


async def run(program: str, *arguments: str) -> str:
    """Run a program in an interpreter without threads, and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-c",
        HEAD + textwrap.dedent(program),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, errors.decode()
    assert errors == b""
    return output.decode()


def total(receiver: Receiver, name: str) -> float:
    return sum(value for (full, _), value in receiver.totals().items() if full.endswith(f".{name}"))


@pytest.mark.parametrize("first", ["parent", "child"])
async def test_events_before_and_after_a_fork_are_counted_once(agent: tuple[Receiver, str], first: str) -> None:
    receiver, address = agent
    await run(
        """
        async def child():
            await use(2)
            async with reporter:
                await reporter.flush()

        async def main():
            global reporter
            reporter = Reporter(sink=ADDRESS)
            async with reporter:
                await reporter.flush()
                await use(5)
                go_on, parent_has_flushed = os.pipe()
                pid = os.fork()
                if pid == 0:
                    if sys.argv[2] == "parent":
                        os.read(go_on, 1)
                    asyncio.run(child())
                    os._exit(0)
                if sys.argv[2] == "parent":
                    await reporter.flush()
                    os.write(parent_has_flushed, b".")
                await asyncio.to_thread(os.waitpid, pid, 0)
                await reporter.flush()
                await use(1)
                await reporter.flush()

        asyncio.run(main())
        """,
        address,
        first,
    )

    assert total(receiver, "admissions_total") == 8
    assert receiver.statistics().refused == 0
    assert {series.tags[-1] for series in receiver.series("gym.concurrency.active")} == {"limit_name:calls", "worker:1"}


async def test_a_watched_limiter_is_watched_in_the_child_too(agent: tuple[Receiver, str]) -> None:
    receiver, address = agent
    await run(
        """
        from pushmetrics import watch

        semaphore = watch(asyncio.BoundedSemaphore(4), component="api", limit_name="watched")

        async def child():
            await semaphore.acquire()
            async with Reporter(sink=ADDRESS):
                pass

        async def main():
            await semaphore.acquire()
            async with Reporter(sink=ADDRESS) as reporter:
                await reporter.flush()
                pid = os.fork()
                if pid == 0:
                    assert semaphore in default_registry
                    asyncio.run(child())
                    os._exit(0)
                _, status = await asyncio.to_thread(os.waitpid, pid, 0)
                assert status == 0
                await reporter.flush()
                default_registry.unregister(semaphore)
                assert semaphore not in default_registry

        asyncio.run(main())
        """,
        address,
    )

    active = {
        series.tags[-1]: point.value
        for series in receiver.series("gym.concurrency.active")
        if "limit_name:watched" in series.tags and (point := series.latest())
    }
    assert active == {"limit_name:watched": 0, "worker:1": 2}
    assert receiver.statistics().refused == 0


async def test_a_reporter_that_is_not_started_in_the_child_is_off_there(agent: tuple[Receiver, str]) -> None:
    receiver, address = agent
    printed = await run(
        """
        from pushmetrics import PushmetricsError

        async def child():
            try:
                await reporter.flush()
            except PushmetricsError as error:
                print(error)

        async def main():
            global reporter
            reporter = Reporter(sink=ADDRESS)
            async with reporter:
                await reporter.flush()
                await use(5)
                pid = os.fork()
                if pid == 0:
                    await use(2)
                    await reporter.aclose()
                    asyncio.run(child())
                    sys.stdout.flush()
                    os._exit(0)
                await asyncio.to_thread(os.waitpid, pid, 0)
                assert reporter.is_running

        asyncio.run(main())
        """,
        address,
    )

    assert "is not running; start it" in printed
    assert total(receiver, "admissions_total") == 5


async def test_the_child_has_a_socket_of_its_own() -> None:
    # Frames of two processes in one stream would get mixed, and an error that one of them reads is lost to the other.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.setblocking(False)
        await run(
            """
            reporter = Reporter(sink=ADDRESS)

            async def flush():
                async with reporter:
                    await reporter.flush()

            async def main():
                async with reporter:
                    await reporter.flush()
                    pid = os.fork()
                    if pid == 0:
                        asyncio.run(flush())
                        os._exit(0)
                    await asyncio.to_thread(os.waitpid, pid, 0)
                    await reporter.flush()

            asyncio.run(main())
            """,
            f"udp://127.0.0.1:{agent.getsockname()[1]}",
        )
        senders = set()
        with suppress(BlockingIOError):
            while True:
                senders.add(agent.recvfrom(65536)[1])

    assert len(senders) == 2


async def test_what_the_parent_still_owes_is_not_the_childs(tmp_path: Path) -> None:
    async with Receiver() as receiver:
        path = tmp_path / "agent.socket"
        await receiver.listen_unix(path)
        printed = await run(
            """
            logging.disable()
            registry = Registry(max_series=2)
            limits = [MeteredSemaphore(1, component="api", limit_name=f"l{n}", registry=registry) for n in range(3)]
            reporter = Reporter(sink=ADDRESS, registry=registry, level="full")

            async def use_and_drop():
                gone = MeteredSemaphore(1, component="api", limit_name="l0", registry=registry)
                for semaphore in (gone, limits[0]):
                    async with semaphore:
                        waiter = asyncio.create_task(semaphore.acquire())
                        await asyncio.sleep(0)
                        waiter.cancel()
                        await asyncio.wait([waiter])

            async def before():
                os.rename(sys.argv[2], sys.argv[2] + ".away")
                async with reporter:
                    await use_and_drop()
                    assert (await reporter.flush()).failures
                os.rename(sys.argv[2] + ".away", sys.argv[2])

            async def child():
                async with reporter:
                    assert not (await reporter.flush()).failures

            asyncio.run(before())
            pid = os.fork()
            if pid == 0:
                asyncio.run(child())
                os._exit(0)
            os.waitpid(pid, 0)
            """,
            f"unix://{path}",
            str(path),
        )

        assert printed == ""
        totals = {name: value for (name, _), value in receiver.totals().items()}
        assert totals
        assert set(totals.values()) == {0}
        assert receiver.latest("gym.concurrency.active_peak", limit_name="l0").value == 0
        assert receiver.series("gym.concurrency.queue_duration_ms") == []


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
async def test_multiprocessing(tmp_path: Path, method: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        HEAD
        + textwrap.dedent(
            """
            import multiprocessing

            async def report(barrier):
                await use(3)
                async with Reporter(sink=ADDRESS) as reporter:
                    await reporter.flush()
                    barrier.wait()

            def work(barrier):
                asyncio.run(report(barrier))

            if __name__ == "__main__":
                context = multiprocessing.get_context(sys.argv[2])
                asyncio.run(use(5))
                barrier = context.Barrier(3)
                workers = [context.Process(target=work, args=(barrier,)) for _ in range(3)]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
            """
        )
    )
    async with Receiver() as receiver:
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        process = await asyncio.create_subprocess_exec(sys.executable, program, f"udp://{host}:{port}", method)
        assert await process.wait() == 0

        assert total(receiver, "admissions_total") == 9
        assert len(receiver.series("gym.concurrency.active")) == 3


async def test_a_fork_while_another_thread_holds_the_registry() -> None:
    printed = await run(
        """
        import threading
        stop = threading.Event()

        def read():
            while not stop.is_set():
                list(default_registry.collect())

        # Daemons: whatever ends the main thread, be it a failed assertion or Ctrl-C, ends the program.
        threads = [threading.Thread(target=read, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            pid = os.fork()
            if pid == 0:
                MeteredSemaphore(1, component="api", limit_name="of_the_child")
                assert len(default_registry) == 2
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        print("done")
        """,
        "",
    )

    assert printed == "done\n"


async def test_a_limit_whose_lock_is_held_at_the_fork_does_not_hold_the_child() -> None:
    await run(
        """
        import threading
        from pushmetrics.model import Counters

        class Locked:
            tags, counters, lock = ("component:locked",), Counters(1), threading.Lock()

            def gauges(self):
                with self.lock:
                    return 1, 0, 0, 0

        locked = Locked()
        default_registry.register(locked)
        with locked.lock:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        (sample,) = [one for one in default_registry.collect() if one.descriptor.tags == locked.tags]
        assert sample.value("active_peak") == 1
        """,
        "",
    )
