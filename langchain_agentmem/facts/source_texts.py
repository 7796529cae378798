"""What was said and is kept as it was, and which of it still waits to have its facts extracted.

What waits is in the database, in the transaction that keeps the message, so a crash loses none of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.log_entries import entry_of
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import MessageError
from langchain_agentmem.facts.fact import ExtractionFailure
from langchain_agentmem.facts.fact_store import Book, message_of
from langchain_agentmem.messages.message import Message, plain, same_body
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import DUE, FAILURE, SAID, TEXT, Kept, RowDraft, View
from langchain_agentmem.storage import Steps

KEPT_FAILURES = 100
"""How many failures are remembered."""
LONGEST_ANSWER = 2_000


class Due(NamedTuple):
    """A message that waits.

    Attributes:
        key: The key under which it is kept.
        attempts: How often a model failed to extract something from it.
        message: It.
        said_at: When it was said, in microseconds since 1970.
        conversation: The conversation or thread that it belongs to, if it is known.
        listed: Whether it is shown and found beside the facts.
    """

    key: str
    attempts: int
    message: Message
    said_at: int
    conversation: str | None
    listed: bool = True

    @property
    def shown(self) -> tuple[str, str | None, str, int]:
        """What a model is shown of it: the speaker, the text, and the time."""
        return self.message.role, self.message.name, self.message.text, self.said_at


class ExtractionTrouble(NamedTuple):
    """What went wrong with some messages: why, and what the model said."""

    error: str
    answer: str


def keep(
    book: Book, messages: Sequence[Message], *, path: str, conversation: str | None = None, own: bool = True
) -> Steps[list[str]]:
    """Keep messages, and have them wait.

    One that is here already stays; where it says something else now, that takes the place of what it said.

    Args:
        book: Where facts are changed.
        messages: The messages.
        path: The path of the namespace.
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
    here = yield from among(book.change.view, [(entry.key, conversation) for entry in entries])
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
            yield from book.forsake(known, path)
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
    entry = entry_of(message, said_at)
    key = entry.key if key is None else key
    said: dict[str, Any] = {"n": 1, "at": book.change.now, "do": SAID, "id": entry.key}
    if conversation is not None:
        said["in"] = conversation
    book.change.drafts.append(
        RowDraft(
            TEXT,
            key,
            entry.body,
            entry.created_at,
            label=None if listed else "read",
            extra={"told": [said], "words": message.text, "role": entry.role, "speaker": entry.sender},
            subject=plain(message.role) or "",
            findable=listed,
        )
    )
    if waits and message.text.strip():
        book.change.drafts.append(RowDraft(DUE, key, b"", book.change.now, extra={"told": [said], "attempts": 0}))


def among(view: View, messages: Sequence[tuple[str, str | None]]) -> Steps[dict[str, Kept]]:
    """The messages that are kept under the ids of some, each given with its conversation, if that is known."""
    return memory_rows.named(view, TEXT, sorted({key for each in messages for key in _keys_of(*each)}))


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


def waiting(view: View, keys: Sequence[str] | None = None) -> Steps[list[Due]]:
    """The messages that wait, in the order in which they came: it can matter for what holds in the end.

    Args:
        view: From where.
        keys: Only these. Default: all.
    """
    if keys is None:
        due = {kept.key: kept for kept in (yield from memory_rows.current(view, DUE))}
    else:
        due = yield from memory_rows.named(view, DUE, keys)
    texts = yield from memory_rows.named(view, TEXT, list(due))
    in_order = sorted(texts.values(), key=lambda kept: kept.number)  # a failure writes what is due anew, not the text
    return [_due(due[kept.key], kept) for kept in in_order]


def done(book: Book, due: Due) -> None:
    """A message need not wait any more."""
    book.change.remove(DUE, due.key)


def failed(book: Book, some: Sequence[Due], failure: ExtractionTrouble, most: int) -> Steps[bool]:
    """A model could not be asked about some messages, or its answer could not be used.

    Args:
        book: Where facts are changed.
        some: The messages.
        failure: What went wrong.
        most: After how many attempts a message is given up.

    Returns:
        Whether they were given up.
    """
    change = book.change
    given_up = all(due.attempts + 1 >= most for due in some)
    for due in some:
        if due.attempts + 1 >= most:
            done(book, due)
        else:
            found = yield from memory_rows.named(change.view, DUE, [due.key])
            extra = {**found[due.key].extra, "attempts": due.attempts + 1}
            change.drafts.append(RowDraft(DUE, due.key, b"", found[due.key].created_at, extra=extra))
    record(book, some, failure, given_up=given_up)
    old = yield from memory_rows.current(change.view, FAILURE)
    for kept in old[: max(0, len(old) + 1 - KEPT_FAILURES)]:
        change.remove(FAILURE, kept.key)
    return given_up


def record(book: Book, some: Sequence[Due], failure: ExtractionTrouble, *, given_up: bool) -> None:
    """Note what went wrong.

    Args:
        book: Where facts are changed.
        some: The messages.
        failure: What went wrong.
        given_up: Whether they were given up.
    """
    extra = {
        "told": resting_on(some, book.change.now),
        "rests_on_all": True,  # the answer may repeat any of them
        "error": failure.error[:LONGEST_ANSWER],
        "answer": failure.answer[:LONGEST_ANSWER],
        "given_up": given_up,
    }
    book.change.drafts.append(RowDraft(FAILURE, book.new_id(), b"", book.change.now, extra=extra))


def resting_on(some: Sequence[Due], now: int) -> list[dict[str, Any]]:
    """Messages as what something rests on that was made of all of them.

    Args:
        some: The messages.
        now: When it was made.
    """
    events: list[dict[str, Any]] = [
        {"n": place, "at": now, "do": SAID, "id": due.message.message_id} for place, due in enumerate(some, 1)
    ]
    for event, due in zip(events, some, strict=True):
        if due.conversation is not None:
            event["in"] = due.conversation
    return events


def failures(view: View, limit: int) -> Steps[list[ExtractionFailure]]:
    """What went wrong, the newest last."""
    found = yield from memory_rows.newest(view, FAILURE, limit=limit)
    return [
        ExtractionFailure(
            message_ids=tuple(event["id"] for event in kept.extra["told"]),
            error=kept.extra["error"],
            answer=kept.extra["answer"],
            at=moment(kept.created_at),
            given_up=kept.extra["given_up"],
        )
        for kept in found
    ]


def _due(waits: Kept, text: Kept) -> Due:
    attempts: int = waits.extra["attempts"]
    return Due(waits.key, attempts, message_of(text), text.created_at, conversation_of(text), is_listed(text))


def _stands_for(kept: Kept, body: bytes, conversation: str | None) -> bool:
    """Whether a message that another part of memory has is the one that is kept, or takes its place."""
    return conversation_of(kept) == conversation and (not is_listed(kept) or same_body(kept.body, body))


def _kept(here: Mapping[str, Kept], entry: LogEntry, conversation: str | None, *, own: bool) -> tuple[str, Kept | None]:
    """Under which key a message is kept, or would be, and what is there."""
    key, other = _keys_of(entry.key, conversation)
    known = here.get(key)
    if known is not None and not own and not _stands_for(known, entry.body, conversation):
        return other, here.get(other)
    return key, known


def _keys_of(message: str, conversation: str | None) -> tuple[str, str]:
    """The keys under which a message of a conversation may be kept: its id, and where that is taken, a longer one."""
    return message, f"{message}\x1f{conversation or ''}"
