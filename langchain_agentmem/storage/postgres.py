"""PostgreSQL: the same memory for many machines. Needs the extra `[postgres]`.

Everything lives in a schema of its own, `agentmem`, so that a database can be shared with an application.
A few sessions serve all threads (`postgres_session.py`), and send statements together. An operation that loses a
race (a serialization failure, a deadlock, a branch that moved) is run again from its first line, and so is one whose
connection is lost, as long as it is patient: a server that restarts, or another that takes its place, is waited for.

Where the connection is lost in the commit, it is found out whether that was done: each session counts its
transactions in a row of its own, in the transactions themselves.
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

MAX_RETRIES = 100
_ADVISORY_LOCK = 0x41474D45
_CHANGED_ATTRIBUTES = ("autocommit", "row_factory", "prepare_threshold", "isolation_level", "read_only")
"""The attributes that are changed on a borrowed connection."""

_HAS_OLDER = """
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


_HEALTH_QUERY = """
    select current_setting('server_version') as version, pg_is_in_recovery() as replica,
        current_setting('max_connections')::int as most, (select sum(numbackends)::int from pg_stat_database) as used,
        bool_and(has_table_privilege(c.oid, 'select')) as reads,
        bool_and(has_table_privilege(c.oid, 'insert') and has_table_privilege(c.oid, 'update')
            and has_table_privilege(c.oid, 'delete')) as writes
    from pg_class c where c.relnamespace = to_regnamespace(current_schema()) and c.relkind = 'r'
"""
"""The version and connections of the server, and what this role may do with the tables."""
CROWDED_SHARE = 0.8
"""The share of the server's connections in use from which they are reported as a problem."""


_SET_SEARCH_PATH = "select set_config('search_path', %s, true)"


class _UnreachableError(psycopg.OperationalError):
    """The error of a failed connection attempt that may succeed later."""


class _LostError(_UnreachableError):
    """The error of a broken connection, as in a server restart: nothing was written."""


_POOLER_ERRORS = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)
"""Errors caused by a pooler that poses as the server, and moves a transaction to another server."""
_RETRIED_ERRORS = (
    errors.BranchMoved,
    pg.SerializationFailure,
    pg.DeadlockDetected,
    psycopg.IntegrityError,
    *_POOLER_ERRORS,
)
"""Errors that another transaction may cause: the operation is run again and finds the new state. A constraint fails if
one transaction collects content after another found it, but before that stores a reference."""
_TEMPORARY_ERRORS = (pg.CannotConnectNow, pg.TooManyConnections, pg.AdminShutdown, pg.CrashShutdown)
"""Errors of a reachable server that temporarily accepts no connection, or drops new ones immediately."""

_NO_PERMISSION = (
    "This role may not do that. Let the owner of the schema grant it, or run: agentmem migrate URL; then open the "
    "database with migrate=False."
)
_READ_ONLY_SERVER = "This server only reads. Name the primary, or open the database with read_only=True."
_ERRORS: tuple[tuple[type[Exception], errors.StorageError], ...] = (
    (pg.ReadOnlySqlTransaction, errors.DatabaseReadOnly(_READ_ONLY_SERVER)),
    (pg.InsufficientPrivilege, errors.DatabaseReadOnly(_NO_PERMISSION)),
    (pg.InvalidSchemaName, errors.DatabaseReadOnly(_NO_PERMISSION)),  # so is one that the role may not look into
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
    """Translate a query with named parameters for PostgreSQL."""
    text, names = number_parameters(sql, "$")
    return PreparedQuery(text.encode(), names, returns_rows(sql), is_write(sql))


_WRITE_RECEIPT = prepare_query(
    "insert into receipt (session, transactions, at) values (:session, :transactions, :at) "
    "on conflict (session) do update set transactions = excluded.transactions, at = excluded.at"
)
_READ_RECEIPT = (  # as soon as what the session is at is carried out or given up
    "insert into receipt (session, transactions, at) values (:session, 0, 0) "
    "on conflict (session) do update set at = receipt.at returning transactions"
)
_DELETE_RECEIPTS = prepare_query("delete from receipt where at < :before")


_IDENTITY_COLUMNS = (
    "select table_name as name, column_name as id from information_schema.columns "
    "where table_schema = current_schema() and is_identity = 'YES'"
)


class _PostgresTransaction(Transaction):
    """A transaction on a session, active until the block of its `with` ends.

    Queries are pipelined: only rows that are needed now are waited for.
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
        for each in rows:
            self._execute(statement, each)

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
        for row in self.run_sql(_IDENTITY_COLUMNS, {}):
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
        options: The options of the opening. Options for SQLite are ignored.

    Raises:
        ForeignDatabase: The schema `agentmem` exists and is not ours.
        NewerDatabase: A newer version of this package wrote it.
        StorageError: The server cannot be reached.
    """

    dialect = "postgres"
    _pool: Pool | BorrowedPool

    def __init__(self, url: Any, options: DatabaseOptions = DatabaseOptions()) -> None:  # noqa: B008 - a value
        super().__init__(options)
        for workers in (read_workers, write_workers):
            workers.size = max(workers.size, self.options.pool_size)
        self._caller_pool: Any = None if isinstance(url, str) else url
        self._url = url if self._caller_pool is None else str(self._caller_pool.conninfo)
        self.path = address_of(self._url)
        self._sql = {name: prepare_query(sql) for name, sql in load_queries(self.dialect).items()}
        self._timeout = self.options.timeout
        self._is_ready = False
        self._hosts = 1 + str(psycopg.conninfo.conninfo_to_dict(self._url).get("host", "")).count(",")
        if self._caller_pool is None:
            self._pool = Pool(self._open_session, size=self.options.pool_size, timeout=self.options.busy_timeout)
        else:
            self._pool = BorrowedPool(self._caller_pool, self._start_session, timeout=self.options.busy_timeout)
        with translate_errors(self.path):
            try:
                if self._run(lambda tx: self._missing_migrations(lambda sql: tx.run_sql(sql, {})), write=False):
                    with self._connection() as connection, self._lock_transaction(connection):
                        self._migrate(connection)
            except BaseException:
                self._close()
                raise
        self._is_ready = True

    # -- transactions ------------------------------------------------------------------------------------------

    def _run(self, operation: Operation[T], *, write: bool) -> T:
        races, deadline = 0, None
        with translate_errors(self.path):
            while True:
                try:
                    return self._run_transaction(self._pool.take(), operation, write=write)
                except _RETRIED_ERRORS:
                    races += 1
                    if races >= MAX_RETRIES:
                        raise
                    time.sleep(random.uniform(0, 0.001 * min(races, 20)))  # noqa: S311 - spreads the losers
                except _UnreachableError as error:
                    now = time.monotonic()
                    deadline = deadline or now + self._timeout
                    answered = isinstance(error, _LostError) or isinstance(error.__cause__, _TEMPORARY_ERRORS)
                    maybe_misspelt = not (self._is_ready or answered)  # perhaps: there may be no such server
                    if maybe_misspelt or isinstance(error.__cause__, pg.ConnectionTimeout) or now >= deadline:
                        raise
                    time.sleep(min(random.uniform(0.05, 0.5), deadline - now))  # noqa: S311

    def _run_transaction(self, session: Session, operation: Operation[T], *, write: bool) -> T:
        is_committing = has_written = False
        try:
            session.begin(
                self.options.schema, write=write, lock_timeout=self.options.busy_timeout, timeout=self._timeout
            )
            with _PostgresTransaction(self, session) as tx:
                value = operation(tx)
            if not (write and session.has_answer):
                session.wait_all()  # a connection that was lost long ago is heard of before it could be too late
            if has_written := session.has_written:
                session.execute(_WRITE_RECEIPT, session.receipt)
                if session.receipt["transactions"] == 1:
                    session.execute(_DELETE_RECEIPTS, {"before": session.receipt["at"] - 24 * 3600 * 1_000_000})
            is_committing = write
            session.commit(wait=write)
        except BaseException as error:
            is_reusable = self._roll_back(session, error)
            may_switch_host = self._hosts > 1 and isinstance(error, pg.ReadOnlySqlTransaction)
            if (is_reusable and not may_switch_host) or not isinstance(
                error, psycopg.OperationalError | pg.ReadOnlySqlTransaction
            ):
                raise
            if not (is_committing and has_written and self._was_committed(session)):
                if isinstance(error, NoAnswerError):
                    raise
                raise _LostError(str(error)) from error
        else:
            self._pool.give_back(session)
        return value

    def _was_committed(self, session: Session) -> bool:
        """Return whether the transaction was committed in whose commit a session was lost.

        Raises:
            StorageError: The result of the commit cannot be determined.
        """

        def count(tx: Transaction) -> NoReturn:
            tx.run_sql("select set_config('lock_timeout', :wait, true)", {"wait": milliseconds(self._timeout)})
            # Where the server is still at it, this waits until it is done.
            [row] = tx.run_sql(_READ_RECEIPT, {"session": session.receipt["session"]})
            raise RollbackRequested(row["transactions"])

        try:
            self._run(count, write=True)
        except RollbackRequested as done:
            return bool(done.value == session.receipt["transactions"])
        except Exception as error:
            raise errors.StorageError(
                f"The connection to {safe_repr(self.path)} broke in the commit: it is not known whether this is "
                "written. Read, and write again what is missing: under the same id, a message is never stored twice."
            ) from error

    def _roll_back(self, session: Session, error: BaseException) -> bool:
        """Roll back a failed transaction; return whether the connection still works."""
        if isinstance(error, _POOLER_ERRORS):
            session.is_direct = False  # every other session finds it out for itself
        if isinstance(error, Exception) and not isinstance(error, NoAnswerError) and not session.broken:
            with contextlib.suppress(psycopg.Error):
                session.roll_back()
                self._pool.give_back(session)
                return True
        if not (isinstance(error, Exception) or session.broken):  # the server would keep its locks until it is done
            with contextlib.suppress(psycopg.Error):
                session.connection.cancel_safe(timeout=1)
        self._pool.drop(session)
        return False

    # -- opening and closing -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a connection in autocommit mode."""
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
    def _lock_transaction(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Open a transaction that waits for locks up to `busy_timeout` seconds."""
        with connection.transaction():
            wait = milliseconds(self.options.busy_timeout)
            connection.execute("select set_config('lock_timeout', %s, true)", (wait,))
            yield

    def _open_session(self) -> Session:
        """Open a new session.

        Raises:
            _UnreachableError: The server cannot be reached, or accepts no connection now.
        """
        connection = None
        try:
            connection = self._connect()
            return self._start_session(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, psycopg.OperationalError) and (
                error.sqlstate is None or isinstance(error, _TEMPORARY_ERRORS)
            ):  # later perhaps a connection can be made
                raise (_UnreachableError if connection is None else _LostError)(str(error)) from error
            raise

    def _start_session(self, connection: psycopg.Connection[Any]) -> Session:
        for name in ("server_encoding", "client_encoding"):
            encoding = connection.info.parameter_status(name) or ""
            if encoding.lower().replace("-", "") not in ("utf8", "unicode"):  # as a pool spells it
                problem = f"{encoding} would garble texts in {safe_repr(self.path)}"
                raise errors.StorageError(f"{problem}: make the database, or open the pool, with {name}='UTF8'.")
        session = Session(connection)
        session.detect_pooler(self._timeout)
        return session

    def _connect(self, **options: Any) -> Connection:
        # What takes long is waited for; a server that has gone is noticed after four probes without an answer.
        interval = min(max(1, round(self._timeout / 4)), 32_767)  # TCP takes no more
        probes = dict.fromkeys(("keepalives_idle", "keepalives_interval"), interval)
        arguments: dict[str, Any] = {**probes, "keepalives_count": 3, **psycopg.conninfo.conninfo_to_dict(self._url)}
        if self._hosts > 1 and not self.options.read_only:  # after a failover, another one is written
            arguments.setdefault("target_session_attrs", "read-write")
        arguments.setdefault("connect_timeout", max(2, round(self._timeout / self._hosts)))
        # A statement that the driver prepares would stay with the server, which a pooler gives to others.
        fixed = {"autocommit": True, "client_encoding": "utf8", "prepare_threshold": None}
        return Connection.connect(**(arguments | fixed | options))

    def _missing_migrations(self, select: Callable[[str], Iterable[Any]]) -> list[engine.Migration]:
        """Return the migrations that the schema lacks."""
        rows = select(f"select tablename from pg_tables where schemaname = '{self.options.schema}'")  # noqa: S608 - checked
        table = f'"{self.options.schema}".{engine.MIGRATION_TABLE}'
        return self._pending_migrations({row["tablename"] for row in rows}, lambda: select(f"select name from {table}"))  # noqa: S608

    def _migrate(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("select pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        # Another process may have been quicker: look again, now that nobody else migrates.
        pending = self._missing_migrations(connection.execute)
        exists = connection.execute("select from pg_namespace where nspname = %s", (self.options.schema,)).fetchall()
        if not exists:  # who may not make schemas may use one that was made for it
            connection.execute(f'create schema if not exists "{self.options.schema}"')
        connection.execute(_SET_SEARCH_PATH, (self.options.schema,))
        engine.migrate(pending, connection.execute)

    def _close(self) -> None:
        self._pool.close()

    # -- care --------------------------------------------------------------------------------------------------

    def health(self) -> Iterator[HealthCheck]:
        """Check the server's version and connections, the rights of the role, and the vectors."""
        [row] = self.read(lambda tx: tx.run_sql(_HEALTH_QUERY, {}))
        yield HealthCheck("postgresql", "ok", f"PostgreSQL {row['version']}")
        used = f"{row['used']:,} of {row['most']:,} connections are in use"
        if row["used"] > row["most"] * CROWDED_SHARE:
            remedy = "Lower pool_size in the programs, put a pooler in front, or raise max_connections."
            yield HealthCheck("connections", "problem", used, remedy)
        else:
            yield HealthCheck("connections", "ok", used)
        rights = f"select, insert, update, delete on all tables in schema {self.options.schema}"
        remedy = f"Let the owner of the tables run: grant {rights} to ..."
        if not row["reads"]:
            yield HealthCheck("permissions", "problem", "This user may not read all tables of the memory.", remedy)
        elif row["replica"]:
            yield HealthCheck(
                "permissions", "note", "The server is a replica, which is only read.", "Write to the primary."
            )
        elif not row["writes"]:
            yield HealthCheck(
                "permissions", "note", "This user may read the tables, and not write all of them.", remedy
            )
        else:
            yield HealthCheck("permissions", "ok", "this user may write")
        yield from super().health()

    def sizes(self) -> Sizes:
        """Return the bytes of the schema and of each table, indexes included.

        The query takes milliseconds at any size.
        """
        tables = {row["name"]: row["bytes"] for row in self.read(query.table_sizes)}
        return Sizes(total=sum(tables.values()), free=0, log=0, tables=tables)

    def scrub(self) -> None:
        """Rewrite every table and index with VACUUM FULL.

        The server's own log and backups stay as they are.
        For a role that does not own the tables, only a warning is logged.
        """
        tables = self.read(query.table_sizes)
        if not all(table["owned"] for table in tables):
            logger.warning(
                "What was erased is gone from %s, but this role does not own the tables, so their files may still "
                "hold it. Let the owner run VACUUM FULL.",
                safe_repr(self.path),
            )
            return
        with self.connection() as connection:
            self._wait_for_older(connection)
            for table in tables:
                name = psycopg.sql.Identifier(self.options.schema, table["name"])
                with self._lock_transaction(connection):  # VACUUM itself would wait for a lock without end
                    connection.execute(psycopg.sql.SQL("lock table {} in access exclusive mode").format(name))
                connection.execute(psycopg.sql.SQL("vacuum (full) {}").format(name))

    def alter(self, statements: Sequence[str]) -> None:
        """Run long statements that must not run in a transaction.

        Closing the engine does not wait for them.
        """
        self._check_open()
        with translate_errors(self.path), self._connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _wait_for_older(self, connection: psycopg.Connection[Any]) -> None:
        """Wait for the end of transactions that are older than the erasure.

        VACUUM keeps rows that such a transaction may still see.
        """
        deadline = time.monotonic() + self.options.busy_timeout
        [now] = connection.execute("select pg_current_xact_id()::text as id").fetchall()
        while True:
            [row] = connection.execute(_HAS_OLDER, now).fetchall()
            if not row["lasts"]:
                return
            if time.monotonic() > deadline:
                raise errors.DatabaseBusy(
                    "What was erased is gone from the tables, but an older transaction on the server still holds it. "
                    "End that (pg_stat_activity, pg_prepared_xacts or pg_replication_slots shows it) and erase again."
                )
            time.sleep(0.01)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Select]:
        """Read as of the moment when the block begins."""
        with self.connection() as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            numbers = itertools.count()

            def select(sql: str, parameters: Mapping[str, Any]) -> tuple[list[str], Iterator[Values]]:
                cursor = cursors.enter_context(
                    connection.cursor(f"agentmem_rows_{next(numbers)}", row_factory=tuple_row)
                )
                cursor.itersize = 500
                cursor.execute(re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", sql), parameters)
                return [column.name for column in cursor.description or ()], iter(cursor)

            with connection.transaction(), contextlib.ExitStack() as cursors:
                connection.execute(_SET_SEARCH_PATH, (self.options.schema,))
                yield select

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a dedicated autocommit connection that raises driver errors as the package's own."""
        with self._active_call(), translate_errors(self.path), self._connection() as connection:
            yield connection


@contextlib.contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Translate driver errors into errors of this package.

    Args:
        path: The database, in the form for errors.
    """
    try:
        yield
    except (pg.DataError, pg.ProgramLimitExceeded, UnicodeEncodeError) as error:
        raise errors.InvalidInput(f"A value cannot be stored in the database: {error}.") from error
    except psycopg.Error as error:
        reason = mask_passwords(str(error))
        for kind, ours in _ERRORS:
            if isinstance(error, kind) or isinstance(error.__cause__, kind):
                raise type(ours)(f"{ours} ({safe_repr(path)}: {reason})") from error
        raise errors.StorageError(f"The database {safe_repr(path)} failed: {reason}.") from error


def address_of(url: str) -> str:
    """Check the name of a database, and return it in the form for errors and logs.

    Args:
        url: A URL, or a connection string.

    Raises:
        InvalidInput: The name cannot be parsed, or only differently than meant.
    """
    masked = mask_passwords(url)
    if (problem := _find_url_problem(url, has_password=masked != url)) is None:
        return masked
    raise errors.InvalidInput(
        f"This is no address of a PostgreSQL database: {safe_repr(masked)}{problem}. Write "
        "postgresql://user:password@host:5432/database, and in the user and the password %40 for @, %2F for /, "
        "%3A for :, %23 for #, %3F for ?, %25 for % and %20 for a space."
    )


def _find_url_problem(url: str, *, has_password: bool) -> str | None:
    """Return the reason why an address is unusable, or None if it is usable.

    For an address with a password, the driver's message is left out: it may reveal part of the password.
    """
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except (psycopg.Error, ValueError) as error:
        return "" if has_password else f" ({str(error).strip()})"
    # A password that holds a / or @ which is not escaped ends there, and its rest is taken for a host or a name.
    port, host_and_name = str(parts.get("port", "")), f"{parts.get('host', '')}{parts.get('dbname', '')}"
    is_misplaced = "@" in host_and_name and "://" in url and "%40" not in url
    return "" if is_misplaced or not all(number.isdecimal() or not number for number in port.split(",")) else None
