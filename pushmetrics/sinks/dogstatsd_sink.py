"""DogStatsDSink: samples to lines, lines to datagrams, datagrams to the Agent."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Awaitable, Iterator

from ..dogstatsd import Block, Datagram, Template, pack
from ..errors import InvalidTypeError, InvalidValueError
from ..model import Delivery, Descriptor, Sample
from ..settings import Address, parse_address, sink_address
from .official_client import LineSuffix
from .transport import Transport
from .udp import UdpTransport
from .unix import UnixStreamTransport, UnixTransport

PAUSE_SECONDS = 0.004
"""What the receiver gets to catch up after a burst. Datadog's own server lost datagrams at half of it."""

TURN_SECONDS = 0.002
"""How long a flush works before it gives the loop a turn."""

WAIT_SECONDS = 1.0
"""How long a flush waits in all for a receiver whose queue is full; then it is given up."""

MIN_DATAGRAM_BYTES = 512
MAX_DATAGRAM_BYTES = 8192


class DogStatsDSink:
    """Pushes samples to a Datadog Agent, or to any other DogStatsD server.

    Args:
        address: ``"udp://host:port"``, ``"unix:///path"`` or ``"unixstream:///path"``; None for the address in
            PUSHMETRICS_SINK or the DD_* variables, ``udp://localhost:8125`` if there is none.
        max_datagram_bytes: Size of a datagram in bytes, 512 to 8192; by default 1432 for UDP and 8192 for Unix
            sockets.

    Imports the ``datadog`` client when it is made, so make it before the program is under load. Raises
    :class:`pushmetrics.PushmetricsError` for a bad argument.
    """

    def __init__(self, address: str | None = None, *, max_datagram_bytes: int | None = None) -> None:
        self.address = sink_address()[0] if address is None else parse_address(address)
        self._transport = _transport(self.address)
        self._pid = os.getpid()
        self._max_bytes = self._transport.max_bytes if max_datagram_bytes is None else _checked(max_datagram_bytes)
        self._suffix = LineSuffix()
        self._templates: dict[Descriptor, Template] = {}

    def __repr__(self) -> str:
        return f"<DogStatsDSink {self.address}>"

    def __str__(self) -> str:
        return str(self.address)

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Send the samples; those that the kernel or the receiver refused are not called delivered."""
        if self._pid != os.getpid():  # The socket is the parent's: frames of both would get mixed.
            self._pid = os.getpid()
            self._transport.close()
            self._transport = _transport(self.address)
        flush = _Flush(self._transport)
        try:
            await self._transport.open()
            for datagram in pack(self._blocks(samples), self._max_bytes):
                if isinstance(datagram, Block):
                    flush.failures["line too long"] += 1
                else:
                    await flush.send(datagram)
        except OSError as error:
            flush.failures[_reason(error)] += 1
            self._transport.close()
        except BaseException:  # Cancelled, perhaps in the middle of a frame.
            self._transport.close()
            raise
        return Delivery(flush.datagrams, flush.bytes, dict(flush.failures))

    async def aclose(self) -> None:
        """Close the socket."""
        self._transport.close()

    def _blocks(self, samples: Iterator[Sample]) -> Iterator[Block]:
        templates = self._templates
        filled = 0
        for sample in samples:
            filled += 1
            descriptor = sample.descriptor
            template = templates.get(descriptor)
            if template is None:
                template = Template(descriptor, self._suffix(descriptor.tags), self._max_bytes)
                templates[descriptor] = template
            yield from template.fill(sample)
        if len(templates) > 2 * filled + 100:  # Most of them are of series that have ended.
            templates.clear()


class _Flush:
    """One flush: sends datagrams, waits for a full receiver, and gives the loop its turns."""

    def __init__(self, transport: Transport) -> None:
        self.datagrams = 0
        self.bytes = 0
        self.failures: Counter[str] = Counter()
        self._transport = transport
        self._now = asyncio.get_running_loop().time
        self._turn_ends = self._now() + TURN_SECONDS
        self._patience = WAIT_SECONDS

    async def send(self, datagram: Datagram) -> None:
        """Send a datagram and say which lines were delivered.

        Raises OSError when it was refused and the rest of the flush would fare no better.
        """
        while True:
            try:
                self._transport.send(datagram.data)
            except BlockingIOError:
                await self._wait(self._transport.writable())
            except OSError as error:
                if error.errno == errno.EMSGSIZE:
                    self.failures[_reason(error)] += 1
                    return
                if error.errno == errno.ENOBUFS:  # The network interface's queue, of which no socket tells.
                    await self._wait(asyncio.sleep(PAUSE_SECONDS))
                elif error.errno not in _LOST or not self._transport.reroute():
                    raise
            else:
                break
        for _, sample, start, stop in datagram.blocks:
            sample.delivered(start, stop)
        self.datagrams += 1
        self.bytes += len(datagram.data)
        if self._transport.burst and self.datagrams % self._transport.burst == 0:
            await asyncio.sleep(PAUSE_SECONDS)
        elif self._now() > self._turn_ends:
            await asyncio.sleep(0)
        else:
            return
        self._turn_ends = self._now() + TURN_SECONDS

    async def _wait(self, ready: Awaitable[None]) -> None:
        """Wait within what is left of the flush's patience; raises BlockingIOError at its end."""
        began = self._now()
        try:
            async with asyncio.timeout(self._patience):
                await ready
        except TimeoutError:
            raise BlockingIOError(errno.EAGAIN, "the receiver's queue is full") from None
        finally:
            self._patience -= self._now() - began


_LOST = frozenset({errno.ECONNREFUSED, errno.ECONNRESET, errno.ENOTCONN, errno.EPIPE})
"""The receiver on the other side is gone; another one may be there."""


def _transport(address: Address) -> Transport:
    if address.scheme == "udp":
        return UdpTransport(address.host, address.port)
    return UnixStreamTransport(address.path) if address.scheme == "unixstream" else UnixTransport(address.path)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "name look-up"
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def _checked(max_datagram_bytes: object) -> int:
    allowed = f"max_datagram_bytes: expected an integer from {MIN_DATAGRAM_BYTES} to {MAX_DATAGRAM_BYTES}"
    if isinstance(max_datagram_bytes, bool) or not isinstance(max_datagram_bytes, int):
        raise InvalidTypeError(f"{allowed}, got {max_datagram_bytes!r}")
    if not MIN_DATAGRAM_BYTES <= max_datagram_bytes <= MAX_DATAGRAM_BYTES:
        raise InvalidValueError(f"{allowed}, got {max_datagram_bytes!r}")
    return max_datagram_bytes
