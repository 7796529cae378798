"""One search over all documents: candidates from the index, ranked and explained.

    analysed query → ranges of the index → postings of the terms → candidates → their neighbours → ranking

The cost of a search depends on the namespaces that it reads. For a term in very many documents, a search reads only the
newest ones and those that contain other terms of the question too. Scores are comparable within one search only. The
rarity of a term is computed within the search filter, so that no score reveals another tenant's texts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import orjson

from langchain_agentmem.base.concurrency import check_cancelled
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.namespaces import path_of
from langchain_agentmem.base.origins import UNKNOWN_SOURCE, describe_origin, trust_rank
from langchain_agentmem.errors import DatabaseReadOnly
from langchain_agentmem.messages.message import ROLE_SOURCES
from langchain_agentmem.search import analysis, ranking
from langchain_agentmem.search.analysis import AnalyzedQuery
from langchain_agentmem.search.dates import TimeSpan, find_times
from langchain_agentmem.search.ranking import WEIGHTS, Document, RankingQuery, SearchField, VectorScores, Weights
from langchain_agentmem.search.search_index import PLACE_BITS, SERIES_BITS, texts_of
from langchain_agentmem.search.timeline import MAX_COMPARED, Order, order_by_time
from langchain_agentmem.search.vectors import VectorQuery, embedder_of
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.storage.transaction import Rows
from langchain_agentmem.tracing import Thunk, document_outputs

CANDIDATES = 80
"""The number of documents in the first selection. Their neighbours are candidates too."""
MAX_POSTINGS = 2_000
"""Maximum documents to read for one term in one range of the index."""
MAX_REPEATS = 64
"""Maximum documents to compare with the question's text: the newest ones."""
MAX_DATED = 300
"""Maximum candidates for each time that the question names."""
FETCH_FACTOR = 5
"""The factor by which more hits than results are read, if a later step reorders or drops hits."""
_DAY = 86_400_000_000
_SCOPE_BITS = PLACE_BITS + SERIES_BITS

MemoryKind: TypeAlias = Literal["message", "fact", "item", "event", "record", "audit"]
"""The public names of the kinds of results."""

RELATED_KINDS = frozenset({"message", "nested_message", "event", "thread_post"})
"""The kinds whose consecutive documents are neighbours. Consecutive items, for example, are unrelated."""

MAX_RANGES = 64
"""Maximum ranges of the index in one search. A search of more ranges reads unwanted kinds too, and filters them out."""
_NO_FILTERS = {"filtered": 0, "roles": None, "before": None, "after": None}

Range = tuple[int, int]
Postings = dict[str, set[int]]


class SearchFilter(NamedTuple):
    """The conditions that restrict a search.

    Attributes:
        low: First namespace path.
        high: Path after the last.
        kinds: Only these kinds, or None for all.
        conversations: The ids of conversations, threads or branches, or None for all.
        roles: Only documents of these roles, or None for all.
        before: Only documents from before this time, in microseconds since 1970, or None.
        after: Only documents from this time or later, or None.
        trusted: Only results from these sources, or None for all.
        ignored: Documents to ignore completely, since the model of the run sees them anyway. None outside of runs.
    """

    low: str
    high: str
    kinds: tuple[str, ...] | None = None
    conversations: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None
    before: int | None = None
    after: int | None = None
    trusted: frozenset[str] | None = None
    ignored: frozenset[int] | None = None

    def contains(self, found: Recollection) -> bool:
        """Return true if a result lies in these namespaces and conversations."""
        in_namespaces = self.low <= path_of(found.namespace) < self.high
        return in_namespaces and (self.conversations is None or found.conversation_id in (None, *self.conversations))

    def accepts(self, document: Document) -> bool:
        """Return true if the role and the time of a document pass the filter."""
        is_before = self.before is None or document.created_at < self.before
        is_after = self.after is None or document.created_at >= self.after
        return is_before and is_after and (self.roles is None or document.role in self.roles)

    @property
    def is_selective(self) -> bool:
        """True if documents must be checked one by one."""
        return self.roles is not None or self.before is not None or self.after is not None

    def params(self) -> dict[str, Any]:
        """Return the filter's parameters for queries of the index."""
        roles = None if self.roles is None else json.dumps(self.roles)
        return {"filtered": int(self.is_selective), "roles": roles, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The reasons for a search result.

    Attributes:
        terms: The words of the query in the result itself, with their contributions to the score.
        signals: The other contributions to the score, by name: "conversation", "date", "speaker" and so on.
        nearby: The words of the query in messages next to the result, with their contributions to the score.
    """

    terms: Mapping[str, float] = field(default_factory=dict)
    signals: Mapping[str, float] = field(default_factory=dict)
    nearby: Mapping[str, float] = field(default_factory=dict)

    def parts(self) -> dict[str, float]:
        """Return all parts of the score by name.

        A word in neighbouring messages is named "word (nearby)".
        """
        return {**self.terms, **{f"{word} (nearby)": value for word, value in self.nearby.items()}, **self.signals}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:+.2f}" for name, value in self.parts().items()) or "no reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """A result of a search.

    Attributes:
        kind: "message", "fact", "item", "event", "record" or "audit".
        id: The id of the result: for a message, the message's own; for an item, its key.
        text: The text of the result.
        score: The relevance; comparable within one search only.
        namespace: The namespace of the result.
        conversation_id: The conversation it belongs to, or None.
        created_at: The time of the message or of the write, in UTC.
        value: The object itself: for a message, a `Message`; for an item, its value.
        why: The matched terms and the contribution of each signal.
        thread_id: The thread that wrote the result, or None.
        source: The origin: "user", "model", "tool", "import", "person"; None if it is unknown.
        actor: The name of the source, such as a tool's name.
        also: Kind and id of each duplicate. A text that is stored several times, or as several kinds, is one result. In
            the order of time, near duplicates are included.
        replaced_by: Kind and id of the later replacement; None if none is known. For facts, it is the fact that ended
            them. For other kinds, it is detected by words, in the order of time only.
        row: The kind in the index and the row, by which `reload_results` reads the result.
    """

    kind: str
    id: str
    text: str
    score: float
    namespace: tuple[str, ...]
    conversation_id: str | None
    created_at: datetime
    value: Any
    why: Explanation
    also: tuple[tuple[str, str], ...] = ()
    replaced_by: tuple[str, str] | None = None
    thread_id: str | None = field(default=None, compare=False)
    source: str | None = field(default=None, compare=False)
    actor: str | None = field(default=None, compare=False)
    row: tuple[str, int] | None = field(default=None, compare=False, repr=False)

    def with_signals(self, **signals: float) -> Recollection:
        """Return a copy with further signals, which add to the score."""
        why = replace(self.why, signals={**self.why.signals, **signals})
        return replace(self, score=self.score + sum(signals.values()), why=why)


def is_trusted(found: Any, trusted: frozenset[str] | None) -> bool:
    """Return true if the source of a result is trusted; for a fact, any of its sources.

    Args:
        found: A `Recollection`, or an event, a record, a value of core memory or a fact.
        trusted: The trusted sources; None for all.
    """
    return trusted is None or any((source or UNKNOWN_SOURCE) in trusted for source, _ in _sources(found))


def origin_of(found: Any) -> str:
    """Describe the source of a result; for a fact, the most trusted one."""
    return describe_origin(*min(_sources(found), key=lambda each: trust_rank(each[0])))


def _sources(found: Any) -> list[tuple[str | None, str | None]]:
    mentions = getattr(found.value if isinstance(found, Recollection) else found, "mentions", ())
    return [(one.source or ROLE_SOURCES.get(one.role), one.actor) for one in mentions] or [(found.source, found.actor)]


class SearchHit(NamedTuple):
    """A document that a search found.

    Attributes:
        document: The document's number.
        kind: The kind in the index.
        owner: The id of the indexed row, in the table of its kind.
        score: The relevance.
        why: The reasons for the score.
    """

    document: int
    kind: str
    owner: int
    score: float
    why: Explanation


def search(
    tx: Transaction,
    question: AnalyzedQuery,
    filters: SearchFilter,
    *,
    limit: int,
    weights: Weights | None = None,
    dense: VectorQuery | None = None,
    order: Order = "score",
) -> list[SearchHit]:
    """Find the documents that answer a query best.

    Args:
        tx: The transaction.
        question: The query, analysed.
        filters: The filter of the search.
        limit: Maximum hits, 1 or more.
        weights: The weight of each signal. Default: the measured weights, which depend on the trust in vectors.
        dense: The question's vector query, or None without embeddings.
        order: The order in which the results are shown: "time" uses other default weights. Default: "score".

    Returns:
        The hits, the best first, also with the order "time". Of hits with equal scores, the newest is first.
    """
    ranges, kinds = ranges_of(tx, filters)
    if not ranges:
        return []
    totals_rows = query.search_totals.lazy(tx, ranges=as_json(ranges))
    words = _words_json(question)
    rows = query.find_speakers(tx, words=words, ranges=as_json(ranges))
    speakers, names = {row["speaker"] for row in rows}, {question.words[row["word"]] for row in rows}
    unnamed = tuple(term for term in question.terms if term not in names)
    terms = unnamed or question.terms
    [totals] = totals_rows
    if not totals["documents"]:
        return []
    times = find_times(question.text, min(question.now, int(totals["last_at"])))
    if not terms and not times and dense is None:
        return []
    postings, term_weights = _load_postings(tx, terms, question.spellings, ranges, filters, totals)
    terms = tuple(postings)
    if speakers and not unnamed:  # a name alone matches all messages of its owner
        for row in query.documents_of_speakers(tx, words=words, ranges=as_json(ranges), limit=CANDIDATES):
            term = question.words[row["word"]]
            postings.get(question.spellings.get(term, term), set()).add(row["id"])  # a name may be a stop word
    _remove_ignored(filters, postings, {})
    candidates = set(ranking.first_candidates(postings, term_weights, max(CANDIDATES, limit)))
    candidates |= _find_dated(tx, times, ranges)
    if dense is not None:
        candidates.update(dense.nearest(tx, ranges, max(CANDIDATES, limit)))
    candidates -= filters.ignored or set()
    if not candidates:
        return []
    related = {number >> PLACE_BITS for number in candidates if kinds[number >> _SCOPE_BITS] in RELATED_KINDS}
    near_ranges = ranking.neighbour_ranges(candidates, related)
    owners, documents = _load_documents(tx, near_ranges)
    repeats = _find_repeats(tx, question, filters, postings, owners, documents, kinds)
    conversations = ranking.conversation_scores(postings, int(totals["series"]), repeats)
    _complete_postings(tx, postings, near_ranges, related, everything=filters.is_selective)
    _remove_ignored(filters, postings, documents)
    closeness, defaults = VectorScores(), WEIGHTS
    if dense is not None:
        questions = {number for number, each in documents.items() if each.is_question}
        closeness = dense.closeness(tx, documents, related, questions, repeats)
        trust = ranking.vector_trust(closeness.own, set().union(*postings.values()))
        defaults = ranking.weights_with_vectors(trust)
    if order == "time":
        defaults = ranking.weights_in_time(defaults)
    average_length = max(totals["words"] / totals["documents"], 1.0)
    found = ranking.rank_documents(
        RankingQuery(terms, question.answer_kinds, times, speakers, question.is_lookup),
        SearchField(postings, term_weights, documents, average_length, conversations, related, closeness, repeats),
        _select(documents, filters, kinds),
        limit=limit,
        weights=weights or defaults,
    )
    word_of = {term: word for word, term in reversed(question.words.items())}
    return [
        SearchHit(hit.number, kinds[hit.number >> _SCOPE_BITS], owners[hit.number], hit.score, _explain(hit, word_of))
        for hit in found
    ]


def _select(documents: Mapping[int, Document], filters: SearchFilter, kinds: Mapping[int, str]) -> Collection[int]:
    """Return the numbers of the documents that pass the filter."""
    wanted = {scope for scope, kind in kinds.items() if filters.kinds is None or kind in filters.kinds}
    if len(wanted) == len(kinds) and not filters.is_selective:
        return documents
    return [number for number, each in documents.items() if number >> _SCOPE_BITS in wanted and filters.accepts(each)]


def ranges_of(tx: Transaction, filters: SearchFilter) -> tuple[list[Range], dict[int, str]]:
    """Return the ranges of documents to search, and the kinds of their scopes.

    The ranges are ascending, and adjacent ones are merged. If the wanted kinds have more than `MAX_RANGES` ranges, the
    ranges of all kinds are returned.
    """
    if filters.conversations is not None:
        rows = query.series_within(tx, low=filters.low, high=filters.high, keys=json.dumps(filters.conversations))
        bits, kinds = PLACE_BITS, {row["id"] >> SERIES_BITS: row["kind"] for row in rows}
    else:
        rows = query.scopes_within(tx, low=filters.low, high=filters.high)
        bits, kinds = _SCOPE_BITS, {row["id"]: row["kind"] for row in rows}
    ranges = _merge_ranges([row["id"] for row in rows if filters.kinds is None or row["kind"] in filters.kinds], bits)
    return (ranges if len(ranges) <= MAX_RANGES else _merge_ranges([row["id"] for row in rows], bits)), kinds


def _merge_ranges(numbers: Iterable[int], bits: int) -> list[Range]:
    ranges: list[Range] = []
    for number in numbers:
        start, end = number << bits, (number + 1) << bits
        if ranges and ranges[-1][1] == start:
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((start, end))
    return ranges


def _words_json(question: AnalyzedQuery) -> str:
    return as_json(list(question.words)[: analysis.MAX_QUERY_TERMS])


def _load_postings(
    tx: Transaction,
    terms: Sequence[str],
    spellings: Mapping[str, str],
    ranges: Sequence[Range],
    filters: SearchFilter,
    totals: Any,
) -> tuple[Postings, dict[str, float]]:
    """Return the documents that contain each term within the filter, and each term's weight.

    Two spellings of a word are one term.
    """
    postings: Postings = {term: set() for term in terms}
    if not terms:
        return postings, {}
    documents = int(totals["documents"])
    unindexed_rows = query.unindexed_within.lazy(tx, ranges=as_json(ranges), **filters.params())
    truncated: dict[str, list[int]] = {}
    for row in _look_up_terms(tx, [(term, ()) for term in terms], ranges, filters):
        postings[row["term"]].update(orjson.loads(row["documents"]))
        if row["newest"] is not None:
            truncated.setdefault(row["term"], []).extend(orjson.loads(row["newest"]))
    counts = {term: len(postings[term]) for term in terms}
    for term, newest in truncated.items():
        counts[term] = _estimate_count(postings[term], int(totals["series"]), documents)
        postings[term].update(newest)
    if truncated and len(terms) > 1:
        pairs = [(term, tuple(other for other in terms if other != term)) for term in truncated]
        for row in _look_up_terms(tx, pairs, ranges, filters):
            postings[row["term"]].update(orjson.loads(row["newest"] or row["documents"]))
    for term in _add_unindexed(unindexed_rows, postings):
        counts[term] += 1
    for other, term in spellings.items():
        if postings.keys() >= {other, term}:
            postings[term] |= postings.pop(other)
            counts[term] = max(counts[term], counts[other], len(postings[term]))
    return postings, {term: ranking.term_weight(term, documents, min(counts[term], documents)) for term in postings}


def _add_unindexed(rows: Iterable[Any], postings: Postings) -> list[str]:
    """Add documents that are not indexed yet; return the term of each added posting."""
    added: list[str] = []
    for row in rows:
        for term in postings.keys() & set(row["terms"].split(" ")):
            postings[term].add(row["document_id"])
            added.append(term)
    return added


def _look_up_terms(
    tx: Transaction, wanted: Sequence[tuple[str, Sequence[str]]], ranges: Sequence[Range], filters: SearchFilter
) -> Rows:
    """Return the documents that contain each term and any of the terms listed with it."""
    return query.postings(tx, terms=as_json(wanted), ranges=as_json(ranges), limit=MAX_POSTINGS, **filters.params())


def _estimate_count(oldest: Collection[int], series: int, documents: int) -> int:
    """Estimate the number of documents that contain a term, from the oldest ones.

    If the oldest documents lie in one series, extrapolate from the part of it that they cover; otherwise, from the
    number of series that they cover.
    """
    first, last = min(oldest), max(oldest)
    if first >> PLACE_BITS == last >> PLACE_BITS:
        return min(documents, len(oldest) * documents // max(last - first + 1, len(oldest)))
    covered = len({number >> PLACE_BITS for number in oldest})
    return min(documents, len(oldest) * max(series, covered) // covered)


def _find_dated(tx: Transaction, times: Iterable[TimeSpan], ranges: Sequence[Range]) -> set[int]:
    """Return documents from or near the times that a question names.

    For each time, the nearest documents are taken, at most `MAX_DATED`.
    """
    found: set[int] = set()
    for span in times:
        rows = query.dated_documents(
            tx,
            start=span.start,
            end=span.end,
            earliest=span.start - 2 * _DAY,
            latest=span.end + 7 * _DAY,
            ranges=as_json(ranges),
            limit=MAX_DATED,
        )
        found.update(row["id"] for row in rows)
    return found


def _load_documents(tx: Transaction, ranges: Sequence[Range]) -> tuple[dict[int, int], dict[int, Document]]:
    """Return the owners of documents in some ranges, and the documents, by number."""
    rows = query.documents_within(tx, ranges=as_json(ranges))
    numbers, owners, *columns = orjson.loads(rows[0]["columns"]) if rows else ((), ())
    documents = map(Document._make, zip(*columns, strict=True))
    return dict(zip(numbers, owners, strict=True)), dict(zip(numbers, documents, strict=True))


def _complete_postings(
    tx: Transaction, postings: Postings, near_ranges: Sequence[Range], related: Collection[int], *, everything: bool
) -> None:
    """Add documents near the candidates to incomplete postings.

    Postings of `MAX_POSTINGS` documents or more are incomplete. With `everything`, all are, because of a filter.
    """
    missing = [term for term, found in postings.items() if everything or len(found) >= MAX_POSTINGS]
    if missing and related:
        for row in query.terms_in_ranges(tx, terms=as_json(missing), ranges=as_json(near_ranges)):
            postings[row["term"]].update(orjson.loads(row["documents"]))
        if everything:
            unindexed_rows = query.unindexed_within(tx, ranges=as_json(near_ranges), **_NO_FILTERS)
            _add_unindexed(unindexed_rows, postings)


def _remove_ignored(filters: SearchFilter, postings: Postings, documents: dict[int, Document]) -> None:
    """Remove the ignored documents from the postings and the documents."""
    for numbers in postings.values():
        numbers.difference_update(filters.ignored or ())
    for number in documents.keys() & (filters.ignored or ()):
        del documents[number]


def _find_repeats(
    tx: Transaction,
    question: AnalyzedQuery,
    filters: SearchFilter,
    postings: Postings,
    owners: Mapping[int, int],
    documents: Mapping[int, Document],
    kinds: Mapping[int, str],
) -> set[int]:
    """Find the documents that repeat the question, if it is asked outside of a run.

    Their terms do not contribute to their neighbours.
    """
    length = analysis.analyze_text(question.text).length
    matches = set.intersection(*postings.values()) if postings and filters.ignored is None else ()
    candidates = sorted(number for number in matches if number in documents and documents[number].length == length)
    question_terms = analysis.extract_terms(question.text) if candidates else []
    places = {(kinds[each >> _SCOPE_BITS], owners[each]): each for each in candidates[-MAX_REPEATS:]}
    texts = texts_of(tx, (each for each in places if each[0] in RELATED_KINDS))
    return {places[each] for each, text in texts.items() if analysis.extract_terms("\n".join(text)) == question_terms}


def _explain(hit: ranking.ScoredDocument, word_of: Mapping[str, str]) -> Explanation:
    terms, nearby = ({word_of.get(term, term): part for term, part in of.items()} for of in (hit.terms, hit.nearby))
    return Explanation(terms=terms, nearby=nearby, signals={name: part for name, part in hit.signals.items() if part})


def reload_results(
    tx: Transaction, rows: Iterable[tuple[str, int]], *, now: int, search_view: Any
) -> list[Recollection]:
    """Read earlier results in their current state.

    Results that are deleted or no longer visible are left out.

    Args:
        tx: The transaction.
        rows: The `row` of each result.
        now: The time, in microseconds since 1970.
        search_view: The `SearchView` of the search; None for no particular view.
    """
    resolved_view = None if search_view is None else search_view.with_view(tx, now)
    hits = [SearchHit(number, kind, owner, 0.0, Explanation()) for number, (kind, owner) in enumerate(rows)]
    results = to_recollections(tx, hits, now, resolved_view)
    return [results[hit.document] for hit in hits if hit.document in results]


def to_recollections(tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: Any) -> dict[int, Recollection]:
    """Convert hits to recollections, by document number."""
    results: dict[int, Recollection] = {}
    for kind in sorted({hit.kind for hit in hits}):
        of_kind = [hit for hit in hits if hit.kind == kind]
        results.update(all_parts().recollections[kind](tx, of_kind, now, search_view))
    return results


_KIND_ORDER = ("message", "record", "fact", "event", "item")
"""The kinds in order of preference for a text that is stored as several kinds."""
T = TypeVar("T")


def group_by_text(
    found: Iterable[T], text: Callable[[T], str], distinct_by: Callable[[T], Any] = lambda _: None
) -> list[list[T]]:
    """Group results that have the same text, in the order in which each text comes first.

    Args:
        found: The results. One without a text is a group of its own.
        text: Returns the text of a result.
        distinct_by: Returns a further value that must be equal within a group. Default: only texts are compared.
    """
    groups: dict[Any, list[T]] = {}
    for number, each in enumerate(found):
        key = text(each).strip()
        groups.setdefault((key, distinct_by(each)) if key else number, []).append(each)
    return list(groups.values())


def merge_duplicates(found: Iterable[Recollection], *, in_time: bool = False) -> list[Recollection]:
    """Return each text of a namespace once, with references to its duplicates.

    The first kind in `_KIND_ORDER` takes precedence, then the most trusted source, then the newest result.

    Facts with the same text differ in time, so each is a result, and so is each audit entry. Items may be indexed by a
    part of their value. Those with different values are separate results.

    Args:
        found: Results in any order.
        in_time: True keeps results of one kind apart, since their author and time matter.
    """
    counts: Counter[tuple[Any, ...]] = Counter()
    values: dict[tuple[Any, ...], dict[str, int]] = {}

    def distinct_by(each: Recollection) -> tuple[Any, ...]:
        if each.kind not in _KIND_ORDER:
            return each.kind, each.id
        text_key = each.namespace, each.kind, each.text
        counts[text_key] += 1
        if in_time or getattr(each.value, "raw", True) is False:
            return each.namespace, counts[text_key]
        numbers = values.setdefault(text_key, {})  # the number of each distinct value
        return each.namespace, numbers.setdefault(repr(each.value) if each.kind == "item" else "", len(numbers) + 1)

    merged = []
    for group in group_by_text(found, lambda each: each.text, distinct_by):
        first = min(group, key=_preference_key) if len(group) > 1 else group[0]
        also = tuple((each.kind, each.id) for each in group if each is not first)
        merged.append(replace(first, score=max(each.score for each in group), also=also) if also else first)
    return merged


def _preference_key(each: Recollection) -> tuple[float, ...]:
    is_raw, rank = getattr(each.value, "raw", False), min(trust_rank(source) for source, _ in _sources(each))
    return _KIND_ORDER.index(each.kind), is_raw, rank, -each.created_at.timestamp()


def _boost_phrases(each: Recollection, phrases: Sequence[Sequence[str]], weight: float) -> Recollection:
    """Raise the score of a result that contains quoted phrases of the query."""
    text = " ".join(analysis.extract_terms(each.text))
    share = sum(f" {' '.join(phrase)} " in f" {text} " for phrase in phrases) / len(phrases)
    return each.with_signals(phrase=weight * share) if share else each


class Search(NamedTuple):
    """A search of a database.

    Attributes:
        question: The query, analysed.
        search_filter: The filter of the search.
        limit: Maximum results.
        weights: The weight of each signal. Default: the measured weights.
        search_view: The `SearchView` of the search. Default: no particular view.
        name: The name of the step in a trace, `<part>.<verb>`. None for a detail of the surrounding step.
        inputs: Further inputs that a trace shows.
        order: "score", the best first, or "time", the oldest first.
    """

    question: AnalyzedQuery
    search_filter: SearchFilter
    limit: int
    weights: Weights | None = None
    search_view: Any = None
    name: str | None = "search"
    inputs: Thunk | None = None
    order: Order = "score"

    def find(self, database: Database) -> list[Recollection]:
        """Search a database, as one traced step.

        Returns:
            The results that answer the query best, the best first in the order "score".
        """
        check_cancelled()
        engine, filters = database.engine, self.search_filter
        more_inputs = self.inputs or dict
        inputs = {"query": self.question.text, "limit": self.limit}
        with database.step(self.name, lambda: {**inputs, **more_inputs()}, "retriever") as step:
            for part in all_parts().all:
                stored_as = {each.index_name for forms in part.search_kinds.values() for each in forms}
                if not part.has_pending or not part.settle or stored_as.isdisjoint(filters.kinds or ()):
                    continue
                if engine.read(part.has_pending):
                    with suppress(DatabaseReadOnly):  # a read-only role can still search
                        engine.write(part.settle)
            dense = make_vector_query(database, self.question, filters) if self.limit else None
            found = engine.read(lambda tx: self._find(tx, dense))
            step.finish(lambda: document_outputs(found))
        return found

    def _find(self, tx: Transaction, dense: VectorQuery | None) -> list[Recollection]:
        limit, question, filters = self.limit, self.question, self.search_filter
        if limit == 0 or (filters.kinds is not None and not filters.kinds):
            return []
        is_timed = self.order == "time"
        view = None if self.search_view is None else self.search_view.with_view(tx, question.now)
        filters = filters if view is None else view.narrow_filter(tx, filters, question.now)
        is_mixed = filters.kinds is None or len(filters.kinds) > 1  # two kinds may contain the same text
        hit_limit = limit * (FETCH_FACTOR if question.phrases or is_timed else 2 if is_mixed else 1)
        while True:
            hits = search(tx, question, filters, limit=hit_limit, weights=self.weights, dense=dense, order=self.order)
            results = to_recollections(tx, hits, question.now, view)
            if is_timed:
                hits.sort()  # documents of the same time stay in the order of their places
            known = (results[hit.document] for hit in hits if hit.document in results)
            found = merge_duplicates((each for each in known if is_trusted(each, filters.trusted)), in_time=is_timed)
            if question.phrases:
                weight = (self.weights or WEIGHTS).phrase
                found = [_boost_phrases(each, question.phrases, weight) for each in found]
            seen = len(found)
            if is_timed:
                found = order_by_time(found, question, limit)
            elif question.phrases:
                found.sort(key=lambda each: -each.score)
            if (seen if hit_limit >= MAX_COMPARED else len(found)) >= limit or len(hits) < hit_limit:
                break
            hit_limit *= FETCH_FACTOR  # some hits have expired, are not visible, or repeat others
        return found[:limit]


def make_vector_query(database: Database, question: AnalyzedQuery, filters: SearchFilter) -> VectorQuery | None:
    """Return the vector query of a question, or None.

    The result is None if the question is empty, or if there are no embeddings or they fail.

    Args:
        database: The database to search.
        question: The question.
        filters: The filter of the search. The names of speakers in it are replaced, since people do not use their own
            names.
    """
    embedder = embedder_of(database)
    if embedder is None or not question.text.strip():
        return None
    names = database.engine.read(lambda tx: _speaker_names(tx, question, filters))
    text = analysis.to_first_person(question.text, names) if len(names) == 1 else question.text
    return embedder.make_query(text)


def _speaker_names(tx: Transaction, question: AnalyzedQuery, filters: SearchFilter) -> set[str]:
    """Return the words of a question that name a speaker in the ranges of the search."""
    ranges, _ = ranges_of(tx, filters)
    return {row["word"] for row in query.find_speakers(tx, words=_words_json(question), ranges=as_json(ranges))}
