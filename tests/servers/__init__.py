"""Other people's StatsD servers, run for real, as judges of what we send.

Each server is told apart from our own receiver on purpose: nothing here imports pushmetrics. Series are keyed alike
for all of them, so that one expectation can be put to every judge.
"""

from collections.abc import Mapping

Tags = tuple[tuple[str, str], ...]
Key = tuple[str, Tags]


class ServerUnavailableError(Exception):
    """This machine cannot run the server; the message says why and what would help."""


def key(name: str, tags: Mapping[str, str] | None = None, /, **more: str) -> Key:
    """The key of a series: its name and its sorted (key, value) tags.

    >>> key("a.active", server="s1", limit_name="db")
    ('a.active', (('limit_name', 'db'), ('server', 's1')))
    """
    return name, tuple(sorted({**(tags or {}), **more}.items()))
