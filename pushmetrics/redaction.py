"""How a message quotes a value, and what of it is never shown: a password, a key or a token.

None of them belongs into anything that is read here. It happens nevertheless: an address with a user in it, a key in
the wrong variable.
"""

from __future__ import annotations

import re
from reprlib import Repr

HIDDEN = "***"

# Compiled for the first message, since it costs the import of the package a tenth. Each is linear in the text.
_SECRETS = (
    # A user and a password, of an address without a scheme, too.
    (r"(?<![^\s'\"/])[^\s'\"/:]+:[^\s'\"/]+@", f"{HIDDEN}@"),
    # Not the monkey's banana, nor a number of tokens.
    (r"(?i)((?<![a-z])(?:key|token|secret|password|passwd|pwd)['\"]?\s*[=:]\s*['\"]?)[^\s,;&'\"]+", rf"\1{HIDDEN}"),
    # Datadog's own keys: 32 or 40 of these, less where a tag's normal form has cut leading digits off.
    (r"(?<![0-9a-fA-F])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{20,}", HIDDEN),
)


def redacted(text: str) -> str:
    """Return `text` with ``***`` for the user and password of an address, for what is called a key, and for long hex.

    >>> redacted("udp://me:hunter2@agent:8125, api_key=hunter2")
    'udp://***@agent:8125, api_key=***'
    """
    # A password may hold anything, so all from an address' beginning to the last "@" goes.
    before, at, rest = text.rpartition("@")
    text = re.sub(r"(?s)://[^/].*", f"://{HIDDEN}", before, count=1) + at + rest
    for secret, instead in _SECRETS:
        text = re.sub(secret, instead, text)
    return text


class _Redacting(Repr):
    """Shortens what a message quotes, when the secrets in it are hidden: the half of one would not look like one."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxlong = self.maxother = 200

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(redacted(x), level)

    def repr_instance(self, x: object, level: int) -> str:
        return super().repr_instance(_Text(redacted(repr(x))), level)


class _Text:
    """Its ``repr`` is a given text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


_SHORTENED = _Redacting()


def shown(value: object) -> str:
    """Return a bad value as a message quotes it: shortened, without secrets, and whatever its ``repr`` does."""
    try:
        return redacted(_SHORTENED.repr(value))  # Once more: a dict's key says what its value is.
    except Exception:  # noqa: BLE001 - an integer of too many digits raises, and so may anybody's repr()
        return f"one of type {type(value).__name__}"
