"""Facts as a section of a prompt: what fits the question, with its time, in as much room as there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_agentmem.base.argument_checks import text_given
from langchain_agentmem.base.clock import moment, time_given
from langchain_agentmem.base.fencing import fenced, harmless, on_one_line
from langchain_agentmem.facts import fact_queries
from langchain_agentmem.facts.entity_names import entity_key
from langchain_agentmem.facts.fact import Fact
from langchain_agentmem.facts.learning import FactsGround
from langchain_agentmem.facts.predicate_rules import Rules
from langchain_agentmem.language_models.budget import Budget, Measure
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.rewinding.memory_access import as_step, looking
from langchain_agentmem.tracing import brief

TAG = "facts"
MOST = 50
"""How many facts a section has at most."""


def section(
    ground: FactsGround,
    query: str | None,
    budget: int | Mapping[str, Any] | Budget | None,
    *,
    valid: datetime | None = None,
    counter: TokenCounter | None = None,
) -> Work[str]:
    """Facts as text for a prompt, or "" where there are none.

    Args:
        ground: The memory.
        query: What the prompt is about. Default: the last facts that were learned.
        budget: How much room there is: a number of characters, a mapping or a `Budget`, of which the total counts.
        valid: What held at this time. Default: now, and what ended before is marked as past.
        counter: Counts tokens, for a budget in tokens. Default: a new one.

    Raises:
        InvalidInput: An argument is wrong.
    """
    limits = Budget.of(budget)
    measure = Measure(limits, counter)
    question = "" if query is None else text_given(query, "A query").strip()
    at = None if valid is None else moment(time_given(valid, "valid"))
    work = _section(ground, question, at, limits, measure)
    asked: dict[str, Any] = {"query": question, "valid": at, f"most_{limits.unit}": limits.total}
    return (yield from as_step(ground, "facts.format_for_prompt", work, outputs=_told, **asked))


def _section(ground: FactsGround, question: str, at: datetime | None, limits: Budget, measure: Measure) -> Work[str]:
    facts = yield from _chosen(ground, question, at)
    now = moment(ground.now()) if at is None else at
    lines: list[str] = []
    for fact in facts:
        more = [*lines, _line(fact, now)]
        if limits.total is None or measure.size(_block(more)) <= limits.total:
            lines = more
    return _block(lines) if lines else ""


def _chosen(ground: FactsGround, query: str, valid: datetime | None) -> Work[list[Fact]]:
    """The facts for a question: those that a search finds, and what is known of the entities that it names."""
    if not query:
        facts = yield from fact_queries.listing(ground, limit=MOST, wanted=lambda fact: not fact.raw)
        return [fact for fact in reversed(facts) if valid is None or fact.holds_at(valid)]
    found = yield from fact_queries.searching(ground, query, MOST, valid=valid, raw=False)
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
        more = yield from fact_queries.at_time(ground, valid=valid, subject=name, limit=MOST)
        chosen.update((fact.id, fact) for fact in more if fact.id not in chosen)
    return list(chosen.values())[:MOST]


def _block(lines: Sequence[str]) -> str:
    return fenced(TAG, "\n".join(lines))


def _told(made: str) -> dict[str, Any]:
    """What a trace shows of a section: between the marks stands a line for each fact."""
    return {"facts": max(0, made.count("\n") - 1), "characters": len(made), "text": brief(made)}


def _line(fact: Fact, now: datetime) -> str:
    """A fact on one line, with its time."""
    past = ", past" if fact.valid_to is not None and fact.valid_to <= now else ""
    sure = "" if fact.confidence is None else f", confidence {fact.confidence:.2g}"
    return f"- {on_one_line(harmless(fact.text))} ({fact.period}{past}{sure})"
