"""Verification and diagnosis of a database, and erasure of parts of its data.

Each `Part` of the package has its own checks and its own function to erase data.

    with AgentMemory("agent.db") as memory:
        assert memory.admin.verify().ok
        memory.erase(namespace=("alice",))

`AgentMemory.erase` deletes the data and then rewrites the storage, so that the data cannot be read from the file.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from langchain_agentmem import errors
from langchain_agentmem.base import namespaces
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike
from langchain_agentmem.base.hooks import Watch, report_progress
from langchain_agentmem.base.namespaces import Namespace, ThreadKey
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.message_log import CONVERSATION
from langchain_agentmem.errors import DatabaseTimeout, InvalidInput, MemoryClosed, safe_repr
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import Engine, Operation, Transaction, open_engine, queries, query
from langchain_agentmem.storage.engine import SCHEMA, DatabaseOptions, HealthCheck
from langchain_agentmem.storage.part import Erasure, all_parts
from langchain_agentmem.storage.sqlite import SQLITE_VERSION, SqliteEngine
from langchain_agentmem.storage.transfer import move_rows

PAGE_ROWS = 100
"""The number of rows that are read at a time."""
MAX_OTHER_NAMESPACES = 10
"""The maximum number of `EraseReport.other_namespaces`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result of a verification of the whole database.

    Attributes:
        problems: The problems, one sentence each. Empty if none was found.
        checked: The number of checked objects, by their kind.
    """

    problems: tuple[str, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if no problem was found."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReport:
    """The counts of the objects that an erasure removed.

    Attributes:
        conversations: Number of conversations.
        entries: Number of messages and rounds, versions included.
        threads: Number of LangGraph threads.
        blobs: Number of values of byte stores.
        items: Number of long-term items.
        branches: Number of named branches of memory.
        memories: Number of memory versions, on branches and in threads.
        audit: Number of entries of the audit trail.
        other_namespaces: Other namespaces with long-term items, at most ten, that contain a label of the erased
            namespace, such as ("ada", "facts") for ("users", "ada"). They were not erased.
    """

    conversations: int = 0
    entries: int = 0
    threads: int = 0
    blobs: int = 0
    items: int = 0
    branches: int = 0
    memories: int = 0
    audit: int = 0
    other_namespaces: tuple[Namespace, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of removed objects, by the names of the attributes."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, int)}


def statistics(tx: Transaction, namespace: Namespace | None = None) -> dict[str, int]:
    """Count the stored objects of the database, or of a namespace and all below it.

    The counts of a namespace exclude objects that all namespaces share.
    """
    if namespace is None:
        [row] = query.statistics(tx)
    else:
        low, high = namespaces.path_range(namespace)
        [row] = query.statistics_within(tx, low=low, high=high)
    return {name: int(row[name]) for name in row.keys()}  # noqa: SIM118 - a database row, not a dict


def list_checks() -> dict[str, Operation[list[str]]]:
    """Return the checks that `verify` runs after the check of the database pages, by name."""
    checks: dict[str, Operation[list[str]]] = {"contents": _check_contents}
    for part in all_parts().all:
        checks |= part.verify
    return checks


def verify(engine: Engine, progress: Watch | None = None, *, index: bool = True) -> VerifyReport:
    """Verify a database: its pages, its stored contents, and the data of each part.

    Each check reads its own snapshot. If a check raises an error, the error is reported as a problem.

    Args:
        engine: The engine of the database.
        progress: Receives the name of each check before it runs.
        index: True to check the full-text index too. Default: True.

    Raises:
        MemoryClosed: The engine was closed.
        DatabaseTimeout: The server does not answer.
    """
    problems: list[str] = []
    checked: dict[str, int] = {}

    def count_totals() -> list[str]:
        counts = engine.read(statistics)
        checked.update({name: counts[name] for name in _COUNTED_NAMES})
        return []

    checks: dict[str, Callable[[], list[str]]] = {"pages": engine.problems}
    checks |= {name: partial(engine.read, check) for name, check in list_checks().items()}
    if not index:
        del checks["index"]
    for number, (name, check) in enumerate(checks.items(), 1):
        report_progress(progress, f"checking {name}", number, len(checks))
        problems += _run_check(name, check)
    problems += _run_check("totals", count_totals)
    return VerifyReport(problems=tuple(problems), checked=checked)


def _run_check(name: str, check: Callable[[], list[str]]) -> list[str]:
    """Run a check, and return its problems. Return an error as a problem too."""
    try:
        return check()
    except (MemoryClosed, DatabaseTimeout):
        raise
    except Exception as error:  # noqa: BLE001 - damage can cause any error
        return [f"the check of the {name} failed: {safe_repr(error)}"]


def _check_contents(tx: Transaction) -> list[str]:
    """Return the problems of the table `content`: damaged and unreferenced bodies."""
    problems: list[str] = []
    after = b""
    while page := query.contents_after(tx, after=after, limit=PAGE_ROWS):
        damaged = [row for row in page if queries.digest(bytes(row["body"])) != bytes(row["hash"])]
        hashes = (bytes(row["hash"]).hex() for row in damaged)
        problems += [f"the stored content {each} is damaged (checksum mismatch)" for each in hashes]
        after = bytes(page[-1]["hash"])
    orphans = query.orphaned_contents(tx)
    return problems + [f"the stored content {bytes(row['hash']).hex()} has no references" for row in orphans]


_COUNTED_NAMES = ("contents", "messages", "conversations", "threads", "checkpoints", "blobs", "items", "compactions",
            "branches", "memories", "audit")  # fmt: skip
"""The names of the statistics that a `VerifyReport` shows."""


def erase(
    tx: Transaction,
    *,
    namespace: Sequence[str] | None = None,
    thread_id: str | None = None,
    conversation_id: str | None = None,
) -> tuple[EraseReport, list[tuple[str, str]]]:
    """Delete all data of a namespace, of a thread or of a conversation.

    Args:
        tx: The transaction.
        namespace: The namespace. Without an id, all data in it and below it is deleted. Default with `thread_id`: all
            namespaces. Default with `conversation_id`: the root.
        thread_id: The id of threads and conversations to delete, in the namespace and below it.
        conversation_id: The id of a conversation to delete, in the namespace but not below it.

    Returns:
        The counts of removed objects, and the path and name of each removed conversation.

    Raises:
        InvalidInput: No argument was given, or both ids.
    """
    if namespace is None and thread_id is None and conversation_id is None:
        raise InvalidInput("No target to erase. Pass namespace=, thread_id= or conversation_id=.")
    if thread_id is not None and conversation_id is not None:
        raise InvalidInput("Pass either thread_id= or conversation_id=, not both.")
    namespace = () if namespace is None else namespace
    low, high = namespaces.path_range(namespace)
    name = None
    if conversation_id is not None:
        name = namespaces.check_id(conversation_id, "conversation")
        low = namespaces.path_of(namespace)
        high = low + "\x01"  # excludes the namespaces below, as no label contains this character
    elif thread_id is not None:
        name = namespaces.check_id(thread_id, "thread")
    erasure = Erasure(low=low, high=high, name=name, threads=conversation_id is None)
    for part in all_parts().all:
        if part.erase is not None:
            part.erase(tx, erasure)
    if name is None:
        query.erase_leases(tx, low=low, high=high)
    removed: dict[str, Any] = erasure.removed
    return EraseReport(**removed), erasure.conversations


def find_paths(tx: Transaction, name: str) -> set[str]:
    """Return the paths of all namespaces that have a thread or conversation with this id."""
    low, high = namespaces.path_range(())
    threads = query.threads_within(tx, low=low, high=high, name=name)
    conversations = query.list_branches(tx, low=low, high=high, kind=CONVERSATION, name=name)
    return {row["path"] for row in (*threads, *conversations)}


def find_other_items(tx: Transaction, namespace: Namespace, scopes: namespaces.Scopes) -> tuple[Namespace, ...]:
    """Return other namespaces that may have long-term items of the same person, at most ten.

    A returned namespace contains a label that identifies the person. If the memory has a template such as
    ("users", "{user_id}"), these labels are the values of its keys. Otherwise, the last label of `namespace` is used,
    if `namespace` has at most two labels.

    Args:
        tx: The transaction.
        namespace: The namespace of the person.
        scopes: The template of the memory, and its boundary: the namespace to which the memory is limited.
    """
    labels = list(scopes.keys_of(namespaces.path_of(namespace)).values())
    if scopes.template is None and not namespace[2:]:
        labels = list(namespace[-1:])
    low, high = namespaces.path_range(namespace)
    others: dict[Namespace, None] = {}
    for label in labels:
        separator, text = namespaces.label_pattern(label)
        rows = query.items_outside(tx, separator=separator, label=text, low=low, high=high, limit=MAX_OTHER_NAMESPACES)
        others.update({namespaces.namespace_of(row["path"]): None for row in rows})
    boundary = scopes.boundary or ()
    return tuple(each for each in others if each[: len(boundary)] == boundary)[:MAX_OTHER_NAMESPACES]


def adopt_thread(tx: Transaction, name: str, path: str) -> None:
    """Move a thread or conversation from the root to a namespace, with all its data.

    Args:
        tx: The transaction.
        name: The id of the thread or conversation.
        path: The path of the namespace.

    Raises:
        InvalidInput: The thread or conversation does not exist in the root, shares its memory with a copy, or already
            exists in the namespace.
    """
    from langchain_agentmem.rewinding.thread_memory import lock_movable_branches  # noqa: PLC0415 - only for moves
    from langchain_agentmem.threads.thread_rows import find_thread  # noqa: PLC0415

    namespace = queries.ensure_namespace(tx, path)
    if find_thread(tx, ThreadKey(path, name), exact=True) is not None:
        target = safe_repr(namespaces.namespace_of(path))
        raise InvalidInput(f"The thread {safe_repr(name)} already exists in {target}.")
    thread = find_thread(tx, ThreadKey("", name), exact=True)
    branches = [] if thread is None else lock_movable_branches(tx, thread.id, name)
    nested = [row["name"] for row in message_log.find_nested_conversations(tx, "", "\x01", name)]
    conversations = [ThreadKey("", each) for each in (name, *nested)]
    for key in conversations:
        branches += message_log.prepare_move(tx, key, path)
    if thread is None and not branches:
        raise InvalidInput(f"There is no thread or conversation {safe_repr(name)} in the root.")
    thread_row_id = 0 if thread is None else thread.id  # no row has the id 0
    move_rows(tx, namespace, thread_row_id, branches)
    query.set_checkpoint_namespace(tx, thread=thread_row_id, namespace=namespace)
    parameters = {"thread": thread_row_id, "namespace": namespace, "ids": json.dumps(branches)}
    while page := query.documents_to_move(tx, **parameters, limit=PAGE_ROWS):
        search_index.move(tx, page, path)
    for key in conversations:
        search_index.delete_series(tx, *message_log.make_series(key))
    memory_rows.clean_namespace(tx, "")


# -- diagnosis ------------------------------------------------------------------------------------------------------

PACKAGE = "langchain-agentmem"
LOCK_TIMEOUT = 5.0
"""Seconds that `diagnose` waits for a table that another session has locked."""
_REMEDIES: Mapping[type[errors.AgentMemoryError], str] = {
    errors.NewerDatabase: f"pip install --upgrade {PACKAGE}",
    errors.DatabaseUnreadable: "If the key and the permissions are right, restore it from a backup.",
    errors.DatabaseBusy: "Try again in a moment. If the error persists, end the program that holds the lock.",
}
"""The remedies for the errors of `diagnose`, by the type of the error."""


def diagnose(
    url: str | None = None,
    *,
    schema: str = SCHEMA,
    deep: bool = True,
    progress: Watch | None = None,
    key: KeyLike | None = None,
) -> Iterator[HealthCheck]:
    """Check the installation and a database. The database is opened read-only.

    Args:
        url: A path or a `postgresql://` URL. Default: only the installation is checked.
        schema: The PostgreSQL schema of the tables. Default: "agentmem".
        deep: True to also verify the stored data, which reads the whole database. Default: True.
        progress: Receives the progress of the verification.
        key: The key of an encrypted file. Default: the key in the environment, if any.

    Yields:
        The result of each check.

    Raises:
        InvalidInput: `schema` or `key` is invalid.
    """
    key = EncryptionKey.of(key)
    options = DatabaseOptions(schema=schema, key=key, read_only=True, migrate=False, busy_timeout=LOCK_TIMEOUT).check()
    yield HealthCheck("python", "ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        SqliteEngine(":memory:").close()
        yield HealthCheck("sqlite", "ok", f"SQLite {SQLITE_VERSION} with full-text search")
    except errors.StorageError as error:
        yield HealthCheck("sqlite", "problem", str(error), "Use a Python with a newer SQLite, or use PostgreSQL.")
    if url is None:
        yield HealthCheck("database", "note", "No database was given, so none was checked.", "agentmem doctor DATABASE")
        return
    try:
        with closing(open_engine(url, options)) as engine:
            yield HealthCheck("schema", "ok", "up to date")
            yield from engine.health()
            if deep:
                yield from _check_stored_data(engine, progress)
    except errors.MissingExtra as error:
        yield HealthCheck("database", "problem", str(error), f"pip install '{PACKAGE}[{error.extra}]'")
    except errors.AgentMemoryError as error:
        default_remedy = "Check the address and the password, and that the server runs."
        yield HealthCheck("database", "problem", str(error), _REMEDIES.get(type(error), default_remedy))


def _check_stored_data(engine: Engine, progress: Watch | None) -> Iterator[HealthCheck]:
    problems = verify(engine, progress, index=not engine.read(search_index.is_old)).problems
    for problem in problems:
        yield HealthCheck("verify", "problem", problem, "Make a copy of the database, then restore the newest backup.")
    if not problems:
        yield HealthCheck("verify", "ok", "no damage found")
