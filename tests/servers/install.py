"""Installs Etsy's statsd for the tests that need it: `python tests/servers/install.py`.

It goes to PUSHMETRICS_STATSD_DIR, or to .servers/statsd in the checkout. Without Node.js, or without its registry, this
says so in one line and succeeds: those tests are skipped. With PUSHMETRICS_TEST_STRICT=1 it fails instead.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "0.9.0"


def directory() -> Path:
    """Where statsd belongs, installed or not."""
    checkout = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("PUSHMETRICS_STATSD_DIR") or checkout / ".servers" / "statsd").absolute()


def program() -> Path | None:
    """The server's program; None if it is not installed in the version wanted."""
    package = directory() / "node_modules" / "statsd"
    try:
        version = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, KeyError):
        return None
    return package / "stats.js" if version == VERSION else None


def install() -> str | None:
    """Install statsd unless it is there; return the reason if it cannot be had."""
    absent = [name for name in ("node", "npm") if shutil.which(name) is None]
    if absent:
        return f"{' and '.join(absent)} not found on PATH; install Node.js"
    if program() is not None:
        return None
    target = directory()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # In one step at the end: another run may be installing it too, or may have been cut short.
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            fresh = Path(scratch, "statsd")
            fresh.mkdir()
            reason = _npm_install(fresh)
            if reason is None and program() is None:
                shutil.rmtree(target, ignore_errors=True)
                fresh.rename(target)
    except OSError as error:
        return None if program() else str(error)
    return reason


def _npm_install(place: Path) -> str | None:
    # No dependency of its own has to be built, and no script of a package has to run.
    options = ["--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress"]
    command = [shutil.which("npm") or "npm", "install", *options, "--prefix", str(place), f"statsd@{VERSION}"]
    try:
        npm = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    except subprocess.TimeoutExpired:
        return "npm did not finish within 180 seconds"
    if npm.returncode:
        errors = [line.strip() for line in npm.stderr.splitlines() if "error" in line.lower()]
        return f"npm failed: {'; '.join(errors[:2]) or 'it did not say why'}"
    return None


def main() -> int:
    """Install, say what happened, return the exit status."""
    reason = install()
    if reason is None:
        print(f"statsd {VERSION}: {program()}")  # noqa: T201 - this is a command
        return 0
    print(f"statsd {VERSION} not installed: {reason}", file=sys.stderr)  # noqa: T201 - this is a command
    return int(os.environ.get("PUSHMETRICS_TEST_STRICT", "") not in {"", "0"})


if __name__ == "__main__":
    sys.exit(main())
