"""Look-ups of host names off the event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

SocketAddress = tuple[socket.AddressFamily, tuple[object, ...]]


def numeric(host: str, port: int) -> list[SocketAddress]:
    """Return the address of a numeric host at once; an empty list for a name."""
    try:
        return _lookup(host, port, socket.AI_NUMERICHOST)
    except OSError:
        return []


def start_lookup(host: str, port: int) -> asyncio.Future[list[SocketAddress]]:
    """Look a host name up in a thread of its own, and return the future addresses, IPv4 before IPv6.

    The thread is a daemon: the loop's default executor would hold the program's exit up until a slow look-up ends.
    The future raises OSError when the look-up fails.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[SocketAddress]] = loop.create_future()

    def settle(addresses: list[SocketAddress], error: OSError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(addresses)
        else:
            future.set_exception(error)
            future.exception()  # Nobody may be waiting any more.

    def run() -> None:
        addresses: list[SocketAddress] = []
        error = None
        try:
            addresses = _lookup(host, port, 0)
        except (OSError, UnicodeError) as failure:
            error = failure if isinstance(failure, OSError) else OSError(str(failure))
        with suppress(RuntimeError):  # The loop was closed meanwhile.
            loop.call_soon_threadsafe(settle, addresses, error)

    threading.Thread(target=run, name="pushmetrics-lookup", daemon=True).start()
    return future


def _lookup(host: str, port: int, flags: int) -> list[SocketAddress]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=flags)
    # IPv4 first: an Agent on a dual-stack host listens on 127.0.0.1, and "localhost" may resolve to ::1 first.
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return [(family, address) for family, _, _, _, address in found]
