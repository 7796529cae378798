"""Processors run one after the other, until the context is small enough.

A processor that fails is passed over, one that makes a context larger is not believed, and what comes out is always
valid for a provider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.compaction.compaction_config import ActiveContextPolicyConfig
from langchain_agentmem.compaction.history_summarization import shortening
from langchain_agentmem.compaction.processors import backward_packing, sliding_window, tool_offload, tool_truncation
from langchain_agentmem.compaction.situation import Situation
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.messages.history_repair import repaired
from langchain_agentmem.messages.history_shape import shape_of
from langchain_agentmem.messages.summary import Summary

Processor: TypeAlias = Callable[[list[BaseMessage], Situation], Sequence[BaseMessage]]
"""Takes a valid history and gives a smaller one, changing none of the messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A stage that failed.

    Attributes:
        stage: Its name.
        error: What it raised.
    """

    stage: str
    error: Exception


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a compaction came to.

    Attributes:
        messages: The context, valid for every provider.
        tokens: What it costs.
        stages_run: The processors that ran, in order.
        summary: The new summary, if there is one.
        failures: What went wrong on the way.
        reason: Why the context is larger than the target, in a sentence; None where it is not.
        calls: How often a model was asked.
    """

    messages: list[BaseMessage]
    tokens: int
    stages_run: tuple[str, ...] = ()
    summary: Summary | None = None
    failures: tuple[Failure, ...] = ()
    reason: str | None = None
    calls: int = 0


def compacting(messages: Sequence[BaseMessage], situation: Situation) -> Work[Outcome]:
    """Make a context as small as its target, if that can be.

    Args:
        messages: A history. It is not changed.
        situation: What to reach, and with what.
    """
    context = repaired(messages)
    here = {message.id: message for message in context if message.id}
    situation = replace(situation, originals={**here, **situation.originals})
    stages: list[str] = []
    failures: list[Failure] = []
    summary, calls, summarized = None, 0, False
    for processor in situation.config.processors:
        if situation.fits(context) and not situation.thorough:
            break
        if processor == "backward_packing" and summarized and not _packs_more(situation.config):
            continue  # what is left was not worth a summary, and is not dropped without one
        name = processor if isinstance(processor, str) else getattr(processor, "__name__", type(processor).__name__)
        stages.append(name)
        try:
            if processor == "summarization":
                shorter = yield from shortening(context, situation)
                summarized = True
                made, calls = shorter.messages, calls + shorter.calls
                if shorter.failure is not None:
                    failures.append(Failure(stage=name, error=shorter.failure))
            else:
                shorter, made = None, _processed(processor, context, situation)
        except Exception as error:  # noqa: BLE001 - a processor that fails is passed over
            failures.append(Failure(stage=name, error=error))
            continue
        if situation.tokens(made) < situation.tokens(context) or (
            len(made) < len(context) and situation.counts_messages
        ):
            context = made
            summary = shorter.summary if shorter else summary
    return Outcome(
        messages=context,
        tokens=situation.tokens(context),
        stages_run=tuple(stages),
        summary=summary,
        failures=tuple(failures),
        reason=None if situation.fits(context) else _reason(context, situation),
        calls=calls,
    )


def _packs_more(config: ActiveContextPolicyConfig) -> bool:
    """Whether packing protects less than summarizing does."""
    return config.backward_packing.grace_recent_messages < config.summarization.grace_recent_messages


def _processed(
    processor: str | Callable[..., Any], messages: list[BaseMessage], situation: Situation
) -> list[BaseMessage]:
    config, counter = situation.config, situation.counter
    keep_first = config.summarization.include_original_instruction
    room = (situation.target.tokens or 0) - situation.overhead_tokens
    match processor:
        case "tool_truncation":
            cut = tool_truncation(messages, config=config.tool_truncation, counter=counter)
            first = shape_of(messages, grace=config.tool_truncation.grace_recent_messages, keep_first=keep_first).first
            if first is not None:  # it is pinned word for word, even if it looks like what a tool returned
                cut[first] = messages[first]
            return cut
        case "tool_offload":
            return tool_offload(messages, config=config.tool_offload, counter=counter, archive=situation.archive)
        case "backward_packing" if situation.target.tokens is not None:
            packing = config.backward_packing
            return backward_packing(messages, max_tokens=room, config=packing, counter=counter, keep_first=keep_first)
        case "sliding_window" if situation.target.tokens is not None:
            room = int(room * (1 - config.sliding_window.headroom_percent))
            return sliding_window(messages, max_tokens=room, counter=counter)
        case str():
            return messages
    made = checked_messages(processor(list(messages), situation), f"processor {safe_repr(processor)}")
    if not made:
        raise InvalidInput(f"The processor {safe_repr(processor)} gave no messages.")
    return repaired(made)


def checked_messages(given: Any, by: str) -> Sequence[BaseMessage]:
    """What a user's function gave, if it is messages.

    Args:
        given: What it gave.
        by: What the function is called.

    Raises:
        InvalidInput: It is no list of messages.
    """
    if not isinstance(given, Sequence) or not all(isinstance(each, BaseMessage) for each in given):
        raise InvalidInput(f"The {by} gave no list of messages, but {safe_repr(given)}.")
    return given


def _reason(messages: list[BaseMessage], situation: Situation) -> str:
    """Why a context could not be made smaller, so that somebody can do something about it."""
    shape = shape_of(messages, grace=situation.config.summarization.grace_recent_messages)
    parts = {
        "the protected tail": messages[shape.tail :],
        "the system messages": messages[: shape.systems],
        "the first instruction": [] if shape.first is None else [messages[shape.first]],
        "the request at hand": [] if shape.request is None else [messages[shape.request]],
        "the summary": [] if shape.summary is None else [messages[shape.summary]],
    }
    count = situation.cost
    costs = {name: sum(map(count, part)) for name, part in parts.items() if part}
    costs["what is sent beside the messages"] = situation.overhead_tokens
    told = ", ".join(f"{name} {tokens}" for name, tokens in sorted(costs.items(), key=lambda each: -each[1]) if tokens)
    wanted = situation.target
    limits = {"tokens": wanted.tokens, "messages": wanted.messages, "rounds": wanted.rounds}
    target = ", ".join(f"{limit} {name}" for name, limit in limits.items() if limit is not None)
    left = f"{situation.tokens(messages)} tokens in {len(messages)} messages"
    return f"{left} are left, with a target of {target}. In tokens: {told}."
