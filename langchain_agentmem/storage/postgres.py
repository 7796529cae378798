"""PostgreSQL: the same memory for many machines. Needs the extra `[postgres]`.

Everything lives in a schema of its own, `agentmem`, so that a database can be shared with an application.
Connections come from a pool. An operation that loses a race (a serialization failure, a deadlock, a branch
that moved) is run again from its first line.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from langchain_agentmem.errors import (
    AgentMemoryError,
    BranchMoved,
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnreadable,
    ForeignDatabase,
    InvalidInput,
    MemoryClosed,
    MissingExtra,
    StorageError,
)
from langchain_agentmem.storage import migrations
from langchain_agentmem.storage.engine import Engine
from langchain_agentmem.storage.queries import for_psycopg, load
from langchain_agentmem.storage.steps import Operation, Rows, Statement, drive

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.rows import DictRow, dict_row
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError as error:
    raise MissingExtra("A PostgreSQL database", "postgres") from error

T = TypeVar("T")

SCHEMA = "agentmem"
POOL_SIZE = 10
RETRIES = 100
RETRIES_OF_CONSTRAINTS = 5
_ADVISORY_LOCK = 0x41474D45


class _ConnectionLostError(psycopg.OperationalError):
    """The connection broke before the commit, as after a restart of the server: nothing was written."""


_RETRIED = (BranchMoved, _ConnectionLostError, pg.SerializationFailure, pg.DeadlockDetected, psycopg.IntegrityError)
"""What another transaction may cause: the operation begins again and finds the new state. A constraint is broken when
content was collected by one transaction between being found and being named by another."""

_ERRORS: tuple[tuple[type[Exception], type[StorageError]], ...] = (
    (pg.ReadOnlySqlTransaction, DatabaseReadOnly),
    (pg.InsufficientPrivilege, DatabaseReadOnly),
    (pg.DiskFull, DatabaseFull),
    (pg.LockNotAvailable, DatabaseBusy),
    (pg.QueryCanceled, DatabaseBusy),
    (PoolTimeout, DatabaseBusy),
    (pg.DataCorrupted, DatabaseUnreadable),
    (pg.IndexCorrupted, DatabaseUnreadable),
)


class PostgresEngine(Engine):
    """One PostgreSQL database.

    Args:
        url: A `postgresql://` connection URI.
        busy_timeout: Seconds to wait for a lock or for a connection of the pool.

    Raises:
        ForeignDatabase: The schema `agentmem` exists and is not ours.
        NewerDatabase: A newer version of this package wrote it.
        StorageError: The server cannot be reached.
    """

    dialect = "postgres"
    index_tail = 0

    def __init__(self, url: str, *, busy_timeout: float = 60.0) -> None:
        super().__init__(writer_threads=POOL_SIZE)
        self.path = _without_password(url)
        self._url = url
        self._sql = {name: for_psycopg(sql) for name, sql in load(self.dialect).items()}
        self._busy_timeout = busy_timeout
        with self._translated():
            with psycopg.connect(url, row_factory=dict_row, autocommit=True) as connection:
                self._configure(connection)
                self._prepare(connection)
            self._pool: ConnectionPool[psycopg.Connection[DictRow]] = ConnectionPool(
                url,
                kwargs={"row_factory": dict_row},
                min_size=1,
                max_size=POOL_SIZE,
                timeout=busy_timeout,
                configure=self._configure,
                open=True,
                name="agentmem",
            )

    # -- transactions ------------------------------------------------------------------------------------------

    def _run(self, make: Operation[T], *, write: bool) -> T:
        with self._translated():
            for attempt in range(RETRIES):
                try:
                    return self._transaction(make, write=write)
                except _RETRIED as error:
                    if attempt + 1 >= (
                        RETRIES_OF_CONSTRAINTS if isinstance(error, psycopg.IntegrityError) else RETRIES
                    ):
                        raise
                    time.sleep(random.uniform(0, 0.001 * min(attempt + 1, 20)))  # noqa: S311 - spreads the losers
            raise AssertionError  # the loop above returns or raises

    def _transaction(self, make: Operation[T], *, write: bool) -> T:
        sql = self._sql
        decided = False  # whether all that is left is to commit
        connection: psycopg.Connection[DictRow] | None = None
        try:
            with self._pool.connection() as connection, connection.transaction():
                if not write:
                    connection.execute("set transaction isolation level repeatable read, read only")
                with connection.cursor() as cursor:

                    def run(statement: Statement) -> Rows:
                        text, parameters = sql[statement.query], statement.parameters
                        if isinstance(parameters, dict):
                            cursor.execute(text, parameters)
                            return cursor.fetchall() if cursor.description else ()
                        cursor.executemany(text, parameters)
                        return ()

                    value = drive(make(), run)
                decided = True
        except psycopg.OperationalError as error:
            if connection is None or not connection.broken:
                raise
            if decided and write:
                raise StorageError(
                    f"The connection to {self.path!r} broke in the commit: it is not known whether this was written. "
                    "Read, and write again what is missing: under the same id, a message is never stored twice."
                ) from error
            raise _ConnectionLostError from error
        else:
            return value

    # -- opening and closing -----------------------------------------------------------------------------------

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("select set_config('search_path', %s, false)", (SCHEMA,))
        timeout = f"{max(1, int(self._busy_timeout * 1000))}ms"
        connection.execute("select set_config('lock_timeout', %s, false)", (timeout,))
        if not connection.autocommit:
            connection.commit()

    def _prepare(self, connection: psycopg.Connection[DictRow]) -> None:
        """Check that the schema is ours, and bring it up to date."""
        if not migrations.pending(self.dialect, self._applied(connection)):
            return
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
            # Another process may have been quicker: look again, now that nobody else migrates.
            pending = migrations.pending(self.dialect, self._applied(connection))
            connection.execute("create schema if not exists agentmem")
            connection.execute("select set_config('search_path', %s, true)", (SCHEMA,))
            connection.execute(migrations.RECORD)
            for migration in pending:
                connection.execute(migration.sql)
                connection.execute(
                    "insert into agentmem_migration (name, applied_at) values (%s, %s)",
                    (migration.name, time.time_ns() // 1000),
                )

    def _applied(self, connection: psycopg.Connection[DictRow]) -> set[str]:
        rows = connection.execute(
            "select table_name from information_schema.tables where table_schema = %s", (SCHEMA,)
        ).fetchall()
        tables = {row["table_name"] for row in rows}
        if not tables:
            return set()
        if "agentmem_migration" not in tables:
            raise ForeignDatabase(
                f"The schema {SCHEMA!r} in {self.path!r} holds another program's tables "
                f"({', '.join(sorted(tables)[:3])}). Give langchain-agentmem a database of its own."
            )
        names = connection.execute("select name from agentmem.agentmem_migration").fetchall()
        return {row["name"] for row in names}

    def _close(self) -> None:
        self._pool.close()

    # -- care --------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """PostgreSQL enforces keys and checks pages itself; what it reports while every table is read is returned."""
        try:
            with self._in_use(), self._translated(), self._pool.connection() as connection:
                for table in self._tables(connection):
                    connection.execute(psycopg.sql.SQL("select count(*) from {}").format(psycopg.sql.Identifier(table)))
        except MemoryClosed:
            raise
        except AgentMemoryError as error:
            return [str(error)]
        return []

    def sizes(self) -> dict[str, int]:
        """Bytes of the whole schema ("total"), indexes included."""
        with self._in_use(), self._translated(), self._pool.connection() as connection:
            row = connection.execute(
                "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint as bytes from pg_class c "
                "join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relkind = 'r'",
                (SCHEMA,),
            ).fetchone()
        return {"total": row["bytes"] if row else 0, "free": 0, "log": 0}

    def scrub(self) -> None:
        """Rewrite every table and index with VACUUM FULL. The server's own log and backups are the server's affair."""
        with (
            self._in_use(),
            self._translated(),
            psycopg.connect(self._url, autocommit=True, row_factory=dict_row) as connection,
        ):
            self._configure(connection)
            self._outwait_old_snapshots(connection)
            for table in self._tables(connection):
                connection.execute(psycopg.sql.SQL("vacuum (full) {}").format(psycopg.sql.Identifier(SCHEMA, table)))

    def release(self) -> None:
        """PostgreSQL's own autovacuum makes the space of what was deleted free for what comes next."""

    def _outwait_old_snapshots(self, connection: psycopg.Connection[DictRow]) -> None:
        """VACUUM keeps what a snapshot older than the erasure can still see, so such snapshots must end first."""
        deadline = time.monotonic() + self._busy_timeout
        [now] = connection.execute("select pg_current_xact_id()::text as id").fetchall()
        while True:
            [row] = connection.execute(
                "select count(*) as older from pg_stat_activity where datname = current_database() "
                "and pid <> pg_backend_pid() and age(backend_xmin) > age(%s::xid)",
                (now["id"],),
            ).fetchall()
            if not row["older"]:
                return
            if time.monotonic() > deadline:
                raise DatabaseBusy(
                    "What was erased is gone from the tables, but another connection keeps an old snapshot open, so "
                    "the storage still holds it. End that transaction and erase again."
                )
            time.sleep(0.01)

    def backup(self, path: Path) -> bool:
        """PostgreSQL has no file of its own to copy: the caller exports instead."""
        del path
        return False

    def _tables(self, connection: psycopg.Connection[Any]) -> list[str]:
        rows = connection.execute(
            "select table_name from information_schema.tables where table_schema = %s order by table_name",
            (SCHEMA,),
        ).fetchall()
        return [row["table_name"] for row in rows]

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Driver errors leave as our own."""
        try:
            yield
        except (pg.DataError, pg.ProgramLimitExceeded, UnicodeEncodeError) as error:
            raise InvalidInput(f"A value cannot be stored in the database: {error}.") from error
        except (psycopg.Error, PoolTimeout) as error:
            for kind, ours in _ERRORS:
                if isinstance(error, kind):
                    raise ours(f"{' '.join((ours.__doc__ or '').split())} ({self.path!r}: {error})") from error
            raise StorageError(f"The database {self.path!r} failed: {error}.") from error


def _without_password(url: str) -> str:
    """The connection string as it may appear in errors and logs."""
    try:
        hidden = {"password": "***"} if "password" in psycopg.conninfo.conninfo_to_dict(url) else {}
        return psycopg.conninfo.make_conninfo(url, **hidden)
    except psycopg.ProgrammingError as error:
        raise InvalidInput(f"This is no PostgreSQL URL: {error}.") from error
