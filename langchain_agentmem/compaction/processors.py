"""Compaction processors: functions that return shorter messages and modify no argument.

    shorter = tool_truncation(messages, config=ToolTruncationConfig(max_tool_message_tokens=300))

`tool_truncation`, `backward_packing` and `sliding_window` call no model. Each can be used alone and in any order, and
is idempotent. No processor deletes stored messages.

`summarization` replaces the oldest messages and an earlier summary by one new summary. As many messages as the target
allows stay unchanged. The model receives the replaced messages and the earlier summary. Without an earlier summary, it
also receives the first instruction, which stays in the context.

`run_processors` runs processors one after the other until the context is small enough. It skips a processor that fails
or makes the context larger. Its result is always valid for a provider.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.compaction import compaction_config
from langchain_agentmem.compaction.compaction_config import BackwardPackingConfig, Processor, ProcessorContext
from langchain_agentmem.errors import InvalidInput, is_graph_bubble_up, safe_repr
from langchain_agentmem.language_models.model_calls import ModelLike, usable_model
from langchain_agentmem.language_models.summarization import SummarizationConfig, SummaryResult, summarize
from langchain_agentmem.language_models.tokens import TokenCounter, clip_text
from langchain_agentmem.messages import history_repair
from langchain_agentmem.messages.history_repair import HistoryShape, MessageGroup, find_shape, repair_messages, role_of
from langchain_agentmem.messages.message_marks import Summary, alter_message, is_synthetic, summary_in, summary_message
from langchain_agentmem.storage.database import Database


def tool_truncation(
    messages: Sequence[BaseMessage],
    *,
    config: compaction_config.ToolTruncationConfig | None = None,
    counter: TokenCounter | None = None,
    everywhere: bool = False,
) -> list[BaseMessage]:
    """Cut long tool output before the protected tail, the newest messages.

    Args:
        messages: A history.
        config: The options of truncation, such as the maximum size. Default: `ToolTruncationConfig()`.
        counter: The token counter. Default: a new one.
        everywhere: True also cuts the protected tail. Default: False.

    Returns:
        The history. Messages that are not cut are the same objects.
    """
    config, counter = config or compaction_config.ToolTruncationConfig(), counter or TokenCounter()

    def truncate(message: BaseMessage) -> BaseMessage:
        marker, limit = config.append_marker.replace("{id}", message.id or ""), config.max_tool_message_tokens
        return _replace_text(message, lambda text: clip_text(text, limit, counter, marker=marker))

    first_protected = len(messages) if everywhere else history_repair.tail_start(messages, config.grace_recent_messages)
    earlier = messages[:first_protected]
    truncated = [truncate(message) if _is_tool_output(message, config) else message for message in earlier]
    return [*truncated, *messages[first_protected:]]


def backward_packing(
    messages: Sequence[BaseMessage],
    *,
    max_tokens: int,
    config: BackwardPackingConfig | None = None,
    counter: TokenCounter | None = None,
    keep_first: bool = True,
) -> list[BaseMessage]:
    """Keep the protected messages, and as many of the newest other messages as fit.

    System messages, the first instruction, a summary, the current request and the protected tail are protected. If a
    message does not fit, all older unprotected messages are dropped as well. No placeholder replaces dropped messages.
    For the history of a conversation, `CompactionEvent.dropped_ids` reports them. The tool `recall_dropped` finds them,
    and the tool `expand` returns each by its id.

    Args:
        messages: A history.
        max_tokens: The maximum tokens of the result. Protected messages are kept even if they exceed it.
        config: The options of packing. Default: the tail from the last assistant message on is protected.
        counter: The token counter. Default: a new one.
        keep_first: True keeps the first user message. Default: True.

    Returns:
        The history, valid for every provider; the kept messages are the same objects.
    """
    config, counter = config or BackwardPackingConfig(), counter or TokenCounter()
    valid = repair_messages(messages)
    shape = find_shape(valid, grace=config.grace_recent_messages, keep_first=keep_first)
    groups = history_repair.droppable_groups(valid, shape)
    protected = {*range(len(valid))}.difference(*(range(group.start, group.stop) for group in groups))
    kept_indexes = _pack_groups(list(map(counter.count_message, valid)), protected, groups, max_tokens)
    first_user = next((index for index in kept_indexes if role_of(valid[index]) == "user"), len(valid))
    first_user = min(first_user, shape.tail)  # drop answers whose question was dropped, except in the tail
    return repair_messages([valid[index] for index in kept_indexes if index < shape.system_end or index >= first_user])


def sliding_window(
    messages: Sequence[BaseMessage], *, max_tokens: int, counter: TokenCounter | None = None
) -> list[BaseMessage]:
    """Keep system messages and the newest messages that fit, tool calls with their results.

    The last user message always stays, so that the context has a user message. The newest messages stay even if they
    alone are too large. No placeholder replaces dropped messages. `backward_packing` describes how to retrieve them.

    Args:
        messages: A history.
        max_tokens: The maximum tokens of the result. The messages that always stay may exceed it.
        counter: The token counter. Default: a new one.

    Returns:
        The history, valid for every provider; the kept messages are the same objects.
    """
    valid = repair_messages(messages)
    costs = list(map((counter or TokenCounter()).count_message, valid))
    shape = find_shape(valid, grace=0, keep_first=False)
    users = [index for index, message in enumerate(valid) if role_of(message) == "user"]
    request = [] if shape.request is None else [shape.request]
    protected = {*range(shape.system_end), *users[-1:], *request}
    groups = history_repair.group_messages(valid, shape.system_end, len(valid))
    kept_indexes = _pack_groups(costs, protected, groups, max_tokens, min_groups=1)
    first_user = next((index for index in kept_indexes if role_of(valid[index]) == "user"), 0)
    return [valid[index] for index in kept_indexes if index < shape.system_end or index >= first_user]


def _pack_groups(
    costs: Sequence[int], kept: set[int], groups: Sequence[MessageGroup], max_tokens: int, min_groups: int = 0
) -> list[int]:
    """Return the indexes of messages to keep: those in `kept`, and the newest groups that fit.

    At least `min_groups` groups are kept, even if they do not fit.
    """
    spare_tokens = max_tokens - sum(costs[index] for index in kept)
    for newer_groups, group in enumerate(reversed(groups)):
        added = {*range(group.start, group.stop)} - kept
        spare_tokens -= sum(costs[index] for index in added)
        if spare_tokens < 0 and newer_groups >= min_groups:
            break
        kept = kept | added
    return sorted(kept)


def _is_tool_output(message: BaseMessage, config: compaction_config.ToolTruncationConfig) -> bool:
    if isinstance(message, ToolMessage):
        return not is_synthetic(message)
    if not config.include_tool_payload_user_messages or role_of(message) != "user":
        return False
    text = message.content
    return isinstance(text, str) and text.startswith("Tool ") and "returned:" in text


def _replace_text(message: BaseMessage, change: Callable[[str], str]) -> BaseMessage:
    """Return the message with its texts changed; the same object if no text changes."""

    def change_block(block: Any) -> Any:
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            return block | {"text": change(block["text"])}
        return change(block) if isinstance(block, str) else block

    content = message.content
    new_content = change_block(content) if isinstance(content, str) else list(map(change_block, content))
    return message if new_content == content else alter_message(message, content=new_content)


_FRAME_TOKENS = 80
"""The maximum number of tokens of a summary message without the summary itself."""
_MIN_SUMMARY_TOKENS = 64
"""The minimum size of a summary. If the summarized messages leave fewer tokens for it, nothing is summarized."""
_EXTENSION_DIVISOR = 10  # further tokens to summarize up to the next user message: at most the target divided by this


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
        max_tokens: The target size of the result. A history with no more tokens is returned unchanged.
        config: The options of summaries. Default: `SummarizationConfig()`.
        counter: The token counter. Default: a new one.

    Returns:
        System messages, the first instruction, the summary, and the newest messages. Except for the summary, they are
        the same objects.

    Raises:
        InvalidInput: The model is not usable.
    """
    config = config or SummarizationConfig()
    ctx = ProcessorContext(
        target_tokens=max_tokens,
        counter=counter or TokenCounter(),
        config=compaction_config.ActiveContextPolicyConfig(summarization=config),
        model=usable_model(model),
        input_tokens=config.input_max_tokens or max(max_tokens, compaction_config.MIN_INPUT_TOKENS),
    )
    return summarize_oldest(repair_messages(messages), ctx)[0]


asummarization = awaited(summarization)


def summarize_oldest(
    messages: list[BaseMessage], ctx: ProcessorContext, database: Database | None = None
) -> tuple[list[BaseMessage], SummaryResult | None]:
    """Summarize as many messages as the target requires.

    Args:
        messages: A valid history.
        ctx: The processor context.
        database: The database whose traces show the model's calls. Default: only LangChain's own traces do.

    Returns:
        The context, and the result of summarizing. The latter is None if nothing was summarized.
    """
    if ctx.fits(messages) and not ctx.thorough:
        return messages, None
    config = ctx.config.summarization
    shape = find_shape(messages, grace=config.grace_recent_messages, keep_first=config.include_original_instruction)
    groups = _select_groups(messages, shape, ctx)
    if not groups:
        return messages, None
    dropped = [message for group in groups for message in messages[group.start : group.stop]]
    old_message = None if shape.summary is None else messages[shape.summary]
    available_tokens = sum(map(ctx.cost, dropped + ([old_message] if old_message else []))) - _FRAME_TOKENS
    if available_tokens < _MIN_SUMMARY_TOKENS:
        return messages, None
    old_summary = summary_in(old_message) if old_message else None
    instruction = [messages[shape.first]] if old_summary is None and shape.first is not None else []
    result = summarize(
        list(map(ctx.original_of, instruction + dropped)),
        earlier=old_summary,
        model=ctx.model,
        config=config,
        counter=ctx.counter,
        output_tokens=min(ctx.summary_tokens, max(available_tokens, _MIN_SUMMARY_TOKENS)),
        input_tokens=ctx.input_tokens,
        database=database,
    )
    stands_for = sum(not is_synthetic(each) for each in dropped) + (old_summary.stands_for if old_summary else 0)
    removed = {index for each in groups for index in range(each.start, each.stop)} | {shape.summary}
    if shape.first is None:
        removed.add(shape.opening)  # no filler message is needed, since the summary begins the conversation
    summary_index = shape.system_end if shape.first is None else shape.first + 1
    before = [message for index, message in enumerate(messages) if index < summary_index and index not in removed]
    after = [message for index, message in enumerate(messages) if index >= summary_index and index not in removed]
    max_tokens = min(ctx.tokens(messages) - 1, ctx.target_tokens)
    max_summary_tokens = max_tokens - ctx.tokens([*before, *after])
    # The id depends only on the replaced messages, so that a compaction repeated after a crash uses the same id.
    identity = repr((old_message.id if old_message else None, [(each.id, each.type, each.content) for each in dropped]))
    summary_id = f"sum-{blake2b(identity.encode(), digest_size=8).hexdigest()}"
    summary = _limit_images(replace(result.summary, stands_for=stands_for), ctx, max_summary_tokens, summary_id)
    return [*before, summary_message(summary, id=summary_id), *after], replace(result, summary=summary)


def _select_groups(messages: list[BaseMessage], shape: HistoryShape, ctx: ProcessorContext) -> list[MessageGroup]:
    """Return the oldest groups: as few as must be summarized to meet the target, or else all."""
    groups = history_repair.droppable_groups(messages, shape)
    if ctx.thorough:
        return groups
    tokens = ctx.tokens(messages) + ctx.summary_tokens + _FRAME_TOKENS
    if shape.summary is not None:
        tokens -= ctx.cost(messages[shape.summary])
    for index, group in enumerate(groups):
        if index and tokens <= ctx.target_tokens:
            return groups[: _find_user_group(messages, groups, index, ctx)]
        tokens -= sum(map(ctx.cost, messages[group.start : group.stop]))
    return groups


def _find_user_group(messages: list[BaseMessage], groups: list[MessageGroup], index: int, ctx: ProcessorContext) -> int:
    """Return the index of the next group that begins with a user message, or `index`.

    A context that begins with such a group has no answer without its question. If the group is too far, return `index`.
    """
    spare_tokens = ctx.target_tokens // _EXTENSION_DIVISOR
    for group_index in range(index, len(groups)):
        if history_repair.is_from_user(messages[groups[group_index].start]):
            return group_index
        spare_tokens -= sum(map(ctx.cost, messages[groups[group_index].start : groups[group_index].stop]))
        if spare_tokens < 0:
            break
    return index


def _limit_images(summary: Summary, ctx: ProcessorContext, max_tokens: int, summary_id: str) -> Summary:
    """Remove the oldest images of a summary until the rest fits the tokens and bytes."""
    images, max_bytes = summary.kept_images, ctx.image_bytes
    while images:
        size = sum(len(json.dumps(image.block, default=repr)) for image in images)
        candidate = replace(summary, kept_images=images)
        cost = ctx.cost(summary_message(candidate, id=summary_id))
        if (max_bytes is None or size <= max_bytes) and cost <= max_tokens:
            return candidate
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
        reason: The explanation why the context is larger than the target; None if it is within the target.
    """

    messages: list[BaseMessage]
    tokens: int
    stages_run: tuple[str, ...] = ()
    summary: Summary | None = None
    failures: tuple[tuple[str, Exception], ...] = ()
    reason: str | None = None


def run_processors(
    messages: Sequence[BaseMessage], ctx: ProcessorContext, database: Database | None = None
) -> PipelineOutcome:
    """Run the processors until a context is within its target, if possible.

    Args:
        messages: A history. It is not modified.
        ctx: The processor context.
        database: The database whose traces show the model's calls. Default: only LangChain's own traces do.
    """
    context = repair_messages(messages)
    originals = {message.id: message for message in context if message.id}
    ctx = replace(ctx, originals={**originals, **ctx.originals})
    stages: list[str] = []
    failures: list[tuple[str, Exception]] = []
    summary: Summary | None = None
    summarized = False
    config = ctx.config
    packing_drops_more = config.backward_packing.grace_recent_messages < config.summarization.grace_recent_messages
    for processor in config.processors:
        if ctx.fits(context) and not ctx.thorough:
            break
        if processor == "backward_packing" and summarized and not packing_drops_more:
            continue  # everything droppable is in the summary, or was too short to summarize and must not be lost
        name = processor if isinstance(processor, str) else getattr(processor, "__name__", type(processor).__name__)
        stages.append(name)
        try:
            result = None
            if processor == "summarization":
                smaller, result = summarize_oldest(context, ctx, database)
            else:
                smaller = _run_processor(processor, context, ctx)
        except Exception as error:  # a processor that fails is skipped
            if is_graph_bubble_up(error):
                raise
            failures.append((name, error))
            continue
        summarized = summarized or processor == "summarization"
        if result is not None and result.failure is not None:
            failures.append((name, result.failure))
        if ctx.tokens(smaller) < ctx.tokens(context):
            context = smaller
            summary = result.summary if result else summary
    return PipelineOutcome(
        messages=context,
        tokens=ctx.tokens(context),
        stages_run=tuple(stages),
        summary=summary,
        failures=tuple(failures),
        reason=None if ctx.fits(context) else explain_size(context, ctx),
    )


def _run_processor(processor: str | Processor, messages: list[BaseMessage], ctx: ProcessorContext) -> list[BaseMessage]:
    config, counter = ctx.config, ctx.counter
    keep_first = config.summarization.include_original_instruction
    limit = ctx.target_tokens - ctx.overhead_tokens
    match processor:
        case "tool_truncation":
            truncated = tool_truncation(messages, config=config.tool_truncation, counter=counter)
            grace = config.tool_truncation.grace_recent_messages
            first = find_shape(messages, grace=grace, keep_first=keep_first).first
            if first is not None:  # the first instruction stays unchanged, even if it looks like tool output
                truncated[first] = messages[first]
            return truncated
        case "backward_packing":
            packing = config.backward_packing
            return backward_packing(messages, max_tokens=limit, config=packing, counter=counter, keep_first=keep_first)
        case "sliding_window":
            limit = int(limit * (1 - config.sliding_window.headroom_percent))
            return sliding_window(messages, max_tokens=limit, counter=counter)
        case str():  # "summarization", which `run_processors` runs itself
            return messages
    result = check_messages(processor(list(messages), ctx), f"processor {safe_repr(processor)}")
    if not result:
        raise InvalidInput(f"The processor {safe_repr(processor)} returned no messages.")
    return repair_messages(result)


def check_messages(messages: Any, source: str) -> Sequence[BaseMessage]:
    """Validate the messages that a user's function returned, and return them.

    Args:
        messages: The return value.
        source: A description of the function for the error message.

    Raises:
        InvalidInput: The value is not a list of messages.
    """
    if not isinstance(messages, Sequence) or not all(isinstance(each, BaseMessage) for each in messages):
        raise InvalidInput(f"The {source} must return a list of messages, got {safe_repr(messages)}.")
    return messages


def explain_size(messages: Sequence[BaseMessage], ctx: ProcessorContext) -> str:
    """Return the sizes of a context, its target and its parts, as an explanation of its size."""
    config = ctx.config.summarization
    shape = find_shape(messages, grace=config.grace_recent_messages, keep_first=config.include_original_instruction)
    messages_by_part = {
        "the protected tail": messages[shape.tail :],
        "the system messages": messages[: shape.system_end],
        "the first instruction": [] if shape.first is None else [messages[shape.first]],
        "the current request": [] if shape.request is None else [messages[shape.request]],
        "the summary": [] if shape.summary is None else [messages[shape.summary]],
    }
    tokens_by_part = {name: sum(map(ctx.cost, part)) for name, part in messages_by_part.items() if part}
    tokens_by_part["tokens outside the messages"] = ctx.overhead_tokens
    largest_parts = sorted(tokens_by_part.items(), key=lambda part: -part[1])
    breakdown = ", ".join(f"{name} {tokens}" for name, tokens in largest_parts if tokens)
    total = f"{ctx.tokens(messages)} tokens in {len(messages)} messages"
    return f"The context still has {total}; the target is {ctx.target_tokens} tokens. Tokens by part: {breakdown}."
