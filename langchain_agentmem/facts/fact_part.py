"""The functions for searching, verifying, exporting and importing facts.

In this module, a record is the JSON form of one stored row, not a record of archival memory: a fact with all of its
events, a message, or a rule such as an alias. All records of a file are checked before any of them is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeAlias

from pydantic import Field, InstanceOf, TypeAdapter

from langchain_agentmem.base.clock import EARLIEST, LATEST
from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, safe_repr
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import RULE, Fact
from langchain_agentmem.facts.fact_store import FactChanges, FactView
from langchain_agentmem.messages.message import decode_body
from langchain_agentmem.rewinding import branches, memory_rows
from langchain_agentmem.rewinding.memory_rows import FACT, FACT_TEXT, STATEMENT, VersionDraft
from langchain_agentmem.rewinding.message_sources import SET
from langchain_agentmem.rewinding.search_view import SearchView, make_recollections, row_texts, visible_rows
from langchain_agentmem.search.memory_search import Recollection, SearchHit
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Part, SearchableKind
from langchain_agentmem.storage.transaction import Row

SEARCH_KIND = "fact"
"""The name by which searches select facts and their messages."""


def to_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: SearchView | None
) -> Mapping[int, Recollection]:
    """Convert hits to `Recollection` objects by the numbers of their documents.

    Hits that are not visible are left out.

    Args:
        tx: The transaction.
        hits: The facts and messages that a search found.
        now: The current time, in microseconds since 1970.
        search_view: The view of the search; None for all memories.
    """
    rows, row_groups = visible_rows(tx, hits, now, search_view)
    values: dict[int, Fact] = {}
    for view, numbers in row_groups:
        new = {number: rows[number] for number in sorted(numbers - values.keys())}
        if view is not None:
            values |= _load_facts(FactView(tx, view), new)
            continue
        for branch in sorted({row["branch_id"] for row in new.values()}):  # without a view, read the end of the branch
            end = branches.load_view(tx, branch, memory_rows.FOREVER - 1, now)
            values |= _load_facts(FactView(tx, end), {n: row for n, row in new.items() if row["branch_id"] == branch})
    results = make_recollections(hits, rows, {n: (value.text, value) for n, value in values.items()}, SEARCH_KIND)
    ended = {n: result.value.ended_by for n, result in results.items() if result.value.ended_by is not None}
    return results | {n: replace(results[n], replaced_by=(SEARCH_KIND, ended_by)) for n, ended_by in ended.items()}


def _load_facts(facts: FactView, rows: Mapping[int, Row]) -> dict[int, Fact]:
    """Return the visible facts among some rows, by the numbers of the rows."""
    versions = {number: memory_rows.read_version(row) for number, row in rows.items()}
    facts_by_id = facts.to_facts(versions.values())
    return {number: facts_by_id[version.key] for number, version in versions.items() if version.key in facts_by_id}


RECORD_KINDS = (RULE, FACT_TEXT, memory_rows.FACT_DUE, memory_rows.FACT_FAILURE, FACT, memory_rows.FORMER_FACT)
"""The kinds of rows that files contain and that `fact_problems` checks."""
_RECORD_SCHEMAS = load_data_table("facts/fact_records.yaml")
"""The names and types of the fields of each kind of record."""


def parse_record(record: Any) -> VersionDraft:
    """Return a draft of the row that a record describes.

    Raises:
        InvalidInput: The record is damaged.
    """
    try:
        return _parse_record(record)
    except (AttributeError, DatabaseUnreadable, KeyError, StopIteration, TypeError, ValueError) as error:
        raise InvalidInput(f"The file is damaged: {safe_repr(record)} is not a valid record of facts.") from error


def dump_records(facts: FactView) -> list[dict[str, Any]]:
    """Return all rows of the facts of a memory as records for JSON; see `RECORD_KINDS`."""
    return [
        {"kind": kind, "id": row.key, "label": row.label, "body": row.text}
        | {"created_at": row.created_at, "extra": dict(row.extra)}
        for kind in RECORD_KINDS
        for row in facts.rows_of_kind(kind)
    ]


def restore_records(facts: FactChanges, drafts: Sequence[VersionDraft]) -> None:
    """Replace all facts, messages and rules of a memory with drafts from `parse_record`."""
    facts.clear(rules=True)
    facts.change.drafts += drafts


def _parse_record(record: Any) -> VersionDraft:
    _check_fields(record, _RECORD_SCHEMAS["record"])
    kind, key, extra, label = record["kind"], record["id"], record["extra"], record["label"]
    _check_fields(extra, _RECORD_SCHEMAS[label if kind == RULE else kind])
    if kind not in (RULE, memory_rows.FORMER_FACT):
        for event in extra["told"]:
            _check_fields(event, _RECORD_SCHEMAS["event"])
            if kind == FACT:
                _check_fields(event, _RECORD_SCHEMAS[event["do"]])
            if event["do"] == SET:
                _check_fields(event["fields"], {name: _RECORD_SCHEMAS["fields"][name] for name in event["fields"]})
        if kind != FACT:  # the statement of a fact may be on another branch
            next(event for event in extra["told"] if event["do"] == STATEMENT)  # raises StopIteration without one
    if kind == FACT:
        return fact_store.draft_fact(key, extra, record["created_at"])
    body = memory_rows.encode_text(record["body"])
    draft = VersionDraft(kind, key, body, record["created_at"], label=label, extra=extra)
    if kind == FACT_TEXT:
        decode_body(body, extra["told"][0]["id"])  # raises DatabaseUnreadable if the message is damaged
        return draft._replace(subject=extra["role"], findable=label is None)
    return draft


def _check_fields(record: Any, schema: Mapping[str, str]) -> None:
    """Check the fields of a record against the names and types in `schema`.

    Raises:
        KeyError: A field is missing.
        ValueError: A field has another type.
    """
    for name, type_name in schema.items():
        optional = type_name.startswith("maybe ")
        value = record.get(name) if optional else record[name]
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


PAGE_SIZE = 500
"""The number of rows that `fact_problems` reads per query."""


def fact_problems(tx: Transaction) -> list[str]:
    """Find damaged rows of the kinds `RECORD_KINDS`.

    Returns:
        One description for each problem; empty if there are none.
    """
    problems: list[str] = []
    last_id = 0
    while page := query.facts_after(tx, after=last_id, kinds=as_json(RECORD_KINDS), limit=PAGE_SIZE):
        last_id = page[-1]["id"]
        for row in page:
            try:
                problem = _check_row(row)
            except (InvalidInput, TypeError, ValueError, RecursionError):
                problem = "cannot be read"
            if problem is not None:
                problems.append(f"memory {row['id']}, a {row['kind'].replace('_', ' ')}, {problem}")
    return problems


def _check_row(row: Any) -> str | None:
    """Return a description of the damage of a row; None if the row is correct."""
    kind, body, extra = row["kind"], bytes(row["body"]), json.loads(row["extra"] or "{}") or {}
    record = {name: row[name] for name in ("kind", "label", "created_at")}
    draft = parse_record({**record, "id": row["key"], "body": memory_rows.decode_text(body), "extra": extra})
    if kind == FACT and not draft.findable:
        return None  # an undone fact is never searched, so its columns do not matter
    if kind == FACT:
        if (row["label"], row["subject"], row["object"]) != (draft.label, draft.subject, draft.object):
            return "has columns that differ from its events"
        if body != draft.body:
            return "has a text that differs from its events"
    is_indexed = row["copy_of"] is not None or row["document_id"] is not None
    return "is not in the index" if draft.findable and not is_indexed else None


_searchable = partial(SearchableKind, texts=row_texts, recollections=to_recollections)
PART = Part(
    search_kinds={SEARCH_KIND: (_searchable(index_name=FACT), _searchable(index_name=FACT_TEXT))},
    verify={"facts": fact_problems},
)
