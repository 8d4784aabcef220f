"""NeMo Gym: the limits of its servers, of its sandbox providers, and of the programs that drive it.

Made for nemo-gym 0.7.0. Servers are programs of their own whose classes are in ``__main__``, so what is hooked is what
they all inherit. Nothing is reported until a server's lifespan starts: with several workers each of them builds the
server twice, and their parent builds one that never serves.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from types import ModuleType
from typing import Any, NamedTuple
from weakref import WeakSet

from ..redaction import shown
from .adoption import adopt
from .reporting import Reporting

logger = logging.getLogger("pushmetrics")

COMPONENTS = {
    "SimpleResponsesAPIAgent": "agent_server",
    "SimpleResponsesAPIModel": "model_server",
    "SimpleResourcesServer": "resources_server",
    "BaseEnvironmentServer": "environment_server",
}
"""By the class that a server inherits."""

LIMIT_NAMES = {
    ("model_server", "_semaphore"): "upstream_requests",
    ("environment_server", "_admission"): "episodes",
    ("resources_server", "_library_verifier_semaphore"): "library_verifier",
}
"""Better names than the one of the attribute."""

UPSTREAM_TIMEOUT = "upstream_pool_timeout_seconds"


class Serving(NamedTuple):
    """A server of this process whose lifespan has started."""

    name: str
    reporting: Reporting


_serving: list[Serving] = []
_providers: WeakSet[Any] = WeakSet()
_driving: ContextVar[Reporting] = ContextVar("pushmetrics_driving")


def meter_servers(module: ModuleType) -> None:
    """Hook ``nemo_gym.server_utils``: report a server's limits while it serves."""
    server_class = module.SimpleServer
    # The last of the steps that prepare the application, and none that a server has of its own.
    setup = server_class.setup_cancellation_middleware

    @functools.wraps(setup)
    def setup_and_report(self: Any, app: Any) -> None:
        setup(self, app)
        app.router.lifespan_context = _reporting_lifespan(self, app.router.lifespan_context)

    server_class.setup_cancellation_middleware = setup_and_report


def meter_sandbox_providers(module: ModuleType) -> None:
    """Hook ``nemo_gym.sandbox.providers.registry``: report the limits of the providers that a server makes."""
    create = module.create_provider

    @functools.wraps(create)
    def create_and_report(config: Any) -> Any:
        provider = create(config)
        with suppress(Exception):  # Of a provider's own: it need not be hashable, or referenced weakly.
            _providers.add(provider)
        if _serving:
            _report_provider(provider, _serving[-1])
        return provider

    module.create_provider = create_and_report  # type: ignore[attr-defined]  # Of that module.


def meter_rollouts(module: ModuleType) -> None:
    """Hook ``nemo_gym.rollout_collection``: report how many rollouts the driver has under way."""
    _meter_driver(module, module.RolloutCollectionHelper, "rollouts")


def meter_reverifications(module: ModuleType) -> None:
    """Hook ``nemo_gym.rollout_reverification``: report how many reverifications the driver has under way."""
    _meter_driver(module, module.RolloutReverificationHelper, "reverifications")


def _meter_driver(module: Any, helper: Any, limit_name: str) -> None:
    """Report the semaphore that ``run_from_config`` makes for itself, from the module's global `Semaphore`."""
    make = module.Semaphore
    run = helper.run_from_config

    def make_and_report(value: int = 1) -> Any:
        semaphore = make(value)
        reporting = _driving.get(None)
        if reporting is not None:
            _report(semaphore, reporting, component="rollout_driver", limit_name=limit_name)
        return semaphore

    @functools.wraps(run)
    async def run_and_report(self: Any, config: Any) -> Any:
        async with Reporting() as reporting:
            token = _driving.set(reporting)
            try:
                return await run(self, config)
            finally:
                _driving.reset(token)

    module.Semaphore = make_and_report
    helper.run_from_config = run_and_report


def _reporting_lifespan(server: Any, lifespan: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a lifespan around `lifespan`, which reports the server's limits from its start to its end."""

    @asynccontextmanager
    async def reporting_lifespan(app: Any) -> AsyncIterator[Any]:
        async with lifespan(app) as state, Reporting() as reporting:
            serving = Serving(server.config.name, reporting)
            _serving.append(serving)
            try:
                try:
                    _report_server(server, serving)
                except Exception as error:  # noqa: BLE001 - the program runs on, whatever it is
                    _warn(f"Not all limits of {serving.name} are reported: {error!r}.")
                yield state
            finally:
                _serving.remove(serving)

    return reporting_lifespan


def _report_server(server: Any, serving: Serving) -> None:
    component = next(
        (COMPONENTS[base.__name__] for base in type(server).__mro__ if base.__name__ in COMPONENTS), "server"
    )
    for attribute, value in _attributes(server):
        limit_name = LIMIT_NAMES.get((component, attribute), attribute.strip("_"))
        settings: dict[str, Any] = {"component": component, "limit_name": limit_name, "server": serving.name}
        if limit_name == "upstream_requests":
            settings["admission_timeout"] = _upstream_timeout(server)
        elif limit_name == "episodes":
            settings["admission_timeout"] = server.config.queue_timeout_seconds
        reported = _report(value, serving.reporting, **settings)
        if reported and limit_name == "episodes":
            # The semaphore has the time-out now. nemo-gym's own, around acquire(), would make a cancellation of it.
            server.config.queue_timeout_seconds = None
        if any(value is provider for provider in _providers):
            _report_provider(value, serving)


def _report_provider(provider: Any, serving: Serving) -> None:
    name = getattr(type(provider), "name", None)
    tags = {"provider": name if isinstance(name, str) else type(provider).__name__}
    for attribute, value in _attributes(provider):
        _report(
            value,
            serving.reporting,
            component="sandbox_provider",
            limit_name=attribute.strip("_"),
            server=serving.name,
            tags=tags,
        )


def _report(value: object, reporting: Reporting, **settings: Any) -> bool:
    """Report `value` if it is a semaphore that can be adopted; return whether it is."""
    try:
        limit = adopt(value, **settings)
        if limit is not None:
            reporting.add(limit)
    except Exception as error:  # noqa: BLE001 - the program runs on, whatever it is
        _warn(f"The limit {settings['component']} {settings['limit_name']} is not reported: {error!r}.")
        return False
    return limit is not None


@functools.cache
def _warn(message: str) -> None:
    """Say it once."""
    logger.warning("%s", message)


def _attributes(owner: Any) -> list[tuple[str, object]]:
    """Return what an object has of its own, what pydantic keeps elsewhere included."""
    found: dict[str, object] = dict(getattr(owner, "__dict__", {}))
    for more in ("__pydantic_extra__", "__pydantic_private__"):
        found |= getattr(owner, more, None) or {}
    return list(found.items())


def _upstream_timeout(server: Any) -> float | None:
    """Return the seconds that an upstream request may wait, which nemo-gym 0.7.0 drops from the server's settings."""
    kinds = server.server_client.global_config_dict[server.config.name]
    settings = next(iter(next(iter(kinds.values())).values()))
    given = settings.get(UPSTREAM_TIMEOUT)
    if given is None or (type(given) in (int, float) and 0 <= given < math.inf):
        return given  # type: ignore[no-any-return]  # Of a settings object that takes anything.
    _warn(f"{UPSTREAM_TIMEOUT} of {server.config.name} is ignored: expected seconds of at least 0, got {shown(given)}.")
    return None
