"""The pages that show all of memory: overview, search, facts, experiences and audit; and where each page is: `ROUTES`.

The pages of threads are in `thread_pages.py`, those that correct and erase in `correction_pages.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import MAXYEAR, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from langchain_agentmem.audit.audit_entry import KINDS, STATUSES, AuditEntry
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.base.namespaces import Namespace, ThreadId, id_of
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.search.ranking import Weights
from langchain_agentmem.search.timeline import ORDERS
from langchain_agentmem.studio import application as web
from langchain_agentmem.studio import correction_pages, thread_pages
from langchain_agentmem.upkeep.admin import NamespaceSummary

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory
    from langchain_agentmem.facts.fact import Fact
    from langchain_agentmem.facts.kg_memory import KGMemory
    from langchain_agentmem.search.memory_search import Explanation, Recollection


# -- overview ----------------------------------------------------------------------------------------------------------


LARGEST = 10
"""Namespaces that are shown."""
PATIENT = 2.0
"""Seconds that a page waits for an answer without which it is empty."""


class NamespaceUsage(NamedTuple):
    """The contents of a namespace and of all below it.

    Attributes:
        namespace: The namespace.
        itself: True for the namespace alone, if those below it have lines of their own.
        below: The number of namespaces below it.
        messages: The number of messages.
        bytes: The size of everything in it, in bytes.
    """

    namespace: Namespace
    itself: bool
    below: int
    messages: int
    bytes: int


def parts_of(summaries: Sequence[NamespaceSummary], within: Namespace = ()) -> list[NamespaceUsage]:
    """Return the usage of a namespace itself and of each label below it, the largest first.

    If everything below it is below one label, that label is divided instead.
    """
    found: dict[Namespace, list[NamespaceSummary]] = {}
    for each in summaries:
        if each.namespace[: len(within)] == within and (each.bytes or each.threads):
            found.setdefault(each.namespace[: len(within) + 1], []).append(each)
    own = found.pop(within, [])
    parts = [_usage(name, some) for name, some in found.items()]
    if len(parts) == 1 and parts[0].below:
        parts = parts_of(summaries, parts[0].namespace)
    if own:
        parts.append(_usage(within, own)._replace(itself=bool(parts)))
    return sorted(parts, key=lambda each: -each.bytes)


def _usage(name: Namespace, summaries: Sequence[NamespaceSummary]) -> NamespaceUsage:
    below = sum(each.namespace != name for each in summaries)
    messages, size = sum(each.messages for each in summaries), sum(each.bytes for each in summaries)
    return NamespaceUsage(name, itself=False, below=below, messages=messages, bytes=size)


async def namespaces_kept(
    request: Request, patience: float = web.PATIENCE
) -> web.CachedAnswer[list[NamespaceSummary]] | None:
    """Return the cached sizes of each namespace; None if they are not known yet.

    Args:
        request: The request.
        patience: Seconds to wait for the answer. Default: `web.PATIENCE`.
    """
    studio = web.studio_of(request)
    return await studio.kept.look("namespaces", studio.memory.admin.namespaces, patience=patience)


async def holders(request: Request, what: str, patience: float = 0) -> list[NamespaceSummary]:
    """Return the namespaces with the most objects of a kind, as far as that is known.

    Args:
        request: The request.
        what: A count of `NamespaceSummary`.
        patience: Seconds to wait for the answer. Default: 0.
    """
    known = await namespaces_kept(request, patience)
    held = [] if known is None else [each for each in known.value if getattr(each, what)]
    return sorted(held, key=lambda each: -getattr(each, what))[: web.PAGE]


def figures_of(memory: AgentMemory) -> dict[str, Any]:
    """Count everything, and diagnose a whole database; this reads all of it."""
    whole = memory.database.scopes.within is None
    findings = memory.admin.diagnose() if whole else []
    return {"stats": memory.admin.stats(), "growth": memory.admin.growth(), "findings": findings}


async def overview(request: Request) -> Response:
    """Show the first page. Slow counts appear when they are known."""
    studio = web.studio_of(request)
    look = studio.kept.look("figures", partial(figures_of, studio.memory))
    seen, sized = await asyncio.gather(look, namespaces_kept(request))
    return web.page(
        request,
        "overview.html",
        seen=seen,
        sized=sized,
        namespaces=[] if sized is None else parts_of(sized.value)[:LARGEST],
    )


# -- search ------------------------------------------------------------------------------------------------------------


SEARCHED = ("message", "event", "record", "fact", "item", "audit")
"""The searchable kinds, by their names in addresses."""
WORDS, VECTORS = "words", "vectors"
"""The methods of a search: words alone, or vectors too, if there are any."""
USUAL = 20
"""Default number of hits."""


async def search(request: Request) -> Response:
    """Show the search form and its hits."""
    asked, memory = request.query_params, web.studio_of(request).memory
    query, namespace = asked.get("q", ""), web.namespace_asked(request)
    kind: Any = asked.get("kind") or None  # the search checks it
    by, limit = asked.get("by") or VECTORS, min(web.number_asked(request, "limit", USUAL), web.PAGE)
    order = next((each for each in ORDERS if each == (asked.get("order") or "score")), None)
    since, until = web.time_asked(request, "since"), web.time_asked(request, "until")
    if order is None or by not in (WORDS, VECTORS):
        raise InvalidInput(f'order is "score" or "time", and by is "{WORDS}" or "{VECTORS}".')
    found: list[Recollection] = []
    if query.strip():
        found = await memory.asearch(
            query,
            namespace=namespace,
            everything=namespace is None,
            kinds=None if kind is None else [kind],
            conversation_id=asked.get("conversation") or None,
            after=since,
            before=until,
            order=order,
            limit=limit,
            weights=Weights() if by == WORDS else None,
        )
    hits = [(each, _reasons(each.why), _where(request, each)) for each in found]
    return web.page(
        request,
        "search.html",
        query=query,
        namespace=namespace,
        kind=kind,
        kinds=SEARCHED,
        order=order,
        orders=ORDERS,
        by=by,
        has_vectors=memory.store.embeddings is not None,
        since=since,
        until=until,
        conversation=asked.get("conversation", ""),
        limit=limit,
        hits=hits,
        best=max((each.score for each in found), default=0.0),
        most=max((abs(value) for _, reasons, _ in hits for _, _, value in reasons), default=0.0),
    )


def _reasons(why: Explanation) -> list[tuple[str, str, float]]:
    """Return the reasons for a hit: kind, name and score of each, the largest first."""
    kinds = (("word", why.terms), ("nearby", why.nearby), ("signal", why.signals))
    found = [(kind, name, value) for kind, values in kinds for name, value in values.items()]
    return sorted(found, key=lambda each: -abs(each[2]))


def _where(request: Request, found: Recollection) -> str | None:
    """Return the address of the page that shows a hit; None if there is none."""
    namespace, name, thread = found.namespace, found.conversation_id, found.thread_id
    if found.kind == "audit":
        return web.address(request, "/audit", namespace=namespace, conversation=name)
    if name is None:
        return None
    if found.kind == "message":
        return web.address(request, "/thread", namespace=namespace, id=name, message=found.id)
    if found.kind == "fact":
        branch = name if thread is None else None
        return web.address(request, "/fact", namespace=namespace, branch=branch, thread=thread, id=found.id)
    if thread is not None or found.kind == "item":
        return web.address(request, "/thread", namespace=namespace, id=thread or name, show="memory")
    return web.address(request, "/memory", namespace=namespace, branch=name)


# -- facts -------------------------------------------------------------------------------------------------------------


MAIN = "main"
SOURCES = 3
"""Maximum number of source messages linked from a line of the table."""
_SECOND = timedelta(seconds=1)


class FactsTarget(NamedTuple):
    """The branch or thread whose facts a page shows.

    Attributes:
        memory: The memory.
        namespace: The namespace of the branch or thread.
        branch: The name of the branch; None for a thread.
        thread: The id of the thread; None for a branch.
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
    """Show the newest facts, of all entities or of one, and which of them hold at a time.

    Without facts and without a query, redirect to the first namespace with facts.
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
    """Show one fact: its evidence, the facts before and after it, and contradictions."""
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


def _place(request: Request) -> FactsTarget:
    memory, namespace = web.studio_of(request).memory, web.namespace_asked(request) or ()
    thread = request.query_params.get("thread")
    if thread:
        return FactsTarget(memory, namespace, thread=id_of(thread, "thread"))
    return FactsTarget(memory, namespace, branch=id_of(request.query_params.get("branch") or MAIN, "branch"))


def _state(fact: Fact, at: datetime) -> str:
    return "holds" if fact.holds_at(at) else "later" if fact.valid_from > at else "ended"


def _times(facts: Iterable[Fact], also: datetime | None) -> Sequence[datetime]:
    """Return the times when facts began or ended, the earliest first."""
    times: Collection[datetime | None] = {also, *(at for fact in facts for at in (fact.valid_from, fact.valid_to))}
    return sorted(at for at in times if at is not None)


def _to_the_second(at: datetime | None) -> datetime | None:
    """Return a time rounded up to a second, so that facts recorded within it stay known."""
    return at if at is None or not at.microsecond or at.year == MAXYEAR else at.replace(microsecond=0) + _SECOND


# -- the audit trail ---------------------------------------------------------------------------------------------------


LONGEST = 2_000
"""Characters of a prompt or reply that a list shows; the entry itself shows all."""
JUNK = {"": False, "with": True, "only": "only"}
"""The values of the parameter `junk`: hide junk, show it, or show only junk."""


async def audit_entries(request: Request) -> Response:
    """Show the entries, the newest first; or the hits of a search, the best first.

    Without entries and without a query, redirect to the namespace with the most entries.
    """
    trail, asked = _trail(request), request.query_params
    kind, junk, words = asked.get("kind") or None, asked.get("junk", ""), asked.get("q", "")
    conversation = asked.get("conversation") or None
    if junk not in JUNK:
        raise InvalidInput(f"junk is {' or '.join(filter(None, JUNK))} in the address, or left out.")
    found: list[AuditEntry]
    older = None
    if words:
        hits = await trail.asearch(words, web.PAGE, conversation)
        found = [hit.value for hit in hits if kind in (None, hit.value.kind)]
    else:
        options: dict[str, Any] = {"kinds": kind and [kind], "include_junk": JUNK[junk], "messages": False}
        last = await trail.alast(web.PAGE + 1, conversation, before=asked.get("before") or None, **options)
        found = last[::-1][: web.PAGE]
        older = found[-1].id if len(last) > web.PAGE else None
        if not found and not any(asked.values()) and (others := await holders(request, "audit", PATIENT)):
            return web.back(request, "/audit", namespace=others[0].namespace)
    return web.page(
        request, "audit.html", view="entries", entries=found, older=older, kinds=KINDS, **await _shared(request, trail)
    )


async def audit_todos(request: Request) -> Response:
    """Show the open or completed todos."""
    trail, start = _trail(request), web.number_asked(request, "start")
    status: Any = request.query_params.get("status") or "open"  # the trail checks it
    found = (await trail.atodos(status))[::-1]
    return web.page(
        request,
        "audit.html",
        view="todos",
        entries=found[start : start + web.PAGE],
        total=len(found),
        start=start,
        neighbours=web.pages_of(len(found), start),
        statuses=STATUSES,
        chosen=status,
        **await _shared(request, trail),
    )


async def audit_chain(request: Request) -> Response:
    """Show the state of the chain, which is verified on request."""
    trail, studio = _trail(request), web.studio_of(request)
    seen = None
    if asked := "verify" in request.query_params:
        seen = await studio.kept.look("chain", trail.verify)
    return web.page(request, "audit.html", view="chain", asked_for=asked, seen=seen, **await _shared(request, trail))


def _trail(request: Request) -> AuditTrail:
    return AuditTrail(web.studio_of(request).memory, web.namespace_asked(request) or ())


async def _shared(request: Request, trail: AuditTrail) -> dict[str, Any]:
    """Return the values that all views of the trail show."""
    asked = request.query_params
    return {
        "asked": asked,
        "namespace": web.namespace_asked(request) or (),
        "head": await trail.ahead(),
        "trails": await holders(request, "audit"),
        "longest": LONGEST,
    }


# -- experiences -------------------------------------------------------------------------------------------------------


async def experiences(request: Request) -> Response:
    """Show the experiences of the library in their order, of all roles or of one."""
    library, start = web.studio_of(request).experiences, web.number_asked(request, "start")
    role = request.query_params.get("role") or None
    check = None if library is None else await library.avalidate()
    known = () if check is None else check.experiences
    listed = [each for each in known if role is None or each.is_for(role)]
    return web.page(
        request,
        "experiences.html",
        library=check,
        roles=sorted({who for each in known for who in each.who}, key=str.casefold),
        role=role,
        listed=listed[start : start + web.PAGE],
        total=len(listed),
        start=start,
        neighbours=web.pages_of(len(listed), start),
    )


ROUTES = (
    Route("/", overview),
    Route("/threads", thread_pages.threads),
    Route("/thread", thread_pages.thread),
    Route("/conversation", thread_pages.conversation),
    Route("/memory", thread_pages.memory_branch),
    Route("/search", search),
    Route("/facts", facts),
    Route("/fact", fact),
    Route("/experiences", experiences),
    Route("/audit", audit_entries),
    Route("/audit/todos", audit_todos),
    Route("/audit/chain", audit_chain),
    Route("/correct", correction_pages.correct),
    web.changing("/correct", correction_pages.change),
    web.changing("/undo", correction_pages.undo),
    Route("/corrections", correction_pages.corrections),
    Route("/erase", correction_pages.erase),
    web.changing("/erase/rehearse", correction_pages.rehearse),
    web.changing("/erase", correction_pages.do_erase),
)
