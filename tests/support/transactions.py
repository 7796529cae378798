"""A transaction that reports each query before it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_agentmem.storage.transaction import Rows, Transaction


class Watched(Transaction):
    """A transaction that calls a function with the name of each query before it runs."""

    def __init__(self, tx: Transaction, before: Callable[[str], object]) -> None:
        self._tx, self._before = tx, before
        self.max_unindexed = tx.max_unindexed

    def run(self, query: str, parameters: dict[str, Any], *, lazy: bool = False) -> Rows:
        self._before(query)
        return self._tx.run(query, parameters, lazy=lazy)

    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        self._before(query)
        self._tx.run_many(query, rows)
