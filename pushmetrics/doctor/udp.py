"""One datagram over UDP, and whether it was refused."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from ipaddress import ip_address

from ..sinks.resolve import Host, SocketAddress
from .untaken import UntakenError

LOOKUP_SECONDS = 5.0
"""How long a look-up of a name may take; a resolver that is alive has answered or given up by then."""

REFUSAL_SECONDS = 1.0
"""How long to wait for another host to say that its port is closed. This host's kernel says it at once."""


def look_up(host: str, port: int) -> list[SocketAddress]:
    """Return the addresses of a host, IPv4 before IPv6, as a sink tries them; raises UntakenError for none."""
    try:
        return asyncio.run(Host(host, port).addresses(LOOKUP_SECONDS))
    except TimeoutError:
        why = f"The look-up of {host} did not end within {LOOKUP_SECONDS:g} s."
        raise UntakenError(why, "Mend the resolver, or give an IP address.") from None
    except OSError as error:
        why = f"{host} has no address: {error.strerror or error}."
        raise UntakenError(why, "Correct the name, or give an IP address.") from None


def send(target: SocketAddress, data: bytes) -> bool:
    """Send a datagram; return whether it went to this host. Raises OSError if it was refused, now or soon after."""
    family, address = target
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(REFUSAL_SECONDS)
        sock.connect(address)
        sock.send(data)
        peer = sock.getpeername()[0]
        # To an address of its own a host sends from that same address.
        is_here = bool(peer == sock.getsockname()[0] or ip_address(peer.partition("%")[0]).is_loopback)
        # A refusal makes the socket readable, and nothing else does.
        select.select([sock], [], [], REFUSAL_SECONDS / 10 if is_here else REFUSAL_SECONDS)
        if error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
    return is_here
