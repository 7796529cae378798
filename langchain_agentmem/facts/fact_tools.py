"""Tools by which an agent keeps facts, finds them, and looks up how they changed.

    agent = create_agent(model, tools=fact_tools(memory), checkpointer=memory.checkpointer)

They are operations like those on the layers (`memory/operations/`). What they give is data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import Field

from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.facts.fact import Fact, FactsConfig
from langchain_agentmem.facts.fact_extraction import times_in
from langchain_agentmem.facts.kg_memory import KGMemory
from langchain_agentmem.language_models.binding import Whose
from langchain_agentmem.language_models.tool_arguments import Arguments, Text
from langchain_agentmem.language_models.tool_calling import Call, Calls
from langchain_agentmem.language_models.tool_factory import LIMIT, Operation, tool_of, within
from langchain_agentmem.language_models.tool_results import listed, passage

ROLE = "assistant"
"""Whose fact it is that a model keeps."""
SOURCES = 3
"""How many sources a model is shown of a fact."""
QUOTED = 200
"""How much of a source it is shown, in characters."""


class FactAdd(Arguments):
    """A fact."""

    subject: Text = Field(description="Whom or what it is about, by the full name; never a pronoun.")
    predicate: Text = Field(description='What it says, in a few words, such as "lives in" or "likes".')
    object: Text = Field(description="Of what, or whom.")
    valid_from: Text | None = Field(
        default=None, description="Since when it holds: a date such as 2024-03-01. Leave out for now."
    )
    valid_to: Text | None = Field(
        default=None, description="When it ceased to hold, if it has. Leave out for what still holds."
    )


class FactSearch(Arguments):
    """What facts are looked for."""

    query: Text = Field(description='What to look for, in a few words or as a question; "*" for the newest.')
    limit: int = Field(default=10, description="How many results at most.")


class FactHistory(Arguments):
    """Whose history is wanted."""

    subject: Text = Field(description="Whom or what it is about, by name.")
    predicate: Text | None = Field(default=None, description='Only this, such as "lives in". Leave out for everything.')


def fact_tools(
    memory: Any,
    branch_or_config: str | Mapping[str, Any] | None = None,
    namespace: Sequence[str] | None = None,
    *,
    settings: FactsConfig | None = None,
) -> list[BaseTool]:
    """The tools `fact_add`, `fact_search` and `fact_history`. They need no other model than the one that uses them.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database; or a `KGMemory`, which they all work on then.
        branch_or_config: The name of a branch, or a config that names a thread. Default: the thread of the run that
            calls the tool, whose facts are rewound with it.
        namespace: Whose it is. Default: that of the run.
        settings: How facts are kept, unless it is a `KGMemory`. Default: `FactsConfig()`.

    Raises:
        InvalidInput: An argument is wrong.
    """
    whose = Whose(KGMemory, "facts", memory, branch_or_config, namespace, settings=settings)
    return [tool_of(operation, whose) for operation in OPERATIONS]


def _add(facts: KGMemory, given: FactAdd) -> Calls[str]:
    times = {
        name: None if at is None else moment(at)
        for name, at in zip(("valid_from", "valid_to"), _times(given, facts.now), strict=True)
    }
    fact_id = yield Call(facts, "add_fact", (ROLE, given.subject, given.predicate, given.object), times)
    known: list[Fact] = yield Call(facts, "history", (given.subject, given.predicate))
    clashes = yield Call(facts, "contradictions", (given.subject, given.predicate))
    pairs = [clash.facts for clash in clashes if fact_id in {fact.id for fact in clash.facts}]
    parts = [
        f"The fact is kept, with the id {fact_id}",
        _told_of("it is now known", [fact for fact in known if fact.id == fact_id]),
        _told_of("it ended", [fact for fact in known if fact.ended_by == fact_id]),
        _told_of("it contradicts", [fact for pair in pairs for fact in pair if fact.id != fact_id]),
    ]
    return "; ".join(part for part in parts if part) + "."


def _search(facts: KGMemory, given: FactSearch) -> Calls[Any]:
    found: list[Fact] = yield Call(facts, "search", (given.query,), {"limit": within(given.limit)})
    return listed("found", [_said(fact) if fact.raw else _fact(fact) for fact in found])


def _history(facts: KGMemory, given: FactHistory) -> Calls[Any]:
    known: list[Fact] = yield Call(facts, "history", (given.subject, given.predicate))
    if not known:
        what = "" if given.predicate is None else f" and {safe_repr(passage(given.predicate, most=QUOTED))}"
        return (
            f"Nothing is known of {safe_repr(passage(given.subject, most=QUOTED))}{what}; fact_search finds by words."
        )
    newest = []
    for fact in reversed(known[-LIMIT:]):
        evidence = yield Call(facts, "evidence", (fact.id,))
        newest.append({**_fact(fact), "sources": [_source(each) for each in evidence[:SOURCES]]})
        if evidence[SOURCES:]:
            newest[-1]["more_sources"] = len(evidence) - SOURCES
    read = listed("history", newest)
    read["history"].reverse()
    left_out = len(known) - len(read["history"])
    return {**read, "left_out": left_out} if left_out else read


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="fact_add",
        about=(
            "Keep a fact as subject, predicate and object, such as: Maya Ortiz, lives in, Lisbon. It is kept with the "
            "time in which it holds. Where only one value can hold at a time, the value before it ends, and is kept "
            "as what was."
        ),
        arguments=FactAdd,
        do=_add,
        adds=True,
    ),
    Operation(
        name="fact_search",
        about="Search the facts that are kept, what holds no longer included, and what was said. Gives the times, too.",
        arguments=FactSearch,
        do=_search,
        reads=True,
    ),
    Operation(
        name="fact_history",
        about="Read all that ever held of somebody or something, in order, with the times and how it is known.",
        arguments=FactHistory,
        do=_history,
        reads=True,
    ),
)
"""What a model can do with facts."""


def _times(given: Any, now: datetime) -> tuple[int | None, int | None]:
    """When something began and ended, as a model means it; none where it says nothing, or that it begins now."""
    start = None if (given.valid_from or "").strip().lower() in {"", "now"} else given.valid_from
    end = None if not (given.valid_to or "").strip() else given.valid_to
    times = times_in(start, end, micros(now))
    for name, said, at in zip(("valid_from", "valid_to"), (start, end), times, strict=True):
        if said is not None and at is None:
            raise InvalidInput(
                f"{name} is a date or a time, such as 2024-03-01, not {safe_repr(passage(said, most=QUOTED))}."
            )
    return times


def _fact(fact: Fact) -> dict[str, Any]:
    told = {"id": fact.id, "text": passage(fact.text), "valid_from": fact.valid_from, "valid_to": fact.valid_to}
    return told if fact.confidence is None else {**told, "confidence": fact.confidence}


def _said(fact: Fact) -> dict[str, Any]:
    note = f"(a part of message {fact.id})"
    return {"id": fact.id, "text": passage(fact.text, note), "said_by": fact.subject, "time": fact.valid_from}


def _source(evidence: Any) -> dict[str, Any]:
    text = None if evidence.text is None else passage(evidence.text, most=QUOTED)
    told = {"said_by": evidence.role, "time": evidence.recorded_at, "message": evidence.message_id, "text": text}
    return {name: value for name, value in told.items() if value is not None}


def _told_of(what: str, facts: Sequence[Fact]) -> str:
    """Some facts in a part of a sentence, or "" where there are none."""
    shown = [f"{safe_repr(passage(fact.text, most=QUOTED))}, {fact.period}" for fact in facts[:SOURCES]]
    more = [f"and {len(facts) - SOURCES} more"] if facts[SOURCES:] else []
    return f"{what}: {', '.join([*shown, *more])}" if facts else ""
