"""Tenants: what each holds, where it lies, and the way to have it erased."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from langchain_agentmem.base.namespaces import Namespace, named
from langchain_agentmem.studio.application import (
    PAGE,
    missing,
    namespace_asked,
    number_asked,
    page,
    pages_of,
    studio_of,
)
from langchain_agentmem.studio.kept_answers import PATIENCE, Seen
from langchain_agentmem.upkeep.namespace_sizes import NamespaceSummary

PATIENT = 2.0
"""Seconds that a page waits for something without which it is empty."""


@dataclass(kw_only=True, slots=True)
class Tenant:
    """What a namespace and all below it hold.

    Attributes:
        namespace: Which.
        itself: Whether it is the namespace alone, as what is below it stands in lines of its own.
        below: How many namespaces there are below it.
        schemas: Where they lie, if that is a server.
        threads: Threads and conversations.
        messages: Messages.
        checkpoints: Checkpoints.
        memories: Entries of core memory, events, records and facts.
        items: Long-term items.
        audit: Entries of the audit trail.
        bytes: What they take.
    """

    namespace: Namespace
    itself: bool = False
    below: int = 0
    schemas: tuple[str, ...] = ()
    threads: int = 0
    messages: int = 0
    checkpoints: int = 0
    memories: int = 0
    items: int = 0
    audit: int = 0
    bytes: int = 0

    def add(self, part: NamespaceSummary) -> None:
        """Add what one namespace holds."""
        self.below += part.namespace != self.namespace
        if part.schema is not None and part.schema not in self.schemas:
            self.schemas = (*self.schemas, part.schema)
        self.threads += part.threads
        self.messages += part.messages
        self.checkpoints += part.checkpoints
        self.memories += part.memories
        self.items += part.items
        self.audit += part.audit
        self.bytes += part.bytes


def parted(summaries: Sequence[NamespaceSummary], within: Namespace = ()) -> list[Tenant]:
    """What a namespace holds itself, and each label below it with all that is below that, the largest first.

    Where all that is below it is below one label, that is parted in its turn, since it tells nobody apart.
    """
    found: dict[Namespace, Tenant] = {}
    for each in summaries:
        if each.namespace[: len(within)] == within and (each.bytes or each.threads):
            name = each.namespace[: len(within) + 1]
            found.setdefault(name, Tenant(namespace=name)).add(each)
    own = found.pop(within, None)
    tenants = list(found.values())
    if len(tenants) == 1 and tenants[0].below:
        tenants = parted(summaries, tenants[0].namespace)
    if own is not None:
        own.itself = bool(tenants)
        tenants.append(own)
    return sorted(tenants, key=lambda each: -each.bytes)


async def namespaces_kept(request: Request, patience: float = PATIENCE) -> Seen[list[NamespaceSummary]] | None:
    """What each namespace holds, as it was known last; None if it is not known yet.

    Args:
        request: What asks for it.
        patience: Seconds to wait for it. Default: `PATIENCE`.
    """
    studio = studio_of(request)
    return await studio.kept.look("namespaces", studio.memory.namespaces, patience=patience)


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


async def tenants(request: Request) -> Response:
    """The tenants, the largest first; or the parts of one."""
    asked, start = namespace_asked(request) or (), number_asked(request, "start")
    seen = await namespaces_kept(request)
    found = [] if seen is None else parted(seen.value, asked)
    if seen is not None and asked and not found:
        raise missing(f"Nothing is stored in {named(asked)}.")
    return page(
        request,
        "tenants.html",
        seen=seen,
        within=asked,
        tenants=found[start : start + PAGE],
        total=len(found),
        start=start,
        has_shards=studio_of(request).memory.database.has_shards,
        neighbours=pages_of(len(found), start),
    )


ROUTES: Sequence[Route] = (Route("/tenants", tenants),)
