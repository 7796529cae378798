"""The base classes of conversations and sessions, and the files that store a memory.

The base classes run traced operations and emit events. A file contains one complete memory: ids, times, rounds,
attachments, earlier versions, and additional state of the caller.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from langchain_agentmem.base.argument_checks import Options, check_instance
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.files import write_atomically
from langchain_agentmem.base.hooks import EventContext
from langchain_agentmem.base.namespaces import Namespace, ThreadKey, namespace_of
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.storage import Operation
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import Thunk, drop_none

if TYPE_CHECKING:
    from langchain_agentmem.base.events import MemoryEvent
    from langchain_agentmem.conversations.session_memory import ThreadLog
    from langchain_agentmem.messages.role_rounds import Retention

T = TypeVar("T")


class EventSource:
    """A memory that emits events to hooks and an event bus. Subclasses can compact it."""

    _database: Database
    _event_context: EventContext | None = None

    def set_event_context(self, agent_name: str, event_bus: object, session_id: str | None = None) -> None:
        """Set the event bus that receives the events of this memory.

        Args:
            agent_name: The name of the agent that owns the memory. Events contain it.
            event_bus: An object with `emit(event)`, or a function that receives the event. None removes the event bus.
            session_id: The id of the run that the memory belongs to. Default: none.
        """
        self._event_context = None if event_bus is None else EventContext(agent_name, event_bus, session_id)

    def compact_if_needed(self, runtime: Mapping[str, Any] | None = None) -> bool:
        """Compact the context if it exceeds its threshold. Without a threshold, do nothing.

        Args:
            runtime: Objects that a compaction may use, such as a model. Default: none.

        Returns:
            True if the context was compacted.
        """
        del runtime
        return False

    acompact_if_needed = awaited(compact_if_needed, writes=True)

    def compact_for_payload_error(self, runtime: Mapping[str, Any] | None = None) -> bool:
        """Reduce the context after a provider refused the request as too large.

        A memory that cannot be compacted does nothing.

        Args:
            runtime: Objects that a compaction may use, such as a model. Default: none.

        Returns:
            True if the context is smaller now.
        """
        del runtime
        return False

    acompact_for_payload_error = awaited(compact_for_payload_error, writes=True)

    def _emit(self, event_class: Callable[..., MemoryEvent], **fields: Any) -> None:
        """Emit an event of a class to the hooks and the event bus, if there are any."""
        event = event_class(**fields)
        self._database.hooks.emit(event)
        if self._event_context is not None:
            self._event_context.emit(event)

    def _announce_reset(self) -> None:
        from langchain_agentmem.base.events import MemoryResetEvent  # noqa: PLC0415 - imported when needed

        agent_name = self._event_context.agent_name if self._event_context else ""
        self._emit(MemoryResetEvent, agent_name=agent_name, timestamp=self._database.clock())


class LogMemory(EventSource):
    """A memory whose content is the log of one conversation or thread.

    Attributes:
        memory_type: The name of the memory's type, as in `AgentMemory.create` and in files.
    """

    memory_type: str
    _trace_prefix: str  # the prefix of the names of traces
    _id_name = "conversation_id"  # the name of the conversation's id in traces
    _key: ThreadKey
    _log: ModuleType | ThreadLog = message_log  # the functions that read and write the log
    _retention: Retention | None = None

    @property
    def namespace(self) -> Namespace:
        """The namespace of the memory."""
        return namespace_of(self._key.path)

    # -- helpers for subclasses -------------------------------------------------------------------------------

    def _run(self, verb: str | None, operation: Operation[T], *, write: bool = False, **inputs: Any) -> T:
        """Run an operation on the log, traced as `<prefix>.<verb>`, or untraced without a verb."""
        run = self._database.write if write else self._database.read
        return run(verb and f"{self._trace_prefix}.{verb}", operation, self._traced_inputs(inputs))

    def _traced_inputs(self, inputs: Mapping[str, Any] = MappingProxyType({})) -> Thunk:
        """Return a function that returns the traced inputs, with the log's id and namespace."""
        return lambda: {self._id_name: self._key.name, "namespace": list(self.namespace), **drop_none(inputs)}

    def _now_argument(self) -> dict[str, int]:
        return {"now": self._database.now()}

    def _append_operation(self, entries: Sequence[message_log.LogEntry]) -> Operation[message_log.AppendResult]:
        now, retention = self._now_argument(), self._retention
        return lambda tx: self._log.append(tx, self._key, entries, retention=retention, **now)

    def _announce(self, event_class: Callable[..., MemoryEvent], **fields: Any) -> None:
        self._emit(event_class, namespace=self.namespace, conversation_id=self._key.name, **fields)

    def _announce_added(self, added: message_log.AppendResult) -> None:
        if not self._database.hooks and self._event_context is None:  # the events are not imported then
            return
        from langchain_agentmem.base.events import MessagesRemoved, MessagesStored  # noqa: PLC0415 - see above

        for event_class, keys in ((MessagesStored, added.keys), (MessagesRemoved, added.dropped)):
            if keys:
                self._announce(event_class, message_ids=tuple(keys))


def check_retention(retention: Any) -> Retention | None:
    """Validate a retention and return it. Return None if it has no limit.

    Raises:
        InvalidInput: The value is neither a `Retention` nor None.
    """
    if retention is None:
        return None
    from langchain_agentmem.messages.role_rounds import Retention  # noqa: PLC0415 - imported when needed

    checked = check_instance(Retention, retention, "retention")
    return None if checked is None or checked.is_off else checked


class SavedMemory(Options):
    """The content of a memory's file.

    Attributes:
        format: The identifier of this file format.
        version: The version of the file format.
        memory_type: The name of the memory's type.
        entries: The entries of the memory, as records.
        additional_state: Additional state of the caller. Default: None.
    """

    format: Literal["langchain-agentmem/memory"] = "langchain-agentmem/memory"
    version: Literal[1] = 1
    memory_type: str
    entries: list[dict[str, Any]]
    additional_state: dict[str, Any] | None = None


def write_document(
    path: str | os.PathLike[str],
    memory_type: str,
    entries: list[dict[str, Any]],
    additional_state: Mapping[str, Any] | None,
) -> None:
    """Write a memory to a file, completely or not at all. Create a missing folder.

    Args:
        path: The path of the file. An existing file is replaced.
        memory_type: The name of the memory's type.
        entries: The entries of the memory, as records.
        additional_state: Additional state of the caller, or None.

    Raises:
        InvalidInput: The additional state is not a dictionary, or not JSON; or the file cannot be written.
    """
    state: Any = dict(additional_state) if isinstance(additional_state, Mapping) else additional_state
    saved = SavedMemory(memory_type=memory_type, entries=entries, additional_state=state)
    try:
        text = json.dumps(dict(saved), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"additional_state cannot be written as JSON: {error}.") from error
    with write_atomically(path, make_folder=True) as file:
        file.write(text)


def read_document(path: str | os.PathLike[str], *memory_types: str) -> SavedMemory:
    """Read a memory from a file.

    Args:
        path: The path of the file.
        *memory_types: The types of memory to accept.

    Raises:
        InvalidInput: The file cannot be read, is damaged, or contains another type of memory.
    """
    try:
        saved = SavedMemory(**json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{safe_repr(path)} cannot be read as a saved memory: {error}") from error
    if saved.memory_type not in memory_types:
        raise InvalidInput(
            f"{safe_repr(path)} holds a {safe_repr(saved.memory_type)} memory, not a "
            f"{' or '.join(map(repr, memory_types))} one."
        )
    return saved
