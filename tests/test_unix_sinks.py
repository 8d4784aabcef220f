"""Unix sockets: queues that fill, files that are replaced, and frames that are taken in part."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from pushmetrics import DogStatsDSink, MeteredSemaphore, PushmetricsError, Registry
from pushmetrics.dogstatsd import parse

if sys.platform == "win32":
    pytest.skip("Windows has no Unix sockets for asyncio", allow_module_level=True)

import uvloop

Program = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Program], None]:
    """Run a coroutine function under the one or the other event loop."""

    def run(program: Program) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(program())

    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path that fits a socket's address, of which a temporary folder may leave little room."""
    path = tmp_path / "dsd.socket"
    if len(str(path)) > 100:
        os.chdir(tmp_path)
    return path


class Reader:
    """Somebody who listens on a socket file."""

    def __init__(self, path: Path, kind: socket.SocketKind = socket.SOCK_DGRAM) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, kind)
        self.socket.bind(str(path))
        if kind is socket.SOCK_STREAM:
            self.socket.listen()
        self.socket.settimeout(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def datagrams(self) -> list[bytes]:
        """What is in the queue now."""
        self.socket.setblocking(False)
        received = []
        while True:
            try:
                received.append(self.socket.recv(65536))
            except BlockingIOError:
                return received


def total(datagrams: list[bytes], name: str = "admissions_total") -> float:
    sum_ = 0.0
    for datagram in datagrams:
        lines, refused = parse(datagram)
        assert refused == []
        sum_ += sum(line.values[0] for line in lines if line.name == f"gym.concurrency.{name}")
    return sum_


def admitted(registry: Registry, number: int) -> list[MeteredSemaphore]:
    limits = [
        MeteredSemaphore(1, component="server", limit_name=f"limit-{place}", registry=registry)
        for place in range(number)
    ]
    for limit in limits:
        with pytest.raises(StopIteration):
            limit.acquire().send(None)
    return limits


def samples(registry: Registry) -> Iterator[Any]:
    return registry.collect("standard", "gym.concurrency")


class Heartbeat:
    """The longest time for which the loop gave nobody a turn."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def beat(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now


def test_a_slow_but_healthy_reader_loses_nothing(run: Callable[[Program], None], path: Path) -> None:
    registry = Registry(max_series=2000)
    limits = admitted(registry, 400)  # Some sixty datagrams; the queue holds about ten.
    received: list[bytes] = []

    with Reader(path) as reader:

        def read_slowly() -> None:
            while True:
                datagram = reader.socket.recv(65536)
                if datagram == b"end":
                    return
                received.append(datagram)
                time.sleep(0.002)

        thread = threading.Thread(target=read_slowly)
        thread.start()

        async def program() -> None:
            sink = DogStatsDSink(f"unix://{path}")
            delivery = await sink.push(samples(registry))
            assert delivery.failures == {}
            assert delivery.datagrams > 30
            await sink.aclose()

        run(program)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(str(path))
            sender.send(b"end")
        thread.join()

    assert total(received) == len(limits)
    assert max(map(len, received)) <= 8192


def test_a_reader_that_never_reads_costs_a_flush_its_patience_and_the_loop_nothing(
    run: Callable[[Program], None], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pushmetrics.sinks.dogstatsd_sink.WAIT_SECONDS", 0.2)
    registry = Registry(max_series=2000)
    limits = admitted(registry, 400)

    with Reader(path) as reader:

        async def program() -> None:
            heartbeat = Heartbeat()
            beating = asyncio.create_task(heartbeat.beat())
            sink = DogStatsDSink(f"unix://{path}")
            began = time.monotonic()
            delivery = await sink.push(samples(registry))
            took = time.monotonic() - began
            beating.cancel()

            assert delivery.failures == {"EAGAIN": 1}
            assert 0.2 <= took < 2
            assert heartbeat.longest < 0.15

            first = total(reader.datagrams())
            assert 0 < first < len(limits)
            reader_again = await sink.push(sample for sample in list(samples(registry))[:30])
            assert reader_again.failures == {}
            await sink.aclose()

        run(program)


def test_a_replaced_file_is_noticed_although_the_old_socket_still_takes_everything(
    run: Callable[[Program], None], path: Path
) -> None:
    registry = Registry()
    (limit,) = admitted(registry, 1)

    async def program() -> None:
        sink = DogStatsDSink(f"unix://{path}")
        with Reader(path) as old:
            await sink.push(samples(registry))
            assert total(old.datagrams()) == 1
            limit.release()
            await limit.acquire()
            path.unlink()
            with Reader(path) as new:  # While the old one is open: an orphaned inode.
                await sink.push(samples(registry))
                assert old.datagrams() == []
                assert total(new.datagrams()) == 1
        await sink.aclose()

    run(program)


def test_a_restarted_reader_costs_nothing_and_a_missing_one_loses_nothing(
    run: Callable[[Program], None], path: Path
) -> None:
    registry = Registry()
    (limit,) = admitted(registry, 1)

    async def program() -> None:
        sink = DogStatsDSink(f"unix://{path}")
        assert (await sink.push(samples(registry))).failures == {"ENOENT": 1}
        with Reader(path) as reader:
            assert (await sink.push(samples(registry))).failures == {}
            assert total(reader.datagrams()) == 1
        limit.release()
        await limit.acquire()
        assert (await sink.push(samples(registry))).failures == {"ECONNREFUSED": 1}
        path.unlink()
        with Reader(path) as reader:
            assert (await sink.push(samples(registry))).failures == {}
            assert total(reader.datagrams()) == 1
        await sink.aclose()

    run(program)


def read_frames(connection: socket.socket) -> list[bytes]:
    """Read frames until the other side closes; an incomplete one at the end is dropped, as the Agent does."""
    data = b""
    while chunk := connection.recv(4096):
        data += chunk
    frames = []
    while len(data) >= 4:
        (length,) = struct.unpack_from("<I", data)
        if len(data) < 4 + length:
            break
        frames.append(data[4 : 4 + length])
        data = data[4 + length :]
    return frames


def accept_and_read(reader: Reader) -> list[bytes]:
    connection, _ = reader.socket.accept()
    with connection:
        return read_frames(connection)


def test_a_stream_is_framed_and_a_slow_reader_gets_all_of_it(run: Callable[[Program], None], path: Path) -> None:
    registry = Registry(max_series=3000)
    limits = admitted(registry, 2000)  # More than the socket's buffers hold, so that frames are taken in part.
    frames: list[bytes] = []

    with Reader(path, socket.SOCK_STREAM) as reader:

        def read() -> None:
            connection, _ = reader.socket.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with connection:
                connection.settimeout(10)
                time.sleep(0.05)
                frames.extend(read_frames(connection))

        thread = threading.Thread(target=read)
        thread.start()

        async def program() -> None:
            sink = DogStatsDSink(f"unixstream://{path}")
            delivery = await sink.push(samples(registry))
            assert delivery.failures == {}
            await sink.aclose()

        run(program)
        thread.join()

    assert total(frames) == len(limits)
    assert max(map(len, frames)) <= 8192


def test_a_frame_taken_in_part_is_sent_again_whole_on_a_new_connection(
    run: Callable[[Program], None], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pushmetrics.sinks.dogstatsd_sink.WAIT_SECONDS", 0.1)
    registry = Registry(max_series=3000)
    limits = admitted(registry, 2000)

    with Reader(path, socket.SOCK_STREAM) as reader:

        async def program() -> None:
            sink = DogStatsDSink(f"unixstream://{path}")
            delivery = await sink.push(samples(registry))
            assert delivery.failures == {"EAGAIN": 1}
            stalled, _ = reader.socket.accept()
            with stalled:
                first = total(await asyncio.to_thread(read_frames, stalled))
            assert 0 < first < len(limits)

            reading = asyncio.create_task(asyncio.to_thread(accept_and_read, reader))
            monkeypatch.setattr("pushmetrics.sinks.dogstatsd_sink.WAIT_SECONDS", 5)
            assert (await sink.push(samples(registry))).failures == {}
            await sink.aclose()
            assert first + total(await reading) == len(limits)

        run(program)


def test_a_push_cancelled_in_the_middle_of_a_frame_leaves_nothing_of_it(
    run: Callable[[Program], None], path: Path
) -> None:
    registry = Registry(max_series=3000)
    limits = admitted(registry, 2000)

    with Reader(path, socket.SOCK_STREAM) as reader:

        async def program() -> None:
            sink = DogStatsDSink(f"unixstream://{path}")
            stuck = asyncio.create_task(sink.push(samples(registry)))
            stalled, _ = await asyncio.to_thread(reader.socket.accept)
            await asyncio.sleep(0.05)
            stuck.cancel()
            await asyncio.gather(stuck, return_exceptions=True)
            with stalled:
                first = total(await asyncio.to_thread(read_frames, stalled))

            reading = asyncio.create_task(asyncio.to_thread(accept_and_read, reader))
            assert (await sink.push(samples(registry))).failures == {}
            await sink.aclose()
            assert first + total(await reading) == len(limits)

        run(program)


def test_two_reporters_may_share_a_sink(
    run: Callable[[Program], None], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Their frames would get mixed: the rest of one taken for the whole of another.
    monkeypatch.setattr("pushmetrics.sinks.dogstatsd_sink.WAIT_SECONDS", 10)
    registries = [Registry(max_series=2000) for _ in range(2)]
    limits = [admitted(registry, 1500) for registry in registries]

    with Reader(path, socket.SOCK_STREAM) as reader:

        async def program() -> None:
            sink = DogStatsDSink(f"unixstream://{path}")
            pushes = [asyncio.create_task(sink.push(samples(registry))) for registry in registries]
            await asyncio.sleep(0.05)
            reading = asyncio.create_task(asyncio.to_thread(accept_and_read, reader))
            assert [delivery.failures for delivery in await asyncio.gather(*pushes)] == [{}, {}]
            await sink.aclose()
            assert total(await reading) == sum(map(len, limits))

        run(program)


def test_a_sink_that_is_closed_while_it_waits_closes_its_socket_at_the_end(
    run: Callable[[Program], None], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The loop would go on watching a number that may be another file's by then.
    monkeypatch.setattr("pushmetrics.sinks.dogstatsd_sink.WAIT_SECONDS", 10)
    registry = Registry()
    limits = admitted(registry, 500)

    with Reader(path) as reader:

        async def program() -> None:
            sink = DogStatsDSink(f"unix://{path}")
            push = asyncio.create_task(sink.push(samples(registry)))
            await asyncio.sleep(0.05)
            await sink.aclose()
            received = []
            while not push.done():
                received += reader.datagrams()
                await asyncio.sleep(0.01)
            assert push.result().failures == {}
            assert total(received + reader.datagrams()) == len(limits)
            assert sink._transport._socket is None  # type: ignore[attr-defined]  # Of a Unix socket.

        run(program)


def test_a_peer_that_has_gone_does_not_end_a_program_that_does_not_ignore_sigpipe(path: Path) -> None:
    # As command-line programs do, which then end quietly when somebody stops to read what they print.
    code = """
import asyncio, signal, socket, sys
from pushmetrics import DogStatsDSink
from pushmetrics.model import Descriptor, Sample

signal.signal(signal.SIGPIPE, signal.SIG_DFL)

def samples():
    return iter([Sample(Descriptor("program", ("active",), ("g",), ()), (1,))])

async def main():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
        agent.bind(sys.argv[1])
        agent.listen()
        sink = DogStatsDSink(f"unixstream://{sys.argv[1]}")
        await sink.push(samples())
        agent.accept()[0].close()
        delivery = await sink.push(samples())
        await sink.aclose()
        return delivery.datagrams

sys.exit(asyncio.run(main()))
"""
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 1


def test_a_peer_that_hangs_up_is_followed_by_one_new_connection(run: Callable[[Program], None], path: Path) -> None:
    registry = Registry()
    (limit,) = admitted(registry, 1)

    with Reader(path, socket.SOCK_STREAM) as reader:

        async def program() -> None:
            sink = DogStatsDSink(f"unixstream://{path}")
            await sink.push(samples(registry))
            connection, _ = reader.socket.accept()
            connection.close()
            limit.release()
            await limit.acquire()
            assert (await sink.push(samples(registry))).failures == {}
            await sink.aclose()
            assert total(await asyncio.to_thread(accept_and_read, reader)) == 1

        run(program)


@pytest.mark.parametrize(("scheme", "kind"), [("unix", socket.SOCK_STREAM), ("unixstream", socket.SOCK_DGRAM)])
async def test_the_wrong_kind_of_socket_is_a_reason_and_no_crash(
    scheme: str, kind: socket.SocketKind, path: Path
) -> None:
    registry = Registry()
    limits = admitted(registry, 1)
    with Reader(path, kind):
        sink = DogStatsDSink(f"{scheme}://{path}")
        assert (await sink.push(samples(registry))).failures == {"EPROTOTYPE": 1}
        await sink.aclose()
    assert len(limits) == 1


async def test_a_path_that_is_too_long_is_a_reason_and_no_crash(tmp_path: Path) -> None:
    registry = Registry()
    limits = admitted(registry, 1)
    sink = DogStatsDSink(f"unix://{tmp_path}/{'x' * 200}")
    failures = (await sink.push(samples(registry))).failures
    assert sum(failures.values()) == 1
    assert len(limits) == 1


def test_where_there_are_no_unix_sockets_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(PushmetricsError, match="this platform has no Unix sockets; use udp://host:port"):
        DogStatsDSink("unix:///run/dsd.socket")


class TestAPushThatItsLoopLeftBehind:
    """The loop was closed, or does not run any more, while the push waited for its receiver."""

    @staticmethod
    def leave_behind(sink: DogStatsDSink, registry: Registry) -> asyncio.Task[Any]:
        loop = asyncio.new_event_loop()
        task = loop.create_task(sink.push(registry.collect("core")))
        loop.run_until_complete(asyncio.sleep(0.05))
        assert not task.done()
        loop.close()
        # What a loop that was closed leaves is no fault of ours.
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own.
        return task

    def test_does_not_spoil_the_frame_of_the_next_one(self, path: Path) -> None:
        registries = Registry(5000), Registry()
        everything = [admitted(registries[0], 3000), admitted(registries[1], 3)]
        with Reader(path, socket.SOCK_STREAM) as reader:
            sink = DogStatsDSink(f"unixstream://{path}")
            left_behind = self.leave_behind(sink, registries[0])
            first, _ = reader.socket.accept()
            delivery = asyncio.run(sink.push(registries[1].collect("core", "next")))
            asyncio.run(sink.aclose())
            (frame,) = accept_and_read(reader)
            first.close()

        assert delivery.datagrams == 1
        assert len(parse(frame)[0]) == 5 * len(everything[1])
        del left_behind

    def test_does_not_close_the_socket_of_the_next_one(self, path: Path) -> None:
        registries = Registry(), Registry()
        everything = [admitted(registry, 200) for registry in registries]
        with Reader(path) as reader:
            sink = DogStatsDSink(f"unix://{path}", max_datagram_bytes=512)
            left_behind = [self.leave_behind(sink, registries[0])]

            async def push() -> None:
                pushing = asyncio.create_task(sink.push(registries[1].collect("core", "next")))
                await asyncio.sleep(0.01)  # It waits for the receiver, too.
                left_behind.clear()
                gc.collect()
                while reader.datagrams() or not pushing.done():  # noqa: ASYNC110 - a socket of ours sets no event
                    await asyncio.sleep(0)
                assert (await pushing).failures == {}

            asyncio.run(push())
            asyncio.run(sink.aclose())
        assert len(everything) == 2
