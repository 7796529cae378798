"""The pages of Studio: a module each, and where each is."""

from __future__ import annotations

from starlette.routing import Route

from langchain_agentmem.studio.application import changing
from langchain_agentmem.studio.pages import audit, corrections, erase, experiences, facts, overview, search, thread

ROUTES = (
    Route("/", overview.overview),
    Route("/threads", thread.threads),
    Route("/thread", thread.thread),
    Route("/conversation", thread.conversation),
    Route("/memory", thread.memory_branch),
    Route("/search", search.search),
    Route("/facts", facts.facts),
    Route("/fact", facts.fact),
    Route("/experiences", experiences.experiences),
    Route("/audit", audit.entries),
    Route("/audit/todos", audit.todos),
    Route("/audit/chain", audit.chain),
    Route("/correct", corrections.correct),
    changing("/correct", corrections.change),
    changing("/undo", corrections.undo),
    Route("/corrections", corrections.corrections),
    Route("/erase", erase.erase),
    changing("/erase/rehearse", erase.rehearse),
    changing("/erase", erase.do_erase),
)
