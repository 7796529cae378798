"""Changes of facts and of what was said, and the checks of their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.argument_checks import text_given
from langchain_agentmem.base.clock import EARLIEST, time_given
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.log_entries import changed
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.facts import fact_events, fact_store, source_texts
from langchain_agentmem.facts.fact import name_of
from langchain_agentmem.facts.fact_events import RULE
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.messages.message import Message, MessageLike
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import Change, inputs_of
from langchain_agentmem.rewinding.memory_rows import DUE, FACT, FAILURE, FORMER, TEXT, RowDraft, View, body_of
from langchain_agentmem.storage import Transaction

DESCRIPTION = "description"
"""The key of the text with which a memory begins."""
_FACT_FIELDS = ("role", "subject", "predicate", "obj", "object", "valid_from", "valid_to", "confidence")


FactSource: TypeAlias = "str | MessageLike | tuple[str, str]"
"""A message that says something: its id, or the message; or a pair of its id and that of its conversation."""


def keep(
    ground: FactsGround,
    messages: Sequence[Message],
    *,
    conversation: str | None = None,
    own: bool = True,
    shown: bool = True,
) -> list[str]:
    """Keep messages as they are, and have them wait. Returns the ids of those that were not here.

    Raises:
        MessageError: A message cannot be stored, or the id of one that belongs here is taken by other content.
    """

    def make(tx: Transaction, change: Change) -> list[str]:
        book = ground.book(tx, change)
        describe(tx, change, ground.description)
        path = ground.point.path
        return source_texts.keep(tx, book, messages, path=path, conversation=conversation, own=own)

    told = partial(fact_store.messages_shown, messages)
    name = "facts.add" if shown else None
    return ground.write(name, make, outputs=lambda new: {"message_ids": new}, messages=told)


def describe(tx: Transaction, change: Change, description: str | None) -> None:
    """See that a memory begins with a text; None leaves it as it is."""
    if description is None:
        return
    known = memory_rows.named(tx, change.view, RULE, [DESCRIPTION])
    if DESCRIPTION not in known or known[DESCRIPTION].text != description:
        change.drafts.append(RowDraft(RULE, DESCRIPTION, body_of(description), change.now, label=DESCRIPTION))


def description_of(ground: FactsGround) -> str | None:
    """The text with which a memory begins, if it has one; it is written with the first change."""

    def look(tx: Transaction, view: View) -> str | None:
        known = memory_rows.named(tx, view, RULE, [DESCRIPTION])
        return known[DESCRIPTION].text if known else ground.description

    return ground.read(None, look)


def update(ground: FactsGround, key: str, changes: Mapping[str, Any]) -> bool:
    """Change a fact, or what was said. Returns whether something waits to be extracted now.

    Raises:
        MessageError: There is neither, or a change does not fit.
    """
    text_given(key, "An id")

    def make(tx: Transaction, change: Change) -> bool:
        book = ground.book(tx, change)
        said = memory_rows.named(tx, change.view, TEXT, [key])
        if key in said:
            kept = said[key]
            event = kept.extra["told"][0]
            message = changed(fact_store.message_of(kept), changes)
            book.forsake(tx, kept, ground.point.path)
            source_texts.put(
                book,
                message,
                said_at=kept.created_at,
                conversation=event.get("in"),
                listed=source_texts.is_listed(kept),
            )
            return True
        kept = fact_store.fact_there(tx, change.view, key)
        if fact_events.state(kept.extra) is None:
            raise MessageError(f"The fact {safe_repr(key)} was taken back. Call undo() to have it again first.")
        book.correct(kept, fields_given(kept.extra, changes))
        return False

    told: dict[str, Any] = {"id": key, "changes": lambda: inputs_of(changes)}
    return ground.write("facts.update", make, outputs=lambda waits: {"kind": "message" if waits else "fact"}, **told)


def clear(tx: Transaction, change: Change, *, rules: bool = False) -> None:
    """Have facts, texts and aliases be gone; with `rules` also what is declared, and the description."""
    for kind in (FACT, TEXT, DUE, FORMER, FAILURE, RULE):
        for kept in memory_rows.current(tx, change.view, kind):
            if kind != RULE or rules or kept.label == "alias":
                change.remove(kind, kept.key)


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


def fields_given(extra: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes that somebody wants of a fact, as fields of its state."""
    if not changes or (unknown := [name for name in changes if name not in _FACT_FIELDS]):
        what = f"{safe_repr(unknown[0])} is none of them" if changes else "none is given"
        raise MessageError(f"What can be changed of a fact is {', '.join(_FACT_FIELDS)}; {what}.")
    known = fact_store.state_of(extra)
    fields: dict[str, Any] = {}
    for name, value in changes.items():
        if name in ("subject", "obj", "object"):
            what = "subject" if name == "subject" else "object"
            fields[what] = name_of(redact(text_given(value, f"The {what}")), f"The {what}")
        elif name == "predicate":
            fields["predicate"] = name_of(value, "The predicate")
        elif name == "role":
            fields["role"] = role_given(value)
        elif name == "confidence":
            fields["sure"] = confidence_given(value)
        elif name == "valid_from":
            fields |= {"start": time_given(value, name), "given": True}
        else:
            fields["end"] = None if value is None else time_given(value, name)
            if value is None:
                fields["lasting"] = True
    check_order(fields.get("start", known.start), fields.get("end", known.end))
    return fields
