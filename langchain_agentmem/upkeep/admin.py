"""`memory.admin`: listings, statistics, verification and copies, for those who operate a database.

    with AgentMemory("agent.db") as memory:
        assert memory.admin.verify().ok
        memory.admin.backup("copy.db")
        print(memory.admin.stats()["messages"])

Verification and copies are in `integrity.py` and `database_copy.py`; here they become steps of a trace. `diagnose`
reports trouble with the installation and a database, with a remedy for each, also where it cannot be opened. Pruning
takes each thread, conversation and page in a transaction of its own, so that nobody waits for long; a rehearsal does
the same in transactions that are rolled back, so that its report is exact.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypedDict, cast

from langchain_agentmem import errors
from langchain_agentmem.base.argument_checks import check_flag, check_whole, text_given
from langchain_agentmem.base.clock import EPOCH, micros, moment, time_given
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike
from langchain_agentmem.base.events import Progress, ThreadMoved, Watch, listener_given
from langchain_agentmem.base.files import check_free, path_of_file
from langchain_agentmem.base.namespaces import NESTED, Namespace, ThreadKey, id_of, namespace_of, path_of, range_of
from langchain_agentmem.base.safe_repr import one_line, without_passwords
from langchain_agentmem.conversations import message_log, prompt_notes
from langchain_agentmem.conversations.message_log import ALL, count_given
from langchain_agentmem.conversations.persistence import checked_retention
from langchain_agentmem.messages.message import decode_body, plain
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.search.analysis import question
from langchain_agentmem.search.search_index import is_old
from langchain_agentmem.storage import Operation, Transaction, is_pool, name_of, open_engine, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.engine import SCHEMA, Engine, Finding, Opening, Sizes
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.storage.sqlite import SQLITE_VERSION, SqliteEngine
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.tracing import given_only
from langchain_agentmem.upkeep import integrity
from langchain_agentmem.upkeep.database_copy import CopyReport, copy, export, rekey, restore
from langchain_agentmem.upkeep.integrity import VerifyReport
from langchain_agentmem.upkeep.maintenance import Upkeep

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


def counting_within(tx: Transaction, namespace: Namespace) -> Stats:
    """Count what there is in a namespace and below it.

    Args:
        tx: The transaction.
        namespace: Where.
    """
    low, high = range_of(namespace)
    [row] = query.statistics_within(tx, low=low, high=high)
    return cast("Stats", {name: int(row[name]) for name in row.keys()})  # noqa: SIM118 - a database row, not a dict


def stats_of(counts: Mapping[str, int], sizes: Sizes) -> Stats:
    """Return the statistics of a database.

    Args:
        counts: What is in the database.
        sizes: How many bytes that takes.
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
    }
    return cast("Stats", every)


def tables_by_part() -> dict[str, Sequence[str]]:
    """Which tables are which part of the database."""
    return dict(_TABLES) | {name: tables for part in all_parts().all for name, tables in part.tables.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadSummary:
    """A LangGraph thread, a conversation, or both under one id.

    Where sizes were not asked for, `checkpoints`, `forks` and `bytes` are None.

    Attributes:
        namespace: Whose it is.
        thread_id: Its id.
        title: The first question, on one line of at most 120 characters; empty where there is none.
        checkpoints: How many checkpoints the thread has, those of subgraphs included; 0 for a mere conversation.
        forks: How often its own checkpoints part: 0 where each has one child at most.
        checkpoint_id: Its newest checkpoint; None for a mere conversation.
        messages: How many messages the log of the conversation holds; 0 where there is only the thread.
        bytes: What its checkpoints and bodies take. What a copied thread shares counts for each.
        changed_at: When it was last written to, in UTC.
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
    """Some threads and conversations, and how many there are.

    Attributes:
        threads: Those that changed last come first.
        total: How many there are without a limit.
    """

    threads: tuple[ThreadSummary, ...]
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSummary:
    """A branch of layered memory and of facts that has a name.

    Attributes:
        namespace: Whose it is.
        name: Its name.
        parent: The name of the branch that it was forked from; None for a root.
        created_at: When it began, in UTC.
        own: How many values, events, records, facts and so on lie on it itself. What it sees of its parent is not
            counted.
    """

    namespace: Namespace
    name: str
    parent: str | None
    created_at: datetime
    own: int


LONGEST_TITLE = 120
"""Characters of what a thread is called."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamespaceSummary:
    """What one namespace holds itself, without those below it.

    Attributes:
        namespace: Which.
        threads: LangGraph threads and conversations; those of one id are one.
        messages: Messages, each once, however often it was edited.
        checkpoints: Checkpoints of its threads.
        memories: Current entries of core memory, events, records and facts, on all branches.
        items: Long-term items.
        audit: Entries of the audit trail.
        bytes: What all of these take, and values of byte stores, without indexes. What several namespaces share
            counts for each.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class DayCounts:
    """What was written on one day in UTC and is still there.

    Attributes:
        day: The day.
        messages: Messages.
        checkpoints: Checkpoints.
        memories: Entries of core memory, events, records and facts, with those of their versions that are kept.
    """

    day: date
    messages: int = 0
    checkpoints: int = 0
    memories: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What a pruning removed or made smaller, or would.

    Attributes:
        threads: How many threads lost checkpoints.
        checkpoints: How many checkpoints.
        conversations: How many conversations lost messages.
        messages: How many messages.
        archived: How many entries of the audit trail were compressed.
        saved_bytes: How many bytes that saved.
        dry_run: Whether it only would.
    """

    threads: int = 0
    checkpoints: int = 0
    conversations: int = 0
    messages: int = 0
    archived: int = 0
    saved_bytes: int = 0
    dry_run: bool = False


_MOST_DAYS = 3_660


class Admin(Upkeep):
    """Operations on a whole database: listings, statistics, verification, backups, copies, pruning.

    `memory.admin` is one. `Admin.restore` and `Admin.rekey` need no open memory.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    # -- what there is -------------------------------------------------------------------------------------------

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
        """What threads and conversations there are, how large they are, and when they changed last.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.
            thread_id: Only those of this id. Default: all.
            query: Only those with a message that has all words of this, also one that was rewound; or whose id
                has it. Default: all.
            role: Only those in which this role speaks: "user", "assistant" and so on, or one of a session by its name.
                Default: all.
            since: Only those that changed last at this time or later. Without a time zone it is taken as UTC.
            until: Only those that changed last before this time.
            sizes: Whether the checkpoints and forks of each are counted, and bytes summed up, which reads all that a
                thread holds. Default: yes.
            limit: Most of them. Default: all.
            offset: How many of the first to leave out. Default: 0.

        Returns:
            Those that changed last first, and how many there are in all.

        Raises:
            InvalidInput: An argument is wrong.
        """
        where = self.database.scopes.resolve(namespace, bare=True)
        asked = {"thread_id": thread_id, "query": query, "role": role, "since": since, "until": until, "limit": limit}
        shown = partial(given_only, {"namespace": where, **asked, "offset": offset})
        said = None if query is None else text_given(query, "query")
        low, high = range_of(where)
        found = {
            "low": low,
            "high": high,
            "name": None if thread_id is None else id_of(thread_id, "thread"),
            "mark": NESTED,
            "said": plain(said) or None,
            "terms": json.dumps([] if said is None else question(said).terms),
            "role": None if role is None else plain(text_given(role, "role")),
            "since": -ALL if since is None else time_given(since, "since"),
            "until": ALL if until is None else time_given(until, "until"),
            "sizes": int(check_flag("sizes", sizes)),
            "limit": ALL if limit is None else count_given("limit", limit),
            "offset": count_given("offset", offset),
        }

        look = partial(_list_threads, found=found, sizes=sizes)
        return self.database.read("care.threads", look, shown)

    athreads = awaited(threads)

    def branches(self, namespace: Sequence[str] | None = None) -> list[BranchSummary]:
        """What branches of layered memory and facts there are that have a name.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.

        Returns:
            By namespace, each branch before its forks.

        Raises:
            InvalidInput: This is no namespace.
        """
        low, high, shown = self._listed(namespace)

        def list_branches(tx: Transaction) -> list[BranchSummary]:
            return [
                BranchSummary(
                    namespace=namespace_of(row["path"]),
                    name=row["name"],
                    parent=row["parent"],
                    created_at=moment(row["created_at"]),
                    own=row["own"],
                )
                for row in query.known_branches(tx, low=low, high=high)
            ]

        return self.database.read("care.branches", list_branches, shown)

    abranches = awaited(branches)

    def namespaces(self, namespace: Sequence[str] | None = None) -> list[NamespaceSummary]:
        """How much each namespace holds itself. It reads much of what they hold.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.

        Returns:
            In the order of their names.

        Raises:
            InvalidInput: This is no namespace.
        """
        low, high, shown = self._listed(namespace)

        def list_namespaces(tx: Transaction) -> list[NamespaceSummary]:
            rows = query.namespace_sizes(tx, low=low, high=high, mark=NESTED)
            return [
                NamespaceSummary(namespace=namespace_of(row["path"]), **{name: int(row[name]) for name in _COUNTS})
                for row in rows
            ]

        return self.database.read("care.namespaces", list_namespaces, shown)

    anamespaces = awaited(namespaces)

    def growth(self, namespace: Sequence[str] | None = None, *, days: int = 30) -> list[DayCounts]:
        """How much was written on each of the last days, of what is still there. It reads much of what there is.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.
            days: How many days in UTC, with this one, 1 to 3,660. Default: 30.

        Returns:
            Each day, the oldest first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        low, high, _ = self._listed(namespace)
        check_whole("days", days, 1)
        if days > _MOST_DAYS:
            raise errors.InvalidInput(f"days must be {_MOST_DAYS:,} at most, not {days:,}.")
        today = (self.database.clock() - EPOCH).days
        first = today - days + 1

        def count_days(tx: Transaction) -> list[DayCounts]:
            found: dict[int, dict[str, int]] = {}
            for row in query.written_by_day(tx, low=low, high=high, since=micros(EPOCH + timedelta(days=first))):
                found.setdefault(int(row["day"]), {})[row["what"]] = row["written"]
            return [
                DayCounts(day=(EPOCH + timedelta(days=number)).date(), **found.get(number, {}))
                for number in range(first, today + 1)
            ]

        return self.database.read("care.growth", count_days, lambda: {"namespace": namespace, "days": days})

    agrowth = awaited(growth)

    def stats(self) -> Stats:
        """Count everything stored, and the bytes of each part.

        On SQLite the whole file is read twice: 1 GB takes about a second where the system has it at hand. On PostgreSQL
        the bodies of messages are counted, and sizes come from the server's own books. A memory within a namespace
        counts what is there, and tells nothing of the database.

        Returns:
            A dictionary, see `Stats`: "messages", "bytes" and other numbers, and "bytes_by_part".

        Raises:
            StorageError: The database cannot be read.
        """
        within = self._below(None)
        if within or self.database.scopes.within is not None:
            return self.database.read("care.stats", lambda tx: counting_within(tx, within), outputs=dict)
        counts = self.database.read("care.stats", integrity.statistics, outputs=dict)
        engine = self.database.engine
        return stats_of(counts, engine.sizes())

    astats = awaited(stats)

    def verify(self, *, progress: Watch | None = None) -> VerifyReport:
        """Check the whole database: pages, keys, digests of every body, heads, versions and the index.

        Args:
            progress: Is told what is looked at next: the pages, then each of the checks.
        """
        self._check_whole("verify")
        make = partial(integrity.verify, self.database.engine, listener_given(progress, "progress"))
        return self._run("care.verify", make)

    averify = awaited(verify)

    def diagnose(self) -> list[Finding]:
        """Look for trouble with the database and around it, as far as that is told without reading all of it.

        It is what `agentmem doctor --quick` tells. A database in memory has only what is around it.

        Raises:
            InvalidInput: The memory is within a namespace.
        """
        self._check_whole("diagnose")
        url, engine = self.database.url, self.database.engine
        place = None if not engine.lasting else str(url.conninfo) if is_pool(url) else os.fspath(url)
        schema, key = engine.opening.schema, engine.opening.key
        look = partial(diagnose, place, schema=schema, deep=False, key=key)
        return self._run("care.diagnose", lambda: [*look()])

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
        """Write a consistent copy, while others go on reading and writing.

        The copy is a SQLite database that `AgentMemory` opens, of PostgreSQL too; the server's own form is that of
        pg_dump.

        Args:
            path: Where to.
            force: Whether a file that is there is replaced, when the new one is whole. Default: it is an error.
            progress: Is told how far it has come.
            key: What encrypts the copy: of an encrypted database, or the export. Default: the key of the database, if
                it has one.

        Returns:
            The path.

        Raises:
            InvalidInput: The file is there or cannot be written, or there is a key and the SQLite database is not
                encrypted: `copy` encrypts it.
        """
        key = EncryptionKey.of(key)
        self._check_whole("backup")
        target, told, engine = path_of_file(path), listener_given(progress, "progress"), self.database.engine
        check_free(target, force=check_flag("force", force))
        make: Callable[[], object] = partial(export, engine, target, progress=told, key=key)
        if isinstance(engine, SqliteEngine):
            make = partial(engine.backup, target, told, key)
        self._run("care.backup", make, {"path": path})
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
        """Copy everything into another place, of the same engine or of the other one, as of one moment.

        The copy holds what is here, vectors included; words are indexed anew, and it is verified. A file is made beside
        its place, and takes it when it is whole; on a server the rows are written in one transaction. Where what is
        stored there is replaced, nobody else should have it open.

        Args:
            target: A path or a "postgresql://…" URL, where nothing is stored yet.
            force: Whether what is stored there is replaced.
            progress: Is told how far it has come.
            key: What encrypts a copy in a SQLite file. Default: the key of this database, or of the environment.

        Raises:
            InvalidInput: Something is stored there, or the other engine cannot store a value.
            StorageError: A database failed. What is there is as it was.
        """
        key = EncryptionKey.of(key)
        self._check_whole("copy")
        place = name_of(target)
        told = listener_given(progress, "progress")
        make = partial(copy, self.database.engine, place, force=force, progress=told, key=key)
        return self._run("care.move", make, {"target": without_passwords(place)})

    acopy = awaited(copy)

    # -- what moves, goes and waits -------------------------------------------------------------------------------

    def adopt(self, thread_id: str, namespace: Sequence[str]) -> None:
        """Move a thread of the root into a namespace, where other threads see from then on what it remembers.

        Its checkpoints, what it remembers and the conversation of its id go along, in one transaction. What was said of
        it stays where it was said: the audit trail. Nothing of the thread should run.

        Args:
            thread_id: The thread, or a conversation that has none.
            namespace: Where to. It is made if need be.

        Raises:
            InvalidInput: The root has no such thread, the namespace has one, or a copy shares what it remembers.
        """
        self._check_whole("adopt")
        given = {"thread_id": thread_id, "namespace": namespace}
        name, path = id_of(thread_id, "thread"), path_of(self.database.scopes.checked(namespace))
        if not path:
            raise errors.InvalidInput("A thread of the root is there already: name another namespace.")
        self.database.write("care.adopt", lambda tx: integrity.adopt(tx, name, path), lambda: given)
        for each in self.database.remembering:  # what this process knows of the thread
            each.forget()
        self._tell(ThreadMoved, path, name)

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
        """Remove what is old, or make it smaller, in a namespace and all below it.

        Args:
            namespace: Where. Default: everywhere.
            keep_checkpoints: How many of the newest checkpoints of each thread stay, and of each of its subgraphs;
                threads of DeltaChannels stay whole. Default: all.
            retention: Which messages of each conversation stay. Default: all.
            archive_before: Entries of the audit trail that were made before are compressed. Default: none.
            dry_run: Whether to tell only what would be done.
            progress: Is told how many of the threads and conversations were looked at.

        Raises:
            InvalidInput: Nothing is to be pruned, or an argument is wrong.
        """
        low, high = range_of(self._below(namespace))
        shortened, before = checked_retention(retention), None
        if archive_before is not None:
            before = time_given(archive_before, "archive_before")
        listener_given(progress, "progress")
        if keep_checkpoints is not None:
            check_whole("keep_checkpoints", keep_checkpoints, 1)
        shortens = shortened is not None and not shortened.off
        if keep_checkpoints is None and before is None and not shortens:
            raise errors.InvalidInput("Say what to prune: keep_checkpoints=, retention= or archive_before=.")
        engine, now = self.database.engine, self.database.now()
        do = engine.rehearse if check_flag("dry_run", dry_run) else engine.write

        def look(tx: Transaction) -> tuple[Rows, Rows]:
            threads = query.threads_within(tx, low=low, high=high, name=None) if keep_checkpoints is not None else []
            kind = message_log.CONVERSATION
            return threads, query.list_branches(tx, low=low, high=high, kind=kind, name=None) if shortens else []

        def work() -> PruneReport:
            threads, talks = self.database.read(None, look)
            removed, dropped = [], []
            for row in threads:
                at, count, more = ThreadKey(row["path"], row["name"]), 0, True
                while more:
                    some, more = do(partial(_prune_thread, at=at, keep=keep_checkpoints or 1, now=now, at_once=dry_run))
                    count += some
                removed.append(count)
                _tell_pruned(progress, len(removed), len(threads) + len(talks))
            for row in talks:
                at = ThreadKey(row["path"], row["name"])
                dropped.append(do(partial(message_log.shorten, at=at, retention=shortened or Retention(), now=now)))
                _tell_pruned(progress, len(removed) + len(dropped), len(threads) + len(talks))
            archived, saved = _archive(do, low, high, before)
            if not dry_run:
                self.database.write(None, lambda tx: prompt_notes.sweep(tx, now=now))
                engine.release()
            return PruneReport(
                threads=sum(map(bool, removed)),
                checkpoints=sum(removed),
                conversations=sum(map(bool, dropped)),
                messages=sum(dropped),
                archived=archived,
                saved_bytes=saved,
                dry_run=dry_run,
            )

        return self._run("care.prune", work)

    aprune = awaited(prune, writes=True)

    def _listed(self, namespace: Sequence[str] | None) -> tuple[str, str, Callable[[], dict[str, Any]]]:
        """Return the range of paths of a namespace that is listed, and what a trace shows of it."""
        where = self.database.scopes.resolve(namespace, bare=True)
        return *range_of(where), lambda: {"namespace": where}


def _list_threads(tx: Transaction, found: Mapping[str, Any], *, sizes: bool) -> ThreadList:
    rows = query.known_threads(tx, **found)
    threads = tuple(_summary(row, sizes=sizes) for row in rows if row["name"] is not None)
    return ThreadList(threads=threads, total=rows[0]["total"])


def _summary(row: Row, *, sizes: bool) -> ThreadSummary:
    title = ""
    if row["question"] is not None:
        text = decode_body(bytes(row["question"]), row["name"]).text
        title = one_line(text[: 10 * LONGEST_TITLE], LONGEST_TITLE)
    return ThreadSummary(
        namespace=namespace_of(row["path"]),
        thread_id=row["name"],
        title=title,
        checkpoints=row["checkpoints"],
        forks=int(row["forks"]) if sizes else None,
        checkpoint_id=row["newest"],
        messages=row["messages"],
        bytes=int(row["bytes"]) if sizes else None,
        changed_at=moment(row["changed_at"]),
    )


def _tell_pruned(progress: Watch | None, done: int, total: int) -> None:
    if progress is not None:
        progress(Progress("pruning", done, total))


def _prune_thread(tx: Transaction, at: Any, *, keep: int, now: int, at_once: bool) -> tuple[int, bool]:
    """Prune a batch of a thread, or all of it; return how many checkpoints that was, and whether there are more."""
    from langchain_agentmem.rewinding.thread_memory import prune  # noqa: PLC0415 - who needs it pays
    from langchain_agentmem.threads.thread_lines import BATCH  # noqa: PLC0415

    removed, more = 0, True
    while more:
        some = prune(tx, at, keep=keep, now=now)
        removed, more = removed + some, some >= BATCH
        if not at_once:
            break
    return removed, more


def _archive(do: Callable[[Operation[Any]], Any], low: str, high: str, before: int | None) -> tuple[int, int]:
    """Compress old entries of the audit trail. Return how many, and how many bytes that saves."""
    from langchain_agentmem.audit.audit_store import archive  # noqa: PLC0415 - who needs it pays

    archived, saved = 0, 0
    after: int | None = None if before is None else 0
    while before is not None and after is not None:
        # A rehearsal of one page leaves the page as it was, and goes on behind it all the same.
        page = do(partial(archive, low=low, high=high, before=before, after=after))
        archived, saved, after = archived + page.entries, saved + page.saved, page.after
    return archived, saved


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
_REMEDIES: Mapping[type[errors.AgentMemoryError], str] = {
    errors.NewerDatabase: f"pip install --upgrade {PACKAGE}",
    errors.DatabaseUnreadable: "If the key and the permissions are right, restore it from a backup.",
    errors.DatabaseBusy: "Look again in a moment. If it stays, end what holds the lock.",
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
    except errors.MissingExtra as error:
        yield Finding("database", "problem", str(error), f"pip install '{PACKAGE}[{error.extra}]'")
    except errors.AgentMemoryError as error:
        usual = "Check the address, the password and whether it runs."
        yield Finding("database", "problem", str(error), _REMEDIES.get(type(error), usual))


def _environment() -> Iterator[Finding]:
    yield Finding("python", "ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        SqliteEngine(":memory:").close()
        yield Finding("sqlite", "ok", f"SQLite {SQLITE_VERSION} with full-text search")
    except errors.StorageError as error:
        yield Finding("sqlite", "problem", str(error), "Use a Python that brings a newer SQLite, or PostgreSQL.")
    lacking = [name for name, module in EXTRAS.items() if not _is_there(module)]
    there = ", ".join(name for name in EXTRAS if name not in lacking)
    yield Finding("extras", "ok", f"installed: {there or 'none'}; not installed: {', '.join(lacking) or 'none'}")


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
