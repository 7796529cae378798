"""Statistics of a database, and what may be wrong with it.

`memory.admin.stats()` tells how much of everything there is, and which part takes how much room. `diagnose` reports
trouble with the installation and a database, with a remedy for each, also where the database cannot be opened.

    for finding in diagnose("agent.db"):
        print(finding.level, finding.text, finding.remedy)
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from typing import Any, TypedDict, cast

from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike
from langchain_agentmem.base.events import Watch
from langchain_agentmem.base.namespaces import Namespace, range_of
from langchain_agentmem.errors import (
    AgentMemoryError,
    DatabaseBusy,
    DatabaseUnreadable,
    MissingExtra,
    NewerDatabase,
    StorageError,
)
from langchain_agentmem.search.search_index import is_old
from langchain_agentmem.storage import Engine, Opening, PoolStats, Sizes, Transaction, open_engine, query
from langchain_agentmem.storage.engine import SCHEMA, Finding
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.storage.sqlite import SQLITE_VERSION, SqliteEngine
from langchain_agentmem.upkeep import integrity

__all__ = ["Finding", "diagnose"]

_TABLES: Mapping[str, tuple[str, ...]] = {
    "shared content": ("content",),
    "facts": (),
    "other": ("namespace", "receipt", "agentmem_migration", "lease", "sqlite_schema", "sqlite_sequence"),
}
"""Which tables are no feature's own. Facts lie in tables of the layers, and are told apart by how many rows are theirs.
"""

_HELD_TOGETHER = ("memory", "memory_source")
"""The tables that facts share with the layers."""


class Stats(TypedDict):
    """What there is, and what it takes.

    Attributes:
        namespaces: Namespaces in use.
        conversations: Conversations.
        messages: Messages, each once, however often it was edited.
        rounds: Rounds.
        edits: Later versions of messages and rounds.
        threads: LangGraph threads.
        checkpoints: Their checkpoints.
        writes: Their pending writes.
        parts: The parts of which their values are made.
        blobs: Values of byte stores.
        blob_bytes: How many bytes those are.
        items: Long-term items.
        compactions: Compactions that are kept.
        branches: Branches of memory with names.
        forks: Branches that began as a copy of another.
        memories: Versions of everything that layers and facts hold.
        core: Current entries of core memory.
        events: Current events.
        records: Current records.
        facts: Current facts.
        waiting_facts: Messages that wait to have their facts extracted.
        failed_facts: Those of them that a model was asked about in vain, see `KGMemory.failures`.
        old_memories: Versions that others have replaced.
        waiting_groups: Tasks of graphs that have remembered something and are not sealed yet.
        audit: Entries of the audit trail.
        contents: Bodies of messages and others, each kept once.
        content_bytes: How many bytes those are.
        bytes: What the database takes.
        free_bytes: What of that is free for what comes next.
        log_bytes: What lies in SQLite's write-ahead log beside it.
        bytes_by_part: What each part takes, indexes included; together `bytes` without `free_bytes`. Bodies that
            several parts may share are "shared content". Where this Python's SQLite
            cannot tell the sizes of tables, all is "other".
        pool: The connections of this process to PostgreSQL, see `PoolStats`; None on SQLite.
    """

    namespaces: int
    conversations: int
    messages: int
    rounds: int
    edits: int
    threads: int
    checkpoints: int
    writes: int
    parts: int
    blobs: int
    blob_bytes: int
    items: int
    compactions: int
    branches: int
    forks: int
    memories: int
    core: int
    events: int
    records: int
    facts: int
    waiting_facts: int
    failed_facts: int
    old_memories: int
    waiting_groups: int
    audit: int
    contents: int
    content_bytes: int
    bytes: int
    free_bytes: int
    log_bytes: int
    bytes_by_part: dict[str, int]
    pool: PoolStats | None


def counting_within(tx: Transaction, namespace: Namespace) -> Stats:
    """Count what there is in a namespace and below it.

    Args:
        tx: The transaction.
        namespace: Where.
    """
    low, high = range_of(namespace)
    [row] = query.statistics_within(tx, low=low, high=high)
    return cast("Stats", {name: int(row[name]) for name in row.keys()})  # noqa: SIM118 - a database row, not a dict


def stats_of(counts: Mapping[str, int], sizes: Sizes, pool: PoolStats | None) -> Stats:
    """Return the statistics of a database.

    Args:
        counts: What is in the database.
        sizes: How many bytes that takes.
        pool: The connections of this process.
    """
    parts = {name: sum(sizes.tables.get(table, 0) for table in tables) for name, tables in tables_by_part().items()}
    shared, memories = sum(sizes.tables.get(table, 0) for table in _HELD_TOGETHER), counts["memories"]
    parts["facts"] = shared * counts["fact_versions"] // memories if memories else 0
    parts["layers"] -= parts["facts"]
    # What belongs to no table, such as the pages in which SQLite notes where others lie.
    parts["other"] += max(0, sizes.total - sizes.free - sum(parts.values()))
    every: dict[str, Any] = {
        **{name: count for name, count in counts.items() if name != "fact_versions"},
        "bytes": sizes.total,
        "free_bytes": sizes.free,
        "log_bytes": sizes.log,
        "bytes_by_part": parts,
        "pool": pool,
    }
    return cast("Stats", every)


def tables_by_part() -> dict[str, Sequence[str]]:
    """Which tables are which part of the database."""
    return dict(_TABLES) | {name: tables for part in all_parts().all for name, tables in part.tables.items()}


PACKAGE = "langchain-agentmem"
PATIENCE = 5.0
"""Seconds that `diagnose` waits for a table that another session has locked."""
EXTRAS = {
    "postgres": "psycopg",
    "agents": "langchain",
    "vectors": "numpy",
    "static": "wordllama",
    "cli": "typer",
    "studio": "jinja2",
    "import": "langgraph.checkpoint.sqlite",
    "graph": "networkx",
    "encryption": "sqlcipher3",
}
"""The module that each extra installs."""
_REMEDIES: Mapping[type[AgentMemoryError], str] = {
    NewerDatabase: f"pip install --upgrade {PACKAGE}",
    DatabaseUnreadable: "If the key and the permissions are right, restore it from a backup.",
    DatabaseBusy: "Look again in a moment. If it stays, end what holds the lock.",
}
"""The remedies for errors of opening. Default: check the address."""


def diagnose(
    url: str | None = None,
    *,
    schema: str = SCHEMA,
    deep: bool = True,
    progress: Watch | None = None,
    key: KeyLike | None = None,
) -> Iterator[Finding]:
    """Look for trouble with the installation and a database, which is opened to be read only.

    Args:
        url: A path or a `postgresql://` URL. Default: only the installation is checked.
        schema: The schema of PostgreSQL in which everything is.
        deep: Whether the whole database is verified too, which reads all of it.
        progress: Receives reports of what is being verified.
        key: The key of an encrypted file. Default: the environment's, if any.

    Yields:
        The findings, good and bad.

    Raises:
        InvalidInput: `schema` cannot be the name of one, or `key` no key.
    """
    key = EncryptionKey.of(key)
    opening = Opening(schema=schema, key=key, read_only=True, migrate=False, busy_timeout=PATIENCE).checked()
    yield from _environment()
    if url is None:
        yield Finding("database", "note", "None was named, so none was looked at.", "agentmem doctor DATABASE")
        return
    try:
        with closing(open_engine(url, opening)) as engine:
            yield Finding("schema", "ok", "up to date")
            yield from engine.health()
            if deep:
                yield from _verified(engine, progress)
    except MissingExtra as error:
        yield Finding("database", "problem", str(error), f"pip install '{PACKAGE}[{error.extra}]'")
    except AgentMemoryError as error:
        usual = "Check the address, the password and whether it runs."
        yield Finding("database", "problem", str(error), _REMEDIES.get(type(error), usual))


def _environment() -> Iterator[Finding]:
    from langchain_agentmem.language_models.token_estimate import tiktoken_file_present  # noqa: PLC0415 - who needs its tables pays

    yield Finding("python", "ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        SqliteEngine(":memory:").close()
        yield Finding("sqlite", "ok", f"SQLite {SQLITE_VERSION} with full-text search")
    except StorageError as error:
        yield Finding("sqlite", "problem", str(error), "Use a Python that brings a newer SQLite, or PostgreSQL.")
    lacking = [name for name, module in EXTRAS.items() if not _is_there(module)]
    there = ", ".join(name for name in EXTRAS if name not in lacking)
    yield Finding("extras", "ok", f"installed: {there or 'none'}; not installed: {', '.join(lacking) or 'none'}")
    if tiktoken_file_present() is None:
        yield Finding(
            "tokenizer",
            "note",
            "tiktoken's vocabulary (o200k_base) is not on this machine, so tokens of OpenAI's models are estimated, a "
            "little too high. Nothing is ever downloaded.",
            "Where there is a network, load it once with tiktoken, and set TIKTOKEN_CACHE_DIR to its folder.",
        )
    else:
        yield Finding("tokenizer", "ok", "tiktoken's vocabulary is here: tokens are counted")


def _verified(engine: Engine, progress: Watch | None) -> Iterator[Finding]:
    problems = integrity.verify(engine, progress, index=not engine.read(is_old)).problems
    for problem in problems:
        yield Finding("verify", "problem", problem, "Make a copy of the database, then restore the newest backup.")
    if problems:
        return
    yield Finding("verify", "ok", "the content is whole")
    counts = engine.read(integrity.statistics)
    if counts["failed_facts"]:
        yield Finding(
            "facts",
            "note",
            f"{counts['waiting_facts']:,} messages wait to have their facts extracted; a model was asked about "
            f"{counts['failed_facts']:,} of them in vain.",
            "memory.facts(branch).failures() says why; with model=, drain() asks again now.",
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
