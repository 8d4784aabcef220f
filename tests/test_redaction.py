"""What a message does not show."""

from __future__ import annotations

import pytest

from pushmetrics.errors import shown
from pushmetrics.redaction import redacted

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


@pytest.mark.parametrize("text", ["udp://agent:8125", "unix:///run/dsd.socket", "team:search", "@slack", "7"])
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_a_secret_is_hidden_before_the_text_is_cut() -> None:
    assert "hunter2" not in shown("udp://hunter2" + "x" * 1000 + "@agent" + "y" * 1000)


def test_values_other_than_text_are_looked_through_and_numbers_are_not() -> None:
    assert shown([f"host:{KEY}", b"me:hunter2@agent"]) == "['host:***', b'***@agent']"
    assert shown(10**25) == str(10**25)


@pytest.mark.parametrize("part", ["x", "@", "://", "key", "key=", " ", "a1", "://x@"])
def test_much_text_takes_no_more_than_its_share(part: str) -> None:
    """What was given may be user input: in a few seconds a quadratic search would not get through a tenth of it."""
    assert redacted(part * 300_000 + "@" + part * 300_000)
