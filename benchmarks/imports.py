"""The cost of `import pushmetrics`, and of `pushmetrics run` in a process that uses none of it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from functools import partial

from table import Row, fastest

_PROGRAM = "import time; began = time.process_time(); import {}; print(time.process_time() - began)"


def imports(quick: bool) -> list[Row]:
    """Each import in a process of its own, from compiled files that an earlier one has left."""
    with tempfile.TemporaryDirectory() as compiled:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled  # The installed files may be read-only.
        seconds = partial(_import_seconds, environment)
        fastest(1, partial(seconds, "pushmetrics"), partial(seconds, "asyncio"))  # Compiles.
        mine, theirs = fastest(3 if quick else 50, partial(seconds, "pushmetrics"), partial(seconds, "asyncio"))
    return [Row("`import pushmetrics`", "`import asyncio`", mine / theirs, 1.3)]


def launched(quick: bool) -> list[Row]:
    """How much more CPU time an interpreter takes to do nothing, in the environment that `pushmetrics run` makes."""
    from pushmetrics.integrations import HOOKS
    from pushmetrics.launcher import launch_environment

    environ = dict(os.environ)
    with_us = partial(_interpreter_seconds, launch_environment(environ, HOOKS))
    without = partial(_interpreter_seconds, environ)
    fastest(1, with_us, without)  # Compiles.
    mine, theirs = fastest(5 if quick else 50, with_us, without)
    milliseconds = max(0.0, mine - theirs) * 1000
    return [Row("start-up of a process under `pushmetrics run` that uses none of it", "", milliseconds, 15, " ms")]


def _interpreter_seconds(environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "pass"], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _import_seconds(environment: dict[str, str], module: str) -> float:
    program = [sys.executable, "-c", _PROGRAM.format(module)]
    return float(subprocess.run(program, env=environment, check=True, capture_output=True, text=True).stdout)
