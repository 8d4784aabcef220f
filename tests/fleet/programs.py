"""Starts nemo-gym's programs under `pushmetrics run`, and ends everything that they start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import yaml

START_SECONDS = 240
STOP_SECONDS = 20
RUN_SECONDS = 240

MARK = "PUSHMETRICS_TEST_FLEET"
"""A variable by which everything that was started is found again, whatever its group, session or parent is."""

BIN = Path(sys.executable).parent


def free_port() -> int:
    """A port of this host that nobody uses."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Gym:
    """nemo-gym's command line with some configuration, under `pushmetrics run`; in a `with` statement.

    Args:
        folder: Where it works and writes.
        sink: Where it pushes, each 0.1 s.
        configs: Paths of nemo-gym's own configuration files.
        more: What is merged over them.
    """

    def __init__(self, folder: Path, sink: str, *configs: str, more: dict[str, Any]) -> None:
        self.folder = folder
        self._sink = sink
        self._mark = uuid.uuid4().hex
        self._servers: subprocess.Popen[bytes] | None = None
        self._log = folder / "servers.log"
        self._configs = [*configs, str(folder / "more.yaml")]
        environments = folder / "environments"
        (folder / "more.yaml").write_text(
            yaml.safe_dump(
                {
                    "head_server": {"host": "127.0.0.1", "port": free_port()},
                    "uv_venv_dir": str(environments),
                    "skip_venv_if_present": True,
                    **more,
                }
            ),
            encoding="utf-8",
        )
        site = Path(psutil.__file__).parents[1]
        for directory in site.glob("*_*/*/app.py"):  # All of its servers run in this environment.
            place = environments / directory.parent.relative_to(site) / ".venv"
            place.parent.mkdir(parents=True)
            place.symlink_to(sys.prefix)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_all()

    def start(self) -> Self:
        """Start the servers, and return when all of them are ready."""
        # In the background of a shell SIGINT is ignored, and would be by all that is started here.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._servers = self._begin(self._log, "env", "start")
        end = time.monotonic() + START_SECONDS
        while "servers ready! Polling" not in self.printed():
            if self._servers.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the servers did not start:\n{self.printed()[-6000:]}")
            time.sleep(0.1)
        return self

    def stop_server(self, name: str) -> None:
        """Stop one server, and wait until it has ended. It has the time that it needs; nemo-gym gives it a second."""
        (server,) = (process for process in self._all() if process.environ().get("NEMO_GYM_CONFIG_PATH") == name)
        server.send_signal(signal.SIGINT)
        end = time.monotonic() + STOP_SECONDS
        with suppress(psutil.NoSuchProcess):
            while server.status() != psutil.STATUS_ZOMBIE:  # Its parent looks after it once a minute.
                assert time.monotonic() < end, f"{name} did not stop:\n{self.printed()[-6000:]}"
                time.sleep(0.05)

    def end_all(self) -> None:
        """Kill what is left of everything that was started, and wait until it is gone."""
        for _ in range(5):  # One of them may have started another one meanwhile.
            left = list(self._all())
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=10)
        if self._servers is not None:
            self._servers.wait(10)

    def printed(self) -> str:
        """What the servers have printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def run(self, *arguments: str) -> None:
        """Run a command to its end; what it printed is shown if it fails."""
        printed = self.folder / "command.log"
        status = self._begin(printed, *arguments).wait(RUN_SECONDS)
        assert status == 0, printed.read_text(encoding="utf-8", errors="replace")[-6000:]

    def _begin(self, printed: Path, *arguments: str) -> subprocess.Popen[bytes]:
        # Into a file: a command may leave servers behind, and they would hold a pipe open.
        with printed.open("wb") as log:
            return subprocess.Popen(
                self._command(*arguments),
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _command(self, *arguments: str) -> list[str]:
        ours = [str(BIN / "pushmetrics"), "run", "--sink", self._sink, "--flush-interval", "0.1", "--"]
        configs = [word for config in self._configs for word in ("--config", config)]
        return [*ours, str(BIN / "gym"), *arguments[:2], *configs, *arguments[2:]]

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            MARK: self._mark,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "RAY_USAGE_STATS_ENABLED": "0",
            "XDG_RUNTIME_DIR": str(self.folder),  # Where workers are told apart: not from those of another run.
        }

    def _all(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self._mark:
                    yield process
