"""Evaluates the subset of Datadog's metric queries that the templates use, over what a receiver holds.

>>> expression = parse("sum:gym.concurrency.queue_depth{component:model_server} by {limit_name}")
>>> lines = evaluate(expression, receiver, Span.until(clock.wall(), 600, 10))  # doctest: +SKIP

Text becomes an expression in ``parse``, an expression and a source become lines in ``evaluate``. Neither keeps nor
changes anything. A query outside of the subset raises :class:`pushmetrics.errors.QueryError`.
"""

from __future__ import annotations

from .evaluate import evaluate, reduce
from .expressions import Expression, Metric, MonitorQuery, metrics_of
from .lines import Group, Lines, Source, Span
from .monitors import evaluate_monitor
from .parse import parse, parse_monitor

__all__ = [
    "Expression",
    "Group",
    "Lines",
    "Metric",
    "MonitorQuery",
    "Source",
    "Span",
    "evaluate",
    "evaluate_monitor",
    "metrics_of",
    "parse",
    "parse_monitor",
    "reduce",
]
