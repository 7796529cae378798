"""Whole tables, row by row: how a database is copied into another, whatever the engines.

Both engines have the same tables with the same columns, of whole numbers, floats, texts and bytes. So a row is a tuple
that is equal on both sides, in an order that is the same on both: that of its key, texts by their code points. What an
engine makes of the rows for itself, the full-text index and pgvector's table, is no part of this, and is made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage.engine import Engine

Values: TypeAlias = tuple[Any, ...]

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


class Shape(NamedTuple):
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


MEASURES = "measure"
"""The table of what was measured, which is no part of what is remembered."""

TABLES = (
    Table("namespace"),
    Table("branch"),
    Table("content"),
    Table("entry"),
    Table("token_count", ("content_id", "counter")),
    Table("shelf"),
    Table("thread"),
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
    Table("place", ("line_id", "checkpoint")),
    Table("branch_base", ("branch_id",)),
    Table("base_group", ("group_id", "branch_id")),
    Table("experience_tally", ("namespace_id", "exp_id")),
    Table("experience_feedback"),
    Table("audit_namespace", ("namespace_id",)),
    Table("audit_shelf"),
    Table("audit_message", ("shelf_id", "number")),
    Table("audit", ("sequence",)),
    Table("audit_document", ("sequence",)),
    Table("audit_head"),
    Table(MEASURES, ("kind", "name")),
)
"""Every table that is copied, in an order in which none refers to a later one."""

MADE_ANEW = ("agentmem_migration", "search_index", "search_waiting", "search_pgvector")
"""The other tables, those that FTS5 keeps for its index included, whose names begin so."""

ALWAYS = ("search_state", "audit_head", MEASURES)
"""Tables that have rows even where nothing is stored."""


class Occupied(InvalidInput):
    """Something is stored where a copy was to go."""


class Reader(Protocol):
    """A database as of one moment."""

    def shape(self, table: Table) -> Shape:
        """The columns of a table."""
        ...

    def count(self, table: Table) -> int:
        """How many rows a table has."""
        ...

    def rows(self, shape: Shape) -> Iterator[Values]:
        """The rows of a table in the order of their keys, some at a time."""
        ...

    def numbers(self) -> Mapping[str, int]:
        """The last numbers that were given to rows, by tables that never give one twice."""
        ...


class Writer(Protocol):
    """A database that rows are written to, a portion in one transaction."""

    def put(self, shape: Shape, new: Sequence[Values], changed: Sequence[Values]) -> None:
        """Write rows that are not there, and others that are there with the same keys."""
        ...

    def remove(self, shape: Shape, keys: Sequence[Values]) -> None:
        """Delete the rows with these keys."""
        ...

    def go_on_after(self, numbers: Mapping[str, int]) -> None:
        """Have the next rows get numbers that were never given to any, here or where the rows come from."""
        ...


class Place(Protocol):
    """Where a copy goes: it is made beside, and takes its place when it is whole.

    Attributes:
        name: What it is called in errors.
    """

    name: str

    def check(self, *, force: bool) -> None:
        """See that a copy may come here.

        Raises:
            Occupied: Something is stored there, and must not be replaced.
            ForeignDatabase: It is another program's.
        """
        ...

    def is_of(self, engine: Engine) -> bool:
        """Whether this is where an open database is."""
        ...

    def alone(self) -> AbstractContextManager[None]:
        """Keep others from copying here at the same time.

        Raises:
            DatabaseBusy: Somebody does.
        """
        ...

    def open(self) -> Engine:
        """Open the copy that is being made; it is begun if there is none."""
        ...

    def drop(self) -> None:
        """Delete what was made of a copy so far."""
        ...

    def take(self, *, force: bool) -> None:
        """Have the copy, which is closed, take its place."""
        ...


def reading(engine: Engine) -> AbstractContextManager[Reader]:
    """Read whole tables, as of the moment when the block begins."""
    if engine.dialect == "postgres":
        from langchain_agentmem.storage import postgres_tables  # noqa: PLC0415 - an extra

        return postgres_tables.reading(engine)
    from langchain_agentmem.storage import sqlite_tables  # noqa: PLC0415 - as above

    return sqlite_tables.reading(engine)


def writing(engine: Engine) -> AbstractContextManager[Writer]:
    """Write whole tables."""
    if engine.dialect == "postgres":
        from langchain_agentmem.storage import postgres_tables  # noqa: PLC0415 - an extra

        return postgres_tables.writing(engine)
    from langchain_agentmem.storage import sqlite_tables  # noqa: PLC0415 - as above

    return sqlite_tables.writing(engine)


def selected(shape: Shape, order: Sequence[str]) -> str:
    """The query of all rows of a table.

    Args:
        shape: What is read.
        order: By what they are ordered, as SQL.
    """
    return f"select {', '.join(shape.columns)} from {shape.table.name} order by {', '.join(order)}"  # noqa: S608 - our own names


def upserted(shape: Shape, mark: str, *, identities: str = "") -> str:
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


def removed(shape: Shape, mark: str) -> str:
    """The statement that deletes a row by its key."""
    return f"delete from {shape.table.name} where {' and '.join(f'{column} = {mark}' for column in shape.table.key)}"  # noqa: S608 - our own names


def shaped(table: Table, columns: Sequence[str]) -> Shape:
    """What is copied of a table that has these columns."""
    left_out = {*table.key, *table.left_out}
    return Shape(table, (*table.key, *(column for column in columns if column not in left_out)))
