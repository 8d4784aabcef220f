"""``pushmetrics listen``: its options and its help."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..series import BUCKET_SECONDS
from .options import Seconds, allow_remote, sockets
from .shared import run

EXAMPLES = """\b
Examples:
  pushmetrics listen --udp localhost:8126 --unix /tmp/dsd.socket
  pushmetrics listen --plain --duration 60 > pushed.txt
  pushmetrics listen --json | jq 'select(.name | endswith(".queue_depth"))'
"""

LIVE_BUCKET = 1.0


@click.command(epilog=EXAMPLES)
@sockets("  [default: localhost:8125, if nothing else is given]")
@click.option("--plain", is_flag=True, help="Print plain lines, on a terminal as well.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@click.option("--duration", type=Seconds(0.1, 86400), help="End after this time, if not earlier at Ctrl-C.")
@click.option(
    "--bucket",
    type=Seconds(0.1, 3600),
    help=f"Width of a bucket.  [default: {LIVE_BUCKET:g}; with --json {BUCKET_SECONDS}, as the Agent's]",
)
@allow_remote
def listen(plain: bool, as_json: bool, bucket: float | None, **options: Any) -> None:
    """Show what arrives here in the place of a Datadog Agent.

    Any DogStatsD traffic will do, over UDP and Unix sockets, several at once. It is aggregated as an Agent does, and
    shown as a table that is always up to date, or as plain lines where the output is no terminal: limits first, then
    any other metrics. A summary comes at the end. The exit status is 0 unless it could not listen.

    With --json there is one object a line for each series and bucket, when the bucket is over. Everything else goes to
    standard error. The keys:

    \b
      timestamp  start of the bucket in seconds since 1970
      interval   width of the bucket in seconds
      name
      kind       gauge, count, set, distribution or histogram
      tags       a sorted list
      value      what Datadog stores: the last of a gauge, the events per second
                 of a count, the members of a set, the average of the others
      sum        of a count the events, of a distribution or histogram the sum
      count, min, max, avg, p50, p90, p95, p99
                 of a distribution or histogram
      complete   false at the end, for a bucket that was cut short
    """  # noqa: D301 - click keeps lines apart behind the character itself
    if plain and as_json:
        raise click.UsageError("--plain and --json exclude each other; choose one.")
    form = "json" if as_json else "plain" if plain else "table"
    options["bucket"] = bucket or (BUCKET_SECONDS if as_json else LIVE_BUCKET)

    def program() -> int:
        from ..listen import ListenSettings, run_listen
        from ..live.output import output_for

        run_listen(ListenSettings(**options), output_for(form, sys.stdout, sys.stderr))
        return 0

    run(program)
