"""Whether facts are whole: that what was told of them can be read, and that they are looked up by what they say."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.facts import fact_events, fact_records, fact_store
from langchain_agentmem.facts.fact import sentence
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import FACT, FORMER
from langchain_agentmem.storage import Steps, query

PAGE = 500


def problems() -> Steps[list[str]]:
    """What is wrong with facts, and with what is kept beside them.

    Returns:
        Sentences; empty when all is well.
    """
    found: list[str] = []
    after = 0
    kinds = fact_store.as_json(fact_records.CHECKED)
    while page := (yield query.facts_after(after=after, kinds=kinds, limit=PAGE)):
        after = page[-1]["id"]
        for row in page:
            trouble = _trouble(row, _body(row["body"]), _extra(row["extra"]))
            if trouble is None and row["origin"] is None and row["document_id"] is None and _is_found(row):
                trouble = "is not in the index"
            if trouble is not None:
                found.append(f"memory {row['id']}, a {row['kind'].replace('_', ' ')}, {trouble}")
    return found


def refuse(told: Iterable[Mapping[str, Any]]) -> None:
    """Refuse records of an export that are facts, or belong to them, and that nobody could read here.

    Args:
        told: Records of versions, as `rewinding/transfer.py` writes them.

    Raises:
        InvalidInput: One of them is damaged.
    """
    for record in told:
        if record["kind"] in fact_records.CHECKED and record["body"] is not None:
            trouble = _trouble(record, _body(b64decode(record["body"])), record["extra"])
            if trouble is not None:
                raise InvalidInput(f"A record of what is remembered is damaged: {safe_repr(record['key'])} {trouble}.")


def _trouble(row: Any, body: str | None, extra: Any) -> str | None:
    """What is wrong with something, if anything is."""
    record = {"kind": row["kind"], "id": row["key"], "label": row["label"], "body": body,
              "created_at": row["created_at"], "extra": {} if extra is None else extra}  # fmt: skip
    try:
        draft = fact_records.draft_of(record)
    except InvalidInput:
        return "cannot be read"
    if row["kind"] == FACT and fact_events.state(record["extra"]) is None:
        return None  # what was taken back is looked up by nobody but who knows its id
    if row["kind"] in (FACT, FORMER):
        if (row["label"], row["subject"], row["object"]) != (draft.label, draft.subject, draft.object):
            return "is not looked up by what it says"
        names = record["extra"]["names"] if row["kind"] == FORMER else fact_store.names_of(record["extra"])
        if body != sentence(*names):
            return "does not say what was told of it"
    return None


def _is_found(row: Any) -> bool:
    """Whether a search is to find something that is whole."""
    if row["kind"] == FACT:
        return fact_events.state(json.loads(row["extra"])) is not None
    return row["kind"] == memory_rows.TEXT and row["label"] is None


def _body(body: Any) -> str | None:
    try:
        return None if body is None else memory_rows.text_of(bytes(body))
    except ValueError:
        return None


def _extra(text: Any) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
