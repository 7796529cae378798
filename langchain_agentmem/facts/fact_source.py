"""Facts, and what was said, as a search of all memory finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.facts import fact_check, fact_store
from langchain_agentmem.facts.fact import SINGLE_VALUED, Fact
from langchain_agentmem.facts.predicate_rules import rules
from langchain_agentmem.rewinding import branches
from langchain_agentmem.rewinding.memory_rows import FACT, FOREVER, TEXT, Kept, View, kept_of
from langchain_agentmem.rewinding.outlook import Outlook, row_texts, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps
from langchain_agentmem.storage.part import Found, Import, Part, Record
from langchain_agentmem.storage.steps import Row

KIND = "fact"
"""What a user calls both."""


def recollections(hits: Sequence[Hit], now: int, outlook: Outlook | None) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents; what cannot be seen is left out.

    Args:
        hits: Facts, or what was said, that a search found.
        now: When.
        outlook: From where it looks.
    """
    there, sights = yield from sighted(hits, now, outlook)
    values: dict[int, Any] = {}
    for sight in sights:
        new = {number: there[number] for number in sorted(sight.numbers - values.keys())}
        if sight.view is not None:
            values |= yield from _values(sight.view, new)
            continue
        for branch in sorted({row["branch_id"] for row in new.values()}):  # each stands at the end of its own
            view = yield from branches.view_of(branch, FOREVER - 1, now)
            values |= yield from _values(view, {n: row for n, row in new.items() if row["branch_id"] == branch})
    return {
        hit.document: Recollection(
            kind=KIND,
            id=row["key"],
            text=value.text,
            score=hit.score,
            namespace=namespace_of(row["path"]),
            conversation_id=row["name"],
            created_at=moment(row["created_at"]),
            value=value,
            why=hit.why,
        )
        for hit in hits
        if (row := there.get(hit.owner)) is not None and (value := values.get(hit.owner)) is not None
    }


def _values(view: View, some: Mapping[int, Row]) -> Steps[dict[int, Fact]]:
    """Rows as they are seen from somewhere."""
    if not some:
        return {}
    kept: dict[int, Kept] = {number: kept_of(row) for number, row in some.items()}
    values = {number: fact_store.raw_fact(each) for number, each in kept.items() if each.kind != FACT}
    facts = {each.key: each for each in kept.values() if each.kind == FACT}
    if facts:
        agreed = yield from rules(view, SINGLE_VALUED)
        settled = {fact.id: fact for fact in (yield from fact_store.settled(view, agreed, facts))}
        values |= {number: settled[each.key] for number, each in kept.items() if each.key in settled}
    return values


def _load(into: Import, head: Record, records: Sequence[Record]) -> Steps[None]:
    """Refuse damaged facts among the versions that `rewinding` takes."""
    del into, head
    fact_check.refuse(records)
    return
    yield


PART = Part(
    found={KIND: tuple(Found(stored_as=kind, texts=row_texts, recollections=recollections) for kind in (FACT, TEXT))},
    verify={"facts": fact_check.problems},
    records={"memories": ()},
    load=_load,
)
