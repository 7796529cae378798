"""A context: what a model is shown of a history, part of it as it was said, part of it made.

Pure: from a record and a history comes a context, from a compacted context comes a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage

from langchain_agentmem.compaction.ledger import History
from langchain_agentmem.compaction.pipeline import Outcome
from langchain_agentmem.conversations.compaction_records import Record, Span, spans
from langchain_agentmem.messages.history_shape import calls_of, role_of


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
    record: Record | None = None
    grown: int = 0

    def without_last(self, count: int) -> Context:
        """The same without so many messages at its end."""
        end = len(self.messages) - count
        return replace(self, messages=self.messages[:end], keys=self.keys[:end]) if count else self


def whole_context(history: History) -> Context:
    """A history that was never compacted, as its own context."""
    return Context(messages=history.messages, keys=[*history.keys], grown=len(history.messages))


def resolved(record: Record, history: History) -> Context:
    """The context that a record gives with a history."""
    messages: list[BaseMessage] = []
    keys: list[str | None] = []
    for item in record.items:
        if isinstance(item, Span):
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
    outcome: Outcome,
    before: Context,
    *,
    reached: int,
    digest: bytes,
    places: dict[str, int],
    tried: bool,
    slot: int | None = None,
    ahead: bool = False,
    saved: int = 0,
) -> Record:
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
    items: list[Span | BaseMessage] = []
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
    return Record(
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
