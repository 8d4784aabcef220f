"""As much of a PostgreSQL server as a pool of connections needs: it lets anybody in, and whatever is asked is done.

The messages are those of https://www.postgresql.org/docs/current/protocol-message-formats.html.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

NEGOTIATIONS = {80877103, 80877104}
"""Requests for encryption, which come before the start."""

PARAMETERS = {
    "client_encoding": "UTF8",
    "integer_datetimes": "on",
    "server_version": "16.0",
    "standard_conforming_strings": "on",
}


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


READY = message(b"Z", b"I")
WELCOME = b"".join(
    [
        message(b"R", struct.pack("!i", 0)),
        *(message(b"S", f"{name}\0{value}\0".encode()) for name, value in PARAMETERS.items()),
        message(b"K", struct.pack("!ii", 1, 1)),
        READY,
    ]
)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            length, code = struct.unpack("!ii", await reader.readexactly(8))
            await reader.readexactly(length - 8)
            if code not in NEGOTIATIONS:
                break
            writer.write(b"N")
        writer.write(WELCOME)
        while (kind := await reader.readexactly(1)) != b"X":
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            await reader.readexactly(length - 4)
            if kind == b"Q":
                writer.write(message(b"C", b"RESET\0") + READY)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # The client has gone.
    finally:
        writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """Serve on a free port, and yield the URL of a database there."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"postgresql://user:none@127.0.0.1:{port}/small"
