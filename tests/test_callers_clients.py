"""The caller's own clients as sinks: their lines, their accounting, and that they stay their owner's."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiodogstatsd
import pytest
from datadog.dogstatsd.base import DogStatsd
from servers.datadog_server import DatadogServer

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics.receiver import Receiver

pytest_plugins = ["servers.fixtures"]

TAGS = ("component:api", "limit_name:calls")


def limit_of(registry: Registry, **options: Any) -> MeteredSemaphore:
    return MeteredSemaphore(2, component="api", limit_name="calls", registry=registry, **options)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A UDP socket that is read by the test itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(0.2)
        yield sock


def lines(listener: socket.socket) -> list[str]:
    """All lines that have come."""
    found: list[str] = []
    try:
        while True:
            found += listener.recv(65536).decode().splitlines()
    except TimeoutError:
        return found


async def use_all(limit: MeteredSemaphore) -> None:
    """Two events of each kind that a plain limit has, and one slot in use."""
    for _ in range(2):
        async with limit, limit:
            waiter = asyncio.create_task(limit.acquire())
            await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.wait([waiter])
    await limit.acquire()


def official(**options: Any) -> DogStatsd:
    return DogStatsd(**{"telemetry_min_flush_interval": 3600, "origin_detection_enabled": False} | options)


class TestTheOfficialClient:
    async def test_its_lines_are_those_of_its_own_calls(self, listener: socket.socket) -> None:
        client = official(
            host="127.0.0.1",
            port=listener.getsockname()[1],
            namespace="shop",
            constant_tags=["team:search", "canary"],
            cardinality="low",
            container_id="abc",
        )
        registry = Registry()
        limit = limit_of(registry, server="eu-1")
        await use_all(limit)
        samples = list(registry.collect("full", "gym.concurrency", ("tier:1",)))
        async with Reporter(registry=registry, sink=client, level="full", constant_tags=["tier:1"], worker=None):
            pass
        ours = lines(listener)
        tags = ["component:api", "limit_name:calls", "server:eu-1", "tier:1"]
        for sample in samples:
            names = zip(sample.descriptor.names, sample.descriptor.kinds, sample.values, strict=False)
            for name, kind, value in names:
                {"g": client.gauge, "c": client.count}[kind](f"gym.concurrency.{name}", value, tags=tags)
        its_own = lines(listener)

        steady = [line for line in its_own if "_ms" not in line]  # Times are not the same twice.
        assert len(steady) == 9
        assert [line for line in ours if line in steady][: len(steady)] == steady
        client.stop()

    async def test_a_real_receiver_gets_each_event_once_and_the_client_stays_its_owners(
        self, receiver: Receiver
    ) -> None:
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        client = official(host=host, port=port, constant_tags=["team:search"], disable_buffering=False)
        registry = Registry()
        limit = limit_of(registry)
        async with Reporter(registry=registry, sink=client, worker=3) as reporter:
            await use_all(limit)
            result = await reporter.flush()
            await reporter.flush()
        tags = ("team:search", *TAGS, "worker:3")
        client.increment("still.there")
        client.flush()
        await receiver.aclose()

        assert result.failures == {}
        assert result.datagrams > 0
        assert result.bytes > 0
        totals = {name: value for (name, its_tags), value in receiver.totals().items() if set(its_tags) == set(tags)}
        assert totals["gym.concurrency.admissions_total"] == 5
        assert totals["gym.concurrency.admission_cancelled_total"] == 2
        assert receiver.latest("gym.concurrency.active").value == 1
        assert receiver.latest("pushmetrics.series").value == 1
        assert ("still.there", ("team:search",)) in receiver.totals()
        client.stop()

    async def test_what_it_refused_is_sent_again(self, receiver: Receiver, tmp_path: Path) -> None:
        path = tmp_path / "agent.socket"
        client = official(socket_path=str(path), disable_buffering=False)
        registry = Registry()
        limit = limit_of(registry)
        async with Reporter(registry=registry, sink=client, worker=None) as reporter:
            await use_all(limit)
            assert (await reporter.flush()).failures == {"refused by the client": 2}
            await receiver.listen_unix(path)
            assert (await reporter.flush()).failures == {}
            await reporter.flush()
        await receiver.aclose()

        assert receiver.totals()["gym.concurrency.admissions_total", TAGS] == 5
        client.stop()

    async def test_a_call_that_blocks_does_not_block_the_loop(self, listener: socket.socket) -> None:
        go_on = threading.Event()
        in_time = []

        class Blocking(DogStatsd):
            def flush(self) -> Any:
                in_time.append(go_on.wait(10))
                return super().flush()

        client = Blocking(host="127.0.0.1", port=listener.getsockname()[1])
        registry = Registry()
        limit = limit_of(registry)
        async with Reporter(registry=registry, sink=client, worker=None) as reporter:
            async with limit:
                flushing = asyncio.create_task(reporter.flush())
                await asyncio.sleep(0.01)
            go_on.set()
            await flushing
        client.stop()

        assert all(in_time), "the loop went on to let it go on"

    async def test_a_flush_that_is_cancelled_meanwhile_doubles_nothing(self, receiver: Receiver) -> None:
        go_on, blocked = threading.Event(), threading.Event()

        class Blocking(DogStatsd):
            def flush(self) -> Any:
                blocked.set()
                go_on.wait(30)
                return super().flush()

        host, port = await receiver.listen_udp("127.0.0.1", 0)
        client = Blocking(host=host, port=port, telemetry_min_flush_interval=3600, disable_buffering=False)
        registry = Registry()
        limit = limit_of(registry)
        async with limit:
            pass
        reporter = Reporter(registry=registry, sink=client, worker=None)
        await reporter.start()
        await asyncio.to_thread(blocked.wait)
        closing = asyncio.create_task(reporter.aclose())
        await asyncio.sleep(0.05)
        go_on.set()
        await closing
        await receiver.aclose()

        assert [value for (name, _), value in receiver.totals().items() if name.endswith(".admissions_total")] == [1]
        client.stop()

    @pytest.mark.server
    async def test_datadogs_server_takes_all_of_it(self, datadog_server: DatadogServer) -> None:
        client = official(host="127.0.0.1", port=datadog_server.port, constant_tags=["by:the_client"])
        registry = Registry()
        limit = limit_of(registry)
        async with Reporter(
            registry=registry, sink=client, namespace="of.client", level="full", worker=None
        ) as reporter:
            await use_all(limit)
            await reporter.flush()
        await asyncio.to_thread(datadog_server.settle)

        assert datadog_server.refused == []
        received = "\n".join(datadog_server.received)
        assert "of.client.active:1|g|#component:api,limit_name:calls,by:the_client" in received
        client.stop()


class TestAioDogStatsD:
    async def test_its_lines_are_those_of_its_own_calls(self, listener: socket.socket) -> None:
        host, port = listener.getsockname()
        registry = Registry()
        limit = limit_of(registry, server="eu-1")
        await use_all(limit)
        async with aiodogstatsd.Client(
            host=host, port=port, namespace="shop", constant_tags={"team": "search"}, read_timeout=0.01
        ) as client:
            async with Reporter(
                registry=registry, sink=client, level="core", constant_tags=["tier:1", "bare"], worker=2
            ):
                await asyncio.sleep(0.2)
            assert client.connected
            client.gauge("last", value=1)
        received = await asyncio.to_thread(lines, listener)

        tail = "team:search,component:api,limit_name:calls,server:eu-1,tier:1,worker:2"
        assert received[:5] == [
            f"shop.gym.concurrency.limit:2|g|#{tail}",
            f"shop.gym.concurrency.active:1|g|#{tail}",
            f"shop.gym.concurrency.available:1|g|#{tail}",
            f"shop.gym.concurrency.queue_depth:0|g|#{tail}",
            f"shop.gym.concurrency.admission_cancelled_total:2|c|#{tail}",
        ]
        assert received[-1] == "shop.last:1|g|#team:search"

    async def test_a_real_receiver_gets_each_event_once(self, receiver: Receiver) -> None:
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        registry = Registry()
        limit = limit_of(registry)
        async with (
            aiodogstatsd.Client(host=host, port=port, read_timeout=0.01) as client,
            Reporter(registry=registry, sink=client, level="full", worker=None) as reporter,
        ):
            await use_all(limit)
            await reporter.flush()
        await receiver.aclose()

        assert receiver.totals()["gym.concurrency.admissions_total", TAGS] == 5
        assert receiver.statistics().refused == 0
        assert receiver.latest("gym.concurrency.queue_duration_ms").distribution is not None

    async def test_before_it_is_connected_counts_wait(self, receiver: Receiver) -> None:
        host, port = await receiver.listen_udp("127.0.0.1", 0)
        registry = Registry()
        limit = limit_of(registry)
        client = aiodogstatsd.Client(host=host, port=port, read_timeout=0.01)
        async with Reporter(registry=registry, sink=client, worker=None) as reporter:
            await use_all(limit)
            assert (await reporter.flush()).failures == {"not connected": 1}
            async with client:
                assert (await reporter.flush()).failures == {}
        await receiver.aclose()

        assert receiver.totals()["gym.concurrency.admissions_total", TAGS] == 5
