"""Fixtures for tests that need a real server; a test module names them with `pytest_plugins = ["servers.fixtures"]`."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from conftest import missing

from servers import ServerUnavailableError
from servers.datadog_server import DatadogServer
from servers.etsy_statsd import EtsyStatsd


@pytest.fixture(scope="module")
def datadog_server() -> Iterator[DatadogServer]:
    """Datadog's server, one for all tests of a module: it ships every 10 s only. Names keep the tests apart."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(DatadogServer())
        except ServerUnavailableError as error:
            missing(str(error))
        yield server


@pytest.fixture
def etsy_statsd() -> Iterator[EtsyStatsd]:
    """Etsy's statsd, empty."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(EtsyStatsd())
        except ServerUnavailableError as error:
            missing(str(error))
        yield server
