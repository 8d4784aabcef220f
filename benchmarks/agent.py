"""A stand-in for the Agent: a socket that another process reads, so that reading costs the sender nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from datadog.dogstatsd.base import DogStatsd

_READER = """
import socket, sys
path = sys.argv[1]
with socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_DGRAM) as reader:
    reader.bind(path or ("127.0.0.1", 0))
    print(f"unix://{path}" if path else f"udp://127.0.0.1:{reader.getsockname()[1]}", flush=True)
    while True:
        reader.recv(65536)
"""


@contextmanager
def agent(scheme: str) -> Iterator[str]:
    """Yield the address, "udp://..." or "unix://...", of a datagram socket that is read."""
    with tempfile.TemporaryDirectory() as directory:
        program = [sys.executable, "-c", _READER, f"{directory}/socket" if scheme == "unix" else ""]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            try:
                yield reader.stdout.readline().strip()
            finally:
                reader.kill()


def official_client(address: str, *, buffered: bool) -> DogStatsd:
    """Return a client as it is cheapest: it sends no telemetry of its own."""
    settings: dict[str, Any] = {"disable_buffering": not buffered, "disable_telemetry": True}
    scheme, _, rest = address.partition("://")
    if scheme == "unix":
        # By default it drops what the reader's queue has no room for. This way both sides deliver everything.
        return DogStatsd(socket_path=rest, socket_timeout=1, **settings)
    host, _, port = rest.partition(":")
    return DogStatsd(host=host, port=int(port), **settings)
