"""What the library would log, taken as data."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warnings_taken() -> Iterator[list[str]]:
    """Collect the warnings of pushmetrics in place of logging them.

    What the datadog client has to say is dropped: it warns of variables that the library reads, and warns of, itself.
    """
    taken: list[str] = []
    with _diverted("pushmetrics", taken), _diverted("datadog", []):
        yield taken


@contextmanager
def _diverted(name: str, messages: list[str]) -> Iterator[None]:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger = logging.getLogger(name)
    before = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [Handler(logging.WARNING)], False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before
