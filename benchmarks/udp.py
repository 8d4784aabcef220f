"""A UDP port on loopback that is read, as an Agent reads it, at the cost of another process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_READER = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reader:
    reader.bind(("127.0.0.1", 0))
    print(reader.getsockname()[1], flush=True)
    while True:
        reader.recv(65536)
"""


@contextmanager
def drained_port() -> Iterator[int]:
    """Yield the number of a port whose datagrams are read as they come."""
    with subprocess.Popen([sys.executable, "-c", _READER], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        try:
            yield int(reader.stdout.readline())
        finally:
            reader.kill()
