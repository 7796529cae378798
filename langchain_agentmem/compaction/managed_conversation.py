"""`ManagedConversationMemory`: a conversation whose context stays within a token budget.

    chat = memory.managed_conversation("support-7", config=ManagedMemoryConfig(threshold_tokens=20_000), model=model)
    chat.add(role="user", content="…")
    chat.messages              # the context for the model, within the budget
    chat.raw_messages          # every message of the conversation

The options and methods equal those of the class of this name in MARSYS, another agent framework. Compaction never
modifies the stored messages. `memory.search` also finds messages that are no longer in the context. As a LangChain chat
history, the object returns the context, so `RunnableWithMessageHistory` stays within the budget.

The context consists of the result of the newest compaction and the messages after it. So the cost of opening a long
conversation depends only on the size of its context. If messages were added, the cached context is extended. After any
other change, such as an edit or a removal, the context is read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.argument_checks import check_value
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.events import MemoryEvent, MessagesRemoved, MessagesStored, MessageUpdated
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.compaction import compacted_context
from langchain_agentmem.compaction.compacted_context import CompactedContext, CompactionReport
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig, Processor
from langchain_agentmem.compaction.dropped_messages import load_messages
from langchain_agentmem.compaction.graph_compactor import Compactor, make_recovery_context
from langchain_agentmem.compaction.processors import check_messages
from langchain_agentmem.conversations import compaction_records, message_log
from langchain_agentmem.conversations.compaction_records import CompactionRecord, KeySpan
from langchain_agentmem.conversations.conversation_memory import ConversationMemory
from langchain_agentmem.conversations.log_entries import message_with_images
from langchain_agentmem.errors import is_graph_bubble_up
from langchain_agentmem.language_models.model_calls import ModelLike, usable_model
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import calls_of, repair_messages
from langchain_agentmem.messages.langchain_messages import from_langchain, has_images, load_images, to_langchain
from langchain_agentmem.messages.message import decode_body
from langchain_agentmem.messages.message_marks import GENERATED_MARK, SUMMARY_MARK, is_from_compaction, is_synthetic
from langchain_agentmem.messages.provider_content import image_url_part, part_or_placeholder
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Operation, Transaction, query
from langchain_agentmem.storage.database import MemoryLike


def read_context(
    tx: Transaction, at: ThreadKey, cached: CompactedContext | None, counter: TokenCounter
) -> CompactedContext:
    """Read the context of a conversation: its newest compaction and the later messages.

    Args:
        tx: The transaction.
        at: The key of the conversation.
        cached: The context from the last read, which is extended if possible. None reads the whole context.
        counter: The token counter.
    """
    rows = query.conversation_state(tx, path=at.path, kind=message_log.CONVERSATION, name=at.name)
    if not rows:
        return CompactedContext(at=at)
    state_row = rows[0]
    if (
        cached is not None
        and cached.branch_identity == _branch_identity(state_row)
        and (cached.record and cached.record.id) == state_row["compaction"]
    ):
        later_rows = query.entries_since(tx, branch=state_row["id"], slot=cached.last_row_id)
        if not later_rows and (cached.newest_position, cached.length) == (state_row["head"], state_row["messages"]):
            return cached
        new_rows = [row for row in later_rows if row["kind"] == message_log.MESSAGE]
        # Removed messages have no row, and show only in the counts.
        only_added = (
            all(row["replaces"] is None or row["kind"] == message_log.ROUND for row in later_rows)
            and not any(row["kind"] == message_log.DESCRIPTION for row in later_rows)
            and state_row["messages"] - cached.length == len(new_rows)
            and state_row["head"] - cached.newest_position == len({row["position"] for row in later_rows})
        )
        if only_added:
            return _extend_context(cached, state_row, new_rows, counter)
    record_id = state_row["compaction"]
    record = None if record_id is None else compaction_records.load_record(tx, at, record_id)
    return read_compaction(tx, at, record, counter)


def read_compaction(
    tx: Transaction, at: ThreadKey, record: CompactionRecord | None, counter: TokenCounter
) -> CompactedContext:
    """Read the context of a compaction. If `record` is None, read the whole conversation."""
    rows = query.conversation_state(tx, path=at.path, kind=message_log.CONVERSATION, name=at.name)
    if not rows:
        return CompactedContext(at=at)
    state_row = rows[0]
    empty = CompactedContext(at=at, branch_identity=_branch_identity(state_row))

    def load_span(span: KeySpan) -> list[tuple[str, BaseMessage]]:
        found = (query.slot_of_key(tx, branch=state_row["id"], key=key) for key in span)
        first, last = (key_rows[0]["slot"] if key_rows else None for key_rows in found)  # row ids of the messages
        # If the first message is missing, a retention deleted it and every message before it.
        row_ids = {"first": first or 0, "last": -1 if last is None else last}
        return _number_messages(empty, query.messages_between(tx, branch=state_row["id"], **row_ids), gap=2)

    messages, keys, copies = compacted_context.expand_record(record, load_span)
    tokens = sum(map(counter.count_message, messages))
    context = replace(empty, messages=messages, keys=keys, copies=copies, record=record, tokens=tokens)
    compacted_row_id = (record.slot or 0) if record else 0
    new_rows = query.messages_between(tx, branch=state_row["id"], first=compacted_row_id + 1, last=message_log.NO_LIMIT)
    return _extend_context(context, state_row, new_rows, counter)


def _extend_context(
    context: CompactedContext, state_row: Any, rows: Sequence[Any], counter: TokenCounter
) -> CompactedContext:
    """Return a context extended by the messages of these rows."""
    context = replace(context, order_numbers=context.order_numbers.copy(), row_ids=context.row_ids.copy())
    new_pairs = _number_messages(context, rows, gap=1 if context.new_count else 2)
    tokens = sum(counter.count_message(message) for _, message in new_pairs)
    return replace(
        context,
        messages=context.messages + [message for _, message in new_pairs],
        keys=context.keys + [key for key, _ in new_pairs],
        new_count=context.new_count + len(new_pairs),
        tokens=context.tokens + tokens,
        new_tokens=context.new_tokens + tokens,
        length=state_row["messages"],
        newest_position=state_row["head"],
        last_row_id=state_row["last"] or 0,
    )


def _number_messages(context: CompactedContext, rows: Sequence[Any], *, gap: int) -> list[tuple[str, BaseMessage]]:
    """Return the messages of rows with their keys, and add their numbers to a context.

    Only adjacent messages get adjacent numbers: `gap` is 1 if the first message directly follows the last numbered
    message, else 2. Image files are not read, since their paths suffice to estimate the tokens.
    """
    first_number = next(reversed(context.order_numbers.values()), 0) + gap
    context.order_numbers.update((row["key"], number) for number, row in enumerate(rows, first_number))
    context.row_ids.update((row["key"], row["slot"]) for row in rows)
    pairs = [(row["key"], message_with_images(bytes(row["body"]), row["key"], row["attachments"])) for row in rows]
    return [(key, to_langchain(message, part_of=image_url_part)) for key, message in pairs]


def _branch_identity(row: Any) -> tuple[int, int]:
    return int(row["id"]), int(row["created_at"])


logger = logging.getLogger(__name__)

_GENERATED_MARKS = (GENERATED_MARK.encode(), SUMMARY_MARK.encode())
EXPLICIT_EVENT = "compact_if_needed"
"""The name of the event when the application calls `compact_if_needed`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextState:
    """The state of a context, the argument of a `TriggerStrategy`.

    Attributes:
        event: The event: "add", "get_messages", or "compact_if_needed".
        messages: The current context.
        tokens: The tokens of the context.
        threshold_tokens: The maximum tokens of the context.
        due: True if the context would be compacted now without a trigger strategy.
        config: The configuration.
    """

    event: str
    messages: Sequence[BaseMessage]
    tokens: int
    threshold_tokens: int
    due: bool
    config: ManagedMemoryConfig


TriggerStrategy: TypeAlias = Callable[[ContextState], bool]
"""A function that receives the state of the context, and returns whether to compact now."""
ProcessStrategy: TypeAlias = Processor
"""A function that replaces the processors. It receives messages and a `ProcessorContext`, and returns messages."""
RetrievalStrategy: TypeAlias = Callable[[list[BaseMessage], ManagedMemoryConfig], Sequence[BaseMessage]]
"""A function that selects which messages of a context are returned. The selection is not stored."""


_INVALIDATION_NAMES: Mapping[Any, frozenset[str]] = {
    MessagesStored: frozenset({"add"}),
    MessagesRemoved: frozenset({"remove_by_id", "delete_memory"}),
    MessageUpdated: frozenset({"update", "replace_memory"}),
}
"""The names of `ManagedMemoryConfig.cache_invalidation_events`, by the class of the memory event."""
_FunctionOption: TypeAlias = Callable[..., Any] | None


class ManagedConversationMemory(ConversationMemory):
    """A conversation whose context stays within a budget.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        conversation_id: The conversation. Default: a new one.
        namespace: The namespace of the conversation. Default: that of the current run, else the root.
        description: The first system message, kept by `reset_memory` and by every compaction.
        retention: The rule that removes old messages after each addition. Default: keep all messages forever.
        config: The token budget and the compaction policy. Default: `ManagedMemoryConfig()`.
        model: The summarizer, see `usable_model`. Default None: the model that a call of `compact_if_needed` passes.
            Without any model, summaries are extracts of the original messages, until a model is available.
        trigger_strategy: A function that decides whether to compact, called at the configured events and by
            `compact_if_needed`. Default: compact if the context exceeds its threshold.
        process_strategy: A processor to use instead of the configured ones. Default: the configured processors.
        retrieval_strategy: A function that selects the messages of the context to return. Default: all.

    Raises:
        InvalidInput: An argument is invalid.
        StorageError: The database cannot be opened.
    """

    memory_type = "managed_conversation"

    def __init__(
        self,
        memory: MemoryLike = ":memory:",
        conversation_id: str | None = None,
        *,
        namespace: Sequence[str] | None = None,
        description: str | None = None,
        retention: Retention | None = None,
        config: ManagedMemoryConfig | None = None,
        model: ModelLike | None = None,
        trigger_strategy: TriggerStrategy | None = None,
        process_strategy: ProcessStrategy | None = None,
        retrieval_strategy: RetrievalStrategy | None = None,
    ) -> None:
        self._trigger = check_value(_FunctionOption, trigger_strategy, "trigger_strategy")
        self._process = check_value(_FunctionOption, process_strategy, "process_strategy")
        self._retrieval = check_value(_FunctionOption, retrieval_strategy, "retrieval_strategy")
        super().__init__(memory, conversation_id, namespace=namespace, description=description, retention=retention)
        self._compactor = Compactor(self._database, config, model)
        self.config = self._compactor.config
        self._context: CompactedContext | None = None
        self._database.caches.add(self)
        self._stats = {"hits": 0, "extensions": 0, "misses": 0, "invalidations": 0, "compactions": 0}

    # -- context and log ---------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # an attribute in the abstract class
        """The context within the budget, as from `get_context`. `raw_messages` has all messages."""
        return self.get_context()

    async def aget_messages(self) -> list[BaseMessage]:
        """Return `messages` asynchronously."""
        return await self.aget_context()

    def get_messages(self) -> list[dict[str, Any]]:
        """Return the context within the budget, as dictionaries that a model accepts."""
        return [from_langchain(each).to_llm_dict(part_of=part_or_placeholder) for each in self.get_context()]

    def get_context(self) -> list[BaseMessage]:
        """Return the context as LangChain messages. Original messages keep their ids.

        Image files become data URLs, as in `raw_messages`.
        """
        with self._database.step("conversation.context", lambda: compacted_context.trace_fields(self._key)) as step:
            report = self._new_report()
            context, compacted = self._compact_after("get_messages", report)
            loaded = _with_image_files(context)
            messages = list(map(_copy_message, loaded.messages))  # callers may modify the copies
            loaded = replace(loaded, messages=messages)
            view = self._compactor.make_view(repair_messages(loaded.messages), loaded, report)
            if self._retrieval is not None:
                chosen = check_messages(self._retrieval(view.messages, self.config), "retrieval_strategy")
                view = view._replace(messages=repair_messages(chosen))
            step.finish(lambda: {"messages": len(view.messages), "tokens": view.tokens, "compacted": compacted})
        return view.messages

    aget_context = awaited(get_context)

    def get_raw_messages(self) -> list[dict[str, Any]]:
        """Return every message as a dictionary that a provider accepts, like `retrieve_all`."""
        return self.retrieve_all()

    aget_raw_messages = awaited(get_raw_messages)

    def get_cache_stats(self) -> dict[str, Any]:
        """Return statistics about the cached context.

        Returns:
            The numbers of "hits" (reads of an unchanged context), "extensions" (reads of new messages only), "misses"
            (full reads), "invalidations" (changes listed in `cache_invalidation_events`), "compactions" and
            "raw_messages" (stored messages). "context_messages" and "context_tokens" are the size of the context at the
            last read. "valid" is True if a context is cached.
        """
        context = self._context or CompactedContext()
        return {
            **self._stats,
            "valid": self._context is not None,
            "context_messages": len(context.messages),
            "context_tokens": self._compactor.calibrate(context.tokens),
            "raw_messages": len(self),
        }

    aget_cache_stats = awaited(get_cache_stats)

    # -- compacting --------------------------------------------------------------------------------------------

    def compact_if_needed(self, runtime: Mapping[str, Any] | None = None) -> bool:
        """Compact the context if it exceeds its threshold.

        If a summary was made without a model and a model is available now, the context is compacted as well.

        Args:
            runtime: A dictionary with "compaction_model", the summarizer, see `usable_model`. Default: this memory's
                model.

        Returns:
            Whether the context was compacted.

        Raises:
            InvalidInput: The runtime is not a dictionary, or its model is not usable.
        """
        _, compacted = self._compact_after(EXPLICIT_EVENT, self._new_report(), _model_from(runtime))
        return compacted

    def compact_for_payload_error(self, runtime: Mapping[str, Any] | None = None) -> bool:
        """Make the context smaller after a provider refused it as too large.

        Every message before the protected tail (see `grace_recent_messages`) is summarized. The kept images use at most
        half of the bytes that the provider accepts.

        Args:
            runtime: A dictionary with "compaction_model", the summarizer, and "provider": "anthropic", "openai",
                "openrouter", "xai", "google", or another name, for which the limit is 25 MB.

        Returns:
            Whether the context has fewer bytes now. If False, nothing changed.

        Raises:
            InvalidInput: The runtime is not a dictionary, or its model is not usable.
        """
        model, provider = _model_from(runtime), str((runtime or {}).get("provider") or "")
        report = self._new_report()
        with report.step(compacted_context.RECOVER_STEP, self._key, "refused", provider=provider or None):
            context = self._load_context()
            if context.branch_identity is None:
                return False
            context = _with_image_files(context)
            ordinary = self._compactor.processor_context(model=model, originals=self._load_originals(context))
            record = self._compactor.compact(context, make_recovery_context(ordinary, provider), report, attempt=1)
            if record is not None:
                self._load_context(reload=True)
            return record is not None

    def forget(self) -> None:
        """Clear the cached context. The next call reads it again."""
        self._context = None

    # -- internals ---------------------------------------------------------------------------------------------

    def _compact_after(self, event: str, report: CompactionReport, model: Any = None) -> tuple[CompactedContext, bool]:
        """Compact the context if an event requires this; return it, and True if compacted."""
        model = self._compactor.model if model is None else model
        context = self._load_context()
        tokens = self._compactor.calibrate(context.tokens)
        due = self._compactor.is_due(context, tokens, model)
        triggered = context.branch_identity is not None and self._is_triggered(event, context, tokens, due=due)
        report.note_sizes(compacted_context.NOTHING_DUE, (tokens, len(context.messages)))  # a compaction replaces it
        if triggered or event == EXPLICIT_EVENT:  # an explicit call is traced even if nothing was due
            with report.step(compacted_context.COMPACT_STEP, self._key, event):
                if triggered:
                    context = self._compact(context, tokens, model, report, due=due)
        return context, triggered

    def _compact(
        self, context: CompactedContext, tokens: int, model: Any, report: CompactionReport, *, due: bool
    ) -> CompactedContext:
        """Compact the context and return the new one."""
        context = _with_image_files(context)
        base = self._compactor.load_context_to_compact(context, self._load_compaction, model)
        processor_context = self._compactor.processor_context(model=model, originals=self._load_originals(base))
        if self._process is not None:
            config = processor_context.config.replace(mode="compaction", processor_order=[self._process])
            processor_context = replace(processor_context, config=config)
        if not due:  # only the trigger strategy requires a compaction, so the target must be below the current size
            reduced = int(base.tokens * (1 - processor_context.config.min_reduction_ratio))
            processor_context = replace(processor_context, target_tokens=min(processor_context.target_tokens, reduced))
        self._compactor.compact(base, processor_context, report, tokens=tokens)
        return self._load_context(reload=True)

    def _load_originals(self, context: CompactedContext) -> dict[str, BaseMessage]:
        """Return the originals of the shortened messages in the context, by their ids."""
        originals = self._database.read(None, lambda tx: load_messages(tx, self._key, [*context.copies]))
        return {each.message.message_id: to_langchain(each.message) for each in originals}

    def _is_triggered(self, event: str, context: CompactedContext, tokens: int, *, due: bool) -> bool:
        if event != EXPLICIT_EVENT and event not in self.config.trigger_events:
            return False
        if self._trigger is None:
            return due
        state = ContextState(
            event=event,
            messages=context.messages,
            tokens=tokens,
            threshold_tokens=self._compactor.limit,
            due=due,
            config=self.config,
        )
        return bool(self._trigger(state))

    def _load_context(self, *, reload: bool = False) -> CompactedContext:
        """Return the current context. Extend the cached context if possible, unless `reload`."""
        cached = self._context
        key, counter, reusable = self._key, self._compactor.counter, None if reload else cached
        context = self._run(None, lambda tx: read_context(tx, key, reusable, counter))
        extends = cached is not None and cached.branch_identity is not None and cached.record is context.record
        statistic = "hits" if context is cached else "extensions" if extends else "misses"
        self._stats["compactions" if reload else statistic] += 1
        self._context = context
        return context

    def _load_compaction(self, record: CompactionRecord | None) -> CompactedContext:
        key, counter = self._key, self._compactor.counter
        return _with_image_files(self._database.read(None, lambda tx: read_compaction(tx, key, record, counter)))

    def _append_operation(self, entries: Sequence[message_log.LogEntry]) -> Operation[message_log.AppendResult]:
        """Return an operation that appends entries.

        Summaries, injected memory, `RemoveMessage`s, and shortened copies of stored messages are skipped.
        """
        generated = {entry.key: message for entry in entries if (message := _generated_message(entry)) is not None}
        if not generated:
            return super()._append_operation(entries)
        append = super()._append_operation

        def operation(tx: Transaction) -> message_log.AppendResult:
            new_entries = [
                entry
                for entry in entries
                if (message := generated.get(entry.key)) is None
                or not (is_synthetic(message) or message_log.get(tx, self._key, entry.key))
            ]
            return append(new_entries)(tx)

        return operation

    def _store(self, entries: Sequence[message_log.LogEntry]) -> None:
        super()._store(entries)
        if "add" in self.config.trigger_events:
            try:
                self._compact_after("add", self._new_report())
            except Exception as error:  # the message is stored, so the call must not fail
                if is_graph_bubble_up(error):
                    raise
                logger.warning("The context could not be compacted. The next event tries again.", exc_info=True)

    def _emit(self, event_class: Callable[..., MemoryEvent], **fields: Any) -> None:
        super()._emit(event_class, **fields)
        changes = _INVALIDATION_NAMES.get(event_class, frozenset())
        self._stats["invalidations"] += not changes.isdisjoint(self.config.cache_invalidation_events)

    def _new_report(self) -> CompactionReport:
        return CompactionReport(self._database, self.conversation_id, bus=self._event_context)


def _with_image_files(context: CompactedContext) -> CompactedContext:
    """Load the image files of a context, so that a compaction counts the real sizes."""
    if not any(has_images(each) for each in context.messages):
        return context
    return replace(context, messages=list(map(load_images, context.messages)))


def _generated_message(entry: message_log.LogEntry) -> BaseMessage | None:
    """Return the message of an entry if a compaction made it, else None."""
    if not any(mark in entry.body for mark in _GENERATED_MARKS):
        return None
    message = to_langchain(decode_body(entry.body, entry.key))
    return message if is_from_compaction(message) else None


def _copy_message(message: BaseMessage) -> BaseMessage:
    return message.model_copy(deep=not isinstance(message.content, str) or bool(calls_of(message)))


def _model_from(runtime: Any) -> Any:
    checked = check_value(Mapping[str, Any] | None, runtime, "runtime")
    return usable_model(checked.get("compaction_model")) if checked else None
