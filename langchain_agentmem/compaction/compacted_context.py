"""Compacted contexts: the messages that a model receives for a history, some original and some generated.

The functions are pure: a record and a history make a context, and a compacted context makes a record.

`followed` reuses the analysis of the previous turn, so that a turn costs only its new messages. Each turn passes the
whole history again. Its messages are compared with those of the last turn, and only messages that differ are digested,
counted and checked. The digest of a place covers every message up to that place. So a compaction is found again by its
digest: after a restart, in another process, and on another branch of the thread.

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

from langchain_agentmem.base.argument_checks import check_flag
from langchain_agentmem.base.events import (
    CompactionEvent,
    CompactionFellShort,
    CompactionStageFailed,
    EventContext,
    MemoryEvent,
)
from langchain_agentmem.base.namespaces import ThreadKey, id_of, namespace_of, path_of
from langchain_agentmem.compaction.processors import PipelineOutcome
from langchain_agentmem.conversations.compaction_records import LOG, STATE, CompactionRecord, KeySpan, spans
from langchain_agentmem.errors import InvalidInput, leaves_the_node
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import calls_of, role_of, says_nothing, sound_until
from langchain_agentmem.messages.message_marks import is_filler, summary_in
from langchain_agentmem.rewinding.thread_memory import conversation_of_run
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import Step, brief


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHistory:
    """An analyzed history: its messages with their keys, digests and token counts.

    Attributes:
        messages: The history.
        keys: The key of each message: its id, or a name derived from all messages up to it.
        digests: The digests of the history up to each message; the first one is of the empty history.
        tokens: The uncalibrated tokens of the history up to each message; the first one is 0.
        places: The place of each message, by its key.
        sound: The number of messages at the beginning that need no repair.
        contents: The content of each message, for comparison.
        calls: The ids of its calls, and possibly of calls made later.
        repeats: True if two calls have the same id. False positives are possible, false negatives are not.
    """

    messages: list[BaseMessage] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=lambda: [b""])
    tokens: list[int] = field(default_factory=lambda: [0])
    places: dict[str, int] = field(default_factory=dict)
    sound: int = 0
    contents: list[Any] = field(default_factory=list)
    calls: set[Any] = field(default_factory=set)
    repeats: bool = False

    def originals(self, keys: Iterable[str]) -> dict[str, BaseMessage]:
        """Return the messages with these keys, by key."""
        return {key: self.messages[self.places[key]] for key in keys}


def followed(old: MessageHistory, given: Sequence[BaseMessage], counter: TokenCounter) -> MessageHistory:
    """Analyze a history, reusing the analysis of the previous turn.

    Args:
        old: The history of the previous turn.
        given: The messages of the history now.
        counter: Counts tokens.
    """
    messages = list(given)
    common = _common(old, messages)
    keys, contents = old.keys[:common], old.contents[:common]
    digests, tokens = old.digests[: common + 1], old.tokens[: common + 1]
    places, calls, repeats = old.places, old.calls, old.repeats
    if common < len(old.messages):
        places, calls = {key: place for place, key in enumerate(keys)}, set()
        repeats = sum(_repeats(message, calls) for message in messages[:common]) > 0
    elif common < len(messages):
        places = places.copy()
    for place, message in enumerate(messages[common:], common):
        digest = blake2b(digests[-1] + _bytes(message), digest_size=20).digest()
        key = message.id if message.id and message.id not in places else f"msg-{digest.hex()}"
        content = message.content
        contents.append(content if type(content) is str else deepcopy(content))
        digests.append(digest)
        tokens.append(tokens[-1] + counter.count_message(message))
        keys.append(key)
        places[key] = place
        repeats = _repeats(message, calls) or repeats
    sound = old.sound
    if common < sound:  # no call is open after a user message
        sound = next((place for place in range(common, 0, -1) if role_of(messages[place - 1]) == "user"), 0)
    return MessageHistory(
        messages=messages,
        keys=keys,
        digests=digests,
        tokens=tokens,
        places=places,
        sound=sound_until(messages, sound),
        contents=contents,
        calls=calls,
        repeats=repeats,
    )


def _repeats(message: BaseMessage, calls: set[Any]) -> bool:
    """Return whether a message repeats one of these call ids, and add its own ids to them."""
    own = [call.get("id") for call in calls_of(message)]
    repeats = not calls.isdisjoint(own)
    calls.update(own)
    return repeats


def _common(old: MessageHistory, messages: list[BaseMessage]) -> int:
    """Return how many messages at the beginning are unchanged for a model."""
    most = min(len(old.messages), len(messages))
    fields = [[message.__dict__ for message in some[:most]] for some in (old.messages, messages)]
    contents = [each["content"] for each in fields[1]]
    if fields[0] == fields[1] and contents == old.contents[:most]:
        return most  # in one comparison, which is fast
    for place, content in enumerate(contents):
        if content != old.contents[place] or not _is_alike(old.messages[place], messages[place]):
            return place
    return most


def _is_alike(before: BaseMessage, given: BaseMessage) -> bool:
    """Return whether two messages are the same to a model, apart from their contents."""
    names = ("id", "name", "tool_calls", "tool_call_id")
    return type(before) is type(given) and all(before.__dict__.get(name) == given.__dict__.get(name) for name in names)


def _bytes(message: BaseMessage) -> bytes:
    said = [
        message.type,
        message.id,
        message.name,
        message.content,
        getattr(message, "tool_call_id", None),
        [(call.get("id"), call.get("name"), call.get("args")) for call in getattr(message, "tool_calls", ())],
    ]
    return json.dumps(said, default=repr).encode()


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactedContext:
    """The messages that a model receives for a history.

    Its lists are never modified, since a history may share them.

    Attributes:
        messages: The messages.
        keys: For each message, the key of the original or copied message of the history; None for a generated one.
        copies: The keys of messages that are copies: shortened, or altered in another way.
        record: The compaction that the context is based on, or None.
        grown: The number of messages since that compaction; all messages if there is none.
        tokens: The tokens of the context, uncalibrated.
        grown_tokens: The tokens of the messages since the compaction.
        at: The conversation in which the history is recorded, or None.
        length: The number of messages in the history.
        places: The places of messages in the history, by their keys; neighbours have neighbouring places.
        digests: For a graph's history, the digests up to each message; the first one is of the empty history.
        branch: For a conversation's log, its row and its creation time.
        head: For a log, the newest place of the conversation.
        slot: For a log, the row that was written last.
        slots: For a log, the rows of its messages, by their keys.
    """

    messages: list[BaseMessage] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    copies: frozenset[str] = frozenset()
    record: CompactionRecord | None = None
    grown: int = 0
    tokens: int = 0
    grown_tokens: int = 0
    at: ThreadKey | None = None
    length: int = 0
    places: dict[str, int] = field(default_factory=dict)
    digests: Sequence[bytes] = (b"",)
    branch: tuple[int, int] | None = None
    head: int = 0
    slot: int = 0
    slots: dict[str, int] = field(default_factory=dict)

    @property
    def lane(self) -> str:
        """The source of the context: `STATE` for a graph's state, `LOG` for a conversation's log."""
        return STATE if self.branch is None else LOG

    def end(self) -> tuple[bytes, int | None]:
        """Return the digest of the whole history, and for a log the row of its last message."""
        if self.branch is None:
            return self.digests[self.length], None
        before = self.record.slot if self.record else None
        slot = max(before or 0, next((self.slots[key] for key in reversed(self.keys) if key in self.slots), 0))
        return blake2b(f"{slot}".encode(), digest_size=20).digest(), slot


def resolved(
    record: CompactionRecord | None, history: MessageHistory, counter: TokenCounter, at: ThreadKey | None = None
) -> CompactedContext:
    """Apply a record to a history and return the context; the history itself for None."""

    def span_of(item: KeySpan) -> Iterable[tuple[str, BaseMessage]]:
        span = slice(history.places[item.first], history.places[item.last] + 1)
        return zip(history.keys[span], history.messages[span], strict=True)

    messages, keys, copies = expanded(record, span_of, history.places.__contains__)
    reached = record.reached if record else 0
    grown = history.tokens[-1] - history.tokens[reached]
    return CompactedContext(
        messages=[*messages, *history.messages[reached:]],
        keys=[*keys, *history.keys[reached:]],
        copies=copies,
        record=record,
        grown=len(history.messages) - reached,
        tokens=sum(map(counter.count_message, messages)) + grown,
        grown_tokens=grown,
        at=at,
        length=len(history.messages),
        places=history.places,
        digests=history.digests,
    )


def expanded(
    record: CompactionRecord | None,
    span_of: Callable[[KeySpan], Iterable[tuple[str, BaseMessage]]],
    is_key: Callable[[str], bool] = bool,
) -> tuple[list[BaseMessage], list[str | None], frozenset[str]]:
    """Return the messages of a record, their keys, and the keys of the copies.

    Args:
        record: The record. None results in no messages.
        span_of: Returns the messages of a span, by their keys.
        is_key: Returns whether the history has a key. Default: every key except "".
    """
    found: list[tuple[str | None, BaseMessage]] = []
    copies: set[str] = set()
    for item in record.items if record else ():
        if isinstance(item, KeySpan):
            found += span_of(item)
        elif item.id and is_key(item.id) and not is_filler(item):
            copies.add(item.id)
            found.append((item.id, item.model_copy()))
        else:
            found.append((None, item.model_copy()))
    return [message for _, message in found], [key for key, _ in found], frozenset(copies)


def count_open(messages: Sequence[BaseMessage]) -> int:
    """Count the messages from the last calls on, if some of their results are missing; else 0."""
    for place in range(len(messages) - 1, -1, -1):
        if role_of(messages[place]) != "tool":
            wanted = {call.get("id") for call in calls_of(messages[place])}
            given = {getattr(message, "tool_call_id", None) for message in messages[place + 1 :]}
            return len(messages) - place if wanted - given else 0
    return 0


def record_of(before: CompactedContext, outcome: PipelineOutcome, *, tried: bool, saved: int = 0) -> CompactionRecord:
    """Make the record of a compaction.

    Args:
        before: The context before the compaction; all its calls are answered.
        outcome: The result.
        tried: Whether a model was available.
        saved: The uncalibrated tokens by which the result is shorter than `before`.
    """
    said = [(message, key) for message, key in zip(before.messages, before.keys, strict=True) if key is not None]
    whole = {id(message): key for message, key in said if key not in before.copies}
    items: list[KeySpan | BaseMessage] = []
    for is_whole, group in groupby(outcome.messages, lambda message: id(message) in whole):
        messages = [*group]
        items += spans([whole[id(each)] for each in messages], before.places) if is_whole else messages
    there = {whole.get(id(message), message.id) for message in outcome.messages}
    earlier = before.record
    digest, slot = before.end()
    return CompactionRecord(
        digest=digest,
        reached=before.length,
        items=tuple(items),
        dropped=tuple(key for message, key in said if key not in there and not says_nothing(message)),
        parent=earlier.id if earlier else None,
        provisional=outcome.summary.provisional if outcome.summary else bool(earlier and earlier.provisional),
        tried=tried,
        slot=slot,
        saved=saved + (earlier.saved if earlier else 0),
    )


class ConversationOption(NamedTuple):
    """The settings that select the conversation in which a run's history is recorded.

    Attributes:
        conversation_id: Its id. Default: the run's, see `conversation_of_run`.
        namespace: Its namespace. Default: the run's.
        shared: True records a nested graph in its caller's conversation. Default: False.
    """

    conversation_id: str | None = None
    namespace: Sequence[str] | None = None
    shared: bool = False

    def checked(self) -> Self:
        """Validate the settings and return them with a normalized id.

        Raises:
            InvalidInput: The id or namespace is invalid, or a conversation is both named and shared.
        """
        name = None if self.conversation_id is None else id_of(self.conversation_id, "conversation")
        if self.namespace is not None:
            path_of(self.namespace)
        if check_flag("share_conversation", self.shared) and name is not None:
            raise InvalidInput("Give conversation_id or share_conversation=True, not both.")
        return self._replace(conversation_id=name)

    def of(self, database: Database, config: Mapping[str, Any]) -> ThreadKey | None:
        """Return the conversation of a run; None if its messages are not recorded.

        Args:
            database: The database of the memory.
            config: The run's config.

        Raises:
            InvalidInput: The id or namespace is invalid.
        """
        name = self.conversation_id or conversation_of_run(database, config, shared=self.shared)
        return None if name is None else ThreadKey(path_of(database.scopes.resolve(self.namespace, config)), name)


def place_of(at: ThreadKey | None) -> dict[str, Any]:
    """Return the id and namespace of a conversation for a trace; empty for None."""
    return {} if at is None else {"conversation_id": at.name, "namespace": list(namespace_of(at.path))}


COMPACT, RECOVER = "compaction.compact", "compaction.recover"
"""The names of the steps in a trace."""
NOTHING, COMPACTED, NOT_SMALLER = ("nothing to do", "compacted", "cannot be made smaller")
"""The outcomes in a trace."""


class CompactionReport:
    """A reporter of one compaction, or of one check, to hooks, event bus and traces.

    Args:
        database: The database whose hooks are called.
        session_id: The conversation or thread.
        agent_name: The agent that uses the context.
        bus: The event bus, if there is one.
    """

    def __init__(
        self, database: Database, session_id: str, *, agent_name: str = "", bus: EventContext | None = None
    ) -> None:
        self._database, self._bus = database, bus
        self._fields: dict[str, Any] = {
            "session_id": (bus.session_id if bus else None) or session_id,
            "agent_name": (bus.agent_name if bus else "") or agent_name,
        }
        self._began = time.perf_counter()
        self._before = (0, 0)
        self._facts: dict[str, Any] = {"status": NOTHING}
        self._fell_short = False

    def step(self, name: str, at: ThreadKey | None, trigger: str, **inputs: Any) -> Step:
        """Open the traced step of the compaction, for `with`. Its outputs are the noted facts.

        Args:
            name: `COMPACT` or `RECOVER`.
            at: The conversation in which the history is recorded, or None.
            trigger: The event that causes the compaction.
            **inputs: Further inputs of the step.
        """
        step = self._database.step(name, lambda: {**place_of(at), "trigger": trigger, **inputs})
        step.finish(lambda: {name: value for name, value in self._facts.items() if value is not None})
        return step

    def note(self, **facts: Any) -> None:
        """Add facts for traces only. None values are left out."""
        self._facts |= facts

    def sized(self, status: str, before: tuple[int, int], after: tuple[int, int] | None = None) -> None:
        """Note the outcome, with tokens and messages before and after. Default `after`: `before`."""
        for name, (tokens, messages) in (("before", before), ("after", after or before)):
            self.note(**{"status": status, f"tokens_{name}": tokens, f"messages_{name}": messages})

    @contextmanager
    def compacting(self, tokens: int, messages: int) -> Iterator[None]:
        """Report the compaction in the block, of a context with so many tokens and messages.

        An exception in the block is a failure, except `GraphBubbleUp`: a model interrupts the graph, and the resumed
        graph repeats the compaction.
        """
        self._began = time.perf_counter()
        self._before = (tokens, messages)
        self._fields |= {"pre_tokens": tokens, "pre_messages": messages}
        self._emit(CompactionEvent(**self._fields, status="started"))
        try:
            yield
        except Exception as error:
            if not leaves_the_node(error):
                self.failed()
            raise

    def completed(
        self,
        outcome: PipelineOutcome,
        target: int | None,
        *,
        tokens: int,
        messages: int,
        record: CompactionRecord | None = None,
    ) -> None:
        """Report a completed compaction, with tokens and messages of the new context."""
        stages, failures = list(outcome.stages_run), outcome.failures
        self.sized(COMPACTED, self._before, (tokens, messages))
        self.note(
            processors=stages,
            dropped=None if record is None else len(record.dropped),
            summary_id=next((each.id for each in outcome.messages if summary_in(each) is not None), None),
            summary=None if outcome.summary is None else brief(outcome.summary.summary),
            failures=[{"stage": stage, "error_type": type(error).__name__} for stage, error in failures] or None,
            fell_short=outcome.reason,
        )
        session = self._fields["session_id"]
        for stage, error in failures:
            self._emit(self._ended("failed", [stage]))
            self._emit(CompactionStageFailed(session_id=session, stage=stage, error=error))
        dropped = () if record is None else record.dropped
        self._emit(self._ended("completed", stages, post_tokens=tokens, post_messages=messages, dropped_ids=dropped))
        if outcome.reason is not None:
            self.fell_short(tokens, target, outcome.reason)

    def fell_short(self, tokens: int, target: int | None, reason: str) -> None:
        """Report that the context is larger than it should be. Only the first call emits an event."""
        if not self._fell_short:
            self._fell_short = True
            session = self._fields["session_id"]
            self._emit(CompactionFellShort(session_id=session, tokens=tokens, target_tokens=target, reason=reason))

    def failed(self, stages: Sequence[str] = ()) -> None:
        """Report a failed compaction."""
        self.sized(NOT_SMALLER, self._before)
        self.note(processors=list(stages))
        self._emit(self._ended("failed", stages))

    def _ended(self, status: str, stages: Sequence[str], **fields: Any) -> CompactionEvent:
        duration = time.perf_counter() - self._began
        return CompactionEvent(**self._fields, **fields, status=status, duration=duration, stages_run=list(stages))

    def _emit(self, event: MemoryEvent) -> None:
        self._database.hooks.emit(event)
        if self._bus is not None:
            self._bus.emit(event)
