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
import copy
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack
from uuid import UUID

import langchain_agentmem as public  # which loads a class when it is first used
from langchain_agentmem.base.argument_checks import (
    USUAL_LIMITS,
    MemoryLimits,
    check_flag,
    check_instance,
    check_value,
    name_given,
    texts_given,
)
from langchain_agentmem.base.clock import Clock, NewId, new_uuid, utc_now
from langchain_agentmem.base.concurrency import Closable, awaited
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike
from langchain_agentmem.base.events import Hook, Watch
from langchain_agentmem.base.namespaces import Namespace, ThreadLike, config_given, configurable_of, id_of, scopes_given
from langchain_agentmem.base.origins import SourceName, Trust
from langchain_agentmem.conversations.conversation_memory import ConversationMemory
from langchain_agentmem.conversations.persistence import checked_retention
from langchain_agentmem.errors import InvalidInput, MissingExtra, safe_repr
from langchain_agentmem.language_models.model_calls import ModelLike, written_by
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import DatabaseOptions
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import Content, documents, given_only
from langchain_agentmem.upkeep.maintenance import Maintenance

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore
    from psycopg_pool import ConnectionPool
    from starlette.types import ASGIApp

    from langchain_agentmem.compaction.compaction_node import CompactionOptions
    from langchain_agentmem.compaction.managed_conversation import ProcessStrategy, RetrievalStrategy, TriggerStrategy
    from langchain_agentmem.facts.fact_tools import RememberFactsOptions
    from langchain_agentmem.importers import SourceKind
    from langchain_agentmem.importers.moving import MovingReport
    from langchain_agentmem.injection.memory_injection import InjectionOptions
    from langchain_agentmem.layers.memory_corrections import Corrections
    from langchain_agentmem.rewinding.branches import Standpoint
    from langchain_agentmem.search.memory_search import MemoryKind
    from langchain_agentmem.search.ranking import Weights
    from langchain_agentmem.search.timeline import Order
    from langchain_agentmem.stores.agent_store import IndexGiven
    from langchain_agentmem.stores.retriever import SearchOptions


T = TypeVar("T")


class AgentMemory(Maintenance, Closable):
    """Everything an agent remembers, in one database.

    Args:
        url: A path, ":memory:", "postgresql://…" (extra `[postgres]`), or a `psycopg_pool.ConnectionPool`, which is
            used and never closed. Default: a database in memory.
        namespace: Whose memory a run means: labels with keys of its config in braces, as `("users", "{user_id}")`. The
            threads of one namespace share what they remember. `()` is one scope for all. Default: a run says itself,
            with "agentmem_namespace", and without it sees its own thread only.
        bare_threads: Whether a checkpointer's config that lacks the keys means the only thread of its id, as LangGraph
            Studio and servers that name "thread_id" alone need it. Default: it is an error that names the keys.
        on_thread_delete: What becomes of what a thread taught the others of its namespace, when it is deleted: "keep"
            or "forget". Default: "keep"; erasing it forgets it in any case.
        hooks: Functions that are called with every event. Exceptions they raise are logged and suppressed.
        trace_content: How traces and hooks' steps show what was said and remembered: True as it is, False not
            at all, else as this function from text to text gives it. Ids, names, counts, scores and times are always
            shown. What the agent's own runs show, such as the messages given to its model, is LangChain's to hide.
        strict: Whether the checkpointer imports no class but those that are held to be safe or allowed: see
            `AgentMemorySaver`. Default: as LangGraph's own savers, or as LANGGRAPH_STRICT_MSGPACK says.
        retention: Which messages conversations keep after each addition. Default: all, for ever.
        record: The channels whose messages the checkpointer records: every message of every thread is found as soon as
            it is committed, stands once in the conversation of the thread's id, and is rewound with the thread. () for
            none. Default: "messages".
        index: What a search goes by beside words, as LangGraph's stores take it: "embed", LangChain `Embeddings`, a
            function or "provider:model", and "dims", the numbers of a vector (extra `[vectors]`), or "static" for
            vectors without a model (extra `[static]`); "fields", the fields of the store's items. Default: words
            alone.
        weights: How much each signal of a search counts. Default: as measured, with vectors or without.
        synchronous: SQLite's durability: "NORMAL" (a power cut may take the last commits, never the database) or
            "FULL".
        busy_timeout: Seconds to wait for other processes that write, or for a free connection. Default: 60.
        timeout: Seconds to wait for an answer of PostgreSQL, and until it can be reached again after it was lost, as in
            a restart or failover. Default: 60.
        schema: PostgreSQL's schema in which everything is. Default: "agentmem".
        pool_size: Most connections to PostgreSQL at once. Default: 10.
        read_only: Whether nothing may be written; the database may be a replica then. Default: no.
        migrate: Whether the tables are made, or brought up to date, on opening. Default: yes; if not, a role that may
            do so runs `agentmem migrate` first.
        limits: How much callers may give at most, such as the bytes of a message. Default: `MemoryLimits()`.
        key: What encrypts the SQLite file, its log and its backups (extra `[encryption]`): a passphrase, 32 bytes, or a
            function that gives one of these and is asked when the file is opened. A database in memory needs none.
            Default: what AGENTMEM_KEY, AGENTMEM_KEY_FILE or AGENTMEM_KEY_COMMAND name in the environment; without
            these, nothing is encrypted.
        clock: Gives the time, for tests. Default: the system's.
        new_id: Makes ids for messages that have none, for tests. Default: UUIDs that begin with
            the time.

    Raises:
        InvalidInput: An argument is wrong.
        MissingExtra: PostgreSQL is asked for and psycopg is not installed, or a key is given and SQLCipher is not.
        StorageError: The database cannot be opened; its subclasses say why.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | ConnectionPool[Any] = ":memory:",
        *,
        namespace: Sequence[str] | None = None,
        bare_threads: bool = False,
        on_thread_delete: Literal["keep", "forget"] = "keep",
        hooks: Sequence[Hook] = (),
        trace_content: Content = True,
        strict: bool = False,
        retention: Retention | None = None,
        record: Sequence[str] = ("messages",),
        index: IndexGiven | None = None,
        weights: Weights | None = None,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        busy_timeout: float = 60.0,
        timeout: float = 60.0,
        schema: str = "agentmem",
        pool_size: int = 10,
        read_only: bool = False,
        migrate: bool = True,
        limits: MemoryLimits = USUAL_LIMITS,
        key: KeyLike | None = None,
        clock: Clock = utc_now,
        new_id: NewId = new_uuid,
    ) -> None:
        key = EncryptionKey.of(key)  # which no traceback shows
        self.retention = checked_retention(retention)
        self.strict = check_flag("strict", strict)
        self.record = tuple(dict.fromkeys(texts_given(record, "The channels to record")))
        if weights is not None:
            from langchain_agentmem.search.ranking import Weights  # noqa: PLC0415 - who weighs pays

            check_instance(Weights, weights, "weights")
        self.weights = weights
        scopes = scopes_given(namespace, bare_threads=bare_threads, on_thread_delete=on_thread_delete)
        if index is not None:
            from langchain_agentmem.stores.agent_store import index_given  # noqa: PLC0415 - it loads LangGraph

            index, _ = index_given(index)
        opening = DatabaseOptions(
            synchronous, busy_timeout, timeout, schema, pool_size, read_only, migrate, limits, key
        )
        self.database = Database(
            url, hooks=hooks, trace_content=trace_content, opening=opening, clock=clock, new_id=new_id, scopes=scopes
        )
        self._index: Any = index
        if index is not None:
            try:
                self.store.setup()  # which has everything get its vectors
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
        return f"AgentMemory({safe_repr(self.database.engine.path)})"

    # -- parts -------------------------------------------------------------------------------------------------

    def within(self, namespace: Sequence[str] | None = None, /, **keys: str) -> AgentMemory:
        """The whole of this memory inside one namespace, out of which nothing leads: one user's, for a server.

        `memory.within(("users", "ada"))`, or `memory.within(user_id="ada")` for a template. What names no namespace is
        that one's: searches, layers, facts, conversations, sessions, the audit trail, tools, statistics, exports and
        erasures. The namespaces of its `store` begin there: `within(("users", "ada")).store` has in `("notes",)` what
        the whole memory's store has in `("users", "ada", "notes")`. Graphs with its checkpointer need name no user: in
        their runs, the whole memory is this user's too. It uses this memory's database: closing it closes nothing.

        Args:
            namespace: The namespace.
            **keys: The keys of the template, in place of it.

        Raises:
            InvalidInput: Neither or both are given, this cannot be a namespace, the template has no such key, or it
                lies out of the namespace that this memory is within.
        """
        inside = copy.copy(self)
        for name in vars(type(self)):
            vars(inside).pop(name, None)  # parts that were made already look at all of it
        inside.database = self.database.within(self.database.scopes.narrowed(namespace, keys))
        return inside

    def conversation(
        self,
        conversation_id: str | None = None,
        namespace: Sequence[str] | None = None,
        *,
        description: str | None = None,
        retention: Retention | None = None,
    ) -> ConversationMemory:
        """One conversation, as a LangChain chat history, with methods to add, find, edit and remove messages.

        That of a thread's id has what the checkpointer records of the thread, as its newest checkpoint leads from it.

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
            retention=self.retention if retention is None else retention,
        )

    def managed_conversation(
        self,
        conversation_id: str | None = None,
        namespace: Sequence[str] | None = None,
        *,
        config: public.ManagedMemoryConfig | None = None,
        model: ModelLike | None = None,
        description: str | None = None,
        retention: Retention | None = None,
        trigger_strategy: TriggerStrategy | None = None,
        process_strategy: ProcessStrategy | None = None,
        retrieval_strategy: RetrievalStrategy | None = None,
    ) -> public.ManagedConversationMemory:
        """One conversation that keeps what a model is shown of it in a budget.

        Args:
            conversation_id: Which one. Default: a new one.
            namespace: Whose it is. Default: the running config's, else the root.
            config: The budget, and what is done to keep it. Default: `ManagedMemoryConfig()`.
            model: What summarizes: a LangChain model, a function, or a model's name. Default: none.
            description: A system message that a reset keeps.
            retention: Which messages to keep. Default: as for the whole memory.
            trigger_strategy: Says when to compact. Default: the configuration.
            process_strategy: Compacts in place of the configuration's processors.
            retrieval_strategy: Says what of the context is shown. Default: all.
        """
        return public.ManagedConversationMemory(
            self.database,
            conversation_id,
            namespace=namespace,
            description=description,
            retention=self.retention if retention is None else retention,
            config=config,
            model=model,
            trigger_strategy=trigger_strategy,
            process_strategy=process_strategy,
            retrieval_strategy=retrieval_strategy,
        )

    def compaction(
        self,
        model: ModelLike | None = None,
        config: public.ManagedMemoryConfig | None = None,
        **options: Unpack[CompactionOptions],
    ) -> public.CompactionNode:
        """A node of a graph, or a link of a chain, that keeps the context of a model in a budget.

        `builder.add_node("compact", memory.compaction(model))` puts the context under "llm_input_messages";
        `memory.compaction(model) | model` is a chain.

        Args:
            model: What summarizes: a LangChain model, a function, or a model's name. Default: none, and summaries are
                made of what was said.
            config: The budget, and what is done to keep it. Default: `ManagedMemoryConfig()`.
            **options: What `CompactionNode` takes besides, such as `shrink`, `tools`, `window`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return _made("A compaction node cannot be made of this", public.CompactionNode, self, model, config, **options)

    def layers(
        self,
        branch_or_config: str | ThreadLike | None = None,
        namespace: Sequence[str] | None = None,
        *,
        scope: Literal["shared", "thread"] = "shared",
        settings: public.LayersConfig | None = None,
        model: ModelLike | None = None,
    ) -> public.LayeredMemory:
        """Core, recall and archival memory, of a branch or of a thread.

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
            scope: "shared" shows what the threads of the namespace, and its branch "main", show each other; "thread"
                keeps to the thread's own line. Default: "shared".
            settings: How it behaves. Default: `LayersConfig()`.
            model: Who compresses what is too long and sums up old events: a LangChain model, a function, or a model's
                name. Default: nobody; texts are cut, and events listed.

        Raises:
            InvalidInput: An argument is wrong, or no run is there.
        """
        whose = self._standpoint(branch_or_config, namespace, scope)
        return public.LayeredMemory(self.database, whose, namespace=namespace, settings=settings, model=model)

    def facts(
        self,
        branch_or_config: str | ThreadLike | None = None,
        namespace: Sequence[str] | None = None,
        model: ModelLike | None = None,
        *,
        scope: Literal["shared", "thread"] = "shared",
        description: str | None = None,
        settings: public.FactsConfig | None = None,
    ) -> public.KGMemory:
        """Facts that know when they were true, of a branch or of a thread.

        `memory.facts("user-42")` is memory that belongs to no thread, on the same branch as `memory.layers("user-42")`.
        `memory.facts(config)` in a node of a graph is the thread's, and is rewound with it, as with `layers`.

        Args:
            branch_or_config: The name of a branch; or a config, a `Runtime` or a `ToolRuntime`. Default: the run that
                this is called in; outside of runs, or where a namespace is named, the branch "main".
            namespace: Whose branch it is. Default: the running config's, else the root.
            scope: "shared" shows what the threads of the namespace, and its branch "main", tell each other; "thread"
                keeps to the thread's own line. Default: "shared".
            model: Who extracts facts from what is added: a LangChain model, a function, or a model's name. Default:
                nobody; what is added is kept and found.
            description: A text with which the memory begins, and that a reset keeps. Default: the one it has, if any.
            settings: How facts are kept and learned. Default: `FactsConfig()`.

        Raises:
            InvalidInput: An argument is wrong, or no run is there.
        """
        whose = self._standpoint(branch_or_config, namespace, scope)
        return public.KGMemory(
            self.database, whose, namespace=namespace, model=model, description=description, settings=settings
        )

    def remember_facts(self, model: ModelLike, **options: Unpack[RememberFactsOptions]) -> public.RememberFacts:
        """A node of a graph that extracts facts from the new messages of its state, from each once.

        `builder.add_node("facts", memory.remember_facts(model))`

        Args:
            model: Who extracts them: a LangChain model, a function, or a model's name.
            **options: What `RememberFacts` takes besides, such as `branch`, `namespace`, `roles`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return _made("Facts cannot be remembered like this", public.RememberFacts, self, model, **options)

    def experiences(self, directory: str | os.PathLike[str], *, subfolders: bool = False) -> public.ExperienceLibrary:
        """Handcrafted experiences: a folder of instructions, each with the condition for it.

        `memory.experiences("experience").selector(role="Planner", model=model)` puts those that apply into a prompt.

        Args:
            directory: The folder, with files `*.yaml` or `*.yml`. Changes are seen by the next selection.
            subfolders: Whether files in folders below it count too. Default False.

        Raises:
            InvalidInput: There is no such folder, or an argument is wrong.
        """
        return public.ExperienceLibrary(self.database, directory, subfolders=subfolders)

    @cached_property
    def audit(self) -> public.AuditTrail:
        """Every prompt and reply, of the namespace of the running config, else of the root.

        `memory.audit.add(prompt, reply)` adds one, `memory.audit.handler()` is a callback handler that adds every model
        call of a run. `AuditTrail(memory, namespace)` is that of another namespace.
        """
        return public.AuditTrail(self.database)

    @cached_property
    def corrections(self) -> Corrections:
        """What people correct in memory, each change with who and when; it can be undone.

        `memory.corrections.core("city", "Porto", by="Maria")`
        """
        from langchain_agentmem.layers.memory_corrections import Corrections  # noqa: PLC0415 - who needs it pays

        return Corrections(self.database)

    def session(
        self, session_id: str | int | UUID | ThreadLike | None = None, namespace: Sequence[str] | None = None
    ) -> public.SessionMemory:
        """One session of rounds and posts between roles, over the log of the same id, or of a thread.

        With the config of a node it is the thread's: it is rewound with the thread, and a node that is executed again
        posts once. With that of a checkpoint it is read-only. See `SessionMemory`.

        Args:
            session_id: Which one; or a config, a `Runtime` or a `ToolRuntime`. Default: a new one.
            namespace: Whose it is; a thread's is what its config says. Default: the running config's, else the root.
        """
        from langchain_agentmem.conversations.session_memory import SessionMemory, is_of_thread  # noqa: PLC0415 - who needs it pays

        retention = None if is_of_thread(session_id) else self.retention  # what follows a thread is kept as it was
        return SessionMemory(self.database, session_id, namespace=namespace, retention=retention)

    @cached_property
    def admin(self) -> public.Admin:
        """Operators' methods: backup, restore, copy, prune, verify, statistics, listings of threads and namespaces."""
        return public.Admin(self.database)

    @cached_property
    def checkpointer(self) -> public.AgentMemorySaver:
        """The checkpointer of LangGraph graphs: `builder.compile(checkpointer=memory.checkpointer)`.

        It records the messages of its threads, see `record`.
        """
        return public.AgentMemorySaver(self)

    @cached_property
    def store(self) -> public.AgentMemoryStore:
        """The store of LangGraph graphs, for long-term items: `builder.compile(store=memory.store)`.

        It is shared by all threads, and not rewound with them. Namespaces are given by each call: what is of a user
        belongs below theirs, as ("users", "ada", "notes").
        """
        return public.AgentMemoryStore(self, index=self._index)

    @cached_property
    def thread_store(self) -> public.AgentMemoryThreadStore:
        """A store of LangGraph graphs whose items belong to the thread that is running, and are rewound with it.

        `builder.compile(checkpointer=memory.checkpointer, store=memory.thread_store)`, or use it in nodes beside
        `memory.store`. `memory.thread_store.at(config)` looks at a checkpoint from outside.
        """
        return public.AgentMemoryThreadStore(self, index=self._index)

    def byte_store(self, namespace: Sequence[str] | None = None) -> public.AgentMemoryByteStore:
        """Values by key, as LangChain's `ByteStore`: for `CacheBackedEmbeddings` and the like.

        Args:
            namespace: Whose values; it sees no other's, not those of namespaces below either. Default: the running
                config's, else the root.
        """
        return public.AgentMemoryByteStore(self, namespace)

    def create(
        self, memory_type: str = "conversation_history", **options: object
    ) -> ConversationMemory | public.SessionMemory | public.LayeredMemory | public.KGMemory:
        """Create a memory by the name of its type. Code that knows the type calls the type's own method.

        Args:
            memory_type: "conversation_history", "managed_conversation", "kg", "layers" or "session".
            **options: The options of the type's own method (`conversation`, `managed_conversation`, `facts`, `layers`
                or `session`).

        Raises:
            InvalidInput: The type is unknown, or has no such option.
        """
        makers: dict[str, Callable[..., Any]] = {
            "conversation_history": self.conversation,
            "kg": self.facts,
            "layers": self.layers,
            "managed_conversation": self.managed_conversation,
            "session": self.session,
        }
        types = Literal["conversation_history", "kg", "layers", "managed_conversation", "session"]
        name = check_value(types, memory_type, "memory_type")
        return _made(f"A {safe_repr(name)} memory cannot be made of this", makers[name], **options)  # type: ignore[no-any-return]

    def tools(
        self, branch_or_config: str | Mapping[str, Any] | None = None, include: Iterable[str] | None = None
    ) -> list[BaseTool]:
        """Tools by which an agent uses this memory.

        `recall_dropped` searches the conversation for what has left the context, and `expand` shows a message, an
        archived tool output or all that a summary stands for, by its id. The others work on the layers:
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
        from langchain_agentmem.compaction.compacted_context import ConversationOption  # noqa: PLC0415
        from langchain_agentmem.compaction.dropped_messages import dropped_tools  # noqa: PLC0415
        from langchain_agentmem.language_models.tool_factory import chosen  # noqa: PLC0415 - who needs it pays
        from langchain_agentmem.layers.layer_tools import SMALL_SET, layer_tools  # noqa: PLC0415

        dropped = dropped_tools(self, ConversationOption(*self._conversation_named(branch_or_config)))
        layers = layer_tools(self, branch_or_config)
        facts = public.fact_tools(self, branch_or_config)
        names = [*(tool.name for tool in dropped), *SMALL_SET] if include is None else include
        return chosen([*dropped, *layers, *facts], names)

    def studio(
        self,
        *,
        user: str | Callable[[Mapping[str, Any]], str] | None = None,
        experiences: public.ExperienceLibrary | None = None,
    ) -> ASGIApp:
        """Studio, which shows what is remembered and lets people correct it, as an ASGI application (extra `[studio]`).

        It asks nobody who they are: mount it behind your own authentication. `agentmem studio` serves it on this
        machine, and asks for a token.

        Args:
            user: Who makes corrections: a name, or a function that tells it from the ASGI scope of a request. Default:
                who runs this process.
            experiences: A library to show. Default: none.

        Raises:
            MissingExtra: What it needs is not installed.
        """
        try:
            from langchain_agentmem.studio.application import application  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise MissingExtra("Studio", "studio") from error
        return application(self, user=user, experiences=experiences)

    def inject(
        self,
        branch_or_config: str | public.LayeredMemory | ThreadLike | None = None,
        **options: Unpack[InjectionOptions],
    ) -> public.MemoryInjection:
        """A Runnable that puts memory into a prompt, messages or a state: `memory.inject() | model`.

        The core memory stands at the beginning and stays the same bytes as long as it does not change; what is
        recalled for this query stands near the end. Both are data, fenced and escaped.

        Args:
            branch_or_config: The name of a branch, a `LayeredMemory`, or the config of a thread. Default: the run's.
            **options: What `MemoryInjection` takes besides, such as `kinds`, `limit`, `budget`, `role`, `query`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return _made("Memory cannot be injected like this", public.MemoryInjection, self, branch_or_config, **options)

    def written_by(self, source: SourceName, actor: str | None = None) -> AbstractContextManager[None]:
        """Set the source and actor of what is written meanwhile, in this task or thread of execution.

            page = search_the_web("herons")
            with memory.written_by("tool", "web_search"):
                memory.layers(config).archival.write(page)

        Args:
            source: "user", "person", "model", "tool" or "import".
            actor: The name of the source, such as a tool's. Default: None.

        Raises:
            InvalidInput: An argument is wrong.
        """
        check_value(SourceName, source, "source")
        return written_by(source, None if actor is None else name_given(actor, "an actor"))

    # -- finding -----------------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        namespace: Sequence[str] | None = None,
        limit: int = 10,
        kinds: Sequence[MemoryKind] | None = None,
        conversation_id: str | None = None,
        roles: Sequence[str] | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        everything: bool = False,
        abandoned: bool = False,
        order: Order = "score",
        trust: Trust | None = None,
        config: RunnableConfig | None = None,
        weights: Weights | None = None,
    ) -> list[public.Recollection]:
        """Find what was said, without a model.

        In a run it finds what that may see: in a namespace what its threads show each other, else its own thread alone.

        Args:
            query: Any text.
            namespace: Where to look: there and in all below it. Default: just the running config's, else the root.
            limit: Most results. Default: 10.
            kinds: Only these kinds: "message", "fact", "item", "event", "record", "audit". Default: all but "audit",
                whose entries repeat what messages say.
            conversation_id: Only this conversation. Default: all.
            roles: Only messages of these roles. Default: all.
            before: Only what was said before this time. Without a time zone it is taken as UTC.
            after: Only what was said at this time or later.
            everything: Whether to look in every namespace, as an administrator does. Default: not.
            abandoned: Whether messages of threads are found, too, that their newest checkpoints do not lead from, since
                the threads went back to before them. Default: not.
            order: "score", or "time" for the evidence of a topic as it came. Then what says hardly more than another
                result is found with that, and of a change both sides, where the limit leaves room for them: the earlier
                one says by what it was replaced, as far as words can tell.
            trust: Only what is trusted so far: "user", "person", "model", "tool", "import" or "unknown", each with all
                before it; or which of these are trusted, where another order is wanted. Default: all.
            config: The run on whose behalf to look. Default: the one this is called in. Of its thread's own memory it
                finds what is remembered there now, and not what was rewound.
            weights: How much each signal counts. Default: those of this memory.

        Returns:
            The best first, or the oldest. Each says why it was found.

        Raises:
            InvalidInput: An argument is wrong.
        """
        from langchain_agentmem.rewinding.outlook import SearchRequest, sought  # noqa: PLC0415 - who searches pays

        asked = SearchRequest(
            query, namespace, limit, kinds, conversation_id, roles, before, after, everything, abandoned, order, trust
        )
        configurable_of(config)  # a step takes it for a config
        inputs = partial(given_only, asked._asdict())
        with self.database.step("retrieval.search", inputs, "retriever", config_given(config)) as step:
            search = sought(self.database, asked, config, self.weights if weights is None else weights)
            found = search._replace(name=None).find(self.database)
            step.finish(lambda: documents(found))
        return found

    asearch = awaited(search)

    def retriever(self, **search_arguments: Unpack[SearchOptions]) -> public.AgentMemoryRetriever:
        """The search as a LangChain retriever, for chains: `memory.retriever(namespace=("alice",), limit=4) | …`.

        Args:
            **search_arguments: Those of `search` but for the query and the config, which each run brings. `k` is
                another name for `limit`, and `tags`, `metadata` and `name` are what every LangChain retriever takes.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return public.AgentMemoryRetriever(**search_arguments, memory=self)

    # -- moving in ---------------------------------------------------------------------------------------------

    def import_from(
        self,
        kind: SourceKind,
        source: str | os.PathLike[str] | BaseCheckpointSaver[Any] | BaseStore,
        *,
        namespace: Sequence[str] | None = None,
        only: Sequence[str] = (),
        owners: Mapping[str, str] | None = None,
        dry_run: bool = False,
        allow: Sequence[str] = (),
        progress: Watch | None = None,
    ) -> MovingReport:
        """Bring what another program remembers. The source is opened to be read only, and stays as it is.

        Ids, times, roles and tool calls are kept, as far as the source has them. Each conversation, page of items or
        memory of a user comes in one transaction, or is left out, and the report says why. What is here already stays,
        so an import that was interrupted is run again and goes on.

        Args:
            kind: "langgraph-saver" and "langgraph-store": those of other packages; "langmem": its items in such a
                store; "chat-history": tables of `SQLChatMessageHistory`, files of `FileChatMessageHistory`; "mem0":
                what its `get_all` gives as JSON; "letta": agent files (.af) of its server, or the
                server's database; "memgpt": a SQLite file with core, recall and archival memory; "taskweaver": sessions
                as YAML or JSON; "marsys": what its `save_to_file` wrote; "opus": an agent_memory.json.
            source: A path, a folder of files, or a "postgresql://…" URL; of LangGraph also a saver or store.
            namespace: Below which everything goes; users of mem0, agents of Letta and items of stores have namespaces
                below it. With keys in braces, such as ("users", "{user_id}"), each thread or conversation goes to its
                owner: keys are filled from the metadata of LangGraph's checkpoints and from `owners`, "{thread_id}" and
                "{session_id}" with its own id. Default: the running config's; else for threads and conversations the
                template that this memory was opened with, else the root, which is ().
            only: Ids of threads, sessions, users or agents: nothing else comes. Default: everything.
            owners: Whose the threads and conversations are, by their ids: what fills the key of the namespace. Default:
                what the source says.
            dry_run: Whether to tell only what would come. Default: it comes.
            allow: Classes whose objects may be imported with LangGraph's checkpoints, as "module.Class".
            progress: Is told how far it is, after each of these.

        Returns:
            How much came and was here already, by what it is, and what was left out and why.

        Raises:
            InvalidInput: An argument is wrong, or the source is missing, unreadable, or of another kind.
            MissingExtra: What reads the source is not installed.
        """
        from langchain_agentmem.importers.moving import moving  # noqa: PLC0415 - who needs it pays

        options: dict[str, Any] = {"namespace": namespace, "only": only, "owners": owners}
        options |= {"dry_run": check_flag("dry_run", dry_run), "allow": allow, "progress": progress}
        return moving(self, kind, source, **options)

    aimport_from = awaited(import_from, writes=True)

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _standpoint(self, given: Any, namespace: Sequence[str] | None, scope: str) -> Standpoint:
        """The branch or thread that is meant: without a word the run's, else main."""
        from langchain_agentmem.rewinding.thread_memory import standpoint_of  # noqa: PLC0415 - who needs it pays

        check_value(Literal["shared", "thread"], scope, "scope")
        return standpoint_of(self.database, given, namespace, alone=scope == "thread")

    def _conversation_named(self, given: str | Mapping[str, Any] | None) -> tuple[str | None, Namespace | None]:
        """The conversation that an id or a config names, and the namespace, if it says so."""
        if given is None or isinstance(given, str):
            return given, None
        thread = configurable_of(given).get("thread_id")
        if thread is None:
            raise InvalidInput(f"Give the id of a conversation or a config with a thread_id, not {safe_repr(given)}.")
        return id_of(thread, "conversation"), self.database.scopes.resolve(None, given)


def _made(otherwise: str, make: Callable[..., T], /, *given: Any, **options: Any) -> T:
    """What a class or method makes of these arguments. If it does not take them, `otherwise` is what went wrong."""
    try:
        inspect.signature(make).bind(*given, **options)
    except TypeError as error:
        raise InvalidInput(f"{otherwise}: {error}.") from error
    return make(*given, **options)
