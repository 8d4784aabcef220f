"""The wire format: what is written can be read, fits its datagram, and what is read is checked; and the reservoir."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pushmetrics import reservoir
from pushmetrics.catalog import COUNT, DISTRIBUTION, GAUGE
from pushmetrics.dogstatsd import Line, ParseError, Template, pack, parse, parse_line, rate_field
from pushmetrics.model import Descriptor, Sample
from pushmetrics.reservoir import CAPACITY, Reservoir
from pushmetrics.tags import normalize

PLAIN_NUMBER = r"[0-9]+(\.[0-9]+)?"

names = st.builds("{}{}".format, st.sampled_from("aMZ"), st.text("abZ09_.", max_size=20))
tag_lists = st.lists(st.text(max_size=20).map("t:{}".format).map(normalize), max_size=4).map(tuple)
fields = st.sampled_from(["x", "it-false,cn-app,pu-1", "ci-0123", "100%s", "é #:@"])
whole_numbers = st.integers(0, 2**64 - 1)
waits = st.integers(0, 10**15).map(lambda microseconds: microseconds / 1000)
"""Milliseconds as a semaphore notes them: three decimals."""


class NotingSample(Sample):
    """Notes which lines were called delivered."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.lines: list[int] = []

    def delivered(self, start: int = 0, stop: int | None = None) -> None:
        self.lines += range(start, len(self) if stop is None else stop)


@st.composite
def samples(draw: st.DrawFn) -> NotingSample:
    scalars = draw(st.lists(st.tuples(names, st.sampled_from([GAUGE, COUNT])), min_size=1, max_size=8))
    with_waits = draw(st.booleans())
    descriptor = Descriptor(
        draw(names | st.just("")),
        [name for name, _ in scalars] + ["waits"] * with_waits,
        [kind for _, kind in scalars] + [DISTRIBUTION] * with_waits,
        draw(tag_lists),
    )
    values = tuple(draw(whole_numbers) for _ in scalars)
    measured = tuple(draw(st.lists(waits, max_size=5))) if with_waits else ()
    return NotingSample(descriptor, values, measured, draw(st.integers(1, 10**6)) if measured else 1)


@st.composite
def suffixes(draw: st.DrawFn, tags: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """What follows the type, and what a parser should find in it."""
    found: dict[str, Any] = {"tags": tags}
    text = "|#" + ",".join(tags) if tags else ""
    for key, name, value in (
        ("c:", "container_id", fields),
        ("e:", "external_data", fields),
        ("card:", "cardinality", st.sampled_from(["none", "low", "orchestrator", "high"])),
    ):
        if draw(st.booleans()):
            found[name] = draw(value)
            text += f"|{key}{found[name]}"
    return text, found


@st.composite
def templates(draw: st.DrawFn) -> tuple[NotingSample, str, dict[str, Any]]:
    sample = draw(samples())
    return sample, *draw(suffixes(sample.descriptor.tags))


def expected_lines(sample: Sample, found: dict[str, Any]) -> list[Line]:
    descriptor = sample.descriptor
    prefix = f"{descriptor.namespace}." if descriptor.namespace else ""
    lines = [
        Line(prefix + name, kind, (float(value),), **found)
        for name, kind, value in zip(descriptor.names, descriptor.kinds, sample.values, strict=False)
    ]
    rate = float(rate_field(sample.one_in).removeprefix("|@") or 1)
    return lines + [Line(f"{prefix}waits", DISTRIBUTION, (wait,), rate=rate, **found) for wait in sample.waits]


class TestTemplates:
    @given(templates())
    def test_what_is_written_is_what_is_read(self, template: tuple[NotingSample, str, dict[str, Any]]) -> None:
        sample, suffix, found = template
        lines = Template(sample.descriptor, suffix).fill(sample)

        assert parse(lines) == (expected_lines(sample, found), [])

        # A signed gauge is a change, not a value, for some receivers; an exponent is no number for others.
        for line in lines.decode().removesuffix("\n").split("\n"):
            assert re.fullmatch(rf"[^:|]+:{PLAIN_NUMBER}\|[gcd](\|@{PLAIN_NUMBER})?", line.removesuffix(suffix))

    def test_its_numbers_alone_change(self) -> None:
        descriptor = Descriptor("a", ["g", "c"], [GAUGE, COUNT], ())
        template = Template(descriptor, "|#k:v")
        for values in ((0, 0), (2**64 - 1, 7), (3, 10**19)):
            lines = f"a.g:{values[0]}|g|#k:v\na.c:{values[1]}|c|#k:v\n"
            assert template.fill(Sample(descriptor, values)) == lines.encode()

    @pytest.mark.parametrize("percent", ["%", "%s", "%d", "%%", "%(x)s", "100%"])
    def test_a_percent_sign_stays_one(self, percent: str) -> None:
        descriptor = Descriptor(percent, [percent, "d"], [GAUGE, DISTRIBUTION], ())
        sample = Sample(descriptor, (1,), (2.5,))

        lines = Template(descriptor, f"|#{percent}").fill(sample).decode().removesuffix("\n").split("\n")

        assert lines == [f"{percent}.{percent}:1|g|#{percent}", f"{percent}.d:2.5|d|#{percent}"]

    def test_values_of_a_distribution_are_a_line_each(self) -> None:
        descriptor = Descriptor("", ["g", "d"], [GAUGE, DISTRIBUTION], ())
        sample = Sample(descriptor, (1,), (0.0, 0.001, 123456789.125), 4)

        assert Template(descriptor, "|#k:v").fill(sample).splitlines() == [
            b"g:1|g|#k:v",
            b"d:0.0|d|@0.25|#k:v",
            b"d:0.001|d|@0.25|#k:v",
            b"d:123456789.125|d|@0.25|#k:v",
        ]


class TestRates:
    """A receiver weighs a value with the whole part of 1/rate."""

    def test_every_small_one_and_those_that_floating_point_gets_wrong(self) -> None:
        assert rate_field(1) == ""
        for one_in in (*range(2, 2000), 3125, 6250, 12500, 25000, 50000, 100000, 999_999, 10**6):
            self.check(one_in)

    @given(st.integers(2, 10**6))
    @example(31_741)
    def test_any_other(self, one_in: int) -> None:
        self.check(one_in)

    def check(self, one_in: int) -> None:
        field = rate_field(one_in)
        assert re.fullmatch(r"\|@0\.[0-9]{1,12}", field)
        assert math.floor(1 / float(field.removeprefix("|@"))) == one_in

    @pytest.mark.parametrize(("one_in", "field"), [(2, "|@0.5"), (4, "|@0.25"), (10, "|@0.1"), (10**6, "|@0.000001")])
    def test_it_is_short_where_it_can_be(self, one_in: int, field: str) -> None:
        assert rate_field(one_in) == field


NO_DESCRIPTOR = Descriptor("", (), (), ())
lines_of_samples = st.lists(
    st.lists(st.text("aé", min_size=1, max_size=60).map(str.encode), min_size=1, max_size=8), max_size=30
)


class TestPacking:
    @given(lines_of_samples, st.integers(1, 600))
    def test_datagrams_are_full_but_never_too_long_and_hold_every_line_once_and_in_order(
        self, samples: list[list[bytes]], max_bytes: int
    ) -> None:
        every_line = [line for lines in samples for line in lines]
        sample_of = {id(lines): NotingSample(NO_DESCRIPTOR, (0,) * len(lines)) for lines in samples}

        datagrams = []
        too_long = []
        filled = [(sample_of[id(lines)], b"".join(line + b"\n" for line in lines)) for lines in samples]
        for data, parts in pack(filled, max_bytes):
            assert data
            (datagrams if len(data) <= max_bytes else too_long).append(data)
            for sample, start, stop in parts:
                sample.delivered(start, stop)

        assert too_long == [line for line in every_line if len(line) > max_bytes]
        packed = [line for data in datagrams for line in data.split(b"\n")]
        assert packed == [line for line in every_line if len(line) <= max_bytes]
        for lines in samples:
            assert sample_of[id(lines)].lines == list(range(len(lines)))
        if not too_long:
            for data, following in pairwise(datagrams):  # Not one line more would have fitted.
                assert len(data) + 1 + len(following.split(b"\n")[0]) > max_bytes

    def test_nothing_makes_no_datagram(self) -> None:
        assert list(pack([], 1432)) == []

    def test_samples_are_taken_one_by_one(self) -> None:
        """So that a sample is read from its limit when its turn has come, not at the start of a flush."""
        taken: list[int] = []

        def samples() -> Iterator[tuple[Sample, bytes]]:
            for number in range(10):
                taken.append(number)
                yield Sample(NO_DESCRIPTOR, (0,)), b"x" * 600 + b"\n"

        next(pack(samples(), 1432))

        assert taken == [0, 1, 2]

    @given(st.integers(0, 5), st.integers(0, 300))
    def test_a_line_too_long_for_any_datagram_costs_itself_alone(self, place: int, room: int) -> None:
        lines = [f"metric_{number}" for number in range(6)]
        lines[place] = "x" * (512 - room)
        descriptor = Descriptor("ns", lines, [GAUGE] * 6, ())
        sample = NotingSample(descriptor, (7,) * 6)

        refused = 0
        for data, parts in pack([(sample, Template(descriptor, "|#k:v").fill(sample))], 512):
            if len(data) > 512:
                refused += 1
            else:
                for _, start, stop in parts:
                    sample.delivered(start, stop)

        fits = len(f"ns.{lines[place]}:7|g|#k:v") <= 512
        assert refused == (not fits)
        assert sample.lines == [line for line in range(6) if fits or line != place]


@st.composite
def lines(draw: st.DrawFn) -> Line:
    kind = draw(st.sampled_from(["g", "c", "d", "h", "ms", "s"]))
    numbers = st.floats(allow_nan=False, allow_infinity=False) | whole_numbers.map(float)
    members = st.sampled_from(["a", "é:0 ", "1:2"])
    tag = st.text("abé:0_/-. @%", min_size=1, max_size=10)
    return Line(
        draw(names),
        kind,
        () if kind == "s" else tuple(draw(st.lists(numbers, min_size=1, max_size=3))),
        (draw(members),) if kind == "s" else (),
        draw(st.floats(1e-12, 1)),
        tuple(draw(st.lists(tag, max_size=3))),
        draw(st.none() | fields),
        draw(st.none() | fields),
        draw(st.none() | st.sampled_from(["none", "low", "orchestrator", "high"])),
        draw(st.none() | st.integers(1, 10**18 - 1)) if kind in "gc" else None,
    )


def encode(line: Line) -> str:
    """Write any line, those too that we never send."""
    value = ":".join([*map(repr, line.values), *line.members])
    parts = [f"{line.name}:{value}", line.kind]
    parts += [f"@{line.rate!r}"] if line.rate != 1 else []
    parts += ["#" + ",".join(line.tags)] if line.tags else []
    for key, field in (("c:", line.container_id), ("e:", line.external_data), ("card:", line.cardinality)):
        parts += [key + field] if field is not None else []
    parts += [f"T{line.timestamp}"] if line.timestamp is not None else []
    return "|".join(parts)


def with_one_byte_changed(line: Line, place: int, byte: bytes) -> bytes:
    encoded = encode(line).encode()
    place %= len(encoded)
    return encoded[:place] + byte + encoded[place + (not byte) :]


class TestParsing:
    @given(st.lists(lines(), max_size=3), st.sampled_from(["", "\n"]), st.booleans())
    def test_it_reads_every_line_that_is_one(self, written: list[Line], end: str, strict: bool) -> None:
        datagram = "\n".join(map(encode, written)) + end

        assert parse(datagram.encode(), strict=strict) == (written, [])

    @given(
        st.binary(max_size=200)
        | st.text("ab.:|#@,cegdhmsTr19-+_\n\r\0é{}", max_size=60).map(str.encode)
        | st.builds(with_one_byte_changed, lines(), st.integers(0), st.binary(max_size=1)),
        st.booleans(),
    )
    @example(b"a:" + b"9" * 8000 + b"|g", True)
    @example(b"a:1|g|@" + b"9" * 8000, True)
    @example(b"a:1|g|T" + b"9" * 5000, True)
    @example(b"a:1e999|g", True)
    def test_anything_else_is_refused_and_never_raised(self, datagram: bytes, strict: bool) -> None:
        read, refused = parse(datagram, strict=strict)

        assert len(read) + len(refused) == sum(map(bool, datagram.split(b"\n")))
        for reason in refused:
            assert reason.isascii()
            assert reason.isprintable()
        for line in read:
            assert all(math.isfinite(value) for value in line.values)

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("a", "no value or no type"),
            ("a:1", "no value or no type"),
            ("a|g", "no value or no type"),
            ("a:|g", "no value or no type"),
            (":1|g", "bad metric name"),
            ("1a:1|g", "bad metric name"),
            ("_a:1|g", "bad metric name"),
            ("a b:1|g", "bad metric name"),
            ("a-b:1|g", "bad metric name"),
            ("é:1|g", "bad metric name"),
            ("a" * 201 + ":1|g", "bad metric name"),
            ("a:1|", "unknown type"),
            ("a:1|q", "unknown type"),
            ("a:1|G", "unknown type"),
            ("a:1||g", "unknown type"),
            *(
                (f"a:{number}|g", "a value is no finite number")
                for number in ("x", "nan", "inf", "1_0", "0x1", "1e", " 1")
            ),
            *(
                (f"a:{number}|g", "a value is no finite number")
                for number in ("--1", "1.2.3", ".", "\uff11", "True", "1e999")
            ),
            ("a:1::2|d", "a value is no finite number"),
            *((f"a:1|d|@{rate}", "a sample rate outside (0, 1]") for rate in ("0", "-1", "1.1", "2")),
            ("a:1|d|@x", "a value is no finite number"),
            *((f"a:1|g|{field}", "an empty field") for field in ("@", "#", "c:", "e:", "card:", "T")),
            *((f"a:1|g|{field}", "unknown field") for field in ("", "x", "t:1", "C:x", "1")),
            ("a:1|g|#a|#b", "a field twice"),
            ("a:1|g|e:x|e:y", "a field twice"),
            *((f"a:1|g|#{tags}", "an empty tag") for tags in (",", "a,", ",a", "a,,b", "#a", "a,#b")),
            *((f"a:1|g|card:{level}", "unknown cardinality") for level in ("LOW", "all", "low ")),
            *((f"a:1|g|T{time}", "a timestamp that is no whole") for time in ("0", "-1", "1.5", "x", "1" * 19)),
            ("a:1|d|T1", "a timestamp that is no whole second, or on a type that takes none"),
            ("a:1|g|#a\rb", "holds a control character"),
            ("a:1|g|#a\0b", "holds a control character"),
            ("a:1|g\r", "holds a control character"),
            ("a\tb:1|g", "holds a control character"),
            ("a:1|g|#a\x7f", "holds a control character"),
            ("_e{1,1}:a|b", "an event or a service check, not a metric"),
            ("_sc|a|0", "an event or a service check, not a metric"),
            ("a:1|g|#" + "x" * 8192, "longer than 8192 bytes"),
        ],
    )
    def test_what_is_refused_and_why(self, line: str, reason: str) -> None:
        with pytest.raises(ParseError, match=f"^{re.escape(reason)}"):
            parse_line(line.encode())

    def test_bytes_that_are_no_text(self) -> None:
        assert parse(b"a:1|g|#x:\xff\na:1|g\n\na\xff:1|g") == ([Line("a", "g", (1.0,))], ["not UTF-8"] * 2)

    def test_an_empty_datagram_holds_nothing(self) -> None:
        assert parse(b"") == parse(b"\n\n") == ([], [])


class TestTheReservoir:
    @staticmethod
    def filled(count: int, seed: int = 1, start: int = 0) -> Reservoir:
        kept = Reservoir()
        kept._random = Random(seed)  # The same choice in every run.
        for value in range(start, start + count):
            kept.add(float(value))
        return kept

    @pytest.mark.parametrize("count", [0, 1, 499, 500])
    def test_what_fits_is_kept_as_it_is(self, count: int) -> None:
        assert self.filled(count).choose() == (tuple(map(float, range(count))), 1)

    @pytest.mark.parametrize("count", [501, 502, 503, 749, 750, 999, 1000, 1001, 1499, 12_345, 100_000])
    def test_what_does_not_is_bounded_and_stands_for_all(self, count: int) -> None:
        kept = self.filled(count)
        values, one_in = kept.choose()

        assert len(values) <= CAPACITY
        assert len(set(values)) == len(values)
        assert one_in == math.ceil(count / CAPACITY)
        assert 0 <= count - len(values) * one_in < one_in
        assert kept.total == count

    @pytest.mark.parametrize("count", [501, 750, 999, 2000, 5001])
    def test_each_value_has_the_same_chance(self, count: int) -> None:
        rounds = 40
        chosen: Counter[int] = Counter()
        for seed in range(rounds):
            values, _ = self.filled(count, seed).choose()
            chosen.update(int(value * 10 / count) for value in values)

        expected = chosen.total() / 10
        # Each tenth of the stream: binomial, at six standard deviations, and the seeds are the same in every run.
        assert all(abs(chosen[tenth] - expected) < 6 * math.sqrt(expected) for tenth in range(10)), chosen

    def test_choosing_takes_nothing_away(self) -> None:
        kept = self.filled(400)
        assert kept.choose() == kept.choose() == (tuple(map(float, range(400))), 1)

        kept = self.filled(1234)
        for _ in range(5):
            values, one_in = kept.choose()
            assert (len(values), one_in, kept.total) == (411, 3, 1234)

    @pytest.mark.parametrize("count", [1, 500, 501, 503, 999, 1000, 1499, 1500, 7777])
    @pytest.mark.parametrize("at_once", [True, False])
    def test_what_was_delivered_is_not_delivered_again(self, count: int, at_once: bool) -> None:
        kept = self.filled(count)
        values, one_in = kept.choose()

        for part in [values] if at_once else [(value,) for value in values]:
            kept.remove(part, one_in)

        delivered = len(values) * one_in
        assert kept.total == count - delivered < one_in
        while kept.total:  # What could not be stood for is, in the end.
            values, one_in = kept.choose()
            kept.remove(values, one_in)
            delivered += len(values) * one_in
        assert delivered == count
        assert kept.choose() == ((), 1)

    def test_a_part_that_was_refused_still_stands_for_what_it_stood_for(self) -> None:
        kept = self.filled(5000)
        values, one_in = kept.choose()
        for value in values[:200]:
            kept.remove((value,), one_in)

        again, one_in_again = kept.choose()

        assert kept.total == 5000 - 200 * one_in
        assert 0 <= kept.total - len(again) * one_in_again < one_in_again
        assert not set(again) & set(values[:200])

    def test_values_that_are_equal_are_removed_one_for_one(self) -> None:
        kept = Reservoir()
        for value in (1.0, 2.0, 1.0, 1.0):
            kept.add(value)
        kept.remove((1.0, 2.0), 1)

        assert kept.choose() == ((1.0, 1.0), 1)

    def test_what_comes_while_a_choice_is_under_way_stays(self) -> None:
        kept = self.filled(300)
        values, one_in = kept.choose()
        kept.add(7.5)
        kept.remove(values, one_in)

        assert kept.choose() == ((7.5,), 1)

    def test_a_stream_that_never_stops_is_not_chosen_from_ever_more_coarsely(self) -> None:
        kept = self.filled(5000)
        delivered = 0
        for start in range(5000, 100_000, 5000):
            values, one_in = kept.choose()
            assert len(values) > CAPACITY / 2
            for value in range(start, start + 50):
                kept.add(float(value))
            kept.remove(values, one_in)
            delivered += len(values) * one_in
            for value in range(start + 50, start + 5000):
                kept.add(float(value))

        assert delivered + kept.total == 100_000

    @given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1)), max_size=12), st.integers(0, 2**32))
    def test_over_any_flushes_what_is_delivered_and_what_is_kept_is_what_was_added(
        self, flushes: list[tuple[int, float]], seed: int
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reservoir, "CAPACITY", 10)
            kept = Reservoir()
            kept._random = Random(seed)
            added = delivered = 0
            for count, share in flushes:
                for value in range(count):
                    kept.add(float(value))
                added += count
                values, one_in = kept.choose()
                taken = values[: round(len(values) * share)]
                for value in taken:
                    kept.remove((value,), one_in)
                delivered += len(taken) * one_in

                assert len(values) <= 10
                assert delivered + kept.total == added
