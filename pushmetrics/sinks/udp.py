"""A UDP socket to the Agent that tells what was refused."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from socket import SO_ERROR, SOL_SOCKET

from .resolve import Host, SocketAddress
from .transport import writable

LOOKUP_SECONDS = 1.0
"""How long a flush waits for the first answer to a look-up."""


class UdpTransport:
    """Sends datagrams, connected so that the kernel reports a port on which nobody listens."""

    max_bytes = 1432
    """Datadog's size for UDP: an Ethernet frame less the headers."""
    burst: int | None = 40
    """A healthy Agent's receive buffer (212,992 bytes by default on Linux) holds about twice as many; more at once
    overrun it without a word."""
    refuses_late = True

    def __init__(self, host: str, port: int) -> None:
        self._host = Host(host, port)
        self._socket: socket.socket | None = None
        self._address: SocketAddress | None = None
        self._untried: list[SocketAddress] = []  # Where else the Agent may be, as far as this flush has not looked.
        self._confirmed = True  # Whether the last datagram's fate is known, as far as it ever is.

    async def open(self) -> None:
        """Make the socket ready; raises OSError (TimeoutError for a slow look-up) when that can not be done now.

        A host that has moved is followed. One of several addresses is kept for as long as it is among them.
        """
        addresses = await self._host.addresses(LOOKUP_SECONDS)
        if self._socket is not None and self._address in addresses:
            self._untried = [address for address in addresses if address != self._address]
            return
        self.close()
        self._untried = addresses.copy()
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
        """Go on with another of the host's addresses after a refusal; False when each has been tried."""
        self.close()
        if self._untried:
            self._connect()
            return True
        self._host.look_up()
        return False

    def close(self) -> None:
        """Close the socket; :meth:`open` makes a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        """Connect to the first address that has a way to it; a host without IPv6 has none to an address of that."""
        while True:
            self._address = family, address = self._untried.pop(0)
            try:
                self._socket = _connected(family, address)
            except OSError:
                if not self._untried:
                    self._host.look_up()
                    raise
            else:
                self._confirmed = True
                return

    def __del__(self) -> None:
        # A loop that was closed under its reporter leaves nobody to close the socket.
        with suppress(Exception):
            self.close()


def _connected(family: socket.AddressFamily, address: tuple[object, ...]) -> socket.socket:
    new = socket.socket(family, socket.SOCK_DGRAM)
    try:
        new.setblocking(False)
        new.connect(address)
    except OSError:
        new.close()
        raise
    return new
