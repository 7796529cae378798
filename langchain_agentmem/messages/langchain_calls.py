"""Tool calls, between LangChain's dictionaries and ours.

LangChain keeps arguments as a dictionary, and calls whose arguments cannot be read in a second list. Ours
keeps the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NoReturn

from langchain_agentmem.base.encoding import is_plain
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.provider_content import json_text
from langchain_agentmem.messages.tool_calls import ToolCallMsg

_VALID_KEYS = {"name", "args", "id", "type"}
_INVALID_KEYS = {"name", "args", "id", "error", "type"}


def calls_from(
    tool_calls: list[dict[str, Any]], invalid_tool_calls: list[dict[str, Any]]
) -> tuple[list[ToolCallMsg], bool]:
    """Turn LangChain's calls into ours.

    Args:
        tool_calls: ``{"name", "args": dictionary, "id", "type": "tool_call"}``.
        invalid_tool_calls: ``{"name", "args": text, "id", "error", "type": "invalid_tool_call"}``.

    Returns:
        The calls, valid ones first, and whether `calls_to` gives back exactly what was given.
    """
    exact = all(map(_is_exact, tool_calls)) and all(map(_is_exact_invalid, invalid_tool_calls))
    write = _write if exact else _text
    calls = [_call(call, write(call.get("args"))) for call in tool_calls]
    for call in invalid_tool_calls:
        args = call.get("args")
        calls.append(_call(call, args if isinstance(args, str) else _text(args)))
    return calls, exact


def calls_to(calls: Iterable[ToolCallMsg]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Turn our calls into LangChain's.

    Args:
        calls: The calls.

    Returns:
        The calls whose arguments are a JSON object, and the invalid ones. An empty id becomes None.
    """
    valid: list[dict[str, Any]] = []
    invalid: list[dict[str, Any]] = []
    for call in calls:
        args = json_object(call.arguments)
        if args is not None:
            valid.append({"name": call.name, "args": args, "id": call.id or None, "type": "tool_call"})
        else:
            invalid.append(
                {
                    "name": call.name,
                    "args": call.arguments,
                    "id": call.id or None,
                    "error": None,
                    "type": "invalid_tool_call",
                }
            )
    return valid, invalid


def _is_exact(call: dict[str, Any]) -> bool:
    if call.keys() != _VALID_KEYS or call["type"] != "tool_call" or not _is_named(call):
        return False
    args = call["args"]
    return type(args) is dict and is_plain(args)


def _is_exact_invalid(call: dict[str, Any]) -> bool:
    if call.keys() != _INVALID_KEYS or call["type"] != "invalid_tool_call" or not _is_named(call):
        return False
    args = call["args"]
    return call["error"] is None and type(args) is str and json_object(args) is None


def _is_named(call: dict[str, Any]) -> bool:
    identity = call["id"]
    return type(call["name"]) is str and (identity is None or (type(identity) is str and identity != ""))


def _call(call: dict[str, Any], arguments: str) -> ToolCallMsg:
    return ToolCallMsg(id=call.get("id") or "", name=call.get("name") or "", arguments=arguments)


def _text(args: Any) -> str:
    """Write arguments that JSON cannot hold exactly, as well as it can.

    LangChain's own are kept beside this text. The keys are sorted, as they are in a body, so that arguments
    that were stored and read give the same text again.
    """
    try:
        return json_text(args, sort_keys=True)
    except InvalidInput:
        return json.dumps({"unreadable": repr(args)}, ensure_ascii=False)


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not JSON"
    raise ValueError(msg)


_write = json.JSONEncoder(ensure_ascii=False).encode
_read = json.JSONDecoder(parse_constant=_refuse_constant).decode


def json_object(text: str) -> dict[str, Any] | None:
    """Read the arguments of a call; None when they are not a JSON object."""
    try:
        value = _read(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
