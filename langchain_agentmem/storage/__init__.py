"""Storage: the folder with the SQL of the package.

The folder may import `messages`, `tracing` and `base`. `open_engine` returns an engine for a path or URL. `Database`
adds the hooks, traces and caches that all objects of one memory share. Begin with `transaction.py`, then `engine.py`
and `queries.py`. Each feature of the package describes its tables, checks and deletions in a `Part` (`part.py`).

An operation is a plain function that gets a transaction and runs named queries. An engine runs the whole function in
one transaction, and runs it again after a conflict with another writer.

Async methods run the same code in a worker thread (`base/concurrency.py`), on both engines. So each engine needs only a
synchronous driver, and no connection is bound to an event loop. A call changes threads once, not for each statement.

SQLite has one writing connection behind a lock, and reading connections that each see a snapshot; readers never wait.
PostgreSQL has a pool of connections. Reads are repeatable-read. Writes lock the branch that they append to, and then
move its head by compare-and-set. Round trips, and the driver's work for each statement, take most of a transaction's
time. So statements are sent through libpq's pipeline (`postgres_session.py`). The begin, the commit, and statements
without rows need no round trip of their own. `query.find_branch.lazy(tx, …)`, for example, returns without waiting for
the server: its rows are fetched when they are first read. Storing a checkpoint of an existing thread waits for two
round trips.

`storage/schema/` defines the schema. `tests/storage/schema.sqlite.txt` and `schema.postgres.txt` show all tables:

- `namespace`: the path of a namespace, made of its labels. All namespaces below it are one range of paths.
- `search_total`: the numbers of documents and words of each search scope (the documents of one kind in one namespace),
  so a search need not count them. On SQLite, documents that wait in `search_unindexed` are added. On PostgreSQL a scope
  has several rows, for simultaneous writers.
- `receipt`: on PostgreSQL, the number of writing transactions of each session (`postgres.py`).
- `branch`: a branch of memory with its `head` (its last position) and the number of its messages. A conversation is a
  branch of kind "conversation". A fork is one row, with `parent_id` and `parent_position`.
- `entry`: one version of a message or round. All its versions have the same `key`, its id in the conversation. A later
  version names the row of the first version in `replaces`; the newest version is current. A post is a message with
  recipient, round and attachments, so a session and a conversation of one id are two views of one log.
- `content`: large values, and the bodies of messages of 500 bytes and more or of a thread, each stored once under its
  BLAKE2b-160 digest. A body is deleted with the last row that refers to it.
- `memory`, `memory_group`, `checkpoint_position`, `sealed_group`, `branch_base`, `finished_task`, `finished_group`:
  memory that rewinds (`rewinding/`). The rows that a graph's task writes form a group until a checkpoint assigns them
  to a position on a branch. A call outside of a run assigns its rows immediately.
- `search_index`: FTS5 on SQLite, `tsvector` on PostgreSQL, over terms that Python analyzed. Indexing one message per
  commit took FTS5 80 µs a message; in batches of 64, 6 µs. So on SQLite new documents wait for a batch (`search/`).
  Searches find waiting documents, too.
- `blob`: values by key, for byte stores. Keys are stored as UTF-8 (unpaired surrogates included). So any string can be
  a key, both engines sort keys by code points, and the keys with a common prefix are one range.

Rows refer to bodies by ascending ids, not by digests. Digests spread over the whole index: with them, a batch of 100
messages wrote three times as many pages.

A `Task` of `background.py` does background work. A task finds its work in the database, so `kill -9` loses no work. One
process at a time runs a task: it holds a *lease*, a row that is renewed every 5 s and expires after 15 s. The process
writes its results only if `Lease.renew` confirms the lease in the same transaction. A failed task waits 1, 2, 4, up to
60 s. Closing the database releases the leases. Leases use the system's clock, which all processes share.

An export is a SQLite database with the rows of a namespace. An import adds them to the existing data. A copy has all
rows, vectors included. Both engines have the same tables of numbers, texts and bytes, so rows are copied unchanged and
only the full-text index is rebuilt. The source is read on one snapshot, and the copy is verified. A copy in a file has
a temporary name until it is complete. A dry run (`erase` and `prune` with `dry_run`) is the operation itself, in a
transaction that is rolled back, so its report is exact.
"""

from __future__ import annotations

import inspect
import os
import re
from typing import Any

from langchain_agentmem.base.encryption_key import key_from_env
from langchain_agentmem.base.files import check_path
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.storage.engine import POOL_SIZE, SCHEMA, DatabaseOptions, Engine, Sizes
from langchain_agentmem.storage.queries import query
from langchain_agentmem.storage.sqlite import SqliteEngine
from langchain_agentmem.storage.transaction import Operation, Transaction

__all__ = [
    "DatabaseOptions",
    "Engine",
    "Operation",
    "Sizes",
    "Transaction",
    "check_database_url",
    "is_postgres",
    "open_engine",
    "query",
]

_POSTGRES_NAME = re.compile(r"postgres(?:ql)?://|\s*(?:host|hostaddr|port|dbname|user|password|service)\s*=")
_OTHER_URL = re.compile(r"(?!file:)([A-Za-z][\w+.-]+):/")


def is_postgres(name: str) -> bool:
    """Return whether a text names a PostgreSQL database.

    The text is a URL, or a connection string such as "host=localhost dbname=app". Write the path of a file with such a
    name as "./host=app.db".
    """
    return _POSTGRES_NAME.match(name) is not None


def is_pool(url: Any) -> bool:
    """Return whether an object is a psycopg pool, but not an async one."""
    getconn = getattr(url, "getconn", None)
    return callable(getconn) and callable(getattr(url, "putconn", None)) and not inspect.iscoroutinefunction(getconn)


def check_database_url(url: Any) -> str:
    """Check a URL or path of a database, and return it as text.

    Args:
        url: A path, ":memory:", a `file:` URI, a `postgresql://` URL, or a PostgreSQL connection string.

    Raises:
        InvalidInput: The value is none of these.
    """
    name = os.fspath(url) if isinstance(url, str | os.PathLike) else None
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise InvalidInput(f"Pass a path, ':memory:', 'postgresql://…' or a psycopg pool, not {safe_repr(url)}.")
    if is_postgres(name):
        return name
    if (match := _OTHER_URL.match(name)) is not None:
        raise InvalidInput(
            f"{safe_repr(match[1])} URLs are not supported. Pass 'postgresql://user@host/database', or the path of a "
            "SQLite database, such as 'agent.db'."
        )
    check_path(name.partition("?")[0] if name.startswith("file:") else name)
    return name


def open_engine(url: Any, options: DatabaseOptions = DatabaseOptions()) -> Engine:  # noqa: B008 - a value
    """Open a database.

    Args:
        url: A URL, a path, or a psycopg pool.
        options: The options with which the database is opened.

    Raises:
        InvalidInput: The URL is invalid, or an option does not apply to this kind of database.
        MissingExtra: The database is PostgreSQL, and psycopg is not installed.
        StorageError: The database cannot be opened.
    """
    name = url if is_pool(url) else check_database_url(url)
    if is_pool(url) or is_postgres(name):
        if options.key is not None:
            raise InvalidInput("key applies only to SQLite. To encrypt PostgreSQL, see docs/guides/security.md.")
        from langchain_agentmem.storage.postgres import PostgresEngine  # noqa: PLC0415 - an extra

        return PostgresEngine(name, options)
    if (options.schema, options.pool_size) != (SCHEMA, POOL_SIZE):
        raise InvalidInput("schema and pool_size apply only to PostgreSQL.")
    return SqliteEngine(name, options._replace(key=options.key or key_from_env()))
