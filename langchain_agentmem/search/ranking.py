"""How well each candidate answers a question: a weighted sum of signals, pure arithmetic over where its terms stand.

A message is not judged by its own words alone. Its neighbours in the conversation lend it theirs, above all the
question that it answers, since short answers leave out the words of their question; the whole conversation counts, its
speaker and its date. What a signal is for stands at its weight.

Short talk between people and long replies of an assistant differ in what a signal is worth: a neighbour says much of a
message of ten words, and nothing of one of five hundred. So a weight is a line over one number, how long messages are
where the search looks. Both ends of the line were fitted together, on talk of two people (LoCoMo) and on chats with an
assistant (BEAM); `tests/benchmarks/README.md` says what each signal brought.

Documents are known by numbers: those of one series, such as a conversation, are neighbours when their numbers are.
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
from langchain_agentmem.search.analysis import FEATURES, USER, terms_of
from langchain_agentmem.search.dates import TimeSpan
from langchain_agentmem.search.search_index import PLACE_BITS

REACH = 4
"""So many neighbours on each side are looked at."""
_DAY = 86_400_000_000
_FEATURE = {name: 1 << bit for bit, name in enumerate(FEATURES)}
_QUESTION, _STANDING, _PREFERENCE = (_FEATURE[name] for name in ("question", "standing wish", "preference"))
_TOLD = {"question": _QUESTION, "first_person": _FEATURE["first person"]}
"""What a text has that counts whatever is asked for, by the name of its weight."""
_ANSWERS = {"time": _FEATURE["time"], "number": _FEATURE["number"], "place": _FEATURE["proper noun"]}
"""What a text has that tells what is asked for, by the name of its weight."""

_SIGNALS = (
    *("length", "date", "conversation", "vectors", "own_vector"),
    *("answered", "account", "standing_wish", "preference", "answer", "opening"),
)
"""The signals that are measured on each document: the last six only where a user talks with an assistant."""
_LISTS = frozenset({"order", "summary"})
_PLACES = (1 << PLACE_BITS) - 1  # the bits of a number that say the place in the series
_FAR = 0.01  # what is said so long after a time has nothing to do with it
_BESIDE = 0.95  # just outside is less than within
_SATURATION = 1.2  # BM25's k1: how soon more of a term says nothing new
_DAMPING, _FIXED = 0.9, 0.6  # a term in a long text says less: x = 1.9 / (1 + .9 (.6 + .4 length / average))
_NEIGHBOUR = 0.3  # what a term next to a text counts; it falls with the root of the distance
_INHERITS = 40  # a text of so many words has half of the question before it
_SHORT, _LONGEST = 25, 1.2  # words of a message in short talk; where messages are so much longer weights change no more
_TALK = 0.3  # of its rarity a word has that asks about the talk itself
_TRUSTED = 0.2  # the correlation from which on vectors are trusted altogether
_USUAL, _FEW = 0.3, 20  # what it usually is, and of how many documents it says as much as that
_OPENING = 40  # at this place in a conversation half of what its beginning counts is left
_WISHED = 0.3  # what a standing wish counts that holds no word of the question

Weight = float | tuple[float, float]
"""What a signal counts: a number, or two, its base and how much it changes where messages are long."""


class Weights(Options):
    """How much each signal counts: a number, or a tuple of a base and a slope.

    With those two it counts `base + slope * length`, where length is 0 in short talk (25 words or less a message) and 1
    where messages have 250 on the average, by the logarithm. What the user says is told from what the assistant says by
    their roles, where there are both.

    Attributes:
        own: The terms of the question that it holds, less in a text that is longer than others.
        context: What its neighbours add to that: the best of each term near it, above all of the question before it.
        cover: The share of the question's terms that it holds, however long it is.
        conversation: How well the whole conversation fits.
        date: That it was said near a time that the question names.
        speaker: That the one whom the question names said it.
        phrase: That it holds what stands in quotation marks; one number.
        question: That it is a question itself. Of this and the next four, what all the others have tells nothing.
        first_person: That it speaks of its speaker.
        time: That it tells a time when one is asked for.
        number: The same of numbers.
        place: The same of names, where a place is asked for.
        length: The logarithm of its words, divided by 5: what is long says more, but replies are long anyway.
        user: That the user said it.
        reply: That the assistant said it, when what it said is asked for.
        summary: That the assistant said it, when a summary is asked for.
        account: The length of what the user said, when a summary is asked for, or the order of events.
        answer: Of the assistant's: what the message before it covers.
        answered: Of the user's: what the message behind it covers.
        standing_wish: That the user wants something always, when advice is asked for; the more the more it covers.
        preference: That the user likes something better, in the same way.
        introduction: That the user begins with a statement about themselves.
        opening: How early in its conversation the user says it. Off by default; it counts in the order of time.
        vectors: The cosine of its vector with the question's, its neighbours' vectors mixed in.
        own_vector: The same cosine of its own vector alone, which counts the more the longer messages are.

    Raises:
        InvalidInput: A weight is something else.
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

    def where(self, average: float) -> dict[str, float]:
        """What each signal counts where messages have so many words on the average."""
        length = min(_LONGEST, max(0.0, math.log10(average / _SHORT)))
        return {name: weight[0] + weight[1] * length if isinstance(weight, tuple) else weight for name, weight in self}


WEIGHTS = Weights()
"""Where there are no vectors."""
_WITH_VECTORS: Mapping[str, Any] = {
    "own": 0.2,
    "context": (1.4, -1.2),
    "vectors": (0.75, -0.35),
    "own_vector": (0.1, 0.25),
}
WEIGHTS_WITH_VECTORS = WEIGHTS.replace(**_WITH_VECTORS)
"""Where there are, and they are trusted: these say much of what the terms say."""


def weights_with_vectors(trust: float) -> Weights:
    """The weights where vectors are trusted so far: 0 gives `WEIGHTS`, 1 `WEIGHTS_WITH_VECTORS`.

    Args:
        trust: As `trust_in` gives it.
    """
    between: dict[str, Any] = {}
    for name, weight in _WITH_VECTORS.items():
        low, high = _line(getattr(WEIGHTS, name)), _line(weight)
        between[name] = low[0] + trust * (high[0] - low[0]), low[1] + trust * (high[1] - low[1])
    return WEIGHTS.replace(**between)


def _line(weight: Weight) -> tuple[float, float]:
    return weight if isinstance(weight, tuple) else (weight, 0.0)


def weights_in_time(usual: Weights) -> Weights:
    """What each signal counts where the evidence of a topic is wanted in the order of time.

    Then long texts are worth no more than others, and what a conversation is about, which is said at its beginning, is
    worth more.

    Args:
        usual: What they count else.
    """
    return usual.replace(length=(0.52, -0.50), account=0.0, answer=0.47, opening=0.30, summary=0.40)


class Document(NamedTuple):
    """What is kept of a document beside its terms.

    Attributes:
        length: Words.
        features: Bits, one for each of `analysis.FEATURES`.
        created_at: Microseconds since 1970.
        speaker: Who said it, as a number, or None.
        role: Who said it, as models name it, or None.
    """

    length: int
    features: int
    created_at: int
    speaker: int | None
    role: str | None = None

    @property
    def asks(self) -> bool:
        """Whether it is a question."""
        return bool(self.features & _QUESTION)


_KIND = itemgetter(1, 3, 4)
"""Of a document its features, its speaker and its role, in which many are alike."""


class VectorScores(NamedTuple):
    """How near documents lie to a question by their vectors, as cosines by their numbers.

    Attributes:
        alone: By their own vectors.
        among: By their vectors together with their neighbours'; of documents that have none, as `alone`.
    """

    alone: Mapping[int, float] = MappingProxyType({})
    among: Mapping[int, float] = MappingProxyType({})

    def usual(self) -> tuple[float, float]:
        """The averages of both, which count for a document that has no vector yet."""
        alone, among = (fmean(known.values()) if known else 0.0 for known in self)
        return alone, among


class RankingQuery(NamedTuple):
    """A question, as far as ranking needs it.

    Attributes:
        terms: Its terms, without the names of speakers.
        asks_for: Kinds of answer.
        spans: Times that it names.
        speakers: The speakers that it names.
        look_up: Whether it is one word, so that only what holds it is wanted.
    """

    terms: Sequence[str]
    asks_for: Collection[str] = ()
    spans: Sequence[TimeSpan] = ()
    speakers: Collection[int] = ()
    look_up: bool = False


class SearchField(NamedTuple):
    """Where a search looks.

    Attributes:
        postings: For each term of the question the numbers of the documents that hold it.
        worth: For each term what it is worth, as `worth_of` says.
        documents: The candidates, and their neighbours as far as they are known.
        average: Words of a document, on the average.
        conversations: What each series is worth, 0 to 1.
        related: The series whose documents are neighbours of each other.
        closeness: How near documents lie to the question by their vectors; empty without vectors.
        silent: Documents that lend their words to nobody.
    """

    postings: Mapping[str, Collection[int]]
    worth: Mapping[str, float]
    documents: Mapping[int, Document]
    average: float
    conversations: Mapping[int, float]
    related: Collection[int]
    closeness: VectorScores = VectorScores()
    silent: Collection[int] = ()


def rarity(documents: int, holding: int) -> float:
    """The inverse document frequency of a term that so many of so many documents hold."""
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def worth_of(term: str, documents: int, holding: int) -> float:
    """What a term of a question is worth: its rarity, less for a word that asks about the talk itself."""
    return rarity(documents, holding) * (_TALK if term in terms_of("talk_words") else 1.0)


def trust_in(closeness: Mapping[int, float], holding: Collection[int]) -> float:
    """How far vectors are to be trusted that say how near documents lie to a question, from 0 to 1.

    Where a model knows the words of a question, what holds one of them lies nearer than the rest. Where it does not, as
    many models do in other languages than English, it lies anywhere, and the words alone find more.

    Args:
        closeness: The cosines, by documents.
        holding: The documents that hold a term of the question.
    """
    numbers = sorted(closeness)
    try:
        found = correlation([float(number in holding) for number in numbers], [closeness[each] for each in numbers])
    except StatisticsError:  # all of them hold one, or none
        return 1.0
    shrunk = (len(numbers) * found + _FEW * _USUAL) / (len(numbers) + _FEW)
    return min(1.0, max(0.0, shrunk / _TRUSTED))


def conversation_scores(
    postings: Mapping[str, Collection[int]], series: int, silent: Collection[int] = ()
) -> dict[int, float]:
    """How well each series fits as a whole: BM25 with series in the place of documents, of the most it could be.

    Args:
        postings: For each term the documents that hold it.
        series: How many series there are. Of one alone nothing can be said.
        silent: Documents that do not count.
    """
    if series < 2:  # noqa: PLR2004 - see above
        return {}
    scores: dict[int, float] = {}
    most = 0.0
    for holding in postings.values():
        counts = Counter(number >> PLACE_BITS for number in holding if number not in silent)
        weight = rarity(series, min(len(counts), series))
        most += weight
        for each, count in counts.items():
            scores[each] = scores.get(each, 0.0) + weight * count / (count + _SATURATION)
    return {each: score / most for each, score in scores.items()} if most else {}


def first_look(postings: Mapping[str, Collection[int]], worth: Mapping[str, float], limit: int) -> list[int]:
    """The documents that hold the most of the question.

    Args:
        postings: For each term the documents that hold it.
        worth: What each term is worth.
        limit: How many; of equals, the newest.
    """
    scores: dict[int, float] = {}
    for term, holding in postings.items():
        weight = worth[term]
        for number in holding:
            scores[number] = scores.get(number, 0.0) + weight
    return sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True)[:limit]


def near(numbers: Collection[int], related: Collection[int]) -> list[tuple[int, int]]:
    """Documents with their neighbours, as ranges that are ascending and apart."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        series = number >> PLACE_BITS
        reach = REACH if series in related else 0
        first, end = max(number - reach, series << PLACE_BITS), min(number + reach, series << PLACE_BITS | _PLACES) + 1
        if ranges and ranges[-1][1] >= first:
            first, _ = ranges.pop()
        ranges.append((first, end))
    return ranges


class ScoredDocument(NamedTuple):
    """A candidate and what it owes its score to.

    Attributes:
        number: The document.
        score: The sum of the rest.
        terms: The part that each term of the question adds which the document holds.
        nearby: The part that each term adds which documents next to it hold.
        signals: What else adds or takes away, by the names of `Weights`.
    """

    number: int
    score: float
    terms: Mapping[str, float]
    nearby: Mapping[str, float]
    signals: Mapping[str, float]


def ranked(
    asked: RankingQuery, field: SearchField, candidates: Collection[int], *, limit: int, weights: Weights = WEIGHTS
) -> list[ScoredDocument]:
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
    fit = _Scorer(asked, field, weights.where(field.average))
    scored = [(*fit.score(number), number) for number in fit.led(candidates)]
    best = heapq.nlargest(limit, scored, key=itemgetter(0, 2))
    return [
        ScoredDocument(number, score, *fit.terms(number), fit.signals(number, parts)) for score, parts, number in best
    ]


class _Scorer:
    """How well documents fit a question.

    Args:
        asked: The question.
        field: Where to look.
        weight: How much each signal counts, by its name.
    """

    def __init__(self, asked: RankingQuery, field: SearchField, weight: Mapping[str, float]) -> None:
        self._asked, self._weight, self._documents, self._related = asked, weight, field.documents, field.related
        self._postings, self._conversations, self._closeness = field.postings, field.conversations, field.closeness
        self._silent = field.silent
        total = sum(field.worth[term] for term in asked.terms) or 1.0
        self._shares = {term: field.worth[term] / total for term in asked.terms}
        self._of_length: dict[int, tuple[float, float]] = {  # there are few different ones
            length: (
                (1 + _DAMPING) / (1 + _DAMPING * (_FIXED + (1 - _FIXED) * length / field.average)),
                math.log1p(length) / 5,
            )
            for length in {each.length for each in field.documents.values()}
        }
        self._cover: dict[int, float] = {}
        self._best = {term: self._spread(term, share) for term, share in self._shares.items()}
        dated = field.documents.items() if asked.spans else ()
        self._near = {number: near for number, each in dated if (near := _when(asked.spans, each))}
        self._led = {*self._near, *field.closeness.alone}.union(*self._best.values())
        counts = Counter(map(_KIND, field.documents.values()))
        self._roles = _SpeakerStats(counts)
        self._told = {kind: self._telling(*kind) for kind in counts}
        self._adding = {kind: sum(told.values()) for kind, told in self._told.items()}
        self._answered, self._answers = self._exchanged(1, by_user=True), self._exchanged(-1, by_user=False)
        self._usual = field.closeness.usual()

    def _spread(self, term: str, share: float) -> dict[int, float]:
        """The best of what a term is worth in each document and around it, where there may be none."""
        documents, cover, of_length = self._documents, self._cover, self._of_length
        reach = REACH if self._weight["context"] else 0
        around = [(side * far, _NEIGHBOUR / math.sqrt(far)) for far in range(1, reach + 1) for side in (-1, 1)]
        best: dict[int, float] = {}
        value_of = best.get
        for number in documents.keys() & self._postings[term]:
            cover[number] = cover.get(number, 0.0) + share
            length, features, _, _, _ = documents[number]
            worth = share * of_length[length][0]
            if value_of(number, 0.0) < worth:
                best[number] = worth
            if not around or number in self._silent or number >> PLACE_BITS not in self._related:
                continue
            place = number & _PLACES
            inside = reach <= place <= _PLACES - reach
            for offset, factor in around if inside else [each for each in around if 0 <= place + each[0] <= _PLACES]:
                value = worth * factor
                if value_of(number + offset, 0.0) < value:
                    best[number + offset] = value
            if features & _QUESTION and place < _PLACES and (answer := documents.get(number + 1)):
                value = worth / (1 + answer.length / _INHERITS)
                if value_of(number + 1, 0.0) < value:
                    best[number + 1] = value
        return best

    def _telling(self, features: int, speaker: int | None, role: str | None) -> dict[str, float]:
        """What a document's features, its speaker and its role add."""
        asked, weight, roles = self._asked, self._weight, self._roles
        bits = {**_TOLD, **{kind: bit for kind, bit in _ANSWERS.items() if kind in asked.asks_for}}
        signals = {
            name: weight[name] * roles.telling(role, bit) if features & bit else 0.0 for name, bit in bits.items()
        }
        if len(asked.speakers) == 1 and speaker in asked.speakers:
            signals["speaker"] = weight["speaker"]
        if features & _FEATURE["introduction"]:
            signals["introduction"] = weight["introduction"]
        if roles.two and role == USER:
            signals["user"] = weight["user"]
        elif roles.two and role is not None:
            signals |= {name: weight[name] for name in ("reply", "summary") if name in asked.asks_for}
        return signals

    def led(self, candidates: Collection[int]) -> set[int]:
        """Those of some documents to which something of the question leads."""
        found = self._led.intersection(candidates)
        if self._asked.look_up:
            holding = set(self._closeness.alone).union(*(self._postings[term] for term in self._asked.terms))
            found = {number for number in found if number in holding or self._near.get(number) == 1}
        return found

    def _exchanged(self, step: int, *, by_user: bool) -> dict[int, float]:
        """What is covered by the document so many places behind one of the user's, or behind one of somebody else's."""
        found: dict[int, float] = {}
        cover = {other: share for other, share in self._cover.items() if other not in self._silent}
        for other, share in cover.items() if self._roles.two else ():
            number, series = other - step, other >> PLACE_BITS
            role = document.role if (document := self._documents.get(number)) else None
            if role is not None and (role == USER) is by_user and number >> PLACE_BITS == series in self._related:
                found[number] = share
        return found

    def score(self, number: int) -> tuple[float, tuple[float, ...]]:
        """The sum of all that speaks for a document, and what is measured on it, by `_SIGNALS`."""
        weight, document = self._weight, self._documents[number]
        (alone, among), (usual_alone, usual_among) = self._closeness, self._usual
        length = self._of_length[document.length][1]
        measured: tuple[float, ...] = (
            weight["length"] * length,
            weight["date"] * self._near.get(number, 0.0),
            weight["conversation"] * self._conversations.get(number >> PLACE_BITS, 0.0),
            weight["vectors"] * among.get(number, usual_among),
            weight["own_vector"] * alone.get(number, usual_alone),
        )
        if self._roles.two and document.role is not None:
            measured += self._between(number, document, length)
        words = weight["context"] * sum([worths[number] for worths in self._best.values() if number in worths])
        if number in self._cover:
            words += self._cover[number] * self._held(number)
        return words + self._adding[_KIND(document)] + sum(measured), measured

    def terms(self, number: int) -> tuple[dict[str, float], dict[str, float]]:
        """Return the part that each term adds in a document itself, and the part that it adds around it."""
        held, context = self._held(number), self._weight["context"]
        strength = self._of_length[self._documents[number].length][0]
        own: dict[str, float] = {}
        nearby: dict[str, float] = {}
        for term, worths in self._best.items():
            worth = self._shares[term] * strength if number in self._postings[term] else 0.0
            if worth:
                own[term] = context * worth + self._shares[term] * held
            if (best := worths.get(number, 0.0)) > worth:
                nearby[term] = context * (best - worth)
        return own, nearby

    def signals(self, number: int, measured: Sequence[float]) -> dict[str, float]:
        """What else adds or takes away."""
        return self._told[_KIND(self._documents[number])] | dict(zip(_SIGNALS, measured, strict=False))

    def _held(self, number: int) -> float:
        """What a term counts that a document holds itself, beside what stands around it."""
        weight = self._weight
        strength: float = self._of_length[self._documents[number].length][0]
        return (weight["own"] - weight["context"]) * strength + weight["cover"]

    def _between(self, number: int, document: Document, length: float) -> tuple[float, ...]:
        """What a message adds for its part in the talk of a user and an assistant."""
        weight, asks_for = self._weight, self._asked.asks_for
        if document.role != USER:
            return 0.0, 0.0, 0.0, 0.0, weight["answer"] * self._answers.get(number, 0.0), 0.0
        listed = 0.0 if _LISTS.isdisjoint(asks_for) else length
        wanted = _WISHED + self._cover.get(number, 0.0) if "advice" in asks_for else 0.0
        return (
            weight["answered"] * self._answered.get(number, 0.0),
            weight["account"] * listed,
            weight["standing_wish"] * wanted if document.features & _STANDING else 0.0,
            weight["preference"] * wanted if document.features & _PREFERENCE else 0.0,
            0.0,
            weight["opening"] / (1 + (number & _PLACES) / _OPENING),
        )


class _SpeakerStats:
    """What those who speak have in common.

    Args:
        kinds: How many documents there are of each kind, see `_KIND`.
    """

    def __init__(self, kinds: Mapping[tuple[int, int | None, str | None], int]) -> None:
        self._counts: Counter[str | None] = Counter()
        self._having: Counter[tuple[str | None, int]] = Counter()
        for (features, _, role), count in kinds.items():
            self._counts[role] += count
            for bit in (*_TOLD.values(), *_ANSWERS.values()):
                if features & bit:
                    self._having[role, bit] += count
        self.two = USER in self._counts and not {USER, None}.issuperset(self._counts)
        """Whether there are a user and somebody else."""

    def telling(self, role: str | None, bit: int) -> float:
        """How much it tells that somebody of a role has a feature: nothing if all have it."""
        return 1 - self._having[role, bit] / self._counts[role]


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
