"""Experiences: what those of a library say, for whom, and what is wrong with its files."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.studio.application import PAGE, number_asked, page, pages_of, studio_of


async def experiences(request: Request) -> Response:
    """Show the experiences of the library in their order, of all roles or of one."""
    library, start = studio_of(request).experiences, number_asked(request, "start")
    role = request.query_params.get("role") or None
    check = None if library is None else await library.avalidate()
    known = () if check is None else check.experiences
    listed = [each for each in known if role is None or each.is_for(role)]
    return page(
        request,
        "experiences.html",
        library=check,
        roles=sorted({who for each in known for who in each.who}, key=str.casefold),
        role=role,
        listed=listed[start : start + PAGE],
        total=len(listed),
        start=start,
        neighbours=pages_of(len(listed), start),
    )
