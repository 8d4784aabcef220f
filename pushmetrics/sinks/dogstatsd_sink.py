"""DogStatsDSink: samples to lines, lines to datagrams, datagrams to the Agent."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Iterator

from ..dogstatsd import Block, Datagram, Template, pack
from ..errors import InvalidTypeError, InvalidValueError
from ..model import Delivery, Descriptor, Sample
from ..settings import parse_address, sink_address
from .official_client import LineSuffix
from .udp import UdpTransport

BURST = 40
"""Datagrams sent in one go. A healthy Agent's receive buffer (212,992 bytes by default on Linux) holds about twice as
many; more at once overrun it without a word."""

PAUSE_SECONDS = 0.004
"""What the Agent, and the loop, get to catch up after a burst. Datadog's own server lost datagrams at half of it."""

MIN_DATAGRAM_BYTES = 512
MAX_DATAGRAM_BYTES = 8192


class DogStatsDSink:
    """Pushes samples to a Datadog Agent, or to any other DogStatsD server.

    Args:
        address: ``"udp://host:port"``; None for the address in the DD_* variables, ``udp://localhost:8125`` if
            there is none.
        max_datagram_bytes: Size of a datagram in bytes, 512 to 8192; 1432 by default for UDP.

    Imports the ``datadog`` client when it is made, so make it before the program is under load. Raises
    :class:`pushmetrics.PushmetricsError` for a bad argument.
    """

    def __init__(self, address: str | None = None, *, max_datagram_bytes: int | None = None) -> None:
        self.address = sink_address()[0] if address is None else parse_address(address)
        if self.address.scheme != "udp":
            raise InvalidValueError(f"{self.address}: Unix sockets are not supported yet; use udp://host:port")
        self._transport = UdpTransport(self.address.host, self.address.port)
        self._max_bytes = self._transport.max_bytes if max_datagram_bytes is None else _checked(max_datagram_bytes)
        self._suffix = LineSuffix()
        self._templates: dict[Descriptor, Template] = {}

    def __repr__(self) -> str:
        return f"<DogStatsDSink {self.address}>"

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Send the samples; those that the kernel or the receiver refused are not called delivered."""
        failures: Counter[str] = Counter()
        datagrams = sent_bytes = 0
        try:
            await self._transport.open()
            for datagram in pack(self._blocks(samples), self._max_bytes):
                if isinstance(datagram, Block):
                    failures["line too long"] += 1
                elif self._sent(datagram, failures):
                    datagrams += 1
                    sent_bytes += len(datagram.data)
                    if datagrams % BURST == 0:
                        await asyncio.sleep(PAUSE_SECONDS)
        except OSError as error:
            failures[_reason(error)] += 1
        if failures:
            self._transport.close()
        return Delivery(datagrams, sent_bytes, dict(failures))

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

    def _sent(self, datagram: Datagram, failures: Counter[str]) -> bool:
        """Send one datagram; raises OSError when the rest of the flush would fare no better."""
        while True:
            try:
                self._transport.send(datagram.data)
            except ConnectionRefusedError:
                if not self._transport.refused():
                    raise
            except OSError as error:
                if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS, errno.EAGAIN):
                    raise
                failures[_reason(error)] += 1
                return False
            else:
                for block in datagram.blocks:
                    block.delivered()
                return True


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
