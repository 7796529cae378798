"""What LangGraph's stores of this memory have in common: how they are configured, and how a batch is run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base import IndexConfig, Op, Result, TTLConfig, ensure_embeddings

from langchain_agentmem.base.apart import aside
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput, StepIsOver
from langchain_agentmem.search.embedding import embed_with, embedder_of
from langchain_agentmem.search.memory_search import inquiry
from langchain_agentmem.storage.database import Database, database_of
from langchain_agentmem.stores import store_traces
from langchain_agentmem.stores.checked import CheckedStore
from langchain_agentmem.stores.item_values import ttl_of
from langchain_agentmem.stores.shared_items import Items
from langchain_agentmem.stores.store_operations import Batch, Fields, checked_fields
from langchain_agentmem.tracing import RunType, Step


class ItemStore(CheckedStore):
    """A store of items.

    Args:
        memory: An `AgentMemory`, a `Database`, or a path or URL.
        index: LangGraph's `IndexConfig`.
        ttl: LangGraph's `TTLConfig`.

    Attributes:
        database: Where it is kept.
        index_config: The configuration of the index, or None.
        embeddings: The embeddings that it names, or None.
        ttl_config: The configuration of expiry, or None.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    supports_ttl = True
    _part: str

    def __init__(self, memory: Any, index: IndexConfig | None, ttl: TTLConfig | None) -> None:
        self.index_config, self._fields = _index(index)
        self.embeddings = _embeddings(self.index_config)
        self.ttl_config = _ttl(ttl)
        self.database: Database = database_of(memory)
        if self.embeddings is not None and self.index_config is not None:
            embed_with(self.database, self.embeddings, self.index_config["dims"])

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction.

        Args:
            ops: `GetOp`, `SearchOp`, `PutOp` and `ListNamespacesOp`, in any mixture.

        Returns:
            The result of each, in their order: an item or None, a list of items, None, or a list of namespaces.

        Raises:
            InvalidInput: An operation is wrong, or a value cannot be stored as JSON. Nothing was written.
            StorageError: The database failed. Nothing was written.
        """
        batch, opened = self._batch(ops), self._opened()
        now, tail = self.database.now(), self.database.tail
        with self._step(batch) as step:
            self._embed(batch, opened(), now)
            if batch.writes:
                found = self.database.engine.write(lambda: batch.run(opened(), now, tail=tail))
            else:
                found = self.database.engine.read(lambda: batch.read(opened(), now))
            step.finish(lambda: batch.told(found))
        if batch.writes and (embedder := embedder_of(self.database)) is not None:
            embedder.wake()
        if found.touched and not batch.writes:
            with contextlib.suppress(DatabaseReadOnly, StepIsOver):  # who may only read still reads
                self.database.engine.write(lambda: opened().touch(found.touched, now=now, tail=tail))
        return batch.answers(found)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, awaited."""
        batch, opened = await aside(self._batch, ops), self._opened()
        now, tail = self.database.now(), self.database.tail
        async with self._step(batch) as step:
            if (embedder := embedder_of(self.database)) is not None and batch.asks:
                await embedder.in_thread(self._embed, batch, opened(), now)
            if batch.writes:
                found = await self.database.engine.awrite(lambda: batch.run(opened(), now, tail=tail))
            else:
                found = await self.database.engine.aread(lambda: batch.read(opened(), now))
            step.finish(lambda: batch.told(found))
        if batch.writes and (embedder := embedder_of(self.database)) is not None:
            embedder.wake()
        if found.touched and not batch.writes:
            with contextlib.suppress(DatabaseReadOnly, StepIsOver):
                await self.database.engine.awrite(lambda: opened().touch(found.touched, now=now, tail=tail))
        return await aside(batch.answers, found)

    def _opened(self) -> Callable[[], Items]:
        """Makes the place where the items are, anew for each transaction. Whose it is, is decided now."""
        raise NotImplementedError

    def _step(self, batch: Batch) -> Step:
        name = f"memory.{self._part}.{batch.verb}"
        run_type: RunType = "retriever" if batch.verb == store_traces.SEARCH else "chain"
        return self.database.tracing.step(name, run_type=run_type, inputs=batch.asked)

    def _batch(self, ops: Iterable[Op]) -> Batch:
        return Batch(ops, self.ttl_config or {}, self._fields)

    def _embed(self, batch: Batch, items: Items, now: int) -> None:
        embedder = embedder_of(self.database)
        if embedder is not None and batch.asks:
            batch.embed(lambda look: embedder.near(inquiry(look.question, now), items.walls(look)))


def _index(index: Any) -> tuple[IndexConfig | None, Fields | None]:
    """The configuration of the index, and the fields that it names."""
    if index is None:
        return None, None
    if not isinstance(index, Mapping):
        raise InvalidInput(f"index must be a dictionary such as {{'fields': ['text']}}, not {safe_repr(index)}.")
    dims = index.get("dims")
    if dims is not None and (isinstance(dims, bool) or not isinstance(dims, int) or dims < 1):
        raise InvalidInput(f"index['dims'] must be a positive whole number, not {safe_repr(dims)}.")
    fields = checked_fields("index['fields']", index.get("fields") or index.get("text_fields") or ["$"])
    config: IndexConfig = {**index, "fields": list(fields or ("$",))}  # type: ignore[typeddict-item]
    return config, fields


def _embeddings(index: IndexConfig | None) -> Embeddings | None:
    embed = None if index is None else index.get("embed")
    if embed is None:
        return None
    if not isinstance(embed, str) and not callable(embed) and not isinstance(embed, Embeddings):
        raise InvalidInput(
            f"index['embed'] must be Embeddings, a function or 'provider:model', not {type(embed).__name__}."
        )
    if index is None or index.get("dims") is None:
        raise InvalidInput("index['embed'] needs index['dims'], the numbers of a vector.")
    return ensure_embeddings(embed)


def _ttl(ttl: Any) -> TTLConfig | None:
    if ttl is None:
        return None
    if not isinstance(ttl, Mapping):
        raise InvalidInput(f"ttl must be a dictionary such as {{'default_ttl': 60}}, not {safe_repr(ttl)}.")
    ttl_of(ttl.get("default_ttl"))
    ttl_of(ttl.get("sweep_interval_minutes"))
    return TTLConfig(**ttl)  # type: ignore[typeddict-item]
