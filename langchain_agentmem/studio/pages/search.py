"""A search over everything that is remembered, and why each hit was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.search.ranking import Weights
from langchain_agentmem.search.timeline import ORDERS
from langchain_agentmem.studio import application as web

if TYPE_CHECKING:
    from langchain_agentmem.search.memory_search import Recollection, Why

KINDS = ("message", "event", "record", "fact", "item", "audit")
"""What can be searched for, by its name in addresses."""
WORDS, VECTORS = "words", "vectors"
"""By what a search goes: by words alone, or by vectors too, where there are any."""
USUAL = 20
"""Hits that are shown unless more are asked for."""


class ScorePart(NamedTuple):
    """Something that added to the score of a hit, or took from it.

    Attributes:
        name: A word of the query, or the name of a signal.
        value: How much.
        is_word: Whether it is a word.
        is_nearby: Whether it is a word of messages next to the hit.
    """

    name: str
    value: float
    is_word: bool
    is_nearby: bool = False


class FoundHit(NamedTuple):
    """A hit, as it is shown.

    Attributes:
        found: What was found.
        reasons: Why, what counted most first.
        where: The address of the page that shows it; None where there is none.
    """

    found: Recollection
    reasons: Sequence[ScorePart]
    where: str | None


async def search(request: Request) -> Response:
    """The form, and what was found."""
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
    hits = [FoundHit(each, _reasons(each.why), _where(request, each)) for each in found]
    return web.page(
        request,
        "search.html",
        query=query,
        namespace=namespace,
        kind=kind,
        kinds=KINDS,
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
        most=max((abs(reason.value) for hit in hits for reason in hit.reasons), default=0.0),
    )


def _reasons(why: Why) -> Sequence[ScorePart]:
    """Why something was found, what counted most first."""
    words = [ScorePart(name, value, is_word=True) for name, value in why.terms.items()]
    signals = [ScorePart(name, value, is_word=False) for name, value in why.signals.items()]
    words += [ScorePart(name, value, is_word=True, is_nearby=True) for name, value in why.nearby.items()]
    return sorted(words + signals, key=lambda each: -abs(each.value))


def _where(request: Request, found: Recollection) -> str | None:
    """The address of the page that shows what was found, if there is one."""
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
