"""The PostgreSQL engine, for a memory that many machines share (extra `[postgres]`).

All tables are in a separate schema, `agentmem`, so a database can be shared with an application. A few connections,
here called sessions, serve all threads of the process and pipeline their statements (`postgres_session.py`).

An operation that conflicts with another transaction is run again from its first line: after a serialization failure, a
deadlock, or `BranchMoved`. An operation whose connection is lost is also run again for `timeout` seconds, since the
server may be restarting, or be replaced.

If the connection is lost during the commit, the engine finds out whether the transaction was committed. For this, each
session has a row in the table `receipt`. A session numbers its writing transactions, and each transaction stores its
number in that row.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, Self, TypeVar

from langchain_agentmem import errors
from langchain_agentmem.base.concurrency import read_workers, write_workers
from langchain_agentmem.base.safe_repr import mask_passwords
from langchain_agentmem.errors import safe_repr
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.engine import DatabaseOptions, Engine, HealthCheck, RollbackRequested, Sizes
from langchain_agentmem.storage.queries import is_write, load_queries, number_parameters, query, returns_rows
from langchain_agentmem.storage.transaction import Operation, Rows, Select, Transaction, Values, raise_ended

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.rows import dict_row, tuple_row

    from langchain_agentmem.storage.postgres_session import (
        Answer,
        BorrowedPool,
        Connection,
        NoAnswerError,
        Pool,
        PreparedQuery,
        Session,
        milliseconds,
    )
except ImportError as error:
    raise errors.MissingExtra("A PostgreSQL database", "postgres") from error

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_ATTEMPTS = 100
"""The maximum number of attempts of an operation that conflicts with other transactions."""
_ADVISORY_LOCK = 0x41474D45
"""The id of the lock that a migration holds, so that one process at a time migrates."""
_CHANGED_ATTRIBUTES = ("autocommit", "row_factory", "prepare_threshold", "isolation_level", "read_only")
"""The attributes that are changed on a borrowed connection, and then restored."""

_OLDER_TRANSACTION_QUERY = """
    select pg_snapshot_xmin(pg_current_snapshot()) <= %(id)s::xid8
        or exists (
            select from pg_stat_activity
            where coalesce(datname, current_database()) = current_database()
                and pid <> pg_backend_pid() and age(backend_xmin) > age(%(id)s::xid8::xid)
        )
        or exists (select from pg_replication_slots where age(xmin) > age(%(id)s::xid8::xid)) as found
"""
"""Tests whether VACUUM FULL must keep deleted rows for a transaction older than `id`. The three conditions
find writers in any database, readers in this database or in a process without a database, and readers on a replica."""
_HEALTH_QUERY = """
    select current_setting('server_version') as version, current_setting('max_connections')::int as max_connections,
        pg_is_in_recovery() as replica, (select sum(numbackends)::int from pg_stat_database) as used,
        bool_and(has_table_privilege(c.oid, 'select')) as reads,
        bool_and(has_table_privilege(c.oid, 'insert') and has_table_privilege(c.oid, 'update')
            and has_table_privilege(c.oid, 'delete')) as writes
    from pg_class c where c.relnamespace = to_regnamespace(current_schema()) and c.relkind = 'r'
"""
"""The version and connections of the server, and the permissions of this role."""
CROWDED_SHARE = 0.8
"""The share of used connections of the server above which `health` reports a problem."""
_SET_SEARCH_PATH = "select set_config('search_path', %s, true)"


class _ConnectError(psycopg.OperationalError):
    """The error of a failed connection attempt that may succeed later."""


class _ConnectionLostError(_ConnectError):
    """The error of a connection that broke before the commit, as in a server restart."""


_POOLER_ERRORS = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)
"""Errors after an undetected pooler has changed the server connection. The new connection lacks a statement that this
session prepared, or another client has already prepared a statement with the same name there."""
_RETRYABLE = (errors.BranchMoved, pg.SerializationFailure, pg.DeadlockDetected, psycopg.IntegrityError, *_POOLER_ERRORS)
"""Errors that another transaction may cause: the operation is run again and finds the new state. For example, a
constraint fails if another transaction has just deleted the content that this operation is about to reference."""
_TEMPORARY_ERRORS = (pg.CannotConnectNow, pg.TooManyConnections, pg.AdminShutdown, pg.CrashShutdown)
"""Errors of a running server that temporarily accepts no connections, or closes new ones immediately."""

_NO_PERMISSION = (
    "This role lacks the permission. Let the owner of the schema grant it, or run agentmem migrate URL. Then open the "
    "database with migrate=False."
)
_READ_ONLY_SERVER = "This server is read-only. Connect to the primary, or open the database with read_only=True."
_PSYCOPG_ERRORS: tuple[tuple[type[Exception], errors.StorageError], ...] = (
    (pg.ReadOnlySqlTransaction, errors.DatabaseReadOnly(_READ_ONLY_SERVER)),
    (pg.InsufficientPrivilege, errors.DatabaseReadOnly(_NO_PERMISSION)),
    (pg.InvalidSchemaName, errors.DatabaseReadOnly(_NO_PERMISSION)),  # also for a schema that the role may not use
    (pg.DiskFull, errors.DatabaseFull()),
    (pg.LockNotAvailable, errors.DatabaseBusy()),
    (pg.QueryCanceled, errors.DatabaseTimeout()),
    (NoAnswerError, errors.DatabaseTimeout()),
    (pg.ConnectionTimeout, errors.DatabaseTimeout()),
    (pg.DataCorrupted, errors.DatabaseUnreadable()),
    (pg.IndexCorrupted, errors.DatabaseUnreadable()),
)


@cache
def prepare_query(sql: str) -> PreparedQuery:
    """Translate a query with `:name` parameters into PostgreSQL's form, with `$1` and `$2`."""
    text, names = number_parameters(sql, "$")
    return PreparedQuery(text.encode(), names, returns_rows(sql), is_write(sql))


_WRITE_RECEIPT = prepare_query(
    "insert into receipt (session, transactions, at) values (:session, :transactions, :at) "
    "on conflict (session) do update set transactions = excluded.transactions, at = excluded.at"
)
_READ_RECEIPT = (  # an upsert instead of a select, to wait for the lock of a transaction that is still committing
    "insert into receipt (session, transactions, at) values (:session, 0, 0) "
    "on conflict (session) do update set at = receipt.at returning transactions"
)
_DELETE_RECEIPTS = prepare_query("delete from receipt where at < :before")


_IDENTITY_COLUMNS_QUERY = (
    "select table_name as name, column_name as id from information_schema.columns "
    "where table_schema = current_schema() and is_identity = 'YES'"
)


class _PostgresTransaction(Transaction):
    """A transaction on a session, usable until its `with` block ends.

    Queries are pipelined: a call waits only for the rows that it returns.
    """

    __slots__ = ("_check", "_copy_in", "_execute", "_sql")

    def __init__(self, engine: PostgresEngine, session: Session) -> None:
        self._check, self._sql = engine._check_sizes, engine._sql
        self._execute: Callable[..., Any] = session.execute
        self._copy_in: Callable[..., object] = session.copy_in

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._execute = self._copy_in = raise_ended  # the session may serve another transaction soon

    def run(self, query: str, parameters: dict[str, Any], *, lazy: bool = False) -> Rows:
        self._check(query, parameters)
        return self._send(self._sql[query], parameters, lazy=lazy)

    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        self._check(query, rows)
        statement = self._sql[query]
        for parameters in rows:
            self._execute(statement, parameters)

    def run_sql(self, sql: str, parameters: Mapping[str, Any], *, lazy: bool = False) -> Rows:
        return self._send(prepare_query(sql), parameters, lazy=lazy)

    def _send(self, statement: PreparedQuery, parameters: Mapping[str, Any], *, lazy: bool) -> Rows:
        answer: Answer = self._execute(statement, parameters)
        if not statement.returns_rows:
            return ()
        return answer if lazy else answer.rows()

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self._copy_in(f"copy {table} ({', '.join(columns)}) from stdin", rows)

    def take_ids(self, table: str, count: int) -> list[int]:
        sql = f"select nextval(pg_get_serial_sequence('{table}', 'id')) as id from generate_series(1, :count)"  # noqa: S608 - our own name
        return sorted(row["id"] for row in self.run_sql(sql, {"count": count}))

    def advance_ids(self) -> None:
        for row in self.run_sql(_IDENTITY_COLUMNS_QUERY, {}):
            self.run_sql(
                f"select setval(pg_get_serial_sequence('{row['name']}', '{row['id']}'), max({row['id']})) "  # noqa: S608
                f"from {row['name']} having max({row['id']}) > 0",
                {},
            )


class PostgresEngine(Engine):
    """One PostgreSQL database.

    Args:
        url: A `postgresql://` URL, a connection string such as "host=localhost dbname=app", or a psycopg pool, which is
            used and never closed.
        options: The options with which the database is opened. Options for SQLite are ignored.

    Raises:
        ForeignDatabase: The schema contains tables of another program.
        NewerDatabase: A newer version of this package wrote the database.
        StorageError: The server cannot be reached.
    """

    dialect = "postgres"
    disconnections = (psycopg.OperationalError,)
    _pool: Pool | BorrowedPool

    def __init__(self, url: Any, options: DatabaseOptions = DatabaseOptions()) -> None:  # noqa: B008 - a value
        super().__init__(options)
        for workers in (read_workers, write_workers):
            workers.size = max(workers.size, self.options.pool_size)
        self._caller_pool: Any = None if isinstance(url, str) else url
        self._url = url if self._caller_pool is None else str(self._caller_pool.conninfo)
        self.path = mask_address(self._url)
        self._sql = {name: prepare_query(sql) for name, sql in load_queries(self.dialect).items()}
        self._timeout = self.options.timeout
        self._is_ready = False  # True after the first successful transaction
        self._host_count = 1 + str(psycopg.conninfo.conninfo_to_dict(self._url).get("host", "")).count(",")
        if self._caller_pool is None:
            self._pool = Pool(self._open_session, size=self.options.pool_size, timeout=self.options.busy_timeout)
        else:
            self._pool = BorrowedPool(self._caller_pool, self._start_session, timeout=self.options.busy_timeout)
        with translate_errors(self.path):
            try:
                if self._run(lambda tx: self._missing_migrations(lambda sql: tx.run_sql(sql, {})), write=False):
                    with self._autocommit_connection() as connection, self._begin_with_lock_timeout(connection):
                        self._migrate(connection)
            except BaseException:
                self._close()
                raise
        self._is_ready = True

    # -- transactions ------------------------------------------------------------------------------------------

    def _run(self, operation: Operation[T], *, write: bool) -> T:
        conflicts, deadline = 0, None
        with translate_errors(self.path):
            while True:
                try:
                    return self._run_transaction(self._pool.take(), operation, write=write)
                except _RETRYABLE:
                    conflicts += 1
                    if conflicts >= MAX_ATTEMPTS:
                        raise
                    time.sleep(random.uniform(0, 0.001 * min(conflicts, 20)))  # noqa: S311 - spreads the retries
                except _ConnectError as error:
                    now = time.monotonic()
                    deadline = deadline or now + self._timeout
                    answered = isinstance(error, _ConnectionLostError) or isinstance(error.__cause__, _TEMPORARY_ERRORS)
                    may_be_wrong_address = not (self._is_ready or answered)
                    # An attempt that timed out is not repeated: it has already waited for `connect_timeout`.
                    if may_be_wrong_address or isinstance(error.__cause__, pg.ConnectionTimeout) or now >= deadline:
                        raise
                    time.sleep(min(random.uniform(0.05, 0.5), deadline - now))  # noqa: S311

    def _run_transaction(self, session: Session, operation: Operation[T], *, write: bool) -> T:
        is_committing = has_written = False
        try:
            options = self.options
            session.begin(options.schema, write=write, lock_timeout=options.busy_timeout, timeout=self._timeout)
            with _PostgresTransaction(self, session) as tx:
                value = operation(tx)
            if not (write and session.has_answer):
                session.wait_all()  # a read does not wait for its commit; a write must first detect a lost connection
            if has_written := session.has_written:
                session.execute(_WRITE_RECEIPT, session.receipt)
                if session.receipt["transactions"] == 1:
                    session.execute(_DELETE_RECEIPTS, {"before": session.receipt["at"] - 24 * 3600 * 1_000_000})
            is_committing = write
            session.commit(wait=write)
        except BaseException as error:
            is_retryable = isinstance(error, psycopg.OperationalError | pg.ReadOnlySqlTransaction)
            if self._roll_back(session, error) or not is_retryable:
                raise
            if not (is_committing and has_written and self._was_committed(session)):
                if isinstance(error, NoAnswerError):
                    raise
                raise _ConnectionLostError(str(error)) from error
        else:
            self._pool.give_back(session)
        return value

    def _was_committed(self, session: Session) -> bool:
        """Return whether a transaction whose connection was lost in the commit was committed.

        Raises:
            StorageError: The result of the commit cannot be determined.
        """

        def read_receipt(tx: Transaction) -> NoReturn:
            tx.run_sql("select set_config('lock_timeout', :wait, true)", {"wait": milliseconds(self._timeout)})
            # If the server is still committing, this statement waits until the commit ends.
            [row] = tx.run_sql(_READ_RECEIPT, {"session": session.receipt["session"]})
            raise RollbackRequested(row["transactions"])

        try:
            self._run(read_receipt, write=True)
        except RollbackRequested as request:
            return bool(request.value == session.receipt["transactions"])
        except Exception as error:
            raise errors.StorageError(
                f"The connection to {safe_repr(self.path)} was lost in the commit, so the data may be stored or not. "
                "Read, and write the missing data again. A message with the same id is never stored twice."
            ) from error

    def _roll_back(self, session: Session, error: BaseException) -> bool:
        """Roll back a failed transaction; return whether the connection can be used again."""
        if isinstance(error, _POOLER_ERRORS):
            session.is_direct = False  # each other session detects the pooler at its own first error
        # With several hosts, a read-only server may be a former primary: the operation needs a connection to another.
        fatal_errors = NoAnswerError if self._host_count == 1 else (NoAnswerError, pg.ReadOnlySqlTransaction)
        if isinstance(error, Exception) and not isinstance(error, fatal_errors) and not session.broken:
            with contextlib.suppress(psycopg.Error):
                session.roll_back()
                self._pool.give_back(session)
                return True
        # After an interrupt, cancel the statement: it would continue to run, and hold its locks.
        if not (isinstance(error, Exception) or session.broken):
            with contextlib.suppress(psycopg.Error):
                session.connection.cancel_safe(timeout=1)
        self._pool.drop(session)
        return False

    # -- opening and closing -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _autocommit_connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Open or borrow a connection in autocommit mode."""
        if isinstance(self._pool, Pool):
            with self._connect(row_factory=dict_row) as connection:
                yield connection
            return
        borrowed = self._pool.get_connection()
        old_values = {name: getattr(borrowed, name) for name in _CHANGED_ATTRIBUTES}
        try:
            borrowed.autocommit, borrowed.row_factory, borrowed.prepare_threshold = True, dict_row, None
            yield borrowed
        finally:
            if not borrowed.closed:
                for name, value in old_values.items():
                    setattr(borrowed, name, value)
            self._caller_pool.putconn(borrowed)

    @contextlib.contextmanager
    def _begin_with_lock_timeout(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Begin a transaction that waits at most `busy_timeout` seconds for a lock."""
        with connection.transaction():
            wait = milliseconds(self.options.busy_timeout)
            connection.execute("select set_config('lock_timeout', %s, true)", (wait,))
            yield

    def _open_session(self) -> Session:
        """Open a new session.

        Raises:
            _ConnectError: The server cannot be reached, or accepts no connection now.
        """
        connection = None
        try:
            connection = self._connect()
            return self._start_session(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            # An error without an SQLSTATE comes from the network or from the driver, not from the server.
            is_temporary = isinstance(error, _TEMPORARY_ERRORS) or getattr(error, "sqlstate", "") is None
            if isinstance(error, psycopg.OperationalError) and is_temporary:
                raise (_ConnectError if connection is None else _ConnectionLostError)(str(error)) from error
            raise

    def _start_session(self, connection: psycopg.Connection[Any]) -> Session:
        for name in ("server_encoding", "client_encoding"):
            encoding = connection.info.parameter_status(name) or ""
            if encoding.lower().replace("-", "") not in ("utf8", "unicode"):  # poolers spell it differently
                problem = f"{name} of {safe_repr(self.path)} is {encoding}, which cannot store all texts"
                raise errors.StorageError(f"{problem}. Create the database, or open the pool, with {name}='UTF8'.")
        session = Session(connection, keeps_settings=self._caller_pool is None)
        session.detect_pooler(self._timeout)
        return session

    def _connect(self, **options: Any) -> Connection:
        # TCP keepalives detect a lost server after four intervals: one idle interval, then three probes.
        interval = min(max(1, round(self._timeout / 4)), 32_767)  # seconds; TCP allows at most 32,767
        probes = dict.fromkeys(("keepalives_idle", "keepalives_interval"), interval)
        arguments: dict[str, Any] = {**probes, "keepalives_count": 3, **psycopg.conninfo.conninfo_to_dict(self._url)}
        if self._host_count > 1 and not self.options.read_only:  # after a failover, the primary is another host
            arguments.setdefault("target_session_attrs", "read-write")
        arguments.setdefault("connect_timeout", max(2, round(self._timeout / self._host_count)))
        # The driver must not prepare statements: behind a pooler, other clients would use the server connection too.
        required = {"autocommit": True, "client_encoding": "utf8", "prepare_threshold": None}
        return Connection.connect(**(arguments | required | options))

    def _missing_migrations(self, select: Callable[[str], Iterable[Any]]) -> list[engine.Migration]:
        """Return the migrations that the schema lacks."""
        rows = select(f"select tablename from pg_tables where schemaname = '{self.options.schema}'")  # noqa: S608 - checked
        table = f'"{self.options.schema}".{engine.MIGRATION_TABLE}'
        return self._pending_migrations({row["tablename"] for row in rows}, lambda: select(f"select name from {table}"))  # noqa: S608

    def _migrate(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("select pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        # Another process may have migrated meanwhile: check again, now that no other process migrates.
        pending = self._missing_migrations(connection.execute)
        exists = connection.execute("select from pg_namespace where nspname = %s", (self.options.schema,)).fetchall()
        if not exists:  # a role that may not create schemas can use an existing one
            connection.execute(f'create schema if not exists "{self.options.schema}"')
        connection.execute(_SET_SEARCH_PATH, (self.options.schema,))
        engine.migrate(pending, connection.execute)

    def _close(self) -> None:
        self._pool.close()

    # -- maintenance -------------------------------------------------------------------------------------------

    def health(self) -> Iterator[HealthCheck]:
        """Check the server's version and connections, the role's permissions, and the vectors."""
        [row] = self.read(lambda tx: tx.run_sql(_HEALTH_QUERY, {}))
        yield HealthCheck("postgresql", "ok", f"PostgreSQL {row['version']}")
        used = f"{row['used']:,} of {row['max_connections']:,} connections are in use"
        if row["used"] > row["max_connections"] * CROWDED_SHARE:
            remedy = "Lower pool_size in the programs, put a pooler in front, or raise max_connections."
            yield HealthCheck("connections", "problem", used, remedy)
        else:
            yield HealthCheck("connections", "ok", used)
        rights = f"select, insert, update, delete on all tables in schema {self.options.schema}"
        remedy = f"Let the owner of the tables run: grant {rights} to ..."
        if not row["reads"]:
            yield HealthCheck("permissions", "problem", "This user may not read all tables of the memory.", remedy)
        elif row["replica"]:
            yield HealthCheck("permissions", "note", "The server is a read-only replica.", "Write to the primary.")
        elif not row["writes"]:
            yield HealthCheck("permissions", "note", "This user may read all tables, but not write all.", remedy)
        else:
            yield HealthCheck("permissions", "ok", "this user may read and write all tables")
        yield from super().health()

    def sizes(self) -> Sizes:
        """Return the sizes of the schema and of each table, indexes included.

        The query takes milliseconds at any size.
        """
        tables = {row["name"]: row["bytes"] for row in self.read(query.table_sizes)}
        return Sizes(total=sum(tables.values()), free=0, log=0, tables=tables)

    def scrub(self) -> None:
        """Rewrite every table and index with VACUUM FULL.

        The server's log and backups are not changed. If the role does not own the tables, only a warning is logged.
        """
        tables = self.read(query.table_sizes)
        if not all(table["owned"] for table in tables):
            logger.warning(
                "The erased data is gone from %s, but this role does not own the tables, so their files may still "
                "contain the data. Let the owner run VACUUM FULL.",
                safe_repr(self.path),
            )
            return
        with self.connection() as connection:
            self._wait_for_older_transactions(connection)
            for table in tables:
                name = psycopg.sql.Identifier(self.options.schema, table["name"])
                # VACUUM waits for its lock without a timeout. So first wait with a timeout until the table is unlocked.
                with self._begin_with_lock_timeout(connection):
                    connection.execute(psycopg.sql.SQL("lock table {} in access exclusive mode").format(name))
                connection.execute(psycopg.sql.SQL("vacuum (full) {}").format(name))

    def alter(self, statements: Sequence[str]) -> None:
        """Run long statements that must not run in a transaction.

        Closing the engine does not wait for them.
        """
        self._check_open()
        with translate_errors(self.path), self._autocommit_connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _wait_for_older_transactions(self, connection: psycopg.Connection[Any]) -> None:
        """Wait for the end of transactions that began before the erasure.

        VACUUM keeps rows that such a transaction may still see.
        """
        deadline = time.monotonic() + self.options.busy_timeout
        [current] = connection.execute("select pg_current_xact_id()::text as id").fetchall()
        while True:
            [row] = connection.execute(_OLDER_TRANSACTION_QUERY, current).fetchall()
            if not row["found"]:
                return
            if time.monotonic() > deadline:
                raise errors.DatabaseBusy(
                    "The erased data is gone from the tables, but an older transaction on the server still sees it. "
                    "End the transaction (see pg_stat_activity, pg_prepared_xacts, pg_replication_slots), then retry."
                )
            time.sleep(0.01)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Select]:
        """Open a snapshot: the block reads the database as of its start."""
        with self.connection() as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            numbers = itertools.count()

            def select(sql: str, parameters: Mapping[str, Any]) -> tuple[list[str], Iterator[Values]]:
                cursor = connection.cursor(f"agentmem_rows_{next(numbers)}", row_factory=tuple_row)
                cursors.enter_context(cursor)
                cursor.itersize = 500
                cursor.execute(re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", sql), parameters)
                return [column.name for column in cursor.description or ()], iter(cursor)

            with connection.transaction(), contextlib.ExitStack() as cursors:
                connection.execute(_SET_SEARCH_PATH, (self.options.schema,))
                yield select

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Open an autocommit connection outside of the sessions. Driver errors are translated."""
        with self._active_call(), translate_errors(self.path), self._autocommit_connection() as connection:
            yield connection


@contextlib.contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Translate driver errors into errors of this package.

    Args:
        path: The address of the database, as shown in errors.
    """
    try:
        yield
    except (pg.DataError, pg.ProgramLimitExceeded, UnicodeEncodeError) as error:
        raise errors.InvalidInput(f"A value cannot be stored in the database: {error}.") from error
    except psycopg.Error as error:
        reason = mask_passwords(str(error))
        for error_class, translation in _PSYCOPG_ERRORS:
            if isinstance(error, error_class) or isinstance(error.__cause__, error_class):
                raise type(translation)(f"{translation} ({safe_repr(path)}: {reason})") from error
        raise errors.StorageError(f"The database {safe_repr(path)} failed: {reason}.") from error


def mask_address(url: str) -> str:
    """Check the URL of a database, and mask its passwords for errors and logs.

    Args:
        url: A URL, or a connection string.

    Raises:
        InvalidInput: The URL cannot be parsed, or its password has unescaped characters.
    """
    masked = mask_passwords(url)
    if (problem := _find_url_problem(url, has_password=masked != url)) is None:
        return masked
    raise errors.InvalidInput(
        f"Invalid address of a PostgreSQL database: {safe_repr(masked)}{problem}. Write "
        "postgresql://user:password@host:5432/database. In the user and the password, write %40 for @, %2F for /, "
        "%3A for :, %23 for #, %3F for ?, %25 for % and %20 for a space."
    )


def _find_url_problem(url: str, *, has_password: bool) -> str | None:
    """Return the driver's message about an unusable address; None if it is usable.

    The message is empty if the address has a password, since the driver's message may reveal part of the password.
    """
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except (psycopg.Error, ValueError) as error:
        return "" if has_password else f" ({str(error).strip()})"
    # With an unescaped / or @ in a password, the parser reads the remainder as a host, a port or a database name.
    port, host_and_name = str(parts.get("port", "")), f"{parts.get('host', '')}{parts.get('dbname', '')}"
    has_unescaped_at = "@" in host_and_name and "://" in url and "%40" not in url
    return "" if has_unescaped_at or not all(number.isdecimal() or not number for number in port.split(",")) else None
