"""Processors of a compaction: functions from messages to messages that modify none of their arguments.

    shorter = tool_truncation(messages, config=ToolTruncationConfig(max_tool_message_tokens=300))

`tool_truncation`, `backward_packing` and `sliding_window` call no model. Each can be used alone and in any order, and
is idempotent. Messages that a processor removes from a context are not lost: the log or the caller still has them.

`summarization` replaces the oldest messages by one summary, which continues the summary before. As many messages as the
target allows stay unchanged. The model receives every message that is replaced, and the first instruction for context.

`compacting` runs processors one after the other until the context is small enough. It skips a processor that fails or
makes the context larger. Its result is always valid for a provider.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.compaction.compaction_config import (
    LEAST_INPUT,
    ActiveContextPolicyConfig,
    BackwardPackingConfig,
    Processor,
    ProcessorContext,
    ToolTruncationConfig,
)
from langchain_agentmem.errors import InvalidInput, leaves_the_node, safe_repr
from langchain_agentmem.language_models.model_calls import ModelLike, usable_model
from langchain_agentmem.language_models.summarization import SummarizationConfig, SummaryResult, summarizing
from langchain_agentmem.language_models.tokens import TokenCounter, clipped
from langchain_agentmem.messages.history_repair import (
    HistoryShape,
    MessageGroup,
    bundles,
    droppable,
    is_said_by_user,
    protected_from,
    repaired,
    role_of,
    shape_of,
)
from langchain_agentmem.messages.message_marks import Summary, altered, is_filler, summary_in, summary_message
from langchain_agentmem.storage.database import Database


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
        config: The size that each message may have. Default: `ToolTruncationConfig()`.
        counter: Counts tokens. Default: a new one.
        everywhere: True also cuts the protected tail. Default: False.

    Returns:
        The history; messages that are short enough are the same objects.
    """
    config, counter = config or ToolTruncationConfig(), counter or TokenCounter()

    def cut(message: BaseMessage) -> BaseMessage:
        marker = config.append_marker.replace("{id}", message.id or "")
        return _with_text(message, lambda text: clipped(text, config.max_tool_message_tokens, counter, marker=marker))

    end = len(messages) if everywhere else protected_from(messages, config.grace_recent_messages)
    return [
        cut(message) if place < end and _is_tool_output(message, config) else message
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
    """Keep the protected messages, and the newest other messages that fit, without a gap.

    System messages, the first instruction, a summary, the current request and the protected tail are protected. No
    placeholder replaces dropped messages. For a recorded context, `CompactionEvent.dropped_ids` reports them,
    `recall_dropped` finds them, and `expand` retrieves each by its id.

    Args:
        messages: A history.
        max_tokens: The tokens that the result may have, if possible.
        config: The protected tail. Default: from the last assistant message on.
        counter: Counts tokens. Default: a new one.
        keep_first: True keeps the first user message. Default: True.

    Returns:
        The history, valid for every provider; the kept messages are the same objects.
    """
    config, counter = config or BackwardPackingConfig(), counter or TokenCounter()
    valid = repaired(messages)
    shape = shape_of(valid, grace=config.grace_recent_messages, keep_first=keep_first)
    loose = droppable(valid, shape)
    kept = {*range(len(valid))}.difference(*(range(each.start, each.stop) for each in loose))
    packed = _packed(valid, kept, loose, max_tokens, counter)
    begin = next((place for place in packed if role_of(valid[place]) == "user"), len(valid))
    begin = min(begin, shape.tail)  # no answer is left at the beginning without its question
    return repaired([valid[place] for place in packed if place < shape.systems or place >= begin])


def sliding_window(
    messages: Sequence[BaseMessage], *, max_tokens: int, counter: TokenCounter | None = None
) -> list[BaseMessage]:
    """Keep system messages and the newest messages that fit, calls with their results.

    The last user message always stays, so that the context has a user message. The newest messages stay even if they
    alone are too large. No placeholder replaces dropped messages; they are reported and retrieved as for
    `backward_packing`.

    Args:
        messages: A history.
        max_tokens: The tokens that the result may have, if possible.
        counter: Counts tokens. Default: a new one.

    Returns:
        The history, valid for every provider; the kept messages are the same objects.
    """
    counter = counter or TokenCounter()
    valid = repaired(messages)
    shape = shape_of(valid, grace=0, keep_first=False)
    users = [place for place, message in enumerate(valid) if role_of(message) == "user"]
    request = [] if shape.request is None else [shape.request]
    kept = {*range(shape.systems), *users[-1:], *request}
    packed = _packed(valid, kept, bundles(valid, shape.systems, len(valid)), max_tokens, counter, least=1)
    begin = next((place for place in packed if role_of(valid[place]) == "user"), 0)
    return [valid[place] for place in packed if place < shape.systems or place >= begin]


def _packed(
    messages: list[BaseMessage],
    kept: set[int],
    loose: Sequence[MessageGroup],
    max_tokens: int,
    counter: TokenCounter,
    *,
    least: int = 0,
) -> list[int]:
    """Return the kept places plus the newest loose groups that fit, `least` groups at least."""
    costs = list(map(counter.count_message, messages))
    left = max_tokens - sum(costs[place] for place in kept)
    for rank, bundle in enumerate(reversed(loose)):
        new = {*range(bundle.start, bundle.stop)} - kept
        left -= sum(costs[place] for place in new)
        if left < 0 and rank >= least:
            break
        kept = kept | new
    return sorted(kept)


def _is_tool_output(message: BaseMessage, config: ToolTruncationConfig) -> bool:
    if isinstance(message, ToolMessage):
        return not is_filler(message)
    if not config.include_tool_payload_user_messages or role_of(message) != "user":
        return False
    text = message.content
    return isinstance(text, str) and text.startswith("Tool ") and "returned:" in text


def _with_text(message: BaseMessage, change: Callable[[str], str]) -> BaseMessage:
    """Return the message with its texts changed; the same object if no text changes."""

    def changed(block: Any) -> Any:
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            return block | {"text": change(block["text"])}
        return change(block) if isinstance(block, str) else block

    content = message.content
    new = changed(content) if isinstance(content, str) else list(map(changed, content))
    return message if new == content else altered(message, content=new)


_FRAME = 80
"""The most tokens of a summary message without its texts."""
_LEAST = 64
"""The least tokens that a summary must be able to have."""
_SPARE = 10  # a cut may extend by a tenth of the target, to the beginning of a round


def summarization(
    messages: Sequence[BaseMessage],
    *,
    model: ModelLike | None,
    max_tokens: int,
    config: SummarizationConfig | None = None,
    counter: TokenCounter | None = None,
) -> list[BaseMessage]:
    """Summarize the oldest messages of a context that is too large.

    Args:
        messages: A history. If it begins with a summary from an earlier call, the new summary continues it.
        model: The summarizer, see `usable_model`. If it is None or fails, the summary is an extract of the original
            messages.
        max_tokens: The tokens that the result may have, if possible. A context with no more tokens is returned as is.
        config: The options of summaries. Default: `SummarizationConfig()`.
        counter: Counts tokens. Default: a new one.

    Returns:
        System messages, the first instruction, the summary, and the newest messages: the same objects.

    Raises:
        InvalidInput: The model is not usable.
    """
    given = config or SummarizationConfig()
    situation = ProcessorContext(
        target_tokens=max_tokens,
        counter=counter or TokenCounter(),
        config=ActiveContextPolicyConfig(summarization=given),
        model=usable_model(model),
        input_tokens=given.input_max_tokens or max(max_tokens, LEAST_INPUT),
    )
    return shortening(repaired(messages), situation)[0]


asummarization = awaited(summarization)


def shortening(
    messages: list[BaseMessage], situation: ProcessorContext, database: Database | None = None
) -> tuple[list[BaseMessage], SummaryResult | None]:
    """Summarize as many messages as the target requires.

    Args:
        messages: A valid history.
        situation: The processor context.
        database: The database whose traces show the model's calls. Default: only LangChain's own traces do.

    Returns:
        The context, and the result of summarizing; None if there was nothing to summarize.
    """
    if situation.fits(messages) and not situation.thorough:
        return messages, None
    config = situation.config.summarization
    shape = shape_of(messages, grace=config.grace_recent_messages, keep_first=config.include_original_instruction)
    going = _going(messages, shape, situation)
    if not going:
        return messages, None
    dropped = [message for bundle in going for message in messages[bundle.start : bundle.stop]]
    before = None if shape.summary is None else messages[shape.summary]
    room = sum(map(situation.cost, dropped + ([before] if before else []))) - _FRAME
    if room < _LEAST:
        return messages, None
    earlier = summary_in(before) if before else None
    about = [messages[shape.first]] if earlier is None and shape.first is not None else []
    made = summarizing(
        list(map(situation.as_said, about + dropped)),
        earlier=earlier,
        model=situation.model,
        config=config,
        counter=situation.counter,
        output_tokens=min(situation.summary_tokens, max(room, _LEAST)),
        input_tokens=situation.input_tokens,
        database=database,
    )
    stands_for = sum(not is_filler(each) for each in dropped) + (earlier.stands_for if earlier else 0)
    gone = {place for each in going for place in range(each.start, each.stop)} | {shape.summary}
    if shape.first is None:
        gone.add(shape.opening)  # the summary begins the conversation then
    cut = shape.systems if shape.first is None else shape.first + 1
    ahead = [message for place, message in enumerate(messages[:cut]) if place not in gone]
    behind = [message for place, message in enumerate(messages[cut:], cut) if place not in gone]
    most = min(situation.tokens(messages) - 1, situation.target_tokens)
    room = most - situation.tokens([*ahead, *behind])
    # The id depends on the messages only, so that a repeated compaction after a crash uses the same id.
    told = repr((before.id if before else None, [(each.id, each.type, each.content) for each in dropped]))
    key = f"sum-{blake2b(told.encode(), digest_size=8).hexdigest()}"
    summary = _with_affordable_images(replace(made.summary, stands_for=stands_for), situation, room, key)
    return [*ahead, summary_message(summary, id=key), *behind], replace(made, summary=summary)


def _going(messages: list[BaseMessage], shape: HistoryShape, situation: ProcessorContext) -> list[MessageGroup]:
    """Return the fewest oldest groups to summarize for the target; else all droppable ones."""
    loose = droppable(messages, shape)
    if situation.thorough:
        return loose
    tokens = situation.tokens(messages) + situation.summary_tokens + _FRAME
    if shape.summary is not None:
        tokens -= situation.cost(messages[shape.summary])
    for place, bundle in enumerate(loose):
        if place and tokens <= situation.target_tokens:
            return loose[: _to_the_round(messages, loose, place, situation)]
        tokens -= sum(map(situation.cost, messages[bundle.start : bundle.stop]))
    return loose


def _to_the_round(
    messages: list[BaseMessage], loose: list[MessageGroup], place: int, situation: ProcessorContext
) -> int:
    """Move a cut forward to the start of a round, so that no answer loses its question."""
    spare = situation.target_tokens // _SPARE
    for later in range(place, len(loose)):
        if is_said_by_user(messages[loose[later].start]):
            return later
        spare -= sum(map(situation.cost, messages[loose[later].start : loose[later].stop]))
        if spare < 0:
            break
    return place


def _with_affordable_images(summary: Summary, situation: ProcessorContext, tokens: int, key: str) -> Summary:
    """Return the summary with its newest images that fit the tokens and the image bytes."""
    images, most = summary.kept_images, situation.image_bytes
    while images:
        size = sum(len(json.dumps(image.block, default=repr)) for image in images)
        tried = replace(summary, kept_images=images)
        cost = situation.cost(summary_message(tried, id=key))
        if (most is None or size <= most) and cost <= tokens:
            return tried
        images = images[1:]
    return replace(summary, kept_images=())


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineOutcome:
    """The result of a compaction.

    Attributes:
        messages: The context, valid for every provider.
        tokens: The tokens of the context.
        stages_run: The processors that ran, in order.
        summary: The new summary, if there is one.
        failures: The name and the error of each stage that failed.
        reason: The explanation if the context is larger than the target, else None.
    """

    messages: list[BaseMessage]
    tokens: int
    stages_run: tuple[str, ...] = ()
    summary: Summary | None = None
    failures: tuple[tuple[str, Exception], ...] = ()
    reason: str | None = None


def compacting(
    messages: Sequence[BaseMessage], situation: ProcessorContext, database: Database | None = None
) -> PipelineOutcome:
    """Run the processors until a context is within its target, if possible.

    Args:
        messages: A history. It is not modified.
        situation: The processor context.
        database: The database whose traces show the model's calls. Default: only LangChain's own traces do.
    """
    context = repaired(messages)
    here = {message.id: message for message in context if message.id}
    situation = replace(situation, originals={**here, **situation.originals})
    stages: list[str] = []
    failures: list[tuple[str, Exception]] = []
    summary: Summary | None = None
    summarized = False
    config = situation.config
    packs_more = config.backward_packing.grace_recent_messages < config.summarization.grace_recent_messages
    for processor in config.processors:
        if situation.fits(context) and not situation.thorough:
            break
        if processor == "backward_packing" and summarized and not packs_more:
            continue  # the remaining messages were too short for a summary, and are not dropped without one
        name = processor if isinstance(processor, str) else getattr(processor, "__name__", type(processor).__name__)
        stages.append(name)
        try:
            new = None
            if processor == "summarization":
                made, new = shortening(context, situation, database)
            else:
                made = _processed(processor, context, situation)
        except Exception as error:  # a processor that fails is skipped
            if leaves_the_node(error):
                raise
            failures.append((name, error))
            continue
        summarized = summarized or processor == "summarization"
        if new is not None and new.failure is not None:
            failures.append((name, new.failure))
        if situation.tokens(made) < situation.tokens(context):
            context = made
            summary = new.summary if new else summary
    return PipelineOutcome(
        messages=context,
        tokens=situation.tokens(context),
        stages_run=tuple(stages),
        summary=summary,
        failures=tuple(failures),
        reason=None if situation.fits(context) else why_larger(context, situation),
    )


def _processed(
    processor: str | Processor, messages: list[BaseMessage], situation: ProcessorContext
) -> list[BaseMessage]:
    config, counter = situation.config, situation.counter
    keep_first = config.summarization.include_original_instruction
    room = situation.target_tokens - situation.overhead_tokens
    match processor:
        case "tool_truncation":
            cut = tool_truncation(messages, config=config.tool_truncation, counter=counter)
            first = shape_of(messages, grace=config.tool_truncation.grace_recent_messages, keep_first=keep_first).first
            if first is not None:  # it stays unchanged, even if it looks like tool output
                cut[first] = messages[first]
            return cut
        case "backward_packing":
            packing = config.backward_packing
            return backward_packing(messages, max_tokens=room, config=packing, counter=counter, keep_first=keep_first)
        case "sliding_window":
            room = int(room * (1 - config.sliding_window.headroom_percent))
            return sliding_window(messages, max_tokens=room, counter=counter)
        case str():
            return messages
    made = checked_messages(processor(list(messages), situation), f"processor {safe_repr(processor)}")
    if not made:
        raise InvalidInput(f"The processor {safe_repr(processor)} gave no messages.")
    return repaired(made)


def checked_messages(given: Any, by: str) -> Sequence[BaseMessage]:
    """Validate the messages that a user's function returned, and return them.

    Args:
        given: The return value.
        by: The name of the function.

    Raises:
        InvalidInput: The value is not a list of messages.
    """
    if not isinstance(given, Sequence) or not all(isinstance(each, BaseMessage) for each in given):
        raise InvalidInput(f"The {by} gave no list of messages, but {safe_repr(given)}.")
    return given


def why_larger(messages: Sequence[BaseMessage], situation: ProcessorContext) -> str:
    """Explain in two sentences why a context is larger than its target."""
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
    left = f"{situation.tokens(messages)} tokens in {len(messages)} messages"
    return f"{left} are left, with a target of {situation.target_tokens} tokens. In tokens: {told}."
