"""One search over everything that can be found: candidates from the index, ranked and explained.

    ask (pure) → where to look → where the terms stand → a first look → the candidates and their neighbours → ranking

What a search costs follows the namespaces that it looks in. Of a term that stands in very many documents there, only
some are looked at: the newest, and those that hold other terms of the question too. Scores compare within one search
only, and how rare a term is, is judged within the walls, so that no score tells of another tenant's texts.
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
from langchain_agentmem.base.origins import UNKNOWN, describe_origin, rank_of
from langchain_agentmem.errors import DatabaseReadOnly
from langchain_agentmem.messages.message import SOURCES
from langchain_agentmem.search import analysis, ranking
from langchain_agentmem.search.dates import TimeSpan, spans
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
from langchain_agentmem.search.timeline import MOST_COMPARED, Order, in_time
from langchain_agentmem.search.vectors import VectorQuery, embedder_of
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.storage.transaction import Rows
from langchain_agentmem.tracing import Thunk, documents

CANDIDATES = 80
"""Documents of the first look. Their neighbours are candidates too."""
MOST_POSTINGS = 2_000
"""Documents that are looked at for one term in one range of the index."""
MOST_REPEATS = 64
"""Documents that are read to see whether they say just what is asked: the last ones."""
MOST_DATED = 300
"""Candidates for having been said at the right time."""
MORE = 5
"""So many times the hits that were asked for are read, where reading them may change their order."""
_DAY = 86_400_000_000
_SCOPE_BITS = PLACE_BITS + SERIES_BITS

MemoryKind: TypeAlias = Literal["message", "fact", "item", "event", "record", "audit"]
"""What a search finds, as a user calls it."""

RELATED_KINDS = frozenset({"message", "nested_message", "event", "thread_post"})
"""The kinds whose documents are neighbours of each other; items that were stored one after the other are not."""

MOST_RANGES = 64
"""Ranges of the index that one search looks through before it takes neighbours that it must leave out again."""
_NO_FILTERS = {"choosy": 0, "roles": None, "before": None, "after": None}

Range = tuple[int, int]
Postings = dict[str, set[int]]


class SearchFilter(NamedTuple):
    """Within which a search stays.

    Attributes:
        low: First namespace path.
        high: Path after the last.
        kinds: Only these kinds, or None for all.
        conversations: The ids of conversations, threads or branches, or None for all.
        roles: Only what these roles said, or None for all.
        before: Only what was said before, in microseconds since 1970, or None.
        after: Only what was said then or later, or None.
        trusted: Only what comes from these sources alone, or None for all.
        ignored: Documents that count as if they were not there: what the model that asks is shown anyway. None outside
            of runs, where nobody knows it.
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

    def hold(self, found: Recollection) -> bool:
        """Whether something lies in these namespaces and conversations."""
        within = self.low <= path_of(found.namespace) < self.high
        return within and (self.conversations is None or found.conversation_id in (None, *self.conversations))

    def let(self, document: Document) -> bool:
        """Whether a document is within, as far as its role and its time tell."""
        is_early = self.before is None or document.created_at < self.before
        is_late = self.after is None or document.created_at >= self.after
        return is_early and is_late and (self.roles is None or document.role in self.roles)

    @property
    def choosy(self) -> bool:
        """Whether documents must be looked at one by one."""
        return self.roles is not None or self.before is not None or self.after is not None

    def filters(self) -> dict[str, Any]:
        """What the index is asked to leave out."""
        roles = None if self.roles is None else json.dumps(self.roles)
        return {"choosy": int(self.choosy), "roles": roles, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why something was found.

    Attributes:
        terms: The words of the query that it holds itself, with what each added to the score.
        signals: What else added to the score, by name: "conversation", "date", "speaker" and so on.
        nearby: The words of the query that messages next to it hold, with what each added to the score.
    """

    terms: Mapping[str, float] = field(default_factory=dict)
    signals: Mapping[str, float] = field(default_factory=dict)
    nearby: Mapping[str, float] = field(default_factory=dict)

    def parts(self) -> dict[str, float]:
        """Return all of it by name, as texts show it: a word that only messages next to it hold is "word (nearby)"."""
        return {**self.terms, **{f"{word} (nearby)": value for word, value in self.nearby.items()}, **self.signals}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:+.2f}" for name, value in self.parts().items()) or "no reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """Something that a search found.

    Attributes:
        kind: "message", "fact", "item", "event", "record" or "audit".
        id: Its id; for a message, the message's own; for an item, its key.
        text: What it says.
        score: How well it fits; only the order within one search means anything.
        namespace: Whose it is.
        conversation_id: The conversation it belongs to, or None.
        created_at: When it was said, in UTC.
        value: The real object; for a message, a `Message`; for an item, its value.
        why: The matched terms and what each signal contributed.
        thread_id: The thread that wrote it; None where none did.
        source: Where it comes from: "user", "model", "tool", "import", "person"; None where nobody said so.
        actor: Who that is, such as a tool's name.
        also: Kind and id of what else says just this: a text is found once, however often and as whatever it is stored.
            In the order of time, of what nearly says this, too.
        replaced_by: Kind and id of what replaced it later; None where nothing is known to. Of facts, what ended them;
            of the rest, in the order of time, as far as words can tell.
        row: What the index calls its kind, and its row, by which `again` reads it.
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

    def more(self, **signals: float) -> Recollection:
        """The same with further signals, which add to its score."""
        why = replace(self.why, signals={**self.why.signals, **signals})
        return replace(self, score=self.score + sum(signals.values()), why=why)


def trusts(found: Any, trusted: frozenset[str] | None) -> bool:
    """Return whether the source of something is trusted; of a fact, any of its sources.

    Args:
        found: A `Recollection`, or an event, a record, a value of core memory or a fact.
        trusted: The trusted sources; None for all.
    """
    return trusted is None or any((source or UNKNOWN) in trusted for source, _ in _sources(found))


def origin_of(found: Any) -> str:
    """Describe the source of the same; of a fact, the most trusted one."""
    return describe_origin(*min(_sources(found), key=lambda each: rank_of(each[0])))


def _sources(found: Any) -> list[tuple[str | None, str | None]]:
    told = getattr(found.value if isinstance(found, Recollection) else found, "told", ())
    return [(each.source or SOURCES.get(each.role), each.actor) for each in told] or [(found.source, found.actor)]


class SearchHit(NamedTuple):
    """A document that fits.

    Attributes:
        document: Its number.
        kind: What it is.
        owner: The row that it stands for.
        score: How well it fits.
        why: What led to it.
    """

    document: int
    kind: str
    owner: int
    score: float
    why: Explanation


def search(
    tx: Transaction,
    asked: analysis.AnalyzedQuery,
    walls: SearchFilter,
    *,
    limit: int,
    weights: Weights | None = None,
    dense: VectorQuery | None = None,
    order: Order = "score",
) -> list[SearchHit]:
    """Find the documents that answer a query best.

    Args:
        tx: The transaction.
        asked: The query, analysed.
        walls: Where to look.
        limit: Most hits, 1 or more.
        weights: How much each signal counts. Default: as measured, the vectors as far as they are to be trusted.
        dense: The question's vector, where there are embeddings.
        order: What order the best are wanted for: "time" weighs otherwise.

    Returns:
        The best first, in any case; of equals, the newest.
    """
    ranges, kinds = ranges_of(tx, walls)
    if not ranges:
        return []
    counted = query.totals.ahead(tx, ranges=as_json(ranges))
    rows = query.speakers(tx, words=_words(asked), ranges=as_json(ranges))
    speakers, names = {row["speaker"] for row in rows}, {asked.words[row["word"]] for row in rows}
    unnamed = tuple(term for term in asked.terms if term not in names)
    terms = unnamed or asked.terms
    [totals] = counted
    if not totals["documents"]:
        return []
    times = spans(asked.text, min(asked.now, int(totals["last_at"])))
    if not terms and not times and dense is None:
        return []
    postings, worth = _postings(tx, terms, asked.spellings, ranges, walls, totals)
    terms = tuple(postings)
    if speakers and not unnamed:  # a name alone stands in all that its owner said
        for row in query.spoken(tx, words=_words(asked), ranges=as_json(ranges), limit=CANDIDATES):
            term = asked.words[row["word"]]
            postings.get(asked.spellings.get(term, term), set()).add(row["id"])  # a name may be a stop word
    _leave_out(walls, postings, {})
    chosen = set(ranking.first_look(postings, worth, max(CANDIDATES, limit)))
    chosen |= _dated(tx, times, ranges)
    if dense is not None:
        chosen.update(dense.nearest(tx, ranges, max(CANDIDATES, limit)))
    chosen -= walls.ignored or set()
    if not chosen:
        return []
    related = {number >> PLACE_BITS for number in chosen if kinds[number >> _SCOPE_BITS] in RELATED_KINDS}
    around = ranking.near(chosen, related)
    owners, documents = _documents(tx, around)
    repeats = _repeats(tx, asked, walls, postings, owners, documents, kinds)
    conversations = ranking.conversation_scores(postings, int(totals["series"]), repeats)
    _fill_in(tx, postings, around, related, everything=walls.choosy)
    _leave_out(walls, postings, documents)
    closeness, usual = VectorScores(), WEIGHTS
    if dense is not None:
        asking = {number for number, each in documents.items() if each.asks}
        closeness = dense.closeness(tx, documents, related, asking, repeats)
        usual = ranking.weights_with_vectors(ranking.trust_in(closeness.alone, set().union(*postings.values())))
    if order == "time":
        usual = weights_in_time(usual)
    length = max(totals["words"] / totals["documents"], 1.0)
    found = ranking.ranked(
        RankingQuery(terms, asked.asks_for, times, speakers, asked.look_up),
        SearchField(postings, worth, documents, length, conversations, related, closeness, repeats),
        _within(documents, walls, kinds),
        limit=limit,
        weights=weights or usual,
    )
    words = {term: word for word, term in reversed(asked.words.items())}
    return [
        SearchHit(each.number, kinds[each.number >> _SCOPE_BITS], owners[each.number], each.score, _why(each, words))
        for each in found
    ]


def _within(documents: Mapping[int, Document], walls: SearchFilter, kinds: Mapping[int, str]) -> Collection[int]:
    """Those of some documents that are looked for."""
    wanted = {scope for scope, kind in kinds.items() if walls.kinds is None or kind in walls.kinds}
    if len(wanted) == len(kinds) and not walls.choosy:
        return documents
    return [number for number, each in documents.items() if number >> _SCOPE_BITS in wanted and walls.let(each)]


def ranges_of(tx: Transaction, walls: SearchFilter) -> tuple[list[Range], dict[int, str]]:
    """The ranges of documents to look through, ascending, neighbours as one; and the kinds of their scopes.

    Where the kinds that are not wanted would cut them into very many, those are looked through too, and left out later.
    """
    if walls.conversations is not None:
        rows = query.series_within(tx, low=walls.low, high=walls.high, keys=json.dumps(walls.conversations))
        bits, kinds = PLACE_BITS, {row["id"] >> SERIES_BITS: row["kind"] for row in rows}
    else:
        rows = query.scopes_within(tx, low=walls.low, high=walls.high)
        bits, kinds = _SCOPE_BITS, {row["id"]: row["kind"] for row in rows}
    ranges = _joined([row["id"] for row in rows if walls.kinds is None or row["kind"] in walls.kinds], bits)
    return (ranges if len(ranges) <= MOST_RANGES else _joined([row["id"] for row in rows], bits)), kinds


def _joined(numbers: Iterable[int], bits: int) -> list[Range]:
    ranges: list[Range] = []
    for number in numbers:
        start, end = number << bits, (number + 1) << bits
        if ranges and ranges[-1][1] == start:
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((start, end))
    return ranges


def _words(question: analysis.AnalyzedQuery) -> str:
    return as_json(list(question.words)[: analysis.MOST_QUERY_TERMS])


def _postings(
    tx: Transaction,
    terms: Sequence[str],
    spellings: Mapping[str, str],
    ranges: Sequence[Range],
    walls: SearchFilter,
    totals: Any,
) -> tuple[Postings, dict[str, float]]:
    """Where the terms stand, as far as the walls let it be seen, and what each is worth: two spellings are one term."""
    postings: Postings = {term: set() for term in terms}
    if not terms:
        return postings, {}
    documents = int(totals["documents"])
    waiting = query.waiting_within.ahead(tx, ranges=as_json(ranges), **walls.filters())
    full: dict[str, list[int]] = {}
    for row in _look_up(tx, [(term, ()) for term in terms], ranges, walls):
        postings[row["term"]].update(orjson.loads(row["documents"]))
        if row["newest"] is not None:
            full.setdefault(row["term"], []).extend(orjson.loads(row["newest"]))
    counts = {term: len(postings[term]) for term in terms}
    for term, newest in full.items():
        counts[term] = _estimate(postings[term], int(totals["series"]), documents)
        postings[term].update(newest)
    if full and len(terms) > 1:
        pairs = [(term, tuple(other for other in terms if other != term)) for term in full]
        for row in _look_up(tx, pairs, ranges, walls):
            postings[row["term"]].update(orjson.loads(row["newest"] or row["documents"]))
    for term in _add_waiting(waiting, postings):
        counts[term] += 1
    for other, term in spellings.items():
        if postings.keys() >= {other, term}:
            postings[term] |= postings.pop(other)
            counts[term] = max(counts[term], counts[other], len(postings[term]))
    return postings, {term: ranking.worth_of(term, documents, min(counts[term], documents)) for term in postings}


def _add_waiting(rows: Iterable[Any], postings: Postings) -> list[str]:
    """Add the documents that wait for the index; give the term of each place."""
    added: list[str] = []
    for row in rows:
        for term in postings.keys() & set(row["terms"].split(" ")):
            postings[term].add(row["document_id"])
            added.append(term)
    return added


def _look_up(
    tx: Transaction, wanted: Sequence[tuple[str, Sequence[str]]], ranges: Sequence[Range], walls: SearchFilter
) -> Rows:
    """Ask for the documents that hold each term, and any of those that stand beside it."""
    return query.postings(tx, terms=as_json(wanted), ranges=as_json(ranges), limit=MOST_POSTINGS, **walls.filters())


def _estimate(oldest: Collection[int], series: int, documents: int) -> int:
    """How many documents hold a term of which only the oldest were looked at.

    They reach so far into the only series, or over so many series, that the rest can be reckoned from it.
    """
    first, last = min(oldest), max(oldest)
    if first >> PLACE_BITS == last >> PLACE_BITS:
        return min(documents, len(oldest) * documents // max(last - first + 1, len(oldest)))
    covered = len({number >> PLACE_BITS for number in oldest})
    return min(documents, len(oldest) * max(series, covered) // covered)


def _dated(tx: Transaction, times: Iterable[TimeSpan], ranges: Sequence[Range]) -> set[int]:
    """Documents of the times that a question names, those in the middle of them first."""
    found: set[int] = set()
    for span in times:
        rows = query.dated_documents(
            tx,
            start=span.start,
            end=span.end,
            earliest=span.start - 2 * _DAY,
            latest=span.end + 7 * _DAY,
            ranges=as_json(ranges),
            limit=MOST_DATED,
        )
        found.update(row["id"] for row in rows)
    return found


def _documents(tx: Transaction, ranges: Sequence[Range]) -> tuple[dict[int, int], dict[int, Document]]:
    """The documents in some ranges by their numbers: the rows that they stand for, and what else is kept of them."""
    rows = query.documents_within(tx, ranges=as_json(ranges))
    numbers, owners, *columns = orjson.loads(rows[0]["columns"]) if rows else ((), ())
    documents = map(Document._make, zip(*columns, strict=True))
    return dict(zip(numbers, owners, strict=True)), dict(zip(numbers, documents, strict=True))


def _fill_in(
    tx: Transaction, postings: Postings, around: Sequence[Range], related: Collection[int], *, everything: bool
) -> None:
    """Where terms stand near the candidates, of which not all places were looked at."""
    missing = [term for term, found in postings.items() if everything or len(found) >= MOST_POSTINGS]
    if missing and related:
        for row in query.terms_near(tx, terms=as_json(missing), ranges=as_json(around)):
            postings[row["term"]].update(orjson.loads(row["documents"]))
        if everything:
            waiting = query.waiting_within(tx, ranges=as_json(around), **_NO_FILTERS)
            _add_waiting(waiting, postings)


def _leave_out(walls: SearchFilter, postings: Postings, documents: dict[int, Document]) -> None:
    """Take the documents that are ignored out of what was read."""
    for holding in postings.values():
        holding.difference_update(walls.ignored or ())
    for number in documents.keys() & (walls.ignored or ()):
        del documents[number]


def _repeats(
    tx: Transaction,
    question: analysis.AnalyzedQuery,
    walls: SearchFilter,
    postings: Postings,
    owners: Mapping[int, int],
    documents: Mapping[int, Document],
    kinds: Mapping[int, str],
) -> set[int]:
    """Find the documents that say just what is asked outside of a run: they are no reason for what is near."""
    length = analysis.analysed(question.text).length
    holding = set.intersection(*postings.values()) if postings and walls.ignored is None else ()
    alike = sorted(number for number in holding if number in documents and documents[number].length == length)
    asked = analysis.terms(question.text) if alike else []
    places = {(kinds[each >> _SCOPE_BITS], owners[each]): each for each in alike[-MOST_REPEATS:]}
    texts = texts_of(tx, (each for each in places if each[0] in RELATED_KINDS))
    return {places[each] for each, text in texts.items() if analysis.terms("\n".join(text)) == asked}


def _why(hit: ranking.ScoredDocument, words: Mapping[str, str]) -> Explanation:
    terms, nearby = ({words.get(term, term): value for term, value in of.items()} for of in (hit.terms, hit.nearby))
    return Explanation(
        terms=terms, nearby=nearby, signals={name: value for name, value in hit.signals.items() if value}
    )


def again(tx: Transaction, rows: Iterable[tuple[str, int]], *, now: int, outlook: Any) -> list[Recollection]:
    """What was found before, as it is now. What is gone, or is not seen any more, is left out.

    Args:
        tx: The transaction.
        rows: The `row` of each.
        now: When, in microseconds since 1970.
        outlook: From where it looks, an `Outlook`; None for nowhere in particular.
    """
    looked = None if outlook is None else outlook.looked(tx, now)
    hits = [SearchHit(number, kind, owner, 0.0, Explanation()) for number, (kind, owner) in enumerate(rows)]
    given = given_to_user(tx, hits, now, looked)
    return [given[hit.document] for hit in hits if hit.document in given]


def given_to_user(tx: Transaction, hits: Sequence[SearchHit], now: int, looked: Any) -> dict[int, Recollection]:
    """What hits are to the user, by the numbers of their documents."""
    given: dict[int, Recollection] = {}
    for kind in sorted({hit.kind for hit in hits}):
        mine = [hit for hit in hits if hit.kind == kind]
        given.update(all_parts().recollections[kind](tx, mine, now, looked))
    return given


_FIRST = ("message", "record", "fact", "event", "item")
"""The kind as which a text is shown that is stored as several things."""
T = TypeVar("T")


def group_by_text(
    found: Iterable[T], text: Callable[[T], str], apart: Callable[[T], Any] = lambda _: None
) -> list[list[T]]:
    """Group results that have the same text, in the order in which each text comes first.

    Args:
        found: The results. One without a text is a group of its own.
        text: Returns the text of a result.
        apart: Returns what must be equal as well.
    """
    groups: dict[Any, list[T]] = {}
    for number, each in enumerate(found):
        said = text(each).strip()
        groups.setdefault((said, apart(each)) if said else number, []).append(each)
    return list(groups.values())


def once(found: Iterable[Recollection], *, in_time: bool = False) -> list[Recollection]:
    """Return each text of a namespace once, naming all that say it; the most trusted and newest of its kind is shown.

    Facts of one text differ in their time, so each is a result. So is each entry of the audit trail, and each value of
    items that are indexed by a part of it.

    Args:
        found: Results in any order.
        in_time: Whether it matters who says something, and when: then what is of one kind stays apart.
    """
    counts: Counter[tuple[Any, ...]] = Counter()
    values: dict[tuple[Any, ...], dict[str, int]] = {}

    def apart(each: Recollection) -> tuple[Any, ...]:
        if each.kind not in _FIRST:
            return each.kind, each.id
        said = each.namespace, each.kind, each.text
        counts[said] += 1
        if in_time or getattr(each.value, "raw", True) is False:
            return each.namespace, counts[said]
        known = values.setdefault(said, {})
        return each.namespace, known.setdefault(repr(each.value) if each.kind == "item" else "", len(known) + 1)

    shown = []
    for group in group_by_text(found, lambda each: each.text, apart):
        first = min(group, key=_place_in_group) if len(group) > 1 else group[0]
        also = tuple((each.kind, each.id) for each in group if each is not first)
        shown.append(replace(first, score=max(each.score for each in group), also=also) if also else first)
    return shown


def _place_in_group(each: Recollection) -> tuple[float, ...]:
    is_raw, rank = getattr(each.value, "raw", False), min(rank_of(source) for source, _ in _sources(each))
    return _FIRST.index(each.kind), is_raw, rank, -each.created_at.timestamp()


def _with_phrases(each: Recollection, phrases: Sequence[Sequence[str]], weight: float) -> Recollection:
    """A result that holds what stands in quotation marks in the query, word by word, is worth more."""
    text = " ".join(analysis.terms(each.text))
    held = sum(f" {' '.join(phrase)} " in f" {text} " for phrase in phrases) / len(phrases)
    return each.more(phrase=weight * held) if held else each


class Search(NamedTuple):
    """A search of a database.

    Attributes:
        asked: The query, analysed.
        walls: Where to look.
        limit: Most results.
        weights: How much each signal counts. Default: as measured, with vectors or without.
        outlook: From where it looks, an `Outlook`. Default: from nowhere in particular.
        name: The name of the step in a trace, `<part>.<verb>`. None for a detail of the surrounding step.
        inputs: What a trace shows beside the query and the limit.
        order: "score", the best first, or "time", the oldest first.
    """

    asked: analysis.AnalyzedQuery
    walls: SearchFilter
    limit: int
    weights: Weights | None = None
    outlook: Any = None
    name: str | None = "search"
    inputs: Thunk | None = None
    order: Order = "score"

    def find(self, database: Database) -> list[Recollection]:
        """Search a database, as one traced step.

        Returns:
            What answers the query best, the best first.
        """
        check_cancelled()
        engine, walls = database.engine, self.walls
        more = self.inputs or dict
        about = {"query": self.asked.text, "limit": self.limit}
        with database.step(self.name, lambda: {**about, **more()}, "retriever") as step:
            for part in all_parts().all:
                stored_as = {each.stored_as for forms in part.found.values() for each in forms}
                if not part.unsettled or not part.settle or stored_as.isdisjoint(walls.kinds or ()):
                    continue
                if engine.read(part.unsettled):
                    with suppress(DatabaseReadOnly):  # who may only read still searches
                        engine.write(part.settle)
            dense = near(database, self.asked, walls) if self.limit else None
            found = engine.read(lambda tx: self._found(tx, dense))
            step.finish(lambda: documents(found))
        return found

    def _found(self, tx: Transaction, dense: VectorQuery | None) -> list[Recollection]:
        limit, asked, walls = self.limit, self.asked, self.walls
        if limit == 0 or (walls.kinds is not None and not walls.kinds):
            return []
        is_timed = self.order == "time"
        looked = None if self.outlook is None else self.outlook.looked(tx, asked.now)
        walls = walls if looked is None else looked.within(tx, walls, asked.now)
        several = walls.kinds is None or len(walls.kinds) > 1  # of which two may say the same
        many = limit * (MORE if asked.phrases or is_timed else 2 if several else 1)
        while True:
            hits = search(tx, asked, walls, limit=many, weights=self.weights, dense=dense, order=self.order)
            given = given_to_user(tx, hits, asked.now, looked)
            if is_timed:
                hits.sort()  # what was said at the same time stays in the order of its places
            known = (given[hit.document] for hit in hits if hit.document in given)
            found = once((each for each in known if trusts(each, walls.trusted)), in_time=is_timed)
            if asked.phrases:
                weight = (self.weights or WEIGHTS).phrase
                found = [_with_phrases(each, asked.phrases, weight) for each in found]
            seen = len(found)
            if is_timed:
                found = in_time(found, asked, limit)
            elif asked.phrases:
                found.sort(key=lambda each: -each.score)
            if (seen if many >= MOST_COMPARED else len(found)) >= limit or len(hits) < many:
                break
            many *= MORE  # some of them have expired, cannot be seen from here, or repeat others
        return found[:limit]


def near(database: Database, asked: analysis.AnalyzedQuery, walls: SearchFilter) -> VectorQuery | None:
    """Return the vector of a question; None without words, without embeddings, or when they fail.

    Args:
        database: Where to look.
        asked: The question.
        walls: Where to look in it: what somebody who is named there says of themselves names nobody.
    """
    embedder = embedder_of(database)
    if embedder is None or not asked.text.strip():
        return None
    names = database.engine.read(lambda tx: _names(tx, asked, walls))
    text = analysis.as_spoken(asked.text, names) if len(names) == 1 else asked.text
    return embedder.near(text)


def _names(tx: Transaction, asked: analysis.AnalyzedQuery, walls: SearchFilter) -> set[str]:
    """The words of a question that name a speaker where it looks."""
    ranges, _ = ranges_of(tx, walls)
    return {row["word"] for row in query.speakers(tx, words=_words(asked), ranges=as_json(ranges))}
