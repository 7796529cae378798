"""A history as every provider accepts it, whatever it was before.

Providers refuse a result without its call, a call without its result, a system message in the middle, an empty message,
and a conversation that no user begins. `repaired` mends all that in a copy, loses no text, and keeps the order
otherwise: results move to their calls, a call without a result gets one that says so, and a result without a call is
told in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage

from langchain_agentmem.base.encoding import CALLS, IMAGES, TEXTS, kind_of
from langchain_agentmem.base.fencing import fenced
from langchain_agentmem.messages.history_shape import calls_of, role_of
from langchain_agentmem.messages.message_marks import BEGINNING, MADE, NO_RESULT, OPENING, RESULT, altered

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def sound_until(messages: Sequence[BaseMessage], start: int = 0) -> int:
    """How far a history needs no repair and no call is open: quickly, so that it can be asked every turn.

    Args:
        messages: The history.
        start: Where to begin: a place up to which this was found before.
    """
    sound = start
    body = start > 0 and role_of(messages[start - 1]) != "system"
    waiting: set[str] = set()
    for place in range(start, len(messages)):
        message = messages[place]
        role = role_of(message)
        if waiting:
            fits = role == "tool" and getattr(message, "tool_call_id", None) in waiting
        else:
            fits = role not in ("system", "tool") if body else role in ("system", "user")
        if not fits or _mended(message) is not message:
            return sound
        if waiting:
            waiting.discard(message.tool_call_id)  # type: ignore[attr-defined]  # a tool message has it
        else:
            body = role != "system"
            waiting = {call["id"] for call in calls_of(message)}
        if not waiting:
            sound = place + 1
    return sound


def repaired(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Give a history as every provider accepts it. A message that needs no repair is the same object.

    Args:
        messages: Any history. It is not changed.
    """
    if sound_until(messages) == len(messages) and any(role_of(message) == "user" for message in messages):
        return with_distinct_calls(messages)
    mended = [each for message in messages if (each := _mended(message)) is not None]
    systems = [each for each in mended if role_of(each) == "system"]
    said = [each for each in mended if role_of(each) != "system"]
    body = _paired(said)
    if (systems or body) and (not body or role_of(body[0]) != "user"):
        body.insert(0, HumanMessage(content=BEGINNING, id="agentmem-opening", additional_kwargs={MADE: OPENING}))
    return with_distinct_calls(systems + body)


def with_distinct_calls(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Give calls ids of their own where a later call bears the id of an earlier one; their results follow them.

    Some models count their calls anew each turn. Anthropic refuses an id that comes twice.

    Args:
        messages: A history in which results stand behind their calls.
    """
    named = [call["id"] for message in messages if isinstance(message, AIMessage) for call in calls_of(message)]
    if len({*named}) == len(named):
        return list(messages)
    seen: set[str] = set()
    renamed: dict[str, str] = {}
    distinct: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            new = renamed.get(message.tool_call_id)
            distinct.append(message if new is None else altered(message, tool_call_id=new))
            continue
        calls = [call["id"] for call in calls_of(message)]
        renamed = {call: _free(call, seen) for call in calls if call in seen}
        seen.update(renamed.get(call, call) for call in calls)
        distinct.append(_renamed(message, renamed) if renamed else message)
    return distinct


def _free(call: str, seen: set[str]) -> str:
    return next(name for number in count(2) if (name := f"{call}-{number}") not in seen)


def _renamed(message: BaseMessage, names: dict[str, str]) -> BaseMessage:
    """A message whose calls have other ids, wherever it tells them."""
    changes: dict[str, Any] = {}
    for kind in ("tool_calls", "invalid_tool_calls"):
        calls = getattr(message, kind, [])
        changes[kind] = [call | {"id": names.get(call["id"], call["id"])} for call in calls]
    if isinstance(message.content, list):
        changes["content"] = [_block_renamed(block, names) for block in message.content]
    kwargs = message.additional_kwargs
    if isinstance(told := kwargs.get("tool_calls"), list):
        changes["additional_kwargs"] = kwargs | {"tool_calls": [_block_renamed(call, names) for call in told]}
    return altered(message, **changes)


def _block_renamed(block: Any, names: dict[str, str]) -> Any:
    if not isinstance(block, dict):
        return block
    return block | {key: names[block[key]] for key in ("id", "call_id") if block.get(key) in names}


def _paired(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Every result right behind its call, every call with its result."""
    answers = _answers(messages)
    taken = {place for each in answers.values() for place in each.values()}
    paired: list[BaseMessage] = []
    for place, message in enumerate(messages):
        if role_of(message) == "tool":
            if place not in taken:
                paired.append(_told(message))
            continue
        paired.append(message)
        own = answers.get(place, {})
        paired += [messages[answer] for answer in sorted(own.values())]
        paired += [_missing(message, call) for call in calls_of(message) if call["id"] not in own]
    return paired


def _answers(messages: Sequence[BaseMessage]) -> dict[int, dict[str, int]]:
    """Which result answers which call: for each message with calls, the places of the results by the calls' ids.

    Ids may be used again in later turns, so that a result answers the last call of its id that has none yet.
    """
    asked: dict[str, int] = {}
    answers: dict[int, dict[str, int]] = {}
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            asking = asked.pop(message.tool_call_id, None)
            if asking is not None:
                answers.setdefault(asking, {})[message.tool_call_id] = place
        else:
            asked.update((call["id"], place) for call in calls_of(message))
    return answers


def _missing(message: BaseMessage, call: dict[str, Any]) -> ToolMessage:
    key = f"{message.id}:{call['id']}:missing" if message.id else None
    made = {"status": "error", "additional_kwargs": {MADE: True}}
    return ToolMessage(content=NO_RESULT, tool_call_id=call["id"], name=call["name"], id=key, **made)


def without_stand_ins(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """A repaired history without the results that were missing at its end, since they may still come."""
    last = next((place for place in range(len(messages) - 1, -1, -1) if role_of(messages[place]) != "tool"), 0)
    return [each for place, each in enumerate(messages) if place <= last or not _is_stand_in(each)]


def _is_stand_in(message: BaseMessage) -> bool:
    return message.content == NO_RESULT and MADE in message.additional_kwargs


def _told(message: BaseMessage) -> HumanMessage:
    """A result whose call is not there, in words."""
    name = {"name": message.name} if message.name else {}
    content: Any = fenced("tool_result", message.text, **name)
    if isinstance(message.content, list):
        images = [block for block in message.content if _is_image(block)]
        content = [{"type": "text", "text": content}, *images] if images else content
    return HumanMessage(content=content, id=message.id, additional_kwargs={MADE: RESULT})


def _mended(message: BaseMessage) -> BaseMessage | None:
    """One message without what a provider refuses in it; None when nothing is left."""
    if isinstance(message, RemoveMessage):
        return None
    changes: dict[str, Any] = {}
    if message.name is not None and not _NAME.fullmatch(message.name):
        changes["name"] = re.sub(r"[^a-zA-Z0-9_-]", "_", message.name)[:64] or None
    if isinstance(message, AIMessage) and calls_of(message):
        changes |= _with_usable_calls(message)
    content = changes.get("content", message.content)
    role = role_of(message)
    if isinstance(content, str) and content and not content.strip() and calls_of(message):
        changes["content"] = ""
    if isinstance(content, list):
        kept = [each for block in content if (each := _block(block, role)) is not None]
        if len(kept) != len(content) or any(one is not other for one, other in zip(kept, content, strict=True)):
            changes["content"] = kept
    mended = altered(message, **changes) if changes else message
    return None if role != "tool" and _is_empty(mended) else mended


def _is_empty(message: BaseMessage) -> bool:
    content = message.content
    return not calls_of(message) and not (content.strip() if isinstance(content, str) else content)


def _with_usable_calls(message: AIMessage) -> dict[str, Any]:
    """What must change in a message so that each of its calls can be answered: an id and a name, and an id once."""
    seen: set[str] = set()
    usable: dict[str, list[Any]] = {"tool_calls": [], "invalid_tool_calls": []}
    for kind, kept in usable.items():
        for call in getattr(message, kind):
            if call.get("id") and call.get("name") and call["id"] not in seen:
                seen.add(call["id"])
                kept.append(call)
    changes: dict[str, Any] = {kind: kept for kind, kept in usable.items() if len(kept) != len(getattr(message, kind))}
    if isinstance(message.content, list):
        if not message.tool_calls and not message.invalid_tool_calls:  # the blocks are all there is of the calls
            calls = [block for block in message.content if isinstance(block, dict) and _is_call(block)]
            named = {block["id"]: block for block in calls if block.get("id") and block.get("name")}
            changes["tool_calls"] = [
                {"name": block["name"], "args": _arguments(block), "id": key, "type": "tool_call"}
                for key, block in named.items()
            ]
            seen = {*named}
        content = [block for block in message.content if not _is_call(block) or _call_id(block) in seen]
        if len(content) != len(message.content):
            changes["content"] = content
    return changes


def _block(block: Any, role: str) -> Any:
    """A block as a provider accepts it in this role, or None."""
    if isinstance(block, str):
        return block if block.strip() else None
    if kind_of(block) in TEXTS and not str(block.get("text") or "").strip():
        return None
    if _is_image(block) and role not in ("user", "tool"):
        return {"type": "text", "text": "[An image was here.]"}
    return block


def _is_image(block: Any) -> bool:
    return kind_of(block) in IMAGES


def _is_call(block: Any) -> bool:
    return kind_of(block) in CALLS


def _call_id(block: Any) -> Any:
    return block.get("id") if block.get("id") is not None else block.get("call_id")


def _arguments(block: dict[str, Any]) -> dict[str, Any]:
    given = block.get("input", block.get("args"))
    return given if isinstance(given, dict) else {}
