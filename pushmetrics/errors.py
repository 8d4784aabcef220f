"""The error tree: everything that pushmetrics raises on purpose.

Each error is a :class:`PushmetricsError`, and also the built-in error that a Python user expects in its place, so
that ``except ValueError`` or ``except TimeoutError`` written for the standard library goes on working.
"""

from __future__ import annotations


class PushmetricsError(Exception):
    """The base of every error that pushmetrics raises on purpose."""


class InvalidValueError(PushmetricsError, ValueError):
    """An argument of the right type has a value outside its range."""


class QueryError(InvalidValueError):
    """A query is outside of the subset of Datadog's language that is evaluated here."""


class InvalidTypeError(PushmetricsError, TypeError):
    """An argument has the wrong type."""


class AdmissionTimeoutError(PushmetricsError, TimeoutError):
    """No slot became free within the admission timeout."""


class QueueFullError(PushmetricsError):
    """The queue already holds ``max_queue_depth`` waiters."""


class OverReleaseError(PushmetricsError, ValueError):
    """``release()`` was called when no holder had a slot to give back."""


class ForeignThreadError(PushmetricsError, RuntimeError):
    """``release()`` in another thread than the event loop's would have had to wake a waiter."""


class ReporterStateError(PushmetricsError, RuntimeError):
    """A reporter was started where it can not run, such as beside another one on the same registry."""


class SampleError(PushmetricsError):
    """A limit gave a gauge below 0."""
