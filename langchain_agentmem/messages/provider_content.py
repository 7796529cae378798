"""The shapes that providers expect of a message's content.

Pure functions from the fields of a message to what goes over the wire in the form of the OpenAI chat API,
which LangChain, LiteLLM and most gateways read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from langchain_core.messages import convert_to_openai_data_block

from langchain_agentmem.base.encoding import to_plain
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages.blocks import kind_of
from langchain_agentmem.messages.images import PartOf, image_part, standard_image_part

_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_CAPTION_KEYS = ("caption", "alt", "title")

# Blocks that the chat API carries in fields of their own, or not at all.
_NOT_CHAT_PARTS = frozenset(
    {
        "reasoning",
        "thinking",
        "redacted_thinking",
        "reasoning_content",
        "tool_use",
        "tool_call",
        "tool_call_chunk",
        "invalid_tool_call",
        "input_json_delta",
        "function_call",
    }
)


def json_text(value: Any, *, sort_keys: bool = False) -> str:
    """Give structured content as JSON text for a model to read: dates as ISO text, sets as lists.

    What not even that can say is tagged, see `langchain_agentmem.base.encoding`.

    Raises:
        MessageError: Something inside is an object that cannot be written.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_said, sort_keys=sort_keys)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return json.dumps(to_plain(value), ensure_ascii=False, sort_keys=sort_keys)
    except InvalidInput as error:
        raise MessageError(str(error)) from error


def _said(value: Any) -> Any:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, UUID | Decimal | timedelta):
        return str(value)
    raise TypeError(type(value).__name__)


_CALL_TYPES = frozenset({"tool_use", "tool_call", "function_call"})


def provider_content(content: Any, images: list[str] | None, part_of: PartOf = image_part) -> str | list[Any]:
    """Give content as text, or as a list of parts when there are images or parts in it.

    Args:
        content: What a message holds: text, a dictionary, a list of texts and blocks, or None.
        images: Paths and URLs that go with it.
        part_of: What gives each of these as a part. Default: `image_part`.

    Returns:
        Text, or parts. A dictionary becomes JSON text. Blocks that are unknown here stay as they are.

    Raises:
        MessageError: An image file cannot be read.
    """
    if isinstance(content, list):
        parts = [_part(block) for block in content]
    elif not images:
        return content if isinstance(content, str) else "" if content is None else json_text(content)
    else:
        text = content if isinstance(content, str) else "" if content is None else json_text(content)
        parts = [{"type": "text", "text": text}] if text else []
    return parts + [part_of(image) for image in images or ()]


def strict_content(content: str | list[Any] | None) -> str | list[Any] | None:
    """Keep only the parts that the chat API knows as content.

    Reasoning and calls are left out: the API carries calls in a field of their own, and no reasoning.
    """
    if not isinstance(content, list):
        return content
    parts = []
    for part in content:
        kind = kind_of(part)
        if kind in _TEXT_TYPES:
            parts.append({"type": "text", "text": part.get("text", "")})
        elif kind not in _NOT_CHAT_PARTS:
            parts.append(part)
    return parts


def without_calls(content: list[Any]) -> list[Any]:
    """Leave out the blocks that say again which tools are called."""
    return [block for block in content if kind_of(block) not in _CALL_TYPES]


def strict_name(name: str) -> str:
    r"""Give a name as OpenAI accepts it: no spaces nor ``< | \\ / >``, at most 64 characters."""
    return re.sub(r"[\s<|\\/>]", "_", name)[:64]


def tool_result(content: Any, tool_call_id: str | None) -> tuple[Any, str | None]:
    """Take a tool's result out of its envelope (document 001).

    Args:
        content: The content of a tool message, maybe ``{"tool_call_id", "output"}``, a dictionary or JSON
            text.
        tool_call_id: The message's own field, which decides when the two differ.

    Returns:
        The content for the provider, and the call's id. Without an envelope, both as they were.
    """
    envelope = content
    if isinstance(content, str) and content.lstrip()[:1] == "{" and '"tool_call_id"' in content:
        try:
            envelope = json.loads(content)
        except (ValueError, RecursionError):
            return content, tool_call_id
    if not isinstance(envelope, dict) or "output" not in envelope:
        return content, tool_call_id
    inner = envelope.get("tool_call_id")
    if not isinstance(inner, str) or tool_call_id not in (None, inner):
        return content, tool_call_id
    if set(envelope) != {"tool_call_id", "output"}:  # it says more than an output: keep all of it
        return content, inner
    output = envelope["output"]
    return output if isinstance(output, str) else json_text(output), inner


def readable_text(content: Any) -> str:
    """Give what a person would read of some content.

    Args:
        content: Text, a dictionary, a list of texts and blocks, or None.

    Returns:
        The text, the texts of blocks, the captions of images, and the texts inside a dictionary, one a line.
        Neither reasoning, nor calls, nor encoded data.
    """
    if isinstance(content, str):
        return content
    lines: list[str] = []
    if isinstance(content, list):
        for block in content:
            lines.extend(_block_lines(block))
    elif isinstance(content, dict):
        lines.extend(_value_lines(content))
    return "\n".join(lines)


def _part(block: Any) -> Any:
    if not isinstance(block, dict):
        return {"type": "text", "text": block if isinstance(block, str) else json_text(block)}
    kind = kind_of(block)
    if kind == "image":
        return standard_image_part(block) or block
    if kind in ("audio", "file"):
        try:
            return convert_to_openai_data_block(block)
        except (ValueError, KeyError, TypeError):
            return block  # a provider's own form of it
    return block


def _block_lines(block: Any) -> list[str]:
    if isinstance(block, str):
        return [block]
    if not isinstance(block, Mapping):
        return []
    kind = kind_of(block)
    if kind in _NOT_CHAT_PARTS:
        return []
    text = block.get("text")
    lines = [text] if isinstance(text, str) and (kind is None or kind in _TEXT_TYPES) else []
    if kind == "tool_result":  # a provider's own form of a tool's answer holds content again
        return [readable_text(block.get("content"))]
    lines.extend(block[key] for key in _CAPTION_KEYS if isinstance(block.get(key), str))
    return [line for line in lines if line]


def _value_lines(value: Any, depth: int = 32) -> list[str]:
    if isinstance(value, str):
        return [] if not value or value[:5].lower() == "data:" else [value]
    if depth and isinstance(value, Mapping):
        return [line for item in value.values() for line in _value_lines(item, depth - 1)]
    if depth and isinstance(value, list | tuple):
        return [line for item in value for line in _value_lines(item, depth - 1)]
    return []
