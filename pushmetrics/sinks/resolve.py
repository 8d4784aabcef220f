"""The addresses of an Agent's host: looked up off the event loop, kept, and looked up again now and then."""

from __future__ import annotations

import asyncio
import socket

from .. import clock
from ..offload import offload

SocketAddress = tuple[socket.AddressFamily, tuple[object, ...]]

REFRESH_SECONDS = 60.0
"""How old an answer gets. A host name may move, and over UDP to another host nobody refuses what goes astray."""


class Host:
    """A host and a port, and the addresses behind them.

    A numeric host is its own address. A name is looked up when it is first needed, and only that answer is waited
    for: later ones are asked for behind the flushes, every :data:`REFRESH_SECONDS` and when no address takes anything
    any more. A look-up that fails changes nothing, so no failure is final and no good address is lost to one.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._addresses = _numeric(host, port)
        self._is_name = not self._addresses
        self._lookup: asyncio.Future[list[SocketAddress]] | None = None
        self._refresh_at = 0.0

    async def addresses(self, patience: float) -> list[SocketAddress]:
        """Return the addresses as far as they are known, IPv4 before IPv6.

        As long as none is known it raises OSError when the look-up fails, and TimeoutError when that takes longer than
        `patience` seconds. The next call goes on with a look-up that is still under way.
        """
        if not self._is_name:
            return self._addresses
        error = self._take_answer()
        if not self._addresses or clock.monotonic() >= self._refresh_at:
            self.look_up()
        if not self._addresses and self._lookup is not None:
            await asyncio.wait([self._lookup], timeout=patience)
            error = self._take_answer()
        if not self._addresses:
            raise error or TimeoutError(f"the look-up of {self._host} takes longer than {patience:g} s")
        return self._addresses

    def look_up(self) -> None:
        """Begin to look a name up, unless that is under way; the answer is taken when it is there."""
        loop = asyncio.get_running_loop()
        if not self._is_name or (self._lookup is not None and self._lookup.get_loop() is loop):
            return
        self._refresh_at = clock.monotonic() + REFRESH_SECONDS
        self._lookup = offload(lambda: _getaddrinfo(self._host, self._port, 0), "pushmetrics-lookup")

    def _take_answer(self) -> OSError | None:
        """Take the addresses of a look-up that has ended, or return its failure."""
        if self._lookup is None or not self._lookup.done():
            return None
        lookup, self._lookup = self._lookup, None
        error = lookup.exception()
        if error is None:
            self._addresses = lookup.result()
            return None
        return error if isinstance(error, OSError) else OSError(str(error))  # Of a name that none can be like.


def _numeric(host: str, port: int) -> list[SocketAddress]:
    """Return the address of a numeric host at once; an empty list for a name."""
    try:
        return _getaddrinfo(host, port, socket.AI_NUMERICHOST)
    except OSError:
        return []


def _getaddrinfo(host: str, port: int, flags: int) -> list[SocketAddress]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=flags)
    # IPv4 first: an Agent on a dual-stack host listens on 127.0.0.1, and "localhost" may resolve to ::1 first.
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return [(family, address) for family, _, _, _, address in found]
