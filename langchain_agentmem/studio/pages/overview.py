"""The first page: what is stored, how it grows, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.namespaces import Namespace
from langchain_agentmem.studio.application import PAGE, PATIENCE, Seen, page, studio_of
from langchain_agentmem.upkeep.admin import DayCounts, NamespaceSummary
from langchain_agentmem.upkeep.database_report import Finding

LARGEST = 10
"""Namespaces that are shown."""
PATIENT = 2.0
"""Seconds that a page waits for something without which it is empty."""
COUNTED = (
    ("threads", "Threads"),
    ("conversations", "Conversations"),
    ("messages", "Messages"),
    ("checkpoints", "Checkpoints"),
    ("core", "Core memory"),
    ("events", "Events"),
    ("records", "Records"),
    ("facts", "Facts"),
    ("items", "Items"),
    ("audit", "Audit entries"),
    ("namespaces", "Namespaces"),
)
"""What is counted, as statistics call it and as the page does."""
WAITING = (
    ("waiting_facts", "messages wait to have their facts extracted"),
    ("failed_facts", "of them a model was asked about in vain"),
    ("waiting_groups", "tasks of graphs have remembered something and are not sealed yet"),
)
GROWTH = (("messages", "Messages"), ("checkpoints", "Checkpoints"), ("memories", "Memories"))


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


class Figures(NamedTuple):
    """What the overview tells of the database.

    Attributes:
        stats: What `Admin.stats` gives; of a memory within a namespace, counts alone.
        growth: What was written on each of the last 30 days.
        findings: What was looked at for trouble; nothing where the memory is within a namespace.
    """

    stats: Mapping[str, Any]
    growth: Sequence[DayCounts]
    findings: Sequence[Finding]

    @property
    def parts(self) -> Sequence[tuple[str, int]]:
        """The parts of the database with their bytes, the largest first."""
        found = self.stats.get("bytes_by_part", {})
        return sorted(((name, size) for name, size in found.items() if size), key=lambda each: -each[1])


def figures_of(memory: AgentMemory) -> Figures:
    """Count; this reads the whole database."""
    stats: Any = memory.admin.stats()
    whole = memory.database.scopes.within is None
    return Figures(stats=stats, growth=memory.admin.growth(), findings=memory.admin.diagnose() if whole else ())


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
        counted_kinds=COUNTED,
        waiting=WAITING,
        growing=GROWTH,
    )
