"""The index of searchable documents, updated in the transactions that write them.

Everything searchable is a document. Documents that belong together, such as the messages of a conversation, form a
series, in the order of arrival. The number of a document encodes its place:

    26 bits: its scope, the documents of one kind in one namespace · 15 bits: its series · 22 bits: its place there

So the neighbours of a document have the adjacent numbers. A namespace is a range of numbers to which an index can skip,
so documents of other namespaces cost a search nothing. A full series or scope is followed by another.

The cost of SQLite's FTS5 is per transaction, hardly per row. So on SQLite, new documents wait with their terms and
enter the index together. A search reads the waiting documents too.
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
"""Four attempts suffice: look up the series, create its scope, create the series, and find it."""


class DocumentSeries(NamedTuple):
    """The key of a series of documents: a namespace, a kind and a name.

    Attributes:
        path: The path of a namespace.
        kind: The kind of the documents: "message", "item" and so on.
        name: The name that distinguishes the series in its namespace and kind, such as a conversation's id.
    """

    path: str
    kind: str
    name: str = ""


class IndexedDocument(NamedTuple):
    """A document to index.

    Attributes:
        text: The text to index.
        created_at: The time of the message or of the write, in microseconds since 1970.
        speaker: The author's name.
        role: The author's role, as models name it.
    """

    text: str
    created_at: int
    speaker: str | None = None
    role: str | None = None


class PlacedDocuments(NamedTuple):
    """Documents with their places, before the write.

    Attributes:
        numbers: The numbers of the documents.
        documents: The documents.
        analyzed: The analyzed text of each document.
        has_vectors: True if the database keeps vectors.
        waiting_count: The number of documents that wait for the index.
    """

    numbers: list[int]
    documents: Sequence[IndexedDocument]
    analyzed: list[analysis.AnalyzedText]
    has_vectors: bool
    waiting_count: int


def reserve_places(tx: Transaction, series: DocumentSeries, documents: Sequence[IndexedDocument]) -> PlacedDocuments:
    """Reserve places for documents, before their rows are written.

    Args:
        tx: The transaction.
        series: The series of the documents. It is created if necessary, and so is its namespace.
        documents: The documents, in their order; at least one.
    """
    analyzed = [analysis.analyze_text(document.text, document.role) for document in documents]
    times = [document.created_at for document in documents]
    words = sum(each.length for each in analyzed)
    for _ in range(ATTEMPTS):
        rows = query.extend_series(
            tx,
            **series._asdict(),
            documents=len(analyzed),
            words=words,
            max_places=1 << PLACE_BITS,
            first_at=min(times),
            last_at=max(times),
        )
        if rows:
            [row] = rows
            end = (row["id"] << PLACE_BITS) + row["next"]
            numbers = list(range(end - len(analyzed), end))
            change = _totals_change(row["id"] >> SERIES_BITS, documents=len(analyzed), words=words, last_at=max(times))
            query.change_totals(tx, **change)
            return PlacedDocuments(numbers, documents, analyzed, row["dimensions"] is not None, row["waiting"])
        _create_series(tx, series, min(times))
    raise BranchMoved  # others take away what is made here: begin again


def write(tx: Transaction, placed: PlacedDocuments, owners: Sequence[int], *, waits: bool = True) -> None:
    """Write documents at the places reserved for them, and index them.

    Args:
        tx: The transaction.
        placed: The result of `reserve_places`.
        owners: The rows that the documents stand for.
        waits: True lets the documents wait for the index, if the engine supports it. Default: True.
    """
    entries = list(zip(placed.numbers, owners, placed.documents, placed.analyzed, strict=True))
    _insert_rows(tx, query.insert_document, [_document_row(*entry) for entry in entries])
    if speakers := [entry for number, _, document, _ in entries for entry in _speaker_rows(number, document.speaker)]:
        _insert_rows(tx, query.insert_speaker, speakers)
    if placed.has_vectors:
        _insert_rows(tx, query.request_vector, [{"id": number} for number in placed.numbers])
    terms = [_terms_row(number, found.terms) for number, _, _, found in entries]
    if waits and placed.waiting_count + len(terms) < tx.max_unindexed:
        _insert_rows(tx, query.insert_unindexed, terms)
    elif placed.waiting_count:
        index_waiting(tx, terms)
    else:
        _insert_rows(tx, query.index_terms, terms)


def replace(tx: Transaction, number: int, old: str, owner: int, new: IndexedDocument) -> None:
    """Replace the text of a document.

    Args:
        tx: The transaction.
        number: The document.
        old: The previous text.
        owner: The row that the document stands for.
        new: The new document.
    """
    remove(tx, [(number, old)])
    analyzed = analysis.analyze_text(new.text, new.role)
    [series] = query.grow_series(tx, series=number >> PLACE_BITS, words=analyzed.length)
    query.change_totals(tx, **_totals_change(number >> _SCOPE_BITS, documents=1, words=analyzed.length))
    placed = PlacedDocuments([number], [new], [analyzed], series["dimensions"] is not None, series["waiting"])
    write(tx, placed, [owner])


def remove(tx: Transaction, documents: Iterable[tuple[int, str]]) -> None:
    """Remove documents from the index.

    Args:
        tx: The transaction.
        documents: The number and the text of each.
    """
    texts = dict(documents)
    if texts:
        ids = [{"id": number} for number in texts]
        waiting_rows = query.take_unindexed(tx, ids=json.dumps(list(texts))) if tx.max_unindexed else ()
        indexed = texts.keys() - {row["document_id"] for row in waiting_rows}
        if indexed:
            query.unindex_terms.run_many(
                tx, [_terms_row(number, analysis.extract_terms(texts[number])) for number in sorted(indexed)]
            )
        changes = [_totals_change(number >> _SCOPE_BITS, documents=-1, removed=number) for number in texts]
        query.change_totals.run_many(tx, changes)
        query.shrink_series.run_many(tx, ids)
        query.delete_document.run_many(tx, ids)
        query.count_vector_removal(tx)


def move(tx: Transaction, documents: Sequence[Row], path: str) -> None:
    """Move documents to another namespace, into series of the same kinds and names.

    Args:
        tx: The transaction.
        documents: Rows with "id", "owner", "owners" (the owner's table), "created_at", "role", and the series' "kind"
            and "name", in their order.
        path: The other namespace. It is created if necessary.
    """
    for (kind, name), rows in groupby(sorted(documents, key=_series_of), key=_series_of):
        group = list(rows)
        found = texts_of(tx, ((kind, row["owner"]) for row in group))
        texts = ["\n".join(found[kind, row["owner"]]) for row in group]
        new_documents = [
            IndexedDocument(text, row["created_at"], role=row["role"]) for row, text in zip(group, texts, strict=True)
        ]
        placed = reserve_places(tx, DocumentSeries(path, kind, name), new_documents)
        write(tx, placed, [row["owner"] for row in group])
        moved = list(zip(placed.numbers, group, texts, strict=True))
        numbers = [{"id": number, "from_id": row["id"]} for number, row, _ in moved]
        query.copy_speaker.run_many(tx, numbers)
        query.copy_speakers.run_many(tx, numbers)
        number_documents(tx, group[0]["owners"], [{"id": row["owner"], "document": number} for number, row, _ in moved])
        remove(tx, [(row["id"], text) for _, row, text in moved])


def _series_of(row: Row) -> tuple[str, str]:
    return row["kind"], row["name"]


def delete_series(tx: Transaction, path: str, kind: str, name: str | None = None) -> None:
    """Delete series without documents, including the records of their speakers.

    Args:
        tx: The transaction.
        path: The namespace.
        kind: The kind.
        name: The series; None for all of the kind.
    """
    rows = query.delete_series(tx, path=path, kind=kind, name=name)
    if rows:
        query.change_totals.run_many(tx, [_totals_change(row["scope_id"], series=-1) for row in rows])
    query.delete_scopes(tx, path=path, kind=kind)


def index_waiting(tx: Transaction, new: Sequence[dict[str, Any]] = ()) -> None:
    """Add all waiting documents to the index.

    Args:
        tx: The transaction.
        new: The terms of further documents to index. Default: none.
    """
    rows = query.all_unindexed(tx)
    if terms := [*({"id": row["document_id"], "terms": row["terms"]} for row in rows), *new]:
        query.index_terms.run_many(tx, sorted(terms, key=itemgetter("id")))
        query.delete_unindexed(tx)


def rebuild_if_old(tx: Transaction) -> None:
    """Rebuild the index if another version of the analysis built it."""
    query.lock_writers(tx)  # another opening that does it ends first
    if is_old(tx):
        empty_index(tx)
        after = -1
        while found := _reanalyze_page(tx, after, REBUILD_BATCH):
            query.index_terms.run_many(tx, [_terms_row(number, each.terms) for number, each in found.items()])
            after = max(found)
        query.recount_words(tx)
        query.delete_totals(tx)
        query.recount_totals(tx)
        query.set_search_state(tx, analysis=analysis.VERSION)


def empty_index(tx: Transaction) -> None:
    """Empty the index, and keep the documents."""
    query.empty_index(tx)
    query.delete_unindexed(tx)


def count_documents(tx: Transaction) -> int:
    """Return the number of documents."""
    [row] = query.count_index(tx)
    return int(row["documents"])


def series_of_kinds(tx: Transaction, kinds: Sequence[str]) -> list[Row]:
    """Return the series that hold documents of some kinds, the largest first.

    Each row has the path, the name, and whether the series is a thread's.

    Args:
        tx: The transaction.
        kinds: Their names in the index.
    """
    return list(query.series_by_size(tx, keys=json.dumps(kinds)))


def is_old(tx: Transaction) -> bool:
    """Return true if another version of the analysis indexed the database."""
    [state] = query.search_state(tx)
    return bool(state["analysis"] != analysis.VERSION)


def find_problems(tx: Transaction) -> list[str]:
    """Return the inconsistencies between the index and its documents; empty if none."""
    [counts] = query.count_index(tx)
    found = []
    if counts["indexed"] + counts["waiting"] != counts["documents"]:
        found.append(
            f"the full-text index holds {counts['indexed']} documents and {counts['waiting']} wait for it, but there "
            f"are {counts['documents']}"
        )
    found += [
        f"the series {safe_repr(row['name'])} counts {row['documents']} documents, not {row['found']}"
        for row in query.wrong_series(tx)
    ]
    rows = query.wrong_totals(tx)
    found += [f"the totals of the scope {row['id']} ({row['kind']}) are not those of its series" for row in rows]
    return found + [f"nothing owns the document {row['id']} of the search" for row in query.wrong_owners(tx)]


def speaker_number(name: str) -> int:
    """Return the number by which documents refer to a speaker."""
    return crc32(name.casefold().encode("utf-8", "surrogatepass"))


def _create_series(tx: Transaction, series: DocumentSeries, first_at: int) -> None:
    """Create a series, or first the scope that it needs."""
    rows = query.next_series(tx, path=series.path, kind=series.kind, max_series=1 << SERIES_BITS)
    if rows:
        [row] = rows
        number = (row["id"] << SERIES_BITS) + row["series"] - 1
        query.create_series(tx, id=number, scope=row["id"], name=series.name, first_at=first_at)
        query.change_totals(tx, **_totals_change(row["id"], series=1))
    else:
        query.create_namespace(tx, path=series.path)
        query.create_scope(tx, path=series.path, kind=series.kind)


def _reanalyze_page(tx: Transaction, after: int, limit: int) -> dict[int, analysis.AnalyzedText]:
    """Update the stored features of the documents after one; return their analyzed texts."""
    page = list(query.documents_after(tx, after=after, limit=limit))
    texts = texts_of(tx, ((row["kind"], row["owner"]) for row in page))
    analyzed = {
        row["id"]: analysis.analyze_text("\n".join(texts[row["kind"], row["owner"]]), row["role"]) for row in page
    }
    rows = [{"id": number, "length": each.length, "features": each.features} for number, each in analyzed.items()]
    if rows:
        query.update_document.run_many(tx, rows)
    return analyzed


def texts_of(tx: Transaction, owners: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Sequence[str]]:
    """Return the texts of documents by kind and row; () for unreadable documents."""
    found: dict[tuple[str, int], Sequence[str]] = {}
    for kind, group in groupby(sorted(owners), key=itemgetter(0)):
        owner_ids = [owner for _, owner in group]
        texts = all_parts().texts[kind](tx, owner_ids)
        found |= {(kind, owner): texts.get(owner, ()) for owner in owner_ids}
    return found


def _insert_rows(tx: Transaction, statement: Query, rows: list[dict[str, Any]]) -> None:
    statement.run_many(tx, rows) if len(rows) > 1 else statement(tx, **rows[0])


def _document_row(
    number: int, owner: int, document: IndexedDocument, analyzed: analysis.AnalyzedText
) -> dict[str, Any]:
    return {
        "id": number,
        "owner": owner,
        "created_at": document.created_at,
        "speaker": None if document.speaker is None else speaker_number(document.speaker),
        "role": document.role,
        "length": analyzed.length,
        "features": analyzed.features,
    }


def _totals_change(
    scope: int, *, series: int = 0, documents: int = 0, words: int = 0, last_at: int = 0, removed: int | None = None
) -> dict[str, Any]:
    return {
        "scope": scope,
        "series": series,
        "documents": documents,
        "words": words,
        "last_at": last_at,
        "minus": removed,
    }


def _terms_row(number: int, terms: Sequence[str]) -> dict[str, Any]:
    return {"id": number, "terms": " ".join(analysis.distinct_terms(terms))}


def _speaker_rows(number: int, name: str | None) -> list[dict[str, Any]]:
    if name is None:
        return []
    speaker = speaker_number(name)
    return [{"word": word, "series": number >> PLACE_BITS, "speaker": speaker} for word in analysis.speaker_words(name)]


def bring_up_to_date(engine: Engine) -> None:
    """Rebuild the index of a database if its terms have changed."""
    if engine.read(is_old):
        engine.write(rebuild_if_old)


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
            "search_unindexed",
            "search_state",
        ),
        "vectors": ("search_vector", "search_pgvector", "search_unembedded"),
    },
    verify={"index": find_problems},
)
