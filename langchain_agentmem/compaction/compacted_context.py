"""Compacted contexts: the messages that a model receives for a history, some original and some generated.

A `CompactionRecord` is the stored result of a compaction. `make_record` computes the record of a compaction.
`apply_record` computes the context from a record and the current history.

A graph passes the whole history at each turn. `analyze_history` compares the history with that of the previous turn. It
digests, counts and checks only the messages from the first difference on. Each digest covers a message and all messages
before it. A record stores the digest of the compacted messages, so every process can check if it matches a history.

`CompactionReport` reports a compaction to hooks, to an event bus, and to traces.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from typing import Any, NamedTuple, Self

from langchain_core.messages import BaseMessage

from langchain_agentmem.base import events
from langchain_agentmem.base.argument_checks import check_flag
from langchain_agentmem.base.events import CompactionEvent, CompactionFellShort
from langchain_agentmem.base.hooks import EventContext
from langchain_agentmem.base.namespaces import ThreadKey, check_id, namespace_of, path_of
from langchain_agentmem.compaction.processors import PipelineOutcome
from langchain_agentmem.conversations.compaction_records import LOG, STATE, CompactionRecord, KeySpan, make_key_spans
from langchain_agentmem.errors import InvalidInput, is_graph_bubble_up
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import calls_of, has_no_content, role_of, valid_length
from langchain_agentmem.messages.message_marks import is_synthetic, summary_in
from langchain_agentmem.rewinding.thread_memory import conversation_of_run
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import Step, shorten_text


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHistory:
    """An analyzed history: its messages with their keys, digests and token counts.

    Attributes:
        messages: The history.
        keys: The key of each message: its id, or a text derived from the digest if the id is missing or repeated.
        digests: The digests of the history up to each message; the first one is of the empty history.
        tokens: The tokens of the history up to each message, uncalibrated (as counted); the first one is 0.
        indexes: The index of each message, by its key.
        valid_length: The number of messages at the beginning that `repair_messages` would not change.
        contents: Copies of the contents of the messages. They reveal messages that were modified in place.
        call_ids: The ids of the tool calls. Turns share this set, so it may also contain ids of removed messages.
        has_repeated_ids: True if two tool calls may have the same id. False if all ids are certainly different.
    """

    messages: list[BaseMessage] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=lambda: [b""])
    tokens: list[int] = field(default_factory=lambda: [0])
    indexes: dict[str, int] = field(default_factory=dict)
    valid_length: int = 0
    contents: list[Any] = field(default_factory=list)
    call_ids: set[Any] = field(default_factory=set)
    has_repeated_ids: bool = False

    def messages_by_key(self, keys: Iterable[str]) -> dict[str, BaseMessage]:
        """Return the messages with these keys, by key."""
        return {key: self.messages[self.indexes[key]] for key in keys}


def analyze_history(previous: MessageHistory, history: Sequence[BaseMessage], counter: TokenCounter) -> MessageHistory:
    """Analyze a history, reusing the analysis of the previous turn.

    Args:
        previous: The history of the previous turn.
        history: The messages of the history now.
        counter: The token counter.
    """
    messages = list(history)
    common_length = _common_length(previous, messages)
    keys, contents = previous.keys[:common_length], previous.contents[:common_length]
    digests, tokens = previous.digests[: common_length + 1], previous.tokens[: common_length + 1]
    indexes, call_ids, has_repeated_ids = previous.indexes, previous.call_ids, previous.has_repeated_ids
    if common_length < len(previous.messages):
        indexes, call_ids = {key: index for index, key in enumerate(keys)}, set()
        has_repeated_ids = sum(_add_call_ids(message, call_ids) for message in messages[:common_length]) > 0
    elif common_length < len(messages):
        indexes = indexes.copy()
    for index, message in enumerate(messages[common_length:], common_length):
        digest = blake2b(digests[-1] + _message_bytes(message), digest_size=20).digest()
        key = message.id if message.id and message.id not in indexes else f"msg-{digest.hex()}"
        content = message.content
        contents.append(content if type(content) is str else deepcopy(content))
        digests.append(digest)
        tokens.append(tokens[-1] + counter.count_message(message))
        keys.append(key)
        indexes[key] = index
        has_repeated_ids = _add_call_ids(message, call_ids) or has_repeated_ids
    valid_count = previous.valid_length
    if common_length < valid_count:  # a prefix that ends with a user message has no unanswered tool call
        valid_count = next((end for end in range(common_length, 0, -1) if role_of(messages[end - 1]) == "user"), 0)
    return MessageHistory(
        messages=messages,
        keys=keys,
        digests=digests,
        tokens=tokens,
        indexes=indexes,
        valid_length=valid_length(messages, valid_count),
        contents=contents,
        call_ids=call_ids,
        has_repeated_ids=has_repeated_ids,
    )


def _add_call_ids(message: BaseMessage, call_ids: set[Any]) -> bool:
    """Add the ids of a message's tool calls to a set; return whether the set had one of them."""
    own_ids = [call.get("id") for call in calls_of(message)]
    repeats = not call_ids.isdisjoint(own_ids)
    call_ids.update(own_ids)
    return repeats


def _common_length(previous: MessageHistory, messages: list[BaseMessage]) -> int:
    """Return how many leading messages a model cannot distinguish from the previous turn's."""
    length = min(len(previous.messages), len(messages))
    old, new = ([message.__dict__ for message in history[:length]] for history in (previous.messages, messages))
    contents = [fields["content"] for fields in new]
    if old == new and contents == previous.contents[:length]:
        return length  # comparing two whole lists is faster than the loop below
    for index, content in enumerate(contents):
        if content != previous.contents[index] or not _has_same_fields(previous.messages[index], messages[index]):
            return index
    return length


def _has_same_fields(old: BaseMessage, new: BaseMessage) -> bool:
    """Return whether two messages look equal to a model, apart from their contents."""
    names = ("id", "name", "tool_calls", "tool_call_id")
    return type(old) is type(new) and all(old.__dict__.get(name) == new.__dict__.get(name) for name in names)


def _message_bytes(message: BaseMessage) -> bytes:
    """Return the bytes of a message that its digest covers."""
    fields = [message.type, message.id, message.name, message.content, getattr(message, "tool_call_id", None)]
    calls = [(call.get("id"), call.get("name"), call.get("args")) for call in getattr(message, "tool_calls", ())]
    return json.dumps([*fields, calls], default=repr).encode()


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactedContext:
    """The messages that a model receives for a history.

    Its lists are never modified, since a history may share them.

    Attributes:
        messages: The messages.
        keys: The keys of the messages. A shortened copy has the key of its original, a generated message has None.
        copies: The keys of the shortened or otherwise altered copies.
        record: The compaction that the context is based on, or None.
        new_count: The number of messages since that compaction; without a compaction, of all messages.
        tokens: The tokens of the context, uncalibrated.
        new_tokens: The tokens of the messages since the compaction.
        at: The key of the conversation that records the history, or None.
        length: The number of messages in the history.
        order_numbers: Ascending numbers of the messages, by their keys. Only adjacent messages have adjacent numbers.
        digests: For a graph's history, the digests up to each message; the first one is of the empty history.
        branch_identity: For a conversation's log, the row id of its branch and its creation time.
        newest_position: For a log, the position of the newest entry in the conversation.
        last_row_id: For a log, the row id of its last entry.
        row_ids: For a log, the row ids of its messages, by their keys.
    """

    messages: list[BaseMessage] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    copies: frozenset[str] = frozenset()
    record: CompactionRecord | None = None
    new_count: int = 0
    tokens: int = 0
    new_tokens: int = 0
    at: ThreadKey | None = None
    length: int = 0
    order_numbers: dict[str, int] = field(default_factory=dict)
    digests: Sequence[bytes] = (b"",)
    branch_identity: tuple[int, int] | None = None
    newest_position: int = 0
    last_row_id: int = 0
    row_ids: dict[str, int] = field(default_factory=dict)

    @property
    def lane(self) -> str:
        """The lane of compactions: `STATE` for a graph's state, `LOG` for a conversation's log."""
        return STATE if self.branch_identity is None else LOG

    def identify_end(self) -> tuple[bytes, int | None]:
        """Return the digest of the whole history, and for a log the row id of its last message."""
        if self.branch_identity is None:
            return self.digests[self.length], None
        newest_row_id = next((self.row_ids[key] for key in reversed(self.keys) if key in self.row_ids), 0)
        row_id = max((self.record.slot or 0) if self.record else 0, newest_row_id)
        return blake2b(f"{row_id}".encode(), digest_size=20).digest(), row_id


def apply_record(
    record: CompactionRecord | None, history: MessageHistory, counter: TokenCounter, at: ThreadKey | None = None
) -> CompactedContext:
    """Return the context of a record for a history; without a record, the whole history."""

    def load_span(span: KeySpan) -> Iterable[tuple[str, BaseMessage]]:
        part = slice(history.indexes[span.first], history.indexes[span.last] + 1)
        return zip(history.keys[part], history.messages[part], strict=True)

    messages, keys, copies = expand_record(record, load_span, history.indexes.__contains__)
    compacted_count = record.reached if record else 0
    new_tokens = history.tokens[-1] - history.tokens[compacted_count]
    return CompactedContext(
        messages=[*messages, *history.messages[compacted_count:]],
        keys=[*keys, *history.keys[compacted_count:]],
        copies=copies,
        record=record,
        new_count=len(history.messages) - compacted_count,
        tokens=sum(map(counter.count_message, messages)) + new_tokens,
        new_tokens=new_tokens,
        at=at,
        length=len(history.messages),
        order_numbers=history.indexes,
        digests=history.digests,
    )


def expand_record(
    record: CompactionRecord | None,
    load_span: Callable[[KeySpan], Iterable[tuple[str, BaseMessage]]],
    is_known_key: Callable[[str], bool] = bool,
) -> tuple[list[BaseMessage], list[str | None], frozenset[str]]:
    """Return the messages of a record, their keys, and the keys of the copies.

    Args:
        record: The record, or None for no messages.
        load_span: A function that returns the keys and messages of a span.
        is_known_key: A function that returns whether the history has a message with this key. Default: always True.
    """
    entries: list[tuple[str | None, BaseMessage]] = []
    copies: set[str] = set()
    for item in record.items if record else ():
        if isinstance(item, KeySpan):
            entries += load_span(item)
        elif item.id and is_known_key(item.id) and not is_synthetic(item):
            copies.add(item.id)
            entries.append((item.id, item.model_copy()))
        else:
            entries.append((None, item.model_copy()))
    return [message for _, message in entries], [key for key, _ in entries], frozenset(copies)


def count_unanswered(messages: Sequence[BaseMessage]) -> int:
    """Count the messages from the last tool calls on. Return 0 if no result is missing."""
    for index in range(len(messages) - 1, -1, -1):
        if role_of(messages[index]) != "tool":
            call_ids = {call.get("id") for call in calls_of(messages[index])}
            result_ids = {getattr(message, "tool_call_id", None) for message in messages[index + 1 :]}
            return len(messages) - index if call_ids - result_ids else 0
    return 0


def make_record(base: CompactedContext, outcome: PipelineOutcome, *, has_model: bool, saved: int) -> CompactionRecord:
    """Make the record of a compaction.

    Args:
        base: The context before the compaction; all its tool calls have results.
        outcome: The result of the compaction.
        has_model: True if a model was available for the summary.
        saved: The uncalibrated tokens by which the result is shorter than `base`.
    """
    originals = [(message, key) for message, key in zip(base.messages, base.keys, strict=True) if key is not None]
    unchanged = {id(message): key for message, key in originals if key not in base.copies}
    items: list[KeySpan | BaseMessage] = []
    for is_original, group in groupby(outcome.messages, lambda message: id(message) in unchanged):
        messages = [*group]
        if is_original:
            items += make_key_spans([unchanged[id(each)] for each in messages], base.order_numbers)
        else:
            items += messages
    remaining = {unchanged.get(id(message), message.id) for message in outcome.messages}
    parent = base.record
    digest, row_id = base.identify_end()
    return CompactionRecord(
        digest=digest,
        reached=base.length,
        items=tuple(items),
        dropped=tuple(key for message, key in originals if key not in remaining and not has_no_content(message)),
        parent=parent.id if parent else None,
        provisional=outcome.summary.provisional if outcome.summary else bool(parent and parent.provisional),
        tried=has_model,
        slot=row_id,
        saved=saved + (parent.saved if parent else 0),
    )


class ConversationOption(NamedTuple):
    """The settings that select the conversation in which a run's history is recorded.

    Attributes:
        conversation_id: The id of the conversation. Default: the run's, see `conversation_of_run`.
        namespace: The namespace of the conversation. Default: the run's.
        share_conversation: True records a nested graph in the conversation of the calling graph. Default: False.
    """

    conversation_id: str | None = None
    namespace: Sequence[str] | None = None
    share_conversation: bool = False

    def validate(self) -> Self:
        """Validate the settings and return them with a normalized id.

        Raises:
            InvalidInput: The id or namespace is invalid, or both `conversation_id` and `share_conversation` are set.
        """
        name = None if self.conversation_id is None else check_id(self.conversation_id, "conversation")
        if self.namespace is not None:
            path_of(self.namespace)  # raises InvalidInput
        if check_flag("share_conversation", self.share_conversation) and name is not None:
            raise InvalidInput("conversation_id and share_conversation=True exclude each other. Pass only one of them.")
        return self._replace(conversation_id=name)

    def resolve(self, database: Database, config: Mapping[str, Any]) -> ThreadKey | None:
        """Return the conversation of a run; None if its messages are not recorded.

        Args:
            database: The database of the memory.
            config: The run's config.

        Raises:
            InvalidInput: The id or namespace is invalid.
        """
        name = self.conversation_id or conversation_of_run(database, config, of_caller=self.share_conversation)
        return None if name is None else ThreadKey(path_of(database.scopes.resolve(self.namespace, config)), name)


def trace_fields(at: ThreadKey | None) -> dict[str, Any]:
    """Return the id and namespace of a conversation for a trace; empty for None."""
    return {} if at is None else {"conversation_id": at.name, "namespace": list(namespace_of(at.path))}


COMPACT_STEP, RECOVER_STEP = "compaction.compact", "compaction.recover"
"""The names of the traced steps: an ordinary compaction, and one after a provider refused the context."""
NOTHING_DUE, COMPACTED, NOT_SMALLER = ("nothing to do", "compacted", "cannot be made smaller")
"""The values of the output "status" in a trace."""


class CompactionReport:
    """A reporter of one compaction, or of one check without a compaction.

    The reporter emits events to the hooks and the event bus, and adds outputs to a traced step.

    Args:
        database: The database whose hooks are called.
        session: The id of the conversation or thread. The session of the bus takes precedence.
        agent: The agent that uses the context. The agent of the bus takes precedence. Default: none.
        bus: The event bus. Default: none.
    """

    def __init__(self, database: Database, session: str, *, agent: str = "", bus: EventContext | None = None) -> None:
        self._database, self._bus = database, bus
        self._fields: dict[str, Any] = {
            "session_id": (bus and bus.session_id) or session,
            "agent_name": (bus and bus.agent_name) or agent,
        }
        self._started_at = time.perf_counter()
        self._size_before = (0, 0)
        self._outputs: dict[str, Any] = {"status": NOTHING_DUE}
        self._reported_excess = False

    def step(self, name: str, at: ThreadKey | None, trigger: str, **inputs: Any) -> Step:
        """Return the traced step, a context manager. Its outputs are the values passed to `note`.

        Args:
            name: `COMPACT_STEP` or `RECOVER_STEP`.
            at: The key of the conversation that records the history, or None.
            trigger: The event that causes the compaction.
            **inputs: Additional inputs of the step.
        """
        step = self._database.step(name, lambda: {**trace_fields(at), "trigger": trigger, **inputs})
        step.finish(lambda: {name: value for name, value in self._outputs.items() if value is not None})
        return step

    def note(self, **outputs: Any) -> None:
        """Add outputs to the traced step. Outputs that are None are left out of the trace."""
        self._outputs |= outputs

    def note_sizes(self, status: str, before: tuple[int, int], after: tuple[int, int] | None = None) -> None:
        """Add a status, and (tokens, messages) before and after. `after` defaults to `before`."""
        for name, (tokens, messages) in (("before", before), ("after", after or before)):
            self.note(**{"status": status, f"tokens_{name}": tokens, f"messages_{name}": messages})

    @contextmanager
    def compaction(self, tokens: int, messages: int) -> Iterator[None]:
        """Report the compaction in a `with` block.

        `tokens` and `messages` are the numbers before the compaction. An exception in the block is reported as a
        failure, except `GraphBubbleUp`, which interrupts the graph. The resumed graph compacts again.
        """
        self._started_at = time.perf_counter()
        self._size_before = (tokens, messages)
        self._fields |= {"pre_tokens": tokens, "pre_messages": messages}
        self._emit(CompactionEvent(**self._fields, status="started"))
        try:
            yield
        except Exception as error:
            if not is_graph_bubble_up(error):
                self.emit_failed()
            raise

    def emit_completed(
        self,
        outcome: PipelineOutcome,
        target: int | None,
        after: tuple[int, int],
        record: CompactionRecord | None = None,
    ) -> None:
        """Report a completed compaction, with the tokens and number of messages after it."""
        dropped = () if record is None else record.dropped
        stages, failures = list(outcome.stages_run), outcome.failures
        self.note_sizes(COMPACTED, self._size_before, after)
        self.note(
            processors=stages,
            dropped=None if record is None else len(dropped),
            summary_id=next((each.id for each in outcome.messages if summary_in(each) is not None), None),
            summary=None if outcome.summary is None else shorten_text(outcome.summary.summary),
            failures=[{"stage": stage, "error_type": type(error).__name__} for stage, error in failures] or None,
            fell_short=outcome.reason,
        )
        for stage, error in failures:
            self._emit(self._make_end_event("failed", [stage]))
            self._emit(events.CompactionStageFailed(session_id=self._fields["session_id"], stage=stage, error=error))
        fields = {"post_tokens": after[0], "post_messages": after[1], "dropped_ids": dropped}
        self._emit(self._make_end_event("completed", stages, **fields))
        if outcome.reason is not None:
            self.emit_fell_short(after[0], target, outcome.reason)

    def emit_fell_short(self, tokens: int, target: int | None, reason: str) -> None:
        """Report that the context is larger than its target. Only the first call emits an event."""
        if not self._reported_excess:
            self._reported_excess = True
            session = self._fields["session_id"]
            self._emit(CompactionFellShort(session_id=session, tokens=tokens, target_tokens=target, reason=reason))

    def emit_failed(self, stages: Sequence[str] = ()) -> None:
        """Report a failed compaction."""
        self.note_sizes(NOT_SMALLER, self._size_before)
        self.note(processors=list(stages))
        self._emit(self._make_end_event("failed", stages))

    def _make_end_event(self, status: str, stages: Sequence[str], **fields: Any) -> CompactionEvent:
        duration = time.perf_counter() - self._started_at
        return CompactionEvent(**self._fields, **fields, status=status, duration=duration, stages_run=list(stages))

    def _emit(self, event: events.MemoryEvent) -> None:
        self._database.hooks.emit(event)
        if self._bus is not None:
            self._bus.emit(event)
