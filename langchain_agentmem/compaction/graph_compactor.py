"""Keeps contexts within their budget: what was compacted is remembered, and used again as long as it is true.

Each turn of a graph the whole history comes in. What is new of it is recorded in the conversation of the thread; the
newest compaction that is of this very history is looked up by its digest, and with the messages since makes the
context. Only a context that has outgrown its threshold is compacted again, and what comes of it is kept before it is
used. So nothing is lost where anything stops in between, and a history that did not change never costs a second call.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from operator import is_
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage

from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.compaction.compacted_context import (
    COMPACT,
    NOTHING,
    RECOVER,
    CompactionReport,
    Context,
    History,
    count_open,
    followed,
    place_of,
    record_of,
    resolved,
)
from langchain_agentmem.compaction.compaction_config import (
    ManagedMemoryConfig,
    Situation,
    Size,
    input_tokens_of,
    is_within,
    limit_of,
    target_of,
    window_of,
)
from langchain_agentmem.compaction.overflow_recovery import payload_bytes, thorough, with_tool_output_cut
from langchain_agentmem.compaction.processors import PipelineOutcome, compacting, why_larger
from langchain_agentmem.conversations import compaction_records, message_log, prompt_notes
from langchain_agentmem.conversations.compaction_records import STATE, CompactionRecord, Header
from langchain_agentmem.conversations.log_entries import entry_of
from langchain_agentmem.errors import StorageError
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import repaired, sound_until
from langchain_agentmem.messages.history_shape import count_rounds, droppable, role_of, shape_of
from langchain_agentmem.messages.message_marks import brought_for, is_filler, is_made
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.database import Database

logger = logging.getLogger(__name__)

REMEMBERED = 256
"""Records and histories that are kept in memory."""
BATCH = 500
"""Messages that are recorded in one transaction."""
_BELOW = 0.9  # of what a provider refused
_LEAST_LIMIT = 500
"""No limit is lowered below so many tokens of messages."""


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


class _Followed(NamedTuple):
    """What is known and recorded of a history since the turn before.

    Attributes:
        conversation: Which one, see `records.identity`; None where this was the first of it.
        history: The history.
    """

    conversation: tuple[int, int] | None
    history: History


class Compactor:
    """Gives the context of histories, within a budget.

    Args:
        database: Where histories are recorded and compactions are kept.
        config: The budget, and what is done to keep it.
        model: What summarizes, see `usable_model`; None for a summary without a model.
        window: The tokens that the model of the agent takes. Default: those of `model`, if it tells.
    """

    def __init__(
        self,
        database: Database,
        config: ManagedMemoryConfig,
        model: Any = None,
        *,
        window: int | None = None,
    ) -> None:
        self.database = database
        self.config = config
        self.model = model
        self.limit = limit_of(config, window or window_of(model))
        self.target = target_of(config, self.limit)
        given = config.token_counter
        self.counter = (
            given if isinstance(given, TokenCounter) else TokenCounter(given, image_tokens=config.image_token_estimate)
        )
        # Those of no conversation are kept here alone, under numbers of their own.
        self._records: OrderedDict[tuple[message_log.Address | None, int], CompactionRecord] = OrderedDict()
        self._settled: OrderedDict[tuple[message_log.Address | None, int], int] = OrderedDict()
        self._numbers = count(1)
        self._followed: OrderedDict[message_log.Address | None, _Followed] = OrderedDict()
        database.remembering.add(self)

    def viewing(
        self, messages: Sequence[BaseMessage], at: message_log.Address | None, *, overhead: int = 0
    ) -> ContextView:
        """What a model is to be shown of a history now.

        Args:
            messages: The whole history. It is not changed.
            at: The conversation in which it is recorded. None for a history that nobody keeps: then nothing is
                recorded, and compactions are remembered by this object alone.
            overhead: Tokens that are sent beside the messages.
        """
        report = self._report(at)
        with report.step(COMPACT, at, "turn", messages=len(messages), **self._bounds()):
            view = self._compacted_view(messages, at, overhead, report)
        self._left(messages, view, at)
        return view

    def _compacted_view(
        self, messages: Sequence[BaseMessage], at: message_log.Address | None, overhead: int, report: CompactionReport
    ) -> ContextView:
        history, context = self._found(messages, at)
        overhead += self._put_beside(context, at, overhead)
        self._learn(history, context, overhead)
        tokens = self.calibrated(context.tokens + overhead)
        report.sized(NOTHING, (tokens, len(context.messages)))
        if not self.is_due(context, tokens, self.model, at):
            return self._view(context, history, overhead, report)
        base = self._base(history, at, context)
        situation = self.situation(overhead=overhead)
        record = self.compacted(base, situation, report, tokens=tokens, originals=_originals(base, history))
        made = resolved(record, history, self.counter, at)
        return self._view(made, history, overhead, report, compacted=True)

    def smaller(
        self,
        messages: Sequence[BaseMessage],
        at: message_log.Address | None,
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
        report = self._report(at)
        inputs = {"provider": provider or None, "attempt": attempt, "messages": len(messages)}
        with report.step(RECOVER, at, "refused", **inputs):
            history, context = self._found(messages, at)
            refused: dict[str, Any] = {"provider": provider, "attempt": attempt, "overhead": overhead}
            record = self.recovered(context, report, originals=_originals(context, history), **refused)
            if record is None:
                return None
            made = resolved(record, history, self.counter, at)
            view = self._view(made, history, overhead, report, compacted=True)
        self._left(messages, view, at)
        return view

    def lower(self, tokens: int, overhead: int) -> None:
        """Note that a provider refused a context: from now on, contexts are kept below that.

        Args:
            tokens: What was refused, in tokens.
            overhead: Tokens that are sent beside the messages; a limit leaves room for some messages, too.
        """
        lower = max(int(tokens * _BELOW), self.calibrated(overhead) + _LEAST_LIMIT)
        if self.limit.tokens is None or lower < self.limit.tokens:
            self.limit = replace(self.limit, tokens=lower)
            self.target = target_of(self.config, self.limit)

    def _found(self, messages: Sequence[BaseMessage], at: message_log.Address | None) -> tuple[History, Context]:
        before = self._followed.get(at)
        old = History() if before is None else before.history
        history = followed(old, messages, self.counter)
        known = self._noted(history, at, before)
        context = self._newest(history, at, known)
        return history, context or resolved(None, history, self.counter, at)

    def _left(self, messages: Sequence[BaseMessage], view: ContextView, at: message_log.Address | None) -> None:
        """Note that what was put before messages that have left the context just now is not shown any more."""
        there = {message.id for message in view.messages}
        gone = [brought_for(message) for message in messages if message.id not in there] if view.compacted else []
        if at is not None and gone:
            prompt_notes.leaving(self.database, at, [key for key in gone if key])

    def _put_beside(self, context: Context, at: message_log.Address | None, overhead: int) -> int:
        """What the memory and the experiences take that stand in the prompts of a thread; 0 far from the limit."""
        limit = self.limit.tokens
        if at is None or limit is None or context.tokens + overhead < limit / 2:
            return 0
        asked = [message.id for message in context.messages if message.type == "human" and message.id]
        return prompt_notes.counting(self.database, at, asked)

    def _report(self, at: message_log.Address | None) -> CompactionReport:
        return CompactionReport(self.database, at.name if at else "")

    def _bounds(self) -> dict[str, Any]:
        """What a trace shows of the budget."""
        bounds = {"threshold_tokens": self.limit.tokens, "target_tokens": self.target.tokens}
        return {name: value for name, value in bounds.items() if value is not None}

    def forget(self) -> None:
        """Forget what was read and said; what is still there will be read again."""
        self._records.clear()
        self._followed.clear()

    # -- recording ---------------------------------------------------------------------------------------------

    def _noted(self, history: History, at: message_log.Address | None, before: _Followed | None) -> list[Header]:
        """Record what is new in a history, and give what compactions there are of its conversation."""
        if at is None:
            _remember(self._followed, at, _Followed(None, history))
            there = [*self._records.items()]  # in one go: other threads go on putting records there
            loose = [record for (where, _), record in reversed(there) if where is None]
            return [Header(record.id, record.digest, record.reached, None) for record in loose]
        conversation, found = self.database.read(None, lambda tx: _known(tx, at))
        if before is not None and (conversation is None or before.conversation not in (conversation, None)):
            before = None  # another process has deleted the conversation since
        new = [
            place for place in _unrecorded(before and before.history, history) if not is_filler(history.messages[place])
        ]
        if new:
            with self.database.step("compaction.record", lambda: {**place_of(at), "messages": len(new)}) as step:
                keys = self._record(history, at, new)
                step.finish(lambda: {"count": len(keys), "ids": keys})
        _remember(self._followed, at, _Followed(conversation, history))
        return found

    def _record(self, history: History, at: message_log.Address, new: Sequence[int]) -> list[str]:
        """Record the messages in these places, and give the keys of those that were not there."""
        keys: list[str] = []
        for start in range(0, len(new), BATCH):
            batch = new[start : start + BATCH]
            now, tail = self.database.now(), self.database.tail
            entries = [self._entry(history, place, now) for place in batch]
            made = {history.keys[place] for place in batch if is_made(history.messages[place])}
            stored = self.database.write(
                None, partial(message_log.record, at=at, entries=entries, now=now, tail=tail, unless_there=made)
            )
            if stored.keys:
                keys += stored.keys
                self.database.emit(partial(_stored, at, tuple(stored.keys)))
        return keys

    def _entry(self, history: History, place: int, now: int) -> message_log.LogEntry:
        message = compaction_records.storable(history.messages[place])
        return entry_of(replace(message, message_id=history.keys[place]), now)

    # -- finding the context -----------------------------------------------------------------------------------

    def _newest(self, history: History, at: message_log.Address | None, known: Sequence[Header]) -> Context | None:
        """The context that the newest compaction in use gives; else None.

        Args:
            history: The history.
            at: The conversation in which it is recorded, or None.
            known: What compactions there are, the newest first.
        """
        for header in known:
            if _is_of(header, history):
                record = self.loaded(at, header.id)
                if record is not None:
                    return resolved(record, history, self.counter, at)
        return None

    def _base(self, history: History, at: message_log.Address | None, context: Context) -> Context:
        record = self.base(context.record, at, self.model)
        return context if record is context.record else resolved(record, history, self.counter, at)

    def base(
        self, record: CompactionRecord | None, at: message_log.Address | None, model: Any
    ) -> CompactionRecord | None:
        """What to go on from: where the last summary was made without a model, from before it, if there is one now.

        Args:
            record: The compaction in use, or None.
            at: The conversation.
            model: What would summarize.
        """
        while record is not None and record.provisional and model is not None:
            record = None if record.parent is None else self.loaded(at, record.parent)
        return record

    def loaded(self, at: message_log.Address | None, number: int) -> CompactionRecord | None:
        """A compaction by its number; None where it is gone or damaged."""
        record = self._records.get((at, number))
        if at is None:
            return record
        if record is None:
            try:
                record = self.database.read(None, lambda tx: compaction_records.load(tx, at, number))
            except StorageError:
                logger.warning("A compaction cannot be read; the context is compacted anew.", exc_info=True)
            if record is not None:
                _remember(self._records, (at, number), record)
        return record

    # -- sizes -------------------------------------------------------------------------------------------------

    def calibrated(self, tokens: int) -> int:
        """What so many counted tokens are, by what providers have reported."""
        return math.ceil(tokens * self.counter.factor())

    def _is_within(self, size: Size, context: Context, tokens: int) -> bool:
        return is_within(size, tokens, lambda: count_rounds(context.messages))

    def is_due(self, context: Context, tokens: int, model: Any, at: message_log.Address | None) -> bool:
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
        if self._is_within(self.limit, context, tokens):
            return False
        if record is None:
            return True
        settled = self._settled.get((at, record.id)) == context.grown  # nothing was said since this was compacted
        return not settled and self._is_worth_it(context, tokens)

    def _is_worth_it(self, context: Context, tokens: int) -> bool:
        """Whether as much can go as a compaction is to make room for; else the next turn would compact again."""
        limit, target = self.limit, self.target
        if limit.tokens is not None and target.tokens is not None and tokens > limit.tokens:
            room = (limit.tokens - target.tokens) / self.counter.factor()
            return context.grown_tokens >= room or self._loose_tokens(context) >= room
        return True

    def _loose_tokens(self, context: Context) -> int:
        """What of a context might go."""
        messages = context.messages
        config = self.config.active_context.summarization
        shape = shape_of(messages, grace=config.grace_recent_messages, keep_first=config.include_original_instruction)
        return sum(self._cost(messages[each.start : each.stop]) for each in droppable(messages, shape))

    def _learn(self, history: History, context: Context, overhead: int) -> None:
        """Learn from what the provider reported with the last reply how many tokens a context really has."""
        first = len(history.messages) - context.grown
        for place in range(len(history.messages) - 1, first, -1):
            if isinstance(reply := history.messages[place], AIMessage):
                if reply.usage_metadata is not None:
                    since = history.tokens[-1] - history.tokens[place]
                    counted = context.tokens - since + overhead
                    self.counter.learn(counted, reply.usage_metadata["input_tokens"], reply.id)
                return

    def _repair_cost(self, messages: list[BaseMessage], repaired: list[BaseMessage]) -> int:
        """What it costs that messages were repaired: what came, less what went."""
        if len(messages) == len(repaired) and all(map(is_, messages, repaired)):
            return 0
        before, after = ({id(each): each for each in some} for some in (messages, repaired))
        came, went = after.keys() - before.keys(), before.keys() - after.keys()
        return self._cost([after[each] for each in came]) - self._cost([before[each] for each in went])

    def _cost(self, messages: Sequence[BaseMessage]) -> int:
        return sum(map(self.counter.count_message, messages))

    # -- compacting --------------------------------------------------------------------------------------------

    def situation(self, *, overhead: int = 0, model: Any = None) -> Situation:
        """What a compaction has to reach.

        Args:
            overhead: Tokens that are sent beside the messages.
            model: What summarizes. Default: this object's model.
        """
        tokens = self.target.tokens
        model = self.model if model is None else model
        return Situation(
            target=replace(self.target, tokens=None if tokens is None else int(tokens / self.counter.factor())),
            counter=self.counter,
            config=self.config.active_context,
            model=model,
            input_tokens=input_tokens_of(self.config, model, self.limit),
            overhead_tokens=overhead,
        )

    def compacted(
        self,
        base: Context,
        situation: Situation,
        report: CompactionReport,
        *,
        tokens: int,
        originals: Mapping[str, BaseMessage] = MappingProxyType({}),
    ) -> CompactionRecord:
        """Compact a context, and keep what comes of it.

        Args:
            base: The context.
            situation: What to reach.
            report: Who is told.
            tokens: What the context costs that is to be replaced.
            originals: By their ids, messages as they were said, of which the context has shortened copies.
        """
        before, situation = self._closed(base, situation, originals)
        later = base.length - before.length
        with report.compacting(tokens, len(base.messages)):
            outcome = compacting(before.messages, situation, self.database)
            again = base.record is not None and base.record.reached == before.length
            anew = again and outcome.messages != before.messages
            record = self._kept(before, later, outcome, situation, report, anew=anew)
        _remember(self._settled, (base.at, record.id), later)
        return record

    def recovered(
        self,
        base: Context,
        report: CompactionReport,
        *,
        provider: str = "",
        attempt: int = 1,
        overhead: int = 0,
        model: Any = None,
        originals: Mapping[str, BaseMessage] = MappingProxyType({}),
    ) -> CompactionRecord | None:
        """Make a context that was refused smaller, see `overflow_recovery`.

        Args:
            base: What was refused.
            report: Who is told.
            provider: Who refused it, for the bytes that it takes. Default: 25 million of them.
            attempt: The second attempt also cuts tool output in the protected tail.
            overhead: Tokens that are sent beside the messages.
            model: What summarizes. Default: this object's model.
            originals: As for `compacted`.

        Returns:
            The compaction that counts from now on; None where nothing could be made smaller.
        """
        situation = thorough(self.situation(overhead=overhead, model=model), provider)
        before, situation = self._closed(base, situation, originals)
        size = payload_bytes(before.messages)
        report.note(bytes_before=size, bytes_after=size)
        with report.compacting(self.calibrated(situation.tokens(before.messages)), len(base.messages)):
            outcome = compacting(before.messages, situation, self.database)
            if attempt > 1:
                outcome = with_tool_output_cut(outcome, situation)
            left = payload_bytes(outcome.messages)
            if left >= size:
                report.failed(outcome.stages_run)
                return None
            report.note(bytes_after=left)
            return self._kept(before, base.length - before.length, outcome, situation, report, anew=True)

    def _closed(
        self, base: Context, situation: Situation, originals: Mapping[str, BaseMessage]
    ) -> tuple[Context, Situation]:
        """A context without the calls at its end that are still open, and what a compaction of it has to reach.

        Its messages are called by their keys, so that a copy is known by its id, however it was altered.
        """
        later = count_open(base.messages)
        end = len(base.messages) - later
        closed = zip(base.messages[:end], base.keys, strict=False)
        named = [each if key in (None, each.id) else each.model_copy(update={"id": key}) for each, key in closed]
        before = replace(base, messages=named, keys=base.keys[:end], length=base.length - later)
        return before, replace(
            situation,
            overhead_tokens=situation.overhead_tokens + self._cost(base.messages[end:]),
            archive=_archive(before),
            originals=originals,
        )

    def _kept(
        self,
        before: Context,
        later: int,
        outcome: PipelineOutcome,
        situation: Situation,
        report: CompactionReport,
        *,
        anew: bool = False,
    ) -> CompactionRecord:
        """Keep and report what a compaction came to.

        Args:
            before: The context that was compacted.
            later: How many messages come after that.
            outcome: What it came to.
            situation: What was to be reached.
            report: Who is told.
            anew: Whether it counts although the same history was compacted before.
        """
        saved = max(0, self._cost(before.messages) - self._cost(outcome.messages))
        record = record_of(before, outcome, tried=situation.model is not None, saved=saved)
        at = before.at
        if at is None:
            record = replace(record, id=next(self._numbers))
        else:
            keep = partial(compaction_records.keep, at=at, lane=before.lane, record=record)
            record = self.database.write(None, partial(keep, now=self.database.now(), anew=anew))
        _remember(self._records, (at, record.id), record)
        left = self.calibrated(outcome.tokens)
        messages = len(outcome.messages) + later
        report.completed(outcome, situation.target, tokens=left, messages=messages, record=record)
        return record

    def _view(
        self, context: Context, history: History, overhead: int, report: CompactionReport, *, compacted: bool = False
    ) -> ContextView:
        needs_repair = history.repeats or not _is_sound(context, history)
        messages = repaired(context.messages) if needs_repair else list(context.messages)
        return self.shown(messages, context, report, overhead=overhead, compacted=compacted)

    def shown(
        self,
        messages: list[BaseMessage],
        context: Context,
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
        seen = replace(context, messages=messages)
        if self.config.active_context.enabled and not self._is_within(self.limit, seen, tokens):
            situation = self.situation(overhead=overhead)
            report.fell_short(tokens, situation.target, why_larger(messages, situation))
        return ContextView(messages, tokens, compacted)


def _is_sound(context: Context, history: History) -> bool:
    """Whether what was said since a context was compacted needs no repair behind it."""
    start, reached = len(context.messages) - context.grown, len(history.messages) - context.grown
    goes_on = not reached or role_of(context.messages[start - 1]) == role_of(history.messages[reached - 1])
    if goes_on and history.sound >= reached:
        return history.sound == len(history.messages)
    return sound_until(context.messages, start) == len(context.messages)


def _unrecorded(before: History | None, history: History) -> list[int]:
    """The places of what has not been recorded yet, or says something else than what was."""
    if before is None:
        return [*range(len(history.messages))]
    if history.digests[: len(before.digests)] == before.digests:
        return [*range(len(before.messages), len(history.messages))]
    there = set(before.digests)
    return [place for place, digest in enumerate(history.digests[1:]) if digest not in there]


def _originals(context: Context, history: History) -> dict[str, BaseMessage]:
    """The messages of which a context has copies, as they were said."""
    return {key: history.messages[history.places[key]] for key in context.copies}


def _archive(context: Context) -> Callable[[BaseMessage], str | None]:
    """By which key a message of a context is brought back; None for what is made, and where nothing is recorded."""
    keys = {} if context.at is None else dict(zip(map(id, context.messages), context.keys, strict=True))
    return lambda message: keys.get(id(message))


def _known(tx: Transaction, at: message_log.Address) -> tuple[tuple[int, int] | None, list[Header]]:
    return compaction_records.identity(tx, at), compaction_records.headers(tx, at, STATE)


def _remember(remembered: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    remembered.pop(key, None)
    remembered[key] = value
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)


def _stored(at: message_log.Address, keys: tuple[str, ...]) -> MessagesStored:
    return MessagesStored(namespace=namespace_of(at.path), conversation_id=at.name, message_ids=keys)


def _is_of(header: Header, history: History) -> bool:
    """Whether a compaction is of a history."""
    return header.reached <= len(history.messages) and history.digests[header.reached] == header.digest
