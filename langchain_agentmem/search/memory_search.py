"""One search over all documents: candidates from the index, ranked and explained.

    analyzed query → ranges of document numbers → postings of the terms → candidates → their neighbours → ranking

The number of a document encodes its scope (one kind in one namespace), its series (such as a conversation) and its
place in the series, see `search_index.py`. The postings of a term are the numbers of the documents that contain it. In
this module, `question` is the analyzed query, and `query` is the module of the SQL queries.

The cost of a search depends on the size of the searched namespaces. For a very frequent term, a search reads only some
documents, see `_load_postings`. Scores are comparable within one search only. The rarity of a term is computed within
the search filter, so that no score reveals another tenant's texts.
"""

from __future__ import annotations

import json
import math
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
from langchain_agentmem.search.ranking import WEIGHTS, Documents, RankingData, RankingQuery, VectorScores, Weights
from langchain_agentmem.search.search_index import PLACE_BITS, SERIES_BITS, texts_of
from langchain_agentmem.search.timeline import MAX_COMPARED, Order, order_by_time
from langchain_agentmem.search.vectors import VectorQuery, embedder_of
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.storage.transaction import Rows
from langchain_agentmem.tracing import Thunk, document_outputs

CANDIDATES = 80
"""The number of candidates that matching terms select, and the number that vectors select."""
MAX_POSTINGS = 2_000
"""Maximum documents to read for one term in one range of document numbers."""
MAX_COPIES = 64
"""Maximum documents, the newest ones, whose texts are compared with the query's text."""
MAX_DATED = 300
"""Maximum candidates for each time that the query names."""
FETCH_FACTOR = 5
"""The number of hits per result that a search reads first, if a later step reorders or removes hits."""
_DAY = 86_400_000_000  # microseconds
_SCOPE_BITS = PLACE_BITS + SERIES_BITS

MemoryKind: TypeAlias = Literal["message", "fact", "item", "event", "record", "audit"]
"""The public names of the kinds of results."""

RELATED_KINDS = frozenset({"message", "nested_message", "event", "thread_post"})
"""The kinds whose consecutive documents are neighbours. Consecutive items, for example, are unrelated."""

MAX_RANGES = 64
"""Maximum ranges of document numbers in a search. If there are more, all kinds are searched, then filtered by kind."""
_NO_FILTERS = {"filtered": 0, "roles": None, "before": None, "after": None}

Range = tuple[int, int]
Postings = dict[str, set[int]]


class SearchFilter(NamedTuple):
    """The conditions that restrict a search.

    Attributes:
        low: The first path of the range of namespaces.
        high: The end of the range, exclusive.
        kinds: Only these kinds, or None for all.
        conversations: The ids of conversations, threads or branches, or None for all.
        roles: Only documents of these roles, or None for all.
        before: Only documents from before this time, in microseconds since 1970, or None.
        after: Only documents from this time or later, or None.
        trusted: Only results from these sources, or None for all.
        ignored: Documents to ignore, because they are already in the context of the run's model. None outside of runs.
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

    def contains(self, result: Recollection) -> bool:
        """Return true if a result is in these namespaces, and in a listed conversation or in none."""
        in_namespaces = self.low <= path_of(result.namespace) < self.high
        return in_namespaces and (self.conversations is None or result.conversation_id in (None, *self.conversations))

    def accepts(self, created_at: int, role: str | None) -> bool:
        """Return true if a document has one of the roles and a time in the period."""
        is_before = self.before is None or created_at < self.before
        is_after = self.after is None or created_at >= self.after
        return is_before and is_after and (self.roles is None or role in self.roles)

    @property
    def is_selective(self) -> bool:
        """True if the filter restricts roles or times, so that each document must be checked."""
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
        id: The id of the result. For a message, the id of the message; for an item, its key.
        text: The text of the result.
        score: The relevance; comparable within one search only.
        namespace: The namespace of the result.
        conversation_id: The conversation of the result, or None.
        created_at: The time of the message or of the write, in UTC.
        value: The object of the result: for a message, a `Message`; for an item, its value.
        why: The matched terms and the contribution of each signal to the score.
        thread_id: The thread that wrote the result, or None.
        source: The kind of writer: "user", "model", "tool", "import", "person"; None if it is unknown.
        actor: The name of the writer, such as a tool's name.
        also: Kind and id of each duplicate. A text that is stored several times, or as several kinds, is one result. In
            the order of time, texts that repeat most of a result are included.
        replaced_by: Kind and id of the later replacement, or None. For a fact, it is the fact that ended it. For other
            kinds, a search in the order of time detects it by words.
        row: The kind in the index and the id of the row, with which `reload_results` reads the result.
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
        """Return a copy with further signals, which are added to the score."""
        why = replace(self.why, signals={**self.why.signals, **signals})
        return replace(self, score=self.score + sum(signals.values()), why=why)


def is_trusted(memory: Any, trusted: frozenset[str] | None) -> bool:
    """Return true if the source of a result is trusted; for a fact, any of its sources.

    Args:
        memory: A `Recollection`, an event, a record, a value of core memory or a fact.
        trusted: The trusted sources; None for all.
    """
    return trusted is None or any((source or UNKNOWN_SOURCE) in trusted for source, _ in _sources(memory))


def origin_of(memory: Any) -> str:
    """Describe the source and the actor of a result; for a fact, the most trusted ones."""
    return describe_origin(*min(_sources(memory), key=lambda pair: trust_rank(pair[0])))


def _sources(memory: Any) -> list[tuple[str | None, str | None]]:
    """Return the sources and actors of a memory. A fact has one of each for every mention."""
    mentions = getattr(memory.value if isinstance(memory, Recollection) else memory, "mentions", ())
    pairs = [(mention.source or ROLE_SOURCES.get(mention.role), mention.actor) for mention in mentions]
    return pairs or [(memory.source, memory.actor)]


class SearchHit(NamedTuple):
    """A document that a search found.

    Attributes:
        document: The document's number.
        kind: The kind in the index.
        owner: The id of the row that the document represents, in the table of the kind.
        score: The relevance.
        why: The reasons for the score.
    """

    document: int
    kind: str
    owner: int
    score: float
    why: Explanation


class _Ranker(NamedTuple):
    """The data of one search, with which any number of candidates can be ranked.

    Attributes:
        tx: The transaction.
        question: The analyzed query.
        filters: The filter of the search.
        ranges: The ranges of document numbers to search.
        kind_of: The kind of each index scope.
        totals: The counts of documents, words and series in the ranges.
        query: The properties of the query that ranking needs.
        postings: The documents that contain each term.
        term_weights: The weight of each term.
        weights: The weight of each signal. None for the fitted weights.
        dense: The vector of the query, or None.
        order: The order of the final results.
    """

    tx: Transaction
    question: AnalyzedQuery
    filters: SearchFilter
    ranges: Sequence[Range]
    kind_of: Mapping[int, str]
    totals: Mapping[str, Any]
    query: RankingQuery
    postings: Postings
    term_weights: Mapping[str, float]
    weights: Weights | None
    dense: VectorQuery | None
    order: Order

    def rank(self, count: int, limit: int) -> list[ranking.ScoredDocument]:
        """Return the best of some candidates and of the documents near them.

        Args:
            count: The number of candidates that the terms select, and the number that the vectors select.
            limit: Maximum results.
        """
        tx, filters, postings, kind_of = self.tx, self.filters, self.postings, self.kind_of
        candidates = set(ranking.first_candidates(postings, self.term_weights, count))
        candidates |= _find_dated(tx, self.query.spans, self.ranges)
        if self.dense is not None:
            candidates.update(self.dense.nearest(tx, self.ranges, count))
        candidates -= filters.ignored or set()
        if not candidates:
            return []
        related = {number >> PLACE_BITS for number in candidates if kind_of[number >> _SCOPE_BITS] in RELATED_KINDS}
        near_ranges = ranking.neighbour_ranges(candidates, related)
        documents = _load_documents(tx, near_ranges, times=bool(self.query.spans) or filters.is_selective)
        copies = _find_copies(tx, self.question, filters, postings, documents, kind_of)
        conversations = ranking.conversation_scores(postings, int(self.totals["series"]), copies)
        _complete_postings(tx, postings, near_ranges, related, is_filtered=filters.is_selective)
        documents = _remove_ignored(filters, postings, documents)
        vector_scores, weights = VectorScores(), WEIGHTS
        if self.dense is not None:
            vector_scores = self.dense.score_documents(tx, documents.numbers, related, documents.questions(), copies)
            trust = ranking.vector_trust(vector_scores.own, set().union(*postings.values()))
            weights = ranking.weights_with_vectors(trust)
        if self.order == "time":
            weights = ranking.weights_in_time(weights)
        average_length = max(self.totals["words"] / self.totals["documents"], 1.0)
        index_data = postings, self.term_weights, documents, average_length, conversations, related
        data, passing = RankingData(*index_data, vector_scores, copies), _filter(documents, filters, kind_of)
        return ranking.rank_documents(self.query, data, passing, limit=limit, weights=self.weights or weights)


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

    The first `CANDIDATES` candidates are ranked together, and further candidates follow them. So the first results do
    not depend on the limit.

    Args:
        tx: The transaction.
        question: The analyzed query.
        filters: The filter of the search.
        limit: Maximum hits, 1 or more.
        weights: The weight of each signal. Default: the fitted weights, see `ranking.weights_with_vectors`.
        dense: The vector of the query, or None without embeddings.
        order: The order of the final results: "time" uses other default weights. Default: "score".

    Returns:
        The hits, the best first, even for the order "time". Of hits with equal scores, the newest is first.
    """
    ranges, kind_of = find_ranges(tx, filters)
    if not ranges:
        return []
    totals_rows = query.search_totals.lazy(tx, ranges=_ranges_json(ranges))  # runs together with the next query
    words = _words_json(question)
    rows = query.find_speakers(tx, words=words, ranges=_ranges_json(ranges))
    speakers, name_terms = {row["speaker"] for row in rows}, {question.words[row["word"]] for row in rows}
    other_terms = tuple(term for term in question.terms if term not in name_terms)
    terms = other_terms or question.terms
    [totals] = totals_rows
    if not totals["documents"]:
        return []
    times = find_times(question.asking, min(question.now, int(totals["last_at"])))
    if not terms and not times and dense is None:
        return []
    postings, term_weights = _load_postings(tx, terms, question.spellings, ranges, filters, totals)
    has_only_names = bool(speakers) and not other_terms
    if has_only_names:  # such a query matches all messages of these speakers
        for row in query.documents_of_speakers(tx, words=words, ranges=_ranges_json(ranges), limit=CANDIDATES):
            term = question.words[row["word"]]
            postings.get(question.spellings.get(term, term), set()).add(row["id"])  # a name may be a stop word
    _remove_ignored(filters, postings, ranking.NO_DOCUMENTS)
    is_lookup = question.is_lookup or has_only_names
    ranking_query = RankingQuery(tuple(postings), question.answer_kinds, times, speakers, is_lookup)
    index_data = ranges, kind_of, totals, ranking_query, postings, term_weights
    ranker = _Ranker(tx, question, filters, *index_data, weights, dense, order)
    ranked = ranker.rank(CANDIDATES, limit)
    if len(ranked) < limit and limit > CANDIDATES:
        first, last_score = {hit.number for hit in ranked}, ranked[-1].score if ranked else math.inf
        others = (hit for hit in ranker.rank(limit, limit) if hit.number not in first)
        ranked += [_lower(hit, last_score) for hit in others][: limit - len(ranked)]
    word_of = {term: word for word, term in reversed(question.words.items())}
    return [
        SearchHit(hit.number, kind_of[hit.number >> _SCOPE_BITS], hit.owner, hit.score, _explain(hit, word_of))
        for hit in ranked
    ]


def _lower(hit: ranking.ScoredDocument, score: float) -> ranking.ScoredDocument:
    """Return a hit with at most the given score. The difference is the signal `rank`."""
    if hit.score <= score:
        return hit
    return hit._replace(score=score, signals={**hit.signals, "rank": score - hit.score})


def _filter(documents: Documents, filters: SearchFilter, kind_of: Mapping[int, str]) -> Collection[int]:
    """Return the documents that pass a filter. `kind_of` has the kind of each index scope."""
    scopes = {scope for scope, kind in kind_of.items() if filters.kinds is None or kind in filters.kinds}
    if len(scopes) == len(kind_of) and not filters.is_selective:
        return documents.numbers
    rows = zip(documents.numbers, documents.times, documents.roles, strict=True)
    return [number for number, at, role in rows if number >> _SCOPE_BITS in scopes and filters.accepts(at, role)]


def find_ranges(tx: Transaction, filters: SearchFilter) -> tuple[list[Range], dict[int, str]]:
    """Return the ranges of document numbers to search, and the kind of each scope.

    The ranges are ascending, and adjacent ones are merged. If the wanted kinds have more than `MAX_RANGES` ranges, the
    ranges of all kinds are returned.
    """
    if filters.conversations is not None:
        rows = query.series_within(tx, low=filters.low, high=filters.high, keys=json.dumps(filters.conversations))
        bits, kind_of = PLACE_BITS, {row["id"] >> SERIES_BITS: row["kind"] for row in rows}
    else:
        rows = query.scopes_within(tx, low=filters.low, high=filters.high)
        bits, kind_of = _SCOPE_BITS, {row["id"]: row["kind"] for row in rows}
    ranges = _merge_ranges([row["id"] for row in rows if filters.kinds is None or row["kind"] in filters.kinds], bits)
    return (ranges if len(ranges) <= MAX_RANGES else _merge_ranges([row["id"] for row in rows], bits)), kind_of


def _merge_ranges(numbers: Iterable[int], bits: int) -> list[Range]:
    """Return the ranges of the documents in scopes or series, which are the upper bits."""
    ranges: list[Range] = []
    for number in numbers:
        start, end = number << bits, (number + 1) << bits
        if ranges and ranges[-1][1] == start:
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((start, end))
    return ranges


def _ranges_json(ranges: Sequence[Range]) -> str:
    return orjson.dumps(ranges).decode()  # a fifth of the time of `as_json`, whose texts may contain lone surrogates


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

    Alternative spellings of a word are merged into one term. For a term in more than `MAX_POSTINGS` documents of a
    range, only its oldest and its newest documents are read, and those that also contain another of the terms.
    """
    postings: Postings = {term: set() for term in terms}
    if not terms:
        return postings, {}
    documents = int(totals["documents"])
    unindexed_rows = query.unindexed_within.lazy(tx, ranges=_ranges_json(ranges), **filters.params())
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
    """Find the documents that contain each term, and any of the terms listed with it."""
    return query.postings(
        tx, terms=as_json(wanted), ranges=_ranges_json(ranges), limit=MAX_POSTINGS, **filters.params()
    )


def _estimate_count(oldest: Collection[int], series: int, documents: int) -> int:
    """Estimate the number of documents that contain a term, from the oldest ones.

    If the oldest documents are in one series, the estimate assumes the same density everywhere. Otherwise, it assumes
    that each other series has on average as many documents with the term.
    """
    first, last = min(oldest), max(oldest)
    if first >> PLACE_BITS == last >> PLACE_BITS:
        return min(documents, len(oldest) * documents // max(last - first + 1, len(oldest)))
    covered = len({number >> PLACE_BITS for number in oldest})
    return min(documents, len(oldest) * max(series, covered) // covered)


def _find_dated(tx: Transaction, times: Iterable[TimeSpan], ranges: Sequence[Range]) -> set[int]:
    """Return documents from two days before to a week after each time that a query names.

    For each time, at most `MAX_DATED` documents are returned, the nearest ones.
    """
    dated: set[int] = set()
    for span in times:
        rows = query.dated_documents(
            tx,
            start=span.start,
            end=span.end,
            earliest=span.start - 2 * _DAY,
            latest=span.end + 7 * _DAY,
            ranges=_ranges_json(ranges),
            limit=MAX_DATED,
        )
        dated.update(row["id"] for row in rows)
    return dated


def _load_documents(tx: Transaction, ranges: Sequence[Range], *, times: bool) -> Documents:
    """Return the documents in some ranges, with their times if these are needed."""
    rows = query.documents_within(tx, ranges=_ranges_json(ranges), times=int(times))
    columns: Sequence[Any] = orjson.loads(rows[0]["columns"]) if rows else ranking.NO_DOCUMENTS
    return Documents(*(column or [None] * len(columns[0]) for column in columns))


def _complete_postings(
    tx: Transaction, postings: Postings, near_ranges: Sequence[Range], related: Collection[int], *, is_filtered: bool
) -> None:
    """Add documents near the candidates to incomplete postings.

    Postings of `MAX_POSTINGS` documents or more are incomplete. With `is_filtered`, all postings are incomplete, since
    they lack the neighbours that do not pass the filter.
    """
    incomplete = [term for term, numbers in postings.items() if is_filtered or len(numbers) >= MAX_POSTINGS]
    if incomplete and related:
        for row in query.terms_in_ranges(tx, terms=as_json(incomplete), ranges=_ranges_json(near_ranges)):
            postings[row["term"]].update(orjson.loads(row["documents"]))
        if is_filtered:
            _add_unindexed(query.unindexed_within(tx, ranges=_ranges_json(near_ranges), **_NO_FILTERS), postings)


def _remove_ignored(filters: SearchFilter, postings: Postings, documents: Documents) -> Documents:
    """Remove the ignored documents from the postings, and return the other documents."""
    if not filters.ignored:
        return documents
    for numbers in postings.values():
        numbers.difference_update(filters.ignored)
    kept = [each for each in zip(*documents, strict=True) if each[0] not in filters.ignored]
    return Documents(*zip(*kept, strict=True)) if kept else ranking.NO_DOCUMENTS


def _find_copies(
    tx: Transaction,
    question: AnalyzedQuery,
    filters: SearchFilter,
    postings: Postings,
    documents: Documents,
    kind_of: Mapping[int, str],
) -> set[int]:
    """Find the documents with the same terms as the query; within a run, return none.

    These documents add no score to their neighbours.
    """
    matches = set.intersection(*postings.values()) if postings and filters.ignored is None else ()
    length = analysis.analyze_text(question.text).length if matches else 0
    rows = zip(documents.numbers, documents.owners, documents.lengths, strict=True) if matches else ()
    candidates = sorted((number, owner) for number, owner, words in rows if words == length and number in matches)
    query_terms = analysis.extract_terms(question.text) if candidates else []
    numbers = {(kind_of[number >> _SCOPE_BITS], owner): number for number, owner in candidates[-MAX_COPIES:]}
    texts = texts_of(tx, (key for key in numbers if key[0] in RELATED_KINDS))
    return {numbers[key] for key, text in texts.items() if analysis.extract_terms("\n".join(text)) == query_terms}


def _explain(hit: ranking.ScoredDocument, word_of: Mapping[str, str]) -> Explanation:
    terms, nearby = ({word_of.get(term, term): part for term, part in p.items()} for p in (hit.terms, hit.nearby))
    return Explanation(terms=terms, nearby=nearby, signals={name: part for name, part in hit.signals.items() if part})


def reload_results(
    tx: Transaction, rows: Iterable[tuple[str, int]], *, now: int, search_view: Any
) -> list[Recollection]:
    """Read earlier results in their current state, except deleted and hidden ones.

    Args:
        tx: The transaction.
        rows: The `row` of each result.
        now: The current time, in microseconds since 1970.
        search_view: The `SearchView` of the search, or None for all memory.
    """
    resolved_view = None if search_view is None else search_view.with_view(tx, now)
    hits = [SearchHit(number, kind, row_id, 0.0, Explanation()) for number, (kind, row_id) in enumerate(rows)]
    results = to_recollections(tx, hits, now, resolved_view)
    return [results[hit.document] for hit in hits if hit.document in results]


def to_recollections(tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: Any) -> dict[int, Recollection]:
    """Convert hits to recollections, by document number. Omit hits that are not visible."""
    results: dict[int, Recollection] = {}
    for kind in sorted({hit.kind for hit in hits}):
        kind_hits = [hit for hit in hits if hit.kind == kind]
        results.update(all_parts().recollections[kind](tx, kind_hits, now, search_view))
    return results


_KIND_ORDER = ("message", "record", "fact", "event", "item")
"""The kinds in the order of preference. A text that is stored as several kinds becomes a result of the first one."""
T = TypeVar("T")


def group_by_text(
    results: Iterable[T], text: Callable[[T], str], distinct_by: Callable[[T], Any] = lambda _: None
) -> list[list[T]]:
    """Group results that have the same text, in the order of each text's first result.

    Args:
        results: The results. A result without a text is a group of its own.
        text: A function that returns the text of a result.
        distinct_by: A function whose value must also be equal within a group. Default: only texts are compared.
    """
    groups: dict[Any, list[T]] = {}
    for number, result in enumerate(results):
        key = text(result).strip()
        groups.setdefault((key, distinct_by(result)) if key else number, []).append(result)
    return list(groups.values())


def merge_duplicates(results: Iterable[Recollection], *, in_time: bool = False) -> list[Recollection]:
    """Return each text of a namespace once, with references to its duplicates.

    The first kind in `_KIND_ORDER` takes precedence, then the most trusted source, then the newest result. Audit
    entries, items with different values, and facts (which differ in time) remain separate results.

    Args:
        results: Results in any order.
        in_time: True keeps results of one kind separate, since their author and time matter.
    """
    counts: Counter[tuple[Any, ...]] = Counter()
    value_numbers: dict[tuple[Any, ...], dict[str, int]] = {}

    def distinct_by(result: Recollection) -> tuple[Any, ...]:
        # Results of one kind that stay separate get different numbers. The first results of two kinds share number 1.
        if result.kind not in _KIND_ORDER:
            return result.kind, result.id
        text_key = result.namespace, result.kind, result.text
        counts[text_key] += 1
        if in_time or getattr(result.value, "raw", True) is False:
            return result.namespace, counts[text_key]
        numbers = value_numbers.setdefault(text_key, {})
        value = repr(result.value) if result.kind == "item" else ""
        return result.namespace, numbers.setdefault(value, len(numbers) + 1)

    merged = []
    for group in group_by_text(results, lambda result: result.text, distinct_by):
        first = min(group, key=_preference_key) if len(group) > 1 else group[0]
        also = tuple((each.kind, each.id) for each in group if each is not first)
        merged.append(replace(first, score=max(each.score for each in group), also=also) if also else first)
    return merged


def _preference_key(result: Recollection) -> tuple[float, ...]:
    is_raw, rank = getattr(result.value, "raw", False), min(trust_rank(source) for source, _ in _sources(result))
    return _KIND_ORDER.index(result.kind), is_raw, rank, -result.created_at.timestamp()


class Search(NamedTuple):
    """A search of a database.

    Attributes:
        question: The analyzed query.
        search_filter: The filter of the search.
        limit: Maximum results.
        weights: The weight of each signal. Default: the fitted weights.
        search_view: The `SearchView` of the search, which selects the visible memory. Default: None, all memory.
        name: The name of the step in a trace, `<part>.<verb>`. None for a part of another step.
        inputs: A function that returns further inputs for the trace.
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
            for part in (each for each in all_parts().all if each.has_pending):
                index_kinds = {kind.index_name for kinds in part.search_kinds.values() for kind in kinds}
                if not part.has_pending or not part.settle or index_kinds.isdisjoint(filters.kinds or ()):
                    continue
                if engine.read(part.has_pending):  # rows that are not indexed yet
                    with suppress(DatabaseReadOnly):  # a read-only role can still search
                        engine.write(part.settle)
            dense = make_vector_query(database, self.question, filters) if self.limit else None
            recollections = engine.read(lambda tx: self._find(tx, dense))
            step.finish(lambda: document_outputs(recollections))
        return recollections

    def _find(self, tx: Transaction, dense: VectorQuery | None) -> list[Recollection]:
        limit, question, filters = self.limit, self.question, self.search_filter
        if limit == 0 or (filters.kinds is not None and not filters.kinds):
            return []
        is_timed = self.order == "time"
        view = None if self.search_view is None else self.search_view.with_view(tx, question.now)
        filters = filters if view is None else view.narrow_filter(tx, filters, question.now)
        is_mixed = filters.kinds is None or len(filters.kinds) > 1  # two kinds may contain the same text
        hit_limit = limit * (FETCH_FACTOR if is_timed else 2 if is_mixed else 1)
        while True:
            hits = search(tx, question, filters, limit=hit_limit, weights=self.weights, dense=dense, order=self.order)
            results = to_recollections(tx, hits, question.now, view)
            if is_timed:
                hits.sort()  # documents of the same time stay in the order of their numbers
            visible = (results[hit.document] for hit in hits if hit.document in results)
            unique = merge_duplicates((each for each in visible if is_trusted(each, filters.trusted)), in_time=is_timed)
            distinct_count = len(unique)
            if is_timed:
                unique = order_by_time(unique, question, limit)
            # Below `MAX_COMPARED` hits, a repeat that `order_by_time` merged does not count, so more hits are read.
            if (distinct_count if hit_limit >= MAX_COMPARED else len(unique)) >= limit or len(hits) < hit_limit:
                break
            hit_limit *= FETCH_FACTOR  # too few results: some hits have expired, are not visible, or repeat others
        return unique[:limit]


def make_vector_query(database: Database, question: AnalyzedQuery, filters: SearchFilter) -> VectorQuery | None:
    """Return the vector of a query, or None.

    The result is None if the query is empty, or if there are no embeddings or they fail.

    Args:
        database: The database to search.
        question: The analyzed query.
        filters: The filter of the search. If the query names exactly one speaker of the documents that pass the filter,
            the vector is that of the query in the first person.
    """
    embedder = embedder_of(database)
    if embedder is None or not question.text.strip():
        return None
    names = database.engine.read(lambda tx: _speaker_names(tx, question, filters))
    text = analysis.to_first_person(question.text, names) if len(names) == 1 else question.text
    return embedder.make_query(text)


def _speaker_names(tx: Transaction, question: AnalyzedQuery, filters: SearchFilter) -> set[str]:
    """Return the words of a query that name a speaker within the filter."""
    ranges, _ = find_ranges(tx, filters)
    return {row["word"] for row in query.find_speakers(tx, words=_words_json(question), ranges=_ranges_json(ranges))}
