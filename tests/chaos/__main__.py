"""Prints the table of docs/delivery.md as Markdown, and exits with status 1 if a count is not accounted for.

    PYTHONPATH=tests python -m chaos

It runs on Linux, where pushmetrics is installed, and takes ten minutes.
"""

from __future__ import annotations

import argparse
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from chaos.run import TRANSPORTS, Outcome, run, without_reporting

HEAD = """\
| seed | over | receivers | events | received | left in buffers | dropped by the kernel | longest gap (CPU) \
| without reporting | memory grew | log lines |
|---|---|---|---|---|---|---|---|---|---|---|"""


def row(outcome: Outcome, silent: dict[str, Any], *, lossless: bool) -> str:
    received, left = outcome.total(outcome.received.counts), outcome.total(outcome.left.counts)
    events = outcome.total(outcome.events)
    dropped = f"{events - received - left} in {outcome.dropped} datagrams" if outcome.dropped else "0"
    program = outcome.program
    cells = (
        str(outcome.seed),
        outcome.transport,
        f"{1 + outcome.acts.total()}, {'each drained' if lossless else 'some killed'}",
        f"{events}",
        f"{received}",
        f"{left}",
        dropped,
        *(f"{said['longest_gap_ms']} ({said['longest_cpu_ms']}) ms" for said in (program, silent)),
        f"{program['memory_growth_kib'] / 1024:.1f} MiB",
        f"{len(program['log'])}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--runs", type=int, default=10, help="seeds, each over all transports side by side (%(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=60, help="length of a run (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the first one (%(default)s)")
    options = parser.parse_args()

    faults = []
    print(f"{platform.python_implementation()} {platform.python_version()}, {options.seconds:g} s each.\n\n{HEAD}")
    with ThreadPoolExecutor(len(TRANSPORTS) + 1) as pool:
        for seed in range(options.seed, options.seed + options.runs):
            lossless = seed % 2 == 1
            running = [pool.submit(run, name, seed, options.seconds, lossless=lossless) for name in TRANSPORTS]
            silent = pool.submit(without_reporting, seed, options.seconds).result()
            for outcome in (future.result() for future in running):
                print(row(outcome, silent, lossless=lossless), flush=True)
                faults += [f"seed {seed}, {outcome.transport}: {fault}" for fault in outcome.faults()]
                faults += [f"seed {seed}, {outcome.transport}: {outcome.errors}"] if outcome.errors else []
    print("\n".join(["", *faults]) if faults else "\nEvery count is accounted for.")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
