"""The sink that watches what is pushed to an Agent."""

from __future__ import annotations

from pushmetrics import MeteredSemaphore, Registry, Reporter
from pushmetrics.demo.pushed import WatchedSink
from pushmetrics.demo.readings import Readings
from pushmetrics.testing import ManualClock, RecordingSink


class AddressedSink(RecordingSink):
    """Has an address, as the sink to an Agent has."""

    address = "udp://agent:8125"


async def test_what_was_refused_is_read_once_when_it_is_delivered() -> None:
    registry = Registry()
    limit = MeteredSemaphore(2, component="model_server", limit_name="requests", registry=registry)
    readings = Readings()
    agent = AddressedSink()
    watched = WatchedSink(agent, readings)  # type: ignore[arg-type]  # All it asks of a sink is here.
    with ManualClock() as clock:
        async with Reporter(registry=registry, sink=watched.sink) as reporter:
            await clock.advance(0)
            async with limit:
                agent.refusing = True
                await reporter.flush()
                await reporter.flush()
                (reading,) = readings.limits
                assert watched.last.failures
                assert reading.value("active") == 0
                assert reading.value("admissions_total") == 0

                agent.refusing = False
                await reporter.flush()

                assert not watched.last.failures
                assert reading.value("active") == 1
                assert reading.value("admissions_total") == 1

    assert agent.closed
    assert watched.address == "udp://agent:8125"
    assert reading.value("active") == 0
    assert reading.value("admissions_total") == 1
