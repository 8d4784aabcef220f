"""The integration with NeMo Gym at its edges, on objects of the same shape. `tests/fleet` has the real ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pushmetrics import MeteredSemaphore
from pushmetrics.integrations import nemo_gym
from pushmetrics.integrations.reporting import registry


@pytest.fixture(autouse=True)
def _switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSHMETRICS_ENABLED", "0")  # What is registered counts here, not what is sent.


@pytest.fixture
def server_class() -> type:
    """`SimpleServer`, as the integration leaves it."""

    class SimpleServer:
        def __init__(self, settings: dict[str, Any] | None = None, **attributes: Any) -> None:
            self.config = SimpleNamespace(name="my_server", queue_timeout_seconds=1.5)
            blocks = {"my_server": {"responses_api_models": {"openai_model": settings or {}}}}
            self.server_client = SimpleNamespace(global_config_dict=blocks)
            vars(self).update(attributes)

        def setup_cancellation_middleware(self, app: Any) -> None:
            app.prepared = True

    module = ModuleType("nemo_gym.server_utils")
    module.SimpleServer = SimpleServer  # type: ignore[attr-defined]  # A module of the same shape.
    nemo_gym.meter_servers(module)
    return SimpleServer


def kind(server_class: type, base: str) -> type:
    """A server that inherits one of nemo-gym's kinds."""
    return type("Server", (type(base, (server_class,), {}),), {})


@asynccontextmanager
async def served(server: Any) -> AsyncIterator[Any]:
    """Serve as nemo-gym does: prepare an application, and run its lifespan."""

    @asynccontextmanager
    async def own(_: Any) -> AsyncIterator[str]:
        yield "the server's own state"

    app = SimpleNamespace(router=SimpleNamespace(lifespan_context=own))
    server.setup_cancellation_middleware(app)
    assert app.prepared
    async with app.router.lifespan_context(app) as state:
        assert state == "the server's own state"
        yield app


async def test_a_limit_is_metered_while_the_server_serves(server_class: type) -> None:
    semaphore = asyncio.Semaphore(4)
    server = kind(server_class, "SimpleResourcesServer")(_judge_semaphore=semaphore, _lock=asyncio.Lock(), number=1)
    assert type(semaphore) is asyncio.Semaphore

    async with served(server):
        assert isinstance(server._judge_semaphore, MeteredSemaphore)
        assert server._judge_semaphore in registry
        assert semaphore.tags == ("component:resources_server", "limit_name:judge_semaphore", "server:my_server")

    assert semaphore not in registry


@pytest.mark.parametrize(
    ("base", "attribute", "component", "limit_name"),
    [
        ("SimpleResponsesAPIModel", "_semaphore", "model_server", "upstream_requests"),
        ("BaseEnvironmentServer", "_admission", "environment_server", "episodes"),
        ("SimpleResourcesServer", "_library_verifier_semaphore", "resources_server", "library_verifier"),
        ("SimpleResourcesServer", "_semaphore", "resources_server", "semaphore"),
        ("SimpleResponsesAPIAgent", "sem", "agent_server", "sem"),
        ("OfNoKind", "_slots", "server", "slots"),
    ],
)
async def test_the_names(server_class: type, base: str, attribute: str, component: str, limit_name: str) -> None:
    semaphore = asyncio.Semaphore(1)

    async with served(kind(server_class, base)(**{attribute: semaphore})):
        assert semaphore.tags[:2] == (f"component:{component}", f"limit_name:{limit_name}")


@pytest.mark.parametrize("where", ["__pydantic_private__", "__pydantic_extra__"])
async def test_what_pydantic_keeps_elsewhere_is_found(server_class: type, where: str) -> None:
    semaphore = asyncio.Semaphore(1)

    async with served(kind(server_class, "SimpleResponsesAPIAgent")(**{where: {"_sem": semaphore}})):
        assert semaphore in registry


@pytest.mark.parametrize(("given", "timeout"), [(0.5, 0.5), (2, 2.0), (None, None)])
async def test_the_upstream_time_out_is_the_admissions(server_class: type, given: object, timeout: object) -> None:
    semaphore = asyncio.Semaphore(1)
    settings = {"upstream_pool_timeout_seconds": given}

    async with served(kind(server_class, "SimpleResponsesAPIModel")(settings, _semaphore=semaphore)):
        assert semaphore.admission_timeout == timeout


@pytest.mark.parametrize("given", [-1, float("nan"), float("inf"), "soon", True])
async def test_a_bad_upstream_time_out_is_none_and_a_warning(
    server_class: type, given: object, caplog: pytest.LogCaptureFixture
) -> None:
    semaphore = asyncio.Semaphore(1)
    settings = {"upstream_pool_timeout_seconds": given}

    async with served(kind(server_class, "SimpleResponsesAPIModel")(settings, _semaphore=semaphore)):
        assert semaphore.admission_timeout is None
        assert semaphore in registry
    assert f"upstream_pool_timeout_seconds of my_server is ignored: expected seconds of at least 0, got {given!r}." in (
        record.getMessage() for record in caplog.records
    )


async def test_the_time_out_of_episodes_moves_into_the_semaphore(server_class: type) -> None:
    semaphore = asyncio.Semaphore(1)
    server = kind(server_class, "BaseEnvironmentServer")(_admission=semaphore)

    async with served(server):
        assert semaphore.admission_timeout == 1.5
        assert server.config.queue_timeout_seconds is None


async def test_without_a_limit_the_time_out_of_episodes_stays(server_class: type) -> None:
    server = kind(server_class, "BaseEnvironmentServer")(_admission=None)

    async with served(server):
        assert server.config.queue_timeout_seconds == 1.5


async def test_a_server_that_we_do_not_understand_serves(server_class: type, caplog: pytest.LogCaptureFixture) -> None:
    server = kind(server_class, "SimpleResponsesAPIModel")(_semaphore=asyncio.Semaphore(1))
    server.server_client = None

    async with served(server):
        await server._semaphore.acquire()

    assert "Not all limits of my_server are reported: AttributeError" in caplog.text


@pytest.fixture
def create_provider() -> Any:
    """`create_provider` of the sandboxes, as the integration leaves it."""
    module = ModuleType("nemo_gym.sandbox.providers.registry")
    module.create_provider = SimpleProvider  # type: ignore[attr-defined]  # Of the same shape.
    nemo_gym.meter_sandbox_providers(module)
    return module.create_provider


class SimpleProvider:
    name = "local"

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore


async def test_a_provider_is_metered_by_the_server_that_uses_it(server_class: type, create_provider: Any) -> None:
    held, of_a_twin, made_later = (create_provider(asyncio.Semaphore(1)) for _ in range(3))
    server = kind(server_class, "SimpleResponsesAPIAgent")(_provider=held)

    async with served(server):
        made_later = create_provider(asyncio.Semaphore(1))
        for provider in (held, made_later):
            assert provider._semaphore in registry
            assert provider._semaphore.tags == (
                "component:sandbox_provider",
                "limit_name:semaphore",
                "server:my_server",
                "provider:local",
            )
        assert type(of_a_twin._semaphore) is asyncio.Semaphore

    assert made_later._semaphore not in registry


async def test_providers_that_share_a_semaphore_still_do(server_class: type, create_provider: Any) -> None:
    shared = asyncio.Semaphore(1)
    async with served(kind(server_class, "SimpleResponsesAPIAgent")()):
        first, second = create_provider(shared), create_provider(shared)

        assert first._semaphore is second._semaphore is shared
        async with first._semaphore:
            assert second._semaphore.locked()


async def test_a_provider_that_can_not_be_named_works_and_is_said_once(
    server_class: type, create_provider: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimpleProvider, "name", "***")
    monkeypatch.setattr(SimpleProvider, "__hash__", None)
    async with served(kind(server_class, "SimpleResponsesAPIAgent")()):
        for _ in range(3):
            async with create_provider(asyncio.Semaphore(1))._semaphore:
                pass

    (record,) = caplog.records
    assert "The limit sandbox_provider semaphore is not reported: InvalidValueError" in record.getMessage()


@pytest.fixture
def driver() -> Any:
    """`rollout_collection`, as the integration leaves it."""
    module: Any = ModuleType("nemo_gym.rollout_collection")
    module.Semaphore = asyncio.Semaphore

    class RolloutCollectionHelper:
        async def run_from_config(self, config: Any) -> Any:
            return await config(module.Semaphore(3))

    module.RolloutCollectionHelper = RolloutCollectionHelper
    nemo_gym.meter_rollouts(module)
    return module


async def test_the_drivers_semaphore_is_metered_while_it_drives(driver: Any) -> None:
    async def drive(semaphore: Any) -> Any:
        assert semaphore in registry
        assert (semaphore.limit, semaphore.tags) == (3, ("component:rollout_driver", "limit_name:rollouts"))
        await semaphore.acquire()
        return semaphore

    left = await driver.RolloutCollectionHelper().run_from_config(drive)

    assert left not in registry  # Although a slot is in use: nothing is left on a dashboard.


async def test_elsewhere_it_is_as_it_was(driver: Any) -> None:
    assert type(driver.Semaphore(3)) is asyncio.Semaphore


async def test_what_the_driver_raises_is_raised(driver: Any) -> None:
    async def drive(_: Any) -> None:
        raise KeyError("no such agent")

    with pytest.raises(KeyError, match="no such agent"):
        await driver.RolloutCollectionHelper().run_from_config(drive)
