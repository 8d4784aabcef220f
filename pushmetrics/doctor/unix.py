"""One datagram or frame to a Unix socket, and whether it was read."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
import time
from pathlib import Path

from ..settings import Address
from .untaken import CHANGE_USER, MOUNT, RESTART, START, UntakenError

READ_SECONDS = 2.0
"""How long the reader of a socket may take to make room, and to read."""

POLL_SECONDS = 0.01


def send_to_file(address: Address, data: bytes) -> bool:
    """Send to a socket file; return whether it was read for sure, which the kernel tells on Linux.

    Raises UntakenError when it was not sent, or when it was sent and nobody reads it.
    """
    path = address.path
    if not hasattr(socket, "AF_UNIX"):
        raise UntakenError("This platform has no Unix sockets.", "Use udp://host:port.")
    status = _status_of_socket(Path(path))
    try:
        was_read = _send(path, data, is_stream=address.scheme == "unixstream")
    except (BlockingIOError, TimeoutError):
        raise UntakenError(f"{path} is open, but its queue is full: its reader does not read.", RESTART) from None
    except PermissionError:
        owner = f"{stat.filemode(status.st_mode)}, user {status.st_uid}, group {status.st_gid}"
        raise UntakenError(f"User {os.geteuid()} may not write to {path} ({owner}).", CHANGE_USER) from None
    except ConnectionRefusedError:
        why = f"Nobody listens at {path}: whoever made the file has ended."
        raise UntakenError(why, RESTART) from None
    except OSError as error:
        if error.errno != errno.EPROTOTYPE:
            raise UntakenError(f"{path} can not be used: {error.strerror or error}.", START) from None
        found, scheme = ("datagrams", "unix") if address.scheme == "unixstream" else ("streams", "unixstream")
        raise UntakenError(
            f"{path} takes {found}, not what {address.scheme}:// sends.", f"Use {scheme}://{path}"
        ) from None
    if was_read is False:
        why = f"{path} is open, but within {READ_SECONDS:g} s nobody has read what was sent to it."
        raise UntakenError(why, RESTART)
    return bool(was_read)


def _status_of_socket(path: Path) -> os.stat_result:
    """Return the status of a socket file; raises UntakenError when it is none."""
    try:
        status = path.stat()
    except PermissionError:
        raise UntakenError(f"User {os.geteuid()} may not look into the directory of {path}.", CHANGE_USER) from None
    except FileNotFoundError:
        there = next(folder for folder in path.parents if folder.exists())
        lacking = path.relative_to(there).parts[0]
        raise UntakenError(f"There is no {path}: {there} has no {lacking}.", MOUNT) from None
    except OSError as error:
        raise UntakenError(f"{path} can not be used: {error.strerror or error}.", START) from None
    if stat.S_ISDIR(status.st_mode):
        why = (
            f"{path} is a directory, not a socket: container runtimes make one where they are to mount a missing file."
        )
        raise UntakenError(why, MOUNT)
    if not stat.S_ISSOCK(status.st_mode):
        raise UntakenError(f"{path} is a file, not a socket.", START)
    return status


def _send(path: str, data: bytes, *, is_stream: bool) -> bool | None:
    """Send to a socket file; return whether it was read, or None where the kernel does not tell.

    Raises OSError: BlockingIOError or TimeoutError when there was no room for READ_SECONDS.
    """
    end = time.monotonic() + READ_SECONDS
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM if is_stream else socket.SOCK_DGRAM) as sock:
        sock.settimeout(READ_SECONDS)
        while True:
            try:
                sock.connect(path)
            except BlockingIOError:  # As many connections as may wait for the reader are waiting.
                if time.monotonic() > end:
                    raise
                time.sleep(POLL_SECONDS)
            else:
                break
        sock.sendall(struct.pack("<I", len(data)) + data if is_stream else data)
        while unread := _unread(sock):
            if time.monotonic() > end:
                return False
            time.sleep(POLL_SECONDS)
        return None if unread is None else True


def _unread(sock: socket.socket) -> int | None:
    """Return the size of what was sent and not read yet; None where the kernel does not tell. Linux does."""
    if sys.platform != "linux":
        return None
    import fcntl
    import termios

    return int.from_bytes(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
