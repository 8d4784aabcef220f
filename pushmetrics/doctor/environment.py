"""The settings as a reporter would read them here, and the variable that each came from."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from typing import NamedTuple

from ..reporter import interval_warning
from ..settings import Address, ReporterSettings, reporter_settings, sink_address
from ..sinks.official_client import TAG_VARIABLES, LineSuffix
from .finding import Finding
from .logged import warnings_taken

CLIENT_TAGS = ("DATADOG_TAGS", *TAG_VARIABLES.values())
"""The variables of which the official client makes tags."""

ORIGIN = ("DD_EXTERNAL_ENV", "DATADOG_CARDINALITY", "DD_CARDINALITY")
"""The variables of which it makes what tells the Agent the origin of a line."""


class Environment(NamedTuple):
    """What the variables come to."""

    settings: ReporterSettings
    address: Address
    suffix: str
    """What the official client writes behind the type of a line: tags, origin."""
    findings: tuple[Finding, ...]
    """One for each setting; what is wrong with a variable stands beside the setting that it is about."""
    address_finding: Finding

    @property
    def origin(self) -> dict[str, str]:
        """What a line says of its origin: container id (``c``), external data (``e``), cardinality (``card``)."""
        return _origin(self.suffix)


def read_environment() -> Environment:
    """Read the variables, without a word in the log."""
    with warnings_taken() as of_settings:
        settings = reporter_settings()
    with warnings_taken() as of_address:
        address, source = sink_address()
    with warnings_taken() as of_client:
        suffix = LineSuffix()(settings.constant_tags)
    findings = (
        *_settings(settings, of_settings),
        *_client(settings, suffix, of_client),
        *_misspelt(settings),
    )
    return Environment(settings, address, suffix, findings, _row("address", str(address), source, of_address))


def _origin(suffix: str) -> dict[str, str]:
    fields = (field.partition(":") for field in suffix.split("|") if not field.startswith("#"))
    return {key: value for key, _, value in fields if key}


def _settings(settings: ReporterSettings, warnings: list[str]) -> Iterator[Finding]:
    shown = {
        "enabled": ("reporting", "on" if settings.enabled else "off"),
        "flush_interval": ("flush interval", f"{settings.flush_interval:g} s"),
        "constant_tags": ("constant tags", ", ".join(settings.constant_tags) or "none"),
        "worker": ("worker", "none" if settings.worker is None else str(settings.worker)),
    }
    for name, source in settings.sources.items():
        topic, text = shown.get(name) or (name, str(getattr(settings, name)))
        row = _row(topic, text, source, [each for each in warnings if each.startswith(f"PUSHMETRICS_{name.upper()}")])
        if name == "enabled" and not settings.enabled:
            row = _wrong(row, f"Nothing is sent. To switch it on, unset {source}.")
        if name == "flush_interval" and (warning := interval_warning(settings.flush_interval)):
            row = row._replace(mark=row.mark or "note", details=(*row.details, warning))
        yield row


def _client(settings: ReporterSettings, suffix: str, warnings: list[str]) -> Iterator[Finding]:
    tags = next((field[1:].split(",") for field in suffix.split("|") if field.startswith("#")), [])
    tags = [tag for tag in tags if tag not in settings.constant_tags]
    if tags or warnings:
        yield _row("client's tags", ", ".join(tags) or "none", _given(CLIENT_TAGS) or "default", warnings)
    names = {"c": "container id", "e": "external data"}
    origin = [names.get(key, f"cardinality {value}") for key, value in _origin(suffix).items()]
    if origin:
        yield Finding("origin", ", ".join(origin), _given(ORIGIN) or "this container")


def _misspelt(settings: ReporterSettings) -> Iterator[Finding]:
    known = ["PUSHMETRICS_SINK", *(f"PUSHMETRICS_{name.upper()}" for name in settings.sources)]
    for name in sorted(os.environ):
        if name.startswith("PUSHMETRICS_") and name not in known:
            for meant in difflib.get_close_matches(name, known, n=1, cutoff=0.85):
                yield Finding("variable", f"Nobody reads {name}; did you mean {meant}?", mark="wrong")


def _row(topic: str, text: str, source: str, warnings: list[str]) -> Finding:
    row = Finding(topic, text, source)
    return _wrong(row, *warnings) if warnings else row


def _wrong(row: Finding, *details: str) -> Finding:
    return row._replace(mark="wrong", details=(*row.details, *details))


def _given(variables: tuple[str, ...]) -> str:
    return ", ".join(name for name in variables if name in os.environ)
