"""The receiver's sockets: UDP and its losses, Unix datagrams, streams, and which files may be replaced.

The flood lasts a second; for longer: PUSHMETRICS_TEST_FLOOD_SECONDS=10 pytest tests/test_receiver_sockets.py -k flood
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import missing
from hypothesis import given
from hypothesis import strategies as st

from pushmetrics.errors import InvalidTypeError, InvalidValueError, PushmetricsError
from pushmetrics.receiver import Receiver, listeners
from pushmetrics.receiver.listeners import FrameError, Frames, UdpTransport
from pushmetrics.receiver.sockets import kernel_drops

try:
    import uvloop
except ImportError:
    uvloop = None

FLOOD_SECONDS = float(os.environ.get("PUSHMETRICS_TEST_FLOOD_SECONDS") or 1)

ANY = "0.0.0.0"  # noqa: S104 - what is bound to it here is gone in a moment
WHY_LINUX = "only Linux counts what a socket lost"
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no Unix sockets"),
    pytest.mark.allowed_skip("Windows has no Unix sockets"),
]


def linux(test: Callable[..., object]) -> Callable[..., object]:
    """Mark a test for Linux."""
    return pytest.mark.skipif(sys.platform != "linux", reason=WHY_LINUX)(pytest.mark.allowed_skip(WHY_LINUX)(test))


async def until(predicate: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not predicate():  # noqa: ASYNC110 - what is waited for is in another process, or in the kernel
            await asyncio.sleep(0.001)


def send_udp(host: str, port: int, *datagrams: bytes) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        for datagram in datagrams:
            client.sendto(datagram, (host, port))


def frame(payload: bytes) -> bytes:
    return struct.pack("<I", len(payload)) + payload


def descriptors() -> int:
    """How many this process has open, 0 where that is not to be read."""
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.exists() else 0


def file_kind(path: Path) -> str:
    return oct(path.lstat().st_mode)


class TestUdp:
    async def test_datagrams_are_taken(self) -> None:
        async with Receiver() as receiver:
            host, port = await receiver.listen_udp("127.0.0.1", 0)
            send_udp(host, port, b"a:1|c\na:2|c", b"a:4|c\n")
            await until(lambda: receiver.statistics().datagrams == 2)

            assert host == "127.0.0.1"
            assert receiver.latest("a").sum == 7
            assert receiver.statistics().lost == (0 if sys.platform == "linux" else None)

    async def test_localhost_is_both_of_its_addresses(self) -> None:
        async with Receiver() as receiver:
            _, port = await receiver.listen_udp("localhost", 0)
            addresses = [listener.socket.getsockname()[0] for listener in receiver._listeners]
            for address in addresses:
                send_udp(address, port, b"a:1|c")
            await until(lambda: receiver.statistics().datagrams == len(addresses))

            assert addresses in (["127.0.0.1", "::1"], ["127.0.0.1"])  # IPv6 may be switched off.

    async def test_what_has_arrived_is_read_when_it_closes(self, caplog: pytest.LogCaptureFixture) -> None:
        receiver = Receiver()
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        send_udp(host, port, *[b"a:1|c"] * 100)
        with caplog.at_level(logging.DEBUG, logger="pushmetrics"):
            await receiver.aclose()
            await receiver.aclose()

        assert caplog.records == []
        assert receiver.latest("a").sum == 100
        assert receiver.statistics().lost == (0 if sys.platform == "linux" else None)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind((host, port))

    async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open(self) -> None:
        async with Receiver() as receiver, Receiver() as other:
            _, port = await receiver.listen_udp("localhost", 0)
            for host in ("localhost", "127.0.0.1"):
                with pytest.raises(OSError, match=r"[Aa]ddress already in use"):
                    await other.listen_udp(host, port)

    @pytest.mark.allowed_skip("IPv6 may be switched off")
    async def test_a_port_of_which_half_is_taken_is_an_error_too(self) -> None:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
            try:
                other.bind(("::1", 0))
            except OSError as error:
                pytest.skip(f"no IPv6: {error}")
            port = other.getsockname()[1]
            async with Receiver() as receiver:
                with pytest.raises(OSError, match=r"[Aa]ddress already in use"):
                    await receiver.listen_udp("localhost", port)
                assert await receiver.listen_udp("127.0.0.1", port) == ("127.0.0.1", port)

    @pytest.mark.parametrize("host", [ANY, "::", "192.0.2.1", "2001:db8::1", "169.254.1.1"])
    async def test_other_hosts_must_be_allowed(self, host: str) -> None:
        async with Receiver() as receiver:
            with pytest.raises(InvalidValueError, match="allow_remote=True"):
                await receiver.listen_udp(host, 0)

    async def test_other_hosts_can_be_allowed(self) -> None:
        async with Receiver() as receiver:
            _, port = await receiver.listen_udp(ANY, 0, allow_remote=True)
            send_udp("127.0.0.1", port, b"a:1|c")
            await until(lambda: receiver.series("a"))

    @pytest.mark.parametrize(
        ("host", "port", "error"),
        [
            ("", 0, InvalidValueError),
            ("example.com", 0, InvalidValueError),
            ("127.0.0.1:80", 0, InvalidValueError),
            (None, 0, InvalidTypeError),
            ("127.0.0.1", -1, InvalidValueError),
            ("127.0.0.1", 65536, InvalidValueError),
            ("127.0.0.1", "8125", InvalidTypeError),
            ("127.0.0.1", True, InvalidTypeError),
        ],
    )
    async def test_bad_addresses_are_refused(self, host: str, port: int, error: type[Exception]) -> None:
        async with Receiver() as receiver:
            with pytest.raises(error):
                await receiver.listen_udp(host, port)

    async def test_a_loop_without_readers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def add_reader(*_: object) -> None:
            raise NotImplementedError

        receiver = Receiver()
        # As on Windows, where the usual loop has none.
        with monkeypatch.context() as patch:
            patch.setattr(listeners.Listener, "__init__", add_reader)
            host, port = await receiver.listen_udp("127.0.0.1", 0)
        async with receiver:
            send_udp(host, port, b"a:1|c")
            await until(lambda: receiver.series("a"))

            assert isinstance(receiver._listeners[0], UdpTransport)
            assert receiver.statistics().lost is None

    @linux
    async def test_the_kernel_s_count_is_that_of_proc(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            sock.bind(("127.0.0.1", 0))
            send_udp(*sock.getsockname(), *[b"x" * 1000] * 50)
            inode = str(os.fstat(sock.fileno()).st_ino)
            rows = [row.split() for row in Path("/proc/self/net/udp").read_text(encoding="ascii").splitlines()[1:]]
            (drops,) = [int(row[12]) for row in rows if row[9] == inode]

            assert kernel_drops(sock) == drops > 0

    @linux
    async def test_what_is_lost_is_counted_exactly(self) -> None:
        receiver = Receiver()
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        send_udp(host, port, *[b"a:1|c|#x:" + b"x" * 1000] * 50_000)  # The loop is not let in between.
        await receiver.aclose()

        statistics = receiver.statistics()

        assert statistics.lost is not None
        assert statistics.lost > 0
        assert statistics.datagrams + statistics.lost == 50_000

    @linux
    async def test_what_it_has_no_time_to_read_is_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pushmetrics.receiver.CLOSE_SECONDS", 0.0)
        receiver = Receiver()
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        send_udp(host, port, *[b"a:1|c"] * 100)
        await receiver.aclose()

        assert (receiver.statistics().datagrams, receiver.statistics().lost) == (0, 100)

    async def test_a_burst_does_not_hold_the_loop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listeners, "HOLD_SECONDS", 0.0)
        async with Receiver() as receiver:
            host, port = await receiver.listen_udp("127.0.0.1", 0)
            send_udp(host, port, *[b"a:1|c"] * 20)
            turns = 0
            while receiver.statistics().datagrams < 20:
                await asyncio.sleep(0)
                turns += 1

            assert turns >= 20


SENDER = """
import socket, sys, time
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect(("127.0.0.1", int(sys.argv[1])))
lines = [b"flood.metric%d:%d|c|#limit_name:l%d" % (n % 50, n, n % 7) for n in range(1000)]
datagrams = [b"\\n".join(lines[n : n + 1 + n % 20]) for n in range(900)]
end = time.monotonic() + float(sys.argv[2])
sent = 0
while time.monotonic() < end:
    for datagram in datagrams:
        client.send(datagram)
        sent += 1
print(sent)
"""


@linux
@pytest.mark.timeout(60 + int(FLOOD_SECONDS))
async def test_a_flood_is_survived_and_what_it_lost_is_known() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    longest = 0.0
    async with Receiver() as receiver:
        _, port = await receiver.listen_udp("127.0.0.1", 0)
        sender = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SENDER, str(port), str(FLOOD_SECONDS), stdout=subprocess.PIPE
        )
        finished = asyncio.ensure_future(sender.communicate())
        while not finished.done():
            began = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - began)
        sent = int((await finished)[0])

    statistics = receiver.statistics()

    assert statistics.lost is not None
    assert statistics.datagrams + statistics.lost == sent
    assert statistics.datagrams > 100 * FLOOD_SECONDS
    assert statistics.refused == 0
    assert len(receiver.series()) == 350
    assert longest < 1.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


class TestUnixDatagrams:
    async def test_datagrams_are_taken_and_none_is_lost(self, tmp_path: Path) -> None:
        path = tmp_path / "dsd.socket"
        async with Receiver() as receiver:
            await receiver.listen_unix(path)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
                client.setblocking(False)
                client.connect(str(path))
                sent = full = 0
                while sent < 500:
                    try:
                        client.send(b"a:1|c\n" * 10)
                        sent += 1
                    except BlockingIOError:
                        full += 1
                        await asyncio.sleep(0)
            await until(lambda: receiver.statistics().datagrams == 500)

            assert receiver.latest("a").sum == 5000
            assert receiver.statistics().lost == 0
        assert list(tmp_path.iterdir()) == []

    async def test_only_its_user_can_write_unless_told_otherwise(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            async with Receiver() as receiver:
                await receiver.listen_unix(tmp_path / "mine")
                await receiver.listen_unixstream(str(tmp_path / "my stream"))
                await receiver.listen_unix(tmp_path / "everybody's", mode=0o722)

                modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
                assert modes == {"mine": 0o600, "my stream": 0o600, "everybody's": 0o722}
        finally:
            assert os.umask(before) == 0

    async def test_it_closes_as_it_should_when_the_directory_is_gone_or_another(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        async with Receiver() as receiver:
            await receiver.listen_unix("relative")
            (tmp_path / "below").mkdir()
            monkeypatch.chdir(tmp_path / "below")
        assert [path.name for path in tmp_path.iterdir()] == ["below"]

    @pytest.mark.parametrize(
        ("path", "error"), [("", InvalidValueError), ("\0x", InvalidValueError), (b"x", InvalidTypeError)]
    )
    async def test_what_is_no_path_is_refused(self, path: str, error: type[Exception]) -> None:
        async with Receiver() as receiver:
            with pytest.raises(error):
                await receiver.listen_unix(path)

    async def test_a_path_that_can_not_be_is_an_error_of_the_system(self, tmp_path: Path) -> None:
        async with Receiver() as receiver:
            with pytest.raises(OSError, match="too long"):
                await receiver.listen_unix(tmp_path / ("x" * 200))
            with pytest.raises(FileNotFoundError):
                await receiver.listen_unix(tmp_path / "no directory" / "socket")


@pytest.mark.parametrize("listen", [Receiver.listen_unix, Receiver.listen_unixstream])
class TestFiles:
    """A socket replaces nothing but its own kind, when nobody needs it any more."""

    async def test_a_stale_socket_is_replaced(self, tmp_path: Path, listen: Callable[..., object]) -> None:
        path = tmp_path / "socket"
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            with socket.socket(socket.AF_UNIX, kind) as left_behind:
                left_behind.bind(str(path))
            async with Receiver() as receiver:
                await listen(receiver, path)
            assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
    async def test_a_socket_with_a_listener_is_not(
        self, tmp_path: Path, listen: Callable[..., object], kind: socket.SocketKind
    ) -> None:
        path = tmp_path / "socket"
        with socket.socket(socket.AF_UNIX, kind) as other:
            other.bind(str(path))
            if kind is socket.SOCK_STREAM:
                other.listen(0)
            inode = path.stat().st_ino
            async with Receiver() as receiver:
                with pytest.raises(InvalidValueError, match="somebody listens there already"):
                    await listen(receiver, path)
            assert path.stat().st_ino == inode

    async def test_a_listener_with_a_full_backlog_is_one(self, tmp_path: Path, listen: Callable[..., object]) -> None:
        path = tmp_path / "socket"
        with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as waiting:
            other.bind(str(path))
            other.listen(0)
            waiting.connect(str(path))
            async with Receiver() as receiver:
                with pytest.raises(InvalidValueError, match="somebody listens there already"):
                    await listen(receiver, path)

    @pytest.mark.parametrize("what", ["file", "directory", "link to nothing", "link to a socket", "fifo"])
    async def test_nothing_else_is(self, tmp_path: Path, listen: Callable[..., object], what: str) -> None:
        path = tmp_path / "socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as target:
            target.bind(str(tmp_path / "target"))
        match what:
            case "file":
                path.write_text("precious", encoding="ascii")
            case "directory":
                path.mkdir()
            case "link to nothing":
                path.symlink_to(tmp_path / "nothing")
            case "link to a socket":
                path.symlink_to(tmp_path / "target")
            case "fifo":
                os.mkfifo(path)
        before = file_kind(path), path.lstat().st_ino
        async with Receiver() as receiver:
            with pytest.raises(InvalidValueError, match="is no socket"):
                await listen(receiver, path)
        assert (file_kind(path), path.lstat().st_ino) == before
        assert (tmp_path / "target").exists()
        assert not (tmp_path / "nothing").exists()

    async def test_another_user_s_is_not(
        self, tmp_path: Path, listen: Callable[..., object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left_behind:
            left_behind.bind(str(path))
        owner = path.stat().st_uid
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        async with Receiver() as receiver:
            with pytest.raises(InvalidValueError, match="belongs to another user"):
                await listen(receiver, path)
        assert path.exists()

    async def test_a_file_that_is_no_longer_ours_stays(self, tmp_path: Path, listen: Callable[..., object]) -> None:
        path = tmp_path / "socket"
        async with Receiver() as receiver:
            await listen(receiver, path)
            path.unlink()
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
                other.bind(str(path))
                inode = path.stat().st_ino
                await receiver.aclose()
                assert path.stat().st_ino == inode

    async def test_a_file_that_is_gone_is_no_matter(self, tmp_path: Path, listen: Callable[..., object]) -> None:
        async with Receiver() as receiver:
            await listen(receiver, tmp_path / "socket")
            (tmp_path / "socket").unlink()

    async def test_two_receivers_do_not_steal_from_each_other(
        self, tmp_path: Path, listen: Callable[..., object]
    ) -> None:
        async with Receiver() as first, Receiver() as second:
            await listen(first, tmp_path / "socket")
            with pytest.raises(PushmetricsError):
                await listen(second, tmp_path / "socket")
            assert (tmp_path / "socket").exists()


class TestFrames:
    @given(st.lists(st.binary(min_size=1, max_size=300), max_size=20), st.data())
    def test_a_stream_may_be_cut_anywhere(self, payloads: list[bytes], data: st.DataObject) -> None:
        stream = b"".join(map(frame, payloads))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
        frames = Frames()

        found = [
            payload
            for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)
            for payload in frames.split(stream[start:stop])
        ]

        assert found == payloads
        assert not frames.is_open

    @pytest.mark.parametrize("length", [0, 8193, 2**31, 2**32 - 1])
    def test_a_bad_length_is_an_error_behind_what_is_good(self, length: int) -> None:
        frames = Frames()
        payloads = frames.split(frame(b"a:1|c") + struct.pack("<I", length) + b"a:1|c")

        assert next(payloads) == b"a:1|c"
        with pytest.raises(FrameError, match=f"a frame of {length} bytes"):
            next(payloads)

    def test_8192_bytes_are_a_frame(self) -> None:
        frames = Frames()

        assert list(frames.split(frame(b"x" * 8192))) == [b"x" * 8192]
        assert not frames.is_open

    def test_little_endian(self) -> None:
        assert list(Frames().split(b"\5\0\0\0a:1|c")) == [b"a:1|c"]


class TestStreams:
    async def test_partial_writes_of_several_clients(self, tmp_path: Path) -> None:
        path = tmp_path / "socket"
        stream = b"".join(frame(b"a:%d|c\nb:1|c" % n) for n in range(50))

        async def client(step: int) -> None:
            _, writer = await asyncio.open_unix_connection(path)
            for start in range(0, len(stream), step):
                writer.write(stream[start : start + step])
                await writer.drain()
                await asyncio.sleep(0)
            writer.close()
            await writer.wait_closed()

        async with Receiver() as receiver:
            await receiver.listen_unixstream(path)
            await asyncio.gather(*map(client, [1, 3, 7, 100, 10_000]))
            await until(lambda: receiver.statistics().datagrams == 250)
            await until(lambda: receiver.statistics().connections == 0)

            assert receiver.latest("a").sum == 5 * sum(range(50))
            assert receiver.statistics().bad_frames == 0
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "bad",
        [struct.pack("<I", 0), struct.pack(">I", 5) + b"a:9|c", b"a:9|c\n", struct.pack("<I", 9000) + b"x" * 9000],
    )
    async def test_a_bad_frame_closes_the_stream_and_no_other(self, tmp_path: Path, bad: bytes) -> None:
        path = tmp_path / "socket"
        async with Receiver() as receiver:
            await receiver.listen_unixstream(path)
            reader, writer = await asyncio.open_unix_connection(path)
            _, other = await asyncio.open_unix_connection(path)
            writer.write(frame(b"a:1|c") + bad + frame(b"a:1|c"))
            with suppress(ConnectionResetError):  # What was not read any more makes a reset of the end.
                assert await reader.read() == b""
            other.write(frame(b"a:2|c"))
            await until(lambda: receiver.statistics().datagrams == 2)

            statistics = receiver.statistics()
            assert (statistics.bad_frames, statistics.connections, statistics.refused) == (1, 1, 0)
            assert receiver.latest("a").sum == 3
            for one in (writer, other):
                one.close()

    @pytest.mark.parametrize("rest", [b"\5", b"\5\0\0\0", b"\5\0\0\0a:1"])
    async def test_an_end_inside_of_a_frame_is_a_bad_one(self, tmp_path: Path, rest: bytes) -> None:
        async with Receiver() as receiver:
            await receiver.listen_unixstream(tmp_path / "socket")
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(tmp_path / "socket"))
                client.sendall(frame(b"a:1|c") + rest)
            await until(lambda: receiver.statistics().bad_frames == 1)

            assert receiver.latest("a").sum == 1
            assert receiver.statistics().connections == 0

    async def test_what_has_arrived_is_read_when_it_closes(self, tmp_path: Path) -> None:
        receiver = Receiver()
        await receiver.listen_unixstream(tmp_path / "socket")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "socket"))
            client.sendall(frame(b"a:1|c") * 1000)
            await receiver.aclose()

            assert client.recv(1) == b""
        assert receiver.latest("a").sum == 1000
        assert receiver.statistics().connections == 0

    async def test_there_is_a_most_of_streams(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listeners, "MAX_CONNECTIONS", 3)
        path = str(tmp_path / "socket")
        async with Receiver() as receiver:
            await receiver.listen_unixstream(path)
            clients = [socket.socket(socket.AF_UNIX) for _ in range(5)]
            for client in clients:
                client.connect(path)
            await until(lambda: receiver.statistics().turned_away == 2)

            assert receiver.statistics().connections == 3
            for client in clients:
                client.close()
            await until(lambda: receiver.statistics().connections == 0)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                client.sendall(frame(b"a:1|c"))
            await until(lambda: receiver.series("a"))

    async def test_without_descriptors_it_waits_and_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(listeners, "RETRY_SECONDS", 0.05)
        failures = 0

        def accept(self: socket.socket) -> tuple[socket.socket, object]:
            nonlocal failures
            if failures < 2:
                failures += 1
                raise OSError(errno.EMFILE, "Too many open files")
            return original(self)

        original = socket.socket.accept
        monkeypatch.setattr(socket.socket, "accept", accept)
        async with Receiver() as receiver:
            await receiver.listen_unixstream(tmp_path / "socket")
            with socket.socket(socket.AF_UNIX) as client, caplog.at_level(logging.WARNING, logger="pushmetrics"):
                client.connect(str(tmp_path / "socket"))
                client.sendall(frame(b"a:1|c"))
                await until(lambda: receiver.series("a"))

        assert failures == 2
        assert len(caplog.records) == 1


def test_all_sockets_under_uvloop(tmp_path: Path) -> None:
    if uvloop is None:
        missing("uvloop, from PyPI")

    async def receive() -> Receiver:
        async with Receiver() as receiver:
            host, port = await receiver.listen_udp("127.0.0.1", 0)
            await receiver.listen_unix(tmp_path / "dgram")
            await receiver.listen_unixstream(tmp_path / "stream")
            send_udp(host, port, *[b"udp:1|c"] * 300)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
                client.connect(str(tmp_path / "dgram"))
                client.send(b"dgram:1|c")
            _, writer = await asyncio.open_unix_connection(str(tmp_path / "stream"))
            writer.write(frame(b"stream:1|c") * 1000)
            await writer.drain()
            await until(lambda: receiver.statistics().datagrams == 1301)
            writer.write(frame(b"stream:1|c") + b"\0\0\0\0")
            await until(lambda: receiver.statistics().bad_frames == 1)
            writer.close()
            return receiver

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        receiver = runner.run(receive())

    assert receiver.totals() == {("udp", ()): 300, ("dgram", ()): 1, ("stream", ()): 1001}
    assert list(tmp_path.iterdir()) == []


class TestClosing:
    async def test_nothing_is_left_open(self, tmp_path: Path) -> None:
        before = descriptors()
        async with Receiver() as receiver:
            await receiver.listen_udp("localhost", 0)
            await receiver.listen_unix(tmp_path / "dgram")
            await receiver.listen_unixstream(tmp_path / "stream")
            with pytest.raises(InvalidValueError):
                await receiver.listen_unix(tmp_path / "stream")

        assert descriptors() == before
        assert list(tmp_path.iterdir()) == []

    async def test_a_flood_does_not_keep_it_from_closing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pushmetrics.receiver.CLOSE_SECONDS", 0.05)
        receiver = Receiver()
        await receiver.listen_udp("127.0.0.1", 0)
        monkeypatch.setattr(receiver._listeners[0], "read", lambda: True)

        async with asyncio.timeout(5):
            await receiver.aclose()

    async def test_it_can_be_closed_in_another_loop(self, tmp_path: Path) -> None:
        def first_loop() -> Receiver:
            async def listen() -> Receiver:
                receiver = Receiver()
                await receiver.listen_udp("127.0.0.1", 0)
                await receiver.listen_unix(tmp_path / "socket")
                return receiver

            return asyncio.run(listen())

        receiver = await asyncio.to_thread(first_loop)
        await receiver.aclose()

        assert list(tmp_path.iterdir()) == []
