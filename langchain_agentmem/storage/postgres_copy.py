"""Whole tables of PostgreSQL, and a schema that takes its place when it is whole."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseBusy, ForeignDatabase, MissingExtra
from langchain_agentmem.storage.engine import SCHEMA, Engine, Opening
from langchain_agentmem.storage.postgres import PostgresEngine, address_of, look_in, translated
from langchain_agentmem.storage.table_copy import (
    ALWAYS,
    FETCHED,
    TABLES,
    Occupied,
    Table,
    TableShape,
    Values,
    removed,
    selected,
    shaped,
    upserted,
)

try:
    import psycopg
    from psycopg.rows import DictRow, dict_row, tuple_row
except ImportError as error:
    raise MissingExtra("A PostgreSQL database", "postgres") from error

CONNECT_TIMEOUT = 30
"""Seconds to wait until the place of a copy can be reached."""
STAGE = f"{SCHEMA}_copying"
"""The schema in which a copy is made."""
_COPYING = 0x41474D46


class PostgresRows:
    """Reads on one snapshot."""

    def __init__(self, connection: psycopg.Connection[DictRow], schema: str) -> None:
        self._connection, self._schema = connection, schema

    def shape(self, table: Table) -> TableShape:
        """The columns of a table."""
        return shaped(table, list(self._types(table)))

    def count(self, table: Table) -> int:
        """How many rows a table has."""
        [row] = self._connection.execute(f"select count(*) as rows from {table.name}").fetchall()  # noqa: S608 - our own name
        return int(row["rows"])

    def rows(self, shape: TableShape) -> Iterator[Values]:
        """The rows of a table in the order of their keys, some at a time."""
        types = self._types(shape.table)
        order = [f'{column} collate "C"' if types[column] == "text" else column for column in shape.table.key]
        with self._connection.cursor(f"rows_of_{shape.table.name}", row_factory=tuple_row) as cursor:
            cursor.itersize = FETCHED
            cursor.execute(selected(shape, order))
            yield from cursor

    def numbers(self) -> Mapping[str, int]:
        """The last numbers that were given to rows."""
        rows = self._connection.execute(
            "select c.table_name as name, s.last_value as number from information_schema.columns c "
            "join pg_sequences s on quote_ident(s.schemaname) || '.' || quote_ident(s.sequencename) "
            "= pg_get_serial_sequence(quote_ident(c.table_schema) || '.' || quote_ident(c.table_name), c.column_name) "
            "where c.table_schema = %s and c.is_identity = 'YES' and s.last_value is not null",
            (self._schema,),
        ).fetchall()
        return {row["name"]: row["number"] for row in rows}

    def _types(self, table: Table) -> dict[str, str]:
        rows = self._connection.execute(
            "select column_name, data_type from information_schema.columns where table_schema = %s and table_name = %s "
            "order by ordinal_position",
            (self._schema, table.name),
        ).fetchall()
        return {row["column_name"]: row["data_type"] for row in rows}


class PostgresPortions:
    """Writes, each portion in a transaction."""

    def __init__(self, connection: psycopg.Connection[DictRow], schema: str) -> None:
        self._connection, self._schema = connection, schema

    def put(self, shape: TableShape, new: Sequence[Values], changed: Sequence[Values]) -> None:
        """Write rows, those that are there with the same keys included."""
        with self._transaction(), self._connection.cursor() as cursor:
            if new:
                with cursor.copy(f"copy {shape.table.name} ({', '.join(shape.columns)}) from stdin") as copy:
                    for row in new:
                        copy.write_row(row)
            if changed:
                cursor.executemany(upserted(shape, "%s", identities="overriding system value"), changed)

    def remove(self, shape: TableShape, keys: Sequence[Values]) -> None:
        """Delete the rows with these keys."""
        with self._transaction(), self._connection.cursor() as cursor:
            cursor.executemany(removed(shape, "%s"), keys)

    def go_on_after(self, numbers: Mapping[str, int]) -> None:
        """Have the next rows get numbers behind these."""
        identities = self._connection.execute(
            "select table_name, column_name, "
            "pg_get_serial_sequence(quote_ident(table_schema) || '.' || quote_ident(table_name), column_name) as place "
            "from information_schema.columns where table_schema = %s and is_identity = 'YES'",
            (self._schema,),
        ).fetchall()
        with self._transaction():
            for each in identities:
                table, column = each["table_name"], each["column_name"]
                [row] = self._connection.execute(f"select max({column}) as newest from {table}").fetchall()  # noqa: S608 - our own names
                last = max(numbers.get(table, 0), row["newest"] or 0)
                if last:
                    self._connection.execute("select setval(cast(%s as regclass), %s)", (each["place"], last))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection.transaction():
            look_in(self._connection, self._schema)
            yield


@contextlib.contextmanager
def reading(engine: Engine) -> Iterator[PostgresRows]:
    """Read whole tables, as of the moment when the block begins."""
    assert isinstance(engine, PostgresEngine)  # noqa: S101 - for the type checker
    with engine.connection() as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        with connection.transaction():
            look_in(connection, engine.schema)
            yield PostgresRows(connection, engine.schema)


@contextlib.contextmanager
def writing(engine: Engine) -> Iterator[PostgresPortions]:
    """Write whole tables."""
    assert isinstance(engine, PostgresEngine)  # noqa: S101 - for the type checker
    with engine.connection() as connection:
        yield PostgresPortions(connection, engine.schema)


class PostgresPlace:
    """The schema of a database, which is made under another name.

    Args:
        url: A `postgresql://` URL, or a connection string.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.name = address_of(url)

    def check(self, *, force: bool) -> None:
        """See that a copy may come here."""
        with self._connection() as connection:
            _check(connection, self.name, force=force)

    def is_of(self, engine: Engine) -> bool:
        """Whether this is where an open database is."""
        if not isinstance(engine, PostgresEngine):
            return False
        which = "select current_database() as name, pg_postmaster_start_time() as began"
        with engine.connection() as theirs, self._connection() as ours:
            return theirs.execute(which).fetchall() == ours.execute(which).fetchall()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """A lock that lasts as long as a transaction that does nothing else."""
        with self._connection() as connection, connection.transaction():
            [row] = connection.execute("select pg_try_advisory_xact_lock(%s) as alone", (_COPYING,)).fetchall()
            if not row["alone"]:
                raise DatabaseBusy(f"Somebody else is copying to {safe_repr(self.name)}. Wait until that is done.")
            yield

    def open(self) -> PostgresEngine:
        """Open the copy that is being made."""
        return PostgresEngine(self._url, Opening(schema=STAGE))

    def drop(self) -> None:
        """Delete what was made of a copy so far."""
        with self._connection() as connection:
            connection.execute(f"drop schema if exists {STAGE} cascade")

    def take(self, *, force: bool) -> None:
        """Have the copy take its place."""
        with self._connection() as connection, connection.transaction():
            _check(connection, self.name, force=force)
            connection.execute("set local lock_timeout = '10s'")
            connection.execute(f"drop schema if exists {SCHEMA} cascade")
            connection.execute(f"alter schema {STAGE} rename to {SCHEMA}")

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[DictRow]]:
        with (
            translated(self.name),
            psycopg.connect(
                self._url,
                autocommit=True,
                prepare_threshold=None,
                row_factory=dict_row,
                client_encoding="utf8",
                connect_timeout=CONNECT_TIMEOUT,
            ) as connection,
        ):
            yield connection


def _check(connection: psycopg.Connection[DictRow], name: str, *, force: bool) -> None:
    """See that the schema may be replaced."""
    rows = connection.execute("select tablename from pg_tables where schemaname = %s", (SCHEMA,)).fetchall()
    there = {row["tablename"] for row in rows}
    if there and "agentmem_migration" not in there:
        raise ForeignDatabase(
            f"The schema {safe_repr(SCHEMA)} of {safe_repr(name)} is another program's. Give us a database of our own."
        )
    if force:
        return
    for table in TABLES:
        if table.name in there and table.name not in ALWAYS:
            [row] = connection.execute(
                f"select exists (select from {SCHEMA}.{table.name}) as filled"  # noqa: S608 - our own names
            ).fetchall()
            if row["filled"]:
                raise Occupied(
                    f"{safe_repr(name)} holds memories already. Name another database, or say --force (force=True)."
                )
