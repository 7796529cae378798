"""Facts as plain records, to leave one database and enter another.

A record is one thing that is kept: a fact with all that was told of it, what was said, what is agreed on names. What
comes from a file is checked whole before anything is written: a memory that takes in what it cannot read is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_agentmem.base.clock import is_time
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.facts.entity_names import entity_key, predicate_key
from langchain_agentmem.facts.fact_events import BESIDE, state, told
from langchain_agentmem.facts.predicate_rules import RULE
from langchain_agentmem.messages import decode_body
from langchain_agentmem.rewinding.memory_rows import (
    DUE,
    FACT,
    FAILURE,
    FORMER,
    SAID,
    TEXT,
    Draft,
    Kept,
    body_of,
    text_of,
)
from langchain_agentmem.rewinding.message_sources import SET, UNDO

KINDS = (RULE, TEXT, DUE, FACT, FORMER)
"""What is kept in a file."""
CHECKED = (*KINDS, FAILURE)
"""What can be told to be whole."""

_NAMES = ("subject", "predicate", "object", "role")


def record_of(kept: Kept) -> dict[str, Any]:
    """Something that is kept, as a record that JSON knows."""
    return {
        "kind": kept.kind,
        "id": kept.key,
        "label": kept.label,
        "body": text_of(kept.body),
        "created_at": kept.created_at,
        "extra": dict(kept.extra),
    }


def draft_of(record: Any) -> Draft:
    """What a record says, to be written.

    Raises:
        InvalidInput: The record is damaged.
    """
    try:
        return _draft(record)
    except (AttributeError, DatabaseUnreadable, KeyError, StopIteration, TypeError, ValueError) as error:
        raise InvalidInput(
            f"The file is damaged: this is no record of a memory of facts: {safe_repr(record)}."
        ) from error


def _draft(record: Any) -> Draft:
    _check(isinstance(record, dict))
    kind, key, extra, label = _text(record["kind"]), _text(record["id"]), record["extra"], record["label"]
    _check(bool(key) and isinstance(extra, dict) and isinstance(label, str | None) and is_time(record["created_at"]))
    draft = Draft(kind, key, body_of(_text(record["body"])), record["created_at"], label=label, extra=extra)
    return _KINDS[kind](draft, extra)


def _fact(draft: Draft, extra: Mapping[str, Any]) -> Draft:
    for name in _NAMES:
        _text(extra[name])
    _facts_events(extra["told"])
    known = state(extra)
    there = known or told(extra)
    return draft._replace(
        label=predicate_key(there.predicate),
        subject=entity_key(there.subject),
        object=entity_key(there.object),
        findable=known is not None,
    )


def _former(draft: Draft, extra: Mapping[str, Any]) -> Draft:
    subject, predicate, obj = map(_text, extra["names"])
    _text(extra["fact"])
    _facts_events(extra["told"])
    return draft._replace(label=predicate_key(predicate), subject=entity_key(subject), object=entity_key(obj))


def _said(draft: Draft, extra: Mapping[str, Any]) -> Draft:
    _events(extra["told"])
    decode_body(draft.body or b"", _text(extra["told"][0]["id"]))
    _text(extra["words"])
    _check(isinstance(extra.get("speaker"), str | None))
    return draft._replace(subject=_text(extra["role"]), findable=draft.label is None)


def _due(draft: Draft, extra: Mapping[str, Any]) -> Draft:
    _events(extra["told"])
    _whole(extra["attempts"])
    return draft


def _failure(draft: Draft, extra: Mapping[str, Any]) -> Draft:
    _events(extra["told"])
    for name in ("error", "answer"):
        _text(extra[name])
    _check(isinstance(extra["given_up"], bool))
    return draft


def _rule(draft: Draft, extra: Mapping[str, Any]) -> Draft:
    if draft.label == "alias":
        for name in ("name", "into", "why"):
            _text(extra[name])
        _check(isinstance(extra["merged"], bool))
    elif draft.label == "single":
        _check(isinstance(extra["single"], bool))
    else:
        _check(draft.label == "description")
    if "told" in extra:
        _events(extra["told"])
    return draft


_KINDS: Mapping[str, Callable[[Draft, Mapping[str, Any]], Draft]] = {
    RULE: _rule,
    TEXT: _said,
    DUE: _due,
    FACT: _fact,
    FORMER: _former,
    FAILURE: _failure,
}


def _events(events: Any) -> None:
    """Check what something rests on."""
    _check(isinstance(events, list))
    for event in events:
        _whole(event["n"])
        _check(is_time(event["at"]) and event["do"] in {SAID, SET, BESIDE, UNDO})
        for name in ("id", "in"):
            if name in event:
                _text(event[name])
    _check(any(event["do"] == SAID for event in events))


def _facts_events(events: Any) -> None:
    """Check all that was told of a fact."""
    _events(events)
    for event in events:
        if event["do"] == SAID:
            _text(event["role"])
            _check(is_time(event["from"]) and (event["to"] is None or is_time(event["to"])))
            _check(isinstance(event.get("given", False), bool) and _is_sure(event.get("sure")))
        elif event["do"] == SET:
            for name, value in event["fields"].items():
                _check(_FIELDS[name](value))
        elif event["do"] == BESIDE:
            for key in event["of"]:
                _text(key)
        else:
            _whole(event["of"])


def _is_sure(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1)


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_NAMES, lambda value: isinstance(value, str)),
    **dict.fromkeys(("given", "lasting"), lambda value: isinstance(value, bool)),
    "start": is_time,
    "end": lambda value: value is None or is_time(value),
    "sure": _is_sure,
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _whole(value: Any) -> None:
    _check(isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)


def _check(right: bool) -> None:  # noqa: FBT001
    if not right:
        raise ValueError(right)
