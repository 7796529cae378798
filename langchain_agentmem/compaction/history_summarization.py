"""The processor that summarizes: the oldest messages become one summary, which goes on from the summary before.

As much as the target allows stays as it was said. What goes is given to the model, all of it, and with it the first
instruction, so that the summary knows what it is about.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_agentmem.compaction.compaction_config import ActiveContextPolicyConfig
from langchain_agentmem.compaction.situation import LEAST_INPUT, Situation, Size, is_within
from langchain_agentmem.language_models.model_calls import Work, aperform, perform, usable_model
from langchain_agentmem.language_models.summarization import SummarizationConfig, summarizing
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import repaired
from langchain_agentmem.messages.history_shape import Bundle, Shape, droppable, is_said_by_user, shape_of
from langchain_agentmem.messages.summary import Summary, summary_in, summary_message

_FRAME = 80
"""What the message of a summary costs beside its texts, at most, in tokens."""
_LEAST = 64
"""A summary is not worth making where it could not have so many tokens."""
_SPARE = 10  # a cut may go on by a tenth of the target, to where a round begins


class Shorter(NamedTuple):
    """A context with a summary.

    Attributes:
        messages: The context; the same as before where there was nothing to summarize.
        summary: The new summary, or None.
        failure: Why the model could not be used, or None.
        calls: How often it was asked.
    """

    messages: list[BaseMessage]
    summary: Summary | None = None
    failure: Exception | None = None
    calls: int = 0


def summarization(
    messages: Sequence[BaseMessage],
    *,
    model: Any,
    max_tokens: int,
    config: SummarizationConfig | None = None,
    counter: TokenCounter | None = None,
) -> list[BaseMessage]:
    """Summarize the oldest messages of a context that costs too much.

    Args:
        messages: A history. It may begin with a summary that this made before, which is then continued.
        model: What summarizes, see `usable_model`. Where it is None or fails, the summary is made of what was said,
        without
            a model.
        max_tokens: What the result may cost, if that can be reached. A context that costs no more is given back.
        config: How to summarize. Default: document 003's.
        counter: Counts tokens. Default: a new one.

    Returns:
        System messages, the first instruction, the summary, and the newest messages as they were: the same objects.

    Raises:
        InvalidInput: The model cannot be asked.
    """
    return perform(shortening(repaired(messages), _alone(model, max_tokens, config, counter))).messages


async def asummarization(
    messages: Sequence[BaseMessage],
    *,
    model: Any,
    max_tokens: int,
    config: SummarizationConfig | None = None,
    counter: TokenCounter | None = None,
) -> list[BaseMessage]:
    """`summarization`, awaited."""
    return (await aperform(shortening(repaired(messages), _alone(model, max_tokens, config, counter)))).messages


def shortening(messages: list[BaseMessage], situation: Situation) -> Work[Shorter]:
    """Summarize as much as the target needs, and no more.

    Args:
        messages: A valid history.
        situation: What to reach, and with what.
    """
    if situation.fits(messages) and not situation.thorough:
        return Shorter(messages)
    config = situation.config.summarization
    shape = shape_of(messages, grace=config.grace_recent_messages, keep_first=config.include_original_instruction)
    going = _going(messages, shape, situation)
    if not going:
        return Shorter(messages)
    dropped = [message for bundle in going for message in messages[bundle.start : bundle.stop]]
    before = None if shape.summary is None else messages[shape.summary]
    room = sum(map(situation.cost, dropped + ([before] if before else []))) - _FRAME
    if room < _LEAST and not (situation.counts_messages and len(dropped) + bool(before) > 1):
        return Shorter(messages)
    earlier = summary_in(before) if before else None
    about = [messages[shape.first]] if earlier is None and shape.first is not None else []
    made = yield from summarizing(
        list(map(situation.as_said, about + dropped)),
        earlier=earlier,
        model=situation.model,
        config=config,
        counter=situation.counter,
        output_tokens=min(situation.summary_tokens, max(room, _LEAST)),
        input_tokens=situation.input_tokens,
    )
    stands_for = len(dropped) + (earlier.stands_for if earlier else 0)
    kept = _kept(messages, shape, going)
    most = min(situation.tokens(messages) - 1, situation.target.tokens or sys.maxsize)
    room = most - situation.tokens([*kept.before, *kept.behind])
    key = _key(dropped, before.id if before else None)
    summary = dataclasses.replace(made.summary, stands_for=stands_for)
    summary = _with_affordable_images(summary, situation, room, key)
    told = summary_message(summary, id=key)
    return Shorter([*kept.before, told, *kept.behind], summary, made.failure, made.calls)


def _going(messages: list[BaseMessage], shape: Shape, situation: Situation) -> list[Bundle]:
    """The fewest of the oldest messages without which the context is within its target, or all that may go."""
    loose = droppable(messages, shape)
    if situation.thorough:
        return loose
    count, target = situation.cost, situation.target
    tokens = situation.tokens(messages) + situation.summary_tokens + _FRAME
    left, rounds = len(messages), sum(map(is_said_by_user, messages))
    if shape.summary is None:
        left += 1
    else:
        tokens -= count(messages[shape.summary])
    if shape.first is not None:
        rounds -= 1  # a summary stands for its round
    for place, bundle in enumerate(loose):
        if place and is_within(target, tokens, left, partial(int, rounds)):
            return loose[: _to_the_round(messages, loose, place, situation)]
        gone = messages[bundle.start : bundle.stop]
        tokens -= sum(map(count, gone))
        left -= len(gone)
        rounds -= sum(map(is_said_by_user, gone))
    return loose


def _to_the_round(messages: list[BaseMessage], loose: list[Bundle], place: int, situation: Situation) -> int:
    """A little further, to where a round begins, so that no answer is left without its question."""
    spare = (situation.target.tokens or 0) // _SPARE
    for later in range(place, len(loose)):
        if is_said_by_user(messages[loose[later].start]):
            return later
        spare -= sum(map(situation.cost, messages[loose[later].start : loose[later].stop]))
        if spare < 0 and situation.target.rounds is None:
            return place
    return place if situation.target.rounds is None else len(loose)


class _Kept(NamedTuple):
    """What stays, before the summary and behind it."""

    before: list[BaseMessage]
    behind: list[BaseMessage]


def _kept(messages: list[BaseMessage], shape: Shape, going: Sequence[Bundle]) -> _Kept:
    gone = {place for each in going for place in range(each.start, each.stop)} | {shape.summary}
    if shape.first is None:
        gone.add(shape.opening)  # the summary begins the conversation then
    cut = shape.systems if shape.first is None else shape.first + 1
    before = [message for place, message in enumerate(messages[:cut]) if place not in gone]
    behind = [message for place, message in enumerate(messages[cut:], cut) if place not in gone]
    return _Kept(before, behind)


def _with_affordable_images(summary: Summary, situation: Situation, tokens: int, key: str) -> Summary:
    """The summary with the newest of its images that so many tokens, and the bytes of the situation, allow."""
    images, most = summary.kept_images, situation.image_bytes
    while images:
        size = sum(len(json.dumps(image.block, default=repr)) for image in images)
        tried = dataclasses.replace(summary, kept_images=images)
        cost = situation.cost(summary_message(tried, id=key))
        if (most is None or size <= most) and cost <= tokens:
            return tried
        images = images[1:]
    return dataclasses.replace(summary, kept_images=())


def _key(dropped: Sequence[BaseMessage], before: str | None) -> str:
    """An id that is the same for the same messages, so that who compacts again after a crash makes the same summary."""
    digest = blake2b(repr((before, [(each.id, each.type, each.content) for each in dropped])).encode(), digest_size=8)
    return f"sum-{digest.hexdigest()}"


def _alone(model: Any, max_tokens: int, config: SummarizationConfig | None, counter: TokenCounter | None) -> Situation:
    given = config or SummarizationConfig()
    return Situation(
        target=Size(tokens=max_tokens),
        counter=counter or TokenCounter(),
        config=ActiveContextPolicyConfig(summarization=given),
        model=usable_model(model),
        input_tokens=given.input_max_tokens or max(max_tokens, LEAST_INPUT),
    )
