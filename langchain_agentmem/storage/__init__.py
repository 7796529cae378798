"""Storage: the only place that knows SQL.

It may import `messages`, `tracing` and `base`. `open_engine` returns an engine for a path or URL, `Database` adds the
data that all parts share. Begin with `transaction.py`, then `engine.py` and `queries.py`; features describe themselves
to it as a `Part` (`part.py`).

An operation is a plain function of a transaction that runs named queries (`storage/transaction.py`). An engine runs the
whole function in one transaction, and runs it again if another writer came first.

Async methods run the same code in a worker thread (`base/concurrency.py`), on both engines. One driver for both is
simpler and binds nothing to an event loop, and the hop to a thread is paid once a call, not once a statement.

SQLite has one writing connection behind a lock, and reading connections that each see a snapshot; readers never wait.
PostgreSQL has a pool; reads are repeatable-read, writes lock the branch they append to and then move its head by
compare-and-set, and a transaction that loses a race is run again. The cost of a transaction there is waiting, and the
driver's own work for each statement. So statements go through libpq's pipeline (`postgres_session.py`): those that
return no rows, the beginning and the commit wait for nothing of their own, and `query.name.ahead(tx, …)` asks for rows
that are looked at only after the statements that follow. To store a checkpoint on a known thread waits twice.

`storage/schema/` is the truth; `tests/storage/schema.*.txt` shows it whole.

- `namespace`: a tuple of labels as a path, so that a prefix is a range.
- `search_total`: what a search would else count in a scope: documents and words. On PostgreSQL a scope has several, one
  for each of those that write at once.
- `receipt`: on PostgreSQL, how many transactions each session has written (`postgres.py`).
- `branch`: a line of memory with its `head` and the number of its messages; a conversation is a branch of kind
  "conversation". `parent_id` and `parent_position` make a fork one row.
- `entry`: one version of a message or round. `key` is its id, unique in the conversation. `replaces` names the row it
  is a newer version of; the newest one counts. A round is an entry too, and a post is a message with recipient, round
  and attachments, so that a session and a conversation of one id are two views of one log.
- `content`: bodies by BLAKE2b-160, one copy each; collected when the last entry that refers to them goes.
- `memory`, `memory_group`, `checkpoint_position`, `sealed_group`, `branch_base`, `finished_task`, `finished_group`:
  memory that rewinds
  (`rewinding/`). Only writes of a graph's task have a group; a call outside of a run places its
  rows immediately.
- `search_index`: FTS5 on SQLite, `tsvector` on PostgreSQL, over terms that Python analysed. Indexing a message in its
  own commit took FTS5 80 µs, among 64 others 6 µs, so on SQLite new documents wait (`search/`). Nothing is ever missing
  from a search.
- `blob`: values by key, for byte stores. Keys are bytes (UTF-8, unpaired surrogates included), so that any string is
  one, their order is that of code points on both engines, and a prefix is a range.

Bodies have ascending ids in addition to their digests: references by digest spread over the whole index, and a batch of
100 messages wrote three times the pages.

Work in the background is a `Task` of `background.py`. It finds its work in the database, so nothing is lost
by `kill -9`. One process at a time does it: it holds a *lease*, a row that is renewed every 5 s and ends after 15 s,
and writes what it did only if `Lease.holds` says in the same transaction that the lease is still its own. What fails
waits 1, 2, 4, up to 60 s. Closing releases the leases. Times are those of the system's clock, since processes share
them.

An export is for people and for other programs: each conversation and thread as records, which an import adds to the
existing data. A copy is of rows: both engines have the same tables of numbers, texts and bytes, so a row is a tuple
that is equal on both sides, and all of it moves, vectors included; only the full-text index is rebuilt. Both sides are
read in the order of their keys and merged, so going on after an interruption, bringing up to date what has changed in
the source since, and checking are one walk. The source is read on one snapshot. The copy is a file or schema of another
name until every row was read again and gave the digest of the source, and takes its place by being renamed. A rehearsal
(`erase` and `prune` with `dry_run`) is the operation itself, in a transaction that is rolled back.
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

    It is a URL, or a connection string such as "host=localhost dbname=app".
    Write the path of a file with such a name as "./host=app.db".
    """
    return _POSTGRES_NAME.match(name) is not None


def is_pool(url: Any) -> bool:
    """Return whether an object is a synchronous psycopg pool."""
    getconn = getattr(url, "getconn", None)
    return callable(getconn) and callable(getattr(url, "putconn", None)) and not inspect.iscoroutinefunction(getconn)


def name_of(url: Any) -> str:
    """Return the text that names a database.

    Args:
        url: A path, ":memory:", a `file:` URI, a `postgresql://` URL, or a connection string of PostgreSQL's.

    Raises:
        InvalidInput: It is none of these.
    """
    name = os.fspath(url) if isinstance(url, str | os.PathLike) else None
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise InvalidInput(
            f"A database is a path, ':memory:', 'postgresql://…' or a psycopg ConnectionPool, not {safe_repr(url)}."
        )
    if is_postgres(name):
        return name
    if (other := _URL.match(name)) is not None:
        raise InvalidInput(
            f"{safe_repr(other[1])} URLs are not supported: give a path or 'postgresql://user@host/database'. A SQLite "
            "database is named by its path, such as 'agent.db'."
        )
    check_path(name.partition("?")[0] if name.startswith("file:") else name)
    return name


def open_engine(url: Any, options: DatabaseOptions = DatabaseOptions()) -> Engine:  # noqa: B008 - a value
    """Open a database.

    Args:
        url: What names it, see `name_of`; or a psycopg pool that leads there.
        options: The options of the opening.

    Raises:
        InvalidInput: It names no database, or one of an unknown kind.
        MissingExtra: PostgreSQL is asked for and psycopg is not installed.
        StorageError: The database cannot be opened.
    """
    name = url if is_pool(url) else name_of(url)
    if is_pool(url) or is_postgres(name):
        if options.key is not None:
            raise InvalidInput(
                "key is SQLite's; a PostgreSQL server encrypts its own disk: see docs/guides/security.md"
            )
        from langchain_agentmem.storage.postgres import PostgresEngine  # noqa: PLC0415 - an extra

        return PostgresEngine(name, options)
    if (options.schema, options.pool_size) != (SCHEMA, POOL_SIZE):
        raise InvalidInput("schema and pool_size are PostgreSQL's: SQLite has a file of its own and one connection.")
    return SqliteEngine(name, options._replace(key=options.key or key_from_env()))
