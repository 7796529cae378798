"""Results in the order of time: repeats are folded, and changes have both sides.

    fold → changes → the best → by time

A *repeat* says nothing new compared with another text of the same speaker. A *change* is two statements about the
question's subject: one of them denies the other, or the later has a new number. Changes are detected by words, so there
are false negatives and false positives. Denials are detected in several languages, new numbers in English alone
(`english.toml`). For facts, the database records the fact that ended them.

The module is pure arithmetic over texts. Each result is compared with the best `MOST_COMPARED`.
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
_OF_TIME = frozenset({"course", "summary"})
"""The kinds of answer that need the evidence of a topic in the order of time."""
MOST_COMPARED = 200
_LONGEST = 3_000  # characters of a text in which statements are looked for
_ALIKE = 0.8  # two texts of which one repeats the other share so many of all their terms
_ABOUT = 0.25  # a statement about the question holds so much of it
_FEW = 20  # with so few results, a term in all of them counts nearly as much as one in some
_SAME = 0.4  # two statements about the same share so much of the shorter one
_MOST_STATEMENTS = 8  # of a text that are compared with those of others: a pasted table has hundreds
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
    return "score" if _OF_TIME.isdisjoint(question.asks_for) else "time"


def in_time(found: Sequence[Recollection], question: analysis.AnalyzedQuery, limit: int) -> list[Recollection]:
    """Return the evidence of a topic, the oldest first.

    Args:
        found: The results of a search. Results of the same time keep this order.
        question: The question.
        limit: Maximum results.
    """
    places = _places(sorted(found, key=lambda each: each.created_at))

    def place(each: Recollection) -> int:
        return places[each.namespace, each.kind, each.id]

    folded = _folded(sorted(found, key=lambda each: -each.score), place)
    compared = _changed(sorted(folded[:MOST_COMPARED], key=place), question)
    return sorted(best([*compared, *folded[MOST_COMPARED:]], limit), key=place)


def best(found: Sequence[Recollection], limit: int) -> list[Recollection]:
    """Return the best of some results, in the order in which they are given.

    The results contain both sides of a change, or none. If `limit` has room for one only, they contain one side.

    Args:
        found: The results of a search.
        limit: Maximum results.
    """
    sides: dict[int, list[int]] = {place: [place] for place in range(len(found))}
    for place, by in _replaced(found).items():
        if by is not None:
            sides[place].append(by)
            sides[by].append(place)
    chosen: dict[int, None] = {}
    for place in sorted(sides, key=lambda place: -found[place].score):
        together = [each for each in sides[place] if each not in chosen]
        if not chosen or len(chosen) + len(together) <= limit:
            chosen |= dict.fromkeys(together[: limit - len(chosen)])
    return [found[place] for place in sorted(chosen)]


def _places(found: Sequence[Recollection]) -> dict[tuple[object, ...], int]:
    return {(each.namespace, each.kind, each.id): place for place, each in enumerate(found)}


def _replaced(found: Sequence[Recollection]) -> dict[int, int | None]:
    """Map the place of each replaced result to that of its replacement.

    None where the search did not find the replacement.
    """
    places = _places(found)
    return {
        place: places.get((each.namespace, *each.replaced_by))
        for place, each in enumerate(found)
        if each.replaced_by is not None
    }


def _folded(found: Sequence[Recollection], place_of: Callable[[Recollection], int]) -> list[Recollection]:
    """Fold repeats: keep the fuller of two results, or the later of equals.

    The result that is kept names the other in `also`.
    """
    kept: list[tuple[Recollection, set[str]]] = []
    for each in found:
        terms = set(analysis.terms(each.text))
        for place, (other, there) in enumerate(kept[:MOST_COMPARED]):
            if _repeat(terms, there) and _speaker(each) == _speaker(other):
                is_other = (len(there), place_of(other)) > (len(terms), place_of(each))
                (first, second), terms = ((other, each), there) if is_other else ((each, other), terms)
                also = (*first.also, (second.kind, second.id), *second.also)
                kept[place] = replace(first, score=max(each.score, other.score), also=also), terms
                break
        else:
            kept.append((each, terms))
    return [each for each, _ in kept]


def _repeat(one: set[str], other: set[str]) -> bool:
    fewer, more = sorted((one, other), key=len)
    is_part = len(fewer) >= _ALIKE * len(more) > 0 and fewer <= more
    return is_part and analysis.terms_of("denials").isdisjoint(more - fewer)


def _speaker(each: Recollection) -> tuple[object, ...]:
    value = each.value
    who = (value.role, value.name) if isinstance(value, Message) else ()
    return each.namespace, each.kind, each.replaced_by, *who  # a fact that has ended is no repeat of a valid one


def _changed(found: Sequence[Recollection], question: analysis.AnalyzedQuery) -> list[Recollection]:
    """Set `replaced_by` on results that a later one replaced, given the oldest first.

    Both sides of a change get the higher of their scores.
    """
    given = list(found)
    known = _replaced(given)
    pairs = [(place, by) for place, by in known.items() if by is not None]
    for _, later, earlier in sorted(_pairs(given, question), key=lambda pair: (-pair[0], pair[1])):
        if earlier not in known:
            known[earlier] = later
            given[earlier] = replace(given[earlier], replaced_by=(given[later].kind, given[later].id))
            pairs.append((earlier, later))
    for pair in sorted(pairs, key=lambda pair: -max(given[place].score for place in pair)):
        least, most = sorted(pair, key=lambda place: given[place].score)
        if given[least].score < given[most].score:
            given[least] = given[least].more(change=given[most].score - given[least].score)
    return given


def _pairs(given: Sequence[Recollection], question: analysis.AnalyzedQuery) -> Iterator[tuple[float, int, int]]:
    """Yield the certainty of each change, its later place, and its earlier place.

    The earlier result is the one that shares the most with the later one.
    """
    topic = frozenset(question.terms) - analysis.terms_of("talk_words")
    said = [_statements(each) for each in given]
    holding = Counter(term for some in said for term in frozenset().union(*(each.terms for each in some)))
    worth = {term: ranking.rarity(max(_FEW, len(given)), count) for term, count in holding.items()}

    def weigh(terms: Collection[str]) -> float:
        return sum(worth[term] for term in terms)

    def relevance(each: _Statement) -> float:
        return weigh(each.terms & topic)

    least = _ABOUT * weigh(topic & worth.keys())
    relevant = ([each for each in some if each.terms & topic and relevance(each) >= least] for some in said)
    about = [sorted(some, key=relevance)[-_MOST_STATEMENTS:] for some in relevant]
    for later, new in enumerate(about):
        alike = (
            (weigh(one.terms & other.terms) / min(weigh(one.terms), weigh(other.terms)), earlier)
            for earlier in range(later if new else 0)
            if _speaker(given[earlier]) == _speaker(given[later])
            for other in about[earlier]
            for one in new
            if _differ(other, one)
        )
        sure, earlier = max(alike, default=(0.0, 0))
        if sure >= _SAME:
            yield sure, later, earlier


def _differ(old: _Statement, new: _Statement) -> bool:
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
    for text in _STATEMENT.split(each.text[:_LONGEST]):
        terms = frozenset(analysis.terms(text))
        numbers = frozenset(term for term in terms if any(map(str.isdigit, term)))
        rest = terms - numbers - analysis.terms_of("stop_words") - analysis.terms_of("denials")
        if rest:
            denies, changes = (not analysis.terms_of(name).isdisjoint(terms) for name in ("denials", "changes"))
            found.append(_Statement(rest, numbers, denies, changes))
    return found
