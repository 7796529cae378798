"""What may be wrong around a SQLite database: its file, who holds it, how full it is. Nothing is changed by looking."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote

from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import MissingExtra, NewerDatabase, StorageError
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.encrypted_database import begins_plain, connected, errors_of, no_database
from langchain_agentmem.storage.sqlite import APPLICATION_ID, CHECKPOINT_PAGES, OLDEST_SQLITE, _code, address_to_read

Level = Literal["ok", "note", "problem"]

LARGE_LOG = 8
"""Times the size at which SQLite folds the write-ahead log into the file."""
MANY_FREE = 0.5
"""Share of free pages that is worth a word."""
LITTLE_ROOM = 200 * 2**20
AHEAD = 300.0
"""Seconds by which what is stored may be ahead of the clock."""

_REMOTE = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "fuse.sshfs",
    "fuse.s3fs",
}


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
        yield Finding(
            "sqlite", "problem", f"SQLite {version} is too old.", "Use a Python that brings SQLite 3.35 or newer."
        )
    else:
        yield Finding("sqlite", "ok", f"SQLite {version}")
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        there = connection.execute("select sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0]
    if there:
        yield Finding("fts5", "ok", "full-text search is built in")
    else:
        yield Finding(
            "fts5",
            "problem",
            "This Python's SQLite was built without FTS5, which full-text search needs.",
            "Use a python.org, Debian, conda or pyenv build, or a PostgreSQL database.",
        )


def sqlite_file(path: Path, key: EncryptionKey | None = None) -> Iterator[Finding]:
    """The file, its folder and its disk, what it says of itself, and who holds it.

    Args:
        path: A file that is there.
        key: Its key, if it is encrypted.
    """
    yield _permissions(path)
    yield _disk(path)
    if (remote := _remote(path)) is not None:
        yield Finding(
            "file_system",
            "problem",
            f"The file lies on a network file system ({remote}), on which SQLite's locks cannot be relied on.",
            "Move it to a local disk, or use PostgreSQL.",
        )
    try:
        address = address_to_read(str(path)) if not os.access(path.absolute().parent, os.W_OK) else None
        address = address or f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"
        with contextlib.closing(connected(address, key, uri=True, timeout=0)) as connection:
            yield from _inside(path, connection)
            if key is not None:
                [version] = connection.execute("pragma cipher_version").fetchone()
                yield Finding("encryption", "ok", f"every page is encrypted, by SQLCipher {version}")
    except MissingExtra as error:
        yield Finding("encryption", "problem", str(error), "pip install 'langchain-agentmem[encryption]'")
        return
    except errors_of(key) as error:
        allowed = os.access(path, os.R_OK) and os.access(path.absolute().parent, os.W_OK)
        told = f"The file cannot be read: {error}."
        remedy = "Restore it from a backup." if allowed else "See what is said of permissions."
        if _code(error) == sqlite3.SQLITE_NOTADB and key is not None and begins_plain(path):
            told, remedy = (
                f"{path} is not encrypted, and a key is given.",
                "Open it without a key, or: agentmem encrypt",
            )
        elif _code(error) == sqlite3.SQLITE_NOTADB:
            told = no_database(safe_repr(str(path)), keyed=key is not None)
        yield Finding("file", "problem", told, remedy)
        return
    yield _locks(path, key)


def interrupted(path: Path) -> Iterator[Finding]:
    """What an interrupted copy to a place left, whether a file is there or not."""
    if Path(f"{path}.copying").exists():
        yield Finding(
            "interrupted",
            "note",
            f"{path}.copying is what an interrupted copy to this place left.",
            "Run the copy again, which goes on where it was, or delete the file.",
        )
    if Path(f"{path}.rekeying").exists():
        yield Finding(
            "interrupted",
            "note",
            f"{path}.rekeying is what an interrupted encryption or decryption of this file left.",
            "Run it again, or delete the file. If the database was to be decrypted, it is in it, not encrypted.",
        )


def known_schema(dialect: str, applied: set[str]) -> Finding:
    """Whether the code and the database have one schema."""
    try:
        pending = engine.missing(dialect, applied)
    except NewerDatabase as error:
        return Finding("schema", "problem", str(error), "pip install --upgrade langchain-agentmem")
    except StorageError as error:
        return Finding("schema", "problem", str(error), "Start with a new database.")
    if pending:
        return Finding(
            "schema",
            "note",
            f"{len(pending)} schema changes are missing, the first is {safe_repr(pending[0].name)}.",
            "The next program that opens the database makes them; older versions of the package cannot open it then.",
        )
    return Finding("schema", "ok", f"up to date: {len(applied)} changes")


def clocks(newest: int | None) -> Finding:
    """Whether what is stored is from the future.

    Args:
        newest: When the newest message was written, in microseconds since 1970.
    """
    ahead = (newest or 0) / 1_000_000 - time.time()
    if ahead > AHEAD:
        return Finding(
            "clock",
            "problem",
            f"The newest message was written {ahead / 60:,.0f} minutes from now.",
            "Set this machine's clock, or that of the machine that wrote it.",
        )
    return Finding("clock", "ok", "nothing stored is from the future")


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


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path.absolute().parent).free
    needed = max(path.stat().st_size, LITTLE_ROOM)
    if free < needed:
        return Finding(
            "disk",
            "problem",
            f"{free / 1e6:,.0f} MB are free, and an erasure or a copy needs {needed / 1e6:,.0f} MB.",
            "Make room on the disk.",
        )
    return Finding("disk", "ok", f"{free / 1e6:,.0f} MB are free")


def _remote(path: Path) -> str | None:
    """The kind of the network file system that a file lies on, as far as the system tells."""
    place, found = path.absolute().resolve(), ("", "")
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
            _, point, kind, *_ = line.split(" ")
            if place.is_relative_to(point) and len(point) >= len(found[0]):
                found = point, kind
    return found[1] if found[1] in _REMOTE else None


def _inside(path: Path, connection: sqlite3.Connection) -> Iterator[Finding]:
    def one(sql: str) -> int:
        return int(connection.execute(sql).fetchone()[0] or 0)

    tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    if tables and (one("pragma application_id") != APPLICATION_ID or "agentmem_migration" not in tables):
        yield Finding(
            "file", "problem", "The file holds another program's tables.", "Give langchain-agentmem a file of its own."
        )
        return
    applied = {name for (name,) in connection.execute("select name from agentmem_migration")} if tables else set()
    yield known_schema("sqlite", applied)
    page, pages, free = one("pragma page_size"), one("pragma page_count"), one("pragma freelist_count")
    if free > pages * MANY_FREE and free * page > LITTLE_ROOM:
        yield Finding(
            "free_pages",
            "note",
            f"{free * page / 1e6:,.0f} of {pages * page / 1e6:,.0f} MB are free pages.",
            "They are used again. `agentmem erase` of anything gives them back to the system at once.",
        )
    else:
        yield Finding("free_pages", "ok", f"{free:,} of {pages:,} pages are free")
    log = Path(f"{path}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > LARGE_LOG * CHECKPOINT_PAGES * page:
        yield Finding(
            "log",
            "note",
            f"The write-ahead log has {size / 1e6:,.0f} MB: a connection that keeps reading hinders its folding.",
            "End programs that leave reads open; it shrinks when the last one closes the database.",
        )
    else:
        yield Finding("log", "ok", f"the write-ahead log has {size:,} bytes")
    if "entry" in tables:
        yield clocks(one("select max(written_at) from entry"))
        dimensions = one("select coalesce(max(dimensions), 0) from search_state") if "search_state" in tables else 0
        waiting = one("select count(*) from search_unembedded") if dimensions else 0
        yield vectors(dimensions, waiting)


def vectors(dimensions: int, waiting: int) -> Finding:
    """Whether vectors are kept, and how many are still to be made."""
    if not dimensions:
        return Finding("vectors", "ok", "none are wanted: search goes by words")
    if waiting:
        return Finding(
            "vectors",
            "note",
            f"{waiting:,} documents wait for their vectors, and are found by words alone until then.",
            "Open the memory with its embeddings (index=...) and call settle().",
        )
    return Finding("vectors", "ok", f"every document has one of {dimensions:,} dimensions")


def _locks(path: Path, key: EncryptionKey | None) -> Finding:
    """Whether anybody writes now, and who has the file open."""
    others = _holders(path)
    who = f" Open in: {', '.join(others)}." if others else ""
    if not os.access(path, os.W_OK) or not os.access(path.absolute().parent, os.W_OK):
        return Finding("locks", "ok", f"not tried, as the file may only be read.{who}")
    try:
        with contextlib.closing(connected(path, key, timeout=0, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            connection.rollback()
    except errors_of(key) as error:
        if _code(error) not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return Finding("file", "problem", f"The file cannot be used: {error}.", "Restore it from a backup.")
        return Finding(
            "locks",
            "problem",
            f"Another process is writing now, and others wait for it ({error}).{who}",
            "Look again in a moment. If it stays, end the process that holds the lock.",
        )
    return Finding("locks", "ok", f"nobody is writing.{who}")


def _holders(path: Path) -> list[str]:
    """The other processes that have the file open, where the system tells."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        wanted = path.stat()
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and int(process.name) != os.getpid() and _has_open(process, wanted):
                name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
                found.append(f"{process.name} ({name})")
    return found


def _has_open(process: Path, wanted: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        for handle in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(handle.stat(), wanted):
                    return True
    return False
