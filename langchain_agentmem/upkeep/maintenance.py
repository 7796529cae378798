"""`Maintenance`: what there is in a database, and looking after it. Half of `AgentMemory`, for those who run one.

    with AgentMemory("agent.db") as memory:
        assert memory.verify().ok
        memory.backup("copy.db")
        memory.erase(namespace=("alice",))
        print(memory.stats()["messages"])

What is asked of the database stands in `integrity.py`, `export.py`, `database_report.py` and `database_copy.py`; here
it becomes steps of a trace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from langchain_agentmem.base.argument_checks import check_flag, check_whole
from langchain_agentmem.base.clock import time_given
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike
from langchain_agentmem.base.events import (
    ConversationErased,
    MemoryEvent,
    MessagesStored,
    Progress,
    ThreadMoved,
    Watch,
    listener_given,
)
from langchain_agentmem.base.files import check_free, path_of_file
from langchain_agentmem.base.namespaces import Namespace, id_of, namespace_of, path_of, range_of
from langchain_agentmem.conversations import message_log, prompt_notes
from langchain_agentmem.conversations.message_log import ListedConversation
from langchain_agentmem.conversations.persistence import checked_retention
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Do, Performer, Run, Shown, Work, both
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Steps, is_pool, name_of
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import Import
from langchain_agentmem.tracing import given_only
from langchain_agentmem.upkeep import database_report, export, integrity, namespace_sizes
from langchain_agentmem.upkeep.database_copy import CopyReport, PruneReport, copy, place_of, prune_work, rekey, restore
from langchain_agentmem.upkeep.database_report import BranchSummary, Finding, Stats, ThreadList
from langchain_agentmem.upkeep.export import TransferReport
from langchain_agentmem.upkeep.integrity import MOST_ELSEWHERE, EraseReport, VerifyReport
from langchain_agentmem.upkeep.namespace_sizes import DayCounts, NamespaceSummary

T = TypeVar("T")
L = TypeVar("L", BranchSummary, NamespaceSummary)
_MOST_DAYS = 3_660


class Maintenance(Performer):
    """What there is in a database, and looking after it.

    Attributes:
        database: The open database.
    """

    database: Database

    # -- what there is -------------------------------------------------------------------------------------------

    def _conversations_work(
        self, namespace: Sequence[str] | None = None, *, limit: int = 100, offset: int = 0
    ) -> Work[list[ListedConversation]]:
        """Which conversations there are, the one that was spoken in last first.

        Args:
            namespace: Whose: this namespace and all below it. Default: the running config's, else the root, which is
                every namespace.
            limit: Most conversations. Default: 100.
            offset: How many of the first to leave out. Default: 0.

        Returns:
            Their ids and namespaces, how many messages each has, and when the first and the last of them were said.

        Raises:
            InvalidInput: An argument is wrong.
        """
        asked = {"namespace": namespace, "limit": limit, "offset": offset}
        where = self.database.scopes.resolve(namespace, bare=True)
        run = Run(
            "conversation.list",
            partial(message_log.conversations, where, limit, offset),
            inputs=partial(given_only, asked),
            outputs=message_log.conversations_shown,
        )
        return (yield run)  # type: ignore[no-any-return]  # an answer may be anything

    conversations, aconversations = both(_conversations_work)

    def _threads_work(
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
    ) -> Work[ThreadList]:
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
        make = partial(
            database_report.list_threads, where, said=query, sizes=sizes, limit=limit, offset=offset, **asked
        )
        shown = partial(given_only, {"namespace": where, "query": query, **asked, "limit": limit, "offset": offset})
        done: ThreadList = yield Run("care.threads", make, inputs=shown, outputs=_threads_shown)
        return done

    threads, athreads = both(_threads_work)

    def _branches_work(self, namespace: Sequence[str] | None = None) -> Work[list[BranchSummary]]:
        """What branches of layered memory and facts there are that have a name.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.

        Returns:
            By namespace, each branch before its forks.

        Raises:
            InvalidInput: This is no namespace.
        """
        return self._summaries("care.branches", namespace, database_report.list_branches)

    branches, abranches = both(_branches_work)

    def _namespaces_work(self, namespace: Sequence[str] | None = None) -> Work[list[NamespaceSummary]]:
        """How much each namespace holds itself. It reads much of what they hold.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.

        Returns:
            In the order of their names.

        Raises:
            InvalidInput: This is no namespace.
        """
        return self._summaries("care.namespaces", namespace, namespace_sizes.list_namespaces)

    namespaces, anamespaces = both(_namespaces_work)

    def _growth_work(self, namespace: Sequence[str] | None = None, *, days: int = 30) -> Work[list[DayCounts]]:
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
        make = partial(namespace_sizes.count_days, where, days, self.database.clock())
        run = Run("care.growth", make, inputs=lambda: {"namespace": where, "days": days})
        done: list[DayCounts] = yield run
        return done

    growth, agrowth = both(_growth_work)

    def _stats_work(self) -> Work[Stats]:
        """Counts of everything stored, bytes by part, tokens kept out of prompts, cache hits, slowest operations.

        What was measured is that of every process that used the database and of this one: each writes it when the
        memory is closed, and every ten minutes, if it wrote anything else. What nobody has written yet is known to the
        process alone that measured it. Exports leave it out, and `erase(namespace=())` deletes it.

        On SQLite the whole file is read twice: 1 GB takes about a second where the system has it at hand. On PostgreSQL
        the bodies of messages are counted, and sizes come from the server's own books. A memory within a namespace
        counts what is there, and tells nothing of the database.

        Returns:
            A dictionary, see `Stats`: "messages", "bytes" and other numbers; "bytes_by_part", "caches" and
            "operations", the one with the slowest call first.

        Raises:
            StorageError: The database cannot be read.
        """
        measures, within = self.database.measures, self._below(None)
        if within or self.database.scopes.within is not None:
            look = partial(database_report.counting_within, within)
            return (yield Run("care.stats", look, outputs=dict))  # type: ignore[no-any-return]
        counted = yield Run("care.stats", database_report.counting, outputs=_counts)
        engine = self.database.engine
        sizes = yield Do(engine.sizes, partial(engine.in_thread, engine.sizes, write=False))
        return database_report.told(counted, sizes, measures.so_far(), engine.pool_stats())

    stats, astats = both(_stats_work)

    def _verify_work(self, *, progress: Watch | None = None) -> Work[VerifyReport]:
        """Check the whole database: pages, keys, digests of every body, heads, versions and the index.

        Args:
            progress: Is told what is looked at next: the pages, then each of the checks.
        """
        self._check_whole("verify")
        check = partial(integrity.verify, self.database.engine, listener_given(progress, "progress"))
        done: VerifyReport = yield Shown("care.verify", self._blocking("care.check", check), None, _verified)
        return done

    verify, averify = both(_verify_work)

    def _diagnose_work(self) -> Work[list[Finding]]:
        """Look for trouble with the database and around it, as far as that is told without reading all of it.

        It is what `agentmem doctor --quick` tells. A database in memory has only what is around it.

        Raises:
            InvalidInput: The memory is within a namespace.
        """
        self._check_whole("diagnose")
        url, engine = self.database.url, self.database.engine
        place = None if not engine.lasting else str(url.conninfo) if is_pool(url) else os.fspath(url)
        look = partial(
            database_report.diagnose, place, schema=engine.opening.schema, deep=False, key=engine.opening.key
        )
        work = self._blocking("care.look", lambda: list(look()))
        done: list[Finding] = yield Shown("care.diagnose", work, None, lambda found: {"count": len(found)})
        return done

    diagnose, adiagnose = both(_diagnose_work)

    # -- copies --------------------------------------------------------------------------------------------------

    def _backup_work(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Watch | None = None,
        key: KeyLike | None = None,
    ) -> Work[Path]:
        """Write a consistent copy, while others go on reading and writing.

        Of a SQLite database the copy is a database that `AgentMemory` opens. PostgreSQL has no such file, so there
        the copy is an export, which `import_` reads; for the server's own form use pg_dump.

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
        target, told = path_of_file(path), listener_given(progress, "progress")
        check_flag("force", force)
        yield Do(partial(check_free, target, force=force))

        def work() -> Work[dict[str, Any]]:
            if (yield from self._blocking("care.copy", partial(self.database.engine.backup, target, told, key))):
                return {"type": "database"}
            report: TransferReport = yield Run(
                "care.export", partial(export.export, target, progress=told, key=key), shown=False
            )
            return {"type": "export", **asdict(report)}

        yield Shown("care.backup", work(), lambda: {"path": path}, dict)
        return target

    backup, abackup = both(_backup_work)

    restore, arestore = staticmethod(restore), staticmethod(awaited(restore))
    rekey, arekey = staticmethod(rekey), staticmethod(awaited(rekey))

    def _copy_work(
        self,
        target: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Watch | None = None,
        key: KeyLike | None = None,
    ) -> Work[CopyReport]:
        """Copy everything into another place, of the same engine or of the other one, as of one moment.

        What the copy holds is what is here, vectors, jobs and measures included; words are indexed anew. It is made
        beside its place, every row of it is read again and compared, and only then it takes its place. After an
        interruption, of whatever kind, the same call goes on where it was, and brings up to date what has changed here.
        Where what is stored there is replaced, nobody else should have it open.

        Args:
            target: A path or a "postgresql://…" URL, where nothing is stored yet.
            force: Whether what is stored there is replaced.
            progress: Is told how far it has come.
            key: What encrypts a copy in a SQLite file. Default: the key of this database, or of the environment.

        Raises:
            InvalidInput: Something else than the whole copy is stored there, or the other engine cannot store a value.
            StorageError: A database failed. What was copied is kept for the next call.
        """
        key = EncryptionKey.of(key)
        self._check_whole("copy")
        place = name_of(target)
        told = listener_given(progress, "progress")
        copying = partial(copy, self.database.engine, place, force=force, progress=told, key=key)
        work = self._blocking("care.rows", copying)
        done: CopyReport = yield Shown("care.move", work, lambda: {"target": place_of(place).name})
        return done

    copy, acopy = both(_copy_work)

    def _export_work(
        self, path: str | os.PathLike[str], *, progress: Watch | None = None, key: KeyLike | None = None
    ) -> Work[TransferReport]:
        """Write everything to a file of JSON lines, as of one moment. `import_` reads it, on either database.

        A memory within a namespace writes what is there. What was measured of this database (`stats`) stays with it.

        Args:
            path: Where to. An older export that is there is replaced, when the new one is whole.
            progress: Is told how many of the records were written.
            key: What encrypts the file (extra `[encryption]`). Default: nothing does, whether the database is encrypted
                or not.

        Raises:
            InvalidInput: The file cannot be written, or something else is there.
            StorageError: Something is damaged; `verify` tells more. No file was written.
        """
        key = EncryptionKey.of(key)
        within, told = self._below(None), listener_given(progress, "progress")
        yield Do(partial(export.check_replaceable, path))
        make = partial(export.export, path, within, told, key)
        done: TransferReport = yield Run("care.export", make, inputs=lambda: {"path": path}, outputs=asdict)
        return done

    export, aexport = both(_export_work)

    def _import__work(
        self, path: str | os.PathLike[str], *, progress: Watch | None = None, key: KeyLike | None = None
    ) -> Work[TransferReport]:
        """Add what an export holds to this database, all of it or nothing.

        What is here already stays; importing the same file twice adds nothing. A memory within a namespace takes only
        what lies there.

        Args:
            path: A file that `export` wrote.
            progress: Is told how many bytes of it were read.
            key: What the file was encrypted with. Default: the key of this database, or of the environment.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind, or the key does not fit.
            MessageError: A conversation holds other content under one of the ids.
        """
        key = EncryptionKey.of(key) or self.database.engine.opening.key
        within, told = self._below(None), listener_given(progress, "progress")

        def load() -> Steps[tuple[TransferReport, Import]]:  # anew for each attempt
            into = Import(now=self.database.now(), tail=self.database.tail, limits=self.database.limits)
            return (yield from export.load(path, into, within, progress=told, key=key)), into

        report: TransferReport
        report, into = yield Run("care.import", load, write=True, inputs=lambda: {"path": path}, outputs=_imported)
        for at_path, name, keys in into.conversations:
            if keys:
                self._tell(MessagesStored, at_path, name, message_ids=tuple(dict.fromkeys(keys)))
        return report

    import_, aimport_ = both(_import__work)

    # -- what moves, goes and waits -------------------------------------------------------------------------------

    def _adopt_work(self, thread_id: str, namespace: Sequence[str]) -> Work[None]:
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
            raise InvalidInput("A thread of the root is there already: name another namespace.")
        make = partial(integrity.adopt, name, path, tail=self.database.tail)
        yield Run("care.adopt", make, write=True, inputs=lambda: given)
        self._let_go(())
        self._tell(ThreadMoved, path, name)

    adopt, aadopt = both(_adopt_work)

    def _erase_work(
        self,
        *,
        namespace: Sequence[str] | None = None,
        thread_id: str | None = None,
        conversation_id: str | None = None,
        dry_run: bool = False,
        progress: Watch | None = None,
    ) -> Work[EraseReport]:
        """Delete a person, thread or conversation everywhere, and leave no trace in the storage.

        The full-text index is merged and the file rewritten, so this takes as long as copying the database. On
        PostgreSQL every table is rewritten; the server's own write-ahead log and backups are the server's affair.

        A run that is under way still has in its state what is erased here, and writes it again at its next checkpoint:
        end the runs of a person first. A conversation is a log; what a thread of its id has in its state goes with
        `thread_id`. A copy of a thread is a thread of its own, with an id of its own.

        Args:
            namespace: This namespace and all below it; `()` is everything, with what was measured. With an id, only
                there. Default, with an id: the running config's. A memory within a namespace reaches that one.
            thread_id: What was said in this thread, in every namespace unless there is one.
            conversation_id: This conversation, in the root namespace unless there is another.
            dry_run: Whether to tell only what would be deleted.
            progress: Is told what is done next: rows are deleted, and then the storage is rewritten.

        Returns:
            How much of what was removed, and `elsewhere`: where `memory.store` has more of the person.

        Raises:
            InvalidInput: Nothing was named.
            StorageError: The rows are gone, but the storage could not be rewritten: erase again.
        """
        if namespace or self.database.scopes.within is not None:
            namespace = self._below(namespace)
        elif namespace is None and (thread_id is not None or conversation_id is not None):
            # An id is the running config's, so that no run reaches out of its own.
            namespace = self.database.scopes.resolve(None, bare=True) or None
        if namespace is None and thread_id is not None:
            make = partial(database_report.list_threads, (), thread_id=id_of(thread_id, "thread"), limit=None)
            found: ThreadList = yield Run("care.threads", make, shown=False)
            paths = {path_of(each.namespace) for each in found.threads}
            self.database.scopes.check_one(paths, thread_id, "say whose with namespace=, or namespace=() for all")
        given: dict[str, Any] = {"namespace": namespace, "thread_id": thread_id, "conversation_id": conversation_id}
        erase, engine = partial(integrity.erase, **given), self.database.engine
        told = listener_given(progress, "progress")

        def work() -> Work[EraseReport]:
            if dry_run:
                report, _ = yield from self._blocking("care.rehearse", partial(engine.rehearse, erase), write=True)
                return (yield from self._with_elsewhere(report, **given))
            _tell(told, "deleting", 0, 2)
            report, erased = yield Run("care.delete", erase, write=True, shown=False)
            self._let_go(erased)
            if conversation_id is None:  # a thread is shown a memory wherever that lies
                notes = partial(prompt_notes.erase_elsewhere, *range_of(namespace or ()), thread_id)
                yield Run("care.notes", notes, write=True, shown=False)
            _tell(told, "rewriting the storage", 1, 2)
            yield from self._blocking("care.scrub", engine.scrub, write=True)
            _tell(told, "rewriting the storage", 2, 2)
            return (yield from self._with_elsewhere(report, **given))

        inputs, outputs = partial(given_only, given), None if dry_run else asdict
        done: EraseReport = yield Shown("care.erase", work(), inputs, outputs)
        if integrity.is_everything(**given) and not dry_run:
            self.database.measures.take()
        return done

    erase, aerase = both(_erase_work)

    def _with_elsewhere(
        self, report: EraseReport, namespace: Namespace | None, thread_id: Any, conversation_id: Any
    ) -> Work[EraseReport]:
        """Add where else a person has items, where a namespace is erased."""
        if not namespace or thread_id is not None or conversation_id is not None:
            return report
        look = partial(integrity.items_elsewhere, tuple(namespace), self.database.scopes)
        found = yield Run("care.elsewhere", look, shown=False)
        return replace(report, elsewhere=tuple(found)[:MOST_ELSEWHERE])

    def _prune_work(
        self,
        *,
        namespace: Sequence[str] = (),
        keep_checkpoints: int | None = None,
        retention: Retention | None = None,
        archive_before: datetime | None = None,
        dry_run: bool = False,
        progress: Watch | None = None,
    ) -> Work[PruneReport]:
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
        work = prune_work(
            self.database,
            where,
            now=self.database.now(),
            keep_checkpoints=keep_checkpoints,
            retention=checked_retention(retention),
            archive_before=None if archive_before is None else time_given(archive_before, "archive_before"),
            dry_run=dry_run,
            progress=listener_given(progress, "progress"),
        )
        done: PruneReport = yield Shown("care.prune", work, None, asdict)
        return done

    prune, aprune = both(_prune_work)

    def settle(self) -> None:
        """Do now what is otherwise done in the background: vectors of documents, summaries made ahead of need, facts.

        Facts are extracted for every `memory.facts(…, model=…)` that is in use; what their model fails at goes on
        waiting, as their `failures()` tell.

        Raises:
            Exception: Whatever the embeddings, or the model that summarizes, raise. What waits goes on waiting.
        """
        for facts in self.database.draining:
            facts.drain()
        self.database.worker.settle()

    asettle = awaited(settle)

    # -- plumbing ------------------------------------------------------------------------------------------------

    @property
    def _database(self) -> Database:  # type: ignore[override]  # it is read only
        return self.database

    def _summaries(
        self, name: str, namespace: Sequence[str] | None, look: Callable[[Namespace], Steps[list[L]]]
    ) -> Work[list[L]]:
        """Return the summaries of a namespace and of all below it, in the order of their namespaces."""
        where = self.database.scopes.resolve(namespace, bare=True)
        run = Run(name, partial(look, where), inputs=lambda: {"namespace": where})
        return (yield run)  # type: ignore[no-any-return]  # an answer may be anything

    def _blocking(self, name: str, function: Callable[[], Any], *, write: bool = False) -> Work[Any]:
        """Work on the engine that is no operation, a detail of the step around it."""
        run, arun = self.database.run, self.database.arun
        return (
            yield Do(partial(run, name, function, shown=False), partial(arun, name, function, write=write, shown=False))
        )

    def _below(self, given: Sequence[str] | None) -> Namespace:
        """The namespace that was named, else that below which everything lies that this memory reaches."""
        return self.database.scopes.resolve(given or None, bare=True)

    def _check_whole(self, what: str) -> None:
        if self.database.scopes.within is not None:
            raise InvalidInput(f"{what} is of the whole database: call it on the memory that is within no namespace.")

    def _let_go(self, erased: Sequence[tuple[str, str]]) -> None:
        """After an erasure: this process remembers nothing either, and the hooks are told."""
        for each in self.database.remembering:
            each.forget()
        for at in erased:
            self._tell(ConversationErased, *at)

    def _tell(self, event: Callable[..., MemoryEvent], path: str, name: str, **details: Any) -> None:
        """Tell the hooks of a conversation."""
        self.database.emit(partial(event, namespace=namespace_of(path), conversation_id=name, **details))


def _tell(progress: Watch | None, *at: Any) -> None:
    if progress is not None:
        progress(Progress(*at))


def _counts(counted: database_report.StatsRead) -> dict[str, Any]:
    """What a trace shows of statistics."""
    return counted["counts"]


def _threads_shown(found: ThreadList) -> dict[str, Any]:
    return {"count": len(found.threads), "total": found.total}


def _verified(report: VerifyReport) -> dict[str, Any]:
    return {"ok": report.ok, "problems": list(report.problems), "checked": report.checked}


def _imported(value: tuple[TransferReport, Any]) -> dict[str, Any]:
    return asdict(value[0])
