"""Processors that ask no model: each takes messages and gives messages, and changes none that it was given.

    shorter = tool_truncation(messages, config=ToolTruncationConfig(max_tool_message_tokens=300))

Each can be used alone and in any order. Doing it twice is doing it once. What a processor takes out of a context is not
lost: it stays in the log, or with whoever gave the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_agentmem.compaction.compaction_config import (
    BackwardPackingConfig,
    ToolOffloadConfig,
    ToolTruncationConfig,
)
from langchain_agentmem.language_models.tokens import TokenCounter, clipped
from langchain_agentmem.messages.history_repair import repaired
from langchain_agentmem.messages.history_shape import bundles, droppable, protected_from, role_of, shape_of
from langchain_agentmem.messages.synthetic_messages import altered

OFFLOADED = "agentmem_offloaded"
"""In `additional_kwargs` of a stub: the id by which what it stands for is brought back."""


def tool_truncation(
    messages: Sequence[BaseMessage],
    *,
    config: ToolTruncationConfig | None = None,
    counter: TokenCounter | None = None,
    everywhere: bool = False,
) -> list[BaseMessage]:
    """Cut long tool output before the protected tail.

    Args:
        messages: A history.
        config: How much is kept of each. Default: document 003's.
        counter: Counts tokens. Default: a new one.
        everywhere: Whether the protected tail is cut too. Default False.

    Returns:
        The history; messages that are short enough are the same objects.
    """
    config, counter = config or ToolTruncationConfig(), counter or TokenCounter()

    def cut(text: str) -> str:
        return clipped(text, config.max_tool_message_tokens, counter, marker=config.append_marker)

    end = len(messages) if everywhere else protected_from(messages, config.grace_recent_messages)
    return [
        _with_text(message, cut) if place < end and _is_tool_output(message, config) else message
        for place, message in enumerate(messages)
    ]


def tool_offload(
    messages: Sequence[BaseMessage],
    *,
    config: ToolOffloadConfig | None = None,
    counter: TokenCounter | None = None,
    archive: Callable[[BaseMessage], str | None] = lambda message: message.id,
) -> list[BaseMessage]:
    """Put a stub in the place of large tool output before the protected tail.

    Args:
        messages: A history.
        config: What is large. Default: 4,000 tokens.
        counter: Counts tokens. Default: a new one.
        archive: Keeps a message and gives the id by which it is brought back; None where it cannot, and then the
        message
            stays. Default: the message's own id, for messages that a log holds already.

    Returns:
        The history; all other messages are the same objects.
    """
    config, counter = config or ToolOffloadConfig(), counter or TokenCounter()
    end = protected_from(messages, config.grace_recent_messages)
    return [
        _offloaded(message, config, counter, archive) if place < end and isinstance(message, ToolMessage) else message
        for place, message in enumerate(messages)
    ]


def backward_packing(
    messages: Sequence[BaseMessage],
    *,
    max_tokens: int,
    config: BackwardPackingConfig | None = None,
    counter: TokenCounter | None = None,
    keep_first: bool = True,
) -> list[BaseMessage]:
    """Keep the newest messages that fit beside what must stay, without a gap.

    System messages, the first instruction, a summary, the request at hand and the protected tail always stay.

    Args:
        messages: A history.
        max_tokens: What the result may cost, if that can be reached.
        config: What is protected. Default: from the last assistant message on.
        counter: Counts tokens. Default: a new one.
        keep_first: Whether the first thing a user said stays. Default True.

    Returns:
        The history, as every provider accepts it; the kept messages are the same objects.
    """
    config, counter = config or BackwardPackingConfig(), counter or TokenCounter()
    valid = repaired(messages)
    shape = shape_of(valid, grace=config.grace_recent_messages, keep_first=keep_first)
    costs = [counter.count_message(message) for message in valid]
    loose = droppable(valid, shape)
    left = max_tokens - sum(costs) + sum(sum(costs[each.start : each.stop]) for each in loose)
    dropped: set[int] = set()
    for place in range(len(loose) - 1, -1, -1):
        left -= sum(costs[loose[place].start : loose[place].stop])
        if left < 0:
            dropped = {each for bundle in loose[: place + 1] for each in range(bundle.start, bundle.stop)}
            break
    kept = [place for place in range(len(valid)) if place not in dropped]
    begin = next((place for place in kept if role_of(valid[place]) == "user"), len(valid))
    begin = min(begin, shape.tail)  # no answer is left at the beginning without its question
    return repaired([valid[place] for place in kept if place < shape.systems or place >= begin])


def sliding_window(
    messages: Sequence[BaseMessage], *, max_tokens: int, counter: TokenCounter | None = None
) -> list[BaseMessage]:
    """Show system messages and as many of the newest messages as fit, calls always with their results.

    The last thing a user said is always shown, so that the context has a user message; and whatever is newest is, even
    where that alone is too large.

    Args:
        messages: A history.
        max_tokens: What the result may cost, if that can be reached.
        counter: Counts tokens. Default: a new one.

    Returns:
        The history, as every provider accepts it; the kept messages are the same objects.
    """
    counter = counter or TokenCounter()
    valid = repaired(messages)
    shape = shape_of(valid, grace=0, keep_first=False)
    costs = [counter.count_message(message) for message in valid]
    kept = {*range(shape.systems)}
    if shape.request is not None:
        kept.add(shape.request)
    users = [place for place, message in enumerate(valid) if role_of(message) == "user"]
    if users:
        kept.add(users[-1])
    left = max_tokens - sum(costs[place] for place in kept)
    pieces = bundles(valid, shape.systems, len(valid))
    for bundle in reversed(pieces):
        new = {*range(bundle.start, bundle.stop)} - kept
        left -= sum(costs[place] for place in new)
        if left < 0 and bundle is not pieces[-1]:
            break
        kept |= new
    begin = min((place for place in kept if role_of(valid[place]) == "user"), default=0)
    return [
        message for place, message in enumerate(valid) if place in kept and (place < shape.systems or place >= begin)
    ]


def _is_tool_output(message: BaseMessage, config: ToolTruncationConfig) -> bool:
    if isinstance(message, ToolMessage):
        return True
    if not config.include_tool_payload_user_messages or role_of(message) != "user":
        return False
    text = message.content
    return isinstance(text, str) and text.startswith("Tool ") and "returned:" in text


def _with_text(message: BaseMessage, change: Callable[[str], str]) -> BaseMessage:
    """The message with its texts changed; the same object if none is."""
    content = message.content
    if isinstance(content, str):
        text = change(content)
        return message if text == content else altered(message, content=text)
    blocks = [_block_with_text(block, change) for block in content]
    return message if blocks == content else altered(message, content=blocks)


def _block_with_text(block: Any, change: Callable[[str], str]) -> Any:
    if isinstance(block, str):
        return change(block)
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return block | {"text": change(block["text"])}
    return block


def _offloaded(
    message: ToolMessage,
    config: ToolOffloadConfig,
    counter: TokenCounter,
    archive: Callable[[BaseMessage], str | None],
) -> BaseMessage:
    size = counter.count_message(message)
    if size <= config.max_tool_message_tokens or OFFLOADED in message.additional_kwargs:
        return message
    key = archive(message)
    if key is None:
        return message
    preview = clipped(message.text, config.preview_tokens, counter, marker=" …") if config.preview_tokens else ""
    stub = f'[Tool output of {size} tokens, kept in the archive. expand("{key}") brings it back.]'
    return altered(
        message,
        content=f"{stub}\n{preview}" if preview else stub,
        additional_kwargs=message.additional_kwargs | {OFFLOADED: key},
    )
