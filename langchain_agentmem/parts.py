"""The list of all features that store data. Search and maintenance, such as `erase`, process each of them."""

from __future__ import annotations

from langchain_agentmem.audit import audit_store
from langchain_agentmem.conversations import conversation_part
from langchain_agentmem.facts import fact_part
from langchain_agentmem.layers import layer
from langchain_agentmem.rewinding import thread_memory
from langchain_agentmem.search import search_index
from langchain_agentmem.storage.part import Part
from langchain_agentmem.stores import item_search
from langchain_agentmem.threads import thread_rows

_INDEX_TABLES = (
    "search_scope", "search_total", "search_series", "search_speaker", "search_document", "search_index",
    "search_index_data", "search_index_idx", "search_index_docsize", "search_index_config", "search_unindexed",
    "search_state",
)  # fmt: skip
PARTS = (
    audit_store.PART,  # first: writers of the audit trail lock its head first, so an erasure must, too
    conversation_part.PART,
    thread_rows.PART,
    item_search.PART,
    thread_memory.PART,
    fact_part.PART,
    layer.PART,
    Part(
        tables={"search index": _INDEX_TABLES, "vectors": ("search_vector", "search_pgvector", "search_unembedded")},
        verify={"index": search_index.find_problems},
    ),
)
"""The descriptions of the features, in the order in which an erasure deletes their data."""
