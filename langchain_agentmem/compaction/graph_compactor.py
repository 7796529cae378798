"""Keeps the context of graphs in its budget: what was compacted is remembered, and used again as long as it is true.

Each turn the whole history comes in. What is new of it is recorded in the conversation of the thread; the newest
compaction that is of this very history is looked up by its digest, and with the messages since makes the context. Only
a context that has outgrown its threshold is compacted again, and what comes of it is kept before it is used. So nothing
is lost where anything stops in between, and a history that did not change never costs a second call.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage

from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.compaction.compacted_context import (
    COMPACT,
    READY,
    Context,
    History,
    Ledger,
    Telling,
    open_from,
    originals,
    place_of,
    record_of,
    resolved,
    whole_context,
)
from langchain_agentmem.compaction.compaction_config import (
    ManagedMemoryConfig,
    Situation,
    Size,
    early,
    input_tokens_of,
    is_within,
    limit_of,
    target_of,
    usable_share,
    window_of,
)
from langchain_agentmem.compaction.processors import PipelineOutcome, compacting
from langchain_agentmem.conversations import compaction_records, message_log
from langchain_agentmem.conversations.compaction_records import CompactionRecord, Header
from langchain_agentmem.conversations.log_entries import MOST_TRACED, entry_of
from langchain_agentmem.errors import StorageError
from langchain_agentmem.language_models.model_calls import Ahead, Run, Shown, Work
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import repaired, sound_until, with_distinct_calls
from langchain_agentmem.messages.history_shape import count_rounds, droppable, role_of, shape_of
from langchain_agentmem.messages.message_marks import is_filler, is_made
from langchain_agentmem.storage import Operation, Steps
from langchain_agentmem.storage.database import Database

logger = logging.getLogger(__name__)

REMEMBERED = 256
"""Records that are kept in memory."""
CACHE = "compactions"
"""What the measures call them."""
BATCH = 500
"""Messages that are recorded in one transaction."""
_BELOW = 0.9  # of what a provider refused


class ContextView(NamedTuple):
    """What a model is to be shown.

    Attributes:
        messages: The context, valid for every provider.
        tokens: What it costs, in tokens.
        compacted: Whether it was compacted just now.
        record: The compaction that it goes back to, or None.
    """

    messages: list[BaseMessage]
    tokens: int
    compacted: bool = False
    record: CompactionRecord | None = None


class CompactedHistory(NamedTuple):
    """Which history a compaction is of, and how far it goes.

    Attributes:
        at: The conversation in which it is recorded, or None.
        lane: Whose context: that of a graph's state, or that of the log.
        reached: How many messages it covers: all whose calls are answered.
        digest: Of everything up to there.
        places: Where the messages of the history stand, by their keys.
        later: How many messages come after that.
        aside: What those cost, in tokens.
        slot: The row of the last message that is covered, in a log.
        originals: By their ids, messages as they were said, of which the context has shortened copies.
    """

    at: message_log.Address | None
    lane: str
    reached: int
    digest: bytes
    places: dict[str, int]
    later: int = 0
    aside: int = 0
    slot: int | None = None
    originals: Mapping[str, BaseMessage] = MappingProxyType({})


class _Recorded(NamedTuple):
    """What was recorded last of a conversation.

    Attributes:
        conversation: Which one, see `records.identity`; None where this was the first of it.
        history: All that is recorded.
    """

    conversation: tuple[int, int] | None
    history: History


class Made(NamedTuple):
    """What a compaction gave: what is kept of it, and what it came to."""

    record: CompactionRecord
    outcome: PipelineOutcome


class Compactor:
    """Gives the context of histories, within a budget.

    Args:
        database: Where histories are recorded and compactions are kept.
        config: The budget, and what is done to keep it.
        model: What summarizes, see `usable_model`; None for a summary without a model.
        window: The tokens that the model of the agent takes. Default: those of `model`, if it tells.
        agent_name: Whose context it is, for events.
        background: Whether compactions are made ahead of need. Default False.

    Raises:
        InvalidInput: The configuration needs a window that nobody knows.
    """

    def __init__(
        self,
        database: Database,
        config: ManagedMemoryConfig,
        model: Any = None,
        *,
        window: int | None = None,
        agent_name: str = "",
        background: bool = False,
    ) -> None:
        self.database = database
        self.ahead = Ahead() if background else None
        self.config = config
        self.model = model
        self.limit = limit_of(config, window or window_of(model))
        self.target = target_of(config, self.limit)
        given = config.token_counter
        self.counter = (
            given if isinstance(given, TokenCounter) else TokenCounter(given, image_tokens=config.image_token_estimate)
        )
        self._agent_name = agent_name
        self._ledger = Ledger(self.counter, database.measures)
        self._records: OrderedDict[tuple[Any, int], CompactionRecord] = OrderedDict()
        self._loose: OrderedDict[bytes, CompactionRecord] = OrderedDict()
        self._recorded: OrderedDict[message_log.Address, _Recorded] = OrderedDict()
        database.remembering.add(self)

    def viewing(
        self, messages: Sequence[BaseMessage], at: message_log.Address | None, *, overhead: int = 0
    ) -> Work[ContextView]:
        """What a model is to be shown of a history now.

        Args:
            messages: The whole history. It is not changed.
            at: The conversation in which it is recorded. None for a history that nobody keeps: then nothing is
                recorded, and compactions are remembered by this object alone.
            overhead: Tokens that are sent beside the messages.
        """
        telling = self._telling(at)
        work = self._viewing(messages, at, overhead, telling)
        view: ContextView = yield telling.step(COMPACT, work, at, "turn", messages=len(messages), **self._bounds())
        return view

    def _viewing(
        self, messages: Sequence[BaseMessage], at: message_log.Address | None, overhead: int, telling: Telling
    ) -> Work[ContextView]:
        history, known, context = yield from self._found(messages, at)
        self._learn(history, context, overhead)
        tokens = self._tokens(context, history, overhead)
        telling.unchanged(tokens, len(context.messages))
        grown = history.tokens[-1] - history.tokens[len(history.messages) - context.grown]
        if not self.is_due(context, tokens, grown, self.model):
            self._notice(history, at, known, context, tokens, overhead)
            return self._view(context, history, tokens, overhead)
        if (ready := (yield from self._ready(history, at, known, context))) is not None:
            before, tokens = tokens, self._tokens(ready, history, overhead)
            if self._is_within(self.limit, ready, tokens):
                telling.changed(READY, (before, tokens), (len(context.messages), len(ready.messages)))
                return self._view(ready, history, tokens, overhead)._replace(compacted=True)
        base = yield from self._base(history, at, context)
        situation = self.situation(overhead=overhead)
        made = yield from self.compacted(_subject(history, at, base), base, situation, telling, tokens=tokens)
        context = resolved(made.record, history)
        tokens = self._tokens(context, history, overhead)
        return self._view(context, history, tokens, overhead)._replace(compacted=True)

    def current(
        self, messages: Sequence[BaseMessage], at: message_log.Address | None
    ) -> Work[tuple[CompactedHistory, Context]]:
        """The context of a history as it is, with what a compaction of it would be of; arguments as for `viewing`."""
        history, _, context = yield from self._found(messages, at)
        return _subject(history, at, context), context

    def shown(
        self,
        messages: Sequence[BaseMessage],
        at: message_log.Address | None,
        record: CompactionRecord,
        *,
        overhead: int = 0,
    ) -> ContextView:
        """The context that a record of a history gives; arguments as for `viewing`."""
        history = self._ledger.follow(at, messages)
        context = resolved(record, history)
        tokens = self._tokens(context, history, overhead)
        return self._view(context, history, tokens, overhead)._replace(compacted=True)

    def lower(self, tokens: int) -> None:
        """Note that a provider refused a context of so many tokens: from now on, contexts are kept below that."""
        limit = self.limit.tokens
        if limit is None or tokens < limit:
            self.limit = dataclasses.replace(self.limit, tokens=max(1, int(tokens * _BELOW)))
            self.target = target_of(self.config, self.limit)

    def _found(
        self, messages: Sequence[BaseMessage], at: message_log.Address | None
    ) -> Work[tuple[History, list[Header], Context]]:
        history = self._ledger.follow(at, messages)
        known = yield from self._noted(history, at)
        return history, known, (yield from self._current(history, at, known))

    def _telling(self, at: message_log.Address | None) -> Telling:
        return Telling(self.database, at.name if at else "", agent_name=self._agent_name)

    def _bounds(self) -> dict[str, Any]:
        """What a trace shows of the budget."""
        return {
            name: value
            for name, value in (("threshold_tokens", self.limit.tokens), ("target_tokens", self.target.tokens))
            if value is not None
        }

    def forget(self) -> None:
        """Forget what was read and said; what is still there will be read again."""
        self._ledger.forget()
        self._records.clear()
        self._loose.clear()
        self._recorded.clear()

    # -- recording ---------------------------------------------------------------------------------------------

    def _noted(self, history: History, at: message_log.Address | None) -> Work[list[Header]]:
        """Record what is new in a history, and give what compactions there are of its conversation."""
        if at is None:
            loose = [*self._loose.items()]  # in one go: other threads go on putting records there
            return [Header(0, digest, record.reached, None, ahead=False) for digest, record in reversed(loose)]
        conversation, found = yield Run("compaction.find", lambda: _known(at), shown=False)
        before = self._recorded.get(at)
        if before is not None and (conversation is None or before.conversation not in (conversation, None)):
            before = None  # another process has deleted the conversation since
        new = [
            place for place in _unrecorded(before and before.history, history) if not is_filler(history.messages[place])
        ]
        if new:
            yield Shown(
                "compaction.record",
                self._recording(history, at, new),
                inputs=lambda: {**place_of(at), "messages": len(new)},
                outputs=lambda keys: {"count": len(keys), "ids": keys[:MOST_TRACED]},
            )
        self._recorded.pop(at, None)
        self._recorded[at] = _Recorded(conversation, history)
        _trim(self._recorded)
        return found  # type: ignore[no-any-return]  # an answer may be anything

    def _recording(self, history: History, at: message_log.Address, new: Sequence[int]) -> Work[list[str]]:
        """Record the messages in these places, and give the keys of those that were not there."""
        keys: list[str] = []
        for start in range(0, len(new), BATCH):
            batch = new[start : start + BATCH]
            now, tail = self.database.now(), self.database.tail
            entries = [self._entry(history, place, now) for place in batch]
            made = {history.keys[place] for place in batch if is_made(history.messages[place])}
            make = _recording(at, entries, made, now=now, tail=tail)
            stored: message_log.Appended = yield Run("conversation.record", make, write=True, shown=False)
            if stored.keys:
                keys += stored.keys
                self.database.emit(partial(_stored, at, tuple(stored.keys)))
        return keys

    def _entry(self, history: History, place: int, now: int) -> message_log.LogEntry:
        message = compaction_records.storable(history.messages[place])
        return entry_of(dataclasses.replace(message, message_id=history.keys[place]), now)

    # -- finding the context -----------------------------------------------------------------------------------

    def _current(self, history: History, at: message_log.Address | None, known: Sequence[Header]) -> Work[Context]:
        """The context that the newest compaction in use gives."""
        for header in known:
            if not header.ahead and _is_of(header, history):
                record = yield from self._loaded(at, header)
                if record is not None:
                    return resolved(record, history)
        return whole_context(history)

    def _ready(
        self, history: History, at: message_log.Address | None, known: Sequence[Header], current: Context
    ) -> Work[Context | None]:
        """The context of a compaction that was made ahead, if there is one; it is in use from now on."""
        since = current.record.reached if current.record else 0
        for header in known:
            if header.ahead and header.reached > since and _is_of(header, history):
                record = yield from self._loaded(at, header)
                if record is not None:
                    yield Run("compaction.use", partial(compaction_records.use, record.id), write=True, shown=False)
                    return resolved(record, history)
        return None

    def _notice(
        self,
        history: History,
        at: message_log.Address | None,
        known: Sequence[Header],
        context: Context,
        tokens: int,
        overhead: int,
    ) -> None:
        """Have a context that comes near its threshold compacted ahead of need, once."""
        if self.ahead is None or at is None or self.model is None or not self.config.active_context.enabled:
            return
        if self._is_within(early(self.limit), context, tokens) or _is_ahead(known, context, history):
            return
        make = partial(self._shown_ahead, history, at, context, tokens, overhead)
        self.ahead.begin(self.database, at, compaction_records.STATE, make)

    def _shown_ahead(
        self, history: History, at: message_log.Address, context: Context, tokens: int, overhead: int
    ) -> Work[None]:
        telling = self._telling(at)
        work = self._making_ahead(history, at, context, tokens, overhead, telling)
        yield telling.step(COMPACT, work, at, "ahead of need", messages=len(history.messages), **self._bounds())

    def _making_ahead(
        self, history: History, at: message_log.Address, context: Context, tokens: int, overhead: int, telling: Telling
    ) -> Work[None]:
        known: list[Header] = yield Run(
            "compaction.find", lambda: compaction_records.headers(at, compaction_records.STATE), shown=False
        )
        telling.unchanged(tokens, len(context.messages))
        if _is_ahead(known, context, history):  # another process has done it
            return
        base = yield from self._base(history, at, context)
        situation = self.situation(overhead=overhead, share=usable_share(self.limit, self.target))
        yield from self.compacted(_subject(history, at, base), base, situation, telling, tokens=tokens, ahead=True)

    def _base(self, history: History, at: message_log.Address | None, context: Context) -> Work[Context]:
        """What to go on from: where the last summary was made without a model, from before it, if there is one now."""
        record = context.record
        while record is not None and record.provisional and self.model is not None:
            if record.parent is None:
                return whole_context(history)
            record = yield from self._loaded(at, Header(record.parent, b"", 0, None, ahead=False))
        if record is context.record:
            return context
        return whole_context(history) if record is None else resolved(record, history)

    def _loaded(self, at: message_log.Address | None, header: Header) -> Work[CompactionRecord | None]:
        if at is None:
            return self._loose.get(header.digest)
        key = (at, header.id)
        record = self._records.get(key)
        self.database.measures.cache(CACHE, record is not None, record is None)
        if record is not None:
            return record
        try:
            read: CompactionRecord | None = yield Run(
                "compaction.read", lambda: compaction_records.load(at, header.id), shown=False
            )
        except StorageError:
            logger.warning("A compaction cannot be read; the context is compacted anew.", exc_info=True)
            return None
        if read is not None:
            self._records[key] = read
            _trim(self._records)
        return read

    # -- sizes -------------------------------------------------------------------------------------------------

    def _tokens(self, context: Context, history: History, overhead: int) -> int:
        """What a context costs: what was said since its record is added up already."""
        made = self._tokens_before(context)
        since = history.tokens[-1] - history.tokens[len(history.messages) - context.grown]
        return math.ceil((made + since + overhead) * self.counter.factor())

    def _is_within(self, size: Size, context: Context, tokens: int) -> bool:
        return is_within(size, tokens, len(context.messages), lambda: count_rounds(context.messages))

    def is_due(self, context: Context, tokens: int, grown: int, model: Any) -> bool:
        """Whether to compact: the context is too large, and enough was said since the last time to gain by it.

        Args:
            context: The context.
            tokens: What it costs.
            grown: What of that was said since it was compacted, uncalibrated.
            model: What would summarize.
        """
        record = context.record
        if not self.config.active_context.enabled:
            return False
        if record is not None and record.provisional and not record.tried and model is not None:
            return True
        if self._is_within(self.limit, context, tokens):
            return False
        return record is None or self._is_worth_it(context, tokens, grown)

    def _is_worth_it(self, context: Context, tokens: int, grown: int) -> bool:
        """Whether as much can go as a compaction is to make room for; else the next turn would compact again."""
        limit, target = self.limit, self.target
        if limit.tokens is not None and target.tokens is not None and tokens > limit.tokens:
            room = (limit.tokens - target.tokens) / self.counter.factor()
            return grown >= room or self._loose_tokens(context) >= room
        if limit.messages is not None and target.messages is not None and len(context.messages) > limit.messages:
            return context.grown >= limit.messages - target.messages
        return True

    def _loose_tokens(self, context: Context) -> int:
        """What of a context might go."""
        messages = context.messages
        config = self.config.active_context.summarization
        shape = shape_of(messages, grace=config.grace_recent_messages, keep_first=config.include_original_instruction)
        loose = droppable(messages, shape)
        return sum(self.counter.count_message(messages[place]) for each in loose for place in range(*each))

    def _learn(self, history: History, context: Context, overhead: int) -> None:
        """Learn from what the provider reported with the last reply how many tokens a context really has."""
        first = len(history.messages) - context.grown
        for place in range(len(history.messages) - 1, first, -1):
            if isinstance(reply := history.messages[place], AIMessage):
                if reply.usage_metadata is not None:
                    head = self._tokens_before(context)
                    counted = head + history.tokens[place] - history.tokens[first] + overhead
                    self.counter.learn(counted, reply.usage_metadata["input_tokens"], reply.id)
                return

    def _tokens_before(self, context: Context) -> int:
        return self._cost(context.messages[: len(context.messages) - context.grown])

    def _cost(self, messages: Sequence[BaseMessage]) -> int:
        return sum(map(self.counter.count_message, messages))

    # -- compacting --------------------------------------------------------------------------------------------

    def situation(self, *, overhead: int = 0, share: float = 1.0, model: Any = None) -> Situation:
        """What a compaction has to reach.

        Args:
            overhead: Tokens that are sent beside the messages.
            share: Which part of the target may be used.
            model: What summarizes. Default: this object's model.
        """
        tokens = self.target.tokens
        model = self.model if model is None else model
        return Situation(
            target=dataclasses.replace(
                self.target, tokens=None if tokens is None else int(tokens * share / self.counter.factor())
            ),
            counter=self.counter,
            config=self.config.active_context,
            model=model,
            input_tokens=input_tokens_of(self.config, model, self.limit),
            overhead_tokens=overhead,
        )

    def compacted(
        self,
        subject: CompactedHistory,
        base: Context,
        situation: Situation,
        telling: Telling,
        *,
        tokens: int,
        ahead: bool = False,
    ) -> Work[Made]:
        """Compact a context, and keep what comes of it.

        Args:
            subject: Which history.
            base: Its context, which is to be compacted.
            situation: What to reach.
            telling: Who is told.
            tokens: What the context costs that is to be replaced.
            ahead: Whether the result is not to be used yet.
        """
        before = base.without_last(subject.later)
        overhead = situation.overhead_tokens + subject.aside
        situation = dataclasses.replace(
            situation,
            overhead_tokens=overhead,
            archive=_archive(base, subject.at),
            originals=subject.originals,
        )
        telling.started(tokens, len(base.messages))
        try:
            outcome = yield from compacting(before.messages, situation)
            if ahead:
                _check(outcome)
            kept = yield from self.kept(subject, outcome, before, tried=situation.model is not None, ahead=ahead)
        except Exception:
            telling.failed()
            raise
        left = math.ceil(outcome.tokens * self.counter.factor())
        messages = len(outcome.messages) + subject.later
        telling.completed(outcome, situation.target, tokens=left, messages=messages, record=kept)
        return Made(kept, outcome)

    def kept(
        self,
        subject: CompactedHistory,
        outcome: PipelineOutcome,
        before: Context,
        *,
        tried: bool,
        ahead: bool = False,
        anew: bool = False,
    ) -> Work[CompactionRecord]:
        """Keep what a compaction came to.

        Args:
            subject: Which history.
            outcome: What it came to.
            before: The context that was compacted.
            tried: Whether a model was asked.
            ahead: Whether it is not to be used yet.
            anew: Whether it counts although the same history was compacted before.
        """
        record = record_of(
            outcome,
            before,
            reached=subject.reached,
            digest=subject.digest,
            places=subject.places,
            tried=tried,
            slot=subject.slot,
            ahead=ahead,
            saved=max(0, self._cost(before.messages) - self._cost(outcome.messages)),
        )
        at = subject.at
        if at is None:
            self._loose.pop(record.digest, None)
            self._loose[record.digest] = record
            _trim(self._loose)
            return record
        keep = partial(compaction_records.keep, at, subject.lane, record, now=self.database.now(), anew=anew)
        kept: CompactionRecord = yield Run("compaction.keep", keep, write=True, shown=False)
        self._records[(at, kept.id)] = kept
        return kept

    def _view(self, context: Context, history: History, tokens: int, overhead: int) -> ContextView:
        if context.record is not None:
            whole = int((history.tokens[-1] + overhead) * self.counter.factor())
            self.database.measures.shortened(max(0, whole - tokens))
        messages = context.messages
        reached = context.record.reached if context.record else 0
        sound = history.sound if history.sound >= reached else sound_until(history.messages, reached)
        if sound < len(history.messages) or not messages or role_of(messages[-1]) == "system":
            messages = repaired(messages)
        else:
            messages = with_distinct_calls(messages) if history.repeats else list(messages)
        return ContextView(messages, tokens, record=context.record)


def _subject(history: History, at: message_log.Address | None, context: Context) -> CompactedHistory:
    closed = open_from(history.messages)
    return CompactedHistory(
        at,
        compaction_records.STATE,
        closed,
        history.digests[closed],
        history.places,
        later=len(history.messages) - closed,
        aside=history.tokens[-1] - history.tokens[closed],
        originals=originals(context, history),
    )


def _unrecorded(before: History | None, history: History) -> list[int]:
    """The places of what has not been recorded yet, or says something else than what was."""
    if before is None:
        return [*range(len(history.messages))]
    if history.digests[: len(before.digests)] == before.digests:
        return [*range(len(before.messages), len(history.messages))]
    there = set(before.digests)
    return [place for place, digest in enumerate(history.digests[1:]) if digest not in there]


def _recording(
    at: message_log.Address, entries: Sequence[message_log.LogEntry], made: Collection[str], *, now: int, tail: int
) -> Operation[message_log.Appended]:
    return lambda: message_log.record(at, entries, now=now, tail=tail, unless_there=made)


def _archive(context: Context, at: message_log.Address | None) -> Callable[[BaseMessage], str | None]:
    """By which key a message of a context is brought back; None for what is made, and where nothing is recorded."""
    keys = {} if at is None else dict(zip(map(id, context.messages), context.keys, strict=True))
    return lambda message: keys.get(id(message))


def _known(at: message_log.Address) -> Steps[tuple[tuple[int, int] | None, list[Header]]]:
    return (yield from compaction_records.identity(at)), (
        yield from compaction_records.headers(at, compaction_records.STATE)
    )


def _trim(remembered: OrderedDict[Any, Any]) -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)


def _stored(at: message_log.Address, keys: tuple[str, ...]) -> MessagesStored:
    return MessagesStored(namespace=namespace_of(at.path), conversation_id=at.name, message_ids=keys)


def _is_of(header: Header, history: History) -> bool:
    return header.reached <= len(history.messages) and history.digests[header.reached] == header.digest


def _check(outcome: PipelineOutcome) -> None:
    """Refuse what came of a failure, since there is time to try again."""
    if outcome.failures:
        raise outcome.failures[0].error


def _is_ahead(known: Sequence[Header], context: Context, history: History) -> bool:
    """Whether there is a compaction of a history that goes further than the one in use."""
    since = context.record.reached if context.record else 0
    return any(header.reached > since and _is_of(header, history) for header in known)
