"""`AgentMemoryThreadStore`: LangGraph's store of long-term items, for one thread, and rewound with it.

    graph = builder.compile(checkpointer=memory.checkpointer, store=memory.thread_store)

    def node(state, runtime):
        runtime.store.put(("plan",), "step", {"text": "Buy a ticket to Lisbon."})

It is used in the nodes of a graph, and belongs to the thread that runs there: another thread sees nothing of it. A
checkpoint shows the items as they were, so who goes back to one, edits what was said there and goes on, finds nothing
of what came after; and a node that is executed again puts once. The graph needs this memory's checkpointer.

    store = memory.thread_store.at(config)   # from outside, to look at a checkpoint: read-only

What LangGraph's contract says, it does as `AgentMemoryStore` does. Two things differ. Parallel nodes do not see what
the others put before the step is over. And time stands still in a step: whether something has expired is judged by the
time of the checkpoint, so that a past one shows what it showed then.

`get` and a search for words cost the same however many items a thread has. A search without words and a list of
namespaces read all items of the thread: it is made for hundreds of them, or a few thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from langgraph.store.base import IndexConfig, TTLConfig

from langchain_agentmem.base.namespaces import running_config
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.rewinding.graph_runs import runs_of
from langchain_agentmem.rewinding.thread_memory import thread_point
from langchain_agentmem.stores.serving import ItemStore
from langchain_agentmem.stores.shared_items import Items
from langchain_agentmem.stores.thread_items import RewoundItems


class AgentMemoryThreadStore(ItemStore):
    """LangGraph's store of long-term items, of the thread that is running.

    Args:
        memory: The `AgentMemory` whose checkpointer the graph has.
        index: LangGraph's `IndexConfig`, see `AgentMemoryStore`.
        ttl: LangGraph's `TTLConfig`, in minutes: "default_ttl" and "refresh_on_read". Nothing is swept, since past
            checkpoints show what has expired since.
        config: Whose items, see `at`. Default: those of the thread that is running when a method is called.

    Attributes:
        index_config: The configuration of the index, or None.
        embeddings: The embeddings that it names, or None.

    Raises:
        InvalidInput: An argument is wrong. Each method raises it too where no thread is running.
        StorageError: The database cannot be opened.
    """

    _part = "thread_store"

    def __init__(
        self, memory: Any, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None, config: Any = None
    ) -> None:
        super().__init__(memory, index, ttl)
        self._given = config
        if config is not None:
            thread_point(runs_of(self.database), config)  # says at once what is wrong

    def at(self, config: Any) -> Self:
        """The same store at a checkpoint, or of a thread's newest one. It can only be read.

        Args:
            config: A config that names the thread, and maybe a checkpoint. That of a node, or its `Runtime`, means the
                node; so does, in a node, one that names its thread and no checkpoint. There it can be written as well.

        Raises:
            InvalidInput: It names no thread.
        """
        return type(self)(self.database, index=self.index_config, ttl=self.ttl_config, config=config)

    def __repr__(self) -> str:
        return f"AgentMemoryThreadStore({safe_repr(self.database.engine.path)})"

    def _opened(self) -> Callable[[], Items]:
        if self._given is None:
            configurable = (running_config() or {}).get("configurable")
            if not isinstance(configurable, Mapping) or configurable.get("thread_id") is None:
                raise InvalidInput(
                    "The store of a thread is used in the nodes of a graph that runs with a thread_id; no thread is "
                    "running here. To look at one from outside, use thread_store.at(config)."
                )
        point = thread_point(runs_of(self.database), self._given)
        return lambda: RewoundItems(point)
