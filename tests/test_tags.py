"""Tags and namespaces: Datadog's normal form, what is refused, and what the caller's objects look like afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pushmetrics import MeteredSemaphore, Registry
from pushmetrics.errors import InvalidTypeError, InvalidValueError
from pushmetrics.tags import constant_tag, limit_tags, metric_namespace, normalize

anything = st.text() | st.text("aZ09_-:./ |,#@%\n\r\u2028é²ßİΣ\ud800😀", max_size=20)

RESERVED = [
    "component",
    "limit_name",
    "server",
    "worker",
    "host",
    "device",
    "source",
    "jmx_check_name",
    "env",
    "service",
    "version",
    "dd.internal.entity_id",
    "dd.internal.card",
]


class TestTheNormalForm:
    @pytest.mark.parametrize(
        ("tag", "normal"),
        [
            ("region:eu", "region:eu"),
            ("Region:EU West", "region:eu_west"),
            ("url:x:y/z-1.5", "url:x:y/z-1.5"),
            ("model:Model_", "model:model"),
            ("a:b_:_:", "a:b"),
            ("a:", "a"),
            ("_a:b", "a:b"),
            ("9lives:b", "lives:b"),
            (":/-.a:b", "a:b"),
            ("a:x|y,z#w@v", "a:x_y_z_w_v"),
            ("a:x\ny\rz\0w", "a:x_y_z_w"),
            ("a:x\u2028y", "a:x_y"),
            ("a:É", "a:é"),
            ("a:naïve-日本", "a:naïve-日本"),
            ("a:x😀y", "a:x_y"),
            ("a:x\ud800y", "a:x_y"),
            ("a:%s %d", "a:_s__d"),
            ("123", ""),
            ("", ""),
            (" ", ""),
            ("😀", ""),
        ],
    )
    def test_examples(self, tag: str, normal: str) -> None:
        assert normalize(tag) == normal

    def test_it_has_at_most_200_characters_none_of_which_is_left_hanging(self) -> None:
        assert normalize("a:" + "x" * 300) == "a:" + "x" * 198
        assert normalize("a:" + "é" * 300) == "a:" + "é" * 198
        assert normalize("a:" + "x" * 197 + "_y") == "a:" + "x" * 197
        assert normalize("1" * 300 + "a:b") == "a:b"

    @given(anything)
    @example("ΑΣ|")
    @example("İ")
    def test_it_is_what_datadog_says_it_is(self, tag: str) -> None:
        normal = normalize(tag)

        assert normalize(normal) == normal
        assert normal == normal.lower()
        assert len(normal) <= 200
        if normal:
            assert normal[0].isalpha()
            assert normal[-1] not in "_:"
            assert all(character.isalnum() or character in "_-:./" for character in normal)
            normal.encode()


class TestLimitTags:
    def test_they_come_in_a_fixed_order(self) -> None:
        named = ("component:model_server", "limit_name:requests")

        assert limit_tags("Model Server", "requests") == named
        assert limit_tags("model_server", "requests", "EU-1") == (*named, "server:eu-1")
        assert limit_tags("model_server", "requests", tags={"zone": "b", "Region": "EU", "app": "x"}) == (
            *named,
            "app:x",
            "region:eu",
            "zone:b",
        )

    @pytest.mark.parametrize(
        "tags",
        [
            {"zone": "b", "app": "x"},
            ["zone:b", "app:x"],
            ("app:x", "zone:b", "App:X_"),
            {"zone:b", "app:x"},
            iter(["zone:b", "app:x"]),
        ],
    )
    def test_a_mapping_and_any_iterable_of_strings_are_the_same(self, tags: Any) -> None:
        assert limit_tags("c", "l", tags=tags) == ("component:c", "limit_name:l", "app:x", "zone:b")

    @pytest.mark.parametrize("tags", [None, {}, [], ()])
    def test_there_need_be_none(self, tags: Any) -> None:
        assert limit_tags("c", "l", tags=tags) == ("component:c", "limit_name:l")

    def test_a_value_may_hold_a_colon_and_a_key_may_come_twice(self) -> None:
        assert limit_tags("c", "l", tags=["url:x:y", "url:x:z"])[2:] == ("url:x:y", "url:x:z")

    def test_five_are_the_most_and_equal_ones_are_one(self) -> None:
        five = [f"key{number}:x" for number in range(5)]

        assert limit_tags("c", "l", "s", five)[3:] == tuple(five)
        assert limit_tags("c", "l", "s", [*five, "KEY0:X"])[3:] == tuple(five)
        with pytest.raises(
            InvalidValueError, match=r"^tags: a limit has at most 5 tags .* got 6: \['key0:x', .*, 'one_more:x'\]"
        ):
            limit_tags("c", "l", "s", [*five, "one_more:x"])

    @pytest.mark.parametrize("argument", ["component", "limit_name", "server"])
    @pytest.mark.parametrize("bad", ["", " ", "_", "-", "...", "|", ",", "\n", "\u2028", "😀", "\ud800", "\0"])
    def test_a_value_of_which_nothing_is_left_is_refused(self, argument: str, bad: str) -> None:
        given = {"component": "c", "limit_name": "l"} | {argument: bad}

        with pytest.raises(InvalidValueError, match=rf"^{argument}: nothing of {re.escape(repr(bad))} is left"):
            limit_tags(**given)

    @pytest.mark.parametrize("argument", ["component", "limit_name", "server"])
    @pytest.mark.parametrize("bad", [b"bytes", 3, 2.5, True, ["x"], object])
    def test_a_value_that_is_no_string_is_refused(self, argument: str, bad: Any) -> None:
        given = {"component": "c", "limit_name": "l"} | {argument: bad}

        with pytest.raises(InvalidTypeError, match=rf"^{argument}: expected a string, got {re.escape(repr(bad))}$"):
            limit_tags(**given)

    @pytest.mark.parametrize("argument", ["component", "limit_name"])
    def test_none_is_no_name(self, argument: str) -> None:
        given: dict[str, Any] = {"component": "c", "limit_name": "l"} | {argument: None}

        with pytest.raises(InvalidTypeError, match=rf"^{argument}: expected a string, got None$"):
            limit_tags(**given)

    @pytest.mark.parametrize("key", RESERVED)
    @pytest.mark.parametrize("spelling", ["{}", "{}_", "_{}"])
    def test_a_reserved_key_is_refused_in_any_spelling(self, key: str, spelling: str) -> None:
        for spelled in (spelling.format(key), spelling.format(key.upper())):
            for tags in ({spelled: "x"}, [f"{spelled}:x"]):
                with pytest.raises(
                    InvalidValueError, match=r"^tags: .*(is reserved \(.*\); use another key|a key starts)"
                ):
                    limit_tags("c", "l", tags=tags)

    @pytest.mark.parametrize("key", ["", " ", "9", "1st", "_x", "😀", "|", "\n"])
    def test_a_key_starts_with_a_letter(self, key: str) -> None:
        for tags in ({key: "x"}, [f"{key}:x"]):
            with pytest.raises(InvalidValueError, match=r"^tags: a key starts with a letter and has no ':', got "):
                limit_tags("c", "l", tags=tags)

    def test_a_key_holds_no_colon(self) -> None:
        with pytest.raises(InvalidValueError, match=r"^tags: a key starts with a letter and has no ':', got 'a:b'$"):
            limit_tags("c", "l", tags={"a:b": "x"})

    @pytest.mark.parametrize("value", ["", " ", "_", "😀", "\ud800"])
    def test_a_tag_has_a_value(self, value: str) -> None:
        for tags in ({"zone": value}, [f"zone:{value}"]):
            with pytest.raises(InvalidValueError, match=r"^tags\['zone'\]: nothing of .* is left"):
                limit_tags("c", "l", tags=tags)

    def test_a_key_that_leaves_no_room_for_a_value_is_refused(self) -> None:
        with pytest.raises(InvalidValueError, match="nothing of 'x' is left"):
            limit_tags("c", "l", tags={"k" * 200: "x"})

    @pytest.mark.parametrize(
        ("tags", "error", "message"),
        [
            ("zone:a", InvalidTypeError, "tags: expected a mapping or a list of 'key:value' strings, got 'zone:a'"),
            (b"zone:a", InvalidTypeError, "tags: expected a mapping or a list of 'key:value' strings, got b'zone:a'"),
            (3, InvalidTypeError, "tags: expected a mapping or a list of 'key:value' strings, got 3"),
            (["zone"], InvalidValueError, "tags: each tag is a 'key:value' string, got 'zone'"),
            ([("zone", "a")], InvalidTypeError, "tags: each tag is a 'key:value' string, got ('zone', 'a')"),
            ([None], InvalidTypeError, "tags: each tag is a 'key:value' string, got None"),
            ({"zone": 3}, InvalidTypeError, "tags['zone']: expected a string, got 3"),
            ({"zone": None}, InvalidTypeError, "tags['zone']: expected a string, got None"),
            ({3: "a"}, InvalidTypeError, "tags: a key is a string, got 3"),
        ],
    )
    def test_what_is_no_tag_is_refused(self, tags: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=f"^{re.escape(message)}$"):
            limit_tags("c", "l", tags=tags)

    @pytest.mark.parametrize("tags", [{"Zone": "A_", "app": "X"}, ["Zone:A_", "app:X"], {"zone:a", "app:x"}])
    def test_the_callers_object_is_only_read(self, tags: Mapping[str, str] | Iterable[str]) -> None:
        copy = type(tags)(tags)  # type: ignore[call-arg]  # Each of the three can be copied like this.
        for _ in range(3):
            MeteredSemaphore(1, component="c", limit_name="l", tags=tags, registry=Registry())

        assert tags == copy

    @given(anything, anything, st.none() | anything, st.dictionaries(anything, anything) | st.lists(anything))
    def test_any_text_is_a_clear_error_or_a_series(
        self, component: str, name: str, server: str | None, tags: dict[str, str] | list[str]
    ) -> None:
        try:
            made = limit_tags(component, name, server, tags)
        except InvalidValueError:  # A string is of the right type, whatever is in it.
            return
        assert list(map(normalize, made)) == list(made)
        keys = [tag.partition(":")[0] for tag in made]
        assert keys[:2] == ["component", "limit_name"]
        assert ("server" in keys) == (server is not None)
        assert all(tag.partition(":")[2] for tag in made)


def test_spellings_that_datadog_makes_equal_are_one_series() -> None:
    registry = Registry()
    spellings: list[tuple[str, str, Any]] = [
        ("Model_", "Requests|", ["zone:A", "app:x"]),
        ("MODEL", "requests_", {"App": "x_", "ZONE": "a"}),
        ("model", "requests", ["app:x", "zone:a"]),
    ]
    kept = [
        MeteredSemaphore(2, component=component, limit_name=limit_name, tags=tags, registry=registry)
        for component, limit_name, tags in spellings
    ]

    assert len({limit.tags for limit in kept}) == 1
    (sample,) = registry.collect()
    assert sample.value("limit") == 6


class TestConstantTags:
    @pytest.mark.parametrize(
        ("tag", "normal"),
        [
            ("team:Search", "team:search"),
            (" team : Search ", "team:_search"),
            ("Canary", "canary"),
            ("env:prod", "env:prod"),
            ("service:x", "service:x"),
            ("version:1.2", "version:1.2"),
            ("url:x:y", "url:x:y"),
            ("1st:x", "st:x"),
            ("a:x|#b,c:d\ne", "a:x__b_c:d_e"),
            ("a|#b:x", "a__b:x"),
        ],
    )
    def test_they_are_put_into_normal_form(self, tag: str, normal: str) -> None:
        assert constant_tag(tag) == normal

    @pytest.mark.parametrize("key", [key for key in RESERVED if key not in {"env", "service", "version"}])
    @pytest.mark.parametrize("spelling", ["{}", " {}", "{}|", "1{}"])
    def test_a_reserved_key_is_refused_in_any_spelling(self, key: str, spelling: str) -> None:
        for spelled in (spelling.format(key), spelling.format(key.upper())):
            with pytest.raises(
                InvalidValueError, match=rf"^constant_tags: the key '{key}' is reserved, got .*; use another"
            ):
                constant_tag(f"{spelled}:x")

    @pytest.mark.parametrize("tag", ["", " ", "123", "😀", ":x", "1:x", "team:", "team: ", "team:|", "team:\ud800"])
    def test_what_leaves_nothing_is_refused(self, tag: str) -> None:
        with pytest.raises(InvalidValueError, match=r"^constant_tags: nothing of .* is left in Datadog's normal form"):
            constant_tag(tag)

    @pytest.mark.parametrize("tag", [None, 3, b"team:search", ["team:search"]])
    def test_what_is_no_string_is_refused(self, tag: object) -> None:
        with pytest.raises(
            InvalidTypeError,
            match=rf"^constant_tags: a tag is a string such as 'team:search', got {re.escape(repr(tag))}$",
        ):
            constant_tag(tag)

    @given(anything)
    def test_whatever_is_given_is_a_clear_error_or_in_normal_form(self, tag: str) -> None:
        try:
            normal = constant_tag(tag)
        except InvalidValueError:
            return
        assert normalize(normal) == normal != ""


class TestNamespaces:
    @pytest.mark.parametrize(
        ("namespace", "name"),
        [
            ("gym.concurrency", "gym.concurrency"),
            ("MyApp", "MyApp"),
            ("my-app.é", "my_app"),
            (" my app ", "my_app"),
            ("9lives.x", "lives.x"),
            ("..a..", "a"),
            ("a\nb:1|c#d,e", "a_b_1_c_d_e"),
            ("100%s", "s"),
            ("a%s%d", "a_s_d"),
            ("x" * 300, "x" * 160),
        ],
    )
    def test_they_become_the_beginning_of_a_metric_name(self, namespace: str, name: str) -> None:
        assert metric_namespace(namespace) == name

    @pytest.mark.parametrize("bad", ["", " ", ".", "123", "é", "😀", "\n", "|", "\ud800"])
    def test_what_leaves_nothing_is_refused(self, bad: str) -> None:
        with pytest.raises(
            InvalidValueError, match=rf"^namespace: nothing of {re.escape(repr(bad))} is left as a metric name; "
        ):
            metric_namespace(bad)

    @pytest.mark.parametrize("bad", [3, b"x", ["x"], True])
    def test_what_is_no_string_is_refused(self, bad: object) -> None:
        with pytest.raises(InvalidTypeError, match=r"^namespace: expected a string such as 'myapp.concurrency', got "):
            metric_namespace(bad)

    @given(anything)
    def test_whatever_is_given_is_a_clear_error_or_a_name(self, namespace: str) -> None:
        try:
            name = metric_namespace(namespace)
        except InvalidValueError:
            return
        assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_.]{0,159}", name)
        assert metric_namespace(name) == name
