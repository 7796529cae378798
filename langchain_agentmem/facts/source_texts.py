"""What was said and is kept as it was, and which of it still waits to have its facts extracted.

What waits is in the database, in the transaction that keeps the message, so a crash loses none of it.

What a model fails at goes on waiting, too. Where it answers nonsense about a message, it is asked again after a second,
then after two, then the message is *parked*: others go before it, and it is asked about once a day. Where there is no
answer at all, the model is taken to be down, and nothing is asked for a time that doubles, up to ten minutes: an outage
uses nothing up, and changes no order. A message may be the reason, so after some questions in vain another is asked
about as well, only to see. If that is answered, it counts as nonsense about the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.log_entries import entry_of
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import MessageError
from langchain_agentmem.facts.fact import ExtractionFailure
from langchain_agentmem.facts.fact_store import Book, FactView, message_of
from langchain_agentmem.messages.message import Message, plain, same_body
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import DUE, FAILURE, SAID, TEXT, Kept, RowDraft
from langchain_agentmem.storage.background import backoff
from langchain_agentmem.tracing import given_only

KEPT_FAILURES = 100
"""How many failures are remembered."""
LONGEST_ANSWER = 2_000
LONGEST_SILENCE = 600.0
"""Seconds between two questions to a model that gives no answers."""
PARKED = 86_400.0
"""Seconds between two questions about a message of which a model made nonsense again and again."""
FAILED = "failed"
"""The label of what waits and was asked about in vain."""
_SECOND = 1_000_000


class Due(NamedTuple):
    """A message that waits.

    Attributes:
        key: The key under which it is kept.
        attempts: How often a model failed at it, and not at others.
        message: It.
        said_at: When it was said, in microseconds since 1970.
        conversation: The conversation or thread that it belongs to, if it is known.
        listed: Whether it is shown and found beside the facts.
        failed: Whether it was asked about in vain.
        until: Before when it is not asked about unless somebody wants it now.
        silent: How often in a row the model was found to be down when it was asked about it; 0 if it answered since.
    """

    key: str
    attempts: int
    message: Message
    said_at: int
    conversation: str | None
    listed: bool = True
    failed: bool = False
    until: int = 0
    silent: int = 0

    @property
    def shown(self) -> tuple[str, str | None, str, int]:
        """What a model is shown of it: the speaker, the text, and the time."""
        return self.message.role, self.message.name, self.message.text, self.said_at


class ExtractionTrouble(NamedTuple):
    """What went wrong with some messages: why, what the model said, and whether it said nothing at all."""

    error: str
    answer: str
    silent: bool = False


def keep(book: Book, messages: Sequence[Message], *, conversation: str | None = None, own: bool = True) -> list[str]:
    """Keep messages, and have them wait.

    One that is here already stays; where it says something else now, that takes the place of what it said.

    Args:
        book: Where facts are changed.
        messages: The messages.
        conversation: The conversation or thread that they belong to, if it is known.
        own: Whether they belong here, are shown and found here. If not, another part of memory does that, and says
            which of two messages of a conversation with one id counts: the one that comes later. Two conversations may
            have different messages with one id.

    Returns:
        The ids of those that were not here.

    Raises:
        MessageError: The id of a message that belongs here is taken by other content.
    """
    entries = [entry_of(message, book.change.now) for message in messages]
    here = among(book.facts, [(entry.key, conversation) for entry in entries])
    new: list[str] = []
    for message, entry in zip(messages, entries, strict=True):
        key, known = _kept(here, entry, conversation, own=own)
        if known is not None and same_body(known.body, entry.body):
            if own and not is_listed(known):
                there = conversation_of(known)
                put(book, message, said_at=known.created_at, conversation=there, listed=True, waits=False)
            continue
        if known is not None and own:
            raise MessageError(f"There is another message {safe_repr(entry.key)} here. Use update() to change it.")
        if known is not None:
            book.forsake(known)
        put(book, message, said_at=entry.created_at, conversation=conversation, listed=own, key=key)
        new.append(entry.key)
    return new


def put(
    book: Book,
    message: Message,
    *,
    said_at: int,
    conversation: str | None,
    listed: bool,
    key: str | None = None,
    waits: bool = True,
) -> None:
    """Keep a message, whatever was there.

    Args:
        book: Where facts are changed.
        message: The message.
        said_at: When it was said.
        conversation: The conversation or thread that it belongs to, if it is known.
        listed: Whether it is shown and found beside the facts.
        key: Under which key. Default: its id.
        waits: Whether it is to wait for its facts to be extracted. Default: yes.
    """
    entry, now = entry_of(message, said_at), book.change.now
    told = [_said(1, now, entry.key, conversation)]
    text = RowDraft(
        TEXT,
        entry.key if key is None else key,
        entry.body,
        entry.created_at,
        label=None if listed else "read",
        extra={"told": told, "words": message.text, "role": entry.role, "speaker": entry.sender},
        subject=plain(message.role) or "",
        findable=listed,
    )
    book.change.drafts.append(text)
    if waits and message.text.strip():
        book.change.drafts.append(RowDraft(DUE, text.key, b"", now, extra={"told": told, "attempts": 0}))


def _said(number: int, now: int, message_id: str, conversation: str | None) -> dict[str, Any]:
    return given_only({"n": number, "at": now, "do": SAID, "id": message_id, "in": conversation})


def among(facts: FactView, messages: Sequence[tuple[str, str | None]]) -> dict[str, Kept]:
    """The messages that are kept under the ids of some, each given with its conversation, if that is known."""
    return facts.named(TEXT, {key for each in messages for key in _keys_of(*each)})


def chosen(here: Mapping[str, Kept], message: str, conversation: str | None) -> Kept | None:
    """The one of some messages that has an id in a conversation; None where there is none.

    Args:
        here: What `among` gave.
        message: The id.
        conversation: The conversation, if it is known.
    """
    some = [here[key] for key in _keys_of(message, conversation) if key in here]
    exact = [kept for kept in some if conversation_of(kept) == conversation]
    vague = [kept for kept in some if conversation is None or conversation_of(kept) is None]
    return next(iter((*exact, *vague)), None)


def conversation_of(kept: Kept) -> str | None:
    """The conversation or thread of a message, if it is known."""
    found: str | None = kept.extra["told"][0].get("in")
    return found


def is_listed(kept: Kept) -> bool:
    """Whether a message is shown and found beside the facts."""
    return kept.label is None


def waiting(facts: FactView, keys: Sequence[str] | None = None) -> list[Due]:
    """The messages that wait, in the order in which they came: it can matter for what holds in the end.

    Args:
        facts: From where.
        keys: Only these. Default: all.
    """
    due = {kept.key: kept for kept in facts.every(DUE)} if keys is None else facts.named(DUE, keys)
    texts = facts.named(TEXT, due)
    return [
        Due(
            key=text.key,
            attempts=due[text.key].extra["attempts"],
            message=message_of(text),
            said_at=text.created_at,
            conversation=conversation_of(text),
            listed=is_listed(text),
            failed=due[text.key].label == FAILED or due[text.key].extra["attempts"] > 0,
            until=_until(due[text.key]),
            silent=_silence(due[text.key]),
        )
        for text in sorted(texts.values(), key=lambda kept: kept.number)  # a failure writes what is due, not the text
    ]


def in_time(waits: Sequence[Due], most: int, now: int) -> tuple[list[Due], int | None]:
    """Which messages may be asked about, and in which order.

    Those that are parked come last. Of the others none goes before one that was said earlier: it can matter for what
    holds in the end.

    Args:
        waits: Those that wait, in the order in which they came.
        most: After how many attempts a message is parked.
        now: When.

    Returns:
        They, and when the next of the others may be asked about; None where there is none.
    """
    down = max((due.until for due in waits if due.silent and due.attempts < most), default=0)
    if down > now:
        return [], down
    ready = list(takewhile(lambda due: due.until <= now, (due for due in waits if due.attempts < most)))
    ready += [due for due in waits if due.attempts >= most and due.until <= now]
    return ready, min((due.until for due in waits if due.until > now), default=None)


def failed(book: Book, some: Sequence[Due], trouble: ExtractionTrouble, most: int) -> int:
    """A model gave no answer about some messages, or one that could not be used. They wait to be asked about again.

    Args:
        book: Where facts are changed.
        some: The messages.
        trouble: What went wrong.
        most: After how many attempts a message is parked.

    Returns:
        How often in a row the model is found to be down by now; 0 where it gave an answer.
    """
    waits = {kept.key: kept for kept in book.facts.every(DUE)}
    silent = 0
    if trouble.silent:  # who does not wait for the time to come finds nothing new
        keys = {due.key for due in some}
        same = [each for key, each in waits.items() if key in keys or each.extra["attempts"] < most]
        known = [_silence(each) + (_until(each) <= book.change.now) for each in same if _silence(each)]
        silent = max([1, *known])
    for due in some:
        if silent:
            _postpone(book, waits[due.key], due.attempts, backoff(silent - 1, LONGEST_SILENCE), silent)
        else:
            _blame(book, waits[due.key], most)
    if not silent:
        answered(book, some, most)
    record(book, some, trouble)
    old = book.facts.every(FAILURE)
    for kept in old[: max(0, len(old) + 1 - KEPT_FAILURES)]:
        book.change.remove(FAILURE, kept.key)
    return silent


def answered(book: Book, some: Sequence[Due], most: int) -> None:
    """A model has answered, so it is not down: what it was silent about may be asked about again.

    Args:
        book: Where facts are changed.
        some: Those that it answered about.
        most: After how many attempts a message is parked.
    """
    keys = {due.key for due in some}
    silent = [kept for kept in book.facts.every(DUE) if _silence(kept) and kept.key not in keys]
    last = max(map(_until, silent), default=0)
    for kept in silent:
        # What failed last, and later than what was answered about now, may be the reason.
        if _until(kept) == last > max(each.until for each in some):
            _blame(book, kept, most)
        else:
            _postpone(book, kept, kept.extra["attempts"], 0.0)


def _blame(book: Book, kept: Kept, most: int) -> None:
    attempts = kept.extra["attempts"]
    _postpone(book, kept, attempts + 1, backoff(attempts) if attempts + 1 < most else PARKED)


def _postpone(book: Book, kept: Kept, attempts: int, pause: float, silent: int = 0) -> None:
    until = book.change.now + int(pause * _SECOND)
    extra = {**kept.extra, "attempts": attempts, "until": until, "silent": silent}
    book.change.drafts.append(RowDraft(DUE, kept.key, b"", kept.created_at, label=FAILED, extra=extra))


def _until(kept: Kept) -> int:
    return kept.extra.get("until") or 0


def _silence(kept: Kept) -> int:
    return kept.extra.get("silent") or 0


def record(book: Book, some: Sequence[Due], trouble: ExtractionTrouble) -> None:
    """Note what went wrong.

    Args:
        book: Where facts are changed.
        some: The messages.
        trouble: What went wrong.
    """
    extra = {
        "told": resting_on(some, book.change.now),
        "rests_on_all": True,  # the answer may repeat any of them
        "error": trouble.error[:LONGEST_ANSWER],
        "answer": trouble.answer[:LONGEST_ANSWER],
    }
    book.change.drafts.append(RowDraft(FAILURE, book.new_id(), b"", book.change.now, extra=extra))


def resting_on(some: Sequence[Due], now: int) -> list[dict[str, Any]]:
    """Messages as what something rests on that was made of all of them.

    Args:
        some: The messages.
        now: When it was made.
    """
    return [_said(place, now, due.message.message_id, due.conversation) for place, due in enumerate(some, 1)]


def failures(facts: FactView, limit: int) -> list[ExtractionFailure]:
    """What went wrong, the newest last."""
    return [
        ExtractionFailure(
            message_ids=tuple(event["id"] for event in kept.extra["told"]),
            error=kept.extra["error"],
            answer=kept.extra["answer"],
            at=moment(kept.created_at),
        )
        for kept in memory_rows.newest(facts.tx, facts.view, FAILURE, limit=limit)
    ]


def _kept(here: Mapping[str, Kept], entry: LogEntry, conversation: str | None, *, own: bool) -> tuple[str, Kept | None]:
    """Under which key a message is kept, or would be, and what is there."""
    key, other = _keys_of(entry.key, conversation)
    known = here.get(key)
    if known is None or own:
        return key, known
    # A message that another part of memory has is the one that is kept, or takes its place.
    is_same = not is_listed(known) or same_body(known.body, entry.body)
    return (key, known) if is_same and conversation_of(known) == conversation else (other, here.get(other))


def _keys_of(message: str, conversation: str | None) -> tuple[str, str]:
    """The keys under which a message of a conversation may be kept: its id, and where that is taken, a longer one."""
    return message, f"{message}\x1f{conversation or ''}"
