"""Database operations: plain functions of a transaction.

An operation runs named queries in a transaction and returns a value. An engine runs the whole function in one
transaction, and runs it again from its first line if another writer came first. The same function serves SQLite and
PostgreSQL, and tests that have no database.

    def rename(tx: Transaction, branch_id: int, name: str) -> int:
        rows = query.rename_branch(tx, branch=branch_id, name=name)
        return rows[0]["id"]

    engine.write(lambda tx: rename(tx, 7, "main"))

A failing query raises in the operation. Do not catch it there: on PostgreSQL the transaction is aborted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

from langchain_agentmem.errors import StorageError

T = TypeVar("T")

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Any]
"""The rows of one query, each readable as `row["column"]`; empty for a query that returns none."""


Values: TypeAlias = tuple[Any, ...]
"""A row as the values of its columns."""
Select: TypeAlias = Callable[[str, Mapping[str, Any]], tuple[list[str], Iterator[Values]]]
"""Runs a query with parameters written `:name`; returns the columns, and the rows one by one."""


def values_of(row: Any) -> Iterable[Any]:
    """Return the values of a row, in the order of the columns.

    Over many rows, values are faster to read by position than by name.
    """
    return row.values() if isinstance(row, dict) else row


class Transaction(ABC):
    """One transaction of an engine, usable until the operation returns."""

    __slots__ = ()
    max_unindexed: ClassVar[int] = 0
    """How many documents may wait for the full-text index. They are found all the same: a search reads them."""

    @abstractmethod
    def run(self, query: str, parameters: dict[str, Any], *, lazy: bool = False) -> Rows:
        """Run a query.

        Args:
            query: Its name, as in the `.sql` files.
            parameters: Values by name.
            lazy: Return lazy rows, which are fetched on first access, so that an engine can send the next queries
                before it waits for them.
        """

    @abstractmethod
    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        """Run a query once for each mapping of parameters. No rows are returned."""

    def run_sql(self, sql: str, parameters: Mapping[str, Any], *, lazy: bool = False) -> Rows:
        """Run a statement that is no named query, with `:name` parameters.

        `lazy` has the same meaning as for `run`.
        """
        raise NotImplementedError

    def run_sql_many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run such a statement once for each mapping of parameters. No rows are returned."""
        for row in rows:
            self.run_sql(sql, row, lazy=True)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert many rows into a table."""
        raise NotImplementedError

    def take_ids(self, table: str, count: int) -> list[int]:
        """Return ids for new rows of a table, ascending."""
        raise NotImplementedError

    def advance_ids(self) -> None:  # noqa: B027 - an engine may do it by itself
        """Advance the id counters of all tables beyond the inserted rows."""


def raise_ended(*_: Any) -> NoReturn:
    """Raise an error: replaces the methods of a transaction that has ended."""
    raise StorageError("The transaction has ended. Run its queries before the operation returns.")


Operation: TypeAlias = Callable[[Transaction], T]
"""A function of a transaction. An engine calls it once per attempt."""
