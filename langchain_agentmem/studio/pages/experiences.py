"""Experiences: how often each was chosen, and whether it helped; with a library also what they say, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from langchain_agentmem.experiences.experience_library import Usage
from langchain_agentmem.experiences.experience_part import Tally
from langchain_agentmem.studio.application import PAGE, namespace_asked, number_asked, page, pages_of, studio_of

if TYPE_CHECKING:
    from langchain_agentmem.experiences.experience import Experience


class Fared(NamedTuple):
    """How an experience has fared, and what it is.

    Attributes:
        usage: How it has fared.
        experience: What it says; None where there is no library, or it has it no more.
    """

    usage: Usage
    experience: Experience | None


async def experiences(request: Request) -> Response:
    """All experiences, those first that were chosen most often."""
    studio, namespace, start = studio_of(request), namespace_asked(request), number_asked(request, "start")
    role = request.query_params.get("role") or None
    usages = {each.exp_id: each for each in await studio.memory.aexperience_report(namespace)}
    library = None if studio.experiences is None else await studio.experiences.avalidate()
    known = {} if library is None else {each.exp_id: each for each in library.experiences}
    every = [Fared(usages.get(exp_id, Usage(exp_id, Tally())), known.get(exp_id)) for exp_id in {**known, **usages}]
    listed = [each for each in every if role is None or (each.experience is not None and each.experience.is_for(role))]
    listed.sort(key=lambda each: (-each.usage.tally.chosen, each.usage.exp_id))
    return page(
        request,
        "experiences.html",
        namespace=namespace,
        library=library,
        roles=sorted({who for each in known.values() for who in each.who}, key=str.casefold),
        role=role,
        listed=listed[start : start + PAGE],
        total=len(listed),
        start=start,
        neighbours=pages_of(len(listed), start),
    )


ROUTES: Sequence[Route] = (Route("/experiences", experiences),)
