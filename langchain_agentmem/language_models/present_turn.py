"""What a task of a graph rests on when it remembers something: what was said in this turn, and what was looked up.

A turn is the last thing that a user said, and all that followed. What the agent's own memory told it in between is
named itself, and not the tool that told of it: so a note that is made of another rests on what that rested on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.origins import BROUGHT, MESSAGE, MemoryOrigin
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.history_shape import is_said_by_user
from langchain_agentmem.messages.message_marks import is_injected

MESSAGES = "messages"
"""The channel of a state that is looked at."""
LONGEST = 40
"""The most messages of a turn that are named, the newest."""
_READ = "__pregel_read"
_LISTS: Mapping[str, str] = {
    "records": "record",
    "archival": "record",
    "events": "event",
    "recall": "event",
    "found": "fact",
    "history": "fact",
    "messages": MESSAGE,
}
"""What the agent's tools list, by the names of the lists."""
_TOOLS = ("mem_", "fact_", "recall_dropped", "expand", "consolidate")
"""How the names of these tools begin."""


def turn_in(config: Mapping[str, Any] | None) -> tuple[MemoryOrigin, ...]:
    """What a run has said since the user spoke last; nothing outside of a graph's task, and without messages.

    Args:
        config: The config of the run.
    """
    configurable = (config or {}).get("configurable") or {}
    read, name = configurable.get(_READ), configurable.get("thread_id")
    if read is None or name is None:
        return ()
    with suppress(KeyError, InvalidInput):  # a state without messages, an id that is none
        said = read(MESSAGES)
        if isinstance(said, list) and all(isinstance(each, BaseMessage) for each in said):
            return tuple(dict.fromkeys(_of_turn(said, id_of(name, "thread"))))
    return ()


def _of_turn(said: Sequence[BaseMessage], thread: str) -> Iterator[MemoryOrigin]:
    for message in [*reversed(said)][:LONGEST]:
        if is_injected(message):
            continue
        if message.id is not None:
            yield MemoryOrigin(MESSAGE, message.id, thread)
        if isinstance(message, ToolMessage):
            name = message.name
            if name is not None and name.startswith(_TOOLS):
                yield from _looked_up(message, thread)
            elif name is not None:
                yield MemoryOrigin("tool", name)
            else:
                yield MemoryOrigin("tool")
        if is_said_by_user(message):
            if message.id is not None:
                yield MemoryOrigin(BROUGHT, message.id, thread)
            return


def _looked_up(message: ToolMessage, thread: str) -> Iterator[MemoryOrigin]:
    """What a tool of the memory told the agent."""
    try:
        told = json.loads(str(message.text))
    except ValueError:
        return  # a sentence
    if not isinstance(told, Mapping):
        return
    if isinstance(told.get("id"), str):
        yield MemoryOrigin("record", told["id"])
    if isinstance(told.get("core"), Mapping):
        yield from (MemoryOrigin("core", key) for key in told["core"])
    for name, kind in _LISTS.items():
        for each in told.get(name, ()):
            if isinstance(each, Mapping) and isinstance(each.get("id"), str):
                of_message = kind == MESSAGE or "said_by" in each
                yield MemoryOrigin(MESSAGE, each["id"], thread) if of_message else MemoryOrigin(kind, each["id"])
