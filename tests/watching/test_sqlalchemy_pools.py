"""SQLAlchemy's pools, with connections to SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy
from collected import only, watching
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool, QueuePool

from pushmetrics import PushmetricsError


def engine_of(folder: Path, **options: object) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(f"sqlite:///{folder}/small.db", poolclass=QueuePool, **options)


def test_connections_that_are_checked_out(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, pool_size=2, max_overflow=1)
    assert isinstance(engine.pool, QueuePool)
    registries = watching(engine.pool), watching(engine)
    with engine.connect(), engine.connect(), engine.connect():
        full = [only(registry) for registry in registries]
        assert engine.pool.checkedout() == 3
    idle = [only(registry) for registry in registries]
    engine.dispose()

    assert full == [{"limit": 3, "active": 3, "available": 0}] * 2
    assert idle == [{"limit": 3, "active": 0, "available": 3}] * 2


@pytest.mark.parametrize("options", [{"pool_size": 0}, {"max_overflow": -1}])
def test_no_limit_is_none(tmp_path: Path, options: dict[str, int]) -> None:
    engine = engine_of(tmp_path, **options)
    with engine.connect():
        assert only(watching(engine)) == {"active": 1}
    engine.dispose()


def test_an_engine_is_followed_to_its_next_pool(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, pool_size=2, max_overflow=0)
    registry, pool = watching(engine), engine.pool
    old = watching(pool)
    with engine.connect():
        engine.dispose()
        with engine.connect():
            assert only(registry) == {"limit": 2, "active": 1, "available": 1}
    assert only(old) == {"limit": 2, "active": 0, "available": 2}, "where its own count is -1"
    pool.dispose()
    engine.dispose()


async def test_an_asynchronous_engine_is_its_pool_too(tmp_path: Path) -> None:
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{tmp_path}/small.db", poolclass=AsyncAdaptedQueuePool, pool_size=2, max_overflow=0
    )
    registry = watching(engine)
    async with engine.connect():
        assert only(registry) == {"limit": 2, "active": 1, "available": 1}
    assert only(registry) == {"limit": 2, "active": 0, "available": 2}
    await engine.dispose()


def test_a_pool_that_limits_nothing_can_not_be_watched(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/small.db", poolclass=NullPool)

    with pytest.raises(PushmetricsError, match="NullPool, and only a QueuePool"):
        watching(engine)
