"""`AgentMemory`: the facade. It opens one database and hands out the parts of memory that live in it.

    with AgentMemory("agent.db") as memory:
        chat = memory.conversation("conversation-1", namespace=("alice",))
        chat.add_user_message("My sister Ana lives in Lisbon.")
        [found] = memory.search("Where does Ana live?", namespace=("alice",), limit=1)
        print(found.text, found.why)

One object serves synchronous and asynchronous code; every method that does I/O has a twin whose name begins
with `a`. It may be shared by any number of threads and tasks.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_agentmem import care, overview, stats
from langchain_agentmem.care import EraseReport, TransferReport, VerifyReport
from langchain_agentmem.clock import Clock, NewId, micros, new_uuid, utc_now
from langchain_agentmem.closing import Closing
from langchain_agentmem.conversations import listing
from langchain_agentmem.conversations.bound import is_of_thread
from langchain_agentmem.conversations.history import ConversationMemory
from langchain_agentmem.conversations.listing import Listed
from langchain_agentmem.conversations.log import Address
from langchain_agentmem.conversations.saved import checked_retention
from langchain_agentmem.conversations.sessions import SessionMemory
from langchain_agentmem.copying import CopyReport, Progress, copy, place_of
from langchain_agentmem.database import Database
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.events import ConversationErased, Hook, MessagesStored
from langchain_agentmem.files import path_of_file
from langchain_agentmem.finding import TEXTS
from langchain_agentmem.model import Retention
from langchain_agentmem.namespaces import Namespace, id_of, namespace_of, range_of, resolve
from langchain_agentmem.overview import BranchSummary, ThreadList
from langchain_agentmem.pruning import PruneReport, pruned
from langchain_agentmem.restoring import RestoreReport, restore
from langchain_agentmem.retrieval.ranking import WEIGHTS, Weights
from langchain_agentmem.retrieval.search import Recollection
from langchain_agentmem.searches import checked_weights, sought
from langchain_agentmem.stats import Stats
from langchain_agentmem.storage import Operation
from langchain_agentmem.tracing import Content, Step, documents
from langchain_agentmem.work import Shown, Work, aperform, perform

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

    from langchain_agentmem.compaction.config import ManagedMemoryConfig
    from langchain_agentmem.compaction.managed import (
        ManagedConversationMemory,
        ProcessStrategy,
        RetrievalStrategy,
        TriggerStrategy,
    )
    from langchain_agentmem.compaction.node import CompactionNode
    from langchain_agentmem.conversations.audit.trail import AuditTrail
    from langchain_agentmem.memory.experience.library import ExperienceLibrary
    from langchain_agentmem.memory.facts.fact import FactsConfig
    from langchain_agentmem.memory.facts.kg import KGMemory
    from langchain_agentmem.memory.facts.node import RememberFacts
    from langchain_agentmem.memory.injection.inject import MemoryInjection
    from langchain_agentmem.memory.layers import LayeredMemory
    from langchain_agentmem.memory.settings import LayersConfig
    from langchain_agentmem.rewinding.threads import ThreadPoint
    from langchain_agentmem.stores.blobs import AgentMemoryByteStore
    from langchain_agentmem.stores.checkpoints import AgentMemorySaver
    from langchain_agentmem.stores.items import AgentMemoryStore
    from langchain_agentmem.stores.retriever import AgentMemoryRetriever
    from langchain_agentmem.stores.thread_items import AgentMemoryThreadStore


class AgentMemory(Closing):
    """Everything an agent remembers, in one database.

    Args:
        url: A path, ":memory:", or "postgresql://…" (extra `[postgres]`). Default: a database in memory.
        hooks: Functions that are called with every event. What they raise is logged and goes no further.
        trace_content: How traces, hooks' steps and streams show what was said and remembered: True as it is, False not
            at all, else as this function from text to text gives it. Ids, names, counts, scores and times are always
            shown. What the agent's own runs show, such as the messages given to its model, is LangChain's to hide.
        trace_checkpoints: Whether the checkpointer's reads and writes are steps too. Default: not, as there are many.
        retention: Which messages conversations keep after each addition. Default: all, for ever.
        index: What a search goes by beside words, as LangGraph's stores take it: "embed", LangChain `Embeddings`, a
            function or "provider:model", and "dims", the numbers of a vector (extra `[vectors]`); "fields", the fields
            of the store's items. Default: words alone.
        weights: How much each signal of a search counts. Default: what proved best.
        synchronous: SQLite's durability: "NORMAL" (a power cut may take the last commits, never the database) or
            "FULL".
        busy_timeout: Seconds to wait for other processes that write. Default: 60.
        clock: Gives the time, for tests. Default: the system's.
        new_id: Makes ids for messages that have none, for tests. Default: UUIDs that begin with
            the time.

    Raises:
        InvalidInput: An argument is wrong.
        MissingExtra: PostgreSQL is asked for and psycopg is not installed.
        StorageError: The database cannot be opened; its subclasses say why.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] = ":memory:",
        *,
        hooks: Sequence[Hook] = (),
        trace_content: Content = True,
        trace_checkpoints: bool = False,
        retention: Retention | None = None,
        index: Mapping[str, Any] | None = None,
        weights: Weights = WEIGHTS,
        synchronous: str = "NORMAL",
        busy_timeout: float = 60.0,
        clock: Clock = utc_now,
        new_id: NewId = new_uuid,
    ) -> None:
        self.retention = checked_retention(retention)
        self.weights = checked_weights(weights)
        self.database = Database(
            url,
            hooks=hooks,
            trace_content=trace_content,
            trace_checkpoints=trace_checkpoints,
            synchronous=synchronous,
            busy_timeout=busy_timeout,
            clock=clock,
            new_id=new_id,
        )
        self._index: Any = index
        if index is not None:
            try:
                self.store.setup()  # the one that knows how to read the configuration
            except BaseException:
                self.database.close()
                raise

    # -- opening and closing -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the database, after what is running. Closing twice is harmless."""
        self.database.close()

    async def aclose(self) -> None:
        """`close`, awaited, after the hooks that are still at work."""
        await self.database.hooks.settle()
        await asyncio.to_thread(self.database.close)

    def __repr__(self) -> str:
        return f"AgentMemory({self.database.engine.path!r})"

    # -- parts -------------------------------------------------------------------------------------------------

    def conversation(
        self,
        conversation_id: str | None = None,
        namespace: Sequence[str] | None = None,
        *,
        description: str | None = None,
        retention: Retention | None = None,
    ) -> ConversationMemory:
        """One conversation, as a LangChain chat history and with the methods of documents 001 and 003.

        Args:
            conversation_id: Which one. Default: a new one.
            namespace: Whose it is. Default: the running config's, else the root.
            description: A system message that a reset keeps.
            retention: Which messages to keep. Default: as for the whole memory.
        """
        return ConversationMemory(
            self.database,
            conversation_id,
            namespace=namespace,
            description=description,
            retention=retention or self.retention,
        )

    def managed_conversation(
        self,
        conversation_id: str | None = None,
        namespace: Sequence[str] | None = None,
        *,
        config: ManagedMemoryConfig | None = None,
        model: Any = None,
        description: str | None = None,
        retention: Retention | None = None,
        trigger_strategy: TriggerStrategy | None = None,
        process_strategy: ProcessStrategy | None = None,
        retrieval_strategy: RetrievalStrategy | None = None,
    ) -> ManagedConversationMemory:
        """One conversation that keeps what a model is shown of it in a budget (document 003).

        Args:
            conversation_id: Which one. Default: a new one.
            namespace: Whose it is. Default: the running config's, else the root.
            config: The budget, and what is done to keep it. Default: document 003's.
            model: What summarizes: a LangChain model, a function, or a model's name. Default: none.
            description: A system message that a reset keeps.
            retention: Which messages to keep. Default: as for the whole memory.
            trigger_strategy: Says when to compact. Default: the configuration.
            process_strategy: Compacts in place of the configuration's processors.
            retrieval_strategy: Says what of the context is shown. Default: all.
        """
        from langchain_agentmem.compaction.managed import ManagedConversationMemory  # noqa: PLC0415 - who needs it pays

        return ManagedConversationMemory(
            self.database,
            conversation_id,
            namespace=namespace,
            description=description,
            retention=retention or self.retention,
            config=config,
            model=model,
            trigger_strategy=trigger_strategy,
            process_strategy=process_strategy,
            retrieval_strategy=retrieval_strategy,
        )

    def compaction(
        self, model: Any = None, config: ManagedMemoryConfig | None = None, **options: Any
    ) -> CompactionNode:
        """A node of a graph, or a link of a chain, that keeps the context of a model in a budget.

        `builder.add_node("compact", memory.compaction(model))` puts the context under "llm_input_messages";
        `memory.compaction(model) | model` is a chain.

        Args:
            model: What summarizes: a LangChain model, a function, or a model's name. Default: none, and summaries are
            made
                of what was said.
            config: The budget, and what is done to keep it. Default: document 003's.
            **options: What `CompactionNode` takes besides, such as `output_messages_key`, `shrink`, `tools`, `window`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        from langchain_agentmem.compaction.node import CompactionNode  # noqa: PLC0415 - it loads LangChain's runnables

        try:
            inspect.signature(CompactionNode).bind(self, model, config, **options)
        except TypeError as error:
            raise InvalidInput(f"A compaction node cannot be made of this: {error}.") from error
        return CompactionNode(self, model, config, **options)

    def layers(
        self,
        branch_or_config: Any = None,
        namespace: Sequence[str] | None = None,
        *,
        settings: LayersConfig | None = None,
        model: Any = None,
    ) -> LayeredMemory:
        """Core, recall and archival memory (document 004), of a branch or of a thread.

        `memory.layers("user-42")` is memory that belongs to no thread; it begins to exist with the first write.
        `memory.layers(config)` in a node of a graph is the thread's memory: it is rewound with the thread, and a node
        that is executed again remembers once. The graph needs this memory's checkpointer. With the config of a past
        checkpoint it is read-only, and shows the memory as it was. What LangGraph hides, it cannot follow: a node
        whose result comes from a cache remembers nothing; a node that retries within itself is one attempt; and
        threads of your own that do not carry the context must be given the config.

        Args:
            branch_or_config: The name of a branch; or a config, a `Runtime` or a `ToolRuntime`. Default: the run
                this is called in.
            namespace: Whose branch it is. Default: the running config's, else the root.
            settings: How it behaves. Default: `LayersConfig()`.
            model: Who compresses what is too long and sums up old events: a LangChain model, a function, or a model's
                name. Default: nobody; texts are cut, and events listed.

        Raises:
            InvalidInput: An argument is wrong, or no run is there.
        """
        from langchain_agentmem.memory.layers import LayeredMemory  # noqa: PLC0415 - who needs it pays

        whose = branch_or_config if isinstance(branch_or_config, str) else self._thread(branch_or_config)
        return LayeredMemory(self.database, whose, namespace=namespace, settings=settings, model=model)

    def facts(
        self,
        branch_or_config: Any = "main",
        namespace: Sequence[str] | None = None,
        model: Any = None,
        *,
        description: str | None = None,
        settings: FactsConfig | None = None,
    ) -> KGMemory:
        """Facts that know when they were true (documents 001 and 003), of a branch or of a thread.

        `memory.facts("user-42")` is memory that belongs to no thread, on the same branch as `memory.layers("user-42")`.
        `memory.facts(config)` in a node of a graph is the thread's, and is rewound with it, as with `layers`.

        Args:
            branch_or_config: The name of a branch; or a config, a `Runtime` or a `ToolRuntime`; None for the run this
                is called in. Default: the branch "main".
            namespace: Whose branch it is. Default: the running config's, else the root.
            model: Who extracts facts from what is added: a LangChain model, a function, or a model's name. Default:
                nobody; what is added is kept and found.
            description: A text with which the memory begins, and that a reset keeps. Default: the one it has, if any.
            settings: How facts are kept and learned. Default: `FactsConfig()`.

        Raises:
            InvalidInput: An argument is wrong, or no run is there.
        """
        from langchain_agentmem.memory.facts.kg import KGMemory  # noqa: PLC0415 - who needs it pays

        whose = branch_or_config if isinstance(branch_or_config, str) else self._thread(branch_or_config)
        return KGMemory(
            self.database, whose, namespace=namespace, model=model, description=description, settings=settings
        )

    def remember_facts(self, model: Any, **options: Any) -> RememberFacts:
        """A node of a graph that extracts facts from the new messages of its state, from each once.

        `builder.add_node("facts", memory.remember_facts(model))`

        Args:
            model: Who extracts them: a LangChain model, a function, or a model's name.
            **options: What `RememberFacts` takes besides, such as `branch`, `namespace`, `roles`, `messages_key`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        from langchain_agentmem.memory.facts.node import RememberFacts  # noqa: PLC0415 - it loads LangChain's runnables

        try:
            inspect.signature(RememberFacts).bind(self, model, **options)
        except TypeError as error:
            raise InvalidInput(f"Facts cannot be remembered like this: {error}.") from error
        return RememberFacts(self, model, **options)

    def experiences(
        self,
        directory: str | os.PathLike[str],
        namespace: Sequence[str] | None = None,
        *,
        subfolders: bool = False,
    ) -> ExperienceLibrary:
        """Handcrafted experiences (document 000): a folder of instructions, each with the condition for it.

        `memory.experiences("experience").selector(role="Planner", model=model)` puts those that apply into a prompt.

        Args:
            directory: The folder, with files `handcrafted_exp_*.yaml`. Changes are seen by the next selection.
            namespace: Whose feedback is kept and counts. Default: the running config's, else the root.
            subfolders: Whether files in folders below it count too. Default False.

        Raises:
            InvalidInput: There is no such folder, or an argument is wrong.
        """
        from langchain_agentmem.memory.experience.library import ExperienceLibrary  # noqa: PLC0415 - who needs it pays

        return ExperienceLibrary(self.database, directory, subfolders=subfolders, namespace=namespace)

    @cached_property
    def audit(self) -> AuditTrail:
        """Every prompt and reply (document 002), of the namespace of the running config, else of the root.

        `memory.audit.add(prompt, reply)` adds one, `memory.audit.handler()` is a callback handler that adds every model
        call of a run. `AuditTrail(memory, namespace)` is that of another namespace.
        """
        from langchain_agentmem.conversations.audit.trail import AuditTrail  # noqa: PLC0415 - who needs it pays

        return AuditTrail(self.database)

    def session(self, session_id: Any = None, namespace: Sequence[str] | None = None) -> SessionMemory:
        """One session of rounds and posts between roles (document 000), over the log of the same id, or of a thread.

        With the config of a node it is the thread's: it is rewound with the thread, and a node that is executed again
        posts once. With that of a checkpoint it is read-only. See `SessionMemory`.

        Args:
            session_id: Which one; or a config, a `Runtime` or a `ToolRuntime`. Default: a new one.
            namespace: Whose it is; a thread's is what its config says. Default: the running config's, else the root.
        """
        retention = None if is_of_thread(session_id) else self.retention  # what follows a thread is kept as it was
        return SessionMemory(self.database, session_id, namespace=namespace, retention=retention)

    @cached_property
    def checkpointer(self) -> AgentMemorySaver:
        """The checkpointer of LangGraph graphs: `builder.compile(checkpointer=memory.checkpointer)`."""
        from langchain_agentmem.stores.checkpoints import AgentMemorySaver  # noqa: PLC0415 - it loads LangGraph

        return AgentMemorySaver(self)

    @cached_property
    def store(self) -> AgentMemoryStore:
        """The store of LangGraph graphs, for long-term items: `builder.compile(store=memory.store)`.

        It is shared by all threads, and not rewound with them. Namespaces are given by each call.
        """
        from langchain_agentmem.stores.items import AgentMemoryStore  # noqa: PLC0415 - it loads LangGraph

        return AgentMemoryStore(self, index=self._index)

    @cached_property
    def thread_store(self) -> AgentMemoryThreadStore:
        """A store of LangGraph graphs whose items belong to the thread that is running, and are rewound with it.

        `builder.compile(checkpointer=memory.checkpointer, store=memory.thread_store)`, or use it in nodes beside
        `memory.store`. `memory.thread_store.at(config)` looks at a checkpoint from outside.
        """
        from langchain_agentmem.stores.thread_items import AgentMemoryThreadStore  # noqa: PLC0415 - it loads LangGraph

        return AgentMemoryThreadStore(self, index=self._index)

    def byte_store(self, namespace: Sequence[str] | None = None) -> AgentMemoryByteStore:
        """Values by key, as LangChain's `ByteStore`: for `CacheBackedEmbeddings` and the like.

        Args:
            namespace: Whose values; it sees no other's, not those of namespaces below either. Default: the running
                config's, else the root.
        """
        from langchain_agentmem.stores.blobs import AgentMemoryByteStore  # noqa: PLC0415 - it loads LangChain

        return AgentMemoryByteStore(self, namespace)

    def create(
        self, memory_type: str = "conversation_history", **options: Any
    ) -> ConversationMemory | SessionMemory | LayeredMemory | KGMemory:
        """Make a memory by the name of its type (documents 001 and 003).

        Args:
            memory_type: "conversation_history", "managed_conversation", "kg", "layers" or "session".
            **options: What the type's own method takes: `conversation_id`, `namespace`, `description` and so on.

        Raises:
            InvalidInput: There is no such type, or it takes no such option.
        """
        makers: dict[str, Callable[..., ConversationMemory | SessionMemory | LayeredMemory | KGMemory]] = {
            "conversation_history": self.conversation,
            "kg": self.facts,
            "layers": self.layers,
            "managed_conversation": self.managed_conversation,
            "session": self.session,
        }
        if not isinstance(memory_type, str) or memory_type not in makers:
            raise InvalidInput(f"There is no memory type {memory_type!r}; there are {', '.join(sorted(makers))}.")
        try:
            inspect.signature(makers[memory_type]).bind(**options)
        except TypeError as error:
            raise InvalidInput(f"A {memory_type!r} memory cannot be made of this: {error}.") from error
        return makers[memory_type](**options)

    def tools(
        self, branch_or_config: str | Mapping[str, Any] | None = None, include: Iterable[str] | None = None
    ) -> list[BaseTool]:
        """Tools by which an agent uses this memory.

        `recall_dropped` searches the conversation for what has left the context, and `expand` shows a message, an
        archived tool output or all that a summary stands for, by its id. The others work on the layers (document 004):
        `mem_core_get`, `mem_core_set`, `mem_core_del`, `mem_recall_append`, `mem_recall_search`, `mem_recall_evict`,
        `mem_recall_summarize`, `mem_archival_write`, `mem_archival_update`, `mem_archival_search`, `mem_archival_get`,
        `mem_node_fork`, `mem_node_read`, `mem_node_write` and `consolidate`; and on facts: `fact_add`, `fact_search`
        and `fact_history`.

        Args:
            branch_or_config: Whose memory: the id of a conversation and the name of a branch, or the config of a
                thread. Default: those of the thread in which they are called, whose layers and facts are rewound with
                it.
            include: The names of the tools that are wanted, in this order; "fact_*" means all that begin so. Default: a
                small set, `recall_dropped`, `expand`, `mem_core_set`, `mem_core_del`, `mem_archival_write` and
                `mem_archival_search`.

        Raises:
            InvalidInput: There is no such tool, or no such conversation can be.
        """
        from langchain_agentmem.compaction.tools import chosen, dropped_tools  # noqa: PLC0415 - who needs it pays
        from langchain_agentmem.memory.facts.tools import fact_tools  # noqa: PLC0415
        from langchain_agentmem.memory.operations.tools import SMALL_SET, layer_tools  # noqa: PLC0415

        conversation_id, namespace = _conversation_named(branch_or_config)
        dropped = dropped_tools(self, conversation_id=conversation_id, namespace=namespace)
        layers = layer_tools(self, branch_or_config)
        facts = fact_tools(self, branch_or_config)
        names = [*(tool.name for tool in dropped), *SMALL_SET] if include is None else include
        return chosen([*dropped, *layers, *facts], names)

    def inject(self, branch_or_config: Any = None, **options: Any) -> MemoryInjection:
        """A Runnable that puts memory into a prompt, messages or a state: `memory.inject() | model`.

        The core memory stands at the beginning and stays the same bytes as long as it does not change; what is
        recalled for this query stands near the end. Both are data, fenced and escaped.

        Args:
            branch_or_config: The name of a branch, a `LayeredMemory`, or the config of a thread. Default: the run's.
            **options: What `MemoryInjection` takes besides, such as `kinds`, `limit`, `budget`, `role`, `query`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        from langchain_agentmem.memory.injection.inject import MemoryInjection  # noqa: PLC0415 - who needs it pays

        try:
            inspect.signature(MemoryInjection).bind(self, branch_or_config, **options)
        except TypeError as error:
            raise InvalidInput(f"Memory cannot be injected like this: {error}.") from error
        return MemoryInjection(self, branch_or_config, **options)

    # -- finding -----------------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        namespace: Sequence[str] | None = None,
        limit: int = 10,
        kinds: Sequence[str] | None = None,
        conversation_id: str | None = None,
        roles: Sequence[str] | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        config: RunnableConfig | None = None,
        weights: Weights | None = None,
    ) -> list[Recollection]:
        """Find what was said, without a model.

        An empty namespace is the administrator's view: it reaches every namespace.

        Args:
            query: Any text.
            namespace: Where to look: this namespace and all below it. Default: the running config's, else the root.
            limit: Most results. Default: 10.
            kinds: Only these kinds: "message", "fact", "item", "event", "record", "audit". Default: all but "audit",
                whose entries repeat what messages say.
            conversation_id: Only this conversation. Default: all.
            roles: Only messages of these roles. Default: all.
            before: Only what was said before this time. Without a time zone it is taken as UTC.
            after: Only what was said at this time or later.
            config: The run on whose behalf to look. Default: the one this is called in. Of its thread's own memory it
                finds what is remembered there now, and not what was rewound.
            weights: How much each signal counts. Default: those of this memory.

        Returns:
            The best first. Each says why it was found.

        Raises:
            InvalidInput: An argument is wrong.
        """
        asked: dict[str, Any] = {
            "query": query,
            "namespace": namespace,
            "limit": limit,
            "kinds": kinds,
            "conversation_id": conversation_id,
            "roles": roles,
            "before": before,
            "after": after,
        }
        with self._searching(asked, config) as step:
            given = sought(self.database, self.weights, **asked, config=config, weights=weights)
            found = self.database.find(**given)
            step.finish(lambda: documents(found))
        return found

    async def asearch(
        self,
        query: str,
        *,
        namespace: Sequence[str] | None = None,
        limit: int = 10,
        kinds: Sequence[str] | None = None,
        conversation_id: str | None = None,
        roles: Sequence[str] | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        config: RunnableConfig | None = None,
        weights: Weights | None = None,
    ) -> list[Recollection]:
        """`search`, awaited."""
        asked: dict[str, Any] = {
            "query": query,
            "namespace": namespace,
            "limit": limit,
            "kinds": kinds,
            "conversation_id": conversation_id,
            "roles": roles,
            "before": before,
            "after": after,
        }
        async with self._searching(asked, config) as step:
            given = sought(self.database, self.weights, **asked, config=config, weights=weights)
            found = await self.database.afind(**given)
            step.finish(lambda: documents(found))
        return found

    def conversations(
        self, namespace: Sequence[str] | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[Listed]:
        """Which conversations there are, the one that was spoken in last first.

        Args:
            namespace: Whose: this namespace and all below it. Default: the running config's, else the root, which is
                every namespace.
            limit: Most conversations. Default: 100.
            offset: How many of the first to leave out. Default: 0.

        Returns:
            Their ids and namespaces, how many messages each has, and when the first and the last of them were said.

        Raises:
            InvalidInput: An argument is wrong.
        """
        make = listing.conversations(resolve(namespace), limit, offset)
        inputs = partial(_given_only, {"namespace": namespace, "limit": limit, "offset": offset})
        return self.database.read("conversation.list", make, inputs, listing.told)

    async def aconversations(
        self, namespace: Sequence[str] | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[Listed]:
        """`conversations`, awaited."""
        make = listing.conversations(resolve(namespace), limit, offset)
        inputs = partial(_given_only, {"namespace": namespace, "limit": limit, "offset": offset})
        return await self.database.aread("conversation.list", make, inputs, listing.told)

    def retriever(self, **search_arguments: Any) -> AgentMemoryRetriever:
        """The search as a LangChain retriever, for chains: `memory.retriever(namespace=("alice",), limit=4) | …`.

        Args:
            **search_arguments: Those of `search` but for the query and the config, which each run brings. `k` is
            another
                name for `limit`, and `tags`, `metadata` and `name` are what every LangChain retriever takes.

        Raises:
            InvalidInput: An argument is wrong.
        """
        from langchain_agentmem.stores.retriever import AgentMemoryRetriever  # noqa: PLC0415 - it loads LangChain

        return AgentMemoryRetriever(**search_arguments, memory=self)

    def settle(self) -> None:
        """Do now what is otherwise done in the background: vectors of documents, summaries that are made ahead of need.

        Raises:
            Exception: Whatever the embeddings or the model raise. What waits goes on waiting.
        """
        self.database.worker.settle()

    async def asettle(self) -> None:
        """`settle`, awaited."""
        await self.database.worker.asettle()

    # -- what there is -----------------------------------------------------------------------------------------

    def threads(
        self, namespace: Sequence[str] | None = None, *, thread_id: str | None = None, limit: int | None = None
    ) -> ThreadList:
        """What threads and conversations there are, how large they are, and when they changed last.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.
            thread_id: Only those of this id. Default: all.
            limit: Most of them. Default: all.

        Returns:
            Those that changed last first, and how many there are in all.

        Raises:
            InvalidInput: An argument is wrong.
        """
        where = resolve(namespace)
        return self.database.read(
            "care.threads",
            lambda: overview.threads(where, thread_id=thread_id, limit=limit),
            lambda: _given_only({"namespace": where, "thread_id": thread_id, "limit": limit}),
            _threads_shown,
        )

    async def athreads(
        self, namespace: Sequence[str] | None = None, *, thread_id: str | None = None, limit: int | None = None
    ) -> ThreadList:
        """`threads`, awaited."""
        where = resolve(namespace)
        return await self.database.aread(
            "care.threads",
            lambda: overview.threads(where, thread_id=thread_id, limit=limit),
            lambda: _given_only({"namespace": where, "thread_id": thread_id, "limit": limit}),
            _threads_shown,
        )

    def branches(self, namespace: Sequence[str] | None = None) -> list[BranchSummary]:
        """What branches of layered memory and facts there are that have a name.

        Args:
            namespace: This namespace and all below it. Default: the running config's, else the root, so all.

        Returns:
            By namespace, each branch before its forks.

        Raises:
            InvalidInput: This is no namespace.
        """
        where = resolve(namespace)
        return self.database.read("care.branches", lambda: overview.branches(where), lambda: {"namespace": where})

    async def abranches(self, namespace: Sequence[str] | None = None) -> list[BranchSummary]:
        """`branches`, awaited."""
        where = resolve(namespace)
        return await self.database.aread(
            "care.branches", lambda: overview.branches(where), lambda: {"namespace": where}
        )

    # -- care --------------------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        """Counts of everything stored, bytes by part, tokens kept out of prompts, cache hits, slowest operations.

        What was measured is that of every process that used the database and of this one: each writes it when the
        memory is closed, and every ten minutes, if it wrote anything else. What nobody has written yet is known to the
        process alone that measured it. Exports leave it out, and `erase(namespace=())` deletes it.

        On SQLite the whole file is read twice: 1 GB takes about a second where the system has it at hand. On PostgreSQL
        the bodies of messages are counted, and sizes come from the server's own books.

        Returns:
            A dictionary, see `Stats`: "messages", "bytes" and other numbers; "bytes_by_part", "caches" and
            "operations", the one with the slowest call first.

        Raises:
            StorageError: The database cannot be read.
        """
        counted = self.database.read("care.stats", stats.counting, outputs=_counts)
        return stats.told(counted, self.database.engine.sizes(), self.database.measures.so_far())

    async def astats(self) -> Stats:
        """`stats`, awaited."""
        counted = await self.database.aread("care.stats", stats.counting, outputs=_counts)
        sizes = await self.database.engine.in_thread(self.database.engine.sizes, write=False)
        return stats.told(counted, sizes, self.database.measures.so_far())

    def verify(self, *, progress: Callable[[str], object] | None = None) -> VerifyReport:
        """Check the whole database: pages, keys, digests of every body, heads, versions and the index.

        Args:
            progress: Is told what is looked at next: "pages", then each of `care.CHECKED`.
        """
        if progress is not None:
            progress("pages")
        with self.database.tracing.step("memory.care.verify") as step:
            own = self.database.run("care.check", self.database.engine.problems, shown=False)
            report = _report(own, *self.database.read("care.look", partial(care.verify, progress), shown=False))
            step.finish(lambda: {"ok": report.ok, "problems": list(report.problems), "checked": report.checked})
        return report

    async def averify(self, *, progress: Callable[[str], object] | None = None) -> VerifyReport:
        """`verify`, awaited. `progress` is called in another thread."""
        if progress is not None:
            progress("pages")
        async with self.database.tracing.step("memory.care.verify") as step:
            own = await self.database.arun("care.check", self.database.engine.problems, write=False, shown=False)
            report = _report(own, *await self.database.aread("care.look", partial(care.verify, progress), shown=False))
            step.finish(lambda: {"ok": report.ok, "problems": list(report.problems), "checked": report.checked})
        return report

    def erase(
        self,
        *,
        namespace: Sequence[str] | None = None,
        thread_id: str | None = None,
        conversation_id: str | None = None,
        dry_run: bool = False,
    ) -> EraseReport:
        """Delete a person, thread or conversation everywhere, and leave no trace in the storage.

        The full-text index is merged and the file rewritten, so this takes as long as copying the database. On
        PostgreSQL every table is rewritten; the server's own write-ahead log and backups are the server's affair.

        Args:
            namespace: This namespace and all below it; `()` is everything, with what was measured. With an id, only
                there. Default, with an id: the running config's.
            thread_id: What was said in this thread, in every namespace unless there is one.
            conversation_id: This conversation, in the root namespace unless there is another.
            dry_run: Whether to tell only what would be deleted.

        Raises:
            InvalidInput: Nothing was named.
            StorageError: The rows are gone, but the storage could not be rewritten: erase again.
        """
        given = _to_erase(namespace, thread_id, conversation_id)
        with self.database.tracing.step("memory.care.erase", inputs=lambda: _given_only(given)) as step:
            if dry_run:
                rehearsed = partial(self.database.engine.rehearse, lambda: care.erase(**given))
                report, _ = self.database.run("care.rehearse", rehearsed, shown=False)
                return report
            report, erased = self.database.write("care.delete", lambda: care.erase(**given), shown=False)
            self.database.run("care.scrub", self.database.engine.scrub, shown=False)
            step.finish(lambda: asdict(report))
        self._let_go(erased, everything=care.is_everything(**given))
        return report

    async def aerase(
        self,
        *,
        namespace: Sequence[str] | None = None,
        thread_id: str | None = None,
        conversation_id: str | None = None,
        dry_run: bool = False,
    ) -> EraseReport:
        """`erase`, awaited."""
        given = _to_erase(namespace, thread_id, conversation_id)
        async with self.database.tracing.step("memory.care.erase", inputs=lambda: _given_only(given)) as step:
            if dry_run:
                rehearsed = partial(self.database.engine.rehearse, lambda: care.erase(**given))
                report, _ = await self.database.arun("care.rehearse", rehearsed, write=True, shown=False)
                return report
            report, erased = await self.database.awrite("care.delete", lambda: care.erase(**given), shown=False)
            await self.database.arun("care.scrub", self.database.engine.scrub, write=True, shown=False)
            step.finish(lambda: asdict(report))
        self._let_go(erased, everything=care.is_everything(**given))
        return report

    def export(self, path: str | os.PathLike[str]) -> TransferReport:
        """Write everything to a file of JSON lines, as of one moment. `import_` reads it, on either database.

        What was measured of this database (`stats`) stays with it.
        """
        return self.database.read("care.export", lambda: care.export(path), lambda: {"path": path}, asdict)

    async def aexport(self, path: str | os.PathLike[str]) -> TransferReport:
        """`export`, awaited."""
        return await self.database.aread("care.export", lambda: care.export(path), lambda: {"path": path}, asdict)

    def import_(self, path: str | os.PathLike[str]) -> TransferReport:
        """Add what an export holds to this database, all of it or nothing.

        What is here already stays; importing the same file twice adds nothing.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind.
            MessageError: A conversation holds other content under one of the ids.
        """
        report, written = self.database.write("care.import", self._importing(path), lambda: {"path": path}, _imported)
        self._announce_imported(written)
        return report

    async def aimport_(self, path: str | os.PathLike[str]) -> TransferReport:
        """`import_`, awaited."""
        report, written = await self.database.awrite(
            "care.import", self._importing(path), lambda: {"path": path}, _imported
        )
        self._announce_imported(written)
        return report

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Write a consistent copy, while others go on reading and writing.

        Of a SQLite database the copy is a database that `AgentMemory` opens. PostgreSQL has no such file, so there
        the copy is an export, which `import_` reads; for the server's own form use pg_dump.

        Args:
            path: Where to. A file that is there is replaced, when the new one is whole.

        Returns:
            The path.

        Raises:
            InvalidInput: The file cannot be written.
        """
        target = path_of_file(path)
        with self.database.tracing.step("memory.care.backup", inputs=lambda: {"path": path}) as step:
            if self.database.run("care.copy", lambda: self.database.engine.backup(target), shown=False):
                step.finish(lambda: {"type": "database"})
            else:
                report = self.database.read("care.export", lambda: care.export(target), shown=False)
                step.finish(lambda: {"type": "export", **asdict(report)})
        return target

    async def abackup(self, path: str | os.PathLike[str]) -> Path:
        """`backup`, awaited."""
        target = path_of_file(path)
        copy = partial(self.database.engine.backup, target)
        async with self.database.tracing.step("memory.care.backup", inputs=lambda: {"path": path}) as step:
            if await self.database.arun("care.copy", copy, write=False, shown=False):
                step.finish(lambda: {"type": "database"})
            else:
                report = await self.database.aread("care.export", lambda: care.export(target), shown=False)
                step.finish(lambda: {"type": "export", **asdict(report)})
        return target

    def copy(
        self, target: str | os.PathLike[str], *, force: bool = False, progress: Progress | None = None
    ) -> CopyReport:
        """Copy everything into another place, of the same engine or of the other one, as of one moment.

        What the copy holds is what is here, vectors, jobs and measures included; words are indexed anew. It is made
        beside its place, every row of it is read again and compared, and only then it takes its place. After an
        interruption, of whatever kind, the same call goes on where it was, and brings up to date what has changed here.
        Where what is stored there is replaced, nobody else should have it open.

        Args:
            target: A path or a "postgresql://…" URL, where nothing is stored yet.
            force: Whether what is stored there is replaced.
            progress: Is told how far it has come.

        Raises:
            InvalidInput: Something is stored there, or the other engine cannot store a value.
            StorageError: A database failed. What was copied is kept for the next call.
        """
        with self.database.tracing.step("memory.care.move", inputs=lambda: {"target": place_of(str(target)).name}):
            return self.database.run("care.rows", self._copying(target, progress, force=force), shown=False)

    async def acopy(
        self, target: str | os.PathLike[str], *, force: bool = False, progress: Progress | None = None
    ) -> CopyReport:
        """`copy`, awaited. `progress` is called in another thread."""
        name = "memory.care.move"
        async with self.database.tracing.step(name, inputs=lambda: {"target": place_of(str(target)).name}):
            return await self.database.arun(
                "care.rows", self._copying(target, progress, force=force), write=False, shown=False
            )

    @staticmethod
    def restore(
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Progress | None = None,
        checking: Callable[[str], object] | None = None,
    ) -> RestoreReport:
        """Make a database of what `backup` or `export` wrote. It is checked as a whole before it takes its place.

        Args:
            source: The file. It is only read.
            target: A path or a "postgresql://…" URL, where nothing is stored yet.
            force: Whether what is stored there is replaced.
            progress: Is told how far the copy to PostgreSQL has come.
            checking: Is told what is being checked.

        Raises:
            InvalidInput: The file is missing or of another kind, or something is stored at the target.
            StorageError: The file is damaged, or a database failed. The target is as it was.
        """
        return restore(source, target, force=force, progress=progress, checking=checking)

    @staticmethod
    async def arestore(
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Progress | None = None,
        checking: Callable[[str], object] | None = None,
    ) -> RestoreReport:
        """`restore`, awaited."""
        return await asyncio.to_thread(restore, source, target, force=force, progress=progress, checking=checking)

    def prune(
        self,
        *,
        namespace: Sequence[str] = (),
        keep_checkpoints: int | None = None,
        retention: Retention | None = None,
        archive_before: datetime | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> PruneReport:
        """Remove what is old, or make it smaller, in a namespace and all below it.

        Args:
            namespace: Where. Default: everywhere.
            keep_checkpoints: How many of the newest checkpoints of each thread stay, and of each of its subgraphs;
                threads of DeltaChannels stay whole. Default: all.
            retention: Which messages of each conversation stay. Default: all.
            archive_before: Entries of the audit trail that were made before are compressed. Default: none.
            dry_run: Whether to tell only what would be done.
            progress: Is told how many threads and conversations were looked at, and how many there are.

        Raises:
            InvalidInput: Nothing is to be pruned, or an argument is wrong.
        """
        work = self._pruning(namespace, keep_checkpoints, retention, archive_before, progress, dry_run=dry_run)
        return perform(work, self.database)

    async def aprune(
        self,
        *,
        namespace: Sequence[str] = (),
        keep_checkpoints: int | None = None,
        retention: Retention | None = None,
        archive_before: datetime | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> PruneReport:
        """`prune`, awaited."""
        work = self._pruning(namespace, keep_checkpoints, retention, archive_before, progress, dry_run=dry_run)
        return await aperform(work, self.database)

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _searching(self, asked: Mapping[str, Any], config: RunnableConfig | None) -> Step:
        """The step of a search."""
        name = "memory.retrieval.search"
        return self.database.tracing.step(name, run_type="retriever", inputs=lambda: _given_only(asked), config=config)

    def _copying(
        self, target: str | os.PathLike[str], progress: Progress | None, *, force: bool
    ) -> Callable[[], CopyReport]:
        place = os.fspath(target)
        if not isinstance(place, str):
            raise InvalidInput(f"A copy goes to the path of a file or to a postgresql:// URL, not to {target!r:.100}.")
        return partial(copy, self.database.engine, place, TEXTS, force=force, progress=progress)

    def _pruning(
        self,
        namespace: Sequence[str],
        keep_checkpoints: int | None,
        retention: Retention | None,
        archive_before: datetime | None,
        progress: Callable[[int, int], object] | None,
        *,
        dry_run: bool,
    ) -> Work[PruneReport]:
        work = pruned(
            self.database.engine,
            *range_of(namespace),
            now=self.database.now(),
            keep_checkpoints=keep_checkpoints,
            retention=checked_retention(retention),
            archive_before=None if archive_before is None else micros(archive_before),
            dry_run=dry_run,
            progress=progress,
        )
        report: PruneReport = yield Shown("care.prune", work, outputs=asdict)
        return report

    def _importing(
        self, path: str | os.PathLike[str]
    ) -> Operation[tuple[TransferReport, list[tuple[Address, list[str]]]]]:
        now, tail = self.database.now(), self.database.tail
        return lambda: care.load(path, now=now, tail=tail)

    def _announce_imported(self, written: Sequence[tuple[Address, Sequence[str]]]) -> None:
        for (path, name), keys in written:
            if keys:
                ids = tuple(dict.fromkeys(keys))
                stored = partial(MessagesStored, namespace=namespace_of(path), conversation_id=name, message_ids=ids)
                self.database.emit(stored)

    def _let_go(self, erased: Sequence[Address], *, everything: bool) -> None:
        """After an erasure: this process remembers nothing either, and the hooks are told."""
        if everything:
            self.database.measures.take()
        if (checkpointer := self.__dict__.get("checkpointer")) is not None:
            checkpointer.drop_caches()
        if self.database.embedder is not None:
            self.database.embedder.forget()
        for each in list(self.database.remembering):
            each.forget()
        for at in erased:
            self.database.emit(partial(ConversationErased, namespace=namespace_of(at.path), conversation_id=at.name))

    def _thread(self, given: Any) -> ThreadPoint:
        """The thread that a config, a runtime or the running config names."""
        from langchain_agentmem.rewinding.threads import thread_point  # noqa: PLC0415 - who needs it pays

        return thread_point(self.database.runs, given)


def _conversation_named(given: str | Mapping[str, Any] | None) -> tuple[str | None, Namespace | None]:
    """The conversation that an id or a config names, and the namespace, if it says so."""
    if given is None or isinstance(given, str):
        return given, None
    thread = (given.get("configurable") or {}).get("thread_id") if isinstance(given, Mapping) else None
    if thread is None:
        raise InvalidInput(f"Give the id of a conversation or a config with a thread_id, not {given!r:.100}.")
    return id_of(thread, "conversation"), resolve(None, given)


def _to_erase(namespace: Sequence[str] | None, thread_id: str | None, conversation_id: str | None) -> dict[str, Any]:
    """What to erase; an id without a namespace is the running config's, so that no run reaches out of its own."""
    if namespace is None and (thread_id is not None or conversation_id is not None):
        namespace = resolve(None) or None
    return {"namespace": namespace, "thread_id": thread_id, "conversation_id": conversation_id}


def _counts(counted: stats.Counted) -> dict[str, Any]:
    """What a trace shows of statistics."""
    return counted["counts"]


def _threads_shown(found: ThreadList) -> dict[str, Any]:
    return {"count": len(found.threads), "total": found.total}


def _report(own: Sequence[str], problems: Sequence[str], checked: Mapping[str, int]) -> VerifyReport:
    return VerifyReport(problems=(*own, *problems), checked=checked)


def _given_only(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _imported(value: tuple[TransferReport, Any]) -> dict[str, Any]:
    return asdict(value[0])
