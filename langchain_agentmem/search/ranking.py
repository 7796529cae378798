"""How well each candidate answers a question: pure arithmetic over where the question's terms stand.

A message is not judged by its own words alone. Its neighbours in the conversation lend it theirs, above all the
question that it answers, since answers leave out the words of their question; the whole conversation counts, its
speaker and its date. What a signal is for, and what it brought where it was measured, stands at its weight.

Documents are known by numbers: those of one series, such as a conversation, are neighbours when their numbers are.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from langchain_agentmem.search.analysis import FEATURES
from langchain_agentmem.search.dates import TimeSpan
from langchain_agentmem.search.search_index import PLACE_BITS

REACH = 4
"""So many neighbours on each side are looked at."""
_DAY = 86_400_000_000
_QUESTION, _FIRST_PERSON, _TIME, _NUMBER, _PROPER = (1 << bit for bit in range(len(FEATURES)))
_FAR = 0.01  # what is said so long after a time has nothing to do with it
_BESIDE = 0.95  # just outside is less than within
_SATURATION = 1.2  # BM25's k1: how soon more of a term says nothing new
_ANSWERS = {"time": _TIME, "number": _NUMBER, "person": _PROPER, "place": _PROPER}
"""What a text has that tells what is asked for. Each kind has its weight by its name."""

_MEASURED = ("length", "date", "vectors", "conversation", "recency")
"""The signals that are measured on each document."""

_DAMPING, _FIXED = 0.9, 0.6  # a term in a long text says less: x = 1 / (1 + .9 (.6 + .4 length / average))


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each signal counts. A text that holds all words of the question, and is short, scores about 1.

    Attributes:
        context: What a term in a neighbour counts, one place away; it falls with the root of the distance.
        answer: What a term counts in the question that stands just before.
        conversation: How well the whole conversation fits.
        date: That it was said near a time that the question names.
        speaker: That the one whom the question names said it.
        length: For each unit of the logarithm of its words: what is long says more.
        question: That it is a question itself, so hardly the answer.
        first_person: That it speaks of its speaker.
        time: That it tells a time when one is asked for.
        number: The same of numbers.
        person: The same of names, where a person is asked for.
        place: The same of names, where a place is asked for.
        phrase: That it holds what stands in quotation marks.
        vectors: The cosine of its vector with the question's.
        recency: That it was said lately: all of it for the newest, half for what is 30 days older. Off by default,
        since
            it hurt where it was measured.
        diversity: What a result loses for saying what better ones say already, by the share of common terms (maximal
            marginal relevance). Off by default, for the same reason.
    """

    context: float = 0.4
    answer: float = 1.0
    conversation: float = 0.4
    date: float = 0.35
    speaker: float = 0.07
    length: float = 0.02
    question: float = -0.04
    first_person: float = 0.04
    time: float = 0.15
    number: float = 0.08
    person: float = 0.12
    place: float = 0.10
    phrase: float = 0.5
    vectors: float = 0.7
    recency: float = 0.0
    diversity: float = 0.0


WEIGHTS = Weights()


class Document(NamedTuple):
    """What is kept of a document beside its terms.

    Attributes:
        length: Words.
        features: Bits, one for each of `analysis.FEATURES`.
        created_at: Microseconds since 1970.
        speaker: Who said it, as a number, or None.
    """

    length: int
    features: int
    created_at: int
    speaker: int | None

    @property
    def asks(self) -> bool:
        """Whether it is a question."""
        return bool(self.features & _QUESTION)


class Asked(NamedTuple):
    """A question, as far as ranking needs it.

    Attributes:
        terms: Its terms, without the names of speakers.
        asks_for: Kinds of answer.
        spans: Times that it names.
        speakers: The speakers that it names.
        look_up: Whether it is one word, so that only what holds it is wanted.
        newest: When the last thing was said where the search looks.
    """

    terms: Sequence[str]
    asks_for: Collection[str] = ()
    spans: Sequence[TimeSpan] = ()
    speakers: Collection[int] = ()
    look_up: bool = False
    newest: int = 0


class Field(NamedTuple):
    """Where a search looks.

    Attributes:
        postings: For each term of the question the numbers of the documents that hold it.
        rarity: For each term how rare it is: its inverse document frequency.
        documents: The candidates, and their neighbours as far as they are known.
        average: Words of a document, on the average.
        conversations: What each series is worth, 0 to 1.
        related: The series whose documents are neighbours of each other.
        closeness: How near documents lie to the question by their vectors, as cosines; empty without vectors.
    """

    postings: Mapping[str, Collection[int]]
    rarity: Mapping[str, float]
    documents: Mapping[int, Document]
    average: float
    conversations: Mapping[int, float]
    related: Collection[int]
    closeness: Mapping[int, float] = MappingProxyType({})


def rarity(documents: int, holding: int) -> float:
    """The inverse document frequency of a term that so many of so many documents hold."""
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def conversation_scores(postings: Mapping[str, Collection[int]], series: int) -> dict[int, float]:
    """How well each series fits as a whole: BM25 with series in the place of documents, of the most it could be.

    Args:
        postings: For each term the documents that hold it.
        series: How many series there are. Of one alone nothing can be said.
    """
    if series < 2:  # noqa: PLR2004 - see above
        return {}
    scores: dict[int, float] = {}
    most = 0.0
    for holding in postings.values():
        counts = Counter(number >> PLACE_BITS for number in holding)
        weight = rarity(series, min(len(counts), series))
        most += weight
        for each, count in counts.items():
            scores[each] = scores.get(each, 0.0) + weight * count / (count + _SATURATION)
    return {each: score / most for each, score in scores.items()} if most else {}


def first_look(postings: Mapping[str, Collection[int]], rarities: Mapping[str, float], limit: int) -> list[int]:
    """The documents that hold the most of the question, the rarest terms counting most.

    Args:
        postings: For each term the documents that hold it.
        rarities: How rare each term is.
        limit: How many; of equals, the newest.
    """
    scores: dict[int, float] = {}
    for term, holding in postings.items():
        weight = rarities[term]
        for number in holding:
            scores[number] = scores.get(number, 0.0) + weight
    best = sorted(scores.items(), key=lambda each: (each[1], each[0]), reverse=True)[:limit]
    return [number for number, _ in best]


def near(numbers: Collection[int], related: Collection[int]) -> set[int]:
    """Documents with their neighbours."""
    found = set(numbers)
    for number in numbers:
        if number >> PLACE_BITS in related:
            found.update(range(number - REACH, number + REACH + 1))
    return found


class Ranked(NamedTuple):
    """A candidate and what it owes its score to.

    Attributes:
        number: The document.
        score: The sum of the rest.
        terms: What each term of the question adds, in the document or around it.
        signals: What else adds or takes away, by the names of `Weights`.
    """

    number: int
    score: float
    terms: Mapping[str, float]
    signals: Mapping[str, float]


def ranked(
    asked: Asked, field: Field, candidates: Collection[int], *, limit: int, weights: Weights = WEIGHTS
) -> list[Ranked]:
    """The candidates that fit a question best.

    That a text is long, or speaks of itself, is no reason to find it: something of the question must have led to it. A
    question of one word looks something up, and what it finds holds it.

    Args:
        asked: The question.
        field: Where to look.
        candidates: Numbers of documents that `field.documents` has.
        limit: How many.
        weights: How much each signal counts.

    Returns:
        The best first; of equals, the newest.
    """
    total = sum(field.rarity[term] for term in asked.terms) or 1.0
    strength = {
        number: 1 / (1 + _DAMPING * (_FIXED + (1 - _FIXED) * document.length / field.average))
        for number, document in field.documents.items()
    }
    found: dict[int, dict[str, float]] = {number: {} for number in candidates}
    for term in asked.terms:
        _spread(term, field.rarity[term] / total, field, strength, found, weights)
    if asked.look_up:
        holding = {number for term in asked.terms for number in field.postings[term]} | field.closeness.keys()
        found = {
            number: terms
            for number, terms in found.items()
            if number in holding or _when(asked.spans, field.documents[number]) == 1
        }
    told: dict[tuple[int, int | None], dict[str, float]] = {}  # there are few different ones
    hits: list[tuple[float, int, tuple[float, ...]]] = []
    for number, terms in found.items():
        document = field.documents[number]
        near = _when(asked.spans, document) if asked.spans else 0.0
        close = field.closeness.get(number, 0.0)
        if terms or near or close:
            kind = document.features, document.speaker
            if kind not in told:
                told[kind] = _told(asked, document, weights)
            measured = (
                weights.length * math.log1p(document.length),
                weights.date * near,
                weights.vectors * close,
                weights.conversation * field.conversations.get(number >> PLACE_BITS, 0.0),
                weights.recency and weights.recency * _lateness(asked, document),
            )
            hits.append((sum(terms.values()) + sum(told[kind].values()) + sum(measured), number, measured))
    return [
        Ranked(
            number,
            score,
            found[number],
            told[field.documents[number].features, field.documents[number].speaker]
            | dict(zip(_MEASURED, measured, strict=True)),
        )
        for score, number, measured in heapq.nlargest(limit, hits)
    ]


def _spread(
    term: str,
    share: float,
    field: Field,
    strength: Mapping[int, float],
    found: dict[int, dict[str, float]],
    weights: Weights,
) -> None:
    """Give each candidate the best of what a term is worth in it and in its neighbours."""
    fall = [1.0, *(weights.context / math.sqrt(distance) for distance in range(1, REACH + 1))]
    for number in field.postings[term]:
        if number not in strength:
            continue
        worth = share * strength[number]
        if number in found and found[number].get(term, 0.0) < worth:
            found[number][term] = worth
        series = number >> PLACE_BITS
        if series not in field.related:
            continue
        asks = field.documents[number].features & _QUESTION
        for distance in range(1, REACH + 1):
            for other, factor in (
                (number - distance, fall[distance]),
                (number + distance, max(weights.answer, fall[1]) if asks and distance == 1 else fall[distance]),
            ):
                if other in found and other >> PLACE_BITS == series and found[other].get(term, 0.0) < worth * factor:
                    found[other][term] = worth * factor


def _told(asked: Asked, document: Document, weights: Weights) -> dict[str, float]:
    """What a document's features and its speaker add."""
    features = document.features
    signals: dict[str, float] = {}
    if features & _QUESTION:
        signals["question"] = weights.question
    if features & _FIRST_PERSON:
        signals["first_person"] = weights.first_person
    if len(asked.speakers) == 1 and document.speaker in asked.speakers:
        signals["speaker"] = weights.speaker
    for kind in asked.asks_for:
        if features & _ANSWERS[kind]:
            signals[kind] = getattr(weights, kind)
    return signals


def _lateness(asked: Asked, document: Document) -> float:
    return float(0.5 ** (max(0, asked.newest - document.created_at) / (30 * _DAY)))


def _when(spans: Sequence[TimeSpan], document: Document) -> float:
    near = max((_nearness(span, document.created_at) for span in spans), default=0.0)
    return near if near > _FAR else 0.0


def _nearness(span: TimeSpan, created_at: int) -> float:
    """1 within a span; after it people still speak of it for days, before it hardly."""
    if created_at >= span.end:
        return _BESIDE * math.exp(-(created_at - span.end) / (7 * _DAY))
    if created_at < span.start:
        return _BESIDE * math.exp(-3 * (span.start - created_at) / (7 * _DAY))
    return 1.0
