"""What a message does not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from pushmetrics.redaction import redacted, shown

KEY = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("udp://me:hunter2@agent:8125", "udp://***@agent:8125"),
        ("udp://me:hun/ter@2\n@agent", "udp://***@agent"),
        ("me:hunter2@agent", "***@agent"),
        ("api_key=hunter2&x=y", "api_key=***&x=y"),
        ("{'Password': 'hunter2'}", "{'Password': '***'}"),
        (f"x{KEY}-{KEY.upper()}8", "x***-***"),
    ],
)
def test_secrets_are_hidden_and_their_place_is_not(text: str, instead: str) -> None:
    assert redacted(text) == instead
    assert redacted(instead) == instead


@pytest.mark.parametrize(
    "text",
    [
        *("udp://agent:8125", "unix:///run/dsd.socket", "team:search", "@slack", "7", "me@x", "/var/run/a@b/socket"),
        *("max_tokens=100", "monkey:banana", "9" * 40),
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_a_secret_is_hidden_before_the_text_is_cut() -> None:
    address = "udp://me:" + "hunter2" * 50 + "@agent" + "y" * 1000
    for value in (address, [address], {"url": address}, {address: 1}, address.encode(), Path(address)):
        assert "hunter2" not in shown(value)


def test_values_other_than_text_are_looked_through_and_numbers_are_not() -> None:
    assert shown([f"host:{KEY}", b"me:hunter2@agent"]) == "['host:***', b'***@agent']"
    assert shown({"api_key": "hunter2"}) == "{'api_key': '***'}"
    assert shown([10**25]) == f"[{10**25}]"


@pytest.mark.parametrize("part", ["x", "@", ":", "://", "key", "key=", " ", "1", "a1", "a:", "://x@"])
def test_much_text_takes_no_more_than_its_share(part: str) -> None:
    """What was given may be user input: in a few seconds a quadratic search would not get through a tenth of it."""
    assert redacted(part * 300_000 + "@" + part * 300_000)
