"""Where each word of some conditions stands, and by what else it is found: words that mean the same, roots, compounds.

Of all candidates together it is known how rare each key is: a word that few conditions have tells much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from langchain_agentmem.experiences.conditions import AKIN, Clause, Said, akin, american, read, root
from langchain_agentmem.search.ranking import rarity

COMPOUND = "~"
"""How keys of what a condition has as several words begin."""
_ROOT = "/"
_LONGEST_KEPT = 3

Keys: TypeAlias = tuple[tuple[str, float], ...]
"""By what a word is found, and what each counts."""


class Place(NamedTuple):
    """Where a key stands."""

    condition: int
    clause: int
    strength: float
    word: str  # of the condition, or "" for several


class Index(NamedTuple):
    """Conditions by their words.

    Attributes:
        met: Where each key stands in what the conditions apply to.
        denied: And in what they do not apply to.
        rare: How rare each key is, 1 for one that a single condition has.
        clauses: The situations of each condition.
        against: Those for which it says that it does not apply.
    """

    met: Mapping[str, Sequence[Place]]
    denied: Mapping[str, Sequence[Place]]
    rare: Mapping[str, float]
    clauses: Sequence[Sequence[Clause]]
    against: Sequence[Sequence[Clause]]


@lru_cache(maxsize=20_000)
def keys_of(word: str) -> Keys:
    """By what a word of a query is found."""
    same = akin(word)
    return (*same, *((COMPOUND + key, worth) for key, worth in same), (_ROOT + root(word), AKIN))


@lru_cache(maxsize=8)
def indexed(conditions: tuple[str, ...]) -> Index:
    """The conditions by their words."""
    every = [read(condition) for condition in conditions]
    met: dict[str, list[Place]] = {}
    denied: dict[str, list[Place]] = {}
    holding: dict[str, set[int]] = {}
    for number, condition in enumerate(every):
        for places, situations in ((met, condition.clauses), (denied, condition.against)):
            for place, clause in enumerate(situations):
                for key, (strength, word) in _found_by(clause.said).items():
                    places.setdefault(key, []).append(Place(number, place, strength, word))
                    holding.setdefault(key, set()).add(number)
    most = rarity(len(every), 1)
    rare = {key: rarity(len(every), len(numbers)) / most for key, numbers in holding.items()}
    return Index(met, denied, rare, [each.clauses for each in every], [each.against for each in every])


def _found_by(clause: Said) -> dict[str, tuple[float, str]]:
    """The keys by which a clause is found, with what each counts and the word that it is of."""
    found: dict[str, tuple[float, str]] = {
        COMPOUND + key: (1.0, next((word for part in parts if (word := american(part)) in clause.words), ""))
        for key, parts in clause.compounds.items()
        if len(parts) <= _LONGEST_KEPT
    }
    for word, strength in clause.words.items():
        found[word] = strength, word
        found[_ROOT + root(word)] = max(found.get(_ROOT + root(word), (0.0, "")), (strength, word))
    for joined, plain in clause.names.items():
        found[joined] = found[plain] = 1.0, ""
    return found
