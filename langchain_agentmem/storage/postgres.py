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
from langchain_agentmem.base.concurrency import reading, writing
from langchain_agentmem.base.safe_repr import without_passwords
from langchain_agentmem.errors import safe_repr
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.engine import DatabaseOptions, Engine, HealthCheck, RollbackRequested, Sizes
from langchain_agentmem.storage.queries import load, numbered, query, returns_rows, writes
from langchain_agentmem.storage.transaction import Operation, Rows, Select, Transaction, Values, refuse

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

RETRIES = 100
_ADVISORY_LOCK = 0x41474D45
_CHANGED = ("autocommit", "row_factory", "prepare_threshold", "isolation_level", "read_only")
"""The attributes that are changed on a borrowed connection."""

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


_HEALTH = """
    select current_setting('server_version') as version, pg_is_in_recovery() as replica,
        current_setting('max_connections')::int as most, (select sum(numbackends)::int from pg_stat_database) as used,
        bool_and(has_table_privilege(c.oid, 'select')) as reads,
        bool_and(has_table_privilege(c.oid, 'insert') and has_table_privilege(c.oid, 'update')
            and has_table_privilege(c.oid, 'delete')) as writes
    from pg_class c where c.relnamespace = to_regnamespace(current_schema()) and c.relkind = 'r'
"""
"""The version and connections of the server, and what this role may do with the tables."""
CROWDED = 0.8
"""The share of the server's connections in use from which they are reported as a problem."""


_LOOK_IN = "select set_config('search_path', %s, true)"


class _UnreachableError(psycopg.OperationalError):
    """The error of a failed connection attempt that may succeed later."""


class _LostError(_UnreachableError):
    """The error of a broken connection, as in a server restart: nothing was written."""


_FORGOTTEN = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)
"""Errors caused by a pooler that poses as the server, and moves a transaction to another server."""
_RETRIED = (errors.BranchMoved, pg.SerializationFailure, pg.DeadlockDetected, psycopg.IntegrityError, *_FORGOTTEN)
"""Errors that another transaction may cause: the operation is run again and finds the new state. A constraint fails if
one transaction collects content after another found it, but before that stores a reference."""
_PASSING = (pg.CannotConnectNow, pg.TooManyConnections, pg.AdminShutdown, pg.CrashShutdown)
"""Errors of a reachable server that temporarily accepts no connection, or drops new ones immediately."""

_NO_RIGHT = (
    "This role may not do that. Let the owner of the schema grant it, or run: agentmem migrate URL; then open the "
    "database with migrate=False."
)
_READS_ONLY = "This server only reads. Name the primary, or open the database with read_only=True."
_ERRORS: tuple[tuple[type[Exception], errors.StorageError], ...] = (
    (pg.ReadOnlySqlTransaction, errors.DatabaseReadOnly(_READS_ONLY)),
    (pg.InsufficientPrivilege, errors.DatabaseReadOnly(_NO_RIGHT)),
    (pg.InvalidSchemaName, errors.DatabaseReadOnly(_NO_RIGHT)),  # so is one that the role may not look into
    (pg.DiskFull, errors.DatabaseFull()),
    (pg.LockNotAvailable, errors.DatabaseBusy()),
    (pg.QueryCanceled, errors.DatabaseTimeout()),
    (NoAnswerError, errors.DatabaseTimeout()),
    (pg.ConnectionTimeout, errors.DatabaseTimeout()),
    (pg.DataCorrupted, errors.DatabaseUnreadable()),
    (pg.IndexCorrupted, errors.DatabaseUnreadable()),
)


@cache
def prepared(sql: str) -> PreparedQuery:
    """Translate a query with named parameters for PostgreSQL."""
    text, names = numbered(sql, "$")
    return PreparedQuery(text.encode(), names, returns_rows(sql), writes(sql))


_GIVE_RECEIPT = prepared(
    "insert into receipt (session, transactions, at) values (:session, :transactions, :at) "
    "on conflict (session) do update set transactions = excluded.transactions, at = excluded.at"
)
_RECEIPT_OF = (  # as soon as what the session is at is carried out or given up
    "insert into receipt (session, transactions, at) values (:session, 0, 0) "
    "on conflict (session) do update set at = receipt.at returning transactions"
)
_FORGET_RECEIPTS = prepared("delete from receipt where at < :before")


_IDENTITIES = (
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
        self._execute = self._copy_in = refuse  # the session may serve another transaction soon

    def run(self, query: str, parameters: dict[str, Any], *, ahead: bool = False) -> Rows:
        self._check(query, parameters)
        return self._send(self._sql[query], parameters, ahead=ahead)

    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        self._check(query, rows)
        prepared = self._sql[query]
        for each in rows:
            self._execute(prepared, each)

    def run_sql(self, sql: str, parameters: Mapping[str, Any], *, ahead: bool = False) -> Rows:
        return self._send(prepared(sql), parameters, ahead=ahead)

    def _send(self, statement: PreparedQuery, parameters: Mapping[str, Any], *, ahead: bool) -> Rows:
        answer: Answer = self._execute(statement, parameters)
        if not statement.returns:
            return ()
        return answer if ahead else answer.rows()

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self._copy_in(f"copy {table} ({', '.join(columns)}) from stdin", rows)

    def take_ids(self, table: str, count: int) -> list[int]:
        numbers = f"select nextval(pg_get_serial_sequence('{table}', 'id')) as id from generate_series(1, :count)"  # noqa: S608 - our own name
        return sorted(row["id"] for row in self.run_sql(numbers, {"count": count}))

    def advance_ids(self) -> None:
        for row in self.run_sql(_IDENTITIES, {}):
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
        opening: The options of the opening. Options for SQLite are ignored.

    Raises:
        ForeignDatabase: The schema `agentmem` exists and is not ours.
        NewerDatabase: A newer version of this package wrote it.
        StorageError: The server cannot be reached.
    """

    dialect = "postgres"
    _pool: Pool | BorrowedPool

    def __init__(self, url: Any, opening: DatabaseOptions = DatabaseOptions()) -> None:  # noqa: B008 - a value
        super().__init__(opening)
        for workers in (reading, writing):
            workers.size = max(workers.size, self.opening.pool_size)
        self._given: Any = None if isinstance(url, str) else url
        self._url = url if self._given is None else str(self._given.conninfo)
        self.path = address_of(self._url)
        self._sql = {name: prepared(sql) for name, sql in load(self.dialect).items()}
        self._timeout = self.opening.timeout
        self._opened = False
        self._hosts = 1 + str(psycopg.conninfo.conninfo_to_dict(self._url).get("host", "")).count(",")
        if self._given is None:
            self._pool = Pool(self._session, size=self.opening.pool_size, timeout=self.opening.busy_timeout)
        else:
            self._pool = BorrowedPool(self._given, self._session_on, timeout=self.opening.busy_timeout)
        with translated(self.path):
            try:
                if self._run(lambda tx: self._missing(lambda sql: tx.run_sql(sql, {})), write=False):
                    with self._connection() as connection, self._waiting_for_locks(connection):
                        self._migrate(connection)
            except BaseException:
                self._close()
                raise
        self._opened = True

    # -- transactions ------------------------------------------------------------------------------------------

    def _run(self, do: Operation[T], *, write: bool) -> T:
        races, gives_up = 0, None
        with translated(self.path):
            while True:
                try:
                    return self._transaction(self._pool.take(), do, write=write)
                except _RETRIED:
                    races += 1
                    if races >= RETRIES:
                        raise
                    time.sleep(random.uniform(0, 0.001 * min(races, 20)))  # noqa: S311 - spreads the losers
                except _UnreachableError as error:
                    now = time.monotonic()
                    gives_up = gives_up or now + self._timeout
                    answered = isinstance(error, _LostError) or isinstance(error.__cause__, _PASSING)
                    misspelt = not (self._opened or answered)  # perhaps: there may be no such server
                    if misspelt or isinstance(error.__cause__, pg.ConnectionTimeout) or now >= gives_up:
                        raise
                    time.sleep(min(random.uniform(0.05, 0.5), gives_up - now))  # noqa: S311

    def _transaction(self, session: Session, do: Operation[T], *, write: bool) -> T:
        decided = wrote = False
        try:
            session.begin(self.opening.schema, write=write, lock=self.opening.busy_timeout, patience=self._timeout)
            with _PostgresTransaction(self, session) as tx:
                value = do(tx)
            if not (write and session.heard):
                session.settle()  # a connection that was lost long ago is heard of before it could be too late
            if wrote := session.wrote:
                session.execute(_GIVE_RECEIPT, session.receipt)
                if session.receipt["transactions"] == 1:
                    session.execute(_FORGET_RECEIPTS, {"before": session.receipt["at"] - 24 * 3600 * 1_000_000})
            decided = write
            session.commit(wait=write)
        except BaseException as error:
            again = self._undone(session, error)
            elsewhere = self._hosts > 1 and isinstance(error, pg.ReadOnlySqlTransaction)
            if (again and not elsewhere) or not isinstance(error, psycopg.OperationalError | pg.ReadOnlySqlTransaction):
                raise
            if not (decided and wrote and self._was_committed(session)):
                if isinstance(error, NoAnswerError):
                    raise
                raise _LostError(str(error)) from error
        else:
            self._pool.give_back(session)
        return value

    def _was_committed(self, lost: Session) -> bool:
        """Return whether the transaction was committed in whose commit a session was lost.

        Raises:
            StorageError: The result of the commit cannot be determined.
        """

        def count(tx: Transaction) -> NoReturn:
            tx.run_sql("select set_config('lock_timeout', :wait, true)", {"wait": milliseconds(self._timeout)})
            # Where the server is still at it, this waits until it is done.
            [row] = tx.run_sql(_RECEIPT_OF, {"session": lost.receipt["session"]})
            raise RollbackRequested(row["transactions"])

        try:
            self._run(count, write=True)
        except RollbackRequested as done:
            return bool(done.value == lost.receipt["transactions"])
        except Exception as error:
            raise errors.StorageError(
                f"The connection to {safe_repr(self.path)} broke in the commit: it is not known whether this is "
                "written. Read, and write again what is missing: under the same id, a message is never stored twice."
            ) from error

    def _undone(self, session: Session, error: BaseException) -> bool:
        """Roll back a failed transaction; return whether the connection still works."""
        if isinstance(error, _FORGOTTEN):
            session.direct = False  # every other session finds it out for itself
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
            with self._connected(row_factory=dict_row) as connection:
                yield connection
            return
        lent = self._pool.lend()
        before = {name: getattr(lent, name) for name in _CHANGED}
        try:
            lent.autocommit, lent.row_factory, lent.prepare_threshold = True, dict_row, None
            yield lent
        finally:
            if not lent.closed:
                for name, value in before.items():
                    setattr(lent, name, value)
            self._given.putconn(lent)

    @contextlib.contextmanager
    def _waiting_for_locks(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Open a transaction that waits for locks up to `busy_timeout` seconds."""
        with connection.transaction():
            wait = milliseconds(self.opening.busy_timeout)
            connection.execute("select set_config('lock_timeout', %s, true)", (wait,))
            yield

    def _session(self) -> Session:
        """Open a new session.

        Raises:
            _UnreachableError: The server cannot be reached, or accepts no connection now.
        """
        connection = None
        try:
            connection = self._connected()
            return self._session_on(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, psycopg.OperationalError) and (
                error.sqlstate is None or isinstance(error, _PASSING)
            ):  # later perhaps a connection can be made
                raise (_UnreachableError if connection is None else _LostError)(str(error)) from error
            raise

    def _session_on(self, connection: psycopg.Connection[Any]) -> Session:
        for name in ("server_encoding", "client_encoding"):
            encoding = connection.info.parameter_status(name) or ""
            if encoding.lower().replace("-", "") not in ("utf8", "unicode"):  # as a pool spells it
                wrong = f"{encoding} would garble texts in {safe_repr(self.path)}"
                raise errors.StorageError(f"{wrong}: make the database, or open the pool, with {name}='UTF8'.")
        session = Session(connection)
        session.get_acquainted(self._timeout)
        return session

    def _connected(self, **options: Any) -> Connection:
        # What takes long is waited for; a server that has gone is noticed after four probes without an answer.
        between = min(max(1, round(self._timeout / 4)), 32_767)  # TCP takes no more
        probes = dict.fromkeys(("keepalives_idle", "keepalives_interval"), between)
        given: dict[str, Any] = {**probes, "keepalives_count": 3, **psycopg.conninfo.conninfo_to_dict(self._url)}
        if self._hosts > 1 and not self.opening.read_only:  # after a failover, another one is written
            given.setdefault("target_session_attrs", "read-write")
        given.setdefault("connect_timeout", max(2, round(self._timeout / self._hosts)))
        # A statement that the driver prepares would stay with the server, which a pooler gives to others.
        fixed = {"autocommit": True, "client_encoding": "utf8", "prepare_threshold": None}
        return Connection.connect(**(given | fixed | options))

    def _missing(self, select: Callable[[str], Iterable[Any]]) -> list[engine.Migration]:
        """Return the migrations that the schema lacks."""
        rows = select(f"select tablename from pg_tables where schemaname = '{self.opening.schema}'")  # noqa: S608 - checked
        records = f'"{self.opening.schema}".{engine.RECORDS}'
        return self._pending({row["tablename"] for row in rows}, lambda: select(f"select name from {records}"))  # noqa: S608

    def _migrate(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("select pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        # Another process may have been quicker: look again, now that nobody else migrates.
        pending = self._missing(connection.execute)
        there = connection.execute("select from pg_namespace where nspname = %s", (self.opening.schema,)).fetchall()
        if not there:  # who may not make schemas may use one that was made for it
            connection.execute(f'create schema if not exists "{self.opening.schema}"')
        connection.execute(_LOOK_IN, (self.opening.schema,))
        engine.migrate(pending, connection.execute)

    def _close(self) -> None:
        self._pool.close()

    # -- care --------------------------------------------------------------------------------------------------

    def health(self) -> Iterator[HealthCheck]:
        """Check the server's version and connections, the rights of the role, and the vectors."""
        [row] = self.read(lambda tx: tx.run_sql(_HEALTH, {}))
        yield HealthCheck("postgresql", "ok", f"PostgreSQL {row['version']}")
        used = f"{row['used']:,} of {row['most']:,} connections are in use"
        if row["used"] > row["most"] * CROWDED:
            remedy = "Lower pool_size in the programs, put a pooler in front, or raise max_connections."
            yield HealthCheck("connections", "problem", used, remedy)
        else:
            yield HealthCheck("connections", "ok", used)
        rights = f"select, insert, update, delete on all tables in schema {self.opening.schema}"
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
            self._outwait_older_transactions(connection)
            for table in tables:
                name = psycopg.sql.Identifier(self.opening.schema, table["name"])
                with self._waiting_for_locks(connection):  # VACUUM itself would wait for a lock without end
                    connection.execute(psycopg.sql.SQL("lock table {} in access exclusive mode").format(name))
                connection.execute(psycopg.sql.SQL("vacuum (full) {}").format(name))

    def alter(self, statements: Sequence[str]) -> None:
        """Run long statements that must not run in a transaction.

        Closing the engine does not wait for them.
        """
        self._check()
        with translated(self.path), self._connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _outwait_older_transactions(self, connection: psycopg.Connection[Any]) -> None:
        """Wait for the end of transactions that are older than the erasure.

        VACUUM keeps rows that such a transaction may still see.
        """
        deadline = time.monotonic() + self.opening.busy_timeout
        [now] = connection.execute("select pg_current_xact_id()::text as id").fetchall()
        while True:
            [row] = connection.execute(_OLDER_LASTS, now).fetchall()
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
                connection.execute(_LOOK_IN, (self.opening.schema,))
                yield select

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a dedicated autocommit connection that raises driver errors as the package's own."""
        with self._in_use(), translated(self.path), self._connection() as connection:
            yield connection


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate driver errors into errors of this package.

    Args:
        path: The database, in the form for errors.
    """
    try:
        yield
    except (pg.DataError, pg.ProgramLimitExceeded, UnicodeEncodeError) as error:
        raise errors.InvalidInput(f"A value cannot be stored in the database: {error}.") from error
    except psycopg.Error as error:
        reason = without_passwords(str(error))
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
    told = without_passwords(url)
    if (problem := _misunderstood(url, has_password=told != url)) is None:
        return told
    raise errors.InvalidInput(
        f"This is no address of a PostgreSQL database: {safe_repr(told)}{problem}. Write "
        "postgresql://user:password@host:5432/database, and in the user and the password %40 for @, %2F for /, "
        "%3A for :, %23 for #, %3F for ?, %25 for % and %20 for a space."
    )


def _misunderstood(url: str, *, has_password: bool) -> str | None:
    """Return the reason why an address is unusable, or None if it is usable.

    For an address with a password, the driver's message is left out: it may reveal part of the password.
    """
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except (psycopg.Error, ValueError) as error:
        return "" if has_password else f" ({str(error).strip()})"
    # A password that holds a / or @ which is not escaped ends there, and its rest is taken for a host or a name.
    port, elsewhere = str(parts.get("port", "")), f"{parts.get('host', '')}{parts.get('dbname', '')}"
    strayed = "@" in elsewhere and "://" in url and "%40" not in url
    return "" if strayed or not all(number.isdecimal() or not number for number in port.split(",")) else None
