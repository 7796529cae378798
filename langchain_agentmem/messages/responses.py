"""Reading the replies of providers, as dictionaries and as objects, into the fields of a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_agentmem.errors import MessageError

_FIELDS = ("role", "content", "name", "structured_data", "reasoning_details", "tool_call_id")


def fields_of_dict(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Read a reply that is a dictionary.

    Args:
        reply: A message in the form of the OpenAI API, or the whole reply with ``choices`` around it.

    Returns:
        The arguments of a message; only those that are set.

    Raises:
        MessageError: It is not a dictionary, or its ``choices`` hold no message.
    """
    if not isinstance(reply, Mapping):
        raise MessageError(f"A reply must be a dictionary, not {type(reply).__name__}.")
    if "choices" in reply and "role" not in reply:
        try:
            reply = reply["choices"][0]["message"]
        except (LookupError, TypeError) as error:
            raise MessageError("The reply's 'choices' hold no message.") from error
    elif isinstance(reply.get("message"), Mapping) and "role" not in reply:
        reply = reply["message"]
    return fields_of_object(reply)


def fields_of_object(reply: Any) -> dict[str, Any]:
    """Read a reply that is an object, or a dictionary with the same names.

    Args:
        reply: Anything with some of ``role``, ``content``, ``tool_calls``, ``agent_calls``,
            ``reasoning_details``, ``thinking`` and ``metadata``.

    Returns:
        The arguments of a message; only those that are set.

    Raises:
        MessageError: A tool call cannot be read.
    """
    if reply is None or isinstance(reply, str | bytes | int | float | list):
        raise MessageError(f"A reply must be an object or a dictionary, not {type(reply).__name__}.")
    found = {name: _get(reply, name) for name in _FIELDS}
    fields = {name: value for name, value in found.items() if value is not None}
    if calls := _get(reply, "tool_calls"):
        fields["tool_calls"] = [_call(call) for call in calls]
    if agents := _get(reply, "agent_calls"):
        fields["agent_calls"] = list(agents)
    thinking = _get(reply, "thinking") or _get(reply, "reasoning")
    if isinstance(thinking, str) and "reasoning_details" not in fields:
        fields["reasoning_details"] = [{"type": "reasoning.text", "text": thinking}]
    if metadata := _plain(_get(reply, "metadata")):
        fields["langchain"] = {"response_metadata": metadata}
    return fields


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _call(call: Any) -> Any:
    if isinstance(call, Mapping) or hasattr(call, "call_id"):
        return call if isinstance(call, Mapping) else _named(call, ("id", "call_id", "type", "name", "arguments"))
    data = _named(call, ("id", "type", "name", "arguments", "args"))
    if (function := _get(call, "function")) is not None:
        data["function"] = _named(function, ("name", "arguments"))
    return data


def _named(thing: Any, names: tuple[str, ...]) -> dict[str, Any]:
    found = {name: _get(thing, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _plain(metadata: Any) -> dict[str, Any] | None:
    if isinstance(metadata, Mapping):
        return dict(metadata)
    if hasattr(metadata, "model_dump"):
        return dict(metadata.model_dump(mode="json"))
    return dict(vars(metadata)) if hasattr(metadata, "__dict__") else None
