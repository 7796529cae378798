"""The forms of a prompt: each is read as messages, filled with memory, and returned in its own form.

The forms are a text, a prompt value of LangChain, messages, the variables of a prompt template, and the state of a
graph.

`insert_memory` inserts core memory after the system messages, and recalled memory before its question. The result is
valid for every provider. The existing messages keep their order. Only messages with lone surrogates are replaced by
copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, convert_to_messages
from langchain_core.prompt_values import ChatPromptValue, PromptValue, StringPromptValue
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.base.namespaces import check_config
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.history_repair import calls_of, is_from_user, make_encodable, role_of
from langchain_agentmem.messages.message_marks import (
    Part,
    Role,
    is_from_compaction,
    is_injected,
    memory_block,
    memory_message,
)


class PromptTexts(NamedTuple):
    """The texts of memory to insert into a prompt.

    Attributes:
        core: Core memory. Default "": none.
        recalled: The memory recalled for each visible question, by the id of the question. The key None stands for the
            last question, whose id may be unknown. Default: none.
    """

    core: str = ""
    recalled: Mapping[str | None, str] = MappingProxyType({})

    def blocks(self) -> list[str]:
        """Return the texts of the messages that contain this memory."""
        recalled = [memory_block("recalled", each) for each in self.recalled.values()]
        return [memory_block("core", self.core), *recalled] if self.core else recalled


class MemoryRunnable(Runnable[Any, Any]):
    """A Runnable that uses memory. If traces hide content, LangChain does not trace it.

    Attributes:
        _writes: True if a call writes to the database. A call that only reads does not wait for writers. Default:
            False.
    """

    _database: Any
    _writes = False

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Run on an input.

        Args:
            input: The input.
            config: The run's config. Default: none.
            **kwargs: They are ignored.
        """
        del kwargs
        config = check_config(config)
        if self._database.tracing.shows_content:
            return self._call_with_config(self._run, input, config)  # type: ignore[arg-type]  # passes `config` by name
        with self._database.tracing.use_config(config) as complete:  # LangChain would trace the input
            return self._run(input, complete)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Run on an input asynchronously; see `invoke`."""
        del kwargs
        config = check_config(config)
        if self._database.tracing.shows_content:
            return await self._acall_with_config(self._arun, input, config)  # type: ignore[arg-type]
        with self._database.tracing.use_config(config) as complete:
            return await self._arun(input, complete)

    def _run(self, given: Any, config: RunnableConfig) -> Any:
        raise NotImplementedError

    async def _arun(self, given: Any, config: RunnableConfig) -> Any:
        return await run_in_worker(lambda: self._run(given, config), writes=self._writes)


def convert_messages(given: Sequence[Any]) -> list[BaseMessage]:
    """Convert values to messages. Each value has a form that LangChain accepts.

    Raises:
        InvalidInput: A value is not a message.
    """
    try:
        return convert_to_messages(given)
    except (ValueError, TypeError, NotImplementedError, KeyError, AttributeError) as error:
        raise InvalidInput(f"These are no messages: {safe_repr(given)}. {error}") from error


def insert_memory(messages: Sequence[BaseMessage], memory: PromptTexts, role: Role = "user") -> list[BaseMessage]:
    """Insert memory into messages. It replaces core and recalled memory among them.

    Args:
        messages: A context. It is not changed.
        memory: The texts to insert.
        role: The role of the message with core memory. Recalled memory always has the role "user". Default: "user".
    """
    others = insert_texts(messages, "recalled", memory.recalled)
    others = [message for message in others if not is_injected(message, "core")]
    start = _system_end(others)
    core = [memory_message("core", memory.core, role)] if memory.core else []
    return [*others[:start], *core, *others[start:]]


def insert_texts(messages: Sequence[BaseMessage], part: Part, texts: Mapping[str | None, str]) -> list[BaseMessage]:
    """Insert texts of a part of memory before messages.

    They replace all existing messages of this part. A text is omitted if its message is missing.

    Args:
        messages: A context. It is not changed.
        part: The part of memory.
        texts: The texts, by the id of the message that each text precedes. The key None stands for the last message
            that a user wrote.
    """
    others = [make_encodable(message) for message in messages if not is_injected(message, part)]
    start, last_user = _system_end(others), last_user_index(others)
    places = {message.id: place for place, message in enumerate(others) if message.id in texts}
    places[None] = start if last_user is None else last_user
    inserted: dict[int, list[BaseMessage]] = {}
    for key, text in texts.items():
        if key in places:
            place = max(start, _insertion_index(others, places[key]))
            while part == "recalled" and place > start and is_injected(others[place - 1], "experiences"):
                place -= 1  # the order does not depend on which part is inserted first
            inserted.setdefault(place, []).append(memory_message(part, text, before=key))
    return [each for place in range(len(others) + 1) for each in (*inserted.get(place, ()), *others[place : place + 1])]


def _system_end(messages: Sequence[BaseMessage]) -> int:
    """Return the index after the system messages at the beginning of a context."""
    return next((place for place, each in enumerate(messages) if role_of(each) != "system"), len(messages))


def append_block(system: SystemMessage | None, part: Part, text: str) -> SystemMessage:
    """Append a part of memory to a system message.

    Args:
        system: The message, or None for a new one. It is not changed.
        part: The part of memory.
        text: The memory, as text.
    """
    text = memory_block(part, text)
    if system is None:
        return SystemMessage(text)
    addition: Any = f"\n\n{text}" if isinstance(system.content, str) else [{"type": "text", "text": text}]
    return system.model_copy(update={"content": system.content + addition})


def last_user_index(messages: Sequence[BaseMessage]) -> int | None:
    """Return the index of the last message that a user wrote, or None."""
    places = range(len(messages) - 1, -1, -1)
    return next((place for place in places if is_from_user(messages[place])), None)


def question_of(query: Callable[[Any], str] | None, given: Any, messages: Sequence[BaseMessage]) -> str:
    """Return the question of a prompt.

    Args:
        query: The function that returns the question in `given`. None uses the last message that a user wrote.
        given: The prompt in its own form.
        messages: The messages of the prompt.

    Raises:
        InvalidInput: The function does not return a text.
    """
    if query is None:
        place = last_user_index(messages)
        return "" if place is None else str(messages[place].text)
    question = query(given)
    if not isinstance(question, str):
        raise InvalidInput(f"query must give a text, not {type(question).__name__}.")
    return question


def _insertion_index(messages: Sequence[BaseMessage], place: int) -> int:
    """Return the last index up to `place` that is not between a call and its result."""
    answered = {getattr(message, "tool_call_id", None) for message in messages[place:]} - {None}
    for earlier in range(place) if answered else ():
        if any(call.get("id") in answered for call in calls_of(messages[earlier])):
            return earlier
    return place


READ_KEY = "__pregel_read"
"""The key in a task's config for LangGraph's function that reads the state's channels."""
HISTORY_KEY, CONTEXT_KEY = "messages", "llm_input_messages"
"""The keys of a state for its history, and for the context that its model receives."""


_Insert: TypeAlias = Callable[[list[BaseMessage]], list[BaseMessage]]


class PromptForm(NamedTuple):
    """An input that was read as messages.

    Attributes:
        messages: The messages of the input, or messages made from its texts.
        fill: The function that returns the input with memory. For the state of a graph, it returns an update of the
            state. Its arguments are a function that inserts memory into messages, and the memory as text ("" for none).
    """

    messages: list[BaseMessage]
    fill: Callable[[_Insert, str], Any]


def read_form(given: Any, config: RunnableConfig, key: str, *, shared: bool = False) -> PromptForm:
    """Read an input as messages.

    Args:
        given: A text, messages, a prompt value, a dictionary, or the state of a graph.
        config: The run's config.
        key: The key under which a dictionary without messages receives the memory as text.
        shared: True also adds the text under this key to an input with messages. A state must have the key for it.
            Default: False.

    Raises:
        InvalidInput: The input is of another type, or the state of the graph has none of the keys.
    """
    if isinstance(given, str):
        return PromptForm([HumanMessage(given)], lambda _, text: _prepend(given, text))
    if isinstance(given, StringPromptValue):
        return PromptForm(given.to_messages(), lambda _, text: StringPromptValue(text=_prepend(given.text, text)))
    if isinstance(given, PromptValue):
        prompt_messages = given.to_messages()
        return PromptForm(prompt_messages, lambda insert, _: ChatPromptValue(messages=insert(prompt_messages)))
    if isinstance(given, BaseMessage | Sequence):
        messages = convert_messages([given] if isinstance(given, BaseMessage) else given)
        return PromptForm(messages, lambda insert, _: insert(messages))
    return _read_mapping(given, config, key, shared=shared)


def _read_mapping(given: Any, config: RunnableConfig, key: str, *, shared: bool) -> PromptForm:
    """Read a dictionary or a state as messages."""
    found = history_in(given)
    if isinstance(found, str) or not isinstance(found, Sequence):
        if isinstance(given, Mapping) and HISTORY_KEY not in given:
            if _is_state(given, config):
                keys_in_state(config, key)
                return PromptForm(_question_messages(given), lambda _, text: state_update([(key, text)]))
            return PromptForm(_question_messages(given), lambda _, text: {**given, key: text})
        raise InvalidInput(
            f"Memory cannot be put into this: {safe_repr(given)}. Pass a text, messages, a prompt, a dictionary, or a "
            f"state that has a list of messages under '{HISTORY_KEY}'."
        )
    messages = convert_messages(found)
    texts = [key] if shared else []
    state_keys = keys_in_state(config, CONTEXT_KEY, *texts)
    if state_keys is not None:
        messages = _context_in(given, messages)

    def fill(insert: _Insert, text: str) -> Any:
        if state_keys is not None:
            return state_update([(name, insert(messages) if name == CONTEXT_KEY else text) for name in state_keys])
        extra = dict.fromkeys(texts, text)
        if isinstance(given, Mapping):
            return {**given, HISTORY_KEY: insert(messages), **extra}
        return {CONTEXT_KEY: insert(messages), **extra}

    return PromptForm(messages, fill)


def _context_in(given: Any, history: list[BaseMessage]) -> list[BaseMessage]:
    """Return the context that an earlier node, such as a compaction, made from a history.

    If there is none, or if it is from an earlier turn, return the history itself.
    """
    found = given.get(CONTEXT_KEY) if isinstance(given, Mapping) else getattr(given, CONTEXT_KEY, None)
    if isinstance(found, str) or not isinstance(found, Sequence) or not found or not history:
        return history
    context = convert_messages(found)
    if context[-1] != history[-1] and not (context[-1].id == history[-1].id and is_from_compaction(context[-1])):
        return history  # the context is from an earlier turn
    ids = {each.id for each in history}
    is_current = all(each.id in ids or is_from_compaction(each) or is_injected(each) for each in context)
    return context if is_current else history


def _is_state(given: Mapping[str, Any], config: RunnableConfig) -> bool:
    """Return whether a mapping is the state of the running graph.

    A dictionary that a node made is not the state.
    """
    read = (config.get("configurable") or {}).get(READ_KEY)
    try:
        return read is not None and bool(given) and all(read(key) is value for key, value in given.items())
    except KeyError:
        return False


def history_in(state: Any) -> Any:
    """Return the value of the key "messages" in a state or a dictionary, or None."""
    return state.get(HISTORY_KEY) if isinstance(state, Mapping) else getattr(state, HISTORY_KEY, None)


def keys_in_state(config: RunnableConfig, *wanted: str) -> list[str] | None:
    """Return the wanted keys that the running graph's state has; None if no graph runs.

    LangGraph silently drops keys that the schema of the state does not have.

    Raises:
        InvalidInput: The state has none of the wanted keys.
    """
    read = (config.get("configurable") or {}).get(READ_KEY)
    if read is None:
        return None
    found = []
    for key in wanted:
        with suppress(KeyError):
            read(key)
            found.append(key)
    if not found:
        raise InvalidInput(
            f"The graph's state has no key {' or '.join(map(repr, wanted))}, so the result would be dropped. Let the "
            "state inherit langchain_agentmem.CompactionState, or add the key."
        )
    return found


def state_update(values: list[tuple[str, Any]]) -> Any:
    """Make an update of a graph's state that a node can return."""
    from langgraph.types import Command  # noqa: PLC0415 - loaded by the running graph

    # With a list of pairs, stream_mode="messages" does not stream the messages of the context as new messages.
    return Command(update=values)


def _prepend(given: str, text: str) -> str:
    return f"{text}\n\n{given}" if text else given


def _question_messages(variables: Mapping[str, Any]) -> list[BaseMessage]:
    """Return a list with the question among a prompt's variables, or an empty list.

    The question is the variable with a usual name, such as "input", or the only text among the variables.
    """
    texts = {name: value for name, value in variables.items() if isinstance(value, str)}
    named = [texts[name] for name in ("input", "question", "query", "user_query") if name in texts]
    question = named[0] if named else next(iter(texts.values())) if len(texts) == 1 else None
    return [] if question is None else [HumanMessage(question)]
