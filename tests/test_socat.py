"""Datadog's own server behind socat: it takes every datagram that we send to a Unix socket."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import missing
from servers.datadog_server import DatadogServer

from pushmetrics import DogStatsDSink, MeteredSemaphore, Registry
from pushmetrics.catalog import LEVELS

pytest_plugins = ["servers.fixtures"]
pytestmark = pytest.mark.server


@pytest.fixture
def path(datadog_server: DatadogServer, tmp_path: Path) -> Iterator[Path]:
    """A Unix socket in front of the server, whose own socket is UDP."""
    socat = shutil.which("socat")
    if socat is None:
        missing("socat is not installed; on Debian: apt-get install socat")
    path = tmp_path / "dsd.socket"
    receive = f"UNIX-RECV:{path},mode=0722,unlink-early"
    command = [socat, "-u", "-b", "65536", receive, f"UDP-SENDTO:127.0.0.1:{datadog_server.port}"]
    with subprocess.Popen(command) as process:
        try:
            while not path.exists():
                assert process.poll() is None
                time.sleep(0.01)
            yield path
        finally:
            process.terminate()


@pytest.mark.parametrize("level", LEVELS)
async def test_every_datagram_is_taken(datadog_server: DatadogServer, path: Path, level: str) -> None:
    registry = Registry()
    names = [f"{level}-{number}" for number in range(60)]
    limits = [
        MeteredSemaphore(2, component="socat", limit_name=name, tags={"r": "ü"}, registry=registry) for name in names
    ]
    sink = DogStatsDSink(f"unix://{path}")
    before = len(datadog_server.received)

    deliveries = []
    datagrams = 0
    for _ in range(3):
        deliveries.append(await sink.push(registry.collect(level, "gym.concurrency")))
        datagrams += deliveries[-1].datagrams
        # Between socat and the server there is UDP, whose buffer holds no more than one flush of so large datagrams.
        datadog_server.wait_for(lambda server, sent=datagrams: len(server.received) - before == sent)
    await sink.aclose()

    assert [delivery.failures for delivery in deliveries] == [{}] * 3
    assert datagrams >= 9
    received = datadog_server.received[before:]
    assert sum(len(data.encode()) for data in received) == sum(delivery.bytes for delivery in deliveries)
    assert sum(data.count("|g") for data in received) >= 3 * 4 * len(limits)
    assert datadog_server.refused == []
