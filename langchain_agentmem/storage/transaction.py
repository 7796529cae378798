"""Database operations: plain functions of a transaction.

An operation runs named queries (functions of `storage.query`) and returns a value. An engine runs it in one
transaction. After a conflict with another writer, it calls the function again in a new transaction. The same function
works on SQLite, on PostgreSQL and on a fake transaction in tests.

    def rename(tx: Transaction, branch_id: int, name: str) -> int:
        rows = query.rename_branch(tx, branch=branch_id, name=name)
        return rows[0]["id"]

    engine.write(lambda tx: rename(tx, 7, "main"))

A failed query raises an error, and PostgreSQL aborts the transaction. An operation must not catch this error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

from langchain_agentmem.errors import StorageError

T = TypeVar("T")

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Any]
"""The rows of one query. `row["column"]` reads a value. Empty for a query that returns no rows."""


Values: TypeAlias = tuple[Any, ...]
"""The values of a row, in the order of the columns."""
Select: TypeAlias = Callable[[str, Mapping[str, Any]], tuple[list[str], Iterator[Values]]]
"""A function that runs SQL with `:name` parameters. It returns the column names, and an iterator of the rows."""


class Transaction(ABC):
    """One transaction of an engine, usable until the operation returns."""

    __slots__ = ()
    max_unindexed: ClassVar[int] = 0
    """The number of waiting documents at which one batch adds them to the full-text index."""

    @abstractmethod
    def run(self, query: str, parameters: dict[str, Any], *, lazy: bool = False) -> Rows:
        """Run a named query and return its rows.

        Args:
            query: The name of the query, as in the `.sql` files.
            parameters: Values by name.
            lazy: True to return before the server has answered, so that several queries can be sent together. The first
                access to the rows waits for the answer. Default: False.
        """

    @abstractmethod
    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        """Run a named query once for each dictionary of parameters. No rows are returned."""

    def run_sql(self, sql: str, parameters: Mapping[str, Any], *, lazy: bool = False) -> Rows:
        """Run a statement that is not a named query, with `:name` parameters.

        `lazy` has the same meaning as for `run`.
        """
        raise NotImplementedError

    def run_sql_many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Call `run_sql` once for each mapping of parameters. No rows are returned."""
        for row in rows:
            self.run_sql(sql, row, lazy=True)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert many rows into a table."""
        raise NotImplementedError

    def take_ids(self, table: str, count: int) -> list[int]:
        """Return unused ids for new rows of a table, in ascending order.

        Insert the rows before the next call for this table: on SQLite, that call may return ids without rows again.
        """
        raise NotImplementedError

    def advance_ids(self) -> None:  # noqa: B027 - SQLite advances ids itself
        """Advance the id counters of all tables to the highest existing ids."""


def raise_ended(*_: Any) -> NoReturn:
    """Raise an error. This function replaces the methods of a transaction that has ended."""
    raise StorageError("The transaction has ended. Run its queries before the operation returns.")


Operation: TypeAlias = Callable[[Transaction], T]
"""A function that gets a transaction. An engine calls it again if the transaction must be retried."""
