"""The list of all features that store data. Search and maintenance, such as `erase`, process each of them."""

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
    audit_store.PART,  # first: writers of the audit trail lock its head first, so an erasure must, too
    conversation_part.PART,
    thread_rows.PART,
    item_search.PART,
    thread_memory.PART,
    fact_part.PART,
    layer.PART,
    search_index.PART,
)
"""The descriptions of the features, in the order in which an erasure deletes their data."""
