"""The graph of facts: its entities, their neighbours, and the same as a graph of networkx."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from langchain_agentmem.base.argument_checks import check_whole, limit_given, text_given, texts_given
from langchain_agentmem.base.clock import time_given
from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import Entity, Fact, Neighbour, entity_key, predicate_key
from langchain_agentmem.facts.fact_events import Rules, rules_in
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.facts.fact_queries import matching
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import listed
from langchain_agentmem.rewinding.memory_rows import FACT, View
from langchain_agentmem.storage import Transaction, query

MOST_STEPS = 1_000
"""How many facts a walk may follow one after the other, whatever it is asked for."""
_LAST = "\U0010ffff"


def neighbours(ground: FactsGround, entity: str, depth: int, when: FactFilter) -> list[Neighbour]:
    """Find what is connected with an entity; see `KGMemory.neighbours`."""
    text_given(entity, "An entity")
    most = _most_steps("depth", depth)

    def look(tx: Transaction, view: View) -> list[Neighbour]:
        agreed = rules_in(tx, view)
        walk = _Walk(view, agreed, when, entity)
        found: list[Neighbour] = []
        for distance in range(1, most + 1):
            walk.step(tx)
            beyond = [
                Neighbour(name=agreed.spelled(each.name), distance=distance, fact=each.fact)
                for each in map(walk.reached.__getitem__, walk.frontier)
                if each is not None
            ]
            found += sorted(beyond, key=lambda each: each.name)
            if not beyond:
                break
        return found

    def near(each: Neighbour) -> dict[str, Any]:
        return {"name": each.name, "distance": each.distance, "fact_id": each.fact.id}

    told = partial(listed, "neighbours", show=near)
    return ground.read("facts.neighbours", look, outputs=told, entity=entity, depth=depth)


def entities(ground: FactsGround, prefix: str, limit: int | None) -> list[Entity]:
    """List what facts are about, or name; see `KGMemory.entities`."""
    text_given(prefix, "A prefix")
    most = limit_given(limit)

    def look(tx: Transaction, view: View) -> list[Entity]:
        agreed = rules_in(tx, view)
        low = entity_key(prefix) if prefix.strip() else ""
        counts: dict[str, int] = {}
        samples: dict[str, str] = {}
        for name, facts_there, sample in _entities(tx, view, low):
            key = agreed.followed(name)
            counts[key] = counts.get(key, 0) + facts_there
            if key not in samples or name == key:
                samples[key] = sample
        chosen = sorted(counts)[:most]
        facts = memory_rows.named(tx, view, FACT, sorted({samples[key] for key in chosen}))
        shown: list[Entity] = []
        for key in chosen:
            state = fact_store.state_of(facts[samples[key]].extra)
            spelled = (state.subject, state.object)
            name = next((each for each in spelled if agreed.canonical(each) == key), key)
            others = sorted({a.name for a in agreed.aliases.values() if a.merged and agreed.canonical(a.name) == key})
            shown.append(Entity(name=agreed.spelled(name), aliases=tuple(others), facts=counts[key]))
        return shown

    told = partial(listed, "entities", show=lambda each: {"name": each.name, "facts": each.facts})
    return ground.read("facts.entities", look, outputs=told, prefix=prefix)


def _entities(tx: Transaction, view: View, low: str) -> list[tuple[str, int, str]]:
    """The names in facts that begin so, how many facts name each, and one of these."""
    if view.scope is None:
        rows = query.entities_named(tx, **view.parameters(), kind=FACT, low=low, high=low + _LAST)
        return [(row["name"], row["facts"], row["sample"]) for row in rows]
    found: dict[str, list[str]] = {}
    for kept in memory_rows.current(tx, view, FACT):
        subject, _, obj = fact_store.names_of(kept.extra)
        for name in {entity_key(subject), entity_key(obj)}:
            if name.startswith(low):
                found.setdefault(name, []).append(kept.key)
    return [(name, len(keys), min(keys)) for name, keys in sorted(found.items())]


def around_entity(
    ground: FactsGround, entity: str | None, depth: int, valid: datetime | None, recorded: datetime | None
) -> list[Fact]:
    """All facts that held, or those around an entity."""
    if entity is None:
        at = ground.now() if valid is None else time_given(valid, "valid")
        return matching(ground, None, recorded=recorded, at=at)
    text_given(entity, "An entity")
    most = _most_steps("depth", depth)
    when = FactFilter(ground, None, valid, recorded)

    def look(tx: Transaction, view: View) -> list[Fact]:
        agreed = rules_in(tx, view)
        walk = _Walk(view, agreed, when, entity)
        found: dict[str, Fact] = {}
        for _ in range(most):
            if not walk.frontier:
                break
            found.update((fact.id, fact) for fact in walk.step(tx))
        return sorted(found.values(), key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))

    return ground.read(None, look)


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


# -- plumbing ------------------------------------------------------------------------------------------------------


def _most_steps(name: str, wanted: Any) -> int:
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
        self.recorded = None if recorded is None else time_given(recorded, "recorded")


class _Reached(NamedTuple):
    """An entity that a walk reached: its name, and the fact that led to it."""

    name: str
    fact: Fact


class _Walk:
    """A walk from an entity along the facts that held then, whichever way they point, one step at a time.

    Attributes:
        reached: The entities that it came to, by their keys; None for where it began.
        frontier: Those that the last step came to.
    """

    def __init__(self, view: View, agreed: Rules, when: FactFilter, start: str) -> None:
        self._view, self._agreed, self._when = view, agreed, when
        self.frontier = {agreed.canonical(start)}
        self.reached: dict[str, _Reached | None] = dict.fromkeys(self.frontier)

    def step(self, tx: Transaction) -> list[Fact]:
        """Follow the facts that name the entities of the frontier. Returns them."""
        view, agreed, when, beyond = self._view, self._agreed, self._when, set[str]()
        keys = agreed.keys_of(self.frontier)
        former = when.recorded is not None
        found = fact_store.about(tx, view, subjects=keys, predicates=when.predicates, former=former)
        found |= fact_store.about(tx, view, objects=keys, predicates=when.predicates, former=former)
        facts = fact_store.settled(tx, view, agreed, found, when.recorded, whole=self.frontier, at=when.at)
        for fact in facts:
            for name, other in ((fact.object, fact.subject), (fact.subject, fact.object)):
                key = agreed.canonical(name)
                if agreed.canonical(other) in self.frontier and key not in self.reached:
                    self.reached[key] = _Reached(name, fact)
                    beyond.add(key)
        self.frontier = beyond
        return facts
