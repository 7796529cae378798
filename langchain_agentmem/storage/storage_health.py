"""Checks of a SQLite database for `agentmem doctor`: version, rights, encryption and schema. They change nothing."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import MissingExtra, NewerDatabase, StorageError
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.encrypted_database import begins_plain, connected, errors_of, no_database
from langchain_agentmem.storage.sqlite import APPLICATION_ID, OLDEST_SQLITE, _code, address_to_read

Level = Literal["ok", "note", "problem"]


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: What it is, such as "locks".
        level: "ok", "note" for what is good to know, "problem" for what is to be mended.
        text: What was found.
        remedy: What to do about it.
    """

    name: str
    level: Level
    text: str
    remedy: str = ""


def sqlite_itself() -> Iterator[Finding]:
    """The library that Python brings."""
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        remedy = "Use a Python that brings SQLite 3.35 or newer."
        yield Finding("sqlite", "problem", f"SQLite {version} is too old.", remedy)
    else:
        yield Finding("sqlite", "ok", f"SQLite {version}")
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        there = connection.execute("select sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0]
    if there:
        yield Finding("fts5", "ok", "full-text search is built in")
    else:
        problem = "This Python's SQLite was built without FTS5, which full-text search needs."
        remedy = "Use a python.org, Debian, conda or pyenv build, or a PostgreSQL database."
        yield Finding("fts5", "problem", problem, remedy)


def sqlite_file(path: Path, key: EncryptionKey | None = None) -> Iterator[Finding]:
    """Check the rights, the encryption and the content of a file.

    Args:
        path: A file that is there.
        key: Its key, if it is encrypted.
    """
    yield _permissions(path)
    try:
        address = address_to_read(str(path)) if not os.access(path.absolute().parent, os.W_OK) else None
        address = address or f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"
        with contextlib.closing(connected(address, key, uri=True, timeout=0)) as connection:
            yield from _inside(connection)
            if key is not None:
                [version] = connection.execute("pragma cipher_version").fetchone()
                yield Finding("encryption", "ok", f"every page is encrypted, by SQLCipher {version}")
    except MissingExtra as error:
        yield Finding("encryption", "problem", str(error), "pip install 'langchain-agentmem[encryption]'")
    except errors_of(key) as error:
        allowed = os.access(path, os.R_OK) and os.access(path.absolute().parent, os.W_OK)
        told = f"The file cannot be read: {error}."
        remedy = "Restore it from a backup." if allowed else "See what is said of permissions."
        if _code(error) == sqlite3.SQLITE_NOTADB and key is not None and begins_plain(path):
            told, remedy = (
                f"{path} is not encrypted, and a key is given.",
                "Open it without a key, or: agentmem key DATABASE encrypt",
            )
        elif _code(error) == sqlite3.SQLITE_NOTADB:
            told = no_database(safe_repr(str(path)), keyed=key is not None)
        yield Finding("file", "problem", told, remedy)


def interrupted(path: Path) -> Iterator[Finding]:
    """Report what an interrupted encryption or decryption left."""
    if Path(f"{path}.rekeying").exists():
        yield Finding(
            "interrupted",
            "note",
            f"{path}.rekeying is what an interrupted encryption or decryption of this file left.",
            "Run it again, or delete the file. If the database was to be decrypted, it is in it, not encrypted.",
        )


def content(dialect: str, run: Callable[[str], Sequence[Any]], *, empty: bool = False) -> Iterator[Finding]:
    """Check whether the code and a database have one schema, and how many documents wait for their vectors.

    Args:
        dialect: "sqlite" or "postgres".
        run: Runs a query of the database, and returns rows as tuples.
        empty: Whether the database has no tables yet.
    """
    try:
        applied = () if empty else run("select name from agentmem_migration")
        pending = engine.missing(dialect, {name for (name,) in applied})
    except NewerDatabase as error:
        yield Finding("schema", "problem", str(error), "pip install --upgrade langchain-agentmem")
        return
    except StorageError as error:
        yield Finding("schema", "problem", str(error), "Start with a new database.")
        return
    if pending:
        lacking = f"{len(pending)} schema changes are missing, the first is {safe_repr(pending[0].name)}."
        remedy = (
            "The next program that opens the database makes them; older versions of the package cannot open it then."
        )
        yield Finding("schema", "note", lacking, remedy)
        return
    yield Finding("schema", "ok", "up to date")
    [(dimensions, waiting)] = run(
        "select (select coalesce(max(dimensions), 0) from search_state), (select count(*) from search_unembedded)"
    )
    if not dimensions:
        yield Finding("vectors", "ok", "none are wanted: search goes by words")
    elif not waiting:
        yield Finding("vectors", "ok", f"every document has one of {dimensions:,} dimensions")
    else:
        lag = f"{waiting:,} documents wait for their vectors, and are found by words alone until then."
        yield Finding("vectors", "note", lag, "Open the memory with its embeddings (index=...) and call settle().")


def _permissions(path: Path) -> Finding:
    folder = path.absolute().parent
    if not os.access(path, os.R_OK):
        return Finding("permissions", "problem", f"{path} may not be read.", "Ask its owner, or change its mode.")
    for what, place in (("file", path), ("folder", folder)):
        if not os.access(place, os.W_OK):
            return Finding(
                "permissions",
                "note",
                f"The {what} {place} may not be written, so nothing can be remembered.",
                f"Give this user the right to write the {what}; SQLite keeps its log beside the file.",
            )
    return Finding("permissions", "ok", "the file and its folder may be written")


def _inside(connection: Any) -> Iterator[Finding]:
    tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    owner = connection.execute("pragma application_id").fetchone()[0]
    if tables and (owner != APPLICATION_ID or "agentmem_migration" not in tables):
        remedy = "Give langchain-agentmem a file of its own."
        yield Finding("file", "problem", "The file holds another program's tables.", remedy)
    else:
        yield from content("sqlite", lambda sql: connection.execute(sql).fetchall(), empty=not tables)
