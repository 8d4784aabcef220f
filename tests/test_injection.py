"""No value, by any path, breaks out of its field: strict parser, and Datadog's own server, read what was meant."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.datadog_server import DatadogServer

from pushmetrics import DogStatsDSink, MeteredSemaphore, PushmetricsError, Registry, Reporter
from pushmetrics.catalog import HEALTH_METRICS, metrics_at
from pushmetrics.dogstatsd import Line, parse
from pushmetrics.tags import constant_tag, limit_tags, metric_namespace

pytest_plugins = ["servers.fixtures"]

POISONS = {
    "newline": "\n",
    "return": "\r",
    "bar": "|",
    "comma": ",",
    "hash": "#",
    "colon": ":",
    "at": "@",
    "percent": "%",
    "percent s": "%s",
    "percent d": "%d",
    "line separator": "\u2028",
    "letter": "é",
    "emoji": "😀",
    "nothing": "",
    "blank": " ",
    "300 letters": "z" * 300,
    "NUL": "\0",
    "surrogate": "\ud800",
    "byte": "\udcff",  # The surrogate by which a variable that is no UTF-8 comes in.
}
FORMS = ("{}", "x{}y", "x{}evil:1|g|#y:z")

ARGUMENTS = ("component", "limit_name", "server", "key", "value", "constant_tags", "namespace")
VARIABLES = (
    "PUSHMETRICS_CONSTANT_TAGS",
    "PUSHMETRICS_NAMESPACE",
    "DATADOG_TAGS",
    "DD_TAGS",
    "DD_ENTITY_ID",
    "DD_ENV",
    "DD_SERVICE",
    "DD_VERSION",
    "DD_EXTERNAL_ENV",
    "DD_CARDINALITY",
    "DATADOG_CARDINALITY",
)
Paths = dict[str, str]
"""What comes in by which path; those that are not named are as usual."""


class Expected(NamedTuple):
    """What must be in every line, and how many warnings have been logged."""

    limit_tags: tuple[str, ...]
    shared_tags: tuple[str, ...]
    namespace: str
    external_data: str | None
    cardinality: str | None
    warnings: int


def expected(paths: Paths) -> Expected:
    """Say what must come of `paths`; raises PushmetricsError where that is the right outcome."""
    own = limit_tags(
        paths.get("component", "model_server"),
        paths.get("limit_name", "requests"),
        paths.get("server", "eu-1"),
        {paths.get("key", "zone"): paths.get("value", "a")},
    )
    constant = [constant_tag(paths["constant_tags"])] if "constant_tags" in paths else []
    read, dropped = tags_from_variables(paths)
    warnings = dropped

    namespace = metric_namespace(paths["namespace"]) if "namespace" in paths else "gym.concurrency"
    if "PUSHMETRICS_NAMESPACE" in paths:
        try:
            namespace = metric_namespace(paths["PUSHMETRICS_NAMESPACE"])
        except PushmetricsError:
            warnings += 1

    external_data = paths.get("DD_EXTERNAL_ENV") or None
    if external_data and (not external_data.isprintable() or "|" in external_data):
        external_data = None
        warnings += 1

    given = [paths[variable] for variable in ("DATADOG_CARDINALITY", "DD_CARDINALITY") if variable in paths]
    good = [value for value in given if value in {"none", "low", "orchestrator", "high"}]
    warnings += given.index(good[0]) if good else len(given)
    return Expected(own, (*constant, *read), namespace, external_data, good[0] if good else None, warnings)


def tags_from_variables(paths: Paths) -> tuple[list[str], int]:
    """Return the tags that variables add, in their order, and how many are dropped."""
    ours, dropped_ours = checked([part.strip() for part in paths.get("PUSHMETRICS_CONSTANT_TAGS", "").split(",")])
    given = paths.get("DATADOG_TAGS", "").split(",")
    # As a key that any tag may have, and as long: what is tested here is the value.
    for key, variable in (
        ("xx.internal.entity_id", "DD_ENTITY_ID"),
        ("env", "DD_ENV"),
        ("service", "DD_SERVICE"),
        ("version", "DD_VERSION"),
    ):
        given += [f"{key}:{paths[variable]}"] if paths.get(variable) else []
    theirs, dropped_theirs = checked(given)
    theirs = [tag.replace("xx.internal.entity_id:", "dd.internal.entity_id:") for tag in theirs]
    return [*dict.fromkeys(ours), *theirs], dropped_ours + dropped_theirs


def checked(tags: list[str]) -> tuple[list[str], int]:
    good = []
    dropped = 0
    for tag in filter(None, tags):
        try:
            good.append(constant_tag(tag))
        except PushmetricsError:
            dropped += 1
    return good, dropped


class Warnings(logging.Handler):
    """Keeps what the package warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    handler = Warnings()
    logger = logging.getLogger("pushmetrics")
    logger.addHandler(handler)
    try:
        yield handler.messages
    finally:
        logger.removeHandler(handler)


async def push(paths: Paths, address: str) -> list[str]:
    """Report a limit of the level "full" with all metrics to `address` once, and return the warnings."""
    registry = Registry()
    with pytest.MonkeyPatch.context() as patch, recorded_warnings() as warnings:
        patch.setenv("DD_ORIGIN_DETECTION_ENABLED", "false")
        for variable in VARIABLES:
            if variable in paths:
                patch.setenv(variable, paths[variable])
        limit = MeteredSemaphore(
            0,
            component=paths.get("component", "model_server"),
            limit_name=paths.get("limit_name", "requests"),
            server=paths.get("server", "eu-1"),
            tags={paths.get("key", "zone"): paths.get("value", "a")},
            admission_timeout=60,
            max_queue_depth=1,
            registry=registry,
        )
        reporter = Reporter(
            registry=registry,
            sink=DogStatsDSink(address, max_datagram_bytes=8192),
            level="full",
            namespace=paths.get("namespace"),
            constant_tags=[paths["constant_tags"]] if "constant_tags" in paths else None,
        )
        async with reporter:
            await reporter.flush()
            waiter = asyncio.create_task(limit.acquire())
            await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
        assert reporter.statistics().failures == {}
        assert reporter.statistics().flushes == 3
    return warnings


@contextmanager
def agent() -> Iterator[tuple[str, list[Line]]]:
    """An address on loopback, and the lines that have come there when the context ends."""
    lines: list[Line] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield f"udp://127.0.0.1:{listening.getsockname()[1]}", lines
        with suppress(BlockingIOError):
            while True:
                read, refused = parse(listening.recv(65536))
                assert refused == []
                lines += read


def can_be_set(value: str) -> bool:
    """Whether the operating system takes `value` for a variable."""
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def lines_that(meant: Expected) -> Counter[Line]:
    """Return all lines of three flushes that are to come, without their values."""
    fields: dict[str, Any] = {"external_data": meant.external_data, "cardinality": meant.cardinality}
    lines: Counter[Line] = Counter()
    for metric in metrics_at("full"):
        name = f"{meant.namespace}.{metric.name}"
        line = Line(name, metric.kind, tags=meant.limit_tags + meant.shared_tags, **fields)
        lines[line] = 1 if metric.kind == "d" else 3
    for metric in HEALTH_METRICS:
        lines[Line(f"pushmetrics.{metric.name}", metric.kind, tags=meant.shared_tags, **fields)] = 3
    return lines


def check(paths: Paths) -> None:
    """Push what comes in by `paths`: it is a clear error, or exactly the lines that are meant arrive."""
    try:
        meant = expected(paths)
    except PushmetricsError as error:
        with pytest.raises(type(error)):
            asyncio.run(push(paths, "udp://127.0.0.1:1"))
        return

    with agent() as (address, arrived):
        warnings = asyncio.run(push(paths, address))

    assert Counter(line._replace(values=()) for line in arrived) == lines_that(meant)
    assert len(warnings) == meant.warnings


def everything(poison: str) -> Paths:
    """`poison` in the middle of every value, by every path that can be taken at once."""
    value = f"x{poison}y"
    paths = dict.fromkeys(["component", "limit_name", "server", "value"], value)
    paths["key"] = value.replace(":", "-")[:100]  # A key with a colon is an error, and so is one without end.
    if can_be_set(value):
        paths |= dict.fromkeys(VARIABLES, value)
    else:
        paths |= {"constant_tags": f"team:{value}", "namespace": value}
    return paths


@pytest.fixture(scope="module")
def judged(datadog_server: DatadogServer) -> DatadogServer:
    """Datadog's server, to which all that is poisoned has been sent, 10 s before it says what it made of it."""
    for poison in POISONS.values():
        asyncio.run(push(everything(poison), f"udp://127.0.0.1:{datadog_server.port}"))
    datadog_server.settle()
    return datadog_server


@pytest.mark.server
def test_datadogs_server_refuses_nothing(judged: DatadogServer) -> None:
    meant = [expected(everything(poison)) for poison in POISONS.values()]

    assert judged.refused == []
    assert judged.errors == []
    assert judged.drops == 0
    assert len(judged.lines) == sum(lines_that(one).total() for one in meant)


@pytest.mark.parametrize("path", ARGUMENTS + VARIABLES)
def test_each_poison_by_each_path(path: str) -> None:
    for poison in POISONS.values():
        for form in FORMS:
            value = form.format(poison)
            if path in ARGUMENTS or can_be_set(value):
                check({path: value})


@pytest.mark.parametrize("poison", POISONS)
def test_each_poison_by_all_paths_at_once(poison: str) -> None:
    check(everything(POISONS[poison]))


text = st.text(max_size=30) | st.text("aZ1_:.,|#@%\n\r\0 é\u2028\ud800", max_size=12)
variable_text = st.text(max_size=30).filter(can_be_set) | st.text("aZ1_:.,|#@%\n\r é\u2028\udcff", max_size=12)


@given(
    st.dictionaries(st.sampled_from(ARGUMENTS), text, max_size=2),
    st.dictionaries(st.sampled_from(VARIABLES), variable_text, max_size=5),
)
def test_any_text_by_any_path(arguments: Paths, variables: Paths) -> None:
    for argument in arguments.keys() & {"namespace", "constant_tags"}:  # They win.
        variables.pop(f"PUSHMETRICS_{argument.upper()}", None)
    check(arguments | variables)


@pytest.mark.parametrize("poison", [*POISONS.values(), "it-false,cn-x,pu-1"])
def test_external_data_never_becomes_another_field(poison: str) -> None:
    """The client copies it as it stands, so a bar in it would begin a field of the receiver's choice."""
    for field in ("#y:z", "card:low", "T1700000000", "@0.5", "c:ci-1", ""):
        value = f"{poison}|{field}"
        if can_be_set(value):
            check({"DD_EXTERNAL_ENV": value})


@pytest.mark.server
def test_datadogs_server_ships_what_was_meant_and_nothing_else(judged: DatadogServer) -> None:
    meant = {
        (line.name, tuple(sorted((key, value) for key, _, value in (tag.partition(":") for tag in set(line.tags)))))
        for poison in POISONS.values()
        for line in lines_that(expected(everything(poison)))
    }

    def shipped(server: DatadogServer) -> set[object]:
        return {*server.gauges(), *server.counts(), *server.distributions()}

    judged.wait_for(lambda server: len(shipped(server)) >= len(meant))

    assert shipped(judged) == meant
