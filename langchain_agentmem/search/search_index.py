"""The index of searchable documents, updated in the transactions that write them.

A document is one searchable text. Its *owner* is the row that has the text, such as a message or an item. Documents
that belong together, such as the messages of a conversation, form a series, in the order of arrival. An index scope
holds the series of one kind in one namespace. The number of a document encodes its place:

    26 bits: the scope · 15 bits: the series in the scope · 22 bits: the place in the series

So neighbours in a series have adjacent numbers. The numbers of a scope form one range, so a search of a namespace skips
the documents of other namespaces. When a series or a scope is full, a new one is created.

A write to SQLite's FTS5 costs about the same for one row as for many. So on SQLite, new documents wait in a table with
their terms, and are indexed and counted together. Searches read this table too.
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
from langchain_agentmem.storage.queries import Query
from langchain_agentmem.storage.transaction import Row

PLACE_BITS = 22
SERIES_BITS = 15
_SCOPE_BITS = PLACE_BITS + SERIES_BITS
REBUILD_BATCH = 1_000
"""The number of documents that a rebuild of the index reads at a time."""
ATTEMPTS = 4
"""Maximum attempts to extend a series. After a failed attempt, the missing scope or series is created."""


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
        role: The author's role, such as "assistant".
    """

    text: str
    created_at: int
    speaker: str | None = None
    role: str | None = None


class PlacedDocuments(NamedTuple):
    """The documents of one write, with their reserved numbers.

    Attributes:
        numbers: The numbers of the documents.
        documents: The documents.
        analyzed: The analyzed text of each document.
        has_vectors: True if the documents get vectors.
        waiting_count: The number of stored documents that are not indexed yet.
    """

    numbers: list[int]
    documents: Sequence[IndexedDocument]
    analyzed: list[analysis.AnalyzedText]
    has_vectors: bool
    waiting_count: int


def reserve_places(tx: Transaction, series: DocumentSeries, documents: Sequence[IndexedDocument]) -> PlacedDocuments:
    """Reserve places for documents, before their rows are written.

    Write the documents before the next call for the series: on SQLite, that call may return the same places again.

    Args:
        tx: The transaction.
        series: The series of the documents. A missing series or namespace is created.
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
            end = (row["id"] << PLACE_BITS) + row["next_place"]
            numbers = list(range(end - len(analyzed), end))
            _count(tx, row["id"] >> SERIES_BITS, documents=len(analyzed), words=words, last_at=max(times))
            return PlacedDocuments(numbers, documents, analyzed, row["dimensions"] is not None, row["waiting"])
        _create_series(tx, series, min(times))
    raise BranchMoved  # other writers removed the new series: run the transaction again


def write(tx: Transaction, placed: PlacedDocuments, owners: Sequence[int], *, defer: bool = True) -> None:
    """Write documents with their reserved numbers, and index them.

    Args:
        tx: The transaction.
        placed: The result of `reserve_places`.
        owners: The id of the owner of each document, such as a message or an item.
        defer: True to let the documents wait for indexing, if the engine supports it. Default: True.
    """
    entries = list(zip(placed.numbers, owners, placed.documents, placed.analyzed, strict=True))
    _insert_rows(tx, query.insert_document, [_document_row(*entry) for entry in entries])
    if speakers := [entry for number, _, document, _ in entries for entry in _speaker_rows(number, document.speaker)]:
        _insert_rows(tx, query.insert_speaker, speakers)
    if placed.has_vectors:
        _insert_rows(tx, query.request_vector, [{"id": number} for number in placed.numbers])
    rows = [_terms_row(number, text.terms) for number, _, _, text in entries]
    if defer and placed.waiting_count + len(rows) < tx.max_unindexed:
        _insert_rows(tx, query.insert_unindexed, rows)
    else:
        index_waiting(tx, rows, waiting=bool(placed.waiting_count))


def replace(tx: Transaction, number: int, old: str, owner: int, new: IndexedDocument) -> None:
    """Replace the text of a document.

    Args:
        tx: The transaction.
        number: The document's number.
        old: The previous text.
        owner: The id of the document's owner.
        new: The new document.
    """
    remove(tx, [(number, old)])
    analyzed = analysis.analyze_text(new.text, new.role)
    [series] = query.grow_series(tx, series=number >> PLACE_BITS, words=analyzed.length)
    _count(tx, number >> _SCOPE_BITS, documents=1, words=analyzed.length)
    placed = PlacedDocuments([number], [new], [analyzed], series["dimensions"] is not None, series["waiting"])
    write(tx, placed, [owner])


def remove(tx: Transaction, documents: Iterable[tuple[int, str]]) -> None:
    """Remove documents from the index.

    Args:
        tx: The transaction.
        documents: The number and the indexed text of each document.
    """
    if texts := dict(documents):
        ids = [{"id": number} for number in texts]
        waiting_rows = query.take_unindexed(tx, ids=json.dumps(list(texts))) if tx.max_unindexed else ()
        if indexed := sorted(texts.keys() - {row["document_id"] for row in waiting_rows}):
            rows = [_terms_row(number, analysis.extract_terms(texts[number])) for number in indexed]
            query.unindex_terms.run_many(tx, rows)
            changes = [_totals_change(number >> _SCOPE_BITS, documents=-1, minus=number) for number in indexed]
            query.change_totals.run_many(tx, changes)
            query.shrink_series.run_many(tx, [{"id": number} for number in indexed])
        query.keep_place.run_many(tx, [{"id": row["document_id"]} for row in waiting_rows])
        query.delete_document.run_many(tx, ids)
        query.count_vector_removal(tx)


def move(tx: Transaction, documents: Sequence[Row], path: str) -> None:
    """Move documents to another namespace, into series of the same kinds and names.

    Args:
        tx: The transaction.
        documents: Rows with "id", "owner", "owners" (the owner's table), "created_at", "role", and the series' "kind"
            and "name", in the order of the documents.
        path: The path of the other namespace, which is created if it is missing.
    """
    from langchain_agentmem.storage.transfer import number_documents  # noqa: PLC0415 - imported when needed

    for (kind, name), group in groupby(sorted(documents, key=_series_key), key=_series_key):
        rows = list(group)
        owners = [row["owner"] for row in rows]
        texts_by_owner = texts_of(tx, ((kind, owner) for owner in owners))
        texts = ["\n".join(texts_by_owner[kind, owner]) for owner in owners]
        new = [
            IndexedDocument(text, row["created_at"], role=row["role"]) for row, text in zip(rows, texts, strict=True)
        ]
        placed = reserve_places(tx, DocumentSeries(path, kind, name), new)
        write(tx, placed, owners)
        copies = [{"id": new_id, "from_id": row["id"]} for new_id, row in zip(placed.numbers, rows, strict=True)]
        query.copy_speaker.run_many(tx, copies)
        query.copy_speakers.run_many(tx, copies)
        moved = [{"id": owner, "document": new_id} for owner, new_id in zip(owners, placed.numbers, strict=True)]
        number_documents(tx, rows[0]["owners"], moved)
        remove(tx, [(row["id"], text) for row, text in zip(rows, texts, strict=True)])


def _series_key(row: Row) -> tuple[str, str]:
    return row["kind"], row["name"]


def delete_series(tx: Transaction, path: str, kind: str, name: str | None = None) -> None:
    """Delete empty series, including the stored names of their speakers.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        kind: The kind of the documents.
        name: The name of the series. Default: None, all series of the kind.
    """
    if rows := query.delete_series(tx, path=path, kind=kind, name=name):
        query.change_totals.run_many(tx, [_totals_change(row["scope_id"], series=-1) for row in rows])
    query.delete_scopes(tx, path=path, kind=kind)


def index_waiting(tx: Transaction, new: Sequence[dict[str, Any]] = (), *, waiting: bool = True) -> None:
    """Add waiting documents to the index, and count them.

    Args:
        tx: The transaction.
        new: Rows of further documents to index, as `_terms_row` returns them. Default: none.
        waiting: False to add only the documents of `new`. Default: True.
    """
    rows = query.all_unindexed(tx) if waiting else ()
    if unindexed := [*({"id": row["document_id"], "terms": row["terms"]} for row in rows), *new]:
        if tx.max_unindexed:
            ids = json.dumps([row["id"] for row in unindexed])
            query.count_documents(tx, ids=ids)
            query.count_totals(tx, ids=ids)
        if rows:
            query.delete_unindexed(tx)
        # FTS5 writes its pending rows before a statement that may fail half-way, so no such statement follows.
        _insert_rows(tx, query.index_terms, sorted(unindexed, key=itemgetter("id")))


def rebuild_if_old(tx: Transaction) -> None:
    """Rebuild the index in this transaction, if another version of the analysis built it."""
    query.lock_writers(tx)  # wait for another process that rebuilds the index
    if is_old(tx):
        empty_index(tx)
        after = -1
        while page := _reanalyze_page(tx, after, REBUILD_BATCH):
            query.index_terms.run_many(tx, [_terms_row(number, text.terms) for number, text in page.items()])
            after = max(page)
        query.recount_series(tx)
        query.delete_totals(tx)
        query.recount_totals(tx)
        query.set_search_state(tx, analysis=analysis.VERSION)


def empty_index(tx: Transaction) -> None:
    """Empty the index without deleting the documents."""
    query.empty_index(tx)
    query.delete_unindexed(tx)


def count_documents(tx: Transaction) -> int:
    """Return the number of documents."""
    [row] = query.count_index(tx)
    return int(row["documents"])


def series_of_kinds(tx: Transaction, kinds: Sequence[str]) -> list[Row]:
    """Return the series that have documents of some kinds, the largest first.

    Each row has the path, the name, and a flag for the series of a thread.

    Args:
        tx: The transaction.
        kinds: The kinds, as in `DocumentSeries`.
    """
    return list(query.series_by_size(tx, keys=json.dumps(kinds)))


def is_old(tx: Transaction) -> bool:
    """Return true if another version of the analysis built the index."""
    [state] = query.search_state(tx)
    return bool(state["analysis"] != analysis.VERSION)


def find_problems(tx: Transaction) -> list[str]:
    """Return the inconsistencies between the index and its documents; empty if none."""
    [counts] = query.count_index(tx)
    problems = []
    if counts["indexed"] + counts["waiting"] != counts["documents"]:
        sizes = f"{counts['indexed']} indexed and {counts['waiting']} waiting documents, not {counts['documents']}"
        problems.append(f"the full-text index has {sizes}")
    problems += [
        f"the series {safe_repr(row['name'])} counts {row['documents']} documents, not {row['actual']}"
        for row in query.wrong_series(tx)
    ]
    rows = query.wrong_totals(tx)
    problems += [f"the totals of the scope {row['id']} ({row['kind']}) are not those of its series" for row in rows]
    return problems + [f"the document {row['id']} of the search index has no owner" for row in query.wrong_owners(tx)]


def speaker_number(name: str) -> int:
    """Return the number by which documents refer to a speaker."""
    return crc32(name.casefold().encode("utf-8", "surrogatepass"))


def _create_series(tx: Transaction, series: DocumentSeries, first_at: int) -> None:
    """Create a series, or only its scope if that is missing."""
    if rows := query.next_series(tx, path=series.path, kind=series.kind, max_series=1 << SERIES_BITS):
        [row] = rows
        number = (row["id"] << SERIES_BITS) + row["series"] - 1
        query.create_series(tx, id=number, scope=row["id"], name=series.name, first_at=first_at)
        query.change_totals(tx, **_totals_change(row["id"], series=1))
    else:
        query.create_namespace(tx, path=series.path)
        query.create_scope(tx, path=series.path, kind=series.kind)


def _reanalyze_page(tx: Transaction, after: int, limit: int) -> dict[int, analysis.AnalyzedText]:
    """Update the lengths and features of a page of documents; return their analyzed texts."""
    page = list(query.documents_after(tx, after=after, limit=limit))
    texts = texts_of(tx, ((row["kind"], row["owner"]) for row in page))
    new = {row["id"]: analysis.analyze_text("\n".join(texts[row["kind"], row["owner"]]), row["role"]) for row in page}
    if rows := [{"id": number, "length": text.length, "features": text.features} for number, text in new.items()]:
        query.update_document.run_many(tx, rows)
    return new


def texts_of(tx: Transaction, owners: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Sequence[str]]:
    """Return the texts of documents by kind and owner; () for unreadable documents."""
    result: dict[tuple[str, int], Sequence[str]] = {}
    for kind, group in groupby(sorted(owners), key=itemgetter(0)):
        from langchain_agentmem.storage.part import all_parts  # noqa: PLC0415 - not needed for a new database

        owner_ids = [owner for _, owner in group]
        texts = all_parts().texts[kind](tx, owner_ids)
        result |= {(kind, owner): texts.get(owner, ()) for owner in owner_ids}
    return result


def _insert_rows(tx: Transaction, statement: Query, rows: list[dict[str, Any]]) -> None:
    statement.run_many(tx, rows) if len(rows) > 1 else statement(tx, **rows[0])


def _document_row(number: int, owner: int, document: IndexedDocument, text: analysis.AnalyzedText) -> dict[str, Any]:
    return {
        "id": number,
        "owner": owner,
        "created_at": document.created_at,
        "speaker": None if document.speaker is None else speaker_number(document.speaker),
        "role": document.role,
        "length": text.length,
        "features": text.features,
    }


def _count(tx: Transaction, scope: int, **changes: int) -> None:
    """Count written documents in the totals of a scope.

    On SQLite, `index_waiting` counts them later.
    """
    if not tx.max_unindexed:
        query.change_totals(tx, **_totals_change(scope, **changes))


def _totals_change(scope: int, **changes: int) -> dict[str, Any]:
    """Return the parameters of the query `change_totals`: changes, and defaults for others."""
    return {"scope": scope, "series": 0, "documents": 0, "words": 0, "last_at": 0, "minus": None, **changes}


def _terms_row(number: int, terms: Sequence[str]) -> dict[str, Any]:
    return {"id": number, "terms": " ".join(analysis.distinct_terms(terms))}


def _speaker_rows(number: int, name: str | None) -> list[dict[str, Any]]:
    if name is None:
        return []
    speaker = speaker_number(name)
    return [{"word": word, "series": number >> PLACE_BITS, "speaker": speaker} for word in analysis.speaker_words(name)]


def rebuild_outdated_index(engine: Engine) -> None:
    """Rebuild the index of a database, if another version of the analysis built it."""
    if engine.is_new or engine.read(is_old):  # a read would open another connection to a new database
        engine.write(rebuild_if_old)
