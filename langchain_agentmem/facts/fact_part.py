"""Facts as a part of the database: searched, verified, exported and saved to files.

A record is one stored item: a fact with all of its events, a message, or a rule on names. Records from
a file are checked before anything is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from pydantic import Field, InstanceOf, TypeAdapter

from langchain_agentmem.base.clock import EARLIEST, LATEST
from langchain_agentmem.base.data_tables import data_table
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, safe_repr
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import RULE, Fact
from langchain_agentmem.facts.fact_store import FactChanges, FactView
from langchain_agentmem.messages.message import decode_body
from langchain_agentmem.rewinding import branches, memory_rows
from langchain_agentmem.rewinding.memory_rows import FACT, SAID, TEXT, VersionDraft
from langchain_agentmem.rewinding.message_sources import SET
from langchain_agentmem.rewinding.outlook import SearchView, recollections_of, row_texts, sighted
from langchain_agentmem.search.memory_search import Recollection, SearchHit
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Part, SearchableKind
from langchain_agentmem.storage.transaction import Row

FOUND_AS = "fact"
"""The name that users see for both facts and messages."""


def recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, outlook: SearchView | None
) -> Mapping[int, Recollection]:
    """Return the recollections of visible hits, by the numbers of their documents.

    Args:
        tx: The transaction.
        hits: Facts and messages that a search found.
        now: The current time.
        outlook: The view of the search.
    """
    there, sights = sighted(tx, hits, now, outlook)
    values: dict[int, Fact] = {}
    for view, numbers in sights:
        new = {number: there[number] for number in sorted(numbers - values.keys())}
        if view is not None:
            values |= _values(FactView(tx, view), new)
            continue
        for branch in sorted({row["branch_id"] for row in new.values()}):  # read each row at the end of its own branch
            end = branches.view_of(tx, branch, memory_rows.FOREVER - 1, now)
            values |= _values(FactView(tx, end), {n: row for n, row in new.items() if row["branch_id"] == branch})
    shown = recollections_of(hits, there, {n: (value.text, value) for n, value in values.items()}, FOUND_AS)
    ended = {number: each.value.ended_by for number, each in shown.items() if each.value.ended_by is not None}
    return shown | {number: replace(shown[number], replaced_by=(FOUND_AS, by)) for number, by in ended.items()}


def _values(facts: FactView, some: Mapping[int, Row]) -> dict[int, Fact]:
    """Return the facts of rows that a view shows, by document number."""
    kept = {number: memory_rows.version_of(row) for number, row in some.items()}
    values = facts.shown(kept.values())
    return {number: values[each.key] for number, each in kept.items() if each.key in values}


KINDS = (RULE, TEXT, memory_rows.DUE, memory_rows.FAILURE, FACT, memory_rows.FORMER)
"""The kinds of rows that files contain and that `fact_problems` checks."""
_FORMS = data_table("facts/fact_records.yaml")


def draft_of(record: Any) -> VersionDraft:
    """Return the row that a record describes.

    Raises:
        InvalidInput: The record is damaged.
    """
    try:
        return _draft(record)
    except (AttributeError, DatabaseUnreadable, KeyError, StopIteration, TypeError, ValueError) as error:
        raise InvalidInput(f"The file is damaged: this is no record of facts: {safe_repr(record)}.") from error


def dump(facts: FactView) -> list[dict[str, Any]]:
    """Return everything that a memory holds, as records for JSON."""
    return [
        {
            "kind": kept.kind,
            "id": kept.key,
            "label": kept.label,
            "body": kept.text,
            "created_at": kept.created_at,
            "extra": dict(kept.extra),
        }
        for kind in KINDS
        for kept in facts.every(kind)
    ]


def load(facts: FactChanges, drafts: Sequence[VersionDraft]) -> None:
    """Replace everything that a memory holds with dumped records."""
    facts.clear(rules=True)
    facts.change.drafts += drafts


def _draft(record: Any) -> VersionDraft:
    _holds(record, _FORMS["record"])
    kind, key, extra, label = record["kind"], record["id"], record["extra"], record["label"]
    _holds(extra, _FORMS[label if kind == RULE else kind])
    if kind not in (RULE, memory_rows.FORMER):
        for event in extra["told"]:
            _holds(event, _FORMS["event"])
            if kind == FACT:
                _holds(event, _FORMS[event["do"]])
            if event["do"] == SET:
                _holds(event["fields"], {name: _FORMS["fields"][name] for name in event["fields"]})
        if kind != FACT:  # another line may state the fact
            next(event for event in extra["told"] if event["do"] == SAID)
    if kind == FACT:
        return fact_store.draft_of(key, extra, record["created_at"])
    draft = VersionDraft(kind, key, memory_rows.body_of(record["body"]), record["created_at"], label=label, extra=extra)
    if kind == TEXT:
        decode_body(draft.body or b"", extra["told"][0]["id"])
        return draft._replace(subject=extra["role"], findable=label is None)
    return draft


def _holds(given: Any, form: Mapping[str, str]) -> None:
    """Check the fields of a record.

    Raises:
        KeyError: A field is missing.
        ValueError: A field has another type.
    """
    for name, type_name in form.items():
        optional = type_name.startswith("maybe ")
        value = given.get(name) if optional else given[name]
        if not (optional and value is None):
            _TYPES[type_name.removeprefix("maybe ")].validate_python(value, strict=True)


_Text: TypeAlias = InstanceOf[str]  # pydantic's str refuses lone surrogates
_TYPES: Mapping[str, TypeAdapter[Any]] = {
    "flag": TypeAdapter(bool),
    "object": TypeAdapter(dict[_Text, Any]),
    "pairs": TypeAdapter(list[Annotated[list[_Text | None], Field(min_length=2, max_length=2)]]),
    "sure": TypeAdapter(Annotated[float, Field(ge=0, le=1)]),
    "text": TypeAdapter(_Text),
    "texts": TypeAdapter(list[_Text]),
    "time": TypeAdapter(Annotated[int, Field(ge=EARLIEST, le=LATEST)]),
    "whole": TypeAdapter(Annotated[int, Field(ge=-(2**63), lt=2**63)]),
}


PAGE = 500


def fact_problems(tx: Transaction) -> list[str]:
    """Find damaged rows of facts, messages and rules.

    Returns:
        A sentence for each problem; empty if there is none.
    """
    found: list[str] = []
    after = 0
    while page := query.facts_after(tx, after=after, kinds=as_json(KINDS), limit=PAGE):
        after = page[-1]["id"]
        for row in page:
            try:
                trouble = _trouble_of(row)
            except (InvalidInput, TypeError, ValueError, RecursionError):
                trouble = "cannot be read"
            if trouble is not None:
                found.append(f"memory {row['id']}, a {row['kind'].replace('_', ' ')}, {trouble}")
    return found


def _trouble_of(row: Any) -> str | None:
    """Return the problem of a row; None if there is none."""
    kind, body, extra = row["kind"], bytes(row["body"]), json.loads(row["extra"] or "{}") or {}
    record = {name: row[name] for name in ("kind", "label", "created_at")}
    draft = draft_of({**record, "id": row["key"], "body": memory_rows.text_of(body), "extra": extra})
    if kind == FACT and not draft.findable:
        return None  # a fact that was taken back is only looked up by its id
    if kind == FACT:
        if (row["label"], row["subject"], row["object"]) != (draft.label, draft.subject, draft.object):
            return "is not looked up by what it says"
        if body != draft.body:
            return "does not say what was told of it"
    is_indexed = row["origin"] is not None or row["document_id"] is not None
    return "is not in the index" if draft.findable and not is_indexed else None


PART = Part(
    found={
        FOUND_AS: tuple(
            SearchableKind(stored_as=kind, texts=row_texts, recollections=recollections) for kind in (FACT, TEXT)
        )
    },
    verify={"facts": fact_problems},
)
