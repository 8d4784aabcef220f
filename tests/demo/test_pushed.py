"""The sink that watches what is pushed to an Agent."""

from __future__ import annotations

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics.demo.pushed import WatchedSink
from pushmetrics.live.board import Board
from pushmetrics.live.limits import LimitRow
from pushmetrics.receiver import Receiver
from pushmetrics.testing import ManualClock, RecordingSink


class AddressedSink(RecordingSink):
    """Has an address, as the sink to an Agent has."""

    address = "udp://agent:8125"


async def test_what_was_refused_is_seen_once_when_it_is_delivered() -> None:
    registry = Registry()
    limit = MeteredSemaphore(2, component="model_server", limit_name="requests", registry=registry)
    agent = AddressedSink()
    with ManualClock() as clock:
        receiver = Receiver(bucket_seconds=1)
        board = Board(receiver)
        watched = WatchedSink(agent, receiver.feed)  # type: ignore[arg-type]  # All it asks of a sink is here.

        def seen() -> LimitRow:
            (row,) = board.look().limits
            return row

        async with Reporter(registry=registry, sink=watched, level="full", constant_tags=["team:search"]) as reporter:
            await clock.advance(0)
            async with limit:
                agent.refusing = True
                await reporter.flush()
                await reporter.flush()
                assert watched.last.failures
                assert seen().value("active") == 0
                assert seen().value("admissions_total") == 0

                agent.refusing = False
                await reporter.flush()

                assert not watched.last.failures
                assert seen().value("active") == 1
                assert seen().value("admissions_total") == 1

        assert agent.closed
        assert watched.address == "udp://agent:8125"
        assert seen().value("active") == 0
        assert seen().value("admissions_total") == 1
        assert seen().key.tags == ("component:model_server", "limit_name:requests", "team:search")
        assert receiver.statistics().refused == 0
        assert receiver.latest("pushmetrics.series").value == 1
