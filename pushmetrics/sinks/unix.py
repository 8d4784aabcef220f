"""Unix sockets to the Agent: datagrams, and a stream of frames."""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import suppress

from ..errors import InvalidValueError
from .transport import writable

SEND_BUFFER_BYTES = 64 * 1024
"""A datagram must fit the send buffer, which on macOS is 2 kB unless asked for."""

NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
"""A peer that has gone is an error, not a SIGPIPE, which ends a program that has switched that on again."""


class UnixTransport:
    """Sends datagrams to a socket file, and follows the file when it is replaced.

    A connected socket does not notice that the Agent was restarted behind the same path: the first send after it is
    refused, unless somebody still holds the old socket open, and then every send succeeds and goes nowhere. So the
    file is looked at before each flush.
    """

    max_bytes = 8192
    """What the Agent reads of a datagram (dogstatsd_buffer_size)."""
    burst: int | None = None
    refuses_late = False
    kind = "SOCK_DGRAM"

    def __init__(self, path: str) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise InvalidValueError(f"unix://{path}: this platform has no Unix sockets; use udp://host:port")
        self.path = path
        self._socket: socket.socket | None = None
        self._file: tuple[int, int] | None = None

    async def open(self) -> None:
        """Connect, unless the socket is connected to the file that is there now."""
        self._rerouted = False
        if self._socket is not None and self._file != _identity(self.path):
            self.close()
        if self._socket is None:
            self._connect()

    def send(self, data: bytes) -> None:
        """Send a datagram; the kernel says when the receiver's queue, of about ten, is full."""
        assert self._socket is not None, "open() comes first"
        self._socket.send(data)

    def confirm(self) -> None:
        """Do nothing: a send that was refused has raised."""

    async def writable(self) -> None:
        """Wait until the receiver's queue has room."""
        assert self._socket is not None, "open() comes first"
        await writable(self._socket)

    def reroute(self) -> bool:
        """Connect to the file that is there now, once in a flush."""
        if self._rerouted:
            return False
        self.close()
        self._connect()
        self._rerouted = True
        return True

    def close(self) -> None:
        """Close the socket; :meth:`open` makes a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        new = socket.socket(socket.AF_UNIX, getattr(socket, self.kind))
        try:
            new.setblocking(False)
            if new.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < SEND_BUFFER_BYTES:
                new.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            file = _identity(self.path)
            new.connect(self.path)
        except OSError:
            new.close()
            raise
        self._socket = new
        self._file = file

    def __del__(self) -> None:
        # A loop that was closed under its reporter leaves nobody to close the socket.
        with suppress(Exception):
            self.close()


class UnixStreamTransport(UnixTransport):
    """Sends frames, each behind its length as a little-endian 32-bit integer, as the Agent expects them on a stream.

    See https://docs.datadoghq.com/developers/dogstatsd/unix_socket/. A frame counts as sent when all of it was taken;
    after a part of one there is no way back to a frame's beginning, so then the connection is closed.
    """

    kind = "SOCK_STREAM"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._rest = b""

    def send(self, data: bytes) -> None:
        """Send a frame, or what of it was not taken yet."""
        assert self._socket is not None, "open() comes first"
        if not self._rest:
            self._rest = struct.pack("<I", len(data)) + data
        while self._rest:
            try:
                self._rest = self._rest[self._socket.send(self._rest, NO_SIGNAL) :]
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK):
                    self.close()
                raise

    def close(self) -> None:
        """Close the connection, and forget a frame that was sent in part: the receiver drops it."""
        super().close()
        self._rest = b""


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116 - pathlib would cost the import of the package a tenth
    return status.st_dev, status.st_ino
