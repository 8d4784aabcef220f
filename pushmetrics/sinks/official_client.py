"""What the official client writes behind the type of a line: tags, origin detection, external data, cardinality."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import InvalidValueError, PushmetricsError
from ..model import Tags
from ..redaction import shown
from ..settings import warn_of_dropped_tags
from ..tags import constant_tag, normalize

logger = logging.getLogger("pushmetrics")

_CARDINALITIES = ("none", "low", "orchestrator", "high")
_MAX_EXTERNAL_DATA = 500
"""Characters; what Kubernetes injects ("it-false,cn-container,pu-...") has some 120 of them."""

TAG_VARIABLES = {
    "env": "DD_ENV",
    "service": "DD_SERVICE",
    "version": "DD_VERSION",
    "dd.internal.entity_id": "DD_ENTITY_ID",
}
"""The variables of which the client makes tags, beside DATADOG_TAGS."""

_PROBE = "pushmetrics:0|g"


class LineSuffix:
    """Writes lines with a client of our own into a recorder, so that their format is the client's.

    The client reads DATADOG_TAGS, DD_ENV, DD_SERVICE, DD_VERSION, DD_ENTITY_ID, DD_EXTERNAL_ENV and
    DD_ORIGIN_DETECTION_ENABLED; it is given DATADOG_CARDINALITY or DD_CARDINALITY, as its ``initialize()`` does. What
    it would send as it stands and a receiver could misread is dropped with one warning. The constructor imports the
    client and reads the container id, so it does not belong into a tick.
    """

    def __init__(self) -> None:
        self._recorder = _Recorder()
        self._client = _own_client()
        self._client.socket = self._recorder
        self._client.constant_tags = _checked_environment_tags(list(self._client.constant_tags))

    def __call__(self, tags: Tags) -> str:
        """Return what follows the type in a line with these tags: "" or a string that starts with ``|``."""
        self._client.gauge("pushmetrics", 0, tags=list(tags))
        return self._recorder.take().removesuffix("\n").removeprefix(_PROBE)


class _Recorder:
    """Stands where the client expects a connected datagram socket, and keeps the line it is given."""

    family = socket.AF_INET

    def __init__(self) -> None:
        self._line = b""

    def getsockopt(self, level: int, option: int) -> int:
        return int(socket.SOCK_DGRAM)

    def send(self, data: bytes) -> int:
        self._line = data
        return len(data)

    def close(self) -> None:
        pass

    def take(self) -> str:
        line, self._line = self._line, b""
        return line.decode()


def _own_client() -> Any:
    """Return a client that is used by nobody else, with no thread, no buffer and no telemetry."""
    arguments: dict[str, Any] = {
        # Never connected to; given so that the client does not read the variables that settings.py has read.
        "host": "127.0.0.1",
        "port": 8125,
        "cardinality": _cardinality(),
        "disable_telemetry": True,
        # After a fork it would be given a real socket in place of the recorder.
        "track_instance": False,
    }
    unusable = _unusable_external_data()
    try:
        return _client(arguments, unusable)
    except ValueError as error:
        # The client reads some variables without checking them, at its import even: a URL such as "udp://[::1". Those
        # that matter to us were read by settings.py, with a warning.
        logger.info("The datadog client can not read its variables (%s); it is set up without them.", error)
        with _unset("DD_DOGSTATSD_URL", "DD_DOGSTATSD_PORT", "DD_TELEMETRY_HOST", "DD_TELEMETRY_PORT"):
            return _client(arguments, unusable)


def _client(arguments: dict[str, Any], unusable: tuple[str, ...]) -> Any:
    with _unset(*unusable), _unsaid("DD_DOGSTATSD_URL", "DD_DOGSTATSD_PORT"):
        from datadog.dogstatsd.base import DogStatsd

        return DogStatsd(**arguments)


def _cardinality() -> str | None:
    for variable in ("DATADOG_CARDINALITY", "DD_CARDINALITY"):
        given = os.environ.get(variable)
        if given in _CARDINALITIES:
            return given
        if given is not None:
            logger.warning("%s is ignored: %s is none of %s.", variable, shown(given), ", ".join(_CARDINALITIES))
    return None


def _unusable_external_data() -> tuple[str, ...]:
    """Return the name of the variable that the client would copy into each line although it would break it."""
    given = os.environ.get("DD_EXTERNAL_ENV", "")
    if given.isprintable() and "|" not in given and len(given) <= _MAX_EXTERNAL_DATA:
        return ()
    logger.warning(
        "DD_EXTERNAL_ENV is ignored: expected at most %d printable characters, '|' not among them, got %s.",
        _MAX_EXTERNAL_DATA,
        shown(given),
    )
    return ("DD_EXTERNAL_ENV",)


@contextmanager
def _unsaid(*variables: str) -> Iterator[None]:
    """Keep the client from warning of variables, at its import even, of which settings.py has warned already."""

    def is_news(record: logging.LogRecord) -> bool:
        return not any(variable in record.getMessage() for variable in variables)

    client = logging.getLogger("datadog.dogstatsd")
    client.addFilter(is_news)
    try:
        yield
    finally:
        client.removeFilter(is_news)


@contextmanager
def _unset(*variables: str) -> Iterator[None]:
    saved = {name: os.environ.pop(name) for name in variables if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(saved)


def _entity_tag(tag: str) -> str:
    key, _, value = tag.partition(":")
    normal = normalize(tag)
    if not any(map(str.isalnum, normal[len(key) :])):
        raise InvalidValueError(f"nothing of {shown(value)} is left in Datadog's normal form")
    return normal


def _checked_environment_tags(tags: list[str]) -> list[str]:
    """Return the tags that the client has read, in normal form, less those that no constant tag may be."""
    checked = []
    dropped: dict[str, list[PushmetricsError]] = {}
    for tag in tags:
        key, _, value = tag.partition(":")
        variable = TAG_VARIABLES.get(key, "DATADOG_TAGS")
        if os.environ.get(variable) != value:
            variable = "DATADOG_TAGS"
        try:
            checked.append(_entity_tag(tag) if variable == "DD_ENTITY_ID" else constant_tag(tag))
        except PushmetricsError as error:
            dropped.setdefault(variable, []).append(error)
    for variable, errors in dropped.items():
        warn_of_dropped_tags(variable, errors)
    return checked
