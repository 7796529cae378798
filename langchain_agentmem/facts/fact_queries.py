"""Questions about facts: what held when, what contradicts what, how it is known; search and prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from langchain_agentmem.base.argument_checks import ALL, EVERYTHING, limit_given, text_given
from langchain_agentmem.base.clock import micros, moment, time_given
from langchain_agentmem.base.fencing import fenced, harmless, on_one_line
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import message_log
from langchain_agentmem.facts import fact_events, source_texts
from langchain_agentmem.facts.fact import Contradiction, Evidence, Fact, entity_key, maybe_moment, predicate_key
from langchain_agentmem.facts.fact_events import Rules
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.facts.fact_store import FactView, message_of, raw_fact
from langchain_agentmem.language_models.tokens import Budget, Measure
from langchain_agentmem.messages.message import body_text
from langchain_agentmem.rewinding.memory_rows import FACT, TEXT
from langchain_agentmem.rewinding.outlook import found
from langchain_agentmem.tracing import documents

USUAL_LIMIT = 10
MORE = 4


def contradictions(facts: FactView, subjects: Sequence[str] | None, predicate: str | None) -> list[Contradiction]:
    """Find values that contradict each other; see `KGMemory.contradictions`."""
    agreed = facts.rules
    if subjects is None:
        rows = {kept.key: kept for kept in facts.latest(FACT)}
    else:
        rows = facts.about(subjects=agreed.keys_of(map(agreed.canonical, subjects)), predicates=agreed.single)
    by_id = {fact.id: fact for fact in facts.settled(rows, whole=True)}
    return [
        Contradiction(facts=(by_id[one], by_id[other]), valid_from=moment(start), valid_to=maybe_moment(stop))
        for one, other, start, stop in fact_events.clashes(facts.states(rows), agreed)
        if predicate is None or predicate_key(predicate) == predicate_key(by_id[one].predicate)
    ]


def evidence(facts: FactView, fact_id: str, path: str) -> list[Evidence]:
    """Return how we know of a fact; see `KGMemory.evidence`."""
    fact = facts.fact(fact_id)
    sources = () if fact is None else fact.told
    named = [(each.message_id, each.conversation_id) for each in sources if each.message_id is not None]
    here = source_texts.among(facts, named)

    def text_of(key: str | None, conversation: str | None) -> str | None:
        if key is None:
            return None
        if (kept := source_texts.chosen(here, key, conversation)) is not None:
            return message_of(kept).text
        if conversation is None:
            return None
        entry = message_log.get(facts.tx, ThreadKey(path, conversation), key)
        return None if entry is None else body_text(entry.body)

    return [
        Evidence(
            message_id=each.message_id,
            conversation_id=each.conversation_id,
            role=each.role,
            recorded_at=each.recorded_at,
            text=text_of(each.message_id, each.conversation_id),
        )
        for each in sources
    ]


def find_facts(
    ground: FactsGround, query: str, limit: int | None, *, valid: datetime | None = None, raw: bool = True
) -> list[Fact]:
    """The facts, and what was said, that answer a query best."""
    everything = text_given(query, "A query").strip() == EVERYTHING
    most = USUAL_LIMIT if limit is None else limit_given(limit)
    at = None if valid is None else moment(time_given(valid, "valid"))

    def counts(fact: Fact) -> bool:
        return raw if fact.raw else at is None or fact.holds_at(at)

    with ground.step("facts.search", "retriever", query=query, limit=most, valid=at) as step:
        if everything:
            facts = ground.look(None, partial(listing, limit=most, wanted=counts))[::-1]
        else:
            # Of what fits best, some may not have held then.
            facts = [
                fact for fact in _find(ground, query, most if at is None else most * MORE, raw=raw) if counts(fact)
            ]
        facts = facts[:most]
        step.finish(lambda: documents(facts, "fact"))
    return facts


def _find(ground: FactsGround, query: str, most: int, *, raw: bool) -> list[Fact]:
    """Search for facts, and for what was said."""
    query = ground.look(None, lambda facts: _more_names(query, facts.rules))
    hits = found(ground, (FACT, TEXT) if raw else (FACT,), query, most)

    def look(facts: FactView) -> list[Fact]:
        rows = {hit.kept.key: hit.kept for hit in hits if hit.kept.kind == FACT}
        known = {fact.id: fact for fact in facts.settled(rows)}
        known |= {hit.kept.key: raw_fact(hit.kept) for hit in hits if hit.kept.kind != FACT}
        there = [(hit, known[hit.kept.key]) for hit in hits if hit.kept.key in known]
        return [replace(fact, score=hit.score, why=hit.why) for hit, fact in there]

    return ground.look(None, look)


def _more_names(wanted: str, agreed: Rules) -> str:
    """A query with the other names of what it names."""
    words = f" {wanted.casefold()} "
    merged = [alias for alias in agreed.aliases.values() if alias.merged]
    pairs = [pair for alias in merged for pair in ((alias.name, alias.into), (alias.into, alias.name))]
    return " ".join([wanted, *dict.fromkeys(other for one, other in pairs if one.casefold() in words)])


def listing(
    facts: FactView, *, limit: int | None = None, wanted: Callable[[Fact], bool] = lambda _: True
) -> list[Fact]:
    """Facts and what was said, in the order in which they came: all, or the last of them."""
    many = limit
    while True:
        rows, said = facts.latest(FACT, many), facts.latest(TEXT, many)
        by_id = {kept.key: kept for kept in (*said, *rows)}
        settled = facts.settled({kept.key: kept for kept in rows}, whole=many is None)
        raw = [raw_fact(kept) for kept in said if source_texts.is_listed(kept)]
        there = [list(filter(wanted, settled)), list(filter(wanted, raw))]
        # Of what came last, some may have been taken back, or be wanted by nobody.
        if (
            limit is None
            or many is None
            or all(len(some) < many or len(left) >= limit for some, left in zip((rows, said), there, strict=True))
        ):
            break
        many *= MORE
    shown = sorted((*there[0], *there[1]), key=lambda fact: (by_id[fact.id].created_at, by_id[fact.id].number))
    return shown if limit is None else shown[max(0, len(shown) - limit) :]


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
    agreed, former = facts.rules, recorded is not None
    predicates = None if predicate is None else [predicate_key(predicate)]
    one, other = (None if name is None else agreed.canonical(name) for name in (subject, obj))
    if one is not None:
        rows = facts.about(subjects=agreed.keys_of([one]), predicates=predicates, former=former)
    elif other is not None:
        rows = facts.about(objects=agreed.keys_of([other]), predicates=predicates, former=former)
    else:
        rows = {kept.key: kept for kept in facts.latest(FACT)}
    fitting = [
        fact
        for fact in facts.settled(rows, recorded, whole=other is None, at=at)
        if one in (None, agreed.canonical(fact.subject))
        and other in (None, agreed.canonical(fact.object))
        and (predicates is None or predicate_key(fact.predicate) in predicates)
    ]
    return sorted(fitting, key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))[:most]


TAG = "facts"
MOST = 50
"""How many facts a section has at most."""


def section(ground: FactsGround, question: str, at: datetime | None, budget: Budget) -> str:
    """Write what is known about a question as a section of a prompt."""
    now = moment(ground.now()) if at is None else at
    if question:
        facts = _about_question(ground, question, at, now)
    else:
        facts = ground.look(None, partial(listing, limit=MOST, wanted=lambda fact: not fact.raw))[::-1]
        facts = [fact for fact in facts if at is None or fact.holds_at(at)]
    measure, text = Measure(budget), ""
    lines: list[str] = []
    for fact in facts:
        more = fenced(TAG, "\n".join([*lines, _fact_line(fact, now)]))
        if budget.total is None or measure.size(more) <= budget.total:
            lines.append(_fact_line(fact, now))
            text = more
    return text


def _about_question(ground: FactsGround, question: str, at: datetime | None, now: datetime) -> list[Fact]:
    """The facts that a search finds, and what is known of the entities that the question names."""
    hits = find_facts(ground, question, MOST, valid=at, raw=False)
    words = f" {entity_key(question)} ".replace("?", " ").replace(",", " ").replace("'s ", " ")

    def look(facts: FactView) -> list[Fact]:
        names = [name for fact in hits for name in (fact.subject, fact.object) if f" {entity_key(name)} " in words]
        named = {facts.rules.canonical(name): name for name in names}
        more = [fact for name in named.values() for fact in matching(facts, name, at=micros(now), most=MOST)]
        return list({fact.id: fact for fact in (*hits, *more)}.values())[:MOST]

    return ground.look(None, look)


def _fact_line(fact: Fact, now: datetime) -> str:
    """A fact on one line, with its time."""
    past = ", past" if fact.valid_to is not None and fact.valid_to <= now else ""
    sure = "" if fact.confidence is None else f", confidence {fact.confidence:.2g}"
    return f"- {on_one_line(harmless(fact.text))} ({fact.period}{past}{sure})"
