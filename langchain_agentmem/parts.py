"""The features of this package. What search and upkeep serve is named here, and nowhere else."""

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
    audit_store.PART,  # erased first, since who adds to the trail holds its end before anything else
    conversation_part.PART,
    thread_rows.PART,
    item_search.PART,
    thread_memory.PART,
    fact_part.PART,
    layer.PART,
    search_index.PART,
)
"""In the order in which they take part in erasures."""
