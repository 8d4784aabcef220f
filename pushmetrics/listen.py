"""`pushmetrics listen`: opens the sockets, shows what comes, and ends with a summary."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypeVar

from .errors import InvalidValueError, PushmetricsError
from .live.output import Output
from .live.stopping import pause, set_by_signals
from .receiver import Receiver
from .redaction import shown

T = TypeVar("T")

DEFAULT_UDP = ("localhost", 8125)

BUSY = 20
"""How many times longer than a tick takes the pause after it is, so that many series leave time to receive."""


@dataclass(frozen=True, kw_only=True)
class ListenSettings:
    """Where to listen, and for how long."""

    udp: tuple[tuple[str, int], ...] = ()
    """Hosts and ports."""
    unix: tuple[str, ...] = ()
    """Paths of Unix datagram sockets."""
    unixstream: tuple[str, ...] = ()
    """Paths of Unix stream sockets."""
    duration: float | None = None
    """Seconds; None to go on until a signal comes."""
    bucket: float = 1.0
    """Width of a bucket in seconds; the Agent's is 10."""
    allow_remote: bool = False
    """Whether to listen at addresses that other hosts can reach."""


def parse_host_port(text: str) -> tuple[str, int]:
    """Return the host and the port of ``host:port``, an IPv6 address in brackets.

    Raises :class:`pushmetrics.PushmetricsError` (a ValueError) for anything else.
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    good = colon and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    if good and host != "localhost":
        try:
            good = (ip_address(host).version == 6) == bracketed
        except ValueError:
            good = False
    if not good:
        raise InvalidValueError(
            f"expected HOST:PORT with an IP address or localhost, such as localhost:8125, 127.0.0.1:0 (any free port) "
            f"or [::1]:8125, got {shown(text)}"
        )
    return host, int(port)


def run_listen(settings: ListenSettings, output: Output) -> None:
    """Listen until the time is over, or SIGINT or SIGTERM comes. To be called in the main thread.

    Raises :class:`PushmetricsError` when it can not listen where it should.
    """
    asyncio.run(_listen(settings, output))


async def _listen(settings: ListenSettings, output: Output) -> None:
    stop = asyncio.Event()
    with set_by_signals(stop):
        async with Receiver(bucket_seconds=settings.bucket) as receiver:
            addresses = await open_sockets(receiver, settings)
            try:
                output.begin(receiver, addresses)
                await _show(output, stop, settings.duration)
            finally:
                output.close()
        output.end()


async def _show(output: Output, stop: asyncio.Event, duration: float | None) -> None:
    now = asyncio.get_running_loop().time
    end = None if duration is None else now() + duration
    while not stop.is_set() and (end is None or now() < end):
        began = now()
        output.tick()
        wait = max(output.interval, BUSY * (now() - began))
        await pause(stop, wait if end is None else min(wait, end - now()))


async def open_sockets(receiver: Receiver, settings: ListenSettings) -> list[str]:
    """Open all sockets; return their addresses. Raises :class:`PushmetricsError` for one that can not be opened."""
    addresses = []
    udp = settings.udp
    if not (udp or settings.unix or settings.unixstream):
        udp = (DEFAULT_UDP,)
    for host, port in udp:
        address = f"udp://{_authority(host, port)}"
        if host != "localhost" and not ip_address(host).is_loopback and not settings.allow_remote:
            raise PushmetricsError(
                f"{address} can be reached from other hosts, and whoever reaches it can write; listen on 127.0.0.1, or "
                "say --allow-remote"
            )
        _, bound = await _at(address, receiver.listen_udp(host, port, allow_remote=settings.allow_remote))
        addresses.append(f"udp://{_authority(host, bound)}")
    for scheme, paths, listen in (
        ("unix", settings.unix, receiver.listen_unix),
        ("unixstream", settings.unixstream, receiver.listen_unixstream),
    ):
        for path in paths:
            address = f"{scheme}://{path}"
            await _at(address, listen(path))
            addresses.append(address)
    return addresses


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _at(address: str, listening: Awaitable[T]) -> T:
    try:
        return await listening
    except OSError as error:
        raise PushmetricsError(f"can not listen on {address}: {_advice(address, error)}") from error


def _advice(address: str, error: OSError) -> str:
    udp = address.startswith("udp:")
    reason = error.strerror or str(error)
    advice = {
        errno.EADDRINUSE: "somebody listens there already, an Agent perhaps; stop that, or choose another port",
        errno.EADDRNOTAVAIL: "this host has no such address; use localhost",
        errno.EACCES: "that is not permitted; choose a port from 1024 on" if udp else "the directory is not writable",
        errno.ENOENT: "the directory does not exist; make it first",
        errno.ENOTDIR: "the directory does not exist; make it first",
    }.get(error.errno or 0)
    return advice or f"{reason}; choose another {'address' if udp else 'path'}"
