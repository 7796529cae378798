"""Stores and a retriever, as LangGraph and LangChain ask for them.

Begin with `agent_store`: both of LangGraph's stores, the shared one and that of a thread. A batch of operations is
checked, run and answered by `store_operations`; items are rows in `item_rows`, are looked for by `item_search`, and
rewind with their thread in `thread_items`. `item_part` tells search, upkeep and export about items. `byte_store` is
LangChain's key-value store; `retriever` is its retriever, on the request that `search_requests` checks.

Imports base, language_models, messages, storage, search, rewinding and tracing. Nothing in the folder is imported from
outside but by `agent_memory`, `parts` and upkeep.
"""
