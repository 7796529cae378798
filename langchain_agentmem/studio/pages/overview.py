"""What there is, how it grows, what it saves, and how it does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.studio.application import page, studio_of
from langchain_agentmem.studio.pages.tenants import namespaces_kept, parted
from langchain_agentmem.upkeep.database_report import Finding
from langchain_agentmem.upkeep.namespace_sizes import DayCounts

LARGEST = 10
"""Tenants and operations that are shown."""
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
    ("jobs", "jobs wait or run"),
    ("waiting_groups", "tasks of graphs have remembered something and are not sealed yet"),
)
GROWTH = (("messages", "Messages"), ("checkpoints", "Checkpoints"), ("memories", "Memories"))
_PROMPTS = "characters of prompts "
"""How the caches are called that tell how much of prompts was as before."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What the overview tells of the database.

    Attributes:
        stats: What `AgentMemory.stats` gives; of a memory within a namespace, counts alone.
        growth: What was written on each of the last 30 days.
        findings: What was looked at for trouble; nothing where the memory is within a namespace.
    """

    stats: Mapping[str, Any]
    growth: Sequence[DayCounts]
    findings: Sequence[Finding]

    @property
    def reusable(self) -> Mapping[str, float]:
        """Which share of prompts a provider's cache holds, by what was put into them."""
        asked = self.stats.get("caches", {})
        return {
            name.removeprefix(_PROMPTS): each["hits"] / (each["hits"] + each["misses"])
            for name, each in asked.items()
            if name.startswith(_PROMPTS) and each["hits"] + each["misses"]
        }

    @property
    def caches(self) -> Mapping[str, Mapping[str, int]]:
        """The other caches."""
        return {name: each for name, each in self.stats.get("caches", {}).items() if not name.startswith(_PROMPTS)}

    @property
    def parts(self) -> Sequence[tuple[str, int]]:
        """The parts of the database with their bytes, the largest first."""
        found = self.stats.get("bytes_by_part", {})
        return sorted(((name, size) for name, size in found.items() if size), key=lambda each: -each[1])


def figures_of(memory: AgentMemory) -> Figures:
    """Count and measure; this reads the whole database."""
    stats: Any = memory.stats()
    whole = memory.database.scopes.within is None
    return Figures(stats=stats, growth=memory.growth(), findings=memory.diagnose() if whole else ())


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
        tenants=[] if sized is None else parted(sized.value)[:LARGEST],
        largest=LARGEST,
        counted_kinds=COUNTED,
        waiting=WAITING,
        growing=GROWTH,
    )


ROUTES: Sequence[Route] = (Route("/", overview),)
