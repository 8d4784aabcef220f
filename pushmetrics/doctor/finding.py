"""One thing that was found, free of secrets and of whatever could harm a terminal."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..live.text import safe
from ..redaction import redacted

Mark = Literal["", "ok", "note", "wrong"]
"""A fact, a check that was passed, something to know, or something that keeps metrics from arriving as they should."""


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
    return safe(" ".join(redacted(text).split()))
