"""Proposals for experiences: what agents would do another time, for a person to put to use or to reject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.studio.application import back, changing, missing, page, required, studio_of

if TYPE_CHECKING:
    from langchain_agentmem.experiences.experience_library import ExperienceLibrary

STATES = {"proposed": "Waiting", "rejected": "Rejected", "approved": "In use"}


def _library_of(request: Request) -> ExperienceLibrary:
    library = studio_of(request).experiences
    if library is None:
        raise missing("Studio was opened without a library of experiences: name its folder with --experiences.")
    return library


async def proposals(request: Request) -> Response:
    """What was proposed, and what was decided of it."""
    return await _shown(request)


async def _shown(
    request: Request, status: int = 200, problem: str | None = None, written: Mapping[str, str] | None = None
) -> Response:
    """The page; with what somebody has written of a proposal, by its file, where that could not be."""
    found = await _library_of(request).aproposals()
    return page(
        request,
        "proposals.html",
        status,
        problem=problem,
        groups=[(name, [each for each in found if each.state == state]) for state, name in STATES.items()],
        versions={each.file: _version_of(each.text) for each in found},
        written=written or {},
    )


def _version_of(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def decide(request: Request, fields: Mapping[str, str]) -> Response:
    """Put a proposal to use, reject it, or take that back."""
    library, file = _library_of(request), required(request, "file")
    text = fields.get("text")
    written = None if text is None else text.replace("\r\n", "\n")
    there = next((each for each in await library.aproposals() if each.file == file), None)
    if there is None:
        raise missing("There is no such proposal any more.")
    mine = {file: written or there.text}
    if fields.get("version") != _version_of(there.text):
        return await _shown(request, 409, "Somebody has changed this meanwhile. Read it again.", mine)
    state: Any = fields.get("do", "")  # the library checks it
    try:
        await library.adecide(file, state, by=studio_of(request).user_of(request), text=written)
    except InvalidInput as error:
        return await _shown(request, 400, str(error), mine)
    return back(request, "/proposals")


ROUTES: Sequence[Route] = (Route("/proposals", proposals), changing("/proposals", decide))
