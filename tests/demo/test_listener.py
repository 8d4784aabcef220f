"""The listener that stands in for an Agent."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

import pytest

from pushmetrics.demo.listener import Listener
from pushmetrics.demo.readings import Readings

LINE = b"gym.concurrency.active:%d|g|#component:a,limit_name:b"


def connected_to(listener: Listener) -> socket.socket:
    address = urlsplit(listener.address)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect((address.hostname, address.port))
    return sender


async def test_it_is_there_for_this_machine_alone() -> None:
    with Listener(Readings()) as listener:
        assert urlsplit(listener.address).hostname == "127.0.0.1"
        assert urlsplit(listener.address).port != 8125


async def test_nothing_that_has_arrived_is_left_in_the_buffer() -> None:
    readings = Readings()
    with Listener(readings) as listener, connected_to(listener) as sender:
        async with listener.reading():
            for number in range(50):
                sender.send(LINE % number)

    assert [reading.value("active") for reading in readings.limits] == [49]


async def test_what_can_not_be_read_is_counted_by_its_reason() -> None:
    with Listener(Readings()) as listener, connected_to(listener) as sender:
        async with listener.reading():
            sender.send(b"a:1|q\nb:1|g\nc:1|q\nd:x|g")

    assert listener.refused == {"unknown type": 2, "a value is no finite number": 1}


async def test_it_gives_its_port_back() -> None:
    with Listener(Readings()) as listener:
        port = urlsplit(listener.address).port
        async with listener.reading():
            await asyncio.sleep(0)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as another:
        another.bind(("127.0.0.1", port))


def test_a_port_that_can_not_be_taken_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(Readings())

    def refuse(address: object) -> None:
        raise OSError(99, "Cannot assign requested address")

    class Unbindable:
        """A socket on a machine without a loopback interface."""

        setblocking = bind = staticmethod(refuse)
        close = listener._socket.close

    monkeypatch.setattr(listener, "_socket", Unbindable)

    with pytest.raises(OSError, match="Cannot assign requested address"):
        listener.__enter__()
