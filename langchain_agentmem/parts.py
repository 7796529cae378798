"""The features of this package. What search and upkeep serve is named here, and nowhere else."""

from __future__ import annotations

from langchain_agentmem.audit import audit_part
from langchain_agentmem.conversations import message_source
from langchain_agentmem.facts import fact_source
from langchain_agentmem.layers import layer_part
from langchain_agentmem.search import search_index
from langchain_agentmem.stores import item_source

PARTS = (
    audit_part.PART,
    fact_source.PART,
    item_source.PART,
    layer_part.PART,
    message_source.PART,
    search_index.PART,
)
