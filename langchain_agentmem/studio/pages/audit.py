"""The audit trail: what was asked and answered, what is junk and why, todos, and whether the chain holds."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.audit.audit_entry import KINDS, OPEN, STATUSES, AuditEntry
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.studio.application import PAGE, back, namespace_asked, number_asked, page, pages_of, studio_of
from langchain_agentmem.studio.pages.overview import PATIENT, holders

LONGEST = 2_000
"""Characters of a prompt or reply that a list shows; the entry itself shows all."""
JUNK = {"": False, "with": True, "only": "only"}
"""Whether junk is shown, as an address says it."""


async def entries(request: Request) -> Response:
    """Entries, the newest first; or those that a search finds, the best first.

    Where there are none, and nobody asked for anything, those of the namespace with most.
    """
    trail, asked = _trail(request), request.query_params
    kind, junk, words = asked.get("kind") or None, asked.get("junk", ""), asked.get("q", "")
    conversation = asked.get("conversation") or None
    if junk not in JUNK:
        raise InvalidInput(f"junk is {' or '.join(filter(None, JUNK))} in the address, or left out.")
    found: list[AuditEntry]
    older = None
    if words:
        hits = await trail.asearch(words, PAGE, conversation)
        found = [hit.value for hit in hits if kind in (None, hit.value.kind)]
    else:
        options: dict[str, Any] = {"kinds": kind and [kind], "include_junk": JUNK[junk], "messages": False}
        last = await trail.alast(PAGE + 1, conversation, before=asked.get("before") or None, **options)
        found = last[::-1][:PAGE]
        older = found[-1].id if len(last) > PAGE else None
        if not found and not any(asked.values()) and (others := await holders(request, "audit", PATIENT)):
            return back(request, "/audit", namespace=others[0].namespace)
    return page(
        request, "audit.html", view="entries", entries=found, older=older, kinds=KINDS, **await _shared(request, trail)
    )


async def todos(request: Request) -> Response:
    """What is to be done, or is done."""
    trail, start = _trail(request), number_asked(request, "start")
    status: Any = request.query_params.get("status") or OPEN  # the trail checks it
    found = (await trail.atodos(status))[::-1]
    return page(
        request,
        "audit.html",
        view="todos",
        entries=found[start : start + PAGE],
        total=len(found),
        start=start,
        neighbours=pages_of(len(found), start),
        statuses=STATUSES,
        chosen=status,
        **await _shared(request, trail),
    )


async def chain(request: Request) -> Response:
    """Whether the chain holds, which is found out when somebody asks."""
    trail, studio = _trail(request), studio_of(request)
    seen = None
    if asked := "verify" in request.query_params:
        seen = await studio.kept.look("chain", trail.verify)
    return page(request, "audit.html", view="chain", asked_for=asked, seen=seen, **await _shared(request, trail))


def _trail(request: Request) -> AuditTrail:
    return AuditTrail(studio_of(request).memory, namespace_asked(request) or ())


async def _shared(request: Request, trail: AuditTrail) -> dict[str, Any]:
    """What all views of the trail show."""
    asked = request.query_params
    return {
        "asked": asked,
        "namespace": namespace_asked(request) or (),
        "head": await trail.ahead(),
        "trails": await holders(request, "audit"),
        "longest": LONGEST,
    }
