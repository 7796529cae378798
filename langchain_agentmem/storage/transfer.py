"""The tables that are copied between databases and exports, and the transfer of rows.

Both engines have the same tables with the same columns of whole numbers, floats, texts and bytes. So a row from one
engine can be written to the other. The full-text index and pgvector's table differ between the engines, so they are
rebuilt from the rows.

An export is a SQLite database with the rows of a namespace. `open_rows` reads the rows of a database as of one moment.
`copy_rows` writes them into an empty database, with the same ids. `check_file` checks an untrusted export, which
`upkeep/memory_import.py` merges into a database with other rows.
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
from langchain_agentmem.base.hooks import Progress, Watch
from langchain_agentmem.base.namespaces import Namespace, path_range
from langchain_agentmem.errors import DatabaseUnreadable
from langchain_agentmem.storage.encrypted_database import connect, get_error_class
from langchain_agentmem.storage.engine import Engine
from langchain_agentmem.storage.queries import LINK_BYTES, Query, load_queries, next_link
from langchain_agentmem.storage.transaction import Rows, Select, Transaction, Values

T = TypeVar("T")

PAGE_ROWS = 500
"""The number of rows that are loaded at a time."""

# SQL for the rows of namespaces with paths from `:low` up to `:high`: queries of ids, and conditions.
_NAMESPACE_IDS = "select id from namespace where path >= :low and path < :high"
_IN_NAMESPACES = f"namespace_id in ({_NAMESPACE_IDS})"
_IN_THREADS = f"thread_id in (select id from thread where {_IN_NAMESPACES})"
_IN_CHECKPOINT_NS = f"ns_id in (select id from checkpoint_ns where {_IN_THREADS})"
_PART_STORE_IDS = (
    f"select store_id from thread where {_IN_NAMESPACES} "
    f"union select store_id from audit where {_IN_NAMESPACES} and store_id is not null"
)
_IN_PART_STORES = f"store_id in ({_PART_STORE_IDS})"
_IN_BRANCHES = f"branch_id in (select id from branch where {_IN_NAMESPACES})"
_GROUP_IDS = (
    f"select id from memory_group where {_IN_THREADS} union select group_id from finished_group where {_IN_THREADS} "
    f"union select group_id from base_group where {_IN_BRANCHES}"
)
_IN_BRANCHES_OR_GROUPS = f"{_IN_BRANCHES} or branch_id is null and group_id in ({_GROUP_IDS})"
_MEMORY_IDS = f"select id from memory where {_IN_BRANCHES_OR_GROUPS}"
_CONTENT_IDS = f"""
    select content_id from entry where {_IN_BRANCHES}
    union select attachments_id from entry where {_IN_BRANCHES}
    union select content_id from part where {_IN_PART_STORES}
    union select content_id from memory where {_IN_BRANCHES_OR_GROUPS}
"""
_IN_SEARCH_SCOPES = f"scope_id in (select id from search_scope where {_IN_NAMESPACES} and kind <> 'audit')"
_SERIES = f"select id from search_series where {_IN_SEARCH_SCOPES}"


class Table(NamedTuple):
    """A table that is copied.

    Attributes:
        name: The name of the table.
        key: The columns of the primary key.
        condition: The SQL condition for rows of the namespaces with paths from `:low` up to `:high`.
        references: The columns that refer to rows by their ids, each with the table of these rows.
    """

    name: str
    key: tuple[str, ...]
    condition: str
    references: Mapping[str, str] = {}


def _table(name: str, condition: str, *key: str, **references: str) -> Table:
    return Table(name, key or ("id",), condition, references)


# `id >> 22` of a document is the id of its series; see `search/search_index.py`.
TABLES = (
    _table("namespace", f"id in ({_NAMESPACE_IDS})"),
    _table("content", f"id in ({_CONTENT_IDS})"),
    _table("part_store", f"id in ({_PART_STORE_IDS})"),
    _table("thread", _IN_NAMESPACES, namespace_id="namespace", store_id="part_store"),
    _table("checkpoint_ns", _IN_THREADS, thread_id="thread"),
    _table("part", _IN_PART_STORES, "store_id", "number", store_id="part_store", content_id="content"),
    _table("checkpoint", _IN_CHECKPOINT_NS, "ns_id", "name", ns_id="checkpoint_ns", namespace_id="namespace"),
    _table("channel_value", _IN_CHECKPOINT_NS, "ns_id", "channel", "version", ns_id="checkpoint_ns"),
    _table("pending_write", _IN_CHECKPOINT_NS, "ns_id", "checkpoint", "task", "idx", ns_id="checkpoint_ns"),
    _table("branch", _IN_NAMESPACES, namespace_id="namespace", parent_id="branch"),
    _table("author", _IN_NAMESPACES, namespace_id="namespace", thread_id="thread"),
    _table("entry", _IN_BRANCHES, branch_id="branch", replaces="entry", content_id="content", attachments_id="content"),
    _table("compaction", _IN_BRANCHES, branch_id="branch", slot="entry"),
    _table("prompt_note", _IN_NAMESPACES, "namespace_id", "name", "key", "part", "reader", namespace_id="namespace"),
    _table("item", _IN_NAMESPACES, namespace_id="namespace"),
    _table("blob", _IN_NAMESPACES, namespace_id="namespace"),
    _table("memory_group", _IN_THREADS, thread_id="thread"),
    _table("finished_task", _IN_THREADS, "thread_id", "task", thread_id="thread"),
    _table("finished_group", _IN_THREADS, "group_id", "thread_id", "task", thread_id="thread"),
    _table(
        "memory", _IN_BRANCHES_OR_GROUPS,
        branch_id="branch", copy_of="memory", content_id="content", scope_id="namespace", author_id="author",
    ),
    _table("memory_source", f"memory_id in ({_MEMORY_IDS})", "memory_id", "source", memory_id="memory"),
    _table("sealed_group", _IN_BRANCHES, "group_id", "branch_id", branch_id="branch"),
    _table("checkpoint_position", _IN_CHECKPOINT_NS, "ns_id", "checkpoint", ns_id="checkpoint_ns", branch_id="branch"),
    _table("branch_base", _IN_BRANCHES, "branch_id", branch_id="branch", base_id="branch"),
    _table("base_group", _IN_BRANCHES, "group_id", "branch_id", branch_id="branch"),
    _table("audit", _IN_NAMESPACES, "sequence", namespace_id="namespace", store_id="part_store"),
    _table("audit_head", "id is null"),
    _table("search_scope", f"{_IN_NAMESPACES} and kind <> 'audit'", namespace_id="namespace"),
    _table("search_series", _IN_SEARCH_SCOPES, scope_id="search_scope"),
    _table("search_total", _IN_SEARCH_SCOPES, scope_id="search_scope"),
    _table("search_speaker", f"series_id in ({_SERIES})", "word", "series_id", "speaker", series_id="search_series"),
    _table("search_document", f"id >> 22 in ({_SERIES})"),
    _table("search_vector", f"document_id >> 22 in ({_SERIES})", document_id="search_document"),
    _table("search_unembedded", f"document_id >> 22 in ({_SERIES})", "ticket", document_id="search_document"),
    _table("search_state", "id = 1"),
)  # fmt: skip
"""Every table that is copied, in an order in which no table refers to a later one."""

SINGLE_ROW_TABLES = ("search_state", "audit_head")
"""The tables with exactly one row."""


class RowSource:
    """The rows of a database, as of one moment.

    Args:
        select: Runs SQL on a snapshot of the database.
        dialect: The dialect of the database.
    """

    def __init__(self, select: Select, dialect: str) -> None:
        self._select, self._queries = select, load_queries(dialect)

    def run(self, query: Query, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Run a named query, and yield its rows."""
        return self.rows(self._queries[query.name], **parameters)

    def rows(self, sql: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Run a query, and yield its rows."""
        columns, rows = self._select(sql, parameters)
        for row in rows:
            yield dict(zip(columns, row, strict=True))

    def get_value(self, sql: str, **parameters: Any) -> Any:
        """Run a query with one row and one column, and return the value."""
        _, rows = self._select(sql, parameters)
        return next(rows)[0]

    def find_rows(self, name: str, **values: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table with these column values, in key order; without values, all."""
        where, order = _equality_condition(values) or "true", ", ".join(TABLES_BY_NAME[name].key)
        return self.rows(f"select * from {name} where {where} order by {order}", **values)

    def table_rows(self, table: Table, namespace: Namespace = ()) -> tuple[list[str], Iterator[Values]]:
        """Return the columns of a table, and its rows in the order of their keys.

        Args:
            table: The table.
            namespace: Only rows of this namespace and of those below it. Default: all.
        """
        where, parameters = _where_clause(table, namespace)
        return self._select(f"select * from {table.name}{where} order by {', '.join(table.key)}", parameters)

    def count(self, table: Table, namespace: Namespace = ()) -> int:
        """Return the number of rows that `table_rows` yields for the same arguments."""
        where, parameters = _where_clause(table, namespace)
        return int(self.get_value(f"select count(*) from {table.name}{where}", **parameters))


def _where_clause(table: Table, namespace: Namespace) -> tuple[str, dict[str, str]]:
    low, high = path_range(namespace)
    return (f" where {table.condition}", {"low": low, "high": high}) if namespace else ("", {})


@contextlib.contextmanager
def open_rows(engine: Engine) -> Iterator[RowSource]:
    """Open the rows of a database, as of the start of the block."""
    with engine.snapshot() as select:
        yield RowSource(select, engine.dialect)


def find_row(tx: Transaction, name: str, values: Mapping[str, Any]) -> Rows:
    """Find a row of a table with these values, without waiting for the server.

    Return a sequence, which is empty if there is no such row. Its first use waits for the answer.
    """
    return tx.run_sql(f"select 1 as found from {name} where {_equality_condition(values)}", values, lazy=True)


def _equality_condition(values: Mapping[str, Any]) -> str:
    return " and ".join(f"{column} = :{column}" for column in values)


def number_documents(tx: Transaction, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Set `document_id` of table rows. Each mapping has a row's `id` and the value `document`."""
    tx.run_sql_many(f"update {name} set document_id = :document where id = :id", rows)


def move_rows(tx: Transaction, namespace: int, thread: int, branches: Sequence[int]) -> None:
    """Move a thread, branches and their rows to another namespace.

    The authors of the thread, and of the memory on these branches, also move, unless they have memory in another
    namespace. All arguments are ids of rows.
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
        [column] = [column for column, table in TABLES_BY_NAME[name].references.items() if table == "namespace"]
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
    """Yield rows in pages of at most `size` rows. Default: `PAGE_ROWS`."""
    iterator = iter(rows)
    while page := list(islice(iterator, size or PAGE_ROWS)):
        yield page


class CountingProgress:
    """A reporter of the number of rows processed so far.

    Args:
        progress: Receives the reports. Default: none.
        stage: The name of the current step, such as "copying", for the reports.
        counts: Yields the number of rows of each table. It is consumed only if `progress` is not None.
    """

    def __init__(self, progress: Watch | None, stage: str, counts: Iterable[int]) -> None:
        self._progress, self._stage, self._count = progress, stage, 0
        self._total = sum(counts) if progress is not None else 0

    def add(self, count: int) -> None:
        """Add a number of processed rows, and report the progress."""
        self._count += count
        if self._progress is not None:
            self._progress(Progress(self._stage, min(self._count, self._total), self._total))


def copy_rows(
    source: RowSource, tx: Transaction, *, namespace: Namespace = (), progress: Watch | None = None
) -> Counter[str]:
    """Write the rows of a database into an empty one with the same ids.

    The full-text index is not copied. It is built when the database is first opened. The audit entries of a single
    namespace are linked to a new chain, since their links refer to entries that are not copied.

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
        if namespace and table.name == "audit_head":  # `_chain_entries` writes the head of the new chain
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
    """Yield audit entries in a new chain, without search documents; then store its head."""
    sequence, link = 0, bytes(LINK_BYTES)
    for values in rows:
        row = dict(zip(columns, values, strict=True))
        sequence, link = sequence + 1, next_link(link, row["digest"])
        yield tuple((row | {"sequence": sequence, "link": link, "document_id": None}).values())
    tx.run_sql("update audit_head set sequence = :sequence, link = :link", {"sequence": sequence, "link": link})


def is_unused_export(path: Path, key: EncryptionKey | None) -> bool:
    """Return whether a file is an export that was never opened as a database.

    `copy_rows` sets `analysis` to 0, and the first opening replaces this value when it builds the index.
    """
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
    with contextlib.suppress(get_error_class(key)), contextlib.closing(connect(address, key, uri=True)) as connection:
        return bool(connection.execute("select analysis from search_state").fetchall() == [(0,)])
    return False


_SCHEMA_QUERY = "select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite%'"


def check_file(source: RowSource, empty: RowSource) -> None:
    """Refuse a SQLite file that this version cannot have written.

    The function compares the schema, since the file could contain a malicious trigger. It checks the type of each
    value, and that each referenced row exists. In the same table, that row must be older. `verify` checks other rules.

    Args:
        source: The rows of the file.
        empty: An empty database of this version, for the comparison.

    Raises:
        DatabaseUnreadable: A check failed.
    """
    schema, expected = ({tuple(row.values()) for row in rows.rows(_SCHEMA_QUERY)} for rows in (source, empty))
    if schema != expected:
        raise DatabaseUnreadable("it has other tables than this version creates")
    for table in TABLES:
        columns = empty.rows("select name, lower(type) as type from pragma_table_info(:name)", name=table.name)
        # Each condition is true for a damaged row.
        conditions = [condition for column in columns for condition in _fault_conditions(**column)]
        conditions += [
            f"{column} is not null and not exists (select 1 from {target} r where r.id = t.{column})"
            for column, target in table.references.items()
            if column != "copy_of"  # a copy may outlive its original
        ]
        conditions += [f"{column} >= id" for column, target in table.references.items() if target == table.name]
        for condition in conditions:
            if source.get_value(f"select exists (select 1 from {table.name} t where {condition})"):
                raise DatabaseUnreadable(f"a row of its table {table.name} is damaged ({condition})")


def _fault_conditions(name: str, type: str) -> list[str]:  # noqa: A002 - the name of the column
    """Return SQL conditions that are true for a damaged value of a column."""
    conditions = [f"typeof({name}) not in ('null', '{type}')"]
    if type == "text":
        conditions.append(f"instr({name}, char(0))")
    if name.endswith("_at"):
        conditions.append(f"{name} not between {EARLIEST} and {LATEST}")
    return conditions


TABLES_BY_NAME = {table.name: table for table in TABLES}
