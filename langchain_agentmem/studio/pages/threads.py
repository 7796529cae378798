"""Threads and conversations: what they are called, how large they are, and which of them said something."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from langchain_agentmem.studio.application import (
    PAGE,
    namespace_asked,
    number_asked,
    page,
    pages_of,
    studio_of,
    time_asked,
)

ROLES = ("user", "assistant", "system", "tool")
"""Roles that a form proposes."""


async def threads(request: Request) -> Response:
    """A page of threads, those that changed last first. Their sizes come when they are known."""
    studio, asked = studio_of(request), request.query_params
    namespace, start = namespace_asked(request) or (), number_asked(request, "start")
    wanted: dict[str, Any] = {
        "query": asked.get("q") or None,
        "role": asked.get("role") or None,
        "since": time_asked(request, "since"),
        "until": time_asked(request, "until"),
        "limit": PAGE,
        "offset": start,
    }
    sizes = partial(studio.memory.admin.threads, namespace, **wanted)
    found, seen = await asyncio.gather(
        studio.memory.admin.athreads(namespace, sizes=False, **wanted),
        studio.kept.look(("threads", namespace, *wanted.values()), sizes),
    )
    sized = {} if seen is None else {(each.namespace, each.thread_id): each for each in seen.value.threads}
    return page(
        request,
        "threads.html",
        found=found,
        sized=sized,
        waits=seen is None,
        bare=not any(asked.values()),
        asked=asked,
        since=wanted["since"],
        until=wanted["until"],
        roles=ROLES,
        neighbours=pages_of(found.total, start),
        start=start,
    )


ROUTES: Sequence[Route] = (Route("/threads", threads),)
