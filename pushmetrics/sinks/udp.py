"""A UDP socket to the Agent that tells what was refused."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from socket import SO_ERROR, SOL_SOCKET

from .resolve import SocketAddress, numeric, start_lookup
from .transport import writable

LOOKUP_SECONDS = 1.0
"""How long a flush waits for a look-up that is still under way; the next flush goes on with it."""


class UdpTransport:
    """Sends datagrams, connected so that the kernel reports a port on which nobody listens."""

    max_bytes = 1432
    """Datadog's size for UDP: an Ethernet frame less the headers."""
    burst: int | None = 40
    """A healthy Agent's receive buffer (212,992 bytes by default on Linux) holds about twice as many; more at once
    overrun it without a word."""
    refuses_late = True

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._addresses: list[SocketAddress] = numeric(host, port)
        self._lookup: asyncio.Future[list[SocketAddress]] | None = None
        self._socket: socket.socket | None = None
        self._confirmed = True  # Whether the last datagram's fate is known, as far as it ever is.

    async def open(self) -> None:
        """Make the socket ready; raises OSError (TimeoutError for a slow look-up) when that can not be done now."""
        if self._socket is not None:
            return
        if not self._addresses:
            self._addresses = await self._look_up()
        self._connect()

    def send(self, data: bytes) -> None:
        """Send a datagram, unless there is word that an earlier one was refused: then that is raised instead.

        On loopback the refusal of a datagram is pending as soon as it was sent, and the kernel looks for it before it
        sends the next one.
        """
        sock = self._socket
        assert sock is not None, "open() comes first"
        try:
            sock.send(data)
        except ConnectionRefusedError:
            if not self._confirmed:
                raise
            sock.send(data)  # Word from afar, of a datagram that has long been taken as delivered.
        self._confirmed = False

    def confirm(self) -> None:
        """Raise OSError if the last datagram was refused."""
        assert self._socket is not None, "open() comes first"
        self._confirmed = True
        error = self._socket.getsockopt(SOL_SOCKET, SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))

    async def writable(self) -> None:
        """Wait until the send buffer has room."""
        assert self._socket is not None, "open() comes first"
        await writable(self._socket)

    def reroute(self) -> bool:
        """Go on with the host's next address after a refusal; False when each has been tried."""
        self.close()
        self._addresses = self._addresses[1:]
        if not self._addresses:
            self._addresses = numeric(self.host, self.port)
            return False
        self._connect()
        return True

    def close(self) -> None:
        """Close the socket; :meth:`open` makes a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _look_up(self) -> list[SocketAddress]:
        if self._lookup is None or self._lookup.get_loop() is not asyncio.get_running_loop():
            self._lookup = start_lookup(self.host, self.port)
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                addresses = await asyncio.shield(self._lookup)
        finally:
            if self._lookup.done():
                self._lookup = None
        return addresses

    def _connect(self) -> None:
        family, address = self._addresses[0]
        new = socket.socket(family, socket.SOCK_DGRAM)
        try:
            new.setblocking(False)
            new.connect(address)
        except OSError:
            new.close()
            raise
        self._socket = new
        self._confirmed = True

    def __del__(self) -> None:
        # A loop that was closed under its reporter leaves nobody to close the socket.
        with suppress(Exception):
            self.close()
