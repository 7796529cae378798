"""Stores and a retriever that implement the interfaces of LangGraph and LangChain.

Begin with `agent_store`: both of LangGraph's stores, the shared one and that of a thread; `store_batch` runs their
batches of operations. `item_rows` stores items as rows. `item_search` finds items, also those that rewind with their
thread, and registers items for search and upkeep. `byte_store` is LangChain's key-value store; `retriever` is its
retriever.

Imports base, language_models, messages, storage, search, rewinding and tracing. Only `agent_memory`, `parts` and upkeep
import this folder.

An item is a row: its value as JSON, with tags for types that JSON lacks, so that each read returns a new object and
storing changes nothing. Every query filters expired items, so sweeping only frees space. Reading puts the expiry of an
item off. For a batch of reads alone, this is a transaction of its own, so that readers wait for writers only if there
is an expiry to put off. A page without a filter is read from an index that holds no values. Filters are evaluated in
Python, the same for both engines. The database excludes values beforehand that do not contain a text required to be
equal. An item that is indexed by named fields stores their texts too, since removal from the index needs the exact
texts, even if a later LangGraph reads a path differently.

A call of a store is one transaction and one step of a trace. Its name is the kind of its operations
(`memory.store.get`, `.put`, `.search`), or `memory.store.batch` for several kinds. The durations of single operations
of a batch cannot be measured, so they have no steps. Batches of searches alone are shown as a retriever, with all
results as documents. `AgentMemoryRetriever` has no LangChain run of its own. The search is reported once, as
`memory.retrieval.search`, so that hooks receive it too and withheld content does not appear under another name.
"""
