"""The pages of the overview, search, facts, experiences and audit, and the routes of all pages.

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
from langchain_agentmem.base.namespaces import Namespace, ThreadId, check_id
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


MAX_NAMESPACES = 10
"""Maximum number of namespaces on the overview."""
LONG_TIMEOUT = 2.0
"""Maximum seconds that a page waits for an answer that it needs to choose a redirect."""


class NamespaceUsage(NamedTuple):
    """The contents of a namespace, and of all namespaces below it unless `is_own` is True.

    Attributes:
        namespace: The namespace.
        is_own: True if the namespaces below it are excluded, because they are listed separately.
        below: The number of included namespaces below it.
        messages: The number of messages.
        bytes: The size of the contents, in bytes.
    """

    namespace: Namespace
    is_own: bool
    below: int
    messages: int
    bytes: int


def usage_by_label(summaries: Sequence[NamespaceSummary], within: Namespace = ()) -> list[NamespaceUsage]:
    """Return the usage of a namespace itself and of each label below it, the largest first.

    If only one label is below it, and that label has labels below it, that label is split in the same way.
    """
    found: dict[Namespace, list[NamespaceSummary]] = {}
    for each in summaries:
        if each.namespace[: len(within)] == within and (each.bytes or each.threads):
            found.setdefault(each.namespace[: len(within) + 1], []).append(each)
    own = found.pop(within, [])
    parts = [_usage(name, group) for name, group in found.items()]
    if len(parts) == 1 and parts[0].below:
        parts = usage_by_label(summaries, parts[0].namespace)
    if own:
        parts.append(_usage(within, own)._replace(is_own=bool(parts)))
    return sorted(parts, key=lambda each: -each.bytes)


def _usage(name: Namespace, summaries: Sequence[NamespaceSummary]) -> NamespaceUsage:
    below = sum(each.namespace != name for each in summaries)
    messages, size = sum(each.messages for each in summaries), sum(each.bytes for each in summaries)
    return NamespaceUsage(name, is_own=False, below=below, messages=messages, bytes=size)


async def namespace_sizes(
    request: Request, max_wait: float = web.ANSWER_TIMEOUT
) -> web.CachedAnswer[list[NamespaceSummary]] | None:
    """Return the cached sizes of each namespace; None if they are not known yet.

    Args:
        request: The request.
        max_wait: Seconds to wait for the answer. Default: `web.ANSWER_TIMEOUT`.
    """
    studio = web.studio_of(request)
    return await studio.cache.fetch("namespaces", studio.memory.admin.namespaces, max_wait=max_wait)


async def namespaces_with(request: Request, count_name: str, max_wait: float = 0) -> list[NamespaceSummary]:
    """Return the namespaces with the most objects of a kind; empty if these are not known yet.

    Args:
        request: The request.
        count_name: The attribute of `NamespaceSummary` that counts the objects.
        max_wait: Seconds to wait for the answer. Default: 0.
    """
    known = await namespace_sizes(request, max_wait)
    nonempty = [] if known is None else [each for each in known.value if getattr(each, count_name)]
    return sorted(nonempty, key=lambda each: -getattr(each, count_name))[: web.PAGE]


def load_figures(memory: AgentMemory) -> dict[str, Any]:
    """Return statistics, growth and, for the whole database, findings. This reads all data."""
    is_unscoped = memory.database.scopes.boundary is None
    findings = memory.admin.diagnose() if is_unscoped else []
    return {"stats": memory.admin.stats(), "growth": memory.admin.growth(), "findings": findings}


async def overview(request: Request) -> Response:
    """Show the overview. Slow figures appear when they have been computed."""
    studio = web.studio_of(request)
    pending = studio.cache.fetch("figures", partial(load_figures, studio.memory))
    figures, sizes = await asyncio.gather(pending, namespace_sizes(request))
    namespaces = [] if sizes is None else usage_by_label(sizes.value)[:MAX_NAMESPACES]
    return web.render_page(request, "overview.html", answer=figures, sizes=sizes, namespaces=namespaces)


# -- search ------------------------------------------------------------------------------------------------------------


SEARCH_KINDS = ("message", "event", "record", "fact", "item", "audit")
"""The searchable kinds, as URL parameters name them."""
WORDS, VECTORS = "words", "vectors"
"""The methods of a search: keywords only, or also vectors if available."""
DEFAULT_LIMIT = 20
"""Default number of hits."""


async def search(request: Request) -> Response:
    """Show the search form and its hits."""
    params, memory = request.query_params, web.studio_of(request).memory
    query, namespace = params.get("q", ""), web.namespace_param(request)
    kind: Any = params.get("kind") or None  # `asearch` validates it
    method, limit = params.get("by") or VECTORS, min(web.number_param(request, "limit", DEFAULT_LIMIT), web.PAGE)
    order = next((each for each in ORDERS if each == (params.get("order") or "score")), None)
    since, until = web.time_param(request, "since"), web.time_param(request, "until")
    if order is None or method not in (WORDS, VECTORS):
        raise InvalidInput(f'order must be "score" or "time", and by must be "{WORDS}" or "{VECTORS}".')
    found: list[Recollection] = []
    if query.strip():
        found = await memory.asearch(
            query,
            namespace=namespace,
            everything=namespace is None,
            kinds=None if kind is None else [kind],
            conversation_id=params.get("conversation") or None,
            after=since,
            before=until,
            order=order,
            limit=limit,
            weights=Weights() if method == WORDS else None,
        )
    hits = [(each, _list_reasons(each.why), _hit_url(request, each)) for each in found]
    return web.render_page(
        request,
        "search.html",
        query=query,
        namespace=namespace,
        kind=kind,
        kinds=SEARCH_KINDS,
        order=order,
        orders=ORDERS,
        by=method,
        has_vectors=memory.store.embeddings is not None,
        since=since,
        until=until,
        conversation=params.get("conversation", ""),
        limit=limit,
        hits=hits,
        best=max((each.score for each in found), default=0.0),
        most=max((abs(value) for _, reasons, _ in hits for _, _, value in reasons), default=0.0),
    )


def _list_reasons(why: Explanation) -> list[tuple[str, str, float]]:
    """Return the reasons for a hit: kind, name and score of each, the largest first."""
    kinds = (("word", why.terms), ("nearby", why.nearby), ("signal", why.signals))
    found = [(kind, name, value) for kind, values in kinds for name, value in values.items()]
    return sorted(found, key=lambda each: -abs(each[2]))


def _hit_url(request: Request, found: Recollection) -> str | None:
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
MAX_SOURCES = 3
"""Maximum number of source messages linked from a row of the table."""
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
    """Show the newest facts of all entities or of one, each with its state at a time.

    Without facts and without a query, redirect to the first namespace with facts.
    """
    target, params = _facts_target(request), request.query_params
    entity, before = params.get("entity") or None, params.get("before") or None
    valid, recorded = web.time_param(request, "valid"), web.time_param(request, "recorded")
    kg = target.facts
    latest, branches = await asyncio.gather(
        kg.alatest(web.PAGE + 1, entity=entity, recorded=recorded, before=before),
        target.memory.admin.abranches(target.namespace),
    )
    if not latest and not any(params.values()):
        for each in await namespaces_with(request, "memories", LONG_TIMEOUT):
            if each.namespace and await target.memory.facts(MAIN, each.namespace).alatest(1):
                return web.redirect(request, "/facts", namespace=each.namespace)
    page_facts = latest[: web.PAGE]
    contradictions = await kg.acontradictions(list({fact.subject for fact in page_facts})) if recorded is None else []
    at = kg.now if valid is None else valid
    by_start = sorted(page_facts, key=lambda fact: fact.valid_from, reverse=True)
    branch_names = [each.name for each in branches if each.namespace == target.namespace]
    namespaces = [each.namespace for each in (*branches, *await namespaces_with(request, "memories"))]
    depth = len(target.namespace)
    return web.render_page(
        request,
        "facts.html",
        place=target,
        entity=entity,
        valid=valid,
        recorded=_round_up_second(recorded),
        at=at,
        lines=[(each, _fact_state(each, at)) for each in by_start],
        times=_change_times(page_facts, valid),
        contradictions=contradictions,
        before=before,
        older=page_facts[-1].id if len(latest) > web.PAGE else None,
        branches=sorted({MAIN, *branch_names}, key=lambda name: (name != MAIN, name)),
        below=[each for each in dict.fromkeys(namespaces) if each[:depth] == target.namespace != each],
        sources=MAX_SOURCES,
    )


async def fact(request: Request) -> Response:
    """Show one fact: its evidence, the facts before and after it, and contradictions."""
    target, fact_id = _facts_target(request), check_id(web.required_param(request, "id"), "fact")
    kg = target.facts
    found = await kg.aget(fact_id)
    if found is None or found.raw:
        raise web.not_found(f"There is no fact {safe_repr(fact_id)} here. It may have been rewound or deleted.")
    evidence, others, contradictions = await asyncio.gather(
        kg.aevidence(fact_id),
        kg.alatest(web.PAGE, entity=found.subject, predicate=found.predicate),
        kg.acontradictions(found.subject, found.predicate),
    )
    history = [each for each in others if each.subject == found.subject]
    return web.render_page(
        request,
        "fact.html",
        place=target,
        fact=found,
        evidence=evidence,
        history=sorted(history, key=lambda each: each.valid_from),
        contradictions=[each for each in contradictions if fact_id in {one.id for one in each.facts}],
    )


def _facts_target(request: Request) -> FactsTarget:
    memory, namespace = web.studio_of(request).memory, web.namespace_param(request) or ()
    thread = request.query_params.get("thread")
    if thread:
        return FactsTarget(memory, namespace, thread=check_id(thread, "thread"))
    return FactsTarget(memory, namespace, branch=check_id(request.query_params.get("branch") or MAIN, "branch"))


def _fact_state(fact: Fact, at: datetime) -> str:
    return "holds" if fact.holds_at(at) else "later" if fact.valid_from > at else "ended"


def _change_times(facts: Iterable[Fact], extra: datetime | None) -> Sequence[datetime]:
    """Return the times when facts began or ended, the earliest first."""
    times: Collection[datetime | None] = {extra, *(at for fact in facts for at in (fact.valid_from, fact.valid_to))}
    return sorted(at for at in times if at is not None)


def _round_up_second(at: datetime | None) -> datetime | None:
    """Return a time rounded up to a second, so that facts recorded within it are included."""
    return at if at is None or not at.microsecond or at.year == MAXYEAR else at.replace(microsecond=0) + _SECOND


# -- the audit trail ---------------------------------------------------------------------------------------------------


MAX_ENTRY_CHARS = 2_000
"""Maximum characters of a prompt or reply to show before it is collapsed."""
JUNK_VALUES = {"": False, "with": True, "only": "only"}
"""The values of the parameter `junk`: hide junk, show it, or show only junk."""


async def audit_entries(request: Request) -> Response:
    """Show the entries of the trail, the newest first, or search hits, the best first.

    Without entries and without a query, redirect to the namespace with the most entries.
    """
    trail, params = _open_trail(request), request.query_params
    kind, junk, words = params.get("kind") or None, params.get("junk", ""), params.get("q", "")
    conversation = params.get("conversation") or None
    if junk not in JUNK_VALUES:
        raise InvalidInput(f"junk must be {' or '.join(filter(None, JUNK_VALUES))}, or left out.")
    found: list[AuditEntry]
    older = None
    if words:
        hits = await trail.asearch(words, web.PAGE, conversation)
        found = [hit.value for hit in hits if kind in (None, hit.value.kind)]
    else:
        options: dict[str, Any] = {"kinds": kind and [kind], "include_junk": JUNK_VALUES[junk], "messages": False}
        last = await trail.alast(web.PAGE + 1, conversation, before=params.get("before") or None, **options)
        found = last[::-1][: web.PAGE]
        older = found[-1].id if len(last) > web.PAGE else None
        if not found and not any(params.values()) and (others := await namespaces_with(request, "audit", LONG_TIMEOUT)):
            return web.redirect(request, "/audit", namespace=others[0].namespace)
    values = await _shared_values(request, trail)
    return web.render_page(request, "audit.html", view="entries", entries=found, older=older, kinds=KINDS, **values)


async def audit_todos(request: Request) -> Response:
    """Show the open or completed todos."""
    trail, start = _open_trail(request), web.number_param(request, "start")
    status: Any = request.query_params.get("status") or "open"  # `atodos` validates it
    found = (await trail.atodos(status))[::-1]
    return web.render_page(
        request,
        "audit.html",
        view="todos",
        entries=found[start : start + web.PAGE],
        total=len(found),
        start=start,
        neighbours=web.page_links(len(found), start),
        statuses=STATUSES,
        chosen=status,
        **await _shared_values(request, trail),
    )


async def audit_chain(request: Request) -> Response:
    """Show the state of the hash chain of the trail, and verify the chain on request."""
    trail, studio = _open_trail(request), web.studio_of(request)
    report = None
    if is_requested := "verify" in request.query_params:
        report = await studio.cache.fetch("chain", trail.verify)
    values = await _shared_values(request, trail)
    return web.render_page(request, "audit.html", view="chain", is_requested=is_requested, answer=report, **values)


def _open_trail(request: Request) -> AuditTrail:
    return AuditTrail(web.studio_of(request).memory, web.namespace_param(request) or ())


async def _shared_values(request: Request, trail: AuditTrail) -> dict[str, Any]:
    """Return the template values that all pages of the audit trail need."""
    params = request.query_params
    return {
        "query": params,
        "namespace": web.namespace_param(request) or (),
        "head": await trail.ahead(),
        "trails": await namespaces_with(request, "audit"),
        "longest": MAX_ENTRY_CHARS,
    }


# -- experiences -------------------------------------------------------------------------------------------------------


async def experiences(request: Request) -> Response:
    """Show the experiences of the library in their order, of all roles or of one."""
    library, start = web.studio_of(request).experiences, web.number_param(request, "start")
    role = request.query_params.get("role") or None
    check = None if library is None else await library.avalidate()
    known = () if check is None else check.experiences
    selected = [each for each in known if role is None or each.is_for(role)]
    return web.render_page(
        request,
        "experiences.html",
        library=check,
        roles=sorted({who for each in known for who in each.who}, key=str.casefold),
        role=role,
        listed=selected[start : start + web.PAGE],
        total=len(selected),
        start=start,
        neighbours=web.page_links(len(selected), start),
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
    web.form_route("/correct", correction_pages.change),
    web.form_route("/undo", correction_pages.undo),
    Route("/corrections", correction_pages.corrections),
    Route("/erase", correction_pages.erase),
    web.form_route("/erase/rehearse", correction_pages.rehearse),
    web.form_route("/erase", correction_pages.do_erase),
)
