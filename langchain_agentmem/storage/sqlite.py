"""SQLite: the embedded default. One file, one writer at a time, readers that never wait for it.

The file is in write-ahead-log mode. One connection writes, behind a lock of this process and SQLite's own lock
between processes; every other connection only reads, each on its own snapshot. A database in memory has a
single connection that does both. With a key, the file is SQLCipher's (`encrypted_database.py`), and its driver takes
the place of Python's.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from langchain_agentmem import errors
from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.base.events import Progress, Watch
from langchain_agentmem.base.files import create_private, file_of, replace_atomically
from langchain_agentmem.errors import safe_repr
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.encrypted_database import APPLICATION_ID, Cipher, unreadable_message
from langchain_agentmem.storage.engine import DatabaseOptions, Engine, HealthCheck, Sizes
from langchain_agentmem.storage.queries import load_queries, query, sqlite_statement
from langchain_agentmem.storage.transaction import Operation, Rows, Select, Transaction, Values, raise_ended

T = TypeVar("T")

MIN_SQLITE_VERSION = (3, 35, 0)
SQLITE_VERSION = sqlite3.sqlite_version
MAX_IDLE_READERS = 8
BACKUP_PAGES = 1_000
"""Pages of a backup that are copied in one step."""

VACUUM_PAGES = 200
"""Free pages that one transaction hands back."""

_MEMORY_URI = re.compile(r"file:(:memory:|.*[?&]mode=memory)")
_MAKES_FILE = re.compile(r"(?!file:).*|file:[^?]*(\?(?!.*(mode=r[ow](&|$)|vfs=|immutable=)).*)?", re.DOTALL)
"""A path, or a URI that does not require an existing file."""

_ERRORS: dict[int, type[errors.StorageError]] = {
    sqlite3.SQLITE_BUSY: errors.DatabaseBusy,
    sqlite3.SQLITE_LOCKED: errors.DatabaseBusy,
    sqlite3.SQLITE_FULL: errors.DatabaseFull,
    sqlite3.SQLITE_READONLY: errors.DatabaseReadOnly,
    sqlite3.SQLITE_CORRUPT: errors.DatabaseUnreadable,
    sqlite3.SQLITE_NOTADB: errors.DatabaseUnreadable,
}


FORK_TIMEOUT = 10.0
"""Seconds that a fork waits for calls to end."""


class _SqliteTransaction(Transaction):
    """A transaction for `with`: it commits, or rolls back if the block fails."""

    __slots__ = ("_begin", "_check", "_connection", "_execute", "_executemany", "_sql")
    max_unindexed = 64

    def __init__(self, engine: SqliteEngine, connection: sqlite3.Connection, begin: str) -> None:
        self._check, self._sql = engine._check_sizes, engine._sql
        self._connection, self._begin = connection, begin
        self._execute: Callable[..., sqlite3.Cursor] = connection.execute
        self._executemany: Callable[..., object] = connection.executemany

    def __enter__(self) -> Self:
        self._connection.execute(self._begin)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._execute = self._executemany = raise_ended
        try:
            if error is None:
                self._connection.execute("commit")
        finally:
            if self._connection.in_transaction:
                self._connection.rollback()

    def run(self, query: str, parameters: dict[str, Any], *, lazy: bool = False) -> Rows:  # noqa: ARG002 - rows are read at once
        self._check(query, parameters)
        text, values = sqlite_statement(self._sql[query])
        return self._execute(text, values(parameters)).fetchall()

    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        self._check(query, rows)
        self.run_sql_many(self._sql[query], rows)

    def run_sql(self, sql: str, parameters: Mapping[str, Any], *, lazy: bool = False) -> Rows:  # noqa: ARG002
        text, values = sqlite_statement(sql)
        return self._execute(text, values(parameters)).fetchall()

    def run_sql_many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        text, values = sqlite_statement(sql)
        self._executemany(text, map(values, rows))

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Values]) -> None:
        placeholders = ", ".join("?" * len(columns))
        self._executemany(f"insert into {table} ({', '.join(columns)}) values ({placeholders})", rows)  # noqa: S608 - our own names

    def take_ids(self, table: str, count: int) -> list[int]:
        used = self.run_sql("select seq as id from sqlite_sequence where name = :table", {"table": table})
        newest = self.run_sql(f"select max(id) as id from {table}", {})  # noqa: S608 - our own name
        first = 1 + max((row["id"] or 0) for row in (*used, *newest))
        return list(range(first, first + count))


class SqliteEngine(Engine):
    """One SQLite database.

    A new file may be read by its owner only.

    Args:
        path: A file, a `file:` URI, or ":memory:".
        options: The options of the opening. Options for PostgreSQL are ignored.

    Raises:
        ForeignDatabase: The file holds another program's tables.
        NewerDatabase: A newer version of this package wrote it.
        DatabaseUnreadable: The file is not a database, is damaged, or cannot be opened.
        StorageError: This Python's SQLite is too old or lacks FTS5.
        MissingExtra: There is a key, and SQLCipher is not installed.
    """

    dialect = "sqlite"
    _open_engines: ClassVar[weakref.WeakSet[SqliteEngine]] = weakref.WeakSet()
    _inherited: ClassVar[list[SqliteEngine]] = []  # in a child: not to be used, nor closed, which would harm the parent
    _forked_in_call = False  # when the process last forked
    _write_lock = PerProcess(threading.RLock)

    def __init__(self, path: str, options: DatabaseOptions = DatabaseOptions()) -> None:  # noqa: B008 - a value
        super().__init__(options)
        self.path = path
        self.persistent = path != ":memory:" and not _MEMORY_URI.match(path)
        self.cipher = Cipher(self.options.key) if self.options.key is not None and self.persistent else None
        self.encrypted = self.cipher is not None
        self._driver = sqlite3 if self.cipher is None else self.cipher.driver
        self._sql = load_queries(self.dialect)
        # Connections are opened when they are needed, wherever the process is by then.
        self._file = path if path == ":memory:" or path.startswith("file:") else os.path.abspath(path)  # noqa: PTH100
        self._idle_readers: list[sqlite3.Connection] = []
        self._write_connection: sqlite3.Connection | None = None
        if any((each.cipher is None) != (self.cipher is None) for each in self.find_open(file_of(self._file))):
            raise errors.InvalidInput(f"{safe_repr(path)} is open in this process already, with another key or none.")
        self._open_engines.add(self)
        try:
            with self._active_call(), self._translate_errors():
                self._write_connection = self._open_database()
        except BaseException:
            self._open_engines.discard(self)
            raise

    @classmethod
    def find_open(cls, file: Path) -> list[SqliteEngine]:
        """Return the engines that have a file open in this process."""
        engines = [each for each in list(cls._open_engines) if each.persistent and each.is_open]
        files = [(each, file_of(each._file)) for each in engines]
        return [each for each, path in files if file.exists() and path.exists() and file.samefile(path)]

    @property
    def is_open(self) -> bool:
        """True while the engine is open, in this process."""
        return super().is_open and self not in self._inherited

    def _check_open(self) -> None:
        super()._check_open()
        if any(each is self or (self.persistent and each._file == self._file) for each in self._inherited):
            raise errors.StorageError(
                "The process was forked during a call on this database, and SQLite's locks do not hold in this child. "
                "Fork when no call is running, or start processes with 'spawn'."
            )

    # -- transactions ------------------------------------------------------------------------------------------

    def _run(self, operation: Operation[T], *, write: bool) -> T:
        with self._translate_errors():
            if not write:
                with self._reader() as connection, _SqliteTransaction(self, connection, "begin") as tx:
                    return operation(tx)
            with self._write_lock, _SqliteTransaction(self, self._writer, "begin immediate") as tx:
                return operation(tx)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for reading: the writing one for a database in memory."""
        if not self.persistent:
            with self._write_lock:
                yield self._writer
            return
        try:
            connection = self._idle_readers.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            if len(self._idle_readers) < MAX_IDLE_READERS and self.is_open:
                self._idle_readers.append(connection)
            else:
                connection.close()

    # -- opening and closing -----------------------------------------------------------------------------------

    @property
    def _writer(self) -> sqlite3.Connection:
        """The writing connection."""
        if self._write_connection is None:
            self._write_connection = self._connect()
        return self._write_connection

    def _open_database(self) -> sqlite3.Connection:
        """Open the writing connection on an up-to-date file of this package."""
        if _MAKES_FILE.fullmatch(self.path) and self.persistent:
            file = file_of(self._file)
            if not file.is_file() and (self.options.read_only or not self.options.migrate):
                raise errors.NothingStored(f"There is no database {safe_repr(self.path)}, and this opening makes none.")
            create_private(file)
        try:
            return self._connect_prepared()
        except self._driver.DatabaseError as error:
            if self.cipher is None or _result_code(error) != sqlite3.SQLITE_NOTADB:
                raise
        return (
            self._connect_prepared()
        )  # of two processes that make one encrypted file, one has a salt that is not the file's

    def _connect_prepared(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._driver.connect(
            self._file,
            timeout=self.options.busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            uri=self._file.startswith("file:"),
            cached_statements=256,
        )
        connection.row_factory = self._driver.Row
        try:
            if self.cipher is not None:
                self.cipher.unlock(connection)
            connection.create_function("from_hex", 1, bytes.fromhex, deterministic=True)
            for pragma in (
                "pragma foreign_keys = on",
                f"pragma synchronous = {self.options.synchronous}",
                "pragma wal_autocheckpoint = 4000",  # pages, 16 MB: a quarter of the folding
                "pragma cache_size = -16000",
                "pragma temp_store = memory",
            ):
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check that the file belongs to this package, and upgrade its schema.

        A connection that fails here is closed.
        """
        has_index = connection.execute("select sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0]
        if self._driver.sqlite_version_info < MIN_SQLITE_VERSION or not has_index:
            raise errors.StorageError(
                f"SQLite {self._driver.sqlite_version} is too old, or was built without FTS5: use 3.35 or newer."
            )

        def set_wal_mode() -> bool:
            """Set WAL mode; return False while the file is locked.

            Setting the mode ignores the busy timeout, so two processes that create one file must wait here.
            """
            try:
                connection.execute("pragma journal_mode = wal")
            except self._driver.OperationalError as error:
                if _result_code(error) not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                    raise
                return False
            return True

        if not self._missing_migrations(connection):
            with contextlib.suppress(self._driver.OperationalError):
                set_wal_mode()  # who was killed when it gave the file another key may have left it without its log
            return
        if self.persistent:
            connection.execute("pragma auto_vacuum = incremental")  # before the first table, or never
            self._retry_until(set_wal_mode)
        connection.execute("begin immediate")

        def run(script: str) -> None:
            for statement in _split_statements(script):
                connection.execute(statement)

        # Another process may have been quicker: look again, now that nobody else can write.
        engine.migrate(self._missing_migrations(connection), run)
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        connection.execute("commit")

    def _missing_migrations(self, connection: sqlite3.Connection) -> list[engine.Migration]:
        tables = {str(name) for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
        if connection.execute("pragma application_id").fetchone()[0] != APPLICATION_ID:
            tables.discard(engine.MIGRATION_TABLE)
        recorded = f"select name from {engine.MIGRATION_TABLE}"  # noqa: S608 - our own name
        return self._pending_migrations(tables, lambda: connection.execute(recorded))

    def _retry_until(self, attempt: Callable[[], bool]) -> bool:
        """Try until something succeeds, as long as the busy timeout. Return whether it did."""
        deadline = time.monotonic() + self.options.busy_timeout
        while not (done := attempt()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return done

    def _close(self) -> None:
        """Close unused connections. A busy reader closes its own connection later."""
        if self in self._inherited:
            return
        with self._write_lock:
            if self._write_connection is not None:
                self._write_connection.close()
            while self._idle_readers:
                self._idle_readers.pop().close()

    def before_fork(self, deadline: float) -> None:
        """Wait for running calls, block new ones, and close the connections.

        A connection that a child opens next to one of its parent shares that one's locks, which the system does not
        count as the child's: when the parent closed its own, the child's writes would be lost. A database in memory
        keeps its connection, and the child has a copy.

        Args:
            deadline: When to stop waiting for calls to end, as `time.monotonic` counts.
        """
        calls, thread = self._calls, threading.get_ident()
        with calls.condition:
            calls.paused = True
            calls.condition.wait_for(lambda: not calls.running or thread in calls.running, deadline - time.monotonic())
            self._forked_in_call = bool(calls.running)
        if not (self._forked_in_call or self._closed or not self.persistent):
            self._close()
            self._write_connection = None

    def after_fork(self) -> None:
        """Allow new calls again, in the parent."""
        with self._calls.condition:
            self._calls.paused = False
            self._calls.condition.notify_all()

    # -- care --------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Run SQLite's own checks of the pages, the foreign keys and the full-text index."""
        with self._active_call(), self._translate_errors(), self._reader() as connection:
            faults = [str(row[0]) for row in connection.execute("pragma integrity_check") if row[0] != "ok"]
            faults += [
                f"row {row['rowid']} of {row['table']} names a missing row of {row['parent']}"
                for row in connection.execute("pragma foreign_key_check")
            ]
        # The index's own check is written as an insert, which a file that is only read refuses.
        with (
            contextlib.suppress(errors.DatabaseReadOnly),
            self._active_call(),
            self._translate_errors(),
            self._write_lock,
        ):
            self._writer.execute("insert into search_index (search_index) values ('integrity-check')")
        return faults

    def health(self) -> Iterator[HealthCheck]:
        """Check whether the file may be written and is encrypted, and the vectors."""
        file = file_of(self._file)
        if all(os.access(each, os.W_OK) for each in (file, file.parent)):
            yield HealthCheck("permissions", "ok", "the file and its folder may be written")
        else:
            text = f"{safe_repr(str(file))} or its folder may not be written, so nothing can be remembered."
            yield HealthCheck("permissions", "note", text, "Let this user write both: SQLite keeps its log there.")
        if self.encrypted:
            yield HealthCheck("encryption", "ok", "every page is encrypted, by SQLCipher")
        yield from super().health()

    def sizes(self) -> Sizes:
        """Return the bytes of the file, its free pages, the write-ahead log and each table.

        The method reads the whole file. If SQLite was built without the table `dbstat`, no table is listed.
        """
        with self._snapshot() as connection:
            page = int(connection.execute("pragma page_size").fetchone()[0])  # which SQLCipher gives as a text
            pages = connection.execute("pragma page_count").fetchone()[0]
            free = connection.execute("pragma freelist_count").fetchone()[0]
            tables = {}
            with contextlib.suppress(self._driver.OperationalError):  # there is no dbstat
                tables = {row["name"]: row["bytes"] for row in connection.execute(self._sql[query.table_sizes.name])}
        log = Path(f"{file_of(self._file)}-wal")
        return Sizes(page * pages, page * free, log.stat().st_size if log.exists() else 0, tables)

    def scrub(self) -> None:
        """Merge the full-text index, rewrite the file, and empty the write-ahead log.

        Deleted terms outlive a plain VACUUM inside the index's own segments, and old pages outlive both in the log.

        Raises:
            DatabaseBusy: Another connection kept reading an old snapshot, so the log still holds old pages.
        """
        with self._active_call(), self._translate_errors(), self._write_lock:
            self._writer.execute("insert into search_index (search_index) values ('optimize')")
            self._writer.execute("vacuum")
            if not self._retry_until(
                lambda: not self._writer.execute("pragma wal_checkpoint (truncate)").fetchone()[0]
            ):
                raise errors.DatabaseBusy(
                    "What was erased is gone from the tables, but another connection keeps an old snapshot open, so "
                    "the write-ahead log still holds it. Close that connection and erase again."
                )

    def release(self) -> None:
        """Return free pages in small transactions, and checkpoint the write-ahead log.

        Other writers take precedence: the remaining pages are returned the next time.
        """
        if not self.persistent:
            return
        with self._active_call(), contextlib.suppress(errors.DatabaseBusy), self._translate_errors():
            with self._reader() as connection:
                free = int(connection.execute("pragma freelist_count").fetchone()[0])
            if free < VACUUM_PAGES:
                return
            for _ in range(free // VACUUM_PAGES):
                self._run_if_free(f"pragma incremental_vacuum({VACUUM_PAGES})")
            self._run_if_free("pragma wal_checkpoint(passive)")

    def _run_if_free(self, statement: str) -> None:
        """Run a statement on the writing connection; fail if another process writes."""
        with self._write_lock:
            self._writer.execute("pragma busy_timeout = 0")
            try:
                self._writer.executescript(statement)  # `execute` would hand back one page alone
            finally:
                self._writer.execute(f"pragma busy_timeout = {int(self.options.busy_timeout * 1000)}")

    def backup(self, path: Path, progress: Watch | None = None, key: EncryptionKey | None = None) -> None:
        """Copy the database as of one moment, while others go on reading and writing.

        Raises:
            InvalidInput: The copy cannot be written there, it would replace the database itself, or it is to be
                encrypted and the database is not.
        """
        if key is not None and self.cipher is None:
            raise errors.InvalidInput(
                f"{safe_repr(self.path)} is not encrypted, so its backup cannot be: copy(path, key=…) makes an "
                "encrypted copy of it."
            )
        cipher = self.cipher if key is None else Cipher(key)
        on_progress = (
            None
            if progress is None
            else lambda _, remaining, total: progress(Progress("copying", total - remaining, total))
        )
        with self._snapshot() as source:  # nobody who writes makes the copy begin anew
            if self.persistent and path.exists() and path.samefile(file_of(self._file)):
                raise errors.InvalidInput(f"{safe_repr(str(path))} is the database itself: name the copy otherwise.")
            with replace_atomically(path) as copy, contextlib.closing(self._driver.connect(copy)) as target:
                if cipher is not None:
                    target.set_key(cipher.new_file_key())
                source.backup(target, pages=BACKUP_PAGES, progress=on_progress)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Select]:
        """Read as of the moment when the block begins."""
        with self._snapshot() as connection:

            def select(sql: str, parameters: Mapping[str, Any]) -> tuple[list[str], Iterator[Values]]:
                cursor = connection.cursor()
                cursor.row_factory = None
                cursor.execute(sql, parameters)
                return [column[0] for column in cursor.description], cursor

            yield select

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Open a connection that reads the database as of the start of the block."""
        with self._active_call(), self._translate_errors(), self._reader() as connection:
            connection.execute("begin")
            try:
                connection.execute("select 1 from sqlite_schema").fetchone()  # the snapshot begins with the first look
                yield connection
            finally:
                connection.rollback()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate driver errors into errors of this package."""
        try:
            yield
        except self._driver.Error as error:
            raise self._convert_error(error) from error
        except UnicodeDecodeError as error:  # in what SQLite says of a damaged schema
            raise errors.DatabaseUnreadable(
                f"{errors.DatabaseUnreadable()} ({safe_repr(self.path)}: {error})"
            ) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise errors.InvalidInput(f"A value cannot be stored in the database: {error}.") from error

    def _convert_error(self, error: Exception) -> errors.AgentMemoryError:
        code = _result_code(error)
        if code == sqlite3.SQLITE_CANTOPEN:
            folder = file_of(self.path).absolute().parent
            return errors.DatabaseUnreadable(
                f"{safe_repr(self.path)} cannot be opened. Check that it is a file, and that the folder "
                f"{safe_repr(str(folder))} exists and may be written: SQLite keeps its log there."
            )
        if code == sqlite3.SQLITE_NOTADB:
            return errors.DatabaseUnreadable(unreadable_message(self.path, has_key=self.cipher is not None))
        if kind := _ERRORS.get(code):
            return kind(f"{kind()} ({safe_repr(self.path)}: {error})")
        return errors.StorageError(f"The database {safe_repr(self.path)} failed: {error}.")


def _result_code(error: BaseException) -> int:
    """Return an error's primary result code; -1 for errors of the driver, which have none."""
    extended: Any = getattr(error, "sqlite_errorcode", None)
    return int(extended) & 0xFF if extended is not None else -1


def _split_statements(script: str) -> Iterator[str]:
    """Cut a script into statements, so that it can run inside a transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


_fork_lock = threading.RLock()  # the child has the thread that holds it


def _before_fork() -> None:
    _fork_lock.acquire()
    deadline = time.monotonic() + FORK_TIMEOUT
    for each in list(SqliteEngine._open_engines):
        each.before_fork(deadline)


def _after_fork_in_parent() -> None:
    for each in list(SqliteEngine._open_engines):
        each.after_fork()
    _fork_lock.release()


def _after_fork_in_child() -> None:
    SqliteEngine._inherited += [each for each in list(SqliteEngine._open_engines) if each._forked_in_call]
    _fork_lock.release()


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
