"""The command line. Each command imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import logging
import math
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click

INSTALL = "pip install 'pushmetrics[cli]'"

# In click, \b keeps the lines of a paragraph apart.
EXAMPLES = """\b
Examples:
  pushmetrics demo          a service under load, and what its limits push
  pushmetrics demo --help   what can be set about it
"""

DEMO_EXAMPLES = """\b
Examples:
  pushmetrics demo --duration 60 --limit 8
  pushmetrics demo --admission-timeout 0.2 --level core
  DD_AGENT_HOST=10.0.0.7 pushmetrics demo --agent
"""


def main() -> None:
    """Run the command line; the entry point of the program ``pushmetrics``."""
    try:
        commands = command_line()
    except ModuleNotFoundError as error:
        sys.exit(f"Error: {_missing(error)}")
    commands(prog_name="pushmetrics")


def _missing(error: ModuleNotFoundError) -> str:
    """Return what to do about a module that is missing; raises the error again when it is one of our own."""
    if error.name is None or error.name.partition(".")[0] == "pushmetrics":
        raise error
    return f"the command line needs {error.name}, which is not installed; run: {INSTALL}"


def command_line() -> click.Group:
    """Return all commands; raises ModuleNotFoundError where click is not installed."""
    import click

    @click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXAMPLES)
    @click.version_option(package_name="pushmetrics", message="%(prog)s %(version)s")
    def pushmetrics() -> None:
        """See the state of every asyncio concurrency limit on a Datadog dashboard."""

    pushmetrics.add_command(_demo())
    return pushmetrics


def _demo() -> click.Command:
    import click

    from .catalog import LEVELS
    from .demo.settings import DemoSettings
    from .settings import MAX_FLUSH_INTERVAL, MIN_FLUSH_INTERVAL

    class Seconds(click.FloatRange):
        """A range that knows that nan, which is neither below it nor above it, is not in it."""

        name = "seconds"

        def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
            seconds = super().convert(value, param, ctx)
            if math.isnan(seconds):
                self.fail(f"{value} is not in the range {self.min}<=x<={self.max}.", param, ctx)
            return seconds

    default = DemoSettings()

    @click.command(context_settings={"show_default": True}, epilog=DEMO_EXAMPLES)
    @click.option(
        "--duration", type=Seconds(1, 3600), default=default.duration, help="Seconds for which it is under load."
    )
    @click.option(
        "--concurrency",
        type=click.IntRange(1, 100),
        metavar="N",
        default=default.concurrency,
        help="The rollout driver's limit: rollouts at a time.",
    )
    @click.option(
        "--limit",
        type=click.IntRange(0, 100),
        metavar="N",
        default=default.limit,
        help="The model server's limit: upstream requests at a time.",
    )
    @click.option(
        "--admission-timeout",
        type=Seconds(0, 3600),
        default=default.admission_timeout,
        help="Seconds after which the model server refuses a request that still waits.",
    )
    @click.option(
        "--flush-interval",
        type=Seconds(MIN_FLUSH_INTERVAL, MAX_FLUSH_INTERVAL),
        default=default.flush_interval,
        help="Seconds between two pushes.",
    )
    @click.option("--level", type=click.Choice(LEVELS), default=default.level, help="Which metrics a limit has.")
    @click.option("--agent", is_flag=True, help="Push to the Agent that the DD_* variables name.")
    def demo(**options: Any) -> None:
        """Put a little service under load, and show what its limits push.

        A rollout driver calls a model server over HTTP, then a verifier that runs in processes. Each has a limit of
        its own, and the load comes in waves, so that the limits fill, queue, time out and drain. They are pushed
        over UDP to a listener inside the demo, and what arrives there is shown.

        At the end, or at Ctrl-C, each counter that arrived is compared with what happened. The exit status is 0 if
        they agree and 1 if not. With --agent nobody here can see what arrives: what was pushed is shown, nothing is
        compared, and the exit status is 1 if the Agent did not take the last push.
        """
        from .errors import PushmetricsError

        if sys.stdout is None:
            raise click.ClickException("standard output is closed; there is nothing to write to")
        logging.basicConfig(format="%(name)s: %(message)s")
        try:
            from .demo.plain import PlainLines
            from .demo.program import run_demo

            outcome = run_demo(DemoSettings(**options), PlainLines(sys.stdout))
        except ModuleNotFoundError as error:
            raise click.ClickException(_missing(error)) from None
        except BrokenPipeError:
            raise  # Whoever read the output has gone; click ends the program quietly.
        except PushmetricsError as error:
            raise click.ClickException(str(error)) from None
        except OSError as error:
            needed = "the demo needs ports on 127.0.0.1, some open files for each rollout, and two processes"
            raise click.ClickException(f"{error}; {needed}") from None
        sys.exit(0 if outcome.good else 1)

    return demo
