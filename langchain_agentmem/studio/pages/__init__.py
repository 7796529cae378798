"""The pages of Studio: a module each, with its routes."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import Route

from langchain_agentmem.studio.pages import corrections, erase, overview, proposals

ROUTES: Sequence[Route] = (*overview.ROUTES, *corrections.ROUTES, *erase.ROUTES, *proposals.ROUTES)
