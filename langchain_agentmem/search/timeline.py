"""Search results in the order of time, without repeats and with both sides of each change.

    fold repeats → mark changes → select the best → sort by time

A *repeat* has only terms of another result by the same speaker, and most of them. A *change* is a pair of results with
statements about the question's subject: one of them denies the other, or the later one has a new number. Changes are
detected by words, so there are false negatives and false positives. Denials are detected in several languages, new
numbers in English alone (`english.toml`). For an ended fact, the database records the fact that ended it.

The module only compares texts and does not read the database. Each result is compared with the best `MAX_COMPARED`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from langchain_agentmem.messages.message import Message
from langchain_agentmem.search import analysis, ranking

if TYPE_CHECKING:
    from langchain_agentmem.search.memory_search import Recollection

Order = Literal["score", "time"]
ORDERS: tuple[Order, ...] = ("score", "time")
"""The orders of results: the best first, or the oldest first."""
_TIME_ANSWERS = frozenset({"course", "summary"})
"""The values of `AnalyzedQuery.answer_kinds` that require results in the order of time."""
MAX_COMPARED = 200
_MAX_CHARS = 3_000  # characters of a text to search for statements
_REPEAT_SHARE = 0.8  # a repeat has at least this share of the other text's terms
_TOPIC_SHARE = 0.25  # a statement on the topic has at least this share of the question's weight
_MIN_TOTAL = 20  # the minimum number of documents for `rarity`, so that common terms in few results keep some weight
_SUBJECT_SHARE = 0.4  # two statements on one subject share at least this part of the shorter one's weight
_MAX_STATEMENTS = 8  # statements to compare in one text, because a pasted table has hundreds
_STATEMENT = re.compile(r"[.!?;,:]+(?:\s|$)|[\u3002\uff01\uff1f\uff1b\uff0c\n]+")


class _Statement(NamedTuple):
    """A part of a sentence.

    Attributes:
        terms: Its terms without stop words and numbers.
        numbers: The terms with digits.
        is_denial: True if the statement denies something.
        is_update: True if the statement says that something is new.
    """

    terms: frozenset[str]
    numbers: frozenset[str]
    is_denial: bool
    is_update: bool


def order_for(question: analysis.AnalyzedQuery) -> Order:
    """Return the order of results for a question.

    The order is "time" for questions about the order of events, a summary, or contradictions.
    """
    return "score" if _TIME_ANSWERS.isdisjoint(question.answer_kinds) else "time"


def order_by_time(found: Sequence[Recollection], question: analysis.AnalyzedQuery, limit: int) -> list[Recollection]:
    """Return the best results on a topic, the oldest first.

    Args:
        found: The results of a search. Results with the same time keep their order.
        question: The question.
        limit: Maximum results.
    """
    places = _places_by_key(sorted(found, key=lambda each: each.created_at))

    def place(each: Recollection) -> int:
        return places[each.namespace, each.kind, each.id]

    folded = _fold_repeats(sorted(found, key=lambda each: -each.score), place)
    compared = _mark_changes(sorted(folded[:MAX_COMPARED], key=place), question)
    return sorted(best_results([*compared, *folded[MAX_COMPARED:]], limit), key=place)


def best_results(found: Sequence[Recollection], limit: int) -> list[Recollection]:
    """Return the best results, in the given order.

    The results of a change are included together or not at all. Only the first change is cut if it exceeds `limit`.

    Args:
        found: The results of a search.
        limit: Maximum results.
    """
    # The places of each result and of the other results of its changes.
    changes: dict[int, list[int]] = {place: [place] for place in range(len(found))}
    for place, successor in _replacements(found).items():
        if successor is not None:
            changes[place].append(successor)
            changes[successor].append(place)
    chosen: dict[int, None] = {}
    for place in sorted(changes, key=lambda place: -found[place].score):
        missing = [each for each in changes[place] if each not in chosen]
        if not chosen or len(chosen) + len(missing) <= limit:
            chosen |= dict.fromkeys(missing[: limit - len(chosen)])
    return [found[place] for place in sorted(chosen)]


def _places_by_key(found: Sequence[Recollection]) -> dict[tuple[object, ...], int]:
    return {(each.namespace, each.kind, each.id): place for place, each in enumerate(found)}


def _replacements(found: Sequence[Recollection]) -> dict[int, int | None]:
    """Map the place of each replaced result to the place of its replacement.

    The value is None if the search did not find the replacement.
    """
    places = _places_by_key(found)
    return {place: places.get((hit.namespace, *hit.replaced_by)) for place, hit in enumerate(found) if hit.replaced_by}


def _fold_repeats(found: Sequence[Recollection], place_of: Callable[[Recollection], int]) -> list[Recollection]:
    """Fold repeats: keep the result with more terms, or the later of two equal ones.

    The kept result lists the other in `also`.
    """
    unique: list[tuple[Recollection, set[str]]] = []
    for each in found:
        terms = set(analysis.extract_terms(each.text))
        for place, (other, other_terms) in enumerate(unique[:MAX_COMPARED]):
            if _is_repeat(terms, other_terms) and _speaker_key(each) == _speaker_key(other):
                other_is_fuller = (len(other_terms), place_of(other)) > (len(terms), place_of(each))
                (kept, repeat), terms = ((other, each), other_terms) if other_is_fuller else ((each, other), terms)
                also = (*kept.also, (repeat.kind, repeat.id), *repeat.also)
                unique[place] = replace(kept, score=max(each.score, other.score), also=also), terms
                break
        else:
            unique.append((each, terms))
    return [each for each, _ in unique]


def _is_repeat(one: set[str], other: set[str]) -> bool:
    fewer, more = sorted((one, other), key=len)
    is_part = len(fewer) >= _REPEAT_SHARE * len(more) > 0 and fewer <= more
    return is_part and analysis.word_list_terms("denials").isdisjoint(more - fewer)


def _speaker_key(each: Recollection) -> tuple[object, ...]:
    value = each.value
    author = (value.role, value.name) if isinstance(value, Message) else ()
    # `replaced_by` distinguishes an ended fact from a valid one.
    return each.namespace, each.kind, each.replaced_by, *author


def _mark_changes(found: Sequence[Recollection], question: analysis.AnalyzedQuery) -> list[Recollection]:
    """Set `replaced_by` on each result that a later one changes.

    The results are given with the oldest first. Both results of a change get the higher of their scores.
    """
    results = list(found)
    known = _replacements(results)
    pairs = [(place, successor) for place, successor in known.items() if successor is not None]
    for _, later, earlier in sorted(_find_changes(results, question), key=lambda pair: (-pair[0], pair[1])):
        if earlier not in known:
            known[earlier] = later
            results[earlier] = replace(results[earlier], replaced_by=(results[later].kind, results[later].id))
            pairs.append((earlier, later))
    for pair in sorted(pairs, key=lambda pair: -max(results[place].score for place in pair)):
        weaker, stronger = sorted(pair, key=lambda place: results[place].score)
        if results[weaker].score < results[stronger].score:
            results[weaker] = results[weaker].with_signals(change=results[stronger].score - results[weaker].score)
    return results


def _find_changes(found: Sequence[Recollection], question: analysis.AnalyzedQuery) -> Iterator[tuple[float, int, int]]:
    """Yield the certainty of each change, and the places of its later and earlier result.

    Each later result is paired with the earlier one that has the most similar statement.
    """
    topic = frozenset(question.terms) - analysis.word_list_terms("talk_words")
    statements = [_statements(each) for each in found]
    counts = Counter(term for group in statements for term in frozenset().union(*(each.terms for each in group)))
    term_weights = {term: ranking.rarity(max(_MIN_TOTAL, len(found)), count) for term, count in counts.items()}

    def weigh(terms: Collection[str]) -> float:
        return sum(term_weights[term] for term in terms)

    def relevance(each: _Statement) -> float:
        return weigh(each.terms & topic)

    threshold = _TOPIC_SHARE * weigh(topic & term_weights.keys())
    relevant = ([each for each in group if each.terms & topic and relevance(each) >= threshold] for group in statements)
    on_topic = [sorted(group, key=relevance)[-_MAX_STATEMENTS:] for group in relevant]
    for later, new_statements in enumerate(on_topic):
        matches = (
            (weigh(new.terms & old.terms) / min(weigh(new.terms), weigh(old.terms)), earlier)
            for earlier in range(later if new_statements else 0)
            if _speaker_key(found[earlier]) == _speaker_key(found[later])
            for old in on_topic[earlier]
            for new in new_statements
            if _is_change(old, new)
        )
        certainty, earlier = max(matches, default=(0.0, 0))
        if certainty >= _SUBJECT_SHARE:
            yield certainty, later, earlier


def _is_change(old: _Statement, new: _Statement) -> bool:
    """Return whether a statement contradicts or updates an older one on the same subject."""
    other_number = new.is_update and old.numbers and new.numbers and old.numbers.isdisjoint(new.numbers)
    return old.is_denial != new.is_denial or bool(other_number)


def _statements(each: Recollection) -> list[_Statement]:
    """Return the statements of a result.

    Only messages of the role "user" have statements, because the explanations of an assistant would match too often.
    Items and facts have none, because the database records their versions.
    """
    if each.kind in {"fact", "item"} or (isinstance(each.value, Message) and each.value.role != analysis.USER):
        return []
    statements = []
    for text in _STATEMENT.split(each.text[:_MAX_CHARS]):
        terms = frozenset(analysis.extract_terms(text))
        numbers = frozenset(term for term in terms if any(map(str.isdigit, term)))
        rest = terms - numbers - analysis.word_list_terms("stop_words") - analysis.word_list_terms("denials")
        if rest:
            flags = (not analysis.word_list_terms(name).isdisjoint(terms) for name in ("denials", "changes"))
            statements.append(_Statement(rest, numbers, *flags))
    return statements
