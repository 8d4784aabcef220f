"""A parser for what Rust prints with `{:?}`, into plain Python values.

    Point { x: 1.0, y: None }   {"x": 1.0, "y": None}       Gauge         "Gauge"
    Some("a")                   "a"                         Wrapper(1)    (1,)
    ["a", true]                 ["a", True]                 {1: 2}        {1: 2}

The names of structs are dropped: the fields say enough.
"""

import re
from collections.abc import Callable
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>-?(?:inf|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?))(?!\w)
      | (?P<name>[A-Za-z_]\w*(?:::\w+)*)
      | (?P<mark>[\[\](){},:])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_WORDS = {"None": None, "true": True, "false": False, "NaN": float("nan")}


def parse(text: str) -> Any:
    """The value that `text` shows; ValueError says where it is not Rust debug output."""
    parser = _Parser(text)
    value = parser.value()
    parser.expect("")
    return value


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0
        self._advance()

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._end)
        if match is None:
            raise self._error()
        self._kind = match.lastgroup
        self._token = match[match.lastgroup or 0]
        self._end = match.end()

    def _error(self) -> ValueError:
        around = self._text[max(0, self._end - 40) : self._end + 40]
        return ValueError(f"not Rust debug output at character {self._end}, near {around!r}")

    def expect(self, token: str) -> None:
        if self._token != token or self._kind == "string":
            raise self._error()
        if token:
            self._advance()

    def _at(self, token: str) -> bool:
        return self._token == token and self._kind == "mark"

    def value(self) -> Any:
        kind, token = self._kind, self._token
        if kind == "mark":
            if token == "[":
                return self._items("[", "]", self.value)
            if token == "(":
                return tuple(self._items("(", ")", self.value))
            if token == "{":
                return dict(self._items("{", "}", self._pair))
        self._advance()
        if kind == "string":
            return _ESCAPE.sub(_unescape, token[1:-1])
        if kind == "number":
            return float(token) if re.search(r"[.ein]", token) else int(token)
        if kind == "name":
            return self._named(token)
        raise self._error()

    def _named(self, name: str) -> Any:
        if self._at("{"):
            return dict(self._items("{", "}", self._field))
        if self._at("("):
            fields = tuple(self._items("(", ")", self.value))
            return fields[0] if name == "Some" else fields
        return _WORDS.get(name, name)

    def _items(self, opening: str, closing: str, item: Callable[[], Any]) -> list[Any]:
        self.expect(opening)
        items: list[Any] = []
        while not self._at(closing):
            items.append(item())
            if not self._at(closing):
                self.expect(",")
        self.expect(closing)
        return items

    def _pair(self) -> tuple[Any, Any]:
        first = self.value()
        self.expect(":")
        return first, self.value()

    def _field(self) -> tuple[str, Any]:
        name = self._token
        if self._kind != "name":
            raise self._error()
        self._advance()
        self.expect(":")
        return name, self.value()


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[3], match[3])
