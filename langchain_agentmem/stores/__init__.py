"""Stores and a retriever that implement the interfaces of LangGraph and LangChain.

Begin with `agent_store`, which has two LangGraph stores: one for items shared by all threads, and one for the items of
a thread. `store_batch` runs their batches of operations. `item_rows` stores items as rows. `item_search` finds items,
stores the items of threads, and registers items for search and upkeep. `byte_store` is LangChain's key-value store.
`retriever` is a LangChain retriever.

Imports base, language_models, messages, storage, search, rewinding and tracing. Only `agent_memory`, `parts`, cli,
importers and upkeep import this folder.

An item is a row. Its value is stored as JSON, with tags for types that JSON lacks, so a read returns an equal value as
a new object. Every query omits expired items, so sweeping only frees space. Reading an item with a ttl postpones its
expiry. After a batch that only reads, a second transaction postpones the expiry, so most readers do not wait for
writers. A page without a filter is read from an index that contains no values. Filters are evaluated in Python, equally
for SQLite and PostgreSQL. If a filter requires a text, the database first excludes the values without this text. An
item with named index fields also stores the texts of these fields. The removal from the index needs these exact texts,
even if a later version of LangGraph reads a path differently.

A call of a store is one transaction and one step of a trace. The name of the step is the kind of the operations
(`memory.store.get`, `.put`, `.search`), or `memory.store.batch` for several kinds. Single operations of a batch are not
measured, so they have no steps. A batch of searches only is shown as a retriever, with all results as documents.
`AgentMemoryRetriever` starts no LangChain run. A search is traced once, as `memory.retrieval.search`. So hooks receive
the search, and `trace_content` applies to it.
"""
