"""Whole tables of SQLite, and a file that takes its place when it is whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from langchain_agentmem.base.files import made_private, path_of_file
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseBusy, ForeignDatabase, InvalidInput
from langchain_agentmem.storage.engine import Engine
from langchain_agentmem.storage.sqlite import APPLICATION_ID, SqliteEngine, has_log
from langchain_agentmem.storage.table_copy import (
    ALWAYS,
    FETCHED,
    TABLES,
    Occupied,
    Shape,
    Table,
    Values,
    removed,
    selected,
    shaped,
    upserted,
)

_BESIDE = ("-wal", "-shm", "-journal")
_HEADER, _OWNER = b"SQLite format 3\0", slice(68, 72)


class _Rows:
    """Reads on one snapshot."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def shape(self, table: Table) -> Shape:
        """The columns of a table."""
        names = self._connection.execute("select name from pragma_table_info(?)", (table.name,)).fetchall()
        return shaped(table, [name for (name,) in names])

    def count(self, table: Table) -> int:
        """How many rows a table has."""
        return int(self._connection.execute(f"select count(*) from {table.name}").fetchone()[0])  # noqa: S608 - our own name

    def rows(self, shape: Shape) -> Iterator[Values]:
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


class _Portions:
    """Writes, each portion in a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, shape: Shape, new: Sequence[Values], changed: Sequence[Values]) -> None:
        """Write rows, those that are there with the same keys included."""
        with self._transaction():
            self._connection.executemany(upserted(shape, "?"), [*new, *changed])

    def remove(self, shape: Shape, keys: Sequence[Values]) -> None:
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
def reading(engine: Engine) -> Iterator[_Rows]:
    """Read whole tables, as of the moment when the block begins."""
    assert isinstance(engine, SqliteEngine)  # noqa: S101 - for the type checker
    with engine.reader() as connection:
        connection.execute("begin")
        try:
            connection.execute("select count(*) from namespace").fetchone()  # the snapshot begins with the first look
            yield _Rows(connection)
        finally:
            connection.rollback()


@contextlib.contextmanager
def writing(engine: Engine) -> Iterator[_Portions]:
    """Write whole tables."""
    assert isinstance(engine, SqliteEngine)  # noqa: S101 - for the type checker
    with engine.writer() as connection:
        yield _Portions(connection)


def copied_file(file: Path, place: Path) -> None:
    """Copy a database's file, with what its log holds if it is in use.

    Args:
        file: The database.
        place: Where to; nothing is there.

    Raises:
        InvalidInput: It cannot be read, or not written there.
    """
    try:
        made_private(place)
        if has_log(file):
            with (
                contextlib.closing(sqlite3.connect(file)) as source,
                contextlib.closing(sqlite3.connect(place)) as made,
            ):
                source.backup(made)
        else:
            shutil.copyfile(file, place)
    except (OSError, sqlite3.Error) as error:
        raise InvalidInput(f"{safe_repr(str(file))} cannot be copied to {safe_repr(str(place))}: {error}.") from error


class SqlitePlace:
    """A file, which is made under another name.

    Args:
        path: Where it goes.

    Raises:
        InvalidInput: It is no path of a file.
    """

    def __init__(self, path: str) -> None:
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
        if not begins.startswith(_HEADER) or int.from_bytes(begins[_OWNER]) != APPLICATION_ID:
            raise ForeignDatabase(
                f"{safe_repr(self.name)} is not ours to replace: it is no database of langchain-agentmem."
            )
        if force:  # whatever is in it; it may be damaged
            return
        with contextlib.closing(SqliteEngine(self.name)) as engine, reading(engine) as rows:
            if any(rows.count(table) for table in TABLES if table.name not in ALWAYS):
                raise Occupied(
                    f"{safe_repr(self.name)} holds memories already. Name another file, or replace it (force)."
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
        return SqliteEngine(str(self._made))

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
