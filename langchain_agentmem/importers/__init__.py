"""Imports of the memory of other programs, read from their files, databases and objects.

A reader yields the content of a source (a conversation, a page of items, the memories of a user) as `ImportBatch`es,
and skipped entries with reasons (`batches.py`). Each batch is written in one transaction, all of it or nothing, and
existing objects are not written again, so an import can be interrupted, restarted and repeated. `import_runner.py` maps
the kinds of sources to readers and runs the import. The other modules are the readers.

Sources are opened read-only. `storage/foreign_tables.py` reads their tables.

This package imports the facade, the layers below, and LangGraph.
"""

from typing import Literal, TypeAlias

SourceKind: TypeAlias = Literal[
    "langgraph-saver",
    "langgraph-store",
    "langmem",
    "chat-history",
    "mem0",
    "letta",
    "memgpt",
    "taskweaver",
    "marsys",
    "opus",
]
"""The kinds of sources."""
