"""Which experiences apply: how often the lexical strategy is right, and how long it takes.

    python tests/benchmarks/experiences.py [--sets dev_a,dev_b,held_out,related]

Each set in `experiences/` has experiences and queries that were labelled by hand: paraphrases, words in common that
mean something else, several right answers, and none. The lexical strategy was developed on "dev_a" and "dev_b";
"held_out" was written by somebody who saw neither them nor the code, and nobody has tuned on "related", in which
several experiences are about one thing. Each pair of a query and an experience is right or wrong; precision, recall and
F1 count them all together. The peers read the same words, without stop words and with the same stems:

- BM25 over `when`, and the cosine of bags of words. Their thresholds are the best ones on "dev_a" and "dev_b" together.
- All experiences for every query, as where nobody selects.

"auto" asks a model about the experiences whose scores lie within `UNSURE_RANGE`, or above it beside a better one, and
leaves the others to the words, as the package does; here that model is always right, so it is an upper bound.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from places import given_options

from langchain_agentmem.experiences.lexical_choice import THRESHOLD, UNSURE_RANGE, mark_best, score_conditions
from langchain_agentmem.search.analysis import analyze_query, extract_terms
from langchain_agentmem.search.ranking import rarity

SETS = Path(__file__).with_name("experiences")
CANDIDATES = (25, 1_000)
K1, B = 1.2, 0.75
THRESHOLDS = 200

Scoring = Callable[[str, str, Sequence[str]], list[float]]


class Query(NamedTuple):
    """A query, what went before it, and which conditions it meets."""

    text: str
    context: str
    expected: tuple[bool, ...]


class Labelled(NamedTuple):
    """A set: conditions, and queries with which of them they meet."""

    conditions: tuple[str, ...]
    queries: tuple[Query, ...]


class Quality(NamedTuple):
    """Over all pairs of a query and an experience."""

    precision: float
    recall: float
    f1: float


def labelled(name: str) -> Labelled:
    """A set by its name."""
    files = sorted((SETS / name).glob("handcrafted_exp_*.yaml"))
    experiences = [yaml.safe_load(file.read_text("utf-8")) for file in files]
    ids = [str(experience["exp_id"]) for experience in experiences]
    queries = []
    for row in yaml.safe_load((SETS / name / "queries.yaml").read_text("utf-8")):
        expected = {str(exp_id) for exp_id in row["expected"]}
        if unknown := expected - set(ids):
            raise SystemExit(f"{name}: {row['query']!r} expects {sorted(unknown)}, which are not there.")
        queries.append(Query(row["query"], row.get("context") or "", tuple(each in expected for each in ids)))
    return Labelled(tuple(experience["when"] for experience in experiences), tuple(queries))


def lexical(query: str, context: str, conditions: Sequence[str]) -> list[float]:
    """Ours; nothing for what another has better words for."""
    found = score_conditions(query, context, conditions)
    return [each.score if leads else 0.0 for each, leads in zip(found, mark_best(found), strict=True)]


def bm25(query: str, context: str, conditions: Sequence[str]) -> list[float]:
    """Plain BM25 of the query and its context over the conditions."""
    bags = [Counter(extract_terms(condition)) for condition in conditions]
    average = sum(map(Counter.total, bags)) / len(bags)
    scores = [0.0] * len(bags)
    for term in analyze_query(f"{query}\n{context}").terms:
        weight = rarity(len(bags), sum(term in bag for bag in bags))
        for place, bag in enumerate(bags):
            if count := bag[term]:
                scores[place] += weight * count * (K1 + 1) / (count + K1 * (1 - B + B * bag.total() / average))
    return scores


def cosine(query: str, context: str, conditions: Sequence[str]) -> list[float]:
    """The cosine of the bags of words of the query with its context and of each condition."""
    asked = Counter(analyze_query(f"{query}\n{context}").terms)
    scores = []
    for condition in conditions:
        telling = analyze_query(condition).terms
        bag = Counter(term for term in extract_terms(condition) if term in telling)
        product = sum(count * bag[term] for term, count in asked.items())
        scores.append(product / (_length(asked) * _length(bag) or 1.0))
    return scores


def everything(query: str, context: str, conditions: Sequence[str]) -> list[float]:
    """All of them, always."""
    return [1.0] * len(conditions)


def scored(scoring: Scoring, labels: Labelled) -> list[list[float]]:
    """The scores of all conditions, for each query."""
    return [scoring(query.text, query.context, labels.conditions) for query in labels.queries]


def quality(scores: Sequence[Sequence[float]], labels: Labelled, threshold: float) -> Quality:
    """What is right when everything with at least so high a score is chosen."""
    right = wrong = missed = 0
    for row, query in zip(scores, labels.queries, strict=True):
        for score, applies in zip(row, query.expected, strict=True):
            right += score >= threshold and applies
            wrong += score >= threshold and not applies
            missed += score < threshold and applies
    precision = right / (right + wrong) if right + wrong else 0.0
    recall = right / (right + missed) if right + missed else 0.0
    return Quality(precision, recall, 2 * right / (2 * right + wrong + missed) if right + wrong + missed else 1.0)


def together(sets: Sequence[Labelled], scoring: Scoring) -> tuple[list[list[float]], Labelled]:
    """The scores of several sets, each among its own conditions, as of one."""
    scores = [row for labels in sets for row in scored(scoring, labels)]
    return scores, Labelled((), tuple(query for labels in sets for query in labels.queries))


def best_threshold(scores: Sequence[Sequence[float]], labels: Labelled) -> float:
    """The threshold with the best F1; of equals, the highest."""
    most = max(map(max, scores)) or 1.0
    tried = [most * step / THRESHOLDS for step in range(1, THRESHOLDS + 1)]
    return max(tried, key=lambda threshold: (quality(scores, labels, threshold).f1, threshold))


def with_model(labels: Labelled) -> tuple[float, list[list[float]]]:
    """The share of queries for which "auto" asks, and the scores when the model is right about what it is asked."""
    low, sure = UNSURE_RANGE
    asked, answered = [], []
    for query in labels.queries:
        words = [each.score for each in score_conditions(query.text, query.context, labels.conditions)]
        certain = [score >= sure for score in lexical(query.text, query.context, labels.conditions)]
        is_open = [score >= low and not known for score, known in zip(words, certain, strict=True)]
        asked.append(any(is_open))
        answered.append(
            [
                float(applies if asks else known)
                for asks, known, applies in zip(is_open, certain, query.expected, strict=True)
            ]
        )
    return statistics.fmean(asked), answered


def timed(labels: Labelled, candidates: int) -> tuple[float, float, float]:
    """Milliseconds of a selection: the first with new conditions, the median, and what 95 of 100 do not exceed."""
    conditions = [
        f"{labels.conditions[place % len(labels.conditions)]}\nOr for case {place}." for place in range(candidates)
    ]
    first, *others = (_milliseconds(query, conditions) for query in labels.queries * 3)
    return first, statistics.median(others), statistics.quantiles(others, n=20)[-1]


def _milliseconds(query: Query, conditions: Sequence[str]) -> float:
    start = time.perf_counter()
    score_conditions(query.text, query.context, conditions)
    return (time.perf_counter() - start) * 1_000


def _length(bag: Counter[str]) -> float:
    return math.sqrt(sum(count * count for count in bag.values()))


def main() -> None:
    """Measure and print."""
    dev = [labelled("dev_a"), labelled("dev_b")]
    strategies: dict[str, tuple[Scoring, float]] = {"lexical": (lexical, THRESHOLD)}
    for name, peer in {"BM25 over `when`": bm25, "cosine of bags of words": cosine}.items():
        strategies[name] = peer, best_threshold(*together(dev, peer))
    strategies["everything, always"] = everything, 1.0
    for name in given_options(__doc__, sets="dev_a,dev_b,held_out,related").sets.split(","):
        labels = labelled(name)
        none = sum(not any(query.expected) for query in labels.queries)
        pairs = sum(sum(query.expected) for query in labels.queries)
        print(f"{name}: {len(labels.queries)} queries over {len(labels.conditions)} experiences, {pairs} right pairs")
        print(f"  nothing applies to {none} of the queries")
        print(f"  {'':<26}precision   recall       F1")
        ours = 0.0
        for strategy, (scoring, threshold) in strategies.items():
            scores = scored(scoring, labels)
            found = quality(scores, labels, threshold)
            ours = ours or found.f1
            ratio = f"   ours is {ours / found.f1:.2f} times that" if strategy != "lexical" else ""
            print(f"  {strategy:<26}{found.precision:>9.3f}{found.recall:>9.3f}{found.f1:>9.3f}{ratio}")
        share, answered = with_model(labels)
        found = quality(answered, labels, THRESHOLD)
        print(f"  {'auto, a perfect model':<26}{found.precision:>9.3f}{found.recall:>9.3f}{found.f1:>9.3f}", end="")
        print(f"   asks for {share:.0%} of the queries")
        print()
    for candidates in CANDIDATES:
        first, median, most = timed(dev[0], candidates)
        print(
            f"{candidates:>5} candidates: {median:.2f} ms a selection, 95 % below {most:.2f}, the first {first:.0f} ms"
        )


if __name__ == "__main__":
    main()
