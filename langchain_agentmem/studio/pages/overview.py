"""What there is, how it grows, what it saves, and how it does."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from langchain_agentmem.studio.application import page


async def overview(request: Request) -> Response:
    """The first page."""
    return page(request, "overview.html")


ROUTES: Sequence[Route] = (Route("/", overview),)
