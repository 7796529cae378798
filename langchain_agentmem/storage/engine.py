"""The database engine, which runs an operation in one transaction.

`read` and `write` block and run in the caller's thread. Async methods of the package call them in a worker thread
(`base/concurrency.py`), so that no event loop waits for a disk or a socket.

The schema is created by migrations: named SQL files that are applied once, in order. The first is a baseline, which is
edited in place until version 0.2.0. The others are never edited after a release. Each is applied in one transaction,
which also records its name. A database with an unknown migration was written by a newer version, or by a development
version before the baseline. Both are refused, and not modified.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TypedDict, TypeVar

from annotated_types import Ge, Interval

from langchain_agentmem import errors
from langchain_agentmem.base.argument_checks import DEFAULT_LIMITS, MemoryLimits, check_options
from langchain_agentmem.base.concurrency import THREAD_NAME, PerProcess, is_in_read_worker, release_slot
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike
from langchain_agentmem.errors import safe_repr
from langchain_agentmem.storage.queries import DIALECTS, Query, query, value_parameters
from langchain_agentmem.storage.transaction import Operation, Rows, Select, Transaction

T = TypeVar("T")

MAX_WAIT_SECONDS = 7 * 24 * 3600
"""The maximum of the options `busy_timeout` and `timeout`, in seconds."""

SCHEMA = "agentmem"
POOL_SIZE = 10
_SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


class OpeningOptions(TypedDict, total=False):
    """The options of `DatabaseOptions` as keyword arguments."""

    synchronous: Literal["NORMAL", "FULL"]
    busy_timeout: Annotated[float, Interval(ge=0, le=MAX_WAIT_SECONDS)]
    timeout: Annotated[float, Interval(ge=0, le=MAX_WAIT_SECONDS)]
    schema: str
    pool_size: Annotated[int, Ge(1)]
    read_only: bool
    migrate: bool
    limits: MemoryLimits
    key: KeyLike | None


class DatabaseOptions(NamedTuple):
    """The options with which a database is opened.

    Attributes:
        synchronous: SQLite's durability. With "NORMAL", a power failure may lose the last commits, but does not
            corrupt the database. "FULL" loses no commit. Default: "NORMAL".
        busy_timeout: Seconds to wait for the locks of other writers, or for a connection of the pool.
        timeout: Seconds to wait for a server's answer, or until the server can be reached again.
        schema: The PostgreSQL schema with all tables.
        pool_size: Maximum number of simultaneous connections to PostgreSQL.
        read_only: True to write nothing. Default: False.
        migrate: True to upgrade a database of an older version, False to refuse it. Default: True.
        limits: The maximum sizes of the values that callers may pass.
        key: The key that encrypts a SQLite file. Default: the key in the environment, if any.
    """

    synchronous: str = "NORMAL"
    busy_timeout: float = 60.0
    timeout: float = 60.0
    schema: str = SCHEMA
    pool_size: int = POOL_SIZE
    read_only: bool = False
    migrate: bool = True
    limits: MemoryLimits = DEFAULT_LIMITS
    key: EncryptionKey | None = None

    @classmethod
    def of(cls, options: OpeningOptions) -> DatabaseOptions:
        """Create the options from keyword arguments, and remove the secret key from these."""
        key = EncryptionKey.of(options.pop("key", None))
        return cls(**options)._replace(key=key)  # type: ignore[arg-type]  # the key was removed

    def check(self) -> DatabaseOptions:
        """Return the options after checking them.

        Raises:
            InvalidInput: An option is invalid.
        """
        options = self._asdict()
        del options["key"], options["limits"]
        if self.key is not None:  # also if the database cannot be encrypted, such as ":memory:"
            self.key.check()
        checked = self._replace(**check_options(OpeningOptions, options))
        if not isinstance(self.limits, MemoryLimits):
            raise errors.InvalidInput(f"limits must be MemoryLimits(...), not {safe_repr(self.limits)}.")
        if not _SCHEMA_NAME.fullmatch(self.schema):
            raise errors.InvalidInput(f"schema must be a name of a-z, 0-9 and _, not {safe_repr(self.schema)}.")
        return checked


class Sizes(NamedTuple):
    """The sizes of a database and its tables, in bytes.

    Attributes:
        total: Bytes of the whole database.
        free: Bytes that are free for new data.
        log: Bytes of SQLite's write-ahead log; 0 on PostgreSQL.
        tables: Bytes by table name, indexes included.
    """

    total: int
    free: int
    log: int
    tables: dict[str, int]


class HealthCheck(NamedTuple):
    """The result of one check of a database or its environment.

    Attributes:
        name: The name of the check, such as "vectors".
        level: "ok", "note" for information, or "problem" for a fault that needs a remedy.
        text: The finding.
        remedy: The action to take.
    """

    name: str
    level: Literal["ok", "note", "problem"]
    text: str
    remedy: str = ""


class ActiveCalls:
    """The running calls of one process.

    Attributes:
        condition: The lock of the other attributes, notified when a call ends.
        running: The ids of the threads inside a call. A thread with nested calls is listed once per call.
        paused: True while only nested calls may begin.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.running: list[int] = []
        self.paused = False


class RollbackRequested(Exception):
    """The exception that rolls back a dry run.

    Args:
        value: The result of the operation.
    """

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Engine(ABC):
    """One open database.

    Attributes:
        dialect: "sqlite" or "postgres".
        path: The location of the database for error messages, without a password.
        persistent: True if written data outlasts the engine.
        encrypted: True if a key encrypts written data.
        options: The options with which the database was opened.
        is_new: True if this process created or upgraded the tables when it opened the database.
    """

    dialect: str
    is_new: bool = False
    disconnections: tuple[type[BaseException], ...] = ()  # the driver's errors for a closed connection
    path: str
    persistent: bool = True
    encrypted: bool = False

    _close_lock = PerProcess(threading.Lock)
    _calls = PerProcess(ActiveCalls)

    def __init__(self, options: DatabaseOptions) -> None:
        self.options = options.check()
        self._closed = False

    @abstractmethod
    def _run(self, operation: Operation[T], *, write: bool) -> T:
        """Run an operation in one transaction, in this thread."""

    @abstractmethod
    def _close(self) -> None:
        """Close every connection."""

    def problems(self) -> list[str]:
        """Return the faults that the database system finds in its own files.

        Default: none, since PostgreSQL checks its pages when they are read.
        """
        return []

    @abstractmethod
    def sizes(self) -> Sizes:
        """Return the sizes of the database and its tables, in bytes."""

    def health(self) -> Iterator[HealthCheck]:
        """Check the user's permissions and the environment, with small reads and no writes."""
        [row] = self.read(query.count_unembedded)
        if not row["dimensions"]:
            yield HealthCheck("vectors", "ok", "not enabled: keyword search only")
        elif not row["waiting"]:
            yield HealthCheck("vectors", "ok", f"every document has a vector of {row['dimensions']:,} dimensions")
        else:
            text = f"Documents without a vector: {row['waiting']:,}. They are found by keywords only."
            remedy = "Open the memory with its embeddings (index=...) and call settle()."
            yield HealthCheck("vectors", "note", text, remedy)

    @abstractmethod
    def scrub(self) -> None:
        """Rewrite the storage so that deleted data can no longer be read from it."""

    def release(self) -> None:  # noqa: B027 - PostgreSQL uses its autovacuum
        """Return freed space to the system in small steps, if no other writer is active."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Select]:
        """Return a context for statements that read the database as of the start of the block."""

    def alter(self, statements: Sequence[str]) -> None:
        """Run long statements that must not run in a transaction.

        Closing the engine does not wait for them.

        Args:
            statements: The SQL statements. If the process ends after some of them, another process runs all again.
        """
        raise NotImplementedError

    def read(self, operation: Operation[T]) -> T:
        """Run an operation that only reads, on one snapshot.

        Args:
            operation: The operation.

        Returns:
            The result of the operation.

        Raises:
            MemoryClosed: The engine was closed.
            StorageError: The database failed.
        """
        calls = self._begin_call()
        try:
            return self._run(operation, write=False)
        finally:
            self._end_call(calls)

    def select(self, named_query: Query, /, **parameters: Any) -> Rows:
        """Run one reading query, on a snapshot of its own. The errors are those of `read`."""
        return self.read(lambda tx: named_query(tx, **parameters))

    def write(self, operation: Operation[T]) -> T:
        """Run an operation that may write: all of it is stored, or nothing.

        Args:
            operation: The operation. It is called again after a conflict with another writer.

        Returns:
            The result of the operation.

        Raises:
            MemoryClosed: The engine was closed.
            DatabaseReadOnly: The database was opened read-only.
            StorageError: The database failed; nothing was written.
        """
        if self.options.read_only:
            raise errors.DatabaseReadOnly(
                f"{safe_repr(self.path)} was opened with read_only=True. Open it without this option to write."
            )
        # A write in a read worker frees the worker's slot: the write may wait for other writers, but reads must not.
        calls = self._begin_call()
        try:
            if not is_in_read_worker():
                return self._run(operation, write=True)
            with release_slot():
                return self._run(operation, write=True)
        finally:
            self._end_call(calls)

    def rehearse(self, operation: Operation[T]) -> T:
        """Run an operation as a dry run: like `write`, but everything it wrote is rolled back.

        Args:
            operation: The operation.

        Returns:
            The result of the operation.
        """

        def run_and_roll_back(tx: Transaction) -> NoReturn:
            raise RollbackRequested(operation(tx))

        try:
            self.write(run_and_roll_back)
        except RollbackRequested as request:
            return request.value  # type: ignore[no-any-return]  # an exception is not generic

    def close(self) -> None:
        """Wait for running calls, then close. Closing twice is harmless."""
        calls, current = self._calls, threading.get_ident()
        with self._close_lock, calls.condition:
            if self._closed:
                return
            self._closed = True
        # A worker may drop the last reference to a database within a call, which cannot wait for itself.
        is_worker = threading.current_thread().name == THREAD_NAME
        with calls.condition:
            calls.condition.wait_for(lambda: is_worker or all(thread == current for thread in calls.running))
            calls.running.append(current)
        try:
            self._close()
        finally:
            self._end_call(calls)

    @property
    def is_open(self) -> bool:
        """True while the engine is open."""
        return not self._closed

    @contextlib.contextmanager
    def _active_call(self) -> Iterator[None]:
        """Keep the engine open until the block ends."""
        calls = self._begin_call()
        try:
            yield
        finally:
            self._end_call(calls)

    def _begin_call(self) -> ActiveCalls:
        """Register a call of this thread, and return all calls.

        The engine stays open until `_end_call`.
        """
        self._check_open()
        calls, current = self._calls, threading.get_ident()
        # Appending is atomic. Only a closing or paused engine needs the lock: both set a flag, then read `running`.
        calls.running.append(current)
        if self._closed or calls.paused:
            calls.running.remove(current)
            with calls.condition:
                calls.condition.notify_all()
                calls.condition.wait_for(lambda: not calls.paused or current in calls.running)
                if self._closed:
                    raise errors.MemoryClosed
                calls.running.append(current)
        return calls

    def _end_call(self, calls: ActiveCalls) -> None:
        calls.running.remove(threading.get_ident())
        if self._closed or calls.paused:
            with calls.condition:
                calls.condition.notify_all()

    def _check_sizes(self, query: str, parameters: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Check the sizes of values that a query writes.

        Raises:
            InvalidInput: A value is larger than its limit.
        """
        if (value_names := value_parameters(self.dialect, query)) is not None:
            self.options.limits.check_rows(query, value_names, parameters)

    def _check_open(self) -> None:
        if self._closed:
            raise errors.MemoryClosed

    def _pending_migrations(self, tables: set[str], applied: Callable[[], Iterable[Any]]) -> list[Migration]:
        """Return the migrations to apply on opening.

        Args:
            tables: The tables of the database.
            applied: Reads the rows of the migration table. It is called only if `tables` is not empty.

        Raises:
            ForeignDatabase: The tables belong to another program.
            NewerDatabase: The database records a migration that this version does not know.
            StorageError: A development version wrote the database.
            NothingStored: The database is empty, and the options do not allow migrations.
            DatabaseReadOnly: Migrations are missing, and the options do not allow them.
        """
        location = safe_repr(self.path)
        if self.dialect == "postgres":
            location += f", schema {safe_repr(self.options.schema)},"
        if tables and MIGRATION_TABLE not in tables:
            raise errors.ForeignDatabase(
                f"{location} contains tables of another program ({', '.join(sorted(tables)[:3])}). Use a separate file "
                "or schema for langchain-agentmem. To import from other programs, run: agentmem import-from."
            )
        applied_names = {row["name"] for row in applied()} if tables else set()
        if "0001_log" in applied_names or "shelf" in tables:  # development versions had this table
            raise errors.StorageError(
                f"{location} was written by a development version of langchain-agentmem, before 0.1.0. It cannot be "
                "upgraded. Start with a new database."
            )
        all_migrations = migrations(self.dialect)
        if unknown := sorted(applied_names.difference(migration.name for migration in all_migrations)):
            raise errors.NewerDatabase(
                f"{location} was written by a newer version of langchain-agentmem: its migration "
                f"{safe_repr(unknown[0])} is unknown. Upgrade the package to open it."
            )
        pending = [migration for migration in all_migrations if migration.name not in applied_names]
        if pending and (self.options.read_only or not self.options.migrate):
            if not tables:
                raise errors.NothingStored(
                    f"Nothing is stored in {location} and it was opened read-only or without migrations. Check the "
                    "name, restore a backup, or create a memory with: agentmem migrate URL"
                )
            raise errors.DatabaseReadOnly(
                f"{location} was written by an older version, and was opened read-only or without migrations. To "
                "upgrade it, use a role that may alter tables and run: agentmem migrate URL"
            )
        return pending


MIGRATION_TABLE = "agentmem_migration"
"""The table with the names of the applied migrations."""


def migrate(pending: Iterable[Migration], run: Callable[[str], object]) -> None:
    """Apply migrations in an open transaction.

    Args:
        pending: The migrations.
        run: Runs a script.
    """
    run(f"create table if not exists {MIGRATION_TABLE} (name text primary key, applied_at bigint not null);")
    for migration in pending:
        run(migration.sql)
        run(f"insert into {MIGRATION_TABLE} (name, applied_at) values ('{migration.name}', {time.time_ns() // 1000});")  # noqa: S608 - our own


class Migration(NamedTuple):
    """A schema migration: its name, such as "0002_labels", and its SQL."""

    name: str
    sql: str


COLUMN_TYPES = {
    "id": ("integer primary key", "bigint generated always as identity primary key"),
    "serial": ("integer primary key autoincrement", "bigint generated always as identity primary key"),
    "int": ("integer", "bigint"),
    "real": ("real", "double precision"),
    "text": ("text", 'text collate "C"'),
    "blob": ("blob", "bytea"),
    "index_id": ("", ", id"),
    "without_rowid": (" without rowid", ""),
}
"""The placeholders of migrations, such as `{int}`, with their SQL for SQLite and for PostgreSQL. A `serial` is an id
that is never assigned again. `text` sorts by code points on every server. `index_id` appends the id to an index of
PostgreSQL; SQLite appends the id to every index itself."""


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return all migrations of a dialect in order: `<name>.sql`, then `<name>.<dialect>.sql`."""
    folder = resources.files(__package__).joinpath("schema")
    names = sorted({file.name.partition(".")[0] for file in folder.iterdir()})

    def load_sql(name: str) -> str:
        files = [folder.joinpath(f"{name}{ending}.sql") for ending in ("", f".{dialect}")]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
        return re.sub(r"\{(\w+)\}", lambda match: COLUMN_TYPES[match[1]][DIALECTS.index(dialect)], text)

    return tuple(Migration(name, load_sql(name)) for name in names)
