"""The listener: stands where an Agent would be, and reads what arrives."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from pushmetrics.dogstatsd import parse

from .readings import Readings

MAX_DATAGRAM_BYTES = 65535


class Listener(asyncio.DatagramProtocol):
    """Reads DogStatsD on a free UDP port of the loopback interface, for as long as it is entered."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.refused: Counter[str] = Counter()
        """Lines that are no DogStatsD, by the reason."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    @property
    def address(self) -> str:
        """Where to push, once the listener has been entered."""
        host, port = self._socket.getsockname()
        return f"udp://{host}:{port}"

    @property
    def sink(self) -> str:
        """What the reporter is given to push to."""
        return self.address

    def __enter__(self) -> Self:
        try:
            self._socket.setblocking(False)
            self._socket.bind(("127.0.0.1", 0))
        except OSError:
            self._socket.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read in the running loop; at the end, take in what still waits in the socket's buffer."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=self._socket)
        try:
            yield
            self._drain()
        finally:
            transport.close()
            await asyncio.sleep(0)  # The loop lets go of the socket in its next turn.

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Take a datagram in; called by the event loop."""
        lines, refused = parse(data)
        self.refused.update(refused)
        for line in lines:
            for value in line.values:
                self.readings.take(line.name, line.kind, value, line.tags)

    def _drain(self) -> None:
        while True:
            try:
                data = self._socket.recv(MAX_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            self.datagram_received(data, None)
