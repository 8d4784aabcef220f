"""What the commands share: errors as one line, and their end."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn, TextIO

EXTRAS = {"datadog_api_client": "cli,dashboards"}
"""The extras that bring a package, where that is not "cli" alone."""


def missing(error: ModuleNotFoundError) -> str:
    """Return what to do about a module that is missing; raises the error again when it is one of our own."""
    package = (error.name or "pushmetrics").partition(".")[0]
    if package == "pushmetrics":
        raise error
    extras = EXTRAS.get(package, "cli")
    return f"the command line needs {package}, which is not installed; run: pip install 'pushmetrics[{extras}]'"


def harmless(text: str) -> str:
    """Return text without what could do something to a terminal; its lines stay lines."""
    from ..live.text import safe

    return "\n".join(safe(line) for line in text.split("\n"))


def run(program: Callable[[], int], needed: str = "") -> NoReturn:
    """Run a program and exit with its status. What goes wrong outside of it is one line.

    `needed` says what the program needs of the system, for an error that comes from there.
    """
    import click

    from ..errors import PushmetricsError

    if sys.stdout is None:
        raise click.ClickException("standard output is closed; there is nothing to write to")
    logging.basicConfig(format="%(name)s: %(message)s")
    try:
        status = program()
    except ModuleNotFoundError as error:
        raise click.ClickException(missing(error)) from None
    except BrokenPipeError:
        raise  # Whoever read the output has gone; click ends the program quietly.
    except PushmetricsError as error:
        _give_up_what_can_not_be_written(sys.stdout)
        raise click.ClickException(harmless(str(error))) from None
    except OSError as error:
        _give_up_what_can_not_be_written(sys.stdout)
        raise click.ClickException(harmless(f"{error}; {needed}" if needed else str(error))) from None
    _give_up_what_can_not_be_written(sys.stderr)
    sys.exit(status)


def _give_up_what_can_not_be_written(stream: TextIO | None) -> None:
    """Keep the interpreter from trying once more at its end, which would be a second message and exit status 120."""
    if stream is None:  # Closed by whoever started the program.
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
