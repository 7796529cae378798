"""Which conditions a query meets, judged by words alone: pure arithmetic, without a model and without a database.

A word that few conditions have tells much, one that is everywhere little. A condition lists alternatives, and a word
counts less where it is only a part of one. What a condition says it is not for speaks against it. What went before
counts where a query is about that. Conditions have scores of their own, which no other lowers; of those that the same
words speak for, such as several rules on refunds, only the ones that lead apply.

The constants were tuned on two sets in `tests/benchmarks/experiences`. On a third that nobody had tuned on, words alone
find 56 % of what applies, and 60 % of what they choose does (an F1 of 0.58): a first choice, and no substitute for a
model. More rules fitted the two sets better and were no help there, which is why they are gone: synonyms, compounds,
word families, British spelling, clauses.

`words.yaml` and the patterns here are English only. A text in another language does without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias

from langchain_agentmem.base.data_tables import data_table
from langchain_agentmem.search.analysis import STOP_WORDS, question, terms
from langchain_agentmem.search.ranking import rarity

THRESHOLD = 0.5
"""A condition with at least this score applies."""
UNSURE = (0.25, 0.65)
"""From the first to below the second, a model is worth asking."""

MOST_CHARACTERS = 6_000
"""Of a longer text its beginning and its end are read, so many in all."""
LENGTH, SHORT = 0.4, 2.0
"""The power by which a long query needs more, and the length below which it hardly matters."""

NEGATIVE = re.compile(
    r"\b(?:(?:do|does|should|must)(?: not|n['\u2019]t)|never) (?:be )?(?:use|used|apply|applied|select|choose)\b"
    r"|\bnot (?:when|whenever|for|if|in case|where|to be used|applicable|relevant|needed|about|meant|intended)\b"
    r"|\b(?:unless|except|excluding|(?:other|rather) than|as opposed to|instead of|but not)\b"
    r"|^\W*(?:skip|ignore|avoid)\b",
    re.IGNORECASE,
)
"""Where a condition begins to say when it does not apply."""
FOLLOW_UP = re.compile(
    r"\b(?:again|same|its?|them|others?|another|continue|go on|instead|once more|next|still)\b"
    r"|\b(?:that|this|these|those)(?=\s*(?:$|[.,;:!?'\u2019]|"
    r"(?:can|could|is|are|was|were|does|did|do|will|would|not|one|too)\b))",
    re.IGNORECASE,
)
"""What a query says that is about what went before."""

_INSIDE = re.compile(  # fooBar, OOMKilled; not iPhone, NaNs
    r"(?<=[A-Za-z][a-z\d])(?=[A-Z](?:[a-z]{2}|[A-Z]))|(?<=[A-Z])(?=[A-Z][a-z]{2})"
)
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_SENTENCE = re.compile(r"(?<=[.;!?])\s|\n(?=[^\S\n]*(?:[-*+\u2022]|\d+[.)])\s)")
_FRAGMENT = re.compile(r"[,:;()]|\b(?:or|and)\b", re.IGNORECASE)
_LABEL = re.compile(r"^(User|Execution|Error):", re.MULTILINE)

Weights: TypeAlias = Mapping[str, float]
"""Terms, and what each counts."""
Alternatives: TypeAlias = Mapping[str, Weights]
"""Terms, and for each the shortest alternative that it stands in, "stock prices" say."""


class ConditionScore(NamedTuple):
    """How far a condition is met.

    Attributes:
        score: 0 to 1.
        terms: What each word of the query or its context added, or took away; together the score.
    """

    score: float
    terms: Mapping[str, float]

    @property
    def reason(self) -> str:
        """What of a query led to it, the most telling first."""
        terms = sorted(self.terms.items(), key=lambda each: -each[1])
        return ", ".join(f"{term} {worth:.2f}" for term, worth in terms if worth > 0)


def judged(query: str, context: str, conditions: Sequence[str]) -> list[ConditionScore]:
    """How far a query meets each of some conditions.

    Args:
        query: What the user asks; no text is invalid.
        context: Empty, or lines that begin with "User:", "Execution:" or "Error:", the oldest first.
        conditions: When each experience applies.

    Returns:
        One for each condition, in their order. The same for the same arguments.
    """
    every = [_read(condition) for condition in conditions]
    spelled = {term: word for word, term in _words(query).items()}
    asked = dict(_said(query))
    length = sum(asked.values())
    if length < 1 or FOLLOW_UP.search(_within(query)):
        for word, weight in _before(query, context):
            asked[word] = max(asked.get(word, 0.0), 0.8 * weight)  # less than what is asked now
    holding = {word: [word in met or word in against for met, against in every] for word in asked}
    # Five rules on refunds do not make that word a common one.
    among = max(len(every), 100)
    worth = {word: asked[word] * rarity(among, sum(holds)) / rarity(among, 1) for word, holds in holding.items()}
    found = [ConditionScore(0.0, {})] * len(every)
    for number, is_met in enumerate(zip(*holding.values(), strict=True)):
        if not any(is_met):
            continue
        condition, denied = every[number]
        told = _met(worth, condition)
        against = {word: value for word, value in _met(worth, denied).items() if value > told.get(word, 0.0)}
        told |= {word: told.get(word, 0.0) - 0.8 * value for word, value in against.items()}
        evidence = sum(told.values())
        enough = max(0.0, evidence) / (SHORT + length) ** LENGTH
        score = enough / (enough + 0.317)  # the evidence for which the score is one half
        reasons = {spelled.get(word, word): value / evidence * score for word, value in told.items() if score}
        found[number] = ConditionScore(score, reasons)
    return found


def leading(found: Sequence[ConditionScore]) -> list[bool]:
    """Which conditions are met about as well as any that a word in common speaks for.

    Args:
        found: What `judged` gave.

    Returns:
        One for each condition, in their order.
    """
    best: dict[str, float] = {}
    for each in found:
        best |= {word: max(best.get(word, 0.0), each.score) for word, worth in each.terms.items() if worth > 0}
    return [
        each.score >= 0.9 * max((best[word] for word, worth in each.terms.items() if worth > 0), default=0.0)
        for each in found
    ]


def _met(worth: Weights, condition: Alternatives) -> dict[str, float]:
    """What each word of a query is worth for a condition: less where it is only a part of what is said there."""
    met = {}
    for word in (word for word in worth if word in condition):
        beside = condition[word]
        share = sum(weight for each, weight in beside.items() if each in worth) / sum(beside.values())
        met[word] = worth[word] * beside[word] * share**0.5  # "price" is half of "stock prices"
    return met


# -- what texts say ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4_096)
def _read(condition: str) -> tuple[Alternatives, Alternatives]:
    """What a condition is for, and what it says that it is not for."""
    met: list[str] = []
    against: list[str] = []
    for paragraph in _PARAGRAPH.split(_within(condition)):
        listing = False  # what a list that began with "Not for:" names
        for piece in _SENTENCE.split(paragraph):
            sentence = " ".join(piece.split())
            denial = NEGATIVE.search(sentence)
            start, end = (0, 0) if listing else denial.span() if denial else (len(sentence), len(sentence))
            met.append(sentence[:start])
            against.append(sentence[end:])
            listing = listing or (denial is not None and sentence.endswith(":"))
    return _alternatives(met), _alternatives(against)


def _alternatives(texts: Sequence[str]) -> Alternatives:
    found: dict[str, Weights] = {}
    for text in filter(None, texts):
        words = _said(text)
        for fragment in (*_FRAGMENT.split(_INSIDE.sub(" ", text)), text):
            beside = {word: words[word] for word in terms(fragment) if word in words}
            found |= {word: beside for word in beside if word not in found or len(beside) < len(found[word])}
    return found


def _words(text: str) -> Mapping[str, str]:
    """The words of a text, with the term of each. The names of programs are the words that they are made of."""
    return question(_INSIDE.sub(" ", _within(text))).words


def _said(text: str) -> dict[str, float]:
    """The terms of a text, and what each counts."""
    silent, faint = _lists()
    return {
        term: 0.4 if term in faint else 1.0  # a common word, and any other
        for word, term in _words(text).items()
        if word not in silent and (len(term) > 1 or not term.isascii() or term.isdigit())
    }


def _within(text: str) -> str:
    """As much of a text as is read."""
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]}\n{text[-half:]}"


def _before(query: str, context: str) -> Iterator[tuple[str, float]]:
    """What the round before adds: what was asked, and the last lines of errors, which say what went wrong."""
    first, *labelled = _LABEL.split(context)
    lines = [("User", first), *zip(labelled[::2], labelled[1::2], strict=True)]
    lines = [(kind, text.strip()) for kind, text in lines if text.strip()][-50:]
    if lines and lines[-1] == ("User", query.strip()):
        lines.pop()
    last = max((place for place, (kind, _) in enumerate(lines) if kind == "User"), default=0)
    for kind, text in lines[last:]:
        if kind != "Execution":  # which says whether it worked, not what it was about
            yield from _said(text.splitlines()[-1] if kind == "Error" else text).items()


@cache
def _lists() -> tuple[frozenset[str], frozenset[str]]:
    """Words that say nothing, and the terms of those that say little."""
    lists = data_table("experiences/words.yaml")
    phrasing, common = (" ".join(lists[name]) for name in ("phrasing", "common"))
    return STOP_WORDS.union(phrasing.split()), frozenset(terms(common))
