"""The tables and rows of other programs' databases, which are opened read-only.

Only quoted names of tables and columns are inserted into statements.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from langchain_agentmem.errors import InvalidInput, MissingExtra, safe_repr

Columns = Mapping[str, frozenset[str]]
"""The column names of each table, by table name."""

_COLUMNS_QUERY = "select m.name, p.name from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table'"
_POSTGRES_COLUMNS_QUERY = """
    select table_name, column_name from information_schema.columns where table_schema = any (current_schemas(false))
"""
_FETCH_ROWS = 500
"""The number of rows that are fetched at a time."""


def list_columns(connection: sqlite3.Connection) -> Columns:
    """Return the column names of each table of a SQLite database."""
    return _group_columns(connection.execute(_COLUMNS_QUERY))


def quote_name(name: str) -> str:
    """Quote the name of a table or column for SQL."""
    return '"' + name.replace('"', '""') + '"'


class ForeignTables:
    """The tables of one database, all read in one transaction.

    Attributes:
        name: The name of the database for errors, without passwords.
        columns: The column names of each table.

    Args:
        name: See the attribute.
        columns: See the attribute.
        cursor: A function that creates a cursor.
        error_class: The base class of the driver's errors.
    """

    def __init__(self, name: str, columns: Columns, cursor: Callable[[], Any], error_class: type[Exception]) -> None:
        self.name = name
        self.columns = columns
        self._cursor, self._error_class = cursor, error_class

    def _read(self, statement: str) -> Iterator[dict[str, Any]]:
        with _translate_errors(self.name, self._error_class):
            cursor = self._cursor()
            try:
                cursor.execute(statement)
                names = [column[0] for column in cursor.description]
                while page := cursor.fetchmany(_FETCH_ROWS):
                    for row in page:
                        yield dict(zip(names, row, strict=True))
            finally:
                with suppress(self._error_class):  # the connection may have been closed meanwhile
                    cursor.close()

    def rows(self, table: str, *order: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table.

        Args:
            table: The name of a table in `columns`.
            *order: The columns by which the rows are sorted. Columns that the table lacks are ignored.

        Raises:
            InvalidInput: The database cannot be read.
        """
        order_by = ", ".join(quote_name(each) for each in order if each in self.columns[table])
        return self._read(f"select * from {quote_name(table)}" + (f" order by {order_by}" if order_by else ""))  # noqa: S608

    def count_values(self, table: str, column: str) -> dict[Any, int]:
        """Count the rows for each value of a column. The result is in the order of the values."""
        query = f"select {quote_name(column)} as value, count(*) as count from {quote_name(table)}"  # noqa: S608
        return {row["value"]: int(row["count"]) for row in self._read(f"{query} group by 1 order by 1")}


@contextmanager
def foreign_tables(source: Path | str) -> Iterator[ForeignTables]:
    """Open a database of another program read-only.

    Args:
        source: A `Path` of a SQLite file, or the URL or connection string (`str`) of a PostgreSQL database.

    Raises:
        InvalidInput: The database does not exist, or cannot be read.
        MissingExtra: The database is PostgreSQL, and psycopg is not installed.
    """
    with ExitStack() as stack:
        yield _open_postgres(source, stack) if isinstance(source, str) else _open_sqlite(source, stack)


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a SQLite file read-only.

    If no process has the file open, SQLite creates no files next to it.
    """
    # No process has the file open if its write-ahead log is missing. With "immutable", SQLite does not create the log.
    is_idle = _has_log_format(path) and not path.with_name(path.name + "-wal").exists()
    uri = f"file:{quote(str(path.absolute()))}?mode=ro" + ("&immutable=1" if is_idle else "")
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def _open_sqlite(path: Path, stack: ExitStack) -> ForeignTables:
    name = safe_repr(str(path))
    with _translate_errors(name, sqlite3.Error):
        connection = stack.enter_context(closing(open_read_only(path)))
        connection.text_factory = lambda data: str(data, "utf-8", "replace")
        connection.execute("begin")
        columns = list_columns(connection)
    return ForeignTables(name, columns, connection.cursor, sqlite3.Error)


def _has_log_format(path: Path) -> bool:
    with _translate_errors(safe_repr(str(path)), OSError), path.open("rb") as file:
        return file.read(19)[18:] == b"\x02"  # byte 18 of the header is 2 if the file uses a write-ahead log


def _open_postgres(url: str, stack: ExitStack) -> ForeignTables:
    try:
        import psycopg  # noqa: PLC0415 - an extra

        from langchain_agentmem.storage.postgres import mask_address  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("Reading from PostgreSQL", "postgres") from error
    name = f"the PostgreSQL database {safe_repr(mask_address(url))}"
    with _translate_errors(name, psycopg.Error):
        connection = stack.enter_context(psycopg.connect(url, prepare_threshold=None))
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        columns = _group_columns(connection.execute(_POSTGRES_COLUMNS_QUERY))
        stack.callback(connection.rollback)
    return ForeignTables(name, columns, partial(connection.cursor, name="agentmem_rows"), psycopg.Error)


def _group_columns(pairs: Iterable[tuple[str, str]]) -> Columns:
    grouped: dict[str, set[str]] = {}
    for table, column in pairs:
        grouped.setdefault(table, set()).add(column)
    return {table: frozenset(columns) for table, columns in grouped.items()}


@contextmanager
def _translate_errors(name: str, *errors: type[Exception]) -> Iterator[None]:
    """Translate some errors of the block into `InvalidInput`."""
    try:
        yield
    except errors as error:
        raise InvalidInput(f"{name[0].upper()}{name[1:]} cannot be read: {' '.join(str(error).split())}.") from error
