"""A provider refused a context as too large: make it smaller than any threshold asks, so that the call can be repeated.

All that may be summarized is, at once, with few images and no more of them than half of what the provider takes; the
protected tail stays as it is. Where the provider still refuses, tool output in the tail is cut as well.
What counts is that the bytes that would be sent are fewer; else nothing is changed.

What a model says of itself: who provides it, and what it is called.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_openai_messages

from langchain_agentmem.compaction.compaction_config import Situation, ToolTruncationConfig
from langchain_agentmem.compaction.processors import PipelineOutcome, tool_truncation

USUAL_LIMIT = 25_000_000
"""Bytes that a provider takes in one request, unless more is known of it."""
PAYLOAD_LIMITS = MappingProxyType(
    {"anthropic": 32_000_000, "anthropic-oauth": 32_000_000, "google": 100_000_000}
    | dict.fromkeys(("openai", "openai-oauth", "openrouter", "xai"), USUAL_LIMIT)
)
"""The same for each provider that has a name here."""
_SHARE_OF_IMAGES = 0.5
_MOST_IMAGES = 5
_SHARE_OF_TOOL_OUTPUT = 16
_LEAST_TOOL_OUTPUT = 50


def payload_bytes(messages: Sequence[BaseMessage]) -> int:
    """How many bytes a context has when it is sent, images included."""
    try:
        return len(json.dumps(convert_to_openai_messages(messages), default=repr).encode())
    except (TypeError, ValueError):  # a block that LangChain cannot translate
        return sum(len(repr(message.content)) for message in messages)


def thorough(situation: Situation, provider: str) -> Situation:
    """What a compaction has to reach after a provider refused a context: all that may go goes.

    Args:
        situation: What a usual compaction has to reach.
        provider: Who refused it.
    """
    config = situation.config
    most = config.summarization.max_retained_images
    summarization = config.summarization.replace(
        enabled=True, max_retained_images=_MOST_IMAGES if most is None else most
    )
    return dataclasses.replace(
        situation,
        config=config.replace(
            mode="compaction", processor_order=["summarization"], excluded_processors=[], summarization=summarization
        ),
        thorough=True,
        image_bytes=int(PAYLOAD_LIMITS.get(provider.lower(), USUAL_LIMIT) * _SHARE_OF_IMAGES),
    )


def with_tool_output_cut(outcome: PipelineOutcome, situation: Situation) -> PipelineOutcome:
    """What a compaction came to, with all tool output cut, wherever it stands.

    Args:
        outcome: What it came to.
        situation: What was to be reached.
    """
    most = max(_LEAST_TOOL_OUTPUT, (situation.target.tokens or 0) // _SHARE_OF_TOOL_OUTPUT)
    given = situation.config.tool_truncation.max_tool_message_tokens
    config = ToolTruncationConfig(max_tool_message_tokens=min(most, given), include_tool_payload_user_messages=False)
    messages = tool_truncation(outcome.messages, config=config, counter=situation.counter, everywhere=True)
    return dataclasses.replace(
        outcome,
        messages=messages,
        tokens=situation.tokens(messages),
        stages_run=(*outcome.stages_run, "tool_truncation"),
    )


def provider_of(model: Any) -> str:
    """The provider of a model, as `PAYLOAD_LIMITS` names it; empty for any other.

    Args:
        model: A LangChain model, or whatever else a model is called by.
    """
    model = getattr(model, "bound", model)
    try:
        told = model._get_ls_params().get("ls_provider")
    except Exception:  # noqa: BLE001 - a model need not tell
        told = None
    name = f"{told} {getattr(model, '_llm_type', '')}".lower()
    return next((known for known in PAYLOAD_LIMITS if known in name), "")


def name_of(model: Any) -> tuple[str, str]:
    """What a model is called, so that one that is made anew for each call is known again.

    Args:
        model: A LangChain model.
    """
    model = getattr(model, "bound", model)
    return type(model).__name__, str(getattr(model, "model_name", None) or getattr(model, "model", ""))
