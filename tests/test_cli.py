"""The command line: its help, its errors, and what it does not import."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner, Result

import pushmetrics
from pushmetrics import cli

HELP = """\
Usage: pushmetrics [OPTIONS] COMMAND [ARGS]...

  See the state of every asyncio concurrency limit on a Datadog dashboard.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
  dashboards  Templates of dashboards and monitors for Datadog.
  demo        Put a service under load, and show what its limits push.
  listen      Show what arrives here in the place of a Datadog Agent.

  Examples:
    pushmetrics demo              a service under load, and what its limits push
    pushmetrics listen            what your own service pushes to localhost:8125
    pushmetrics listen --help     where else to listen, and how to show it
    pushmetrics dashboards list   the templates for Datadog
"""

DEMO_HELP = """\
Usage: pushmetrics demo [OPTIONS]

  Put a little service under load, and show what its limits push.

  A rollout driver calls a model server over HTTP, then a verifier that runs in
  processes. Each has a limit of its own, and the load comes in waves, so that
  the limits fill, queue, time out and drain. They are pushed over UDP to a
  receiver inside the demo, which aggregates as an Agent does, and what arrives
  there is shown: as a table that is always up to date, or as plain lines where
  the output is no terminal.

  At the end, or at Ctrl-C, each counter that arrived is compared with what
  happened. The exit status is 0 if they agree and 1 if not. With --agent nobody
  here can see what arrives: what was pushed is shown, nothing is compared, and
  the exit status is 1 if the Agent did not take the last push.

Options:
  --duration SECONDS            Seconds for which it is under load.  [default:
                                20.0; 1<=x<=3600]
  --concurrency N               The rollout driver's limit: rollouts at a time.
                                [default: 16; 1<=x<=100]
  --limit N                     The model server's limit: upstream requests at a
                                time.  [default: 4; 0<=x<=100]
  --admission-timeout SECONDS   Seconds after which the model server refuses a
                                request that still waits.  [default: 1.0;
                                0<=x<=3600]
  --flush-interval SECONDS      Seconds between two pushes.  [default: 1.0;
                                0.1<=x<=3600.0]
  --level [core|standard|full]  Which metrics a limit has.  [default: standard]
  --agent                       Push to the Agent that the DD_* variables name.
  --plain                       Print plain lines, on a terminal as well.
  -h, --help                    Show this message and exit.

  Examples:
    pushmetrics demo --duration 60 --limit 8
    pushmetrics demo --admission-timeout 0.2 --level core
    DD_AGENT_HOST=10.0.0.7 pushmetrics demo --agent
"""

LISTEN_HELP = """\
Usage: pushmetrics listen [OPTIONS]

  Show what arrives here in the place of a Datadog Agent.

  Any DogStatsD traffic will do, over UDP and Unix sockets, several at once. It
  is aggregated as an Agent does, and shown as a table that is always up to
  date, or as plain lines where the output is no terminal: limits first, then
  any other metrics. A summary comes at the end. The exit status is 0 unless it
  could not listen.

  With --json there is one object a line for each series and bucket, when the
  bucket is over. Everything else goes to standard error. The keys:

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

Options:
  --udp HOST:PORT     Take datagrams here.  [default: localhost:8125, if nothing
                      else is given]
  --unix PATH         Take datagrams at a Unix socket, which is made.
  --unixstream PATH   Take streams at a Unix socket, which is made.
  --plain             Print plain lines, on a terminal as well.
  --json              Print JSON lines.
  --duration SECONDS  End after this time, if not earlier at Ctrl-C.
                      [0.1<=x<=86400]
  --bucket SECONDS    Width of a bucket.  [default: 1; with --json 10, as the
                      Agent's]  [0.1<=x<=3600]
  --allow-remote      Let --udp be an address that other hosts can reach.
  -h, --help          Show this message and exit.

  Examples:
    pushmetrics listen --udp localhost:8126 --unix /tmp/dsd.socket
    pushmetrics listen --plain --duration 60 > pushed.txt
    pushmetrics listen --json | jq 'select(.name | endswith(".queue_depth"))'
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.command_line(), arguments, prog_name="pushmetrics")


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_the_help_has_examples(option: str) -> None:
    result = run(option)

    assert result.exit_code == 0
    assert result.output == HELP


def test_the_help_of_the_demo_says_what_its_exit_status_means() -> None:
    assert run("demo", "--help").output == DEMO_HELP


def test_the_help_of_listen_documents_its_json_lines() -> None:
    assert run("listen", "--help").output == LISTEN_HELP


def test_without_a_command_it_shows_the_help() -> None:
    assert HELP in run().output


def test_the_version() -> None:
    assert run("--version").output == f"pushmetrics {pushmetrics.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--duration", "0"], "'--duration': 0.0 is not in the range 1<=x<=3600."),
        (["--duration", "nan"], "'--duration': nan is not in the range 1<=x<=3600."),
        (["--duration", "soon"], "'--duration': 'soon' is not a valid"),
        (["--concurrency", "0"], "'--concurrency': 0 is not in the range 1<=x<=100."),
        (["--concurrency", "2.5"], "'--concurrency': '2.5' is not a valid integer"),
        (["--limit", "-1"], "'--limit': -1 is not in the range 0<=x<=100."),
        (["--admission-timeout", "inf"], "'--admission-timeout': inf is not in the range 0<=x<=3600."),
        (["--admission-timeout", "-0.1"], "'--admission-timeout': -0.1 is not in the range 0<=x<=3600."),
        (["--flush-interval", "0.01"], "'--flush-interval': 0.01 is not in the range 0.1<=x<=3600.0."),
        (["--level", "all"], "'--level': 'all' is not one of 'core', 'standard', 'full'."),
        (["--speed", "2"], "No such option"),
        (["now"], "Got unexpected extra argument (now)"),
    ],
)
def test_a_bad_option_is_a_usage_error_with_what_is_allowed(arguments: list[str], complaint: str) -> None:
    result = run("demo", *arguments)

    assert result.exit_code == 2
    assert complaint in result.output
    assert "Try 'pushmetrics demo -" in result.output
    assert "Traceback" not in result.output


def test_the_help_is_light() -> None:
    code = """
        import sys
        from pushmetrics.cli import main
        try:
            main()
        except SystemExit as end:
            assert not end.code
        heavy = {"aiohttp", "datadog", "datadog_api_client", "rich", "resource"}
        print(*sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
    """
    commands = (["demo"], ["listen"], ["dashboards"], ["dashboards", "push"], ["dashboards", "show"])
    for arguments in (["--help"], ["--version"], *([*command, "--help"] for command in commands)):
        finished = run_python(code, *arguments)

        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    ("module", "argument"),
    [("click", "--help"), ("click", "demo"), ("aiohttp", "demo"), ("multidict", "demo"), ("rich", "listen")],
)
def test_a_missing_extra_is_one_line_that_says_what_to_install(module: str, argument: str) -> None:
    # None in sys.modules is what an import finds that is not to succeed.
    code = f"import sys; sys.modules[{module!r}] = None; from pushmetrics.cli import main; main()"

    finished = run_python(code, argument)

    assert finished.returncode == 1
    assert finished.stdout == ""
    assert finished.stderr == (
        f"Error: the command line needs {module}, which is not installed; run: pip install 'pushmetrics[cli]'\n"
    )


def test_datadogs_api_client_is_an_extra_of_its_own() -> None:
    code = "import sys; sys.modules['datadog_api_client'] = None; from pushmetrics.cli import main; main()"

    finished = run_python(code, "dashboards", "validate")

    assert finished.returncode == 1
    assert finished.stderr == (
        "Error: the command line needs datadog_api_client, which is not installed; "
        "run: pip install 'pushmetrics[cli,dashboards]'\n"
    )


@pytest.mark.parametrize("module", ["pushmetrics.catalog", "pushmetrics.demo.program"])
def test_a_part_of_ours_that_is_missing_is_no_matter_of_an_extra(module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from pushmetrics.cli import main; main()"

    finished = run_python(code, "demo")

    assert finished.returncode == 1
    assert f"ModuleNotFoundError: import of {module} halted" in finished.stderr
    assert "pip install" not in finished.stderr
