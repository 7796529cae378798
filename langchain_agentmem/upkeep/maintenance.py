"""The methods of `AgentMemory` that list, export, import and erase what it holds.

The work on the database is in `integrity.py` and `database_copy.py`; here it becomes steps of a trace. The other
operations for operators are in `admin.py`.
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
        """Return the given namespace; by default the one that contains all this memory reaches."""
        return self.database.scopes.resolve(given, bare=True)

    def _check_whole(self, what: str) -> None:
        if self.database.scopes.within is not None:
            raise InvalidInput(f"{what} is of the whole database: call it on the memory that is within no namespace.")

    def _run(self, name: str, make: Callable[[], T], inputs: Mapping[str, Any] | None = None) -> T:
        """Run a function as a step of a trace."""
        with self.database.step(name, lambda: inputs or {}) as step:
            value = make()
            step.finish(lambda: outcome(value))
        return value

    def _tell(self, event: Callable[..., events.MemoryEvent], path: str, name: str, **details: Any) -> None:
        """Emit an event for a conversation to the hooks."""
        self.database.emit(partial(event, namespace=namespace_of(path), conversation_id=name, **details))


class Maintenance(Upkeep):
    """The part of `AgentMemory` that lists conversations, exports, imports and erases."""

    def conversations(
        self, namespace: Sequence[str] | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[ListedConversation]:
        """List the conversations, the most recently active first.

        Args:
            namespace: This namespace and all below it. Default: that of the running config, else the root, which means
                every namespace.
            limit: The maximum number of conversations. Default: 100.
            offset: The number of conversations to skip. Default: 0.

        Returns:
            Their ids, namespaces and numbers of messages, and the times of their first and last messages.

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
        """Export everything to a SQLite file, as of one moment.

        `import_` and `restore` read the file, on either database.

        The file is verified. `AgentMemory` opens it like any other database. A memory within a namespace exports only
        that namespace.

        Args:
            path: The target file. An older export there is replaced once the new one is complete.
            progress: Receives the number of records written.
            key: The key to encrypt the file with SQLCipher (extra `[encryption]`). Default: the file is not encrypted,
                even if the database is.
            as_json: Write plain JSON instead, for a person who asks for their data: messages, items and memory.
                `import_` does not read it. Default: False.

        Raises:
            InvalidInput: The file cannot be written, or it exists and is no export.
            StorageError: Something is damaged; `verify` reports details. No file was written.
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
        """Import the content of an export into this database, all of it or nothing.

        Existing rows stay; importing the same file twice adds nothing. The file is checked and verified before
        anything is written. A memory within a namespace accepts only a file of that namespace.

        Args:
            path: A file that `export` wrote.
            progress: Receives the number of rows processed.
            key: The key of the file. Default: the key of this database, or of the environment.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind, or the key does not fit.
            MessageError: A conversation has other content under one of the message ids.
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
        PostgreSQL every table is rewritten; the server's own write-ahead log and backups are not touched.

        A run in progress still has the erased data in its state, and writes it again at its next checkpoint: end the
        runs of a person first. `conversation_id` erases only a log; the state of a thread of the same id needs
        `thread_id`. A copy of a thread is a separate thread with its own id.

        Args:
            namespace: This namespace and all below it; `()` is everything. With an id, only
                there. Default, with an id: the running config's. A memory within a namespace reaches that one.
            thread_id: This thread, in every namespace unless one is given.
            conversation_id: This conversation, in the root namespace unless another is given.
            dry_run: Report only what would be deleted. Default: False.
            progress: Receives the next stage: rows are deleted, and then the storage is rewritten.

        Returns:
            The counts of removed objects, and `elsewhere`: other namespaces with items of the person.

        Raises:
            InvalidInput: No target was given.
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
        """Add the other namespaces with items of the person, if a namespace is erased."""
        if not namespace or thread_id is not None or conversation_id is not None:
            return report
        below, scopes = tuple(namespace), self.database.scopes
        found = self.database.read(None, lambda tx: integrity.items_elsewhere(tx, below, scopes))
        return replace(report, elsewhere=found)

    def settle(self) -> None:
        """Run the background work now: embed documents and extract facts from messages.

        Facts are extracted for every `memory.facts(…, model=…)` in use. Messages at which a model fails stay pending;
        `failures()` lists them.

        Raises:
            Exception: Any error of the embeddings or of the summarization model. Pending work stays pending.
        """
        for facts in self.database.draining:
            facts.drain()
        self.database.background.settle()

    asettle = awaited(settle, writes=True)


def _tell(progress: events.Watch | None, *at: Any) -> None:
    if progress is not None:
        progress(events.Progress(*at))
