"""`Compactor` keeps contexts within budget, and reuses compactions that match the history.

Each turn of a graph passes the whole history. The compactor records new messages in the conversation of the thread. A
digest of the history identifies the newest compaction that matches its start. The context consists of this compaction
and the later messages. It is compacted again only if it exceeds the limit, or if a model can replace a summary that was
made without one. Each result is stored before it is used. So a process that stops loses nothing, and an unchanged
history does not cause a second model call.

If a provider refuses a context as too large, the compactor makes it smaller than the threshold requires. The caller can
then repeat the call. Every message that may be summarized is summarized, with few images. The second attempt also cuts
tool output in the protected tail. A result is accepted only if it has fewer bytes.
"""

from __future__ import annotations

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
    COMPACT_STEP,
    NOTHING_DUE,
    RECOVER_STEP,
    CompactedContext,
    CompactionReport,
    MessageHistory,
    analyze_history,
    apply_record,
    count_unanswered,
    make_record,
    trace_fields,
)
from langchain_agentmem.compaction.compaction_config import (
    MIN_INPUT_TOKENS,
    ManagedMemoryConfig,
    ProcessorContext,
    window_of,
)
from langchain_agentmem.compaction.processors import PipelineOutcome, explain_size, run_processors, tool_truncation
from langchain_agentmem.conversations import compaction_records, message_log, prompt_notes
from langchain_agentmem.conversations.compaction_records import (
    STATE,
    CompactionRecord,
    branch_identity,
    load_headers,
    to_storable,
)
from langchain_agentmem.conversations.log_entries import entry_of
from langchain_agentmem.errors import StorageError
from langchain_agentmem.language_models.model_calls import ModelLike, usable_model
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import (
    droppable_groups,
    repair_messages,
    role_of,
    shape_of,
    valid_length,
)
from langchain_agentmem.messages.message_marks import is_filler, is_from_compaction
from langchain_agentmem.storage.database import Database

DEFAULT_PAYLOAD_LIMIT = 25_000_000
"""The maximum bytes of a request to a provider that `PAYLOAD_LIMITS` does not list."""
PAYLOAD_LIMITS = MappingProxyType(
    {"anthropic": 32_000_000, "anthropic-oauth": 32_000_000, "google": 100_000_000}
    | dict.fromkeys(("openai", "openai-oauth", "openrouter", "xai"), DEFAULT_PAYLOAD_LIMIT)
)
"""The maximum bytes of a request, by provider."""
_SHARE_OF_IMAGES = 0.5  # of the maximum bytes of a request
_MAX_IMAGES = 5
_SHARE_OF_TOOL_OUTPUT = 16  # one tool output may use the target divided by this number
_MIN_TOOL_OUTPUT_TOKENS = 50


def payload_bytes(messages: Sequence[BaseMessage]) -> int:
    """Estimate the bytes of a context in a request, including images."""
    try:
        return len(json.dumps(convert_to_openai_messages(messages), default=repr).encode())
    except (TypeError, ValueError):  # a block that LangChain cannot translate
        return sum(len(repr(message.content)) for message in messages)


def make_thorough(ctx: ProcessorContext, provider: str) -> ProcessorContext:
    """Return the processor context for a refused context, with a thorough summarization.

    The summarization is the only processor. It summarizes every message that may be summarized.

    Args:
        ctx: The processor context of an ordinary compaction.
        provider: The provider that refused the context. It determines the maximum size of the kept images.
    """
    max_images = ctx.config.summarization.max_retained_images
    max_images = _MAX_IMAGES if max_images is None else max_images
    options = ctx.config.summarization.replace(enabled=True, max_retained_images=max_images)
    config = ctx.config.replace(
        mode="compaction", processor_order=["summarization"], excluded_processors=[], summarization=options
    )
    image_bytes = int(PAYLOAD_LIMITS.get(provider.lower(), DEFAULT_PAYLOAD_LIMIT) * _SHARE_OF_IMAGES)
    return replace(ctx, config=config, thorough=True, image_bytes=image_bytes)


def cut_tool_output(outcome: PipelineOutcome, ctx: ProcessorContext) -> PipelineOutcome:
    """Cut long tool output in the result of a compaction, even in the protected tail.

    One output may use a sixteenth of the target, but at least 50 tokens. The limit never exceeds
    `max_tool_message_tokens`.

    Args:
        outcome: The result of the compaction.
        ctx: The processor context of the compaction.
    """
    truncation, room = ctx.config.tool_truncation, ctx.target_tokens // _SHARE_OF_TOOL_OUTPUT
    limit = min(max(_MIN_TOOL_OUTPUT_TOKENS, room), truncation.max_tool_message_tokens)
    config = truncation.replace(max_tool_message_tokens=limit, include_tool_payload_user_messages=False)
    messages = tool_truncation(outcome.messages, config=config, counter=ctx.counter, everywhere=True)
    stages = (*outcome.stages_run, "tool_truncation")
    return replace(outcome, messages=messages, tokens=ctx.tokens(messages), stages_run=stages)


def provider_of(model: Any) -> str:
    """Return the provider of a model by its name in `PAYLOAD_LIMITS`; "" if it has none there.

    Args:
        model: A LangChain model, or any other callable model.
    """
    model = getattr(model, "bound", model)
    try:
        provider = model._get_ls_params().get("ls_provider")
    except Exception:  # noqa: BLE001 - not every model reports its provider
        provider = None
    name = f"{provider} {getattr(model, '_llm_type', '')}".lower()
    return next((known for known in PAYLOAD_LIMITS if known in name), "")


def model_identity(model: Any) -> tuple[str, str]:
    """Return the class name and the model name, which are equal for objects of one model.

    Args:
        model: A LangChain model.
    """
    model = getattr(model, "bound", model)
    return type(model).__name__, str(getattr(model, "model_name", None) or getattr(model, "model", ""))


logger = logging.getLogger(__name__)

CACHE_SIZE = 256
"""The maximum number of values in each cache."""
BATCH = 500
"""The maximum number of messages recorded in one transaction."""
_SHARE_OF_WINDOW = 0.8  # the input of one call, as a share of the summarizer's window
_LOWERING_FACTOR = 0.9  # the lowered limit, as a share of the refused tokens
_MIN_MESSAGE_TOKENS = 500
"""The tokens that a lowered limit leaves for messages, beyond the overhead."""

_Identity: TypeAlias = tuple[int, int] | None


class ContextView(NamedTuple):
    """A context to send to a model.

    Attributes:
        messages: The messages of the context, valid for every provider.
        tokens: The calibrated tokens of the context, including the overhead.
        compacted: True if this call compacted the context. Default: False.
    """

    messages: list[BaseMessage]
    tokens: int
    compacted: bool = False


class Compactor:
    """A compactor that converts histories to contexts within a budget, and caches compactions.

    Args:
        database: The database that stores histories and compactions.
        config: The budget and the policy; None for `ManagedMemoryConfig()`.
        model: The summarizer, see `usable_model`; None for extractive summaries without a model.
        window: The maximum input tokens of the agent's model. Default: from the profile of `model`, if it has one.

    Raises:
        InvalidInput: An argument is invalid.
    """

    def __init__(
        self, database: Database, config: ManagedMemoryConfig | None, model: ModelLike | None, window: int | None = None
    ) -> None:
        self.database = database
        self.config = config = check_instance(ManagedMemoryConfig, config, "config") or ManagedMemoryConfig()
        self.model = usable_model(model)
        self.window = check_value(Annotated[int, Ge(1)] | None, window, "window")
        self.limit = self.limit_for(self.window or window_of(self.model))
        given, size = config.token_counter, config.image_token_estimate
        self.counter = given if isinstance(given, TokenCounter) else TokenCounter(given, image_tokens=size)
        # Compactions without a conversation exist only in this cache. Their ids come from `_numbers`.
        self._records: OrderedDict[tuple[ThreadKey | None, int], CompactionRecord] = OrderedDict()
        self._open_counts: OrderedDict[tuple[ThreadKey | None, int], int] = OrderedDict()
        self._numbers = count(1)
        self._histories: OrderedDict[ThreadKey | None, tuple[_Identity, MessageHistory]] = OrderedDict()
        database.caches.add(self)

    @property
    def target(self) -> int:
        """The target size of a compaction, in tokens."""
        return max(1, int(self.limit * (1 - self.config.active_context.min_reduction_ratio)))

    def limit_for(self, window: int | None) -> int:
        """Return the tokens above which a context is compacted.

        It is the threshold, or the model's window if that is known and smaller.
        """
        threshold = self.config.threshold_tokens
        return threshold if window is None else min(threshold, window)

    def compact_history(self, messages: Sequence[BaseMessage], at: ThreadKey | None, overhead: int = 0) -> ContextView:
        """Record a history and return its context, compacted if necessary.

        Args:
            messages: The whole history. It is not modified.
            at: The conversation that records the history. None records nothing; compactions are then only cached in
                this object.
            overhead: The tokens sent in addition to the messages, uncalibrated. Default: 0.
        """
        report = CompactionReport(self.database, at.name if at else "")
        limits = {"threshold_tokens": self.limit, "target_tokens": self.target}
        with report.step(COMPACT_STEP, at, "turn", messages=len(messages), **limits):
            history, context, resolve = self._load_context(messages, at)
            overhead += self._count_prompt_notes(context, at, overhead)
            self._calibrate_counter(history, context, overhead)
            tokens = self.calibrate(context.tokens + overhead)
            report.note_sizes(NOTHING_DUE, (tokens, len(context.messages)))
            if not self.is_due(context, tokens, self.model, at):
                return self._make_valid_view(context, history, report, overhead, compacted=False)
            base = self.base_context(context, resolve, self.model)
            ctx = self.processor_context(overhead=overhead, originals=history.messages_by_key(base.copies))
            compacted = resolve(self.compact(base, ctx, report, tokens=tokens))
            return self._make_valid_view(compacted, history, report, overhead, compacted=True)

    def shrink_history(
        self, messages: Sequence[BaseMessage], at: ThreadKey | None, *, provider: str, attempt: int, overhead: int
    ) -> ContextView | None:
        """Return a smaller context of a history that was refused as too large.

        Args:
            messages: The whole history.
            at: The conversation in which it is recorded, or None.
            provider: The provider that refused the context, see `make_thorough`.
            attempt: The number of the attempt, from 1, see `compact`.
            overhead: The tokens sent in addition to the messages, uncalibrated.

        Returns:
            The smaller context; None if the context could not be made smaller.
        """
        report = CompactionReport(self.database, at.name if at else "")
        inputs = {"provider": provider or None, "attempt": attempt, "messages": len(messages)}
        with report.step(RECOVER_STEP, at, "refused", **inputs):
            history, context, resolve = self._load_context(messages, at)
            ctx = self.processor_context(overhead=overhead, originals=history.messages_by_key(context.copies))
            record = self.compact(context, make_thorough(ctx, provider), report, attempt=attempt)
            if record is None:
                return None
            return self._make_valid_view(resolve(record), history, report, overhead, compacted=True)

    def lower_limit(self, tokens: int, overhead: int) -> None:
        """Lower the limit to 90% of the tokens of a refused context.

        The lowered limit leaves at least 500 tokens for messages, beyond the overhead. The limit never rises.

        Args:
            tokens: The calibrated tokens of the refused context, including the overhead.
            overhead: The tokens sent in addition to the messages, uncalibrated.
        """
        floor = self.calibrate(overhead) + _MIN_MESSAGE_TOKENS
        self.limit = min(self.limit, max(int(tokens * _LOWERING_FACTOR), floor))

    def _load_context(
        self, messages: Sequence[BaseMessage], at: ThreadKey | None
    ) -> tuple[MessageHistory, CompactedContext, Callable[[CompactionRecord | None], CompactedContext]]:
        """Record new messages, and load the history and its context.

        Returns:
            The history, its context, and a function that returns the context of a record, or the history for None.
        """
        conversation, previous = self._histories.get(at, (None, MessageHistory()))
        history = analyze_history(previous, messages, self.counter)
        conversation, compactions = self._record_new(history, at, previous, conversation)
        cache_value(self._histories, at, (conversation, history))
        resolve = partial(apply_record, history=history, counter=self.counter, at=at)
        matching = (each for each in compactions if history.digests[each.reached : each.reached + 1] == [each.digest])
        records = (self.load_record(at, each.id) for each in matching)
        return history, resolve(next((record for record in records if record is not None), None)), resolve

    def _count_prompt_notes(self, context: CompactedContext, at: ThreadKey | None, overhead: int) -> int:
        """Count the tokens of memory and experiences that other components add to the prompt.

        Return 0 without a conversation, and for a context below half the limit.
        """
        if at is None or context.tokens + overhead < self.limit / 2:
            return 0
        question_ids = [message.id for message in context.messages if message.type == "human" and message.id]
        return prompt_notes.count_tokens(self.database, at, question_ids)

    def forget(self) -> None:
        """Clear the caches of compactions and histories. Stored ones are read again when needed."""
        self._records.clear()
        self._histories.clear()

    # -- recording ---------------------------------------------------------------------------------------------

    def _record_new(
        self, history: MessageHistory, at: ThreadKey | None, previous: MessageHistory, recorded_in: _Identity
    ) -> tuple[_Identity, Sequence[CompactionRecord]]:
        """Record new messages, and return the conversation's identity and its compactions.

        The identity is None without a conversation, or if it did not exist before. The newest compaction comes first.
        """
        if at is None:
            records = [*self._records.items()]  # a copy in one step: other threads may add records during a loop
            return None, [record for (thread, _), record in reversed(records) if thread is None]
        read = partial(self.database.read, None)
        identity, compactions = read(lambda tx: (branch_identity(tx, at), load_headers(tx, at, STATE)))
        if identity is None or recorded_in not in (identity, None):
            previous = MessageHistory()  # the conversation was deleted after the previous turn
        new_places = [place for place in _find_unrecorded(previous, history) if not is_filler(history.messages[place])]
        for start in range(0, len(new_places), BATCH):
            self._record_batch(history, at, new_places[start : start + BATCH])
        return identity, compactions

    def _record_batch(self, history: MessageHistory, at: ThreadKey, places: Sequence[int]) -> None:
        """Record the messages at these places of the history in one transaction."""
        now = self.database.now()
        messages = [(history.keys[place], history.messages[place]) for place in places]
        entries = [entry_of(replace(to_storable(each), message_id=key), now) for key, each in messages]
        generated = {key for key, each in messages if is_from_compaction(each)}
        stored = self.database.write(
            "compaction.record",
            lambda tx: message_log.append(tx, at, entries, now=now, newer=True, generated=generated),
            lambda: {**trace_fields(at), "messages": len(entries)},
        )
        if keys := tuple(stored.keys):
            namespace = namespace_of(at.path)
            self.database.emit(partial(MessagesStored, namespace=namespace, conversation_id=at.name, message_ids=keys))

    # -- finding the context -----------------------------------------------------------------------------------

    def base_context(
        self, context: CompactedContext, resolve: Callable[[CompactionRecord | None], CompactedContext], model: Any
    ) -> CompactedContext:
        """Return the context to compact, without provisional summaries if there is a model.

        A model then summarizes the original messages instead of provisional summaries.

        Args:
            context: The context in use.
            resolve: A function that returns the context of a compaction, or the whole history for None.
            model: The summarizer, or None.
        """
        record = context.record
        while record is not None and record.provisional and model is not None:
            record = None if record.parent is None else self.load_record(context.at, record.parent)
        return context if record is context.record else resolve(record)

    def load_record(self, at: ThreadKey | None, number: int) -> CompactionRecord | None:
        """Load a compaction by its number. Return None if it is deleted or damaged."""
        record = self._records.get((at, number))
        if record is None and at is not None:
            try:
                record = self.database.read(None, lambda tx: compaction_records.load_record(tx, at, number))
            except StorageError:
                logger.warning(
                    "A stored compaction cannot be read. The context is compacted again if it is too large.",
                    exc_info=True,
                )
            if record is not None:
                cache_value(self._records, (at, number), record)
        return record

    # -- sizes -------------------------------------------------------------------------------------------------

    def calibrate(self, tokens: int) -> int:
        """Scale counted tokens by the calibration factor, which providers' reported usage sets."""
        return math.ceil(tokens * self.counter.factor())

    def is_due(self, context: CompactedContext, tokens: int, model: Any, at: ThreadKey | None) -> bool:
        """Return whether to compact the context.

        A context above the limit is compacted if it has no compaction yet. Otherwise it is compacted if it has new
        messages and a compaction can free enough tokens. A context of any size is compacted if a model can replace a
        summary that was made without a model.

        Args:
            context: The context.
            tokens: The calibrated tokens of the context, including the overhead.
            model: The summarizer, or None.
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
        # Without new messages, only the calls that were unanswered at the compaction follow it.
        unchanged = self._open_counts.get((at, record.id)) == context.new_count
        return not unchanged and self._is_worth_it(context)

    def _is_worth_it(self, context: CompactedContext) -> bool:
        """Return whether a compaction can free the tokens between the target and the limit.

        Without this check, a context that stays large would be compacted at every turn.
        """
        room = (self.limit - self.target) / self.counter.factor()
        if context.new_tokens >= room:
            return True
        config, messages = self.config.active_context.summarization, context.messages
        keep_first = config.include_original_instruction
        shape = shape_of(messages, grace=config.grace_recent_messages, keep_first=keep_first)
        return sum(self._cost(messages[each.start : each.stop]) for each in droppable_groups(messages, shape)) >= room

    def _calibrate_counter(self, history: MessageHistory, context: CompactedContext, overhead: int) -> None:
        """Calibrate the counter with the input tokens that the last reply reports.

        Only replies after the compaction are considered.
        """
        first = len(history.messages) - context.new_count
        for place in range(len(history.messages) - 1, first, -1):
            if isinstance(reply := history.messages[place], AIMessage):
                if reply.usage_metadata is not None:
                    counted = context.tokens - (history.tokens[-1] - history.tokens[place]) + overhead
                    self.counter.learn(counted, reply.usage_metadata["input_tokens"], reply.id)
                return

    def _repair_cost(self, messages: Sequence[BaseMessage], valid: Sequence[BaseMessage]) -> int:
        """Return the tokens that a repair added to the messages, minus the tokens that it removed."""
        before, after = ({id(each): each for each in group} for group in (messages, valid))
        added = [after[each] for each in after.keys() - before.keys()]
        removed = [before[each] for each in before.keys() - after.keys()]
        return self._cost(added) - self._cost(removed)

    def _cost(self, messages: Sequence[BaseMessage]) -> int:
        return sum(map(self.counter.count_message, messages))

    # -- compacting --------------------------------------------------------------------------------------------

    def processor_context(
        self, *, overhead: int = 0, model: Any = None, originals: Mapping[str, BaseMessage] = MappingProxyType({})
    ) -> ProcessorContext:
        """Create the processor context of a compaction.

        Args:
            overhead: The tokens sent in addition to the messages, uncalibrated. Default: 0.
            model: The summarizer. Default: the compactor's model.
            originals: The original messages of shortened copies in the context, by their ids. Default: none.
        """
        model = self.model if model is None else model
        config = self.config.active_context
        window = window_of(model)
        room = int(window * _SHARE_OF_WINDOW) if window else max(self.limit, MIN_INPUT_TOKENS)
        return ProcessorContext(
            target_tokens=int(self.target / self.counter.factor()),
            counter=self.counter,
            config=config,
            model=model,
            input_tokens=config.summarization.input_max_tokens or room,
            overhead_tokens=overhead,
            originals=originals,
        )

    def compact(
        self, base: CompactedContext, ctx: ProcessorContext, report: CompactionReport, tokens: int = 0, attempt: int = 0
    ) -> CompactionRecord | None:
        """Compact a context and store the result.

        Unanswered calls at the end of the context are not compacted. Each message gets its key as its id, so that a
        shortened copy can be traced to its original.

        Args:
            base: The context to compact.
            ctx: The processor context.
            report: The report that emits the events of the compaction.
            tokens: The calibrated tokens of `base`. Not used with `attempt`. Default: 0.
            attempt: 0 for an ordinary compaction. Else the number of the attempt to reduce the bytes of a refused
                context. From the second attempt on, `cut_tool_output` also cuts the protected tail. Default: 0.

        Returns:
            The new compaction; None if a refused context could not be made smaller.
        """
        open_count = count_unanswered(base.messages)
        end = len(base.messages) - open_count
        closed = zip(base.messages[:end], base.keys, strict=False)
        keyed = [each if key in (None, each.id) else each.model_copy(update={"id": key}) for each, key in closed]
        closed_base = replace(base, messages=keyed, keys=base.keys[:end], length=base.length - open_count)
        ctx = replace(ctx, overhead_tokens=ctx.overhead_tokens + self._cost(base.messages[end:]))
        if attempt:
            size = payload_bytes(keyed)
            report.note(bytes_before=size, bytes_after=size)
            tokens = self.calibrate(ctx.tokens(keyed))
        with report.compaction(tokens, len(base.messages)):
            outcome = run_processors(keyed, ctx, self.database)
            if attempt > 1:
                outcome = cut_tool_output(outcome, ctx)
            if attempt:
                size_after = payload_bytes(outcome.messages)
                if size_after >= size:
                    report.emit_failed(outcome.stages_run)
                    return None
                report.note(bytes_after=size_after)
            record = self._store_record(closed_base, outcome, tried=ctx.model is not None)
            size_after, messages = self.calibrate(outcome.tokens), len(outcome.messages) + open_count
            report.emit_completed(outcome, ctx.target_tokens, tokens=size_after, messages=messages, record=record)
        if not attempt:
            cache_value(self._open_counts, (base.at, record.id), open_count)
        return record

    def _store_record(self, context: CompactedContext, outcome: PipelineOutcome, *, tried: bool) -> CompactionRecord:
        """Store the result of a compaction.

        Args:
            context: The context that was compacted.
            outcome: The result.
            tried: True if a model was available.
        """
        saved = max(0, self._cost(context.messages) - self._cost(outcome.messages))
        record, at = make_record(context, outcome, tried=tried, saved=saved), context.at
        if at is None:
            record = replace(record, id=next(self._numbers))
        else:
            now, store = self.database.now(), compaction_records.store_record
            record = self.database.write(None, partial(store, at=at, lane=context.lane, record=record, now=now))
        cache_value(self._records, (at, record.id), record)
        return record

    def _make_valid_view(
        self,
        context: CompactedContext,
        history: MessageHistory,
        report: CompactionReport,
        overhead: int,
        *,
        compacted: bool,
    ) -> ContextView:
        needs_repair = history.has_repeated_ids or not _is_valid(context, history)
        messages = repair_messages(context.messages) if needs_repair else list(context.messages)
        return self.make_view(messages, context, report, overhead, compacted=compacted)

    def make_view(
        self,
        messages: list[BaseMessage],
        context: CompactedContext,
        report: CompactionReport,
        overhead: int = 0,
        *,
        compacted: bool,
    ) -> ContextView:
        """Return the view of a context. If it exceeds the limit, emit an event with the reason.

        Args:
            messages: The messages of the context after their repair, valid for every provider.
            context: The context before the repair.
            report: The report that emits the event.
            overhead: The tokens sent in addition to the messages, uncalibrated. Default: 0.
            compacted: True if this call compacted the context.
        """
        tokens = self.calibrate(context.tokens + self._repair_cost(context.messages, messages) + overhead)
        if self.config.active_context.enabled and tokens > self.limit:
            ctx = self.processor_context(overhead=overhead)
            report.emit_fell_short(tokens, ctx.target_tokens, explain_size(messages, ctx))
        return ContextView(messages, tokens, compacted)


def _is_valid(context: CompactedContext, history: MessageHistory) -> bool:
    """Return whether the context needs no repair at the end of the compaction and after it."""
    start, reached = len(context.messages) - context.new_count, len(history.messages) - context.new_count
    continues = not reached or role_of(context.messages[start - 1]) == role_of(history.messages[reached - 1])
    if continues and history.valid_length >= reached:
        return history.valid_length == len(history.messages)
    return valid_length(context.messages, start) == len(context.messages)


def _find_unrecorded(previous: MessageHistory, history: MessageHistory) -> list[int]:
    """Return the places of unrecorded messages: all from the first difference on."""
    digests = previous.digests
    if history.digests[: len(digests)] == digests:
        return [*range(len(digests) - 1, len(history.messages))]
    recorded = set(digests)
    return [place for place, digest in enumerate(history.digests[1:]) if digest not in recorded]


def cache_value(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Add a value to a cache as the newest, and remove the oldest values beyond `CACHE_SIZE`."""
    cache.pop(key, None)
    cache[key] = value
    while len(cache) > CACHE_SIZE:
        cache.popitem(last=False)
