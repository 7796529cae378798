"""The forms in which a prompt comes, opened so that something can be put in, and closed again as what they were.

A text, a prompt, messages, the variables of a prompt, the state of a graph: each is messages to whoever puts something
in, and gives back its own kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.prompt_values import ChatPromptValue, PromptValue, StringPromptValue
from langchain_core.runnables import RunnableConfig

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.injected import is_injected
from langchain_agentmem.messages.placement import converted
from langchain_agentmem.messages.synthetic_messages import is_made

READ = "__pregel_read"
"""Where LangGraph leaves, in a task's config, the function that reads the state's channels."""
QUESTIONS = ("input", "question", "query", "user_query")
"""Variables of a prompt that are taken for the question."""


class Insertion(NamedTuple):
    """What is put in.

    Attributes:
        among: Gives messages with it.
        text: The same as a text; "" for nothing.
    """

    among: Callable[[list[BaseMessage]], list[BaseMessage]]
    text: str


class Keys(NamedTuple):
    """Where a state or the variables of a prompt have room for it.

    Attributes:
        messages: Where a node of a graph puts the messages.
        text: Where a dictionary without messages is given the text.
        shared: Whether a state too is given the text there, if it has the key.
    """

    messages: str
    text: str
    shared: bool = False


class Form(NamedTuple):
    """Something opened.

    Attributes:
        messages: Its messages, or what stands for them.
        close: Gives the same with something put in; for a node of a graph, the update of its state.
    """

    messages: list[BaseMessage]
    close: Callable[[Insertion], Any]


def check_keys(keys: Keys, messages_key: str, names: tuple[str, str]) -> None:
    """Check what a user wants to call the keys.

    Args:
        keys: Where it is to go.
        messages_key: Where the messages are.
        names: What the arguments for `keys` are called.

    Raises:
        InvalidInput: One is no name, two are the same, or a history would keep what is put in.
    """
    for name, key in (("messages_key", messages_key), (names[0], keys.messages), (names[1], keys.text)):
        if not isinstance(key, str) or not key:
            raise InvalidInput(f"{name} must be the name of a key, not {safe_repr(key)}.")
    if keys.text in (messages_key, keys.messages):
        raise InvalidInput(f"{names[1]} must name another key than that of messages, not {safe_repr(keys.text)}.")
    if messages_key == keys.messages == "messages":
        raise InvalidInput(
            "The messages of a graph are added to, so memory would stay among them for good. Name another key with "
            f"{names[0]}=."
        )


def form_of(given: Any, config: RunnableConfig, keys: Keys, messages_key: str) -> Form:
    """Open what was given.

    Args:
        given: A text, messages, a prompt, a dictionary, or the state of a graph.
        config: The run.
        keys: Where something goes.
        messages_key: Where a state has its messages.

    Raises:
        InvalidInput: Nothing can be put into this, or the state of the graph has no room for it.
    """
    if isinstance(given, str):
        return Form([HumanMessage(given)], lambda put: _before(given, put))
    if isinstance(given, StringPromptValue):
        return Form(given.to_messages(), lambda put: StringPromptValue(text=_before(given.text, put)))
    if isinstance(given, PromptValue):
        said = given.to_messages()
        return Form(said, lambda put: ChatPromptValue(messages=put.among(said)))
    if isinstance(given, BaseMessage | Sequence):
        listed = converted([given] if isinstance(given, BaseMessage) else given)
        return Form(listed, lambda put: put.among(listed))
    return _opened(given, config, keys, messages_key)


def _opened(given: Any, config: RunnableConfig, keys: Keys, messages_key: str) -> Form:
    """A dictionary or a state, opened."""
    found: Any = given.get(messages_key) if isinstance(given, Mapping) else getattr(given, messages_key, None)
    if isinstance(found, str) or not isinstance(found, Sequence):
        if isinstance(given, Mapping) and messages_key not in given:
            if _is_state(given, config):
                _room(config, keys.text)
                return Form(_asking(given), lambda put: _update([(keys.text, put.text)]))
            return Form(_asking(given), lambda put: {**given, keys.text: put.text})
        raise InvalidInput(
            f"Memory cannot be put into this: {safe_repr(given)}. Give a text, messages, a prompt, a dictionary, or a "
            f"state that has a list of messages under {safe_repr(messages_key)}."
        )
    said = converted(found)
    room = _room(config, *([keys.messages, keys.text] if keys.shared else [keys.messages]))
    if room is not None:
        said = _shown(given, keys.messages, said)
    return Form(said, lambda put: _updated(given, said, put, keys=keys, messages_key=messages_key, room=room))


def _shown(given: Any, key: str, said: list[BaseMessage]) -> list[BaseMessage]:
    """What a node before this one has made of the very same history, such as a compaction; else the history."""
    found = given.get(key) if isinstance(given, Mapping) else getattr(given, key, None)
    if isinstance(found, str) or not isinstance(found, Sequence) or not found or not said:
        return said
    shown = converted(found)
    if shown[-1] != said[-1] and not (shown[-1].id == said[-1].id and is_made(shown[-1])):
        return said  # of the turn before
    known = {each.id for each in said}
    return shown if all(each.id in known or is_made(each) or is_injected(each) for each in shown) else said


def _is_state(given: Mapping[str, Any], config: RunnableConfig) -> bool:
    """Whether this is the state of the running graph, and not a dictionary that one of its nodes made."""
    read = (config.get("configurable") or {}).get(READ)
    try:
        return read is not None and bool(given) and all(read(key) is value for key, value in given.items())
    except KeyError:
        return False


def _room(config: RunnableConfig, *wanted: str) -> list[str] | None:
    """Which of some keys the state of the running graph has; None where none runs.

    LangGraph drops, without a word, what its schema does not name.
    """
    read = (config.get("configurable") or {}).get(READ)
    if read is None:
        return None
    room = []
    for key in wanted:
        try:
            read(key)
        except KeyError:
            continue
        room.append(key)
    if not room:
        raise InvalidInput(
            f"The graph's state has no key {' or '.join(map(repr, wanted))}, so the memory would be dropped. Let the "
            "state inherit langchain_agentmem.compaction.CompactionState, add the key, or name another one with "
            "output_messages_key=."
        )
    return room


def _updated(
    given: Any, said: list[BaseMessage], put: Insertion, *, keys: Keys, messages_key: str, room: list[str] | None
) -> Any:
    texts = {keys.text: put.text} if keys.shared else {}
    if room is None:
        if isinstance(given, Mapping):
            return {**given, messages_key: put.among(said), **texts}
        return {keys.messages: put.among(said), **texts}
    return _update([(key, put.among(said) if key == keys.messages else put.text) for key in room])


def _update(values: list[tuple[str, Any]]) -> Any:
    from langgraph.types import Command  # noqa: PLC0415 - where a graph runs it is loaded

    # In this form the messages of the context are not taken for new ones by stream_mode="messages".
    return Command(update=values)


def _before(text: str, put: Insertion) -> str:
    return f"{put.text}\n\n{text}" if put.text else text


def _asking(variables: Mapping[str, Any]) -> list[BaseMessage]:
    """The question among the variables of a prompt, as a message."""
    texts = {name: value for name, value in variables.items() if isinstance(value, str)}
    named = [texts[name] for name in QUESTIONS if name in texts]
    asked = named[0] if named else next(iter(texts.values())) if len(texts) == 1 else None
    return [] if asked is None else [HumanMessage(asked)]
