"""Storage: the only folder that contains SQL.

The folder may import `messages`, `tracing` and `base`. `open_engine` returns an engine for a path or URL, and
`Database` adds the data that all parts share. Begin with `transaction.py`, then `engine.py` and `queries.py`. Each
feature describes itself to storage as a `Part` (`part.py`).

An operation is a plain function of a transaction that runs named queries (`storage/transaction.py`). An engine runs the
whole function in one transaction, and runs it again if another writer came first.

Async methods run the same code in a worker thread (`base/concurrency.py`), on both engines. One synchronous driver for
each engine is simpler, and nothing is bound to an event loop. The change of threads costs once per call, not once per
statement.

SQLite has one writing connection behind a lock, and reading connections that each see a snapshot; readers never wait.
PostgreSQL has a pool. Reads are repeatable-read. Writes lock the branch that they append to, and then move its head by
compare-and-set. A transaction that loses a race is run again. The cost of a transaction is its round trips, and the
driver's work for each statement. So statements are sent through libpq's pipeline (`postgres_session.py`). The begin,
the commit, and statements without rows need no round trip of their own. `query.name.lazy(tx, …)` returns rows that are
fetched when they are first read, after the next statements were sent. Storing a checkpoint of a known thread waits for
two round trips.

`storage/schema/` defines the schema; `tests/storage/schema.*.txt` shows it complete.

- `namespace`: a tuple of labels as a path, so a prefix is a range of paths.
- `search_total`: the numbers of documents and words of a scope, so a search need not count them. On PostgreSQL a scope
  has several rows, for simultaneous writers.
- `receipt`: on PostgreSQL, the number of writing transactions of each session (`postgres.py`).
- `branch`: a branch of memory with its `head` and the number of its messages. A conversation is a branch of kind
  "conversation". With `parent_id` and `parent_position`, a fork is one row.
- `entry`: one version of a message or round. `key` is its id, unique in the conversation. `replaces` names the row of
  the previous version; the newest version is current. A round is an entry too. A post is a message with recipient,
  round and attachments, so a session and a conversation of one id are two views of one log.
- `content`: bodies by BLAKE2b-160, one copy each. A body is deleted with the last entry that refers to it.
- `memory`, `memory_group`, `checkpoint_position`, `sealed_group`, `branch_base`, `finished_task`, `finished_group`:
  memory that rewinds (`rewinding/`). Only writes of a graph's task have a group; a call outside of a run places its
  rows immediately.
- `search_index`: FTS5 on SQLite, `tsvector` on PostgreSQL, over terms that Python analyzed. Indexing one message per
  commit took FTS5 80 µs a message; in batches of 64, 6 µs. So on SQLite new documents wait for a batch (`search/`).
  Searches find waiting documents, too.
- `blob`: values by key, for byte stores. Keys are bytes (UTF-8, unpaired surrogates included). So any string can be a
  key, the order is that of code points on both engines, and a prefix is a range.

Bodies have ascending ids in addition to their digests. References by digest would spread over the whole index: a batch
of 100 messages then wrote three times the pages.

Work in the background is a `Task` of `background.py`. A task finds its work in the database, so nothing is
lost by `kill -9`. One process at a time runs a task: it holds a *lease*, a row that is renewed every 5 s and expires
after 15 s. The process writes its results only if `Lease.renew` confirms the lease in the same transaction. A failed
task waits 1, 2, 4, up to 60 s. Closing releases the leases. Their times are from the system's clock, since processes
share it.

An export is for people and for other programs: each conversation and thread as records, which an import adds to the
existing data. A copy consists of rows. Both engines have the same tables of numbers, texts and bytes, so a row is an
equal tuple on both sides. All rows are copied, vectors included; only the full-text index is rebuilt. Both sides are
read in the order of their keys and merged. So one pass continues an interrupted copy, updates rows that have changed in
the source, and checks the result. The source is read on one snapshot. The copy has a temporary name until every row was
read again with the digest of the source; then the copy is renamed. A rehearsal (`erase` and `prune` with `dry_run`) is
the operation itself, in a transaction that is rolled back.
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
    "is_postgres",
    "name_of",
    "open_engine",
    "query",
]

_POSTGRES_NAME = re.compile(r"postgres(?:ql)?://|\s*(?:host|hostaddr|port|dbname|user|password|service)\s*=")
_URL = re.compile(r"(?!file:)([A-Za-z][\w+.-]+):/")


def is_postgres(name: str) -> bool:
    """Return whether a text names a PostgreSQL database.

    The text is a URL, or a connection string such as "host=localhost dbname=app". Write the path of a file with such a
    name as "./host=app.db".
    """
    return _POSTGRES_NAME.match(name) is not None


def is_pool(url: Any) -> bool:
    """Return whether an object is a synchronous psycopg pool."""
    getconn = getattr(url, "getconn", None)
    return callable(getconn) and callable(getattr(url, "putconn", None)) and not inspect.iscoroutinefunction(getconn)


def name_of(url: Any) -> str:
    """Return the text that names a database.

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
    if (other := _URL.match(name)) is not None:
        raise InvalidInput(
            f"{safe_repr(other[1])} URLs are not supported. Pass 'postgresql://user@host/database', or the path of a "
            "SQLite database, such as 'agent.db'."
        )
    check_path(name.partition("?")[0] if name.startswith("file:") else name)
    return name


def open_engine(url: Any, options: DatabaseOptions = DatabaseOptions()) -> Engine:  # noqa: B008 - a value
    """Open a database.

    Args:
        url: The name of the database, see `name_of`; or a psycopg pool.
        options: The options of the opening.

    Raises:
        InvalidInput: The value names no database, or a database of an unknown kind.
        MissingExtra: The database is PostgreSQL, and psycopg is not installed.
        StorageError: The database cannot be opened.
    """
    name = url if is_pool(url) else name_of(url)
    if is_pool(url) or is_postgres(name):
        if options.key is not None:
            raise InvalidInput("key applies only to SQLite. To encrypt PostgreSQL, see docs/guides/security.md.")
        from langchain_agentmem.storage.postgres import PostgresEngine  # noqa: PLC0415 - an extra

        return PostgresEngine(name, options)
    if (options.schema, options.pool_size) != (SCHEMA, POOL_SIZE):
        raise InvalidInput("schema and pool_size apply only to PostgreSQL.")
    return SqliteEngine(name, options._replace(key=options.key or key_from_env()))
