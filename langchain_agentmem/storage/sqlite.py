"""The SQLite engine: one file, one writer at a time, and readers that never wait.

The file is in write-ahead-log mode. One connection writes, protected by a lock of this process and SQLite's own lock
between processes. All other connections only read, each on its own snapshot. A database in memory has a single
connection that reads and writes. With a key, the file is encrypted by SQLCipher (`encrypted_database.py`), whose driver
replaces Python's.
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
from langchain_agentmem.base.files import create_private, file_of, replace_atomically
from langchain_agentmem.base.hooks import Progress, Watch
from langchain_agentmem.errors import safe_repr
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.encrypted_database import APPLICATION_ID, Cipher, format_unreadable_message
from langchain_agentmem.storage.engine import DatabaseOptions, Engine, HealthCheck, Sizes
from langchain_agentmem.storage.queries import Query, query, sqlite_query, sqlite_statement
from langchain_agentmem.storage.transaction import Operation, Rows, Select, Transaction, Values, raise_ended

T = TypeVar("T")

MIN_SQLITE_VERSION = (3, 35, 0)
SQLITE_VERSION = sqlite3.sqlite_version
MAX_IDLE_READERS = 8
"""The maximum number of idle reading connections that stay open."""
BACKUP_PAGES = 1_000
"""The number of pages that one step of a backup copies."""
VACUUM_PAGES = 200
"""The number of free pages that one transaction returns to the operating system."""

_MEMORY_URI = re.compile(r"file:(:memory:|.*[?&]mode=memory)")
_CREATABLE_FILE = re.compile(r"(?!file:).*|file:[^?]*(\?(?!.*(mode=r[ow](&|$)|vfs=|immutable=)).*)?", re.DOTALL)
"""Matches the name of a database whose file may be created: a path, or a URI that does not require an existing file."""

_SQLITE_ERRORS: dict[int, type[errors.StorageError]] = {
    sqlite3.SQLITE_BUSY: errors.DatabaseBusy,
    sqlite3.SQLITE_LOCKED: errors.DatabaseBusy,
    sqlite3.SQLITE_FULL: errors.DatabaseFull,
    sqlite3.SQLITE_READONLY: errors.DatabaseReadOnly,
    sqlite3.SQLITE_CORRUPT: errors.DatabaseUnreadable,
    sqlite3.SQLITE_NOTADB: errors.DatabaseUnreadable,
}
FORK_TIMEOUT = 10.0
"""The maximum seconds that a fork waits for running calls."""


class _SqliteTransaction(Transaction):
    """A transaction as a context manager: it commits, or rolls back if the block fails."""

    __slots__ = ("_begin", "_check", "_connection", "_execute", "_executemany")
    max_unindexed = 64

    def __init__(self, engine: SqliteEngine, connection: sqlite3.Connection, begin: str) -> None:
        self._check = engine._check_sizes
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

    def run(self, query: str, parameters: dict[str, Any], *, lazy: bool = False) -> Rows:  # noqa: ARG002 - all rows are fetched
        self._check(query, parameters)
        text, values = sqlite_query(query)
        return self._execute(text, values(parameters)).fetchall()

    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        self._check(query, rows)
        text, values = sqlite_query(query)
        self._executemany(text, map(values, rows))

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
        """Return the ids after the highest id that the table ever had.

        They are not reserved, but no other writer can take them: a transaction that writes holds SQLite's only write
        lock from its beginning (`begin immediate`) to its end. Within it, insert the rows before the next call.
        """
        ever_used = self.run_sql("select seq as id from sqlite_sequence where name = :table", {"table": table})
        existing = self.run_sql(f"select max(id) as id from {table}", {})  # noqa: S608 - our own name
        first = 1 + max((row["id"] or 0) for row in (*ever_used, *existing))
        return list(range(first, first + count))


class SqliteEngine(Engine):
    """One SQLite database.

    Only its owner may read and write a new file.

    Args:
        path: A file, a `file:` URI, or ":memory:".
        options: The options with which the database is opened. Options for PostgreSQL are ignored.

    Raises:
        ForeignDatabase: The file contains tables of another program.
        NewerDatabase: A newer version of this package wrote it.
        DatabaseUnreadable: The file is not a database, is damaged, or cannot be opened.
        StorageError: This Python's SQLite is too old or lacks FTS5.
        MissingExtra: A key was given, and SQLCipher is not installed.
    """

    dialect = "sqlite"
    _open_engines: ClassVar[weakref.WeakSet[SqliteEngine]] = weakref.WeakSet()
    # The engines that had a running call when this process was forked from its parent. They must be neither used nor
    # closed, as both would harm the parent.
    _inherited: ClassVar[list[SqliteEngine]] = []
    _forked_in_call = False  # True if a call was running at the last fork
    _write_lock = PerProcess(threading.RLock)

    def __init__(self, path: str, options: DatabaseOptions = DatabaseOptions()) -> None:  # noqa: B008 - a value
        super().__init__(options)
        self.path = path
        self.persistent = path != ":memory:" and not _MEMORY_URI.match(path)
        self.cipher = Cipher(self.options.key) if self.options.key is not None and self.persistent else None
        self.encrypted = self.cipher is not None
        self._driver = sqlite3 if self.cipher is None else self.cipher.driver
        self._caught_errors = self._driver.Error, UnicodeDecodeError, UnicodeEncodeError, OverflowError
        # Connections are opened when needed, so the path must not depend on the working directory.
        self._file = path if path == ":memory:" or path.startswith("file:") else os.path.abspath(path)  # noqa: PTH100
        self._idle_readers: list[sqlite3.Connection] = []
        self._write_connection: sqlite3.Connection | None = None
        if any((other.cipher is None) != (self.cipher is None) for other in self.find_open(file_of(self._file))):
            problem = f"is already open in this process, {'with' if self.cipher is None else 'without'} a key"
            raise errors.InvalidInput(f"{safe_repr(path)} {problem}. Close it first, or open it in the same way.")
        self._open_engines.add(self)
        try:
            with self._active_call(), self._translate_errors():
                self._write_connection = self._open_database()
        except BaseException:
            self._open_engines.discard(self)
            raise

    @classmethod
    def find_open(cls, file: Path) -> list[SqliteEngine]:
        """Return the engines in this process that have the given file open."""
        engines = [engine for engine in list(cls._open_engines) if engine.persistent and engine.is_open]
        files = [(engine, file_of(engine._file)) for engine in engines]
        return [engine for engine, path in files if file.exists() and path.exists() and file.samefile(path)]

    @property
    def is_open(self) -> bool:
        """True while the engine is open, in this process."""
        return super().is_open and self not in self._inherited

    def _check_open(self) -> None:
        super()._check_open()
        inherited = self._inherited
        if inherited and any(each is self or (self.persistent and each._file == self._file) for each in inherited):
            raise errors.StorageError(
                "The process was forked during a call on this database, and SQLite's locks are not valid in the child. "
                "Fork when no call is running, or start processes with 'spawn'."
            )

    # -- transactions ------------------------------------------------------------------------------------------

    def _run(self, operation: Operation[T], *, write: bool) -> T:
        # Every call runs this code, so it uses no generator-based context manager: each would cost 2 us.
        begin = "begin immediate" if write else "begin"
        try:
            if write or not self.persistent:  # a database in memory has only the writing connection
                with self._write_lock, _SqliteTransaction(self, self._writer, begin) as tx:
                    return operation(tx)
            connection = self._borrow_reader()
            try:
                with _SqliteTransaction(self, connection, begin) as tx:
                    return operation(tx)
            finally:
                self._return_reader(connection)
        except self._caught_errors as error:
            raise self._convert_error(error) from error

    def select(self, named_query: Query, /, **parameters: Any) -> Rows:  # noqa: D102
        if not self.persistent:  # the connection may be in a transaction
            return super().select(named_query, **parameters)
        text, values = sqlite_query(named_query.name)
        calls = self._begin_call()
        try:
            connection = self._borrow_reader()
            try:
                return connection.execute(text, values(parameters)).fetchall()  # a statement is a snapshot
            finally:
                self._return_reader(connection)
        except self._caught_errors as error:
            raise self._convert_error(error) from error
        finally:
            self._end_call(calls)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """Borrow an idle or new reading connection; in memory, the only connection."""
        if not self.persistent:
            with self._write_lock:
                yield self._writer
            return
        connection = self._borrow_reader()
        try:
            yield connection
        finally:
            self._return_reader(connection)

    def _borrow_reader(self) -> sqlite3.Connection:
        try:
            return self._idle_readers.pop()
        except IndexError:
            return self._connect()

    def _return_reader(self, connection: sqlite3.Connection) -> None:
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
        """Open the writing connection. Create or upgrade the database if needed."""
        if _CREATABLE_FILE.fullmatch(self.path) and self.persistent:
            file = file_of(self._file)
            if not file.is_file() and (self.options.read_only or not self.options.migrate):
                raise errors.NothingStored(f"Database {safe_repr(self.path)} does not exist, and may not be created.")
            create_private(file)
        try:
            return self._connect_prepared()
        except self._driver.DatabaseError as error:
            if self.cipher is None or _result_code(error) != sqlite3.SQLITE_NOTADB:
                raise
        # If two processes create the same encrypted file, one of them has derived its key with a salt that is not the
        # file's. Try again with the file's salt.
        return self._connect_prepared()

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
                "pragma wal_autocheckpoint = 8000",  # pages (16 MB; encrypted, 32) instead of 1000: fewer checkpoints
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

        If this method raises an error, its caller closes the connection.
        """
        has_fts = connection.execute("select sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0]
        if self._driver.sqlite_version_info < MIN_SQLITE_VERSION or not has_fts:
            version = self._driver.sqlite_version
            raise errors.StorageError(f"SQLite {version} is too old, or lacks FTS5. Use SQLite 3.35 or newer.")

        def set_wal_mode() -> bool:
            """Set WAL mode; return False while the file is locked.

            SQLite ignores its busy timeout here. So two processes that create the same file must retry.
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
                set_wal_mode()  # a killed `rewrite_file` may have left the file without WAL mode
            return
        if self.persistent:
            # Both are only possible before the first table. SQLCipher has its own page size.
            page_size = "" if self.encrypted else "pragma page_size = 2048; "
            connection.executescript(f"{page_size}pragma auto_vacuum = incremental")
            self._retry_until_timeout(set_wal_mode)
        connection.execute("begin immediate")

        def run(script: str) -> None:
            for statement in _split_statements(script):
                connection.execute(statement)

        # Another process may have migrated meanwhile: check again, now that no other process can write.
        engine.migrate(self._missing_migrations(connection), run)
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        connection.execute("commit")
        self.is_new = True

    def _missing_migrations(self, connection: sqlite3.Connection) -> list[engine.Migration]:
        tables = {str(name) for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
        if connection.execute("pragma application_id").fetchone()[0] != APPLICATION_ID:
            tables.discard(engine.MIGRATION_TABLE)
        applied_query = f"select name from {engine.MIGRATION_TABLE}"  # noqa: S608 - our own name
        return self._pending_migrations(tables, lambda: connection.execute(applied_query))

    def _retry_until_timeout(self, attempt: Callable[[], bool]) -> bool:
        """Retry until an attempt succeeds or the busy timeout ends. Return whether it succeeded."""
        deadline = time.monotonic() + self.options.busy_timeout
        while not (has_succeeded := attempt()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return has_succeeded

    def _close(self) -> None:
        """Close the idle connections. A running read closes its own connection at its end."""
        if self in self._inherited:
            return
        with self._write_lock:
            if self._write_connection is not None:
                self._write_connection.close()
            while self._idle_readers:
                self._idle_readers.pop().close()

    def before_fork(self, deadline: float) -> None:
        """Wait for running calls, block new ones, and close the connections.

        A child would inherit SQLite's record of the file locks that the parent holds, but not the locks themselves. The
        child's connections would rely on that record and take no locks of their own. When the parent closed its
        connection, the child's writes would be lost. For ":memory:", the connection stays open; the child gets a copy.

        Args:
            deadline: The `time.monotonic` time at which waiting for running calls ends.
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

    # -- maintenance -------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Run SQLite's own checks of the pages, the foreign keys and the full-text index."""
        with self._active_call(), self._translate_errors(), self._reader() as connection:
            faults = [str(row[0]) for row in connection.execute("pragma integrity_check") if row[0] != "ok"]
            faults += [
                f"row {row['rowid']} of {row['table']} refers to a missing row of {row['parent']}"
                for row in connection.execute("pragma foreign_key_check")
            ]
        # The index's own check is written as an insert, which a read-only file refuses.
        ignore_read_only = contextlib.suppress(errors.DatabaseReadOnly)
        with ignore_read_only, self._active_call(), self._translate_errors(), self._write_lock:
            self._writer.execute("insert into search_index (search_index) values ('integrity-check')")
        return faults

    def health(self) -> Iterator[HealthCheck]:
        """Check the permissions, the encryption, and the vectors."""
        file = file_of(self._file)
        if all(os.access(each, os.W_OK) for each in (file, file.parent)):
            yield HealthCheck("permissions", "ok", "the file and its folder are writable")
        else:
            text = f"{safe_repr(str(file))} or its folder is not writable, so nothing can be stored."
            yield HealthCheck("permissions", "note", text, "Let this user write both. SQLite keeps its log there.")
        if self.encrypted:
            yield HealthCheck("encryption", "ok", "every page is encrypted, by SQLCipher")
        yield from super().health()

    def sizes(self) -> Sizes:
        """Return the sizes of the file, its free pages, the write-ahead log and each table.

        The method reads the whole file. If SQLite was built without the virtual table `dbstat`, no table is listed.
        """
        with self._snapshot_connection() as connection:
            page_bytes = int(connection.execute("pragma page_size").fetchone()[0])  # SQLCipher returns a text
            pages = connection.execute("pragma page_count").fetchone()[0]
            free_pages = connection.execute("pragma freelist_count").fetchone()[0]
            tables, (sql, _) = {}, sqlite_query(query.table_sizes.name)
            with contextlib.suppress(self._driver.OperationalError):  # without dbstat
                tables = {row["name"]: row["bytes"] for row in connection.execute(sql)}
        log = Path(f"{file_of(self._file)}-wal")
        return Sizes(page_bytes * pages, page_bytes * free_pages, log.stat().st_size if log.exists() else 0, tables)

    def scrub(self) -> None:
        """Merge the full-text index, rewrite the file, and empty the write-ahead log.

        Without these steps, deleted terms would remain in the segments of the index, and old pages in the log.

        Raises:
            DatabaseBusy: Another connection kept reading an old snapshot, so the log still contains old pages.
        """
        with self._active_call(), self._translate_errors(), self._write_lock:
            self._writer.execute("insert into search_index (search_index) values ('optimize')")
            self._writer.execute("vacuum")
            checkpoint = "pragma wal_checkpoint(truncate)"
            if not self._retry_until_timeout(lambda: not self._writer.execute(checkpoint).fetchone()[0]):
                raise errors.DatabaseBusy(
                    "The erased data is gone from the tables, but another connection keeps an old snapshot open, so "
                    "the write-ahead log still contains the data. Close that connection and erase again."
                )

    def release(self) -> None:
        """Return free pages to the operating system, and checkpoint the write-ahead log.

        Each transaction is small. If another process writes, the remaining pages stay free until a later call.
        """
        if not self.persistent:
            return
        with self._active_call(), contextlib.suppress(errors.DatabaseBusy), self._translate_errors():
            with self._reader() as connection:
                free_pages = int(connection.execute("pragma freelist_count").fetchone()[0])
            if free_pages < VACUUM_PAGES:
                return
            for _ in range(free_pages // VACUUM_PAGES):
                self._run_without_waiting(f"pragma incremental_vacuum({VACUUM_PAGES})")
            self._run_without_waiting("pragma wal_checkpoint(passive)")

    def _run_without_waiting(self, statement: str) -> None:
        """Run a statement on the writing connection; fail if another process writes."""
        with self._write_lock:
            self._writer.execute("pragma busy_timeout = 0")
            try:
                self._writer.executescript(statement)  # `execute` would return only one page
            finally:
                self._writer.execute(f"pragma busy_timeout = {int(self.options.busy_timeout * 1000)}")

    def backup(self, path: Path, progress: Watch | None = None, key: EncryptionKey | None = None) -> None:
        """Copy the database as of one moment, while others continue to read and write.

        Raises:
            InvalidInput: The copy cannot be written, would replace the database itself, or has a key while the database
                is not encrypted.
        """
        if key is not None and self.cipher is None:
            raise errors.InvalidInput(
                f"{safe_repr(self.path)} is not encrypted, so its backup cannot be encrypted. For an encrypted copy, "
                "call copy(path, key=…)."
            )
        cipher = self.cipher if key is None else Cipher(key)
        report = None if progress is None else lambda _, left, total: progress(Progress("copying", total - left, total))
        with self._snapshot_connection() as source:  # without this read transaction, a write would restart the copy
            if self.persistent and path.exists() and path.samefile(file_of(self._file)):
                raise errors.InvalidInput(f"{safe_repr(str(path))} is the database itself. Choose another path.")
            with replace_atomically(path) as copy, contextlib.closing(self._driver.connect(copy)) as target:
                if cipher is not None:
                    target.set_key(cipher.create_file_key())
                source.backup(target, pages=BACKUP_PAGES, progress=report)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Select]:
        """Open a snapshot: the block reads the database as of its start."""
        with self._snapshot_connection() as connection:

            def select(sql: str, parameters: Mapping[str, Any]) -> tuple[list[str], Iterator[Values]]:
                cursor = connection.cursor()
                cursor.row_factory = None
                cursor.execute(sql, parameters)
                return [column[0] for column in cursor.description], cursor

            yield select

    @contextlib.contextmanager
    def _snapshot_connection(self) -> Iterator[sqlite3.Connection]:
        """Open a connection that reads the database as of the start of the block."""
        with self._active_call(), self._translate_errors(), self._reader() as connection:
            connection.execute("begin")
            try:
                connection.execute("select 1 from sqlite_schema").fetchone()  # the snapshot begins with the first read
                yield connection
            finally:
                connection.rollback()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate driver errors into errors of this package."""
        try:
            yield
        except self._caught_errors as error:
            raise self._convert_error(error) from error

    def _convert_error(self, error: Exception) -> errors.AgentMemoryError:
        if isinstance(error, UnicodeEncodeError | OverflowError):
            return errors.InvalidInput(f"A value cannot be stored in the database: {error}.")
        if isinstance(error, UnicodeDecodeError):  # from SQLite's message about a damaged schema
            return errors.DatabaseUnreadable(f"{errors.DatabaseUnreadable()} ({safe_repr(self.path)}: {error})")
        code = _result_code(error)
        if code == sqlite3.SQLITE_CANTOPEN:
            folder = file_of(self.path).absolute().parent
            return errors.DatabaseUnreadable(
                f"{safe_repr(self.path)} cannot be opened. Check that it is a file, and that the folder "
                f"{safe_repr(str(folder))} exists and is writable: SQLite keeps its log there."
            )
        if code == sqlite3.SQLITE_NOTADB:
            return errors.DatabaseUnreadable(format_unreadable_message(self.path, has_key=self.cipher is not None))
        if error_class := _SQLITE_ERRORS.get(code):
            return error_class(f"{error_class()} ({safe_repr(self.path)}: {error})")
        return errors.StorageError(f"The database {safe_repr(self.path)} failed: {error}.")


def _result_code(error: BaseException) -> int:
    """Return an error's primary result code; -1 for errors of the driver, which have none."""
    extended: Any = getattr(error, "sqlite_errorcode", None)
    return int(extended) & 0xFF if extended is not None else -1


def _split_statements(script: str) -> Iterator[str]:
    """Split a script into statements, so that it can run inside a transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if ";" in line and sqlite3.complete_statement(statement):
            yield statement
            statement = ""


_fork_lock = threading.RLock()  # held during a fork, by a thread that also exists in the child and releases it there


def _before_fork() -> None:
    _fork_lock.acquire()
    deadline = time.monotonic() + FORK_TIMEOUT
    for open_engine in list(SqliteEngine._open_engines):
        open_engine.before_fork(deadline)


def _after_fork_in_parent() -> None:
    for open_engine in list(SqliteEngine._open_engines):
        open_engine.after_fork()
    _fork_lock.release()


def _after_fork_in_child() -> None:
    SqliteEngine._inherited += [each for each in list(SqliteEngine._open_engines) if each._forked_in_call]
    _fork_lock.release()


if hasattr(os, "register_at_fork"):  # on systems with fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
