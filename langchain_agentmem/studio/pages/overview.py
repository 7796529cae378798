"""The first page: what is stored, how it grows, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.namespaces import Namespace
from langchain_agentmem.studio.application import PAGE, PATIENCE, Seen, page, studio_of
from langchain_agentmem.upkeep.admin import NamespaceSummary

LARGEST = 10
"""Namespaces that are shown."""
PATIENT = 2.0
"""Seconds that a page waits for something without which it is empty."""


class NamespaceUsage(NamedTuple):
    """The content of a namespace and of all below it.

    Attributes:
        namespace: Which.
        itself: Whether it is the namespace alone, as what is below it stands in lines of its own.
        below: How many namespaces there are below it.
        messages: Messages.
        bytes: What everything there takes.
    """

    namespace: Namespace
    itself: bool
    below: int
    messages: int
    bytes: int


def parts_of(summaries: Sequence[NamespaceSummary], within: Namespace = ()) -> list[NamespaceUsage]:
    """What a namespace holds itself, and each label below it with all that is below that, the largest first.

    Where all that is below it is below one label, that is parted in its turn, since it tells nobody apart.
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


async def namespaces_kept(request: Request, patience: float = PATIENCE) -> Seen[list[NamespaceSummary]] | None:
    """What each namespace holds, as it was known last; None if it is not known yet.

    Args:
        request: What asks for it.
        patience: Seconds to wait for it. Default: `PATIENCE`.
    """
    studio = studio_of(request)
    return await studio.kept.look("namespaces", studio.memory.admin.namespaces, patience=patience)


async def holders(request: Request, what: str, patience: float = 0) -> list[NamespaceSummary]:
    """The namespaces that hold most of something, the first ones of them, as far as that is known.

    Args:
        request: What asks for it.
        what: A count of `NamespaceSummary`.
        patience: Seconds to wait for it. Default: not at all.
    """
    known = await namespaces_kept(request, patience)
    held = [] if known is None else [each for each in known.value if getattr(each, what)]
    return sorted(held, key=lambda each: -getattr(each, what))[:PAGE]


def figures_of(memory: AgentMemory) -> dict[str, Any]:
    """Count everything, and look for trouble in a whole database; this reads all of it."""
    whole = memory.database.scopes.within is None
    findings = memory.admin.diagnose() if whole else []
    return {"stats": memory.admin.stats(), "growth": memory.admin.growth(), "findings": findings}


async def overview(request: Request) -> Response:
    """The first page. What takes long to count comes when it is known."""
    studio = studio_of(request)
    look = studio.kept.look("figures", partial(figures_of, studio.memory))
    seen, sized = await asyncio.gather(look, namespaces_kept(request))
    return page(
        request,
        "overview.html",
        seen=seen,
        sized=sized,
        namespaces=[] if sized is None else parts_of(sized.value)[:LARGEST],
    )
