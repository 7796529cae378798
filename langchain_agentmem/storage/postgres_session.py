"""A connection to PostgreSQL on which statements travel together.

What a transaction costs is round trips, and the driver's own work for each of them. So a session speaks libpq's
pipeline mode, through the driver's wrapper of libpq: every statement is prepared when it is first used, and is only put
into the pipe; the session waits when somebody wants rows. Statements that return none, the beginning and the commit
wait for nothing of their own. Should such a statement fail, this is heard at the next wait, in the same transaction.

A `Pool` lends a few sessions to as many threads as come. The one that was given back last is lent first: what it
prepared, and what the server knows of it, is used most.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import errors as pg
from psycopg import pq, waiting
from psycopg.abc import PQGen
from psycopg.adapt import Transformer

from langchain_agentmem.errors import DatabaseBusy
from langchain_agentmem.storage.steps import Rows

BEGIN, COMMIT, ROLLBACK = b"begin", b"commit", b"rollback"
BEGIN_READING = b"begin isolation level repeatable read, read only"
_UNKNOWN, _BOOL, _BYTEA, _INT8, _FLOAT8 = 0, 16, 17, 20, 701  # types by their numbers; an unknown one is inferred
_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED)
_WAKE = 0.1
"""Seconds after which a wait looks whether the process was interrupted."""


class Prepared(NamedTuple):
    """A query as PostgreSQL takes it.

    Attributes:
        text: The SQL, with numbered parameters.
        names: The parameters' names by number.
        returns: Whether it returns rows.
    """

    text: bytes
    names: tuple[str, ...]
    returns: bool


class _Answer:
    """The answer to something that was sent, when it is there."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: pq.abc.PGresult | None = None


class _Preparation(_Answer):
    """The answer to a preparation, and what was prepared."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[bytes, tuple[int, ...]]) -> None:
        super().__init__()
        self.key = key


class _Bound(NamedTuple):
    """A parameter as it travels."""

    type: int
    format: int
    value: bytes | None


_NULL: Final = _Bound(_UNKNOWN, pq.Format.TEXT, None)
_SYNC: Final = _Answer()
"""Stands for the end of a part of the pipe: after a failure the server skips what comes before it."""


class Later(Sequence[Any]):
    """Rows that are fetched when they are looked at."""

    __slots__ = ("_answer", "_rows", "_session")

    def __init__(self, session: Session, answer: _Answer) -> None:
        self._session, self._answer = session, answer
        self._rows: Rows | None = None

    def _fetched(self) -> Rows:
        if self._rows is None:
            self._rows = self._session.rows(self._answer)
        return self._rows

    def __getitem__(self, index: Any) -> Any:
        return self._fetched()[index]

    def __len__(self) -> int:
        return len(self._fetched())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._fetched())


class Connection(psycopg.Connection[Any]):
    """A connection that a child of this process inherits without a word, and leaves alone."""

    def __del__(self, *_: Any) -> None:
        """Let go of it silently. The driver says goodbye to the server only in the process that connected."""


class Session:
    """One connection, with the statements that are on their way.

    Args:
        connection: An open connection in autocommit mode. It belongs to the session from now on.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._libpq = connection.pgconn
        self._names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}  # of the prepared statements
        self._count = 0
        self._sent: deque[_Answer] = deque()  # what is not answered yet
        self._begun = _Answer()
        self._deadline: float | None = None
        self._libpq.enter_pipeline_mode()

    @property
    def broken(self) -> bool:
        """Whether the connection was lost, or closed."""
        return self._libpq.status != pq.ConnStatus.OK

    @property
    def heard(self) -> bool:
        """Whether the server answered since the transaction began."""
        return self._begun.result is not None

    def begin(self, *, write: bool, patience: float | None = None) -> None:
        """Begin a transaction; one that reads sees one snapshot.

        Args:
            write: Whether it may write.
            patience: Seconds that the whole of it may take: a server that does not answer is waited for no longer.
                Default: as long as it takes.
        """
        self._deadline = None if patience is None else time.monotonic() + patience
        self._begun = self._put(BEGIN if write else BEGIN_READING)

    def execute(self, query: Prepared, parameters: dict[str, Any]) -> _Answer:
        """Put a statement into the pipe."""
        return self._put(query.text, [_bound(parameters[name]) for name in query.names])

    def rows(self, answer: _Answer) -> Rows:
        """Wait for a statement's rows.

        Raises:
            psycopg.Error: It failed, or one before it.
        """
        if (result := answer.result) is None:
            self._libpq.send_flush_request()
            result = self._wait(answer)
        if not result.ntuples:
            return ()
        names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
        transformer = Transformer(self._connection)
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, lambda values: dict(zip(names, values, strict=True)))

    def settle(self) -> None:
        """Wait until everything that was sent is answered.

        Raises:
            psycopg.Error: Something failed.
        """
        if self._sent:
            self._libpq.send_flush_request()
            self._wait(self._sent[-1])

    def commit(self, *, wait: bool) -> None:
        """Commit.

        Args:
            wait: Whether to wait until it is done. If not, nobody hears of a failure.

        Raises:
            psycopg.Error: Something that was sent before failed, or the commit itself.
        """
        answer = self._put(COMMIT)
        self._sync()
        if wait:
            self._wait(answer)
        else:
            self._flush()

    def roll_back(self) -> None:
        """Take back what the transaction did; the session can be used again.

        Raises:
            psycopg.Error: The connection is lost.
        """
        self._sync()  # after a failure, the server skips everything up to here
        self._put(ROLLBACK)
        self._sync()
        self._flush()
        while self._sent:
            self._receive(failing=False)

    def close(self, *, stop: bool = False) -> None:
        """Close the connection.

        Args:
            stop: Whether to ask the server to stop what still runs on it.
        """
        if stop and not self.broken:
            with contextlib.suppress(psycopg.Error):
                self._connection.cancel()
        self._connection.close()

    # -- the pipe ----------------------------------------------------------------------------------------------

    def _put(self, text: bytes, bound: Sequence[_Bound] = ()) -> _Answer:
        types = tuple([each.type for each in bound])
        name = self._names.get((text, types))
        if name is None:
            name = self._prepare(text, types)
        values, formats = [each.value for each in bound], [each.format for each in bound]
        self._libpq.send_query_prepared(name, values, formats, pq.Format.BINARY)
        answer = _Answer()
        self._sent.append(answer)
        return answer

    def _prepare(self, text: bytes, types: tuple[int, ...]) -> bytes:
        name = b"agentmem_%d" % self._count
        self._count += 1
        self._libpq.send_prepare(name, text, types)
        self._sent.append(_Preparation((text, types)))
        self._names[text, types] = name
        return name

    def _sync(self) -> None:
        self._libpq.pipeline_sync()
        self._sent.append(_SYNC)

    def _wait(self, answer: _Answer) -> pq.abc.PGresult:
        self._flush()
        while (result := answer.result) is None:
            self._receive()
        return result

    def _receive(self, *, failing: bool = True) -> None:
        """Take in the next answer."""
        result = None
        while result is None:
            if self._libpq.is_busy():
                waiting.wait(self._reading(), self._libpq.socket, _WAKE)
            elif self.broken or not self._sent:
                raise psycopg.OperationalError("the connection is closed")
            result = self._libpq.get_result()  # None stands between the answers of two statements
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            self._sent.popleft()
            return
        answer = self._sent.popleft()
        if result.status in _FAILED:
            if isinstance(answer, _Preparation):
                self._names.pop(answer.key, None)
            if failing:
                raise pg.error_from_result(result)
        answer.result = result

    def _reading(self) -> PQGen[None]:
        while self._libpq.is_busy():
            if (yield waiting.WAIT_R):
                self._libpq.consume_input()
            elif self._deadline is not None and time.monotonic() > self._deadline:
                raise psycopg.OperationalError("the server does not answer")

    def _flush(self) -> None:
        if self._libpq.flush():
            waiting.wait(self._flushing(), self._libpq.socket, _WAKE)

    def _flushing(self) -> PQGen[None]:
        while self._libpq.flush():
            if (yield waiting.WAIT_RW) & waiting.READY_R:
                self._libpq.consume_input()


def _bound(value: Any) -> _Bound:
    """A value as a parameter."""
    if value is None:
        return _NULL
    if isinstance(value, str):
        text = value.encode()
        if b"\0" in text:  # libpq would take it for the end
            raise pg.DataError("a text cannot contain the character NUL")
        return _Bound(_UNKNOWN, pq.Format.TEXT, text)
    if isinstance(value, bool):
        return _Bound(_BOOL, pq.Format.TEXT, b"t" if value else b"f")
    if isinstance(value, int):
        return _Bound(_INT8, pq.Format.TEXT, b"%d" % value)
    if isinstance(value, float):
        return _Bound(_FLOAT8, pq.Format.TEXT, float.__repr__(value).encode())
    if isinstance(value, bytes | bytearray | memoryview):
        return _Bound(_BYTEA, pq.Format.BINARY, bytes(value))
    raise pg.DataError(f"a parameter cannot be a {type(value).__name__}")


_IDLE = 600.0
"""Seconds after which a session that nobody used is closed."""


class Pool:
    """Lends sessions.

    Args:
        connect: Opens one.
        size: How many there may be at once.
        timeout: Seconds to wait for one.
    """

    def __init__(self, connect: Callable[[], Session], *, size: int, timeout: float) -> None:
        self._connect = connect
        self._size = size
        self._timeout = timeout
        self._free = threading.Condition(threading.Lock())
        self._idle: deque[tuple[Session, float]] = deque()  # with the time since when; the last one is lent first
        self._count = 0
        self._closed = False

    def take(self) -> Session:
        """Borrow a session.

        Raises:
            DatabaseBusy: All of them were in use for too long.
            psycopg.Error: The server cannot be reached.
        """
        with self._free:
            if not self._free.wait_for(lambda: self._idle or self._count < self._size, self._timeout):
                raise DatabaseBusy(f"All {self._size} connections to the database were in use for too long.")
            if self._idle:
                return self._idle.pop()[0]
            self._count += 1
        try:
            return self._connect()
        except BaseException:
            self._forget()
            raise

    def spare(self) -> Session | None:
        """Borrow a session that is open and that nobody uses, if there is one."""
        with self._free:
            return self._idle.pop()[0] if self._idle else None

    def give_back(self, session: Session) -> None:
        """Return a session that can be used again."""
        now = time.monotonic()
        stale: list[Session] = []
        with self._free:
            if self._closed:
                stale.append(session)
            else:
                self._idle.append((session, now))
                while self._idle[0][1] < now - _IDLE:
                    stale.append(self._idle.popleft()[0])
            self._count -= len(stale)
            self._free.notify()
        for each in stale:
            each.close()

    def drop(self, session: Session, *, stop: bool = False) -> None:
        """Close a session that is of no use any more; see `Session.close`."""
        try:
            session.close(stop=stop)
        finally:
            self._forget()

    def close(self) -> None:
        """Close all sessions; those that are in use, when they are given back."""
        with self._free:
            self._closed = True
            idle = [session for session, _ in self._idle]
            self._idle.clear()
            self._count -= len(idle)
        for session in idle:
            session.close()

    def _forget(self) -> None:
        with self._free:
            self._count -= 1
            self._free.notify()
