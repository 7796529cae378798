"""Insertion of memory into a prompt of any form: the prompt is read as messages, and returned in its own form.

The forms are a text, a prompt value of LangChain, messages, the variables of a prompt template, and the state of a
graph.

`insert_memory` inserts core memory after the system messages. It inserts each search result, the recalled memory,
before the question that was the search query. The result is valid for every provider. The existing messages keep their
order. Only messages with lone surrogates, which clients cannot encode, are replaced by copies.
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
from langchain_agentmem.messages import message_marks
from langchain_agentmem.messages.history_repair import calls_of, is_from_user, make_encodable, role_of
from langchain_agentmem.messages.message_marks import Part, Role, is_from_compaction, is_injected


class MemoryTexts(NamedTuple):
    """The texts of memory to insert into a prompt.

    Attributes:
        core: Core memory. Default "": none.
        recalled: The search results for each question, which is a message of the user, by the id of the message. The
            key None stands for the last question, whose id may be unknown. Default: none.
    """

    core: str = ""
    recalled: Mapping[str | None, str] = MappingProxyType({})

    def blocks(self) -> list[str]:
        """Return the texts of the messages that contain this memory."""
        recalled = [message_marks.memory_block("recalled", text) for text in self.recalled.values()]
        return [message_marks.memory_block("core", self.core), *recalled] if self.core else recalled


class MemoryRunnable(Runnable[Any, Any]):
    """A Runnable that uses memory. LangChain does not trace it if traces must hide contents.

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
            **kwargs: Ignored.
        """
        del kwargs
        config = check_config(config)
        if self._database.tracing.shows_content:
            return self._call_with_config(self._run, input, config)  # type: ignore[arg-type]  # passes `config` by name
        with self._database.tracing.use_config(config) as full_config:  # LangChain would trace the input
            return self._run(input, full_config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Run on an input asynchronously; see `invoke`."""
        del kwargs
        config = check_config(config)
        if self._database.tracing.shows_content:
            return await self._acall_with_config(self._arun, input, config)  # type: ignore[arg-type]
        with self._database.tracing.use_config(config) as full_config:
            return await self._arun(input, full_config)

    def _run(self, input_value: Any, config: RunnableConfig) -> Any:
        raise NotImplementedError

    async def _arun(self, input_value: Any, config: RunnableConfig) -> Any:
        return await run_in_worker(lambda: self._run(input_value, config), writes=self._writes)


def convert_messages(values: Sequence[Any]) -> list[BaseMessage]:
    """Convert values to messages. Each value has a form that LangChain accepts.

    Raises:
        InvalidInput: A value is not a message.
    """
    try:
        return convert_to_messages(values)
    except (ValueError, TypeError, NotImplementedError, KeyError, AttributeError) as error:
        raise InvalidInput(f"Expected messages, got {safe_repr(values)}. {error}") from error


def insert_memory(messages: Sequence[BaseMessage], memory: MemoryTexts, role: Role = "user") -> list[BaseMessage]:
    """Insert memory into messages, in place of the memory that was inserted before.

    Args:
        messages: A context. It is not changed.
        memory: The texts to insert.
        role: The role of the message with core memory. Recalled memory always has the role "user". Default: "user".
    """
    context = insert_texts(messages, "recalled", memory.recalled)
    context = [message for message in context if not is_injected(message, "core")]
    system_end = _find_system_end(context)
    core = [message_marks.memory_message("core", memory.core, role)] if memory.core else []
    return [*context[:system_end], *core, *context[system_end:]]


def insert_texts(messages: Sequence[BaseMessage], part: Part, texts: Mapping[str | None, str]) -> list[BaseMessage]:
    """Insert texts of one part of memory, each before a message.

    The texts replace all existing messages of this part. A text whose message is not in the context is omitted.

    Args:
        messages: A context. It is not changed.
        part: The part of memory: "core", "recalled" or "experiences".
        texts: The texts, by the id of the message to insert each text before. The key None stands for the last message
            that a user wrote.
    """
    kept = [make_encodable(message) for message in messages if not is_injected(message, part)]
    system_end, last_user = _find_system_end(kept), last_user_index(kept)
    indexes = {message.id: index for index, message in enumerate(kept) if message.id in texts}
    indexes[None] = system_end if last_user is None else last_user
    inserted: dict[int, list[BaseMessage]] = {}
    for before_id, text in texts.items():
        if before_id in indexes:
            index = max(system_end, _insertion_index(kept, indexes[before_id]))
            while part == "recalled" and index > system_end and is_injected(kept[index - 1], "experiences"):
                index -= 1  # so that recalled memory stands before experiences
            inserted.setdefault(index, []).append(message_marks.memory_message(part, text, before=before_id))
    return [each for index in range(len(kept) + 1) for each in (*inserted.get(index, ()), *kept[index : index + 1])]


def _find_system_end(messages: Sequence[BaseMessage]) -> int:
    """Return the index after the system messages at the beginning of a context."""
    return next((index for index, each in enumerate(messages) if role_of(each) != "system"), len(messages))


def append_block(system: SystemMessage | None, part: Part, text: str) -> SystemMessage:
    """Append a part of memory to a system message.

    Args:
        system: The message, or None for a new one. It is not changed.
        part: The part of memory: "core", "recalled" or "experiences".
        text: The memory, as text.
    """
    text = message_marks.memory_block(part, text)
    if system is None:
        return SystemMessage(text)
    addition: Any = f"\n\n{text}" if isinstance(system.content, str) else [{"type": "text", "text": text}]
    return system.model_copy(update={"content": system.content + addition})


def last_user_index(messages: Sequence[BaseMessage]) -> int | None:
    """Return the index of the last message that a user wrote, or None."""
    indexes = range(len(messages) - 1, -1, -1)
    return next((index for index in indexes if is_from_user(messages[index])), None)


def question_of(query: Callable[[Any], str] | None, prompt: Any, messages: Sequence[BaseMessage]) -> str:
    """Return the question of a prompt.

    Args:
        query: The function that returns the question of `prompt`. None uses the last message that a user wrote.
        prompt: The prompt in its own form.
        messages: The messages of the prompt.

    Raises:
        InvalidInput: The function does not return a text.
    """
    if query is None:
        index = last_user_index(messages)
        return "" if index is None else str(messages[index].text)
    question = query(prompt)
    if not isinstance(question, str):
        raise InvalidInput(f"query must return a text, not {type(question).__name__}.")
    return question


def _insertion_index(messages: Sequence[BaseMessage], index: int) -> int:
    """Return `index`, or the index of the call if `index` is between a call and its result."""
    answered_ids = {getattr(message, "tool_call_id", None) for message in messages[index:]} - {None}
    for call_index in range(index) if answered_ids else ():
        if any(call.get("id") in answered_ids for call in calls_of(messages[call_index])):
            return call_index
    return index


READ_KEY = "__pregel_read"
"""The key in the config of a graph's task. Its value is LangGraph's function that reads a key of the state."""
HISTORY_KEY, CONTEXT_KEY = "messages", "llm_input_messages"
"""The keys of a graph's state for the history, and for the context that the model receives."""


_InsertFunction: TypeAlias = Callable[[list[BaseMessage]], list[BaseMessage]]


class PromptForm(NamedTuple):
    """A prompt of any form, read as messages.

    Attributes:
        messages: The messages of the prompt, or messages made from its texts.
        fill: The function that returns the prompt with memory. For the state of a graph, it returns an update of the
            state. Its arguments are a function that inserts memory into messages, and the memory as text ("" for none).
    """

    messages: list[BaseMessage]
    fill: Callable[[_InsertFunction, str], Any]


def read_form(prompt: Any, config: RunnableConfig, key: str, *, add_text: bool = False) -> PromptForm:
    """Read a prompt as messages.

    Args:
        prompt: A text, messages, a prompt value, a dictionary, or the state of a graph.
        config: The run's config.
        key: The key under which a dictionary without messages receives the memory as text.
        add_text: True also adds the text under this key to a dictionary or state with messages. A state without this
            key receives no text. Default: False.

    Raises:
        InvalidInput: The prompt has another type, or the state of the graph has none of the keys to update.
    """
    if isinstance(prompt, str):
        return PromptForm([HumanMessage(prompt)], lambda _, text: _prepend(prompt, text))
    if isinstance(prompt, StringPromptValue):
        return PromptForm(prompt.to_messages(), lambda _, text: StringPromptValue(text=_prepend(prompt.text, text)))
    if isinstance(prompt, PromptValue):
        prompt_messages = prompt.to_messages()
        return PromptForm(prompt_messages, lambda insert, _: ChatPromptValue(messages=insert(prompt_messages)))
    if isinstance(prompt, BaseMessage | Sequence):
        messages = convert_messages([prompt] if isinstance(prompt, BaseMessage) else prompt)
        return PromptForm(messages, lambda insert, _: insert(messages))
    return _read_mapping(prompt, config, key, add_text=add_text)


def _read_mapping(prompt: Any, config: RunnableConfig, key: str, *, add_text: bool) -> PromptForm:
    """Read a dictionary or a state as messages."""
    history = get_history(prompt)
    if isinstance(history, str) or not isinstance(history, Sequence):
        if isinstance(prompt, Mapping) and HISTORY_KEY not in prompt:
            if _is_state(prompt, config):
                find_state_keys(config, key)  # raises if the state has no such key
                return PromptForm(_find_question(prompt), lambda _, text: make_state_update([(key, text)]))
            return PromptForm(_find_question(prompt), lambda _, text: {**prompt, key: text})
        raise InvalidInput(
            f"Memory cannot be inserted into {safe_repr(prompt)}. Pass a text, messages, a prompt, a dictionary, or a "
            f"state that has a list of messages under '{HISTORY_KEY}'."
        )
    messages = convert_messages(history)
    text_keys = [key] if add_text else []
    state_keys = find_state_keys(config, CONTEXT_KEY, *text_keys)
    if state_keys is not None:
        messages = _find_context(prompt, messages)

    def fill(insert: _InsertFunction, text: str) -> Any:
        if state_keys is not None:
            return make_state_update([(name, insert(messages) if name == CONTEXT_KEY else text) for name in state_keys])
        memory_texts = dict.fromkeys(text_keys, text)
        if isinstance(prompt, Mapping):
            return {**prompt, HISTORY_KEY: insert(messages), **memory_texts}
        return {CONTEXT_KEY: insert(messages), **memory_texts}

    return PromptForm(messages, fill)


def _find_context(state: Any, history: list[BaseMessage]) -> list[BaseMessage]:
    """Return the context that an earlier node of this turn, such as a compaction, made.

    If there is no such context, return the history.
    """
    context_value = state.get(CONTEXT_KEY) if isinstance(state, Mapping) else getattr(state, CONTEXT_KEY, None)
    if isinstance(context_value, str) or not isinstance(context_value, Sequence) or not context_value or not history:
        return history
    context = convert_messages(context_value)
    if context[-1] != history[-1] and not (context[-1].id == history[-1].id and is_from_compaction(context[-1])):
        return history  # the context is from an earlier turn
    ids = {each.id for each in history}
    is_current = all(each.id in ids or is_from_compaction(each) or is_injected(each) for each in context)
    return context if is_current else history


def _is_state(prompt: Mapping[str, Any], config: RunnableConfig) -> bool:
    """Return whether a mapping has the values of the running graph's state.

    A dictionary that a node made itself has other values.
    """
    read_channel = (config.get("configurable") or {}).get(READ_KEY)
    if read_channel is None or not prompt:
        return False
    try:
        return all(read_channel(key) is value for key, value in prompt.items())
    except KeyError:
        return False


def get_history(state: Any) -> Any:
    """Return the value of the key "messages" in a state or a dictionary, or None."""
    return state.get(HISTORY_KEY) if isinstance(state, Mapping) else getattr(state, HISTORY_KEY, None)


def find_state_keys(config: RunnableConfig, *keys: str) -> list[str] | None:
    """Return the given keys that the running graph's state has; None if no graph runs.

    LangGraph silently drops updates of keys that the state's schema does not have.

    Raises:
        InvalidInput: The state has none of the keys.
    """
    read_channel = (config.get("configurable") or {}).get(READ_KEY)
    if read_channel is None:
        return None
    existing = []
    for key in keys:
        with suppress(KeyError):
            read_channel(key)  # raises KeyError if the state lacks the key
            existing.append(key)
    if not existing:
        raise InvalidInput(
            f"The graph's state has no key {' or '.join(map(repr, keys))}, so the result would be dropped. Let the "
            "state inherit langchain_agentmem.CompactionState, or add the key."
        )
    return existing


def make_state_update(values: list[tuple[str, Any]]) -> Any:
    """Make an update of a graph's state that a node can return."""
    from langgraph.types import Command  # noqa: PLC0415 - loaded by the running graph

    # LangGraph's stream_mode="messages" streams messages in an update as new messages, unless it is a list of pairs.
    return Command(update=values)


def _prepend(text: str, memory: str) -> str:
    return f"{memory}\n\n{text}" if memory else text


def _find_question(variables: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the question among the variables of a prompt as a list with one message, or [].

    The question is the variable with a usual name, such as "input", or the only text among the variables.
    """
    texts = {name: value for name, value in variables.items() if isinstance(value, str)}
    named_texts = [texts[name] for name in ("input", "question", "query", "user_query") if name in texts]
    question = named_texts[0] if named_texts else next(iter(texts.values())) if len(texts) == 1 else None
    return [] if question is None else [HumanMessage(question)]
