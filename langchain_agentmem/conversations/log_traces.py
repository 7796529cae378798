"""What traces show of a log: who said what, in short, and the ids of what was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_agentmem.conversations import message_log
from langchain_agentmem.messages import Message
from langchain_agentmem.tracing import Thunk, brief

MOST = 20
"""Messages and ids that are shown of many."""


def entries(given: Sequence[message_log.Entry]) -> dict[str, Any]:
    """Entries that are to be written."""
    shown = [{"id": each.key, "role": each.role, "text": brief(each.text)} for each in given[:MOST]]
    return {"count": len(given), "messages": shown}


def appended(added: message_log.Appended) -> dict[str, Any]:
    """What was new of them, and which messages had to go for it."""
    told = {"count": len(added.keys), "ids": added.keys[:MOST]}
    return {**told, **removed(added.dropped)} if added.dropped else told


def removed(keys: Sequence[str]) -> dict[str, Any]:
    """Messages that are gone."""
    return {"removed": len(keys), "removed_ids": list(keys[:MOST])}


def cleared(count: int) -> dict[str, Any]:
    """How much is gone of a conversation, versions included."""
    return {"removed": count}


def changed(key: str | None) -> dict[str, Any]:
    """A message that was to be changed."""
    return {"changed": key is not None, "message_id": key}


def dicts(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Messages as a provider takes them: the newest of them."""
    return {"count": len(found), "messages": [_dict(each) for each in found[-MOST:]]}


def messages(found: Sequence[BaseMessage]) -> dict[str, Any]:
    """LangChain messages: the newest of them."""
    shown = [{"id": each.id, "type": each.type, "text": brief(str(each.text))} for each in found[-MOST:]]
    return {"count": len(found), "messages": shown}


def values(found: Sequence[Message]) -> dict[str, Any]:
    """Messages as values: the newest of them."""
    shown = [{"id": each.message_id, "role": each.role, "text": brief(each.text)} for each in found[-MOST:]]
    return {"count": len(found), "messages": shown}


def rounds(found: tuple[Sequence[message_log.Stored], Sequence[message_log.Stored]]) -> dict[str, Any]:
    """The rounds and messages of a session."""
    return {"rounds": len(found[0]), "messages": len(found[1])}


def fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a message, in short."""
    return {
        name: value if value is None or isinstance(value, bool | int | float) else brief(str(value))
        for name, value in given.items()
    }


def with_values(**given: Any) -> Thunk:
    """Those of these inputs that were given, in short."""
    return lambda: fields({name: value for name, value in given.items() if value is not None})


def _dict(each: Mapping[str, Any]) -> dict[str, Any]:
    content, calls = each.get("content"), each.get("tool_calls")
    told: dict[str, Any] = {"id": each["message_id"]} if "message_id" in each else {}
    told |= {"role": each.get("role"), "text": brief(_text(content))}
    return {**told, "tool_calls": len(calls)} if calls else told


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    blocks: Iterable[Any] = content if isinstance(content, list) else ()
    return " ".join(str(block.get("text", "")) if isinstance(block, Mapping) else str(block) for block in blocks)
