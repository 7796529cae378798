"""What was said and is kept as it was, and which of it still waits to have its facts extracted.

What waits is in the database, in the transaction that keeps the message, so a crash loses none of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.clock import moment
from langchain_agentmem.conversations.entries import entry_of, plain
from langchain_agentmem.errors import MessageError
from langchain_agentmem.memory.facts.fact import ExtractionFailure
from langchain_agentmem.memory.facts.reading import TEXT, message_of
from langchain_agentmem.memory.facts.stating import Book
from langchain_agentmem.messages import Message, same_body
from langchain_agentmem.rewinding import rows
from langchain_agentmem.rewinding.rows import SAID, Draft, Kept, View
from langchain_agentmem.storage import Steps

DUE, FAILURE = "fact_due", "fact_failure"
KEPT_FAILURES = 100
"""How many failures are remembered."""
LONGEST_ANSWER = 2_000


class Due(NamedTuple):
    """A message that waits.

    Attributes:
        key: Its id.
        attempts: How often a model failed to extract something from it.
        message: It.
        said_at: When it was said, in microseconds since 1970.
        conversation: The conversation or thread that it belongs to, if it is known.
    """

    key: str
    attempts: int
    message: Message
    said_at: int
    conversation: str | None


class Failure(NamedTuple):
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
            which of two messages with one id counts: the one that comes later.

    Returns:
        The ids of those that were not here.

    Raises:
        MessageError: A message cannot be stored, or the id of one that belongs here is taken by other content.
    """
    change = book.change
    here = yield from rows.named(change.view, TEXT, [message.message_id for message in messages])
    new: list[str] = []
    for message in messages:
        entry = entry_of(message, change.now)
        known = here.get(entry.key)
        if known is not None and same_body(known.body, entry.body):
            continue
        if known is not None and own:
            raise MessageError(f"There is another message {entry.key!r:.100} here. Use update() to change it.")
        if known is not None:
            yield from book.forsake(entry.key, path)
        put(book, message, said_at=entry.created_at, conversation=conversation, listed=own)
        new.append(entry.key)
    return new


def put(book: Book, message: Message, *, said_at: int, conversation: str | None, listed: bool) -> None:
    """Keep a message under its id, whatever was there, and have it wait.

    Args:
        book: Where facts are changed.
        message: The message.
        said_at: When it was said.
        conversation: The conversation or thread that it belongs to, if it is known.
        listed: Whether it is shown and found beside the facts.
    """
    entry = entry_of(message, said_at)
    said: dict[str, Any] = {"n": 1, "at": book.change.now, "do": SAID, "id": entry.key}
    if conversation is not None:
        said["in"] = conversation
    book.change.drafts.append(
        Draft(
            TEXT,
            entry.key,
            entry.body,
            entry.created_at,
            label=None if listed else "read",
            extra={"told": [said], "words": message.text, "role": entry.role, "speaker": entry.sender},
            subject=plain(message.role) or "",
            findable=listed,
        )
    )
    if message.text.strip():
        book.change.drafts.append(Draft(DUE, entry.key, b"", book.change.now, extra={"told": [said], "attempts": 0}))


def is_listed(kept: Kept) -> bool:
    """Whether a message is shown and found beside the facts."""
    return kept.label is None


def waiting(view: View, keys: Sequence[str] | None = None) -> Steps[list[Due]]:
    """The messages that wait, in their order.

    Args:
        view: From where.
        keys: Only these. Default: all.
    """
    if keys is None:
        due = {kept.key: kept for kept in (yield from rows.current(view, DUE))}
    else:
        due = yield from rows.named(view, DUE, keys)
    texts = yield from rows.named(view, TEXT, list(due))
    return [_due(due[key], texts[key]) for key in due if key in texts]


def done(book: Book, due: Due) -> None:
    """A message need not wait any more."""
    book.change.remove(DUE, due.key)


def failed(book: Book, some: Sequence[Due], failure: Failure, most: int) -> Steps[bool]:
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
            found = yield from rows.named(change.view, DUE, [due.key])
            extra = {**found[due.key].extra, "attempts": due.attempts + 1}
            change.drafts.append(Draft(DUE, due.key, b"", found[due.key].created_at, extra=extra))
    record(book, [due.key for due in some], failure, given_up=given_up)
    old = yield from rows.current(change.view, FAILURE)
    for kept in old[: max(0, len(old) + 1 - KEPT_FAILURES)]:
        change.remove(FAILURE, kept.key)
    return given_up


def record(book: Book, keys: Sequence[str], failure: Failure, *, given_up: bool) -> None:
    """Note what went wrong.

    Args:
        book: Where facts are changed.
        keys: The ids of the messages.
        failure: What went wrong.
        given_up: Whether they were given up.
    """
    events = [{"n": place, "at": book.change.now, "do": SAID, "id": key} for place, key in enumerate(keys, 1)]
    extra = {
        "told": events,
        "rests_on_all": True,  # the answer may repeat any of them
        "error": failure.error[:LONGEST_ANSWER],
        "answer": failure.answer[:LONGEST_ANSWER],
        "given_up": given_up,
    }
    book.change.drafts.append(Draft(FAILURE, book.new_id(), b"", book.change.now, extra=extra))


def failures(view: View, limit: int) -> Steps[list[ExtractionFailure]]:
    """What went wrong, the newest last."""
    found = yield from rows.newest(view, FAILURE, limit=limit)
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
    said: Mapping[str, Any] = text.extra["told"][0]
    return Due(waits.key, waits.extra["attempts"], message_of(text), text.created_at, said.get("in"))
