"""Results in the order of time: repeats are folded, and changes have both sides.

    fold → changes → the best → by time

A *repeat* says nothing new compared with another text of the same speaker. A *change* is two statements about the
question's subject: one of them denies the other, or the later has a new number. Changes are detected by words, so there
are false negatives and false positives. Denials are detected in several languages, new numbers in English alone
(`english.toml`). For facts, the database records the fact that ended them.

The module is pure arithmetic over texts. Each result is compared with the best `MAX_COMPARED`.
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
"""The kinds of answer that need the evidence of a topic in the order of time."""
MAX_COMPARED = 200
_MAX_CHARS = 3_000  # characters of a text in which statements are looked for
_REPEAT_SHARE = 0.8  # two texts of which one repeats the other share so many of all their terms
_TOPIC_SHARE = 0.25  # a statement about the question holds so much of it
_MIN_TOTAL = 20  # with so few results, a term in all of them counts nearly as much as one in some
_SUBJECT_SHARE = 0.4  # two statements about the same share so much of the shorter one
_MAX_STATEMENTS = 8  # of a text that are compared with those of others: a pasted table has hundreds
_STATEMENT = re.compile(r"[.!?;,:]+(?:\s|$)|[\u3002\uff01\uff1f\uff1b\uff0c\n]+")


class _Statement(NamedTuple):
    """A part of a sentence.

    Attributes:
        terms: Its terms without stop words and numbers.
        numbers: The terms with digits.
        denies: True if the statement contains a denial.
        changes: True if the statement says that something is new.
    """

    terms: frozenset[str]
    numbers: frozenset[str]
    denies: bool
    changes: bool


def order_for(question: analysis.AnalyzedQuery) -> Order:
    """Return the order that suits a question.

    "time" suits questions about the order of events, a summary, or contradictions.
    """
    return "score" if _TIME_ANSWERS.isdisjoint(question.answer_kinds) else "time"


def order_by_time(found: Sequence[Recollection], question: analysis.AnalyzedQuery, limit: int) -> list[Recollection]:
    """Return the evidence of a topic, the oldest first.

    Args:
        found: The results of a search. Results of the same time keep this order.
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
    """Return the best of some results, in the order in which they are given.

    The results contain both sides of a change, or none. If `limit` has room for one only, they contain one side.

    Args:
        found: The results of a search.
        limit: Maximum results.
    """
    sides: dict[int, list[int]] = {place: [place] for place in range(len(found))}
    for place, successor in _replacements(found).items():
        if successor is not None:
            sides[place].append(successor)
            sides[successor].append(place)
    chosen: dict[int, None] = {}
    for place in sorted(sides, key=lambda place: -found[place].score):
        sides_left = [each for each in sides[place] if each not in chosen]
        if not chosen or len(chosen) + len(sides_left) <= limit:
            chosen |= dict.fromkeys(sides_left[: limit - len(chosen)])
    return [found[place] for place in sorted(chosen)]


def _places_by_key(found: Sequence[Recollection]) -> dict[tuple[object, ...], int]:
    return {(each.namespace, each.kind, each.id): place for place, each in enumerate(found)}


def _replacements(found: Sequence[Recollection]) -> dict[int, int | None]:
    """Map the place of each replaced result to that of its replacement.

    None where the search did not find the replacement.
    """
    places = _places_by_key(found)
    return {
        place: places.get((each.namespace, *each.replaced_by))
        for place, each in enumerate(found)
        if each.replaced_by is not None
    }


def _fold_repeats(found: Sequence[Recollection], place_of: Callable[[Recollection], int]) -> list[Recollection]:
    """Fold repeats: keep the fuller of two results, or the later of equals.

    The result that is kept names the other in `also`.
    """
    unique: list[tuple[Recollection, set[str]]] = []
    for each in found:
        terms = set(analysis.extract_terms(each.text))
        for place, (other, other_terms) in enumerate(unique[:MAX_COMPARED]):
            if _is_repeat(terms, other_terms) and _speaker_key(each) == _speaker_key(other):
                is_other = (len(other_terms), place_of(other)) > (len(terms), place_of(each))
                (first, second), terms = ((other, each), other_terms) if is_other else ((each, other), terms)
                also = (*first.also, (second.kind, second.id), *second.also)
                unique[place] = replace(first, score=max(each.score, other.score), also=also), terms
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
    return each.namespace, each.kind, each.replaced_by, *author  # a fact that has ended is no repeat of a valid one


def _mark_changes(found: Sequence[Recollection], question: analysis.AnalyzedQuery) -> list[Recollection]:
    """Set `replaced_by` on results that a later one replaced, given the oldest first.

    Both sides of a change get the higher of their scores.
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
        least, most = sorted(pair, key=lambda place: results[place].score)
        if results[least].score < results[most].score:
            results[least] = results[least].with_signals(change=results[most].score - results[least].score)
    return results


def _find_changes(
    results: Sequence[Recollection], question: analysis.AnalyzedQuery
) -> Iterator[tuple[float, int, int]]:
    """Yield the certainty of each change, its later place, and its earlier place.

    The earlier result is the one that shares the most with the later one.
    """
    topic = frozenset(question.terms) - analysis.word_list_terms("talk_words")
    statements = [_statements(each) for each in results]
    counts = Counter(term for some in statements for term in frozenset().union(*(each.terms for each in some)))
    term_weights = {term: ranking.rarity(max(_MIN_TOTAL, len(results)), count) for term, count in counts.items()}

    def weigh(terms: Collection[str]) -> float:
        return sum(term_weights[term] for term in terms)

    def relevance(each: _Statement) -> float:
        return weigh(each.terms & topic)

    least = _TOPIC_SHARE * weigh(topic & term_weights.keys())
    relevant = ([each for each in some if each.terms & topic and relevance(each) >= least] for some in statements)
    on_topic = [sorted(some, key=relevance)[-_MAX_STATEMENTS:] for some in relevant]
    for later, new in enumerate(on_topic):
        matches = (
            (weigh(one.terms & other.terms) / min(weigh(one.terms), weigh(other.terms)), earlier)
            for earlier in range(later if new else 0)
            if _speaker_key(results[earlier]) == _speaker_key(results[later])
            for other in on_topic[earlier]
            for one in new
            if _is_change(other, one)
        )
        certainty, earlier = max(matches, default=(0.0, 0))
        if certainty >= _SUBJECT_SHARE:
            yield certainty, later, earlier


def _is_change(old: _Statement, new: _Statement) -> bool:
    """Return true if a statement differs from an earlier one on the same subject."""
    other_number = new.changes and old.numbers and new.numbers and old.numbers.isdisjoint(new.numbers)
    return old.denies != new.denies or bool(other_number)


def _statements(each: Recollection) -> list[_Statement]:
    """Return the statements of a result.

    Messages of other roles than the user have none, since an assistant explains. Items and facts have none, since they
    have their own versions.
    """
    if each.kind in {"fact", "item"} or (isinstance(each.value, Message) and each.value.role != analysis.USER):
        return []
    found = []
    for text in _STATEMENT.split(each.text[:_MAX_CHARS]):
        terms = frozenset(analysis.extract_terms(text))
        numbers = frozenset(term for term in terms if any(map(str.isdigit, term)))
        rest = terms - numbers - analysis.word_list_terms("stop_words") - analysis.word_list_terms("denials")
        if rest:
            denies, changes = (not analysis.word_list_terms(name).isdisjoint(terms) for name in ("denials", "changes"))
            found.append(_Statement(rest, numbers, denies, changes))
    return found
