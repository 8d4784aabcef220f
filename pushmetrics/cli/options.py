"""Types of options that click does not have, and options that several commands have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from ..redaction import shown

Command = Callable[..., Any]


class Seconds(click.FloatRange):
    """A range that knows that nan, which is neither below it nor above it, is not in it."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is not in the range {self.min}<=x<={self.max}.", param, ctx)
        return seconds


class HostPort(click.types.StringParamType):
    """``host:port`` as a pair."""

    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the host and the port."""
        from ..errors import PushmetricsError
        from ..listen import parse_host_port

        try:
            return parse_host_port(value)
        except PushmetricsError as error:
            self.fail(str(error), param, ctx)


class Pair(click.types.StringParamType):
    """``name=value`` as a pair."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name and the value."""
        name, equals, text = str(value).partition("=")
        if not (name and equals and text):
            self.fail(f"expected NAME=VALUE, such as env=prod, got {shown(value)}", param, ctx)
        return name, text


allow_remote = click.option("--allow-remote", is_flag=True, help="Let --udp be an address that other hosts can reach.")


def sockets(default: str = "") -> Callable[[Command], Command]:
    """Add the options that say where to listen; `default` is what the help says of none."""

    def add(command: Command) -> Command:
        for option in (
            click.option(
                "--unixstream", metavar="PATH", multiple=True, help="Take streams at a Unix socket, which is made."
            ),
            click.option(
                "--unix", metavar="PATH", multiple=True, help="Take datagrams at a Unix socket, which is made."
            ),
            click.option("--udp", type=HostPort(), multiple=True, help=f"Take datagrams here.{default}"),
        ):
            command = option(command)
        return command

    return add
