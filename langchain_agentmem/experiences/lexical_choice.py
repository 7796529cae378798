"""Scores of the degree to which a query meets conditions, computed from words.

The computation uses neither a model nor a database.

A rare word among conditions has a high weight, a common one a low weight. A condition may list alternatives, such as
"stock prices or dividends". A word weighs less if the query has only some words of its alternative. Exclusions that a
condition states lower its score. If a query refers to the previous round, the words of that round are included. A score
does not depend on the scores of other conditions. If several conditions share a matching word, such as rules on
refunds, only those with nearly the best score apply.

The constants were tuned on two sets in `tests/benchmarks/experiences`. On a third, not used for tuning, words alone
have a recall of 56 % and a precision of 60 % (an F1 of 0.58). Words alone do not replace a model. Rules for synonyms,
compounds, word families, British spelling and clauses were removed, because they improved only the results on the two
tuning sets.

`words.yaml` and the patterns here are English only. They have no effect on texts in other languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias

from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.search.analysis import STOP_WORDS, analyze_query, extract_terms
from langchain_agentmem.search.ranking import rarity

THRESHOLD = 0.5
"""A condition with at least this score applies."""
UNSURE_RANGE = (0.25, 0.65)
"""The range of scores that a model must check: the lower limit and the excluded upper limit."""

MAX_CHARACTERS = 6_000
"""The maximum number of characters read of a text, half from its beginning and half from its end."""
LENGTH_EXPONENT, SHORT_LENGTH = 0.4, 2.0
"""The constants of the divisor `(SHORT_LENGTH + length) ** LENGTH_EXPONENT`: a longer query needs more evidence."""

NEGATION = re.compile(
    r"\b(?:(?:do|does|should|must)(?: not|n['\u2019]t)|never) (?:be )?(?:use|used|apply|applied|select|choose)\b"
    r"|\bnot (?:when|whenever|for|if|in case|where|to be used|applicable|relevant|needed|about|meant|intended)\b"
    r"|\b(?:unless|except|excluding|(?:other|rather) than|as opposed to|instead of|but not)\b"
    r"|^\W*(?:skip|ignore|avoid)\b",
    re.IGNORECASE,
)
"""The phrases after which a condition states when it does not apply."""
FOLLOW_UP = re.compile(
    r"\b(?:again|same|its?|them|others?|another|continue|go on|instead|once more|next|still)\b"
    r"|\b(?:that|this|these|those)(?=\s*(?:$|[.,;:!?'\u2019]|"
    r"(?:can|could|is|are|was|were|does|did|do|will|would|not|one|too)\b))",
    re.IGNORECASE,
)
"""The phrases by which a query refers to the previous round."""

_WORD_BOUNDARY = re.compile(  # fooBar, OOMKilled; not iPhone, NaNs
    r"(?<=[A-Za-z][a-z\d])(?=[A-Z](?:[a-z]{2}|[A-Z]))|(?<=[A-Z])(?=[A-Z][a-z]{2})"
)
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_SENTENCE = re.compile(r"(?<=[.;!?])\s|\n(?=[^\S\n]*(?:[-*+\u2022]|\d+[.)])\s)")
_FRAGMENT = re.compile(r"[,:;()]|\b(?:or|and)\b", re.IGNORECASE)
_LABEL = re.compile(r"^(User|Execution|Error):", re.MULTILINE)

Weights: TypeAlias = Mapping[str, float]
"""Terms with their weights."""
AlternativeByTerm: TypeAlias = Mapping[str, Weights]
"""Terms, each with the term weights of the shortest alternative that contains it, such as "stock prices"."""


class ConditionScore(NamedTuple):
    """The degree to which a condition is met.

    Attributes:
        score: The score, from 0 to 1.
        terms: The contribution of each word of the query or its context to the score; negative for exclusions.
    """

    score: float
    terms: Mapping[str, float]

    @property
    def reason(self) -> str:
        """The words that raised the score, the most important first."""
        terms = sorted(self.terms.items(), key=lambda each: -each[1])
        return ", ".join(f"{term} {value:.2f}" for term, value in terms if value > 0)


def score_conditions(query: str, context: str, conditions: Sequence[str]) -> list[ConditionScore]:
    """Score the degree to which a query meets each condition.

    Args:
        query: The query of the user. Any text is valid.
        context: The context of the query: empty, or lines that begin with "User:", "Execution:" or "Error:", the oldest
            first.
        conditions: The condition of each experience.

    Returns:
        One score for each condition, in their order. Equal arguments have equal results.
    """
    parsed = [_parse_condition(condition) for condition in conditions]
    spellings = {term: word for word, term in _map_words_to_terms(query).items()}
    weights = dict(_weigh_terms(query))
    length = sum(weights.values())
    if length < 1 or FOLLOW_UP.search(_clip_text(query)):
        for term, weight in _weigh_context(query, context):
            weights[term] = max(weights.get(term, 0.0), 0.8 * weight)  # less than the terms of the query
    # For each term of the query, whether each condition contains the term.
    matches = {term: [term in included or term in excluded for included, excluded in parsed] for term in weights}
    # Rarity is computed as among at least 100 conditions. Otherwise, five rules on refunds would make "refund" common.
    total = max(len(parsed), 100)
    rarest = rarity(total, 1)
    term_values = {term: weights[term] * rarity(total, sum(flags)) / rarest for term, flags in matches.items()}
    scored = [ConditionScore(0.0, {})] * len(parsed)
    for index, contained in enumerate(zip(*matches.values(), strict=True)):
        if not any(contained):
            continue
        matched, excluded = (_weigh_matches(term_values, alternatives) for alternatives in parsed[index])
        # An excluded term subtracts from the score only if its value is higher than in the included alternatives.
        stronger = {term: value for term, value in excluded.items() if value > matched.get(term, 0.0)}
        matched |= {term: matched.get(term, 0.0) - 0.8 * value for term, value in stronger.items()}
        evidence = sum(matched.values())
        positive = max(0.0, evidence) / (SHORT_LENGTH + length) ** LENGTH_EXPONENT
        score = positive / (positive + 0.317)  # the value of `positive` for which the score is one half
        reasons = {spellings.get(term, term): value / evidence * score for term, value in matched.items() if score}
        scored[index] = ConditionScore(score, reasons)
    return scored


def mark_best(scores: Sequence[ConditionScore]) -> list[bool]:
    """Mark the conditions with nearly the best score among those that share a matching word.

    A condition needs at least 90 % of the best score.

    Args:
        scores: The result of `score_conditions`.

    Returns:
        True or False for each condition, in their order.
    """
    best: dict[str, float] = {}
    for each in scores:
        best |= {word: max(best.get(word, 0.0), each.score) for word, value in each.terms.items() if value > 0}
    return [
        each.score >= 0.9 * max((best[word] for word, value in each.terms.items() if value > 0), default=0.0)
        for each in scores
    ]


def _weigh_matches(term_values: Weights, alternatives: AlternativeByTerm) -> dict[str, float]:
    """Weigh the query's terms in a condition: less if an alternative matches only in part."""
    matched = {}
    for term in (term for term in term_values if term in alternatives):
        alternative = alternatives[term]
        share = sum(weight for each, weight in alternative.items() if each in term_values) / sum(alternative.values())
        matched[term] = term_values[term] * alternative[term] * share**0.5  # "price" is half of "stock prices"
    return matched


# -- the words of texts --------------------------------------------------------------------------------------------


@lru_cache(maxsize=4_096)
def _parse_condition(condition: str) -> tuple[AlternativeByTerm, AlternativeByTerm]:
    """Return the alternatives that a condition includes, and those that it excludes."""
    included: list[str] = []
    excluded: list[str] = []
    for paragraph in _PARAGRAPH.split(_clip_text(condition)):
        in_list = False  # True in a list that began with "Not for:"
        for piece in _SENTENCE.split(paragraph):
            sentence = " ".join(piece.split())
            negation = NEGATION.search(sentence)
            start, end = (0, 0) if in_list else negation.span() if negation else (len(sentence), len(sentence))
            included.append(sentence[:start])
            excluded.append(sentence[end:])
            in_list = in_list or (negation is not None and sentence.endswith(":"))
    return _find_alternatives(included), _find_alternatives(excluded)


def _find_alternatives(texts: Sequence[str]) -> AlternativeByTerm:
    """Return the terms of some sentences, each with the shortest fragment around it."""
    terms: dict[str, Weights] = {}
    for text in filter(None, texts):
        words = _weigh_terms(text)
        for fragment in (*_FRAGMENT.split(_WORD_BOUNDARY.sub(" ", text)), text):
            weights = {word: words[word] for word in extract_terms(fragment) if word in words}
            terms |= {word: weights for word in weights if word not in terms or len(weights) < len(terms[word])}
    return terms


def _map_words_to_terms(text: str) -> Mapping[str, str]:
    """Return the words of a text with their terms. Names such as `fooBar` are split."""
    return analyze_query(_WORD_BOUNDARY.sub(" ", _clip_text(text))).words


def _weigh_terms(text: str) -> dict[str, float]:
    """Return the terms of a text with their weights."""
    ignored, common = _load_word_lists()
    return {
        term: 0.4 if term in common else 1.0  # a common word weighs less
        for word, term in _map_words_to_terms(text).items()
        if word not in ignored and (len(term) > 1 or not term.isascii() or term.isdigit())
    }


def _clip_text(text: str) -> str:
    """Return a text, or only the beginning and the end of a long one."""
    half = MAX_CHARACTERS // 2
    return text if len(text) <= MAX_CHARACTERS else f"{text[:half]}\n{text[-half:]}"


def _weigh_context(query: str, context: str) -> Iterator[tuple[str, float]]:
    """Yield weighted terms of the previous round: its query and the last lines of errors."""
    first, *labelled = _LABEL.split(context)
    lines = [("User", first), *zip(labelled[::2], labelled[1::2], strict=True)]  # labels alternate with texts
    lines = [(kind, text.strip()) for kind, text in lines if text.strip()][-50:]
    if lines and lines[-1] == ("User", query.strip()):
        lines.pop()
    round_start = max((index for index, (kind, _) in enumerate(lines) if kind == "User"), default=0)
    for kind, text in lines[round_start:]:
        if kind != "Execution":  # an execution status does not contain the topic
            yield from _weigh_terms(text.splitlines()[-1] if kind == "Error" else text).items()


@cache
def _load_word_lists() -> tuple[frozenset[str], frozenset[str]]:
    """Return the ignored words, and the terms of common words."""
    lists = load_data_table("experiences/words.yaml")
    phrasing, common = (" ".join(lists[name]) for name in ("phrasing", "common"))
    return STOP_WORDS.union(phrasing.split()), frozenset(extract_terms(common))
