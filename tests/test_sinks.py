"""Sinks: a real UDP socket on the other side, and what is refused there."""

from __future__ import annotations

import asyncio
import errno
import io
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pushmetrics import ConsoleSink, DogStatsDSink, MemorySink, MeteredSemaphore, PushmetricsError, Registry, Reporter
from pushmetrics.catalog import metrics_at
from pushmetrics.dogstatsd import Line, parse
from pushmetrics.model import Sample
from pushmetrics.sinks import dogstatsd_sink, resolve
from pushmetrics.sinks.udp import UdpTransport
from pushmetrics.testing import ManualClock


class Agent:
    """A UDP socket on loopback that is read when asked."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port
        self.open()

    def open(self) -> None:
        """Listen, after a close on the same port as before."""
        self.socket = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.host, self.port))
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]

    def datagrams(self) -> list[bytes]:
        received = []
        while True:
            try:
                received.append(self.socket.recv(65536))
            except BlockingIOError:
                return received

    def lines(self) -> list[Line]:
        lines = []
        for datagram in self.datagrams():
            parsed, refused = parse(datagram)
            assert refused == []
            lines += parsed
        return lines

    def total(self, name: str) -> float:
        return sum(line.values[0] for line in self.lines() if line.name == f"gym.concurrency.{name}")

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    yield agent
    agent.close()


def limits(registry: Registry, number: int = 1, **options: Any) -> list[MeteredSemaphore]:
    return [
        MeteredSemaphore(2, component="server", limit_name=f"limit-{place}", registry=registry, **options)
        for place in range(number)
    ]


def reporter_to(port: int, registry: Registry, **options: Any) -> Reporter:
    return Reporter(registry=registry, sink=f"udp://127.0.0.1:{port}", flush_interval=3600, **options)


class TestUdp:
    async def test_the_limits_arrive(self, agent: Agent) -> None:
        registry = Registry()
        (limit,) = limits(registry)
        async with reporter_to(agent.port, registry) as reporter, limit:
            result = await reporter.flush()

        lines = agent.lines()
        assert {line.name for line in lines if line.tags} == {
            f"gym.concurrency.{name}"
            for name in [metric.name for metric in metrics_at("standard")]
            if name not in {"admission_timeouts_total", "admission_rejected_total"}
        }
        assert {line.tags for line in lines} == {(), ("component:server", "limit_name:limit-0")}
        assert result.datagrams == 1
        assert result.bytes > 500

    async def test_pushes_of_two_event_loops_take_turns(self, agent: Agent) -> None:
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}")
        began, go_on = threading.Event(), threading.Event()
        order: list[str] = []

        def samples(name: str) -> Iterator[Sample]:
            order.append(f"{name} begins")
            if name == "there":
                began.set()
                go_on.wait(30)
            yield from registry.collect("core", name)
            order.append(f"{name} ends")

        registry = Registry()
        (limit,) = limits(registry)
        there = threading.Thread(target=lambda: asyncio.run(sink.push(samples("there"))))
        there.start()
        await asyncio.to_thread(began.wait)
        here = asyncio.create_task(sink.push(samples("here")))
        for _ in range(20):  # As many turns as a push that waits for nobody needs.
            await asyncio.sleep(0)
        go_on.set()
        await here
        there.join()
        await sink.aclose()

        assert order == ["there begins", "there ends", "here begins", "here ends"]
        assert [line.name for line in agent.lines() if line.name.endswith(".limit")] == ["there.limit", "here.limit"]
        assert limit in registry

    async def test_a_closed_port_refuses_and_nothing_is_lost_or_counted_twice(self, agent: Agent) -> None:
        registry = Registry()
        (limit,) = limits(registry)
        async with reporter_to(agent.port, registry) as reporter:
            for rounds in range(3):
                async with limit:
                    await reporter.flush()
                taken = agent.total("admissions_total")
                assert taken == (2 if rounds else 1)
                agent.close()
                async with limit:
                    assert (await reporter.flush()).failures == {"ECONNREFUSED": 1}
                    assert (await reporter.flush()).failures == {"ECONNREFUSED": 1}
                agent.open()
        assert agent.total("admissions_total") == 1
        assert limit.admissions == 6

    async def test_an_agent_that_closes_between_two_datagrams_of_a_flush(self, agent: Agent) -> None:
        """Whatever datagram is the first refused one, each series is delivered or kept, never both."""
        registry = Registry()
        for limit in (kept := limits(registry, 10)):
            await limit.acquire()
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}")
        delivered = 0
        for number, sample in enumerate(samples := list(registry.collect("standard", "gym.concurrency"))):
            if number == 4:
                received = agent.total("admissions_total")
                agent.close()
            delivered += (await sink.push(iter([sample]))).datagrams
        assert (delivered, received) == (4, 4)
        assert len(samples) == len(kept)
        undelivered = sum(
            sample.value("admissions_total") for sample in registry.collect("standard", "gym.concurrency")
        )
        assert undelivered == 6
        await sink.aclose()

    @pytest.mark.parametrize("closes_at", [1, 7, 8, 39, 50])
    async def test_an_agent_that_closes_within_a_burst(self, agent: Agent, closes_at: int) -> None:
        """The kernel tells of a refused datagram at the next one, and that one is not sent: both are kept."""
        registry = Registry()
        for limit in (kept := limits(registry, 60)):
            await limit.acquire()
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}")

        def samples() -> Iterator[Sample]:
            for number, sample in enumerate(registry.collect("standard", "gym.concurrency")):
                if number == closes_at:
                    arrived.extend(agent.lines())
                    agent.close()
                yield sample

        arrived: list[Line] = []
        delivery = await sink.push(samples())
        agent.open()
        await sink.push(registry.collect("standard", "gym.concurrency"))
        await sink.aclose()
        arrived.extend(agent.lines())

        assert delivery.failures == {"ECONNREFUSED": 1}
        admissions = Counter(line.tags for line in arrived if line.name.endswith("admissions_total") and line.values[0])
        assert len(admissions) == len(kept)
        assert set(admissions.values()) == {1}

    @pytest.mark.parametrize("number", [errno.EPERM, errno.ENETUNREACH, errno.ENETDOWN, errno.ENOMEM])
    async def test_an_error_of_the_next_datagram_does_not_make_the_last_one_refused(
        self, agent: Agent, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A route that goes between two datagrams, a firewall: the one before has long arrived.
        registry = Registry()
        for limit in (kept := limits(registry, 60)):
            await limit.acquire()
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}")
        send, sent = UdpTransport.send, Counter[str]()

        def failing_send(transport: UdpTransport, data: bytes) -> None:
            sent["datagrams"] += 1
            if sent["datagrams"] == 5:
                raise OSError(number, "said at once")
            send(transport, data)

        monkeypatch.setattr(UdpTransport, "send", failing_send)
        delivery = await sink.push(registry.collect("standard", "gym.concurrency"))
        await sink.push(registry.collect("standard", "gym.concurrency"))
        await sink.aclose()

        assert delivery.failures == {errno.errorcode[number]: 1}
        admissions = Counter(
            line.tags for line in agent.lines() if line.name.endswith("admissions_total") and line.values[0]
        )
        assert len(admissions) == len(kept)
        assert set(admissions.values()) == {1}

    async def test_late_word_of_a_datagram_from_afar_refuses_no_other(self, agent: Agent) -> None:
        registry = Registry()
        (limit,) = limits(registry)
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}")
        await sink.push(registry.collect("standard", "gym.concurrency"))
        agent.close()
        sink._transport._socket.send(b"refused")  # type: ignore[attr-defined, union-attr]  # Stands for one of a flush before.
        agent.open()

        assert (await sink.push(registry.collect("standard", "gym.concurrency"))).failures == {}
        assert limit in registry
        await sink.aclose()

    async def test_datagrams_have_a_size_and_hold_whole_lines(self, agent: Agent) -> None:
        registry = Registry()
        everything = limits(registry, 30, tags={"region": "eu-west-1", "shard": "x" * 60})
        for size in (512, 1432, 8192):
            sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}", max_datagram_bytes=size)
            await sink.push(registry.collect("full"))
            await sink.aclose()
            datagrams = agent.datagrams()
            lines = [line for datagram in datagrams for line in parse(datagram)[0]]
            assert max(map(len, datagrams)) <= size
            assert min(map(len, datagrams)) > 0
            assert not any(datagram.startswith(b"\n") or datagram.endswith(b"\n") for datagram in datagrams)
            assert len(lines) == 11 * len(everything)

    async def test_a_line_that_fits_no_datagram_is_counted_and_the_others_go(self, agent: Agent) -> None:
        registry = Registry()
        long = {f"key{place}": "ü" * 190 for place in range(4)}
        mixed = [*limits(registry, 1, tags=long), *limits(registry, 1)]
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}")

        delivery = await sink.push(registry.collect("core"))

        assert delivery.failures == {"line too long": 5}
        assert len(agent.lines()) == 5
        assert len(mixed) == 2
        await sink.aclose()

    async def test_a_number_that_python_does_not_write_costs_its_own_series(self, agent: Agent) -> None:
        registry = Registry()
        endless = MeteredSemaphore(10**5000, component="server", limit_name="endless", registry=registry)
        (limit,) = limits(registry)
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}")

        delivery = await sink.push(registry.collect("core"))

        assert delivery.failures == {"line too long": 1}
        assert {line.tags for line in agent.lines()} == {limit.tags}
        assert endless in registry
        await sink.aclose()

    async def test_the_loop_gets_its_turn_during_a_large_flush(self, agent: Agent) -> None:
        registry = Registry(max_series=1000)
        many = limits(registry, 400)
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}")
        delivery = await sink.push(registry.collect("standard", "gym.concurrency"))
        counting.cancel()
        await sink.aclose()

        assert delivery.datagrams > UdpTransport.burst
        assert turns > delivery.datagrams // UdpTransport.burst
        assert len(many) == 400

    @pytest.mark.parametrize("size", [512, 1432, 4096, 8192])
    async def test_a_burst_fits_the_buffer_of_an_agent_that_reads_in_the_pauses(
        self, agent: Agent, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registry = Registry()
        many = limits(registry, 1000)
        monkeypatch.setattr(dogstatsd_sink, "TURN_SECONDS", 60)  # Only the pauses give the loop its turn.
        received: list[bytes] = []

        async def read() -> None:
            while True:
                received.extend(agent.datagrams())
                await asyncio.sleep(0)

        reading = asyncio.create_task(read())
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}", max_datagram_bytes=size)
        delivery = await sink.push(registry.collect("standard", "gym.concurrency"))
        reading.cancel()
        await sink.aclose()

        assert len(received) + len(agent.datagrams()) == delivery.datagrams >= 100
        assert len(many) == 1000

    async def test_templates_of_series_that_have_ended_are_forgotten(self, agent: Agent) -> None:
        registry = Registry(max_series=100_000)
        sink = DogStatsDSink(f"udp://127.0.0.1:{agent.port}")
        for _ in range(30):
            fleeting = limits(registry, 20, tags={"batch": str(_)})
            await sink.push(registry.collect("core"))
            del fleeting
            await sink.push(registry.collect("core"))
            agent.datagrams()

        assert len(sink._templates) < 200
        await sink.aclose()


class TestLookUps:
    """`getaddrinfo` is replaced: what a resolver does can not be asked of a test machine."""

    @staticmethod
    def answer(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[str]:
        """Let the look-ups of names have these answers in turn; an exception is raised, a function is called."""
        real = socket.getaddrinfo
        asked: list[str] = []
        remaining = list(answers)

        def getaddrinfo(host: str, port: int, **options: Any) -> Any:
            if options.get("flags"):
                return real(host, port, **options)
            asked.append(host)
            given = remaining.pop(0)
            if isinstance(given, Exception):
                raise given
            if callable(given):
                given = given()
            return [
                (socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM, 17, "", (ip, port))
                for ip in given
            ]

        monkeypatch.setattr(resolve.socket, "getaddrinfo", getaddrinfo)
        return asked

    async def test_a_failing_look_up_is_tried_again_and_nothing_is_lost(
        self, agent: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = self.answer(monkeypatch, socket.gaierror(-3, "temporary"), ["127.0.0.1"])
        registry = Registry()
        (limit,) = limits(registry)
        await limit.acquire()
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")

        assert (await sink.push(registry.collect("standard", "gym.concurrency"))).failures == {"gaierror": 1}
        assert (await sink.push(registry.collect("standard", "gym.concurrency"))).failures == {}
        assert (await sink.push(registry.collect("standard", "gym.concurrency"))).failures == {}

        assert asked == ["agent.example"] * 2
        assert agent.total("admissions_total") == 1
        await sink.aclose()

    async def test_a_slow_look_up_holds_up_neither_the_loop_nor_the_next_flush(
        self, agent: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go = threading.Event()
        in_time = []

        def slow() -> list[str]:
            in_time.append(go.wait(10))
            return ["127.0.0.1"]

        asked = self.answer(monkeypatch, slow)
        monkeypatch.setattr("pushmetrics.sinks.udp.LOOKUP_SECONDS", 0.01)
        registry = Registry()
        everything = limits(registry)
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")

        assert (await sink.push(registry.collect("standard", "gym.concurrency"))).failures == {"name look-up": 1}
        assert (await sink.push(registry.collect("standard", "gym.concurrency"))).failures == {"name look-up": 1}
        assert threading.active_count() < 5, "one look-up at a time"
        go.set()
        monkeypatch.setattr("pushmetrics.sinks.udp.LOOKUP_SECONDS", 5)
        assert (await sink.push(registry.collect("standard", "gym.concurrency"))).datagrams == 1
        assert asked == ["agent.example"]
        assert in_time == [True], "nothing of it was waited for"
        assert len(everything) == 1
        await sink.aclose()

    async def test_on_a_dual_stack_host_the_address_that_answers_is_used(
        self, agent: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.answer(monkeypatch, ["::1", "127.0.0.1"])
        registry = Registry()
        everything = limits(registry)
        sink = DogStatsDSink(f"udp://localhost:{agent.port}")
        assert (await sink.push(registry.collect("standard", "gym.concurrency"))).datagrams == 1
        assert len(agent.lines()) == 11 * len(everything)
        await sink.aclose()

    async def test_an_agent_on_ipv6_alone_is_found_behind_a_refusing_ipv4(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        agent = Agent(host="::1")
        try:
            self.answer(monkeypatch, ["127.0.0.1", "::1"])
            registry = Registry()
            everything = limits(registry)
            sink = DogStatsDSink(f"udp://localhost:{agent.port}")
            assert (await sink.push(registry.collect("standard", "gym.concurrency"))).failures == {}
            assert len(agent.lines()) == 11 * len(everything)
            await sink.aclose()
        finally:
            agent.close()

    @staticmethod
    async def until_answered() -> None:
        """Return when look-ups that are under way have ended and the loop knows it."""
        for thread in threading.enumerate():
            if thread.name == "pushmetrics-lookup":
                await asyncio.to_thread(thread.join, 10)
        await asyncio.sleep(0)

    @pytest.fixture
    def moved(self, agent: Agent) -> Iterator[Agent]:
        """Where the Agent is after it has moved; the old one still takes everything."""
        moved = Agent("::1", agent.port)
        yield moved
        moved.close()

    @staticmethod
    async def push(sink: DogStatsDSink, registry: Registry) -> dict[str, int]:
        return dict((await sink.push(registry.collect("standard", "gym.concurrency"))).failures)

    async def test_a_host_that_moves_without_refusing_is_followed(
        self, agent: Agent, moved: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = self.answer(monkeypatch, ["127.0.0.1"], ["::1"])
        registry = Registry()
        kept = limits(registry)
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")
        with ManualClock() as clock:
            for _ in range(6):
                assert await self.push(sink, registry) == {}
                await clock.advance(10)
            assert asked == ["agent.example"]
            agent.datagrams()

            assert await self.push(sink, registry) == {}
            assert agent.datagrams(), "the flush that asks again does not wait for the answer"
            await self.until_answered()
            assert await self.push(sink, registry) == {}

        assert agent.datagrams() == []
        assert len(moved.lines()) == 11 * len(kept)
        assert len(asked) == 2
        await sink.aclose()

    async def test_one_of_several_addresses_is_kept_for_as_long_as_it_is_among_them(
        self, agent: Agent, moved: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name server that answers in turn must not make a new connection of each answer."""
        self.answer(monkeypatch, ["127.0.0.1"], *[["::1", "127.0.0.1"], ["127.0.0.1", "::1"]] * 2)
        registry = Registry()
        kept = limits(registry)
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")
        with ManualClock() as clock:
            for _ in range(4):
                assert await self.push(sink, registry) == {}
                await self.until_answered()
                await clock.advance(60)

        assert len(agent.lines()) == 4 * 11 * len(kept)
        assert moved.datagrams() == []
        await sink.aclose()

    async def test_a_refresh_that_fails_keeps_the_address_and_is_tried_again(
        self, agent: Agent, moved: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.answer(
            monkeypatch, ["127.0.0.1"], socket.gaierror(-3, "temporary"), UnicodeError("label"), ["::1"], ["::1"]
        )
        registry = Registry()
        kept = limits(registry)
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")
        with ManualClock() as clock:
            for _ in range(5):
                assert await self.push(sink, registry) == {}
                await self.until_answered()
                await clock.advance(60)

        assert len(agent.lines()) == 4 * 11 * len(kept)
        assert len(moved.lines()) == 11 * len(kept)
        await sink.aclose()

    async def test_a_refresh_that_hangs_holds_no_flush_up_and_is_the_only_one(
        self, agent: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go = threading.Event()
        asked = self.answer(monkeypatch, ["127.0.0.1"], lambda: go.wait(10) and ["127.0.0.1"])
        monkeypatch.setattr("pushmetrics.sinks.udp.LOOKUP_SECONDS", 3600)
        registry = Registry()
        kept = limits(registry)
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")
        with ManualClock() as clock:
            for _ in range(3):
                assert await self.push(sink, registry) == {}
                await clock.advance(60)
        go.set()
        await self.until_answered()

        assert len(agent.lines()) == 3 * 11 * len(kept)
        assert len(asked) == 2
        await sink.aclose()

    async def test_after_a_refusal_the_host_is_looked_up_again_and_followed(
        self, agent: Agent, moved: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.answer(monkeypatch, ["127.0.0.1"], ["::1"])
        registry = Registry()
        (limit,) = limits(registry)
        await limit.acquire()
        agent.close()
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")

        assert await self.push(sink, registry) == {"ECONNREFUSED": 1}
        await self.until_answered()
        assert await self.push(sink, registry) == {}

        assert moved.total("admissions_total") == 1
        await sink.aclose()

    async def test_an_agent_that_restarts_while_the_resolver_is_down_is_found_where_it_was(
        self, agent: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.answer(monkeypatch, ["127.0.0.1"], *[socket.gaierror(-3, "temporary")] * 3)
        registry = Registry()
        (limit,) = limits(registry)
        await limit.acquire()
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")
        agent.close()
        for _ in range(3):
            assert await self.push(sink, registry) == {"ECONNREFUSED": 1}
            await self.until_answered()
        agent.open()
        assert await self.push(sink, registry) == {}

        assert agent.total("admissions_total") == 1
        await sink.aclose()

    async def test_an_address_without_a_way_to_it_is_passed_over(
        self, agent: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A broadcast needs a permission, and a link-local address an interface."""
        self.answer(monkeypatch, ["fe80::1", "255.255.255.255", "127.0.0.1"])
        registry = Registry()
        kept = limits(registry)
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")
        assert await self.push(sink, registry) == {}
        assert len(agent.lines()) == 11 * len(kept)
        await sink.aclose()

    async def test_where_no_thread_can_be_had_that_is_a_failure_like_any_other(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def start(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", start)
        registry = Registry()
        kept = limits(registry)
        sink = DogStatsDSink("udp://agent.example:8125")
        assert await self.push(sink, registry) == {"OSError": 1}
        assert len(kept) == 1
        await sink.aclose()

    def test_a_look_up_of_a_loop_that_has_ended_is_not_waited_for(
        self, agent: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go = threading.Event()
        self.answer(monkeypatch, lambda: go.wait(10) and ["127.0.0.1"], ["127.0.0.1"])
        registry = Registry()
        kept = limits(registry)
        sink = DogStatsDSink(f"udp://agent.example:{agent.port}")
        with monkeypatch.context() as patch:
            patch.setattr("pushmetrics.sinks.udp.LOOKUP_SECONDS", 0.01)
            assert asyncio.run(self.push(sink, registry)) == {"name look-up": 1}
        assert asyncio.run(self.push(sink, registry)) == {}
        go.set()
        asyncio.run(self.until_answered())
        asyncio.run(sink.aclose())
        assert len(agent.lines()) == 11 * len(kept)

    def test_a_look_up_does_not_hold_up_the_end_of_the_loop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        go = threading.Event()
        in_time = []
        self.answer(monkeypatch, lambda: in_time.append(go.wait(10)) or ["127.0.0.1"])
        monkeypatch.setattr("pushmetrics.sinks.udp.LOOKUP_SECONDS", 0.01)

        async def program() -> None:
            async with Reporter(registry=Registry(), sink="udp://agent.example:1"):
                await asyncio.sleep(0)

        asyncio.run(program())
        go.set()
        for thread in threading.enumerate():
            if thread.name == "pushmetrics-lookup":
                thread.join()
        assert in_time == [True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"address": "http://x"}, "'http://x' is no address of an Agent; expected udp://host:port"),
        ({"address": "localhost:8125"}, "expected udp://host:port"),
        ({"address": "udp://"}, "no usable host or port"),
        ({"address": "udp://h:99999"}, "no usable host or port"),
        ({"address": 7}, "an address is a string"),
        ({"max_datagram_bytes": 100}, "max_datagram_bytes: expected an integer from 512 to 8192, got 100"),
        ({"max_datagram_bytes": 9000}, "max_datagram_bytes"),
        ({"max_datagram_bytes": 1432.0}, "max_datagram_bytes"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PushmetricsError, match=message) as caught:
        DogStatsDSink(**arguments)
    assert isinstance(caught.value, (ValueError, TypeError))


async def test_the_console_shows_a_line_for_each_limit_and_flush() -> None:
    registry = Registry()
    limit = MeteredSemaphore(
        4, component="model_server", limit_name="upstream_requests", server="policy_model", registry=registry
    )
    stream = io.StringIO()
    async with Reporter(registry=registry, sink=ConsoleSink(stream)) as reporter, limit:
        await reporter.flush()

    lines = stream.getvalue().splitlines()
    assert lines[-1].startswith("model_server upstream_requests policy_model  limit 4  active 0  queued 0  peak 0")
    assert len(lines) in {2, 3}


async def test_memory_forgets_the_oldest() -> None:
    registry = Registry()
    everything = limits(registry, 5)
    sink = MemorySink(max_samples=3)
    await sink.push(registry.collect("standard", "gym.concurrency"))

    assert len(sink.samples) == 3
    with pytest.raises(KeyError, match="no sample of active"):
        sink.latest("active", limit_name="limit-0")
    assert sink.latest("limit", limit_name="limit-4") == 2
    assert len(everything) == 5
