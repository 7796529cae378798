"""Where memory is KEPT: the only place that knows SQL.

`open_engine` gives an engine for a path or URL. Operations (`steps`) are written once and run on any engine.
"""

from __future__ import annotations

import os

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.safe_repr import safe_repr
from langchain_agentmem.storage.engine import Engine, Sizes
from langchain_agentmem.storage.queries import query
from langchain_agentmem.storage.sqlite import SqliteEngine
from langchain_agentmem.storage.steps import Operation, Steps

__all__ = ["POSTGRES_SCHEMES", "Engine", "Operation", "Sizes", "Steps", "open_engine", "query"]

POSTGRES_SCHEMES = ("postgresql://", "postgres://")


def open_engine(url: str | os.PathLike[str], *, synchronous: str = "NORMAL", busy_timeout: float = 60.0) -> Engine:
    """Open a database.

    Args:
        url: A path, ":memory:", a `file:` URI, or a `postgresql://` URL.
        synchronous: SQLite's durability, "NORMAL" or "FULL".
        busy_timeout: Seconds to wait for other writers.

    Raises:
        InvalidInput: The URL is empty or of an unknown kind.
        MissingExtra: PostgreSQL is asked for and psycopg is not installed.
        StorageError: The database cannot be opened.
    """
    text = os.fspath(url)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidInput(f"A database is a path, ':memory:' or 'postgresql://…', not {safe_repr(url)}.")
    if text.startswith(POSTGRES_SCHEMES):
        from langchain_agentmem.storage.postgres import PostgresEngine  # noqa: PLC0415 - an extra

        return PostgresEngine(text, busy_timeout=busy_timeout)
    if "://" in text and not text.startswith("file:"):
        raise InvalidInput(
            f"{safe_repr(text.split('://')[0])} databases are not supported: give a path or 'postgresql://…'."
        )
    return SqliteEngine(text, synchronous=synchronous, busy_timeout=busy_timeout)
