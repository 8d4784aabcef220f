"""Settings: arguments in code, then PUSHMETRICS_* and DD_* variables, then defaults.

A bad argument raises. A bad variable never stops a program: one warning names it, and the next best setting is used.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar

from .catalog import LEVELS
from .checks import integer, number
from .errors import InvalidTypeError, InvalidValueError, PushmetricsError
from .model import Tags
from .redaction import shown
from .tags import constant_tag, metric_namespace

logger = logging.getLogger("pushmetrics")

DEFAULT_FLUSH_INTERVAL = 10.0
DEFAULT_NAMESPACE = "gym.concurrency"
DEFAULT_LEVEL = "standard"
DEFAULT_HOST = "localhost"
DEFAULT_PORT = 8125

MIN_FLUSH_INTERVAL = 0.1
MAX_FLUSH_INTERVAL = 3600.0

Worker = int | None | Literal["auto"]

_T = TypeVar("_T")


class Unset:
    """The default of an argument for which None has a meaning of its own."""

    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final = Unset()


class Address(NamedTuple):
    """Where an Agent listens."""

    scheme: Literal["udp", "unix", "unixstream"]
    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.scheme == "udp":
            host = f"[{self.host}]" if ":" in self.host else self.host
            return f"udp://{host}:{self.port}"
        return f"{self.scheme}://{self.path}"


class ReporterSettings(NamedTuple):
    """The settings of a reporter, each checked."""

    enabled: bool
    flush_interval: float
    namespace: str
    level: str
    constant_tags: Tags
    worker: Worker
    sources: Mapping[str, str]
    """Of each setting: "argument", the name of the variable, or "default"."""


def reporter_settings(
    *,
    flush_interval: object = None,
    namespace: object = None,
    level: object = None,
    constant_tags: object = None,
    worker: object = UNSET,
    environ: Mapping[str, str] | None = None,
) -> ReporterSettings:
    """Return the settings of a reporter; None, or UNSET for `worker`, stands for an argument that was not given.

    Raises :class:`PushmetricsError` (a ValueError or TypeError) for a bad argument.
    """
    environ = os.environ if environ is None else environ
    sources: dict[str, str] = {}

    def choose(
        name: str,
        given: bool,
        argument: object,
        check: Callable[[Any], _T],
        default: _T,
        *,
        read: Callable[[str], _T] | None = None,
    ) -> _T:
        variable = f"PUSHMETRICS_{name.upper()}"
        if given:
            sources[name] = "argument"
            return check(argument)
        if variable in environ:
            try:
                value = (read or check)(environ[variable])
            except PushmetricsError as error:
                logger.warning("%s is ignored: %s. Using %r.", variable, error, default)
            else:
                sources[name] = variable
                return value
        sources[name] = "default"
        return default

    return ReporterSettings(
        enabled=_enabled(environ, sources),
        flush_interval=choose(
            "flush_interval", flush_interval is not None, flush_interval, _flush_interval, DEFAULT_FLUSH_INTERVAL
        ),
        namespace=choose("namespace", namespace is not None, namespace, metric_namespace, DEFAULT_NAMESPACE),
        level=choose("level", level is not None, level, checked_level, DEFAULT_LEVEL),
        constant_tags=choose(
            "constant_tags", constant_tags is not None, constant_tags, _constant_tags, (), read=_constant_tags_variable
        ),
        worker=choose("worker", worker is not UNSET, worker, _worker, "auto"),
        sources=sources,
    )


def sink_address(environ: Mapping[str, str] | None = None) -> tuple[Address, str]:
    """Return the Agent's address from the variables, and the name of the variable that gave it, or "default".

    ``PUSHMETRICS_SINK`` beats ``DD_DOGSTATSD_URL``, which beats ``DD_AGENT_HOST`` and ``DD_DOGSTATSD_PORT``, which
    the official client reads in the same way.
    """
    environ = os.environ if environ is None else environ
    for variable in ("PUSHMETRICS_SINK", "DD_DOGSTATSD_URL"):
        if variable in environ:
            try:
                return parse_address(environ[variable]), variable
            except InvalidValueError as error:
                logger.warning("%s is ignored: %s.", variable, error)
    host, port, sources = DEFAULT_HOST, DEFAULT_PORT, []
    if "DD_AGENT_HOST" in environ:
        given = environ["DD_AGENT_HOST"]
        bare = given.removeprefix("[").removesuffix("]")
        if _is_host(bare):
            host = bare
            sources.append("DD_AGENT_HOST")
        else:
            logger.warning("DD_AGENT_HOST is ignored: %s is no host name. Using %r.", shown(given), host)
    if "DD_DOGSTATSD_PORT" in environ:
        given = environ["DD_DOGSTATSD_PORT"]
        if re.fullmatch(r"[0-9]{1,5}", given) and 0 < int(given) < 65536:
            port = int(given)
            sources.append("DD_DOGSTATSD_PORT")
        else:
            logger.warning(
                "DD_DOGSTATSD_PORT is ignored: %s is no port number from 1 to 65535%s. Using %d.",
                shown(given),
                " (it looks like a service link of Docker or Kubernetes)" if "://" in given else "",
                port,
            )
    return Address("udp", host, port), ", ".join(sources) or "default"


def parse_address(url: object) -> Address:
    """Return the address in a URL: ``udp://host[:port]``, ``unix:///path`` or ``unixstream:///path``.

    ``unixgram:///path`` is the same as ``unix:///path``, as for the official client. Raises
    :class:`InvalidTypeError` or :class:`InvalidValueError` for anything else.
    """
    if not isinstance(url, str):
        raise InvalidTypeError(f"an address is a string such as 'udp://localhost:8125', got {shown(url)}")
    expected = "expected udp://host:port, unix:///path or unixstream:///path"
    scheme, separator, rest = url.partition("://")
    if separator and scheme in ("unix", "unixgram", "unixstream"):
        if not rest.startswith("/") or "\0" in rest:
            raise InvalidValueError(f"{shown(url)} names no absolute path; {expected}")
        return Address("unixstream" if scheme == "unixstream" else "unix", path=rest)
    if not separator or scheme != "udp":
        raise InvalidValueError(f"{shown(url)} is no address of an Agent; {expected}")
    found = re.fullmatch(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^\[\]:/]+))(?::([0-9]{1,5}))?/?", rest)
    if (
        not found
        or not _is_host(host := found[1] or found[2])
        or not 0 < (port := int(found[3] or DEFAULT_PORT)) < 65536
    ):
        raise InvalidValueError(f"{shown(url)} has no usable host or port; {expected}, an IPv6 address in brackets")
    return Address("udp", host, port)


def _is_host(text: str) -> bool:
    """Return whether `text` is an IPv6 address without brackets, or has the form of a name or an IPv4 address."""
    try:
        if ":" in text:
            address, _, scope = text.partition("%")
            socket.inet_pton(socket.AF_INET6, address)
            return re.fullmatch(r"[\w.-]*", scope) is not None
        text.encode("idna")  # As a look-up does it: no empty part, none of more than 63 characters.
    except (OSError, ValueError):
        return False
    return re.fullmatch(r"[\w.-]{1,253}", text) is not None


def _enabled(environ: Mapping[str, str], sources: dict[str, str]) -> bool:
    # The official client's switch turns off everything that goes to the Agent, so it is ours, too.
    if environ.get("DD_DOGSTATSD_DISABLE") in ("True", "true", "yes", "1"):
        sources["enabled"] = "DD_DOGSTATSD_DISABLE"
        return False
    given = environ.get("PUSHMETRICS_ENABLED")
    if given is not None:
        answer = {"0": False, "false": False, "no": False, "off": False}.get(given.strip().lower())
        if answer is None and given.strip().lower() in ("1", "true", "yes", "on"):
            answer = True
        if answer is not None:
            sources["enabled"] = "PUSHMETRICS_ENABLED"
            return answer
        logger.warning("PUSHMETRICS_ENABLED is ignored: %s is neither 0 nor 1. Reporting is on.", shown(given))
    sources["enabled"] = "default"
    return True


def _flush_interval(value: object) -> float:
    return number("flush_interval", value, MIN_FLUSH_INTERVAL, MAX_FLUSH_INTERVAL, what="seconds", text=True)


def checked_level(value: object) -> str:
    """Return `value` if it is a level; raises :class:`InvalidValueError` for anything else."""
    if not isinstance(value, str) or value not in LEVELS:
        raise InvalidValueError(f"level: expected one of {', '.join(LEVELS)}, got {shown(value)}")
    return value


def _constant_tags(value: object) -> Tags:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        raise InvalidTypeError(f"constant_tags: expected a list of strings such as 'team:search', got {shown(value)}")
    return tuple(dict.fromkeys(constant_tag(tag) for tag in value))


def _constant_tags_variable(value: str) -> Tags:
    tags = []
    dropped = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        try:
            tags.append(constant_tag(part))
        except PushmetricsError as error:  # The others stay.
            dropped.append(error)
    warn_of_dropped_tags("PUSHMETRICS_CONSTANT_TAGS", dropped)
    return tuple(dict.fromkeys(tags))


def warn_of_dropped_tags(variable: str, errors: list[PushmetricsError]) -> None:
    """Say once why tags of a variable are dropped, of the first few; nothing if there are none."""
    if errors:
        more = f", and {len(errors) - 3} more" if len(errors) > 3 else ""
        what = "a tag is" if len(errors) == 1 else "tags are"
        logger.warning("%s: %s dropped: %s%s.", variable, what, "; ".join(map(str, errors[:3])), more)


def _worker(value: object) -> Worker:
    if value is None or value == "auto":
        return value
    if isinstance(value, str):
        if value.strip().lower() in ("none", "off"):
            return None
        if re.fullmatch(r"[0-9]{1,6}", value.strip()):
            return int(value)
        raise InvalidValueError(f"worker: expected an integer of at least 0, 'auto' or 'none', got {shown(value)}")
    return integer("worker", value, 0, besides=", 'auto' or None")
