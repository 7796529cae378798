"""A context: what a model is shown of a history, part of it as it was said, part of it made.

Pure: from a record and a history comes a context, from a compacted context comes a record.

What is known of a history from the turn before, so that a turn costs what is new in it and not what is old.

A history is given anew each turn, longer than before. Its messages are compared with those of the last time, and only
what differs is digested, counted and checked. The digest of a place says everything that was said up to there, so what
was compacted once is found again by it: after a restart, in another process, and on another branch of the thread.

In which conversation a run's history is recorded.

What a compaction tells: to hooks, to the event bus of document 003, to LangGraph's custom stream, and to traces.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import is_
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.events import (
    CompactionEvent,
    CompactionFellShort,
    CompactionStageFailed,
    EventContext,
    MemoryEvent,
)
from langchain_agentmem.base.namespaces import id_of, namespace_of, path_of, resolve
from langchain_agentmem.compaction.compaction_config import Size
from langchain_agentmem.compaction.processors import PipelineOutcome
from langchain_agentmem.conversations.compaction_records import CompactionRecord, KeySpan, spans
from langchain_agentmem.conversations.message_log import Address
from langchain_agentmem.language_models.model_calls import Shown, Work
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import sound_until
from langchain_agentmem.messages.history_shape import calls_of, role_of
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import brief
from langchain_agentmem.tracing.measures import Measures

REMEMBERED = 64
"""Histories of which a ledger remembers the last state."""
CACHE = "messages counted the turn before"
"""What the measures call them."""
RECENT = 256
"""Messages at the end of a history that are looked into although they are the same objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
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

    messages: list[BaseMessage]
    keys: list[str]
    digests: list[bytes]
    tokens: list[int]
    places: dict[str, int]
    sound: int
    contents: list[Any]
    calls: set[Any]
    repeats: bool


_NOTHING = History(
    messages=[], keys=[], digests=[b""], tokens=[0], places={}, sound=0, contents=[], calls=set(), repeats=False
)


class Ledger:
    """Remembers histories between turns. Safe to share between threads.

    Args:
        counter: Counts tokens.
        measures: Is told how many messages were known from the turn before. Default: nobody is.
    """

    def __init__(self, counter: TokenCounter, measures: Measures | None = None) -> None:
        self._counter = counter
        self._measures = measures
        self._lock = concurrency.lock()
        self._known: OrderedDict[Hashable, History] = OrderedDict()

    def follow(self, name: Hashable, messages: Sequence[BaseMessage]) -> History:
        """Find out about a history, going on from what is known of the one of that name.

        Args:
            name: Which history.
            messages: What it is now.
        """
        with self._lock:
            old = self._known.get(name, _NOTHING)
        given = list(messages)
        common = _common(old, given)
        if self._measures is not None:
            self._measures.cache(CACHE, common, len(given) - common)
        new = self._extended(old, given, common)
        with self._lock:
            self._known[name] = new
            self._known.move_to_end(name)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return new

    def forget(self) -> None:
        """Forget every history."""
        with self._lock:
            self._known.clear()

    def _extended(self, old: History, messages: list[BaseMessage], common: int) -> History:
        keys, contents = old.keys[:common], old.contents[:common]
        digests, tokens = old.digests[: common + 1], old.tokens[: common + 1]
        places, calls, repeats = old.places, old.calls, old.repeats
        if common < len(old.messages) or not common:
            places = {key: place for place, key in enumerate(keys)}
            calls = set()
            repeats = sum(_repeats(message, calls) for message in messages[:common]) > 0
        elif common < len(messages):
            places = places.copy()
        for place in range(common, len(messages)):
            message = messages[place]
            digest = blake2b(digests[-1] + _bytes(message), digest_size=20).digest()
            key = message.id if message.id and message.id not in places else f"msg-{digest.hex()}"
            content = message.content
            contents.append(content if type(content) is str else deepcopy(content))
            digests.append(digest)
            tokens.append(tokens[-1] + self._counter.count_message(message))
            keys.append(key)
            places[key] = place
            repeats = _repeats(message, calls) or repeats
        sound = sound_until(messages, min(old.sound, common))
        return History(
            messages=messages,
            keys=keys,
            digests=digests,
            tokens=tokens,
            places=places,
            sound=sound,
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


def _common(old: History, messages: list[BaseMessage]) -> int:
    """How many messages are as they were.

    A message that is the same object as before is only looked into if it is one of the newest: what somebody changes in
    place further back is noticed when the history is next read from where it is kept, and comes as new objects.
    """
    most = min(len(old.messages), len(messages))
    before, given = old.messages[:most], messages[:most]
    same = all(map(is_, before, given))
    since = max(0, most - RECENT) if same else 0
    contents = [message.__dict__["content"] for message in given[since:]]
    if contents == old.contents[since:most] and (
        same or _fields(before) == _fields(given) or _are_alike(before, given)
    ):
        return most
    return next(
        place
        for place in range(since, most)
        if contents[place - since] != old.contents[place]
        or not _are_alike(before[place : place + 1], given[place : place + 1])
    )


def _fields(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    return [message.__dict__ for message in messages]


def _are_alike(some: list[BaseMessage], others: list[BaseMessage]) -> bool:
    """Whether messages say the same beside their contents, as far as a model is told."""
    return list(map(type, some)) == list(map(type, others)) and all(
        [message.__dict__.get(name) for message in some] == [message.__dict__.get(name) for message in others]
        for name in ("id", "name", "tool_calls", "tool_call_id")
    )


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
class Context:
    """What a model is shown. Its lists are not changed; a history's own may be among them.

    Attributes:
        messages: The messages.
        keys: For each of them, which message of the history it is, as it was said; None where it was made.
        record: The compaction that it goes back to, or None.
        grown: How many messages were said since that; all of them where there is none.
    """

    messages: list[BaseMessage]
    keys: list[str | None]
    record: CompactionRecord | None = None
    grown: int = 0

    def without_last(self, count: int) -> Context:
        """The same without so many messages at its end."""
        end = len(self.messages) - count
        return replace(self, messages=self.messages[:end], keys=self.keys[:end]) if count else self


def whole_context(history: History) -> Context:
    """A history that was never compacted, as its own context."""
    return Context(messages=history.messages, keys=[*history.keys], grown=len(history.messages))


def resolved(record: CompactionRecord, history: History) -> Context:
    """The context that a record gives with a history."""
    messages: list[BaseMessage] = []
    keys: list[str | None] = []
    for item in record.items:
        if isinstance(item, KeySpan):
            span = slice(history.places[item.first], history.places[item.last] + 1)
            messages += history.messages[span]
            keys += history.keys[span]
        else:
            messages.append(item.model_copy())
            keys.append(None)
    messages += history.messages[record.reached :]
    keys += history.keys[record.reached :]
    return Context(messages=messages, keys=keys, record=record, grown=len(history.messages) - record.reached)


def originals(context: Context, history: History) -> dict[str, BaseMessage]:
    """What was said, of which a context has shortened copies, by the ids of both."""
    made = (message.id for message, key in zip(context.messages, context.keys, strict=True) if key is None)
    return {key: history.messages[history.places[key]] for key in made if key is not None and key in history.places}


def open_from(messages: Sequence[BaseMessage]) -> int:
    """Where a history's last calls begin whose results have not all come yet; its length where none is open."""
    for place in range(len(messages) - 1, -1, -1):
        if role_of(messages[place]) != "tool":
            wanted = {call.get("id") for call in calls_of(messages[place])}
            given = {getattr(message, "tool_call_id", None) for message in messages[place + 1 :]}
            return place if wanted - given else len(messages)
    return len(messages)


def record_of(
    outcome: PipelineOutcome,
    before: Context,
    *,
    reached: int,
    digest: bytes,
    places: dict[str, int],
    tried: bool,
    slot: int | None = None,
    ahead: bool = False,
    saved: int = 0,
) -> CompactionRecord:
    """What is to be kept of a compaction.

    Args:
        outcome: What it came to.
        before: What it began with.
        reached: How many messages of the history it covers.
        digest: Of all of them.
        places: Where the messages of the history stand, by their keys.
        tried: Whether a model was asked.
        slot: The row of the last message, where the history is a log.
        ahead: Whether it is not to be used yet.
        saved: By how many tokens what it came to is shorter than what it began with, uncalibrated.
    """
    said = [(message, key) for message, key in zip(before.messages, before.keys, strict=True) if key is not None]
    keys = {id(message): key for message, key in said}
    items: list[KeySpan | BaseMessage] = []
    kept: list[str] = []
    for message in outcome.messages:
        key = keys.get(id(message))
        if key is not None:
            kept.append(key)
            continue
        items += spans(kept, places)
        items.append(message)
        kept = []
    items += spans(kept, places)
    there = {keys.get(id(message)) for message in outcome.messages} | {message.id for message in outcome.messages}
    gone = [key for _, key in said if key not in there]
    provisional = outcome.summary.provisional if outcome.summary else bool(before.record and before.record.provisional)
    return CompactionRecord(
        digest=digest,
        reached=reached,
        items=tuple(items),
        dropped=tuple(gone),
        parent=before.record.id if before.record else None,
        provisional=provisional,
        tried=tried,
        slot=slot,
        ahead=ahead,
        saved=saved + (before.record.saved if before.record else 0),
    )


def conversation_of(
    config: Mapping[str, Any], conversation_id: str | None = None, namespace: Sequence[str] | None = None
) -> Address | None:
    """The conversation of a run: that of its thread, unless another is named. None where there is neither.

    Args:
        config: The run's config.
        conversation_id: The one that is named.
        namespace: Whose it is. Default: the run's.

    Raises:
        InvalidInput: An id or namespace cannot be one.
    """
    name = conversation_id if conversation_id is not None else (config.get("configurable") or {}).get("thread_id")
    if name is None:
        return None
    return Address(path_of(resolve(namespace, config)), id_of(name, "conversation"))


def place_of(at: Address | None) -> dict[str, Any]:
    """What a trace shows of where something is recorded; nothing where it is not."""
    return {} if at is None else {"conversation_id": at.name, "namespace": list(namespace_of(at.path))}


COMPACT, RECOVER = "compaction.compact", "compaction.recover"
"""What the steps are called in a trace."""
NOTHING, COMPACTED, READY, NOT_SMALLER = (
    "nothing to do",
    "compacted",
    "used one made ahead",
    "cannot be made smaller",
)
"""What a trace says came of it."""


class Telling:
    """Tells of one compaction, or of the one look that found nothing to compact.

    Args:
        database: Whose hooks are told.
        session_id: The conversation or thread.
        agent_name: Whose context it is.
        bus: The event bus, if there is one.
    """

    def __init__(
        self, database: Database, session_id: str, *, agent_name: str = "", bus: EventContext | None = None
    ) -> None:
        self._database = database
        self._bus = bus
        self._fields: dict[str, Any] = {
            "session_id": (bus.session_id if bus else None) or session_id,
            "agent_name": (bus.agent_name if bus else "") or agent_name,
        }
        self._began = time.perf_counter()
        self._facts: dict[str, Any] = {"status": NOTHING}
        self._came_to: tuple[PipelineOutcome, CompactionRecord | None] | None = None

    def step(self, name: str, work: Work[Any], at: Address | None, trigger: str, **inputs: Any) -> Shown:
        """The work that this tells of, as a trace shows it.

        Args:
            name: `COMPACT` or `RECOVER`.
            work: The work.
            at: Where the history is recorded, if it is.
            trigger: Why it is done.
            **inputs: What else is known before.
        """
        return Shown(
            name,
            work,
            inputs=lambda: {**place_of(at), "trigger": trigger, **inputs},
            outputs=lambda _: self.told(),
        )

    def note(self, **facts: Any) -> None:
        """Something that is for traces alone."""
        self._facts |= facts

    def unchanged(self, tokens: int, messages: int) -> None:
        """There was nothing to do: this is what the context costs, and how many messages it has."""
        self.changed(NOTHING, (tokens, tokens), (messages, messages))

    def changed(self, status: str, tokens: tuple[int, int], messages: tuple[int, int]) -> None:
        """What came of it, with tokens and messages before and after."""
        self.note(
            status=status,
            tokens_before=tokens[0],
            tokens_after=tokens[1],
            messages_before=messages[0],
            messages_after=messages[1],
        )

    def told(self) -> dict[str, Any]:
        """What a trace shows of it."""
        if self._came_to is None:
            return dict(self._facts)
        outcome, record = self._came_to
        summaries = [message.id for message in outcome.messages if summary_in(message) is not None]
        details = {
            "dropped": None if record is None else len(record.dropped),
            "summary_id": next(iter(summaries), None),
            "summary": None if outcome.summary is None else brief(outcome.summary.summary),
            "failures": [{"stage": each.stage, "error_type": type(each.error).__name__} for each in outcome.failures],
            "fell_short": outcome.reason,
        }
        return self._facts | {name: value for name, value in details.items() if value not in (None, [])}

    def started(self, tokens: int, messages: int) -> None:
        """A context of so many tokens and messages is about to be compacted."""
        self._began = time.perf_counter()
        self._fields |= {"pre_tokens": tokens, "pre_messages": messages}
        self._tell(CompactionEvent(**self._fields, status="started"))

    def completed(
        self,
        outcome: PipelineOutcome,
        target: Size,
        *,
        tokens: int,
        messages: int,
        record: CompactionRecord | None = None,
    ) -> None:
        """It is done: these are the tokens and messages that are left, and this is what is kept of it."""
        before = self._fields["pre_tokens"], self._fields["pre_messages"]
        self.changed(COMPACTED, (before[0], tokens), (before[1], messages))
        self.note(processors=list(outcome.stages_run))
        self._came_to = outcome, record
        for failure in outcome.failures:
            self._tell(self._failed([failure.stage]))
            session = self._fields["session_id"]
            self._tell(CompactionStageFailed(session_id=session, stage=failure.stage, error=failure.error))
        self._tell(
            CompactionEvent(
                **self._fields,
                status="completed",
                post_tokens=tokens,
                post_messages=messages,
                duration=time.perf_counter() - self._began,
                stages_run=list(outcome.stages_run),
            )
        )
        if outcome.reason is not None:
            session = self._fields["session_id"]
            self._tell(
                CompactionFellShort(
                    session_id=session, tokens=tokens, target_tokens=target.tokens, reason=outcome.reason
                )
            )

    def failed(self, stages: Sequence[str] = ()) -> None:
        """It was given up."""
        tokens, messages = self._fields["pre_tokens"], self._fields["pre_messages"]
        self.changed(NOT_SMALLER, (tokens, tokens), (messages, messages))
        self.note(processors=list(stages))
        self._tell(self._failed(stages))

    def _failed(self, stages: Sequence[str]) -> CompactionEvent:
        duration = time.perf_counter() - self._began
        return CompactionEvent(**self._fields, status="failed", duration=duration, stages_run=list(stages))

    def _tell(self, event: MemoryEvent) -> None:
        self._database.hooks.emit(event)
        if self._bus is not None:
            self._bus.emit(event)
        if (write := _stream_writer()) is not None:
            with self._database.tracing.unharmed("writing to the custom stream"):
                write({"event": type(event).__name__} | self._plain(event))

    def _plain(self, event: MemoryEvent) -> dict[str, Any]:
        fields = {each.name: getattr(event, each.name) for each in dataclasses.fields(event)}
        return {
            name: self._error(value) if isinstance(value, BaseException) else value for name, value in fields.items()
        }

    def _error(self, error: BaseException) -> str:
        shown = self._database.tracing.shown_error(error)
        return repr(error) if shown is error else str(shown)


def _stream_writer() -> Any:
    """LangGraph's writer to the custom stream, where this runs in one of its nodes."""
    configs = sys.modules.get("langgraph.config")
    if configs is None:
        return None
    try:
        return configs.get_stream_writer()
    except (RuntimeError, KeyError):
        return None
