"""What a caller changes about facts. Each call is one transaction; what is given is checked before that begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.argument_checks import check_flag, text_given
from langchain_agentmem.base.clock import EARLIEST, time_given
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.log_entries import changed
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.facts import fact_events, fact_store, source_texts
from langchain_agentmem.facts.fact import Alias, entity_key, name_of
from langchain_agentmem.facts.fact_events import RULE, apart, declared, named_alike
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.facts.fact_store import FactStatement, SpokenTurn
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.messages.message import Message, MessageLike
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import Change, changing, inputs_of, looking
from langchain_agentmem.rewinding.memory_rows import DUE, FACT, FAILURE, FORMER, TEXT, RowDraft, View, body_of
from langchain_agentmem.storage import Steps

DESCRIPTION = "description"
"""The key of the text with which a memory begins."""
_FACT_FIELDS = ("role", "subject", "predicate", "obj", "object", "valid_from", "valid_to", "confidence")


FactSource: TypeAlias = "str | MessageLike | tuple[str, str]"
"""A message that says something: its id, or the message; or a pair of its id and that of its conversation."""


def add_fact_work(
    ground: FactsGround,
    role: str,
    subject: str,
    predicate: str,
    obj: str,
    *,
    valid_from: datetime | None = None,
    valid_to: datetime | None = None,
    source: FactSource | Iterable[FactSource] | None = None,
    confidence: float | None = None,
) -> Work[str]:
    """State a fact. What holds already gets another source.

    Args:
        ground: The facts.
        role: Who says so, such as "user".
        subject: What it is about.
        predicate: What it says, such as "lives in".
        obj: Of what, or whom.
        valid_from: Since when it holds. Default: since it was said: the time of its source if that was added here,
            else now. Of what had ended by then only the last moment is known.
        valid_to: When it ceased to hold. Default: it goes on, until another value ends it.
        source: The message that says so: its id, or the message itself; a pair of its id and that of its
            conversation; or a list of such, which all tell of this one fact. Default: whoever calls says so.
        confidence: How sure they are, from 0 to 1. Default: nothing is said.

    Returns:
        The id of the fact.

    Raises:
        InvalidInput: An argument is wrong.
    """
    start = None if valid_from is None else time_given(valid_from, "valid_from")
    end = None if valid_to is None else time_given(valid_to, "valid_to")
    _in_order(start, end)
    said = FactStatement(
        role=role_given(role),
        subject=name_of(ground.clean(text_given(subject, "The subject")), "The subject"),
        predicate=name_of(predicate, "The predicate"),
        object=name_of(ground.clean(text_given(obj, "The object")), "The object"),
        start=start,
        end=end,
        sure=_sure(confidence),
    )
    sources = _sources(source)

    def make(change: Change) -> Steps[tuple[str, list[SpokenTurn]]]:
        book = yield from ground.book(change)
        here = (yield from source_texts.among(change.view, sources)) if sources else {}
        key = ""
        for message, conversation in sources:
            text = source_texts.chosen(here, message, conversation)
            at = None if text is None else text.created_at
            told = said._replace(message=message, conversation=conversation, said_at=at)
            key = yield from book.tell(told, key or None)
        return key or (yield from book.tell(said)), book.turns

    fact_id, _ = yield from changing(
        ground,
        "facts.add_fact",
        make,
        outputs=lambda done: {"fact_id": done[0], **fact_store.turns_shown(done[1])},
        role=said.role,
        subject=said.subject,
        predicate=said.predicate,
        object=said.object,
        message_ids=[message for message, _ in sources],
    )
    return fact_id


def keep(
    ground: FactsGround,
    messages: Sequence[Message],
    *,
    conversation: str | None = None,
    own: bool = True,
    shown: bool = True,
) -> Work[list[str]]:
    """Keep messages as they are, and have them wait. Returns the ids of those that were not here.

    Raises:
        MessageError: A message cannot be stored, or the id of one that belongs here is taken by other content.
    """

    def make(change: Change) -> Steps[list[str]]:
        book = yield from ground.book(change)
        yield from describe(change, ground.description)
        path = ground.point.path
        return (yield from source_texts.keep(book, messages, path=path, conversation=conversation, own=own))

    told = partial(fact_store.messages_shown, messages)
    return changing(ground, "facts.add", make, outputs=lambda new: {"message_ids": new}, shown=shown, messages=told)


def describe(change: Change, description: str | None) -> Steps[None]:
    """See that a memory begins with a text; None leaves it as it is."""
    if description is None:
        return
    known = yield from memory_rows.named(change.view, RULE, [DESCRIPTION])
    if DESCRIPTION not in known or known[DESCRIPTION].text != description:
        change.drafts.append(RowDraft(RULE, DESCRIPTION, body_of(description), change.now, label=DESCRIPTION))


def description_of(ground: FactsGround) -> Work[str | None]:
    """The text with which a memory begins, if it has one; it is written with the first change."""

    def look(view: View) -> Steps[str | None]:
        known = yield from memory_rows.named(view, RULE, [DESCRIPTION])
        return known[DESCRIPTION].text if known else ground.description

    return looking(ground, "facts.description", look, shown=False)


def update(ground: FactsGround, key: str, changes: Mapping[str, Any]) -> Work[bool]:
    """Change a fact, or what was said. Returns whether something waits to be extracted now.

    Raises:
        MessageError: There is neither, or a change does not fit.
    """
    text_given(key, "An id")

    def make(change: Change) -> Steps[bool]:
        book = yield from ground.book(change)
        said = yield from memory_rows.named(change.view, TEXT, [key])
        if key in said:
            kept = said[key]
            event = kept.extra["told"][0]
            message = changed(fact_store.message_of(kept), changes)
            yield from book.forsake(kept, ground.point.path)
            source_texts.put(
                book,
                message,
                said_at=kept.created_at,
                conversation=event.get("in"),
                listed=source_texts.is_listed(kept),
            )
            return True
        kept = yield from fact_store.fact_there(change.view, key)
        if fact_events.state(kept.extra) is None:
            raise MessageError(f"The fact {safe_repr(key)} was taken back. Call undo() to have it again first.")
        book.correct(kept, fields_given(ground, kept.extra, changes))
        return False

    return changing(
        ground,
        "facts.update",
        make,
        outputs=lambda waits: {"kind": "message" if waits else "fact"},
        id=key,
        changes=lambda: inputs_of(changes),
    )


def undo_work(ground: FactsGround, fact_id: str) -> Work[None]:
    """Take back the last thing that happened to a fact; once more, and it is as it was before.

    If another value ended it, it goes on beside that, as a contradiction. Else the last that was said or corrected
    of it does not count; a fact that is new is gone, and what it had ended goes on.

    Args:
        ground: The facts.
        fact_id: Which fact.

    Raises:
        MessageError: There is no such fact.
    """
    text_given(fact_id, "An id")

    def make(change: Change) -> Steps[fact_events.State | None]:
        book = yield from ground.book(change)
        yield from book.undo((yield from fact_store.fact_there(change.view, fact_id)))
        return fact_events.state(book.written[fact_id].extra)

    yield from changing(ground, "facts.undo", make, outputs=fact_store.state_shown, fact_id=fact_id)


def remove_by_id_work(ground: FactsGround, message_id: str) -> Work[bool]:
    """Delete a fact; or what was said, with the facts that no other message tells of. What it had ended goes on.

    Args:
        ground: The facts.
        message_id: The id of either.

    Returns:
        Whether it was there.
    """
    text_given(message_id, "An id")

    def make(change: Change) -> Steps[list[RowDraft]]:
        book = yield from ground.book(change)
        said = yield from memory_rows.named(change.view, TEXT, [message_id])
        if message_id in said:
            yield from book.forsake(said[message_id], ground.point.path)
            change.remove(TEXT, message_id)
            change.remove(DUE, message_id)
            return change.drafts
        facts = yield from memory_rows.named(change.view, FACT, [message_id])
        if message_id in facts:
            yield from book.remove(facts[message_id])
        return change.drafts if message_id in facts else []

    return bool((yield from changing(ground, "facts.remove", make, outputs=fact_store.removed_shown, id=message_id)))


def reset(ground: FactsGround) -> Work[None]:
    """Delete everything but the description, and what is declared of predicates."""

    def make(change: Change) -> Steps[dict[str, int]]:
        yield from clear(change)
        gone = fact_store.kinds_shown(draft.kind for draft in change.drafts)
        yield from describe(change, ground.description)
        return gone

    yield from changing(ground, "facts.reset", make, outputs=lambda gone: {"removed": gone})


def clear(change: Change, *, rules: bool = False) -> Steps[None]:
    """Have facts, texts and aliases be gone; with `rules` also what is declared, and the description."""
    for kind in (FACT, TEXT, DUE, FORMER, FAILURE, RULE):
        for kept in (yield from memory_rows.current(change.view, kind)):
            if kind != RULE or rules or kept.label == "alias":
                change.remove(kind, kept.key)


def declare_work(ground: FactsGround, *predicates: str, single_valued: bool = True) -> Work[None]:
    """Say that predicates have one value at a time, such as "lives in", so that a new one ends the one before.

    It counts for what is known already, too, and can be taken back: no fact is changed by it.

    Args:
        ground: The facts.
        *predicates: Their names.
        single_valued: Whether they have. Default: True.

    Raises:
        InvalidInput: A name cannot be one, or `single_valued` is neither True nor False.
    """
    check_flag("single_valued", single_valued)
    names = [name_of(each, "A predicate") for each in predicates]

    def make(change: Change) -> Steps[None]:
        yield from ground.book(change)
        change.drafts += [declared(name, single=single_valued, now=change.now) for name in names]

    yield from changing(
        ground,
        "facts.declare",
        make,
        outputs=lambda _: {"declared": len(names)},
        predicates=names,
        single_valued=single_valued,
    )


def merge_work(ground: FactsGround, name: str, into: str) -> Work[None]:
    """Have two names mean one thing. Facts stay as they were told; `unmerge` takes it back.

    Args:
        ground: The facts.
        name: The one name.
        into: The name that both go by from now on.

    Raises:
        InvalidInput: They are merged the other way round.
    """
    name, into = name_of(name, "A name"), name_of(into, "A name")

    def make(change: Change) -> Steps[bool]:
        agreed = yield from ground.rules(change.view)
        if agreed.canonical(name) == agreed.canonical(into):
            if entity_key(name) == entity_key(into) or agreed.canonical(name) != entity_key(name):
                return False  # it is so already
            raise InvalidInput(
                f"{safe_repr(into)} is merged into {safe_repr(name)}. Take that back with "
                f"unmerge({safe_repr(into)}) first."
            )
        change.drafts.append(named_alike(Alias(name=name, into=into, merged=True), change.now))
        return True

    yield from changing(ground, "facts.merge", make, outputs=lambda new: {"merged": new}, alias=name, same_as=into)


def unmerge_work(ground: FactsGround, name: str) -> Work[bool]:
    """Have a name mean only itself again, or refuse a proposal.

    Args:
        ground: The facts.
        name: The name that was merged.

    Returns:
        Whether it was merged, or proposed to be.
    """
    name = name_of(name, "A name")

    def make(change: Change) -> Steps[bool]:
        agreed = yield from ground.rules(change.view)
        there = entity_key(name) in agreed.aliases
        if there:
            change.drafts.append(apart(name, change.now))
        return there

    return changing(ground, "facts.unmerge", make, outputs=lambda was: {"unmerged": was}, alias=name)


def role_given(role: Any) -> str:
    """A role that somebody gave.

    Raises:
        InvalidInput: It is no text, or empty.
    """
    if not isinstance(role, str) or not role.strip():
        raise InvalidInput(f'A role is text such as "user", not {safe_repr(role)}.')
    return role


def _sources(source: Any, *, listed: bool = False) -> list[tuple[str, str | None]]:
    """The messages that somebody names as sources, each with its conversation, if they know it."""
    if source is None:
        return []
    if isinstance(source, tuple) and len(source) == 2 and all(isinstance(each, str) for each in source):  # noqa: PLR2004
        return [(id_of(source[0], "message", MessageError), id_of(source[1], "conversation"))]
    if isinstance(source, list | set | frozenset | tuple) and not listed:
        return [pair for each in source for pair in _sources(each, listed=True)]
    key = source.id if isinstance(source, BaseMessage) else getattr(source, "message_id", source)
    if not isinstance(key, str):
        raise InvalidInput(
            "A source is the id of a message, a message that has one, a pair of the ids of a message and its "
            f"conversation, or a list of such, not {safe_repr(source)}."
        )
    return [(id_of(key, "message", MessageError), None)]


def _sure(confidence: Any) -> float | None:
    if confidence is None:
        return None
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        raise InvalidInput(f"A confidence is a number from 0 to 1, not {safe_repr(confidence)}.")
    return float(confidence)


def _in_order(start: int | None, end: int | None) -> None:
    if end is not None and (EARLIEST if start is None else start) >= end:
        raise InvalidInput("valid_to must come after valid_from: a fact holds up to, but not at, valid_to.")


def fields_given(ground: FactsGround, extra: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes that somebody wants of a fact, as fields of its state."""
    if not changes or (unknown := [name for name in changes if name not in _FACT_FIELDS]):
        what = f"{safe_repr(unknown[0])} is none of them" if changes else "none is given"
        raise MessageError(f"What can be changed of a fact is {', '.join(_FACT_FIELDS)}; {what}.")
    known = fact_store.state_of(extra)
    fields: dict[str, Any] = {}
    for name, value in changes.items():
        if name in ("subject", "obj", "object"):
            what = "subject" if name == "subject" else "object"
            fields[what] = name_of(ground.clean(text_given(value, f"The {what}")), f"The {what}")
        elif name == "predicate":
            fields["predicate"] = name_of(value, "The predicate")
        elif name == "role":
            fields["role"] = role_given(value)
        elif name == "confidence":
            fields["sure"] = _sure(value)
        elif name == "valid_from":
            fields |= {"start": time_given(value, name), "given": True}
        else:
            fields["end"] = None if value is None else time_given(value, name)
            if value is None:
                fields["lasting"] = True
    _in_order(fields.get("start", known.start), fields.get("end", known.end))
    return fields
