"""What limits are called: in full, or shorter where there is less room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .limits import LimitRow
from .text import pad, safe, size

FORMS = (("component", "limit_name", "server"), ("limit_name", "server"), ("limit_name",))
"""The tags in a name, for less and less room."""

EXTRA = "extra"
"""Stands behind the tags of a name: what else tells one limit from another."""


class Names:
    """The names of the limits of a look, in aligned parts whose widths only ever grow."""

    def __init__(self) -> None:
        self._widths: Counter[str] = Counter()
        self._parts: list[dict[str, str]] = []

    def look(self, rows: Sequence[LimitRow], among: Sequence[LimitRow] = ()) -> None:
        """Take the limits that are to be named; `among` which others they are to be told apart, if there are more."""
        everyone = among or rows
        namespaces = {row.key.namespace for row in everyone}
        common = set.intersection(*(set(row.key.tags) for row in everyone)) if everyone else set()
        self._parts = [_parts(row, common, len(namespaces) > 1) for row in rows]
        for parts in self._parts:
            for key, text in parts.items():
                self._widths[key] = max(self._widths[key], size(text))

    def width(self, form: Sequence[str]) -> int:
        """Return the width of all names in this form."""
        widths = [self._widths[key] for key in (*form, EXTRA) if self._widths[key]]
        return sum(widths) + max(0, len(widths) - 1)

    def parts(self, form: Sequence[str]) -> list[list[tuple[str, str]]]:
        """Return the parts of each name, by key, padded to their widths."""
        return [
            [(key, pad(parts[key], self._widths[key])) for key in (*form, EXTRA) if self._widths[key]]
            for parts in self._parts
        ]

    def texts(self, form: Sequence[str]) -> list[str]:
        """Return the names, of equal width."""
        return [" ".join(text for _, text in parts) for parts in self.parts(form)]

    def forms(self) -> list[Sequence[str]]:
        """Return the forms in which each limit has a name of its own, the longest first; one form at the least."""
        return [form for form in FORMS if len({*self.texts(form)}) == len(self._parts)] or [FORMS[0]]


def _parts(row: LimitRow, common: set[str], with_namespace: bool) -> dict[str, str]:
    parts = {key: safe(row.tag(key)) for key in FORMS[0]}
    extra = [safe(tag) for tag in row.key.tags if tag not in common and tag.partition(":")[0] not in FORMS[0]]
    namespace = safe(row.key.namespace)
    if not any(parts.values()):
        parts["limit_name"] = namespace or "?"
    elif with_namespace:
        extra.insert(0, namespace)
    return parts | {EXTRA: " ".join(extra)}
