"""What is committed in a database, as a digest: of all rows of all tables, but for what is different each time."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from typing import Any, TypeAlias

import psycopg
from psycopg.sql import SQL, Identifier

State: TypeAlias = dict[str, str]
"""How many rows each table has, and their digest."""

LEFT_OUT = ("measure", "receipt", "agentmem_migration")
"""How long things took, and what sessions wrote; and when it was migrated, of which the names alone are looked at."""
_NAMES = "select name from {} order by name"


def state_of(url: str) -> Callable[[], State]:
    """What tells what is committed in a database, each time it is asked, on a connection of its own."""
    return _Postgres(url).state if url.startswith("postgresql://") else _Sqlite(url).state


class _Sqlite:
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._version, self._state = -1, State()

    def state(self) -> State:
        [version] = self._rows("pragma data_version")[0]
        if version != self._version:
            self._version = version
            self._rows("begin")
            try:
                tables = [name for (name,) in self._rows("select name from sqlite_master where type = 'table'")]
                kept = [each for each in tables if not each.startswith(("sqlite_", "search_index_", *LEFT_OUT))]
                self._state = {each: _digest(self._rows(f'select * from "{each}"')) for each in kept}
                if "agentmem_migration" in tables:
                    self._state["agentmem_migration"] = _digest(self._rows(_NAMES.format("agentmem_migration")))
            finally:
                self._rows("rollback")
        return self._state

    def _rows(self, sql: str) -> list[Any]:
        return self._connection.execute(sql).fetchall()


class _Postgres:
    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._snapshot, self._state = "", State()

    def state(self) -> State:
        [snapshot] = self._rows(SQL("select pg_current_snapshot()::text"))[0]
        if snapshot != self._snapshot:
            self._snapshot = snapshot
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with self._connection.transaction():
                tables = self._rows(SQL("select schemaname, tablename from pg_tables where schemaname !~ '^(pg_|info)'"))
                self._state = {}
                for schema, table in sorted(tables):
                    if table in LEFT_OUT[:-1]:
                        continue
                    rows = _NAMES if table in LEFT_OUT else "select t::text from {} t"
                    self._state[f"{schema}.{table}"] = _digest(self._rows(SQL(rows).format(Identifier(schema, table))))
        return self._state

    def _rows(self, sql: Any) -> list[Any]:
        return self._connection.execute(sql).fetchall()


def _digest(rows: list[Any]) -> str:
    return f"{len(rows)} " + hashlib.blake2b("\n".join(sorted(map(repr, rows))).encode(), digest_size=12).hexdigest()


def counts(state: State) -> dict[str, int]:
    """How many rows each table has."""
    return {name: int(told.split()[0]) for name, told in state.items()}
