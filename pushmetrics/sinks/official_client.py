"""What the official client writes behind the type of a line: tags, origin detection, external data, cardinality."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..dogstatsd import ParseError, parse_line
from ..errors import PushmetricsError
from ..model import Tags
from ..tags import constant_tag

logger = logging.getLogger("pushmetrics")

_CARDINALITIES = ("none", "low", "orchestrator", "high")
_PROBE = "pushmetrics:0|g"


class LineSuffix:
    """Writes lines with a client of our own into a recorder, so that their format is the client's.

    The client reads DATADOG_TAGS, DD_ENV, DD_SERVICE, DD_VERSION, DD_ENTITY_ID, DD_EXTERNAL_ENV, DD_CARDINALITY and
    DD_ORIGIN_DETECTION_ENABLED. What it would send as it stands and a receiver could misread is dropped with one
    warning. The constructor imports the client and reads the container id, so it does not belong into a tick.
    """

    def __init__(self) -> None:
        self._recorder = _Recorder()
        self._client = _own_client()
        self._client.socket = self._recorder
        self._client.constant_tags = _checked_environment_tags(list(self._client.constant_tags))
        self._dropped = ""
        suffix = self._record(())
        try:
            parse_line((_PROBE + suffix).encode())
        except (ParseError, UnicodeEncodeError) as error:
            self._drop_external_data(suffix, str(error))

    def __call__(self, tags: Tags) -> str:
        """Return what follows the type in a line with these tags: "" or a string that starts with ``|``."""
        suffix = self._record(tags)
        return suffix.replace(self._dropped, "") if self._dropped else suffix

    def _record(self, tags: Tags) -> str:
        self._client.gauge("pushmetrics", 0, tags=list(tags))
        return self._recorder.take().removesuffix("\n").removeprefix(_PROBE)

    def _drop_external_data(self, suffix: str, reason: str) -> None:
        # Tags are in normal form and the container id comes from the kernel, so this one is the culprit.
        self._dropped = "|e:" + os.environ.get("DD_EXTERNAL_ENV", "")
        logger.warning("DD_EXTERNAL_ENV is ignored: it would make lines that no Agent can read (%s).", reason)


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
    cardinality = os.environ.get("DATADOG_CARDINALITY", os.environ.get("DD_CARDINALITY"))
    if cardinality is not None and cardinality not in _CARDINALITIES:
        logger.warning("DD_CARDINALITY is ignored: %r is none of %s.", cardinality, ", ".join(_CARDINALITIES))
        cardinality = None
    arguments: dict[str, Any] = {
        # Never connected to; given so that the client does not read the variables that settings.py has read.
        "host": "127.0.0.1",
        "port": 8125,
        "cardinality": cardinality,
        "disable_telemetry": True,
    }
    try:
        return _import_client()(**arguments)
    except ValueError as error:
        # The client reads some variables without checking them, at its import even: a URL such as "udp://[::1".
        logger.warning("The datadog client can not read its variables (%s); it is set up without them.", error)
        with _unset("DD_DOGSTATSD_URL", "DD_DOGSTATSD_PORT", "DD_TELEMETRY_HOST", "DD_TELEMETRY_PORT"):
            return _import_client()(**arguments)


def _import_client() -> Any:
    from datadog.dogstatsd.base import DogStatsd

    return DogStatsd


@contextmanager
def _unset(*variables: str) -> Iterator[None]:
    saved = {name: os.environ.pop(name) for name in variables if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(saved)


def _checked_environment_tags(tags: list[str]) -> list[str]:
    checked = []
    for tag in tags:
        try:
            checked.append(tag if tag.startswith("dd.internal.") else constant_tag(tag))
        except PushmetricsError as error:
            logger.warning("A tag from DATADOG_TAGS or a DD_* variable is dropped: %s.", error)
    return checked
