"""A UDP socket to the Agent that tells what was refused."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from socket import SO_ERROR, SOL_SOCKET

from .resolve import Host, SocketAddress
from .transport import writable


class UdpTransport:
    """Sends datagrams, connected so that the kernel reports a port on which nobody listens."""

    max_bytes = 1432
    """Datadog's size for UDP: an Ethernet frame less the headers."""
    burst: int | None = 40
    """A healthy Agent's receive buffer (212,992 bytes by default on Linux) holds about twice as many; more at once
    overrun it without a word."""

    def __init__(self, host: str, port: int) -> None:
        self._host = Host(host, port)
        self._socket: socket.socket | None = None
        self._address: SocketAddress | None = None
        self._untried: list[SocketAddress] = []  # Where else the Agent may be, as far as this flush has not looked.

    async def open(self) -> None:
        """Make the socket ready; raises OSError (TimeoutError for a slow look-up) when that can not be done now.

        A host that has moved is followed. One of several addresses is kept for as long as it is among them.
        """
        addresses = await self._host.addresses()
        if self._socket is not None and self._address in addresses:
            self._untried = [address for address in addresses if address != self._address]
            return
        self.close()
        self._untried = addresses.copy()
        self._connect()

    def send(self, data: bytes) -> None:
        """Send a datagram; raises OSError if it was refused, or could not be sent at all."""
        sock = self._socket
        assert sock is not None, "open() comes first"
        try:
            sock.send(data)
        except ConnectionRefusedError:
            # An earlier datagram's refusal, reported late; the call that reports it sends nothing.
            sock.send(data)
        # On loopback the refusal of this very datagram is pending by now.
        error = sock.getsockopt(SOL_SOCKET, SO_ERROR)
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
