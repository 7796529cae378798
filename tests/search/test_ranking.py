"""The signals of ranking and their contribution to the score."""

import itertools
import math
import random

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.search.analysis import FEATURES
from langchain_agentmem.search.dates import TimeSpan
from langchain_agentmem.search.ranking import (
    REACH,
    WEIGHTS,
    WEIGHTS_WITH_VECTORS,
    Documents,
    RankingData,
    RankingQuery,
    VectorScores,
    Weights,
    conversation_scores,
    neighbour_ranges,
    rank_documents,
    rarity,
    vector_trust,
)
from langchain_agentmem.search.search_index import PLACE_BITS

DAY = 86_400_000_000
ONE, TWO = 7 << PLACE_BITS, 8 << PLACE_BITS
"""The first places of two series."""
FEATURE = {name: 1 << bit for bit, name in enumerate(FEATURES)}
NO_WEIGHTS = Weights(**dict.fromkeys(Weights.model_fields, 0.0))
OWN_TERMS = NO_WEIGHTS.replace(own=1.0)


def said(length=10, at=0, speaker=None, *features, role=None):
    return length, sum(FEATURE[name] for name in features), at, speaker, role


def field(postings, documents, *, related=(ONE, TWO), conversations=None, average=10.0, closeness=None):
    rarities = {term: rarity(len(documents), len(holding)) for term, holding in postings.items()}
    return RankingData(
        {term: set(holding) for term, holding in postings.items()},
        rarities,
        Documents(*zip(*((number, 0, *each) for number, each in documents.items()), strict=True)),
        average,
        conversations or {},
        {number >> PLACE_BITS for number in related},
        closeness or VectorScores(),
    )


def scores(asked, where, weights=WEIGHTS, candidates=None):
    candidates = where.documents.numbers if candidates is None else candidates
    hits = rank_documents(asked, where, candidates, limit=1000, weights=weights)
    return {hit.number: hit.score for hit in hits}


def only_weights(**weights):
    """Weights for only these signals and the document's own terms."""
    return OWN_TERMS.replace(**weights)


class TestWeights:
    def test_weight_is_linear_in_log_average_length(self):
        for average, length in ((3, 0), (25, 0), (250, 1), (79.06, 0.5), (4000, 1.2)):
            weight = Weights(context=(1.0, -0.5), date=0.3).at_length(average)
            assert weight["context"] == pytest.approx(1 - 0.5 * length, abs=1e-4)
            assert weight["date"] == 0.3

    def test_invalid_weights_are_rejected(self):
        for wrong in ("1", None, (1.0,), (1.0, "2"), [1.0, 2.0], math.nan, (0.0, math.inf), True):
            with pytest.raises(InvalidInput, match="date must "):
                Weights(date=wrong)


class TestTerms:
    def test_full_match_scores_one_and_decreases_with_length(self):
        where = field({"cat": [ONE]}, {ONE: said(10), TWO: said(10)}, average=10.0)
        assert scores(RankingQuery(["cat"]), where, OWN_TERMS)[ONE] == pytest.approx(1)
        lengths = [
            scores(RankingQuery(["cat"]), field({"cat": [ONE]}, {ONE: said(n)}), OWN_TERMS)[ONE]
            for n in (1, 10, 100, 1000)
        ]
        assert lengths == sorted(lengths, reverse=True)

    def test_rare_terms_score_higher_than_common_terms(self):
        documents = {ONE + 100 * n: said() for n in range(10)}
        where = field({"rare": [ONE], "common": [ONE + 100 * n for n in range(1, 10)]}, documents)
        found = scores(RankingQuery(["rare", "common"]), where, OWN_TERMS)
        assert found[ONE] > 3 * found[ONE + 100]
        values = [rarity(100, holding) for holding in range(101)]
        assert values == sorted(values, reverse=True)
        assert values[-1] > 0

    def test_documents_without_query_terms_are_not_found(self):
        where = field({"cat": [ONE]}, {ONE: said(), ONE + 100: said(500, 0, None, "time", "number")})
        assert set(scores(RankingQuery(["cat"], answer_kinds=["number"]), where)) == {ONE}


class TestNeighbours:
    def test_question_terms_raise_short_answers_most(self):
        asks, answers = ONE + 10, ONE + 11
        for length, share in ((0, 1), (40, 0.5), (400, 0.3)):
            asked = said(10, 0, 1, "question")
            for documents, expected in (
                ({asks: asked, answers: said(length, 0, 2)}, share),
                ({asks: asked, answers: said(length, 0, 1, role="assistant")}, share),
                ({asks: asked, answers: said(length, 0, 1)}, 0.3),  # the same author
                ({asks: said(), answers: said(length, 0, 2)}, 0.3),  # no question
            ):
                found = scores(RankingQuery(["cat"]), field({"cat": [asks]}, documents), only_weights(context=1.0))
                assert found[answers] == pytest.approx(expected * found[asks])

    def test_neighbour_score_decays_with_distance_within_reach(self):
        for features in ([], ["question"]):  # which lends more to what follows it alone
            documents = {ONE + n: said(10, 0, n % 2, *features * (n == 10)) for n in range(20)}
            found = scores(RankingQuery(["cat"]), field({"cat": [ONE + 10]}, documents), only_weights(context=1.0))
            assert set(found) == {ONE + n for n in range(10 - REACH, 11 + REACH)}
            for distance in range(1, REACH + 1):
                expected = pytest.approx(found[ONE + 10] * 0.3 / math.sqrt(distance))
                assert found[ONE + 10 - distance] == expected
                assert found[ONE + 10 + distance] == expected or (features and distance == 1)

    def test_neighbour_scores_do_not_cross_series(self):
        last = TWO - 1
        documents = {last: said(10, 0, None, "question"), TWO: said(), TWO + 1: said()}
        assert set(scores(RankingQuery(["cat"]), field({"cat": [last]}, documents))) == {last}
        assert set(scores(RankingQuery(["cat"]), field({"cat": [TWO]}, documents))) == {TWO, TWO + 1}
        documents = {ONE: said(), ONE + 1: said(), TWO: said(), TWO + 1: said()}
        where = field({"cat": [ONE, TWO]}, documents, related=(TWO,))  # what is merely stored beside it is no neighbour
        assert set(scores(RankingQuery(["cat"]), where)) == {ONE, TWO, TWO + 1}
        assert set(scores(RankingQuery(["cat"]), where, candidates=[TWO + 1])) == {TWO + 1}
        assert neighbour_ranges([TWO, ONE], {TWO >> PLACE_BITS}) == [(ONE, ONE + 1), (TWO, TWO + REACH + 1)]


class TestDates:
    SPAN = TimeSpan(100 * DAY, 101 * DAY, "that day")

    def nearness(self, at):
        return scores(RankingQuery((), spans=[self.SPAN]), field({}, {ONE: said(at=at)}), only_weights(date=1.0))[ONE]

    def test_date_score_decays_faster_before_the_date(self):
        after = [self.nearness(self.SPAN.end + n * DAY) for n in range(10)]
        before = [self.nearness(self.SPAN.start - n * DAY) for n in range(1, 10)]
        assert after == sorted(after, reverse=True)
        assert before == sorted(before, reverse=True)
        assert after[7] == pytest.approx(0.95 * math.exp(-1))
        assert before[6] == pytest.approx(0.95 * math.exp(-3))
        assert all(one > other for one, other in zip(after[1:], before, strict=True))


class TestAnswerKinds:
    @pytest.mark.parametrize(("asks", "feature"), [("time", "time"), ("number", "number"), ("place", "proper noun")])
    def test_documents_with_the_expected_answer_kind_rise(self, asks, feature):
        others = {"time", "number", "proper noun"} - {feature}
        documents = {ONE: said(10, 0, None, feature), ONE + 100: said(10, 0, None, *others), ONE + 200: said()}
        where = field({"cat": list(documents)}, documents)
        found = scores(RankingQuery(["cat"], answer_kinds=[asks]), where, only_weights(**{asks: 1.0}))
        assert found[ONE] - found[ONE + 200] == pytest.approx(2 / 3), "two of three have it not"
        assert found[ONE + 100] == found[ONE + 200]
        assert len(set(scores(RankingQuery(["cat"]), where, only_weights(**{asks: 1.0})).values())) == 1

    def test_answer_kind_is_relative_to_same_role(self):
        dated = {ONE + n: said(10, 0, None, "time", role="assistant") for n in range(0, 40, 10)}
        documents = dated | {ONE + 50: said(10, 0, None, "time", role="user"), ONE + 60: said(role="user")}
        where = field({"cat": list(documents)}, documents)
        hits = rank_documents(
            RankingQuery(["cat"], answer_kinds=["time"]),
            where,
            where.documents.numbers,
            limit=10,
            weights=only_weights(time=1.0),
        )
        told = {hit.number: hit.signals.get("time") for hit in hits}
        assert [told[number] for number in dated] == [0.0] * 4
        assert (told[ONE + 50], told[ONE + 60]) == (0.5, 0.0)


class TestRoles:
    def found(self, asks=(), weights=WEIGHTS, roles=("user", "assistant"), features=(), cat=(ONE + 1,)):
        """The score signals of a user message and its reply."""
        documents = {ONE + 1: said(10, 0, None, *features, role=roles[0]), ONE + 2: said(400, role=roles[1])}
        where = field({"cat": cat}, documents)
        hits = rank_documents(
            RankingQuery(["cat"], answer_kinds=asks), where, where.documents.numbers, limit=10, weights=weights
        )
        return [hit.signals for hit in sorted(hits, key=lambda hit: hit.number)]

    def test_question_and_reply_share_their_scores(self):
        weights = only_weights(context=1.0, answer=1.0, answered=0.5)
        user, reply = self.found(weights=weights)
        assert reply["answer"] == pytest.approx(1)
        assert not user.get("answered")
        user, reply = self.found(weights=weights, cat=[ONE + 2])
        assert user["answered"] == pytest.approx(0.5)
        assert not reply.get("answer")

    @pytest.mark.parametrize("feature", ["standing wish", "preference"])
    def test_user_preferences_rise_for_advice_queries(self, feature):
        name = feature.replace(" ", "_")
        weights = only_weights(context=1.0, **{name: 1.0})
        assert self.found(["advice"], weights, features=[feature])[0][name] == pytest.approx(1.3)
        assert self.found(["advice"], weights, features=[feature], cat=[ONE + 2])[0][name] == pytest.approx(0.3)
        assert not self.found(["time"], weights, features=[feature])[0].get(name)


class TestVectorSignals:
    def near(self, weights, average=25.0):
        """The score signals of three documents; the first has the term but no vector."""
        documents = {number: said() for number in (ONE, ONE + 100, ONE + 200)}
        closeness = VectorScores({ONE + 100: 0.5, ONE + 200: 0.1}, {ONE + 100: 0.2, ONE + 200: 0.4})
        where = field({"cat": [ONE]}, documents, closeness=closeness, average=average)
        return {
            hit.number: hit.signals
            for hit in rank_documents(RankingQuery(["cat"]), where, where.documents.numbers, limit=9, weights=weights)
        }

    def test_own_and_context_similarity_are_weighted_separately(self):
        found = self.near(only_weights(vectors=0.6, own_vector=0.2))
        near = {number: (each["vectors"], each["own_vector"]) for number, each in found.items()}
        assert near[ONE + 100] == pytest.approx((0.12, 0.1))
        assert near[ONE + 200] == pytest.approx((0.24, 0.02))
        assert near[ONE] == pytest.approx((0.18, 0.06))  # has no vector yet, and is held to be as near as others are

    def test_vector_trust_reflects_agreement_with_term_matches(self):
        holding = range(0, 100, 5)
        knowing = {number: 0.5 if number in holding else 0.2 for number in range(100)}
        assert vector_trust(knowing, holding) == 1
        assert vector_trust({number: -near for number, near in knowing.items()}, holding) == 0
        assert 0 < vector_trust({number: number % 7 / 7 for number in range(100)}, holding) < 1
        few = {1: 0.2, 2: 0.4}  # which say little, and nothing where none or all hold a word
        assert 0.5 < vector_trust(few, {1}) < 1
        assert {vector_trust(*each) for each in ((few, ()), (few, (1, 2)), ({}, ()), ({1: 0.2}, {1}))} == {1}


def random_field(luck):
    """A random query and documents of three series, some of them neighbours."""
    numbers = [(series << PLACE_BITS) + luck.randrange(12) for series in (1, 2, 3) for _ in range(8)]

    def a_document():
        length, features, at = luck.randrange(40), luck.randrange(1 << len(FEATURES)), luck.randrange(300) * DAY
        return length, features, at, luck.choice([None, 5, 6]), luck.choice([None, "user", "assistant"])

    documents = {number: a_document() for number in numbers}
    postings = {term: set(luck.sample(sorted(documents), luck.randrange(len(documents)))) for term in "abc"}
    kinds = ["time", "number", "place", "advice", "reply", "order", "summary"]
    asked = RankingQuery(
        "abc",
        luck.sample(kinds, luck.randrange(8)),
        [TimeSpan(100 * DAY, 130 * DAY, "then")] * luck.randrange(2),
        luck.sample([5, 6], luck.randrange(3)),
        is_lookup=luck.random() < 0.2,
    )
    near = {number: (luck.random(), luck.random()) for number in documents if luck.random() < 0.3}
    alone, among = ({number: both[place] for number, both in near.items()} for place in (0, 1))
    fits = conversation_scores(postings, 3)
    where = field(postings, documents, related=(1 << PLACE_BITS, 3 << PLACE_BITS), conversations=fits)
    return asked, where._replace(vector_scores=VectorScores(alone, among))


class TestScoreExplanations:
    def test_score_is_the_sum_of_its_parts(self):
        for seed in range(20):
            asked, where = random_field(random.Random(seed))
            hits = rank_documents(asked, where, where.documents.numbers, limit=100, weights=WEIGHTS_WITH_VECTORS)
            assert hits, seed
            for hit in hits:
                parts = (hit.terms, hit.nearby, hit.signals)
                assert hit.score == pytest.approx(sum(value for part in parts for value in part.values())), seed
                assert set(hit.terms) <= set(asked.terms)
                assert set(hit.signals) <= set(Weights.model_fields)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_smaller_limit_returns_a_prefix(self):
        for seed in range(40):
            luck = random.Random(seed)
            asked, where = random_field(luck)
            if seed % 4:
                asked = asked._replace(answer_kinds=luck.sample(["time", "number", "place", "reply"], 2))
            some = {name: luck.uniform(-1, 1) for name in luck.sample(sorted(Weights.model_fields), 8)}
            weights = (WEIGHTS_WITH_VECTORS if seed % 2 else WEIGHTS).replace(**some)
            every = rank_documents(asked, where, where.documents.numbers, limit=100, weights=weights)
            for limit in (1, 2, 5, 10):
                assert (
                    rank_documents(asked, where, where.documents.numbers, limit=limit, weights=weights) == every[:limit]
                ), seed

    def test_filter_keeps_scores_and_order(self):
        for seed in range(20):
            luck = random.Random(seed)
            asked, where = random_field(luck)
            some = set(luck.sample(where.documents.numbers, luck.randrange(12)))
            every = rank_documents(asked, where, where.documents.numbers, limit=100)
            assert rank_documents(asked, where, some, limit=100) == [hit for hit in every if hit.number in some], seed

    def test_zero_weight_disables_a_signal(self):
        weights = WEIGHTS_WITH_VECTORS
        for seed, name in itertools.product(range(5), Weights.model_fields):
            asked, where = random_field(random.Random(seed))
            on = {
                hit.number: hit
                for hit in rank_documents(asked, where, where.documents.numbers, limit=100, weights=weights)
            }
            for hit in rank_documents(
                asked, where, where.documents.numbers, limit=100, weights=weights.replace(**{name: 0.0})
            ):
                assert not hit.signals.get(name), (seed, name)
                if name not in {"own", "context", "cover"}:
                    without = on[hit.number].score - on[hit.number].signals.get(name, 0.0)
                    assert hit.score == pytest.approx(without), (seed, name)
