"""A context: what a model is shown of a history, part of it as it was said, part of it made.

Pure: from a record and a history comes a context, from a compacted context comes a record.

`followed` knows a history from the turn before, so that a turn costs what is new in it. A history is given anew each
turn, longer than before: its messages are compared with those of the last time, and only what differs is digested,
counted and checked. The digest of a place says everything that was said up to there, so what was compacted once is
found again by it: after a restart, in another process, and on another branch of the thread.

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
    """A history with what is known of it. Lists are as long as it is, or longer by what they begin with.

    Attributes:
        messages: The history.
        keys: What each message is called: its id, or a name made of all that was said up to it.
        digests: Of everything up to a message; the first one is that of nothing.
        tokens: What everything up to a message costs, uncalibrated; the first one is 0.
        places: Where a message stands, by its key.
        sound: Up to where it needs no repair.
        contents: The content of each message, to compare with.
        calls: The ids of its calls, and maybe of what was said later.
        repeats: Whether two calls bear one id. It may be said without need, and never be missing.
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
        """Return some of its messages, by their keys."""
        return {key: self.messages[self.places[key]] for key in keys}


def followed(old: MessageHistory, given: Sequence[BaseMessage], counter: TokenCounter) -> MessageHistory:
    """Find out about a history, going on from what is known of it.

    Args:
        old: What it was the turn before.
        given: What it is now.
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
    if common < sound:  # behind what a user said no call is open
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
    """Whether a message makes a call whose id is among those; its own are, from then on."""
    own = [call.get("id") for call in calls_of(message)]
    repeats = not calls.isdisjoint(own)
    calls.update(own)
    return repeats


def _common(old: MessageHistory, messages: list[BaseMessage]) -> int:
    """Return how many messages at the beginning are as they were: in content, and in all else that a model is told."""
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
    """What a model is shown of a history. Its lists are not changed; a history's own may be among them.

    Attributes:
        messages: The messages.
        keys: For each of them, which message of the history it is, as it was said or as a copy; None where it was made.
        copies: The keys of those that are copies: shortened, or altered in another way.
        record: The compaction that it goes back to, or None.
        grown: How many messages were said since that; all of them where there is none.
        tokens: What it costs, uncalibrated.
        grown_tokens: What of that was said since its record.
        at: The conversation in which the history is recorded, or None.
        length: How many messages the history has.
        places: Where messages of the history stand, by their keys; those of neighbours are neighbours.
        digests: Of everything up to a message of a graph's history; the first one is that of nothing.
        branch: Of a conversation's log: its row, and when it was made.
        head: Of a log: the newest place of the conversation.
        slot: Of a log: the row that was written into it last.
        slots: Of a log: the rows of its messages, by their keys.
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
        """Whose context: that of a graph's state, or that of the log."""
        return STATE if self.branch is None else LOG

    def end(self) -> tuple[bytes, int | None]:
        """Return the digest of everything up to its end, and in a log the row of the last message."""
        if self.branch is None:
            return self.digests[self.length], None
        before = self.record.slot if self.record else None
        slot = max(before or 0, next((self.slots[key] for key in reversed(self.keys) if key in self.slots), 0))
        return blake2b(f"{slot}".encode(), digest_size=20).digest(), slot


def resolved(
    record: CompactionRecord | None, history: MessageHistory, counter: TokenCounter, at: ThreadKey | None = None
) -> CompactedContext:
    """Return the context that a record gives with a history; the history itself for None."""

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
    """Return the messages that a record stands for, their keys, and the keys of copies among them.

    Args:
        record: The record; nothing for None.
        span_of: Returns the messages of a span, by their keys.
        is_key: Returns whether a key is one of the history. Default: any is.
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
    """How many messages a history ends with from its last calls on, where not all of their results have come yet."""
    for place in range(len(messages) - 1, -1, -1):
        if role_of(messages[place]) != "tool":
            wanted = {call.get("id") for call in calls_of(messages[place])}
            given = {getattr(message, "tool_call_id", None) for message in messages[place + 1 :]}
            return len(messages) - place if wanted - given else 0
    return 0


def record_of(before: CompactedContext, outcome: PipelineOutcome, *, tried: bool, saved: int = 0) -> CompactionRecord:
    """What is to be kept of a compaction.

    Args:
        before: What it began with; all its calls are answered.
        outcome: What it came to.
        tried: Whether a model was asked.
        saved: By how many tokens what it came to is shorter than what it began with, uncalibrated.
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
    """The conversation in which the history of a run is recorded, as far as it is not left to the run.

    Attributes:
        conversation_id: Its id. Default: that of the run, see `conversation_of_run`.
        namespace: Its namespace. Default: that of the run.
        shared: Whether a nested graph belongs to its caller's conversation. Default False.
    """

    conversation_id: str | None = None
    namespace: Sequence[str] | None = None
    shared: bool = False

    def checked(self) -> Self:
        """Return it, or raise where it can be no conversation.

        Raises:
            InvalidInput: An id or namespace cannot be one, or a conversation is both named and shared.
        """
        name = None if self.conversation_id is None else id_of(self.conversation_id, "conversation")
        if self.namespace is not None:
            path_of(self.namespace)
        if check_flag("share_conversation", self.shared) and name is not None:
            raise InvalidInput("Give conversation_id or share_conversation=True, not both.")
        return self._replace(conversation_id=name)

    def of(self, database: Database, config: Mapping[str, Any]) -> ThreadKey | None:
        """Return the conversation of a run; None where its messages are not recorded.

        Args:
            database: The database of the memory.
            config: The run's config.

        Raises:
            InvalidInput: An id or namespace cannot be one.
        """
        name = self.conversation_id or conversation_of_run(database, config, shared=self.shared)
        return None if name is None else ThreadKey(path_of(database.scopes.resolve(self.namespace, config)), name)


def place_of(at: ThreadKey | None) -> dict[str, Any]:
    """What a trace shows of where something is recorded; nothing where it is not."""
    return {} if at is None else {"conversation_id": at.name, "namespace": list(namespace_of(at.path))}


COMPACT, RECOVER = "compaction.compact", "compaction.recover"
"""What the steps are called in a trace."""
NOTHING, COMPACTED, NOT_SMALLER = ("nothing to do", "compacted", "cannot be made smaller")
"""What a trace says came of it."""


class CompactionReport:
    """Reports one compaction, or one look that found nothing to compact, to hooks, event bus and traces.

    Args:
        database: Whose hooks are called.
        session_id: The conversation or thread.
        agent_name: Whose context it is.
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
        """Open the traced step of the compaction, for `with`. Its outputs are what was noted until it ends.

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
        """Add something for traces alone; None is not shown."""
        self._facts |= facts

    def sized(self, status: str, before: tuple[int, int], after: tuple[int, int] | None = None) -> None:
        """Note what came of it, with tokens and messages before and after; the same where nothing changed."""
        for name, (tokens, messages) in (("before", before), ("after", after or before)):
            self.note(**{"status": status, f"tokens_{name}": tokens, f"messages_{name}": messages})

    @contextmanager
    def compacting(self, tokens: int, messages: int) -> Iterator[None]:
        """Report the compaction of a context of so many tokens and messages; an exception in the block is a failure.

        `GraphBubbleUp` is none: a model interrupts the graph, and the compaction is repeated when the graph goes on.
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
        """It is done: these are the tokens and messages that are left, and this is what is kept of it."""
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
        """The context is larger than it should be, for this reason; of one look that is told once."""
        if not self._fell_short:
            self._fell_short = True
            session = self._fields["session_id"]
            self._emit(CompactionFellShort(session_id=session, tokens=tokens, target_tokens=target, reason=reason))

    def failed(self, stages: Sequence[str] = ()) -> None:
        """It was given up."""
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
