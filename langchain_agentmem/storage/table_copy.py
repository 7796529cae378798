"""Whole tables, row by row: how a database is copied into another, whatever the engines.

Both engines have the same tables with the same columns, of whole numbers, floats, texts and bytes. So a row is a tuple
that is equal on both sides, in an order that is the same on both: that of its key, texts by their code points. What an
engine makes of the rows for itself, the full-text index and pgvector's table, is no part of this, and is made anew.

Whole tables of SQLite, and a file that takes its place when it is whole.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.base.files import looks_encrypted, made_private, path_of_file
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseBusy, ForeignDatabase, InvalidInput
from langchain_agentmem.storage.encrypted_database import connected, errors_of, file_error
from langchain_agentmem.storage.engine import Engine, Opening
from langchain_agentmem.storage.sqlite import APPLICATION_ID, SqliteEngine, has_log

if TYPE_CHECKING:
    from langchain_agentmem.storage import postgres_copy

Values: TypeAlias = tuple[Any, ...]
Reader: TypeAlias = "SqliteRows | postgres_copy.PostgresRows"
"""A database as of one moment."""
Writer: TypeAlias = "SqlitePortions | postgres_copy.PostgresPortions"
"""A database that rows are written to, a portion in one transaction."""
CopyPlace: TypeAlias = "SqlitePlace | postgres_copy.PostgresPlace"
"""Where a copy goes: it is made beside, and takes its place when it is whole."""

FETCHED = 500
"""Rows that are read at a time."""


class Table(NamedTuple):
    """A table.

    Attributes:
        name: Its name.
        key: The columns that tell its rows apart.
        left_out: Columns that each engine sets for itself.
    """

    name: str
    key: tuple[str, ...] = ("id",)
    left_out: tuple[str, ...] = ()


class TableShape(NamedTuple):
    """What is read and written of a table.

    Attributes:
        table: The table.
        columns: Its columns, those of the key first.
    """

    table: Table
    columns: tuple[str, ...]

    def key(self, row: Values) -> Values:
        """What tells the row from others."""
        return row[: len(self.table.key)]


TABLES = (
    Table("namespace"),
    Table("branch"),
    Table("content"),
    Table("entry"),
    Table("shelf"),
    Table("thread"),
    Table("author"),
    Table("checkpoint_line"),
    Table("part", ("shelf_id", "number")),
    Table("checkpoint", ("line_id", "name")),
    Table("channel_value", ("line_id", "channel", "version")),
    Table("pending_write", ("line_id", "checkpoint", "task", "place")),
    Table("item"),
    Table("blob"),
    Table("search_scope"),
    Table("search_series"),
    Table("search_speaker", ("word", "series_id", "speaker")),
    Table("search_document"),
    Table("search_vector"),
    Table("search_unembedded", ("ticket",)),
    Table("search_state", left_out=("pgvector",)),
    Table("job"),
    Table("compaction"),
    Table("memory"),
    Table("memory_source", ("memory_id", "source")),
    Table("memory_group"),
    Table("seal", ("group_id", "branch_id")),
    Table("finished_task", ("thread_id", "task")),
    Table("finished_group", ("group_id", "thread_id", "task")),
    Table("place", ("line_id", "checkpoint")),
    Table("branch_base", ("branch_id",)),
    Table("base_group", ("group_id", "branch_id")),
    Table("prompt_note", ("namespace_id", "name", "key", "part", "reader")),
    Table("audit", ("sequence",)),
    Table("audit_head"),
)
"""Every table that is copied, in an order in which none refers to a later one."""

ALWAYS = ("search_state", "audit_head")
"""Tables that have rows even where nothing is stored."""


class Occupied(InvalidInput):
    """Something is stored where a copy was to go."""


def reading(engine: Engine) -> AbstractContextManager[Reader]:
    """Read whole tables, as of the moment when the block begins."""
    if engine.dialect == "postgres":
        from langchain_agentmem.storage import postgres_copy  # noqa: PLC0415 - an extra

        return postgres_copy.reading(engine)
    return sqlite_reading(engine)


def writing(engine: Engine) -> AbstractContextManager[Writer]:
    """Write whole tables."""
    if engine.dialect == "postgres":
        from langchain_agentmem.storage import postgres_copy  # noqa: PLC0415 - an extra

        return postgres_copy.writing(engine)
    return sqlite_writing(engine)


def selected(shape: TableShape, order: Sequence[str]) -> str:
    """The query of all rows of a table.

    Args:
        shape: What is read.
        order: By what they are ordered, as SQL.
    """
    return f"select {', '.join(shape.columns)} from {shape.table.name} order by {', '.join(order)}"  # noqa: S608 - our own names


def upserted(shape: TableShape, mark: str, *, identities: str = "") -> str:
    """The statement that writes a row, whether one with its key is there or not.

    Args:
        shape: What is written.
        mark: How the driver writes a parameter.
        identities: What allows numbers to be given.
    """
    columns, key = shape.columns, shape.table.key
    others = ", ".join(f"{column} = excluded.{column}" for column in columns[len(key) :])
    return (
        f"insert into {shape.table.name} ({', '.join(columns)}) {identities} "  # noqa: S608 - our own names
        f"values ({', '.join([mark] * len(columns))}) "
        f"on conflict ({', '.join(key)}) do {f'update set {others}' if others else 'nothing'}"
    )


def removed(shape: TableShape, mark: str) -> str:
    """The statement that deletes a row by its key."""
    return f"delete from {shape.table.name} where {' and '.join(f'{column} = {mark}' for column in shape.table.key)}"  # noqa: S608 - our own names


def shaped(table: Table, columns: Sequence[str]) -> TableShape:
    """What is copied of a table that has these columns."""
    left_out = {*table.key, *table.left_out}
    return TableShape(table, (*table.key, *(column for column in columns if column not in left_out)))


_BESIDE = ("-wal", "-shm", "-journal")
_HEADER, _OWNER = b"SQLite format 3\0", slice(68, 72)


class SqliteRows:
    """Reads on one snapshot."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def shape(self, table: Table) -> TableShape:
        """The columns of a table."""
        names = self._connection.execute("select name from pragma_table_info(?)", (table.name,)).fetchall()
        return shaped(table, [name for (name,) in names])

    def count(self, table: Table) -> int:
        """How many rows a table has."""
        return int(self._connection.execute(f"select count(*) from {table.name}").fetchone()[0])  # noqa: S608 - our own name

    def rows(self, shape: TableShape) -> Iterator[Values]:
        """The rows of a table in the order of their keys, some at a time."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        cursor.execute(selected(shape, shape.table.key))
        try:
            while page := cursor.fetchmany(FETCHED):
                yield from page
        finally:
            cursor.close()

    def numbers(self) -> Mapping[str, int]:
        """The last numbers that were given to rows."""
        rows = self._connection.execute("select name, seq from sqlite_sequence").fetchall()
        return {row["name"]: row["seq"] for row in rows}


class SqlitePortions:
    """Writes, each portion in a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, shape: TableShape, new: Sequence[Values], changed: Sequence[Values]) -> None:
        """Write rows, those that are there with the same keys included."""
        with self._transaction():
            self._connection.executemany(upserted(shape, "?"), [*new, *changed])

    def remove(self, shape: TableShape, keys: Sequence[Values]) -> None:
        """Delete the rows with these keys."""
        with self._transaction():
            self._connection.executemany(removed(shape, "?"), keys)

    def go_on_after(self, numbers: Mapping[str, int]) -> None:
        """Have the next rows get numbers behind these."""
        known = {
            name
            for (name,) in self._connection.execute("select name from sqlite_master where sql like '%autoincrement%'")
        }
        with self._transaction():
            for name, number in numbers.items():
                if name in known:
                    self._connection.execute("delete from sqlite_sequence where name = ?", (name,))
                    self._connection.execute("insert into sqlite_sequence (name, seq) values (?, ?)", (name, number))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("begin immediate")
        try:
            yield
            self._connection.execute("commit")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise


@contextlib.contextmanager
def sqlite_reading(engine: Engine) -> Iterator[SqliteRows]:
    """Read whole tables, as of the moment when the block begins."""
    assert isinstance(engine, SqliteEngine)  # noqa: S101 - for the type checker
    with engine.reader() as connection:
        connection.execute("begin")
        try:
            connection.execute("select count(*) from namespace").fetchone()  # the snapshot begins with the first look
            yield SqliteRows(connection)
        finally:
            connection.rollback()


@contextlib.contextmanager
def sqlite_writing(engine: Engine) -> Iterator[SqlitePortions]:
    """Write whole tables."""
    assert isinstance(engine, SqliteEngine)  # noqa: S101 - for the type checker
    with engine.writer() as connection:
        yield SqlitePortions(connection)


def copied_file(file: Path, place: Path, key: EncryptionKey | None = None) -> None:
    """Copy a database's file, with what its log holds if it is in use.

    Args:
        file: The database.
        place: Where to; nothing is there.
        key: Its key, if it is encrypted, and that of the copy.

    Raises:
        InvalidInput: It cannot be read, or not written there.
        DatabaseUnreadable: The key does not fit.
        StorageError: The driver failed otherwise.
    """
    try:
        made_private(place)
        if not has_log(file):
            shutil.copyfile(file, place)
            return
        with contextlib.closing(connected(file, key)) as source, contextlib.closing(connected(place, key)) as made:
            source.backup(made)
    except (OSError, errors_of(key)) as error:
        raise file_error(error, safe_repr(str(file)), f"copied to {safe_repr(str(place))}", keyed=bool(key)) from error


class SqlitePlace:
    """A file, which is made under another name.

    Args:
        path: Where it goes.
        key: What encrypts it. Default: the key in the environment, if any.

    Raises:
        InvalidInput: It is no path of a file.
    """

    def __init__(self, path: str, key: EncryptionKey | None = None) -> None:
        self.opening = Opening(key=key)
        if path == ":memory:" or path.startswith("file:"):
            raise InvalidInput(
                f"A copy goes to the path of a file or to a postgresql:// URL, not to {safe_repr(path)}."
            )
        self._target = path_of_file(path)
        self._made = Path(f"{self._target}.copying")
        self.name = str(self._target)
        if self._target.is_dir():
            raise InvalidInput(f"{safe_repr(self.name)} is a folder. Name a file in it.")
        if not self._target.absolute().parent.is_dir():
            raise InvalidInput(f"The folder of {safe_repr(self.name)} does not exist.")

    def check(self, *, force: bool) -> None:
        """See that a copy may come here."""
        with self._written():
            if self._target.exists() and self._target.stat().st_size:
                self._check(force=force)

    def _check(self, *, force: bool) -> None:
        with self._target.open("rb") as file:
            begins = file.read(_OWNER.stop)
        ours = begins.startswith(_HEADER) and int.from_bytes(begins[_OWNER]) == APPLICATION_ID
        encrypted = looks_encrypted(self._target, begins)
        if not ours and not encrypted:
            raise ForeignDatabase(
                f"{safe_repr(self.name)} is not ours to replace: it is no database of langchain-agentmem, or its "
                "beginning is damaged. Move the file away, or name another."
            )
        if force and ours:  # whatever is in it; it may be damaged
            return
        # What is encrypted is ours where the key opens it.
        with contextlib.closing(SqliteEngine(self.name, self.opening)) as engine, sqlite_reading(engine) as rows:
            if not force and any(rows.count(table) for table in TABLES if table.name not in ALWAYS):
                raise Occupied(
                    f"{safe_repr(self.name)} holds memories already. Name another file, or say --force (force=True)."
                )

    def is_of(self, engine: Engine) -> bool:
        """Whether this is where an open database is."""
        if not isinstance(engine, SqliteEngine) or not self._target.exists():
            return False
        with engine.reader() as connection:
            file = connection.execute("select file from pragma_database_list where name = 'main'").fetchone()[0]
        return bool(file) and self._target.samefile(file)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """SQLite's own lock on a file that holds nothing: the system lets go of it when the process dies."""
        lock = Path(f"{self._made}-lock")
        with self._written():
            made_private(lock)
            connection = sqlite3.connect(lock, timeout=0, isolation_level=None)
        with contextlib.closing(connection):
            with self._written():
                connection.execute("begin exclusive")
            try:
                yield
            finally:
                connection.rollback()
                with contextlib.suppress(OSError):
                    lock.unlink(missing_ok=True)

    def open(self) -> SqliteEngine:
        """Open the copy that is being made."""
        return SqliteEngine(str(self._made), self.opening)

    def drop(self) -> None:
        """Delete what was made of a copy so far."""
        for suffix in ("", *_BESIDE):
            Path(f"{self._made}{suffix}").unlink(missing_ok=True)

    def take(self, *, force: bool) -> None:
        """Have the copy take its place."""
        self.check(force=force)
        log = Path(f"{self._target}-wal")
        if log.exists() and log.stat().st_size and not force:
            raise InvalidInput(
                f"{safe_repr(self.name)} is in use: its write-ahead log holds commits. Close it and go on."
            )
        beside = Path(f"{self._made}-wal")
        if beside.exists() and beside.stat().st_size:
            raise DatabaseBusy(f"{safe_repr(str(self._made))} is in use. Close whatever reads it and go on.")
        with self._written():
            with self._made.open("rb+") as file:
                os.fsync(file.fileno())
            if self._target.exists():
                shutil.copymode(self._target, self._made)
            # Older logs go first, or SQLite would take them for the new file's.
            for suffix in _BESIDE:
                Path(f"{self._target}{suffix}").unlink(missing_ok=True)
            self._made.replace(self._target)

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        """Tell in our own errors why a file cannot be written."""
        try:
            yield
        except (OSError, sqlite3.OperationalError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                raise DatabaseBusy(
                    f"Somebody else is copying to {safe_repr(self.name)}. Wait until that is done."
                ) from error
            raise InvalidInput(
                f"{safe_repr(self.name)} cannot be written: {error}. Check who may use its folder."
            ) from error
