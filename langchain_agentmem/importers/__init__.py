"""Moving in: what other programs remember, read where they keep it, and written here.

A reader takes what a source holds, a conversation, a page of items, the memories of a user, as `Parcel`s, and tells of
what it has to leave out and why (`parcels.py`). Each parcel is written in one transaction, all of it or nothing, and
only what is not here yet; so an import can be interrupted, begun anew and repeated. `moving.py` names the kinds of
sources and does the work; the other modules are the readers, one for the files and tables of one kind of program.

Sources are opened to be read only. Their tables are read by `storage/foreign_tables.py`.

Imports the facade, the layers below, and LangGraph.
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
