"""The cost of `import pushmetrics`."""

from __future__ import annotations

import os
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


def _import_seconds(environment: dict[str, str], module: str) -> float:
    program = [sys.executable, "-c", _PROGRAM.format(module)]
    return float(subprocess.run(program, env=environment, check=True, capture_output=True, text=True).stdout)
