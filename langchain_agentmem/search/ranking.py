"""The ranking of candidates for a query: a weighted sum of signals, without a database.

A message is scored by its own terms, by the terms of its neighbours, and by its conversation, speaker and date. Among
neighbours, a question contributes most to the next message if somebody else wrote it, since short answers do not repeat
the words of the question. Here, a *question* is a message with a question mark, not the search query. `Weights`
documents each signal.

The best weights differ between short messages of people and long replies of an assistant. The neighbours of a message
of ten words help to rank it; those of a message of five hundred words do not. So a weight can be a linear function of
the average message length in the searched documents. Base and slope were fitted together, on two-person chats (LoCoMo)
and on chats with an assistant (BEAM). `tests/benchmarks/README.md` reports the effect of each signal.

The bits of a document's number above `PLACE_BITS` identify its series, such as a conversation. The lower bits are its
place in the series. Documents with adjacent numbers in one series are neighbours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial, reduce
from itertools import compress, repeat
from operator import add
from statistics import StatisticsError, correlation, fmean
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.search.analysis import FEATURE_BITS, USER, word_list_terms
from langchain_agentmem.search.dates import TimeSpan
from langchain_agentmem.search.search_index import PLACE_BITS

REACH = 4
"""The number of neighbours to consider on each side of a document."""
_DAY = 86_400_000_000  # microseconds
_QUESTION, _STANDING_WISH, _PREFERENCE = (FEATURE_BITS[name] for name in ("question", "standing wish", "preference"))
_ANSWER_BITS = {"time": FEATURE_BITS["time"], "number": FEATURE_BITS["number"], "place": FEATURE_BITS["proper noun"]}
"""The bits of the features that are signals for one kind of answer, by the name of the kind and of their weight."""

_LIST_ANSWERS = frozenset({"order", "summary"})
_PLACE_MASK = (1 << PLACE_BITS) - 1  # the bits of a number for the place in the series
_MIN_NEARNESS = 0.01  # a document with a lower nearness to a time is unrelated to it
_OUTSIDE_FACTOR = 0.95  # the nearness just outside a time span; within the span it is 1
_SATURATION = 1.2  # BM25's k1: with a lower value, further occurrences of a term add less
# BM25's k1 and 1 - b. Terms in a text have the factor 1.9 / (1 + .9 (.6 + .4 length / average)).
_DAMPING, _FIXED_SHARE = 0.9, 0.6
_NEIGHBOUR_FACTOR = 0.3  # the factor of a neighbour's term, divided by the square root of the distance
_HALVING_WORDS = 40  # a message of this many words after a question gets half the value of the question's terms
_SHORT_WORDS = 25  # up to this average message length in words, weights equal their base
_MAX_LENGTH = 1.2  # the maximum logarithmic length; weights do not change beyond it
_COVER_POWER = 0.5  # the shares of the terms are divided by this power of the best cover
_META_FACTOR = 0.3  # the factor of words that refer to the conversation itself
_FULL_TRUST = 0.2  # the lowest correlation for which vectors are fully trusted
_PRIOR_TRUST, _PRIOR_COUNT = 0.3, 20  # the prior correlation, and its weight as a number of documents
_OPENING_PLACE = 40  # the place in a conversation at which the signal `opening` is halved
_WISH_FACTOR = 0.3  # the value of a wish or a preference that contains no term of the query

TermDocuments: TypeAlias = Mapping[str, Collection[int]]
"""The postings of each term: the numbers of the documents that contain the term."""
Weight = float | tuple[float, float]
"""The weight of a signal: a number, or a tuple of a base and a slope, see `Weights`."""


class Weights(Options):
    """The weight of each signal: a number, or a tuple of a base and a slope.

    A tuple means `base + slope * length`. The logarithmic length is 0 if messages have at most 25 words on average, and
    1 if they have 250. The signals from `user` to `opening`, except `introduction`, apply only if both the user and
    another role wrote messages. The signals `time`, `number` and `place` weigh less if more documents of the role have
    the feature.

    Attributes:
        own: The terms of the query in the document. They count less in longer texts.
        context: The highest value of each term in the document and its neighbours. A question before it counts most.
        cover: The total weight of the query's terms in the document, relative to all terms of the query.
        conversation: The score of the whole conversation.
        date: The nearness of the document's time to a time that the query names.
        speaker: The query names the speaker of the document, and no other speaker.
        time: The document names a time, if the query asks for one.
        number: The document has a number, if the query asks for one.
        place: The document has a proper noun, if the query asks for a place.
        length: The logarithm of the number of words, divided by 5. Among long messages, its weight is negative.
        user: The user is the author.
        reply: The assistant is the author, if the query asks for an earlier statement of the assistant.
        summary: The assistant is the author, if the query asks for a summary.
        account: The length of a user's message, if the query asks for a summary or the order of events.
        answer: For the assistant's messages: the cover of the previous message.
        answered: For the user's messages: the cover of the next message.
        standing_wish: The user states a wish that always applies, if the query asks for advice. The signal grows
            with the cover.
        preference: The user states a preference, under the same conditions as `standing_wish`.
        introduction: The user begins with a statement about themselves.
        opening: The user's message is early in its conversation. 0 except in `weights_in_time`.
        vectors: The cosine of the query's vector and the document's vector mixed with its neighbours'.
        own_vector: The cosine of the query's vector and the document's own vector.

    Raises:
        InvalidInput: A weight has another type.
    """

    own: Weight = (0.33, -0.04)
    context: Weight = (1.12, -0.96)
    cover: Weight = (0.38, -0.12)
    conversation: Weight = (0.60, -0.45)
    date: Weight = (0.38, -0.14)
    speaker: Weight = 0.11
    time: Weight = 0.23
    number: Weight = (0.14, 0.21)
    place: Weight = 0.50
    length: Weight = (0.45, -0.79)
    user: Weight = (0.18, -0.04)
    reply: Weight = 0.27
    summary: Weight = (0.66, 0.08)
    account: Weight = (-0.36, 0.76)
    answer: Weight = (0.34, 0.04)
    answered: Weight = (-0.07, 0.24)
    standing_wish: Weight = (-0.15, 0.64)
    preference: Weight = (-0.06, 0.37)
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
_FOR_VECTORS: dict[str, Any] = {
    "own": 0.15,
    "context": (0.95, -0.85),
    "vectors": (0.75, -0.35),
    "own_vector": (0.1, 0.25),
}
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

    The length of long messages has little effect. The beginning of a conversation, which names its subject, has more.

    Args:
        base: The weights for other searches.
    """
    return base.replace(length=(0.52, -0.50), account=0.0, answer=0.47, opening=0.30, summary=0.40)


class Documents(NamedTuple):
    """The stored properties of documents, apart from their terms: a column for each property.

    Attributes:
        numbers: The numbers of the documents.
        owners: The ids of the rows that the documents represent.
        lengths: The numbers of words.
        features: Bits, one for each of `analysis.FEATURES`.
        times: Microseconds since 1970.
        speakers: The numbers of the authors, see `search_index.speaker_number`, or None.
        roles: The authors' roles, such as "assistant", or None.
    """

    numbers: Sequence[int]
    owners: Sequence[int]
    lengths: Sequence[int]
    features: Sequence[int]
    times: Sequence[int]
    speakers: Sequence[int | None]
    roles: Sequence[str | None]

    def questions(self) -> set[int]:
        """Return the numbers of the documents that are questions."""
        return {number for number, bits in zip(self.numbers, self.features, strict=True) if bits & _QUESTION}


NO_DOCUMENTS = Documents(*[()] * 7)


class VectorScores(NamedTuple):
    """The cosines of documents to a query, by document number.

    Attributes:
        own: The cosines of the documents' own vectors.
        mixed: The cosines of the vectors mixed with their neighbours' vectors. Without neighbours, equal to `own`.
    """

    own: Mapping[int, float] = MappingProxyType({})
    mixed: Mapping[int, float] = MappingProxyType({})

    def fill(self, numbers: Sequence[int]) -> list[dict[int, float]]:
        """Return `own` and `mixed`, with their averages for documents without a vector.

        Both are empty without vectors.
        """
        return [{**dict.fromkeys(numbers, fmean(cosines.values())), **cosines} if cosines else {} for cosines in self]


class RankingQuery(NamedTuple):
    """The properties of a query that ranking needs.

    Attributes:
        terms: The terms, without the names of speakers.
        answer_kinds: The result of `analysis.answer_kinds`.
        spans: The time spans that the query names.
        speakers: The numbers of the speakers that the query names.
        is_lookup: True if the query is one word: then the terms of neighbours and inexact dates are no matches.
    """

    terms: Sequence[str]
    answer_kinds: Collection[str] = ()
    spans: Sequence[TimeSpan] = ()
    speakers: Collection[int] = ()
    is_lookup: bool = False


class RankingData(NamedTuple):
    """The documents that a search ranks, and the statistics that ranking needs.

    Attributes:
        postings: The documents that contain each term of the query.
        term_weights: The result of `term_weight` for each term.
        documents: The candidates and their neighbours.
        average_length: The average number of words of a document.
        conversations: The score of each series, 0 to 1.
        related: The series in which adjacent documents are neighbours.
        vector_scores: The cosines of documents to the query; empty without vectors.
        isolated: Documents whose terms do not contribute to their neighbours.
    """

    postings: TermDocuments
    term_weights: Mapping[str, float]
    documents: Documents
    average_length: float
    conversations: Mapping[int, float]
    related: Collection[int]
    vector_scores: VectorScores = VectorScores()
    isolated: Collection[int] = ()


def rarity(documents: int, matches: int) -> float:
    """Return the inverse document frequency of a term."""
    return math.log(1 + (documents - matches + 0.5) / (matches + 0.5))


def term_weight(term: str, documents: int, matches: int) -> float:
    """Return the weight of a query term: its rarity, reduced for words about conversations."""
    return rarity(documents, matches) * (_META_FACTOR if term in word_list_terms("talk_words") else 1.0)


def vector_trust(cosines: Mapping[int, float], matches: Collection[int]) -> float:
    """Return the trust in the vectors of documents for a query, from 0 to 1.

    If the embeddings know the words of a query, documents that contain these words have higher cosines than others.
    Otherwise, as is common in languages other than English, keywords find more than vectors. The trust grows with the
    correlation between matches and cosines, shrunk towards a prior because few documents are compared.

    Args:
        cosines: The cosines, by document number.
        matches: The documents that contain a term of the query.
    """
    numbers = sorted(cosines)
    try:
        observed = correlation([float(n in matches) for n in numbers], [cosines[n] for n in numbers])
    except StatisticsError:  # all documents match, or none does
        return 1.0
    shrunk = (len(numbers) * observed + _PRIOR_COUNT * _PRIOR_TRUST) / (len(numbers) + _PRIOR_COUNT)
    return min(1.0, max(0.0, shrunk / _FULL_TRUST))


def conversation_scores(postings: TermDocuments, total: int, isolated: Collection[int] = ()) -> dict[int, float]:
    """Return the score of each series as a whole for a query, by the series' number.

    The score is BM25 over series instead of documents, divided by the highest possible score.

    Args:
        postings: The documents that contain each term.
        total: The number of all series. With fewer than 2, there are no scores.
        isolated: Documents to ignore.
    """
    if total < 2:  # noqa: PLR2004 - nothing to compare
        return {}
    scores: dict[int, float] = {}
    highest = 0.0
    for matches in postings.values():
        counts = Counter([number >> PLACE_BITS for number in matches if number not in isolated])
        weight = rarity(total, min(len(counts), total))
        highest += weight
        for series, count in counts.items():
            scores[series] = scores.get(series, 0.0) + weight * count / (count + _SATURATION)
    return {series: score / highest for series, score in scores.items()} if highest else {}


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
        sums = {number: scores[number] + weight for number in scores.keys() & matches}
        scores = {**scores, **dict.fromkeys(matches, weight), **sums}
    if len(scores) > limit:  # sorting the scores alone is faster than sorting the numbers by their scores
        lowest = sorted(scores.values())[-limit]
        scores = {number: score for number, score in scores.items() if score >= lowest}
    return sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True)[:limit]


def neighbour_ranges(numbers: Collection[int], related: Collection[int]) -> list[tuple[int, int]]:
    """Return documents and their neighbours as ascending, disjoint ranges of numbers."""
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
        number: The number of the document.
        owner: The id of the row that the document represents.
        score: The sum of all parts.
        terms: The parts of the query's terms in the document.
        nearby: The parts of the query's terms in neighbours of the document.
        signals: The other parts, positive or negative, by the names of `Weights`.
    """

    number: int
    owner: int
    score: float
    terms: Mapping[str, float]
    nearby: Mapping[str, float]
    signals: Mapping[str, float]


def rank_documents(
    query: RankingQuery, data: RankingData, candidates: Collection[int], *, limit: int, weights: Weights = WEIGHTS
) -> list[ScoredDocument]:
    """Return the candidates that match a query best.

    Each result matches a term, a date or the vector of the query. Other signals, such as the length, do not suffice.
    For a one-word query, neighbours' terms and inexact dates do not suffice either.

    Args:
        query: The query.
        data: The documents to rank, with their statistics.
        candidates: Numbers of documents, all of them in `data.documents`.
        limit: Maximum results.
        weights: The weight of each signal.

    Returns:
        The best first. Newer documents precede older ones of the same score.
    """
    scorer = _Scorer(query, data, weights.at_length(data.average_length))
    return [
        ScoredDocument(number, data.documents.owners[row], score, *scorer.terms(number, row), scorer.signals(row))
        for score, number, row in scorer.best_matches(candidates, limit)
    ]


class _Scorer:
    """A scorer of documents for one query.

    It computes each signal for all documents at once. Scoring one document after the other would take much longer.

    Args:
        query: The query.
        data: The documents to rank, with their statistics.
        weight: The weight of each signal, by its name.
    """

    def __init__(self, query: RankingQuery, data: RankingData, weight: Mapping[str, float]) -> None:
        self._query, self._weight, self._documents, self._related = query, weight, data.documents, data.related
        self._postings, self._isolated, self._own_vectors = data.postings, data.isolated, data.vector_scores.own
        numbers, _, lengths, features, times, speakers, roles = data.documents
        self._rows = dict(zip(numbers, range(len(numbers)), strict=True))
        self._matches = {term: self._rows.keys() & data.postings[term] for term in query.terms}
        self._shares = self._share_score(data.term_weights)
        # The factor of terms, by the length of a document.
        self._length_factors: dict[int, float] = {
            length: (1 + _DAMPING) / (1 + _DAMPING * (_FIXED_SHARE + (1 - _FIXED_SHARE) * length / data.average_length))
            for length in set(lengths)
        }
        # The factor of a document's own terms, added to that of their context. `context` already includes the own
        # terms. Subtracting it leaves the part that only `own` adds.
        own = weight["own"] - weight["context"]
        self._own_factors = {n: own * factor + weight["cover"] for n, factor in self._length_factors.items()}
        self._cover: dict[int, float] = {}  # filled by `_spread_term`
        self._term_values = {term: self._spread_term(term, share) for term, share in self._shares.items()}
        dated = zip(numbers, times, strict=True) if query.spans else ()
        self._date_values = {number: value for number, at in dated if (value := _date_value(query.spans, at))}
        self._traits = list(zip(features, speakers, roles, strict=True))
        trait_counts = Counter(self._traits)
        self._roles = _RoleStats(trait_counts)
        self._trait_signals = {traits: self._signals_of_traits(*traits) for traits in trait_counts}
        self._measured = self._measure_signals(data)

    def _share_score(self, term_weights: Mapping[str, float]) -> dict[str, float]:
        """Return the share of each term in the score of all terms.

        The shares add up to 1 if a document contains all terms. No document covers much of a long query, so its shares
        are larger. Otherwise signals such as the length would decide.
        """
        total = sum(map(term_weights.__getitem__, self._matches)) or 1.0
        shares = {term: term_weights[term] / total for term in self._matches}
        covers: dict[int, float] = {}
        for term, share in shares.items():
            covers |= {number: covers.get(number, 0.0) + share for number in self._matches[term]}
        scale = max(covers.values(), default=1.0) ** _COVER_POWER or 1.0
        return {term: share / scale for term, share in shares.items()}

    def _spread_term(self, term: str, share: float) -> dict[int, float]:
        """Return the highest value of a term for each document with it and for its neighbours.

        Numbers without a document may be included. The share of the term is added to the cover of each document.
        """
        rows, cover, length_factors = self._rows, self._cover, self._length_factors
        _, _, lengths, features, _, speakers, roles = self._documents
        reach = REACH if self._weight["context"] else 0
        offsets = [
            (side * step, _NEIGHBOUR_FACTOR / math.sqrt(step)) for step in range(1, reach + 1) for side in (-1, 1)
        ]
        best: dict[int, float] = {}
        get_best = best.get
        for number in self._matches[term]:
            cover[number] = cover.get(number, 0.0) + share
            row = rows[number]
            own_value = share * length_factors[lengths[row]]
            if get_best(number, 0.0) < own_value:
                best[number] = own_value
            if not offsets or number in self._isolated or number >> PLACE_BITS not in self._related:
                continue
            place = number & _PLACE_MASK
            is_inner = reach <= place <= _PLACE_MASK - reach  # all offsets lead to places of the same series
            valid = offsets if is_inner else [pair for pair in offsets if 0 <= place + pair[0] <= _PLACE_MASK]
            for offset, factor in valid:
                value = own_value * factor
                if get_best(number + offset, 0.0) < value:
                    best[number + offset] = value
            answer = rows.get(number + 1) if features[row] & _QUESTION and place < _PLACE_MASK else None
            if answer is not None and (speakers[row], roles[row]) != (speakers[answer], roles[answer]):
                value = own_value / (1 + lengths[answer] / _HALVING_WORDS)
                if get_best(number + 1, 0.0) < value:
                    best[number + 1] = value
        return best

    def _signals_of_traits(self, features: int, speaker: int | None, role: str | None) -> dict[str, float]:
        """Return the signals that depend only on a document's features, speaker and role."""
        query, weight, roles = self._query, self._weight, self._roles
        bits = {name: bit for name, bit in _ANSWER_BITS.items() if name in query.answer_kinds}
        parts = {name: weight[name] * roles.rarity(role, bit) if features & bit else 0.0 for name, bit in bits.items()}
        if len(query.speakers) == 1 and speaker in query.speakers:
            parts["speaker"] = weight["speaker"]
        if features & FEATURE_BITS["introduction"]:
            parts["introduction"] = weight["introduction"]
        if roles.has_two_roles and role == USER:
            parts["user"] = weight["user"]
        elif roles.has_two_roles and role is not None:
            parts |= {name: weight[name] for name in ("reply", "summary") if name in query.answer_kinds}
        return parts

    def _neighbour_covers(self) -> dict[int, float]:
        """Return the signal `answered` of the user's messages, and `answer` of the others."""
        covers: dict[int, float] = {}
        weight, rows, roles = self._weight, self._rows, self._documents.roles
        for number, share in self._cover.items() if self._roles.has_two_roles else ():
            if number in self._isolated or number >> PLACE_BITS not in self._related:
                continue
            previous, following = rows.get(number - 1), rows.get(number + 1)
            if previous is not None and roles[previous] == USER and number & _PLACE_MASK:
                covers[number - 1] = weight["answered"] * share
            if following is not None and roles[following] not in {None, USER} and (number + 1) & _PLACE_MASK:
                covers[number + 1] = weight["answer"] * share
        return covers

    def _measure_signals(self, data: RankingData) -> dict[str, tuple[dict[int, float], Sequence[int]]]:
        """Return the values of each measured signal by key, and the key of each document.

        A document whose key is missing has the value 0. Signals that are 0 for all documents are left out.
        """
        weight, cover, kinds = self._weight, self._cover, self._query.answer_kinds
        numbers, _, lengths, features, _, _, roles = data.documents
        length_values = {length: math.log1p(length) / 5 for length in self._length_factors}
        own, mixed = data.vector_scores.fill(numbers)
        is_list, has_advice = not _LIST_ANSWERS.isdisjoint(kinds), "advice" in kinds
        by_user: list[tuple[int, int, int]] = []
        if self._roles.has_two_roles and (is_list or has_advice or weight["opening"]):
            rows = zip(numbers, lengths, features, roles, strict=True)
            by_user = [(number, length, bits) for number, length, bits, role in rows if role == USER]
        wishes = [(n, _WISH_FACTOR + cover.get(n, 0.0), bits) for n, _, bits in by_user if has_advice]

        def weigh(name: str, values: Mapping[int, float]) -> dict[int, float]:
            return {key: weight[name] * value for key, value in values.items()} if weight[name] else {}

        signals = {
            "length": weigh("length", length_values),
            "date": weigh("date", self._date_values),
            "conversation": weigh("conversation", data.conversations),
            "vectors": weigh("vectors", mixed),
            "own_vector": weigh("own_vector", own),
            "answered": self._neighbour_covers(),
            "account": weigh("account", {number: length_values[length] for number, length, _ in by_user if is_list}),
            "standing_wish": weigh("standing_wish", {n: wish for n, wish, bits in wishes if bits & _STANDING_WISH}),
            "preference": weigh("preference", {n: wish for n, wish, bits in wishes if bits & _PREFERENCE}),
            "opening": {n: weight["opening"] / (1 + (n & _PLACE_MASK) / _OPENING_PLACE) for n, _, _ in by_user},
        }
        keys = {"length": lengths, "conversation": [number >> PLACE_BITS for number in numbers]}
        return {name: (values, keys.get(name, numbers)) for name, values in signals.items() if values}

    def best_matches(self, candidates: Collection[int], limit: int) -> list[tuple[float, int, int]]:
        """Return the score, number and row of the best candidates that match the query.

        A match has a term, a date or the vector of the query. For a one-word query, the terms of neighbours and inexact
        dates do not suffice.
        """
        numbers, lengths, rows = self._documents.numbers, self._documents.lengths, self._rows
        context, own_factors = self._weight["context"], self._own_factors
        totals: dict[int, float] = {}
        for values in self._term_values.values():
            sums = {number: totals[number] + values[number] for number in totals.keys() & values.keys()}
            totals = {**totals, **values, **sums}
        terms = {number: context * total for number, total in totals.items()}
        for number, share in self._cover.items():
            terms[number] = terms.get(number, 0.0) + share * own_factors[lengths[rows[number]]]
        matches = {*terms, *self._date_values, *self._own_vectors}
        if self._query.is_lookup:
            exact = set(self._own_vectors).union(*(self._postings[term] for term in self._query.terms))
            matches = {number for number in matches if number in exact or self._date_values.get(number) == 1}
        if candidates is not numbers:
            matches = matches.intersection(candidates)
        trait_scores = {traits: sum(signals.values()) for traits, signals in self._trait_signals.items()}
        parts = map(add, map(terms.get, numbers, repeat(0.0)), map(trait_scores.__getitem__, self._traits))
        columns = [map(values.get, keys, repeat(0.0)) for values, keys in self._measured.values()]
        scores = list(map(add, parts, reduce(partial(map, add), columns) if columns else repeat(0.0)))
        lowest = sorted(compress(scores, map(matches.__contains__, numbers)))[-limit:][:1] or [math.inf]
        scored = enumerate(zip(numbers, scores, strict=True))
        best = [(score, number, row) for row, (number, score) in scored if score >= lowest[0] and number in matches]
        return sorted(best, reverse=True)[:limit]

    def terms(self, number: int, row: int) -> tuple[dict[str, float], dict[str, float]]:
        """Return the score that each term adds in a document itself, and in its neighbours."""
        length, context = self._documents.lengths[row], self._weight["context"]
        own: dict[str, float] = {}
        nearby: dict[str, float] = {}
        for term, values in self._term_values.items():
            own_value = self._shares[term] * self._length_factors[length] if number in self._postings[term] else 0.0
            if own_value:
                own[term] = context * own_value + self._shares[term] * self._own_factors[length]
            if (best := values.get(number, 0.0)) > own_value:
                nearby[term] = context * (best - own_value)
        return own, nearby

    def signals(self, row: int) -> dict[str, float]:
        """Return the parts of a document's score besides its terms."""
        measured = {name: values.get(keys[row], 0.0) for name, (values, keys) in self._measured.items()}
        if "answered" in measured and self._documents.roles[row] != USER:
            measured["answer"] = measured.pop("answered")
        return self._trait_signals[self._traits[row]] | measured


class _RoleStats:
    """The frequency of each feature in the documents of each role.

    Args:
        trait_counts: The number of documents with each combination of features, speaker and role.
    """

    def __init__(self, trait_counts: Mapping[tuple[int, int | None, str | None], int]) -> None:
        self._counts: Counter[str | None] = Counter()
        self._feature_counts: Counter[tuple[str | None, int]] = Counter()
        for (features, _, role), count in trait_counts.items():
            self._counts[role] += count
            for bit in _ANSWER_BITS.values():
                if features & bit:
                    self._feature_counts[role, bit] += count
        self.has_two_roles = USER in self._counts and not {USER, None}.issuperset(self._counts)
        """True if both the user and another role have documents."""

    def rarity(self, role: str | None, bit: int) -> float:
        """Return the share of a role's documents that lack a feature."""
        return 1 - self._feature_counts[role, bit] / self._counts[role]


def _date_value(spans: Sequence[TimeSpan], created_at: int) -> float:
    nearness = max((_nearness(span, created_at) for span in spans), default=0.0)
    return nearness if nearness > _MIN_NEARNESS else 0.0


def _nearness(span: TimeSpan, created_at: int) -> float:
    """Return the nearness of a time to a span: 1 within the span, less outside.

    The value decreases slowly after the span, since people mention an event for days, and quickly before it.
    """
    if created_at >= span.end:
        return _OUTSIDE_FACTOR * math.exp(-(created_at - span.end) / (7 * _DAY))
    if created_at < span.start:
        return _OUTSIDE_FACTOR * math.exp(-3 * (span.start - created_at) / (7 * _DAY))
    return 1.0
