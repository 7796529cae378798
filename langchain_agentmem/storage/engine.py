"""What a database engine is: something that runs an operation in one transaction.

`read` and `write` block and run in the caller's thread. Async methods of the package call them in a worker thread
(`base/concurrency.py`), so that no event loop waits for a disk or a socket.

The schema consists of named files that are applied once, in order: a baseline, which is edited in place until version
0.2.0, and the migrations after it, which are never edited after a release. Each is applied together with its record in
one transaction. A database that records a migration this package does not know was written by a newer version, or by a
development version before the baseline: both are refused, and not modified.
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
from langchain_agentmem.storage.queries import DIALECTS, query, value_parameters
from langchain_agentmem.storage.transaction import Operation, Select, Transaction

T = TypeVar("T")

MAX_WAIT_SECONDS = 7 * 24 * 3600
"""The allowed seconds of a wait."""

SCHEMA = "agentmem"
POOL_SIZE = 10
_SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


class OpeningOptions(TypedDict, total=False):
    """The options of `DatabaseOptions`, as parts of the memory pass them on."""

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
        synchronous: SQLite's durability, "NORMAL" (a power cut may take the last commits, never the database) or
            "FULL".
        busy_timeout: Seconds to wait for other writers.
        timeout: Seconds to wait for a server's answer, or until the server can be reached again.
        schema: The PostgreSQL schema that holds all tables.
        pool_size: Maximum number of simultaneous connections to PostgreSQL.
        read_only: Write nothing.
        migrate: Upgrade a database of an older version. If False, such a database is refused.
        limits: The upper limits for what callers may pass.
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
        """Create the options from keyword arguments, and remove the key from these to hide it."""
        key = EncryptionKey.of(options.pop("key", None))
        return cls(**options)._replace(key=key)  # type: ignore[arg-type]  # the one that is not there any more

    def check(self) -> DatabaseOptions:
        """Return the options after checking them.

        Raises:
            InvalidInput: An option is invalid.
        """
        options = self._asdict()
        del options["key"], options["limits"]
        if self.key is not None:  # also where it is not used, as in memory
            self.key.check()
        checked = self._replace(**check_options(OpeningOptions, options))
        if not isinstance(self.limits, MemoryLimits):
            raise errors.InvalidInput(f"limits must be MemoryLimits(...), not {safe_repr(self.limits)}.")
        if not _SCHEMA_NAME.fullmatch(self.schema):
            raise errors.InvalidInput(f"schema must be a name of a-z, 0-9 and _, not {safe_repr(self.schema)}.")
        return checked


class Sizes(NamedTuple):
    """The numbers of bytes that a database takes.

    Attributes:
        total: Bytes of the whole database.
        free: Bytes that are free for new data.
        log: Bytes of the log that are not yet part of the database.
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
        level: "ok", "note" for information, "problem" for a fault that needs a remedy.
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
        condition: Guards the others, and is notified when a call has ended.
        running: The threads inside a call. A thread may be listed twice.
        paused: No call may begin now, except within another.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.running: list[int] = []
        self.paused = False


class RollbackRequested(Exception):
    """The exception that rolls back a rehearsal.

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
        path: The location of the database, in the form for errors.
        persistent: Written data outlasts the engine.
        encrypted: A key encrypts written data.
        options: The options of the opening.
    """

    dialect: str
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
        """Return the faults that the engine itself finds in its files.

        Default: none, since a server checks its pages when they are read.
        """
        return []

    @abstractmethod
    def sizes(self) -> Sizes:
        """Return the numbers of bytes in use, in all and by table."""

    def health(self) -> Iterator[HealthCheck]:
        """Check the user's rights and the environment. Little is read, nothing is changed."""
        [row] = self.read(query.count_unembedded)
        if not row["dimensions"]:
            yield HealthCheck("vectors", "ok", "none are wanted: search goes by words")
        elif not row["waiting"]:
            yield HealthCheck("vectors", "ok", f"every document has one of {row['dimensions']:,} dimensions")
        else:
            text = f"{row['waiting']:,} documents wait for their vectors, and are found by words alone until then."
            yield HealthCheck(
                "vectors", "note", text, "Open the memory with its embeddings (index=...) and call settle()."
            )

    @abstractmethod
    def scrub(self) -> None:
        """Rewrite the storage so that nothing deleted can be read from it any more."""

    def release(self) -> None:  # noqa: B027 - PostgreSQL's autovacuum does it
        """Return freed space to the system in small steps, if no other writer is active."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Select]:
        """Return a context for statements that read the database as of the entry of the context."""

    def alter(self, statements: Sequence[str]) -> None:
        """Run long statements that must not run in a transaction.

        Closing the engine does not wait for them.

        Args:
            statements: The SQL statements. Another process may run them again after any of them.
        """
        raise NotImplementedError

    def read(self, operation: Operation[T]) -> T:
        """Run an operation that only reads, on one snapshot.

        Args:
            operation: The operation.

        Returns:
            What the operation returns.

        Raises:
            MemoryClosed: The engine was closed.
            StorageError: The database failed.
        """
        with self._active_call():
            return self._run(operation, write=False)

    def write(self, operation: Operation[T]) -> T:
        """Run an operation that may write: all of it is stored, or nothing.

        Args:
            operation: The operation; it is called again if another writer came first.

        Returns:
            What the operation returns.

        Raises:
            MemoryClosed: The engine was closed.
            DatabaseReadOnly: The database was opened read-only.
            StorageError: The database failed; nothing was written.
        """
        if self.options.read_only:
            raise errors.DatabaseReadOnly(f"{safe_repr(self.path)} was opened with read_only=True, and is not written.")
        # A call that mostly reads waits for other writers here, and readers do not wait for it.
        with self._active_call(), release_slot() if is_in_read_worker() else contextlib.nullcontext():
            return self._run(operation, write=True)

    def rehearse(self, operation: Operation[T]) -> T:
        """Run an operation as `write` does, then roll back everything it wrote.

        Args:
            operation: The operation.

        Returns:
            What the operation returns.
        """

        def rehearsal(tx: Transaction) -> NoReturn:
            raise RollbackRequested(operation(tx))

        try:
            self.write(rehearsal)
        except RollbackRequested as done:
            return done.value  # type: ignore[no-any-return]  # an exception is not generic

    def close(self) -> None:
        """Wait for what runs, then close. Closing twice is harmless."""
        calls, current = self._calls, threading.get_ident()
        with self._close_lock, calls.condition:
            if self._closed:
                return
            self._closed = True
        # The last user of a database may let go of it in a worker, within another call.
        is_worker = threading.current_thread().name == THREAD_NAME
        with calls.condition:
            calls.condition.wait_for(lambda: is_worker or all(thread == current for thread in calls.running))
            calls.running.append(current)
        try:
            self._close()
        finally:
            self._end_call()

    @property
    def is_open(self) -> bool:
        """True while the engine is open."""
        return not self._closed

    @contextlib.contextmanager
    def _active_call(self) -> Iterator[None]:
        """Keep the engine open until the block ends."""
        self._check_open()
        calls, current = self._calls, threading.get_ident()
        with calls.condition:
            while calls.paused and current not in calls.running:
                calls.condition.wait()
            if self._closed:
                raise errors.MemoryClosed
            calls.running.append(current)
        try:
            yield
        finally:
            self._end_call()

    def _end_call(self) -> None:
        calls = self._calls
        with calls.condition:
            calls.running.remove(threading.get_ident())
            if self._closed or calls.paused:
                calls.condition.notify_all()

    def _check_sizes(self, query: str, parameters: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Refuse values that are larger than the limits, before they are written."""
        if (value_names := value_parameters(self.dialect, query)) is not None:
            self.options.limits.check_rows(query, value_names, parameters)

    def _check_open(self) -> None:
        if self._closed:
            raise errors.MemoryClosed

    def _pending_migrations(self, tables: set[str], applied: Callable[[], Iterable[Any]]) -> list[Migration]:
        """Return the migrations to be made on opening.

        Args:
            tables: The tables of the database.
            applied: Reads the rows of the migrations that were made.

        Raises:
            ForeignDatabase: The tables are another program's.
            NewerDatabase: The database records a migration that this version does not know.
            StorageError: A development version wrote the database.
            NothingStored: None was ever made, and this opening may make none.
            DatabaseReadOnly: There are some, and this opening may not make them.
        """
        location = safe_repr(self.path) + (
            f", schema {safe_repr(self.options.schema)}," if self.dialect == "postgres" else ""
        )
        if tables and MIGRATION_TABLE not in tables:
            raise errors.ForeignDatabase(
                f"{location} holds another program's tables ({', '.join(sorted(tables)[:3])}). Give "
                "langchain-agentmem a "
                "file or schema of its own. Databases of other programs are read by: agentmem import-from."
            )
        applied_names = {row["name"] for row in applied()} if tables else set()
        if "0001_log" in applied_names:
            raise errors.StorageError(
                f"{location} was written by a development version of langchain-agentmem, before 0.1.0. There is no "
                "upgrade path: start with a new database."
            )
        known = migrations(self.dialect)
        if unknown := sorted(applied_names.difference(migration.name for migration in known)):
            raise errors.NewerDatabase(
                f"{location} has the schema change {safe_repr(unknown[0])}, which this version of langchain-agentmem "
                "does not know. Upgrade the package to open it."
            )
        pending = [migration for migration in known if migration.name not in applied_names]
        if pending and (self.options.read_only or not self.options.migrate):
            if not tables:
                raise errors.NothingStored(
                    f"Nothing is stored in {location} and this opening makes no memory there. Check the name, restore "
                    "a backup, or make one with: agentmem migrate URL"
                )
            raise errors.DatabaseReadOnly(
                f"{location} was written by an older version, and this opening may not change that. Let a role that "
                "may do so run: agentmem migrate URL"
            )
        return pending


MIGRATION_TABLE = "agentmem_migration"


def migrate(pending: Iterable[Migration], run: Callable[[str], object]) -> None:
    """Make migrations in an open transaction.

    Args:
        pending: The migrations.
        run: Runs a script.
    """
    run(f"create table if not exists {MIGRATION_TABLE} (name text primary key, applied_at bigint not null);")
    for migration in pending:
        run(migration.sql)
        run(f"insert into {MIGRATION_TABLE} (name, applied_at) values ('{migration.name}', {time.time_ns() // 1000});")  # noqa: S608 - our own


class Migration(NamedTuple):
    """One step of the schema: its name, such as "0002_labels", and its SQL."""

    name: str
    sql: str


COLUMN_TYPES = {
    "id": ("integer primary key", "bigint generated always as identity primary key"),
    "serial": ("integer primary key autoincrement", "bigint generated always as identity primary key"),
    "int": ("integer", "bigint"),
    "real": ("real", "double precision"),
    "text": ("text", 'text collate "C"'),
    "blob": ("blob", "bytea"),
    "id_too": ("", ", id"),
    "without_rowid": (" without rowid", ""),
}
"""The names in braces of a migration, in SQLite and in PostgreSQL. A `serial` is an id that is not assigned again.
`text` is in the order of code points on every server. `id_too` is the id at the end of an index, which every index of
SQLite has."""


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return all migrations of a dialect in order: `<name>.sql`, then `<name>.<dialect>.sql`."""
    folder = resources.files(__package__).joinpath("schema")
    names = sorted({file.name.partition(".")[0] for file in folder.iterdir()})

    def text_of(name: str) -> str:
        files = [folder.joinpath(f"{name}{ending}.sql") for ending in ("", f".{dialect}")]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
        return re.sub(r"\{(\w+)\}", lambda match: COLUMN_TYPES[match[1]][DIALECTS.index(dialect)], text)

    return tuple(Migration(name, text_of(name)) for name in names)
