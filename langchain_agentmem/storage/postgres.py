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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Self, TypeVar

from langchain_agentmem.base.concurrency import reading, writing
from langchain_agentmem.base.safe_repr import safe_repr, without_passwords
from langchain_agentmem.errors import (
    AgentMemoryError,
    BranchMoved,
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseTimeout,
    DatabaseUnreadable,
    ForeignDatabase,
    InvalidInput,
    MemoryClosed,
    MissingExtra,
    StorageError,
)
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.engine import Engine, Opening, Sizes
from langchain_agentmem.storage.queries import for_libpq, load, returns_rows, writes
from langchain_agentmem.storage.transaction import TRANSACTION_ENDED, Operation, Rows, Select, Transaction, Values

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.abc import PQGen
    from psycopg.rows import DictRow, dict_row, tuple_row

    from langchain_agentmem.storage.postgres_session import (
        Connection,
        GivenPool,
        Later,
        NoAnswerError,
        Pool,
        Prepared,
        Session,
    )
except ImportError as error:
    raise MissingExtra("A PostgreSQL database", "postgres") from error

logger = logging.getLogger(__name__)

FETCHED = 500
T = TypeVar("T")
C = TypeVar("C", bound="psycopg.Connection[Any]")

RETRIES = 100
RETRIES_OF_CONSTRAINTS = 25  # a namespace may be taken away by others again and again
_ADVISORY_LOCK = 0x41474D45
_AT_ONCE = 1.0
"""Seconds that the server may take for what is not to wait for anybody."""
_LOOK = 2
"""Seconds to look whether a server that is long at something answers others."""
_CHANGED = ("autocommit", "row_factory", "prepare_threshold", "isolation_level", "read_only")
"""What is set otherwise on a connection that is lent for a while."""
_KEPT = 24 * 3600 * 1_000_000
"""Microseconds that a session may leave its receipt alone."""
_PAUSES = 0.05, 1.0
"""Seconds between two attempts to reach the server: the first, and most."""

_WAITS_FOR_A_LOCK = "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"

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


class _UnreachableError(psycopg.OperationalError):
    """No connection could be made, but perhaps later."""


class _LostError(_UnreachableError):
    """The connection broke, as in a restart of the server: nothing was written."""


_FORGOTTEN = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)
"""What a pooler causes that passes for the server itself, and gives a transaction another server."""
_RETRIED = (BranchMoved, pg.SerializationFailure, pg.DeadlockDetected, psycopg.IntegrityError, *_FORGOTTEN)
"""What another transaction may cause: the operation begins again and finds the new state. A constraint is broken when
content was collected by one transaction between being found and being named by another."""
_PASSING = (pg.CannotConnectNow, pg.TooManyConnections, pg.AdminShutdown, pg.CrashShutdown)
"""Why a server that can be reached takes nobody, for a while, or lets go at once of whom it took."""

_NO_RIGHT = (
    "This role may not do that. Let the owner of the schema grant it, or run: agentmem migrate URL; then open the "
    "database with migrate=False."
)
_ERRORS: tuple[tuple[type[Exception], StorageError], ...] = (
    (
        pg.ReadOnlySqlTransaction,
        DatabaseReadOnly("This server only reads. Name the primary, or open the database with read_only=True."),
    ),
    (pg.InsufficientPrivilege, DatabaseReadOnly(_NO_RIGHT)),
    (pg.InvalidSchemaName, DatabaseReadOnly(_NO_RIGHT)),  # so is one that the role may not look into
    (pg.DiskFull, DatabaseFull()),
    (pg.LockNotAvailable, DatabaseBusy()),
    (pg.QueryCanceled, DatabaseTimeout()),
    (NoAnswerError, DatabaseTimeout()),
    (pg.ConnectionTimeout, DatabaseTimeout()),
    (pg.DataCorrupted, DatabaseUnreadable()),
    (pg.IndexCorrupted, DatabaseUnreadable()),
)


@cache
def prepared(sql: str) -> Prepared:
    """A query with named parameters, as PostgreSQL takes it."""
    text, names = for_libpq(sql)
    return Prepared(text.encode(), names, returns_rows(sql), writes(sql))


_GIVE_RECEIPT = prepared(
    "insert into receipt (session, transactions, at) values (:session, :transactions, :at) "
    "on conflict (session) do update set transactions = excluded.transactions, at = excluded.at"
)
_RECEIPT_OF = prepared(  # as soon as what the session is at is carried out or given up
    "insert into receipt (session, transactions, at) values (:session, 0, 0) "
    "on conflict (session) do update set at = receipt.at returning transactions"
)
_FORGET_RECEIPTS = prepared("delete from receipt where at < :before")


_IDENTITIES = (
    "select table_name as name, column_name as id from information_schema.columns "
    "where table_schema = current_schema() and is_identity = 'YES'"
)


class _Patience:
    """How long a server that cannot be reached is waited for, from the first time on.

    Args:
        seconds: So long.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None
        self._pause, self._most = _PAUSES

    def wait(self) -> bool:
        """Wait a little, each time longer; False where it has been long enough."""
        now = time.monotonic()
        self._until = now + self._seconds if self._until is None else self._until
        if now >= self._until:
            return False
        time.sleep(min(random.uniform(self._pause / 2, self._pause), self._until - now))  # noqa: S311 - spreads them
        self._pause = min(2 * self._pause, self._most)
        return True


class _PostgresTransaction(Transaction):
    """A transaction that a session has begun, until the block of its `with` ends.

    Queries are pipelined: only rows that are needed now are waited for.
    """

    __slots__ = ("_check", "_session", "_sql")

    def __init__(self, engine: PostgresEngine, session: Session) -> None:
        self._check, self._sql = engine._check_sizes, engine._sql
        self._session: Session | None = session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None  # it may serve another transaction soon

    def run(self, query: str, parameters: dict[str, Any], *, ahead: bool = False) -> Rows:
        self._check(query, parameters)
        if (session := self._session) is None:
            raise StorageError(TRANSACTION_ENDED)
        prepared = self._sql[query]
        answer = session.execute(prepared, parameters)
        if not prepared.returns:
            return ()
        return Later(session, answer) if ahead else session.rows(answer)

    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        self._check(query, rows)
        if (session := self._session) is None:
            raise StorageError(TRANSACTION_ENDED)
        prepared = self._sql[query]
        for each in rows:
            session.execute(prepared, each)

    def run_sql(self, sql: str, parameters: Mapping[str, Any], *, ahead: bool = False) -> Rows:
        if (session := self._session) is None:
            raise StorageError(TRANSACTION_ENDED)
        query = prepared(sql)
        answer = session.execute(query, dict(parameters))
        if not query.returns:
            return ()
        return Later(session, answer) if ahead else session.rows(answer)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Values]) -> None:
        if (session := self._session) is None:
            raise StorageError(TRANSACTION_ENDED)
        session.copy_in(f"copy {table} ({', '.join(columns)}) from stdin", rows)

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
        opening: How it is opened. What is said of SQLite does not matter.

    Raises:
        ForeignDatabase: The schema `agentmem` exists and is not ours.
        NewerDatabase: A newer version of this package wrote it.
        StorageError: The server cannot be reached.
    """

    dialect = "postgres"
    index_tail = 0
    _pool: Pool | GivenPool

    def __init__(
        self,
        url: Any,
        opening: Opening = Opening(),  # noqa: B008 - a value
    ) -> None:
        super().__init__(opening)
        for workers in (reading, writing):
            workers.allow(opening.pool_size)
        self._pooled = False
        self.schema = opening.schema
        self._given = None if isinstance(url, str) else url
        self._url = url if self._given is None else str(self._given.conninfo)
        self.path = address_of(self._url)
        self._sql = {name: prepared(sql) for name, sql in load(self.dialect).items()}
        self._busy_timeout = opening.busy_timeout
        self._timeout = opening.timeout
        self._hosts = 1 + str(psycopg.conninfo.conninfo_to_dict(self._url).get("host", "")).count(",")
        if self._given is None:
            self._pool = Pool(self._session, size=self.opening.pool_size, timeout=self._busy_timeout)
        else:
            self._pool = GivenPool(self._given, self._session_on, timeout=self._busy_timeout)
        with self._in_use(), self._translated():
            try:
                self._open()
            except BaseException:
                self._close()
                raise

    # -- transactions ------------------------------------------------------------------------------------------

    def _run(self, do: Operation[T], *, write: bool) -> T:
        with self._translated():
            lost, races = _Patience(self._timeout), 0
            while True:
                try:
                    return self._transaction(self._pool.take(), do, write=write)
                except _RETRIED as error:
                    races += 1
                    if races >= (RETRIES_OF_CONSTRAINTS if isinstance(error, psycopg.IntegrityError) else RETRIES):
                        raise
                    time.sleep(random.uniform(0, 0.001 * min(races, 20)))  # noqa: S311 - spreads the losers
                except _UnreachableError as error:
                    if isinstance(error.__cause__, pg.ConnectionTimeout) or not lost.wait():  # either is long enough
                        raise

    def _run_at_once(self, do: Operation[T], patience: float) -> T:
        session = self._pool.spare()
        if session is None:
            raise DatabaseBusy(f"No connection to {safe_repr(self.path)} is free.")
        with self._translated():
            try:
                session.begin(self.schema, write=True, lock=patience, patience=_AT_ONCE)
                with _PostgresTransaction(self, session) as tx:
                    value = do(tx)
                session.settle()
                session.commit(wait=True)
            except BaseException as error:
                self._undone(session, error)
                raise
            self._pool.give_back(session)
            return value

    def _transaction(self, session: Session, do: Operation[T], *, write: bool) -> T:
        decided = wrote = False
        try:
            session.begin(self.schema, write=write, lock=self._busy_timeout, patience=self._timeout)
            with _PostgresTransaction(self, session) as tx:
                value = do(tx)
            if not (write and session.heard):
                session.settle()  # a connection that was lost long ago is heard of before it could be too late
            if wrote := session.wrote:
                session.execute(_GIVE_RECEIPT, session.receipt)
                if session.receipt["transactions"] == 1:
                    session.execute(_FORGET_RECEIPTS, {"before": session.receipt["at"] - _KEPT})
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
        """Whether the last transaction of a session that was lost in the commit was carried out.

        Raises:
            StorageError: It cannot be found out.
        """
        patience = _Patience(self._timeout)
        while True:
            session = None
            try:
                session = self._pool.take()
                session.begin(self.schema, write=True, lock=self._timeout, patience=self._timeout)
                # Where the server is still at it, this waits until it is done.
                [row] = session.rows(session.execute(_RECEIPT_OF, {"session": lost.receipt["session"]}))
                session.roll_back()
            except Exception as error:
                if session is not None:
                    self._undone(session, error)
                if isinstance(error, _UnreachableError | psycopg.OperationalError) and patience.wait():
                    continue
                raise StorageError(
                    f"The connection to {safe_repr(self.path)} broke in the commit, and the server could not be asked "
                    "since: it is not known whether this was written. Read, and write again what is missing: under the "
                    "same id, a message is never stored twice."
                ) from error
            self._pool.give_back(session)
            return bool(row["transactions"] == lost.receipt["transactions"])

    def _undone(self, session: Session, error: BaseException) -> bool:
        """Take back what a transaction did that failed; whether the connection is still there."""
        if isinstance(error, _FORGOTTEN):
            session.direct = False  # every other session finds it out for itself
            self._pooled = True
        if isinstance(error, Exception) and not isinstance(error, NoAnswerError) and not session.broken:
            with contextlib.suppress(psycopg.Error):
                session.roll_back()
                self._pool.give_back(session)
                return True
        self._pool.drop(session, stop=not isinstance(error, Exception))
        return False

    # -- opening and closing -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[DictRow]]:
        """A connection that commits every statement."""
        if isinstance(self._pool, Pool):
            with self._connected(psycopg.Connection[DictRow], row_factory=dict_row) as connection:
                self._watch(connection)
                yield connection
            return
        with self._pool.lent() as lent:
            before = {name: getattr(lent, name) for name in _CHANGED}
            try:
                lent.autocommit, lent.row_factory, lent.prepare_threshold = True, dict_row, None
                self._watch(lent)
                yield lent
            finally:
                vars(lent).pop("wait", None)
                for name, value in before.items():
                    if not lent.closed:
                        setattr(lent, name, value)

    def _watch(self, connection: psycopg.Connection[Any]) -> None:
        """Have a connection wait as long as its statements take, but for no lock, and for no server that is silent."""

        def wait(answer: PQGen[Any], *given: Any, **options: Any) -> Any:
            return type(connection).wait(connection, self._watched(connection, answer), *given, **options)

        vars(connection)["wait"] = wait

    def _watched(self, connection: psycopg.Connection[Any], answer: PQGen[Any]) -> PQGen[Any]:
        looked = time.monotonic()
        try:
            wanted = next(answer)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() - looked > self._timeout:
                    self._look_at(connection)
                    looked = time.monotonic()
                wanted = answer.send(ready)
        except StopIteration as done:
            return done.value

    def _look_at(self, connection: psycopg.Connection[Any]) -> None:
        try:
            with self._connected(psycopg.Connection[Any], connect_timeout=_LOOK) as other:
                waits = other.execute(_WAITS_FOR_A_LOCK, [connection.info.backend_pid]).fetchall()
        except pg.ConnectionTimeout as error:
            raise NoAnswerError("the server does not answer") from error
        if waits:
            connection.cancel_safe(timeout=_LOOK)
            raise pg.LockNotAvailable("others hold a lock")

    def _session(self) -> Session:
        """A new session.

        Raises:
            _UnreachableError: The server cannot be reached, or takes nobody now.
        """
        connection = None
        try:
            connection = self._connected(Connection)
            return self._session_on(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if _passes(error):
                raise (_UnreachableError if connection is None else _LostError)(str(error)) from error
            raise

    def _session_on(self, connection: psycopg.Connection[Any]) -> Session:
        session = Session(connection)
        if not self._pooled:
            session.get_acquainted(self._timeout)
        return session

    def _connected(self, kind: type[C], **options: Any) -> C:
        given: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(self._url)
        if self._hosts > 1 and not self.opening.read_only:  # after a failover, another one is written
            given.setdefault("target_session_attrs", "read-write")
        given.setdefault("connect_timeout", max(2, round(self._timeout / self._hosts)))
        # A statement that the driver prepares would stay with the server, which a pooler gives to others.
        fixed = {"autocommit": True, "client_encoding": "utf8", "prepare_threshold": None}
        return kind.connect(**(given | fixed | options))

    def _open(self) -> None:
        """Check that the schema is ours, and bring it up to date; wait for a server that is about to begin."""
        patience = _Patience(self._timeout)
        while True:
            try:
                pending = self._found()
            except _UnreachableError as error:  # a server that is not there at all may be misspelt
                passing = isinstance(error, _LostError) or isinstance(error.__cause__, _PASSING)
                if not (passing and patience.wait()):
                    raise
            else:
                break
        if pending:
            with self._connection() as connection, connection.transaction():
                self._migrate(connection)

    def _found(self) -> list[engine.Migration]:
        """What the schema lacks."""
        session = self._pool.take()
        try:
            session.begin(self.schema, write=False, lock=self._busy_timeout, patience=self._timeout)
            pending = self._pending(self._applied(lambda sql: session.rows(session.execute(prepared(sql), {}))))
            encoding = session.connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise StorageError(  # noqa: TRY301 - as what the schema is refused for
                    f"The database {safe_repr(self.path)} stores texts as {encoding}, which lacks characters. Give "
                    "langchain-agentmem one that was made with encoding 'UTF8'."
                )
            session.commit(wait=True)
        except BaseException as error:
            if not self._undone(session, error) and isinstance(error, psycopg.OperationalError):
                raise _LostError(str(error)) from error
            raise
        self._pool.give_back(session)
        return pending

    def _migrate(self, connection: psycopg.Connection[DictRow]) -> None:
        lock = f"{max(1, round(self._busy_timeout * 1000))}ms"
        connection.execute("select set_config('lock_timeout', %s, true)", (lock,))
        connection.execute("select pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        # Another process may have been quicker: look again, now that nobody else migrates.
        applied = self._applied(lambda sql: connection.execute(sql).fetchall())
        pending = self._pending(applied)
        [found] = connection.execute(
            "select to_regnamespace(name) is not null as there, quote_ident(name) <> name as reserved "
            "from cast(%s as text) name",
            (self.schema,),
        ).fetchall()
        if found["reserved"]:
            raise InvalidInput(f"schema cannot be {safe_repr(self.schema)}, which is a word of SQL.")
        if not found["there"]:  # who may not make schemas may use one that was made for it
            connection.execute(f"create schema if not exists {self.schema}")
        look_in(connection, self.schema)
        connection.execute(engine.RECORD)
        for migration in pending:
            connection.execute(migration.sql)
            connection.execute(
                "insert into agentmem_migration (name, applied_at) values (%s, %s)",
                (migration.name, time.time_ns() // 1000),
            )

    def _applied(self, ask: Callable[[str], Rows]) -> set[str]:
        rows = ask(f"select tablename from pg_tables where schemaname = '{self.schema}'")  # noqa: S608 - checked
        tables = {row["tablename"] for row in rows}  # of others, too: they are not for us to add to
        if not tables:
            return set()
        if "agentmem_migration" not in tables:
            raise ForeignDatabase(
                f"The schema {safe_repr(self.schema)} in {safe_repr(self.path)} holds another program's tables "
                f"({', '.join(sorted(tables)[:3])}). Give langchain-agentmem a database of its own."
            )
        return {row["name"] for row in ask(f"select name from {self.schema}.agentmem_migration")}  # noqa: S608 - checked

    def _close(self) -> None:
        self._pool.close()

    # -- care --------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """PostgreSQL enforces keys and checks pages itself; what it reports while every table is read is returned."""
        try:
            with self._in_use(), self._translated(), self._connection() as connection:
                for table in self._tables(connection):
                    name = psycopg.sql.Identifier(self.schema, table)
                    connection.execute(psycopg.sql.SQL("select count(*) from {}").format(name))
        except (MemoryClosed, DatabaseTimeout):
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

    def is_same(self, other: Engine) -> bool:
        """Whether another engine leads to the same schema of the same database."""
        which = (
            "select current_database() as name, current_schema() as place, "
            "cast(pg_postmaster_start_time() as text) as began"
        )
        if not isinstance(other, PostgresEngine):
            return False
        mine, theirs = (each.read(lambda tx: [dict(row) for row in tx.run_sql(which, {})]) for each in (self, other))
        return mine == theirs

    def pool_stats(self) -> engine.PoolStats:
        """The connections of this process."""
        return self._pool.stats()

    def scrub(self) -> None:
        """Rewrite every table and index with VACUUM FULL. The server's own log and backups are the server's affair.

        Who does not own the tables may not do so, and is told in a warning of the log.
        """
        with self._in_use(), self._translated(), self._connection() as connection:
            if not self._owned(connection):
                logger.warning(
                    "What was erased is gone from %s, but this role does not own the tables, so their files may still "
                    "hold it. Let the owner run VACUUM FULL.",
                    safe_repr(self.path),
                )
                return
            self._outwait_older_transactions(connection)
            for table in self._tables(connection):
                name = psycopg.sql.Identifier(self.schema, table)
                connection.execute(psycopg.sql.SQL("vacuum (full) {}").format(name))

    def alter(self, statements: Sequence[str]) -> None:
        """Run statements that take long and that no transaction may hold. Closing the engine does not wait for them."""
        self._check()
        with self._translated(), self._connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

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

    def _owned(self, connection: psycopg.Connection[DictRow]) -> bool:
        """Whether this role owns the tables."""
        [row] = connection.execute(
            "select coalesce(bool_and(pg_has_role(c.relowner, 'usage')), true) as owned from pg_class c "
            "join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relkind = 'r'",
            (self.schema,),
        ).fetchall()
        return bool(row["owned"])

    def _tables(self, connection: psycopg.Connection[Any]) -> list[str]:
        rows = connection.execute(
            "select table_name from information_schema.tables where table_schema = %s order by table_name",
            (self.schema,),
        ).fetchall()
        return [row["table_name"] for row in rows]

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
                cursor.itersize = FETCHED
                cursor.execute(re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", sql), parameters)
                return [column.name for column in cursor.description or ()], iter(cursor)

            with connection.transaction(), contextlib.ExitStack() as cursors:
                look_in(connection, self.schema)
                yield select

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[DictRow]]:
        """A connection of its own, which commits every statement; driver errors leave as our own."""
        with self._in_use(), self._translated(), self._connection() as connection:
            yield connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Driver errors leave as our own."""
        with translated(self.path):
            yield


def look_in(connection: psycopg.Connection[Any], schema: str) -> None:
    """Have the rest of a transaction find its tables in a schema."""
    connection.execute("select set_config('search_path', %s, true)", (schema,))


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
        if "statement pooling" in str(error):
            raise StorageError(
                f"The pooler at {safe_repr(path)} gives each statement a connection of its own, so that nothing can be "
                "written as one. Set its pool_mode to transaction or session."
            ) from error
        for kind, ours in _ERRORS:
            if isinstance(error, kind) or isinstance(error.__cause__, kind):
                raise type(ours)(f"{ours} ({safe_repr(path)}: {_said(error)})") from error
        raise StorageError(f"The database {safe_repr(path)} failed: {_said(error)}.") from error


def _passes(error: BaseException) -> bool:
    """Whether no connection could be made, and later perhaps one can."""
    return isinstance(error, psycopg.OperationalError) and (error.sqlstate is None or isinstance(error, _PASSING))


def _said(error: psycopg.Error) -> str:
    return without_passwords(str(error))


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
