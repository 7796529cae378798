"""What conversations and sessions share: steps, events, and files.

A file holds one memory whole: ids, times, rounds, attachments and earlier versions, and whatever state the
caller wants to keep beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.events import (
    EventContext,
    MemoryEvent,
    MemoryResetEvent,
    MessagesRemoved,
    MessagesStored,
    MessageUpdated,
)
from langchain_agentmem.base.files import whole_file
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.log_entries import trace_inputs
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.provider_content import ImageFiles
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Operation, Transaction
from langchain_agentmem.storage.database import Database, Outputs
from langchain_agentmem.tracing import Thunk

T = TypeVar("T")

FORMAT = "langchain-agentmem/memory"
VERSION = 1


class EventSource:
    """A memory that tells an event bus what happens, and that may be asked to compact itself."""

    _database: Database
    _event_context: EventContext | None = None

    def set_event_context(self, agent_name: str, event_bus: object, session_id: str | None = None) -> None:
        """Have this memory's events told to an event bus.

        Args:
            agent_name: Whose memory it is; events carry it.
            event_bus: Something with `emit_nowait(event)` or `emit(event)`, or a function. None to stop.
            session_id: The run it belongs to. Default: none.
        """
        self._event_context = None if event_bus is None else EventContext(agent_name, event_bus, session_id)

    def compact_if_needed(self, runtime: Mapping[str, Any] | None = None) -> bool:
        """Compact the context if it has outgrown its threshold.

        Args:
            runtime: What compaction may use, such as a model.

        Returns:
            Whether anything was compacted; False for a memory that has no threshold.
        """
        del runtime
        return False

    acompact_if_needed = awaited(compact_if_needed, writes=True)

    def compact_for_payload_error(self, runtime: Mapping[str, Any] | None = None) -> bool:
        """Make the payload smaller after a provider refused it.

        Args:
            runtime: What compaction may use, such as a model.

        Returns:
            Whether it is smaller now; False for a memory that does not compact.
        """
        del runtime
        return False

    acompact_for_payload_error = awaited(compact_for_payload_error, writes=True)

    def _tell(self, event: MemoryEvent | Callable[[str], MemoryEvent]) -> None:
        """Tell hooks and the event bus. A function is given the agent's name, empty where there is none."""
        context = self._event_context
        if context is None and not self._database.hooks:
            return
        told = event(context.agent_name if context else "") if callable(event) else event
        self._database.hooks.emit(told)
        if context is not None:
            context.emit(told)


class LogMemory(EventSource):
    """A memory that goes to a file and comes back.

    Attributes:
        memory_type: What `AgentMemory.create` and its files call it.
    """

    memory_type: str
    _readable: tuple[str, ...]  # the types of memories whose files it takes
    _part: str
    _at: message_log.Address
    _log: message_log.Log = message_log
    _description: message_log.LogEntry | None = None
    _own_description: message_log.LogEntry | None = None
    _retention: Retention | None = None

    @property
    def namespace(self) -> Namespace:
        """Whose memory it is."""
        return namespace_of(self._at.path)

    def save_to_file(self, path: str | os.PathLike[str], additional_state: Mapping[str, Any] | None = None) -> None:
        """Write this memory to a JSON file, whole or not at all.

        Args:
            path: Where to. A file that is there is replaced.
            additional_state: What to keep beside it; JSON must be able to hold it. Default: nothing.

        Raises:
            InvalidInput: The additional state is not JSON, or the file cannot be written.
        """
        records = self._run("save", self._dump, trace_inputs(path=path))
        write_document(path, document_of(self.memory_type, records, additional_state))

    asave_to_file = awaited(save_to_file)

    def load_from_file(self, path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Take the place of what this memory holds with what a file holds.

        Args:
            path: A file that `save_to_file` wrote. A conversation and a managed one take each other's.

        Returns:
            The additional state in the file, or None.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind. This memory is as it was.
        """
        self._database.limits.check_file(path)
        document = read_document(path, *self._readable)
        now = self._now()

        def load(tx: Transaction) -> list[str]:
            from langchain_agentmem.conversations.conversation_part import restore  # noqa: PLC0415 - who needs it pays

            self._log.clear(tx, self._at, keep_description=False)
            entries = document["entries"]
            return restore(tx, self._at, entries, **now, into=self._log, following=False)

        keys = self._database.write(f"{self._part}.load", load, self._given_to(trace_inputs(path=path)))
        self._description = self._own_description = None  # the file's counts now
        self._announce(message_log.Appended(list(dict.fromkeys(keys)), []))
        return additional_in(document)

    aload_from_file = awaited(load_from_file, writes=True)

    # -- what the views of a log share -------------------------------------------------------------------------

    def _run(
        self,
        verb: str | None,
        do: Operation[T],
        inputs: Thunk | None = None,
        outputs: Outputs | None = None,
        *,
        write: bool = False,
    ) -> T:
        """Run an operation on the log as the step `<part>.<verb>`; other arguments as for `Database.read`."""
        run = self._database.write if write else self._database.read
        return run(verb and f"{self._part}.{verb}", do, self._given_to(inputs), outputs)

    def _given_to(self, more: Thunk | None = None) -> Thunk:
        """What a trace shows of a call: whose log it is about, and what else it was given."""
        return lambda: {
            "conversation_id": self._at.name,
            "namespace": list(self.namespace),
            **(more() if more else {}),
        }

    def _now(self) -> dict[str, int]:
        return {"now": self._database.now(), "tail": self._database.tail}

    def _append(self, entries: Sequence[message_log.LogEntry]) -> Operation[message_log.Appended]:
        now, retention = self._now(), self._retention
        return lambda tx: self._log.append(tx, self._at, entries, retention=retention, **now)

    def _announce(self, added: message_log.Appended) -> None:
        if added.keys:
            self._tell(lambda _: MessagesStored(**self._whose(), message_ids=tuple(added.keys)))
        self._announce_removal(added.dropped)

    def _announce_removal(self, keys: Sequence[str]) -> None:
        if keys:
            self._tell(lambda _: MessagesRemoved(**self._whose(), message_ids=tuple(keys)))

    def _announce_update(self, key: str | None) -> None:
        if key is not None:
            self._tell(lambda _: MessageUpdated(**self._whose(), message_id=key))

    def _announce_reset(self) -> None:
        now = self._database.clock()
        self._tell(lambda agent_name: MemoryResetEvent(agent_name=agent_name, timestamp=now))

    def _announce_unread(self, images: ImageFiles) -> None:
        for event in images.events(**self._whose()):
            self._tell(event)

    def _whose(self) -> dict[str, Any]:
        return {"namespace": self.namespace, "conversation_id": self._at.name}

    def _dump(self, tx: Transaction) -> list[dict[str, Any]]:
        from langchain_agentmem.conversations.conversation_part import dump  # noqa: PLC0415 - who needs it pays

        return dump(tx, self._at)


def checked_retention(retention: Any) -> Retention | None:
    """A retention that drops something, or None.

    Raises:
        InvalidInput: It is neither a `Retention` nor None.
    """
    if retention is not None and not isinstance(retention, Retention):
        raise InvalidInput(f"retention must be a Retention or None, not {safe_repr(retention)}.")
    return None if retention is None or retention.off else retention


def document_of(
    memory_type: str, records: Sequence[Mapping[str, Any]], additional_state: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What a file of a memory holds.

    Args:
        memory_type: The type of the memory.
        records: What it holds.
        additional_state: What the caller keeps beside it.

    Raises:
        InvalidInput: The additional state is no dictionary.
    """
    if additional_state is not None and not isinstance(additional_state, Mapping):
        raise InvalidInput(f"The additional state is a dictionary, not {type(additional_state).__name__}.")
    return {
        "format": FORMAT,
        "version": VERSION,
        "memory_type": memory_type,
        "entries": records,
        "additional_state": None if additional_state is None else dict(additional_state),
    }


def write_document(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Write the file of a memory, whole or not at all. A folder that is missing is made.

    Raises:
        InvalidInput: It is not JSON, or the file cannot be written.
    """
    try:
        text = json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"The additional state cannot be written as JSON: {error}.") from error
    with whole_file(path, make_folder=True) as file:
        file.write(text)


def read_document(path: str | os.PathLike[str], *memory_types: str) -> dict[str, Any]:
    """Read the file of a memory of one of these types.

    Raises:
        InvalidInput: The file is missing, damaged or of another kind.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"A saved memory is a file: give its path, not {type(path).__name__}.")
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{safe_repr(os.fspath(path))} cannot be read as a saved memory: {error}.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidInput(f"{safe_repr(os.fspath(path))} is not a saved memory.")
    if document.get("version") != VERSION:
        raise InvalidInput(f"{safe_repr(os.fspath(path))} was written by a newer version of langchain-agentmem.")
    if document.get("memory_type") not in memory_types:
        raise InvalidInput(
            f"{safe_repr(os.fspath(path))} holds a {safe_repr(document.get('memory_type'))} memory, not a "
            f"{' or '.join(map(repr, memory_types))} one."
        )
    if not isinstance(document.get("entries"), list):
        raise InvalidInput(f"{safe_repr(os.fspath(path))} is damaged: it has no entries.")
    return document


def additional_in(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state that the caller kept beside a memory, if any."""
    state = document.get("additional_state")
    return state if isinstance(state, dict) else None
