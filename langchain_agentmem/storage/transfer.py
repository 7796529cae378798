"""One list of tables, by which rows are exported, imported, backed up, restored and copied between engines.

Both engines have the same tables with the same columns, of whole numbers, floats, texts and bytes. So a row that was
read from one can be written to the other. What an engine makes for itself, the full-text index and pgvector's table, is
made again from the rows.

`open_rows` reads the rows of a database as of one moment. `copy_rows` writes them into an empty database, under the
same ids: so an export is a SQLite database with the rows of a namespace. `check_file` checks a file that may come from
anybody. `upkeep/memory_import.py` merges one into a database that has other rows.
"""

# ruff: noqa: S608 - tables, columns and conditions are our own

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from langchain_agentmem.base.clock import EARLIEST, LATEST
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.base.events import Progress, Watch
from langchain_agentmem.base.namespaces import Namespace, path_range
from langchain_agentmem.errors import DatabaseUnreadable
from langchain_agentmem.storage.encrypted_database import connect, error_class
from langchain_agentmem.storage.engine import Engine
from langchain_agentmem.storage.queries import LINK_BYTES, Query, load_queries, next_link
from langchain_agentmem.storage.transaction import Rows, Select, Transaction, Values

T = TypeVar("T")

PAGE_ROWS = 500
"""Rows that are held at a time."""

_NAMESPACES = "select id from namespace where path >= :low and path < :high"
_OF_NAMESPACES = f"namespace_id in ({_NAMESPACES})"
_OF_THREADS = f"thread_id in (select id from thread where {_OF_NAMESPACES})"
_OF_CHECKPOINTS = f"ns_id in (select id from checkpoint_ns where {_OF_THREADS})"
_STORAGES = (
    f"select store_id from thread where {_OF_NAMESPACES} "
    f"union select store_id from audit where {_OF_NAMESPACES} and store_id is not null"
)
_OF_STORAGES = f"store_id in ({_STORAGES})"
_OF_BRANCHES = f"branch_id in (select id from branch where {_OF_NAMESPACES})"
_GROUPS = (
    f"select id from memory_group where {_OF_THREADS} union select group_id from finished_group where {_OF_THREADS} "
    f"union select group_id from base_group where {_OF_BRANCHES}"
)
_OF_MEMORY = f"{_OF_BRANCHES} or branch_id is null and group_id in ({_GROUPS})"
_MEMORIES = f"select id from memory where {_OF_MEMORY}"
_CONTENTS = f"""
    select content_id from entry where {_OF_BRANCHES}
    union select attachments_id from entry where {_OF_BRANCHES}
    union select content_id from part where {_OF_STORAGES}
    union select content_id from memory where {_OF_MEMORY}
"""
_OF_SCOPES = f"scope_id in (select id from search_scope where {_OF_NAMESPACES} and kind <> 'audit')"
_SERIES = f"select id from search_series where {_OF_SCOPES}"


class Table(NamedTuple):
    """A table.

    Attributes:
        name: Its name.
        key: The columns of its primary key.
        condition: The condition for rows that belong to the namespaces with paths from `:low` up to `:high`.
        references: The columns that hold ids of rows, and the tables of these.
    """

    name: str
    key: tuple[str, ...]
    condition: str
    references: Mapping[str, str] = {}


def _table(name: str, condition: str, *key: str, **references: str) -> Table:
    return Table(name, key or ("id",), condition, references)


TABLES = (
    _table("namespace", f"id in ({_NAMESPACES})"),
    _table("content", f"id in ({_CONTENTS})"),
    _table("part_store", f"id in ({_STORAGES})"),
    _table("thread", _OF_NAMESPACES, namespace_id="namespace", store_id="part_store"),
    _table("checkpoint_ns", _OF_THREADS, thread_id="thread"),
    _table("part", _OF_STORAGES, "store_id", "number", store_id="part_store", content_id="content"),
    _table("checkpoint", _OF_CHECKPOINTS, "ns_id", "name", ns_id="checkpoint_ns", namespace_id="namespace"),
    _table("channel_value", _OF_CHECKPOINTS, "ns_id", "channel", "version", ns_id="checkpoint_ns"),
    _table("pending_write", _OF_CHECKPOINTS, "ns_id", "checkpoint", "task", "idx", ns_id="checkpoint_ns"),
    _table("branch", _OF_NAMESPACES, namespace_id="namespace", parent_id="branch"),
    _table("author", _OF_NAMESPACES, namespace_id="namespace", thread_id="thread"),
    _table("entry", _OF_BRANCHES, branch_id="branch", replaces="entry", content_id="content", attachments_id="content"),
    _table("compaction", _OF_BRANCHES, branch_id="branch", slot="entry"),
    _table("prompt_note", _OF_NAMESPACES, "namespace_id", "name", "key", "part", "reader", namespace_id="namespace"),
    _table("item", _OF_NAMESPACES, namespace_id="namespace"),
    _table("blob", _OF_NAMESPACES, namespace_id="namespace"),
    _table("memory_group", _OF_THREADS, thread_id="thread"),
    _table("finished_task", _OF_THREADS, "thread_id", "task", thread_id="thread"),
    _table("finished_group", _OF_THREADS, "group_id", "thread_id", "task", thread_id="thread"),
    _table(
        "memory", _OF_MEMORY,
        branch_id="branch", copy_of="memory", content_id="content", scope_id="namespace", author_id="author",
    ),
    _table("memory_source", f"memory_id in ({_MEMORIES})", "memory_id", "source", memory_id="memory"),
    _table("sealed_group", _OF_BRANCHES, "group_id", "branch_id", branch_id="branch"),
    _table("checkpoint_position", _OF_CHECKPOINTS, "ns_id", "checkpoint", ns_id="checkpoint_ns", branch_id="branch"),
    _table("branch_base", _OF_BRANCHES, "branch_id", branch_id="branch", base_id="branch"),
    _table("base_group", _OF_BRANCHES, "group_id", "branch_id", branch_id="branch"),
    _table("audit", _OF_NAMESPACES, "sequence", namespace_id="namespace", store_id="part_store"),
    _table("audit_head", "id is null"),
    _table("search_scope", f"{_OF_NAMESPACES} and kind <> 'audit'", namespace_id="namespace"),
    _table("search_series", _OF_SCOPES, scope_id="search_scope"),
    _table("search_total", _OF_SCOPES, scope_id="search_scope"),
    _table("search_speaker", f"series_id in ({_SERIES})", "word", "series_id", "speaker", series_id="search_series"),
    _table("search_document", f"id >> 22 in ({_SERIES})"),
    _table("search_vector", f"document_id >> 22 in ({_SERIES})", document_id="search_document"),
    _table("search_unembedded", f"document_id >> 22 in ({_SERIES})", "ticket", document_id="search_document"),
    _table("search_state", "id = 1"),
)  # fmt: skip
"""Every table that is copied, in an order in which none refers to a later one."""

SINGLE_ROW_TABLES = ("search_state", "audit_head")
"""Tables of one row, which always exists."""


class RowSource:
    """The rows of a database, as of one moment.

    Args:
        select: Runs a query.
        dialect: The dialect of the database.
    """

    def __init__(self, select: Select, dialect: str) -> None:
        self._select, self._queries = select, load_queries(dialect)

    def run(self, query: Query, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of a named query."""
        return self.rows(self._queries[query.name], **parameters)

    def rows(self, sql: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of a query."""
        columns, rows = self._select(sql, parameters)
        for row in rows:
            yield dict(zip(columns, row, strict=True))

    def get_value(self, sql: str, **parameters: Any) -> Any:
        """Return the only value of a query."""
        _, rows = self._select(sql, parameters)
        return next(rows)[0]

    def find_rows(self, name: str, **values: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table with these values, ordered by key; without values, all rows."""
        where = " and ".join(f"{column} = :{column}" for column in values) or "true"
        return self.rows(
            f"select * from {name} where {where} order by {', '.join(_TABLES_BY_NAME[name].key)}", **values
        )

    def table_rows(self, table: Table, namespace: Namespace = ()) -> tuple[list[str], Iterator[Values]]:
        """Return the columns of a table, and its rows in the order of their keys.

        Args:
            table: The table.
            namespace: Only rows of this namespace and of those below it. Default: all.
        """
        where, parameters = _where_clause(table, namespace)
        return self._select(f"select * from {table.name}{where} order by {', '.join(table.key)}", parameters)

    def count(self, table: Table, namespace: Namespace = ()) -> int:
        """Return how many rows `table_rows` yields; arguments as there."""
        where, parameters = _where_clause(table, namespace)
        return int(self.get_value(f"select count(*) from {table.name}{where}", **parameters))


def _where_clause(table: Table, namespace: Namespace) -> tuple[str, dict[str, str]]:
    low, high = path_range(namespace)
    return (f" where {table.condition}", {"low": low, "high": high}) if namespace else ("", {})


@contextlib.contextmanager
def open_rows(engine: Engine) -> Iterator[RowSource]:
    """Read the rows of a database, as of the moment when the block begins."""
    with engine.snapshot() as select:
        yield RowSource(select, engine.dialect)


def has_row(tx: Transaction, name: str, values: Mapping[str, Any]) -> Rows:
    """Query whether a table has a row with these values.

    The answer is fetched when it is first read.
    """
    where = " and ".join(f"{column} = :{column}" for column in values)
    return tx.run_sql(f"select 1 as found from {name} where {where}", values, lazy=True)


def number_documents(tx: Transaction, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Set the document numbers of rows of a table: each row has an `id` and a `document`."""
    tx.run_sql_many(f"update {name} set document_id = :document where id = :id", rows)


def move_rows(tx: Transaction, namespace: int, thread: int, branches: Sequence[int]) -> None:
    """Move a thread, branches and their rows to another namespace.

    The columns with ids of namespaces are updated. The thread and other authors on these branches also move, unless
    they wrote elsewhere.
    """
    ids = f"({', '.join(map(str, branches)) or 'null'})"
    writers = f"select m.author_id from memory m where m.branch_id in {ids}"
    elsewhere = f"select 1 from memory m where m.author_id = author.id and m.scope_id <> {namespace}"
    conditions = {
        "thread": f"id = {thread}",
        "branch": f"id in {ids}",
        "memory": f"branch_id in {ids} and scope_id is not null",
        "author": f"name is not null and (thread_id = {thread} or id in ({writers})) and not exists ({elsewhere})",
    }
    for name, condition in conditions.items():
        [column] = [column for column, table in _TABLES_BY_NAME[name].references.items() if table == "namespace"]
        tx.run_sql(f"update {name} set {column} = {namespace} where {condition}", {})


def is_filled(tx: Transaction) -> bool:
    """Return whether a database contains data."""
    exists = (f"exists (select 1 from {table.name})" for table in TABLES if table.name not in SINGLE_ROW_TABLES)
    return bool(tx.run_sql(f"select {' or '.join(exists)} as filled", {})[0]["filled"])


def delete_all(tx: Transaction) -> None:
    """Delete the rows of all tables."""
    for table in reversed(TABLES):
        tx.run_sql(f"delete from {table.name}", {})


def split_pages(rows: Iterable[T], size: int | None = None) -> Iterator[list[T]]:
    """Yield things some at a time."""
    iterator = iter(rows)
    while page := list(islice(iterator, size or PAGE_ROWS)):
        yield page


class CountingProgress:
    """A reporter of the number of rows processed so far.

    Args:
        progress: Receives the reports, if anybody does.
        doing: The current step, for the progress.
        counts: Gives the numbers of rows of the tables; they are counted only for who receives reports.
    """

    def __init__(self, progress: Watch | None, stage: str, counts: Iterable[int]) -> None:
        self._progress, self._stage, self._count = progress, stage, 0
        self._total = sum(counts) if progress is not None else 0

    def add(self, count: int) -> None:
        """Count more rows."""
        self._count += count
        if self._progress is not None:
            self._progress(Progress(self._stage, min(self._count, self._total), self._total))


def copy_rows(
    source: RowSource, tx: Transaction, *, namespace: Namespace = (), progress: Watch | None = None
) -> Counter[str]:
    """Write the rows of a database into an empty one with the same ids.

    The full-text index is not copied.
    The index is made when the database is opened for the first time. The audit trail of a namespace becomes a chain of
    its own.

    Args:
        source: The rows.
        tx: A transaction of the empty database.
        namespace: Only rows of this namespace and of those below it. Default: all.
        progress: Receives the number of written rows.

    Returns:
        The number of rows of each table.
    """
    counter = CountingProgress(progress, "copying", (source.count(table, namespace) for table in TABLES))
    counts = Counter[str]()
    for table in TABLES:
        if namespace and table.name == "audit_head":  # its row is written with the chain
            continue
        if table.name in SINGLE_ROW_TABLES:
            tx.run_sql(f"delete from {table.name}", {})
        columns, rows = source.table_rows(table, namespace)
        if namespace and table.name == "audit":
            rows = _chain_entries(columns, rows, tx)
        counts[table.name] = 0
        for page in split_pages(rows):
            counts[table.name] += len(page)
            tx.insert_rows(table.name, columns, page)
            counter.add(len(page))
    tx.run_sql("update search_state set analysis = 0, pgvector = 0", {})
    tx.advance_ids()
    return counts


def _chain_entries(columns: Sequence[str], rows: Iterable[Values], tx: Transaction) -> Iterator[Values]:
    """Yield audit entries as a new chain, each without a document of the search index."""
    sequence, link = 0, bytes(LINK_BYTES)
    for values in rows:
        row = dict(zip(columns, values, strict=True))
        sequence, link = sequence + 1, next_link(link, row["digest"])
        yield tuple((row | {"sequence": sequence, "link": link, "document_id": None}).values())
    tx.run_sql("update audit_head set sequence = :sequence, link = :link", {"sequence": sequence, "link": link})


def is_unused_export(path: Path, key: EncryptionKey | None) -> bool:
    """Return whether a file is an export that was never opened as a database.

    The rows of such a file are not indexed yet.
    """
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
    with contextlib.suppress(error_class(key)), contextlib.closing(connect(address, key, uri=True)) as connection:
        return bool(connection.execute("select analysis from search_state").fetchall() == [(0,)])
    return False


_SCHEMA = "select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite%'"


def check_file(source: RowSource, reference: RowSource) -> None:
    """Refuse a SQLite file that this version cannot have written.

    It checks the schema, in which somebody could have hidden a trigger, the type of each value, and that the row exists
    which a reference names. What only a feature knows of its rows is checked by `verify`.

    Args:
        source: The file.
        reference: An empty database.

    Raises:
        DatabaseUnreadable: Something is otherwise.
    """
    if {tuple(row.values()) for row in source.rows(_SCHEMA)} != {
        tuple(row.values()) for row in reference.rows(_SCHEMA)
    }:
        raise DatabaseUnreadable("it has other tables than this version makes")
    for table in TABLES:
        columns = reference.rows("select name, lower(type) as type from pragma_table_info(:name)", name=table.name)
        faults = [each for column in columns for each in _fault_conditions(**column)]
        faults += [
            f"{column} is not null and not exists (select 1 from {target} r where r.{_TABLES_BY_NAME[target].key[0]} "
            f"= t.{column})"
            for column, target in table.references.items()
            if column != "origin"  # a copy stays where the thread of its original was deleted
        ]
        faults += [f"{column} >= id" for column, target in table.references.items() if target == table.name]
        for condition in faults:
            if source.get_value(f"select exists (select 1 from {table.name} t where {condition})"):
                raise DatabaseUnreadable(f"a row of its table {table.name} is damaged ({condition})")


def _fault_conditions(name: str, type: str) -> list[str]:  # noqa: A002 - the name of the column
    faults = [f"typeof({name}) not in ('null', '{type}')"]
    if type == "text":
        faults.append(f"instr({name}, char(0))")
    if name.endswith("_at"):
        faults.append(f"{name} not between {EARLIEST} and {LATEST}")
    return faults


_TABLES_BY_NAME = {table.name: table for table in TABLES}
