"""The list of all features that search and upkeep serve."""

from __future__ import annotations

from langchain_agentmem.audit import audit_store
from langchain_agentmem.conversations import conversation_part
from langchain_agentmem.facts import fact_part
from langchain_agentmem.layers import layer
from langchain_agentmem.rewinding import thread_memory
from langchain_agentmem.search import search_index
from langchain_agentmem.stores import item_search
from langchain_agentmem.threads import thread_rows

PARTS = (
    audit_store.PART,  # erased first: writers of the trail also lock its head before anything else
    conversation_part.PART,
    thread_rows.PART,
    item_search.PART,
    thread_memory.PART,
    fact_part.PART,
    layer.PART,
    search_index.PART,
)
"""The parts, in the order of an erasure."""
