"""The committed state of a database, as a digest of all rows that are the same in each run."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from typing import Any, TypeAlias

import psycopg
from psycopg.sql import SQL, Identifier

State: TypeAlias = dict[str, str]
"""The number of rows and their digest by table."""

LEFT_OUT = ("receipt", "sqlite_", "search_index_")
"""Prefixes of tables with durations and writes of sessions, and of the engine's own tables."""
SHOWN = {
    "agentmem_migration": "select name from {}",
    "search_total": "select scope_id, sum(series), sum(documents), sum(words), max(last_at) from {} group by scope_id",
}
"""Queries of tables that are compared in part: without times of migrations and the split of sums."""


def looking(url: str) -> _Sqlite | _Postgres:
    """Open a connection that returns the committed state of a database on request."""
    return _Postgres(url) if url.startswith("postgresql://") else _Sqlite(url)


def committed(url: str) -> State:
    """Return the committed state of a database."""
    with closing(looking(url)) as look:
        return look.state()


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
                tables = self._rows("select name from sqlite_master where type = 'table'")
                kept = [name for (name,) in tables if not name.startswith(LEFT_OUT)]
                shown = {name: SHOWN.get(name, "select * from {}").format(f'"{name}"') for name in kept}
                self._state = {name: _digest(self._rows(sql)) for name, sql in shown.items()}
            finally:
                self._rows("rollback")
        return self._state

    def close(self) -> None:
        self._connection.close()

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
                tables = self._rows(
                    SQL("select schemaname, tablename from pg_tables where schemaname !~ '^(pg_|info)'")
                )
                self._state = {}
                for schema, table in sorted(tables):
                    if not table.startswith(LEFT_OUT[:2]):
                        rows = SQL(SHOWN.get(table, "select t::text from {} t")).format(Identifier(schema, table))
                        self._state[f"{schema}.{table}"] = _digest(self._rows(rows))
        return self._state

    def close(self) -> None:
        self._connection.close()

    def _rows(self, sql: Any) -> list[Any]:
        return self._connection.execute(sql).fetchall()


def _digest(rows: list[Any]) -> str:
    return f"{len(rows)} " + hashlib.blake2b("\n".join(sorted(map(repr, rows))).encode(), digest_size=12).hexdigest()


def counts(state: State) -> dict[str, int]:
    """Return the number of rows by table."""
    return {name: int(told.split()[0]) for name, told in state.items()}
