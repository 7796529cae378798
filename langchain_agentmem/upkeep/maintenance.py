"""The methods of `AgentMemory` that list conversations, and export, import and erase data.

`integrity.py` and `database_copy.py` implement the operations. This module runs them as steps of a trace. `admin.py`
contains further operations, for administrators.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_agentmem.base.argument_checks import check_flag
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike, key_from_env
from langchain_agentmem.base.files import check_path
from langchain_agentmem.base.hooks import Watch, check_callable, report_progress
from langchain_agentmem.base.namespaces import Namespace, check_id, namespace_of, path_of, path_range
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import drop_none, format_result

if TYPE_CHECKING:
    from langchain_agentmem.base.events import MemoryEvent
    from langchain_agentmem.conversations.message_log import ListedConversation
    from langchain_agentmem.upkeep.database_copy import TransferReport
    from langchain_agentmem.upkeep.integrity import EraseReport

T = TypeVar("T")


class Upkeep:
    """The base class of operations on the whole database or on one namespace.

    Attributes:
        database: The open database.
    """

    database: Database

    def _resolve_namespace(self, namespace: Sequence[str] | None) -> Namespace:
        """Return the given namespace, else the run's or this memory's, else the root."""
        return self.database.scopes.resolve(namespace, optional=True)

    def _check_unscoped(self, operation: str) -> None:
        """Refuse an operation on the whole database if this memory is limited to a namespace."""
        if self.database.scopes.boundary is not None:
            message = "covers the whole database. Call it on the memory that is not limited to a namespace."
            raise InvalidInput(f"{operation} {message}")

    def _run_step(self, name: str, run: Callable[[], T], inputs: Mapping[str, Any] | None = None) -> T:
        """Run a function as a step of a trace."""
        with self.database.step(name, lambda: inputs or {}) as step:
            value = run()
            step.finish(lambda: format_result(value))
        return value

    def _emit_event(self, event: Callable[..., MemoryEvent], path: str, name: str, **details: Any) -> None:
        """Pass an event to the hooks, of the conversation with this namespace path and name (id)."""
        self.database.emit(partial(event, namespace=namespace_of(path), conversation_id=name, **details))


class Maintenance(Upkeep):
    """The base class of `AgentMemory` with listings, exports, imports and erasures."""

    def conversations(
        self, namespace: Sequence[str] | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[ListedConversation]:
        """List the conversations, the most recently active first.

        Args:
            namespace: This namespace and all below it. Default: the running config's namespace, else the root (all).
            limit: The maximum number of conversations. Default: 100.
            offset: The number of conversations to skip. Default: 0.

        Returns:
            The ids, namespaces and numbers of messages, and the times of the first and last messages.

        Raises:
            InvalidInput: An argument is wrong.
        """
        from langchain_agentmem.conversations import message_log  # noqa: PLC0415 - imported when needed

        inputs = {"namespace": namespace, "limit": limit, "offset": offset}
        resolved = self._resolve_namespace(namespace)
        find = partial(message_log.list_conversations, namespace=resolved, limit=limit, offset=offset)
        return self.database.read("conversation.list", find, partial(drop_none, inputs))

    aconversations = awaited(conversations)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        progress: Watch | None = None,
        key: KeyLike | None = None,
        as_json: bool = False,
    ) -> TransferReport:
        """Export a snapshot to a SQLite file, which `import_` and `restore` read on both engines.

        The SQLite file is verified. `AgentMemory` opens it like any other database. A memory that is limited to a
        namespace exports only that namespace.

        Args:
            path: The target file. An older export there is replaced once the new one is complete.
            progress: Receives the number of rows written.
            key: The key to encrypt the file with SQLCipher (extra `[encryption]`). Default: the file is not encrypted,
                even if the database is.
            as_json: True to write messages, items and memory as plain JSON, for people who request their personal data.
                `import_` does not read such a file. Default: False.

        Raises:
            InvalidInput: The file cannot be written, or an existing file is no export (with `as_json`: is a database).
            StorageError: The database is damaged; `verify` reports details. No file was written.
        """
        from langchain_agentmem.upkeep import database_copy  # noqa: PLC0415 - imported when needed

        key = EncryptionKey.of(key)
        namespace, watch = self._resolve_namespace(None), check_callable(progress, "progress")
        file, engine = check_path(path), self.database.engine
        if check_flag("as_json", as_json) and key is not None:
            raise InvalidInput("A JSON export cannot be encrypted. Omit key=, or export a SQLite file.")
        run = partial(database_copy.export_json, engine, file, namespace)
        if not as_json:
            database_copy.check_replaceable(file, key)
            run = partial(database_copy.export, engine, file, watch, key, namespace)
        return self._run_step("care.export", run, {"path": path})

    aexport = awaited(export)

    def import_(
        self, path: str | os.PathLike[str], *, progress: Watch | None = None, key: KeyLike | None = None
    ) -> TransferReport:
        """Import an export into this database, all of it or nothing.

        Existing rows stay, so importing the same file twice adds nothing. The file is verified before data is written.
        A memory that is limited to a namespace accepts only a file of that namespace.

        Args:
            path: A file that `export` wrote.
            progress: Receives the number of rows processed.
            key: The key of the file. Default: the key of this database, or of the environment.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind, or the key is wrong.
            MessageError: A conversation has different content under one of the message ids.
        """
        from langchain_agentmem.upkeep import database_copy  # noqa: PLC0415 - imported when needed

        key = EncryptionKey.of(key) or self.database.engine.options.key or key_from_env()
        namespace, watch = self._resolve_namespace(None), check_callable(progress, "progress")
        run = partial(database_copy.import_file, self.database, check_path(path), namespace, watch, key)
        return self._run_step("care.import", run, {"path": path})

    aimport_ = awaited(import_, writes=True)

    def erase(
        self,
        *,
        namespace: Sequence[str] | None = None,
        thread_id: str | None = None,
        conversation_id: str | None = None,
        dry_run: bool = False,
        progress: Watch | None = None,
    ) -> EraseReport:
        """Delete a namespace, thread or conversation, and remove its data from the files.

        The full-text index is merged and the file rewritten, so this takes as long as copying the database. On
        PostgreSQL, every table is rewritten. The server's write-ahead log and backups stay unchanged.

        End all runs of the erased threads first. The first run of a new thread would store its state again. Any other
        run in progress stores nothing more. `conversation_id` erases only a message log. To erase the state of a thread
        of the same id, pass `thread_id`. A copy of a thread is a separate thread with its own id.

        Args:
            namespace: This namespace and all below it; `()` is everything. With `conversation_id`, only this namespace.
                Default with an id: the running config's namespace. A memory that is limited to a namespace erases only
                there.
            thread_id: This thread. With neither `namespace` nor a running config's, it is erased in every namespace. If
                the memory has a namespace template, the id must then exist in one namespace only.
            conversation_id: This conversation. With neither `namespace` nor a running config's, it is in the root.
            dry_run: True to only report what would be deleted. Default: False.
            progress: Receives the stages: rows are deleted, and then the storage is rewritten.

        Returns:
            The counts of removed objects. For a whole namespace, `other_namespaces` lists namespaces outside of it that
            have items and share a label with it, such as a user id.

        Raises:
            InvalidInput: No target or two ids were given, or the id exists in several namespaces.
            StorageError: The rows are deleted, but the storage could not be rewritten. Erase again.
        """
        from langchain_agentmem.base.events import ConversationErased  # noqa: PLC0415 - imported when needed
        from langchain_agentmem.conversations import prompt_notes  # noqa: PLC0415 - imported when needed
        from langchain_agentmem.upkeep import integrity  # noqa: PLC0415 - imported when needed

        if (namespace is not None and path_of(namespace)) or self.database.scopes.boundary is not None:
            namespace = self._resolve_namespace(namespace)
        elif namespace is None and (thread_id is not None or conversation_id is not None):
            # A run erases an id only in its own namespace.
            namespace = self._resolve_namespace(None) or None
        if namespace is None and thread_id is not None:
            paths = self.database.read(None, partial(integrity.find_paths, name=check_id(thread_id, "thread")))
            self.database.scopes.check_unambiguous(paths, thread_id, "pass namespace=, or namespace=() for all")
        target: dict[str, Any] = {"namespace": namespace, "thread_id": thread_id, "conversation_id": conversation_id}
        check_flag("dry_run", dry_run)
        watch, engine = check_callable(progress, "progress"), self.database.engine
        with self.database.step("care.erase", partial(drop_none, target)) as step:
            if dry_run:
                report, _ = engine.rehearse(lambda tx: integrity.erase(tx, **target))
                return self._add_other_namespaces(report, **target)
            report_progress(watch, "deleting", 0, 2)
            report, erased = self.database.write(None, lambda tx: integrity.erase(tx, **target))
            for cache in self.database.caches:
                cache.forget()
            for path_and_name in erased:
                self._emit_event(ConversationErased, *path_and_name)
            if conversation_id is None:  # prompts of other threads may have shown the erased memory
                low, high = path_range(namespace or ())
                delete = partial(prompt_notes.delete_notes_on_erased_memory, only_core=thread_id is not None)
                self.database.write(None, lambda tx: delete(tx, low, high))
            report_progress(watch, "rewriting the storage", 1, 2)
            engine.scrub()
            report_progress(watch, "rewriting the storage", 2, 2)
            report = self._add_other_namespaces(report, **target)
            step.finish(lambda: asdict(report))
        return report

    aerase = awaited(erase, writes=True)

    def _add_other_namespaces(self, report: EraseReport, namespace: Namespace | None, **ids: str | None) -> EraseReport:
        """Set `other_namespaces` in a report on the erasure of a namespace."""
        from langchain_agentmem.upkeep import integrity  # noqa: PLC0415 - imported when needed

        if not namespace or any(value is not None for value in ids.values()):
            return report
        target, scopes = tuple(namespace), self.database.scopes
        others = self.database.read(None, lambda tx: integrity.find_other_items(tx, target, scopes))
        return replace(report, other_namespaces=others)

    def settle(self) -> None:
        """Run pending background tasks now: embed documents, and extract facts from messages.

        Facts are extracted for every `memory.facts(…, model=…)` in use. A message stays pending if its model call
        fails. `KGMemory.failures` lists such messages.

        Raises:
            Exception: An error of the embeddings. Pending tasks stay pending.
        """
        for facts in self.database.fact_workers:
            facts.drain()
        self.database.background.settle()

    asettle = awaited(settle, writes=True)
