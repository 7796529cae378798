"""The methods of `AgentMemory` that list, export, import and erase what it holds.

The work on the database is in `integrity.py` and `database_copy.py`; here it becomes steps of a trace. What operators
need besides stands in `admin.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

from langchain_agentmem.base import events
from langchain_agentmem.base.argument_checks import check_flag
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike, key_in_environment
from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.namespaces import Namespace, id_of, namespace_of, path_of, range_of
from langchain_agentmem.conversations import message_log, prompt_notes
from langchain_agentmem.conversations.message_log import ListedConversation
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import given_only, outcome
from langchain_agentmem.upkeep import database_copy, integrity
from langchain_agentmem.upkeep.database_copy import TransferReport
from langchain_agentmem.upkeep.integrity import EraseReport

T = TypeVar("T")


class Upkeep:
    """Work on the whole database, or on a namespace of it.

    Attributes:
        database: The open database.
    """

    database: Database

    def _below(self, given: Sequence[str] | None) -> Namespace:
        """The namespace that was named, else that below which everything lies that this memory reaches."""
        return self.database.scopes.resolve(given, bare=True)

    def _check_whole(self, what: str) -> None:
        if self.database.scopes.within is not None:
            raise InvalidInput(f"{what} is of the whole database: call it on the memory that is within no namespace.")

    def _run(self, name: str, make: Callable[[], T], inputs: Mapping[str, Any] | None = None) -> T:
        """Do something as a step of a trace."""
        with self.database.step(name, lambda: inputs or {}) as step:
            value = make()
            step.finish(lambda: outcome(value))
        return value

    def _tell(self, event: Callable[..., events.MemoryEvent], path: str, name: str, **details: Any) -> None:
        """Tell the hooks of a conversation."""
        self.database.emit(partial(event, namespace=namespace_of(path), conversation_id=name, **details))


class Maintenance(Upkeep):
    """The part of `AgentMemory` that lists conversations, exports, imports and erases."""

    def conversations(
        self, namespace: Sequence[str] | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[ListedConversation]:
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
        find = partial(message_log.conversations, namespace=where, limit=limit, offset=offset)
        return self.database.read("conversation.list", find, partial(given_only, asked))

    aconversations = awaited(conversations)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        progress: events.Watch | None = None,
        key: KeyLike | None = None,
        as_json: bool = False,
    ) -> TransferReport:
        """Write everything to a SQLite file, as of one moment. `import_` and `restore` read it, on either database.

        The file is verified. `AgentMemory` opens it like any other database. A memory within a namespace writes what is
        there.

        Args:
            path: Where to. An older export that is there is replaced, when the new one is whole.
            progress: Is told how many of the records were written.
            key: What encrypts the file, with SQLCipher (extra `[encryption]`). Default: nothing does, whether the
                database is encrypted or not.
            as_json: Whether to write plain JSON instead, for a person who asks for their data: messages, items, and
                what was learned. `import_` does not read it. Default: no.

        Raises:
            InvalidInput: The file cannot be written, or something else is there.
            StorageError: Something is damaged; `verify` tells more. No file was written.
        """
        key = EncryptionKey.of(key)
        within, told = self._below(None), events.listener_given(progress, "progress")
        file, engine = path_of_file(path), self.database.engine
        if check_flag("as_json", as_json) and key is not None:
            raise InvalidInput("Plain JSON is not encrypted: give no key, or export a SQLite file.")
        make = partial(database_copy.plain_export, engine, file, within)
        if not as_json:
            database_copy.check_replaceable(file, key)
            make = partial(database_copy.export, engine, file, within, told, key)
        return self._run("care.export", make, {"path": path})

    aexport = awaited(export)

    def import_(
        self, path: str | os.PathLike[str], *, progress: events.Watch | None = None, key: KeyLike | None = None
    ) -> TransferReport:
        """Add what an export holds to this database, all of it or nothing.

        What is here already stays; importing the same file twice adds nothing. The file is checked and verified before
        anything is written. A memory within a namespace takes only what lies there.

        Args:
            path: A file that `export` wrote.
            progress: Is told how many of its rows were looked at.
            key: What the file was encrypted with. Default: the key of this database, or of the environment.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind, or the key does not fit.
            MessageError: A conversation holds other content under one of the ids.
        """
        key = EncryptionKey.of(key) or self.database.engine.opening.key or key_in_environment()
        within, told = self._below(None), events.listener_given(progress, "progress")
        tell = partial(self._tell, events.MessagesStored)
        make = partial(database_copy.import_file, self.database, path_of_file(path), within, told, key, tell)
        return self._run("care.import", make, {"path": path})

    aimport_ = awaited(import_, writes=True)

    def erase(
        self,
        *,
        namespace: Sequence[str] | None = None,
        thread_id: str | None = None,
        conversation_id: str | None = None,
        dry_run: bool = False,
        progress: events.Watch | None = None,
    ) -> EraseReport:
        """Delete a person, thread or conversation everywhere, and leave no trace in the storage.

        The full-text index is merged and the file rewritten, so this takes as long as copying the database. On
        PostgreSQL every table is rewritten; the server's own write-ahead log and backups are the server's affair.

        A run that is under way still has in its state what is erased here, and writes it again at its next checkpoint:
        end the runs of a person first. A conversation is a log; what a thread of its id has in its state goes with
        `thread_id`. A copy of a thread is a thread of its own, with an id of its own.

        Args:
            namespace: This namespace and all below it; `()` is everything. With an id, only
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
        if (namespace is not None and path_of(namespace)) or self.database.scopes.within is not None:
            namespace = self._below(namespace)
        elif namespace is None and (thread_id is not None or conversation_id is not None):
            # An id is the running config's, so that no run reaches out of its own.
            namespace = self.database.scopes.resolve(None, bare=True) or None
        if namespace is None and thread_id is not None:
            paths = self.database.read(None, partial(integrity.homes_of, name=id_of(thread_id, "thread")))
            self.database.scopes.check_one(paths, thread_id, "say whose with namespace=, or namespace=() for all")
        given: dict[str, Any] = {"namespace": namespace, "thread_id": thread_id, "conversation_id": conversation_id}
        check_flag("dry_run", dry_run)
        told, engine = events.listener_given(progress, "progress"), self.database.engine
        with self.database.step("care.erase", partial(given_only, given)) as step:
            if dry_run:
                report, _ = engine.rehearse(lambda tx: integrity.erase(tx, **given))
                return self._with_elsewhere(report, **given)
            _tell(told, "deleting", 0, 2)
            report, erased = self.database.write(None, lambda tx: integrity.erase(tx, **given))
            for each in self.database.remembering:
                each.forget()
            for at in erased:
                self._tell(events.ConversationErased, *at)
            if conversation_id is None:  # a thread is shown a memory wherever that lies
                low, high = range_of(namespace or ())
                self.database.write(None, lambda tx: prompt_notes.erase_elsewhere(tx, low, high, thread_id))
            _tell(told, "rewriting the storage", 1, 2)
            engine.scrub()
            _tell(told, "rewriting the storage", 2, 2)
            report = self._with_elsewhere(report, **given)
            step.finish(lambda: asdict(report))
        return report

    aerase = awaited(erase, writes=True)

    def _with_elsewhere(
        self, report: EraseReport, namespace: Namespace | None, thread_id: Any, conversation_id: Any
    ) -> EraseReport:
        """Add where else a person has items, where a namespace is erased."""
        if not namespace or thread_id is not None or conversation_id is not None:
            return report
        below, scopes = tuple(namespace), self.database.scopes
        found = self.database.read(None, lambda tx: integrity.items_elsewhere(tx, below, scopes))
        return replace(report, elsewhere=found)

    def settle(self) -> None:
        """Do now what is otherwise done in the background: the vectors of documents and the facts of messages.

        Facts are extracted for every `memory.facts(…, model=…)` that is in use; what their model fails at goes on
        waiting, as their `failures()` tell.

        Raises:
            Exception: Whatever the embeddings, or the model that summarizes, raise. What waits goes on waiting.
        """
        for facts in self.database.draining:
            facts.drain()
        self.database.background.settle()

    asettle = awaited(settle, writes=True)


def _tell(progress: events.Watch | None, *at: Any) -> None:
    if progress is not None:
        progress(events.Progress(*at))
