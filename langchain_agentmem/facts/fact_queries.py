"""Questions about facts: what held when, what contradicts what, how it is known, what is near; search and prompts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any

from langchain_agentmem.base.argument_checks import ALL, EVERYTHING, limit_given, text_given
from langchain_agentmem.base.clock import moment, time_given
from langchain_agentmem.base.fencing import fenced, harmless, on_one_line
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.facts import fact as fact_values
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import Contradiction, Entity, Evidence, Fact, Neighbour, entity_key, predicate_key
from langchain_agentmem.facts.fact_store import FactsGround, FactView
from langchain_agentmem.language_models.tokens import Budget, Measure
from langchain_agentmem.messages.message import body_text
from langchain_agentmem.rewinding import outlook
from langchain_agentmem.rewinding.memory_rows import FACT, TEXT
from langchain_agentmem.storage import query
from langchain_agentmem.tracing import documents

USUAL_LIMIT = 10
_MORE = 4
_LAST = "\U0010ffff"
MOST_STEPS = 1_000
"""How many facts a walk may follow one after the other, whatever it is asked for."""
TAG = "facts"
MOST = 50
"""How many facts a section has at most."""


def contradictions(facts: FactView, subjects: Sequence[str] | None, predicate: str | None) -> list[Contradiction]:
    """Find values that contradict each other; see `KGMemory.contradictions`."""
    agreed = facts.rules
    keys = None if subjects is None else agreed.keys_of(map(agreed.canonical, subjects))
    predicates = agreed.single if predicate is None else agreed.single & {predicate_key(predicate)}
    there = facts.settled(facts.about(subjects=keys, predicates=predicates), whole=True)
    found: list[Contradiction] = []
    lasting: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for fact in sorted(there, key=lambda fact: (fact.valid_from, fact.recorded_at)):
        thing = agreed.canonical(fact.subject), predicate_key(fact.predicate)
        lasting[thing] = [each for each in lasting[thing] if each.holds_at(fact.valid_from)]
        for other in lasting[thing]:
            ends = [end for end in (fact.valid_to, other.valid_to) if end is not None]
            if fact.holds_at(fact.valid_from) and agreed.canonical(fact.object) != agreed.canonical(other.object):
                stop = min(ends, default=None)
                found.append(Contradiction(facts=(other, fact), valid_from=fact.valid_from, valid_to=stop))
        lasting[thing].append(fact)
    return found


def evidence(facts: FactView, fact_id: str, path: str) -> list[Evidence]:
    """Return how we know of a fact; see `KGMemory.evidence`."""
    fact = facts.fact(fact_id)
    sources = () if fact is None else fact.told
    here = facts.texts([(each.message_id, each.conversation_id) for each in sources if each.message_id is not None])
    found: list[Evidence] = []
    for each in sources:
        key, conversation, text = each.message_id, each.conversation_id, None
        if key is not None and (kept := here.get((key, conversation))) is not None:
            text = fact_store.message_of(kept).text
        elif key is not None and conversation is not None:
            entry = message_log.get(facts.tx, ThreadKey(path, conversation), key)
            text = None if entry is None else body_text(entry.body)
        found.append(Evidence(**asdict(each), text=text))
    return found


def listing(
    facts: FactView,
    *,
    limit: int | None = None,
    wanted: Callable[[Fact], bool] = lambda _: True,
    kinds: Sequence[str] = (FACT, TEXT),
) -> list[Fact]:
    """Facts and what was said, in the order in which they came: all, or the last of them."""
    shown: list[tuple[int, int, Fact]] = []
    for kind in kinds:
        count = 0
        pages = [{kept.key: kept for kept in facts.every(kind)}] if limit is None else facts.pages(kind, limit)
        for rows in pages:
            if kind == FACT:
                there = facts.settled(rows, whole=limit is None)
            else:
                there = [fact_store.raw_fact(kept) for kept in rows.values() if fact_store.is_listed(kept)]
            there = [fact for fact in there if wanted(fact)]
            shown += [(rows[fact.id].created_at, rows[fact.id].number, fact) for fact in there]
            count += len(there)
            if limit is not None and count >= limit:
                break
    shown.sort(key=lambda each: each[:2])
    return [fact for *_, fact in (shown if limit is None else shown[max(0, len(shown) - limit) :])]


def matching(
    facts: FactView,
    subject: str | None = None,
    predicate: str | None = None,
    obj: str | None = None,
    *,
    recorded: int | None = None,
    at: int | None = None,
    most: int = ALL,
) -> list[Fact]:
    """The facts that have some subject, predicate or object, and held at a time, what began first before the rest."""
    agreed = facts.rules
    predicates = None if predicate is None else [predicate_key(predicate)]
    subjects, objects = (None if name is None else agreed.keys_of([agreed.canonical(name)]) for name in (subject, obj))
    rows = facts.about(subjects=subjects, predicates=predicates, objects=objects, recorded=recorded)
    found = facts.settled(rows, recorded, whole=obj is None, at=at)
    return sorted(found, key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))[:most]


# -- search and prompts ------------------------------------------------------------------------------------------------


def find_facts(
    ground: FactsGround, asked: str, limit: int | None, *, valid: datetime | None = None, raw: bool = True
) -> list[Fact]:
    """The facts, and what was said, that answer a query best."""
    everything = text_given(asked, "A query").strip() == EVERYTHING
    most = USUAL_LIMIT if limit is None else limit_given(limit)
    at = None if valid is None else moment(time_given(valid, "valid"))

    def counts(fact: Fact) -> bool:
        return raw if fact.raw else at is None or fact.holds_at(at)

    with ground.step("facts.search", "retriever", query=asked, limit=most, valid=at) as step:
        if everything:
            facts = ground.look(None, partial(listing, limit=most, wanted=counts))[::-1]
        else:
            # Of what fits best, some may not have held then.
            facts = _find(ground, asked, most if at is None else most * _MORE, raw=raw)
            facts = [fact for fact in facts if counts(fact)][:most]
        step.finish(lambda: documents(facts, "fact"))
    return facts


def _find(ground: FactsGround, asked: str, most: int, *, raw: bool) -> list[Fact]:
    """Search for facts, and for what was said."""
    asked = ground.look(None, lambda facts: _more_names(asked, facts.rules))
    hits = outlook.found(ground, (FACT, TEXT) if raw else (FACT,), asked, most)

    def look(facts: FactView) -> list[Fact]:
        known = facts.shown(kept for kept, _ in hits)
        return [replace(known[kept.key], score=hit.score, why=hit.why) for kept, hit in hits if kept.key in known]

    return ground.look(None, look)


def _more_names(asked: str, agreed: fact_values.Rules) -> str:
    """A query with the other names of what it names."""
    words = f" {asked.casefold()} "
    aliases = agreed.aliases.values()
    pairs = [pair for alias in aliases for pair in ((alias.name, alias.into), (alias.into, alias.name))]
    return " ".join([asked, *dict.fromkeys(other for one, other in pairs if one.casefold() in words)])


def section(ground: FactsGround, question: str, at: datetime | None, budget: Budget) -> str:
    """Write what is known about a question as a section of a prompt."""
    now = moment(ground.now()) if at is None else at
    if question:
        facts = find_facts(ground, question, MOST, valid=at, raw=False)
    else:
        find = partial(listing, limit=MOST, wanted=lambda fact: at is None or fact.holds_at(at), kinds=(FACT,))
        facts = ground.look(None, find)[::-1]
    measure, text = Measure(budget), ""
    lines: list[str] = []
    for fact in facts:
        more = fenced(TAG, "\n".join([*lines, _fact_line(fact, now)]))
        if budget.total is None or measure.size(more) <= budget.total:
            lines.append(_fact_line(fact, now))
            text = more
    return text


def _fact_line(fact: Fact, now: datetime) -> str:
    """A fact on one line, with its time."""
    past = ", past" if fact.valid_to is not None and fact.valid_to <= now else ""
    sure = "" if fact.confidence is None else f", confidence {fact.confidence:.2g}"
    return f"- {on_one_line(harmless(fact.text))} ({fact.period}{past}{sure})"


# -- the graph ---------------------------------------------------------------------------------------------------------


def walk(
    facts: FactView,
    entity: str,
    depth: int,
    *,
    predicates: Sequence[str] | None = None,
    recorded: int | None = None,
    at: int,
) -> tuple[list[Fact], list[Neighbour]]:
    """Follow the facts around an entity that held at a time, whichever way they point.

    Returns:
        The facts, what began first before the rest; and what they lead to, the nearest first.
    """
    agreed = facts.rules
    passed: dict[str, Fact] = {}
    neighbours: list[Neighbour] = []
    frontier = {agreed.canonical(entity)}
    reached = set(frontier)
    for distance in range(1, min(depth, MOST_STEPS) + 1):
        keys = agreed.keys_of(frontier)
        rows = facts.about(subjects=keys, predicates=predicates, recorded=recorded)
        rows |= facts.about(objects=keys, predicates=predicates, recorded=recorded)
        near: dict[str, Neighbour] = {}
        for fact in facts.settled(rows, recorded, at=at):
            passed[fact.id] = fact
            for name, other in ((fact.object, fact.subject), (fact.subject, fact.object)):
                key = agreed.canonical(name)
                if agreed.canonical(other) in frontier and key not in reached:
                    near.setdefault(key, Neighbour(name=agreed.spelled(name), distance=distance, fact=fact))
        neighbours += sorted(near.values(), key=lambda each: each.name)
        frontier = set(near)
        reached |= frontier
        if not frontier:
            break
    return sorted(passed.values(), key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id)), neighbours


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
    chosen_keys = sorted(counts)[:most]
    rows = facts.named(FACT, {samples[key] for key in chosen_keys})
    shown: list[Entity] = []
    for key in chosen_keys:
        subject, _, obj = fact_values.names_of(rows[samples[key]].extra)
        name = next((each for each in (subject, obj) if agreed.canonical(each) == key), key)
        others = sorted({alias.name for alias in agreed.aliases.values() if agreed.canonical(alias.name) == key})
        shown.append(Entity(name=agreed.spelled(name), aliases=tuple(others), facts=counts[key]))
    return shown


def _named(facts: FactView, low: str) -> list[tuple[str, int, str]]:
    """The names in facts that begin so, how many facts name each, and one of these."""
    if facts.view.scope is None:
        rows = query.entities_named(facts.tx, **facts.view.parameters(), kind=FACT, low=low, high=low + _LAST)
        return [(row["name"], row["facts"], row["sample"]) for row in rows]
    naming: dict[str, list[str]] = defaultdict(list)
    for kept in facts.stored.values():
        subject, _, obj = fact_values.names_of(kept.extra)
        for name in {entity_key(subject), entity_key(obj)}:
            if name.startswith(low):
                naming[name].append(kept.key)
    return [(name, len(keys), min(keys)) for name, keys in sorted(naming.items())]


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
