"""Text into expressions. Everything that is not in the subset is a QueryError that says where, and what is allowed."""

from __future__ import annotations

import re
from typing import Any, Literal, NoReturn, TypeVar, cast

from ..errors import InvalidTypeError, QueryError
from .expressions import (
    AGGREGATORS,
    FILL_METHODS,
    FILL_SECONDS,
    FUNCTIONS,
    MAX_FILL_SECONDS,
    UNIT_SECONDS,
    Expression,
    Fill,
    Function,
    Metric,
    MonitorQuery,
    Negative,
    Number,
    Operation,
    Reference,
    Rollup,
)

MAX_LENGTH = 10_000
MAX_DEPTH = 50
"""Of parentheses, signs and functions in each other, so that no query runs out of the interpreter's stack."""

MAX_OPERATORS = 200
"""In one query: each is one more step down when it is evaluated, written or walked through."""

MAX_DIGITS = 100
"""Of a number, far below what would be infinite, or too long to be read as an integer."""

MAX_ROLLUP_SECONDS = 86_400
MAX_WINDOW_SECONDS = 86_400

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)|(?P<sign>[-+*/(){},:.<>=!$]))"
)
_SCOPE_ITEM = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*|!?[a-zA-Z][a-zA-Z0-9_./-]*:[a-zA-Z0-9_:./-]+")
_TAG_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_./-]*")
_LAST = re.compile(r"last_([1-9][0-9]{0,4})([smhd])")
_COMPARATORS = (">=", "<=", ">", "<")

T = TypeVar("T", bound=str)


def parse(text: str) -> Expression:
    """Return the expression of a query or of a widget's formula; raises :class:`QueryError` outside of the subset."""
    parser = _Parser(text)
    expression = parser.expression()
    parser.end()
    return expression


def parse_monitor(text: str) -> MonitorQuery:
    """Return the query of a metric monitor; raises :class:`QueryError` outside of the subset."""
    parser = _Parser(text)
    query = parser.monitor()
    parser.end()
    return query


class _Parser:
    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InvalidTypeError(f"a query is a string, got {text!r}")
        self._text = text
        self._place = 0
        self._depth = 0
        self._operators = 0
        if len(text) > MAX_LENGTH:
            self._fail(f"a query has at most {MAX_LENGTH} characters, this one has {len(text)}")

    # Expressions, the loosest binding first.

    def expression(self) -> Expression:
        self._descend()
        left = self._product()
        while sign := self._operator("+", "-"):
            left = Operation(cast('Literal["+", "-"]', sign), left, self._product())
        self._depth -= 1
        return left

    def _product(self) -> Expression:
        left = self._factor()
        while sign := self._operator("*", "/"):
            left = Operation(cast('Literal["*", "/"]', sign), left, self._factor())
        return left

    def _operator(self, *signs: str) -> str | None:
        sign = self._take(*signs)
        self._operators += sign is not None
        if self._operators > MAX_OPERATORS:
            self._fail(f"it has more than {MAX_OPERATORS} operators")
        return sign

    def _factor(self) -> Expression:
        if self._take("-"):
            self._descend()
            operand = self._factor()
            self._depth -= 1
            return Negative(operand)
        if self._take("("):
            inner = self.expression()
            self._expect(")")
            return inner
        kind, token = self._next()
        if kind == "number":
            return Number(float(token))
        if kind != "name":
            self._fail_at(token, "a number, a metric such as sum:name{*}, a function or '('")
        if self._take(":"):
            return self._metric(token)
        if self._take("("):
            return self._function(token)
        if "." in token:
            self._fail(f"{token} has no aggregator; say how its sources are added up, such as sum:{token}{{*}}")
        return Reference(token)

    def _function(self, name: str) -> Function:
        number = FUNCTIONS.get(name)
        if number is None:
            self._fail(f"the function {name}() is not in the subset; these are: {', '.join(FUNCTIONS)}")
        arguments = [self.expression()]
        while self._take(","):
            arguments.append(self.expression())
        self._expect(")")
        if len(arguments) != number:
            self._fail(f"{name}() takes {number} argument{'s' * (number > 1)}, got {len(arguments)}")
        if number > 1 and not isinstance(arguments[1], Number):
            self._fail(f"the second argument of {name}() is a number, 0 or above")
        return Function(name, tuple(arguments))

    # Metrics.

    def _metric(self, aggregator: str) -> Metric:
        how = self._one_of(aggregator, AGGREGATORS, "an aggregator")
        kind, name = self._next()
        if kind != "name" or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*", name):
            self._fail_at(name, "the name of a metric")
        parts: dict[str, Any] = {"scope": self._scope()}
        if self._peek()[1] == "by":
            self._next()
            parts["by"] = self._tag_keys()
        # A name holds dots, so what follows a brace and begins with one is two tokens: the dot and the name.
        while self._take("."):
            kind, modifier = self._next()
            self._expect("(")
            self._modify(parts, modifier)
            self._expect(")")
        return Metric(how, name, **parts)

    def _modify(self, parts: dict[str, Any], modifier: str) -> None:
        slot = {"as_count": "modifier", "as_rate": "modifier", "rollup": "rollup", "fill": "fill"}.get(modifier)
        if slot is None:
            self._fail(f".{modifier}() is not in the subset; these are: .as_count(), .as_rate(), .rollup(), .fill()")
        if slot in parts:
            self._fail(
                f".{modifier}() comes after another .{parts[slot] if slot == 'modifier' else modifier}(); use one"
            )
        if slot == "modifier":
            parts[slot] = modifier
        elif slot == "rollup":
            method = self._one_of(self._next()[1], AGGREGATORS, "the method of a rollup")
            parts[slot] = Rollup(method, self._seconds(MAX_ROLLUP_SECONDS) if self._take(",") else None)
        else:
            filling = self._one_of(self._next()[1], FILL_METHODS, "the method of a fill")
            parts[slot] = Fill(filling, self._seconds(MAX_FILL_SECONDS) if self._take(",") else FILL_SECONDS)

    def _seconds(self, most: int) -> int:
        kind, token = self._next()
        if kind != "number" or "." in token or not 1 <= int(token) <= most:
            self._fail_at(token, f"whole seconds from 1 to {most}")
        return int(token)

    def _scope(self) -> tuple[str, ...]:
        items = self._braces("a scope such as {*} or {component:api,$env}")
        if items == ["*"]:
            return ()
        for item in items:
            if not _SCOPE_ITEM.fullmatch(item):
                self._fail(f"{item!r} in a scope is not in the subset; it takes *, key:value, !key:value and $variable")
        return tuple(items)

    def _tag_keys(self) -> tuple[str, ...]:
        keys = self._braces("the keys to group by, such as {limit_name}")
        for key in keys:
            if not _TAG_KEY.fullmatch(key):
                self._fail(f"{key!r} is no key of a tag")
        return tuple(dict.fromkeys(keys))

    def _braces(self, wanted: str) -> list[str]:
        if not self._take("{"):
            self._fail_at(self._peek()[1], wanted)
        end = self._text.find("}", self._place)
        if end < 0:
            self._fail("a '{' is not closed")
        inside = self._text[self._place : end]
        self._place = end + 1
        return [item.strip() for item in inside.split(",")]

    # Monitors.

    def monitor(self) -> MonitorQuery:
        shift = None
        kind, name = self._next()
        if not self._take("("):
            self._fail("the query of a monitor begins with the time that it looks at, such as avg(last_5m):")
        change = name == "change"
        if change:
            kind, name = self._next()
            self._expect("(")
        aggregator = self._one_of(name, AGGREGATORS, "what is taken over the time of a monitor")
        window = self._last()
        self._expect(")")
        if change:
            self._expect(",")
            shift = self._last()
            self._expect(")")
        self._expect(":")
        expression = self.expression()
        comparator = "".join(filter(None, (self._take(">", "<"), self._take("="))))
        if comparator not in _COMPARATORS:
            self._fail_at(self._peek()[1], f"one of {', '.join(_COMPARATORS)} and a threshold")
        negative = self._take("-")
        kind, token = self._next()
        if kind != "number":
            self._fail_at(token, "the threshold, a number")
        threshold = -float(token) if negative else float(token)
        return MonitorQuery(
            aggregator, window, expression, cast('Literal[">", ">=", "<", "<="]', comparator), threshold, shift
        )

    def _last(self) -> int:
        _, token = self._next()
        found = _LAST.fullmatch(token)
        seconds = int(found[1]) * UNIT_SECONDS[found[2]] if found else 0
        if not 1 <= seconds <= MAX_WINDOW_SECONDS:
            self._fail_at(token, "a time of up to a day, such as last_5m or last_1h")
        return seconds

    # Tokens.

    def end(self) -> None:
        kind, token = self._peek()
        if kind != "end":
            self._fail_at(token, "the end of the query")

    def _peek(self) -> tuple[str, str]:
        place = self._place
        token = self._next()
        self._place = place
        return token

    def _next(self) -> tuple[str, str]:
        found = _TOKEN.match(self._text, self._place)
        if found is None:
            rest = self._text[self._place :].strip()
            if rest:
                self._fail(f"the character {rest[0]!r} has no meaning here")
            return "end", ""
        self._place = found.end()
        kind, token = str(found.lastgroup), found[str(found.lastgroup)]
        if kind == "number" and (len(token) > MAX_DIGITS or float(token) >= 10**MAX_DIGITS):
            self._fail(f"a number has at most {MAX_DIGITS} digits, got one of {len(token)}")
        return kind, token

    def _take(self, *signs: str) -> str | None:
        """Return the next token and go on if it is one of `signs`."""
        place = self._place
        kind, token = self._next()
        if kind == "sign" and token in signs:
            return token
        self._place = place
        return None

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            self._fail_at(self._peek()[1], repr(sign))

    def _one_of(self, token: str, allowed: tuple[T, ...], what: str) -> T:
        if token not in allowed:
            self._fail(f"{what} is one of {', '.join(allowed)}, got {token!r}")
        return next(one for one in allowed if one == token)

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"it is nested more than {MAX_DEPTH} deep")

    def _fail_at(self, token: str, wanted: str) -> NoReturn:
        self._fail(f"expected {wanted}, got {token!r}" if token else f"expected {wanted}, and it ends here")

    def _fail(self, reason: str) -> NoReturn:
        shown = self._text if len(self._text) <= 200 else self._text[:200] + "..."
        raise QueryError(f"the query {shown!r}, near character {self._place}: {reason}")
