"""`memory.admin`: listings, statistics, verification and copies, for those who operate a database.

    with AgentMemory("agent.db") as memory:
        assert memory.admin.verify().ok
        memory.admin.backup("copy.db")
        print(memory.admin.stats()["messages"])

The work on the database is in `integrity.py`, `database_report.py`, `database_copy.py` and `pruning.py`; here it
becomes steps of a trace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from langchain_agentmem.base.argument_checks import check_flag, check_whole
from langchain_agentmem.base.clock import EPOCH, micros, time_given
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike
from langchain_agentmem.base.events import Watch, listener_given
from langchain_agentmem.base.files import check_free, path_of_file
from langchain_agentmem.base.namespaces import NESTED, Namespace, namespace_of, range_of
from langchain_agentmem.base.safe_repr import without_passwords
from langchain_agentmem.conversations.persistence import checked_retention
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Transaction, is_pool, name_of, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.sqlite import SqliteEngine
from langchain_agentmem.tracing import given_only
from langchain_agentmem.upkeep import database_report, integrity
from langchain_agentmem.upkeep.database_copy import CopyReport, copy, export, rekey, restore
from langchain_agentmem.upkeep.database_report import BranchSummary, Finding, Stats, ThreadList
from langchain_agentmem.upkeep.integrity import VerifyReport
from langchain_agentmem.upkeep.maintenance import Upkeep
from langchain_agentmem.upkeep.pruning import PruneReport, prune


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


def list_namespaces(tx: Transaction, namespace: Sequence[str]) -> list[NamespaceSummary]:
    """What a namespace holds, and each of those below it.

    Args:
        tx: The transaction.
        namespace: Which; empty for all.
    """
    low, high = range_of(namespace)
    rows = query.namespace_sizes(tx, low=low, high=high, mark=NESTED)
    return [
        NamespaceSummary(namespace=namespace_of(row["path"]), **{name: int(row[name]) for name in _COUNTS})
        for row in rows
    ]


def count_days(tx: Transaction, namespace: Sequence[str], days: int, now: datetime) -> list[DayCounts]:
    """What was written on each of the last days in a namespace and all below it, the oldest day first.

    Args:
        tx: The transaction.
        namespace: Which; empty for all.
        days: How many days, this one included.
        now: When this is.
    """
    low, high = range_of(namespace)
    today = (now - EPOCH).days
    first = today - days + 1
    rows = query.written_by_day(tx, low=low, high=high, since=micros(EPOCH + timedelta(days=first)))
    found: dict[int, dict[str, int]] = {}
    for row in rows:
        found.setdefault(int(row["day"]), {})[row["what"]] = row["written"]
    return [
        DayCounts(day=(EPOCH + timedelta(days=number)).date(), **found.get(number, {}))
        for number in range(first, today + 1)
    ]


L = TypeVar("L", BranchSummary, NamespaceSummary)
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
        asked: dict[str, Any] = {"thread_id": thread_id, "role": role, "since": since, "until": until}
        shown = partial(given_only, {"namespace": where, "query": query, **asked, "limit": limit, "offset": offset})
        find = partial(database_report.list_threads, namespace=where, said=query, sizes=sizes, **asked)
        find = partial(find, limit=limit, offset=offset)
        return self.database.read("care.threads", find, shown)

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
        return self._summaries("care.branches", namespace, database_report.list_branches)

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
        return self._summaries("care.namespaces", namespace, list_namespaces)

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
        where = self.database.scopes.resolve(namespace, bare=True)
        check_whole("days", days, 1)
        if days > _MOST_DAYS:
            raise InvalidInput(f"days must be {_MOST_DAYS:,} at most, not {days:,}.")
        now = self.database.clock()
        return self.database.read(
            "care.growth", lambda tx: count_days(tx, where, days, now), lambda: {"namespace": where, "days": days}
        )

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
            return self.database.read(
                "care.stats", lambda tx: database_report.counting_within(tx, within), outputs=dict
            )
        counts = self.database.read("care.stats", integrity.statistics, outputs=dict)
        engine = self.database.engine
        return database_report.stats_of(counts, engine.sizes(), engine.pool_stats())

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
        look = partial(database_report.diagnose, place, schema=schema, deep=False, key=key)
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

        The copy holds what is here, vectors included; words are indexed anew. Every row of it is read again
        and compared. A file is made beside its place, and takes it when it is whole; on a server the rows are written
        in one transaction. Where what is stored there is replaced, nobody else should have it open.

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

    # -- what goes and waits -------------------------------------------------------------------------------

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
        where = self._below(namespace)
        make = partial(
            prune,
            self.database,
            where,
            now=self.database.now(),
            keep_checkpoints=keep_checkpoints,
            retention=checked_retention(retention),
            archive_before=None if archive_before is None else time_given(archive_before, "archive_before"),
            dry_run=check_flag("dry_run", dry_run),
            progress=listener_given(progress, "progress"),
        )
        return self._run("care.prune", make)

    aprune = awaited(prune, writes=True)

    def _summaries(
        self, name: str, namespace: Sequence[str] | None, look: Callable[[Transaction, Namespace], list[L]]
    ) -> list[L]:
        """Return the summaries of a namespace and of all below it, in the order of their namespaces."""
        where = self.database.scopes.resolve(namespace, bare=True)
        return self.database.read(name, lambda tx: look(tx, where), lambda: {"namespace": where})
