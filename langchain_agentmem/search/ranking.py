"""The ranking of candidates for a question: a weighted sum of signals, pure arithmetic over postings.

The words of a message are not its only signals. Words of its neighbours in the conversation count too, above all those
of the question that it answers, since short answers leave out the words of their question. The whole conversation, the
speaker and the date count as well. `Weights` documents each signal.

The best weights differ between short talk of people and long replies of an assistant: a neighbour says much about a
message of ten words, and nothing about one of five hundred. So each weight is a linear function of one number, the
message length in the searched documents. Both ends of the line were fitted together, on two-person chats (LoCoMo) and
on chats with an assistant (BEAM). `tests/benchmarks/README.md` reports the effect of each signal.

Documents have numbers. Documents of one series, such as a conversation, are neighbours if their numbers are adjacent.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from statistics import StatisticsError, correlation, fmean
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.search.analysis import FEATURES, USER, word_list_terms
from langchain_agentmem.search.dates import TimeSpan
from langchain_agentmem.search.search_index import PLACE_BITS

REACH = 4
"""Neighbours to consider on each side."""
_DAY = 86_400_000_000
_FEATURE_BITS = {name: 1 << bit for bit, name in enumerate(FEATURES)}
_QUESTION, _STANDING_WISH, _PREFERENCE = (_FEATURE_BITS[name] for name in ("question", "standing wish", "preference"))
_COMMON_FEATURES = {"question": _QUESTION, "first_person": _FEATURE_BITS["first person"]}
"""The features that count for every question, by the name of their weight."""
_ANSWER_FEATURES = {
    "time": _FEATURE_BITS["time"],
    "number": _FEATURE_BITS["number"],
    "place": _FEATURE_BITS["proper noun"],
}
"""The features that count for one kind of answer, by the name of their weight."""

_SIGNALS = (
    *("length", "date", "conversation", "vectors", "own_vector"),
    *("answered", "account", "standing_wish", "preference", "answer", "opening"),
)
"""The signals measured on each document. The last six apply only to talk of a user with an assistant."""
_LIST_ANSWERS = frozenset({"order", "summary"})
_PLACE_MASK = (1 << PLACE_BITS) - 1  # the bits of a number that say the place in the series
_MIN_NEARNESS = 0.01  # documents so far from a time are unrelated to it
_OUTSIDE_FACTOR = 0.95  # just outside is less than within
_SATURATION = 1.2  # BM25's k1: how soon further occurrences of a term stop counting
_DAMPING, _FIXED_SHARE = 0.9, 0.6  # a term in a long text counts less: x = 1.9 / (1 + .9 (.6 + .4 length / average))
_NEIGHBOUR_FACTOR = 0.3  # the factor of a term next to a text; it falls with the root of the distance
_INHERITED_WORDS = 40  # a text of so many words has half of the question before it
_SHORT_WORDS, _MAX_SLOPE = (
    25,
    1.2,
)  # words of a message in short talk; where messages are so much longer weights change no more
_TALK_FACTOR = 0.3  # of its rarity a word has that asks about the talk itself
_FULL_TRUST = 0.2  # the correlation from which on vectors are trusted altogether
_PRIOR_TRUST, _PRIOR_COUNT = 0.3, 20  # what it usually is, and of how many documents it says as much as that
_OPENING_PLACE = 40  # at this place in a conversation half of what its beginning counts is left
_WISH_FACTOR = 0.3  # the factor of a standing wish that holds no word of the question

Weight = float | tuple[float, float]
"""The weight of a signal: a number, or a tuple of its base and of its change for long messages."""


class Weights(Options):
    """The weight of each signal: a number, or a tuple of a base and a slope.

    A tuple means `base + slope * length`. The logarithmic length is 0 in short talk (25 words or less a message) and 1
    where messages have 250 words on average. Roles distinguish the user's messages from the assistant's, if both exist.

    Attributes:
        own: The terms of the question in the document, less in a text that is longer than others.
        context: The terms in its neighbours: the best of each term nearby, above all in the question before it.
        cover: The share of the question's terms in the document, independent of its length.
        conversation: The score of the whole conversation.
        date: The document's time is near a time that the question names.
        speaker: The question names the speaker of the document.
        phrase: The document holds the phrases in quotation marks; one number.
        question: The document is a question. This signal and the next four count less, the more documents have them.
        first_person: The document speaks of its speaker.
        time: The document names a time, if the question asks for one.
        number: The document has a number, if the question asks for one.
        place: The document has a proper noun, if the question asks for a place.
        length: The logarithm of its words, divided by 5. Long texts say more, but replies are long anyway.
        user: The user is the author.
        reply: The assistant is the author, if the question asks for the assistant's words.
        summary: The assistant is the author, if the question asks for a summary.
        account: The length of a user's message, if the question asks for a summary or the order of events.
        answer: For the assistant's messages: the cover of the message before.
        answered: For the user's messages: the cover of the message after.
        standing_wish: The user always wants something, if the question asks for advice. It grows with the cover.
        preference: The user prefers something, under the same conditions.
        introduction: The user begins with a statement about themselves.
        opening: The user's message is early in its conversation. Off by default; it counts in the order of time.
        vectors: The cosine of its vector with the question's, its neighbours' vectors mixed in.
        own_vector: The cosine of its own vector alone, which counts more for longer messages.

    Raises:
        InvalidInput: A weight has another type.
    """

    own: Weight = 0.44
    context: Weight = (1.66, -1.36)
    cover: Weight = (0.51, -0.29)
    conversation: Weight = (0.67, -0.55)
    date: Weight = 0.37
    speaker: Weight = 0.12
    phrase: float = 0.11
    question: Weight = (-0.10, 0.13)
    first_person: Weight = 0.04
    time: Weight = 0.26
    number: Weight = (0.15, 0.37)
    place: Weight = 0.38
    length: Weight = (0.52, -0.93)
    user: Weight = (0.17, -0.14)
    reply: Weight = 0.17
    summary: Weight = 0.72
    account: Weight = (-0.40, 0.83)
    answer: Weight = 0.31
    answered: Weight = (-0.19, 0.38)
    standing_wish: Weight = (0.25, 0.24)
    preference: Weight = (-0.07, 0.32)
    introduction: Weight = 0.05
    opening: Weight = 0.0
    vectors: Weight = 0.0
    own_vector: Weight = 0.0

    def at_length(self, average: float) -> dict[str, float]:
        """Return the weight of each signal for an average message length in words."""
        length = min(_MAX_SLOPE, max(0.0, math.log10(average / _SHORT_WORDS)))
        return {name: weight[0] + weight[1] * length if isinstance(weight, tuple) else weight for name, weight in self}


WEIGHTS = Weights()
"""The weights for searches without vectors."""
_WITH_VECTORS: Mapping[str, Any] = {
    "own": 0.2,
    "context": (1.4, -1.2),
    "vectors": (0.75, -0.35),
    "own_vector": (0.1, 0.25),
}
WEIGHTS_WITH_VECTORS = WEIGHTS.replace(**_WITH_VECTORS)
"""The weights for fully trusted vectors, which repeat much of the terms' information."""


def weights_with_vectors(trust: float) -> Weights:
    """Return weights between `WEIGHTS` (trust 0) and `WEIGHTS_WITH_VECTORS` (trust 1).

    Args:
        trust: The result of `vector_trust`.
    """
    mixed: dict[str, Any] = {}
    for name, weight in _WITH_VECTORS.items():
        low, high = _base_and_slope(getattr(WEIGHTS, name)), _base_and_slope(weight)
        mixed[name] = low[0] + trust * (high[0] - low[0]), low[1] + trust * (high[1] - low[1])
    return WEIGHTS.replace(**mixed)


def _base_and_slope(weight: Weight) -> tuple[float, float]:
    return weight if isinstance(weight, tuple) else (weight, 0.0)


def weights_in_time(base: Weights) -> Weights:
    """Return the weights for evidence of a topic in the order of time.

    Long texts weigh no more than others. The beginning of a conversation, which names its subject, weighs more.

    Args:
        base: The weights for other searches.
    """
    return base.replace(length=(0.52, -0.50), account=0.0, answer=0.47, opening=0.30, summary=0.40)


class Document(NamedTuple):
    """The stored properties of a document, apart from its terms.

    Attributes:
        length: The number of words.
        features: Bits, one for each of `analysis.FEATURES`.
        created_at: Microseconds since 1970.
        speaker: The author as a number, or None.
        role: The author's role, as models name it, or None.
    """

    length: int
    features: int
    created_at: int
    speaker: int | None
    role: str | None = None

    @property
    def is_question(self) -> bool:
        """True if the document is a question."""
        return bool(self.features & _QUESTION)


_kind_of = itemgetter(1, 3, 4)
"""The features, the speaker and the role of a document, which many documents share."""


class VectorScores(NamedTuple):
    """The cosines of documents to a question, by document number.

    Attributes:
        own: The cosines of their own vectors.
        mixed: The cosines of their vectors mixed with their neighbours'; without neighbours, as in `own`.
    """

    own: Mapping[int, float] = MappingProxyType({})
    mixed: Mapping[int, float] = MappingProxyType({})

    def averages(self) -> tuple[float, float]:
        """Return the averages of both, which stand in for a document that has no vector yet."""
        own, mixed = (fmean(known.values()) if known else 0.0 for known in self)
        return own, mixed


class RankingQuery(NamedTuple):
    """The properties of a question that ranking needs.

    Attributes:
        terms: Its terms, without the names of speakers.
        answer_kinds: Kinds of answer.
        spans: Times that it names.
        speakers: The speakers that it names.
        is_lookup: True if the question is one word, so that results must hold it.
    """

    terms: Sequence[str]
    answer_kinds: Collection[str] = ()
    spans: Sequence[TimeSpan] = ()
    speakers: Collection[int] = ()
    is_lookup: bool = False


class SearchField(NamedTuple):
    """The documents that a search ranks, and the statistics that ranking needs.

    Attributes:
        postings: For each term of the question the numbers of the documents that hold it.
        term_weights: For each term its weight, as `term_weight` returns it.
        documents: The candidates, and their neighbours as far as they are known.
        average: The average number of words of a document.
        conversations: The score of each series, 0 to 1.
        related: The series whose documents are neighbours of each other.
        closeness: The cosines of documents to the question; empty without vectors.
        isolated: Documents that lend no words to their neighbours.
    """

    postings: Mapping[str, Collection[int]]
    term_weights: Mapping[str, float]
    documents: Mapping[int, Document]
    average: float
    conversations: Mapping[int, float]
    related: Collection[int]
    closeness: VectorScores = VectorScores()
    isolated: Collection[int] = ()


def rarity(documents: int, holding: int) -> float:
    """Return the inverse document frequency of a term."""
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def term_weight(term: str, documents: int, holding: int) -> float:
    """Return the weight of a query term: its rarity, less for words about the talk itself."""
    return rarity(documents, holding) * (_TALK_FACTOR if term in word_list_terms("talk_words") else 1.0)


def vector_trust(closeness: Mapping[int, float], holding: Collection[int]) -> float:
    """Return how far the vectors of documents can be trusted for a question, from 0 to 1.

    If a model knows the words of a question, documents that hold one of them are nearer than the rest. Otherwise, as
    with many models in other languages than English, they lie anywhere, and the words alone find more.

    Args:
        closeness: The cosines, by documents.
        holding: The documents that hold a term of the question.
    """
    numbers = sorted(closeness)
    try:
        found = correlation([float(number in holding) for number in numbers], [closeness[each] for each in numbers])
    except StatisticsError:  # all of them hold one, or none
        return 1.0
    shrunk = (len(numbers) * found + _PRIOR_COUNT * _PRIOR_TRUST) / (len(numbers) + _PRIOR_COUNT)
    return min(1.0, max(0.0, shrunk / _FULL_TRUST))


def conversation_scores(
    postings: Mapping[str, Collection[int]], series: int, isolated: Collection[int] = ()
) -> dict[int, float]:
    """Return how well each series fits a question as a whole.

    The score is BM25 over series instead of documents, divided by the highest possible score.

    Args:
        postings: For each term the documents that hold it.
        series: The number of series. With fewer than 2, there are no scores.
        isolated: Documents to ignore.
    """
    if series < 2:  # noqa: PLR2004 - see above
        return {}
    scores: dict[int, float] = {}
    highest = 0.0
    for holding in postings.values():
        counts = Counter(number >> PLACE_BITS for number in holding if number not in isolated)
        weight = rarity(series, min(len(counts), series))
        highest += weight
        for each, count in counts.items():
            scores[each] = scores.get(each, 0.0) + weight * count / (count + _SATURATION)
    return {each: score / highest for each, score in scores.items()} if highest else {}


def first_candidates(
    postings: Mapping[str, Collection[int]], term_weights: Mapping[str, float], limit: int
) -> list[int]:
    """Return the documents whose terms of the question have the highest total weight.

    Args:
        postings: For each term the documents that hold it.
        term_weights: The weight of each term.
        limit: Maximum documents; of equals, the newest.
    """
    scores: dict[int, float] = {}
    for term, holding in postings.items():
        weight = term_weights[term]
        for number in holding:
            scores[number] = scores.get(number, 0.0) + weight
    return sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True)[:limit]


def neighbour_ranges(numbers: Collection[int], related: Collection[int]) -> list[tuple[int, int]]:
    """Return documents and their neighbours as ascending ranges that do not touch."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        series = number >> PLACE_BITS
        reach = REACH if series in related else 0
        first, end = (
            max(number - reach, series << PLACE_BITS),
            min(number + reach, series << PLACE_BITS | _PLACE_MASK) + 1,
        )
        if ranges and ranges[-1][1] >= first:
            first, _ = ranges.pop()
        ranges.append((first, end))
    return ranges


class ScoredDocument(NamedTuple):
    """A candidate with its score and the parts of the score.

    Attributes:
        number: The document.
        score: The sum of the rest.
        terms: The part added by each term of the question that the document holds.
        nearby: The part added by each term that documents next to it hold.
        signals: The other positive or negative parts, by the names of `Weights`.
    """

    number: int
    score: float
    terms: Mapping[str, float]
    nearby: Mapping[str, float]
    signals: Mapping[str, float]


def rank_documents(
    question: RankingQuery, field: SearchField, candidates: Collection[int], *, limit: int, weights: Weights = WEIGHTS
) -> list[ScoredDocument]:
    """Return the candidates that fit a question best.

    Signals such as the length do not suffice: a part of the question must lead to a result. Results of a one-word
    question hold the word.

    Args:
        question: The question.
        field: The documents to rank, with their statistics.
        candidates: Numbers of documents that `field.documents` has.
        limit: Maximum results.
        weights: The weight of each signal.

    Returns:
        The best first; of equals, the newest.
    """
    scorer = _Scorer(question, field, weights.at_length(field.average))
    scored = [(*scorer.score(number), number) for number in scorer.reachable(candidates)]
    best = heapq.nlargest(limit, scored, key=itemgetter(0, 2))
    return [
        ScoredDocument(number, score, *scorer.terms(number), scorer.signals(number, parts))
        for score, parts, number in best
    ]


class _Scorer:
    """A scorer of documents for one question.

    Args:
        asked: The question.
        field: The documents to rank, with their statistics.
        weight: The weight of each signal, by its name.
    """

    def __init__(self, question: RankingQuery, field: SearchField, weight: Mapping[str, float]) -> None:
        self._question, self._weight, self._documents, self._related = question, weight, field.documents, field.related
        self._postings, self._conversations, self._closeness = field.postings, field.conversations, field.closeness
        self._isolated = field.isolated
        total = sum(field.term_weights[term] for term in question.terms) or 1.0
        self._shares = {term: field.term_weights[term] / total for term in question.terms}
        self._length_factors: dict[int, tuple[float, float]] = {  # there are few different ones
            length: (
                (1 + _DAMPING) / (1 + _DAMPING * (_FIXED_SHARE + (1 - _FIXED_SHARE) * length / field.average)),
                math.log1p(length) / 5,
            )
            for length in {each.length for each in field.documents.values()}
        }
        self._cover: dict[int, float] = {}
        self._term_values = {term: self._spread_term(term, share) for term, share in self._shares.items()}
        dated = field.documents.items() if question.spans else ()
        self._date_values = {number: near for number, each in dated if (near := _date_value(question.spans, each))}
        self._reachable = {*self._date_values, *field.closeness.own}.union(*self._term_values.values())
        counts = Counter(map(_kind_of, field.documents.values()))
        self._roles = _SpeakerStats(counts)
        self._kind_signals = {kind: self._signals_of_kind(*kind) for kind in counts}
        self._kind_scores = {kind: sum(signals.values()) for kind, signals in self._kind_signals.items()}
        self._answered_cover, self._answer_cover = (
            self._neighbour_cover(1, by_user=True),
            self._neighbour_cover(-1, by_user=False),
        )
        self._averages = field.closeness.averages()

    def _spread_term(self, term: str, share: float) -> dict[int, float]:
        """Return the best value of a term at each document and at the places around it.

        Some of these places may have no document.
        """
        documents, cover, of_length = self._documents, self._cover, self._length_factors
        reach = REACH if self._weight["context"] else 0
        offsets = [
            (side * distance, _NEIGHBOUR_FACTOR / math.sqrt(distance))
            for distance in range(1, reach + 1)
            for side in (-1, 1)
        ]
        best: dict[int, float] = {}
        value_of = best.get
        for number in documents.keys() & self._postings[term]:
            cover[number] = cover.get(number, 0.0) + share
            length, features, _, _, _ = documents[number]
            worth = share * of_length[length][0]
            if value_of(number, 0.0) < worth:
                best[number] = worth
            if not offsets or number in self._isolated or number >> PLACE_BITS not in self._related:
                continue
            place = number & _PLACE_MASK
            inside = reach <= place <= _PLACE_MASK - reach
            for offset, factor in (
                offsets if inside else [each for each in offsets if 0 <= place + each[0] <= _PLACE_MASK]
            ):
                value = worth * factor
                if value_of(number + offset, 0.0) < value:
                    best[number + offset] = value
            if features & _QUESTION and place < _PLACE_MASK and (answer := documents.get(number + 1)):
                value = worth / (1 + answer.length / _INHERITED_WORDS)
                if value_of(number + 1, 0.0) < value:
                    best[number + 1] = value
        return best

    def _signals_of_kind(self, features: int, speaker: int | None, role: str | None) -> dict[str, float]:
        """Return the signals of a document's features, speaker and role."""
        question, weight, roles = self._question, self._weight, self._roles
        bits = {
            **_COMMON_FEATURES,
            **{kind: bit for kind, bit in _ANSWER_FEATURES.items() if kind in question.answer_kinds},
        }
        signals = {
            name: weight[name] * roles.distinctiveness(role, bit) if features & bit else 0.0
            for name, bit in bits.items()
        }
        if len(question.speakers) == 1 and speaker in question.speakers:
            signals["speaker"] = weight["speaker"]
        if features & _FEATURE_BITS["introduction"]:
            signals["introduction"] = weight["introduction"]
        if roles.has_two_roles and role == USER:
            signals["user"] = weight["user"]
        elif roles.has_two_roles and role is not None:
            signals |= {name: weight[name] for name in ("reply", "summary") if name in question.answer_kinds}
        return signals

    def reachable(self, candidates: Collection[int]) -> set[int]:
        """Return the candidates to which some part of the question leads."""
        found = self._reachable.intersection(candidates)
        if self._question.is_lookup:
            holding = set(self._closeness.own).union(*(self._postings[term] for term in self._question.terms))
            found = {number for number in found if number in holding or self._date_values.get(number) == 1}
        return found

    def _neighbour_cover(self, step: int, *, by_user: bool) -> dict[int, float]:
        """Return, by document, how much of the question the message `step` places after it covers.

        With `by_user`, only documents of the user are included, else only those of other roles.
        """
        found: dict[int, float] = {}
        cover = {other: share for other, share in self._cover.items() if other not in self._isolated}
        for other, share in cover.items() if self._roles.has_two_roles else ():
            number, series = other - step, other >> PLACE_BITS
            role = document.role if (document := self._documents.get(number)) else None
            if role is not None and (role == USER) is by_user and number >> PLACE_BITS == series in self._related:
                found[number] = share
        return found

    def score(self, number: int) -> tuple[float, tuple[float, ...]]:
        """Return the score of a document, and its measured signals in the order of `_SIGNALS`."""
        weight, document = self._weight, self._documents[number]
        (own, mixed), (average_own, average_mixed) = self._closeness, self._averages
        length = self._length_factors[document.length][1]
        measured: tuple[float, ...] = (
            weight["length"] * length,
            weight["date"] * self._date_values.get(number, 0.0),
            weight["conversation"] * self._conversations.get(number >> PLACE_BITS, 0.0),
            weight["vectors"] * mixed.get(number, average_mixed),
            weight["own_vector"] * own.get(number, average_own),
        )
        if self._roles.has_two_roles and document.role is not None:
            measured += self._dialogue_signals(number, document, length)
        words = weight["context"] * sum([worths[number] for worths in self._term_values.values() if number in worths])
        if number in self._cover:
            words += self._cover[number] * self._own_factor(number)
        return words + self._kind_scores[_kind_of(document)] + sum(measured), measured

    def terms(self, number: int) -> tuple[dict[str, float], dict[str, float]]:
        """Return what each term adds in a document itself, and what it adds around it."""
        own_factor, context = self._own_factor(number), self._weight["context"]
        strength = self._length_factors[self._documents[number].length][0]
        own: dict[str, float] = {}
        nearby: dict[str, float] = {}
        for term, worths in self._term_values.items():
            worth = self._shares[term] * strength if number in self._postings[term] else 0.0
            if worth:
                own[term] = context * worth + self._shares[term] * own_factor
            if (best := worths.get(number, 0.0)) > worth:
                nearby[term] = context * (best - worth)
        return own, nearby

    def signals(self, number: int, measured: Sequence[float]) -> dict[str, float]:
        """Return the other positive or negative parts of a document's score."""
        return self._kind_signals[_kind_of(self._documents[number])] | dict(zip(_SIGNALS, measured, strict=False))

    def _own_factor(self, number: int) -> float:
        """Return the factor for terms that a document itself holds, in addition to their context."""
        weight = self._weight
        strength: float = self._length_factors[self._documents[number].length][0]
        return (weight["own"] - weight["context"]) * strength + weight["cover"]

    def _dialogue_signals(self, number: int, document: Document, length: float) -> tuple[float, ...]:
        """Return what a message adds for its part in the talk of a user and an assistant."""
        weight, asks_for = self._weight, self._question.answer_kinds
        if document.role != USER:
            return 0.0, 0.0, 0.0, 0.0, weight["answer"] * self._answer_cover.get(number, 0.0), 0.0
        listed = 0.0 if _LIST_ANSWERS.isdisjoint(asks_for) else length
        wanted = _WISH_FACTOR + self._cover.get(number, 0.0) if "advice" in asks_for else 0.0
        return (
            weight["answered"] * self._answered_cover.get(number, 0.0),
            weight["account"] * listed,
            weight["standing_wish"] * wanted if document.features & _STANDING_WISH else 0.0,
            weight["preference"] * wanted if document.features & _PREFERENCE else 0.0,
            0.0,
            weight["opening"] / (1 + (number & _PLACE_MASK) / _OPENING_PLACE),
        )


class _SpeakerStats:
    """Statistics of the features that documents of each role have.

    Args:
        kinds: The number of documents of each kind, see `_kind_of`.
    """

    def __init__(self, kinds: Mapping[tuple[int, int | None, str | None], int]) -> None:
        self._counts: Counter[str | None] = Counter()
        self._feature_counts: Counter[tuple[str | None, int]] = Counter()
        for (features, _, role), count in kinds.items():
            self._counts[role] += count
            for bit in (*_COMMON_FEATURES.values(), *_ANSWER_FEATURES.values()):
                if features & bit:
                    self._feature_counts[role, bit] += count
        self.has_two_roles = USER in self._counts and not {USER, None}.issuperset(self._counts)
        """True if there are a user and another role."""

    def distinctiveness(self, role: str | None, bit: int) -> float:
        """Return how distinctive a feature is within a role: 0 if all its documents have it."""
        return 1 - self._feature_counts[role, bit] / self._counts[role]


def _date_value(spans: Sequence[TimeSpan], document: Document) -> float:
    near = max((_nearness(span, document.created_at) for span in spans), default=0.0)
    return near if near > _MIN_NEARNESS else 0.0


def _nearness(span: TimeSpan, created_at: int) -> float:
    """Return how near a time is to a span, 1 within it.

    The value falls slowly after the span, since people speak of it for days, and quickly before it.
    """
    if created_at >= span.end:
        return _OUTSIDE_FACTOR * math.exp(-(created_at - span.end) / (7 * _DAY))
    if created_at < span.start:
        return _OUTSIDE_FACTOR * math.exp(-3 * (span.start - created_at) / (7 * _DAY))
    return 1.0
