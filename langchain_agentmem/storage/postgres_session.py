"""A connection to PostgreSQL that pipelines its statements.

Round trips, and the driver's work for each of them, take most of a transaction's time. So a session uses libpq's
pipeline mode, through the driver's wrapper of libpq. The session sends statements without waiting for their answers,
and waits only when rows are read. If a statement without rows fails, the next wait raises the error, in the same
transaction. The driver's own pipeline takes twice the time (`tests/benchmarks/postgres_session.py`).

A pooler, such as PgBouncer, may run each transaction on another server connection. So settings apply to one transaction
only, and statements are not prepared, unless the session is connected to the server directly. Behind a pooler, the
server parses each statement again, unless a statement repeats the previous one of the transaction. No caller waits for
the end of a read-only transaction. Behind a pooler, the session waits for this end before it begins the next
transaction.

A `Pool` lends a few sessions to any number of threads. It lends the most recently returned session first, to reuse its
prepared statements and the server's caches.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg import errors as pg
from psycopg import pq, waiting
from psycopg.abc import PQGen
from psycopg.adapt import Transformer

from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.errors import DatabaseBusy, StorageError
from langchain_agentmem.storage.transaction import Rows

# At this isolation level, a statement that has waited for a lock sees what the holder of the lock committed.
BEGIN = b"begin isolation level read committed"
COMMIT, ROLLBACK = b"commit", b"rollback"
BEGIN_READING = b"begin isolation level repeatable read, read only"
SETTINGS = (
    b"select set_config('search_path', $1, $4), set_config('lock_timeout', $2, $4), "
    b"set_config('statement_timeout', $3, $4), set_config('jit', 'off', $4), "
    b"set_config('enable_mergejoin', 'off', $4), set_config('plan_cache_mode', "
    b"case when current_setting('citus.version', true) is null then 'force_generic_plan' else 'auto' end, $4)"
)
"""Sets the settings of a transaction, or of a session if the last parameter is false.

JIT is off: the planner overestimates queries on JSON, and would compile them each time. Merge joins are off: the
planner expects them to stop early, but the newest rows are at the end. Plans are generic: a prepared statement is
planned once. By default, the server compares the generic plan with earlier plans from when the tables were small, and
may then plan each call. Citus is the exception: it cannot plan some statements without the values of their parameters.
"""
_SERVER_QUERY = (
    b"select pg_backend_pid() as pid, coalesce(host(inet_server_addr()), '') as address, "
    b"current_setting('port') as port"
)
_UNKNOWN, _BOOL, _BYTEA, _INT8, _FLOAT8 = 0, 16, 17, 20, 701  # OIDs of types; the server infers an unknown type
_FAILED_STATUSES = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED)
_WAKE_SECONDS = 0.1
"""Seconds after which a wait for the server checks again whether it was interrupted or timed out."""


class PreparedQuery(NamedTuple):
    """A query in PostgreSQL's form.

    Attributes:
        text: The SQL, with numbered parameters.
        names: The parameters' names by number.
        returns_rows: True if the query returns rows.
        is_write: True if the query may write.
    """

    text: bytes
    names: tuple[str, ...]
    returns_rows: bool
    is_write: bool


class NoAnswerError(psycopg.OperationalError):
    """An error of a server that does not answer in time."""


_StatementKey: TypeAlias = tuple[str, bytes, tuple[int, ...]]
"""The key of a prepared statement: the schema, the SQL, and the types of the parameters."""


class _BoundParameter(NamedTuple):
    """A parameter in the form that is sent to the server."""

    type: int
    format: int
    value: bytes | None


_NULL_PARAMETER: Final = _BoundParameter(_UNKNOWN, pq.Format.TEXT, None)


class Answer(Sequence[Any]):
    """The answer to a sent statement, whose rows are fetched when they are first read.

    Args:
        session: The session that sent the statement.
        prepared_key: The key of a statement, if this is the answer to the preparation of that statement.
    """

    __slots__ = ("_rows", "_session", "prepared_key", "result")

    def __init__(self, session: Session, prepared_key: _StatementKey | None = None) -> None:
        self._session, self.prepared_key = session, prepared_key
        self._rows: Rows | None = None
        self.result: pq.abc.PGresult | None = None  # None until the session has received it

    def rows(self) -> Rows:
        """Wait for the rows.

        Raises:
            psycopg.Error: The statement failed, or an earlier one.
        """
        if self._rows is None:
            self._rows = self._session.rows(self)
        return self._rows

    def __getitem__(self, index: Any) -> Any:
        return self.rows()[index]

    def __len__(self) -> int:
        return len(self.rows())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows())


class Connection(psycopg.Connection[Any]):
    """A connection that a forked child process neither closes nor warns about."""

    def __del__(self, *_: Any) -> None:
        """Do nothing. Its libpq object closes the connection, in the process that opened it."""


class Session:
    """One connection, with the statements whose answers it has not received yet.

    Args:
        connection: An open connection, which then belongs to the session.
        keeps_settings: True if no other program uses the connection. The connection then keeps its settings if the
            address of the server proves that there is no pooler. Default: False.

    Attributes:
        connection: The connection. Between `enter` and `leave`, only the session uses it.
        is_direct: True if there is probably no pooler, so that prepared statements stay valid.
        has_written: True if the transaction sent a statement that may write.
        receipt: The row of the table `receipt` that a writing transaction stores, to verify its commit: the id of the
            session (unique among all processes), the number of the session's writing transactions so far, and the time
            in microseconds since 1970.
    """

    def __init__(self, connection: psycopg.Connection[Any], *, keeps_settings: bool = False) -> None:
        self.has_written = False
        self._keeps_settings, self._has_settings = keeps_settings, False
        self.receipt = {"session": secrets.randbits(63), "transactions": 0, "at": 0}
        self.connection = connection
        self._libpq = connection.pgconn
        self._schema = ""
        self.is_direct = False
        self._prepared_names: dict[_StatementKey, bytes] = {}
        self._last_unnamed: tuple[bytes, tuple[int, ...]] | None = None  # the statement last sent without a name
        self._prepared_count = 0
        self._unanswered: deque[Answer] = deque()  # the answers that the server still has to send, in order
        self._sync_marker = Answer(self)  # the answer to a sync point; after an error, the server skips to the next one
        self._begin_answer = Answer(self)
        self._timeout = self._deadline = 0.0
        self.enter()

    def enter(self) -> None:
        """Reserve the connection for exclusive use."""
        self._libpq.enter_pipeline_mode()

    def leave(self) -> None:
        """Receive all answers, and restore the earlier state of the connection.

        Raises:
            psycopg.Error: The connection is lost.
        """
        self._receive_all()
        self._libpq.exit_pipeline_mode()

    @property
    def broken(self) -> bool:
        """True if the connection was lost or closed."""
        return self._libpq.status != pq.ConnStatus.OK

    @property
    def has_answer(self) -> bool:
        """True if the server has answered since the transaction began."""
        return self._begin_answer.result is not None

    def detect_pooler(self, timeout: float) -> None:
        """Set `is_direct` if the connection has no pooler.

        Most poolers report to a new connection a process id that differs from the id of the server process. Other
        poolers, such as pgpool, have another address or port than the server. Behind these, settings are not kept.
        Address translation in a network has the same effect.

        Args:
            timeout: Seconds to wait for an answer of the server.

        Raises:
            psycopg.Error: The connection is lost, or its pooler does not support transactions.
        """
        self._timeout = timeout
        self._send(BEGIN)
        self._sync()  # a pooler may change the server connection here
        [row] = self.rows(self._send(_SERVER_QUERY))
        self.commit(wait=True)
        info = self.connection.info
        self.is_direct = row["pid"] == self._libpq.backend_pid
        same_address = (row["address"], row["port"]) == (info.hostaddr, str(info.port))
        self._keeps_settings = self._keeps_settings and self.is_direct and same_address

    def begin(self, schema: str, *, write: bool, lock_timeout: float, timeout: float) -> None:
        """Begin a transaction. A reading transaction sees one snapshot.

        Args:
            schema: The schema of its tables.
            write: True if the transaction may write.
            lock_timeout: Seconds to wait for a lock.
            timeout: Seconds to wait for an answer of the server.
        """
        if write:
            now = time.time_ns() // 1000
            self.receipt = self.receipt | {"transactions": self.receipt["transactions"] + 1, "at": now}
        self.has_written = False
        self._timeout = timeout + 1.0  # the server times out first, and reports the reason
        self._schema = schema
        if not self.is_direct:
            self._receive_all()  # wait for the end of the last transaction: the pooler may now change the connection
        settings = [_bind(value) for value in (schema, milliseconds(lock_timeout), milliseconds(timeout))]
        if self.is_direct and self._keeps_settings and not self._has_settings:
            # An undetected pooler may change the server connection. `begin` then fails, because it is prepared only on
            # the connection that has the settings.
            self._send(BEGIN)
            self._send(SETTINGS, [*settings, _bind(False)])  # noqa: FBT003 - for the session
            self._prepare((schema, BEGIN_READING, ()))
            self.commit(wait=True)
            self._has_settings = True
        self._begin_answer = self._send(BEGIN if write else BEGIN_READING)
        if not (self.is_direct and self._has_settings):
            self._send(SETTINGS, [*settings, _bind(True)])  # noqa: FBT003 - for the transaction

    def execute(self, query: PreparedQuery, parameters: Mapping[str, Any]) -> Answer:
        """Send a statement without waiting for its answer."""
        self.has_written = self.has_written or query.is_write
        return self._send(query.text, [_bind(parameters[name]) for name in query.names])

    def copy_in(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows by PostgreSQL's COPY, which the pipeline mode does not support."""
        self.has_written = True
        self._sync()
        self._receive_all()
        self._last_unnamed = None  # the copy discards the unnamed statement of the server
        self._libpq.exit_pipeline_mode()
        try:
            with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
                for row in rows:
                    copy.write_row(row)
        finally:
            self._libpq.enter_pipeline_mode()

    def rows(self, answer: Answer) -> Rows:
        """Wait for a statement's rows.

        Raises:
            psycopg.Error: The statement failed, or an earlier one.
        """
        if (result := answer.result) is None:
            self._libpq.send_flush_request()
            result = self._wait(answer)
        if not result.ntuples:
            return ()
        names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
        transformer = Transformer(self.connection)
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, lambda values: dict(zip(names, values, strict=True)))

    def wait_all(self) -> None:
        """Wait for the answers to all sent statements.

        Raises:
            psycopg.Error: A statement failed.
        """
        if self._unanswered:
            self._libpq.send_flush_request()
            self._wait(self._unanswered[-1])

    def commit(self, *, wait: bool) -> None:
        """Commit the transaction.

        Args:
            wait: True to wait until the transaction is committed. If False, a failure is not reported.

        Raises:
            psycopg.Error: The commit failed, or an earlier statement.
        """
        answer = self._send(COMMIT)
        self._sync()
        if wait:
            self._wait(answer)
            self._receive_all()
        else:
            self._flush()

    def roll_back(self) -> None:
        """Roll back the transaction. The session can be used again.

        Raises:
            psycopg.Error: The connection is lost.
        """
        self._sync()  # after a failure, the server skips all statements up to here
        self._send(ROLLBACK)
        self._sync()
        self._receive_all(raise_errors=False)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    # -- the pipeline ------------------------------------------------------------------------------------------

    def _send(self, text: bytes, parameters: Sequence[_BoundParameter] = ()) -> Answer:
        types = tuple([parameter.type for parameter in parameters])
        values, formats = [parameter.value for parameter in parameters], [parameter.format for parameter in parameters]
        if self.is_direct:
            name = self._prepared_names.get((self._schema, text, types)) or self._prepare((self._schema, text, types))
            self._libpq.send_query_prepared(name, values, formats, pq.Format.BINARY)
        elif self._last_unnamed == (text, types):
            self._libpq.send_query_prepared(b"", values, formats, pq.Format.BINARY)
        else:
            self._libpq.send_query_params(text, values, types, formats, pq.Format.BINARY)
            self._last_unnamed = text, types
        answer = Answer(self)
        self._unanswered.append(answer)
        return answer

    def _prepare(self, key: _StatementKey) -> bytes:
        name = b"agentmem_%x_%d" % (self.receipt["session"], self._prepared_count)
        self._prepared_count += 1
        _, text, types = key
        self._libpq.send_prepare(name, text, types)
        self._unanswered.append(Answer(self, key))
        self._prepared_names[key] = name
        return name

    def _sync(self) -> None:
        self._libpq.pipeline_sync()
        self._unanswered.append(self._sync_marker)

    def _wait(self, answer: Answer) -> pq.abc.PGresult:
        self._flush()
        while (result := answer.result) is None:
            self._receive()
        return result

    def _receive_all(self, *, raise_errors: bool = True) -> None:
        """Receive the answers to all sent statements."""
        self._flush()
        while self._unanswered:
            self._receive(raise_errors=raise_errors)

    def _receive(self, *, raise_errors: bool = True) -> None:
        """Receive the next answer."""
        result, libpq = None, self._libpq
        while result is None:
            if libpq.is_busy():
                waiting.wait(self._receive_while(libpq.is_busy, waiting.WAIT_R), libpq.socket, _WAKE_SECONDS)
            elif self.broken or not self._unanswered:
                raise psycopg.OperationalError("the connection is closed")
            result = libpq.get_result()  # None separates the answers to two statements
        answer = self._unanswered.popleft()
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            return
        if result.status in _FAILED_STATUSES:
            if answer.prepared_key is not None:
                self._prepared_names.pop(answer.prepared_key, None)
            if raise_errors:
                raise pg.error_from_result(result)
        answer.result = result

    def _flush(self) -> None:
        """Send all pending data, and start the timeout."""
        self._deadline = time.monotonic() + self._timeout
        if self._libpq.flush():  # the server may wait until its answers are received
            waiting.wait(self._receive_while(self._libpq.flush, waiting.WAIT_RW), self._libpq.socket, _WAKE_SECONDS)

    def _receive_while(self, pending: Callable[[], object], event: waiting.Wait) -> PQGen[None]:
        """Receive data as long as `pending` returns a true value."""
        while pending():
            if (yield event):
                self._libpq.consume_input()
            elif time.monotonic() > self._deadline:
                raise NoAnswerError("the server does not answer")


def milliseconds(seconds: float) -> str:
    """Format a time for a server setting, at least 1 ms, since 0 disables the setting."""
    return f"{max(1, round(seconds * 1000))}ms"


def _bind(value: Any) -> _BoundParameter:
    """Encode a value for the server.

    Raises:
        psycopg.DataError: The value is a text with NUL, or has an unsupported type.
    """
    if value is None:
        return _NULL_PARAMETER
    if isinstance(value, str):
        text = value.encode()
        if b"\0" in text:  # libpq would cut off the text there
            raise pg.DataError("a text cannot contain the character NUL")
        return _BoundParameter(_UNKNOWN, pq.Format.TEXT, text)
    if isinstance(value, bool):
        return _BoundParameter(_BOOL, pq.Format.TEXT, b"t" if value else b"f")
    if isinstance(value, int):
        return _BoundParameter(_INT8, pq.Format.TEXT, b"%d" % value)
    if isinstance(value, float):
        return _BoundParameter(_FLOAT8, pq.Format.TEXT, float.__repr__(value).encode())
    if isinstance(value, bytes | bytearray | memoryview):
        return _BoundParameter(_BYTEA, pq.Format.BINARY, bytes(value))
    raise pg.DataError(f"a parameter cannot be a {type(value).__name__}")


class Pool:
    """A pool of sessions.

    Args:
        connect: Opens a session.
        size: The maximum number of simultaneous sessions.
        timeout: Seconds to wait for a session.
    """

    # A forked child has its own values of these attributes, so it never uses the sessions of its parent.
    _condition = PerProcess(threading.Condition)
    _idle: PerProcess[list[Session]] = PerProcess(list)  # last in, first out
    _count = PerProcess(int)  # of all sessions, idle and in use

    def __init__(self, connect: Callable[[], Session], *, size: int, timeout: float) -> None:
        self._connect = connect
        self._size = size
        self._timeout = timeout
        self._closed = False

    def take(self) -> Session:
        """Borrow a session.

        Raises:
            DatabaseBusy: All sessions were in use for too long.
            psycopg.Error: The server cannot be reached.
        """
        with self._condition:
            if not (self._has_capacity() or self._condition.wait_for(self._has_capacity, self._timeout)):
                raise DatabaseBusy(f"All {self._size} connections to the database were in use for {self._timeout:g} s.")
            if self._idle:
                return self._idle.pop()
            self._count += 1
        try:
            return self._connect()
        except BaseException:
            self._decrement_count()
            raise

    def give_back(self, session: Session) -> None:
        """Return a session that can be used again."""
        if self._closed:
            self.drop(session)
            return
        with self._condition:
            self._idle.append(session)
            self._condition.notify()

    def drop(self, session: Session) -> None:
        """Close a session that cannot be used again."""
        session.close()
        self._decrement_count()

    def close(self) -> None:
        """Close all sessions. Sessions in use are closed when they are returned."""
        self._closed = True
        with self._condition:
            idle = list(self._idle)
            self._idle.clear()
        for session in idle:
            self.drop(session)

    def _has_capacity(self) -> bool:
        return bool(self._idle) or self._count < self._size

    def _decrement_count(self) -> None:
        with self._condition:
            self._count -= 1
            self._condition.notify()


class BorrowedPool:
    """A pool of sessions on connections of the caller's psycopg pool, which stays open.

    Args:
        pool: A `psycopg_pool.ConnectionPool`.
        start: Creates a session for a connection.
        timeout: Seconds to wait for a connection.
    """

    def __init__(self, pool: Any, start: Callable[[psycopg.Connection[Any]], Session], *, timeout: float) -> None:
        self._pool, self._start_session, self._timeout = pool, start, timeout
        self._sessions: weakref.WeakKeyDictionary[psycopg.Connection[Any], Session] = weakref.WeakKeyDictionary()
        self._process = os.getpid()

    def take(self) -> Session:
        """Borrow a session.

        Raises:
            DatabaseBusy: All connections were in use for too long.
            psycopg.Error: The server cannot be reached.
        """
        connection = self.get_connection()
        try:
            if (session := self._sessions.get(connection)) is None:
                session = self._sessions[connection] = self._start_session(connection)
            else:
                session.enter()
        except BaseException:
            self._pool.putconn(connection)
            raise
        return session

    def give_back(self, session: Session) -> None:
        """Return a session, and restore the state of its connection."""
        try:
            session.leave()
        except psycopg.Error:
            session.close()
        self._pool.putconn(session.connection)

    def drop(self, session: Session) -> None:
        """Return a connection that cannot be used again."""
        session.close()
        self._pool.putconn(session.connection)

    def close(self) -> None:
        """Do nothing: the caller closes the pool."""

    def get_connection(self) -> psycopg.Connection[Any]:
        """Borrow a connection.

        Raises:
            DatabaseBusy: All connections were in use for too long.
            psycopg.Error: The server cannot be reached.
        """
        if os.getpid() != self._process:
            raise StorageError("A psycopg pool cannot be used in a forked process. Open a new pool and memory there.")
        try:
            connection: psycopg.Connection[Any] = self._pool.getconn(self._timeout)
        except psycopg.OperationalError as error:
            raise DatabaseBusy(f"The pool provided no connection in {self._timeout:g} s: {error}.") from error
        return connection
