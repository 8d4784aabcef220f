"""The judges tell the truth: what is sent to a server is what its harness reports, and nothing else.

Datadog's server ships 10 s after its start and not before, so the tests of shipped values share one server and one
wait; all the others together take about a second.
"""

import math
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from datadog.dogstatsd.base import DogStatsd

from servers import install, key, rust_debug
from servers.datadog_log import DatadogLog, Distribution, Series, Shipment
from servers.datadog_server import DatadogServer
from servers.etsy_statsd import EtsyStatsd, parse

pytest_plugins = ["servers.fixtures"]

LINES = [
    "hand.gauge:1|g|#b:2,a:1",
    "hand.gauge:7.5|g|#a:1,b:2",
    "hand.count:2|c|#a:1",
    "hand.count:0.5|c|#a:1|c:ci-0123|e:it-false,cn-app|card:low",
    "hand.other:3|c|#a:2|card:none",
    'hand.quoted:1|g|#a:say_"yes",url:x:y/z',
    "hand.bare:1|g",
    "hand.flag:1|g|#production",
    "hand.distribution:4|d|#a:1",
    "hand.distribution:2.5|d|#a:1|c:ci-0123|card:high",
    "hand.before:8|g|#a:1|T1700000001",
]
REFUSED = ["hand.no_value", "hand.kind:1|q|#a:1", "hand.number:x|g|#a:1", "hand.histogram:1|h|#a:1"]


def send(port: int, *datagrams: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for datagram in datagrams:
            client.sendto(datagram.encode(), ("127.0.0.1", port))


def official_client(port: int) -> DogStatsd:
    return DogStatsd("127.0.0.1", port, disable_telemetry=True, disable_buffering=True, origin_detection_enabled=False)


@pytest.fixture(scope="module")
def sent(datadog_server: DatadogServer) -> DatadogServer:
    """The server, after it was sent the lines one by one, the bad ones in one datagram, and some by the client."""
    send(datadog_server.port, *LINES, "\n".join(REFUSED), "hand.last:1|c\n")
    client = official_client(datadog_server.port)
    client.gauge("client.gauge", 3, tags=["a:1", "b:2"], cardinality="low")
    client.increment("client.count", 4, tags=["a:1"])
    client.increment("client.count", tags=["a:1"])
    client.distribution("client.distribution", 1.5)
    client.close_socket()
    datadog_server.settle()
    return datadog_server


@pytest.fixture(scope="module")
def shipment(sent: DatadogServer) -> Shipment:
    return sent.shipped()


@pytest.mark.server
class TestDatadogServer:
    """Datadog's own server."""

    def test_datagrams_are_reported_verbatim_and_in_order(self, sent: DatadogServer) -> None:
        assert sent.received == [
            *LINES,
            "\n".join(REFUSED),
            "hand.last:1|c\n",
            "client.gauge:3|g|#a:1,b:2|card:low\n",
            "client.count:4|c|#a:1\n",
            "client.count:1|c|#a:1\n",
            "client.distribution:1.5|d\n",
        ]
        assert sent.seen == len(sent.received)
        assert sent.lines[len(LINES) : -4] == [*REFUSED, "hand.last:1|c"]

    def test_refused_lines_are_named_and_nothing_else_is_wrong(self, sent: DatadogServer) -> None:
        assert sent.refused == REFUSED
        assert sent.errors == []
        assert sent.drops == 0

    def test_a_gauge_is_shipped_once_with_its_last_value(self, shipment: Shipment) -> None:
        (gauge,) = [series for series in shipment.series if series.metric == "hand.gauge"]

        assert gauge.kind == "Gauge"
        assert gauge.tags == (("a", "1"), ("b", "2"))
        ((stamp, value),) = gauge.points
        assert value == 7.5
        assert stamp % 10 == 0
        assert 0 <= time.time() - stamp < 60

    @pytest.mark.usefixtures("shipment")
    def test_all_gauges_and_their_tags(self, sent: DatadogServer) -> None:
        assert sent.gauges() == {
            key("hand.gauge", a="1", b="2"): 7.5,
            key("hand.quoted", a='say_"yes"', url="x:y/z"): 1.0,
            key("hand.bare"): 1.0,
            key("hand.flag", production=""): 1.0,
            key("hand.before", a="1"): 8.0,
            key("client.gauge", a="1", b="2"): 3.0,
        }

    @pytest.mark.usefixtures("shipment")
    def test_counts_are_summed_over_the_origin_variants(self, sent: DatadogServer) -> None:
        assert sent.counts() == {
            key("hand.count", a="1"): 2.5,
            key("hand.other", a="2"): 3.0,
            key("hand.last"): 1.0,
            key("client.count", a="1"): 5.0,
        }

    @pytest.mark.usefixtures("shipment")
    def test_distributions(self, sent: DatadogServer) -> None:
        assert sent.distributions() == {
            key("hand.distribution", a="1"): Distribution("hand.distribution", (("a", "1"),), 2, 2.5, 4.0, 6.5),
            key("client.distribution"): Distribution("client.distribution", (), 1, 1.5, 1.5, 1.5),
        }

    def test_a_timestamp_is_kept_to_its_bucket(self, shipment: Shipment) -> None:
        (series,) = [series for series in shipment.series if series.metric == "hand.before"]

        assert series.points == ((1700000000, 8.0),)

    def test_waiting_in_vain_tells_what_was_seen(self, sent: DatadogServer) -> None:
        with pytest.raises(AssertionError, match=r"not within 0\.01 s; datagrams: \d+, .*refused: "):
            sent.wait_for(lambda server: "never" in server.lines, timeout=0.01)

    def test_waiting_ends_when_the_line_comes(self) -> None:
        with DatadogServer() as server:
            timer = threading.Timer(0.05, send, (server.port, "late:1|g"))
            timer.start()

            assert server.wait_for(lambda server: server.lines, timeout=5) == ["late:1|g"]

            timer.join()

    def test_a_datagram_that_is_no_text_is_an_error_and_the_server_lives(self) -> None:
        with DatadogServer() as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"hand.\xff:1|g", ("127.0.0.1", server.port))
            client.sendto(b"hand.after:1|g", ("127.0.0.1", server.port))
            server.settle()

            assert server.received == ["hand.after:1|g"]
            assert "non-UTF-8" in server.errors[0]

    def test_what_is_no_longer_kept_is_not_passed_off_as_all(self) -> None:
        with DatadogServer(keep=2) as server:
            send(server.port, "a:1|g", "b:1|g", "c:1|g")
            server.settle()

            assert server.seen == 3
            with pytest.raises(AssertionError, match="3 datagrams came"):
                server.received  # noqa: B018 - reading it is what fails

    def test_a_server_that_died_ends_the_wait(self) -> None:
        with DatadogServer() as server:
            server._running().kill()

            with pytest.raises(AssertionError, match="the server has ended"):
                server.wait_for(lambda server: server.received, timeout=30)

    def test_stopping_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        before = descriptors(), threading.active_count()

        with DatadogServer() as server:
            send(server.port, "a:1|g")
            server.settle()

        assert server.received == ["a:1|g"]
        assert (descriptors(), threading.active_count()) == before
        assert list(tmp_path.iterdir()) == []
        assert server._running().returncode is not None


@pytest.mark.server
class TestEtsyStatsd:
    """The StatsD server that the others come from."""

    def test_gauges_keep_the_last_value_of_each_set_of_tags(self, etsy_statsd: EtsyStatsd) -> None:
        send(etsy_statsd.port, "g:1|g|#b:2,a:1", "g:7.5|g|#a:1,b:2\ng:0|g|#a:2", "plain:3|g", "g.u:1|g|#url:x:y/z-é")

        # The order of tags counts here. Both of the first two end up under one key, the later one wins.
        assert etsy_statsd.gauges() == {
            key("g", a="1", b="2"): 7.5,
            key("g", a="2"): 0.0,
            key("plain"): 3.0,
            key("g.u", url="x:y/z-é"): 1.0,
        }
        assert etsy_statsd.counters() == {}

    def test_counters_are_totals(self, etsy_statsd: EtsyStatsd) -> None:
        send(etsy_statsd.port, "c:2|c|#a:1", "c:0.5|c|#a:1", "c:1|c|@0.1")
        assert etsy_statsd.counters() == {key("c", a="1"): 2.5, key("c"): 10.0}

        send(etsy_statsd.port, "c:4|c|#a:1")
        assert etsy_statsd.counters() == {key("c", a="1"): 6.5, key("c"): 10.0}

    def test_what_it_does_not_know(self, etsy_statsd: EtsyStatsd) -> None:
        send(etsy_statsd.port, "o:1|g|#a:1|card:low", "d:4|d|#a:1", "d:2|d|#a:1")

        assert etsy_statsd.gauges() == {key("o", a="1|card:low"): 1.0}
        assert etsy_statsd.counters() == {key("d", a="1"): 6.0}

    def test_a_bad_line_is_counted_and_named(self, etsy_statsd: EtsyStatsd) -> None:
        send(etsy_statsd.port, "good:1|g\nbad:x|g|#a:1\nworse")

        assert etsy_statsd.gauges() == {key("good"): 1.0}
        assert etsy_statsd.stats()["messages.bad_lines_seen"] == 2
        assert etsy_statsd.refused == ["bad:x|g|#a:1", "worse"]

    def test_the_official_client(self, etsy_statsd: EtsyStatsd) -> None:
        client = official_client(etsy_statsd.port)
        client.gauge("g", 3, tags=["a:1", "b:2"])
        client.increment("c", 4, tags=["a:1"])
        client.close_socket()

        assert etsy_statsd.gauges() == {key("g", a="1", b="2"): 3.0}
        assert etsy_statsd.counters() == {key("c", a="1"): 4.0}

    def test_many_series(self, etsy_statsd: EtsyStatsd) -> None:
        for start in range(0, 5000, 50):
            send(etsy_statsd.port, "\n".join(f"m:{n}|g|#n:{n}" for n in range(start, start + 50)))
            if start % 1000 == 0:
                etsy_statsd.settle()

        assert etsy_statsd.drops == 0
        assert etsy_statsd.gauges() == {key("m", n=str(n)): float(n) for n in range(5000)}

    @pytest.mark.usefixtures("etsy_statsd")  # where there is none, this is skipped with it
    def test_stopping_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        before = descriptors(), threading.active_count()

        with EtsyStatsd() as server:
            send(server.port, "a:1|g")
            assert server.gauges() == {key("a"): 1.0}

        assert (descriptors(), threading.active_count()) == before
        assert list(tmp_path.iterdir()) == []


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class TestInstall:
    """What the command says where it cannot install."""

    @pytest.mark.parametrize(("strict", "status"), [("", 0), ("0", 0), ("1", 1)])
    def test_without_node_the_reason_is_named(self, tmp_path: Path, strict: str, status: int) -> None:
        environment = {
            "PATH": str(tmp_path),
            "PUSHMETRICS_STATSD_DIR": str(tmp_path / "statsd"),
            "PUSHMETRICS_TEST_STRICT": strict,
        }

        finished = subprocess.run(
            [sys.executable, install.__file__], env=environment, capture_output=True, text=True, check=False, timeout=30
        )

        assert finished.returncode == status
        assert finished.stderr == "statsd 0.9.0 not installed: node and npm not found on PATH; install Node.js\n"
        assert list(tmp_path.iterdir()) == []

    def test_another_version_is_not_taken_for_ours(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PUSHMETRICS_STATSD_DIR", str(tmp_path))
        package = tmp_path / "node_modules" / "statsd"
        package.mkdir(parents=True)
        assert install.program() is None

        (package / "package.json").write_text('{"version": "0.8.6"}')
        assert install.program() is None

        (package / "package.json").write_text('{"version": "0.9.0"}')
        assert install.program() == package / "stats.js"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-2.5", -2.5),
        ("1e300", 1e300),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("None", None),
        ("Some(Gauge)", "Gauge"),
        ("Wrapper(true, 1)", (True, 1)),
        ("[]", []),
        ('["a, b", "]"]', ["a, b", "]"]),
        (r'"\"\\\n\u{1b}\'é"', "\"\\\n\x1b'é"),
        ("Point { x: 1.0, y: Some(Inner { z: [1, 2] }) }", {"x": 1.0, "y": {"z": [1, 2]}}),
        ('{"a": 1, "b": Empty {}}', {"a": 1, "b": {}}),
        ("(1, Kind::Other)", (1, "Kind::Other")),
    ],
)
def test_rust_debug_output_is_understood(text: str, value: Any) -> None:
    assert rust_debug.parse(text) == value


@pytest.mark.parametrize("text", ["", "[1", "Point { x }", '"open', "1 2", "{1: }", "[1 2]", "]", '{"a" "b"}'])
def test_what_is_no_rust_debug_output_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not Rust debug output"):
        rust_debug.parse(text)


LOG = b"""\
DEBUG datadog_serverless_compat: Starting dogstatsd
 INFO datadog_serverless_compat: dogstatsd-udp: starting to listen on port 0
TRACE dogstatsd::dogstatsd: Received message: a:1|g
b:1|c
 from 127.0.0.1:4000
TRACE dogstatsd::dogstatsd: Received message: c:1|h|# from x: y from 127.0.0.1:4000
DEBUG dogstatsd::dogstatsd: Unsupported metric type: c:1|h|# from x: y. unsupported metric type: h
TRACE dogstatsd::dogstatsd: Received message: harness.mark:3|d from 127.0.0.1:4001
DEBUG dogstatsd::flusher: Flushing 1 series and 1 distributions
TRACE dogstatsd::datadog::shipping: Sending distributions: SketchPayload { sketches: [\
Sketch { metric: "harness.mark", tags: [], dogsketches: [Dogsketch { cnt: 1, min: 3.0, max: 3.0, sum: 3.0 }] }] }
TRACE dogstatsd::datadog::shipping: Sending body: Series { series: [Metric { metric: "b", points: [\
Point { timestamp: 1700000000, value: 1.0 }], resources: [], kind: Count, tags: ["origin:azurespringapp"] }] }
ERROR dogstatsd::flusher: Error shipping data: None Failed to send request after 3 attempts
ERROR dogstatsd::flusher: Failed to flush some metrics due to shipping errors: 1 series and 1 sketches
 WARN dogstatsd::aggregator::service: Failed to insert metric 'x': Overflow
"""


@pytest.mark.parametrize("size", [1, 7, 100, len(LOG)])
def test_the_log_is_understood_however_it_is_cut(size: int) -> None:
    log = DatadogLog(keep=10)

    for start in range(0, len(LOG), size):
        log.feed(LOG[start : start + size])

    assert log.listening
    assert list(log.received) == ["a:1|g\nb:1|c\n", "c:1|h|# from x: y"]
    assert list(log.refused) == ["c:1|h|# from x: y"]
    assert list(log.errors) == ["Failed to insert metric 'x': Overflow"]
    assert log.shipments == [Shipment(series=(Series("b", "Count", ((1700000000, 1.0),), ()),))]
    assert (log.mark_received, log.mark_shipped, log.unseen_batches) == (3, 3, 0)


def test_shipments_add_up() -> None:
    one = ("a", "1")
    early = Shipment(
        (
            Series("count", "Count", ((10, 1.0), (20, 2.0)), (one,)),
            Series("gauge", "Gauge", ((20, 5.0),), (one,)),
            Series("gauge", "Gauge", ((10, 4.0),), (one,)),
            Series("late", "Gauge", ((20, 1.0),), ()),
        ),
        (Distribution("wait", (one,), 2, 1.0, 3.0, 4.0),),
    )
    late = Shipment(
        (
            Series("count", "Count", ((20, 4.0),), (one,)),
            Series("count", "Count", ((20, 8.0),), ()),
            Series("late", "Gauge", ((20, 2.0),), ()),
        ),
        (Distribution("wait", (one,), 1, 9.0, 9.0, 9.0),),
    )

    total = early + late

    assert total.counts() == {key("count", a="1"): 7.0, key("count"): 8.0}
    assert total.gauges() == {key("gauge", a="1"): 5.0, key("late"): 2.0}
    assert total.distributions() == {key("wait", a="1"): Distribution("wait", (one,), 3, 1.0, 9.0, 13.0)}


def test_batches_that_the_log_does_not_show_are_counted() -> None:
    log = DatadogLog(keep=10)

    log.feed(LOG.replace(b"Flushing 1 series", b"Flushing 3 series"))

    assert log.unseen_batches == 2


def test_a_panic_of_the_server_is_an_error() -> None:
    log = DatadogLog(keep=10)

    log.feed(LOG + b"\nthread 'tokio-runtime-worker' panicked at src/main.rs:1:2:\nno\n")

    assert "panicked at src/main.rs" in log.errors[-1]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("{}", {}),
        ("{ a: 1 }", {"a": 1.0}),
        ("{\n  'a.b': 1,\n  \"it's\": -2.5,\n  'b;k=v, w': 1e+21,\n  c: NaN\n}", {"a.b": 1.0, "it's": -2.5}),
    ],
)
def test_what_node_prints_is_understood(text: str, numbers: dict[str, float]) -> None:
    parsed = parse(text)

    assert {name: parsed[name] for name in numbers} == numbers
    assert len(parsed) == text.count(": ")


@pytest.mark.parametrize("text", ["", "{ a: 1", "{ a: [ 1 ] }", "{ a: 1 b: 2 }", "{ 'a: 1 }"])
def test_what_node_does_not_print_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse(text)
