"""PostgreSQL: the same memory for many machines. Needs the extra `[postgres]`.

Everything lives in a schema of its own, `agentmem`, so that a database can be shared with an application.
A few sessions serve all threads (`postgres_session.py`), and send statements together. An operation that loses a
race (a serialization failure, a deadlock, a branch that moved) is run again from its first line.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from langchain_agentmem.base.safe_repr import safe_repr, without_passwords
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
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.engine import Engine, Sizes
from langchain_agentmem.storage.queries import for_libpq, load, returns_rows
from langchain_agentmem.storage.steps import Operation, Rows, Statement, drive

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.rows import DictRow, dict_row

    from langchain_agentmem.storage.postgres_session import Connection, Later, Pool, Prepared, Session
except ImportError as error:
    raise MissingExtra("A PostgreSQL database", "postgres") from error

T = TypeVar("T")
C = TypeVar("C", bound="psycopg.Connection[Any]")

SCHEMA = "agentmem"
POOL_SIZE = 10
RETRIES = 100
RETRIES_OF_CONSTRAINTS = 25  # a namespace may be taken away by others again and again
_ADVISORY_LOCK = 0x41474D45
_AT_ONCE = 1.0
"""Seconds that the server may take for what is not to wait for anybody."""
_NOT_WAITING = Prepared(
    b"select set_config('lock_timeout', '1ms', true), set_config('statement_timeout', '1s', true)", (), returns=True
)

_OLDER_LASTS = """
    select pg_snapshot_xmin(pg_current_snapshot()) <= %(id)s::xid8
        or exists (
            select from pg_stat_activity
            where coalesce(datname, current_database()) = current_database()
                and pid <> pg_backend_pid() and age(backend_xmin) > age(%(id)s::xid8::xid)
        )
        or exists (select from pg_replication_slots where age(xmin) > age(%(id)s::xid8::xid)) as lasts
"""
"""Whether VACUUM FULL heeds a transaction older than this one: one that writes, in any database of the server, as its
own snapshot does; one that reads here, or in a process of the server that belongs to no database; or a replica's."""


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
    (pg.DataCorrupted, DatabaseUnreadable),
    (pg.IndexCorrupted, DatabaseUnreadable),
)


class PostgresEngine(Engine):
    """One PostgreSQL database.

    Args:
        url: A `postgresql://` URL, or a connection string such as "host=localhost dbname=app".
        busy_timeout: Seconds to wait for a lock or for a connection of the pool.
        schema: Where the tables are.

    Raises:
        ForeignDatabase: The schema `agentmem` exists and is not ours.
        NewerDatabase: A newer version of this package wrote it.
        StorageError: The server cannot be reached.
    """

    dialect = "postgres"
    index_tail = 0

    def __init__(self, url: str, *, busy_timeout: float = 60.0, schema: str = SCHEMA) -> None:
        super().__init__(writer_threads=POOL_SIZE)
        self.schema = schema
        self.path = address_of(url)
        self._url = url
        self._sql = {name: _prepared(sql) for name, sql in load(self.dialect).items()}
        self._busy_timeout = busy_timeout
        with self._in_use(), self._translated(), self._connection() as connection:
            self._prepare(connection)
        self._wrote = False
        self._renew()

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

    def _run_at_once(self, make: Operation[T]) -> T:
        session = self._pool.spare()
        if session is None:
            raise DatabaseBusy(f"No connection to {safe_repr(self.path)} is free.")
        with self._translated():
            try:
                session.begin(write=True, patience=_AT_ONCE)
                session.execute(_NOT_WAITING, {})
                value = drive(make(), partial(self._execute, session))
                session.settle()
                session.commit(wait=True)
            except BaseException as error:
                self._undone(session, error)
                raise
            self._pool.give_back(session)
            return value

    @property
    def wrote(self) -> bool:
        """Whether any operation that may write was committed since the engine was opened."""
        return self._wrote

    def _transaction(self, make: Operation[T], *, write: bool) -> T:
        session = self._pool.take()
        decided = False  # whether all that is left is to commit
        try:
            session.begin(write=write)
            value = drive(make(), partial(self._execute, session))
            if not (write and session.heard):
                session.settle()  # a connection that was lost long ago is heard of before it could be too late
            decided = True
            session.commit(wait=write)
        except BaseException as error:
            again = self._undone(session, error)
            if again or not isinstance(error, psycopg.OperationalError):
                raise
            if decided and write:
                raise StorageError(
                    f"The connection to {safe_repr(self.path)} broke in the commit: it is not known whether "
                    "this was written. Read, and write again what is missing: under the same id, a message is never "
                    "stored twice."
                ) from error
            raise _ConnectionLostError from error
        self._wrote = self._wrote or write
        self._pool.give_back(session)
        return value

    def _execute(self, session: Session, statement: Statement) -> Rows:
        """Send a statement, and wait for its rows if there are any, and they are wanted now."""
        query, parameters = self._sql[statement.query], statement.parameters
        if isinstance(parameters, list):
            for each in parameters:
                session.execute(query, each)
            return ()
        answer = session.execute(query, parameters)
        if not query.returns:
            return ()
        return Later(session, answer) if statement.ahead else session.rows(answer)

    def _undone(self, session: Session, error: BaseException) -> bool:
        """Take back what a transaction did that failed; whether the connection is still there."""
        if isinstance(error, Exception) and not session.broken:
            with contextlib.suppress(psycopg.Error):
                session.roll_back()
                self._pool.give_back(session)
                return True
        self._pool.drop(session, stop=not isinstance(error, Exception))
        return False

    # -- opening and closing -----------------------------------------------------------------------------------

    def _connection(self) -> psycopg.Connection[DictRow]:
        """A new connection that commits every statement, in our schema."""
        return self._configured(psycopg.connect(self._url, autocommit=True, row_factory=dict_row))

    def _session(self) -> Session:
        return Session(self._configured(Connection.connect(self._url, autocommit=True, client_encoding="utf8")))

    def _configured(self, connection: C) -> C:
        timeout = f"{max(1, int(self._busy_timeout * 1000))}ms"
        connection.execute(  # what is asked of JSON looks costly to the planner, and would be compiled each time
            "select set_config('search_path', %s, false), set_config('lock_timeout', %s, false), "
            "set_config('jit', 'off', false)",
            (self.schema, timeout),
        )
        return connection

    def _prepare(self, connection: psycopg.Connection[DictRow]) -> None:
        """Check that the schema is ours, and bring it up to date."""
        if not engine.pending(self.dialect, self._applied(connection)):
            return
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
            # Another process may have been quicker: look again, now that nobody else migrates.
            pending = engine.pending(self.dialect, self._applied(connection))
            connection.execute(f"create schema if not exists {self.schema}")
            connection.execute("select set_config('search_path', %s, true)", (self.schema,))
            connection.execute(engine.RECORD)
            for migration in pending:
                connection.execute(migration.sql)
                connection.execute(
                    "insert into agentmem_migration (name, applied_at) values (%s, %s)",
                    (migration.name, time.time_ns() // 1000),
                )

    def _applied(self, connection: psycopg.Connection[DictRow]) -> set[str]:
        rows = connection.execute(
            "select table_name from information_schema.tables where table_schema = %s", (self.schema,)
        ).fetchall()
        tables = {row["table_name"] for row in rows}
        if not tables:
            return set()
        if "agentmem_migration" not in tables:
            raise ForeignDatabase(
                f"The schema {safe_repr(self.schema)} in {safe_repr(self.path)} holds another program's tables "
                f"({', '.join(sorted(tables)[:3])}). Give langchain-agentmem a database of its own."
            )
        names = connection.execute(f"select name from {self.schema}.agentmem_migration").fetchall()  # noqa: S608
        return {row["name"] for row in names}

    def _close(self) -> None:
        self._pool.close()

    def _rest(self) -> None:
        """Sessions stay: a child has no more than their descriptors, and libpq ends none from there."""

    def _renew(self) -> None:
        self._pool = Pool(self._session, size=POOL_SIZE, timeout=self._busy_timeout)

    # -- care --------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """PostgreSQL enforces keys and checks pages itself; what it reports while every table is read is returned."""
        try:
            with self._in_use(), self._translated(), self._connection() as connection:
                for table in self._tables(connection):
                    connection.execute(psycopg.sql.SQL("select count(*) from {}").format(psycopg.sql.Identifier(table)))
        except MemoryClosed:
            raise
        except AgentMemoryError as error:
            return [str(error)]
        return []

    def sizes(self) -> Sizes:
        """Bytes of the whole schema and of each table, indexes included, in milliseconds however much there is."""
        with self._in_use(), self._translated(), self._connection() as connection:
            rows = connection.execute(
                "select c.relname as name, pg_total_relation_size(c.oid)::bigint as bytes from pg_class c "
                "join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relkind = 'r'",
                (self.schema,),
            ).fetchall()
        tables = {row["name"]: row["bytes"] or 0 for row in rows}  # null of one that was dropped just now
        return Sizes(total=sum(tables.values()), free=0, log=0, tables=tables)

    def scrub(self) -> None:
        """Rewrite every table and index with VACUUM FULL. The server's own log and backups are the server's affair."""
        with self._in_use(), self._translated(), self._connection() as connection:
            self._outwait_older_transactions(connection)
            for table in self._tables(connection):
                name = psycopg.sql.Identifier(self.schema, table)
                connection.execute(psycopg.sql.SQL("vacuum (full) {}").format(name))

    def release(self) -> None:
        """PostgreSQL's own autovacuum makes the space of what was deleted free for what comes next."""

    def _outwait_older_transactions(self, connection: psycopg.Connection[DictRow]) -> None:
        """VACUUM keeps what a transaction older than the erasure may still see, so such transactions must end first."""
        deadline = time.monotonic() + self._busy_timeout
        [now] = connection.execute("select pg_current_xact_id()::text as id").fetchall()
        while True:
            [row] = connection.execute(_OLDER_LASTS, now).fetchall()
            if not row["lasts"]:
                return
            if time.monotonic() > deadline:
                raise DatabaseBusy(
                    "What was erased is gone from the tables, but an older transaction is still open on the server, so "
                    "the storage still holds it. End that transaction (pg_stat_activity, pg_prepared_xacts or "
                    "pg_replication_slots shows it) and erase again."
                )
            time.sleep(0.01)

    def backup(self, path: Path) -> bool:
        """PostgreSQL has no file of its own to copy: the caller exports instead."""
        del path
        return False

    def _tables(self, connection: psycopg.Connection[Any]) -> list[str]:
        rows = connection.execute(
            "select table_name from information_schema.tables where table_schema = %s order by table_name",
            (self.schema,),
        ).fetchall()
        return [row["table_name"] for row in rows]

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[DictRow]]:
        """A connection of its own, which commits every statement, in our schema; driver errors leave as our own."""
        with self._in_use(), self._translated(), self._connection() as connection:
            yield connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Driver errors leave as our own."""
        with translated(self.path):
            yield


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Driver errors leave as our own.

    Args:
        path: Which database, as errors show it.
    """
    try:
        yield
    except (pg.DataError, pg.ProgramLimitExceeded, UnicodeEncodeError) as error:
        raise InvalidInput(f"A value cannot be stored in the database: {error}.") from error
    except psycopg.Error as error:
        for kind, ours in _ERRORS:
            if isinstance(error, kind):
                raise ours(f"{ours()} ({safe_repr(path)}: {_said(error)})") from error
        raise StorageError(f"The database {safe_repr(path)} failed: {_said(error)}.") from error


def _said(error: psycopg.Error) -> str:
    return without_passwords(str(error))


@cache
def _prepared(sql: str) -> Prepared:
    text, names = for_libpq(sql)
    return Prepared(text.encode(), names, returns_rows(sql))


def address_of(url: str) -> str:
    """Check what names a database, and give it as errors and logs may show it.

    Args:
        url: A URL, or a connection string.

    Raises:
        InvalidInput: It cannot be understood, or only otherwise than it was meant.
    """
    told = without_passwords(url)
    if (problem := _misunderstood(url, has_password=told != url)) is None:
        return told
    raise InvalidInput(
        f"This is no address of a PostgreSQL database: {safe_repr(told)}{problem}. Write "
        "postgresql://user:password@host:5432/database, and in the user and the password %40 for @, %2F for /, "
        "%3A for :, %23 for #, %3F for ?, %25 for % and %20 for a space."
    )


def _misunderstood(url: str, *, has_password: bool) -> str | None:
    """Why an address cannot be used, if it cannot: what the driver says of one with a password may tell some of it."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except (psycopg.Error, ValueError) as error:
        return "" if has_password else f" ({str(error).strip()})"
    # A password that holds a / or @ which is not escaped ends there, and its rest is taken for a host or a name.
    port, elsewhere = str(parts.get("port", "")), f"{parts.get('host', '')}{parts.get('dbname', '')}"
    strayed = "@" in elsewhere and "://" in url and "%40" not in url
    return "" if strayed or not all(number.isdecimal() or not number for number in port.split(",")) else None
