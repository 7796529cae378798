"""Facts: what held when, as a table and as a graph, what contradicts itself; and of one fact how we know it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import MAXYEAR, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.base.namespaces import Namespace, ThreadId, id_of
from langchain_agentmem.errors import safe_repr
from langchain_agentmem.studio import application as web
from langchain_agentmem.studio.pages.overview import PATIENT, holders

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory
    from langchain_agentmem.facts.fact import Fact
    from langchain_agentmem.facts.kg_memory import KGMemory

MAIN = "main"
SOURCES = 3
"""Messages that a line of the table leads to."""
_SECOND = timedelta(seconds=1)


class FactsHome(NamedTuple):
    """Whose facts a page shows: those of a branch, or of a thread.

    Attributes:
        memory: The memory.
        namespace: Whose branch or thread it is.
        branch: The name of the branch; None where it is a thread.
        thread: The id of the thread; None where it is a branch.
    """

    memory: AgentMemory
    namespace: Namespace
    branch: str | None = None
    thread: str | None = None

    @property
    def facts(self) -> KGMemory:
        """The facts."""
        if self.thread is None:
            return self.memory.facts(self.branch, self.namespace)
        return self.memory.facts({"configurable": {"thread_id": ThreadId(self.thread, self.namespace)}})


async def facts(request: Request) -> Response:
    """What was learned last, of everything or of an entity, and what of it held at a time.

    Where nothing was, and nobody asked for anything, that of the first namespace with facts.
    """
    place, asked = _place(request), request.query_params
    entity, before = asked.get("entity") or None, asked.get("before") or None
    valid, recorded = web.time_asked(request, "valid"), web.time_asked(request, "recorded")
    kept = place.facts
    learned, branches = await asyncio.gather(
        kept.alatest(web.PAGE + 1, entity=entity, recorded=recorded, before=before),
        place.memory.admin.abranches(place.namespace),
    )
    if not learned and not any(asked.values()):
        for each in await holders(request, "memories", PATIENT):
            if each.namespace and await place.memory.facts(MAIN, each.namespace).alatest(1):
                return web.back(request, "/facts", namespace=each.namespace)
    shown = learned[: web.PAGE]
    clashes = await kept.acontradictions(list({fact.subject for fact in shown})) if recorded is None else []
    at = kept.now if valid is None else valid
    here = [each.name for each in branches if each.namespace == place.namespace]
    known = [each.namespace for each in (*branches, *await holders(request, "memories"))]
    depth = len(place.namespace)
    return web.page(
        request,
        "facts.html",
        place=place,
        entity=entity,
        valid=valid,
        recorded=_to_the_second(recorded),
        at=at,
        lines=[(each, _state(each, at)) for each in sorted(shown, key=lambda fact: fact.valid_from, reverse=True)],
        times=_times(shown, valid),
        contradictions=clashes,
        before=before,
        older=shown[-1].id if len(learned) > web.PAGE else None,
        branches=sorted({MAIN, *here}, key=lambda name: (name != MAIN, name)),
        below=[each for each in dict.fromkeys(known) if each[:depth] == place.namespace != each],
        sources=SOURCES,
    )


async def fact(request: Request) -> Response:
    """One fact: how we know it, what held before and after it, and what it contradicts."""
    place, name = _place(request), id_of(web.required(request, "id"), "fact")
    kept = place.facts
    found = await kept.aget(name)
    if found is None or found.raw:
        raise web.missing(f"There is no fact {safe_repr(name)} here. It may have been taken back.")
    evidence, others, clashes = await asyncio.gather(
        kept.aevidence(name),
        kept.alatest(web.PAGE, entity=found.subject, predicate=found.predicate),
        kept.acontradictions(found.subject, found.predicate),
    )
    same = [each for each in others if each.subject == found.subject]
    return web.page(
        request,
        "fact.html",
        place=place,
        fact=found,
        evidence=evidence,
        history=sorted(same, key=lambda each: each.valid_from),
        contradictions=[each for each in clashes if name in {one.id for one in each.facts}],
    )


def _place(request: Request) -> FactsHome:
    memory, namespace = web.studio_of(request).memory, web.namespace_asked(request) or ()
    thread = request.query_params.get("thread")
    if thread:
        return FactsHome(memory, namespace, thread=id_of(thread, "thread"))
    return FactsHome(memory, namespace, branch=id_of(request.query_params.get("branch") or MAIN, "branch"))


def _state(fact: Fact, at: datetime) -> str:
    return "holds" if fact.holds_at(at) else "later" if fact.valid_from > at else "ended"


def _times(facts: Iterable[Fact], also: datetime | None) -> Sequence[datetime]:
    """When something of it began or ended, the earliest first."""
    times: Collection[datetime | None] = {also, *(at for fact in facts for at in (fact.valid_from, fact.valid_to))}
    return sorted(at for at in times if at is not None)


def _to_the_second(at: datetime | None) -> datetime | None:
    """A time as a field of a form has it, not before it, so that what was learned just then stays known."""
    return at if at is None or not at.microsecond or at.year == MAXYEAR else at.replace(microsecond=0) + _SECOND
