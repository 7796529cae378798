"""Erasing: a rehearsal shows exactly what would go, the name is typed, and then it goes."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.base.namespaces import named
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.studio.application import namespace_asked, page, studio_of
from langchain_agentmem.upkeep.integrity import EraseReport


class Doomed(NamedTuple):
    """What is to be erased, as an address names it.

    Attributes:
        namespace: The namespace.
        thread_id: A thread in it and below; None for another thing.
        conversation_id: A conversation in it; None for another thing.
    """

    namespace: tuple[str, ...]
    thread_id: str | None
    conversation_id: str | None

    @property
    def name(self) -> str:
        """What has to be typed."""
        return self.thread_id or self.conversation_id or named(self.namespace)


def doomed_by(request: Request) -> Doomed:
    """What the address of a request names.

    Raises:
        InvalidInput: It names nothing, two things, or everything.
    """
    asked = request.query_params
    found = Doomed(namespace_asked(request) or (), asked.get("thread") or None, asked.get("conversation") or None)
    if found.thread_id and found.conversation_id:
        raise InvalidInput("Erase a thread or a conversation, one at a time.")
    if not any(found):
        raise InvalidInput("Everything is erased with the command agentmem erase, and not from a browser.")
    return found


async def erase(request: Request) -> Response:
    """What may be erased, and what it takes to do so."""
    return page(
        request, "erase.html", doomed=doomed_by(request), rehearsed=None, erased=None, elsewhere=(), problem=None
    )


async def rehearse(request: Request, _: Mapping[str, str]) -> Response:
    """Show what would go."""
    return await _rehearsed(request, doomed_by(request))


async def _rehearsed(request: Request, doomed: Doomed, status: int = 200, problem: str | None = None) -> Response:
    told = await studio_of(request).memory.aerase(**doomed._asdict(), dry_run=True)
    seen: dict[str, Any] = {"rehearsed": _told(told), "elsewhere": told.elsewhere, "erased": None, "problem": problem}
    return page(request, "erase.html", status, doomed=doomed, **seen)


async def do_erase(request: Request, fields: Mapping[str, str]) -> Response:
    """Erase what was named, and typed."""
    doomed = doomed_by(request)
    if not hmac.compare_digest(fields.get("name", "").strip().encode(), doomed.name.strip().encode()):
        return await _rehearsed(request, doomed, 400, "This is not its name. Nothing was erased.")
    studio = studio_of(request)
    erased = await studio.memory.aerase(**doomed._asdict())
    studio.kept.forget()
    seen: dict[str, Any] = {"rehearsed": None, "elsewhere": erased.elsewhere, "erased": _told(erased), "problem": None}
    return page(request, "erase.html", doomed=doomed, **seen)


def _told(report: EraseReport) -> list[tuple[str, int]]:
    """How much of what there is, without what there is none of."""
    return [(name, number) for name, number in report.counts.items() if number]
