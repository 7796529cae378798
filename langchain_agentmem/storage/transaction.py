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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Any]
"""The rows of one query, each readable as `row["column"]`; empty for a query that returns none."""


def values_of(row: Any) -> Iterable[Any]:
    """What stands in the columns of a row, in their order: by these a long walk is shorter than by their names."""
    return row.values() if isinstance(row, dict) else row


class Transaction(ABC):
    """One transaction of an engine. It can be used until the operation returns."""

    __slots__ = ()

    @abstractmethod
    def run(self, query: str, parameters: dict[str, Any], *, ahead: bool = False) -> Rows:
        """Run a query.

        Args:
            query: Its name, as in the `.sql` files.
            parameters: Values by name.
            ahead: Return lazy rows, which are fetched on first access, so that an engine can send the next queries
                before it waits for them.
        """

    @abstractmethod
    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        """Run a query once for each mapping of parameters. No rows are returned."""


TRANSACTION_ENDED = "The transaction has ended. Run its queries before the operation returns."

Operation: TypeAlias = Callable[[Transaction], T]
"""A function of a transaction. An engine calls it once per attempt."""
