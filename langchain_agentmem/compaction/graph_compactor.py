"""Keeps contexts within their budget: what was compacted is remembered, and used again as long as it is true.

Each turn of a graph the whole history comes in. What is new of it is recorded in the conversation of the thread; the
newest compaction that is of this very history is looked up by its digest, and with the messages since makes the
context. Only a context that has outgrown its threshold is compacted again, and what comes of it is kept before it is
used. So nothing is lost where anything stops in between, and a history that did not change never costs a second call.

A context that a provider refused as too large is made smaller than any threshold asks, so that the call can be
repeated. All that may be summarized is, with few images. Where the provider still refuses, tool output in the protected
tail is cut as well. A result counts only if fewer bytes would be sent.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeAlias

from annotated_types import Ge
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages

from langchain_agentmem.base.argument_checks import check_instance, check_value
from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.base.namespaces import ThreadKey, namespace_of
from langchain_agentmem.compaction.compacted_context import (
    COMPACT,
    NOTHING,
    RECOVER,
    CompactedContext,
    CompactionReport,
    MessageHistory,
    count_open,
    followed,
    place_of,
    record_of,
    resolved,
)
from langchain_agentmem.compaction.compaction_config import (
    LEAST_INPUT,
    ManagedMemoryConfig,
    ProcessorContext,
    window_of,
)
from langchain_agentmem.compaction.processors import PipelineOutcome, compacting, tool_truncation, why_larger
from langchain_agentmem.conversations import compaction_records, message_log, prompt_notes
from langchain_agentmem.conversations.compaction_records import STATE, CompactionRecord, headers, identity, storable
from langchain_agentmem.conversations.log_entries import entry_of
from langchain_agentmem.errors import StorageError
from langchain_agentmem.language_models.model_calls import ModelLike, usable_model
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import droppable, repaired, role_of, shape_of, sound_until
from langchain_agentmem.messages.message_marks import is_filler, is_made
from langchain_agentmem.storage.database import Database

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


def thorough(situation: ProcessorContext, provider: str) -> ProcessorContext:
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


def with_tool_output_cut(outcome: PipelineOutcome, situation: ProcessorContext) -> PipelineOutcome:
    """What a compaction came to, with all tool output cut, wherever it stands.

    Args:
        outcome: What it came to.
        situation: What was to be reached.
    """
    most = max(_LEAST_TOOL_OUTPUT, situation.target_tokens // _SHARE_OF_TOOL_OUTPUT)
    given = situation.config.tool_truncation
    most = min(most, given.max_tool_message_tokens)
    config = given.replace(max_tool_message_tokens=most, include_tool_payload_user_messages=False)
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


logger = logging.getLogger(__name__)

REMEMBERED = 256
"""Records and histories that are kept in memory."""
BATCH = 500
"""Messages that are recorded in one transaction."""
_SHARE_OF_WINDOW = 0.8  # of a model that summarizes
_BELOW = 0.9  # of what a provider refused
_LEAST_LIMIT = 500
"""No limit is lowered below so many tokens of messages."""


_Identity: TypeAlias = tuple[int, int] | None


class ContextView(NamedTuple):
    """What a model is to be shown.

    Attributes:
        messages: The context, valid for every provider.
        tokens: What it costs, in tokens.
        compacted: Whether it was compacted just now.
    """

    messages: list[BaseMessage]
    tokens: int
    compacted: bool = False


class Compactor:
    """Gives the context of histories, within a budget.

    Args:
        database: Where histories are recorded and compactions are kept.
        config: The budget, and what is done to keep it. Default: `ManagedMemoryConfig()`.
        model: What summarizes, see `usable_model`; None for a summary without a model.
        window: The tokens that the model of the agent takes. Default: those of `model`, if it tells.

    Raises:
        InvalidInput: An argument is wrong.
    """

    def __init__(
        self,
        database: Database,
        config: ManagedMemoryConfig | None = None,
        model: ModelLike | None = None,
        *,
        window: int | None = None,
    ) -> None:
        self.database = database
        self.config = config = check_instance(ManagedMemoryConfig, config, "config") or ManagedMemoryConfig()
        self.model = usable_model(model)
        self.window = check_value(Annotated[int, Ge(1)] | None, window, "window")
        self.limit = self.limit_within(self.window or window_of(self.model))
        given = config.token_counter
        self.counter = (
            given if isinstance(given, TokenCounter) else TokenCounter(given, image_tokens=config.image_token_estimate)
        )
        # Those of no conversation are kept here alone, under numbers of their own.
        self._records: OrderedDict[tuple[ThreadKey | None, int], CompactionRecord] = OrderedDict()
        self._settled: OrderedDict[tuple[ThreadKey | None, int], int] = OrderedDict()
        self._numbers = count(1)
        self._followed: OrderedDict[ThreadKey | None, tuple[_Identity, MessageHistory]] = OrderedDict()
        database.remembering.add(self)

    @property
    def target(self) -> int:
        """What a compaction brings a context down to, in tokens."""
        return max(1, int(self.limit * (1 - self.config.active_context.min_reduction_ratio)))

    def limit_within(self, window: int | None) -> int:
        """Return beyond how many tokens a context is compacted, for a model that takes so many, if that is known."""
        most = self.config.threshold_tokens
        return most if window is None else min(most, window)

    def viewing(self, messages: Sequence[BaseMessage], at: ThreadKey | None, *, overhead: int = 0) -> ContextView:
        """What a model is to be shown of a history now.

        Args:
            messages: The whole history. It is not changed.
            at: The conversation in which it is recorded. None for a history that nobody keeps: then nothing is
                recorded, and compactions are remembered by this object alone.
            overhead: Tokens that are sent beside the messages.
        """
        report = CompactionReport(self.database, at.name if at else "")
        limits = {"threshold_tokens": self.limit, "target_tokens": self.target}
        with report.step(COMPACT, at, "turn", messages=len(messages), **limits):
            history, context, resolve = self._found(messages, at)
            overhead += self._put_beside(context, at, overhead)
            self._learn(history, context, overhead)
            tokens = self.calibrated(context.tokens + overhead)
            report.sized(NOTHING, (tokens, len(context.messages)))
            if not self.is_due(context, tokens, self.model, at):
                return self._view(context, history, overhead, report)
            base = self.base(context, resolve, self.model)
            situation = self.situation(overhead=overhead, originals=history.originals(base.copies))
            made = resolve(self.compact(base, situation, report, tokens=tokens))
            return self._view(made, history, overhead, report, compacted=True)

    def smaller(
        self,
        messages: Sequence[BaseMessage],
        at: ThreadKey | None,
        *,
        provider: str = "",
        attempt: int = 1,
        overhead: int = 0,
    ) -> ContextView | None:
        """What a model is to be shown of a history that was refused as too large.

        Args:
            messages: The whole history.
            at: The conversation in which it is recorded, or None.
            provider: Who refused it, see `recovered`.
            attempt: See `recovered`.
            overhead: Tokens that are sent beside the messages.

        Returns:
            What is to be sent instead; None where nothing could be made smaller.
        """
        report = CompactionReport(self.database, at.name if at else "")
        inputs = {"provider": provider or None, "attempt": attempt, "messages": len(messages)}
        with report.step(RECOVER, at, "refused", **inputs):
            history, context, resolve = self._found(messages, at)
            situation = self.situation(overhead=overhead, originals=history.originals(context.copies))
            record = self.compact(context, thorough(situation, provider), report, attempt=attempt)
            if record is None:
                return None
            return self._view(resolve(record), history, overhead, report, compacted=True)

    def lower(self, tokens: int, overhead: int) -> None:
        """Note that a provider refused a context: from now on, contexts are kept below that.

        Args:
            tokens: What was refused, in tokens.
            overhead: Tokens that are sent beside the messages; a limit leaves room for some messages, too.
        """
        self.limit = min(self.limit, max(int(tokens * _BELOW), self.calibrated(overhead) + _LEAST_LIMIT))

    def _found(
        self, messages: Sequence[BaseMessage], at: ThreadKey | None
    ) -> tuple[MessageHistory, CompactedContext, Callable[[CompactionRecord | None], CompactedContext]]:
        """Record what is new in a history. Return it, its context, and what gives the context of a compaction."""
        conversation, before = self._followed.get(at, (None, MessageHistory()))
        history = followed(before, messages, self.counter)
        conversation, known = self._noted(history, at, before, conversation)
        remember(self._followed, at, (conversation, history))
        resolve = partial(resolved, history=history, counter=self.counter, at=at)
        digests = history.digests
        same = (each for each in known if each.reached < len(digests) and digests[each.reached] == each.digest)
        records = (self.loaded(at, each.id) for each in same)
        return history, resolve(next((record for record in records if record is not None), None)), resolve

    def _put_beside(self, context: CompactedContext, at: ThreadKey | None, overhead: int) -> int:
        """What the memory and the experiences take that stand in the prompts of a thread; 0 far from the limit."""
        if at is None or context.tokens + overhead < self.limit / 2:
            return 0
        asked = [message.id for message in context.messages if message.type == "human" and message.id]
        return prompt_notes.counting(self.database, at, asked)

    def forget(self) -> None:
        """Forget what was read and said; what is still there will be read again."""
        self._records.clear()
        self._followed.clear()

    # -- recording ---------------------------------------------------------------------------------------------

    def _noted(
        self, history: MessageHistory, at: ThreadKey | None, before: MessageHistory, recorded_in: _Identity
    ) -> tuple[_Identity, Sequence[CompactionRecord]]:
        """Record what is new in a history. Return its conversation, and the compactions there are, the newest first."""
        if at is None:
            there = [*self._records.items()]  # in one go: other threads go on putting records there
            return None, [record for (where, _), record in reversed(there) if where is None]
        conversation, known = self.database.read(None, lambda tx: (identity(tx, at), headers(tx, at, STATE)))
        if conversation is None or recorded_in not in (conversation, None):
            before = MessageHistory()  # what was recorded was deleted since
        new = [place for place in _unrecorded(before, history) if not is_filler(history.messages[place])]
        for start in range(0, len(new), BATCH):
            self._record(history, at, new[start : start + BATCH])
        return conversation, known

    def _record(self, history: MessageHistory, at: ThreadKey, places: Sequence[int]) -> None:
        """Record the messages in these places."""
        now = self.database.now()
        messages = [(history.keys[place], history.messages[place]) for place in places]
        entries = [entry_of(replace(storable(each), message_id=key), now) for key, each in messages]
        made = {key for key, each in messages if is_made(each)}
        stored = self.database.write(
            "compaction.record",
            lambda tx: message_log.append(tx, at, entries, now=now, newer=True, made=made),
            lambda: {**place_of(at), "messages": len(entries)},
        )
        if keys := tuple(stored.keys):
            where = namespace_of(at.path)
            self.database.emit(partial(MessagesStored, namespace=where, conversation_id=at.name, message_ids=keys))

    # -- finding the context -----------------------------------------------------------------------------------

    def base(
        self, context: CompactedContext, resolve: Callable[[CompactionRecord | None], CompactedContext], model: Any
    ) -> CompactedContext:
        """Return the context to compact: before a summary made without a model, if there is a model now.

        Args:
            context: The context in use.
            resolve: Returns the context that a compaction gives; the history itself for None.
            model: The model that summarizes, or None.
        """
        record = context.record
        while record is not None and record.provisional and model is not None:
            record = None if record.parent is None else self.loaded(context.at, record.parent)
        return context if record is context.record else resolve(record)

    def loaded(self, at: ThreadKey | None, number: int) -> CompactionRecord | None:
        """A compaction by its number; None where it is gone or damaged."""
        record = self._records.get((at, number))
        if record is None and at is not None:
            try:
                record = self.database.read(None, lambda tx: compaction_records.load(tx, at, number))
            except StorageError:
                logger.warning("A compaction cannot be read; the context is compacted anew.", exc_info=True)
            if record is not None:
                remember(self._records, (at, number), record)
        return record

    # -- sizes -------------------------------------------------------------------------------------------------

    def calibrated(self, tokens: int) -> int:
        """What so many counted tokens are, by what providers have reported."""
        return math.ceil(tokens * self.counter.factor())

    def is_due(self, context: CompactedContext, tokens: int, model: Any, at: ThreadKey | None) -> bool:
        """Whether to compact: the context is too large, and enough was said since the last time to gain by it.

        Args:
            context: The context.
            tokens: What it costs.
            model: What would summarize.
            at: The conversation, or None.
        """
        record = context.record
        if not self.config.active_context.enabled:
            return False
        if record is not None and record.provisional and not record.tried and model is not None:
            return True
        if tokens <= self.limit:
            return False
        if record is None:
            return True
        settled = self._settled.get((at, record.id)) == context.grown  # nothing was said since this was compacted
        return not settled and self._is_worth_it(context)

    def _is_worth_it(self, context: CompactedContext) -> bool:
        """Whether as much can go as a compaction is to make room for; else the next turn would compact again."""
        room = (self.limit - self.target) / self.counter.factor()
        if context.grown_tokens >= room:
            return True
        config, messages = self.config.active_context.summarization, context.messages
        keep_first = config.include_original_instruction
        shape = shape_of(messages, grace=config.grace_recent_messages, keep_first=keep_first)
        return sum(self._cost(messages[each.start : each.stop]) for each in droppable(messages, shape)) >= room

    def _learn(self, history: MessageHistory, context: CompactedContext, overhead: int) -> None:
        """Learn from what the provider reported with the last reply how many tokens a context really has."""
        first = len(history.messages) - context.grown
        for place in range(len(history.messages) - 1, first, -1):
            if isinstance(reply := history.messages[place], AIMessage):
                if reply.usage_metadata is not None:
                    since = history.tokens[-1] - history.tokens[place]
                    counted = context.tokens - since + overhead
                    self.counter.learn(counted, reply.usage_metadata["input_tokens"], reply.id)
                return

    def _repair_cost(self, messages: Sequence[BaseMessage], repaired: Sequence[BaseMessage]) -> int:
        """Return the tokens that a repair added, less those that it removed."""
        before, after = ({id(each): each for each in some} for some in (messages, repaired))
        added = [after[each] for each in after.keys() - before.keys()]
        removed = [before[each] for each in before.keys() - after.keys()]
        return self._cost(added) - self._cost(removed)

    def _cost(self, messages: Sequence[BaseMessage]) -> int:
        return sum(map(self.counter.count_message, messages))

    # -- compacting --------------------------------------------------------------------------------------------

    def situation(
        self, *, overhead: int = 0, model: Any = None, originals: Mapping[str, BaseMessage] = MappingProxyType({})
    ) -> ProcessorContext:
        """What a compaction has to reach.

        Args:
            overhead: Tokens that are sent beside the messages.
            model: What summarizes. Default: this object's model.
            originals: By their ids, messages as they were said, of which the context has shortened copies.
        """
        model = self.model if model is None else model
        config = self.config.active_context
        window = window_of(model)
        share = int(window * _SHARE_OF_WINDOW) if window else max(self.limit, LEAST_INPUT)
        return ProcessorContext(
            target_tokens=int(self.target / self.counter.factor()),
            counter=self.counter,
            config=config,
            model=model,
            input_tokens=config.summarization.input_max_tokens or share,
            overhead_tokens=overhead,
            originals=originals,
        )

    def compact(
        self,
        base: CompactedContext,
        situation: ProcessorContext,
        report: CompactionReport,
        *,
        tokens: int = 0,
        attempt: int = 0,
    ) -> CompactionRecord | None:
        """Compact a context, and keep the result.

        Calls at its end that are still open stay. Its messages are called by their keys, so that a copy is known by its
        id, however it was altered.

        Args:
            base: The context.
            situation: The target.
            report: Reports the compaction.
            tokens: The tokens of the context that is replaced.
            attempt: 0 for a context that outgrew its limit. Else the number of the attempt to make a refused context
                smaller, in bytes, see `with_tool_output_cut`: the second one also cuts tool output in the protected
                tail.

        Returns:
            The compaction that counts from now on; None if a refused context could not be made smaller.
        """
        later = count_open(base.messages)
        end = len(base.messages) - later
        closed = zip(base.messages[:end], base.keys, strict=False)
        named = [each if key in (None, each.id) else each.model_copy(update={"id": key}) for each, key in closed]
        before = replace(base, messages=named, keys=base.keys[:end], length=base.length - later)
        overhead = situation.overhead_tokens + self._cost(base.messages[end:])
        situation = replace(situation, overhead_tokens=overhead)
        if attempt:
            size = payload_bytes(named)
            report.note(bytes_before=size, bytes_after=size)
            tokens = self.calibrated(situation.tokens(named))
        with report.compacting(tokens, len(base.messages)):
            outcome = compacting(named, situation, self.database)
            if attempt > 1:
                outcome = with_tool_output_cut(outcome, situation)
            if attempt:
                left = payload_bytes(outcome.messages)
                if left >= size:
                    report.failed(outcome.stages_run)
                    return None
                report.note(bytes_after=left)
            record = self._kept(before, outcome, tried=situation.model is not None)
            left, messages = self.calibrated(outcome.tokens), len(outcome.messages) + later
            report.completed(outcome, situation.target_tokens, tokens=left, messages=messages, record=record)
        if not attempt:
            remember(self._settled, (base.at, record.id), later)
        return record

    def _kept(self, before: CompactedContext, outcome: PipelineOutcome, *, tried: bool) -> CompactionRecord:
        """Keep the result of a compaction.

        Args:
            before: The context that was compacted.
            outcome: The result.
            tried: Whether a model was there to ask.
        """
        saved = max(0, self._cost(before.messages) - self._cost(outcome.messages))
        record, at = record_of(before, outcome, tried=tried, saved=saved), before.at
        if at is None:
            record = replace(record, id=next(self._numbers))
        else:
            keep = partial(compaction_records.keep, at=at, lane=before.lane, record=record, now=self.database.now())
            record = self.database.write(None, keep)
        remember(self._records, (at, record.id), record)
        return record

    def _view(
        self,
        context: CompactedContext,
        history: MessageHistory,
        overhead: int,
        report: CompactionReport,
        *,
        compacted: bool = False,
    ) -> ContextView:
        needs_repair = history.repeats or not _is_sound(context, history)
        messages = repaired(context.messages) if needs_repair else list(context.messages)
        return self.shown(messages, context, report, overhead=overhead, compacted=compacted)

    def shown(
        self,
        messages: list[BaseMessage],
        context: CompactedContext,
        report: CompactionReport,
        *,
        overhead: int = 0,
        compacted: bool = False,
    ) -> ContextView:
        """What a model is shown of a context; where that is larger than its limit, an event says why.

        Args:
            messages: The context, valid for every provider.
            context: The context.
            report: Who is told.
            overhead: Tokens that are sent beside the messages.
            compacted: Whether it was compacted just now.
        """
        tokens = self.calibrated(context.tokens + self._repair_cost(context.messages, messages) + overhead)
        if self.config.active_context.enabled and tokens > self.limit:
            situation = self.situation(overhead=overhead)
            report.fell_short(tokens, situation.target_tokens, why_larger(messages, situation))
        return ContextView(messages, tokens, compacted)


def _is_sound(context: CompactedContext, history: MessageHistory) -> bool:
    """Whether what was said since a context was compacted needs no repair behind it."""
    start, reached = len(context.messages) - context.grown, len(history.messages) - context.grown
    goes_on = not reached or role_of(context.messages[start - 1]) == role_of(history.messages[reached - 1])
    if goes_on and history.sound >= reached:
        return history.sound == len(history.messages)
    return sound_until(context.messages, start) == len(context.messages)


def _unrecorded(before: MessageHistory, history: MessageHistory) -> list[int]:
    """Return the places of messages that are not recorded yet, or say something else than what was recorded."""
    digests = before.digests
    if history.digests[: len(digests)] == digests:
        return [*range(len(digests) - 1, len(history.messages))]
    there = set(digests)
    return [place for place, digest in enumerate(history.digests[1:]) if digest not in there]


def remember(remembered: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Put a value in, as the newest; the oldest leave where there are too many."""
    remembered.pop(key, None)
    remembered[key] = value
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)
