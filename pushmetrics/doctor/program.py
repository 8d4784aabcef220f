"""The limits that a module makes when it is imported."""

from __future__ import annotations

import importlib
import sys
import traceback
from contextlib import redirect_stdout
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from ..errors import InvalidValueError
from ..model import Sample
from ..redaction import shown
from ..registry import Registry, default_registry
from .finding import Finding
from .logged import warnings_taken


class Program(NamedTuple):
    """What a module reports."""

    registry: Registry | None
    """None when there is no getting at it."""
    findings: tuple[Finding, ...]
    limits: tuple[Finding, ...] = ()
    """One for each series."""


def read_program(module: str) -> Program:
    """Import a module as uvicorn does, and list the limits in its registry.

    `module` is ``package.module``, whose limits are in the default registry, or ``package.module:registry``.
    """
    try:
        registry = load_registry(module)
    except InvalidValueError as error:
        return Program(None, (Finding("limits", str(error), mark="wrong"),))
    with warnings_taken() as wrong:
        samples = list(registry.collect("core"))
    if registry.series_rejected:
        wrong.append(
            f"{registry.series_rejected} more are not sent, since max_series is {registry.max_series}. Use tags with "
            "few values, or raise it."
        )
    finding = Finding("limits", f"{len(samples)} in {module}", mark="ok")
    if wrong:
        finding = finding._replace(mark="wrong", details=tuple(wrong))
    elif not samples:
        why = "It makes none when it is imported, or they are in another registry."
        finding = finding._replace(mark="note", details=(why,))
    return Program(registry, (finding,), tuple(map(_limit, samples)))


def _limit(sample: Sample) -> Finding:
    name = " ".join(tag.partition(":")[2] or tag for tag in sample.descriptor.tags)
    known = "limit" in sample.descriptor.names  # A watched one may have none, or have forgotten it.
    return Finding("", name, f"limit {sample.value('limit')}" if known else "limit not known")


def load_registry(module: str) -> Registry:
    """Import what `module` names and return its registry; raises InvalidValueError when there is none."""
    path, colon, name = module.partition(":")
    if not path or (colon and not name):
        raise InvalidValueError(f"--module: expected module or module:registry, got {shown(module)}.")
    found = _imported(path)
    try:
        registry = reduce(getattr, name.split("."), found) if name else default_registry
    except AttributeError:
        raise InvalidValueError(f"{path} has no {name}; without a name the default registry is taken.") from None
    except Exception as error:  # noqa: BLE001 - a module may have a __getattr__ of its own
        raise InvalidValueError(f"{module} can not be looked at: {_text(error)}") from None
    if not isinstance(registry, Registry):
        kind = type(registry).__name__
        raise InvalidValueError(f"{module} is no Registry but of type {kind}; without a name the default one is taken.")
    return registry


def _imported(path: str) -> object:
    if "" not in sys.path:
        sys.path.insert(0, "")  # The working directory, as for `python -m`.
    try:
        # What the module prints is no part of the report, and its warnings of variables stand there already.
        with redirect_stdout(sys.stderr), warnings_taken():
            return importlib.import_module(path)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        if error.name and f"{path}.".startswith(f"{error.name}."):
            why = f"There is no module {error.name} in {Path.cwd()} or on Python's path. Name it as an import does."
            raise InvalidValueError(why) from None
        raise _failed(path, error) from None
    except BaseException as error:  # noqa: BLE001 - a module may do anything, sys.exit() included
        raise _failed(path, error) from None


def _failed(path: str, error: BaseException) -> InvalidValueError:
    text = _text(error)
    if isinstance(error, SyntaxError):
        file, line = error.filename or path, error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        # The last line of the program's own, as a person would look for it.
        own = (frame for frame in reversed(frames) if Path(frame.filename).is_relative_to(Path.cwd()))
        frame = next(own, frames[-1])
        file, line = frame.filename, frame.lineno
    return InvalidValueError(f"{path} can not be imported: {text} ({Path(file).name}, line {line})")


def _text(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()
