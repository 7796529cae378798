"""`Compactor` keeps contexts within budget, and reuses compactions that match the history.

A graph passes its whole history at each turn. The compactor records new messages in the conversation of the thread. By
digests, it finds the newest stored compaction that compacted the beginning of this history. The context consists of the
result of that compaction and the later messages. It is compacted again only if it exceeds the limit, or if a model can
replace a summary that was made without a model. Each result is stored before it is used. So a stopped process loses no
result, and an unchanged history causes no second model call. *Calibrated* tokens are counted tokens times a factor,
which is learned from the usage that providers report.

If a provider refuses a context as too large, `shrink_history` makes a smaller one for another call. It summarizes every
message before the protected tail, and keeps few images. The second attempt also cuts tool output in the tail. A result
is accepted only if it has fewer bytes.
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
from langchain_agentmem.compaction import compacted_context, compaction_config
from langchain_agentmem.compaction.compacted_context import CompactedContext, CompactionReport, MessageHistory
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig, ProcessorContext, window_of
from langchain_agentmem.compaction.processors import PipelineOutcome, explain_size, run_processors, tool_truncation
from langchain_agentmem.conversations import compaction_records, message_log, prompt_notes
from langchain_agentmem.conversations.compaction_records import CompactionRecord, find_branch_identity, load_headers
from langchain_agentmem.conversations.log_entries import make_entry
from langchain_agentmem.errors import StorageError
from langchain_agentmem.language_models.model_calls import ModelLike, usable_model
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages import history_repair
from langchain_agentmem.messages.history_repair import find_shape, repair_messages, role_of, valid_length
from langchain_agentmem.messages.message_marks import is_from_compaction, is_synthetic
from langchain_agentmem.storage.database import Database

DEFAULT_PAYLOAD_LIMIT = 25_000_000
"""The maximum bytes of a request to a provider that `PAYLOAD_LIMITS` does not list."""
PAYLOAD_LIMITS = MappingProxyType(
    {"anthropic": 32_000_000, "anthropic-oauth": 32_000_000, "google": 100_000_000}
    | dict.fromkeys(("openai", "openai-oauth", "openrouter", "xai"), DEFAULT_PAYLOAD_LIMIT)
)
"""The maximum bytes of a request, by provider."""
_IMAGE_SHARE = 0.5  # the images kept after a refusal, as a share of the maximum bytes of a request
_MAX_IMAGES = 5  # the number of images kept after a refusal, unless the configuration sets one
_TOOL_OUTPUT_DIVISOR = 16  # one tool output may use the target divided by this number
_MIN_TOOL_OUTPUT_TOKENS = 50


def payload_bytes(messages: Sequence[BaseMessage]) -> int:
    """Estimate the bytes of a context in a request, including images."""
    try:
        return len(json.dumps(convert_to_openai_messages(messages), default=repr).encode())
    except (TypeError, ValueError):  # a block that LangChain cannot translate
        return sum(len(repr(message.content)) for message in messages)


def make_recovery_context(ctx: ProcessorContext, provider: str) -> ProcessorContext:
    """Return a processor context that makes a refused context as small as possible.

    Summarization is the only processor. It summarizes every message that may be summarized.

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
    image_bytes = int(PAYLOAD_LIMITS.get(provider.lower(), DEFAULT_PAYLOAD_LIMIT) * _IMAGE_SHARE)
    return replace(ctx, config=config, thorough=True, image_bytes=image_bytes)


def cut_tool_output(outcome: PipelineOutcome, ctx: ProcessorContext) -> PipelineOutcome:
    """Cut long tool output in the result of a compaction, even in the protected tail.

    One output may use a sixteenth of the target, but at least 50 tokens. The limit never exceeds
    `max_tool_message_tokens`.

    Args:
        outcome: The result of the compaction.
        ctx: The processor context of the compaction.
    """
    truncation, share = ctx.config.tool_truncation, ctx.target_tokens // _TOOL_OUTPUT_DIVISOR
    limit = min(max(_MIN_TOOL_OUTPUT_TOKENS, share), truncation.max_tool_message_tokens)
    config = truncation.replace(max_tool_message_tokens=limit, include_tool_payload_user_messages=False)
    messages = tool_truncation(outcome.messages, config=config, counter=ctx.counter, everywhere=True)
    stages = (*outcome.stages_run, "tool_truncation")
    return replace(outcome, messages=messages, tokens=ctx.tokens(messages), stages_run=stages)


def provider_of(model: Any) -> str:
    """Return the provider of a model, one of the keys of `PAYLOAD_LIMITS`; "" for any other.

    Args:
        model: A LangChain model, or any other callable model.
    """
    model = getattr(model, "bound", model)
    try:
        provider = model._get_ls_params().get("ls_provider")
    except Exception:  # noqa: BLE001 - not every model reports its provider
        provider = None
    name = f"{provider} {getattr(model, '_llm_type', '')}".lower()
    return next((listed for listed in PAYLOAD_LIMITS if listed in name), "")


def model_identity(model: Any) -> tuple[str, str]:
    """Return the class name and the model name: the same for all objects of one model.

    Args:
        model: A LangChain model.
    """
    model = getattr(model, "bound", model)
    return type(model).__name__, str(getattr(model, "model_name", None) or getattr(model, "model", ""))


logger = logging.getLogger(__name__)

CACHE_SIZE = 256
"""The maximum number of values in each cache."""
BATCH_SIZE = 500
"""The maximum number of messages recorded in one transaction."""
_WINDOW_SHARE = 0.8  # the input of one call, as a share of the summarizer's window
_LOWERED_SHARE = 0.9  # the lowered limit, as a share of the tokens of the refused context
_MIN_MESSAGE_TOKENS = 500
"""The tokens that a lowered limit leaves for messages, beyond the overhead."""

_Identity: TypeAlias = tuple[int, int] | None
"""The branch id and creation time of a conversation. They change if the conversation is deleted and created again."""


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
        window: The maximum input tokens of the agent's model. Default: that of `model`, if its profile states it.

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
        counter, size = config.token_counter, config.image_token_estimate
        self.counter = counter if isinstance(counter, TokenCounter) else TokenCounter(counter, image_tokens=size)
        # Keys: conversation and record id. Without a conversation, records exist only here, with ids from `_next_ids`.
        self._records: OrderedDict[tuple[ThreadKey | None, int], CompactionRecord] = OrderedDict()
        self._unanswered_counts: OrderedDict[tuple[ThreadKey | None, int], int] = OrderedDict()
        self._next_ids = count(1)
        self._histories: OrderedDict[ThreadKey | None, tuple[_Identity, MessageHistory]] = OrderedDict()
        database.caches.add(self)

    @property
    def target(self) -> int:
        """The target size of a compaction, in tokens."""
        return max(1, int(self.limit * (1 - self.config.active_context.min_reduction_ratio)))

    def limit_for(self, window: int | None) -> int:
        """Return the tokens above which a context is compacted.

        The limit is the threshold, or the model's window (its maximum input tokens) if the window is known and smaller.
        """
        threshold = self.config.threshold_tokens
        return threshold if window is None else min(threshold, window)

    def compact_history(self, messages: Sequence[BaseMessage], at: ThreadKey | None, overhead: int) -> ContextView:
        """Record a history and return its context, compacted if necessary.

        Args:
            messages: The whole history. It is not modified.
            at: The key of the conversation that records the history. None records nothing, and caches compactions
                in this object only.
            overhead: The tokens sent in addition to the messages, uncalibrated.
        """
        report = CompactionReport(self.database, at.name if at else "")
        limits = {"threshold_tokens": self.limit, "target_tokens": self.target}
        with report.step(compacted_context.COMPACT_STEP, at, "turn", messages=len(messages), **limits):
            history, context, make_context = self._load_context(messages, at)
            overhead += self._count_injected_tokens(context, overhead)
            self._calibrate_counter(history, context, overhead)
            tokens = self.calibrate(context.tokens + overhead)
            report.note_sizes(compacted_context.NOTHING_DUE, (tokens, len(context.messages)))
            if not self.is_due(context, tokens, self.model):
                return self._make_valid_view(context, history, report, overhead)
            base = self.load_context_to_compact(context, make_context, self.model)
            ctx = self.processor_context(overhead=overhead, originals=history.messages_by_key(base.copies))
            compacted = make_context(self.compact(base, ctx, report, tokens=tokens))
            return self._make_valid_view(compacted, history, report, overhead)._replace(compacted=True)

    def shrink_history(
        self, messages: Sequence[BaseMessage], at: ThreadKey | None, *, provider: str, attempt: int, overhead: int
    ) -> ContextView | None:
        """Return a smaller context of a history that was refused as too large.

        Args:
            messages: The whole history.
            at: The key of the conversation that records the history, or None.
            provider: The provider that refused the context, see `make_recovery_context`.
            attempt: The number of the attempt, from 1, see `compact`.
            overhead: The tokens sent in addition to the messages, uncalibrated.

        Returns:
            The smaller context; None if the context could not be made smaller.
        """
        report = CompactionReport(self.database, at.name if at else "")
        inputs = {"provider": provider or None, "attempt": attempt, "messages": len(messages)}
        with report.step(compacted_context.RECOVER_STEP, at, "refused", **inputs):
            history, context, make_context = self._load_context(messages, at)
            ctx = self.processor_context(overhead=overhead, originals=history.messages_by_key(context.copies))
            record = self.compact(context, make_recovery_context(ctx, provider), report, attempt=attempt)
            if record is None:
                return None
            view = self._make_valid_view(make_context(record), history, report, overhead)
            return view._replace(compacted=True)

    def lower_limit(self, tokens: int, overhead: int) -> None:
        """Lower the limit to 90% of the tokens of a refused context.

        The lowered limit leaves at least 500 tokens for messages, beyond the overhead. The limit never rises.

        Args:
            tokens: The calibrated tokens of the refused context, including the overhead.
            overhead: The tokens sent in addition to the messages, uncalibrated.
        """
        floor = self.calibrate(overhead) + _MIN_MESSAGE_TOKENS
        self.limit = min(self.limit, max(int(tokens * _LOWERED_SHARE), floor))

    def _load_context(
        self, messages: Sequence[BaseMessage], at: ThreadKey | None
    ) -> tuple[MessageHistory, CompactedContext, Callable[[CompactionRecord | None], CompactedContext]]:
        """Record new messages, and load the history and its context.

        Returns:
            The history, its context, and a function from a record to its context, or from None to the whole history.
        """
        identity, previous = self._histories.get(at, (None, MessageHistory()))
        history = compacted_context.analyze_history(previous, messages, self.counter)
        identity, compactions = self._record_new(history, at, previous, identity)
        cache_value(self._histories, at, (identity, history))
        make_context = partial(compacted_context.apply_record, history=history, counter=self.counter, at=at)
        # A compaction matches if the history begins with the messages that it compacted. The newest one applies.
        matching = (each for each in compactions if history.digests[each.reached : each.reached + 1] == [each.digest])
        records = (self.load_record(at, each.id) for each in matching)
        return history, make_context(next(filter(None, records), None)), make_context

    def _count_injected_tokens(self, context: CompactedContext, overhead: int) -> int:
        """Count the tokens of memory and experiences that other components add to the prompt.

        Return 0 without a conversation, and for a context so small that the count does not matter.
        """
        if context.at is None or context.tokens + overhead < self.limit / 2:
            return 0
        question_ids = [message.id for message in context.messages if message.type == "human" and message.id]
        return prompt_notes.count_inserted_tokens(self.database, context.at, question_ids)

    def forget(self) -> None:
        """Clear the caches. Stored compactions are read again when needed."""
        self._records.clear()
        self._histories.clear()

    # -- recording ---------------------------------------------------------------------------------------------

    def _record_new(
        self, history: MessageHistory, at: ThreadKey | None, previous: MessageHistory, previous_identity: _Identity
    ) -> tuple[_Identity, Sequence[CompactionRecord]]:
        """Record new messages, and return the conversation's identity and its compactions.

        The identity is None without a conversation, or if this call creates it. The newest compaction comes first.
        """
        if at is None:
            records = [*self._records.items()]  # an atomic copy, as other Python threads may add records meanwhile
            return None, [record for (key, _), record in reversed(records) if key is None]
        read, lane = partial(self.database.read, None), compaction_records.STATE
        identity, compactions = read(lambda tx: (find_branch_identity(tx, at), load_headers(tx, at, lane)))
        if identity is None or previous_identity not in (identity, None):
            previous = MessageHistory()  # the conversation was deleted after the previous turn
        indexes = [index for index in _find_unrecorded(previous, history) if not is_synthetic(history.messages[index])]
        for start in range(0, len(indexes), BATCH_SIZE):
            self._record_batch(history, at, indexes[start : start + BATCH_SIZE])
        return identity, compactions

    def _record_batch(self, history: MessageHistory, at: ThreadKey, indexes: Sequence[int]) -> None:
        """Record the messages at these indexes of the history in one transaction."""
        now, to_storable = self.database.now(), compaction_records.to_storable
        messages = [(history.keys[index], history.messages[index]) for index in indexes]
        entries = [make_entry(replace(to_storable(each), message_id=key), now) for key, each in messages]
        generated = {key for key, each in messages if is_from_compaction(each)}
        append = partial(message_log.append, at=at, entries=entries, now=now, newer=True, generated=generated)
        inputs = {**compacted_context.trace_fields(at), "messages": len(entries)}
        stored = self.database.write("compaction.record", append, lambda: inputs)
        if keys := tuple(stored.keys):
            namespace, name = namespace_of(at.path), at.name
            self.database.emit(partial(MessagesStored, namespace=namespace, conversation_id=name, message_ids=keys))

    # -- finding the context -----------------------------------------------------------------------------------

    def load_context_to_compact(
        self, context: CompactedContext, make_context: Callable[[CompactionRecord | None], CompactedContext], model: Any
    ) -> CompactedContext:
        """Return the context to compact, without the summaries that a model can replace.

        If there is a model, it summarizes the original messages of a summary that was made without a model.

        Args:
            context: The current context.
            make_context: A function that returns the context of a compaction, or the whole history for None.
            model: The summarizer, or None.
        """
        record = context.record
        while record is not None and record.provisional and model is not None:
            record = None if record.parent is None else self.load_record(context.at, record.parent)
        return context if record is context.record else make_context(record)

    def load_record(self, at: ThreadKey | None, record_id: int) -> CompactionRecord | None:
        """Load a compaction by its id. Return None if it is deleted or damaged."""
        record = self._records.get((at, record_id))
        if record is None and at is not None:
            try:
                record = self.database.read(None, lambda tx: compaction_records.load_record(tx, at, record_id))
            except StorageError:
                message = "A stored compaction cannot be read. A context above the limit is compacted again."
                logger.warning(message, exc_info=True)
            if record is not None:
                cache_value(self._records, (at, record_id), record)
        return record

    # -- sizes -------------------------------------------------------------------------------------------------

    def calibrate(self, tokens: int) -> int:
        """Correct a token count by the factor learned from the usage that providers report."""
        return math.ceil(tokens * self.counter.factor())

    def is_due(self, context: CompactedContext, tokens: int, model: Any) -> bool:
        """Return whether to compact the context.

        A context above the limit is compacted if it has no compaction yet. Otherwise it is compacted if it has new
        messages and a compaction can free enough tokens. A context of any size is compacted if a model can replace a
        summary that was made without a model.

        Args:
            context: The context.
            tokens: The calibrated tokens of the context, including the overhead.
            model: The summarizer, or None.
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
        # Tool calls that had no results are not compacted. Without new messages, only these follow the compaction.
        unchanged = self._unanswered_counts.get((context.at, record.id)) == context.new_count
        return not unchanged and self._can_free_enough(context)

    def _can_free_enough(self, context: CompactedContext) -> bool:
        """Return whether a compaction can free the tokens between the target and the limit.

        Without this check, a context that stays large would be compacted at every turn.
        """
        tokens_to_free = (self.limit - self.target) / self.counter.factor()
        if context.new_tokens >= tokens_to_free:
            return True
        config, messages = self.config.active_context.summarization, context.messages
        keep_first = config.include_original_instruction
        shape = find_shape(messages, grace=config.grace_recent_messages, keep_first=keep_first)
        dropped = (messages[group.start : group.stop] for group in history_repair.droppable_groups(messages, shape))
        return sum(map(self._count_tokens, dropped)) >= tokens_to_free

    def _calibrate_counter(self, history: MessageHistory, context: CompactedContext, overhead: int) -> None:
        """Calibrate the counter with the input tokens that the last reply reports.

        Only replies after the compaction are considered.
        """
        compaction_end = len(history.messages) - context.new_count
        for index in range(len(history.messages) - 1, compaction_end, -1):
            if isinstance(reply := history.messages[index], AIMessage):
                if reply.usage_metadata is not None:
                    counted = context.tokens - (history.tokens[-1] - history.tokens[index]) + overhead
                    self.counter.learn(counted, reply.usage_metadata["input_tokens"], reply.id)
                return

    def _count_repair_tokens(self, messages: Sequence[BaseMessage], repaired: Sequence[BaseMessage]) -> int:
        """Return the tokens that a repair added to the messages, minus the tokens that it removed."""
        old, new = ({id(message): message for message in history} for history in (messages, repaired))
        added = [new[object_id] for object_id in new.keys() - old.keys()]
        removed = [old[object_id] for object_id in old.keys() - new.keys()]
        return self._count_tokens(added) - self._count_tokens(removed)

    def _count_tokens(self, messages: Sequence[BaseMessage]) -> int:
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
        default_input = int(window * _WINDOW_SHARE) if window else max(self.limit, compaction_config.MIN_INPUT_TOKENS)
        return ProcessorContext(
            target_tokens=int(self.target / self.counter.factor()),
            counter=self.counter,
            config=config,
            model=model,
            input_tokens=config.summarization.input_max_tokens or default_input,
            overhead_tokens=overhead,
            originals=originals,
        )

    def compact(
        self, base: CompactedContext, ctx: ProcessorContext, report: CompactionReport, tokens: int = 0, attempt: int = 0
    ) -> CompactionRecord | None:
        """Compact a context and store the result.

        Calls without results at the end of the context are not compacted. Each message gets its key as its id, so that
        a shortened copy can be traced to its original.

        Args:
            base: The context to compact.
            ctx: The processor context.
            report: The report that emits the events of the compaction.
            tokens: The calibrated tokens of `base`. Not used with `attempt`. Default: 0.
            attempt: The number of the attempt to reduce the bytes of a refused context, from 1. From the second attempt
                on, tool output in the protected tail is also cut. Default 0: an ordinary compaction.

        Returns:
            The new compaction; None if a refused context could not be made smaller.
        """
        unanswered_count = compacted_context.count_unanswered(base.messages)
        answered_count = len(base.messages) - unanswered_count
        answered = zip(base.messages[:answered_count], base.keys, strict=False)
        keyed = [each if key in (None, each.id) else each.model_copy(update={"id": key}) for each, key in answered]
        keys, length = base.keys[:answered_count], base.length - unanswered_count
        answered_context = replace(base, messages=keyed, keys=keys, length=length)
        ctx = replace(ctx, overhead_tokens=ctx.overhead_tokens + self._count_tokens(base.messages[answered_count:]))
        if attempt:
            bytes_before = payload_bytes(keyed)
            report.note(bytes_before=bytes_before, bytes_after=bytes_before)
            tokens = self.calibrate(ctx.tokens(keyed))
        with report.compaction(tokens, len(base.messages)):
            outcome = run_processors(keyed, ctx, self.database)
            if attempt > 1:
                outcome = cut_tool_output(outcome, ctx)
            if attempt:
                bytes_after = payload_bytes(outcome.messages)
                if bytes_after >= bytes_before:
                    report.emit_failed(outcome.stages_run)
                    return None
                report.note(bytes_after=bytes_after)
            record = self._store_record(answered_context, outcome, has_model=ctx.model is not None)
            size_after = self.calibrate(outcome.tokens), len(outcome.messages) + unanswered_count
            report.emit_completed(outcome, ctx.target_tokens, size_after, record)
        if not attempt:
            cache_value(self._unanswered_counts, (base.at, record.id), unanswered_count)
        return record

    def _store_record(self, base: CompactedContext, outcome: PipelineOutcome, *, has_model: bool) -> CompactionRecord:
        """Store the result of a compaction.

        Args:
            base: The context that was compacted.
            outcome: The result of the compaction.
            has_model: True if a model was available for the summary.
        """
        saved = max(0, self._count_tokens(base.messages) - self._count_tokens(outcome.messages))
        record, at = compacted_context.make_record(base, outcome, has_model=has_model, saved=saved), base.at
        if at is None:
            record = replace(record, id=next(self._next_ids))
        else:
            now, store = self.database.now(), compaction_records.store_record
            record = self.database.write(None, partial(store, at=at, lane=base.lane, record=record, now=now))
        cache_value(self._records, (at, record.id), record)
        return record

    def _make_valid_view(
        self, context: CompactedContext, history: MessageHistory, report: CompactionReport, overhead: int
    ) -> ContextView:
        needs_repair = history.has_repeated_ids or not _is_valid(context, history)
        messages = repair_messages(context.messages) if needs_repair else list(context.messages)
        return self.make_view(messages, context, report, overhead)

    def make_view(
        self, messages: list[BaseMessage], context: CompactedContext, report: CompactionReport, overhead: int = 0
    ) -> ContextView:
        """Return the messages and tokens of a context. If it exceeds the limit, emit an event.

        Args:
            messages: The messages of the context after their repair, valid for every provider.
            context: The context before the repair.
            report: The report that emits the event.
            overhead: The tokens sent in addition to the messages, uncalibrated. Default: 0.
        """
        tokens = self.calibrate(context.tokens + self._count_repair_tokens(context.messages, messages) + overhead)
        if self.config.active_context.enabled and tokens > self.limit:
            ctx = self.processor_context(overhead=overhead)
            report.emit_fell_short(tokens, ctx.target_tokens, explain_size(messages, ctx))
        return ContextView(messages, tokens)


def _is_valid(context: CompactedContext, history: MessageHistory) -> bool:
    """Return whether the messages after the compaction need no repair.

    If the result of the compaction ends with the same role as the compacted messages, `history.valid_length` applies.
    """
    start, covered = len(context.messages) - context.new_count, len(history.messages) - context.new_count
    same_role = not covered or role_of(context.messages[start - 1]) == role_of(history.messages[covered - 1])
    if same_role and history.valid_length >= covered:
        return history.valid_length == len(history.messages)
    return valid_length(context.messages, start) == len(context.messages)


def _find_unrecorded(previous: MessageHistory, history: MessageHistory) -> list[int]:
    """Return the indexes of the messages that the history of the previous turn did not have."""
    digests = previous.digests
    if history.digests[: len(digests)] == digests:
        return [*range(len(digests) - 1, len(history.messages))]
    recorded = set(digests)
    return [index for index, digest in enumerate(history.digests[1:]) if digest not in recorded]


def cache_value(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Add a value to a cache as the newest, and remove the oldest values beyond `CACHE_SIZE`."""
    cache.pop(key, None)
    cache[key] = value
    while len(cache) > CACHE_SIZE:
        cache.popitem(last=False)
