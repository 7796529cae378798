"""Search results in the order of time, without repeats, and with the old and the new statement of each change.

    merge repeats → mark changes → select the best → sort by time

A *repeat* is a result whose terms are all in another result by the same speaker, and are at least 80% of the terms of
the other result. A *change* is a pair of results with statements about the subject of the query: one statement denies
the other, or the later statement has a new number. Changes are detected by words, so there are false negatives and
false positives. Denials are detected in several languages, new numbers in English only (`english.toml`). For facts, the
database records which fact replaced another.

The module compares texts and does not read the database. Each result is compared with at most `MAX_COMPARED` others.
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
_TIMELINE_KINDS = frozenset({"course", "summary"})
"""The values of `AnalyzedQuery.answer_kinds` that require the order of time ("course": a development)."""
MAX_COMPARED = 200
"""Maximum results to compare with each other, the best ones."""
_MAX_CHARS = 3_000  # maximum characters of a text that are split into statements
_REPEAT_SHARE = 0.8  # a repeat has at least this share of the other text's terms
_TOPIC_SHARE = 0.25  # a statement on the topic has terms with at least this share of the query's total weight
_MIN_DOCUMENTS = 20  # minimum `documents` for `rarity`, so that common terms in few results keep some weight
_SUBJECT_SHARE = 0.4  # statements on one subject share terms with at least this part of the weight of one of them
_MAX_STATEMENTS = 8  # maximum statements to compare in one text, because a pasted table has hundreds
_STATEMENT_END = re.compile(r"[.!?;,:]+(?:\s|$)|[\u3002\uff01\uff1f\uff1b\uff0c\n]+")


class _Statement(NamedTuple):
    """A part of a sentence, between punctuation marks.

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


def choose_order(query: analysis.AnalyzedQuery) -> Order:
    """Return the order of results for a query.

    The order is "time" for queries about a development, a contradiction or a summary.
    """
    return "score" if _TIMELINE_KINDS.isdisjoint(query.answer_kinds) else "time"


def order_by_time(results: Sequence[Recollection], query: analysis.AnalyzedQuery, limit: int) -> list[Recollection]:
    """Merge repeats, mark changes, and return the best results, the oldest first.

    Args:
        results: The results of a search. Results with the same time keep their order.
        query: The analyzed query.
        limit: Maximum results.
    """
    time_ranks = _indexes_by_key(sorted(results, key=lambda result: result.created_at))

    def time_rank(result: Recollection) -> int:
        return time_ranks[result.namespace, result.kind, result.id]

    merged = _merge_repeats(sorted(results, key=lambda result: -result.score), time_rank)
    compared = _mark_changes(sorted(merged[:MAX_COMPARED], key=time_rank), query)
    return sorted(select_best([*compared, *merged[MAX_COMPARED:]], limit), key=time_rank)


def select_best(results: Sequence[Recollection], limit: int) -> list[Recollection]:
    """Return the best results, in the order of `results`.

    The results of a change are included together or not at all, except that the change with the best score is cut if
    it has more than `limit` results.

    Args:
        results: The results of a search.
        limit: Maximum results.
    """
    # For each index: the index itself, and the indexes of the results that replaced this result or that it replaced.
    groups: dict[int, list[int]] = {index: [index] for index in range(len(results))}
    for index, successor in _replacements(results).items():
        if successor is not None:
            groups[index].append(successor)
            groups[successor].append(index)
    selected: dict[int, None] = {}
    for index in sorted(groups, key=lambda index: -results[index].score):
        missing = [other for other in groups[index] if other not in selected]
        if not selected or len(selected) + len(missing) <= limit:
            selected |= dict.fromkeys(missing[: limit - len(selected)])
    return [results[index] for index in sorted(selected)]


def _indexes_by_key(results: Sequence[Recollection]) -> dict[tuple[object, ...], int]:
    return {(result.namespace, result.kind, result.id): index for index, result in enumerate(results)}


def _replacements(results: Sequence[Recollection]) -> dict[int, int | None]:
    """Map the index of each replaced result to the index of its replacement.

    The value is None if the search did not find the replacement.
    """
    indexes = _indexes_by_key(results)
    return {i: indexes.get((each.namespace, *each.replaced_by)) for i, each in enumerate(results) if each.replaced_by}


def _merge_repeats(results: Sequence[Recollection], time_rank: Callable[[Recollection], int]) -> list[Recollection]:
    """Merge repeats: keep the result with more terms, or the later of two equal ones.

    The kept result lists the other in `also`.
    """
    unique: list[tuple[Recollection, set[str]]] = []
    for result in results:
        terms = set(analysis.extract_terms(result.text))
        for index, (other, other_terms) in enumerate(unique[:MAX_COMPARED]):
            if _is_repeat(terms, other_terms) and _comparison_key(result) == _comparison_key(other):
                pairs = ((other, other_terms), (result, terms))
                (repeat, _), (kept, kept_terms) = sorted(pairs, key=lambda pair: (len(pair[1]), time_rank(pair[0])))
                also = (*kept.also, (repeat.kind, repeat.id), *repeat.also)
                unique[index] = replace(kept, score=max(result.score, other.score), also=also), kept_terms
                break
        else:
            unique.append((result, terms))
    return [result for result, _ in unique]


def _is_repeat(terms: set[str], other_terms: set[str]) -> bool:
    fewer, more = sorted((terms, other_terms), key=len)
    is_part = len(fewer) >= _REPEAT_SHARE * len(more) > 0 and fewer <= more
    return is_part and analysis.word_list_terms("denials").isdisjoint(more - fewer)


def _comparison_key(result: Recollection) -> tuple[object, ...]:
    """Return a key that is equal for results that may be repeats or changes of each other."""
    value = result.value
    author = (value.role, value.name) if isinstance(value, Message) else ()
    # `replaced_by` distinguishes an ended fact from a valid one.
    return result.namespace, result.kind, result.replaced_by, *author


def _mark_changes(merged: Sequence[Recollection], query: analysis.AnalyzedQuery) -> list[Recollection]:
    """Set `replaced_by` on each result that a later one changes.

    `merged` begins with the oldest result. Both results of a change get the higher of their scores.
    """
    results = list(merged)
    replacements = _replacements(results)
    pairs = [(index, successor) for index, successor in replacements.items() if successor is not None]
    for _, later, earlier in sorted(_find_changes(results, query), key=lambda change: (-change[0], change[1])):
        if earlier not in replacements:
            replacements[earlier] = later
            results[earlier] = replace(results[earlier], replaced_by=(results[later].kind, results[later].id))
            pairs.append((earlier, later))
    for pair in sorted(pairs, key=lambda pair: -max(results[index].score for index in pair)):
        weaker, stronger = sorted(pair, key=lambda index: results[index].score)
        if results[weaker].score < results[stronger].score:
            results[weaker] = results[weaker].with_signals(change=results[stronger].score - results[weaker].score)
    return results


def _find_changes(results: Sequence[Recollection], query: analysis.AnalyzedQuery) -> Iterator[tuple[float, int, int]]:
    """Yield the certainty of each change, and the indexes of its later and its earlier result.

    Each later result is paired with the earlier one that has the most similar contradicting statement.
    """
    # Words about the conversation itself, such as "mentioned", are no topic.
    topic = frozenset(query.terms) - analysis.word_list_terms("talk_words")
    statements = [_extract_statements(result) for result in results]
    counts = Counter(term for group in statements for term in frozenset().union(*(each.terms for each in group)))
    term_weights = {term: ranking.rarity(max(_MIN_DOCUMENTS, len(results)), count) for term, count in counts.items()}

    def weigh(terms: Collection[str]) -> float:
        return sum(term_weights[term] for term in terms)

    def relevance(statement: _Statement) -> float:
        return weigh(statement.terms & topic)

    threshold = _TOPIC_SHARE * weigh(topic & term_weights.keys())
    relevant = ([each for each in group if each.terms & topic and relevance(each) >= threshold] for group in statements)
    on_topic = [sorted(group, key=relevance)[-_MAX_STATEMENTS:] for group in relevant]
    for later, new_statements in enumerate(on_topic):
        matches = (
            (weigh(new.terms & old.terms) / min(weigh(new.terms), weigh(old.terms)), earlier)
            for earlier in range(later if new_statements else 0)
            if _comparison_key(results[earlier]) == _comparison_key(results[later])
            for old in on_topic[earlier]
            for new in new_statements
            if _is_change(old, new)
        )
        certainty, earlier = max(matches, default=(0.0, 0))
        if certainty >= _SUBJECT_SHARE:
            yield certainty, later, earlier


def _is_change(old: _Statement, new: _Statement) -> bool:
    """Return whether a statement contradicts or updates an older one on the same subject."""
    has_new_number = new.is_update and old.numbers and new.numbers and old.numbers.isdisjoint(new.numbers)
    return old.is_denial != new.is_denial or bool(has_new_number)


def _extract_statements(result: Recollection) -> list[_Statement]:
    """Return the statements of a result.

    Facts and items have none, since the database records their versions. Only messages of the user have statements,
    since an assistant's explanations would match too often.
    """
    if result.kind in {"fact", "item"} or (isinstance(result.value, Message) and result.value.role != analysis.USER):
        return []
    statements = []
    for text in _STATEMENT_END.split(result.text[:_MAX_CHARS]):
        terms = frozenset(analysis.extract_terms(text))
        numbers = frozenset(term for term in terms if any(map(str.isdigit, term)))
        rest = terms - numbers - analysis.word_list_terms("stop_words") - analysis.word_list_terms("denials")
        if rest:
            flags = (not analysis.word_list_terms(name).isdisjoint(terms) for name in ("denials", "changes"))
            statements.append(_Statement(rest, numbers, *flags))
    return statements
