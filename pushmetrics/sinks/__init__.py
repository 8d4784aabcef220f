"""Where samples go: one small module for each kind of sink, and the choice between them."""

from __future__ import annotations

from ..errors import InvalidTypeError, shown
from ..model import Sink
from .console import ConsoleSink
from .dogstatsd_sink import DogStatsDSink
from .memory import MemorySink

__all__ = ["ConsoleSink", "DogStatsDSink", "MemorySink", "resolve_sink"]


def resolve_sink(sink: str | Sink | None) -> Sink:
    """Return the sink that a caller means: None for the Agent of the DD_* variables, an address, or a sink itself.

    Raises :class:`InvalidTypeError` or :class:`InvalidValueError` for anything else.
    """
    if sink is None or isinstance(sink, str):
        return DogStatsDSink(sink)
    if isinstance(sink, type) or not isinstance(sink, Sink):
        raise InvalidTypeError(
            "sink: expected None, an address such as 'udp://localhost:8125', or an object with push() and aclose(), "
            f"got {shown(sink)}"
        )
    return sink
