"""The pages of Studio: a module each, with its routes."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import Route

from langchain_agentmem.studio.pages import (
    audit,
    corrections,
    erase,
    experiences,
    facts,
    overview,
    search,
    thread,
)

ROUTES: Sequence[Route] = (
    *audit.ROUTES,
    *corrections.ROUTES,
    *erase.ROUTES,
    *experiences.ROUTES,
    *facts.ROUTES,
    *overview.ROUTES,
    *search.ROUTES,
    *thread.ROUTES,
)
