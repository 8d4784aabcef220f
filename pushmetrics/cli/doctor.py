"""``pushmetrics doctor``: its options and its help."""

from __future__ import annotations

import sys

import click

from .shared import run

EXAMPLES = """\b
Examples:
  pushmetrics doctor
  DD_DOGSTATSD_URL=unix:///var/run/datadog/dsd.socket pushmetrics doctor
  pushmetrics doctor --module my_service.app
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--module",
    metavar="MODULE[:REGISTRY]",
    help="Import this module, list the limits that it makes then, and what they cost. They are those of the default "
    "registry, or of the Registry with this name.",
)
def doctor(module: str | None) -> None:
    """Say whether what a program pushes from here arrives, and if not, why.

    The variables are read as the library reads them: each setting stands there with the variable that it came from, or
    "default". One gauge, pushmetrics.doctor, is sent to the Agent's address, and whether somebody took it is told, and
    how one knows: for a port of this host and for a Unix socket the kernel says, for UDP to another host nobody does.

    Each line may have a mark: "ok" for a check that was passed, "note" for something to know, and "wrong" for what
    keeps metrics from arriving, with what to do about it. The exit status is 1 if anything is wrong, and 0 if not.
    """

    def program() -> int:
        from ..doctor.examination import examine
        from ..doctor.report import write_report

        examination = examine(module)
        write_report(examination, sys.stdout)
        return 1 if examination.marked("wrong") else 0

    run(program)
