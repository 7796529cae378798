"""`ConversationMemory`: one conversation, as documents 001 and 003 use it and as LangChain uses it.

It is LangChain's `BaseChatMessageHistory`, so it works wherever a chat history is asked for, and it has the
methods of the documents, which give dictionaries that a provider accepts. Both see the same log. Nothing is
kept in the object: every call reads or writes the database, so that any number of objects, threads and
processes can share one conversation.

    history = ConversationMemory("agent.db", "conversation-1")
    message_id = history.add(role="user", content="My name is Ada.")
    history.retrieve_recent(5)

It has the editing methods that a `BaseChatMessageHistory` lacks, and adding the same message twice under one id
changes nothing, so a retried step does no harm:

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

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_agentmem.base.apart import aside
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import id_of, path_of, resolve
from langchain_agentmem.conversations import log_entries, message_log, message_queries
from langchain_agentmem.conversations.log_entries import brings_memory, entry_of, message_of
from langchain_agentmem.conversations.persistence import LogCall, Saved, checked_retention
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput, MessageError
from langchain_agentmem.messages import ImageFiles, Message, decode_body
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Operation, Steps
from langchain_agentmem.storage.database import Database, HasDatabase, database_of
from langchain_agentmem.tracing import brief

if TYPE_CHECKING:
    from langchain_agentmem.language_models.tokens import TokenCounter

T = TypeVar("T")


class MessageVersion(NamedTuple):
    """One version of a message.

    Attributes:
        message: What it said.
        written_at: When this version was written, in UTC.
    """

    message: Message
    written_at: datetime


class ConversationMemory(Saved, BaseChatMessageHistory):
    """A conversation in the database (documents 001 and 003), and a LangChain chat history.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        conversation_id: Which conversation. It begins to exist with its first message. Default: a new one.
        namespace: Whose it is. Default: the running config's, else the root.
        description: A system message to begin with, kept by `reset_memory`. It is written with the first use; a
            conversation whose description has another text is given the new one. Default: none.
        retention: Which messages to keep after each addition. Default: all, for ever.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    memory_type = "conversation_history"
    _readable = ("conversation_history", "managed_conversation")  # both are one log
    _part = "conversation"

    def __init__(
        self,
        memory: HasDatabase | Database | str | os.PathLike[str] = ":memory:",
        conversation_id: str | None = None,
        *,
        namespace: Sequence[str] | None = None,
        description: str | None = None,
        retention: Retention | None = None,
    ) -> None:
        self._database = database_of(memory)
        if conversation_id is None:
            conversation_id = f"conv-{self._database.new_id()}"
        self.conversation_id = id_of(conversation_id, "conversation")
        self._at = message_log.Address(path_of(resolve(namespace)), self.conversation_id)
        self._retention = checked_retention(retention)
        self._description = self._own_description = None if description is None else self._described(description)
        super().__init__()

    # -- adding ------------------------------------------------------------------------------------------------

    def add(
        self,
        message: Message | BaseMessage | Mapping[str, Any] | None = None,
        *,
        role: str | None = None,
        content: Any = None,
        name: str | None = None,
        tool_calls: Sequence[Any] | None = None,
        agent_calls: Sequence[Any] | None = None,
        images: Sequence[str] | None = None,
        tool_call_id: str | None = None,
    ) -> str:
        """Add one message (documents 001 and 003).

        Args:
            message: A `Message`, a LangChain message or a dictionary of `Message`'s fields. It takes precedence.
            role: "user", "assistant", "system", "tool", or another; needed when there is no `message`.
            content: Text, a dictionary, or a list of content blocks.
            name: The name of the speaker or of the tool.
            tool_calls: Tool calls, as values or dictionaries.
            agent_calls: Agent calls, as values or dictionaries.
            images: Paths or URLs. A path is kept as a path and encoded when the message is retrieved.
            tool_call_id: Which call a tool's message answers; it may also stand in the content.

        Returns:
            The message's id.

        Raises:
            MessageError: Neither message nor role is given, the message is malformed, or its id is taken by
                other content.
        """
        entry = self._given(
            message,
            role=role,
            content=content,
            name=name,
            tool_calls=tool_calls,
            agent_calls=agent_calls,
            images=images,
            tool_call_id=tool_call_id,
        )
        self._store([entry])
        return entry.key

    async def aadd(
        self,
        message: Message | BaseMessage | Mapping[str, Any] | None = None,
        *,
        role: str | None = None,
        content: Any = None,
        name: str | None = None,
        tool_calls: Sequence[Any] | None = None,
        agent_calls: Sequence[Any] | None = None,
        images: Sequence[str] | None = None,
        tool_call_id: str | None = None,
    ) -> str:
        """`add`, awaited."""
        entry = await aside(
            self._given,
            message,
            role=role,
            content=content,
            name=name,
            tool_calls=tool_calls,
            agent_calls=agent_calls,
            images=images,
            tool_call_id=tool_call_id,
        )
        await self._astore([entry])
        return entry.key

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in one transaction: all of them or none.

        A message's own time may be given as `additional_kwargs["created_at"]`, a datetime or ISO text.

        Raises:
            MessageError: A message is malformed, or its id is taken by other content.
        """
        self._store(self._entries(messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """`add_messages`, awaited."""
        await self._astore(await aside(self._entries, messages))

    async def aadd_message(self, message: BaseMessage) -> None:
        """`add_message`, awaited."""
        await self.aadd_messages([message])

    def add_user_message(self, message: HumanMessage | str) -> None:
        """Add what a user says: a message or its text."""
        self.add_message(HumanMessage(message) if isinstance(message, str) else message)

    def add_ai_message(self, message: AIMessage | str) -> None:
        """Add what a model says: a message or its text."""
        self.add_message(AIMessage(message) if isinstance(message, str) else message)

    async def aadd_user_message(self, message: HumanMessage | str) -> None:
        """`add_user_message`, awaited."""
        await self.aadd_message(HumanMessage(message) if isinstance(message, str) else message)

    async def aadd_ai_message(self, message: AIMessage | str) -> None:
        """`add_ai_message`, awaited."""
        await self.aadd_message(AIMessage(message) if isinstance(message, str) else message)

    # -- changing ----------------------------------------------------------------------------------------------

    def update(self, message_id: str, **changes: Any) -> None:
        """Change a message; the version before is kept, see `history_of`.

        Args:
            message_id: Which message.
            **changes: Fields of `Message` with their new values; the others stay as they are.

        Raises:
            MessageError: No message has this id, or a change is malformed.
        """
        self._announce_update(self._write(self._updating(message_id, changes)))

    async def aupdate(self, message_id: str, **changes: Any) -> None:
        """`update`, awaited."""
        self._announce_update(await self._awrite(await aside(self._updating, message_id, changes)))

    def replace_memory(self, idx: int, message: Message | BaseMessage | None = None, **fields: Any) -> None:
        """Put other content in the place of the message at an index; its id stays (document 003).

        Args:
            idx: The index in `raw_messages`; a negative one counts from the end.
            message: The new message, or:
            **fields: `role`, `content` and other fields of `Message`.

        Raises:
            MessageError: There is no such index, or neither message nor role is given.
        """
        self._announce_update(self._write(self._replacing(idx, message, fields)))

    async def areplace_memory(self, idx: int, message: Message | BaseMessage | None = None, **fields: Any) -> None:
        """`replace_memory`, awaited."""
        self._announce_update(await self._awrite(await aside(self._replacing, idx, message, fields)))

    # -- removing ----------------------------------------------------------------------------------------------

    def remove_by_id(self, message_id: str) -> bool:
        """Remove a message and its earlier versions. Returns whether it was there.

        Raises:
            MessageError: This cannot be the id of a message.
        """
        removed = self._write(self._removing(message_queries.remove(self._at, message_id), message_id=message_id))
        self._announce_removal(removed)
        return bool(removed)

    async def aremove_by_id(self, message_id: str) -> bool:
        """`remove_by_id`, awaited."""
        removed = await self._awrite(
            self._removing(message_queries.remove(self._at, message_id), message_id=message_id)
        )
        self._announce_removal(removed)
        return bool(removed)

    def delete_memory(self, idx: int) -> None:
        """Remove the message at an index (document 003).

        Args:
            idx: The index in `raw_messages`; a negative one counts from the end.

        Raises:
            MessageError: There is no such index.
        """
        self._announce_removal(self._write(self._removing(message_queries.delete(self._at, idx), index=idx)))

    async def adelete_memory(self, idx: int) -> None:
        """`delete_memory`, awaited."""
        self._announce_removal(await self._awrite(self._removing(message_queries.delete(self._at, idx), index=idx)))

    def reset_memory(self) -> None:
        """Remove everything but the description, which stays as system message (documents 001 and 003)."""
        self._write(self._resetting())
        self._announce_reset()

    async def areset_memory(self) -> None:
        """`reset_memory`, awaited."""
        await self._awrite(self._resetting())
        self._announce_reset()

    def clear(self) -> None:
        """Remove everything, the description too. Rounds and posts of the session of this id go with it."""
        super()._write(self._clearing())
        self._description = None
        self._announce_reset()

    async def aclear(self) -> None:
        """`clear`, awaited."""
        await super()._awrite(self._clearing())
        self._description = None
        self._announce_reset()

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # an attribute in the abstract class
        """The whole conversation as LangChain messages, a new list each time.

        Image files are read into the content. In place of one that cannot be read stands a text that says so, and an
        `ImageUnreadable` is told.
        """
        return self.raw_messages

    async def aget_messages(self) -> list[BaseMessage]:
        """`messages`, awaited."""
        return await self.araw_messages()

    @property
    def raw_messages(self) -> list[BaseMessage]:
        """Everything ever said, as LangChain messages, whatever `messages` shows of it; a new list each time."""
        images = ImageFiles()
        found = self._read(self._messages(images))
        self._announce_unread(images)
        return found

    async def araw_messages(self) -> list[BaseMessage]:
        """`raw_messages`, awaited."""
        images = ImageFiles()
        found = await self._aread(self._messages(images))
        self._announce_unread(images)
        return found

    def retrieve_all(self, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Every message in order, as dictionaries that a provider accepts.

        Image files are read into them, as into `messages`.

        Args:
            include_ids: Whether to add `message_id`, which providers refuse. Default: no.
        """
        return self._told(self._all, include_ids)

    async def aretrieve_all(self, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """`retrieve_all`, awaited."""
        return await self._atold(self._all, include_ids)

    def get_messages(self) -> list[dict[str, Any]]:
        """Give the messages for a model: the same as `retrieve_all` (document 003)."""
        return self.retrieve_all()

    async def aget_message_dicts(self) -> list[dict[str, Any]]:
        """`get_messages`, awaited; the name `aget_messages` is LangChain's."""
        return await self.aretrieve_all()

    def retrieve_recent(self, n: int = 1, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """The last messages, oldest first.

        Args:
            n: How many; 0 gives none.
            include_ids: Whether to add `message_id`. Default: no.

        Raises:
            MessageError: `n` is negative or not a whole number.
        """
        return self._told(message_queries.recent(self._at, n), include_ids, n=n)

    async def aretrieve_recent(self, n: int = 1, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """`retrieve_recent`, awaited."""
        return await self._atold(message_queries.recent(self._at, n), include_ids, n=n)

    def retrieve_by_id(self, message_id: str, *, include_ids: bool = False) -> dict[str, Any] | None:
        """One message by its id, or None (document 003).

        Raises:
            MessageError: This cannot be the id of a message.
        """
        found = self._told(message_queries.by_id(self._at, message_id), include_ids, message_id=message_id)
        return found[0] if found else None

    async def aretrieve_by_id(self, message_id: str, *, include_ids: bool = False) -> dict[str, Any] | None:
        """`retrieve_by_id`, awaited."""
        found = await self._atold(message_queries.by_id(self._at, message_id), include_ids, message_id=message_id)
        return found[0] if found else None

    def retrieve_by_role(self, role: str, n: int | None = None, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """The messages of one role, oldest first.

        Args:
            role: "user", "assistant", "system", "tool" or another; LangChain's "human" and "ai" are understood.
            n: Only the last so many; 0 gives none. Default: all.
            include_ids: Whether to add `message_id`. Default: no.

        Raises:
            MessageError: The role is empty, or `n` is negative.
        """
        return self._told(message_queries.of_role(self._at, role, n), include_ids, role=role, n=n)

    async def aretrieve_by_role(
        self, role: str, n: int | None = None, *, include_ids: bool = False
    ) -> list[dict[str, Any]]:
        """`retrieve_by_role`, awaited."""
        return await self._atold(message_queries.of_role(self._at, role, n), include_ids, role=role, n=n)

    def around(self, message_id: str | None = None, *, before: int = 10, after: int = 10) -> list[Message]:
        """A message and its neighbours, in the order they were said: where a search found something, or the end.

        Args:
            message_id: Which message. Default: none; then the last `before` messages.
            before: Most messages before it. Default: 10.
            after: Most messages after it. Default: 10.

        Returns:
            The messages, each with `created_at`, the time at which it was said.

        Raises:
            MessageError: No message has this id, or a number is negative.
        """
        return self._read(self._neighbours(message_id, before, after))

    async def aaround(self, message_id: str | None = None, *, before: int = 10, after: int = 10) -> list[Message]:
        """`around`, awaited."""
        return await self._aread(self._neighbours(message_id, before, after))

    def history_of(self, message_id: str) -> list[MessageVersion]:
        """Every version of a message, oldest first; the last one is what the conversation shows.

        Raises:
            MessageError: No message has this id.
        """
        return _versions(self._read(self._history(message_id)))

    async def ahistory_of(self, message_id: str) -> list[MessageVersion]:
        """`history_of`, awaited."""
        return await aside(_versions, await self._aread(self._history(message_id)))

    def __len__(self) -> int:
        return self._read(self._counting())

    def __bool__(self) -> bool:
        return True  # a conversation without messages is still a conversation

    def count_tokens(self, counter: Any = None, *, tools: Sequence[Any] | None = None, system: Any = None) -> int:
        """How many tokens the whole conversation takes in a prompt.

        Counts are kept with the messages, so that only new messages are counted. Those of a counter of your own are
        not: it may count otherwise tomorrow.

        Args:
            counter: A `TokenCounter`, or anything one can be made of: a function, a LangChain model. Default:
                `TokenCounter()`; for a managed conversation, what its configuration counts with.
            tools: Tool schemas that go with the prompt.
            system: A system prompt that goes with it.
        """
        counting, kept_as = self._counted_by(counter)
        with self._database.tracing.step("memory.conversation.count_tokens", inputs=self._given_to()) as step:
            rows = self._read(_unshown("count", lambda: message_log.counted(self._at, kept_as)))
            total, new = message_queries.count_tokens(counting, rows)
            if new and kept_as:
                with suppress(DatabaseReadOnly):  # it is counted all the same
                    self._write(_unshown("count", lambda: message_log.keep_token_counts(kept_as, new)))
            tokens = _with(counting, total, tools=tools, system=system)
            step.finish(lambda: {"messages": len(rows), "tokens": tokens})
        return tokens

    async def acount_tokens(
        self, counter: Any = None, *, tools: Sequence[Any] | None = None, system: Any = None
    ) -> int:
        """`count_tokens`, awaited."""
        in_thread = self._database.engine.in_thread  # counting is work, and a counter may be a model far away
        counting, kept_as = await in_thread(self._counted_by, counter, write=False)
        total: int
        async with self._database.tracing.step("memory.conversation.count_tokens", inputs=self._given_to()) as step:
            rows = await self._aread(_unshown("count", lambda: message_log.counted(self._at, kept_as)))
            total, new = await in_thread(message_queries.count_tokens, counting, rows, write=False)
            if new and kept_as:
                with suppress(DatabaseReadOnly):  # it is counted all the same
                    await self._awrite(_unshown("count", lambda: message_log.keep_token_counts(kept_as, new)))
            whole = partial(_with, counting, total, tools=tools, system=system)
            tokens: int = await in_thread(whole, write=False)
            step.finish(lambda: {"messages": len(rows), "tokens": tokens})
        return tokens

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _read(self, call: LogCall[T]) -> T:
        if self._description is not None:
            self._description = self._database.engine.read(partial(self._undescribed, self._description))
        return super()._read(call) if self._description is None else self._write(call)

    async def _aread(self, call: LogCall[T]) -> T:
        if self._description is not None:
            self._description = await self._database.engine.aread(partial(self._undescribed, self._description))
        return await (super()._aread(call) if self._description is None else self._awrite(call))

    def _undescribed(self, description: message_log.Entry) -> Steps[message_log.Entry | None]:
        """The description, if it has to be written: a reader does not wait for a writer to find that it is there."""
        return None if (yield from message_log.is_described(self._at, description)) else description

    def _write(self, call: LogCall[T]) -> T:
        value = super()._write(call._replace(make=self._begun(call.make)))
        self._description = None
        return value

    async def _awrite(self, call: LogCall[T]) -> T:
        value = await super()._awrite(call._replace(make=self._begun(call.make)))
        self._description = None
        return value

    def _begun(self, make: Operation[T]) -> Operation[T]:
        """The operation, after the description where that is not written yet."""
        if (description := self._description) is None:
            return make
        now = self._now()

        def steps() -> Steps[T]:
            yield from message_log.describe(self._at, description, **now)
            return (yield from make())

        return steps

    def _resetting(self) -> LogCall[int]:
        description, now = self._own_description, self._now()

        def steps() -> Steps[int]:
            removed = yield from message_log.clear(self._at, keep_description=True)
            if description is not None:  # one that came late had no place before what was said already
                yield from message_log.describe(self._at, description, **now)
            return removed

        return LogCall("reset", steps, outputs=log_entries.trace_cleared)

    def _clearing(self) -> LogCall[int]:
        return LogCall(
            "clear", partial(message_log.clear, self._at, keep_description=False), outputs=log_entries.trace_cleared
        )

    def _adding(self, said: Sequence[message_log.Entry]) -> LogCall[message_log.Appended]:
        return LogCall("add", self._append(said), lambda: log_entries.trace_entries(said), log_entries.trace_appended)

    def _store(self, entries: Sequence[message_log.Entry]) -> None:
        """Whatever adds messages comes through here. What `inject` brought into a context is not stored again."""
        if said := _said(entries):
            self._announce(self._write(self._adding(said)))

    async def _astore(self, entries: Sequence[message_log.Entry]) -> None:
        if said := await aside(_said, entries):
            self._announce(await self._awrite(await aside(self._adding, said)))

    def _all(self) -> Steps[list[message_log.Stored]]:
        return message_log.messages(self._at)

    def _messages(self, images: ImageFiles) -> LogCall[list[BaseMessage]]:
        return LogCall("retrieve", message_queries.as_langchain(self._all, images), outputs=log_entries.trace_messages)

    def _told(
        self,
        found: Operation[list[message_log.Stored]],
        include_ids: bool,  # noqa: FBT001 - passed on
        **asked: Any,
    ) -> list[dict[str, Any]]:
        """What an operation finds, as dictionaries for a provider."""
        images = ImageFiles()
        dicts = self._read(_dicts(found, images, include_ids, asked))
        self._announce_unread(images)
        return dicts

    async def _atold(
        self,
        found: Operation[list[message_log.Stored]],
        include_ids: bool,  # noqa: FBT001 - passed on
        **asked: Any,
    ) -> list[dict[str, Any]]:
        images = ImageFiles()
        dicts = await self._aread(_dicts(found, images, include_ids, asked))
        self._announce_unread(images)
        return dicts

    def _neighbours(self, message_id: str | None, before: int, after: int) -> LogCall[list[Message]]:
        inputs = log_entries.trace_inputs(message_id=message_id, before=before, after=after)
        return LogCall(
            "retrieve", message_queries.around(self._at, message_id, before, after), inputs, log_entries.trace_values
        )

    def _history(self, message_id: str) -> LogCall[list[message_log.Stored]]:
        return LogCall(
            "history", message_queries.versions(self._at, message_id), log_entries.trace_inputs(message_id=message_id)
        )

    def _counter_of(self, counter: Any) -> TokenCounter:
        """What counts the tokens of this conversation where a caller gave this."""
        from langchain_agentmem.language_models.tokens import TokenCounter  # noqa: PLC0415 - only those who count pay for its tables

        return counter if isinstance(counter, TokenCounter) else TokenCounter(counter)

    def _counted_by(self, counter: Any) -> tuple[TokenCounter, str]:
        """The same, and under which name its counts are kept."""
        counting = self._counter_of(counter)
        return counting, counting.kept_as or ""

    def _counting(self) -> LogCall[int]:
        return _unshown("count", partial(message_log.count, self._at))

    def _updating(self, message_id: str, changes: Mapping[str, Any]) -> LogCall[str | None]:
        def inputs() -> dict[str, Any]:
            return {"message_id": message_id, "changes": log_entries.trace_fields(changes)}

        make = message_queries.change(self._at, message_id, changes, **self._now())
        return LogCall("update", make, inputs, log_entries.trace_changed)

    def _replacing(self, idx: int, message: Any, fields: Mapping[str, Any]) -> LogCall[str | None]:
        new, _ = message_of(message, new_id=self._database.new_id, **fields)

        def inputs() -> dict[str, Any]:
            return {"index": idx, "role": new.role, "text": brief(new.text)}

        return LogCall(
            "replace", message_queries.replace(self._at, idx, new, **self._now()), inputs, log_entries.trace_changed
        )

    def _removing(self, make: Operation[list[str]], **which: Any) -> LogCall[list[str]]:
        return LogCall("remove", make, log_entries.trace_inputs(**which), log_entries.trace_removed)

    def _given(self, message: Any, **fields: Any) -> message_log.Entry:
        given = {name: value for name, value in fields.items() if value is not None}
        made, new_key = message_of(message, new_id=self._database.new_id, **given)
        return entry_of(made, self._database.now(), new_key=new_key)

    def _entries(self, messages: Iterable[BaseMessage]) -> list[message_log.Entry]:
        if not isinstance(messages, Iterable):
            raise MessageError(f"Messages come as a list, not as {type(messages).__name__}.")
        return [self._given(_not_none(message)) for message in messages]

    def _described(self, description: str) -> message_log.Entry:
        if not isinstance(description, str):
            raise InvalidInput(f"A description is text, not {type(description).__name__}.")
        return self._given(None, role="system", content=description)._replace(kind=message_log.DESCRIPTION)


def _unshown(verb: str, make: Operation[T]) -> LogCall[T]:
    return LogCall(verb, make, shown=False)


def _dicts(
    found: Operation[list[message_log.Stored]],
    images: ImageFiles,
    include_ids: bool,  # noqa: FBT001 - passed on
    asked: Mapping[str, Any],
) -> LogCall[list[dict[str, Any]]]:
    make = message_queries.as_dicts(found, images, include_ids=include_ids)
    return LogCall("retrieve", make, log_entries.trace_inputs(**asked), log_entries.trace_dicts)


def _said(entries: Sequence[message_log.Entry]) -> list[message_log.Entry]:
    return [entry for entry in entries if not brings_memory(entry)]


def _not_none(message: Any) -> Any:
    if message is None:
        raise MessageError("A message is a Message or a LangChain message, not None.")
    return message


def _versions(rows: Sequence[message_log.Stored]) -> list[MessageVersion]:
    return [MessageVersion(decode_body(row.body, row.key), moment(row.written_at)) for row in rows]


def _with(counting: TokenCounter, messages: int, **around: Any) -> int:
    """The tokens of messages, with those of what goes around them."""
    return math.ceil(messages * counting.factor()) + counting.count((), **around)
