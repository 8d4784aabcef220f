"""Making the receiver's sockets: what may be bound, what may be replaced, and what the kernel knows of losses."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from ..checks import integer
from ..errors import InvalidTypeError, InvalidValueError
from ..redaction import shown

RECEIVE_BUFFER_BYTES = 4 << 20
"""What is asked for as a receive buffer; Linux gives net.core.rmem_max at the most (212,992 by default)."""

SO_MEMINFO = 55
"""Linux 4.12; the socket module has no name for it."""


class SocketFile:
    """The file that a bound Unix socket is, known by its inode."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._identity = _identity(path)

    def remove(self) -> None:
        """Remove the file if it is still the same one. Call it while the socket is open: that keeps the inode ours."""
        with suppress(OSError):
            if _identity(self.path) == self._identity:
                self.path.unlink()


def bind_unix(path: Path, mode: int, kind: socket.SocketKind) -> tuple[socket.socket, SocketFile]:
    """Return a Unix socket bound to `path`, whose file gets the permissions `mode` from the beginning.

    A socket file of ours at which nobody listens any more is replaced; everything else that is there stays, and
    :class:`InvalidValueError` says what it is.
    """
    if not hasattr(socket, "AF_UNIX") or sys.platform == "win32":
        raise InvalidValueError(f"{path}: there are no Unix sockets on this platform; listen on UDP")
    sock = socket.socket(socket.AF_UNIX, kind)
    try:
        try:
            _bind(sock, path, mode)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            _remove_stale(path)
            _bind(sock, path, mode)
        _enlarge(sock)
        return sock, SocketFile(path)
    except BaseException:
        sock.close()
        raise


def _bind(sock: socket.socket, path: Path, mode: int) -> None:
    # The umask is the process's: a file that another thread makes in this moment gets fewer permissions, never more.
    before = os.umask(0o777 & ~mode)
    try:
        sock.bind(str(path))
    finally:
        os.umask(before)


def _remove_stale(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode):
        raise InvalidValueError(f"{path} exists and is no socket; it is not replaced, choose another path")
    if found.st_uid != os.geteuid():
        raise InvalidValueError(f"{path} belongs to another user; it is not replaced, choose another path")
    if any(_is_heard(path, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)):
        raise InvalidValueError(f"{path}: somebody listens there already; stop that, or choose another path")
    if _identity(path) == (found.st_dev, found.st_ino):
        path.unlink()


def _is_heard(path: Path, kind: socket.SocketKind) -> bool:
    """Return whether a socket of this kind is behind the path, or may be."""
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except OSError as error:
            # EPROTOTYPE: there is a socket, of another kind, which the other probe finds.
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT, errno.EPROTOTYPE)
    return True


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def bind_udp(host: str, port: int, allow_remote: bool) -> list[socket.socket]:
    """Return UDP sockets bound to `host`: an IP address, or "localhost" for the loopback ones of IPv4 and of IPv6.

    Raises :class:`InvalidValueError` for another address than a loopback one unless `allow_remote`.
    """
    if not isinstance(host, str):
        raise InvalidTypeError(f"host: expected a string such as 'localhost', got {shown(host)}")
    port = integer("port", port, 0, 65535, besides=" (0 for any that is free)")
    if host == "localhost":
        # Some senders take ::1 for it, and UDP does not tell them that nobody is there.
        first = _bind_udp("127.0.0.1", port)
        try:
            return [first, _bind_udp("::1", first.getsockname()[1])]
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES) and port:
                first.close()
                raise
            return [first]
    try:
        address = ip_address(host)
    except ValueError:
        raise InvalidValueError(f"expected an IP address of this host, or 'localhost', got {shown(host)}") from None
    if not address.is_loopback and not allow_remote:
        raise InvalidValueError(
            f"{host} can be reached from other hosts, and whoever reaches it can write; use 127.0.0.1, or say "
            "allow_remote=True"
        )
    return [_bind_udp(host, port)]


def _bind_udp(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _enlarge(sock)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _enlarge(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)


def kernel_drops(sock: socket.socket) -> int | None:
    """Return how many datagrams Linux dropped at the socket, None where that can not be asked.

    SO_MEMINFO gives the number that /proc/net/udp has in its last column and that SO_RXQ_OVFL would attach to the next
    datagram: at any time, for this socket alone, and without reading a file that lists those of all.
    """
    if sys.platform != "linux":
        return None
    try:
        fields = struct.unpack("9I", sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))
    except (OSError, struct.error):
        return None
    return int(fields[8])
