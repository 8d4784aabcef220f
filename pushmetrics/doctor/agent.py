"""Whether somebody listens at an address, and how one knows.

It sends with sockets of its own, so that it can wait for what a flush has no time for: a refusal that comes late, and
the moment at which a Unix socket's reader has read.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..settings import Address
from .finding import Finding
from .udp import look_up, send
from .unix import send_to_file
from .untaken import START, UntakenError

GAUGE = "pushmetrics.doctor"
"""The name of the gauge that is sent."""


def examine_agent(address: Address, suffix: str) -> Iterator[Finding]:
    """Send one gauge to `address`, `suffix` behind its type, and say what became of it."""
    data = f"{GAUGE}:1|g{suffix}".encode()
    try:
        if address.scheme == "udp":
            yield from _udp(address, data)
        else:
            yield _unix(address, data)
    except UntakenError as error:
        yield Finding("listener", error.why, mark="wrong", details=(error.what_to_do,))


def _udp(address: Address, data: bytes) -> Iterator[Finding]:
    targets = look_up(address.host, address.port)
    hosts = list(dict.fromkeys(str(target[0]) for _, target in targets))
    if hosts != [address.host]:
        yield Finding("resolves to", ", ".join(hosts))
    refusals = []
    for target in targets:
        host = target[1][0]
        try:
            is_here = send(target, data)
        except ConnectionRefusedError:
            refusals.append(f"the kernel says that {host} port {address.port} is closed")
        except OSError as error:
            refusals.append(f"{host} can not be reached ({error.strerror or error})")
        else:
            yield _here(host) if is_here else _elsewhere(host)
            return
    raise UntakenError(f"Nobody took the gauge {GAUGE}: {'; '.join(refusals)}.", START)


def _here(host: object) -> Finding:
    how = f"Somebody listens: {host} took the gauge {GAUGE}, and the kernel refuses one to a closed port of this host."
    return Finding("listener", how, mark="ok")


def _elsewhere(host: object) -> Finding:
    why = f"Nobody tells: the gauge {GAUGE} went to another host, {host}, and no refusal came back within a second."
    return Finding("listener", why, mark="note", details=(f"Look for {GAUGE} in Datadog.",))


def _unix(address: Address, data: bytes) -> Finding:
    was_read = send_to_file(address, data)
    how = f"the socket's reader has read the gauge {GAUGE}" if was_read else f"the socket took the gauge {GAUGE}"
    return Finding("listener", f"Somebody listens: {how}.", mark="ok")
