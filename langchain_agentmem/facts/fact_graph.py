"""The graph of facts: its entities, their neighbours, and the same as a graph of networkx."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from langchain_agentmem.base.argument_checks import check_whole, texts_given
from langchain_agentmem.base.clock import time_given
from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.facts.fact import Entity, Fact, Neighbour, entity_key, maybe_time, predicate_key
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.facts.fact_store import FactView, names_of
from langchain_agentmem.rewinding.memory_rows import FACT
from langchain_agentmem.storage import query

MOST_STEPS = 1_000
"""How many facts a walk may follow one after the other, whatever it is asked for."""
_LAST = "\U0010ffff"


def neighbours(facts: FactView, entity: str, depth: int, when: FactFilter) -> list[Neighbour]:
    """Find what is connected with an entity; see `KGMemory.neighbours`."""
    walk = _Walk(facts, when, entity)
    found: list[Neighbour] = []
    for distance in range(1, depth + 1):
        walk.step()
        if not walk.frontier:
            break
        beyond = map(walk.reached.__getitem__, walk.frontier)
        near = [Neighbour(name=facts.rules.spelled(name), distance=distance, fact=fact) for name, fact in beyond]
        found += sorted(near, key=lambda each: each.name)
    return found


def around_entity(facts: FactView, entity: str, depth: int, when: FactFilter) -> list[Fact]:
    """The facts around an entity."""
    walk = _Walk(facts, when, entity)
    found: dict[str, Fact] = {}
    for _ in range(depth):
        if not walk.frontier:
            break
        found.update((fact.id, fact) for fact in walk.step())
    return sorted(found.values(), key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))


def entities(facts: FactView, prefix: str, most: int) -> list[Entity]:
    """List what facts are about, or name; see `KGMemory.entities`."""
    agreed = facts.rules
    counts: dict[str, int] = defaultdict(int)
    samples: dict[str, str] = {}
    for name, facts_there, sample in _named(facts, entity_key(prefix) if prefix.strip() else ""):
        key = agreed.followed(name)
        counts[key] += facts_there
        if key not in samples or name == key:
            samples[key] = sample
    chosen = sorted(counts)[:most]
    rows = facts.named(FACT, {samples[key] for key in chosen})
    shown: list[Entity] = []
    for key in chosen:
        subject, _, obj = names_of(rows[samples[key]].extra)
        name = next((each for each in (subject, obj) if agreed.canonical(each) == key), key)
        others = sorted({a.name for a in agreed.aliases.values() if a.merged and agreed.canonical(a.name) == key})
        shown.append(Entity(name=agreed.spelled(name), aliases=tuple(others), facts=counts[key]))
    return shown


def _named(facts: FactView, low: str) -> list[tuple[str, int, str]]:
    """The names in facts that begin so, how many facts name each, and one of these."""
    if facts.view.scope is None:
        rows = query.entities_named(facts.tx, **facts.view.parameters(), kind=FACT, low=low, high=low + _LAST)
        return [(row["name"], row["facts"], row["sample"]) for row in rows]
    found: dict[str, list[str]] = defaultdict(list)
    for kept in facts.every(FACT):
        subject, _, obj = names_of(kept.extra)
        for name in {entity_key(subject), entity_key(obj)}:
            if name.startswith(low):
                found[name].append(kept.key)
    return [(name, len(keys), min(keys)) for name, keys in sorted(found.items())]


def as_networkx(facts: Iterable[Fact]) -> Any:
    """Facts as a graph of networkx: entities are nodes, and facts are edges with their fields.

    Args:
        facts: The facts.

    Raises:
        MissingExtra: networkx is not installed.
    """
    try:
        import networkx as nx  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("A graph of networkx", "graph") from error
    graph = nx.MultiDiGraph()
    for fact in facts:
        graph.add_edge(fact.subject, fact.object, key=fact.id, **fact.to_dict())
    return graph


def most_steps(name: str, wanted: Any) -> int:
    """How many facts a walk may follow one after the other."""
    check_whole(name, wanted, 1)
    return min(int(wanted), MOST_STEPS)


class FactFilter:
    """The facts that count on a walk: those with some predicates, that held at a time, as was known at another."""

    def __init__(
        self, ground: FactsGround, predicates: Sequence[str] | None, valid: datetime | None, recorded: datetime | None
    ) -> None:
        wanted = None if predicates is None else texts_given(predicates, "Predicates")
        self.predicates = None if wanted is None else [predicate_key(each) for each in wanted]
        self.at = ground.now() if valid is None else time_given(valid, "valid")
        self.recorded = maybe_time(recorded, "recorded")


class _Reached(NamedTuple):
    """An entity that a walk reached: its name, and the fact that led to it."""

    name: str
    fact: Fact


class _Walk:
    """A walk from an entity along the facts that held then, whichever way they point, one step at a time.

    Attributes:
        reached: The entities that it came to, by their keys; not where it began.
        frontier: Those that the last step came to.
    """

    def __init__(self, facts: FactView, when: FactFilter, start: str) -> None:
        self._facts, self._when = facts, when
        self.frontier = {facts.rules.canonical(start)}
        self._start = frozenset(self.frontier)
        self.reached: dict[str, _Reached] = {}

    def step(self) -> list[Fact]:
        """Follow the facts that name the entities of the frontier. Returns them."""
        when, agreed, beyond = self._when, self._facts.rules, set[str]()
        keys = agreed.keys_of(self.frontier)
        former = when.recorded is not None
        found = self._facts.about(subjects=keys, predicates=when.predicates, former=former)
        found |= self._facts.about(objects=keys, predicates=when.predicates, former=former)
        facts = self._facts.settled(found, when.recorded, whole=self.frontier, at=when.at)
        for fact in facts:
            for name, other in ((fact.object, fact.subject), (fact.subject, fact.object)):
                key = agreed.canonical(name)
                if agreed.canonical(other) in self.frontier and key not in self.reached and key not in self._start:
                    self.reached[key] = _Reached(name, fact)
                    beyond.add(key)
        self.frontier = beyond
        return facts
