"""What `memory.search` finds: one search over every kind of thing that is kept, and what each hit is to the user.

A new kind is found when it is named here: its texts, for when the index is made anew, and its recollections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from langchain_agentmem.audit import audit_source as audit
from langchain_agentmem.conversations import message_source as messages
from langchain_agentmem.facts import fact_source as facts
from langchain_agentmem.rewinding import outlook as layers
from langchain_agentmem.rewinding.outlook import EVERYWHERE, Outlook
from langchain_agentmem.search import analysis
from langchain_agentmem.search.memory_search import Hit, Inquiry, Recollection, Walls, search
from langchain_agentmem.search.ranking import WEIGHTS, Weights
from langchain_agentmem.search.search_index import TextsOf
from langchain_agentmem.search.vectors import Near
from langchain_agentmem.storage import Steps
from langchain_agentmem.stores import item_source as items

MORE = 5
"""So many times the hits that were asked for are read, where reading them may change their order."""

RecollectionsOf: TypeAlias = Callable[[Sequence[Hit], int, Outlook], Steps[Mapping[int, Recollection]]]
"""Gives what some hits are, at a time and seen from somewhere, by the numbers of their documents."""

TEXTS: Mapping[str, TextsOf] = MappingProxyType(
    {
        "audit": audit.texts,
        "event": layers.texts,
        "fact": layers.texts,
        "fact_text": layers.texts,
        "item": items.texts,
        "message": messages.texts,
        "record": layers.texts,
        "thread_item": items.rewound_texts,
        "thread_post": layers.texts,
    }
)
RECOLLECTIONS: Mapping[str, RecollectionsOf] = MappingProxyType(
    {
        "audit": lambda hits, now, _: audit.recollections(hits, now),
        "event": layers.recollections,
        "fact": facts.recollections,
        "fact_text": facts.recollections,
        "item": lambda hits, now, _: items.recollections(hits, now),
        "message": lambda hits, now, _: messages.recollections(hits, now),
        "record": layers.recollections,
        "thread_item": items.rewound_recollections,
        "thread_post": messages.rewound_recollections,
    }
)
USUAL_KINDS = ("event", "fact", "item", "message", "record")
"""What a user looks for who names no kinds. The audit trail repeats what messages say, so it must be asked for."""
KINDS = ("audit", *USUAL_KINDS)
"""What a user can look for."""
_STORED_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"fact": ("fact", "fact_text"), "item": ("item", "thread_item"), "message": ("message", "thread_post")}
)


def stored_as(kinds: Sequence[str] | None) -> tuple[str, ...]:
    """The kinds by which the index knows what a user looks for: what follows a thread has kinds of its own.

    Args:
        kinds: Some of `KINDS`; None for `USUAL_KINDS`.
    """
    wanted = USUAL_KINDS if kinds is None else kinds
    return tuple(each for kind in wanted for each in _STORED_AS.get(kind, (kind,)))


def find(
    asked: Inquiry,
    walls: Walls,
    *,
    limit: int,
    weights: Weights = WEIGHTS,
    dense: Near | None = None,
    outlook: Outlook | None = None,
) -> Steps[list[Recollection]]:
    """Find what answers a query best, whatever its kind.

    Args:
        asked: The query, analysed.
        walls: Where to look.
        limit: Most results.
        weights: How much each signal counts.
        dense: The question's vector, where there are embeddings.
        outlook: From where it looks. Default: from nowhere in particular.
    """
    if limit == 0 or (walls.kinds is not None and not walls.kinds):
        return []
    outlook = yield from (outlook or EVERYWHERE).looked(asked.now)
    phrases = asked.question.phrases
    many = limit * MORE if phrases or weights.diversity else limit
    while True:
        hits = yield from search(asked, walls, limit=many, weights=weights, dense=dense)
        given: dict[int, Recollection] = {}
        for kind in sorted({hit.kind for hit in hits}):
            mine = [hit for hit in hits if hit.kind == kind]
            given.update((yield from RECOLLECTIONS[kind](mine, asked.now, outlook)))
        found = [given[hit.document] for hit in hits if hit.document in given]
        if len(found) >= limit or len(hits) < many:
            break
        many *= MORE  # some of them have expired, or cannot be seen from here
    if phrases:
        found = [_with_phrases(each, phrases, weights.phrase) for each in found]
        found.sort(key=lambda each: -each.score)
    return _different(found, limit, weights.diversity) if weights.diversity else found[:limit]


def _different(found: Sequence[Recollection], limit: int, weight: float) -> list[Recollection]:
    """The best of what does not say the same as a better one."""
    left = [(each, set(analysis.terms(each.text))) for each in found]
    losses = [0.0] * len(left)
    kept: list[Recollection] = []
    while left and len(kept) < limit:
        best = max(range(len(left)), key=lambda place: left[place][0].score - losses[place])
        each, terms = left.pop(best)
        loss = losses.pop(best)
        kept.append(each.more(diversity=-loss) if loss else each)
        losses = [max(old, weight * _alike(terms, other)) for old, (_, other) in zip(losses, left, strict=True)]
    return kept


def _alike(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


def _with_phrases(each: Recollection, phrases: Sequence[Sequence[str]], weight: float) -> Recollection:
    """A result that holds what stands in quotation marks in the query, word by word, is worth more."""
    text = " ".join(analysis.terms(each.text))
    held = sum(f" {' '.join(phrase)} " in f" {text} " for phrase in phrases) / len(phrases)
    return each.more(phrase=weight * held) if held else each
