"""The DogStatsD wire format: encode, pack and parse, as pure functions.

The format is described in https://docs.datadoghq.com/developers/dogstatsd/datagram_shell/. What follows the type of a
line (tags, origin, cardinality) is the official client's business: it comes in here as a finished *suffix*, and a
template of ours only fills numbers in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .catalog import DISTRIBUTION
from .model import Descriptor, Sample

_WIDEST_NUMBER = 20  # Digits of the largest 64-bit number.


class Block(NamedTuple):
    """Lines of one sample that travel in one datagram, so that they are delivered together or not at all."""

    data: bytes
    sample: Sample
    start: int
    stop: int

    def delivered(self) -> None:
        """Say so to the sample."""
        self.sample.delivered(self.start, self.stop)


class Datagram(NamedTuple):
    """What one send takes."""

    data: bytes
    blocks: tuple[Block, ...]


class Template:
    """The lines of a series with room for its numbers, made once and filled at each flush.

    `suffix` is what the lines carry behind their type, with the leading ``|``, or "". `max_bytes` is the size of a
    datagram: lines are put together into blocks that fit, whatever their numbers are.
    """

    __slots__ = ("_blocks", "_waits_format")

    def __init__(self, descriptor: Descriptor, suffix: str, max_bytes: int) -> None:
        prefix = f"{descriptor.namespace}." if descriptor.namespace else ""
        blocks: list[tuple[str, int, int]] = []
        lines: list[str] = []
        size = start = 0
        self._waits_format = ("", "")
        for place, (name, kind) in enumerate(zip(descriptor.names, descriptor.kinds, strict=True)):
            head = f"{prefix}{name}:"
            if kind is DISTRIBUTION:
                self._waits_format = (head, suffix)
                continue
            line = f"{head}%d|{kind}{suffix.replace('%', '%%')}"
            line_size = len(line.encode()) + _WIDEST_NUMBER
            if lines and size + line_size > max_bytes:
                blocks.append(("\n".join(lines), start, place))
                lines, size, start = [], 0, place
            lines.append(line)
            size += line_size
        if lines:
            blocks.append(("\n".join(lines), start, start + len(lines)))
        self._blocks = tuple(blocks)

    def fill(self, sample: Sample) -> Iterator[Block]:
        """Yield the blocks of `sample`, which has the template's descriptor."""
        values = sample.values
        for lines, start, stop in self._blocks:
            yield Block((lines % values[start:stop]).encode(), sample, start, stop)
        if sample.waits:
            head, suffix = self._waits_format
            tail = f"|{DISTRIBUTION}{rate_field(sample.one_in)}{suffix}"
            for line, wait in enumerate(sample.waits, len(values)):
                yield Block(f"{head}{wait}{tail}".encode(), sample, line, line + 1)


def rate_field(one_in: int) -> str:
    """Return the sample rate field for values of which each stands for `one_in`; "" for 1.

    The rate is cut, not rounded: receivers weigh a value with the whole part of 1/rate, which must not fall below.

    >>> rate_field(3)
    '|@0.333333333'
    """
    if one_in == 1:
        return ""
    return f"|@0.{10**9 // one_in:09d}".rstrip("0")


def pack(blocks: Iterable[Block], max_bytes: int) -> Iterator[Datagram | Block]:
    """Yield datagrams of at most `max_bytes` bytes, their lines separated by newlines; never an empty one.

    A block that fits no datagram is yielded as it is, for the caller to count.
    """
    taken: list[Block] = []
    size = 0
    for block in blocks:
        length = len(block.data)
        if length > max_bytes:
            yield block
            continue
        if taken and size + 1 + length > max_bytes:
            yield _datagram(taken)
            taken, size = [], 0
        size += length + 1 if taken else length
        taken.append(block)
    if taken:
        yield _datagram(taken)


def _datagram(blocks: list[Block]) -> Datagram:
    return Datagram(b"\n".join([block.data for block in blocks]), tuple(blocks))


class ParseError(ValueError):
    """A line is not DogStatsD; the message says why."""


class Line(NamedTuple):
    """A parsed metric line."""

    name: str
    kind: str
    """The type field: g, c, d, h, ms or s."""
    values: tuple[float, ...]
    """Empty for a set, whose values are no numbers."""
    members: tuple[str, ...] = ()
    """The values of a set."""
    rate: float = 1.0
    tags: tuple[str, ...] = ()
    container_id: str | None = None
    external_data: str | None = None
    cardinality: str | None = None
    timestamp: int | None = None


MAX_LINE_BYTES = 8192
"""What the Agent reads of a datagram (dogstatsd_buffer_size)."""

# Patterns, not compiled ones: a program that only sends does not need them, and `re` keeps those that are used.
_NAME = r"[a-zA-Z][a-zA-Z0-9_.]{0,199}"
_NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
_KINDS = frozenset({"g", "c", "d", "h", "ms", "s"})
_CARDINALITIES = frozenset({"none", "low", "orchestrator", "high"})


def parse(datagram: bytes) -> tuple[list[Line], list[str]]:
    """Return the lines of a datagram, and the reason of each line that was refused."""
    lines: list[Line] = []
    refused: list[str] = []
    for data in datagram.split(b"\n"):
        if not data:
            continue
        try:
            lines.append(parse_line(data))
        except ParseError as error:
            refused.append(str(error))
    return lines, refused


def parse_line(data: bytes) -> Line:
    """Return the metric in one line, without its newline; raises :class:`ParseError` for anything else."""
    if len(data) > MAX_LINE_BYTES:
        raise ParseError(f"longer than {MAX_LINE_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ParseError("not UTF-8") from None
    if any(ord(character) < 0x20 or character == "\x7f" for character in text):
        raise ParseError("holds a control character")
    head, *fields = text.split("|")
    name, colon, value = head.partition(":")
    if text.startswith(("_e{", "_sc|")):
        raise ParseError("an event or a service check, not a metric")
    if not colon or not fields:
        raise ParseError("no value or no type")
    if not re.fullmatch(_NAME, name):
        raise ParseError("bad metric name")
    kind = fields[0]
    if kind not in _KINDS:
        raise ParseError("unknown type")
    members = tuple(value.split(":")) if kind == "s" else ()
    values = () if kind == "s" else tuple(_number(part) for part in value.split(":"))
    found: dict[str, str] = {}
    for field in fields[1:]:
        key = next((key for key in ("@", "#", "c:", "e:", "card:", "T") if field.startswith(key)), None)
        if key is None:
            raise ParseError("unknown field")
        if key in found:
            raise ParseError("a field twice")
        if len(field) == len(key):
            raise ParseError("an empty field")
        found[key] = field[len(key) :]
    return Line(
        name,
        kind,
        values,
        members,
        _rate(found.get("@", "1")),
        _tags(found.get("#")),
        found.get("c:"),
        found.get("e:"),
        _cardinality(found.get("card:")),
        _timestamp(found.get("T"), kind),
    )


def _number(text: str) -> float:
    if not re.fullmatch(_NUMBER, text) or not math.isfinite(number := float(text)):
        raise ParseError("a value is no finite number")
    return number


def _rate(text: str) -> float:
    rate = _number(text)
    if not 0 < rate <= 1:
        raise ParseError("a sample rate outside (0, 1]")
    return rate


def _tags(text: str | None) -> tuple[str, ...]:
    tags = () if text is None else tuple(text.split(","))
    if any(not tag or tag.startswith("#") for tag in tags):
        raise ParseError("an empty tag")
    return tags


def _cardinality(text: str | None) -> str | None:
    if text is not None and text not in _CARDINALITIES:
        raise ParseError("unknown cardinality")
    return text


def _timestamp(text: str | None, kind: str) -> int | None:
    if text is None:
        return None
    if kind not in ("g", "c") or not re.fullmatch(r"0*[1-9][0-9]{0,18}", text):
        raise ParseError("a timestamp that is no whole second, or on a type that takes none")
    return int(text)
