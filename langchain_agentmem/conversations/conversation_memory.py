"""`ConversationMemory`: one conversation, as a chat history of LangChain and of the agent framework MARSYS.

The class implements LangChain's `BaseChatMessageHistory`, so it works wherever a chat history is accepted. It also has
the methods of a MARSYS memory, which return dictionaries that a provider accepts. The object keeps no messages: every
call reads or writes the database, so any number of objects, threads and processes can share one conversation.

    history = ConversationMemory("agent.db", "conversation-1")
    message_id = history.add(role="user", content="My name is Ada.")
    history.retrieve_recent(5)

Further methods edit messages. Adding a message again under its id changes nothing, so a step can be retried:

    from langchain_core.messages import AIMessage, HumanMessage

    from langchain_agentmem import ConversationMemory

    chat = ConversationMemory("agent.db", "tuesday", description="You are a kind assistant.")
    question = chat.add(role="user", content="Please book a table for two.")
    chat.add_messages([AIMessage("At which time?"), HumanMessage("At eight.")])

    chat.update(question, content="Please book a table for three.")
    print([version.message.content for version in chat.history_of(question)])
    print(chat.retrieve_recent(2))  # dictionaries that a provider accepts
    print(chat.messages)  # LangChain messages
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, Unpack

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_agentmem.base.argument_checks import check_flag
from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.concurrency import awaited, run_in_worker
from langchain_agentmem.base.namespaces import ThreadKey, check_id, path_of
from langchain_agentmem.conversations import log_entries, message_log
from langchain_agentmem.conversations.log_memory import LogMemory, check_retention, read_document, write_document
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, MessageError, safe_repr
from langchain_agentmem.messages.message import Message, MessageFields, MessageLike, column_role, decode_body
from langchain_agentmem.messages.provider_content import part_or_placeholder
from langchain_agentmem.storage import Operation, Transaction
from langchain_agentmem.storage.database import MemoryLike, database_of

if TYPE_CHECKING:
    from langchain_agentmem.conversations.compaction_records import CompactionRecord
    from langchain_agentmem.conversations.prompt_notes import PromptNote
    from langchain_agentmem.messages.role_rounds import Retention

T = TypeVar("T")
_FindEntries: TypeAlias = Operation[list[LogEntry]]


class MessageVersion(NamedTuple):
    """One version of a message.

    Attributes:
        message: The message.
        written_at: The time at which this version was written, in UTC.
    """

    message: Message
    written_at: datetime


class ConversationMemory(LogMemory, BaseChatMessageHistory):
    """A conversation in the database, and a LangChain chat history.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        conversation_id: The conversation's id. Its first message creates it. Default: a new id.
        namespace: The namespace of the conversation. Default: that of the running config, else the root.
        description: A system message to begin with, which `reset_memory` keeps. The first use writes it. A new text
            replaces an existing description. A conversation that began without one is not changed. Default: none.
        retention: The limit on the messages that are kept after each addition. Default: no limit.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    memory_type = "conversation_history"
    _readable_types = ("conversation_history", "managed_conversation")  # both have the same entries
    _trace_prefix = "conversation"

    def __init__(
        self,
        memory: MemoryLike = ":memory:",
        conversation_id: str | None = None,
        *,
        namespace: Sequence[str] | None = None,
        description: str | None = None,
        retention: Retention | None = None,
    ) -> None:
        self._database = database_of(memory)
        if conversation_id is None:
            conversation_id = f"conv-{self._database.new_id()}"
        self.conversation_id = check_id(conversation_id, "conversation")
        self._key = ThreadKey(path_of(self._database.scopes.resolve(namespace)), self.conversation_id)
        self._retention = check_retention(retention)
        entry = None if description is None else self._make_description(description)
        self._pending_description = self._own_description = entry  # written on first use, and again after a reset
        super().__init__()

    # -- adding ------------------------------------------------------------------------------------------------

    def add(self, /, message: MessageLike | None = None, **fields: Unpack[MessageFields]) -> str:
        """Add one message.

        Args:
            message: A `Message`, a LangChain message or a dictionary of `Message`'s fields. Default: none.
            **fields: Used without `message`: the fields `role` (required), `content` (text, a dictionary, or a
                list of content blocks), `name`, `tool_calls` and so on. `images` are paths or URLs; the file of a path
                is read and encoded when the message is retrieved.

        Returns:
            The message's id.

        Raises:
            MessageError: Neither message nor role is given, the message is malformed, or its id is taken by
                other content.
        """
        entry = self._make_entry(message, **fields)
        self._store([entry])
        return entry.key

    aadd = awaited(add, writes=True)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in one transaction: all of them or none.

        A message may contain its own time as `additional_kwargs["created_at"]`, a datetime or ISO text.

        Raises:
            MessageError: A message is malformed, or its id is taken by other content.
        """
        if not isinstance(messages, Iterable) or isinstance(messages, BaseMessage | Mapping | str):
            raise MessageError(f"messages must be a list of messages, not {type(messages).__name__}.")
        self._store([self._make_entry(message) for message in messages])

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Run `add_messages` asynchronously."""
        await run_in_worker(partial(self.add_messages, messages), writes=True)

    aadd_message = awaited(BaseChatMessageHistory.add_message, writes=True)

    def add_user_message(self, message: HumanMessage | str) -> None:
        """Add a user's message, as a message or as text."""
        self.add_message(HumanMessage(message) if isinstance(message, str) else message)

    aadd_user_message = awaited(add_user_message, writes=True)

    def add_ai_message(self, message: AIMessage | str) -> None:
        """Add a model's message, as a message or as text."""
        self.add_message(AIMessage(message) if isinstance(message, str) else message)

    aadd_ai_message = awaited(add_ai_message, writes=True)

    # -- changing ----------------------------------------------------------------------------------------------

    def update(self, /, message_id: str, **changes: Unpack[MessageFields]) -> None:
        """Change a message. The earlier version stays in `history_of`.

        Args:
            message_id: The message's id.
            **changes: Fields of `Message` with their new values; the others stay as they are.

        Raises:
            MessageError: No message has this id, or a change is malformed.
        """

        def change(old: LogEntry) -> LogEntry:
            message = log_entries.change_message(decode_body(old.body, old.key), changes)
            return log_entries.make_new_version(old, message)

        find = self._find_by_id(message_id, required=True)
        self._revise("update", find, change, message_id=message_id, changes=changes)

    aupdate = awaited(update, writes=True)

    def replace_memory(self, /, idx: int, message: MessageLike | None = None, **fields: Unpack[MessageFields]) -> None:
        """Replace the message at an index; its id stays.

        Args:
            idx: The index in `raw_messages`. Negative indexes count from the end.
            message: The new message. Default: none.
            **fields: `role`, `content` and other fields of `Message`, used without `message`.

        Raises:
            MessageError: The index does not exist, or neither message nor role is given.
        """
        new, _ = log_entries.parse_message(message, new_id=self._database.new_id, **fields)

        def change(old: LogEntry) -> LogEntry:
            return log_entries.make_new_version(old, replace(new, message_id=old.key))

        find = partial(self._find_at_index, idx=idx)
        self._revise("replace", find, change, index=idx, role=new.role, text=new.text)

    areplace_memory = awaited(replace_memory, writes=True)

    # -- removing ----------------------------------------------------------------------------------------------

    def remove_by_id(self, message_id: str) -> bool:
        """Remove a message and its earlier versions. Return whether it existed.

        Raises:
            MessageError: The value cannot be the id of a message.
        """
        return bool(self._remove(self._find_by_id(message_id), message_id=message_id))

    aremove_by_id = awaited(remove_by_id, writes=True)

    def delete_memory(self, idx: int) -> None:
        """Remove the message at an index.

        Args:
            idx: The index in `raw_messages`. Negative indexes count from the end.

        Raises:
            MessageError: The index does not exist.
        """
        self._remove(lambda tx: self._find_at_index(tx, idx), index=idx)

    adelete_memory = awaited(delete_memory, writes=True)

    def reset_memory(self) -> None:
        """Remove everything but the description, which stays as a system message."""
        description, now = self._own_description, self._now_argument()

        def reset(tx: Transaction) -> int:
            removed = message_log.clear(tx, self._key, keep_description=True)
            if description is not None:  # a description given after the first message was not stored
                message_log.set_description(tx, self._key, description, **now)
            return removed

        self._run("reset", reset, write=True)
        self._announce_reset()

    areset_memory = awaited(reset_memory, writes=True)

    def clear(self) -> None:
        """Remove everything: messages, the description, and the session's rounds and posts."""
        clear = partial(message_log.clear, at=self._key, keep_description=False)
        self._database.write("conversation.clear", clear, self._traced_inputs())
        self._pending_description = None
        self._announce_reset()

    async def aclear(self) -> None:
        """Run `clear` asynchronously."""
        await run_in_worker(self.clear, writes=True)

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # an attribute in the abstract class
        """The whole conversation as LangChain messages, a new list each time.

        Image files are read into the content. A file that cannot be read is replaced by a placeholder text, and logged
        as a warning.
        """
        return self.raw_messages

    async def aget_messages(self) -> list[BaseMessage]:
        """Run `messages` asynchronously."""
        return await self.araw_messages()

    @property
    def raw_messages(self) -> list[BaseMessage]:
        """All messages as LangChain messages, a new list each time.

        In a `ManagedConversationMemory`, `messages` returns only the context within the budget.
        """
        return self._raw_messages()

    async def araw_messages(self) -> list[BaseMessage]:
        """Run `raw_messages` asynchronously."""
        return await run_in_worker(self._raw_messages)

    def retrieve_all(self, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Return all messages in order, as dictionaries that a provider accepts.

        Image files are read into the content, as in `messages`.

        Args:
            include_ids: True to add `message_id`, which providers refuse. Default: False.
        """
        return self._retrieve_dicts(lambda tx: message_log.messages(tx, self._key), include_ids)

    aretrieve_all = awaited(retrieve_all)

    def get_messages(self) -> list[dict[str, Any]]:
        """Return the messages for a model: the same as `retrieve_all`."""
        return self.retrieve_all()

    aget_message_dicts = awaited(get_messages)  # the name `aget_messages` is LangChain's

    def retrieve_recent(self, n: int = 1, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Return the last messages, oldest first.

        Args:
            n: The number of messages; 0 returns none. Default: 1. If the first one is a tool's result, the call of the
                tool and the messages after the call are returned too, so the list is longer.
            include_ids: True to add `message_id`. Default: False.

        Raises:
            MessageError: `n` is negative or not a whole number.
        """
        limit = message_log.check_count("n", n, MessageError)
        return self._retrieve_dicts(lambda tx: message_log.recent_turns(tx, self._key, limit=limit), include_ids, n=n)

    aretrieve_recent = awaited(retrieve_recent)

    def retrieve_by_id(self, message_id: str, *, include_ids: bool = False) -> dict[str, Any] | None:
        """Return one message by its id, or None.

        Raises:
            MessageError: The value cannot be the id of a message.
        """
        dicts = self._retrieve_dicts(self._find_by_id(message_id), include_ids, message_id=message_id)
        return dicts[0] if dicts else None

    aretrieve_by_id = awaited(retrieve_by_id)

    def retrieve_by_role(self, role: str, n: int | None = None, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Return the messages of one role, oldest first.

        Args:
            role: "user", "assistant", "system", "tool" or another; LangChain's "human" and "ai" are accepted.
            n: The number of messages, counted from the end; 0 returns none. Default: all.
            include_ids: True to add `message_id`. Default: False.

        Raises:
            MessageError: The role is empty, or `n` is negative.
        """
        if not isinstance(role, str) or not role:
            raise MessageError(f"role must be a name such as 'user' or 'assistant', not {safe_repr(role)}.")
        limit = message_log.NO_LIMIT if n is None else message_log.check_count("n", n, MessageError)
        find = partial(message_log.recent, at=self._key, limit=limit, role=column_role(role))
        return self._retrieve_dicts(find, include_ids, role=role, n=n)

    aretrieve_by_role = awaited(retrieve_by_role)

    def around(self, message_id: str | None = None, *, before: int = 10, after: int = 10) -> list[Message]:
        """Return a message, such as a search hit, and its neighbours, in conversation order.

        Args:
            message_id: The message's id. Default: none; then the last `before` messages are returned.
            before: The maximum number of messages before it. Default: 10.
            after: The maximum number of messages after it. Default: 10.

        Returns:
            The messages. `created_at` has the time of each.

        Raises:
            MessageError: No message has this id, or a number is negative.
        """
        arguments = {"before": before, "after": after}
        counts = {name: message_log.check_count(name, number, MessageError) for name, number in arguments.items()}
        key = None if message_id is None else check_id(message_id, "message", MessageError)
        recent = partial(message_log.recent, at=self._key, limit=counts["before"])
        find = recent if key is None else lambda tx: message_log.messages_around(tx, self._key, key, **counts)

        def to_message(entry: LogEntry) -> Message:
            return replace(decode_body(entry.body, entry.key), created_at=from_micros(entry.created_at))

        return self._read_entries(find, to_message, message_id=message_id, **counts)

    aaround = awaited(around)

    def history_of(self, message_id: str) -> list[MessageVersion]:
        """Return every version of a message, oldest first; the last one is the current one.

        Raises:
            MessageError: No message has this id.
        """
        key = check_id(message_id, "message", MessageError)
        entries = self._run("history", lambda tx: message_log.history(tx, self._key, key), message_id=message_id)
        versions = [entry for entry in entries if entry.kind != message_log.ROUND]
        if not versions:
            raise message_log.unknown_key_error(key, self._key)
        return [MessageVersion(decode_body(entry.body, entry.key), from_micros(entry.written_at)) for entry in versions]

    ahistory_of = awaited(history_of)

    def prompt_notes(self, message_id: str | list[str] | tuple[str, ...] | None = None) -> list[PromptNote]:
        """Return the notes on memory and experiences in the prompts of this conversation's thread.

        Notes are kept for 30 days. They contain ids, scores and signals, but not the texts.

        Args:
            message_id: The id of a message, or a list of ids, to limit the notes to. Default: all.

        Returns:
            The notes, oldest first. Each lists the items that were inserted before one message.

        Raises:
            MessageError: A value cannot be the id of a message.
        """
        from langchain_agentmem.conversations import prompt_notes  # noqa: PLC0415 - imported when needed

        message_ids = message_id if message_id is None or isinstance(message_id, list | tuple) else [message_id]
        keys = None if message_ids is None else [check_id(value, "message", MessageError) for value in message_ids]
        after = self._database.now() - prompt_notes.NOTE_LIFETIME
        load_notes = partial(prompt_notes.read_notes, at=self._key, keys=keys, after=after)
        notes = [note for note in self._run("prompt_notes", load_notes, message_id=message_id) if note.items]
        return [replace(note, reader=note.reader.replace("\x1f", "/")) for note in notes]  # namespaces as paths

    aprompt_notes = awaited(prompt_notes)

    def compactions(self, limit: int = 10) -> list[CompactionRecord]:
        """Return the compactions of this conversation, and of the thread with the same id.

        Args:
            limit: The maximum number of records. Default: 10.

        Returns:
            The records, newest first. Records that cover messages which a rewind has hidden are included.

        Raises:
            MessageError: The limit is negative or not a whole number.
            StorageError: A record is damaged.
        """
        from langchain_agentmem.conversations import compaction_records  # noqa: PLC0415 - imported when needed

        count = message_log.check_count("limit", limit, MessageError)
        return self._run("compactions", lambda tx: compaction_records.load_newest(tx, self._key, count))

    acompactions = awaited(compactions)

    # -- files -------------------------------------------------------------------------------------------------

    def save_to_file(self, path: str | os.PathLike[str], additional_state: Mapping[str, Any] | None = None) -> None:
        """Write this conversation and the session of its id to a JSON file.

        The file is written completely or not at all.

        Args:
            path: The file. An existing file is replaced.
            additional_state: JSON-able data of the caller to store in the file. Default: none.

        Raises:
            InvalidInput: The additional state is not JSON, or the file cannot be written.
        """
        from langchain_agentmem.conversations.conversation_part import dump_records  # noqa: PLC0415 - on use

        entries = self._run("save", lambda tx: dump_records(tx, self._key), path=path)
        write_document(path, self.memory_type, entries, additional_state)

    asave_to_file = awaited(save_to_file)

    def load_from_file(self, path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Replace this conversation, and the session of its id, by the content of a file.

        Args:
            path: A file that `save_to_file` wrote. Conversations and managed conversations can exchange files.

        Returns:
            The additional state in the file, or None.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind. This memory stays unchanged.
        """
        from langchain_agentmem.conversations.conversation_part import restore_records  # noqa: PLC0415 - on use

        self._database.limits.check_file(path)
        saved = read_document(path, *self._readable_types)
        now = self._now_argument()

        def load(tx: Transaction) -> list[str]:
            message_log.clear(tx, self._key, keep_description=False)
            return restore_records(tx, self._key, saved.entries, **now, has_thread=False)

        keys = self._database.write(f"{self._trace_prefix}.load", load, self._traced_inputs({"path": str(path)}))
        self._pending_description = self._own_description = None  # the description of the file replaces it
        self._announce_added(message_log.AppendResult(list(dict.fromkeys(keys)), []))
        return saved.additional_state

    aload_from_file = awaited(load_from_file, writes=True)

    def __len__(self) -> int:
        return self._run(None, lambda tx: message_log.count_messages(tx, self._key))

    def __bool__(self) -> bool:
        return True  # a conversation without messages is still a conversation

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _run(self, verb: str | None, operation: Operation[T], *, write: bool = False, **inputs: Any) -> T:
        """Run an operation on the log. Before that, write the description if it is not stored yet."""
        if (description := self._pending_description) is None:
            return super()._run(verb, operation, write=write, **inputs)
        now = self._now_argument()

        def describe_first(tx: Transaction) -> T:
            message_log.set_description(tx, self._key, description, **now)
            return operation(tx)

        # Read before writing, so that a reader does not wait for a writer if the description exists.
        if not write and not self._database.read(None, lambda tx: message_log.is_described(tx, self._key, description)):
            self._database.write(None, lambda tx: message_log.set_description(tx, self._key, description, **now))
        result = super()._run(verb, describe_first if write else operation, write=write, **inputs)
        self._pending_description = None
        return result

    def _store(self, entries: Sequence[LogEntry]) -> None:
        """Store messages, except messages of injected memory, which is stored already."""
        if new_entries := [entry for entry in entries if not log_entries.has_injected_memory(entry)]:
            append = self._append_operation(new_entries)
            self._announce_added(self._run("add", append, write=True, messages=new_entries))

    def _revise(self, verb: str, find: _FindEntries, change: Callable[[LogEntry], LogEntry], **inputs: Any) -> None:
        """Store a new version of the message that `find` returns. `inputs` are for the trace."""

        def operation(tx: Transaction) -> str | None:
            [old] = find(tx)
            if not message_log.update(tx, self._key, old.key, change, **self._now_argument()):
                return None
            message_log.delete_compactions(tx, self._key, old)
            return old.key

        if (changed_key := self._run(verb, operation, write=True, **inputs)) is not None:
            from langchain_agentmem.base.events import MessageUpdated  # noqa: PLC0415 - imported when needed

            self._announce(MessageUpdated, message_id=changed_key)

    def _remove(self, find: _FindEntries, **inputs: Any) -> list[str]:
        def operation(tx: Transaction) -> list[str]:
            entries = find(tx)
            for entry in entries:
                message_log.delete_compactions(tx, self._key, entry)
            return message_log.remove(tx, self._key, [entry.key for entry in entries])

        if removed := self._run("remove", operation, write=True, **inputs):
            from langchain_agentmem.base.events import MessagesRemoved  # noqa: PLC0415 - imported when needed

            self._announce(MessagesRemoved, message_ids=tuple(removed))
        return removed

    def _find_by_id(self, message_id: Any, *, required: bool = False) -> _FindEntries:
        """Return the operation that finds a message by its id.

        The operation ignores a round with this id. If there is no message, it returns an empty list, or raises
        MessageError if `required` is true.
        """
        key = check_id(message_id, "message", MessageError)

        def operation(tx: Transaction) -> list[LogEntry]:
            entry = message_log.get(tx, self._key, key)
            if entry is not None and entry.kind != message_log.ROUND:
                return [entry]
            if required:
                raise message_log.unknown_key_error(key, self._key)
            return []

        return operation

    def _find_at_index(self, tx: Transaction, idx: Any) -> list[LogEntry]:
        if isinstance(idx, bool) or not isinstance(idx, int):
            raise MessageError(f"The index must be a whole number, not {safe_repr(idx)}.")
        entry = None if abs(idx) > message_log.NO_LIMIT else message_log.find_message_at(tx, self._key, idx)
        if entry is None:
            raise MessageError(f"The conversation {safe_repr(self._key.name)} has no message at index {idx}.")
        return [entry]

    def _raw_messages(self) -> list[BaseMessage]:
        return self._read_entries(lambda tx: message_log.messages(tx, self._key), log_entries.to_langchain_message)

    def _retrieve_dicts(self, find: _FindEntries, include_ids: bool, **inputs: Any) -> list[dict[str, Any]]:  # noqa: FBT001
        """Run an operation and return its messages as dictionaries for a provider."""
        check_flag("include_ids", include_ids)

        def to_dict(entry: LogEntry) -> dict[str, Any]:
            message = log_entries.message_with_images(entry.body, entry.key, entry.attachments)
            return message.to_llm_dict(include_id=include_ids, part_of=part_or_placeholder)

        return self._read_entries(find, to_dict, **inputs)

    def _read_entries(self, find: _FindEntries, convert: Callable[[LogEntry], T], **inputs: Any) -> list[T]:
        """Run an operation and convert its entries by `convert`, which may read image files."""
        return self._run("retrieve", lambda tx: list(map(convert, find(tx))), **inputs)

    def _make_entry(self, message: Any, **fields: Any) -> LogEntry:
        now, new_id = self._database.now(), self._database.new_id
        if (entry := log_entries.make_plain_entry(message, now, new_id)) is not None:
            return entry
        set_fields = {name: value for name, value in fields.items() if value is not None}
        parsed, new_key = log_entries.parse_message(message, new_id=new_id, **set_fields)
        return log_entries.make_entry(parsed, now, new_key=new_key)

    def _make_description(self, description: str) -> LogEntry:
        if not isinstance(description, str):
            raise InvalidInput(f"description must be a text, not {type(description).__name__}.")
        return self._make_entry(None, role="system", content=description)._replace(kind=message_log.DESCRIPTION)
