"""``pushmetrics dashboards``: its commands, their options and their help."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..catalog import LEVELS
from ..demo.settings import BUCKET_SECONDS as DEMO_BUCKET_SECONDS
from ..errors import InvalidValueError
from ..series import BUCKET_SECONDS
from ..settings import DEFAULT_LEVEL, DEFAULT_NAMESPACE
from .options import Command, Pair, Seconds, allow_remote, sockets
from .shared import harmless, run

if TYPE_CHECKING:
    from ..dashboards import Template

EXAMPLES = """\b
Examples:
  pushmetrics dashboards show concurrency_limits --demo
  pushmetrics dashboards render concurrency_limits > dashboard.json
  pushmetrics dashboards push --dry-run
"""

PUSH_EXAMPLES = """\b
Examples:
  pushmetrics dashboards push --dry-run
  DD_SITE=datadoghq.eu pushmetrics dashboards push --notify @slack-oncall
  pushmetrics dashboards push concurrency_limits --namespace myapp.concurrency
"""

SHOW_EXAMPLES = """\b
Examples:
  pushmetrics dashboards show concurrency_limits --demo
  pushmetrics dashboards show limit_detail --demo --pick limit_name=rollouts
  pushmetrics dashboards show concurrency_limits --udp localhost:8125
"""

DEMO_SECONDS = 60.0


@click.group(epilog=EXAMPLES)
def dashboards() -> None:
    """Templates of dashboards and monitors for Datadog."""


def _rendering(command: Command) -> Command:
    """Add the options that say for which metrics the templates are."""
    command = click.option(
        "--level",
        type=click.Choice(LEVELS),
        envvar="PUSHMETRICS_LEVEL",
        default=DEFAULT_LEVEL,
        show_default=True,
        help="The Reporter's level: what it does not send is left out.",
    )(command)
    return click.option(
        "--namespace",
        envvar="PUSHMETRICS_NAMESPACE",
        default=DEFAULT_NAMESPACE,
        show_default=True,
        help="The Reporter's namespace.",
    )(command)


_notify = click.option(
    "--notify", metavar="HANDLE", multiple=True, help="Whom each monitor notifies, such as @slack-oncall."
)
_templates = click.argument("templates", nargs=-1, metavar="[TEMPLATE]...")


def _rendered(names: tuple[str, ...], namespace: str, level: str, notify: tuple[str, ...] = ()) -> list[Template]:
    """Return the templates of these names, all if there are none; a file is taken as it is."""
    from ..dashboards import load, load_all, load_file
    from ..dashboards.render import render

    files = [load_file(Path(name)) for name in names if name.endswith(".json")]
    chosen = [load(name) for name in names if not name.endswith(".json")] if names else load_all()
    rendered = render(chosen, namespace=namespace, level=level, notify=notify)
    if not rendered and not files:
        raise InvalidValueError(f"at the level {level} nothing of {', '.join(names)} is sent; choose another level")
    return rendered + files


@dashboards.command("list")
def list_() -> None:
    """Say which templates there are."""

    def program() -> int:
        from ..dashboards import load_all

        templates = load_all()
        width = max(len(template.name) for template in templates)
        for template in templates:
            click.echo(f"{template.name:{width}}  {template.kind:9}  {template.title}")
        return 0

    run(program)


@dashboards.command(short_help="Print a template for your namespace and level.")
@_templates
@_rendering
@_notify
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Write files into this folder.")
def render(templates: tuple[str, ...], output: Path | None, **options: Any) -> None:
    """Print a template for your namespace and level, or write all of them.

    What is printed can be imported at Datadog by hand. Without a TEMPLATE all are written, monitors into a folder of
    their own, which needs --output.
    """

    def program() -> int:
        rendered = _rendered(templates, **options)
        if output is None and len(rendered) != 1:
            raise click.UsageError(f"{len(rendered)} templates can not be printed at once; say --output FOLDER.")
        for template in rendered:
            text = json.dumps(template.body, indent=2, ensure_ascii=False)
            if output is None:
                click.echo(text)
                continue
            path = (output / "monitors" if template.kind == "monitor" else output) / f"{template.name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
            click.echo(f"wrote {path}")
        return 0

    run(program)


@dashboards.command(short_help="Check templates against Datadog's schema and the catalogue.")
@_templates
@_rendering
def validate(templates: tuple[str, ...], **options: Any) -> None:
    """Check templates against Datadog's own schema and the catalogue of metrics.

    A TEMPLATE that ends in .json is a file of your own. The exit status is 1 if something is wrong. It needs the extra
    "dashboards", Datadog's API client.
    """

    def program() -> int:
        from ..dashboards import check, schema
        from ..tags import metric_namespace

        namespace = metric_namespace(options["namespace"])
        wrong = 0
        for template in _rendered(templates, **options):
            problems = [*check.problems(template, namespace), *schema.problems(template)]
            wrong += bool(problems)
            for problem in problems:
                click.echo(harmless(problem), err=True)
            if not problems:
                click.echo(harmless(f"{template.name}: good"))
        return 1 if wrong else 0

    run(program)


@dashboards.command(epilog=PUSH_EXAMPLES)
@_templates
@_rendering
@_notify
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
def push(templates: tuple[str, ...], dry_run: bool, **options: Any) -> None:
    """Create templates at Datadog, or update what was pushed before.

    All of them, if no TEMPLATE is given; one that ends in .json is a file of your own, such as a rendered one with
    other thresholds. The account is that of DD_API_KEY, DD_APP_KEY and DD_SITE (datadoghq.com if not set).

    What is there is known by its title and a mark, "managed_by:pushmetrics" for a monitor and a sentence in the
    description of a dashboard; anything else is left alone. A second push changes nothing.
    """

    def program() -> int:
        from ..dashboards.account import account
        from ..dashboards.api import DatadogApi
        from ..dashboards.push import apply, plan

        rendered = _rendered(templates, **options)
        api = DatadogApi(account())
        for change in plan(api, rendered):
            what = harmless(f"{change.template.kind} {change.template.title}")
            if change.action == "keep":
                click.echo(f"unchanged  {what}")
            elif dry_run:
                click.echo(f"would {change.action}  {what}")
                click.echo(harmless(change.diff))
            else:
                apply(api, change)
                click.echo(f"{change.action}d    {what}")
        return 0

    run(program, "it talks to Datadog's API")


@dashboards.command(short_help="Show a dashboard in the terminal.", epilog=SHOW_EXAMPLES)
@click.argument("template")
@_rendering
@click.option("--demo", is_flag=True, help="Run the service of `pushmetrics demo` underneath.")
@sockets()
@click.option("--pick", type=Pair(), multiple=True, help="The value of a template variable, such as env=prod.")
@click.option("--minutes", type=Seconds(1, 60), metavar="N", help="How far back graphs go.  [default: 15; demo: 1]")
@click.option("--bucket", type=Seconds(0.1, 3600), help="Width of a bucket.  [default: 10, as the Agent's; demo: 1]")
@click.option("--duration", type=Seconds(1, 3600), help="End after this time.  [default: Ctrl-C; demo: 60]")
@allow_remote
def show(
    template: str, demo: bool, pick: tuple[tuple[str, str], ...], namespace: str, level: str, **options: Any
) -> None:
    """Show a dashboard in the terminal, with the values that Datadog would show.

    Its queries are evaluated over what is received here in the place of an Agent. A picture that is longer than the
    terminal comes in pages, one after the other. Where the output is no terminal, all of it is printed at the end.
    """
    sockets = bool(options["udp"] or options["unix"] or options["unixstream"])
    if demo == sockets:
        raise click.UsageError("say either --demo, or where to listen with --udp, --unix or --unixstream.")
    if demo and options["bucket"] not in (None, DEMO_BUCKET_SECONDS):
        raise click.UsageError("the demo has buckets of 1 s; --bucket is for --udp, --unix and --unixstream.")

    def program() -> int:
        from ..demo.settings import DemoSettings
        from ..listen import ListenSettings
        from ..show import ShowSettings, run_show, run_show_of_demo

        rendered = _rendered((template,), namespace, level)
        minutes = options.pop("minutes") or (1 if demo else 15)
        settings = ShowSettings(template=rendered[0], seconds=minutes * 60, picked=dict(pick))
        if demo:
            duration = options["duration"] or DEMO_SECONDS
            wanted = DemoSettings(duration=duration, level=level, namespace=namespace)
            return 0 if run_show_of_demo(settings, wanted, sys.stdout) else 1
        options["bucket"] = options["bucket"] or BUCKET_SECONDS
        run_show(settings, ListenSettings(**options), sys.stdout)
        return 0

    run(program)
