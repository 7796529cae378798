"""`memory.admin`: listings, statistics, verification, copies and pruning of a database.

    with AgentMemory("agent.db") as memory:
        assert memory.admin.verify().ok
        memory.admin.backup("copy.db")
        print(memory.admin.stats()["messages"])

Verification and copies are in `integrity.py` and `database_copy.py`. `Admin` runs them as steps of a trace. Pruning
runs a separate transaction for each thread, conversation and page, so that other writers wait only briefly. A dry run
executes the same transactions and rolls them back, so that its report is exact.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from langchain_agentmem import errors
from langchain_agentmem.base import namespaces
from langchain_agentmem.base.argument_checks import check_flag, check_integer, check_text
from langchain_agentmem.base.clock import EPOCH, check_time, from_micros, to_micros
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike
from langchain_agentmem.base.events import ThreadMoved
from langchain_agentmem.base.files import check_no_file, check_path
from langchain_agentmem.base.hooks import Watch, check_callable, report_progress
from langchain_agentmem.base.namespaces import Namespace, ThreadKey, check_id, namespace_of, path_of, path_range
from langchain_agentmem.base.safe_repr import join_lines, mask_passwords
from langchain_agentmem.conversations import message_log, prompt_notes
from langchain_agentmem.conversations.log_memory import check_retention
from langchain_agentmem.conversations.message_log import NO_LIMIT, check_count
from langchain_agentmem.messages.message import decode_body, escape_name
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.storage import Operation, Transaction, check_database_url, is_pool, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.engine import HealthCheck
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.storage.sqlite import SqliteEngine
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.tracing import drop_none
from langchain_agentmem.upkeep import integrity
from langchain_agentmem.upkeep.database_copy import CopyReport, copy, export, rekey, restore
from langchain_agentmem.upkeep.integrity import VerifyReport
from langchain_agentmem.upkeep.maintenance import Upkeep

_OTHER_TABLES: Mapping[str, tuple[str, ...]] = {
    "shared content": ("content",),
    "other": ("namespace", "receipt", "agentmem_migration", "lease", "sqlite_schema", "sqlite_sequence"),
}
"""The tables that belong to no feature, by the name under which `stats` reports their size."""


def tables_by_part() -> dict[str, Sequence[str]]:
    """Return the names of the tables of each part of the database."""
    return dict(_OTHER_TABLES) | {name: tables for part in all_parts().all for name, tables in part.tables.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadSummary:
    """A LangGraph thread, a conversation, or both under one id.

    With `threads(sizes=False)`, the attributes `checkpoints`, `forks` and `bytes` are None.

    Attributes:
        namespace: The namespace of the owner.
        thread_id: The id of the thread or conversation.
        title: The first user message, on one line of at most 120 characters; empty if there is none.
        checkpoints: Number of checkpoints, including those of subgraphs; 0 without a thread.
        forks: Number of forks, excluding those in subgraphs: 0 if each checkpoint has at most one child.
        checkpoint_id: Id of the newest checkpoint; None without a thread.
        messages: Number of messages in the log of the conversation; 0 without a conversation.
        bytes: Bytes of checkpoints and message bodies. Data that a copied thread shares is included for both threads.
        changed_at: The time of the last write, in UTC.
    """

    namespace: Namespace
    thread_id: str
    title: str
    checkpoints: int | None
    forks: int | None
    checkpoint_id: str | None
    messages: int
    bytes: int | None
    changed_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadList:
    """A page of threads and conversations, and their total number.

    Attributes:
        threads: The page, the most recently changed first.
        total: The number of all threads and conversations that match, without `limit` and `offset`.
    """

    threads: tuple[ThreadSummary, ...]
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSummary:
    """A named branch of layered memory and of facts.

    Attributes:
        namespace: The namespace of the owner.
        name: The name of the branch.
        parent: The name of the branch that it was forked from; None for a root.
        created_at: The time of its creation, in UTC.
        own_entries: Number of values, events, records, facts and other entries on the branch itself, without those
            inherited from its parent.
    """

    namespace: Namespace
    name: str
    parent: str | None
    created_at: datetime
    own_entries: int


MAX_TITLE_CHARS = 120
"""The maximum length of the title of a thread, in characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamespaceSummary:
    """The contents of one namespace, without the namespaces below it.

    Attributes:
        namespace: The namespace.
        threads: Number of LangGraph threads and conversations. A thread and a conversation of one id are counted once.
        messages: Number of messages, without earlier versions of edited messages.
        checkpoints: Number of checkpoints.
        memories: Number of current core memory values, events, records and facts, on all branches.
        items: Number of long-term items.
        audit: Number of entries of the audit trail.
        bytes: Bytes of all of these and of the values of byte stores, without indexes. Data shared by several
            namespaces is included for each of them.
    """

    namespace: Namespace
    threads: int
    messages: int
    checkpoints: int
    memories: int
    items: int
    audit: int
    bytes: int


_COUNTS = tuple(each.name for each in fields(NamespaceSummary) if each.name != "namespace")
"""The fields of a `NamespaceSummary` with counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DayCounts:
    """The numbers of objects that were written on one day in UTC and still exist.

    Attributes:
        day: The day.
        messages: Number of messages.
        checkpoints: Number of checkpoints.
        memories: Number of versions of core values, events, records and facts.
    """

    day: date
    messages: int = 0
    checkpoints: int = 0
    memories: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """The result of a pruning or of its dry run.

    Attributes:
        threads: Number of threads that lost checkpoints.
        checkpoints: Number of removed checkpoints.
        conversations: Number of conversations that lost messages.
        messages: Number of removed messages.
        archived: Number of entries of the audit trail that were compressed.
        dry_run: True if nothing was changed.
    """

    threads: int = 0
    checkpoints: int = 0
    conversations: int = 0
    messages: int = 0
    archived: int = 0
    dry_run: bool = False


_MAX_DAYS = 3_660
"""The maximum number of days of `Admin.growth`: ten years."""


class Admin(Upkeep):
    """The operations on a whole database: listings, statistics, checks, copies, pruning.

    `memory.admin` returns an instance. `Admin.restore` and `Admin.rekey` need no open memory.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    # -- listings -------------------------------------------------------------------------------------------

    def threads(
        self,
        namespace: Sequence[str] | None = None,
        *,
        thread_id: str | None = None,
        query: str | None = None,
        role: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        sizes: bool = True,
        limit: int | None = None,
        offset: int = 0,
    ) -> ThreadList:
        """List threads and conversations, with sizes and times of the last changes.

        Args:
            namespace: This namespace and all below it. Default: the running config's namespace, else the root (all).
            thread_id: Only the thread and conversation of this id. Default: all.
            query: Only threads with a message that contains all words of this text, or with this text in the id.
                Rewound messages are included. Default: all.
            role: Only threads with messages of this role, such as "user" or "assistant", or of this sender in a
                `SessionMemory`. Default: all.
            since: Only threads last changed at this time or later. A time without a time zone is taken as UTC.
            until: Only threads last changed before this time.
            sizes: True to count checkpoints, forks and bytes, which reads all data of the threads. Default: True.
            limit: The maximum number of threads. Default: all.
            offset: The number of threads to skip. Default: 0.

        Returns:
            The threads, the most recently changed first, and their total number.

        Raises:
            InvalidInput: An argument is wrong.
        """
        resolved = self.database.scopes.resolve(namespace, optional=True)
        filters = {"thread_id": thread_id, "query": query, "role": role, "since": since, "until": until, "limit": limit}
        inputs = partial(drop_none, {"namespace": resolved, **filters, "offset": offset})
        text = None if query is None else check_text(query, "query")
        low, high = path_range(resolved)
        parameters = {
            "low": low,
            "high": high,
            "name": None if thread_id is None else check_id(thread_id, "thread"),
            "nested_mark": namespaces.NESTED_SEPARATOR,
            "text": escape_name(text) or None,
            "terms": json.dumps([] if text is None else analyze_query(text).terms),
            "role": None if role is None else escape_name(check_text(role, "role")),
            "since": -NO_LIMIT if since is None else check_time(since, "since"),
            "until": NO_LIMIT if until is None else check_time(until, "until"),
            "sizes": int(check_flag("sizes", sizes)),
            "limit": NO_LIMIT if limit is None else check_count("limit", limit),
            "offset": check_count("offset", offset),
        }

        return self.database.read("care.threads", partial(_list_threads, parameters=parameters, sizes=sizes), inputs)

    athreads = awaited(threads)

    def branches(self, namespace: Sequence[str] | None = None) -> list[BranchSummary]:
        """List the named branches of layered memory and facts.

        Args:
            namespace: This namespace and all below it. Default: the running config's namespace, else the root (all).

        Returns:
            The branches by namespace, each branch before its forks.

        Raises:
            InvalidInput: The namespace is not valid.
        """
        low, high, inputs = self._resolve_range(namespace)

        def list_branches(tx: Transaction) -> list[BranchSummary]:
            return [
                BranchSummary(
                    namespace=namespace_of(row["path"]),
                    name=row["name"],
                    parent=row["parent"],
                    created_at=from_micros(row["created_at"]),
                    own_entries=row["memory_count"],
                )
                for row in query.branch_overview(tx, low=low, high=high)
            ]

        return self.database.read("care.branches", list_branches, inputs)

    abranches = awaited(branches)

    def namespaces(self, namespace: Sequence[str] | None = None) -> list[NamespaceSummary]:
        """Count the objects and bytes of each namespace, without the namespaces below it.

        This reads much of the database.

        Args:
            namespace: This namespace and all below it. Default: the running config's namespace, else the root (all).

        Returns:
            The namespaces, sorted by name.

        Raises:
            InvalidInput: The namespace is not valid.
        """
        low, high, inputs = self._resolve_range(namespace)

        def list_namespaces(tx: Transaction) -> list[NamespaceSummary]:
            rows = query.namespace_sizes(tx, low=low, high=high, nested_mark=namespaces.NESTED_SEPARATOR)
            return [
                NamespaceSummary(namespace=namespace_of(row["path"]), **{name: int(row[name]) for name in _COUNTS})
                for row in rows
            ]

        return self.database.read("care.namespaces", list_namespaces, inputs)

    anamespaces = awaited(namespaces)

    def growth(self, namespace: Sequence[str] | None = None, *, days: int = 30) -> list[DayCounts]:
        """Count the objects that were written on each of the last days and still exist.

        This reads much of the database.

        Args:
            namespace: This namespace and all below it. Default: the running config's namespace, else the root (all).
            days: Number of days in UTC, today included, 1 to 3,660. Default: 30.

        Returns:
            The days, the oldest first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        low, high, _ = self._resolve_range(namespace)
        check_integer("days", days, 1)
        if days > _MAX_DAYS:
            raise errors.InvalidInput(f"days must be at most {_MAX_DAYS:,}, got {days:,}.")
        today = (self.database.clock() - EPOCH).days
        first = today - days + 1

        def count_days(tx: Transaction) -> list[DayCounts]:
            counts: dict[int, dict[str, int]] = {}
            for row in query.written_by_day(tx, low=low, high=high, since=to_micros(EPOCH + timedelta(days=first))):
                counts.setdefault(int(row["day"]), {})[row["what"]] = row["written"]
            return [
                DayCounts(day=(EPOCH + timedelta(days=number)).date(), **counts.get(number, {}))
                for number in range(first, today + 1)
            ]

        return self.database.read("care.growth", count_days, lambda: {"namespace": namespace, "days": days})

    agrowth = awaited(growth)

    def stats(self) -> dict[str, Any]:
        """Count all stored objects, and measure the bytes of each part.

        On SQLite, this reads the whole file twice: 1 GB takes about a second if the operating system has cached it. On
        PostgreSQL, this reads the bodies of messages; sizes come from the server's catalog. A memory that is limited to
        a namespace counts only that namespace, without contents, content_bytes, parts, waiting_groups and the sizes.

        Returns:
            The numbers of these objects, by name.

            Messages: namespaces, conversations, messages (without earlier versions), rounds, edits, compactions.

            Threads: threads, checkpoints, writes (pending), parts (of the values of checkpoints).

            Memory: branches (with names), forks, memories (versions in layers and facts), old_memories (replaced
            versions), waiting_groups (tasks of graphs whose memory belongs to no checkpoint yet). Current entries:
            core, events, records, facts. Messages to extract facts from: waiting_facts (all), failed_facts (after a
            failed extraction, see `KGMemory.failures`).

            Other objects: items, blobs, blob_bytes, audit, contents (stored bodies of messages and other objects),
            content_bytes.

            Sizes of the database: bytes, free_bytes (free pages), log_bytes (SQLite's write-ahead log), and
            bytes_by_part (each part with its indexes, "layers" with the facts; only "other" if SQLite cannot measure
            tables).

        Raises:
            StorageError: The database cannot be read.
        """
        namespace = self._resolve_namespace(None)
        if namespace or self.database.scopes.boundary is not None:
            return self.database.read("care.stats", partial(integrity.statistics, namespace=namespace), outputs=dict)
        counts = self.database.read("care.stats", integrity.statistics, outputs=dict)
        sizes = self.database.engine.sizes()
        parts = {name: sum(sizes.tables.get(table, 0) for table in tables) for name, tables in tables_by_part().items()}
        # Some pages belong to no table, such as SQLite's pointer maps.
        parts["other"] += max(0, sizes.total - sizes.free - sum(parts.values()))
        sizes_by_name = {"bytes": sizes.total, "free_bytes": sizes.free, "log_bytes": sizes.log, "bytes_by_part": parts}
        return {**counts, **sizes_by_name}

    astats = awaited(stats)

    def verify(self, *, progress: Watch | None = None) -> VerifyReport:
        """Verify the whole database: its pages, its stored contents, and the data of all features.

        Args:
            progress: Receives the name of each check before it runs.

        Raises:
            InvalidInput: The memory is limited to a namespace.
        """
        self._check_unscoped("verify")
        verify = partial(integrity.verify, self.database.engine, check_callable(progress, "progress"))
        return self._run_step("care.verify", verify)

    averify = awaited(verify)

    def diagnose(self) -> list[HealthCheck]:
        """Check the database and its environment, without reading the whole database.

        `agentmem doctor --quick` prints the same checks. For an in-memory database, only the environment is checked.

        Raises:
            InvalidInput: The memory is limited to a namespace.
        """
        self._check_unscoped("diagnose")
        url, engine = self.database.url, self.database.engine
        address = None if not engine.persistent else str(url.conninfo) if is_pool(url) else os.fspath(url)
        schema, key = engine.options.schema, engine.options.key
        run_checks = partial(integrity.diagnose, address, schema=schema, deep=False, key=key)
        return self._run_step("care.diagnose", lambda: [*run_checks()])

    adiagnose = awaited(diagnose)

    # -- copies --------------------------------------------------------------------------------------------------

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Watch | None = None,
        key: KeyLike | None = None,
    ) -> Path:
        """Write a consistent copy to a file while the database is in use.

        The copy is a SQLite database that `AgentMemory` opens, even if the source is PostgreSQL. For PostgreSQL's own
        format, use pg_dump.

        Args:
            path: The target file.
            force: True to replace an existing file once the new one is complete. Default: False.
            progress: Receives the progress.
            key: The key of the copy, for an encrypted SQLite database or for PostgreSQL. Default: the key of the
                database, if it has one.

        Returns:
            The path.

        Raises:
            InvalidInput: The file exists or cannot be written, or a key is given for an unencrypted SQLite database
                (use `copy` to encrypt it).
        """
        key = EncryptionKey.of(key)
        self._check_unscoped("backup")
        target, watch, engine = check_path(path), check_callable(progress, "progress"), self.database.engine
        check_no_file(target, force=check_flag("force", force))
        write: Callable[[], object] = partial(export, engine, target, progress=watch, key=key)
        if isinstance(engine, SqliteEngine):
            write = partial(engine.backup, target, watch, key)
        self._run_step("care.backup", write, {"path": path})
        return target

    abackup = awaited(backup)

    restore, arestore = staticmethod(restore), staticmethod(awaited(restore, writes=True))
    rekey, arekey = staticmethod(rekey), staticmethod(awaited(rekey, writes=True))

    def copy(
        self,
        target: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Watch | None = None,
        key: KeyLike | None = None,
    ) -> CopyReport:
        """Copy a snapshot of the whole database to another file or server.

        The copy includes vectors. The text index is rebuilt, and the copy is verified. A file is written under a
        temporary name and renamed when it is complete. On a server, the rows are written in one transaction, before
        the verification. With `force`, close the target in all other programs first.

        Args:
            target: A path or a "postgresql://…" URL without stored data.
            force: True to replace existing data at the target. Default: False.
            progress: Receives the progress.
            key: The key to encrypt a copy in a SQLite file. Default: the key of this database, or of the environment.

        Raises:
            InvalidInput: The target has data and `force` is False, or the other engine cannot store a value.
            StorageError: A database failed. A target file is unchanged. A target server may contain the copied rows.
        """
        key = EncryptionKey.of(key)
        self._check_unscoped("copy")
        address, watch = check_database_url(target), check_callable(progress, "progress")
        run = partial(copy, self.database.engine, address, force=force, progress=watch, key=key)
        return self._run_step("care.move", run, {"target": mask_passwords(address)})

    acopy = awaited(copy)

    # -- moving and pruning ---------------------------------------------------------------------------------------

    def adopt(self, thread_id: str, namespace: Sequence[str]) -> None:
        """Move a thread from the root to a namespace, whose threads then share its memory.

        One transaction moves its checkpoints, its memory and the conversation of its id. Its audit entries stay in the
        root. No run of the thread should be in progress.

        Args:
            thread_id: The thread, or a conversation without a thread.
            namespace: The namespace to move the thread to. It is created if it does not exist.

        Raises:
            InvalidInput: The root has no such thread, the namespace already has one, or a copy shares its memory.
        """
        self._check_unscoped("adopt")
        inputs = {"thread_id": thread_id, "namespace": namespace}
        name, path = check_id(thread_id, "thread"), path_of(self.database.scopes.check_namespace(namespace))
        if not path:
            raise errors.InvalidInput("The target namespace must not be the root, got (). Pass another namespace.")
        self.database.write("care.adopt", lambda tx: integrity.adopt_thread(tx, name, path), lambda: inputs)
        for cache in self.database.caches:  # they may contain data of the thread
            cache.forget()
        self._emit_event(ThreadMoved, path, name)

    aadopt = awaited(adopt, writes=True)

    def prune(
        self,
        *,
        namespace: Sequence[str] = (),
        keep_checkpoints: int | None = None,
        retention: Retention | None = None,
        archive_before: datetime | None = None,
        dry_run: bool = False,
        progress: Watch | None = None,
    ) -> PruneReport:
        """Remove or compress old data, in a namespace and all below it.

        Args:
            namespace: This namespace and all below it. Default: the running config's namespace, else the root (all).
            keep_checkpoints: Number of the newest checkpoints to keep of each thread and of each of its subgraphs.
                Threads with DeltaChannels keep all checkpoints. Default: all.
            retention: The messages of each conversation to keep. Default: all.
            archive_before: Compress audit entries from before this time. Default: none.
            dry_run: True to only report what would be removed or compressed. Default: False.
            progress: Receives the number of threads and conversations processed.

        Raises:
            InvalidInput: `keep_checkpoints`, `retention` and `archive_before` are all missing, or an argument is wrong.
        """
        low, high = path_range(self._resolve_namespace(namespace))
        retention = check_retention(retention) or Retention()
        before = None if archive_before is None else check_time(archive_before, "archive_before")
        check_callable(progress, "progress")
        if keep_checkpoints is not None:
            check_integer("keep_checkpoints", keep_checkpoints, 1)
        if keep_checkpoints is None and before is None and retention.is_off:
            raise errors.InvalidInput("Nothing to prune. Pass keep_checkpoints=, retention= or archive_before=.")
        engine, now = self.database.engine, self.database.now()
        run_operation = engine.rehearse if check_flag("dry_run", dry_run) else engine.write

        def prune_all() -> PruneReport:
            list_targets = partial(_list_prunable, threads=keep_checkpoints is not None, logs=not retention.is_off)
            targets = self.database.read(None, partial(list_targets, low=low, high=high))
            counts: Counter[str] = Counter()
            for number, (kind, key) in enumerate(targets, 1):
                if kind == "messages":
                    count = run_operation(partial(message_log.apply_retention, at=key, retention=retention, now=now))
                else:
                    count = _prune_thread(run_operation, key, keep_checkpoints or 1, now, atomic=dry_run)
                counts[kind] += count
                counts["conversations" if kind == "messages" else "threads"] += bool(count)
                report_progress(progress, "pruning", number, len(targets))
            archived = 0 if before is None else _archive_audit(run_operation, low, high, before)
            if not dry_run:
                self.database.write(None, lambda tx: prompt_notes.delete_old_notes(tx, now=now))
                engine.release()
            return PruneReport(**counts, archived=archived, dry_run=dry_run)

        return self._run_step("care.prune", prune_all)

    aprune = awaited(prune, writes=True)

    def _resolve_range(self, namespace: Sequence[str] | None) -> tuple[str, str, Callable[[], dict[str, Any]]]:
        """Return the path range of a namespace and all below it, and the inputs for a trace."""
        resolved = self.database.scopes.resolve(namespace, optional=True)
        return *path_range(resolved), lambda: {"namespace": resolved}


def _list_threads(tx: Transaction, parameters: Mapping[str, Any], *, sizes: bool) -> ThreadList:
    rows = query.thread_overview(tx, **parameters)
    threads = tuple(_thread_summary(row, sizes=sizes) for row in rows if row["name"] is not None)  # else only a total
    return ThreadList(threads=threads, total=rows[0]["total"])


def _thread_summary(row: Row, *, sizes: bool) -> ThreadSummary:
    title = ""
    if row["question"] is not None:
        text = decode_body(bytes(row["question"]), row["name"]).text
        title = join_lines(text[: 10 * MAX_TITLE_CHARS], MAX_TITLE_CHARS)
    return ThreadSummary(
        namespace=namespace_of(row["path"]),
        thread_id=row["name"],
        title=title,
        checkpoints=row["checkpoints"],
        forks=int(row["forks"]) if sizes else None,
        checkpoint_id=row["newest"],
        messages=row["messages"],
        bytes=int(row["bytes"]) if sizes else None,
        changed_at=from_micros(row["changed_at"]),
    )


def _list_prunable(tx: Transaction, low: str, high: str, *, threads: bool, logs: bool) -> list[tuple[str, ThreadKey]]:
    """Return the threads and conversations to prune, each with its kind of data to remove.

    The kind is "checkpoints" or "messages".
    """
    targets: list[tuple[str, Row]] = []
    if threads:
        targets += [("checkpoints", row) for row in query.threads_within(tx, low=low, high=high, name=None)]
    if logs:
        rows = query.list_branches(tx, low=low, high=high, kind=message_log.CONVERSATION, name=None)
        targets += [("messages", row) for row in rows]
    return [(kind, ThreadKey(row["path"], row["name"])) for kind, row in targets]


def _prune_thread(run: Callable[[Operation[Any]], Any], key: ThreadKey, keep: int, now: int, *, atomic: bool) -> int:
    """Prune a thread, and return the number of removed checkpoints.

    Each batch is a separate operation. With `atomic`, one operation removes all batches.
    """
    from langchain_agentmem.rewinding.thread_memory import prune_thread  # noqa: PLC0415 - only for pruning
    from langchain_agentmem.threads.thread_rows import BATCH_SIZE  # noqa: PLC0415

    def remove(tx: Transaction) -> tuple[int, bool]:
        removed = batch = prune_thread(tx, key, keep=keep, now=now)
        while atomic and batch >= BATCH_SIZE:
            batch = prune_thread(tx, key, keep=keep, now=now)
            removed += batch
        return removed, batch >= BATCH_SIZE

    total, has_more = 0, True
    while has_more:
        removed, has_more = run(remove)
        total += removed
    return total


def _archive_audit(run: Callable[[Operation[Any]], Any], low: str, high: str, before: int) -> int:
    """Compress old entries of the audit trail page by page, and return their number."""
    from langchain_agentmem.audit.audit_store import archive  # noqa: PLC0415 - only for pruning

    archived, after = 0, 0
    while after is not None:
        # A dry run rolls each page back, so the next page must begin after the position of this page.
        page = run(partial(archive, low=low, high=high, before=before, after=after))
        archived, after = archived + page.entries, page.after
    return archived
