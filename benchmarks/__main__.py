"""Prints the speed table of the README as Markdown, and exits with status 1 if a bar is missed.

`tox -e bench` runs it; so does `python benchmarks` where pushmetrics is installed.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable

import flush
import imports
import semaphore
import slots
from table import Row, print_table

BENCHMARKS: dict[str, Callable[[bool], list[Row]]] = {
    "uncontended": semaphore.uncontended,
    "contended": semaphore.contended,
    "cancel": semaphore.cancelled,
    "timeout": semaphore.timed_out,
    "by-hand": semaphore.metered_by_hand,
    "flush": flush.flush,
    "slots": slots.slots,
    "import": imports.imports,
    "launcher": imports.launched,
}


def main() -> int:
    """Run what the command line asks for and return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=BENCHMARKS,
        help=f"run this one only, may be given again: {', '.join(BENCHMARKS)}",
    )
    parser.add_argument("--quick", action="store_true", help="small and short, to see that it runs; bars do not count")
    options = parser.parse_args()

    rows: list[Row] = []
    for name in options.only or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += BENCHMARKS[name](options.quick)

    print(
        f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}. "
        "The numbers are ratios of CPU time unless the row says otherwise: 0.5 is half the cost of what it is compared "
        "with. Both sides ran in turn in one process (imports in fresh ones), and each counts with the fastest of its "
        "rounds. Datagrams went to another process on the same machine, which read them.\n"
    )
    print_table(rows)
    if options.quick:
        print("\nA quick run: too short to judge by.")
        return 0
    return int(any(row.missed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
