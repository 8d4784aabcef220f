"""DogStatsDSink: samples to lines, lines to datagrams, datagrams to the Agent."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator

from ..checks import integer
from ..dogstatsd import Datagram, Template, pack
from ..model import Delivery, Sample
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

TOO_LONG = "line too long"
"""Among the failures: what fits no datagram."""

MIN_DATAGRAM_BYTES = 512
MAX_DATAGRAM_BYTES = 8192


class DogStatsDSink:
    """Pushes samples to a Datadog Agent, or to any other DogStatsD server.

    Args:
        address: ``"udp://host:port"``, ``"unix:///path"`` or ``"unixstream:///path"``; None for the address in
            PUSHMETRICS_SINK or the DD_* variables, ``udp://localhost:8125`` if there is none.
        max_datagram_bytes: Size of a datagram in bytes, 512 to 8192; by default 1432 for UDP and 8192 for Unix
            sockets.

    Reporters may share it, in one event loop or in several: then their flushes take turns. A loop that blocks in the
    middle of one holds up those of the others, so a reporter in a thread has a sink of its own.

    Imports the ``datadog`` client when it is made, so make it before the program is under load. Raises
    :class:`pushmetrics.PushmetricsError` for a bad argument.
    """

    def __init__(self, address: str | None = None, *, max_datagram_bytes: int | None = None) -> None:
        self.address = sink_address()[0] if address is None else parse_address(address)
        self._transport = _transport(self.address)
        self._pid = os.getpid()
        # Held for a look alone. It can be entered again: the garbage collector ends pushes whose loop has gone.
        self._lock = threading.RLock()
        self._under_way: asyncio.Future[None] | None = None  # Done when the push ends that is under way.
        self._closed = False
        self._max_bytes = self._transport.max_bytes
        if max_datagram_bytes is not None:
            self._max_bytes = integer("max_datagram_bytes", max_datagram_bytes, MIN_DATAGRAM_BYTES, MAX_DATAGRAM_BYTES)
        self._suffix = LineSuffix()
        # By the identity of their descriptors, which they keep: to look one up by its value costs as much as lines.
        self._templates: dict[int, Template] = {}

    def __repr__(self) -> str:
        return f"<DogStatsDSink {self.address}>"

    def __str__(self) -> str:
        return str(self.address)

    async def push(self, samples: Iterator[Sample]) -> Delivery:
        """Send the samples; those that the kernel or the receiver refused are not called delivered."""
        self._begin_anew_after_fork()
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        while (before := self._begin(ended)) is not None:  # The rest of a frame is followed by no other one's.
            if before.get_loop() is loop:
                await asyncio.wait([before])
            else:  # A future of another loop can not be waited for here.
                await asyncio.sleep(PAUSE_SECONDS)
        transport = self._transport
        try:
            return await self._push(transport, samples)
        finally:
            self._end(ended, transport)

    def _begin(self, ended: asyncio.Future[None]) -> asyncio.Future[None] | None:
        """Let this push be the one that is under way, or return the end of that which is."""
        with self._lock:
            if self._is_under_way():
                return self._under_way
            if self._under_way is not None:  # Left behind, perhaps in the middle of a frame.
                self._transport = _transport(self.address)
            self._under_way, self._closed = ended, False
            return None

    def _end(self, ended: asyncio.Future[None], transport: Transport) -> None:
        with self._lock:
            was_left_behind = self._under_way is not ended
            if not was_left_behind:
                self._under_way = None
            if was_left_behind or self._closed:
                transport.close()
        if not ended.get_loop().is_closed():
            ended.set_result(None)

    def _is_under_way(self) -> bool:
        """Whether a push is under way, in a loop that has not left it behind."""
        return self._under_way is not None and self._under_way.get_loop().is_running()

    def _begin_anew_after_fork(self) -> None:
        if self._pid != os.getpid():  # The socket is the parent's: frames of both would get mixed.
            self._pid = os.getpid()
            self._lock = threading.RLock()
            self._under_way = None
            self._transport.close()
            self._transport = _transport(self.address)

    async def _push(self, transport: Transport, samples: Iterator[Sample]) -> Delivery:
        flush = _Flush(transport)
        try:
            await transport.open()
            await flush.send(pack(self._filled(samples, flush.failures), self._max_bytes), self._max_bytes)
        except OSError as error:
            flush.failures[_reason(error)] += 1
            transport.close()
        except BaseException:  # Cancelled, perhaps in the middle of a frame.
            transport.close()
            raise
        return Delivery(flush.datagrams, flush.bytes, dict(flush.failures))

    async def aclose(self) -> None:
        """Close the socket, or let a push that is under way do so at its end."""
        with self._lock:
            self._closed = True
            if not self._is_under_way():
                self._transport.close()

    def _filled(self, samples: Iterator[Sample], failures: Counter[str]) -> Iterator[tuple[Sample, bytes]]:
        templates = self._templates
        filled = 0
        for sample in samples:
            filled += 1
            descriptor = sample.descriptor
            template = templates.get(id(descriptor))
            if template is None:
                templates[id(descriptor)] = template = Template(descriptor, self._suffix(descriptor.tags))
            try:
                lines = template.fill(sample)
            except ValueError:  # Python writes no integer of more than 4,300 digits.
                failures[TOO_LONG] += 1
                continue
            yield sample, lines
        if len(templates) > 2 * filled + 100:  # Most of them are of series that have ended.
            templates.clear()


class _Flush:
    """One flush: sends datagrams, waits for a full receiver, and gives the loop its turns.

    Where a refusal comes late, the next send or :meth:`Transport.confirm` tells whether a datagram was refused. Until
    then that one datagram is neither delivered nor refused; it never stays so while the loop has its turn.
    """

    def __init__(self, transport: Transport) -> None:
        self.datagrams = 0
        self.bytes = 0
        self.failures: Counter[str] = Counter()
        self._transport = transport
        self._unconfirmed: Datagram | None = None
        self._now = asyncio.get_running_loop().time
        self._patience = WAIT_SECONDS

    async def send(self, datagrams: Iterable[Datagram], max_bytes: int) -> None:
        """Send the datagrams and say which lines were delivered.

        Raises OSError when one was refused and the rest of the flush would fare no better.
        """
        send, burst, refuses_late = self._transport.send, self._transport.burst, self._transport.refuses_late
        if burst is not None:  # Larger ones fill the receiver's buffer sooner.
            burst = min(burst, burst * self._transport.max_bytes // max_bytes)
        sent = 0  # In this burst.
        turn_ends = self._now() + TURN_SECONDS
        try:
            for datagram in datagrams:
                if len(datagram[0]) > max_bytes:
                    self.failures[TOO_LONG] += 1
                    continue
                try:
                    send(datagram[0])
                except OSError as error:
                    if not await self._send_after(error, datagram[0]):
                        continue
                certain: Datagram | None = datagram
                if refuses_late:
                    certain, self._unconfirmed = self._unconfirmed, datagram
                if certain is not None:
                    self._delivered(certain)
                sent += 1
                if sent == burst:
                    sent = 0
                    self._confirm()
                    await asyncio.sleep(PAUSE_SECONDS)
                elif self._now() > turn_ends:
                    self._confirm()
                    await asyncio.sleep(0)
                else:
                    continue
                turn_ends = self._now() + TURN_SECONDS
        finally:
            self._confirm()

    def _delivered(self, datagram: Datagram) -> None:
        data, parts = datagram
        self.datagrams += 1
        self.bytes += len(data)
        for sample, start, stop in parts:
            sample.delivered(start, stop)

    def _confirm(self) -> None:
        """Make sure of the last datagram; raises OSError if it was refused and there is no other way for it."""
        while self._unconfirmed is not None:
            try:
                self._transport.confirm()
            except OSError as error:
                self._reroute(error, late=True)
            else:
                datagram, self._unconfirmed = self._unconfirmed, None
                self._delivered(datagram)

    async def _send_after(self, error: OSError, data: bytes) -> bool:
        """Send what was not taken because of `error`, or return False for what will never be taken."""
        while True:
            if error.errno == errno.EMSGSIZE:
                self.failures[_reason(error)] += 1
                return False
            if isinstance(error, BlockingIOError):
                self._confirm()
                await self._wait(self._transport.writable())
            elif error.errno == errno.ENOBUFS:  # The network interface's queue, of which no socket tells.
                self._confirm()
                await self._wait(asyncio.sleep(PAUSE_SECONDS))
            else:
                self._reroute(error, late=False)
            try:
                self._transport.send(data)
            except OSError as another:
                error = another
            else:
                return True

    def _reroute(self, error: OSError, *, late: bool) -> None:
        """Go on with the next address after a refusal, or raise `error` if there is none.

        `late` says that it is known to be about the last datagram, not about the one that was to follow.
        """
        refused, self._unconfirmed = self._unconfirmed, None
        if refused is not None and not late and error.errno not in _LATE:  # A word on the datagram after it.
            self._delivered(refused)
            refused = None
        if error.errno not in _LOST or not self._transport.reroute():
            raise error
        if refused is not None:
            self._transport.send(refused[0])
            self._unconfirmed = refused

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


_LOST = frozenset(
    {
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ENOTCONN,
        errno.EPIPE,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
    }
)
"""The receiver on the other side is gone; another one may be there, or another way."""

_LATE = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENOPROTOOPT})
"""What an ICMP message about an earlier datagram becomes. Anything else, such as EPERM of a firewall or ENETUNREACH of
a route that has gone, is about the datagram that was to be sent."""


def _transport(address: Address) -> Transport:
    if address.scheme == "udp":
        return UdpTransport(address.host, address.port)
    return UnixStreamTransport(address.path) if address.scheme == "unixstream" else UnixTransport(address.path)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError) and error.errno is None:
        return "name look-up"
    return errno.errorcode.get(error.errno or 0, type(error).__name__)
