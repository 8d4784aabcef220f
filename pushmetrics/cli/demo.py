"""``pushmetrics demo``: its options and its help."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..catalog import LEVELS
from ..demo.settings import DemoSettings
from ..settings import MAX_FLUSH_INTERVAL, MIN_FLUSH_INTERVAL
from .options import Seconds
from .shared import run

EXAMPLES = """\b
Examples:
  pushmetrics demo --duration 60 --limit 8
  pushmetrics demo --admission-timeout 0.2 --level core
  DD_AGENT_HOST=10.0.0.7 pushmetrics demo --agent
"""

NEEDED = "the demo needs ports on 127.0.0.1, some open files for each rollout, and two processes"

DEFAULT = DemoSettings()


@click.command(
    short_help="Put a service under load, and show what its limits push.",
    context_settings={"show_default": True},
    epilog=EXAMPLES,
)
@click.option("--duration", type=Seconds(1, 3600), default=DEFAULT.duration, help="Seconds for which it is under load.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 100),
    metavar="N",
    default=DEFAULT.concurrency,
    help="The rollout driver's limit: rollouts at a time.",
)
@click.option(
    "--limit",
    type=click.IntRange(0, 100),
    metavar="N",
    default=DEFAULT.limit,
    help="The model server's limit: upstream requests at a time.",
)
@click.option(
    "--admission-timeout",
    type=Seconds(0, 3600),
    default=DEFAULT.admission_timeout,
    help="Seconds after which the model server refuses a request that still waits.",
)
@click.option(
    "--flush-interval",
    type=Seconds(MIN_FLUSH_INTERVAL, MAX_FLUSH_INTERVAL),
    default=DEFAULT.flush_interval,
    help="Seconds between two pushes.",
)
@click.option("--level", type=click.Choice(LEVELS), default=DEFAULT.level, help="Which metrics a limit has.")
@click.option("--agent", is_flag=True, help="Push to the Agent that the DD_* variables name.")
@click.option("--plain", is_flag=True, help="Print plain lines, on a terminal as well.")
def demo(plain: bool, **options: Any) -> None:
    """Put a little service under load, and show what its limits push.

    A rollout driver calls a model server over HTTP, then a verifier that runs in processes. Each has a limit of its
    own, and the load comes in waves, so that the limits fill, queue, time out and drain. They are pushed over UDP to a
    receiver inside the demo, which aggregates as an Agent does, and what arrives there is shown: as a table that is
    always up to date, or as plain lines where the output is no terminal.

    At the end, or at Ctrl-C, each counter that arrived is compared with what happened. The exit status is 0 if they
    agree and 1 if not. With --agent nobody here can see what arrives: what was pushed is shown, nothing is compared,
    and the exit status is 1 if the Agent did not take the last push.
    """

    def program() -> int:
        from ..demo.program import run_demo
        from ..demo.table import view_for

        return 0 if run_demo(DemoSettings(**options), view_for(sys.stdout, plain=plain)).good else 1

    run(program, NEEDED)
