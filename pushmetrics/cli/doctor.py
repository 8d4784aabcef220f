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
    help="Import this module as Python would, and list the limits that it makes: those in the default registry, or in "
    "the Registry of this name.",
)
def doctor(module: str | None) -> None:
    """Say whether what you push arrives, and if not, why.

    The variables are read as the library reads them, and each setting stands there with the variable that it came from,
    or "default". Then one gauge, pushmetrics.doctor, is sent to the Agent's address, and what became of it is told. For
    a port of this host and for a Unix socket the kernel says whether somebody listens; of another host nobody tells.

    A line may begin with "ok" for a check that was passed, "note" for something to know, or "wrong" for what keeps
    metrics from arriving as they should, with what to do about it. The exit status is 1 if anything is wrong, else 0.
    """

    def program() -> int:
        from ..doctor.examination import examine
        from ..doctor.report import write_report

        examination = examine(module)
        write_report(examination, sys.stdout)
        return 1 if examination.marked("wrong") else 0

    run(program)
