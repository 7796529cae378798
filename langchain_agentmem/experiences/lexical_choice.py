"""Which conditions a query meets, judged by words alone: pure arithmetic, without a model and without a database.

A word that few conditions have tells much, one that is everywhere little, and one that only means the same less. Of the
situations that a condition lists the best one counts. A word that another condition explains better counts for that
one. What a condition says it is not for speaks against it. What went before counts where a query is about that.

The constants were tuned on two sets in `tests/benchmarks/experiences`. On a third that nobody had tuned on, words alone
find 60 % of what applies, and 58 % of what they choose does (an F1 of 0.59): a first choice, and no substitute for a
model. More rules (topics, turns of phrase, slips of the keyboard) fitted the two sets better and were no help there,
which is why they are gone; so that set is no longer one that nothing was chosen by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from langchain_agentmem.experiences.condition_words import FOLLOW_UP, NOT_MEANT
from langchain_agentmem.experiences.conditions import Clause, Said, akin, said, within
from langchain_agentmem.experiences.places import COMPOUND, Index, Keys, Place, indexed, keys_of

THRESHOLD = 0.5
"""A condition with at least this score applies."""
UNSURE = (0.35, 0.65)
"""From the first to below the second, a model is worth asking."""

COVER = 0.5
"""The power of how much of an alternative is met: "price" is half of "stock prices"."""
AGAINST = 0.8
"""What a word counts where the condition says that it does not apply."""
STEEP = 2.0
"""How soon a word counts less where another condition explains the query better."""
LENGTH, SHORT = 0.4, 2.0
"""The power by which a long query needs more, and the length below which it hardly matters."""
HALF = 0.317
"""The evidence for which the score is one half."""
BEFORE = 0.8
"""What a word counts of what was asked before, or of an error, where the query is about that."""

_MOST_LINES, _LONGEST_LINE = 50, 2_000
_LABEL = re.compile(r"^(User|Execution|Error):", re.MULTILINE)


class Judged(NamedTuple):
    """How far a condition is met.

    Attributes:
        score: 0 to 1.
        terms: What each word of the query or its context added, or took away; together the score.
    """

    score: float
    terms: Mapping[str, float]


_NOTHING = Judged(0.0, MappingProxyType({}))


class _Feature(NamedTuple):
    weight: float
    keys: Keys  # by which it is found, and what each counts


def judged(query: str, context: str, conditions: Sequence[str]) -> list[Judged]:
    """How far a query meets each of some conditions.

    Args:
        query: What the user asks; no text is invalid.
        context: Empty, or lines that begin with "User:", "Execution:" or "Error:", the oldest first.
        conditions: When each experience applies.

    Returns:
        One for each condition, in their order. The same for the same arguments.
    """
    if not conditions:
        return []
    index = indexed(tuple(conditions))
    asked = _asked(query, context, index)
    evidence = _evidence(asked.features, index)
    strongest: dict[str, float] = {}
    total = {number: sum(terms.values()) for number, terms in evidence.items()}
    for number, terms in evidence.items():
        for key, worth in terms.items():
            strongest[key] = max(strongest.get(key, 0.0), total[number] * worth)
    found = [_NOTHING] * len(conditions)
    for number, terms in evidence.items():
        if total[number] <= 0:
            continue
        own = {
            key: worth * (total[number] * worth / strongest[key]) ** STEEP if worth > 0 else worth
            for key, worth in terms.items()
        }
        left = sum(own.values())
        if left > 0:
            enough = left / (SHORT + asked.length) ** LENGTH
            score = enough / (enough + HALF)
            reasons: dict[str, float] = {}
            for key, worth in own.items():
                word = asked.spelled.get(key, key)
                reasons[word] = reasons.get(word, 0.0) + worth / left * score
            found[number] = Judged(score, MappingProxyType(reasons))
    return found


def _evidence(features: Mapping[str, _Feature], index: Index) -> dict[int, dict[str, float]]:
    """For each condition that has something in common with the query, what each feature is worth there."""
    denied = _worths(features, index.denied, index.rare, index.against)
    found = {}
    for number, clauses in _worths(features, index.met, index.rare, index.clauses).items():
        best = max(clauses.values(), key=lambda worths: sum(worths.values()))
        terms = dict(best)
        against: dict[str, float] = {}
        for worths in denied.get(number, {}).values():
            speaking = {key: worth for key, worth in worths.items() if worth > terms.get(key, 0.0)}
            if sum(speaking.values()) > sum(against.values()):
                against = speaking
        for key, worth in against.items():
            terms[key] = terms.get(key, 0.0) - AGAINST * worth
        found[number] = terms
    return found


def _worths(
    features: Mapping[str, _Feature],
    places: Mapping[str, Sequence[Place]],
    rare: Mapping[str, float],
    clauses: Sequence[Sequence[Clause]],
) -> dict[int, dict[int, dict[str, float]]]:
    """By condition and clause: what each feature is worth there."""
    met: dict[tuple[int, int], dict[str, tuple[float, str]]] = {}
    for name, (weight, keys) in features.items():
        for key, worth in keys:
            for condition, clause, strength, word in places.get(key, ()):
                value = weight * worth * strength * rare[key]
                terms = met.setdefault((condition, clause), {})
                if name not in terms or value > terms[name][0]:
                    terms[name] = value, word
    found: dict[int, dict[int, dict[str, float]]] = {}
    for (condition, clause), terms in met.items():
        words = {word for _, word in terms.values()}
        company = clauses[condition][clause].company
        found.setdefault(condition, {})[clause] = {
            name: value * _covered(company.get(word), words) for name, (value, word) in terms.items()
        }
    return found


def _covered(company: Mapping[str, float] | None, words: set[str]) -> float:
    if not company:
        return 1.0
    met = sum(weight for word, weight in company.items() if word in words)
    return float((met / sum(company.values())) ** COVER)


class _Asked(NamedTuple):
    features: Mapping[str, _Feature]  # what to look for
    length: float
    spelled: Mapping[str, str]


def _asked(query: str, context: str, index: Index) -> _Asked:
    text = within(query)
    own = said(text)
    spelled = dict(own.spelled)
    unmeant = said(" ".join(match.group() for match in NOT_MEANT.finditer(text))).words
    words = {word: weight for word, weight in own.words.items() if word not in unmeant}
    length = sum(words.values())
    features = {word: _Feature(weight, keys_of(word)) for word, weight in words.items()}
    features |= {word: _Feature(1.0, keys) for word, keys in _compounds(own, index, spelled)}
    if sum(own.words.values()) < 1 or FOLLOW_UP.search(text):
        for word, feature in _before(query, context, index, spelled):
            if word not in features or features[word].weight < feature.weight:
                features[word] = feature
    return _Asked(features, length, spelled)


def _before(query: str, context: str, index: Index, spelled: dict[str, str]) -> Iterator[tuple[str, _Feature]]:
    """What the round before adds: what was asked, and the errors."""
    first, *labelled = _LABEL.split(context)
    lines = [("User", first), *zip(labelled[::2], labelled[1::2], strict=True)]
    lines = [(kind, text.strip()) for kind, text in lines if text.strip()][-_MOST_LINES:]
    if lines and lines[-1] == ("User", query.strip()):
        lines.pop()
    last = max((place for place, (kind, _) in enumerate(lines) if kind == "User"), default=0)
    half = _LONGEST_LINE // 2
    for kind, text in lines[last:]:
        if kind == "Execution":  # whether it worked, not what it was about
            continue
        each = said(text if len(text) <= _LONGEST_LINE else f"{text[:half]}\n{text[-half:]}")
        for term, word in each.spelled.items():
            spelled.setdefault(term, word)
        # the last line of a traceback says what went wrong; above it only names do
        told = said(text.splitlines()[-1][:_LONGEST_LINE]) if kind == "Error" else each
        for word, weight in told.words.items():
            yield word, _Feature(BEFORE * weight, keys_of(word))
        if kind == "Error":
            for word, keys in _compounds(each, index, spelled):
                yield word, _Feature(BEFORE, keys)


def _compounds(text: Said, index: Index, spelled: dict[str, str]) -> Iterator[tuple[str, Keys]]:
    """Compounds and names of a text by which something is found: what is found is one word, or means the same.

    That both have the same words beside each other is no news, so those are not looked for in pieces.
    """
    for compound in (*text.compounds, *(name for name in text.names if name not in text.compounds)):
        same = akin(compound)
        keys = (*same, *((COMPOUND + key, worth) for key, worth in same[1:]))
        if known := tuple((key, worth) for key, worth in keys if key in index.rare):
            spelled.setdefault(compound, " ".join(spelled.get(part, part) for part in text.compounds.get(compound, ())))
            yield compound, known
