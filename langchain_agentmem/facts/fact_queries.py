"""Questions about facts: what held when, what contradicts what, how it is known; search and prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from langchain_agentmem.base.argument_checks import ALL, EVERYTHING, limit_given, text_given, texts_given
from langchain_agentmem.base.clock import moment, time_given
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.fencing import fenced, harmless, on_one_line
from langchain_agentmem.conversations import message_log
from langchain_agentmem.facts import fact_events, fact_store, source_texts
from langchain_agentmem.facts.fact import Contradiction, Evidence, Fact, entity_key, maybe_moment, predicate_key
from langchain_agentmem.facts.fact_events import Rules, rules_in
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.language_models.tokens import Budget, Measure
from langchain_agentmem.messages.message import body_text
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import listed
from langchain_agentmem.rewinding.memory_rows import FACT, TEXT, Kept, View, message_source
from langchain_agentmem.rewinding.outlook import found
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.tracing import brief, documents

USUAL_LIMIT = 10
MORE = 4


def contradictions(
    ground: FactsGround, subject: str | Sequence[str] | None = None, predicate: str | None = None
) -> list[Contradiction]:
    """Find values that contradict each other; see `KGMemory.contradictions`."""
    subjects = (
        None if subject is None else [text_given(each, "The subject") for each in texts_given(subject, "Subjects")]
    )
    if predicate is not None:
        text_given(predicate, "The predicate")

    def look(tx: Transaction, view: View) -> list[Contradiction]:
        agreed = rules_in(tx, view)
        if subjects is None:
            rows_of = _rows(tx, view, agreed, None, None, None, former=False)
        else:
            names = agreed.keys_of(map(agreed.canonical, subjects))
            rows_of = fact_store.about(tx, view, subjects=names, predicates=agreed.single)
        states = fact_store.states_of(rows_of)
        if view.scope is not None:
            states = fact_events.united(states, {}, agreed)
        facts = fact_store.settled(tx, view, agreed, rows_of, whole=True)
        by_id = {fact.id: fact for fact in facts}
        return [
            Contradiction(facts=(by_id[one], by_id[other]), valid_from=moment(start), valid_to=maybe_moment(stop))
            for one, other, start, stop in fact_events.clashes(states, agreed)
            if predicate is None or predicate_key(predicate) == predicate_key(by_id[one].predicate)
        ]

    return ground.read(
        "facts.contradictions",
        look,
        outputs=partial(listed, "contradictions", show=_pair),
        subject=subject,
        predicate=predicate,
    )


def fact_in(tx: Transaction, view: View, fact_id: str) -> Fact | None:
    """A fact, or what was said, that a view shows."""
    found = memory_rows.named(tx, view, FACT, [fact_id])
    facts = fact_store.settled(tx, view, rules_in(tx, view), found)
    if facts:
        return facts[0]
    said = memory_rows.named(tx, view, TEXT, [fact_id])
    return fact_store.raw_fact(said[fact_id]) if fact_id in said else None


def evidence(ground: FactsGround, fact_id: str) -> list[Evidence]:
    """Return how we know of a fact; see `KGMemory.evidence`."""
    text_given(fact_id, "An id")

    def look(tx: Transaction, view: View) -> list[Evidence]:
        fact = fact_in(tx, view, fact_id)
        sources = () if fact is None else fact.told
        named = [(each.message_id, each.conversation_id) for each in sources if each.message_id is not None]
        here = source_texts.among(tx, view, named)
        found: list[Evidence] = []
        for source in sources:
            text, key, conversation = None, source.message_id, source.conversation_id
            kept = None if key is None else source_texts.chosen(here, key, conversation)
            if kept is not None:
                text = fact_store.message_of(kept).text
            elif key is not None and conversation is not None:
                entry = message_log.get(tx, message_log.Address(ground.point.path, conversation), key)
                text = None if entry is None else body_text(entry.body)
            at = source.recorded_at
            found.append(
                Evidence(message_id=key, conversation_id=conversation, role=source.role, recorded_at=at, text=text)
            )
        return found

    told = partial(listed, "sources", show=_evidence_shown)
    return ground.read("facts.evidence", look, outputs=told, fact_id=fact_id)


def facts_told_by(tx: Transaction, view: View, ground: FactsGround, message_id: str) -> list[Fact]:
    """The facts that a view shows and that a message tells of."""
    path = ground.point.path
    resting = query.resting_on(tx, keys=as_json([message_source(message_id)]), low=path, high=path + "\x01")
    keys = sorted({row["key"] for row in resting if row["kind"] == FACT})
    facts = memory_rows.named(tx, view, FACT, keys)
    settled = fact_store.settled(tx, view, rules_in(tx, view), facts)
    return [fact for fact in settled if message_id in fact.sources]


def find_facts(
    ground: FactsGround, query: str, limit: int | None, *, valid: datetime | None = None, raw: bool = True
) -> list[Fact]:
    """The facts, and what was said, that answer a query best."""
    everything = text_given(query, "A query").strip() == EVERYTHING
    most = USUAL_LIMIT if limit is None else limit_given(limit)
    at = None if valid is None else moment(time_given(valid, "valid"))
    with ground.step("facts.search", "retriever", query=query, limit=most, valid=at) as step:
        if everything:
            every = listing(
                ground, limit=most, wanted=lambda fact: raw if fact.raw else at is None or fact.holds_at(at)
            )
            facts = every[::-1][:most]
        else:
            facts = _find(ground, query, most, at, raw=raw)
        step.finish(lambda: documents(facts, "fact"))
    return facts


def _find(ground: FactsGround, query: str, most: int, at: datetime | None, *, raw: bool) -> list[Fact]:
    """Search for facts, and for what was said."""
    agreed = ground.read(None, rules_in)
    # Of what fits best, some may not have held then.
    hits = found(
        ground, (FACT, TEXT) if raw else (FACT,), _more_names(query, agreed), most if at is None else most * MORE
    )

    def look(tx: Transaction, view: View) -> list[Fact]:
        there = {hit.kept.key: hit.kept for hit in hits if hit.kept.kind == FACT}
        known = {fact.id: fact for fact in fact_store.settled(tx, view, agreed, there)}
        told = (
            (hit, known.get(hit.kept.key) if hit.kept.kind == FACT else fact_store.raw_fact(hit.kept)) for hit in hits
        )
        return [replace(fact, score=hit.score, why=hit.why) for hit, fact in told if fact is not None]

    facts = ground.read(None, look)
    return [fact for fact in facts if at is None or fact.raw or fact.holds_at(at)][:most]


def listing(
    ground: FactsGround, *, limit: int | None = None, wanted: Callable[[Fact], bool] = lambda _: True
) -> list[Fact]:
    """Facts and what was said, in the order in which they came: all, or the last of them. No step of its own."""
    most = limit_given(limit)

    def look(tx: Transaction, view: View) -> list[Fact]:
        agreed = rules_in(tx, view)
        many = None if limit is None else most
        while True:
            facts = fact_store.latest(tx, view, FACT, many)
            said = fact_store.latest(tx, view, TEXT, many)
            by_id = {kept.key: kept for kept in (*said, *facts)}
            found = {kept.key: kept for kept in facts}
            settled = fact_store.settled(tx, view, agreed, found, whole=many is None)
            raw = [fact_store.raw_fact(kept) for kept in said if source_texts.is_listed(kept)]
            there = [[fact for fact in some if wanted(fact)] for some in (settled, raw)]
            # Of what came last, some may have been taken back, or be wanted by nobody.
            if many is None or all(
                len(some) < many or len(left) >= most for some, left in zip((facts, said), there, strict=True)
            ):
                break
            many *= MORE
        shown = [fact for some in there for fact in some]
        shown.sort(key=lambda fact: (by_id[fact.id].created_at, by_id[fact.id].number))
        return shown[max(0, len(shown) - most) :]

    return ground.read(None, look)


def matching(
    ground: FactsGround,
    name: str | None,
    subject: str | None = None,
    predicate: str | None = None,
    obj: str | None = None,
    *,
    recorded: datetime | None = None,
    at: int | None = None,
    most: int = ALL,
    **asked: Any,
) -> list[Fact]:
    """The facts that have some subject, predicate or object, and held at a time, what began first before the rest."""
    by = None if recorded is None else time_given(recorded, "recorded")
    for value, what in ((subject, "The subject"), (predicate, "The predicate"), (obj, "The object")):
        if value is not None:
            text_given(value, what)

    def fits(fact: Fact, agreed: Rules) -> bool:
        return all(
            value is None or agreed.canonical(value) == agreed.canonical(mine)
            for value, mine in ((subject, fact.subject), (obj, fact.object))
        ) and (predicate is None or predicate_key(predicate) == predicate_key(fact.predicate))

    def look(tx: Transaction, view: View) -> list[Fact]:
        agreed = rules_in(tx, view)
        rows_of = _rows(tx, view, agreed, subject, predicate, obj, former=by is not None)
        facts = fact_store.settled(tx, view, agreed, rows_of, by, whole=obj is None, at=at)
        fitting = [fact for fact in facts if fits(fact, agreed)]
        return sorted(fitting, key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))[:most]

    asked |= {"subject": subject, "predicate": predicate, "object": obj, "recorded": recorded}
    return ground.read(name, look, outputs=fact_store.facts_shown, **asked)


def _rows(
    tx: Transaction,
    view: View,
    agreed: Rules,
    subject: str | None,
    predicate: str | None,
    obj: str | None,
    *,
    former: bool,
) -> dict[str, Kept]:
    predicates = None if predicate is None else [predicate_key(predicate)]
    if subject is not None:
        keys = agreed.keys_of([agreed.canonical(subject)])
        return fact_store.about(tx, view, subjects=keys, predicates=predicates, former=former)
    if obj is not None:
        keys = agreed.keys_of([agreed.canonical(obj)])
        return fact_store.about(tx, view, objects=keys, predicates=predicates, former=former)
    return {kept.key: kept for kept in fact_store.latest(tx, view, FACT)}


def _pair(clash: Contradiction) -> dict[str, Any]:
    one, other = clash.facts
    return {"fact_ids": [one.id, other.id], "texts": [one.text, other.text], "valid_from": clash.valid_from}


def _evidence_shown(found_there: Evidence) -> dict[str, Any]:
    text = None if found_there.text is None else brief(found_there.text)
    return {"message_id": found_there.message_id, "conversation_id": found_there.conversation_id, "text": text}


def _more_names(wanted: str, agreed: Rules) -> str:
    """A query with the other names of what it names."""
    merged = [alias for alias in agreed.aliases.values() if alias.merged]
    if not merged:
        return wanted
    words = f" {wanted.casefold()} "
    pairs = [pair for alias in merged for pair in ((alias.name, alias.into), (alias.into, alias.name))]
    named = [other for one, other in pairs if one.casefold() in words]
    return " ".join([wanted, *dict.fromkeys(named)])


TAG = "facts"
MOST = 50
"""How many facts a section has at most."""


def section(ground: FactsGround, question: str, at: datetime | None, limits: Budget, measure: Measure) -> str:
    """Write what is known about a question as a section of a prompt."""
    facts = _chosen(ground, question, at)
    now = moment(ground.now()) if at is None else at
    lines: list[str] = []
    for fact in facts:
        more = [*lines, _fact_line(fact, now)]
        if limits.total is None or measure.size(_block(more)) <= limits.total:
            lines = more
    return _block(lines) if lines else ""


def _chosen(ground: FactsGround, query: str, valid: datetime | None) -> list[Fact]:
    """The facts for a question: those that a search finds, and what is known of the entities that it names."""
    if not query:
        facts = listing(ground, limit=MOST, wanted=lambda fact: not fact.raw)
        return [fact for fact in reversed(facts) if valid is None or fact.holds_at(valid)]
    found = find_facts(ground, query, MOST, valid=valid, raw=False)
    agreed = ground.read(None, rules_in)
    words = f" {entity_key(query)} ".replace("?", " ").replace(",", " ").replace("'s ", " ")
    now = ground.now() if valid is None else time_given(valid, "valid")
    named = {
        agreed.canonical(name): name
        for fact in found
        for name in (fact.subject, fact.object)
        if f" {entity_key(name)} " in words
    }
    chosen = {fact.id: fact for fact in found}
    for name in named.values():
        more = matching(ground, "facts.as_of", name, at=now, most=MOST, valid=valid)
        chosen.update((fact.id, fact) for fact in more if fact.id not in chosen)
    return list(chosen.values())[:MOST]


def _block(lines: Sequence[str]) -> str:
    return fenced(TAG, "\n".join(lines))


def section_shown(made: str) -> dict[str, Any]:
    """What a trace shows of a section: between the marks stands a line for each fact."""
    return {"facts": max(0, made.count("\n") - 1), "characters": len(made), "text": brief(made)}


def _fact_line(fact: Fact, now: datetime) -> str:
    """A fact on one line, with its time."""
    past = ", past" if fact.valid_to is not None and fact.valid_to <= now else ""
    sure = "" if fact.confidence is None else f", confidence {fact.confidence:.2g}"
    return f"- {on_one_line(harmless(fact.text))} ({fact.period}{past}{sure})"
