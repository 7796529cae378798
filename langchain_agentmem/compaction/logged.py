"""The context of a conversation's own log: read once, then only what is new of it.

The newest compaction of the log and the messages after it make the context, so that opening a long conversation costs
what its context costs. Whoever holds a context asks for what came since; where anything else happened, an edit or a
removal, it is read anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_agentmem.compaction.compacted_context import Context, open_from
from langchain_agentmem.compaction.graph_compactor import Subject
from langchain_agentmem.conversations import compaction_records, message_log
from langchain_agentmem.conversations.compaction_records import LOG, Record, Span
from langchain_agentmem.conversations.log_entries import shown_message
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages import decode_body, named_part, to_langchain
from langchain_agentmem.messages.history_repair import sound_until
from langchain_agentmem.storage import Steps, query


@dataclass(frozen=True, kw_only=True, slots=True)
class Logged:
    """A context of a log, as of one moment.

    Attributes:
        branch: The conversation's row and when it was made; None while it does not exist.
        head: The conversation's newest place.
        messages: How many messages it has.
        slot: The row that was written into it last.
        context: The context.
        places: Where its messages stand, by their keys; those of neighbours in the log are neighbours.
        slots: The rows of its messages, by their keys.
        tokens: What it costs, uncalibrated.
        grown: What of that came after its record.
        sound: Up to where it needs no repair.
    """

    branch: tuple[int, int] | None = None
    head: int = 0
    messages: int = 0
    slot: int = 0
    context: Context = field(default_factory=lambda: Context(messages=[], keys=[]))
    places: dict[str, int] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    grown: int = 0
    sound: int = 0

    def subject(self, at: message_log.Address, counter: TokenCounter) -> Subject:
        """What a compaction of this context would be of."""
        messages, keys = self.context.messages, self.context.keys
        closed = open_from(messages)
        covered = next((key for key in reversed(keys[:closed]) if key is not None), None)
        slot = self.slots[covered] if covered is not None else 0
        return Subject(
            at,
            LOG,
            self.messages - (len(messages) - closed),
            blake2b(f"{slot}".encode(), digest_size=20).digest(),
            self.places,
            later=len(messages) - closed,
            aside=sum(map(counter.count_message, messages[closed:])),
            slot=slot,
        )


def reading(
    at: message_log.Address, known: Logged | None, counter: TokenCounter, base: Record | None = None
) -> Steps[Logged]:
    """Read the context of a conversation.

    Args:
        at: The conversation.
        known: What was read before, to go on from.
        counter: Counts tokens.
        base: The compaction to go back to. Default: the newest one in use.
    """
    rows = yield query.branch_counts(path=at.path, kind=message_log.CONVERSATION, name=at.name)
    if not rows:
        return Logged()
    now = rows[0]
    if known is not None and known.branch == _identity(now):
        since = yield query.entries_since(branch=now["id"], slot=known.slot)
        if not since and (known.head, known.messages) == (now["head"], now["messages"]):
            return known
        if _is_all_new(known, now, since):
            return _extended(known, now, [row for row in since if row["kind"] == message_log.MESSAGE], counter)
    record = base if base is not None else (yield from _newest(at))
    return (yield from _read(now, record, counter))


def _is_all_new(known: Logged, now: Any, since: Sequence[Any]) -> bool:
    """Whether nothing happened to a conversation but that these were added."""
    added = sum(1 for row in since if row["kind"] == message_log.MESSAGE)
    return (
        all(row["replaces"] is None or row["kind"] == message_log.ROUND for row in since)
        and not any(row["kind"] == message_log.DESCRIPTION for row in since)
        and now["messages"] - known.messages == added
        and now["head"] - known.head == len({row["position"] for row in since})
    )


def newest_of(at: message_log.Address) -> Steps[int | None]:
    """The number of the newest compaction of a conversation's log that is in use; None where there is none."""
    found = yield from compaction_records.headers(at, LOG)
    return next((header.id for header in found if not header.ahead), None)


def _newest(at: message_log.Address) -> Steps[Record | None]:
    number = yield from newest_of(at)
    return None if number is None else (yield from compaction_records.load(at, number))


def originals(at: message_log.Address, context: Context) -> Steps[dict[str, BaseMessage]]:
    """What was said, of which a context has shortened copies, by the ids of both."""
    found: dict[str, BaseMessage] = {}
    for message, key in zip(context.messages, context.keys, strict=True):
        row = None if key is not None or not message.id else (yield from message_log.get(at, message.id))
        if row is not None:
            found[row.key] = to_langchain(decode_body(row.body, row.key))
    return found


def whole(at: message_log.Address, counter: TokenCounter) -> Steps[Logged]:
    """The whole conversation as its context, as if it had never been compacted."""
    rows = yield query.branch_counts(path=at.path, kind=message_log.CONVERSATION, name=at.name)
    return (yield from _read(rows[0], None, counter)) if rows else Logged()


def _read(now: Any, record: Record | None, counter: TokenCounter) -> Steps[Logged]:
    messages: list[BaseMessage] = []
    keys: list[str | None] = []
    places: dict[str, int] = {}
    slots: dict[str, int] = {}
    place = 0
    for item in record.items if record else ():
        place += 2  # so that nothing on both sides of a gap passes for neighbours
        if isinstance(item, BaseMessage):
            messages.append(item)
            keys.append(None)
            continue
        for row in (yield from _between(now["id"], item)):
            place += 1
            places[row["key"]], slots[row["key"]] = place, row["slot"]
            messages.append(_message(row))
            keys.append(row["key"])
    head = sum(map(counter.count_message, messages))
    reached = (record.slot or 0) if record else 0
    new = yield query.messages_between(branch=now["id"], first=reached + 1, last=message_log.ALL)
    context = Context(messages=messages, keys=keys, record=record)
    start = Logged(branch=_identity(now), context=context, places=places, slots=slots, tokens=head)
    return _extended(start, now, new, counter)


def _extended(known: Logged, now: Any, rows: Sequence[Any], counter: TokenCounter) -> Logged:
    context, places, slots = known.context, known.places.copy(), known.slots.copy()
    place = next(reversed(places.values()), 0) + (2 if context.grown == 0 else 1)
    new = list(map(_message, rows))
    for row in rows:
        places[row["key"]], slots[row["key"]] = place, row["slot"]
        place += 1
    tokens = sum(map(counter.count_message, new))
    messages = context.messages + new
    keys = context.keys + [row["key"] for row in rows]
    return replace(
        known,
        head=now["head"],
        messages=now["messages"],
        slot=now["last"] or 0,
        context=replace(context, messages=messages, keys=keys, grown=context.grown + len(new)),
        places=places,
        slots=slots,
        tokens=known.tokens + tokens,
        grown=known.grown + tokens,
        sound=sound_until(messages, known.sound),
    )


def _identity(now: Any) -> tuple[int, int]:
    return int(now["id"]), int(now["created_at"])


def _between(branch: int, span: Span) -> Steps[Any]:
    """The messages of a span that are still there."""
    ends = []
    for key in span:
        found = yield query.slot_of_key(branch=branch, key=key)
        ends.append(found[0]["slot"] if found else None)
    first, last = ends
    if last is None:
        return []
    if first is None:  # the beginning was dropped by a retention
        first = last if span.first == span.last else 0
    return (yield query.messages_between(branch=branch, first=first, last=last))


def _message(row: Any) -> BaseMessage:
    """A message of the log. Its images are named, for the counter; they are read when it is shown."""
    return to_langchain(shown_message(bytes(row["body"]), row["key"], row["attachments"]), read_images=named_part)
