"""Questions about facts: what held when, how it changed, what contradicts what, how it is known; search and prompts."""

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
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.facts import fact_events, fact_store, source_texts
from langchain_agentmem.facts.fact import Contradiction, Evidence, Fact, entity_key, maybe_moment, predicate_key
from langchain_agentmem.facts.fact_events import Rules
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.facts.fact_store import BEHIND_ALL, LearnedAt
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.language_models.tokens import Budget, BudgetLike, Measure
from langchain_agentmem.messages.message import body_text
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import as_step, listed, looking
from langchain_agentmem.rewinding.memory_rows import FACT, TEXT, Kept, View, message_source
from langchain_agentmem.rewinding.outlook import found
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.tracing import brief

USUAL_LIMIT = 10
MORE = 4


def as_of_work(
    ground: FactsGround,
    valid: datetime | None = None,
    recorded: datetime | None = None,
    *,
    subject: str | None = None,
    predicate: str | None = None,
    obj: str | None = None,
    limit: int | None = None,
) -> Work[list[Fact]]:
    """What held at a time, as far as we knew it at another.

    Args:
        ground: The facts.
        valid: The time at which it held. Default: now.
        recorded: What we learned later does not count. Default: all that we know counts. What was removed or
            erased is not known of any time.
        subject: Only of this. Default: any.
        predicate: Only with this predicate. Default: any.
        obj: Only of this object. Default: any.
        limit: Most facts. Default: all. All that fits is read to tell which began first; `latest(valid=…)` reads pages.

    Returns:
        What began first comes first.

    Raises:
        InvalidInput: An argument is wrong.
    """
    at = ground.now() if valid is None else time_given(valid, "valid")
    most = limit_given(limit)
    return matching(ground, "as_of", subject, predicate, obj, recorded=recorded, at=at, most=most, valid=valid)


def history_work(
    ground: FactsGround, subject: str, predicate: str | None = None, *, recorded: datetime | None = None
) -> Work[list[Fact]]:
    """All that ever held of a subject, what has ended included.

    Args:
        ground: The facts.
        subject: What it is about.
        predicate: Only with this predicate. Default: any.
        recorded: What we learned later does not count. Default: all counts.

    Returns:
        What began first comes first.

    Raises:
        InvalidInput: An argument is wrong.
    """
    text_given(subject, "The subject")
    return matching(ground, "history", subject, predicate, recorded=recorded)


def latest_work(
    ground: FactsGround,
    limit: int | None = None,
    *,
    before: str | None = None,
    entity: str | None = None,
    predicate: str | None = None,
    valid: datetime | None = None,
    recorded: datetime | None = None,
) -> Work[list[Fact]]:
    """What was learned last, a page at a time.

    Args:
        ground: The facts.
        limit: Most facts. Default: 10.
        before: The id of a fact: only what was learned before it, for the next page. Default: from the last on.
        entity: Only facts that are about this, or that it is the object of. Default: any.
        predicate: Only with this predicate. Default: any.
        valid: Only what held at this time. Default: all, whether or not it holds still.
        recorded: What we learned later does not count. Default: all counts.

    Returns:
        What was learned last comes first.

    Raises:
        InvalidInput: An argument is wrong, or there is no such fact.
    """
    most = USUAL_LIMIT if limit is None else limit_given(limit)
    by = None if recorded is None else time_given(recorded, "recorded")
    at = None if valid is None else time_given(valid, "valid")
    for value, what in ((before, "An id"), (entity, "An entity"), (predicate, "The predicate")):
        if value is not None:
            text_given(value, what)

    def look(view: View) -> Steps[list[Fact]]:
        agreed = yield from ground.rules(view)
        behind = BEHIND_ALL if by is None else LearnedAt(by + 1, 0)
        if before is not None:
            there = yield from memory_rows.named(view, FACT, [before])
            if before not in there:
                raise InvalidInput(f"There is no fact {safe_repr(before)} here: begin with the last again.")
            behind = min(behind, LearnedAt(there[before].created_at, there[before].number))
        names = None if entity is None else agreed.keys_of([agreed.canonical(entity)])
        labels = None if predicate is None else [predicate_key(predicate)]
        only: dict[str, Any] = {"names": names, "predicates": labels, "recorded": by, "at": at}
        return (yield from fact_store.learned(view, agreed, most, behind, **only))

    asked: dict[str, Any] = {"limit": most, "before": before, "entity": entity, "predicate": predicate}
    asked |= {"valid": valid, "recorded": recorded}
    return looking(ground, "facts.latest", look, outputs=fact_store.facts_shown, **asked)


def contradictions_work(
    ground: FactsGround, subject: str | Sequence[str] | None = None, predicate: str | None = None
) -> Work[list[Contradiction]]:
    """Values of what has one at a time that were both said to hold at the same time. Both are kept.

    Args:
        ground: The facts.
        subject: Only of this, or of any of these. Default: any.
        predicate: Only with this predicate. Default: any.

    Raises:
        InvalidInput: An argument is wrong.
    """
    subjects = (
        None if subject is None else [text_given(each, "The subject") for each in texts_given(subject, "Subjects")]
    )
    if predicate is not None:
        text_given(predicate, "The predicate")

    def look(view: View) -> Steps[list[Contradiction]]:
        agreed = yield from ground.rules(view)
        if subjects is None:
            rows_of = yield from _rows(view, agreed, None, None, None, former=False)
        else:
            names = agreed.keys_of(map(agreed.canonical, subjects))
            rows_of = yield from fact_store.about(view, subjects=names, predicates=agreed.single)
        states = fact_store.states_of(rows_of)
        if view.scope is not None:
            states = fact_events.united(states, {}, agreed)
        facts = yield from fact_store.settled(view, agreed, rows_of, whole=True)
        by_id = {fact.id: fact for fact in facts}
        return [
            Contradiction(facts=(by_id[one], by_id[other]), valid_from=moment(start), valid_to=maybe_moment(stop))
            for one, other, start, stop in fact_events.clashes(states, agreed)
            if predicate is None or predicate_key(predicate) == predicate_key(by_id[one].predicate)
        ]

    return looking(
        ground,
        "facts.contradictions",
        look,
        outputs=partial(listed, "contradictions", show=_pair),
        subject=subject,
        predicate=predicate,
    )


def get_work(ground: FactsGround, fact_id: str) -> Work[Fact | None]:
    """A fact, or what was said, by its id; None where there is none, or it was taken back."""
    look = partial(fact_in, ground, text_given(fact_id, "An id"))
    return looking(ground, "facts.get", look, outputs=_found_shown, fact_id=fact_id)


def fact_in(ground: FactsGround, fact_id: str, view: View) -> Steps[Fact | None]:
    """A fact, or what was said, that a view shows."""
    found = yield from memory_rows.named(view, FACT, [fact_id])
    facts = yield from fact_store.settled(view, (yield from ground.rules(view)), found)
    if facts:
        return facts[0]
    said = yield from memory_rows.named(view, TEXT, [fact_id])
    return fact_store.raw_fact(said[fact_id]) if fact_id in said else None


def _found_shown(fact: Fact | None) -> dict[str, Any]:
    return fact_store.facts_shown([] if fact is None else [fact])


def evidence_work(ground: FactsGround, fact_id: str) -> Work[list[Evidence]]:
    """How we know of a fact: every message that says so, with its text, if that is kept.

    Args:
        ground: The facts.
        fact_id: Which fact.

    Returns:
        In the order in which we learned it; nothing where there is no such fact.
    """
    text_given(fact_id, "An id")

    def look(view: View) -> Steps[list[Evidence]]:
        fact = yield from fact_in(ground, fact_id, view)
        sources = () if fact is None else fact.told
        named = [(each.message_id, each.conversation_id) for each in sources if each.message_id is not None]
        here = yield from source_texts.among(view, named)
        found: list[Evidence] = []
        for source in sources:
            text, key, conversation = None, source.message_id, source.conversation_id
            kept = None if key is None else source_texts.chosen(here, key, conversation)
            if kept is not None:
                text = fact_store.message_of(kept).text
            elif key is not None and conversation is not None:
                entry = yield from message_log.get(message_log.Address(ground.point.path, conversation), key)
                text = None if entry is None else body_text(entry.body)
            at = source.recorded_at
            found.append(
                Evidence(message_id=key, conversation_id=conversation, role=source.role, recorded_at=at, text=text)
            )
        return found

    told = partial(listed, "sources", show=_evidence_shown)
    return looking(ground, "facts.evidence", look, outputs=told, fact_id=fact_id)


def from_message_work(ground: FactsGround, message_id: str) -> Work[list[Fact]]:
    """The facts that a message tells of.

    Args:
        ground: The facts.
        message_id: Its id.
    """
    look, told = partial(facts_told_by, ground, text_given(message_id, "An id")), fact_store.facts_shown
    return looking(ground, "facts.from_message", look, outputs=told, message_id=message_id)


def facts_told_by(ground: FactsGround, message_id: str, view: View) -> Steps[list[Fact]]:
    """The facts that a view shows and that a message tells of."""
    path = ground.point.path
    resting = yield query.resting_on(keys=as_json([message_source(message_id)]), low=path, high=path + "\x01")
    keys = sorted({row["key"] for row in resting if row["kind"] == FACT})
    facts = yield from memory_rows.named(view, FACT, keys)
    settled = yield from fact_store.settled(view, (yield from ground.rules(view)), facts)
    return [fact for fact in settled if message_id in fact.sources]


def search_work(
    ground: FactsGround, query: str, limit: int | None = None, *, valid: datetime | None = None
) -> Work[list[Fact]]:
    """Find facts, and what was said, without a model.

    Args:
        ground: The facts.
        query: Any text; "*" for all, the newest first.
        limit: Most results. Default: 10.
        valid: Only facts that held at this time. Default: any, what has ended included.

    Returns:
        The best first. Each says why it was found; what was said has `raw` set.

    Raises:
        InvalidInput: An argument is wrong.
    """
    return find_facts(ground, query, limit, valid=valid)


def find_facts(
    ground: FactsGround, query: str, limit: int | None, *, valid: datetime | None = None, raw: bool = True
) -> Work[list[Fact]]:
    """The facts, and what was said, that answer a query best."""
    everything = text_given(query, "A query").strip() == EVERYTHING
    most = USUAL_LIMIT if limit is None else limit_given(limit)
    at = None if valid is None else moment(time_given(valid, "valid"))
    work = _searching(ground, query, most, at, raw=raw, everything=everything)
    asked: dict[str, Any] = {"query": query, "limit": most, "valid": at}
    return as_step(ground, "facts.search", work, outputs=fact_store.documents_shown, run_type="retriever", **asked)


def _searching(
    ground: FactsGround, query: str, most: int, at: datetime | None, *, raw: bool, everything: bool
) -> Work[list[Fact]]:
    if everything:
        every = yield from listing(
            ground, limit=most, wanted=lambda fact: raw if fact.raw else at is None or fact.holds_at(at)
        )
        return list(reversed(every))[:most]
    agreed: Rules = yield from looking(ground, "facts.rules", ground.rules, shown=False)
    # Of what fits best, some may not have held then.
    hits = yield from found(
        ground, (FACT, TEXT) if raw else (FACT,), _more_names(query, agreed), most if at is None else most * MORE
    )

    def look(view: View) -> Steps[list[Fact]]:
        there = {hit.kept.key: hit.kept for hit in hits if hit.kept.kind == FACT}
        known = {fact.id: fact for fact in (yield from fact_store.settled(view, agreed, there))}
        told = (
            (hit, known.get(hit.kept.key) if hit.kept.kind == FACT else fact_store.raw_fact(hit.kept)) for hit in hits
        )
        return [replace(fact, score=hit.score, why=hit.why) for hit, fact in told if fact is not None]

    facts: list[Fact] = yield from looking(ground, "facts.read", look, shown=False)
    return [fact for fact in facts if at is None or fact.raw or fact.holds_at(at)][:most]


def listing(
    ground: FactsGround, *, limit: int | None = None, wanted: Callable[[Fact], bool] = lambda _: True
) -> Work[list[Fact]]:
    """Facts and what was said, in the order in which they came: all, or the last of them. No step of its own."""
    most = limit_given(limit)

    def look(view: View) -> Steps[list[Fact]]:
        agreed = yield from ground.rules(view)
        many = None if limit is None else most
        while True:
            facts = yield from fact_store.latest(view, FACT, many)
            said = yield from fact_store.latest(view, TEXT, many)
            by_id = {kept.key: kept for kept in (*said, *facts)}
            found = {kept.key: kept for kept in facts}
            settled = yield from fact_store.settled(view, agreed, found, whole=many is None)
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

    return looking(ground, "facts.all", look, shown=False)


def matching(
    ground: FactsGround,
    verb: str,
    subject: str | None = None,
    predicate: str | None = None,
    obj: str | None = None,
    *,
    recorded: datetime | None = None,
    at: int | None = None,
    most: int = ALL,
    shown: bool = True,
    **asked: Any,
) -> Work[list[Fact]]:
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

    def look(view: View) -> Steps[list[Fact]]:
        agreed = yield from ground.rules(view)
        rows_of = yield from _rows(view, agreed, subject, predicate, obj, former=by is not None)
        facts = yield from fact_store.settled(view, agreed, rows_of, by, whole=obj is None, at=at)
        fitting = [fact for fact in facts if fits(fact, agreed)]
        return sorted(fitting, key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))[:most]

    asked |= {"subject": subject, "predicate": predicate, "object": obj, "recorded": recorded}
    return looking(ground, f"facts.{verb}", look, outputs=fact_store.facts_shown, shown=shown, **asked)


def _rows(
    view: View, agreed: Rules, subject: str | None, predicate: str | None, obj: str | None, *, former: bool
) -> Steps[dict[str, Kept]]:
    predicates = None if predicate is None else [predicate_key(predicate)]
    if subject is not None:
        keys = agreed.keys_of([agreed.canonical(subject)])
        return (yield from fact_store.about(view, subjects=keys, predicates=predicates, former=former))
    if obj is not None:
        keys = agreed.keys_of([agreed.canonical(obj)])
        return (yield from fact_store.about(view, objects=keys, predicates=predicates, former=former))
    return {kept.key: kept for kept in (yield from fact_store.latest(view, FACT))}


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


def format_for_prompt_work(
    ground: FactsGround, query: str | None = None, budget: BudgetLike | None = None, *, valid: datetime | None = None
) -> Work[str]:
    """What is known about a question, as a section of a prompt: a line for each fact, fenced as data.

    Args:
        ground: The facts.
        query: What the prompt is about. Default: what was learned last.
        budget: How much room there is: a number of characters, or a `Budget`, such as one that counts tokens. What
            fits worst is left out. Default: as much as it takes.
        valid: Only what held at this time. Default: all, and what has ended is marked so.

    Returns:
        The section; "" where nothing is known.

    Raises:
        InvalidInput: An argument is wrong.
    """
    limits = Budget.of(budget)
    measure = Measure(limits)
    question = "" if query is None else text_given(query, "A query").strip()
    at = None if valid is None else moment(time_given(valid, "valid"))
    work = _section(ground, question, at, limits, measure)
    asked: dict[str, Any] = {"query": question, "valid": at, f"most_{limits.unit}": limits.total}
    return as_step(ground, "facts.format_for_prompt", work, outputs=_section_shown, **asked)


def _section(ground: FactsGround, question: str, at: datetime | None, limits: Budget, measure: Measure) -> Work[str]:
    facts = yield from _chosen(ground, question, at)
    now = moment(ground.now()) if at is None else at
    lines: list[str] = []
    for fact in facts:
        more = [*lines, _fact_line(fact, now)]
        if limits.total is None or measure.size(_block(more)) <= limits.total:
            lines = more
    return _block(lines) if lines else ""


def _chosen(ground: FactsGround, query: str, valid: datetime | None) -> Work[list[Fact]]:
    """The facts for a question: those that a search finds, and what is known of the entities that it names."""
    if not query:
        facts = yield from listing(ground, limit=MOST, wanted=lambda fact: not fact.raw)
        return [fact for fact in reversed(facts) if valid is None or fact.holds_at(valid)]
    found = yield from find_facts(ground, query, MOST, valid=valid, raw=False)
    agreed: Rules = yield from looking(ground, "facts.rules", ground.rules, shown=False)
    words = f" {entity_key(query)} ".replace("?", " ").replace(",", " ").replace("'s ", " ")
    named = {
        agreed.canonical(name): name
        for fact in found
        for name in (fact.subject, fact.object)
        if f" {entity_key(name)} " in words
    }
    chosen = {fact.id: fact for fact in found}
    for name in named.values():
        more = yield from as_of_work(ground, valid, subject=name, limit=MOST)
        chosen.update((fact.id, fact) for fact in more if fact.id not in chosen)
    return list(chosen.values())[:MOST]


def _block(lines: Sequence[str]) -> str:
    return fenced(TAG, "\n".join(lines))


def _section_shown(made: str) -> dict[str, Any]:
    """What a trace shows of a section: between the marks stands a line for each fact."""
    return {"facts": max(0, made.count("\n") - 1), "characters": len(made), "text": brief(made)}


def _fact_line(fact: Fact, now: datetime) -> str:
    """A fact on one line, with its time."""
    past = ", past" if fact.valid_to is not None and fact.valid_to <= now else ""
    sure = "" if fact.confidence is None else f", confidence {fact.confidence:.2g}"
    return f"- {on_one_line(harmless(fact.text))} ({fact.period}{past}{sure})"
