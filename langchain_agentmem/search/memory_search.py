"""One search over all searchable documents: candidates from the index, ranked and explained.

    ask (pure) → where to look → where the terms stand → a first look → the candidates and their neighbours → ranking

The cost of a search depends on the namespaces that it reads. For a term in very many documents, a search reads only the
newest ones and those that hold other terms of the question too. Scores are comparable within one search only. The
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
from langchain_agentmem.search.dates import TimeSpan, find_times
from langchain_agentmem.search.ranking import (
    WEIGHTS,
    Document,
    RankingQuery,
    SearchField,
    VectorScores,
    Weights,
    weights_in_time,
)
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
"""Maximum documents, the last ones, to compare with the question's text."""
MAX_DATED = 300
"""Maximum candidates for each time that the question names."""
FETCH_FACTOR = 5
"""The factor by which more hits than requested are read, where reading them may change their order."""
_DAY = 86_400_000_000
_SCOPE_BITS = PLACE_BITS + SERIES_BITS

MemoryKind: TypeAlias = Literal["message", "fact", "item", "event", "record", "audit"]
"""The public names of the kinds of results."""

RELATED_KINDS = frozenset({"message", "nested_message", "event", "thread_post"})
"""The kinds whose documents are neighbours of each other. Items that were stored one after the other are not."""

MAX_RANGES = 64
"""Maximum ranges of the index in one search. Beyond it, the search reads unwanted kinds too and filters them out."""
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
        ignored: Documents to ignore completely, since the model that asks sees them anyway. None outside of runs, where
            they are unknown.
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
        is_early = self.before is None or document.created_at < self.before
        is_late = self.after is None or document.created_at >= self.after
        return is_early and is_late and (self.roles is None or document.role in self.roles)

    @property
    def is_selective(self) -> bool:
        """True if documents must be checked one by one."""
        return self.roles is not None or self.before is not None or self.after is not None

    def query_params(self) -> dict[str, Any]:
        """Return the filter's parameters for queries of the index."""
        roles = None if self.roles is None else json.dumps(self.roles)
        return {"filtered": int(self.is_selective), "roles": roles, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The reasons for a search result.

    Attributes:
        terms: The words of the query that the result holds itself, with what each added to the score.
        signals: The other contributions to the score, by name: "conversation", "date", "speaker" and so on.
        nearby: The words of the query that messages next to the result hold, with what each added to the score.
    """

    terms: Mapping[str, float] = field(default_factory=dict)
    signals: Mapping[str, float] = field(default_factory=dict)
    nearby: Mapping[str, float] = field(default_factory=dict)

    def parts(self) -> dict[str, float]:
        """Return all parts of the score by name.

        A word that only neighbouring messages hold is named "word (nearby)".
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
        why: The matched terms and what each signal contributed.
        thread_id: The thread that wrote the result, or None.
        source: The origin: "user", "model", "tool", "import", "person"; None if it is unknown.
        actor: The name of the source, such as a tool's name.
        also: Kind and id of each duplicate. A text is found once, however often and as whatever kind it is stored. In
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
    return [(each.source or ROLE_SOURCES.get(each.role), each.actor) for each in mentions] or [
        (found.source, found.actor)
    ]


class SearchHit(NamedTuple):
    """A document that a search found.

    Attributes:
        document: The document's number.
        kind: The kind in the index.
        owner: The row that the document stands for.
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
    question: analysis.AnalyzedQuery,
    search_filter: SearchFilter,
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
        search_filter: The filter of the search.
        limit: Maximum hits, 1 or more.
        weights: The weight of each signal. Default: as measured, with vectors weighted by their trust.
        dense: The question's vector, or None without embeddings.
        order: The order that the results are for: "time" uses other weights.

    Returns:
        The hits, the best first in any order; of equals, the newest first.
    """
    ranges, kinds = ranges_of(tx, search_filter)
    if not ranges:
        return []
    totals_rows = query.search_totals.lazy(tx, ranges=as_json(ranges))
    rows = query.find_speakers(tx, words=_words_json(question), ranges=as_json(ranges))
    speakers, names = {row["speaker"] for row in rows}, {question.words[row["word"]] for row in rows}
    unnamed = tuple(term for term in question.terms if term not in names)
    terms = unnamed or question.terms
    [totals] = totals_rows
    if not totals["documents"]:
        return []
    times = find_times(question.text, min(question.now, int(totals["last_at"])))
    if not terms and not times and dense is None:
        return []
    postings, term_weights = _load_postings(tx, terms, question.spellings, ranges, search_filter, totals)
    terms = tuple(postings)
    if speakers and not unnamed:  # a name alone stands in all that its owner said
        for row in query.documents_of_speakers(
            tx, words=_words_json(question), ranges=as_json(ranges), limit=CANDIDATES
        ):
            term = question.words[row["word"]]
            postings.get(question.spellings.get(term, term), set()).add(row["id"])  # a name may be a stop word
    _remove_ignored(search_filter, postings, {})
    chosen = set(ranking.first_candidates(postings, term_weights, max(CANDIDATES, limit)))
    chosen |= _find_dated(tx, times, ranges)
    if dense is not None:
        chosen.update(dense.nearest(tx, ranges, max(CANDIDATES, limit)))
    chosen -= search_filter.ignored or set()
    if not chosen:
        return []
    related = {number >> PLACE_BITS for number in chosen if kinds[number >> _SCOPE_BITS] in RELATED_KINDS}
    near_ranges = ranking.neighbour_ranges(chosen, related)
    owners, documents = _load_documents(tx, near_ranges)
    repeats = _find_repeats(tx, question, search_filter, postings, owners, documents, kinds)
    conversations = ranking.conversation_scores(postings, int(totals["series"]), repeats)
    _complete_postings(tx, postings, near_ranges, related, everything=search_filter.is_selective)
    _remove_ignored(search_filter, postings, documents)
    vector_scores, base_weights = VectorScores(), WEIGHTS
    if dense is not None:
        questions = {number for number, each in documents.items() if each.is_question}
        vector_scores = dense.closeness(tx, documents, related, questions, repeats)
        base_weights = ranking.weights_with_vectors(
            ranking.vector_trust(vector_scores.own, set().union(*postings.values()))
        )
    if order == "time":
        base_weights = weights_in_time(base_weights)
    length = max(totals["words"] / totals["documents"], 1.0)
    found = ranking.rank_documents(
        RankingQuery(terms, question.answer_kinds, times, speakers, question.is_lookup),
        SearchField(postings, term_weights, documents, length, conversations, related, vector_scores, repeats),
        _filter_documents(documents, search_filter, kinds),
        limit=limit,
        weights=weights or base_weights,
    )
    words = {term: word for word, term in reversed(question.words.items())}
    return [
        SearchHit(
            each.number, kinds[each.number >> _SCOPE_BITS], owners[each.number], each.score, _explain(each, words)
        )
        for each in found
    ]


def _filter_documents(
    documents: Mapping[int, Document], search_filter: SearchFilter, kinds: Mapping[int, str]
) -> Collection[int]:
    """Return the numbers of the documents that pass the filter."""
    wanted = {scope for scope, kind in kinds.items() if search_filter.kinds is None or kind in search_filter.kinds}
    if len(wanted) == len(kinds) and not search_filter.is_selective:
        return documents
    return [
        number for number, each in documents.items() if number >> _SCOPE_BITS in wanted and search_filter.accepts(each)
    ]


def ranges_of(tx: Transaction, search_filter: SearchFilter) -> tuple[list[Range], dict[int, str]]:
    """Return the ranges of documents to search, and the kinds of their scopes.

    The ranges are ascending, and adjacent ones are merged.

    If unwanted kinds would split them into more than `MAX_RANGES`, these kinds are read too and left out later.
    """
    if search_filter.conversations is not None:
        rows = query.series_within(
            tx, low=search_filter.low, high=search_filter.high, keys=json.dumps(search_filter.conversations)
        )
        bits, kinds = PLACE_BITS, {row["id"] >> SERIES_BITS: row["kind"] for row in rows}
    else:
        rows = query.scopes_within(tx, low=search_filter.low, high=search_filter.high)
        bits, kinds = _SCOPE_BITS, {row["id"]: row["kind"] for row in rows}
    ranges = _merge_ranges(
        [row["id"] for row in rows if search_filter.kinds is None or row["kind"] in search_filter.kinds], bits
    )
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


def _words_json(question: analysis.AnalyzedQuery) -> str:
    return as_json(list(question.words)[: analysis.MAX_QUERY_TERMS])


def _load_postings(
    tx: Transaction,
    terms: Sequence[str],
    spellings: Mapping[str, str],
    ranges: Sequence[Range],
    search_filter: SearchFilter,
    totals: Any,
) -> tuple[Postings, dict[str, float]]:
    """Return the documents that hold each term within the filter, and each term's weight.

    Two spellings of a word are one term.
    """
    postings: Postings = {term: set() for term in terms}
    if not terms:
        return postings, {}
    documents = int(totals["documents"])
    waiting_rows = query.unindexed_within.lazy(tx, ranges=as_json(ranges), **search_filter.query_params())
    truncated: dict[str, list[int]] = {}
    for row in _look_up_terms(tx, [(term, ()) for term in terms], ranges, search_filter):
        postings[row["term"]].update(orjson.loads(row["documents"]))
        if row["newest"] is not None:
            truncated.setdefault(row["term"], []).extend(orjson.loads(row["newest"]))
    counts = {term: len(postings[term]) for term in terms}
    for term, newest in truncated.items():
        counts[term] = _estimate_count(postings[term], int(totals["series"]), documents)
        postings[term].update(newest)
    if truncated and len(terms) > 1:
        pairs = [(term, tuple(other for other in terms if other != term)) for term in truncated]
        for row in _look_up_terms(tx, pairs, ranges, search_filter):
            postings[row["term"]].update(orjson.loads(row["newest"] or row["documents"]))
    for term in _add_waiting(waiting_rows, postings):
        counts[term] += 1
    for other, term in spellings.items():
        if postings.keys() >= {other, term}:
            postings[term] |= postings.pop(other)
            counts[term] = max(counts[term], counts[other], len(postings[term]))
    return postings, {term: ranking.term_weight(term, documents, min(counts[term], documents)) for term in postings}


def _add_waiting(rows: Iterable[Any], postings: Postings) -> list[str]:
    """Add the documents that wait for the index; return the term of each added place."""
    added: list[str] = []
    for row in rows:
        for term in postings.keys() & set(row["terms"].split(" ")):
            postings[term].add(row["document_id"])
            added.append(term)
    return added


def _look_up_terms(
    tx: Transaction, wanted: Sequence[tuple[str, Sequence[str]]], ranges: Sequence[Range], search_filter: SearchFilter
) -> Rows:
    """Return the documents that hold each term and any of the terms listed with it."""
    return query.postings(
        tx, terms=as_json(wanted), ranges=as_json(ranges), limit=MAX_POSTINGS, **search_filter.query_params()
    )


def _estimate_count(oldest: Collection[int], series: int, documents: int) -> int:
    """Estimate how many documents hold a term of which only the oldest were read.

    The oldest documents cover a part of the only series, or some of the series. The rest is extrapolated from it.
    """
    first, last = min(oldest), max(oldest)
    if first >> PLACE_BITS == last >> PLACE_BITS:
        return min(documents, len(oldest) * documents // max(last - first + 1, len(oldest)))
    covered = len({number >> PLACE_BITS for number in oldest})
    return min(documents, len(oldest) * max(series, covered) // covered)


def _find_dated(tx: Transaction, times: Iterable[TimeSpan], ranges: Sequence[Range]) -> set[int]:
    """Return documents from the times that a question names; those outside come last."""
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
    """Return the rows that the documents in some ranges stand for, and the documents.

    Both are keyed by document number.
    """
    rows = query.documents_within(tx, ranges=as_json(ranges))
    numbers, owners, *columns = orjson.loads(rows[0]["columns"]) if rows else ((), ())
    documents = map(Document._make, zip(*columns, strict=True))
    return dict(zip(numbers, owners, strict=True)), dict(zip(numbers, documents, strict=True))


def _complete_postings(
    tx: Transaction, postings: Postings, near_ranges: Sequence[Range], related: Collection[int], *, everything: bool
) -> None:
    """Add the missing places of terms near the candidates to the postings."""
    missing = [term for term, found in postings.items() if everything or len(found) >= MAX_POSTINGS]
    if missing and related:
        for row in query.terms_in_ranges(tx, terms=as_json(missing), ranges=as_json(near_ranges)):
            postings[row["term"]].update(orjson.loads(row["documents"]))
        if everything:
            waiting = query.unindexed_within(tx, ranges=as_json(near_ranges), **_NO_FILTERS)
            _add_waiting(waiting, postings)


def _remove_ignored(search_filter: SearchFilter, postings: Postings, documents: dict[int, Document]) -> None:
    """Remove the ignored documents from the postings and the documents."""
    for holding in postings.values():
        holding.difference_update(search_filter.ignored or ())
    for number in documents.keys() & (search_filter.ignored or ()):
        del documents[number]


def _find_repeats(
    tx: Transaction,
    question: analysis.AnalyzedQuery,
    search_filter: SearchFilter,
    postings: Postings,
    owners: Mapping[int, int],
    documents: Mapping[int, Document],
    kinds: Mapping[int, str],
) -> set[int]:
    """Find the documents that repeat the question, if it is asked outside of a run.

    They lend no words to their neighbours.
    """
    length = analysis.analyze_text(question.text).length
    holding = set.intersection(*postings.values()) if postings and search_filter.ignored is None else ()
    candidates = sorted(number for number in holding if number in documents and documents[number].length == length)
    question_terms = analysis.extract_terms(question.text) if candidates else []
    places = {(kinds[each >> _SCOPE_BITS], owners[each]): each for each in candidates[-MAX_REPEATS:]}
    texts = texts_of(tx, (each for each in places if each[0] in RELATED_KINDS))
    return {places[each] for each, text in texts.items() if analysis.extract_terms("\n".join(text)) == question_terms}


def _explain(hit: ranking.ScoredDocument, words: Mapping[str, str]) -> Explanation:
    terms, nearby = ({words.get(term, term): value for term, value in of.items()} for of in (hit.terms, hit.nearby))
    return Explanation(
        terms=terms, nearby=nearby, signals={name: value for name, value in hit.signals.items() if value}
    )


def reload_results(
    tx: Transaction, rows: Iterable[tuple[str, int]], *, now: int, search_view: Any
) -> list[Recollection]:
    """Read earlier results in their current state.

    Results that are deleted or no longer visible are left out.

    Args:
        tx: The transaction.
        rows: The `row` of each result.
        now: When, in microseconds since 1970.
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
        distinct_by: Returns what must be equal as well.
    """
    groups: dict[Any, list[T]] = {}
    for number, each in enumerate(found):
        key = text(each).strip()
        groups.setdefault((key, distinct_by(each)) if key else number, []).append(each)
    return list(groups.values())


def merge_duplicates(found: Iterable[Recollection], *, in_time: bool = False) -> list[Recollection]:
    """Return each text of a namespace once, with references to its duplicates.

    The most trusted and newest result of the first kind in `_KIND_ORDER` is the one returned.

    Facts of one text differ in their time, so each is a result. Each entry of the audit trail is a result too, and each
    value of items that are indexed by a part of it.

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
        known = values.setdefault(text_key, {})
        return each.namespace, known.setdefault(repr(each.value) if each.kind == "item" else "", len(known) + 1)

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
    """Raise the score of a result that holds the quoted phrases of the query word by word."""
    text = " ".join(analysis.extract_terms(each.text))
    share = sum(f" {' '.join(phrase)} " in f" {text} " for phrase in phrases) / len(phrases)
    return each.with_signals(phrase=weight * share) if share else each


class Search(NamedTuple):
    """A search of a database.

    Attributes:
        question: The query, analysed.
        search_filter: The filter of the search.
        limit: Maximum results.
        weights: The weight of each signal. Default: as measured, with vectors or without.
        search_view: The `SearchView` of the search. Default: no particular view.
        name: The name of the step in a trace, `<part>.<verb>`. None for a detail of the surrounding step.
        inputs: Further inputs that a trace shows.
        order: "score", the best first, or "time", the oldest first.
    """

    question: analysis.AnalyzedQuery
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
        engine, search_filter = database.engine, self.search_filter
        more_inputs = self.inputs or dict
        inputs = {"query": self.question.text, "limit": self.limit}
        with database.step(self.name, lambda: {**inputs, **more_inputs()}, "retriever") as step:
            for part in all_parts().all:
                stored_as = {each.index_name for forms in part.search_kinds.values() for each in forms}
                if not part.has_pending or not part.settle or stored_as.isdisjoint(search_filter.kinds or ()):
                    continue
                if engine.read(part.has_pending):
                    with suppress(DatabaseReadOnly):  # a read-only role can still search
                        engine.write(part.settle)
            dense = make_vector_query(database, self.question, search_filter) if self.limit else None
            found = engine.read(lambda tx: self._find(tx, dense))
            step.finish(lambda: document_outputs(found))
        return found

    def _find(self, tx: Transaction, dense: VectorQuery | None) -> list[Recollection]:
        limit, question, search_filter = self.limit, self.question, self.search_filter
        if limit == 0 or (search_filter.kinds is not None and not search_filter.kinds):
            return []
        is_timed = self.order == "time"
        resolved_view = None if self.search_view is None else self.search_view.with_view(tx, question.now)
        search_filter = (
            search_filter if resolved_view is None else resolved_view.narrow_filter(tx, search_filter, question.now)
        )
        is_mixed = search_filter.kinds is None or len(search_filter.kinds) > 1  # two kinds may have the same text
        hit_limit = limit * (FETCH_FACTOR if question.phrases or is_timed else 2 if is_mixed else 1)
        while True:
            hits = search(
                tx, question, search_filter, limit=hit_limit, weights=self.weights, dense=dense, order=self.order
            )
            results = to_recollections(tx, hits, question.now, resolved_view)
            if is_timed:
                hits.sort()  # documents of the same time stay in the order of their places
            known = (results[hit.document] for hit in hits if hit.document in results)
            found = merge_duplicates(
                (each for each in known if is_trusted(each, search_filter.trusted)), in_time=is_timed
            )
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


def make_vector_query(
    database: Database, question: analysis.AnalyzedQuery, search_filter: SearchFilter
) -> VectorQuery | None:
    """Return the vector of a question, or None.

    None means no words, no embeddings, or embeddings that fail.

    Args:
        database: The database to search.
        question: The question.
        search_filter: The filter of the search. Speakers are looked up in it, since their own messages do not name
            them.
    """
    embedder = embedder_of(database)
    if embedder is None or not question.text.strip():
        return None
    names = database.engine.read(lambda tx: _speaker_names(tx, question, search_filter))
    text = analysis.to_first_person(question.text, names) if len(names) == 1 else question.text
    return embedder.make_query(text)


def _speaker_names(tx: Transaction, question: analysis.AnalyzedQuery, search_filter: SearchFilter) -> set[str]:
    """Return the words of a question that name a speaker in the ranges of the search."""
    ranges, _ = ranges_of(tx, search_filter)
    return {row["word"] for row in query.find_speakers(tx, words=_words_json(question), ranges=as_json(ranges))}
