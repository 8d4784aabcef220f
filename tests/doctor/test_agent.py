"""Whether somebody listens: every answer that a real socket can give."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import missing
from servers.datadog_server import DatadogServer

from pushmetrics.doctor import udp, unix
from pushmetrics.doctor.agent import examine_agent
from pushmetrics.doctor.finding import Finding
from pushmetrics.receiver import Receiver
from pushmetrics.settings import parse_address

pytest_plugins = ["servers.fixtures"]

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no Unix sockets")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what was read, and lets a connection wait")
KINDS = {"unix": socket.SOCK_DGRAM, "unixstream": socket.SOCK_STREAM}
TAG = "component:doctor_test"

both_kinds = pytest.mark.parametrize("scheme", KINDS)


def examine(address: str) -> list[Finding]:
    return list(examine_agent(parse_address(address), f"|#{TAG}"))


def answer(address: str) -> Finding:
    *_, last = examine(address)
    assert last.topic == "listener"
    return last


def closed_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for socket files, with a short name, which every user may look into."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def bound(path: Path, scheme: str, *, backlog: int = 5) -> Iterator[socket.socket]:
    """Somebody who has the socket open, and reads only if the test does."""
    with socket.socket(socket.AF_UNIX, KINDS[scheme]) as sock:
        sock.bind(str(path))
        if scheme == "unixstream":
            sock.listen(backlog)
        yield sock


@contextmanager
def full(path: Path, scheme: str) -> Iterator[None]:
    """Others have filled the queue, of datagrams or of connections that are not accepted yet."""
    with ExitStack() as others:
        with suppress(BlockingIOError):
            while True:
                other = others.enter_context(socket.socket(socket.AF_UNIX, KINDS[scheme]))
                other.setblocking(False)
                other.connect(str(path))
                other.send(b"x")
        yield


@contextmanager
def as_somebody_without_rights() -> Iterator[int]:
    """Be a user to whom the permissions of files apply; root is above them."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield os.geteuid()
    finally:
        os.seteuid(user)


class TestUdpOnThisHost:
    async def test_a_receiver_gets_the_gauge(self) -> None:
        async with Receiver() as receiver:
            host, port = await receiver.listen_udp("127.0.0.1", 0)

            (finding,) = await asyncio.to_thread(examine, f"udp://{host}:{port}")

        assert receiver.latest("pushmetrics.doctor", TAG).value == 1
        assert receiver.statistics().lines == 1
        assert finding.mark == "ok"
        assert finding.text.startswith("Somebody listens: 127.0.0.1 took the gauge pushmetrics.doctor, and the kernel")

    @pytest.mark.server
    def test_datadogs_own_server_takes_it(self, datadog_server: DatadogServer) -> None:
        assert answer(f"udp://127.0.0.1:{datadog_server.port}").mark == "ok"

        datadog_server.settle()
        assert f"pushmetrics.doctor:1|g|#{TAG}" in datadog_server.lines
        assert datadog_server.refused == []

    def test_a_closed_port_is_told_by_the_kernel(self) -> None:
        port = closed_port()

        finding = answer(f"udp://127.0.0.1:{port}")

        assert finding.mark == "wrong"
        assert finding.text == (
            f"Nobody took the gauge pushmetrics.doctor: the kernel says that 127.0.0.1 port {port} is closed."
        )
        assert "Start the Agent" in finding.details[0]

    def test_each_address_of_a_name_is_tried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            try:
                sock.bind(("::1", 0))
            except OSError as error:
                missing(f"IPv6 on loopback: {error}")
            port = sock.getsockname()[1]
            found = [
                (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("::1", port, 0, 0)),
                (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", port)),
            ]
            resolve_as(monkeypatch, lambda: found)

            resolved, finding = examine(f"udp://agent:{port}")

            assert sock.recv(100).startswith(b"pushmetrics.doctor:1|g")
        assert (resolved.topic, resolved.text) == ("resolves to", "127.0.0.1, ::1")
        assert finding.mark == "ok"
        assert "::1 took the gauge" in finding.text


def resolve_as(monkeypatch: pytest.MonkeyPatch, resolve: Callable[[], object]) -> None:
    """Let `resolve` be the resolver for every name; numbers need none."""
    real = socket.getaddrinfo

    def getaddrinfo(*arguments: Any, **options: Any) -> object:
        return real(*arguments, **options) if options["flags"] == socket.AI_NUMERICHOST else resolve()

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


class TestUdpElsewhere:
    def test_a_name_without_an_address(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def resolve() -> object:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        resolve_as(monkeypatch, resolve)

        (finding,) = examine("udp://agent:8125")

        assert finding.mark == "wrong"
        assert finding.text == "agent has no address: Name or service not known."

    def test_a_look_up_that_does_not_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        end = threading.Event()
        monkeypatch.setattr(udp, "LOOKUP_SECONDS", 0.1)
        resolve_as(monkeypatch, lambda: end.wait(30) and [])
        try:
            (finding,) = examine("udp://agent:8125")
        finally:
            end.set()

        assert finding.mark == "wrong"
        assert finding.text == "The look-up of agent did not end within 0.1 s."

    @pytest.mark.allowed_skip("a network may refuse what goes to nobody, and a sandbox may have none")
    def test_of_another_host_nobody_tells(self) -> None:
        nobodys = ("10.255.255.1", "192.0.2.1", "198.51.100.1", "203.0.113.1")
        finding = next((found for host in nobodys if (found := answer(f"udp://{host}:8125")).mark != "wrong"), None)

        if finding is None:
            pytest.skip("each address that is nobody's was refused")
        assert finding.mark == "note"
        assert finding.text.startswith("Nobody tells: the gauge pushmetrics.doctor went to another host, ")
        assert finding.details == ("Look for pushmetrics.doctor in Datadog.",)

    def test_what_can_not_be_sent_at_all(self) -> None:
        finding = answer("udp://255.255.255.255:8125")  # A broadcast, for which a socket is not made.

        assert finding.mark == "wrong"
        assert "255.255.255.255 can not be reached (" in finding.text


@UNIX
class TestUnixSockets:
    @both_kinds
    async def test_a_receiver_gets_the_gauge(self, folder: Path, scheme: str) -> None:
        path = folder / "dsd.socket"
        async with Receiver() as receiver:
            await (receiver.listen_unix(path) if scheme == "unix" else receiver.listen_unixstream(path))

            finding = await asyncio.to_thread(answer, f"{scheme}://{path}")

        assert receiver.latest("pushmetrics.doctor", TAG).value == 1
        assert receiver.statistics().bad_frames == receiver.statistics().refused == 0
        assert finding.mark == "ok"
        assert finding.text.startswith("Somebody listens: the socket")
        if sys.platform == "linux":
            assert "reader has read the gauge" in finding.text

    @both_kinds
    def test_the_file_is_missing(self, folder: Path, scheme: str) -> None:
        finding = answer(f"{scheme}://{folder}/dsd.socket")

        assert finding.mark == "wrong"
        assert finding.text == f"There is no {folder}/dsd.socket: {folder} has no dsd.socket."

    def test_its_directory_is_missing(self, folder: Path) -> None:
        assert f": {folder} has no datadog." in answer(f"unix://{folder}/datadog/run/dsd.socket").text

    @both_kinds
    def test_it_is_a_directory(self, folder: Path, scheme: str) -> None:
        finding = answer(f"{scheme}://{folder}")

        assert finding.mark == "wrong"
        assert finding.text.startswith(f"{folder} is a directory, not a socket: ")

    def test_it_is_a_file(self, folder: Path) -> None:
        (folder / "file").touch()

        assert answer(f"unix://{folder}/file").text == f"{folder}/file is a file, not a socket."

    def test_a_file_stands_where_its_directory_should(self, folder: Path) -> None:
        (folder / "file").touch()

        assert answer(f"unix://{folder}/file/dsd.socket").text.startswith(f"{folder}/file/dsd.socket can not be used: ")

    def test_its_path_is_too_long(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        with bound(Path("s"), "unix"):
            Path("s").rename("x" * 120)

        assert "can not be used: AF_UNIX path too long." in answer(f"unix://{folder}/{'x' * 120}").text

    @both_kinds
    def test_it_was_left_behind(self, folder: Path, scheme: str) -> None:
        with bound(folder / "dsd.socket", scheme):
            pass

        finding = answer(f"{scheme}://{folder}/dsd.socket")

        assert finding.mark == "wrong"
        assert finding.text.startswith(f"Nobody listens at {folder}/dsd.socket: ")

    @both_kinds
    def test_it_is_of_the_other_kind(self, folder: Path, scheme: str) -> None:
        (other,) = KINDS.keys() - {scheme}
        path = folder / "dsd.socket"
        with bound(path, other):
            finding = answer(f"{scheme}://{path}")

        assert finding.mark == "wrong"
        assert finding.text.endswith(f"not what {scheme}:// sends.")
        assert finding.details == (f"Use {other}://{path}",)

    @both_kinds
    def test_this_user_may_not_write_to_it(self, folder: Path, scheme: str) -> None:
        path = folder / "dsd.socket"
        with bound(path, scheme):
            path.chmod(0o400)
            with as_somebody_without_rights() as user:
                finding = answer(f"{scheme}://{path}")

        assert finding.mark == "wrong"
        assert finding.text.startswith(f"User {user} may not write to {path} (sr--------, user ")

    def test_this_user_may_not_look_into_its_directory(self, folder: Path) -> None:
        path = folder / "dsd.socket"
        with bound(path, "unix"):
            folder.chmod(0)
            with as_somebody_without_rights() as user:
                finding = answer(f"unix://{path}")
            folder.chmod(0o700)

        assert finding.mark == "wrong"
        assert finding.text == f"User {user} may not look into the directory of {path}."

    @LINUX
    @both_kinds
    def test_nobody_reads_what_it_took(self, folder: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unix, "READ_SECONDS", 0.2)
        with bound(folder / "dsd.socket", scheme):
            finding = answer(f"{scheme}://{folder}/dsd.socket")

        assert finding.mark == "wrong"
        assert finding.text == f"{folder}/dsd.socket is open, but within 0.2 s nobody has read what was sent to it."
        assert finding.details == ("Restart the Agent.",)

    @LINUX
    @both_kinds
    def test_its_queue_is_full_and_stays_so(self, folder: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unix, "READ_SECONDS", 0.2)
        path = folder / "dsd.socket"
        with bound(path, scheme, backlog=0), full(path, scheme):
            finding = answer(f"{scheme}://{path}")

        assert finding.mark == "wrong"
        assert finding.text == f"{path} is open, but its queue is full: its reader does not read."

    @LINUX
    def test_its_reader_is_late(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = folder / "dsd.socket"
        received = []

        def read_all(_: float) -> None:
            with suppress(BlockingIOError):
                while True:
                    connection, _address = reader.accept()
                    with connection:
                        received.append(connection.recv(1000))

        with bound(path, "unixstream", backlog=0) as reader, full(path, "unixstream"):
            reader.setblocking(False)
            monkeypatch.setattr(time, "sleep", read_all)
            finding = answer(f"unixstream://{path}")

        assert finding.mark == "ok"
        assert received[-1].endswith(f"pushmetrics.doctor:1|g|#{TAG}".encode())
