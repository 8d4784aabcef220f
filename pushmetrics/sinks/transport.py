"""What a sink needs of a socket, whatever its kind, and how to wait for one without blocking the loop."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol


class Transport(Protocol):
    """One connection to an Agent, opened again when it is lost. No method blocks the loop."""

    max_bytes: int
    """Size of a datagram, or of a frame, in bytes, unless the user says otherwise."""

    burst: int | None
    """Datagrams of that size that the receiver's buffer can be trusted to hold; None where the kernel says when it is
    full."""

    refuses_late: bool
    """Whether a refusal is told by the call after the send, be it the next send or :meth:`confirm`."""

    async def open(self) -> None:
        """Make the connection ready; raises OSError when that can not be done now. Called before each flush."""
        ...

    def send(self, data: bytes) -> None:
        """Send a datagram; any OSError but one means that it was refused, or where refusals are late the one before.

        Then this one was not sent. BlockingIOError means: again, with the same data, once :meth:`writable` says so.
        """
        ...

    def confirm(self) -> None:
        """Raise OSError if the last datagram was refused; there is nothing to ask where refusals are not late."""
        ...

    async def writable(self) -> None:
        """Wait until the socket takes data again."""
        ...

    def reroute(self) -> bool:
        """Connect anew after a refusal; False when there is no other way to the Agent to be tried in this flush."""
        ...

    def close(self) -> None:
        """Close the socket; :meth:`open` makes a new one."""
        ...


async def writable(sock: socket.socket) -> None:
    """Wait until `sock` takes data. Unlike ``sock_sendto`` this works for every socket and under uvloop, too."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_writer(sock, wake)
    try:
        await ready
    finally:
        loop.remove_writer(sock)
