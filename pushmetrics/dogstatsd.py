"""The DogStatsD wire format: encode, pack and parse, as pure functions.

The format is described in https://docs.datadoghq.com/developers/dogstatsd/datagram_shell/. What follows the type of a
line (tags, origin, cardinality) is the official client's business: it comes in here as a finished *suffix*, and a
template of ours only fills numbers in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from .catalog import DISTRIBUTION
from .model import Descriptor, Kind, Sample

Part = tuple[Sample, int, int | None]
"""The lines of a sample, from the first up to but not including the second number, that travel in one datagram: all of
them are delivered, or none. None is the end of the sample."""

Datagram = tuple[bytes, list[Part]]
"""What one send takes, and what is in it."""


class Template:
    """The lines of a series with room for its numbers, made once and filled at each flush.

    `suffix` is what the lines carry behind their type, with the leading ``|``, or "".
    """

    __slots__ = ("_end", "_heads", "descriptor")

    def __init__(self, descriptor: Descriptor, suffix: str) -> None:
        self.descriptor = descriptor
        # Most series share the heads, so that thousands of them have little more than their suffix to read.
        self._heads = _heads(descriptor.namespace, descriptor.names, descriptor.kinds)
        self._end = suffix.encode() + b"\n"

    def fill(self, sample: Sample) -> bytes:
        """Return the lines of `sample`, which has the template's descriptor, each with its newline."""
        lines = (self._heads.with_values % sample.values).replace(b"\n", self._end)
        if not sample.waits:
            return lines
        head, tail = self._heads.of_waits, f"|{DISTRIBUTION}{rate_field(sample.one_in)}".encode() + self._end
        return lines + b"".join([head + f"{wait}".encode() + tail for wait in sample.waits])


class _Heads(NamedTuple):
    """The lines of all series with the same metrics, without what differs: their numbers and suffixes."""

    with_values: bytes
    of_waits: bytes
    """Up to the number."""


@lru_cache(maxsize=100)
def _heads(namespace: str, names: tuple[str, ...], kinds: tuple[Kind, ...]) -> _Heads:
    prefix = f"{namespace}." if namespace else ""
    of_waits = ""
    lines = []
    for name, kind in zip(names, kinds, strict=True):
        head = f"{prefix}{name}:"
        if kind is DISTRIBUTION:
            of_waits = head
        else:
            lines.append(f"{head.replace('%', '%%')}%d|{kind}\n")
    return _Heads("".join(lines).encode(), of_waits.encode())


def rate_field(one_in: int) -> str:
    """Return the sample rate field for values of which each stands for `one_in`; "" for 1.

    The rate is cut, not rounded: receivers weigh a value with the whole part of 1/rate, which must not fall below.

    >>> rate_field(3)
    '|@0.333333333333'
    """
    if one_in == 1:
        return ""
    digits = 10**12 // one_in
    if 1 / (digits / 10**12) < one_in:  # 1/0.00032 is 3124.9999999999995 in floating point.
        digits -= 1
    return f"|@0.{digits:012d}".rstrip("0")


def pack(filled: Iterable[tuple[Sample, bytes]], max_bytes: int) -> Iterator[Datagram]:
    """Yield datagrams of at most `max_bytes` bytes from samples and their lines; never an empty one.

    A datagram is filled up and cut at a line's end, so the lines of a sample may be in two; its last line has no
    newline. A line that fits no datagram is one that is too long, for the caller to count.
    """
    taken: list[bytes] = []
    parts: list[Part] = []
    room = max_bytes + 1  # With the newline that the last line does not have.
    for sample, lines in filled:
        start, rest = 0, lines
        while len(rest) > room:
            end = rest.rfind(b"\n", 0, room) + 1
            if not end and not taken:  # Its first line fits no datagram.
                end = rest.index(b"\n") + 1
            if end:
                stop = start + rest.count(b"\n", 0, end)
                taken.append(rest[:end])
                parts.append((sample, start, stop))
                start, rest = stop, rest[end:]
            yield b"".join(taken)[:-1], parts
            taken, parts, room = [], [], max_bytes + 1
        if rest:
            taken.append(rest)
            parts.append((sample, start, None))
            room -= len(rest)
    if taken:
        yield b"".join(taken)[:-1], parts


class ParseError(ValueError):
    """A line is not DogStatsD; the message says why, with none of the line's own bytes in it."""


class Line(NamedTuple):
    """A parsed metric line."""

    name: str
    kind: str
    """The type field: g, c, d, h, ms or s."""
    values: tuple[float, ...] = ()
    """Empty for a set, whose values are no numbers."""
    members: tuple[str, ...] = ()
    """The value of a set; the Agent takes it as one, whatever is in it."""
    rate: float = 1.0
    tags: tuple[str, ...] = ()
    container_id: str | None = None
    external_data: str | None = None
    cardinality: str | None = None
    timestamp: int | None = None


MAX_LINE_BYTES = 8192
"""What the Agent reads of a datagram (dogstatsd_buffer_size)."""

MIN_RATE = 1e-12
"""The lowest sample rate that is taken: one value stands for no more than a million millions."""

# Patterns, not compiled ones: a program that only sends does not need them, and `re` keeps those that are used.
_NAME = r"[a-zA-Z][a-zA-Z0-9_.]{0,199}"
_NUMBER = rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
_KINDS = frozenset({"g", "c", "d", "h", "ms", "s"})
_SHORT_FIELDS = frozenset({"@", "#", "T"})
_LONG_FIELDS = frozenset({"c", "e", "card"})
_CARDINALITIES = frozenset({"none", "low", "orchestrator", "high"})


def parse(datagram: bytes, *, strict: bool = True) -> tuple[list[Line], list[str]]:
    """Return the lines of a datagram, and the reason of each line that was refused."""
    lines: list[Line] = []
    refused: list[str] = []
    for data in datagram.split(b"\n"):
        if not data:
            continue
        try:
            lines.append(parse_line(data, strict=strict))
        except ParseError as error:
            refused.append(str(error))
    return lines, refused


def parse_line(data: bytes, *, strict: bool = True) -> Line:
    """Return the metric in one line, without its newline; raises :class:`ParseError` for anything else.

    Strictly, everything in the line must be right, as in a line that is to be sent. Otherwise what the Agent takes is
    taken, see :func:`parse_shape` and :func:`parse_values`.
    """
    name, value, rest = split_line(data)
    line = parse_shape(name, rest, strict=strict)
    if line.kind == "s":
        return line._replace(members=(parse_member(value, strict=strict),))
    return line._replace(values=parse_values(value, strict=strict))


def split_line(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Cut a line into its name, its value and the rest, which is all that follows the first ``|``.

    Lines of one series differ in the value only, so that a receiver can remember what it made of the other two.
    Raises :class:`ParseError` for a line that is too long, is no metric, or lacks one of the three.
    """
    if len(data) > MAX_LINE_BYTES:
        raise ParseError(f"longer than {MAX_LINE_BYTES} bytes")
    if data.startswith((b"_e{", b"_sc")):
        raise ParseError("an event or a service check, not a metric")
    head, bar, rest = data.partition(b"|")
    name, _, value = head.partition(b":")
    if not value or not bar:
        raise ParseError("no value or no type")
    return name, value, rest


def parse_shape(name: bytes, rest: bytes, *, strict: bool = True) -> Line:
    """Return a line without its values, from its name and what follows them: the type and the fields.

    If not `strict`, it is read as the Agent reads it (comp/dogstatsd/server/impl/parse.go in its sources): any name
    will do, of a field that comes twice the last counts, unknown fields, empty tags and a carriage return at the end
    are ignored, and so is what is wrong in the fields for origin detection. A character that is not printable becomes
    ``_``, as it does at Datadog, so that what is made of the line can be shown on a terminal.
    """
    text = _text(rest if strict else rest.removesuffix(b"\r"), strict)
    kind, *fields = text.split("|")
    metric = _text(name, strict)
    if not metric or (strict and not re.fullmatch(_NAME, metric)):
        raise ParseError("bad metric name")
    if kind not in _KINDS:
        raise ParseError("unknown type")
    found = _fields(fields, strict)
    return Line(
        metric,
        kind,
        rate=_rate(found.get("@"), strict),
        tags=_tags(found.get("#"), strict),
        container_id=found.get("c"),
        external_data=found.get("e"),
        cardinality=_cardinality(found.get("card"), strict),
        timestamp=_timestamp(found.get("T"), kind),
    )


def parse_values(value: bytes, *, strict: bool = True) -> tuple[float, ...]:
    """Return the numbers of a value, one or several packed with ``:``; if not `strict`, empty ones are skipped."""
    parts = value.split(b":")
    if not strict:
        parts = [part for part in parts if part]
    if not parts:
        raise ParseError("no value or no type")
    return tuple(map(_number, parts))


def parse_member(value: bytes, *, strict: bool = True) -> str:
    """Return the value of a set."""
    return _text(value, strict)


def _text(data: bytes, strict: bool) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ParseError("not UTF-8") from None
    if strict and any(ord(character) < 0x20 or character == "\x7f" for character in text):
        raise ParseError("holds a control character")
    if strict or text.isprintable():
        return text
    return "".join(character if character.isprintable() else "_" for character in text)


def _fields(fields: list[str], strict: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in fields:
        key, content = field[:1], field[1:]
        if key not in _SHORT_FIELDS:
            key, colon, content = field.partition(":")
            if not colon or key not in _LONG_FIELDS:
                if strict:
                    raise ParseError("unknown field")
                continue
        if strict and key in found:
            raise ParseError("a field twice")
        if strict and not content:
            raise ParseError("an empty field")
        found[key] = content
    return found


def _number(data: bytes) -> float:
    if not re.fullmatch(_NUMBER, data) or not math.isfinite(number := float(data)):
        raise ParseError("a value is no finite number")
    return number


def _rate(text: str | None, strict: bool) -> float:
    if text is None:
        return 1.0
    rate = _number(text.encode())
    if strict and not 0 < rate <= 1:
        raise ParseError("a sample rate outside (0, 1]")
    if rate < MIN_RATE:
        raise ParseError("a sample rate that is not above 0")
    return rate


def _tags(text: str | None, strict: bool) -> tuple[str, ...]:
    tags = () if text is None else tuple(text.split(","))
    if not strict:
        return tuple(filter(None, tags))
    if any(not tag or tag.startswith("#") for tag in tags):
        raise ParseError("an empty tag")
    return tags


def _cardinality(text: str | None, strict: bool) -> str | None:
    if strict and text is not None and text not in _CARDINALITIES:
        raise ParseError("unknown cardinality")
    return text


def _timestamp(text: str | None, kind: str) -> int | None:
    if text is None:
        return None
    if kind not in ("g", "c") or not re.fullmatch(r"0*[1-9][0-9]{0,17}", text):
        raise ParseError("a timestamp that is no whole second, or on a type that takes none")
    return int(text)
