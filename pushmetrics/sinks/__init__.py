"""Where samples go: one small module for each kind of sink, and the choice between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InvalidTypeError
from ..model import Sink
from ..redaction import shown
from .console import ConsoleSink
from .dogstatsd_sink import DogStatsDSink
from .memory import MemorySink

if TYPE_CHECKING:
    from .callers_clients import AioDogStatsDClient, OfficialClient

    SinkLike = str | Sink | OfficialClient | AioDogStatsDClient | None
    """What a caller may give as a sink."""

__all__ = ["ConsoleSink", "DogStatsDSink", "MemorySink", "resolve_sink"]


def resolve_sink(sink: SinkLike) -> Sink:
    """Return the sink that a caller means.

    None stands for the Agent of the DD_* variables; an address, the official client's ``DogStatsd``, an
    ``aiodogstatsd.Client``, or a sink for itself.

    Raises :class:`InvalidTypeError` or :class:`InvalidValueError` for anything else.
    """
    if sink is None or isinstance(sink, str):
        return DogStatsDSink(sink)
    from .callers_clients import sink_around  # Few programs come here.

    around = sink_around(sink)
    if around is not None:
        return around
    if isinstance(sink, type) or not isinstance(sink, Sink):
        raise InvalidTypeError(
            "sink: expected None, an address such as 'udp://localhost:8125', a datadog.dogstatsd.DogStatsd, an "
            f"aiodogstatsd.Client, or an object with push() and aclose(), got {shown(sink)}"
        )
    return sink
