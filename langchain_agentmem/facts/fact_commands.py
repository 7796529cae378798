"""Changes of facts and of what was said, and the checks of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.argument_checks import text_given
from langchain_agentmem.base.clock import EARLIEST, time_given
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.log_entries import changed
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.facts import fact_events, source_texts
from langchain_agentmem.facts.fact import name_of
from langchain_agentmem.facts.fact_events import RULE
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.facts.fact_store import Book, FactView, message_of, state_of
from langchain_agentmem.messages.message import Message, MessageLike
from langchain_agentmem.rewinding.memory_rows import DUE, FACT, FAILURE, FORMER, TEXT, RowDraft, body_of

DESCRIPTION = "description"
"""The key of the text with which a memory begins."""

FactSource: TypeAlias = "str | MessageLike | tuple[str, str]"
"""A message that says something: its id, or the message; or a pair of its id and that of its conversation."""


def keep(
    ground: FactsGround,
    messages: Sequence[Message],
    *,
    conversation: str | None = None,
    own: bool = True,
    name: str | None = None,
) -> list[str]:
    """Keep messages as they are, and have them wait. Returns the ids of those that were not here.

    Raises:
        MessageError: A message cannot be stored, or the id of one that belongs here is taken by other content.
    """

    def make(book: Book) -> list[str]:
        describe(book, ground.description)
        return source_texts.keep(book, messages, conversation=conversation, own=own)

    return ground.edit(name, make, messages=messages)


def describe(book: Book, description: str | None) -> None:
    """See that a memory begins with a text; None leaves it as it is."""
    if description is not None and description_of(book.facts) != description:
        book.change.drafts.append(RowDraft(RULE, DESCRIPTION, body_of(description), book.change.now, label=DESCRIPTION))


def description_of(facts: FactView) -> str | None:
    """The text with which a memory begins, if one was written."""
    return next((kept.text for kept in facts.named(RULE, [DESCRIPTION]).values()), None)


def update(book: Book, key: str, changes: Mapping[str, Any]) -> bool:
    """Change a fact, or what was said. Returns whether something waits to be extracted now.

    Raises:
        MessageError: There is neither, or a change does not fit.
    """
    said = book.facts.named(TEXT, [key]).get(key)
    if said is not None:
        message = changed(message_of(said), changes)
        book.forsake(said)
        there, listed = source_texts.conversation_of(said), source_texts.is_listed(said)
        source_texts.put(book, message, said_at=said.created_at, conversation=there, listed=listed)
        return True
    kept = book.facts.row(key)
    if fact_events.state(kept.extra) is None:
        raise MessageError(f"The fact {safe_repr(key)} was taken back. Call undo() to have it again first.")
    book.correct(kept, fields_given(kept.extra, changes))
    return False


def remove(book: Book, key: str) -> bool:
    """Have a fact, or what was said, be gone. Returns whether it was there."""
    if (said := book.facts.named(TEXT, [key]).get(key)) is not None:
        book.forsake(said)
        book.change.remove(TEXT, key)
        book.change.remove(DUE, key)
        return True
    if (kept := book.facts.named(FACT, [key]).get(key)) is not None:
        book.remove(kept)
    return kept is not None


def clear(book: Book, *, rules: bool = False) -> int:
    """Have facts, texts and aliases be gone; with `rules` also what is declared, and the description.

    Returns how much is gone.
    """
    gone = [
        kept
        for kind in (FACT, TEXT, DUE, FORMER, FAILURE, RULE)
        for kept in book.facts.every(kind)
        if kind != RULE or rules or kept.label == "alias"
    ]
    for kept in gone:
        book.change.remove(kept.kind, kept.key)
    return len(gone)


def role_given(role: Any) -> str:
    """A role that somebody gave.

    Raises:
        InvalidInput: It is no text, or empty.
    """
    if not isinstance(role, str) or not role.strip():
        raise InvalidInput(f'A role is text such as "user", not {safe_repr(role)}.')
    return role


def sources_given(source: Any, *, listed: bool = False) -> list[tuple[str, str | None]]:
    """The messages that somebody names as sources, each with its conversation, if they know it."""
    if source is None:
        return []
    if isinstance(source, tuple) and len(source) == 2 and all(isinstance(each, str) for each in source):  # noqa: PLR2004
        return [(id_of(source[0], "message", MessageError), id_of(source[1], "conversation"))]
    if isinstance(source, list | set | frozenset | tuple) and not listed:
        return [pair for each in source for pair in sources_given(each, listed=True)]
    key = source.id if isinstance(source, BaseMessage) else getattr(source, "message_id", source)
    if not isinstance(key, str):
        raise InvalidInput(
            "A source is the id of a message, a message that has one, a pair of the ids of a message and its "
            f"conversation, or a list of such, not {safe_repr(source)}."
        )
    return [(id_of(key, "message", MessageError), None)]


def confidence_given(confidence: Any) -> float | None:
    """A confidence that somebody gave, if they gave one."""
    if confidence is None:
        return None
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        raise InvalidInput(f"A confidence is a number from 0 to 1, not {safe_repr(confidence)}.")
    return float(confidence)


def check_order(start: int | None, end: int | None) -> None:
    """Check that a fact begins before it ends."""
    if end is not None and (EARLIEST if start is None else start) >= end:
        raise InvalidInput("valid_to must come after valid_from: a fact holds up to, but not at, valid_to.")


def thing_given(value: Any, what: str) -> str:
    """A subject or object that somebody gave, without secrets."""
    return name_of(redact(text_given(value, what)), what)


def _end_given(value: Any) -> dict[str, Any]:
    return {"end": None, "lasting": True} if value is None else {"end": time_given(value, "valid_to")}


_FACT_FIELDS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "role": lambda value: {"role": role_given(value)},
    "subject": lambda value: {"subject": thing_given(value, "The subject")},
    "predicate": lambda value: {"predicate": name_of(value, "The predicate")},
    "obj": lambda value: {"object": thing_given(value, "The object")},
    "object": lambda value: {"object": thing_given(value, "The object")},
    "valid_from": lambda value: {"start": time_given(value, "valid_from"), "given": True},
    "valid_to": _end_given,
    "confidence": lambda value: {"sure": confidence_given(value)},
}
"""What can be changed of a fact, and the fields of its state that a value stands for."""


def fields_given(extra: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes that somebody wants of a fact, as fields of its state."""
    if not changes or (unknown := [name for name in changes if name not in _FACT_FIELDS]):
        what = f"{safe_repr(unknown[0])} is none of them" if changes else "none is given"
        raise MessageError(f"What can be changed of a fact is {', '.join(_FACT_FIELDS)}; {what}.")
    known = state_of(extra)
    fields: dict[str, Any] = {}
    for name, value in changes.items():
        fields |= _FACT_FIELDS[name](value)
    check_order(fields.get("start", known.start), fields.get("end", known.end))
    return fields
