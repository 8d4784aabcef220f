"""The receiver's sockets: UDP, Unix datagram and Unix stream, read without ever holding the loop for long.

All of them are plain non-blocking sockets with a reader in the loop, so that one wake-up takes many datagrams, and
asyncio and uvloop behave alike.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from ..dogstatsd import MAX_LINE_BYTES
from .sockets import bind_unix, kernel_drops

logger = logging.getLogger("pushmetrics")

HOLD_SECONDS = 0.002
"""How long one wake-up reads before the rest of the program has its turn."""

MAX_CONNECTIONS = 256
"""Streams at one time; more are closed at once and counted."""

RETRY_SECONDS = 1.0
"""How long it waits for a descriptor when the program has none left."""

LARGEST_DATAGRAM = 65_536
CHUNK_BYTES = 16_384
"""What is read of a stream at once: two frames of the largest kind."""

MOST_DISCARDED = 1_000_000
"""So that a sender that goes on and on can not keep a socket from being closed."""

Feed = Callable[[bytes], None]


class Listener:
    """A socket that is read whenever it has something."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self.read)

    def read(self) -> bool:
        """Read for a moment; return whether there may be more to read."""
        end = self._loop.time() + HOLD_SECONDS
        if self.socket.fileno() < 0:
            return False
        try:
            while self._read_once():
                if self._loop.time() > end:
                    return True
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            logger.warning("The receiver closes a socket that fails: %s.", error)
            self.close()
        return False

    def close(self) -> None:
        """Stop reading and close the socket; doing so twice does no harm."""
        if self.socket.fileno() >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self.socket.fileno())
            self.socket.close()

    def _read_once(self) -> bool:
        """Read what one call gives; return False at the end. Raises BlockingIOError when there is nothing."""
        raise NotImplementedError


class DatagramListener(Listener):
    """Takes datagrams, each with one call."""

    def __init__(self, sock: socket.socket, feed: Feed) -> None:
        self._feed = feed
        self._discarded = 0
        super().__init__(sock)

    def lost(self) -> int | None:
        """Return how many datagrams came and were not read, None where that is not known."""
        return self._discarded

    def close(self) -> None:
        """Stop reading, count what is not read any more, and close the socket."""
        with suppress(OSError):
            while self._discarded < MOST_DISCARDED:
                self.socket.recv(1)
                self._discarded += 1
        self.lost()
        super().close()

    def _read_once(self) -> bool:
        self._feed(self.socket.recv(LARGEST_DATAGRAM))
        return True


class UdpListener(DatagramListener):
    """Takes datagrams, and knows from Linux how many came and found no room."""

    def __init__(self, sock: socket.socket, feed: Feed) -> None:
        super().__init__(sock, feed)
        self._drops: int | None = 0

    def lost(self) -> int | None:
        """Return how many datagrams came and were not read, None where that is not known."""
        if self.socket.fileno() >= 0 and self._drops is not None:
            drops = kernel_drops(self.socket)
            # The kernel counts in 32 bits.
            self._drops = None if drops is None else self._drops + (drops - self._drops) % 2**32
        return None if self._drops is None else self._drops + self._discarded


class UdpTransport(asyncio.DatagramProtocol):
    """The same for a loop without readers, which is the usual one on Windows. What is lost there is not known."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def start(self, sock: socket.socket) -> None:
        """Begin to read."""
        self.socket = sock
        self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=sock)

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Take a datagram."""
        self._feed(data)

    def read(self) -> bool:
        """Return whether there may be more to read: the loop reads by itself."""
        return False

    def close(self) -> None:
        """Stop reading and close the socket."""
        with suppress(RuntimeError):  # The loop may be closed already.
            self._transport.abort()

    def lost(self) -> int | None:
        """Return None: it is not known."""
        return None


async def listen_udp(sock: socket.socket, feed: Feed) -> UdpListener | UdpTransport:
    """Read a bound UDP socket, whatever the loop can do."""
    try:
        return UdpListener(sock, feed)
    except NotImplementedError:
        transport = UdpTransport(feed)
        await transport.start(sock)
        return transport


class UnixListener(DatagramListener):
    """Takes datagrams at a path, which is removed at the end if it is still ours.

    Nothing is lost here: a sender waits, or is told, when the queue is full.
    """

    def __init__(self, path: Path, mode: int, feed: Feed) -> None:
        sock, self._file = bind_unix(path, mode, socket.SOCK_DGRAM)
        super().__init__(sock, feed)

    def close(self) -> None:
        """Stop reading, close the socket and remove its file."""
        self._file.remove()
        super().close()


class StreamListener(Listener):
    """Accepts streams at a path and takes the frames in them."""

    def __init__(self, path: Path, mode: int, feed: Feed) -> None:
        sock, self._file = bind_unix(path, mode, socket.SOCK_STREAM)
        sock.listen(128)
        self._feed = feed
        self.connections: set[Connection] = set()
        self.turned_away = 0
        self.bad_frames = 0
        self._short = False  # Of descriptors, at the last attempt.
        super().__init__(sock)

    def _read_once(self) -> bool:
        try:
            peer, _ = self.socket.accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                raise
            # The connection stays in the queue, and would wake us again and again.
            if not self._short:
                self._short = True
                logger.warning("The receiver can not accept a connection: %s. It tries again.", error.strerror)
            self._loop.remove_reader(self.socket.fileno())
            self._loop.call_later(RETRY_SECONDS, self._resume)
            return False
        self._short = False
        if len(self.connections) >= MAX_CONNECTIONS:
            self.turned_away += 1
            peer.close()
        else:
            self.connections.add(Connection(peer, self._feed, self))
        return True

    def read_all(self) -> bool:
        """Accept, and read each stream for a moment; return whether there may be more to read."""
        return any([self.read(), *[connection.read() for connection in list(self.connections)]])

    def close(self) -> None:
        """Stop reading, close the streams and the socket, and remove its file."""
        for connection in list(self.connections):
            connection.close()
        self._file.remove()
        super().close()

    def _resume(self) -> None:
        if self.socket.fileno() >= 0:
            self._loop.add_reader(self.socket.fileno(), self.read)


class Connection(Listener):
    """One stream. A bad frame, or an end inside of one, closes it and is counted."""

    def __init__(self, sock: socket.socket, feed: Feed, listener: StreamListener) -> None:
        self._feed = feed
        self._listener = listener
        self._frames = Frames()
        super().__init__(sock)

    def _read_once(self) -> bool:
        try:
            chunk = self.socket.recv(CHUNK_BYTES)
        except ConnectionError:
            chunk = b""
        try:
            for payload in self._frames.split(chunk):
                self._feed(payload)
            if not chunk and self._frames.is_open:
                raise FrameError("the stream ended inside of a frame")
        except FrameError:
            self._listener.bad_frames += 1
            chunk = b""
        if not chunk:
            self.close()
        return bool(chunk)

    def close(self) -> None:
        """Stop reading and close the stream."""
        self._listener.connections.discard(self)
        super().close()


class FrameError(ValueError):
    """A stream holds something that is no frame."""


class Frames:
    """Cuts a stream into the payloads of its frames: a length as four bytes, little-endian, and so many bytes.

    As for the Agent, a length of 0 or of more than 8192 bytes is an error; what comes after it can not be understood.
    """

    def __init__(self) -> None:
        self._rest = b""

    @property
    def is_open(self) -> bool:
        """Whether the last frame is not complete."""
        return bool(self._rest)

    def split(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the payloads that are complete with `chunk`; raises :class:`FrameError` behind the last good one."""
        data = self._rest + chunk
        start = 0
        while len(data) - start >= 4:
            length = int.from_bytes(data[start : start + 4], "little")
            if not 0 < length <= MAX_LINE_BYTES:
                self._rest = b""
                raise FrameError(f"a frame of {length} bytes")
            if len(data) - start - 4 < length:
                break
            yield data[start + 4 : start + 4 + length]
            start += 4 + length
        self._rest = data[start:]
