"""Settings: who wins, what a bad argument raises, and that a bad variable costs one warning and nothing else."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from datadog.dogstatsd.base import DogStatsd
from hypothesis import given
from hypothesis import strategies as st

from pushmetrics import DogStatsDSink, MemorySink, Registry, Reporter
from pushmetrics.errors import InvalidTypeError, InvalidValueError
from pushmetrics.redaction import shown
from pushmetrics.settings import UNSET, Address, Unset, parse_address, reporter_settings, sink_address
from pushmetrics.sinks.official_client import LineSuffix

SERVICE_LINK = "udp://10.0.0.1:8125"
LOCALHOST = Address("udp", "localhost", 8125)


SECRET = "hunter2"
KEY = "0123456789abcdef0123456789abcdef"


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def udp(host: str, port: int = 8125) -> Address:
    return Address("udp", host, port)


class TestTheAddress:
    @pytest.mark.parametrize(
        ("environ", "address", "source"),
        [
            ({}, LOCALHOST, "default"),
            ({"DD_AGENT_HOST": "agent"}, udp("agent"), "DD_AGENT_HOST"),
            ({"DD_DOGSTATSD_PORT": "8126"}, udp("localhost", 8126), "DD_DOGSTATSD_PORT"),
            (
                {"DD_AGENT_HOST": "10.0.0.1", "DD_DOGSTATSD_PORT": "1"},
                udp("10.0.0.1", 1),
                "DD_AGENT_HOST, DD_DOGSTATSD_PORT",
            ),
            ({"DD_AGENT_HOST": "::1"}, udp("::1"), "DD_AGENT_HOST"),
            ({"DD_AGENT_HOST": "[::1]"}, udp("::1"), "DD_AGENT_HOST"),
            ({"DD_AGENT_HOST": "fe80::1%eth0"}, udp("fe80::1%eth0"), "DD_AGENT_HOST"),
            (
                {"DD_DOGSTATSD_URL": "udp://h", "DD_AGENT_HOST": "agent", "DD_DOGSTATSD_PORT": "1"},
                udp("h"),
                "DD_DOGSTATSD_URL",
            ),
            ({"DD_DOGSTATSD_URL": "unix:///run/dsd"}, Address("unix", path="/run/dsd"), "DD_DOGSTATSD_URL"),
            ({"PUSHMETRICS_SINK": "udp://ours:1"}, udp("ours", 1), "PUSHMETRICS_SINK"),
            (
                {"PUSHMETRICS_SINK": "udp://ours:1", "DD_DOGSTATSD_URL": "udp://theirs:2", "DD_AGENT_HOST": "agent"},
                udp("ours", 1),
                "PUSHMETRICS_SINK",
            ),
        ],
    )
    def test_which_variable_wins(
        self, environ: dict[str, str], address: Address, source: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert sink_address(environ) == (address, source)
        assert warnings_in(caplog) == []

    @pytest.mark.parametrize(
        ("variable", "bad", "others", "address"),
        [
            *(("DD_DOGSTATSD_PORT", bad, {}, LOCALHOST) for bad in ("", SERVICE_LINK, "tcp://10.0.0.1:8125", "81x5")),
            *(("DD_DOGSTATSD_PORT", bad, {"DD_AGENT_HOST": "agent"}, udp("agent")) for bad in ("99999", "65536", "0")),
            *(
                ("DD_DOGSTATSD_PORT", bad, {}, LOCALHOST)
                for bad in ("-1", "8125.0", "1e3", "\uff18\uff11\uff12\uff15", "1" * 5000)
            ),
            *(("DD_AGENT_HOST", bad, {}, LOCALHOST) for bad in ("", " ", "a b", "a\nb", "h:8125", SERVICE_LINK)),
            *(("DD_AGENT_HOST", bad, {}, LOCALHOST) for bad in ("cafe:8125", "10.0.0.1:8125", "[:]", "::g", "a..b")),
            *(("DD_AGENT_HOST", bad, {}, LOCALHOST) for bad in (".", "x" * 300, "x" * 64, "😀", "\udcff", "a/b", "@")),
            ("DD_AGENT_HOST", "", {"DD_DOGSTATSD_PORT": "8126"}, udp("localhost", 8126)),
            *(
                ("DD_DOGSTATSD_URL", bad, {}, LOCALHOST)
                for bad in ("", "http://x", "h:8125", "udp://", "8125", "udp:h")
            ),
            ("DD_DOGSTATSD_URL", "http://x", {"DD_AGENT_HOST": "agent"}, udp("agent")),
            ("DD_DOGSTATSD_URL", "udp://[::1", {"DD_DOGSTATSD_PORT": "1"}, udp("localhost", 1)),
            *(("PUSHMETRICS_SINK", bad, {}, LOCALHOST) for bad in ("", "console", "udp://h:99999", "unix://relative")),
            ("PUSHMETRICS_SINK", "x", {"DD_DOGSTATSD_URL": "udp://h:1", "DD_AGENT_HOST": "agent"}, udp("h", 1)),
        ],
    )
    def test_a_bad_variable_costs_one_warning_and_the_next_best_is_used(
        self, variable: str, bad: str, others: dict[str, str], address: Address, caplog: pytest.LogCaptureFixture
    ) -> None:
        found, source = sink_address(others | {variable: bad})

        assert found == address
        assert source == (", ".join(others) if "DD_DOGSTATSD_URL" not in others else "DD_DOGSTATSD_URL") or "default"
        (warning,) = warnings_in(caplog)
        assert warning.startswith(f"{variable} is ignored: {shown(bad)} ")

    def test_a_service_link_is_called_by_its_name(self, caplog: pytest.LogCaptureFixture) -> None:
        sink_address({"DD_DOGSTATSD_PORT": SERVICE_LINK})

        (warning,) = warnings_in(caplog)
        assert warning == (
            "DD_DOGSTATSD_PORT is ignored: 'udp://10.0.0.1:8125' is no port number from 1 to 65535 "
            "(it looks like a service link of Docker or Kubernetes). Using 8125."
        )

    def test_several_bad_ones_cost_a_warning_each(self, caplog: pytest.LogCaptureFixture) -> None:
        variables = ["PUSHMETRICS_SINK", "DD_DOGSTATSD_URL", "DD_AGENT_HOST", "DD_DOGSTATSD_PORT"]

        assert sink_address(dict.fromkeys(variables, "")) == (LOCALHOST, "default")
        assert [warning.partition(" ")[0] for warning in warnings_in(caplog)] == variables

    def test_it_is_read_when_a_sink_is_made_and_an_address_in_code_wins(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("DD_DOGSTATSD_URL", "udp://127.0.0.1:9999")
        assert DogStatsDSink().address == udp("127.0.0.1", 9999)
        assert DogStatsDSink("udp://127.0.0.1:9997").address == udp("127.0.0.1", 9997)
        assert "udp://127.0.0.1:9999" in repr(Reporter(registry=Registry()))

        monkeypatch.setenv("PUSHMETRICS_SINK", "udp://127.0.0.1:9998")
        assert "udp://127.0.0.1:9998" in repr(Reporter(registry=Registry()))
        assert "udp://127.0.0.1:9997" in repr(Reporter(registry=Registry(), sink="udp://127.0.0.1:9997"))
        assert "MemorySink" in repr(Reporter(registry=Registry(), sink=MemorySink()))
        assert warnings_in(caplog) == []


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "address"),
        [
            ("udp://h", udp("h")),
            ("udp://h/", udp("h")),
            ("udp://h:1", udp("h", 1)),
            ("udp://h:65535/", udp("h", 65535)),
            ("udp://10.0.0.1:8125", udp("10.0.0.1")),
            ("udp://agent.datadog.svc.cluster.local.", udp("agent.datadog.svc.cluster.local.")),
            ("udp://my_agent-1:08125", udp("my_agent-1")),
            ("udp://bücher.example", udp("bücher.example")),
            ("udp://[::1]:8125", udp("::1")),
            ("udp://[::1]", udp("::1")),
            ("udp://[2001:db8::1]:1", udp("2001:db8::1", 1)),
            ("udp://[::ffff:10.0.0.1]", udp("::ffff:10.0.0.1")),
            ("udp://[fe80::1%eth0]:8125", udp("fe80::1%eth0")),
            ("unix:///p", Address("unix", path="/p")),
            ("unix:///var/run/my agent:1/dsd.socket", Address("unix", path="/var/run/my agent:1/dsd.socket")),
            ("unixgram:///p", Address("unix", path="/p")),
            ("unixstream:///p", Address("unixstream", path="/p")),
        ],
    )
    def test_the_good_ones(self, url: str, address: Address) -> None:
        assert parse_address(url) == address
        assert parse_address(str(address)) == address

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            *((url, "is no address of an Agent") for url in ("", " ", "h", "h:8125", "8125", "localhost:8125", "::1")),
            *(
                (url, "is no address of an Agent")
                for url in ("http://x", "tcp://h:1", "UDP", "udp:h:1", "://h", "udp:/h")
            ),
            *((url, "has no usable host or port") for url in ("udp://", "udp://:8125", "udp://h:", "udp://h:0")),
            *((url, "has no usable host or port") for url in ("udp://h:65536", "udp://h:99999", "udp://h:81x5")),
            *(
                (url, "has no usable host or port")
                for url in ("udp://h:-1", "udp://h:+1", "udp://h: 1", "udp://h:\uff11")
            ),
            *(
                (url, "has no usable host or port")
                for url in ("udp://::1", "udp://::1:8125", "udp://[::1", "udp://::1]")
            ),
            *(
                (url, "has no usable host or port")
                for url in ("udp://[h]:1", "udp://[:]:1", "udp://[::1]x", "udp://[]:1")
            ),
            *((url, "has no usable host or port") for url in ("udp://a b:1", "udp://a\nb", "udp://h\n", "udp://u@h:1")),
            *(
                (url, "has no usable host or port")
                for url in ("udp://h/x", "udp://h?x", "udp://h#x", "udp://a..b", "udp://.")
            ),
            *((url, "has no usable host or port") for url in ("udp://\0", "udp://[::\0]", "udp://😀", "udp://\ud800")),
            ("udp://" + "x" * 300, "has no usable host or port"),
            ("udp://h:" + "1" * 5000, "has no usable host or port"),
            *((url, "names no absolute path") for url in ("unix://", "unix://p", "unixgram://p", "unixstream://p")),
            ("unix:///\0", "names no absolute path"),
        ],
    )
    def test_the_bad_ones(self, url: str, message: str) -> None:
        with pytest.raises(
            InvalidValueError, match=rf"^{re.escape(shown(url))} {message}; expected udp://host:port, unix:"
        ):
            parse_address(url)

    @pytest.mark.parametrize("url", [b"udp://h:1", 8125, ("h", 8125)])
    def test_what_is_no_string(self, url: object) -> None:
        with pytest.raises(InvalidTypeError, match=r"^an address is a string such as 'udp://localhost:8125', got "):
            parse_address(url)

    @given(st.text() | st.builds("udp://{}".format, st.text("[]:%@/.aé1\n \0\ud800", max_size=12)))
    def test_any_text_is_a_clear_error_or_an_address(self, url: str) -> None:
        try:
            address = parse_address(url)
        except InvalidValueError:
            return
        assert parse_address(str(address)) == address


def client_knows_urls() -> bool:
    os.environ["DD_DOGSTATSD_URL"] = "udp://probe:1"
    try:
        return bool(DogStatsd(disable_telemetry=True).host == "probe")
    finally:
        del os.environ["DD_DOGSTATSD_URL"]


CLIENT_KNOWS_URLS = client_knows_urls()
"""The oldest client that is allowed does not."""

hosts = st.sampled_from(["localhost", "agent", "my_agent-1", "a.b.example", "10.0.0.1"])
addresses_v6 = st.ip_addresses(v=6).map(str)
ports = st.integers(1, 65535)
urls = st.one_of(
    st.builds("udp://{}:{}".format, hosts | addresses_v6.map("[{}]".format), ports),
    st.builds("udp://{}".format, hosts),
    st.builds(
        "{}:///{}".format, st.sampled_from(["unix", "unixgram", "unixstream"]), st.sampled_from(["p", "run/a b"])
    ),
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **({"DD_DOGSTATSD_URL": urls | st.just("http://x")} if CLIENT_KNOWS_URLS else {}),
            "DD_AGENT_HOST": hosts | addresses_v6 | st.just(""),
            "DD_DOGSTATSD_PORT": ports.map(str) | st.sampled_from([SERVICE_LINK, "", "81x5"]),
        },
    )
)
def test_the_official_client_goes_to_the_same_address(environ: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        client = DogStatsd(disable_telemetry=True)

        address, _ = sink_address()

    if address.scheme == "udp":
        assert (client.host, client.port, client.socket_path) == (address.host, address.port, None)
    else:
        scheme, _, path = client.socket_path.partition("://")
        assert (client.host, client.port) == (None, None)
        assert path == address.path
        assert (scheme == "unixstream") == (address.scheme == "unixstream")


class TestEverySetting:
    """Of a reporter, but for `sink`: the argument wins over the variable, and that over the default."""

    GOOD = (
        ("flush_interval", 2.5, "5", 5.0, 10.0),
        ("namespace", "mine", "theirs.é", "theirs", "gym.concurrency"),
        ("level", "core", "full", "full", "standard"),
        ("constant_tags", ("team:a",), "team:B, canary,,env:x,team:b", ("team:b", "canary", "env:x"), ()),
        ("worker", 3, "7", 7, "auto"),
    )

    @pytest.mark.parametrize(("name", "argument", "variable", "read", "default"), GOOD)
    def test_who_wins(
        self, caplog: pytest.LogCaptureFixture, *, name: str, argument: Any, variable: str, read: Any, default: Any
    ) -> None:
        environ = {f"PUSHMETRICS_{name.upper()}": variable}
        cases: list[tuple[Mapping[str, str], dict[str, Any], Any, str]] = [
            (environ, {name: argument}, argument, "argument"),
            (environ, {}, read, f"PUSHMETRICS_{name.upper()}"),
            ({}, {}, default, "default"),
            ({f"PUSHMETRICS_{name.upper()}": "\n"}, {name: argument}, argument, "argument"),
        ]
        for variables, arguments, value, source in cases:
            settings = reporter_settings(**arguments, environ=variables)

            assert getattr(settings, name) == value
            assert settings.sources[name] == source
        assert warnings_in(caplog) == []

    def test_they_are_read_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, _, variable, _, _ in self.GOOD:
            monkeypatch.setenv(f"PUSHMETRICS_{name.upper()}", variable)

        settings = reporter_settings()

        for name, _, _, read, _ in self.GOOD:
            assert getattr(settings, name) == read

    def test_the_defaults_need_no_variable(self, caplog: pytest.LogCaptureFixture) -> None:
        settings = reporter_settings(environ={"UNRELATED": "x"})

        assert settings == (True, 10.0, "gym.concurrency", "standard", (), "auto", settings.sources)
        assert set(settings.sources.values()) == {"default"}
        assert warnings_in(caplog) == []

    @pytest.mark.parametrize(
        ("name", "bad"),
        [
            *(
                ("flush_interval", bad)
                for bad in ("", " ", "x", "0", "-1", "0.05", "3601", "nan", "inf", "1e400", "10s")
            ),
            *(("namespace", bad) for bad in ("", " ", "1", "é", "|")),
            *(("level", bad) for bad in ("", "Full", "all", "1")),
            *(("worker", bad) for bad in ("", "-1", "1.5", "one", "1" * 7, "\uff11")),
        ],
    )
    def test_a_bad_variable_costs_one_warning_and_the_default_is_used(
        self, name: str, bad: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        variable = f"PUSHMETRICS_{name.upper()}"

        settings = reporter_settings(environ={variable: bad})

        default = {entry[0]: entry[-1] for entry in self.GOOD}[name]
        assert getattr(settings, name) == default
        assert settings.sources[name] == "default"
        (warning,) = warnings_in(caplog)
        assert warning.startswith(f"{variable} is ignored: {name}: ")
        assert repr(bad) in warning
        assert warning.endswith(f"Using {default!r}.")

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("PUSHMETRICS_SINK", f"http://me:{SECRET}@agent:8125"),
            ("DD_DOGSTATSD_URL", f"udp://me:{'p' * 1000}{SECRET}@agent:8125"),
            ("DD_DOGSTATSD_URL", f"https://api.datadoghq.com/?api_key={SECRET}&x=y"),
            ("DD_AGENT_HOST", f"me:{SECRET}@agent"),
            ("DD_DOGSTATSD_PORT", KEY),
            ("PUSHMETRICS_ENABLED", f"token={SECRET}"),
            ("PUSHMETRICS_FLUSH_INTERVAL", KEY),
            ("PUSHMETRICS_LEVEL", KEY),
            ("PUSHMETRICS_WORKER", KEY),
            ("PUSHMETRICS_CONSTANT_TAGS", f"host:{KEY}"),
            ("DD_CARDINALITY", KEY),
            ("DD_EXTERNAL_ENV", f"|{KEY}"),
            ("DATADOG_TAGS", f"host:{KEY}"),
        ],
    )
    def test_a_secret_in_the_wrong_variable_is_not_logged(
        self, variable: str, value: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(variable, value)
        reporter_settings()
        sink_address()
        LineSuffix()(())

        (warning,) = warnings_in(caplog)
        assert "***" in warning
        assert SECRET not in warning
        assert KEY not in warning

    def test_of_a_list_of_constant_tags_the_bad_ones_are_dropped(self, caplog: pytest.LogCaptureFixture) -> None:
        bad = ["host:x ", "é:?", " server:y", *["device:z"] * 1000]
        settings = reporter_settings(environ={"PUSHMETRICS_CONSTANT_TAGS": ",".join(["team:a", *bad, "env:prod"])})

        assert settings.constant_tags == ("team:a", "env:prod")
        (warning,) = warnings_in(caplog)
        assert warning.startswith("PUSHMETRICS_CONSTANT_TAGS: tags are dropped: ")
        assert all(what in warning for what in ("'host'", "'?'", "'server'"))
        assert warning.endswith(", and 1000 more.")

    @pytest.mark.parametrize("nothing", ["", " ", ",", " , ,"])
    def test_no_constant_tags_are_fine(self, nothing: str, caplog: pytest.LogCaptureFixture) -> None:
        assert reporter_settings(environ={"PUSHMETRICS_CONSTANT_TAGS": nothing}).constant_tags == ()
        assert warnings_in(caplog) == []

    def test_a_list_of_constant_tags_is_only_read(self) -> None:
        tags = ["Team:A", "team:a", "Canary"]

        assert reporter_settings(constant_tags=tags, environ={}).constant_tags == ("team:a", "canary")
        assert reporter_settings(constant_tags=iter(tags), environ={}).constant_tags == ("team:a", "canary")
        assert tags == ["Team:A", "team:a", "Canary"]

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            (0.1, 0.1),
            (3600, 3600.0),
            (1, 1.0),
            ("2", 2.0),
            (fractions.Fraction(1, 2), 0.5),
            (decimal.Decimal("0.5"), 0.5),
        ],
    )
    def test_intervals(self, value: Any, seconds: float) -> None:
        interval = reporter_settings(flush_interval=value, environ={}).flush_interval

        assert interval == seconds
        assert type(interval) is float

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            *(
                ({"flush_interval": bad}, InvalidValueError, "flush_interval: expected seconds from 0.1 to 3600, got")
                for bad in (0, -1, 0.099, 3600.1, math.nan, math.inf, -math.inf, 10**400, "x", "")
            ),
            *(
                ({"flush_interval": bad}, InvalidValueError, "flush_interval: expected seconds from 0.1 to 3600, got")
                for bad in (decimal.Decimal("NaN"), decimal.Decimal("sNaN"), decimal.Decimal("Infinity"))
            ),
            *(
                ({"flush_interval": bad}, InvalidTypeError, "flush_interval: expected seconds from 0.1 to 3600, got")
                for bad in (True, False, b"1", [1], dt.timedelta(seconds=1), 1j)
            ),
            *(
                ({"level": bad}, InvalidValueError, "level: expected one of core, standard, full, got")
                for bad in ("", "all", 1)
            ),
            ({"namespace": ""}, InvalidValueError, "namespace: nothing of '' is left"),
            ({"namespace": 3}, InvalidTypeError, "namespace: expected a string such as 'myapp.concurrency', got 3"),
            *(
                (
                    {"constant_tags": bad},
                    InvalidTypeError,
                    "constant_tags: expected a list of strings such as 'team:search', got",
                )
                for bad in ("team:search", b"team:search", 3, {"team": "search"})
            ),
            (
                {"constant_tags": ["host:x"]},
                InvalidValueError,
                "constant_tags: the key 'host' is reserved, got 'host:x'",
            ),
            (
                {"constant_tags": ["a:b", None]},
                InvalidTypeError,
                "constant_tags: a tag is a string such as 'team:search'",
            ),
            ({"worker": -1}, InvalidValueError, "worker: expected an integer of at least 0, 'auto' or None, got -1"),
            # Text comes from a variable or a command line, where there is no None.
            *(
                ({"worker": bad}, InvalidValueError, "worker: expected an integer of at least 0, 'auto' or 'none', got")
                for bad in ("x", "-1", "")
            ),
            *(
                ({"worker": bad}, InvalidTypeError, "worker: expected an integer of at least 0, 'auto' or None, got")
                for bad in (True, 1.5, b"1", ())
            ),
        ],
    )
    def test_a_bad_argument_is_a_clear_error(
        self, arguments: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=f"^{re.escape(message)}"):
            Reporter(sink=MemorySink(), registry=Registry(), **arguments)

    @pytest.mark.parametrize(
        ("value", "worker"),
        [("auto", "auto"), (None, None), ("none", None), (" OFF ", None), (0, 0), (7, 7), ("0", 0), (" 12 ", 12)],
    )
    def test_workers(self, value: Any, worker: Any) -> None:
        assert reporter_settings(worker=value, environ={}).worker == worker
        if isinstance(value, str):
            assert reporter_settings(environ={"PUSHMETRICS_WORKER": value}).worker == worker

    def test_none_is_a_worker_and_not_given_is_not(self) -> None:
        environ = {"PUSHMETRICS_WORKER": "5"}

        assert reporter_settings(worker=None, environ=environ).worker is None
        assert reporter_settings(worker=UNSET, environ=environ).worker == 5
        assert repr(Unset()) == "<not given>"


class Recorder:
    """Where the client expects a socket."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> int:
        self.sent.append(data)
        return len(data)

    def close(self) -> None:
        pass


class TestTheSwitch:
    @pytest.mark.parametrize(
        ("value", "enabled"),
        [
            *((value, False) for value in ("0", "false", "False", "no", "OFF", " 0 ")),
            *((value, True) for value in ("1", "true", "True", "yes", "ON", " 1 ")),
        ],
    )
    def test_ours(self, value: str, enabled: bool, caplog: pytest.LogCaptureFixture) -> None:
        settings = reporter_settings(environ={"PUSHMETRICS_ENABLED": value})

        assert settings.enabled is enabled
        assert settings.sources["enabled"] == "PUSHMETRICS_ENABLED"
        assert warnings_in(caplog) == []

    @pytest.mark.parametrize("bad", ["", "2", "maybe", "None"])
    def test_a_bad_one_leaves_it_on(self, bad: str, caplog: pytest.LogCaptureFixture) -> None:
        settings = reporter_settings(environ={"PUSHMETRICS_ENABLED": bad})

        assert settings.enabled
        assert settings.sources["enabled"] == "default"
        assert warnings_in(caplog) == [f"PUSHMETRICS_ENABLED is ignored: {bad!r} is neither 0 nor 1. Reporting is on."]

    @pytest.mark.parametrize("value", ["True", "true", "yes", "1", "0", "false", "no", "", "TRUE", "on", "x"])
    def test_the_official_clients_is_ours_too(
        self, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("DD_DOGSTATSD_DISABLE", value)
        client = DogStatsd(disable_telemetry=True)
        client.socket = recorder = Recorder()
        client.gauge("x", 1)
        for ours in ({}, {"PUSHMETRICS_ENABLED": "1"}):
            settings = reporter_settings(environ={"DD_DOGSTATSD_DISABLE": value} | ours)

            assert settings.enabled == bool(recorder.sent)
        assert warnings_in(caplog) == []

    @pytest.mark.parametrize(("variable", "value"), [("PUSHMETRICS_ENABLED", "0"), ("DD_DOGSTATSD_DISABLE", "1")])
    def test_off_a_bad_argument_is_an_error_still(
        self, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(variable, value)
        with pytest.raises(InvalidValueError):
            Reporter(level="all", registry=Registry())
        Reporter(registry=Registry())


def run_python(code: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `code` in an interpreter of its own, which has not imported the client yet."""
    return subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", code],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("variable", "bad"),
    [
        *(("DD_DOGSTATSD_PORT", bad) for bad in ("81x5", SERVICE_LINK)),
        *(("DD_DOGSTATSD_URL", bad) for bad in ("", "http://x")),
    ],
)
def test_what_was_said_of_a_bad_variable_the_client_does_not_say_again(variable: str, bad: str) -> None:
    """It reads its variables when it is imported, too."""
    code = "import logging; logging.basicConfig(); from pushmetrics import DogStatsDSink; DogStatsDSink()"

    (warning,) = run_python(code, {variable: bad}).stderr.splitlines()

    assert warning.startswith(f"WARNING:pushmetrics:{variable} is ignored: ")


class TestWhatTheClientReads:
    """The variables behind the type of a line, which the official client reads on our behalf."""

    @pytest.fixture(autouse=True)
    def no_container(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DD_ORIGIN_DETECTION_ENABLED", "false")

    @pytest.mark.parametrize(
        ("environ", "suffix"),
        [
            ({}, "|#a:b"),
            ({"DD_CARDINALITY": "low"}, "|#a:b|card:low"),
            ({"DATADOG_CARDINALITY": "high", "DD_CARDINALITY": "low"}, "|#a:b|card:high"),
            ({"DD_EXTERNAL_ENV": "it-false,cn-app,pu-1"}, "|#a:b|e:it-false,cn-app,pu-1"),
            ({"DD_EXTERNAL_ENV": ""}, "|#a:b"),
            ({"DATADOG_TAGS": "x:y,canary"}, "|#a:b,x:y,canary"),
            ({"DATADOG_TAGS": ""}, "|#a:b"),
            ({"DATADOG_TAGS": " X:Y ,,z:1,"}, "|#a:b,x:y,z:1"),
            ({"DD_ENV": "Prod", "DD_SERVICE": "shop", "DD_VERSION": "1.2"}, "|#a:b,env:prod,service:shop,version:1.2"),
            ({"DD_ENTITY_ID": "3F-1"}, "|#a:b,dd.internal.entity_id:3f-1"),
            ({"DD_TAGS": "x:y"}, "|#a:b"),
        ],
    )
    def test_good_ones(
        self,
        environ: dict[str, str],
        suffix: str,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)

        assert LineSuffix()(("a:b",)) == suffix
        assert warnings_in(caplog) == []

    @pytest.mark.parametrize(
        ("variable", "bad", "others", "suffix"),
        [
            *(("DD_CARDINALITY", bad, {}, "|#a:b") for bad in ("", "LOW", "low ", "low|#x:y", "all", "\udcff")),
            ("DATADOG_CARDINALITY", "LOW", {"DD_CARDINALITY": "low"}, "|#a:b|card:low"),
            *(
                ("DD_EXTERNAL_ENV", bad, {}, "|#a:b")
                for bad in ("x|#y:z", "x|card:low", "x|T1", "x|@0.5", "|", "x|c:y")
            ),
            *(("DD_EXTERNAL_ENV", bad, {}, "|#a:b") for bad in ("x\ny:1|g", "\r", "\u2028", "\udcff", "x" * 501)),
            *(("DATADOG_TAGS", bad, {}, "|#a:b") for bad in ("123", "x:", "host:x", " ", "dd.internal.card:none")),
            ("DATADOG_TAGS", "server:x,team:y", {"DD_ENV": "dev"}, "|#a:b,team:y,env:dev"),
            ("DATADOG_TAGS", "env:,team:y", {"DD_ENV": "dev"}, "|#a:b,team:y,env:dev"),
            *((name, "?", {"DATADOG_TAGS": "x:y"}, "|#a:b,x:y") for name in ("DD_ENV", "DD_SERVICE", "DD_VERSION")),
            *(("DD_ENTITY_ID", bad, {}, "|#a:b") for bad in (" ", "|", "/", "\udcff")),
        ],
    )
    def test_a_bad_one_costs_one_warning_and_nothing_of_it_is_sent(
        self,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        *,
        variable: str,
        bad: str,
        others: dict[str, str],
        suffix: str,
    ) -> None:
        for name, value in (others | {variable: bad}).items():
            monkeypatch.setenv(name, value)

        made = LineSuffix()

        assert made(("a:b",)) == suffix
        assert made(("c:d",)) == suffix.replace("a:b", "c:d")
        (warning,) = warnings_in(caplog)
        assert warning.startswith(variable)
        assert os.environ[variable] == bad

    @pytest.mark.parametrize(
        ("environ", "warned", "address"),
        [
            ({"DD_DOGSTATSD_URL": "udp://[::1", "DD_ENV": "dev"}, ["DD_DOGSTATSD_URL"], "udp://localhost:8125"),
            ({"DD_DOGSTATSD_PORT": SERVICE_LINK, "DD_AGENT_HOST": "h"}, ["DD_DOGSTATSD_PORT"], "udp://h:8125"),
            (
                {"DD_DOGSTATSD_PORT": "99999", "DD_AGENT_HOST": ""},
                ["DD_AGENT_HOST", "DD_DOGSTATSD_PORT"],
                "udp://localhost:8125",
            ),
            ({"DD_TELEMETRY_HOST": "h", "DD_TELEMETRY_PORT": "x"}, [], "udp://localhost:8125"),
        ],
    )
    def test_one_that_the_client_chokes_on_at_its_import_does_not_stop_the_program(
        self, environ: dict[str, str], warned: list[str], address: str
    ) -> None:
        finished = run_python(
            "import logging, sys\n"
            "logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format='%(name)s %(message)s')\n"
            "from pushmetrics import Reporter\n"
            "print(repr(Reporter()))\n",
            environ,
        )

        assert (finished.returncode, finished.stderr) == (0, "")
        *messages, made = finished.stdout.splitlines()
        ours = [message.split() for message in messages if message.startswith("pushmetrics ")]
        assert [words[1] for words in ours] == warned
        assert made == f"<Reporter of gym.concurrency to <DogStatsDSink {address}>>"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_after_a_fork_the_child_writes_the_same_lines_and_sends_nothing(self) -> None:
        finished = run_python(
            "import os, socket\n"
            "from pushmetrics.sinks.official_client import LineSuffix\n"
            "suffix = LineSuffix()\n"
            "if child := os.fork():\n"
            "    os.waitpid(child, 0)\n"
            "else:\n"
            "    socket.socket = None\n"
            "print(suffix(('a:b',)))\n",
            {"DD_ENV": "dev"},
        )

        assert (finished.returncode, finished.stderr) == (0, "")
        assert finished.stdout == "|#a:b,env:dev\n" * 2
