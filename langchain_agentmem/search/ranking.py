"""The ranking of candidates for a question: a weighted sum of signals, without a database.

A message is scored by its own words, by the words of its neighbours, and by its conversation, speaker and date. The
neighbour that counts most is a question before it, since short answers do not repeat the words of their question.
`Weights` documents each signal.

The best weights differ between short messages of people and long replies of an assistant. The neighbours of a message
of ten words help to rank it; those of a message of five hundred words do not. So each weight is a linear function of
the average message length in the searched documents. Base and slope were fitted together, on two-person chats (LoCoMo)
and on chats with an assistant (BEAM). `tests/benchmarks/README.md` reports the effect of each signal.

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
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.search.analysis import FEATURE_BITS, USER, word_list_terms
from langchain_agentmem.search.dates import TimeSpan
from langchain_agentmem.search.search_index import PLACE_BITS

REACH = 4
"""The number of neighbours to consider on each side of a document."""
_DAY = 86_400_000_000
_QUESTION, _STANDING_WISH, _PREFERENCE = (FEATURE_BITS[name] for name in ("question", "standing wish", "preference"))
_COMMON_BITS = {"question": _QUESTION, "first_person": FEATURE_BITS["first person"]}
"""The bits of features that apply to every question, by the name of their weight."""
_ANSWER_BITS = {"time": FEATURE_BITS["time"], "number": FEATURE_BITS["number"], "place": FEATURE_BITS["proper noun"]}
"""The bits of features that apply to one kind of answer, by the name of their weight."""

_SIGNALS = (
    *("length", "date", "conversation", "vectors", "own_vector"),
    *("answered", "account", "standing_wish", "preference", "answer", "opening"),
)
"""The signals measured on each document. The last six apply only to dialogues of a user and an assistant."""
_LIST_ANSWERS = frozenset({"order", "summary"})
_PLACE_MASK = (1 << PLACE_BITS) - 1  # the bits of a number for the place in the series
_MIN_NEARNESS = 0.01  # a document with a lower nearness to a time is unrelated to it
_OUTSIDE_FACTOR = 0.95  # the nearness just outside a time span; within the span it is 1
_SATURATION = 1.2  # BM25's k1: with a lower value, further occurrences of a term add less
_DAMPING, _FIXED_SHARE = 0.9, 0.6  # the factor of a text's length is 1.9 / (1 + .9 (.6 + .4 length / average))
_NEIGHBOUR_FACTOR = 0.3  # the factor of a neighbour's term, divided by the square root of the distance
_INHERITED_WORDS = 40  # an answer of this many words gets half the value of its question's terms
_SHORT_WORDS = 25  # the average words of a message for which weights equal their base
_MAX_LENGTH = 1.2  # the maximum logarithmic length; weights do not change beyond it
_META_FACTOR = 0.3  # the factor of words that refer to the conversation itself
_FULL_TRUST = 0.2  # the lowest correlation for which vectors are fully trusted
_PRIOR_TRUST, _PRIOR_COUNT = 0.3, 20  # the prior correlation, and its weight as a number of documents
_OPENING_PLACE = 40  # the place in a conversation at which the weight of its opening is halved
_WISH_FACTOR = 0.3  # the value of a wish or a preference that contains no term of the question

TermDocuments: TypeAlias = Mapping[str, Collection[int]]
"""The numbers of the documents that contain each term."""
Weight = float | tuple[float, float]
"""The weight of a signal: a number, or a tuple of a base and a slope, see `Weights`."""


class Weights(Options):
    """The weight of each signal: a number, or a tuple of a base and a slope.

    A tuple means `base + slope * length`. The logarithmic length is 0 if messages have at most 25 words on average, and
    1 if they have 250. Except `introduction`, signals of the user and the assistant require messages of both roles.

    Attributes:
        own: The terms of the question in the document. They count less in longer texts.
        context: The best value of each term in the document and its neighbours. The question before it counts most.
        cover: The share of the question's terms that the document contains, independent of its length.
        conversation: The score of the whole conversation.
        date: The nearness of the document's time to a time that the question names.
        speaker: The question names the speaker of the document.
        phrase: The document contains the phrases in quotation marks. The weight must be a number.
        question: The document is a question. `question` to `place` weigh less, the more documents have them.
        first_person: The speaker speaks about themselves.
        time: The document names a time, if the question asks for one.
        number: The document has a number, if the question asks for one.
        place: The document has a proper noun, if the question asks for a place.
        length: The logarithm of the number of words, divided by 5. Among long messages, it counts negatively.
        user: The user is the author.
        reply: The assistant is the author, if the question asks for the assistant's words.
        summary: The assistant is the author, if the question asks for a summary.
        account: The length of a user's message, if the question asks for a summary or the order of events.
        answer: For the assistant's messages: the cover of the previous message.
        answered: For the user's messages: the cover of the next message.
        standing_wish: The user states a wish that always applies, if the question asks for advice. It grows with the
            cover.
        preference: The user states a preference, under the same conditions as `standing_wish`.
        introduction: The user begins with a statement about themselves.
        opening: The user's message is early in its conversation. 0 except in `weights_in_time`.
        vectors: The cosine of the question's vector and the document's vector mixed with its neighbours'.
        own_vector: The cosine of the question's vector and the document's own vector.

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
        length = min(_MAX_LENGTH, max(0.0, math.log10(average / _SHORT_WORDS)))
        return {name: weight[0] + weight[1] * length if isinstance(weight, tuple) else weight for name, weight in self}


WEIGHTS = Weights()
"""The weights for searches without vectors."""
_FOR_VECTORS: dict[str, Any] = {"own": 0.2, "context": (1.4, -1.2), "vectors": (0.75, -0.35), "own_vector": (0.1, 0.25)}
"""The weights that differ in `WEIGHTS_WITH_VECTORS`."""
WEIGHTS_WITH_VECTORS = WEIGHTS.replace(**_FOR_VECTORS)
"""The weights for fully trusted vectors. Terms weigh less here, since vectors carry much of their information."""


def weights_with_vectors(trust: float) -> Weights:
    """Return weights between `WEIGHTS` (trust 0) and `WEIGHTS_WITH_VECTORS` (trust 1).

    Args:
        trust: The result of `vector_trust`.
    """
    mixed: dict[str, Any] = {}
    for name, weight in _FOR_VECTORS.items():
        low, high = _base_and_slope(getattr(WEIGHTS, name)), _base_and_slope(weight)
        mixed[name] = low[0] + trust * (high[0] - low[0]), low[1] + trust * (high[1] - low[1])
    return WEIGHTS.replace(**mixed)


def _base_and_slope(weight: Weight) -> tuple[float, float]:
    return weight if isinstance(weight, tuple) else (weight, 0.0)


def weights_in_time(base: Weights) -> Weights:
    """Return the weights for a search whose results are listed in the order of time.

    The length hardly counts among long messages. The beginning of a conversation, which names its subject, weighs more.

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


_traits_of = itemgetter(1, 3, 4)
"""Return the features, the speaker and the role of a document. Many documents share all three."""


class VectorScores(NamedTuple):
    """The cosines of documents to a question, by document number.

    Attributes:
        own: The cosines of their own vectors.
        mixed: The cosines of their vectors mixed with their neighbours'. Without neighbours, the same as `own`.
    """

    own: Mapping[int, float] = MappingProxyType({})
    mixed: Mapping[int, float] = MappingProxyType({})

    def averages(self) -> tuple[float, float]:
        """Return the average of each, to use for documents without a vector."""
        own, mixed = (fmean(known.values()) if known else 0.0 for known in self)
        return own, mixed


class RankingQuery(NamedTuple):
    """The properties of a question that ranking needs.

    Attributes:
        terms: Its terms, without the names of speakers.
        answer_kinds: The result of `analysis.answer_kinds`.
        spans: The time spans that it names.
        speakers: The speakers that it names.
        is_lookup: True if the question is one word, so that results must contain it.
    """

    terms: Sequence[str]
    answer_kinds: Collection[str] = ()
    spans: Sequence[TimeSpan] = ()
    speakers: Collection[int] = ()
    is_lookup: bool = False


class SearchField(NamedTuple):
    """The documents that a search ranks, and the statistics that ranking needs.

    Attributes:
        postings: The documents that contain each term of the question.
        term_weights: The result of `term_weight` for each term.
        documents: The candidates and their neighbours.
        average: The average number of words of a document.
        conversations: The score of each series, 0 to 1.
        related: The series whose documents are neighbours of each other.
        closeness: The cosines of documents to the question; empty without vectors.
        isolated: Documents whose terms do not contribute to their neighbours.
    """

    postings: TermDocuments
    term_weights: Mapping[str, float]
    documents: Mapping[int, Document]
    average: float
    conversations: Mapping[int, float]
    related: Collection[int]
    closeness: VectorScores = VectorScores()
    isolated: Collection[int] = ()


def rarity(documents: int, matches: int) -> float:
    """Return the inverse document frequency of a term."""
    return math.log(1 + (documents - matches + 0.5) / (matches + 0.5))


def term_weight(term: str, documents: int, matches: int) -> float:
    """Return the weight of a query term: its rarity, less for words about the conversation."""
    return rarity(documents, matches) * (_META_FACTOR if term in word_list_terms("talk_words") else 1.0)


def vector_trust(closeness: Mapping[int, float], matches: Collection[int]) -> float:
    """Return the trust in the vectors of documents for a question, from 0 to 1.

    If the embeddings know the words of a question, documents that contain one of them have higher cosines than others.
    If they do not, as is common in languages other than English, searching by words alone finds more.

    Args:
        closeness: The cosines, by document number.
        matches: The documents that contain a term of the question.
    """
    numbers = sorted(closeness)
    try:
        found = correlation([float(number in matches) for number in numbers], [closeness[each] for each in numbers])
    except StatisticsError:  # all documents match, or none does
        return 1.0
    shrunk = (len(numbers) * found + _PRIOR_COUNT * _PRIOR_TRUST) / (len(numbers) + _PRIOR_COUNT)
    return min(1.0, max(0.0, shrunk / _FULL_TRUST))


def conversation_scores(postings: TermDocuments, series: int, isolated: Collection[int] = ()) -> dict[int, float]:
    """Return the score of each whole series for a question.

    The score is BM25 over series instead of documents, divided by the highest possible score.

    Args:
        postings: The documents that contain each term.
        series: The number of series. With fewer than 2, there are no scores.
        isolated: Documents to ignore.
    """
    if series < 2:  # noqa: PLR2004 - nothing to compare
        return {}
    scores: dict[int, float] = {}
    highest = 0.0
    for matches in postings.values():
        counts = Counter(number >> PLACE_BITS for number in matches if number not in isolated)
        weight = rarity(series, min(len(counts), series))
        highest += weight
        for each, count in counts.items():
            scores[each] = scores.get(each, 0.0) + weight * count / (count + _SATURATION)
    return {each: score / highest for each, score in scores.items()} if highest else {}


def first_candidates(postings: TermDocuments, term_weights: Mapping[str, float], limit: int) -> list[int]:
    """Return the documents with the highest total weight of matching terms.

    Args:
        postings: The documents that contain each term.
        term_weights: The weight of each term.
        limit: Maximum documents. Newer documents precede older ones of the same weight.
    """
    scores: dict[int, float] = {}
    for term, matches in postings.items():
        weight = term_weights[term]
        for number in matches:
            scores[number] = scores.get(number, 0.0) + weight
    return sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True)[:limit]


def neighbour_ranges(numbers: Collection[int], related: Collection[int]) -> list[tuple[int, int]]:
    """Return documents and their neighbours as ascending ranges that do not touch."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        series = number >> PLACE_BITS
        reach = REACH if series in related else 0
        first = max(number - reach, series << PLACE_BITS)
        end = min(number + reach, series << PLACE_BITS | _PLACE_MASK) + 1
        if ranges and ranges[-1][1] >= first:
            first, _ = ranges.pop()
        ranges.append((first, end))
    return ranges


class ScoredDocument(NamedTuple):
    """A candidate with its score and the parts of the score.

    Attributes:
        number: The document.
        score: The sum of all parts.
        terms: The part of each term of the question that the document contains.
        nearby: The part of each term that its neighbours contain.
        signals: The other parts, positive or negative, by the names of `Weights`.
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

    Each result matches a part of the question: a term, a date or a vector. Other signals, such as the length, do not
    suffice. For a one-word question, neighbours' terms and inexact dates do not suffice either.

    Args:
        question: The question.
        field: The documents to rank, with their statistics.
        candidates: Numbers of documents, all of them in `field.documents`.
        limit: Maximum results.
        weights: The weight of each signal.

    Returns:
        The best first. Newer documents precede older ones of the same score.
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
        question: The question.
        field: The documents to rank, with their statistics.
        weight: The weight of each signal, by its name.
    """

    def __init__(self, question: RankingQuery, field: SearchField, weight: Mapping[str, float]) -> None:
        self._question, self._weight, self._documents, self._related = question, weight, field.documents, field.related
        self._postings, self._conversations, self._closeness = field.postings, field.conversations, field.closeness
        self._isolated = field.isolated
        total = sum(field.term_weights[term] for term in question.terms) or 1.0
        self._shares = {term: field.term_weights[term] / total for term in question.terms}
        # The factor of terms and the length signal, by the length of a document.
        self._length_factors: dict[int, tuple[float, float]] = {
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
        counts = Counter(map(_traits_of, field.documents.values()))
        self._roles = _SpeakerStats(counts)
        self._trait_signals = {traits: self._signals_of_traits(*traits) for traits in counts}
        self._trait_scores = {traits: sum(signals.values()) for traits, signals in self._trait_signals.items()}
        self._answered_cover = self._neighbour_cover(1, by_user=True)
        self._answer_cover = self._neighbour_cover(-1, by_user=False)
        self._averages = field.closeness.averages()

    def _spread_term(self, term: str, share: float) -> dict[int, float]:
        """Return the best value of a term at each document and at the places around it.

        Places without a document may be included.
        """
        documents, cover, of_length = self._documents, self._cover, self._length_factors
        reach = REACH if self._weight["context"] else 0
        offsets = [
            (side * step, _NEIGHBOUR_FACTOR / math.sqrt(step)) for step in range(1, reach + 1) for side in (-1, 1)
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
            valid = offsets if inside else [each for each in offsets if 0 <= place + each[0] <= _PLACE_MASK]
            for offset, factor in valid:
                value = worth * factor
                if value_of(number + offset, 0.0) < value:
                    best[number + offset] = value
            if features & _QUESTION and place < _PLACE_MASK and (answer := documents.get(number + 1)):
                value = worth / (1 + answer.length / _INHERITED_WORDS)
                if value_of(number + 1, 0.0) < value:
                    best[number + 1] = value
        return best

    def _signals_of_traits(self, features: int, speaker: int | None, role: str | None) -> dict[str, float]:
        """Return the signals that depend only on a document's features, speaker and role."""
        question, weight, roles = self._question, self._weight, self._roles
        bits = {**_COMMON_BITS, **{name: bit for name, bit in _ANSWER_BITS.items() if name in question.answer_kinds}}
        found = {name: weight[name] * roles.rarity(role, bit) if features & bit else 0.0 for name, bit in bits.items()}
        if len(question.speakers) == 1 and speaker in question.speakers:
            found["speaker"] = weight["speaker"]
        if features & FEATURE_BITS["introduction"]:
            found["introduction"] = weight["introduction"]
        if roles.has_two_roles and role == USER:
            found["user"] = weight["user"]
        elif roles.has_two_roles and role is not None:
            found |= {name: weight[name] for name in ("reply", "summary") if name in question.answer_kinds}
        return found

    def reachable(self, candidates: Collection[int]) -> set[int]:
        """Return the candidates that match a term, a date or the vector of the question.

        Terms of neighbours count too, except for a one-word question. Its dates must match exactly.
        """
        found = self._reachable.intersection(candidates)
        if self._question.is_lookup:
            matches = set(self._closeness.own).union(*(self._postings[term] for term in self._question.terms))
            found = {number for number in found if number in matches or self._date_values.get(number) == 1}
        return found

    def _neighbour_cover(self, step: int, *, by_user: bool) -> dict[int, float]:
        """Return, for each document, the cover of the message `step` places after it.

        With `by_user`, only messages of the user have an entry, else only those of other roles.
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
        words = weight["context"] * sum([values[number] for values in self._term_values.values() if number in values])
        if number in self._cover:
            words += self._cover[number] * self._own_factor(number)
        return words + self._trait_scores[_traits_of(document)] + sum(measured), measured

    def terms(self, number: int) -> tuple[dict[str, float], dict[str, float]]:
        """Return the score that each term adds in a document itself, and in its neighbours."""
        own_factor, context = self._own_factor(number), self._weight["context"]
        strength = self._length_factors[self._documents[number].length][0]
        own: dict[str, float] = {}
        nearby: dict[str, float] = {}
        for term, values in self._term_values.items():
            worth = self._shares[term] * strength if number in self._postings[term] else 0.0
            if worth:
                own[term] = context * worth + self._shares[term] * own_factor
            if (best := values.get(number, 0.0)) > worth:
                nearby[term] = context * (best - worth)
        return own, nearby

    def signals(self, number: int, measured: Sequence[float]) -> dict[str, float]:
        """Return the parts of a document's score besides its terms."""
        return self._trait_signals[_traits_of(self._documents[number])] | dict(zip(_SIGNALS, measured, strict=False))

    def _own_factor(self, number: int) -> float:
        """Return the factor of the terms that a document contains, in addition to their context."""
        weight = self._weight
        strength: float = self._length_factors[self._documents[number].length][0]
        return (weight["own"] - weight["context"]) * strength + weight["cover"]

    def _dialogue_signals(self, number: int, document: Document, length: float) -> tuple[float, ...]:
        """Return the signals of a message in a dialogue of a user and an assistant."""
        weight, kinds = self._weight, self._question.answer_kinds
        if document.role != USER:
            return 0.0, 0.0, 0.0, 0.0, weight["answer"] * self._answer_cover.get(number, 0.0), 0.0
        listed = 0.0 if _LIST_ANSWERS.isdisjoint(kinds) else length
        wanted = _WISH_FACTOR + self._cover.get(number, 0.0) if "advice" in kinds else 0.0
        return (
            weight["answered"] * self._answered_cover.get(number, 0.0),
            weight["account"] * listed,
            weight["standing_wish"] * wanted if document.features & _STANDING_WISH else 0.0,
            weight["preference"] * wanted if document.features & _PREFERENCE else 0.0,
            0.0,
            weight["opening"] / (1 + (number & _PLACE_MASK) / _OPENING_PLACE),
        )


class _SpeakerStats:
    """The statistics of the features that documents of each role have.

    Args:
        kinds: The number of documents with each result of `_traits_of`.
    """

    def __init__(self, kinds: Mapping[tuple[int, int | None, str | None], int]) -> None:
        self._counts: Counter[str | None] = Counter()
        self._feature_counts: Counter[tuple[str | None, int]] = Counter()
        for (features, _, role), count in kinds.items():
            self._counts[role] += count
            for bit in (*_COMMON_BITS.values(), *_ANSWER_BITS.values()):
                if features & bit:
                    self._feature_counts[role, bit] += count
        self.has_two_roles = USER in self._counts and not {USER, None}.issuperset(self._counts)
        """True if both the user and another role have documents."""

    def rarity(self, role: str | None, bit: int) -> float:
        """Return the share of a role's documents that lack a feature."""
        return 1 - self._feature_counts[role, bit] / self._counts[role]


def _date_value(spans: Sequence[TimeSpan], document: Document) -> float:
    near = max((_nearness(span, document.created_at) for span in spans), default=0.0)
    return near if near > _MIN_NEARNESS else 0.0


def _nearness(span: TimeSpan, created_at: int) -> float:
    """Return the nearness of a time to a span: 1 within the span, less outside.

    The value falls slowly after the span, since people mention an event for days, and quickly before it.
    """
    if created_at >= span.end:
        return _OUTSIDE_FACTOR * math.exp(-(created_at - span.end) / (7 * _DAY))
    if created_at < span.start:
        return _OUTSIDE_FACTOR * math.exp(-3 * (span.start - created_at) / (7 * _DAY))
    return 1.0
