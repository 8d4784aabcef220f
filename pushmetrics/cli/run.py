"""``pushmetrics run``: its options and its help."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from ..catalog import LEVELS
from ..errors import PushmetricsError
from ..settings import MAX_FLUSH_INTERVAL, MIN_FLUSH_INTERVAL, parse_address, reporter_settings
from ..tags import constant_tag
from .options import Seconds

EXAMPLES = """\b
Examples:
  pushmetrics run -- gym env start --config model.yaml
  pushmetrics run --sink udp://10.0.0.7:8125 --tag team:search -- gym eval run
  DD_AGENT_HOST=10.0.0.7 PUSHMETRICS_LEVEL=core pushmetrics run -- gym eval run
"""


class Checked(click.types.StringParamType):
    """Text that a check of the settings lets pass."""

    def __init__(self, name: str, check: Callable[[str], object]) -> None:
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text as it was given."""
        try:
            self._check(value)
        except PushmetricsError as error:
            self.fail(f"{error}.", param, ctx)
        return value


@click.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@click.option("--sink", type=Checked("url", parse_address), help="Where to push.  [default: as the DD_* variables say]")
@click.option("--flush-interval", type=Seconds(MIN_FLUSH_INTERVAL, MAX_FLUSH_INTERVAL), help="Time between two pushes.")
@click.option(
    "--namespace",
    type=Checked("name", lambda value: reporter_settings(namespace=value)),
    help="What the metrics' names begin with.",
)
@click.option("--level", type=click.Choice(LEVELS), help="Which metrics a limit has.")
@click.option(
    "--tag",
    "constant_tags",
    type=Checked("key:value", constant_tag),
    multiple=True,
    help="A tag of every metric; may be given again.",
)
@click.option(
    "--worker",
    type=Checked("auto|none|n", lambda value: reporter_settings(worker=value)),
    help="What tells the processes of a host apart.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run(context: click.Context, /, command: tuple[str, ...], constant_tags: tuple[str, ...], **options: Any) -> None:
    """Run a program as it is, and report its limits.

    It is loaded in the command and in every Python process that the command starts, and does nothing there until a
    module is imported for which there is an integration. The one that comes with it is for nemo_gym; other packages
    add theirs with entry points of the group "pushmetrics.integrations". The command's exit status, its output and
    the signals that it gets stay its own.

    The options set PUSHMETRICS_* variables for the command, such as PUSHMETRICS_SINK; one that is not given leaves its
    variable as it is. The exit status is 127 if the command is not found and 126 if it can not be executed.
    """
    from ..integrations import all_hooks
    from ..launcher import CommandError, become, launch_environment

    given = {name: str(value) for name, value in options.items() if value is not None}
    if constant_tags:
        given["constant_tags"] = ",".join(constant_tag(tag) for tag in constant_tags)
    variables = {f"PUSHMETRICS_{name.upper()}": value for name, value in given.items()}
    try:
        context.exit(become(command, launch_environment(os.environ | variables, all_hooks())))
    except CommandError as error:
        click.echo(f"Error: {error}", err=True)
        context.exit(error.status)
