"""Starts a command with pushmetrics loaded in it, and in every Python process that it starts.

It puts a directory with a ``sitecustomize.py`` first on PYTHONPATH, which each Python imports at its start, and
becomes the command. What happens then is in ``bootstrap``, the one part of the package that other environments load.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..integrations import Hook

BOOTSTRAP = str(Path(__file__).resolve().parent / "bootstrap")

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""What a shell exits with where a command is not there, or can not be run."""


class CommandError(Exception):
    """The command could not be started; `status` is what to exit with."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def launch_environment(environ: Mapping[str, str], hooks: Iterable[Hook]) -> dict[str, str]:
    """Return the environment in which each Python process waits for the modules that `hooks` are for."""
    hooks = list(hooks)
    packages = ["pushmetrics", "datadog", *(hook.target.partition(":")[0].partition(".")[0] for hook in hooks)]
    path = dict.fromkeys(directory for name in packages if (directory := _directory_of(name)))
    inherited = environ.get("PYTHONPATH", "")
    rest = [place for place in inherited.split(os.pathsep) if place != BOOTSTRAP] if inherited else []
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join([BOOTSTRAP, *rest]),
        "PUSHMETRICS_RUN_HOOKS": " ".join(f"{hook.module}={hook.target}" for hook in hooks),
        "PUSHMETRICS_RUN_PATH": os.pathsep.join(path),
    }


def become(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Replace this process by `command`; where the system can not do that, run it and return its exit status.

    Raises :class:`CommandError` when it is not found or can not be executed.
    """
    if not command[0]:
        raise CommandError("'': command not found", NOT_FOUND)
    try:
        if os.name == "nt":  # There a replaced process ends at once, as its parent sees it.
            return subprocess.run(command, env=environ, check=False).returncode  # noqa: S603 - the user's own command
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        # Python ignores these two signals, and what is ignored stays so over the exec.
        for name in ("SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.execvpe(command[0], list(command), environ)  # noqa: S606 - the user's own command
    except FileNotFoundError as error:
        raise CommandError(f"{command[0]}: command not found", NOT_FOUND) from error
    except OSError as error:
        raise CommandError(f"{command[0]}: can not be executed: {error.strerror}", NOT_EXECUTABLE) from error


def _directory_of(package: str) -> str | None:
    """Return the directory from which `package` is imported, None where there is none."""
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or [spec.origin or ""]) if spec is not None else []
    return str(Path(places[0]).resolve().parent) if places and places[0] else None
