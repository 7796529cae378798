"""The forms of a prompt: each is converted to messages, filled with memory, and converted back.

The forms are a text, a prompt, messages, the variables of a prompt, and the state of a graph. Each is read as messages
and returned in its own type.

`woven` inserts memory into messages: core memory after the system messages, recalled memory before its question.
Messages stay valid for every provider. The existing messages stay the same objects, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, convert_to_messages
from langchain_core.prompt_values import ChatPromptValue, PromptValue, StringPromptValue
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_agentmem.base.concurrency import in_worker
from langchain_agentmem.base.namespaces import config_given
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.history_repair import calls_of, encodable, is_said_by_user, role_of
from langchain_agentmem.messages.message_marks import Part, Role, block, injected, is_injected, is_made


class PromptTexts(NamedTuple):
    """The texts of memory that go into a prompt.

    Attributes:
        core: Core memory; "" for none.
        recalled: The memory recalled for each visible question, by the ids of these messages; under None for the last
            one, if its id is unknown.
    """

    core: str = ""
    recalled: Mapping[str | None, str] = MappingProxyType({})

    def blocks(self) -> list[str]:
        """Return the texts of the messages that bring this memory."""
        return [block("core", self.core)] * bool(self.core) + [
            block("recalled", each) for each in self.recalled.values()
        ]


class MemoryRunnable(Runnable[Any, Any]):
    """A Runnable that works with memory; LangChain does not trace it if traces hide content.

    Attributes:
        _writes: Whether a call writes to the database, as for `awaited`: calls that read do not wait for writers.
    """

    _database: Any
    _writes = False

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Run on an input.

        Args:
            input: The input.
            config: The run's config.
            **kwargs: Not used.
        """
        del kwargs
        config = config_given(config)
        if self._database.tracing.shows_content:
            return self._call_with_config(self._run, input, config)  # type: ignore[arg-type]  # passes `config` by name
        with self._database.tracing.within(config) as complete:  # LangChain would trace the whole input
            return self._run(input, complete)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Async version of `invoke`."""
        del kwargs
        config = config_given(config)
        if self._database.tracing.shows_content:
            return await self._acall_with_config(self._arun, input, config)  # type: ignore[arg-type]
        with self._database.tracing.within(config) as complete:
            return await self._arun(input, complete)

    def _run(self, given: Any, config: RunnableConfig) -> Any:
        raise NotImplementedError

    async def _arun(self, given: Any, config: RunnableConfig) -> Any:
        return await in_worker(lambda: self._run(given, config), writes=self._writes)


def converted(given: Sequence[Any]) -> list[BaseMessage]:
    """Convert messages from any form that LangChain accepts.

    Raises:
        InvalidInput: The values are not messages.
    """
    try:
        return convert_to_messages(given)
    except (ValueError, TypeError, NotImplementedError, KeyError, AttributeError) as error:
        raise InvalidInput(f"These are no messages: {safe_repr(given)}. {error}") from error


def woven(messages: Sequence[BaseMessage], brought: PromptTexts, role: Role = "user") -> list[BaseMessage]:
    """Insert memory into messages, in place of the memory that they contain.

    Args:
        messages: A context. It is not changed.
        brought: The texts to insert.
        role: The role of core memory. Recalled memory is always in the user's. Default: "user".
    """
    said = placed(messages, "recalled", brought.recalled)
    said = [message for message in said if not is_injected(message, "core")]
    start = _start(said)
    core = [injected("core", brought.core, role)] if brought.core else []
    return [*said[:start], *core, *said[start:]]


def placed(messages: Sequence[BaseMessage], part: Part, texts: Mapping[str | None, str]) -> list[BaseMessage]:
    """Insert texts before messages, in place of all existing messages of this part.

    Args:
        messages: A context. It is not changed.
        part: The part of memory.
        texts: By the ids of the messages that follow them; None is the last message that a user said.
    """
    said = [encodable(message) for message in messages if not is_injected(message, part)]
    start, last = _start(said), last_said(said)
    places = {message.id: place for place, message in enumerate(said) if message.id in texts}
    places[None] = start if last is None else last
    put: dict[int, list[BaseMessage]] = {}
    for key, text in texts.items():
        if key in places:
            place = max(start, _outside(said, places[key]))
            while part == "recalled" and place > start and is_injected(said[place - 1], "experiences"):
                place -= 1  # one order, regardless of which part is inserted first
            put.setdefault(place, []).append(injected(part, text, before=key))
    return [each for place in range(len(said) + 1) for each in (*put.get(place, ()), *said[place : place + 1])]


def _start(messages: Sequence[BaseMessage]) -> int:
    """Return the index after the system messages at the beginning."""
    return next((place for place, each in enumerate(messages) if role_of(each) != "system"), len(messages))


def with_block(system: SystemMessage | None, part: Part, text: str) -> SystemMessage:
    """Append a part of memory to a system message.

    Args:
        system: The message, or None for a new one. It is not changed.
        part: The part of memory.
        text: The memory, as text.
    """
    text = block(part, text)
    if system is None:
        return SystemMessage(text)
    more: Any = f"\n\n{text}" if isinstance(system.content, str) else [{"type": "text", "text": text}]
    return system.model_copy(update={"content": system.content + more})


def last_said(messages: Sequence[BaseMessage]) -> int | None:
    """Return the index of the last message that a user said, or None."""
    places = range(len(messages) - 1, -1, -1)
    return next((place for place in places if is_said_by_user(messages[place])), None)


def question_of(query: Callable[[Any], str] | None, given: Any, messages: Sequence[BaseMessage]) -> str:
    """Return the question that a prompt is about.

    Args:
        query: Returns the question from `given`. None for the last message that a user said.
        given: The input of the prompt.
        messages: Its messages.

    Raises:
        InvalidInput: The function does not return a text.
    """
    if query is None:
        place = last_said(messages)
        return "" if place is None else str(messages[place].text)
    asked = query(given)
    if not isinstance(asked, str):
        raise InvalidInput(f"query must give a text, not {type(asked).__name__}.")
    return asked


def _outside(messages: Sequence[BaseMessage], place: int) -> int:
    """Return the last index up to this one that is not between a call and its result."""
    answered = {getattr(message, "tool_call_id", None) for message in messages[place:]} - {None}
    for earlier in range(place) if answered else ():
        if any(call.get("id") in answered for call in calls_of(messages[earlier])):
            return earlier
    return place


READ = "__pregel_read"
"""The key of a task's config under which LangGraph puts the function that reads the state's channels."""
HISTORY, CONTEXT = "messages", "llm_input_messages"
"""The keys of a state: its messages, and the messages that its model receives."""


_Among: TypeAlias = Callable[[list[BaseMessage]], list[BaseMessage]]


class PromptForm(NamedTuple):
    """An input read as messages.

    Attributes:
        messages: Its messages, or messages made from its texts.
        close: Takes a function that inserts into messages, and the same memory as a text, "" for none. Returns the
            input with the memory; for a node of a graph, the update of its state.
    """

    messages: list[BaseMessage]
    close: Callable[[_Among, str], Any]


def form_of(given: Any, config: RunnableConfig, key: str, *, shared: bool = False) -> PromptForm:
    """Read an input as messages.

    Args:
        given: A text, messages, a prompt, a dictionary, or the state of a graph.
        config: The run's config.
        key: The key for the text in a dictionary without messages.
        shared: Whether a state also receives the text under this key, if it has the key. Default: False.

    Raises:
        InvalidInput: The input is of another type, or the state of the graph has none of the keys.
    """
    if isinstance(given, str):
        return PromptForm([HumanMessage(given)], lambda _, text: _before(given, text))
    if isinstance(given, StringPromptValue):
        return PromptForm(given.to_messages(), lambda _, text: StringPromptValue(text=_before(given.text, text)))
    if isinstance(given, PromptValue):
        said = given.to_messages()
        return PromptForm(said, lambda among, _: ChatPromptValue(messages=among(said)))
    if isinstance(given, BaseMessage | Sequence):
        listed = converted([given] if isinstance(given, BaseMessage) else given)
        return PromptForm(listed, lambda among, _: among(listed))
    return _opened(given, config, key, shared=shared)


def _opened(given: Any, config: RunnableConfig, key: str, *, shared: bool) -> PromptForm:
    """Read a dictionary or a state as messages."""
    found = history_in(given)
    if isinstance(found, str) or not isinstance(found, Sequence):
        if isinstance(given, Mapping) and HISTORY not in given:
            if _is_state(given, config):
                keys_in_state(config, key)
                return PromptForm(_asking(given), lambda _, text: state_update([(key, text)]))
            return PromptForm(_asking(given), lambda _, text: {**given, key: text})
        raise InvalidInput(
            f"Memory cannot be put into this: {safe_repr(given)}. Give a text, messages, a prompt, a dictionary, or a "
            f"state that has a list of messages under '{HISTORY}'."
        )
    said = converted(found)
    texts = [key] if shared else []
    room = keys_in_state(config, CONTEXT, *texts)
    if room is not None:
        said = _shown(given, said)

    def close(among: _Among, text: str) -> Any:
        if room is not None:
            return state_update([(name, among(said) if name == CONTEXT else text) for name in room])
        beside = dict.fromkeys(texts, text)
        if isinstance(given, Mapping):
            return {**given, HISTORY: among(said), **beside}
        return {CONTEXT: among(said), **beside}

    return PromptForm(said, close)


def _shown(given: Any, said: list[BaseMessage]) -> list[BaseMessage]:
    """Return the context that an earlier node made of this history, else the history itself.

    Such a node is a compaction, for example.
    """
    found = given.get(CONTEXT) if isinstance(given, Mapping) else getattr(given, CONTEXT, None)
    if isinstance(found, str) or not isinstance(found, Sequence) or not found or not said:
        return said
    shown = converted(found)
    if shown[-1] != said[-1] and not (shown[-1].id == said[-1].id and is_made(shown[-1])):
        return said  # the context is of the turn before
    known = {each.id for each in said}
    return shown if all(each.id in known or is_made(each) or is_injected(each) for each in shown) else said


def _is_state(given: Mapping[str, Any], config: RunnableConfig) -> bool:
    """Return whether a mapping is the running graph's state, not a dictionary made by a node."""
    read = (config.get("configurable") or {}).get(READ)
    try:
        return read is not None and bool(given) and all(read(key) is value for key, value in given.items())
    except KeyError:
        return False


def history_in(state: Any) -> Any:
    """Return the value of "messages" in a state or a dictionary, or None."""
    return state.get(HISTORY) if isinstance(state, Mapping) else getattr(state, HISTORY, None)


def keys_in_state(config: RunnableConfig, *wanted: str) -> list[str] | None:
    """Return the given keys that the state of the running graph has; None if no graph runs.

    LangGraph silently drops keys that its schema does not name.

    Raises:
        InvalidInput: The state has none of them.
    """
    read = (config.get("configurable") or {}).get(READ)
    if read is None:
        return None
    room = []
    for key in wanted:
        with suppress(KeyError):
            read(key)
            room.append(key)
    if not room:
        raise InvalidInput(
            f"The graph's state has no key {' or '.join(map(repr, wanted))}, so the result would be dropped. Let the "
            "state inherit langchain_agentmem.CompactionState, or add the key."
        )
    return room


def state_update(values: list[tuple[str, Any]]) -> Any:
    """Return the update of a graph's state that a node returns."""
    from langgraph.types import Command  # noqa: PLC0415 - a running graph has loaded it

    # In this form, stream_mode="messages" does not treat the messages of the context as new ones.
    return Command(update=values)


def _before(given: str, text: str) -> str:
    return f"{text}\n\n{given}" if text else given


def _asking(variables: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the question among the variables of a prompt as a message, or an empty list."""
    texts = {name: value for name, value in variables.items() if isinstance(value, str)}
    named = [texts[name] for name in ("input", "question", "query", "user_query") if name in texts]
    asked = named[0] if named else next(iter(texts.values())) if len(texts) == 1 else None
    return [] if asked is None else [HumanMessage(asked)]
