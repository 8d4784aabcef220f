"""The settings: where each came from, and what is wrong with a variable beside the setting that it is about."""

from __future__ import annotations

import pytest

from pushmetrics.doctor.environment import read_environment
from pushmetrics.doctor.finding import Finding
from pushmetrics.settings import Address


def read(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> dict[str, Finding]:
    """What is found with these variables, by topic."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    environment = read_environment()
    found = [*environment.findings, environment.address_finding]
    assert len({finding.topic for finding in found}) == len(found)
    return {finding.topic: finding for finding in found}


def test_without_variables_everything_is_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, {})

    assert {topic: finding.text for topic, finding in found.items()} == {
        "reporting": "on",
        "flush interval": "10 s",
        "namespace": "gym.concurrency",
        "level": "standard",
        "constant tags": "none",
        "worker": "auto",
        "address": "udp://localhost:8125",
    }
    assert {(finding.source, finding.mark, finding.details) for finding in found.values()} == {("default", "", ())}


@pytest.mark.parametrize(
    ("topic", "variables", "text", "source"),
    [
        ("flush interval", {"PUSHMETRICS_FLUSH_INTERVAL": "0.5"}, "0.5 s", "PUSHMETRICS_FLUSH_INTERVAL"),
        ("namespace", {"PUSHMETRICS_NAMESPACE": "mine"}, "mine", "PUSHMETRICS_NAMESPACE"),
        ("level", {"PUSHMETRICS_LEVEL": "full"}, "full", "PUSHMETRICS_LEVEL"),
        ("constant tags", {"PUSHMETRICS_CONSTANT_TAGS": "a:B,c"}, "a:b, c", "PUSHMETRICS_CONSTANT_TAGS"),
        ("worker", {"PUSHMETRICS_WORKER": "none"}, "none", "PUSHMETRICS_WORKER"),
        ("address", {"DD_DOGSTATSD_URL": "unix:///run/dsd"}, "unix:///run/dsd", "DD_DOGSTATSD_URL"),
        (
            "address",
            {"DD_AGENT_HOST": "::1", "DD_DOGSTATSD_PORT": "1"},
            "udp://[::1]:1",
            "DD_AGENT_HOST, DD_DOGSTATSD_PORT",
        ),
        (
            "client's tags",
            {"PUSHMETRICS_CONSTANT_TAGS": "team:a", "DD_ENV": "prod", "DATADOG_TAGS": "x:y"},
            "x:y, env:prod",
            "DATADOG_TAGS, DD_ENV",
        ),
        (
            "origin",
            {"DD_EXTERNAL_ENV": "it-false,cn-app", "DD_CARDINALITY": "low"},
            "external data, cardinality low",
            "DD_EXTERNAL_ENV, DD_CARDINALITY",
        ),
    ],
)
def test_a_variable_is_named_beside_what_it_gave(
    topic: str, variables: dict[str, str], text: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(monkeypatch, variables)

    assert found[topic] == Finding(topic, text, source)
    assert not any(finding.mark for finding in found.values())


@pytest.mark.parametrize(
    ("topic", "variables", "said"),
    [
        ("reporting", {"PUSHMETRICS_ENABLED": "maybe"}, ["PUSHMETRICS_ENABLED is ignored"]),
        ("flush interval", {"PUSHMETRICS_FLUSH_INTERVAL": "10s"}, ["PUSHMETRICS_FLUSH_INTERVAL is ignored"]),
        ("level", {"PUSHMETRICS_LEVEL": "all"}, ["PUSHMETRICS_LEVEL is ignored"]),
        (
            "constant tags",
            {"PUSHMETRICS_CONSTANT_TAGS": "host:a,b:c,é:?"},
            ["'host' is reserved, got 'host:a'; use another key; constant_tags: nothing of '?'"],
        ),
        ("worker", {"PUSHMETRICS_WORKER": "one"}, ["PUSHMETRICS_WORKER is ignored"]),
        ("address", {"PUSHMETRICS_SINK": "agent:8125"}, ["PUSHMETRICS_SINK is ignored"]),
        (
            "address",
            {"DD_AGENT_HOST": "", "DD_DOGSTATSD_PORT": "udp://10.0.0.1:8125"},
            ["DD_AGENT_HOST is ignored", "a service link of Docker"],
        ),
        ("client's tags", {"DD_SERVICE": "?"}, ["DD_SERVICE: a tag is dropped"]),
        ("client's tags", {"DD_CARDINALITY": "huge"}, ["DD_CARDINALITY is ignored"]),
        ("client's tags", {"DD_EXTERNAL_ENV": "a|b"}, ["DD_EXTERNAL_ENV is ignored"]),
    ],
)
def test_a_bad_variable_is_told_in_its_place_and_not_logged(
    topic: str,
    variables: dict[str, str],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = read(monkeypatch, variables)

    assert [name for name, finding in found.items() if finding.mark] == [topic]
    assert found[topic].mark == "wrong"
    assert len(found[topic].details) == len(said)
    assert all(part in detail for part, detail in zip(said, found[topic].details, strict=True))
    assert caplog.records == []


def test_afterwards_the_library_logs_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from pushmetrics.settings import reporter_settings

    read(monkeypatch, {"PUSHMETRICS_LEVEL": "all"})
    reporter_settings()

    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["PUSHMETRICS_LEVEL is ignored"]


@pytest.mark.parametrize("variable", ["PUSHMETRICS_ENABLED", "DD_DOGSTATSD_DISABLE"])
def test_a_reporter_that_is_off_is_wrong(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, {variable: "0" if variable == "PUSHMETRICS_ENABLED" else "true"})

    assert found["reporting"][:4] == ("reporting", "off", variable, "wrong")
    assert variable in found["reporting"].details[0]


@pytest.mark.parametrize(("interval", "mark"), [("10", ""), ("2.5", ""), ("0.1", ""), ("3", "note"), ("20", "note")])
def test_an_interval_that_does_not_divide_the_buckets(
    interval: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = read(monkeypatch, {"PUSHMETRICS_FLUSH_INTERVAL": interval})["flush interval"]

    assert finding.mark == mark
    assert finding.source == "PUSHMETRICS_FLUSH_INTERVAL"
    assert [f"flush_interval={interval} s does not divide" in detail for detail in finding.details] == [True] * bool(
        mark
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PUSHMETRICS_FLUSH_INTERVALL", "PUSHMETRICS_FLUSH_INTERVAL"),
        ("PUSHMETRICS_TAGS_CONSTANT", None),
        ("PUSHMETRICS_SINKS", "PUSHMETRICS_SINK"),
        ("PUSHMETRICS_TEST_STRICT", None),
        ("PUSHMETRICS_LEVEL", None),
    ],
)
def test_a_variable_that_is_misspelt(name: str, meant: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = read(monkeypatch, {name: "core"}).get("variable")

    if meant is None:
        assert finding is None
    else:
        assert finding is not None
        assert finding[:4] == ("variable", f"Nobody reads {name}; did you mean {meant}?", "", "wrong")


def test_the_line_has_the_tags_that_a_reporter_would_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSHMETRICS_CONSTANT_TAGS", "team:a")
    monkeypatch.setenv("DD_ENV", "prod")
    monkeypatch.setenv("DD_AGENT_HOST", "agent")

    environment = read_environment()

    assert environment.suffix == "|#team:a,env:prod"
    assert environment.address == Address("udp", "agent", 8125)
