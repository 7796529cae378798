"""Imports of the memory of other programs, read from their files, databases and objects.

A reader opens a source read-only. It yields an `ImportBatch` for each conversation, thread, page of items or page of
memories, and a `SkippedEntry` for content that cannot be imported (`batches.py`).

A batch is written in one transaction, except a LangGraph thread: each checkpoint has its own transaction. Existing
objects are not written again, so to continue an interrupted import, run it again.

`import_runner.py` selects the reader of a source and runs the import. The other modules are the readers.
"""

from typing import Literal, TypeAlias

SourceKind: TypeAlias = Literal[
    "langgraph-saver", "langgraph-store", "langmem", "chat-history", "mem0", "letta", "memgpt", "taskweaver", "marsys",
    "opus",
]  # fmt: skip
"""The kinds of sources. The kind "opus" is a file agent_memory.json."""
