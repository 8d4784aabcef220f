"""Look-ups of host names off the event loop."""

from __future__ import annotations

import asyncio
import socket

from ..offload import offload

SocketAddress = tuple[socket.AddressFamily, tuple[object, ...]]


def numeric(host: str, port: int) -> list[SocketAddress]:
    """Return the address of a numeric host at once; an empty list for a name."""
    try:
        return _lookup(host, port, socket.AI_NUMERICHOST)
    except OSError:
        return []


def start_lookup(host: str, port: int) -> asyncio.Future[list[SocketAddress]]:
    """Look a host name up off the loop, and return the future addresses, IPv4 before IPv6.

    The future raises OSError when the look-up fails.
    """

    def look_up() -> list[SocketAddress]:
        try:
            return _lookup(host, port, 0)
        except UnicodeError as error:
            raise OSError(str(error)) from None

    return offload(look_up, "pushmetrics-lookup")


def _lookup(host: str, port: int, flags: int) -> list[SocketAddress]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=flags)
    # IPv4 first: an Agent on a dual-stack host listens on 127.0.0.1, and "localhost" may resolve to ::1 first.
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return [(family, address) for family, _, _, _, address in found]
