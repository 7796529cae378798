"""Servers and poolers that the tests of this folder share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from . import on_citus
from .servers import Postgres, postgres


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that hangs fails in time."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(150))


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A PostgreSQL server."""
    with postgres() as server:
        yield server


@pytest.fixture
def database(server: Postgres) -> str:
    """The name of an empty database of the server."""
    return server.create()


@pytest.fixture(scope="session")
def coordinator() -> Iterator[str]:
    """The URL of the coordinator of a Citus cluster."""
    if not on_citus.COMMAND.is_file():
        pytest.skip(
            "AGENTMEM_CITUS names no command that starts a cluster, and shared/citus beside the project has none"
        )
    with on_citus.cluster() as coordinator:
        yield coordinator


@pytest.fixture
def needs_pgbouncer() -> None:
    if shutil.which("pgbouncer") is None:
        pytest.skip("PgBouncer is not installed")


@pytest.fixture
def needs_pgpool() -> None:
    if shutil.which("pgpool") is None:
        pytest.skip("pgpool is not installed")
