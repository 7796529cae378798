"""The pages of Studio: a module each, with its routes."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import Route

from langchain_agentmem.studio.pages import experiences, facts, overview, search

ROUTES: Sequence[Route] = (
    *experiences.ROUTES,
    *facts.ROUTES,
    *overview.ROUTES,
    *search.ROUTES,
)
