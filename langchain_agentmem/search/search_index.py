"""The index follows what is stored, in the transactions that write it.

Whatever can be found is a document. Documents that belong together, such as the messages of a conversation, are a
series, and stand in it in the order in which they came. The number of a document says where it stands:

    26 bits: its scope, the documents of one kind in one namespace · 15 bits: its series · 22 bits: its place there

So the neighbours of a document are those with the next numbers, and a namespace is a range of numbers, to which an
index can skip: what others store costs a search nothing. A series or scope that is full is followed by another.

SQLite's FTS5 pays for each transaction and hardly for each row, so there new documents wait, with their terms, and
enter the index together. A search looks through those that wait as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

from langchain_agentmem.errors import BranchMoved, safe_repr
from langchain_agentmem.search import analysis
from langchain_agentmem.storage import Engine, Transaction, query
from langchain_agentmem.storage.part import Part, all_parts
from langchain_agentmem.storage.queries import Query
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.storage.transfer import number_documents

PLACE_BITS = 22
SERIES_BITS = 15
_SCOPE_BITS = PLACE_BITS + SERIES_BITS
REBUILD_BATCH = 1_000
ATTEMPTS = 4
"""A series is looked for, its scope made, the series made, and then it is there."""


class DocumentSeries(NamedTuple):
    """Where documents belong.

    Attributes:
        path: The path of a namespace.
        kind: What they are: "message", "item" and so on.
        name: What tells the series from the others of its kind there, such as a conversation's id.
    """

    path: str
    kind: str
    name: str = ""


class IndexedDocument(NamedTuple):
    """What can be found.

    Attributes:
        text: What it is found by.
        created_at: When it was said or made, in microseconds since 1970.
        speaker: Who said it, by name.
        role: Who said it, as models name it.
    """

    text: str
    created_at: int
    speaker: str | None = None
    role: str | None = None


class PlacedDocuments(NamedTuple):
    """Documents that have their places, and are about to be written.

    Attributes:
        numbers: Their numbers.
        documents: The documents.
        found: What is indexed of each.
        embeds: Whether vectors are kept.
        waiting: How many documents wait for the index.
    """

    numbers: list[int]
    documents: Sequence[IndexedDocument]
    found: list[analysis.AnalyzedText]
    embeds: bool
    waiting: int


def places(tx: Transaction, series: DocumentSeries, documents: Sequence[IndexedDocument]) -> PlacedDocuments:
    """Make places for documents, whose rows are about to be written.

    Args:
        tx: The transaction.
        series: Where they belong; it is made if need be, and so is its namespace.
        documents: The documents, in their order; at least one.
    """
    found = [analysis.analysed(document.text, document.role) for document in documents]
    times = [document.created_at for document in documents]
    words = sum(each.length for each in found)
    for _ in range(ATTEMPTS):
        rows = query.series_places(
            tx,
            **series._asdict(),
            documents=len(found),
            words=words,
            most=1 << PLACE_BITS,
            first_at=min(times),
            last_at=max(times),
        )
        if rows:
            [row] = rows
            end = (row["id"] << PLACE_BITS) + row["next"]
            numbers = list(range(end - len(found), end))
            change = _change(row["id"] >> SERIES_BITS, documents=len(found), words=words, last_at=max(times))
            query.totals_changed(tx, **change)
            return PlacedDocuments(numbers, documents, found, row["dimensions"] is not None, row["waiting"])
        _open(tx, series, min(times))
    raise BranchMoved  # others take away what is made here: begin again


def write(tx: Transaction, placed: PlacedDocuments, owners: Sequence[int], *, waits: bool = True) -> None:
    """Write documents at the places that were made for them, and index them.

    Args:
        tx: The transaction.
        placed: What `places` gave.
        owners: The rows that they stand for.
        waits: Whether they may wait for the index, where the engine has new ones wait. Default: they may.
    """
    each = list(zip(placed.numbers, owners, placed.documents, placed.found, strict=True))
    _insert(tx, query.insert_document, [_row(*one) for one in each])
    if speakers := [one for number, _, document, _ in each for one in _speakers(number, document.speaker)]:
        _insert(tx, query.insert_speaker, speakers)
    if placed.embeds:
        _insert(tx, query.want_vector, [{"id": number} for number in placed.numbers])
    terms = [_terms(number, found.terms) for number, _, _, found in each]
    if waits and placed.waiting + len(terms) < tx.index_tail:
        _insert(tx, query.insert_waiting, terms)
    elif placed.waiting:
        absorb(tx, terms)
    else:
        _insert(tx, query.index_terms, terms)


def replace(tx: Transaction, number: int, old: str, owner: int, new: IndexedDocument) -> None:
    """Give a document another text.

    Args:
        tx: The transaction.
        number: The document.
        old: The text that it had.
        owner: The row that it stands for.
        new: What it is now.
    """
    remove(tx, [(number, old)])
    found = analysis.analysed(new.text, new.role)
    [series] = query.series_grown(tx, series=number >> PLACE_BITS, words=found.length)
    query.totals_changed(tx, **_change(number >> _SCOPE_BITS, documents=1, words=found.length))
    placed = PlacedDocuments([number], [new], [found], series["dimensions"] is not None, series["waiting"])
    write(tx, placed, [owner])


def remove(tx: Transaction, documents: Iterable[tuple[int, str]]) -> None:
    """Take documents out of the index.

    Args:
        tx: The transaction.
        documents: The number and the text of each.
    """
    there = dict(documents)
    if there:
        ids = [{"id": number} for number in there]
        waited = query.take_waiting(tx, ids=json.dumps(list(there))) if tx.index_tail else ()
        indexed = there.keys() - {row["document_id"] for row in waited}
        if indexed:
            query.unindex_terms.many(tx, [_terms(number, analysis.terms(there[number])) for number in sorted(indexed)])
        changes = [_change(number >> _SCOPE_BITS, documents=-1, gone=number) for number in there]
        query.totals_changed.many(tx, changes)
        query.series_shrunk.many(tx, ids)
        query.delete_document.many(tx, ids)
        query.vectors_removed(tx)


def move(tx: Transaction, documents: Sequence[Row], path: str) -> None:
    """Have documents stand in another namespace, in series of the same kinds and names.

    Args:
        tx: The transaction.
        documents: With "id", "owner", the table of that, "created_at", "role", and "kind" and "name" of the series, in
            their order.
        path: The other namespace; made if need be.
    """
    for (kind, name), rows in groupby(sorted(documents, key=_series_of), key=_series_of):
        mine = list(rows)
        found = texts_of(tx, ((kind, row["owner"]) for row in mine))
        texts = ["\n".join(found[kind, row["owner"]]) for row in mine]
        each = [
            IndexedDocument(text, row["created_at"], role=row["role"]) for row, text in zip(mine, texts, strict=True)
        ]
        placed = places(tx, DocumentSeries(path, kind, name), each)
        write(tx, placed, [row["owner"] for row in mine])
        moved = list(zip(placed.numbers, mine, texts, strict=True))
        numbers = [{"id": number, "old": row["id"]} for number, row, _ in moved]
        query.same_speaker.many(tx, numbers)
        query.same_speakers.many(tx, numbers)
        number_documents(tx, mine[0]["owners"], [{"id": row["owner"], "document": number} for number, row, _ in moved])
        remove(tx, [(row["id"], text) for _, row, text in moved])


def _series_of(row: Row) -> tuple[str, str]:
    return row["kind"], row["name"]


def close(tx: Transaction, path: str, kind: str, name: str | None = None) -> None:
    """Take away series that have no documents any more, with what is known of their speakers.

    Args:
        tx: The transaction.
        path: The namespace.
        kind: The kind.
        name: The series; None for all of the kind.
    """
    rows = query.delete_series(tx, path=path, kind=kind, name=name)
    if rows:
        query.totals_changed.many(tx, [_change(row["scope_id"], series=-1) for row in rows])
    query.delete_scopes(tx, path=path, kind=kind)


def absorb(tx: Transaction, new: Sequence[dict[str, Any]] = ()) -> None:
    """Put everything that waits into the index.

    Args:
        tx: The transaction.
        new: The terms of documents that need not wait. Default: none.
    """
    rows = query.all_waiting(tx)
    if terms := [*({"id": row["document_id"], "terms": row["terms"]} for row in rows), *new]:
        query.index_terms.many(tx, sorted(terms, key=itemgetter("id")))
        query.empty_waiting(tx)


def refresh(tx: Transaction) -> None:
    """Index everything anew if another version of the analysis indexed it."""
    query.hold_writers(tx)  # another opening that does it ends first
    if is_old(tx):
        emptied(tx)
        after = -1
        while found := _looked_at_again(tx, after, REBUILD_BATCH):
            query.index_terms.many(tx, [_terms(number, each.terms) for number, each in found.items()])
            after = max(found)
        query.count_words(tx)
        query.empty_totals(tx)
        query.count_totals(tx)
        query.set_search_state(tx, analysis=analysis.VERSION)


def emptied(tx: Transaction) -> None:
    """Forget what is indexed, and keep the documents."""
    query.empty_index(tx)
    query.empty_waiting(tx)


def counted(tx: Transaction) -> int:
    """How many documents there are."""
    [row] = query.count_index(tx)
    return int(row["documents"])


def held(tx: Transaction, kinds: Sequence[str]) -> list[Row]:
    """Which series hold documents of some kinds, those with the most first: path, name, and whether it is a thread's.

    Args:
        tx: The transaction.
        kinds: What the index calls them.
    """
    return list(query.series_held(tx, keys=json.dumps(kinds)))


def is_old(tx: Transaction) -> bool:
    """Whether another version of the analysis indexed the database."""
    [state] = query.search_state(tx)
    return bool(state["analysis"] != analysis.VERSION)


def problems(tx: Transaction) -> list[str]:
    """What the index and its documents disagree on; empty when nothing."""
    [counted] = query.count_index(tx)
    found = []
    if counted["indexed"] + counted["waiting"] != counted["documents"]:
        found.append(
            f"the full-text index holds {counted['indexed']} documents and {counted['waiting']} wait for it, but there "
            f"are {counted['documents']}"
        )
    found += [
        f"the series {safe_repr(row['name'])} counts {row['documents']} documents, not {row['found']}"
        for row in query.wrong_series(tx)
    ]
    rows = query.wrong_totals(tx)
    found += [f"the totals of the scope {row['id']} ({row['kind']}) are not those of its series" for row in rows]
    return found + [f"nothing owns the document {row['id']} of the search" for row in query.wrong_owners(tx)]


def speaker_number(name: str) -> int:
    """The number by which documents know a speaker."""
    return crc32(name.casefold().encode("utf-8", "surrogatepass"))


def _open(tx: Transaction, series: DocumentSeries, first_at: int) -> None:
    """Make a series, or first the scope that it needs."""
    rows = query.scope_series(tx, path=series.path, kind=series.kind, most=1 << SERIES_BITS)
    if rows:
        [row] = rows
        number = (row["id"] << SERIES_BITS) + row["series"] - 1
        query.create_series(tx, id=number, scope=row["id"], name=series.name, first_at=first_at)
        query.totals_changed(tx, **_change(row["id"], series=1))
    else:
        query.create_namespace(tx, path=series.path)
        query.create_scope(tx, path=series.path, kind=series.kind)


def _looked_at_again(tx: Transaction, after: int, limit: int) -> dict[int, analysis.AnalyzedText]:
    """Renew what is kept beside the documents behind one; return what is indexed of each."""
    page = list(query.documents_after(tx, after=after, limit=limit))
    texts = texts_of(tx, ((row["kind"], row["owner"]) for row in page))
    found = {row["id"]: analysis.analysed("\n".join(texts[row["kind"], row["owner"]]), row["role"]) for row in page}
    rows = [{"id": number, "length": each.length, "features": each.features} for number, each in found.items()]
    if rows:
        query.update_document.many(tx, rows)
    return found


def texts_of(tx: Transaction, owners: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Sequence[str]]:
    """The texts of documents by their kinds and the rows that they stand for; () of what cannot be read."""
    found: dict[tuple[str, int], Sequence[str]] = {}
    for kind, same in groupby(sorted(owners), key=itemgetter(0)):
        mine = [owner for _, owner in same]
        texts = all_parts().texts[kind](tx, mine)
        found |= {(kind, owner): texts.get(owner, ()) for owner in mine}
    return found


def _insert(tx: Transaction, statement: Query, rows: list[dict[str, Any]]) -> None:
    statement.many(tx, rows) if len(rows) > 1 else statement(tx, **rows[0])


def _row(number: int, owner: int, document: IndexedDocument, found: analysis.AnalyzedText) -> dict[str, Any]:
    return {
        "id": number,
        "owner": owner,
        "created_at": document.created_at,
        "speaker": None if document.speaker is None else speaker_number(document.speaker),
        "role": document.role,
        "length": found.length,
        "features": found.features,
    }


def _change(
    scope: int, *, series: int = 0, documents: int = 0, words: int = 0, last_at: int = 0, gone: int | None = None
) -> dict[str, Any]:
    return {"scope": scope, "series": series, "documents": documents, "words": words, "last_at": last_at, "gone": gone}


def _terms(number: int, terms: Sequence[str]) -> dict[str, Any]:
    return {"id": number, "terms": " ".join(analysis.different(terms))}


def _speakers(number: int, name: str | None) -> list[dict[str, Any]]:
    if name is None:
        return []
    speaker = speaker_number(name)
    return [{"word": word, "series": number >> PLACE_BITS, "speaker": speaker} for word in analysis.names(name)]


def bring_up_to_date(engine: Engine) -> None:
    """Index a database anew whose terms are others now."""
    if engine.read(is_old):
        engine.write(refresh)


PART = Part(
    tables={
        "search index": (
            "search_scope",
            "search_total",
            "search_series",
            "search_speaker",
            "search_document",
            "search_index",
            "search_index_data",
            "search_index_idx",
            "search_index_docsize",
            "search_index_config",
            "search_waiting",
            "search_state",
        ),
        "vectors": ("search_vector", "search_pgvector", "search_unembedded"),
    },
    verify={"index": problems},
)
