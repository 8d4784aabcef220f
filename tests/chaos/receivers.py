"""Sockets that can be closed in such a way that what was taken and what was refused is known to the last datagram.

A socket that is just closed races with its sender: what arrives between the last read and the close was taken and is
lost. So a receiver first *refuses*, by means that the kernel applies at once, and then what its buffer holds is read.
"""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path
from typing import Protocol

SO_MEMINFO = 55
"""asm-generic/socket.h; the ninth of its numbers is how many datagrams were dropped for want of room."""
ROOMY_BYTES = 1 << 20
"""A receive buffer for a reader that shall miss nothing though its machine is busy; the system has its own bound."""
NOBODY = ("127.0.0.1", 9)
IN_FLIGHT_SECONDS = 0.002
"""How long a datagram for which the kernel has chosen the socket may take to be in its buffer."""


class Receiver(Protocol):
    """One socket that listens at the address, from its making to its close."""

    def sockets(self) -> list[socket.socket]:
        """What to wait for."""
        ...

    def read(self) -> list[bytes]:
        """Take what the buffer holds now."""
        ...

    def refuse(self) -> None:
        """Let the kernel refuse whatever is sent from now on; what the buffer holds can still be read."""
        ...

    def dropped(self) -> int:
        """How many datagrams the kernel took and dropped, since the buffer was full."""
        ...

    def close(self) -> None: ...


class UdpReceiver:
    """A UDP socket on loopback."""

    def __init__(self, port: int = 0, *, roomy: bool = False) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        if roomy:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOMY_BYTES)
        self._socket.bind(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]

    def sockets(self) -> list[socket.socket]:
        return [self._socket]

    def read(self) -> list[bytes]:
        return _datagrams(self._socket)

    def refuse(self) -> None:
        self._socket.connect(NOBODY)  # Datagrams of anybody else find no socket any more.
        time.sleep(IN_FLIGHT_SECONDS)

    def dropped(self) -> int:
        return struct.unpack("9I", self._socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[8]

    def close(self) -> None:
        self._socket.close()


class UnixReceiver:
    """A Unix datagram socket; the kernel refuses when its queue is full, and drops nothing."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(str(path))

    def sockets(self) -> list[socket.socket]:
        return [self._socket]

    def read(self) -> list[bytes]:
        return _datagrams(self._socket)

    def refuse(self) -> None:
        self._socket.shutdown(socket.SHUT_RD)

    def dropped(self) -> int:
        return 0

    def close(self) -> None:
        self._socket.close()


class StreamReceiver:
    """A Unix stream socket and its connections, each with the beginning of a frame that is not complete yet."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.bind(str(path))
        self._socket.listen()
        self._connections: dict[socket.socket, bytes] = {}

    def sockets(self) -> list[socket.socket]:
        return [self._socket, *self._connections]

    def read(self) -> list[bytes]:
        self._accept()
        frames = []
        for connection in list(self._connections):
            frames += self._read(connection)
        return frames

    def refuse(self) -> None:
        self._socket.shutdown(socket.SHUT_RD)
        self._accept()  # What had been connected before.
        for connection in self._connections:
            connection.shutdown(socket.SHUT_RD)

    def dropped(self) -> int:
        return 0

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # Nobody is there, or it refuses by now.
                return
            connection.setblocking(False)
            self._connections[connection] = b""

    def _read(self, connection: socket.socket) -> list[bytes]:
        frames = []
        data = self._connections[connection]
        ended = False
        while not ended:
            try:
                chunk = connection.recv(65536)
            except BlockingIOError:
                break
            data += chunk
            ended = not chunk
        while len(data) >= 4 and len(data) >= 4 + (length := struct.unpack_from("<I", data)[0]):
            frames.append(data[4 : 4 + length])
            data = data[4 + length :]
        self._connections[connection] = data
        if ended:  # What is left is a part of a frame that its sender has given up.
            del self._connections[connection]
            connection.close()
        return frames


def _datagrams(receiver: socket.socket) -> list[bytes]:
    received = []
    while True:
        try:
            data = receiver.recv(65536)
        except BlockingIOError:
            return received
        if not data:  # Shut down and empty; nobody sends empty datagrams.
            return received
        received.append(data)
