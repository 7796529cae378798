"""`Maintenance`: what there is in a database, and looking after it. Half of `AgentMemory`, for those who run one.

    with AgentMemory("agent.db") as memory:
        assert memory.verify().ok
        memory.backup("copy.db")
        memory.erase(namespace=("alice",))
        print(memory.stats()["messages"])

What is asked of the database stands in `care.py`, `overview.py`, `stats.py`, `copying.py`, `restoring.py` and
`pruning.py`; here it becomes steps of a trace, once for both twins.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from langchain_agentmem.base.clock import time_given
from langchain_agentmem.base.events import ConversationErased, Event, MessagesStored, listener_given
from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.namespaces import namespace_of, range_of, resolve
from langchain_agentmem.conversations import message_queries
from langchain_agentmem.conversations.message_log import Address
from langchain_agentmem.conversations.message_queries import Listed
from langchain_agentmem.conversations.persistence import checked_retention
from langchain_agentmem.language_models.model_calls import Do, Run, Shown, Work, aperform, perform
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import name_of
from langchain_agentmem.storage.database import Database, Outputs
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.tracing import Thunk, given_only
from langchain_agentmem.upkeep import database_report, integrity, overview
from langchain_agentmem.upkeep.database_copy import CopyReport, Progress, copy, place_of
from langchain_agentmem.upkeep.database_report import Stats
from langchain_agentmem.upkeep.integrity import EraseReport, TransferReport, VerifyReport
from langchain_agentmem.upkeep.overview import BranchSummary, ThreadList
from langchain_agentmem.upkeep.pruning import PruneReport, pruned
from langchain_agentmem.upkeep.restoring import RestoreReport, restore

T = TypeVar("T")


class Maintenance:
    """What there is in a database, and looking after it.

    Attributes:
        database: The open database.
    """

    database: Database

    # -- what there is -----------------------------------------------------------------------------------------

    def conversations(
        self, namespace: Sequence[str] | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[Listed]:
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
        return perform(self._listing_conversations(namespace, limit, offset), self.database)

    async def aconversations(
        self, namespace: Sequence[str] | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[Listed]:
        """`conversations`, awaited."""
        return await aperform(self._listing_conversations(namespace, limit, offset), self.database)

    def threads(
        self, namespace: Sequence[str] | None = None, *, thread_id: str | None = None, limit: int | None = None
    ) -> ThreadList:
        """What threads and conversations there are, how large they are, and when they changed last.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.
            thread_id: Only those of this id. Default: all.
            limit: Most of them. Default: all.

        Returns:
            Those that changed last first, and how many there are in all.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return perform(self._listing_threads(namespace, thread_id, limit), self.database)

    async def athreads(
        self, namespace: Sequence[str] | None = None, *, thread_id: str | None = None, limit: int | None = None
    ) -> ThreadList:
        """`threads`, awaited."""
        return await aperform(self._listing_threads(namespace, thread_id, limit), self.database)

    def branches(self, namespace: Sequence[str] | None = None) -> list[BranchSummary]:
        """What branches of layered memory and facts there are that have a name.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.

        Returns:
            By namespace, each branch before its forks.

        Raises:
            InvalidInput: This is no namespace.
        """
        return perform(self._listing_branches(namespace), self.database)

    async def abranches(self, namespace: Sequence[str] | None = None) -> list[BranchSummary]:
        """`branches`, awaited."""
        return await aperform(self._listing_branches(namespace), self.database)

    def stats(self) -> Stats:
        """Counts of everything stored, bytes by part, tokens kept out of prompts, cache hits, slowest operations.

        What was measured is that of every process that used the database and of this one: each writes it when the
        memory is closed, and every ten minutes, if it wrote anything else. What nobody has written yet is known to the
        process alone that measured it. Exports leave it out, and `erase(namespace=())` deletes it.

        On SQLite the whole file is read twice: 1 GB takes about a second where the system has it at hand. On PostgreSQL
        the bodies of messages are counted, and sizes come from the server's own books.

        Returns:
            A dictionary, see `Stats`: "messages", "bytes" and other numbers; "bytes_by_part", "caches" and
            "operations", the one with the slowest call first.

        Raises:
            StorageError: The database cannot be read.
        """
        return perform(self._counting(), self.database)

    async def astats(self) -> Stats:
        """`stats`, awaited."""
        return await aperform(self._counting(), self.database)

    def verify(self, *, progress: Callable[[str], object] | None = None) -> VerifyReport:
        """Check the whole database: pages, keys, digests of every body, heads, versions and the index.

        Args:
            progress: Is told what is looked at next: "pages", then each of `care.CHECKED`.
        """
        return perform(self._verifying(progress), self.database)

    async def averify(self, *, progress: Callable[[str], object] | None = None) -> VerifyReport:
        """`verify`, awaited. `progress` is called in another thread."""
        return await aperform(self._verifying(progress), self.database)

    # -- copies ------------------------------------------------------------------------------------------------

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Write a consistent copy, while others go on reading and writing.

        Of a SQLite database the copy is a database that `AgentMemory` opens. PostgreSQL has no such file, so there
        the copy is an export, which `import_` reads; for the server's own form use pg_dump.

        Args:
            path: Where to. A file that is there is replaced, when the new one is whole.

        Returns:
            The path.

        Raises:
            InvalidInput: The file cannot be written.
        """
        return perform(self._backing_up(path), self.database)

    async def abackup(self, path: str | os.PathLike[str]) -> Path:
        """`backup`, awaited."""
        return await aperform(self._backing_up(path), self.database)

    @staticmethod
    def restore(
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Progress | None = None,
        checking: Callable[[str], object] | None = None,
    ) -> RestoreReport:
        """Make a database of what `backup` or `export` wrote. It is checked as a whole before it takes its place.

        Args:
            source: The file. It is only read.
            target: A path or a "postgresql://…" URL, where nothing is stored yet.
            force: Whether what is stored there is replaced.
            progress: Is told how far the copy to PostgreSQL has come.
            checking: Is told what is being checked.

        Raises:
            InvalidInput: The file is missing or of another kind, or something is stored at the target.
            StorageError: The file is damaged, or a database failed. The target is as it was.
        """
        return restore(source, target, force=force, progress=progress, checking=checking)

    @staticmethod
    async def arestore(
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Progress | None = None,
        checking: Callable[[str], object] | None = None,
    ) -> RestoreReport:
        """`restore`, awaited."""
        return await asyncio.to_thread(restore, source, target, force=force, progress=progress, checking=checking)

    def copy(
        self, target: str | os.PathLike[str], *, force: bool = False, progress: Progress | None = None
    ) -> CopyReport:
        """Copy everything into another place, of the same engine or of the other one, as of one moment.

        What the copy holds is what is here, vectors, jobs and measures included; words are indexed anew. It is made
        beside its place, every row of it is read again and compared, and only then it takes its place. After an
        interruption, of whatever kind, the same call goes on where it was, and brings up to date what has changed here.
        Where what is stored there is replaced, nobody else should have it open.

        Args:
            target: A path or a "postgresql://…" URL, where nothing is stored yet.
            force: Whether what is stored there is replaced.
            progress: Is told how far it has come.

        Raises:
            InvalidInput: Something else than the whole copy is stored there, or the other engine cannot store a value.
            StorageError: A database failed. What was copied is kept for the next call.
        """
        return perform(self._copying(target, progress, force=force), self.database)

    async def acopy(
        self, target: str | os.PathLike[str], *, force: bool = False, progress: Progress | None = None
    ) -> CopyReport:
        """`copy`, awaited. `progress` is called in another thread."""
        return await aperform(self._copying(target, progress, force=force), self.database)

    def export(self, path: str | os.PathLike[str]) -> TransferReport:
        """Write everything to a file of JSON lines, as of one moment. `import_` reads it, on either database.

        What was measured of this database (`stats`) stays with it.

        Raises:
            InvalidInput: The file cannot be written.
            StorageError: Something is damaged; `verify` tells more. No file was written.
        """
        return perform(self._exporting(path), self.database)

    async def aexport(self, path: str | os.PathLike[str]) -> TransferReport:
        """`export`, awaited."""
        return await aperform(self._exporting(path), self.database)

    def import_(self, path: str | os.PathLike[str]) -> TransferReport:
        """Add what an export holds to this database, all of it or nothing.

        What is here already stays; importing the same file twice adds nothing.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind.
            MessageError: A conversation holds other content under one of the ids.
        """
        return perform(self._importing(path), self.database)

    async def aimport_(self, path: str | os.PathLike[str]) -> TransferReport:
        """`import_`, awaited."""
        return await aperform(self._importing(path), self.database)

    # -- what goes, and what waits -----------------------------------------------------------------------------

    def erase(
        self,
        *,
        namespace: Sequence[str] | None = None,
        thread_id: str | None = None,
        conversation_id: str | None = None,
        dry_run: bool = False,
    ) -> EraseReport:
        """Delete a person, thread or conversation everywhere, and leave no trace in the storage.

        The full-text index is merged and the file rewritten, so this takes as long as copying the database. On
        PostgreSQL every table is rewritten; the server's own write-ahead log and backups are the server's affair.

        Args:
            namespace: This namespace and all below it; `()` is everything, with what was measured. With an id, only
                there. Default, with an id: the running config's.
            thread_id: What was said in this thread, in every namespace unless there is one.
            conversation_id: This conversation, in the root namespace unless there is another.
            dry_run: Whether to tell only what would be deleted.

        Raises:
            InvalidInput: Nothing was named.
            StorageError: The rows are gone, but the storage could not be rewritten: erase again.
        """
        return perform(self._erasing(namespace, thread_id, conversation_id, dry_run=dry_run), self.database)

    async def aerase(
        self,
        *,
        namespace: Sequence[str] | None = None,
        thread_id: str | None = None,
        conversation_id: str | None = None,
        dry_run: bool = False,
    ) -> EraseReport:
        """`erase`, awaited."""
        return await aperform(self._erasing(namespace, thread_id, conversation_id, dry_run=dry_run), self.database)

    def prune(
        self,
        *,
        namespace: Sequence[str] = (),
        keep_checkpoints: int | None = None,
        retention: Retention | None = None,
        archive_before: datetime | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> PruneReport:
        """Remove what is old, or make it smaller, in a namespace and all below it.

        Args:
            namespace: Where. Default: everywhere.
            keep_checkpoints: How many of the newest checkpoints of each thread stay, and of each of its subgraphs;
                threads of DeltaChannels stay whole. Default: all.
            retention: Which messages of each conversation stay. Default: all.
            archive_before: Entries of the audit trail that were made before are compressed. Default: none.
            dry_run: Whether to tell only what would be done.
            progress: Is told how many threads and conversations were looked at, and how many there are.

        Raises:
            InvalidInput: Nothing is to be pruned, or an argument is wrong.
        """
        work = self._pruning(namespace, keep_checkpoints, retention, archive_before, progress, dry_run=dry_run)
        return perform(work, self.database)

    async def aprune(
        self,
        *,
        namespace: Sequence[str] = (),
        keep_checkpoints: int | None = None,
        retention: Retention | None = None,
        archive_before: datetime | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> PruneReport:
        """`prune`, awaited."""
        work = self._pruning(namespace, keep_checkpoints, retention, archive_before, progress, dry_run=dry_run)
        return await aperform(work, self.database)

    def settle(self) -> None:
        """Do now what is otherwise done in the background: vectors of documents, summaries that are made ahead of need.

        Raises:
            Exception: Whatever the embeddings or the model raise. What waits goes on waiting.
        """
        self.database.worker.settle()

    async def asettle(self) -> None:
        """`settle`, awaited."""
        await self.database.worker.asettle()

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _listing_conversations(self, namespace: Sequence[str] | None, limit: int, offset: int) -> Work[list[Listed]]:
        asked = {"namespace": namespace, "limit": limit, "offset": offset}
        make = message_queries.conversations(resolve(namespace), limit, offset)
        found: list[Listed] = yield Run(
            "conversation.list", make, inputs=partial(given_only, asked), outputs=message_queries.conversations_shown
        )
        return found

    def _listing_threads(
        self, namespace: Sequence[str] | None, thread_id: str | None, limit: int | None
    ) -> Work[ThreadList]:
        asked: dict[str, Any] = {"namespace": resolve(namespace), "thread_id": thread_id, "limit": limit}
        make = partial(overview.threads, **asked)
        found: ThreadList = yield Run("care.threads", make, inputs=partial(given_only, asked), outputs=_threads_shown)
        return found

    def _listing_branches(self, namespace: Sequence[str] | None) -> Work[list[BranchSummary]]:
        where = resolve(namespace)
        make = partial(overview.branches, where)
        found: list[BranchSummary] = yield Run("care.branches", make, inputs=lambda: {"namespace": where})
        return found

    def _counting(self) -> Work[Stats]:
        engine, measures = self.database.engine, self.database.measures
        counted: database_report.Counted = yield Run("care.stats", database_report.counting, outputs=_counts)
        sizes = yield Do(engine.sizes, partial(engine.in_thread, engine.sizes, write=False))
        return database_report.told(counted, sizes, measures.so_far())

    def _verifying(self, progress: Callable[[str], object] | None) -> Work[VerifyReport]:
        def work() -> Work[VerifyReport]:
            report: VerifyReport = yield self._blocking(
                "care.check", partial(integrity.verify, self.database.engine, listener_given(progress, "progress"))
            )
            return report

        return _as_step("care.verify", work(), outputs=_verified)

    def _backing_up(self, path: str | os.PathLike[str]) -> Work[Path]:
        target = path_of_file(path)

        def work() -> Work[dict[str, Any]]:
            if (yield self._blocking("care.copy", partial(self.database.engine.backup, target))):
                return {"type": "database"}
            report: TransferReport = yield Run("care.export", partial(integrity.export, target), shown=False)
            return {"type": "export", **asdict(report)}

        yield Shown("care.backup", work(), lambda: {"path": path}, dict)
        return target

    def _copying(self, target: str | os.PathLike[str], progress: Progress | None, *, force: bool) -> Work[CopyReport]:
        place = name_of(target)
        told = listener_given(progress, "progress")
        copying = partial(copy, self.database.engine, place, all_parts().texts, force=force, progress=told)

        def work() -> Work[CopyReport]:
            report: CopyReport = yield self._blocking("care.rows", copying)
            return report

        return _as_step("care.move", work(), lambda: {"target": place_of(place).name})

    def _exporting(self, path: str | os.PathLike[str]) -> Work[TransferReport]:
        export = partial(integrity.export, path)
        report: TransferReport = yield Run("care.export", export, inputs=lambda: {"path": path}, outputs=asdict)
        return report

    def _importing(self, path: str | os.PathLike[str]) -> Work[TransferReport]:
        load = partial(integrity.load, path, now=self.database.now(), tail=self.database.tail)
        report: TransferReport
        report, written = yield Run("care.import", load, write=True, inputs=lambda: {"path": path}, outputs=_imported)
        for at, keys in written:
            if keys:
                self._tell(MessagesStored, at, message_ids=tuple(dict.fromkeys(keys)))
        return report

    def _erasing(
        self, namespace: Sequence[str] | None, thread_id: str | None, conversation_id: str | None, *, dry_run: bool
    ) -> Work[EraseReport]:
        if namespace is None and (thread_id is not None or conversation_id is not None):
            namespace = resolve(None) or None  # an id is the running config's, so that no run reaches out of its own
        given: dict[str, Any] = {"namespace": namespace, "thread_id": thread_id, "conversation_id": conversation_id}
        engine, erase = self.database.engine, partial(integrity.erase, **given)

        def work() -> Work[EraseReport]:
            report: EraseReport
            if dry_run:
                report, _ = yield self._blocking("care.rehearse", partial(engine.rehearse, erase), write=True)
            else:
                report, erased = yield Run("care.delete", erase, write=True, shown=False)
                self._let_go(erased)
                yield self._blocking("care.scrub", engine.scrub, write=True)
            return report

        inputs, outputs = partial(given_only, given), None if dry_run else asdict
        done: EraseReport = yield Shown("care.erase", work(), inputs, outputs)
        if integrity.is_everything(**given) and not dry_run:
            self.database.measures.take()
        return done

    def _pruning(
        self,
        namespace: Sequence[str],
        keep_checkpoints: int | None,
        retention: Retention | None,
        archive_before: datetime | None,
        progress: Callable[[int, int], object] | None,
        *,
        dry_run: bool,
    ) -> Work[PruneReport]:
        work = pruned(
            self.database.engine,
            *range_of(namespace),
            now=self.database.now(),
            keep_checkpoints=keep_checkpoints,
            retention=checked_retention(retention),
            archive_before=None if archive_before is None else time_given(archive_before, "archive_before"),
            dry_run=dry_run,
            progress=listener_given(progress, "progress"),
        )
        return _as_step("care.prune", work, outputs=asdict)

    def _blocking(self, name: str, function: Callable[[], Any], *, write: bool = False) -> Do:
        """Work on the engine that is no operation, a detail of the step around it."""
        run, arun = self.database.run, self.database.arun
        return Do(partial(run, name, function, shown=False), partial(arun, name, function, write=write, shown=False))

    def _let_go(self, erased: Sequence[Address]) -> None:
        """After an erasure: this process remembers nothing either, and the hooks are told."""
        for each in self.database.remembering:
            each.forget()
        for at in erased:
            self._tell(ConversationErased, at)

    def _tell(self, event: Callable[..., Event], at: Address, **details: Any) -> None:
        """Tell the hooks of a conversation."""
        self.database.emit(partial(event, namespace=namespace_of(at.path), conversation_id=at.name, **details))


def _as_step(name: str, work: Work[T], inputs: Thunk | None = None, outputs: Outputs | None = None) -> Work[T]:
    """The work, shown as one step."""
    value: T = yield Shown(name, work, inputs, outputs)
    return value


def _counts(counted: database_report.Counted) -> dict[str, Any]:
    """What a trace shows of statistics."""
    return counted["counts"]


def _threads_shown(found: ThreadList) -> dict[str, Any]:
    return {"count": len(found.threads), "total": found.total}


def _verified(report: VerifyReport) -> dict[str, Any]:
    return {"ok": report.ok, "problems": list(report.problems), "checked": report.checked}


def _imported(value: tuple[TransferReport, Any]) -> dict[str, Any]:
    return asdict(value[0])
