"""What is never shown: a password, a key or a token that got into a value which a message quotes.

None of them belongs into anything that is read here. It happens nevertheless: an address with a user in it, a key in
the wrong variable.
"""

from __future__ import annotations

import re

HIDDEN = "***"

# Compiled for the first message, since it costs the import of the package a tenth. Each is linear in the text.
_SECRETS = (
    (r"(?<![^\s'\"/])[^\s'\"/]+@", f"{HIDDEN}@"),
    (r"(?i)((?:key|token|secret|password|passwd|pwd)s?['\"]?\s*[=:]\s*['\"]?)[^\s,;&'\"]+", rf"\1{HIDDEN}"),
    # Datadog's own keys: 32 or 40 of these, less where a tag's normal form has cut leading digits off.
    (r"[0-9a-fA-F]{20,}", HIDDEN),
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
