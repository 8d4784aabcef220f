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
  doctor      Say whether what you push arrives, and if not, why.
  listen      Show what arrives here in the place of a Datadog Agent.
  run         Run a program as it is, and report its limits.

  Examples:
    pushmetrics demo              a service under load, and what its limits push
    pushmetrics listen            what your own service pushes to localhost:8125
    pushmetrics doctor            what is wrong with the settings or the Agent
    pushmetrics run -- COMMAND    the limits of a program that does not know of it
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

DOCTOR_HELP = """\
Usage: pushmetrics doctor [OPTIONS]

  Say whether what you push arrives, and if not, why.

  The variables are read as the library reads them, and each setting stands
  there with the variable that it came from, or "default". Then one gauge,
  pushmetrics.doctor, is sent to the Agent's address, and what became of it is
  told. For a port of this host and for a Unix socket the kernel says whether
  somebody listens; of another host nobody tells.

  A line may begin with "ok" for a check that was passed, "note" for something
  to know, or "wrong" for what keeps metrics from arriving as they should, with
  what to do about it. The exit status is 1 if anything is wrong, else 0.

Options:
  --module MODULE[:REGISTRY]  Import this module as Python would, and list the
                              limits that it makes: those in the default
                              registry, or in the Registry of this name.
  -h, --help                  Show this message and exit.

  Examples:
    pushmetrics doctor
    DD_DOGSTATSD_URL=unix:///var/run/datadog/dsd.socket pushmetrics doctor
    pushmetrics doctor --module my_service.app
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

RUN_HELP = """\
Usage: pushmetrics run [OPTIONS] COMMAND...

  Run a program as it is, and report its limits.

  It is loaded in the command and in every Python process that the command
  starts, and does nothing there until a module is imported for which there is
  an integration. The one that comes with it is for nemo_gym; other packages add
  theirs with entry points of the group "pushmetrics.integrations". The
  command's exit status, its output and the signals that it gets stay its own.

  The options set PUSHMETRICS_* variables for the command, such as
  PUSHMETRICS_SINK; one that is not given leaves its variable as it is. The exit
  status is 127 if the command is not found and 126 if it can not be executed.

Options:
  --sink URL                    Where to push.  [default: as the DD_* variables
                                say]
  --flush-interval SECONDS      Time between two pushes.  [0.1<=x<=3600.0]
  --namespace NAME              What the metrics' names begin with.
  --level [core|standard|full]  Which metrics a limit has.
  --tag KEY:VALUE               A tag of every metric; may be given again.
  --worker AUTO|NONE|N          What tells the processes of a host apart.
  -h, --help                    Show this message and exit.

  Examples:
    pushmetrics run -- gym env start --config model.yaml
    pushmetrics run --sink udp://10.0.0.7:8125 --tag team:search -- gym eval run
    DD_AGENT_HOST=10.0.0.7 PUSHMETRICS_LEVEL=core pushmetrics run -- gym eval run
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


def test_the_help_of_the_doctor_says_what_its_words_mean() -> None:
    assert run("doctor", "--help").output == DOCTOR_HELP


def test_the_help_of_listen_documents_its_json_lines() -> None:
    assert run("listen", "--help").output == LISTEN_HELP


def test_the_help_of_run_says_what_stays_the_commands_own() -> None:
    assert run("run", "--help").output == RUN_HELP


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
    for arguments in (
        ["--help"],
        ["dashboards", "--help"],
        ["dashboards", "push", "--help"],
        ["demo", "--help"],
        ["doctor", "--help"],
        ["listen", "--help"],
        ["run", "--help"],
        ["--version"],
    ):
        finished = run_python(code, *arguments)

        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    ("module", "argument"),
    [
        ("click", "--help"),
        ("click", "demo"),
        ("aiohttp", "demo"),
        ("multidict", "demo"),
        ("rich", "doctor"),
        ("rich", "listen"),
    ],
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
