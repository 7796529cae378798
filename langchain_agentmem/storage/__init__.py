"""Where memory is KEPT: the only place that knows SQL.

`open_engine` gives an engine for a path or URL. Operations (`steps`) are written once and run on any engine.
"""

from __future__ import annotations

import os
import re
from typing import Any

from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage.engine import Engine, Sizes
from langchain_agentmem.storage.queries import query
from langchain_agentmem.storage.sqlite import SqliteEngine
from langchain_agentmem.storage.steps import Operation, Steps

__all__ = ["Engine", "Operation", "Sizes", "Steps", "is_postgres", "name_of", "open_engine", "query"]

_POSTGRES = re.compile(r"postgres(?:ql)?://|\s*(?:host|hostaddr|port|dbname|user|password|service)\s*=")
_URL = re.compile(r"(?!file:)([A-Za-z][\w+.-]+):/")


def is_postgres(name: str) -> bool:
    """Whether a text names a PostgreSQL database: a URL, or a connection string such as "host=localhost dbname=app".

    The path of a file that begins so is written as "./host=app.db".
    """
    return _POSTGRES.match(name) is not None


def name_of(url: Any) -> str:
    """The text that names a database.

    Args:
        url: A path, ":memory:", a `file:` URI, a `postgresql://` URL, or a connection string of PostgreSQL's.

    Raises:
        InvalidInput: It is none of these.
    """
    name = os.fspath(url) if isinstance(url, str | os.PathLike) else None
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise InvalidInput(f"A database is a path, ':memory:' or 'postgresql://…', not {safe_repr(url)}.")
    if is_postgres(name):
        return name
    if (other := _URL.match(name)) is not None:
        raise InvalidInput(
            f"{safe_repr(other[1])} databases are not supported: give a path or 'postgresql://user@host/database'."
        )
    path_of_file(name.partition("?")[0] if name.startswith("file:") else name)
    return name


def open_engine(url: str | os.PathLike[str], *, synchronous: str = "NORMAL", busy_timeout: float = 60.0) -> Engine:
    """Open a database.

    Args:
        url: What names it, see `name_of`.
        synchronous: SQLite's durability, "NORMAL" or "FULL".
        busy_timeout: Seconds to wait for other writers.

    Raises:
        InvalidInput: It names no database, or one of an unknown kind.
        MissingExtra: PostgreSQL is asked for and psycopg is not installed.
        StorageError: The database cannot be opened.
    """
    name = name_of(url)
    if is_postgres(name):
        from langchain_agentmem.storage.postgres import PostgresEngine  # noqa: PLC0415 - an extra

        return PostgresEngine(name, busy_timeout=busy_timeout)
    return SqliteEngine(name, synchronous=synchronous, busy_timeout=busy_timeout)
