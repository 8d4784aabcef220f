"""The command line. Each command imports what it needs when it runs, so that ``--help`` is quick.

One module for each command; what they share is in ``shared``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .shared import missing

if TYPE_CHECKING:
    import click

# In click, \b keeps the lines of a paragraph apart.
EXAMPLES = """\b
Examples:
  pushmetrics demo              a service under load, and what its limits push
  pushmetrics listen            what your own service pushes to localhost:8125
  pushmetrics doctor            what is wrong with the settings or the Agent
  pushmetrics run -- COMMAND    the limits of a program that does not know of it
  pushmetrics dashboards list   the templates for Datadog
"""


def main() -> None:
    """Run the command line; the entry point of the program ``pushmetrics``."""
    try:
        commands = command_line()
    except ModuleNotFoundError as error:
        sys.exit(f"Error: {missing(error)}")
    commands(prog_name="pushmetrics")


def command_line() -> click.Group:
    """Return all commands; raises ModuleNotFoundError where click is not installed."""
    import click

    from .dashboards import dashboards
    from .demo import demo
    from .doctor import doctor
    from .listen import listen
    from .run import run

    @click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXAMPLES)
    @click.version_option(package_name="pushmetrics", message="%(prog)s %(version)s")
    def pushmetrics() -> None:
        """See the state of every asyncio concurrency limit on a Datadog dashboard."""

    pushmetrics.add_command(dashboards)
    pushmetrics.add_command(demo)
    pushmetrics.add_command(doctor)
    pushmetrics.add_command(listen)
    pushmetrics.add_command(run)
    return pushmetrics
