"""The pages of the overview, search, facts, experiences and audit, and the routes of all pages.

The pages of threads are in `thread_pages.py`. The pages that correct and erase are in `correction_pages.py`.
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
"""Maximum seconds that a page waits for the sizes of the namespaces, to redirect to one of them."""


class NamespaceUsage(NamedTuple):
    """The contents of a namespace, and of all namespaces below it unless `is_own` is True.

    Attributes:
        namespace: The namespace.
        is_own: True if the namespaces below it are excluded, because they are listed separately.
        below: The number of namespaces below it whose contents are included.
        messages: The number of messages.
        bytes: The size of the contents, in bytes.
    """

    namespace: Namespace
    is_own: bool
    below: int
    messages: int
    bytes: int


def usage_by_label(summaries: Sequence[NamespaceSummary], within: Namespace = ()) -> list[NamespaceUsage]:
    """Return the usage of a namespace itself and of its child namespaces, the largest first.

    A child namespace is one label longer, and includes all namespaces below. An only child is replaced by its own
    children, if it has any, so that a common prefix such as "users" is skipped.
    """
    groups: dict[Namespace, list[NamespaceSummary]] = {}  # by child namespace
    for each in summaries:
        if each.namespace[: len(within)] == within and (each.bytes or each.threads):
            groups.setdefault(each.namespace[: len(within) + 1], []).append(each)
    own = groups.pop(within, [])
    usages = [_sum_usage(child, group) for child, group in groups.items()]
    if len(usages) == 1 and usages[0].below:
        usages = usage_by_label(summaries, usages[0].namespace)
    if own:
        usages.append(_sum_usage(within, own)._replace(is_own=bool(usages)))
    return sorted(usages, key=lambda usage: -usage.bytes)


def _sum_usage(namespace: Namespace, summaries: Sequence[NamespaceSummary]) -> NamespaceUsage:
    below = sum(each.namespace != namespace for each in summaries)
    messages, size = sum(each.messages for each in summaries), sum(each.bytes for each in summaries)
    return NamespaceUsage(namespace, is_own=False, below=below, messages=messages, bytes=size)


async def namespace_sizes(
    request: Request, max_wait: float = web.RESULT_TIMEOUT
) -> web.CachedResult[list[NamespaceSummary]] | None:
    """Return the cached sizes of each namespace; None while they are being computed.

    Args:
        request: The request.
        max_wait: Seconds to wait for the result. Default: `web.RESULT_TIMEOUT`.
    """
    studio = web.studio_of(request)
    return await studio.cache.fetch("namespaces", studio.memory.admin.namespaces, max_wait=max_wait)


async def namespaces_with(request: Request, count_name: str, max_wait: float = 0) -> list[NamespaceSummary]:
    """Return the namespaces with the most objects of a kind; empty if not computed yet.

    Args:
        request: The request.
        count_name: The attribute of `NamespaceSummary` that counts the objects.
        max_wait: Seconds to wait for the result. Default: 0.
    """
    sizes = await namespace_sizes(request, max_wait)
    nonempty = [] if sizes is None else [each for each in sizes.value if getattr(each, count_name)]
    return sorted(nonempty, key=lambda each: -getattr(each, count_name))[: web.PAGE]


def load_figures(memory: AgentMemory) -> dict[str, Any]:
    """Return counts, daily growth and health findings. This reads all data."""
    # A memory that is limited to a namespace, see `AgentMemory.within`, must not show findings on the whole database.
    findings = memory.admin.diagnose() if memory.database.scopes.boundary is None else []
    return {"stats": memory.admin.stats(), "growth": memory.admin.growth(), "findings": findings}


async def overview(request: Request) -> Response:
    """Show the overview. Slow figures appear when they have been computed."""
    studio = web.studio_of(request)
    fetch = studio.cache.fetch("figures", partial(load_figures, studio.memory))
    figures, sizes = await asyncio.gather(fetch, namespace_sizes(request))
    namespaces = [] if sizes is None else usage_by_label(sizes.value)[:MAX_NAMESPACES]
    return web.render_page(request, "overview.html", result=figures, sizes=sizes, namespaces=namespaces)


# -- search ------------------------------------------------------------------------------------------------------------


SEARCH_KINDS = ("message", "event", "record", "fact", "item", "audit")
"""The searchable kinds: the values of the URL parameter `kind`."""
WORDS, VECTORS = "words", "vectors"
"""The values of the URL parameter `by`: search by keywords only, or also by vectors if available."""
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
    shared: dict[str, Any] = {"namespace": namespace, "order": order, "limit": limit}
    results: list[Recollection] = []
    if query.strip():
        results = await memory.asearch(
            query,
            everything=namespace is None,
            kinds=None if kind is None else [kind],
            conversation_id=params.get("conversation") or None,
            after=since,
            before=until,
            weights=Weights() if method == WORDS else None,
            **shared,
        )
    hits = [(each, _list_reasons(each.why), _hit_url(request, each)) for each in results]
    return web.render_page(
        request,
        "search.html",
        query=query,
        kind=kind,
        kinds=SEARCH_KINDS,
        orders=ORDERS,
        by=method,
        has_vectors=memory.store.embeddings is not None,
        since=since,
        until=until,
        conversation=params.get("conversation", ""),
        hits=hits,
        max_score=max((each.score for each in results), default=0.0),
        max_contribution=max((abs(value) for _, reasons, _ in hits for _, _, value in reasons), default=0.0),
        **shared,
    )


def _list_reasons(why: Explanation) -> list[tuple[str, str, float]]:
    """Return the reasons for a hit: kind, name and score of each, the largest first."""
    kinds = (("word", why.terms), ("nearby", why.nearby), ("signal", why.signals))
    reasons = [(kind, name, score) for kind, scores in kinds for name, score in scores.items()]
    return sorted(reasons, key=lambda reason: -abs(reason[2]))


def _hit_url(request: Request, hit: Recollection) -> str | None:
    """Return the address of the page that shows a hit; None if there is none."""
    namespace, conversation, thread = hit.namespace, hit.conversation_id, hit.thread_id
    if hit.kind == "audit":
        return web.address(request, "/audit", namespace=namespace, conversation=conversation)
    if conversation is None:
        return None
    if hit.kind == "message":
        return web.address(request, "/thread", namespace=namespace, id=conversation, message=hit.id)
    if hit.kind == "fact":
        branch = conversation if thread is None else None  # facts outside of threads are on a branch of this name
        return web.address(request, "/fact", namespace=namespace, branch=branch, thread=thread, id=hit.id)
    if thread is not None or hit.kind == "item":
        return web.address(request, "/thread", namespace=namespace, id=thread or conversation, show="memory")
    return web.address(request, "/memory", namespace=namespace, branch=conversation)


# -- facts -------------------------------------------------------------------------------------------------------------


MAIN = "main"
"""The default branch."""
MAX_SOURCES = 3
"""Maximum number of source messages that a row of the table of facts links."""
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
    at = kg.now if valid is None else valid  # the time for which the states of the facts are shown
    by_start = sorted(page_facts, key=lambda fact: fact.valid_from, reverse=True)
    branch_names = [each.name for each in branches if each.namespace == target.namespace]
    namespaces = [each.namespace for each in (*branches, *await namespaces_with(request, "memories"))]
    depth = len(target.namespace)
    return web.render_page(
        request,
        "facts.html",
        target=target,
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
        namespaces_below=[each for each in dict.fromkeys(namespaces) if each[:depth] == target.namespace != each],
        sources=MAX_SOURCES,
    )


async def fact(request: Request) -> Response:
    """Show one fact: its evidence, the facts before and after it, and contradictions."""
    target, fact_id = _facts_target(request), check_id(web.required_param(request, "id"), "fact")
    kg = target.facts
    selected = await kg.aget(fact_id)
    if selected is None or selected.raw:
        raise web.not_found(f"There is no fact {safe_repr(fact_id)} here. It may have been rewound or deleted.")
    evidence, similar, contradictions = await asyncio.gather(
        kg.aevidence(fact_id),
        kg.alatest(web.PAGE, entity=selected.subject, predicate=selected.predicate),
        kg.acontradictions(selected.subject, selected.predicate),
    )
    history = [each for each in similar if each.subject == selected.subject]
    return web.render_page(
        request,
        "fact.html",
        target=target,
        fact=selected,
        evidence=evidence,
        history=sorted(history, key=lambda each: each.valid_from),
        contradictions=[each for each in contradictions if fact_id in {conflicting.id for conflicting in each.facts}],
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
    """Return the times when facts began or ended, and the extra time, the earliest first."""
    times: Collection[datetime | None] = {extra, *(time for fact in facts for time in (fact.valid_from, fact.valid_to))}
    return sorted(time for time in times if time is not None)


def _round_up_second(at: datetime | None) -> datetime | None:
    """Return a time rounded up to a second, because the form has whole seconds."""
    return at if at is None or not at.microsecond or at.year == MAXYEAR else at.replace(microsecond=0) + _SECOND


# -- the audit trail ---------------------------------------------------------------------------------------------------


MAX_ENTRY_CHARS = 2_000
"""Maximum characters of a prompt or reply to show. The rest is collapsed."""
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
        raise InvalidInput(f"junk must be {' or '.join(map(repr, filter(None, JUNK_VALUES)))}, or omitted.")
    entries: list[AuditEntry]
    older = None  # the id before which the next page begins
    if words:
        hits = await trail.asearch(words, web.PAGE, conversation)
        entries = [hit.value for hit in hits if kind in (None, hit.value.kind)]
    else:
        options: dict[str, Any] = {"kinds": kind and [kind], "include_junk": JUNK_VALUES[junk], "messages": False}
        last = await trail.alast(web.PAGE + 1, conversation, before=params.get("before") or None, **options)
        entries = last[::-1][: web.PAGE]
        older = entries[-1].id if len(last) > web.PAGE else None
        if not entries and not any(params.values()) and (used := await namespaces_with(request, "audit", LONG_TIMEOUT)):
            return web.redirect(request, "/audit", namespace=used[0].namespace)
    values = await _shared_values(request, trail)
    return web.render_page(request, "audit.html", view="entries", entries=entries, older=older, kinds=KINDS, **values)


async def audit_todos(request: Request) -> Response:
    """Show the open or completed todos."""
    trail, start = _open_trail(request), web.number_param(request, "start")
    status: Any = request.query_params.get("status") or "open"  # `atodos` validates it
    todo_list = (await trail.atodos(status))[::-1]
    return web.render_page(
        request,
        "audit.html",
        view="todos",
        entries=todo_list[start : start + web.PAGE],
        **web.paging_values(len(todo_list), start),
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
    return web.render_page(request, "audit.html", view="chain", is_requested=is_requested, result=report, **values)


def _open_trail(request: Request) -> AuditTrail:
    return AuditTrail(web.studio_of(request).memory, web.namespace_param(request) or ())


async def _shared_values(request: Request, trail: AuditTrail) -> dict[str, Any]:
    """Return the template values that all pages of the audit trail need."""
    return {
        "query": request.query_params,
        "namespace": web.namespace_param(request) or (),
        "head": await trail.ahead(),
        "trails": await namespaces_with(request, "audit"),
        "longest": MAX_ENTRY_CHARS,
    }


# -- experiences -------------------------------------------------------------------------------------------------------


async def experiences(request: Request) -> Response:
    """Show the experiences of the library in their stored order, for all roles or for one."""
    library, start = web.studio_of(request).experiences, web.number_param(request, "start")
    role = request.query_params.get("role") or None
    validation = None if library is None else await library.avalidate()
    all_experiences = () if validation is None else validation.experiences
    selected = [each for each in all_experiences if role is None or each.is_for(role)]
    return web.render_page(
        request,
        "experiences.html",
        library=validation,
        roles=sorted({who for each in all_experiences for who in each.who}, key=str.casefold),
        role=role,
        listed=selected[start : start + web.PAGE],
        **web.paging_values(len(selected), start),
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
    web.form_route("/erase/rehearse", correction_pages.preview),
    web.form_route("/erase", correction_pages.do_erase),
)
