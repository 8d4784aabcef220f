"""One thing that was found, free of secrets and of whatever could harm a terminal."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ..live.text import safe

Mark = Literal["", "ok", "note", "wrong"]
"""A fact, a check that was passed, something to know, or something that keeps metrics from arriving as they should."""

HIDDEN = "***"

# A key, a password or a token does not belong into any variable that is read here. It happens nevertheless.
_SECRETS = (
    (re.compile(r"://[^/].*@"), f"://{HIDDEN}@"),  # user:password@host
    (re.compile(r"[^\s'\"/]+@"), f"{HIDDEN}@"),
    (re.compile(r"(?i)((?:key|token|secret|password|passwd|pwd)s?['\"]?\s*[=:]\s*['\"]?)[^\s,;&'\"]+"), r"\1" + HIDDEN),
    # Datadog's own keys: 32 or 40 of these, less where a tag's normal form has cut leading digits off.
    (re.compile(r"[0-9a-fA-F]{20,}"), HIDDEN),
)


class Finding(NamedTuple):
    """One thing that was found."""

    topic: str
    text: str
    source: str = ""
    """Of a setting: the variables that gave it, or "default"."""
    mark: Mark = ""
    details: tuple[str, ...] = ()
    """What else there is to say: why, and what to do about it."""

    def harmless(self) -> Finding:
        """Return the finding as it may be shown."""
        return self._replace(text=_harmless(self.text), details=tuple(_harmless(detail) for detail in self.details))


def _harmless(text: str) -> str:
    for secret, instead in _SECRETS:
        text = secret.sub(instead, text)
    return safe(" ".join(text.split()))
