"""A part store in an in-memory database, for writing and reading single values."""

from __future__ import annotations

import math
import struct
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Send

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.threads import value_store
from langchain_agentmem.threads.thread_rows import find_thread, make_thread
from langchain_agentmem.threads.value_codec import MessageCache, ValueDraft, ValueReader
from langchain_agentmem.threads.value_store import ranges_of, recall_nothing, unpack, write_parts

AT = ThreadKey("", "t")


def strict():
    return JsonPlusSerializer(allowed_msgpack_modules=None)


def aes():
    return EncryptedSerializer.from_pycryptodome_aes(serde=strict(), key=b"sixteen bytes ok")


def round_trip(value, serde=None):
    """Return the value after a round trip through LangGraph's serializer."""
    serde = serde or strict()
    return serde.loads_typed(serde.dumps_typed(value))


class OwnStore:
    """A thread's part store, and the saver's knowledge of it."""

    def __init__(self, serde=None, memory=None):
        self.serde = serde or strict()
        self.memory = memory or AgentMemory()
        self.engine = self.memory.database.engine
        self.known = MessageCache()
        if self.engine.read(lambda tx: find_thread(tx, AT)) is None:
            self.engine.write(lambda tx: make_thread(tx, *AT, 0))

    def put(self, value, *, listing=True):
        """Store a value and return its encoded recipe."""

        def steps(tx):
            thread = find_thread(tx, AT)
            draft = ValueDraft(self.serde, self.known, thread.store, for_channels=listing)
            recipe = draft.make_recipe(value)
            return thread.store, draft, *write_parts(tx, thread.store, draft, [recipe])

        place, draft, recipes, writer = self.engine.write(steps)
        if writer is not None:
            draft.stamp_messages(place, writer.numbers, writer.moves)
        return recipes[0]

    def get(self, blob, *, known=True):
        """Return the value of a recipe, optionally with known parts."""
        recipe = unpack(blob)
        recall = self.known.recall if known else recall_nothing

        def steps(tx):
            thread = find_thread(tx, AT)
            return thread.store, value_store.fetch_parts(tx, thread.store.store_id, [recipe], recall)

        place, parts = self.engine.read(steps)
        return ValueReader(self.serde, self.known, place, parts).read_value(recipe)

    def place(self):
        return self.engine.read(lambda tx: find_thread(tx, AT)).store

    def parts(self):
        """Return the number of parts."""
        return self.memory.admin.stats()["parts"]

    def bytes(self):
        """Return the size of their contents in bytes."""
        return self.memory.admin.stats()["content_bytes"]


def ranges(blob):
    """Return the number of part ranges in an encoded recipe."""
    return len(list(ranges_of(unpack(blob))))


def told(value: Any) -> Any:
    """Return a comparable form of a value that includes types and key order."""
    kind = type(value)
    held: Any = value
    if isinstance(value, BaseMessage):
        fields = {name: told(field) for name, field in sorted(value.__dict__.items())}
        held = fields, told(value.__pydantic_extra__)
    elif kind is Send:
        held = value.node, told(value.arg), told(getattr(value, "timeout", None))
    elif kind in (_DeltaSnapshot, Interrupt):
        held = told(value.value), getattr(value, "id", None)
    elif kind is dict:
        held = [(told(key), told(item)) for key, item in value.items()]
    elif kind in (list, tuple):
        held = [told(item) for item in value]
    elif kind is float:
        held = "nan" if math.isnan(value) else struct.pack("d", value)
    return kind, held
