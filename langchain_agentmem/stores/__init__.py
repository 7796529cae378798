"""Stores and a retriever, as LangGraph and LangChain ask for them.

Begin with `agent_store`: both of LangGraph's stores, the shared one and that of a thread; `store_batch` runs their
batches of operations. Items are rows in `item_rows`, and are looked for by `item_search`, which has those that rewind
with their thread, too, and tells search and upkeep about items. `byte_store` is LangChain's key-value store;
`retriever` is its retriever.

Imports base, language_models, messages, storage, search, rewinding and tracing. Nothing in the folder is imported from
outside but by `agent_memory`, `parts` and upkeep.

An item is a row: its value as JSON, with tags for what JSON has no word for, so that nothing that is read is anybody
else's and nothing is changed by being stored. What has expired is filtered by every query, so sweeping only frees room.
Reading puts the end of an item off; where a batch only reads, that is a transaction of its own, so that readers wait
for writers only when there is something to put off. A page without a filter is cut in an index that holds no values.
Filters are decided in Python, the same for both engines; the database sorts out beforehand what does not even hold the
text that something must be equal to. An item that is found by named fields keeps their texts beside it, since the index
must be told exactly what it forgets, whatever a later LangGraph makes of a path.

A call of a store is one step of a trace, as it is one transaction: named by what the batch holds (`memory.store.get`,
`.put`, `.search`), `memory.store.batch` where it holds several kinds. A step for each operation of a batch would tell
of durations that nobody can tell apart. Searches alone show as a retriever, with all that they found as documents.
`AgentMemoryRetriever` has no run of LangChain's: the search is told once, as `memory.retrieval.search`, so that hooks
hear of it too and content that is withheld is not shown by another name.
"""
