"""The pages of Studio: a module each, with its routes."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import Route

from langchain_agentmem.studio.pages import audit, overview, tenants, threads

ROUTES: Sequence[Route] = (
    *audit.ROUTES,
    *overview.ROUTES,
    *tenants.ROUTES,
    *threads.ROUTES,
)
