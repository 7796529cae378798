"""A provider refused a context as too large: make it smaller than any threshold asks, so that the call can be repeated.

All that may be summarized is, at once, with few images and no more of them than half of what the provider takes; the
protected tail stays as it is (document 003). Where the provider still refuses, tool output in the tail is cut as well.
What counts is that the bytes that would be sent are fewer; else nothing is changed.

What a model says of itself: who provides it, and what it is called.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_openai_messages

from langchain_agentmem.compaction.compacted_context import RECOVER, Context, Telling
from langchain_agentmem.compaction.compaction_config import Situation, ToolTruncationConfig
from langchain_agentmem.compaction.graph_compactor import CompactedHistory, Compactor, ContextView
from langchain_agentmem.compaction.processors import PipelineOutcome, compacting, tool_truncation
from langchain_agentmem.conversations.compaction_records import CompactionRecord
from langchain_agentmem.conversations.message_log import Address
from langchain_agentmem.language_models.model_calls import Work

PAYLOAD_LIMITS = MappingProxyType(
    {
        "anthropic": 32_000_000,
        "anthropic-oauth": 32_000_000,
        "google": 100_000_000,
        "openai": 25_000_000,
        "openai-oauth": 25_000_000,
        "openrouter": 25_000_000,
        "xai": 25_000_000,
    }
)
"""Bytes that providers take in one request."""
USUAL_LIMIT = 25_000_000
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


def recovering(
    compactor: Compactor,
    subject: CompactedHistory,
    context: Context,
    telling: Telling,
    *,
    provider: str = "",
    attempt: int = 1,
    overhead: int = 0,
    model: Any = None,
) -> Work[CompactionRecord | None]:
    """Make a context that was refused smaller.

    Args:
        compactor: Whose budget it is.
        subject: Which history.
        context: What was refused.
        telling: Who is told.
        provider: Who refused it, for the bytes that it takes. Default: 25 million of them.
        attempt: The second attempt also cuts tool output in the protected tail.
        overhead: Tokens that are sent beside the messages.
        model: What summarizes. Default: the compactor's.

    Returns:
        The compaction that counts from now on; None where nothing could be made smaller.
    """
    situation = _thorough(compactor.situation(overhead=overhead, model=model), provider)
    situation = dataclasses.replace(situation, originals=subject.originals)
    before = context.without_last(subject.later)
    size = payload_bytes(before.messages)
    telling.note(bytes_before=size, bytes_after=size)
    telling.started(_calibrated(situation.tokens(before.messages), compactor), len(context.messages))
    try:
        outcome = yield from compacting(before.messages, situation)
        if attempt > 1:
            outcome = _cut(outcome, situation)
        left = payload_bytes(outcome.messages)
        if left >= size:
            telling.failed(outcome.stages_run)
            return None
        telling.note(bytes_after=left)
        tried = situation.model is not None
        record: CompactionRecord = yield from compactor.kept(subject, outcome, before, tried=tried, anew=True)
    except Exception:
        telling.failed()
        raise
    tokens = _calibrated(outcome.tokens, compactor)
    messages = len(outcome.messages) + subject.later
    telling.completed(outcome, situation.target, tokens=tokens, messages=messages, record=record)
    return record


def recovering_state(
    compactor: Compactor,
    messages: Sequence[BaseMessage],
    at: Address | None,
    *,
    provider: str = "",
    attempt: int = 1,
    overhead: int = 0,
    agent_name: str = "",
) -> Work[ContextView | None]:
    """The same for a graph's history.

    Args:
        compactor: Whose budget it is.
        messages: The whole history.
        at: The conversation in which it is recorded, or None.
        provider: Who refused it.
        attempt: See `recovering`.
        overhead: Tokens that are sent beside the messages.
        agent_name: Whose context it is, for events.

    Returns:
        What is to be sent instead; None where nothing could be made smaller.
    """
    telling = Telling(compactor.database, at.name if at else "", agent_name=agent_name)

    def working() -> Work[ContextView | None]:
        subject, context = yield from compactor.current(messages, at)
        record = yield from recovering(
            compactor, subject, context, telling, provider=provider, attempt=attempt, overhead=overhead
        )
        return None if record is None else compactor.shown(messages, at, record, overhead=overhead)

    view: ContextView | None = yield telling.step(
        RECOVER, working(), at, "refused", provider=provider or None, attempt=attempt, messages=len(messages)
    )
    return view


def _thorough(situation: Situation, provider: str) -> Situation:
    """The same, with all that may go gone."""
    config = situation.config
    most = config.summarization.max_retained_images
    summarization = dataclasses.replace(
        config.summarization, enabled=True, max_retained_images=_MOST_IMAGES if most is None else most
    )
    return dataclasses.replace(
        situation,
        config=dataclasses.replace(
            config,
            mode="compaction",
            processor_order=["summarization"],
            excluded_processors=[],
            summarization=summarization,
        ),
        thorough=True,
        image_bytes=int(PAYLOAD_LIMITS.get(provider.lower(), USUAL_LIMIT) * _SHARE_OF_IMAGES),
    )


def _cut(outcome: PipelineOutcome, situation: Situation) -> PipelineOutcome:
    """The same, with all tool output cut, wherever it stands."""
    most = max(_LEAST_TOOL_OUTPUT, (situation.target.tokens or 0) // _SHARE_OF_TOOL_OUTPUT)
    given = situation.config.tool_truncation.max_tool_message_tokens
    config = ToolTruncationConfig(max_tool_message_tokens=min(most, given), include_tool_payload_user_messages=False)
    messages = tool_truncation(outcome.messages, config=config, counter=situation.counter, everywhere=True)
    return dataclasses.replace(
        outcome,
        messages=messages,
        tokens=situation.tokens(messages),
        stages_run=(*outcome.stages_run, "tool_truncation"),
        reason=outcome.reason,
    )


def _calibrated(tokens: int, compactor: Compactor) -> int:
    return math.ceil(tokens * compactor.counter.factor())


def provider_of(model: Any) -> str:
    """The provider of a model, as `PAYLOAD_LIMITS` names it; empty for any other.

    Args:
        model: A LangChain model, or whatever else a model is called by.
    """
    model = getattr(model, "bound", model)
    try:
        told = model._get_ls_params().get("ls_provider")  # noqa: SLF001 - what LangChain tells of a model in a trace
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
