"""`pushmetrics run` around programs that know nothing of it: they behave as they do without."""

from __future__ import annotations

import ast
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import textwrap
import time
import urllib.request
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pushmetrics import launcher

PROGRAM = str(Path(sysconfig.get_path("scripts"), "pushmetrics"))
RUN = (PROGRAM, "run", "--")

pytestmark = pytest.mark.skipif(os.name == "nt", reason="what is compared are exit statuses and signals of POSIX")


def start(command: Sequence[str], **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd="/",  # Where nothing is that could be imported.
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def outcome(command: Sequence[str], **environ: str) -> tuple[int, str, str]:
    """The exit status of a command, and what it wrote to its output and to its error output."""
    with start(command, **environ) as process:
        output, errors = process.communicate(timeout=30)
    return process.returncode, output, errors


def same(command: Sequence[str], **environ: str) -> tuple[int, str, str]:
    """What a command does without and with us, which has to be the same."""
    without = outcome(command, **environ)

    assert outcome([*RUN, *command], **environ) == without
    return without


def python(code: str) -> list[str]:
    return [sys.executable, "-P", "-c", textwrap.dedent(code)]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter whose environment holds nothing, as a server's may."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return str(folder / "bin" / "python")


class TestBehaviour:
    @pytest.mark.parametrize("status", [0, 3, 255])
    def test_the_exit_status_is_the_programs(self, status: int) -> None:
        assert same(python(f"raise SystemExit({status})"))[0] == status

    def test_a_failing_program_fails_as_it_does(self) -> None:
        status, _, errors = same(python("print('so far'); 1 / 0"))

        assert status == 1
        assert "ZeroDivisionError" in errors

    def test_a_shell_is_left_alone(self) -> None:
        assert same(["sh", "-c", "echo out; echo err >&2; exit 7"]) == (7, "out\n", "err\n")

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
    def test_no_signal_is_ignored_that_was_not(self) -> None:
        """Python ignores SIGPIPE, and a process keeps what was ignored before its exec."""
        assert same(["grep", "SigIgn", "/proc/self/status"])[0] == 0

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_a_program_that_is_killed_dies_of_the_signal(self, number: signal.Signals) -> None:
        program = python("import time; print('up', flush=True); time.sleep(30)")
        for command in (program, [*RUN, *program]):
            with start(command) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "up\n"
                process.send_signal(number)
                output, errors = process.communicate(timeout=30)

            assert (process.returncode, output, errors) == (-number, "", "")

    def test_a_signal_reaches_the_programs_own_handler(self) -> None:
        program = python("""
            import signal, sys, time
            signal.signal(signal.SIGINT, lambda *_: sys.exit(5))
            print("up", flush=True)
            time.sleep(30)
        """)
        with start([*RUN, *program]) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)

        assert process.returncode == 5

    def test_arguments_arrive_as_they_are(self) -> None:
        arguments = ["--sink", "a b", "--", "-h", ""]

        status, output, _ = same([*python("import sys; print(sys.argv[1:])"), *arguments])

        assert status == 0
        assert output == f"{arguments}\n"

    @pytest.mark.parametrize("inherited", ["", "/some/place", ":/some/place", "/some/place:/another:"])
    def test_the_path_and_the_modules_are_what_they_are_without(self, bare_python: str, inherited: str) -> None:
        code = "import sys; print(sys.path); print(*sorted(sys.modules))"

        path, modules = outcome([bare_python, "-c", code], PYTHONPATH=inherited)[1].splitlines()
        path_with, modules_with = outcome([*RUN, bare_python, "-c", code], PYTHONPATH=inherited)[1].splitlines()

        assert path_with == path
        assert set(modules_with.split()) - set(modules.split()) == {"pushmetrics_hooks", "__future__"}

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_multiprocessing(self, method: str, tmp_path: Path) -> None:
        program = tmp_path / "program.py"
        program.write_text(
            textwrap.dedent(f"""
                import multiprocessing

                def square(number):
                    return number * number

                if __name__ == "__main__":
                    with multiprocessing.get_context({method!r}).Pool(2) as pool:
                        print(pool.map(square, range(4)))
                    child = multiprocessing.get_context({method!r}).Process(target=exit, args=(4,))
                    child.start()
                    child.join()
                    print(child.exitcode)
            """)
        )

        assert same([sys.executable, str(program)]) == (0, "[0, 1, 4, 9]\n4\n", "")


class TestSitecustomize:
    """A program may have one of its own, which ours stands before on the path."""

    SHOW = "import sys; import sitecustomize; print(sitecustomize.__file__, sys.flags.safe_path, sitecustomize.told)"

    def test_the_programs_own_one_runs_and_is_what_an_import_finds(self, tmp_path: Path) -> None:
        own = tmp_path / "sitecustomize.py"
        own.write_text("told = __name__")

        status, output, _ = same(python(self.SHOW), PYTHONPATH=str(tmp_path))

        assert status == 0
        assert output == f"{own} True sitecustomize\n"

    def test_one_that_fails_is_reported_as_without(self, tmp_path: Path) -> None:
        (tmp_path / "sitecustomize.py").write_text("import nothing_of_that_name")

        command = python("print('runs on')")

        without = outcome(command, PYTHONPATH=str(tmp_path))

        assert "nothing_of_that_name" in without[2]
        # Once in the command, as without, and once in `pushmetrics`, which is a Python program, too.
        assert outcome([*RUN, *command], PYTHONPATH=str(tmp_path)) == (0, "runs on\n", without[2] * 2)

    def test_where_there_is_none_there_is_none(self, bare_python: str) -> None:
        status, _, errors = same([bare_python, "-c", "import sitecustomize"])

        assert status == 1
        assert "No module named 'sitecustomize'" in errors

    def test_an_old_interpreter_can_read_ours(self) -> None:
        source = Path(launcher.BOOTSTRAP, "sitecustomize.py").read_text(encoding="utf-8")

        assert ast.parse(source, feature_version=(3, 4))
        assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.JoinedStr, ast.AnnAssign))]


class TestCommands:
    def test_one_that_is_not_found_is_127(self) -> None:
        status, output, errors = outcome([*RUN, "no-such-command", "--help"])

        assert (status, output, errors) == (127, "", "Error: no-such-command: command not found\n")

    def test_one_that_can_not_be_executed_is_126(self, tmp_path: Path) -> None:
        text = tmp_path / "text"
        text.write_text("text")

        status, _, errors = outcome([*RUN, str(text)])

        assert (status, errors) == (126, f"Error: {text}: can not be executed: Permission denied\n")

    def test_options_are_variables_of_the_command(self) -> None:
        options = ["--sink", "udp://localhost:1", "--flush-interval", "0.5", "--namespace", "mine", "--level", "core"]
        tags = ["--tag", "Team:Search", "--tag", "region:eu", "--worker", "none"]

        _, output, _ = outcome([PROGRAM, "run", *options, *tags, "--", "env"], PUSHMETRICS_ENABLED="0")

        ours = dict(line.split("=", 1) for line in output.splitlines() if line.startswith("PUSHMETRICS_"))
        others = ("PUSHMETRICS_RUN_", "PUSHMETRICS_TEST_")
        assert {name: value for name, value in ours.items() if not name.startswith(others)} == {
            "PUSHMETRICS_CONSTANT_TAGS": "team:search,region:eu",
            "PUSHMETRICS_ENABLED": "0",
            "PUSHMETRICS_FLUSH_INTERVAL": "0.5",
            "PUSHMETRICS_LEVEL": "core",
            "PUSHMETRICS_NAMESPACE": "mine",
            "PUSHMETRICS_SINK": "udp://localhost:1",
            "PUSHMETRICS_WORKER": "none",
        }

    def test_an_option_that_is_not_given_leaves_its_variable(self) -> None:
        _, output, _ = outcome([*RUN, "env"], PUSHMETRICS_LEVEL="full")

        assert "PUSHMETRICS_LEVEL=full" in output.splitlines()

    @pytest.mark.parametrize(
        ("option", "value", "complaint"),
        [
            ("--sink", "localhost", "no address of an Agent"),
            ("--flush-interval", "0", "not in the range"),
            ("--namespace", "123", "nothing of '123' is left"),
            ("--level", "all", "'all' is not one of"),
            ("--tag", "host:a", "the key 'host' is reserved"),
            ("--worker", "-1", "expected an integer of at least 0, 'auto' or 'none'"),
        ],
    )
    def test_a_bad_option_is_a_usage_error(self, option: str, value: str, complaint: str) -> None:
        status, output, errors = outcome([PROGRAM, "run", option, value, "--", "echo", "started"])

        assert (status, output) == (2, "")
        assert complaint in errors

    def test_a_command_without_a_name_is_not_found(self) -> None:
        assert outcome([*RUN, ""]) == (127, "", "Error: '': command not found\n")

    def test_run_inside_of_run_loads_once(self) -> None:
        _, output, _ = outcome([*RUN, *RUN, *python("import os; print(os.environ['PYTHONPATH'])")], PYTHONPATH="/own")

        assert output == f"{launcher.BOOTSTRAP}:/own\n"


@pytest.fixture
def others(tmp_path: Path) -> str:
    """An installed package of somebody else's, with integrations for two modules of the standard library."""
    (tmp_path / "others.py").write_text(
        textwrap.dedent("""
            import os, sys

            def see(module):
                assert module.__name__ == "colorsys" and callable(module.rgb_to_hsv)
                print("saw", os.getpid() != os.getppid(), len([name for name in sys.modules if name == "others"]))

            def fail(module):
                raise RuntimeError("it does not work")
        """)
    )
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pushmetrics.integrations]\ncolorsys = others:see\ncmd = others:fail\nchunk2 = others:fail\n"
    )
    return str(tmp_path)


class TestIntegrations:
    def run(self, others: str, *command: str) -> tuple[int, str, str]:
        """Run a command with the integrations of `others`, which its own environment does not hold."""
        return outcome([*RUN, "env", f"PYTHONPATH={launcher.BOOTSTRAP}", *command], PYTHONPATH=others)

    def test_one_of_others_is_called_after_the_import(self, others: str, bare_python: str) -> None:
        code = "print('before'); import colorsys; import colorsys; print('after')"

        assert self.run(others, bare_python, "-c", code) == (0, "before\nsaw True 1\nafter\n", "")

    def test_the_module_keeps_its_own_loader(self, others: str, bare_python: str) -> None:
        code = """if True:
            import colorsys, inspect
            print({type(colorsys.__loader__).__name__, type(colorsys.__spec__.loader).__name__})
            print("def rgb_to_hsv" in inspect.getsource(colorsys))
        """

        _, output, _ = self.run(others, bare_python, "-c", code)

        assert output.splitlines()[1:] == ["{'SourceFileLoader'}", "True"]

    def test_it_is_called_in_every_python_that_is_started(self, others: str, bare_python: str, tmp_path: Path) -> None:
        program = tmp_path / "program.py"
        program.write_text(
            textwrap.dedent("""
                import multiprocessing, subprocess, sys

                def use():
                    import colorsys

                if __name__ == "__main__":
                    for method in ("fork", "spawn"):
                        child = multiprocessing.get_context(method).Process(target=use)
                        child.start()
                        child.join()
                    subprocess.run([sys.executable, "-c", "import colorsys"], check=True)
            """)
        )

        assert self.run(others, bare_python, str(program)) == (0, "saw True 1\n" * 3, "")

    def test_one_that_fails_is_said_once_and_the_program_runs_on(self, others: str, bare_python: str) -> None:
        (Path(others) / "chunk2.py").touch()
        code = f"import sys; sys.path.append({others!r}); import cmd, chunk2; print(cmd.Cmd.__name__)"

        status, output, errors = self.run(others, bare_python, "-c", code)

        assert (status, output) == (0, "Cmd\n")
        assert errors == (
            "pushmetrics: others:fail failed: RuntimeError('it does not work'). The program runs on without it.\n"
        )

    @pytest.mark.parametrize(
        ("target", "complaint"),
        [
            ("bad:leave", "bad:leave failed: SystemExit(3)"),
            ("bad:nameless", "bad:nameless failed: Nameless"),
            ("bad_at_import:any", "bad_at_import:any failed: SystemExit(4)"),
            ("missing:any", "missing:any failed: ModuleNotFoundError"),
            (":any", ":any failed: ValueError"),
            ("bad", "bad failed: AttributeError"),
        ],
    )
    def test_nothing_that_one_does_ends_the_program(
        self, others: str, bare_python: str, target: str, complaint: str
    ) -> None:
        Path(others, "bad_at_import.py").write_text("raise SystemExit(4)")
        Path(others, "bad.py").write_text(
            textwrap.dedent("""
                def leave(module):
                    raise SystemExit(3)

                class Nameless(Exception):
                    def __repr__(self):
                        raise RuntimeError("no name")

                def nameless(module):
                    raise Nameless
            """)
        )
        Path(others, "others-1.0.dist-info", "entry_points.txt").write_text(
            f"[pushmetrics.integrations]\ncolorsys = {target}\n"
        )

        code = f"import sys; sys.path.append({others!r}); import colorsys; print('runs on')"
        status, output, errors = self.run(others, bare_python, "-c", code)

        assert (status, output) == (0, "runs on\n")
        assert errors.startswith(f"pushmetrics: {complaint}")
        assert errors.count("\n") == 1
        code = f"import sys; sys.path.append({others!r}); sys.stderr.close(); import colorsys; print('runs on')"
        assert self.run(others, bare_python, "-c", code) == (0, "runs on\n", "")

    def test_extras_of_an_entry_point_are_for_installers(self, others: str, bare_python: str) -> None:
        Path(others, "others-1.0.dist-info", "entry_points.txt").write_text(
            "[pushmetrics.integrations]\ncolorsys = others:see [more, most]\n"
        )

        assert self.run(others, bare_python, "-c", "import colorsys") == (0, "saw True 1\n", "")

    def test_an_environment_that_can_not_import_us_is_left_alone(self, bare_python: str, tmp_path: Path) -> None:
        package = tmp_path / "nemo_gym"
        package.mkdir()
        for name in ("__init__", "server_utils", "rollout_collection"):
            (package / f"{name}.py").touch()
        code = "import nemo_gym.server_utils, nemo_gym.rollout_collection; print('runs on')"
        command = [
            "env",
            "PUSHMETRICS_RUN_PATH=",
            f"PYTHONPATH={launcher.BOOTSTRAP}:{tmp_path}",
            bare_python,
            "-c",
            code,
        ]

        status, output, errors = outcome([*RUN, *command])

        assert (status, output) == (0, "runs on\n")
        assert "ModuleNotFoundError" in errors
        assert errors.count("\n") == 1

    def test_what_the_program_has_of_its_own_comes_first(self, others: str, bare_python: str, tmp_path: Path) -> None:
        own = tmp_path / "own"
        own.mkdir()
        (own / "datadog.py").write_text("name = 'own'")
        code = "import colorsys, sys; import datadog; print(datadog.name)"
        command = ["env", f"PYTHONPATH={launcher.BOOTSTRAP}:{own}", bare_python, "-c", code]

        assert outcome([*RUN, *command], PYTHONPATH=others)[1].splitlines()[-1] == "own"


APPLICATION = """
import os
from pathlib import Path

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": kind + ".complete"})
            if kind == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})

def wsgi(environ, start_response):
    start_response("200 OK", [("Connection", "close")])
    return [str(os.getpid()).encode()]
"""

SERVERS = {
    "uvicorn": ["-m", "uvicorn", "application:app", "--workers", "2", "--log-level", "warning", "--port"],
    "gunicorn": ["-m", "gunicorn", "application:wsgi", "--workers", "2", "--log-level", "warning", "--bind"],
}


@pytest.fixture
def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def served(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = start(["env", "--chdir", str(folder), *command])
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.processes
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("run", [(), RUN], ids=["without", "with"])
def test_a_server_with_two_workers(server: str, run: Sequence[str], tmp_path: Path, free_port: int) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    place = f"127.0.0.1:{free_port}" if server == "gunicorn" else str(free_port)
    with served([*run, sys.executable, *SERVERS[server], place], tmp_path) as process:
        workers: set[bytes] = set()
        end = time.monotonic() + 30
        while len(workers) < 2 and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/", timeout=5) as answer:
                    workers.add(answer.read())
            except OSError:
                time.sleep(0.05)
        process.terminate()
        _, errors = process.communicate(timeout=20)

    assert len(workers) == 2
    assert process.returncode == 0, errors
    assert "pushmetrics" not in errors
