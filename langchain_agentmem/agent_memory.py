"""The class `AgentMemory`, which opens a database and returns the parts of memory in it.

    with AgentMemory("agent.db") as memory:
        chat = memory.conversation("conversation-1", namespace=("alice",))
        chat.add_user_message("My sister Ana lives in Lisbon.")
        [hit] = memory.search("Where does Ana live?", namespace=("alice",), limit=1)
        print(hit.text, hit.why)

One object serves synchronous and asynchronous code. Every method that does I/O has an async twin with the prefix `a`,
such as `asearch`.
Any number of threads and tasks may share the object.
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

import langchain_agentmem as public  # the package imports each public class at its first use
from langchain_agentmem.base import argument_checks, namespaces
from langchain_agentmem.base.argument_checks import DEFAULT_LIMITS, MemoryLimits
from langchain_agentmem.base.clock import Clock, NewId, new_uuid, utc_now
from langchain_agentmem.base.concurrency import Closable, awaited
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike
from langchain_agentmem.base.hooks import Hook, Watch
from langchain_agentmem.base.namespaces import Namespace, ThreadLike
from langchain_agentmem.base.origins import SourceName, Trust
from langchain_agentmem.errors import InvalidInput, MissingExtra, safe_repr
from langchain_agentmem.storage import DatabaseOptions
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import Content, document_outputs, drop_none
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
    from langchain_agentmem.importers.import_runner import ImportSummary
    from langchain_agentmem.injection.memory_injection import InjectionOptions
    from langchain_agentmem.language_models.model_calls import ModelLike
    from langchain_agentmem.layers.memory_corrections import Corrections
    from langchain_agentmem.messages.role_rounds import Retention
    from langchain_agentmem.rewinding.branches import MemoryPosition
    from langchain_agentmem.search.memory_search import MemoryKind
    from langchain_agentmem.search.ranking import Weights
    from langchain_agentmem.search.timeline import Order
    from langchain_agentmem.stores.agent_store import IndexLike
    from langchain_agentmem.stores.retriever import SearchOptions


T = TypeVar("T")


class AgentMemory(Maintenance, Closable):
    """The complete memory of an agent, in one database.

    Args:
        url: A path, ":memory:", "postgresql://…" (extra `[postgres]`), or a `psycopg_pool.ConnectionPool`, which is
            used and never closed. Default: ":memory:", a temporary database in RAM.
        namespace: The namespace that a run reads and writes: labels, which may contain keys of the run's config in
            braces, such as `("users", "{user_id}")`. Threads of one namespace share memory. With `()`, all threads
            share memory. Default: each config's "agentmem_namespace". A run without this key sees only its own thread.
        bare_threads: True to accept a checkpointer's config with only a "thread_id", as LangGraph Studio sends it, if
            exactly one thread has that id. Default: False; a config without the keys of `namespace` is an error.
        on_thread_delete: "keep" or "forget" what a thread contributed to the memory of its namespace when
            `checkpointer.delete_thread` deletes the thread. Default: "keep". `erase` always forgets it.
        hooks: Functions that are called with every event, such as a `StepFinished`. Exceptions raised by hooks are
            logged and suppressed.
        trace_content: The form of texts in traces and hooks' events: True for the full text, False for its length, or a
            function that masks a text. Names, counts, scores, times and ids are always shown. Keys of store items count
            as texts. LangChain itself traces runs such as model calls; only LangChain's settings hide their content.
        strict: True to let the checkpointer import only safe or allowed classes, see `AgentMemorySaver`. False to do so
            only if the environment variable LANGGRAPH_STRICT_MSGPACK is set, as LangGraph's savers do. Default: False.
        retention: The messages that conversations keep after each addition. Default: all, forever.
        record: The names of the state channels whose messages the checkpointer adds to the conversation with the
            thread's id. Each message is stored once, is searchable after its commit, and is rewound with the thread.
            () records none. Default: ("messages",).
        index: The vector index, a dictionary as for LangGraph's stores. "embed" is LangChain `Embeddings`, a function
            or "provider:model" (extra `[vectors]`). "dims" is the number of dimensions. For vectors without a model,
            "embed" is "static" (extra `[static]`). "fields" are the fields of the store's items to index. Default:
            keyword search only.
        weights: The weight of each search signal. Default: weights tuned on benchmarks, separately for searches with
            and without vectors.
        synchronous: SQLite's durability. With "NORMAL", a power failure may lose the last commits, but cannot damage
            the database. With "FULL", a power failure loses no commits. Default: "NORMAL".
        busy_timeout: Seconds to wait for other processes that write, or for a free connection. Default: 60.
        timeout: Seconds to wait for an answer of PostgreSQL, and to reconnect after a restart or failover. Default: 60.
        schema: The PostgreSQL schema that holds all tables. Default: "agentmem".
        pool_size: Maximum number of simultaneous connections to PostgreSQL. Default: 10.
        read_only: True to open the database read-only, for example a replica. Default: False.
        migrate: Create or upgrade tables when opening the database. Default: True. If False, run `agentmem migrate`
            first with a role that may alter tables.
        limits: The upper limits for callers' data, such as the bytes of a message. Default: `MemoryLimits()`.
        key: The key of the SQLite file, its write-ahead log and its backups (extra `[encryption]`): a passphrase, 32
            bytes, or a function that returns one of these when the file is opened. ":memory:" has no key.
            Default: the key from AGENTMEM_KEY, AGENTMEM_KEY_FILE or AGENTMEM_KEY_COMMAND in the environment, else no
            encryption.
        clock: Returns the time, for tests. Default: the system's clock.
        new_id: Returns the id of a message that has none, for tests. Default: UUIDs that begin with the time.

    Raises:
        InvalidInput: An argument is wrong.
        MissingExtra: The URL needs psycopg, or the key needs SQLCipher, and the package is not installed.
        StorageError: The database cannot be opened. The subclass names the reason.
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
        index: IndexLike | None = None,
        weights: Weights | None = None,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        busy_timeout: float = 60.0,
        timeout: float = 60.0,
        schema: str = "agentmem",
        pool_size: int = 10,
        read_only: bool = False,
        migrate: bool = True,
        limits: MemoryLimits = DEFAULT_LIMITS,
        key: KeyLike | None = None,
        clock: Clock = utc_now,
        new_id: NewId = new_uuid,
    ) -> None:
        # All that a first message needs is imported now: a child that is forked during an import waits for it forever.
        from langchain_agentmem.conversations import conversation_memory  # noqa: F401, PLC0415
        from langchain_agentmem.conversations.log_memory import check_retention  # noqa: PLC0415

        key = EncryptionKey.of(key)  # its repr hides the key in tracebacks
        self.retention = check_retention(retention)
        self.strict = argument_checks.check_flag("strict", strict)
        self.record = tuple(dict.fromkeys(argument_checks.parse_texts(record, "The channels to record")))
        if weights is not None:
            from langchain_agentmem.search.ranking import Weights  # noqa: PLC0415 - only with weights

            argument_checks.check_instance(Weights, weights, "weights")
        self.weights = weights
        scopes = namespaces.parse_scopes(namespace, bare_threads=bare_threads, on_thread_delete=on_thread_delete)
        if index is not None:
            from langchain_agentmem.stores.agent_store import parse_index  # noqa: PLC0415 - it loads LangGraph

            index, _ = parse_index(index)
        opts = DatabaseOptions(synchronous, busy_timeout, timeout, schema, pool_size, read_only, migrate, limits, key)
        self.database = Database(
            url, hooks=hooks, trace_content=trace_content, options=opts, clock=clock, new_id=new_id, scopes=scopes
        )
        self._index: Any = index
        if index is not None:
            try:
                self.store.setup()  # this registers the vector index in the database
            except BaseException:
                self.database.close()
                raise

    # -- opening and closing -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for running operations, then close the database. Closing twice is harmless."""
        self.database.close()

    async def aclose(self) -> None:
        """Wait for running asynchronous hooks, at most 1 second, then close like `close`."""
        await self.database.hooks.settle()
        await asyncio.to_thread(self.database.close)

    def __repr__(self) -> str:
        return f"AgentMemory({safe_repr(self.database.engine.path)})"

    # -- parts -------------------------------------------------------------------------------------------------

    def within(self, namespace: Sequence[str] | None = None, /, **keys: str) -> AgentMemory:
        """Return a view of this memory that is limited to one namespace, such as one user's.

        Call `memory.within(("users", "ada"))`, or `memory.within(user_id="ada")` if the `namespace` of this memory
        contains "{user_id}". In the limited memory, this namespace is the default of searches, layers, facts,
        conversations, sessions, the audit trail, tools, statistics, exports and erasures. Calls with any namespace
        outside of it raise an error.

        In the limited memory's `store`, namespaces are relative: `("notes",)` in `within(("users", "ada")).store` is
        `("users", "ada", "notes")` in `memory.store`. Graphs with the limited memory's `checkpointer` need no user in
        their configs. In a run of such a graph, the original `memory` also uses this namespace by default. Closing the
        limited memory does not close the database.

        Args:
            namespace: The namespace.
            **keys: The values of the keys in this memory's `namespace`, instead of a namespace.

        Raises:
            InvalidInput: Neither or both are given, the namespace is invalid, this memory's `namespace` has no such
                key, or the namespace is outside of this memory.
        """
        limited = copy.copy(self)
        for name in vars(type(self)):
            vars(limited).pop(name, None)  # the values of cached properties, which use the original's database
        limited.database = self.database.with_scopes(self.database.scopes.narrow(namespace, keys))
        return limited

    def conversation(
        self,
        conversation_id: str | None = None,
        namespace: Sequence[str] | None = None,
        *,
        description: str | None = None,
        retention: Retention | None = None,
    ) -> public.ConversationMemory:
        """Return a conversation, as a LangChain chat history.

        It has methods to add, find, edit and remove messages. The conversation with the id of a thread contains the
        messages that the checkpointer recorded up to the thread's newest checkpoint.

        Args:
            conversation_id: The conversation's id. Default: a new one.
            namespace: The conversation's namespace. Default: the running config's, else the root.
            description: A system message that a reset keeps.
            retention: The messages to keep after each addition. Default: the `retention` of this memory.
        """
        retention = self.retention if retention is None else retention
        return public.ConversationMemory(
            self.database, conversation_id, namespace=namespace, description=description, retention=retention
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
        """Return a conversation that limits the context of a model to a budget of tokens.

        Args:
            conversation_id: The conversation's id. Default: a new one.
            namespace: The conversation's namespace. Default: the running config's, else the root.
            config: The budget and the processors. Default: `ManagedMemoryConfig()`.
            model: The summarizer: a LangChain model, a function, or a model's name. Default: none.
            description: A system message that a reset keeps.
            retention: The messages to keep after each addition. Default: the `retention` of this memory.
            trigger_strategy: Decides when to compact. Default: the thresholds of `config`.
            process_strategy: Compacts the context. Default: the processors of `config`.
            retrieval_strategy: Selects the part of the context to show. Default: all.
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
        """Return a Runnable that limits a model's context to a budget of tokens.

        As a graph node, `builder.add_node("compact", memory.compaction(model))` writes the context to the state key
        "llm_input_messages". In a chain, use `memory.compaction(model) | model`.

        Args:
            model: The summarizer: a LangChain model, a function, or a model's name. Default: none; summaries are
                extracts of the messages.
            config: The budget and the processors. Default: `ManagedMemoryConfig()`.
            **options: Other arguments of `CompactionNode`, such as `shrink`, `tools`, `window`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return _call_checked("Invalid compaction options", public.CompactionNode, self, model, config, **options)

    def layers(
        self,
        branch_or_config: str | ThreadLike | None = None,
        namespace: Sequence[str] | None = None,
        *,
        scope: Literal["shared", "thread"] = "shared",
        settings: public.LayersConfig | None = None,
        model: ModelLike | None = None,
    ) -> public.LayeredMemory:
        """Return the core, recall and archival memory of a branch or of a thread.

        `memory.layers("user-42")` is the memory of a named branch, which the first write creates.
        `memory.layers(config)` in a node of a graph is the memory that the thread sees. What the thread wrote is
        rewound with it. If LangGraph retries a node, only the writes of the last attempt remain; if the node's own code
        retries, all writes remain. The graph needs this memory's checkpointer. With the config of a past checkpoint,
        the memory is read-only and shows that checkpoint. A node with a cached result does not run, so it writes
        nothing. In OS threads that you start without the node's context (`contextvars`), pass the config.

        Args:
            branch_or_config: The name of a branch; or a config, a `Runtime` or a `ToolRuntime`. Default: the
                surrounding run; outside of runs, or with a namespace, the branch "main".
            namespace: The namespace of the branch. Default: the running config's, else the root.
            scope: "shared" for the memory shared by the branch "main" of the namespace and all its threads; "thread"
                for only the thread's own memory. Default: "shared".
            settings: The settings of the layers. Default: `LayersConfig()`.
            model: Compresses long texts and summarizes old events: a LangChain model, a function, or a model's name.
                Default: none; texts are cut, and events are listed.

        Raises:
            InvalidInput: An argument is wrong, or the config has neither a thread nor a namespace.
        """
        position = self._resolve_position(branch_or_config, namespace, scope)
        return public.LayeredMemory(self.database, position, namespace=namespace, settings=settings, model=model)

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
        """Return the facts of a branch or thread, with the times when they were true.

        `memory.facts("user-42")` returns the facts of the named branch, the same branch as in `memory.layers`.
        `memory.facts(config)` in a node returns the facts that the thread sees. Facts that it wrote are rewound, too.

        Args:
            branch_or_config: The name of a branch; or a config, a `Runtime` or a `ToolRuntime`. Default: the
                surrounding run; outside of runs, or with a namespace, the branch "main".
            namespace: The namespace of the branch. Default: the running config's, else the root.
            scope: "shared" for the facts shared by the branch "main" of the namespace and all its threads; "thread"
                for only the thread's own facts. Default: "shared".
            model: Extracts facts from added texts: a LangChain model, a function, or a model's name. Default:
                none; added texts are stored and searchable.
            description: A text at the start of the memory, which a reset keeps. Default: the stored text, if any.
            settings: The settings for storing and extracting facts. Default: `FactsConfig()`.

        Raises:
            InvalidInput: An argument is wrong, or the config has neither a thread nor a namespace.
        """
        position = self._resolve_position(branch_or_config, namespace, scope)
        return public.KGMemory(
            self.database, position, namespace=namespace, model=model, description=description, settings=settings
        )

    def remember_facts(self, model: ModelLike, **options: Unpack[RememberFactsOptions]) -> public.RememberFacts:
        """Return a graph node that extracts facts once from each new message of its state.

        `builder.add_node("facts", memory.remember_facts(model))`

        Args:
            model: Extracts the facts: a LangChain model, a function, or a model's name.
            **options: Other arguments of `RememberFacts`, such as `branch`, `namespace`, `roles`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return _call_checked("Invalid options of remember_facts", public.RememberFacts, self, model, **options)

    def experiences(self, directory: str | os.PathLike[str], *, subfolders: bool = False) -> public.ExperienceLibrary:
        """Return a library of handcrafted experiences: a folder of conditional instructions.

        `memory.experiences("experience").selector(role="Planner", model=model)` is a Runnable that adds the matching
        experiences of the folder "experience" to a prompt.

        Args:
            directory: The folder, with files `*.yaml` or `*.yml`. Changed files are read again at the next selection.
            subfolders: True to include files in subfolders. Default: False.

        Raises:
            InvalidInput: The folder is missing, or an argument is wrong.
        """
        return public.ExperienceLibrary(self.database, directory, subfolders=subfolders)

    @cached_property
    def audit(self) -> public.AuditTrail:
        """The audit trail of the running config's namespace, else of the root.

        `memory.audit.add(prompt, reply)` adds an entry. `memory.audit.handler()` returns a callback handler that adds
        every model call of a run. `AuditTrail(memory, namespace)` is the audit trail of another namespace.
        """
        return public.AuditTrail(self.database)

    @cached_property
    def corrections(self) -> Corrections:
        """The corrections of memory by people, each with author and time, and with undo.

        `memory.corrections.core("city", "Porto", by="Maria")`
        """
        from langchain_agentmem.layers.memory_corrections import Corrections  # noqa: PLC0415 - only for corrections

        return Corrections(self.database)

    def session(
        self, session_id: str | int | UUID | ThreadLike | None = None, namespace: Sequence[str] | None = None
    ) -> public.SessionMemory:
        """Return a session: the rounds of posts between roles under one id.

        With the config of a node, the session belongs to the thread. It is rewound with the thread, and a repeated node
        posts once. With the config of a checkpoint, the session is read-only. See `SessionMemory`.

        Args:
            session_id: The session's id; or a config, a `Runtime` or a `ToolRuntime`. Default: a new one.
            namespace: The session's namespace. Default: the running config's, else the root. A thread's namespace is in
                its config.
        """
        from langchain_agentmem.conversations.session_memory import SessionMemory, is_thread_like  # noqa: PLC0415 - only for sessions

        retention = None if is_thread_like(session_id) else self.retention  # a thread keeps its messages
        return SessionMemory(self.database, session_id, namespace=namespace, retention=retention)

    @cached_property
    def admin(self) -> public.Admin:
        """The methods for operators: backup, restore, copy, prune, verify, statistics, listings."""
        return public.Admin(self.database)

    @cached_property
    def checkpointer(self) -> public.AgentMemorySaver:
        """The checkpointer for LangGraph graphs.

        `builder.compile(checkpointer=memory.checkpointer)`

        The checkpointer records the messages of its threads, see the argument `record`.
        """
        return public.AgentMemorySaver(self)

    @cached_property
    def store(self) -> public.AgentMemoryStore:
        """The store for long-term items of LangGraph graphs.

        `builder.compile(store=memory.store)`

        All threads share the store, and it is not rewound with them. Store the items of a user below the user's
        namespace, for example in ("users", "ada", "notes").
        """
        return public.AgentMemoryStore(self, index=self._index)

    @cached_property
    def thread_store(self) -> public.AgentMemoryThreadStore:
        """A store for LangGraph graphs whose items are rewound with the running thread.

        `builder.compile(checkpointer=memory.checkpointer, store=memory.thread_store)`, or call `memory.thread_store` in
        nodes. Outside of runs, `memory.thread_store.at(config)` reads the items at a checkpoint.
        """
        return public.AgentMemoryThreadStore(self, index=self._index)

    def byte_store(self, namespace: Sequence[str] | None = None) -> public.AgentMemoryByteStore:
        """Return a LangChain `ByteStore`, for example for `CacheBackedEmbeddings`.

        Args:
            namespace: The only namespace that the store reads and writes, without those below. Default: the running
                config's, else the root.
        """
        return public.AgentMemoryByteStore(self, namespace)

    def create(
        self, memory_type: str = "conversation_history", **options: object
    ) -> public.ConversationMemory | public.SessionMemory | public.LayeredMemory | public.KGMemory:
        """Create a memory by the name of its type.

        If the type is fixed in your code, call its method instead, such as `layers`.

        Args:
            memory_type: "conversation_history", "managed_conversation", "kg", "layers" or "session".
            **options: The options of the type's method: `conversation`, `managed_conversation`, `facts`, `layers` or
                `session`.

        Raises:
            InvalidInput: The type is unknown, or an option is unknown.
        """
        types = Literal["conversation_history", "kg", "layers", "managed_conversation", "session"]
        name = argument_checks.check_value(types, memory_type, "memory_type")
        method = getattr(self, {"conversation_history": "conversation", "kg": "facts"}.get(name, name))
        return _call_checked(f"Invalid options of a {safe_repr(name)} memory", method, **options)  # type: ignore[no-any-return]

    def tools(
        self, branch_or_config: str | Mapping[str, Any] | None = None, include: Iterable[str] | None = None
    ) -> list[BaseTool]:
        """Return tools for an agent to read and write this memory.

        `recall_dropped` searches the conversation for messages dropped from the context. `expand` takes an id, and
        returns a message, an archived tool output, or the messages that a summary replaces. Tools for the layers are
        `mem_core_get`, `mem_core_set`, `mem_core_del`, `mem_recall_append`, `mem_recall_search`, `mem_recall_evict`,
        `mem_recall_summarize`, `mem_archival_write`, `mem_archival_update`, `mem_archival_search`, `mem_archival_get`,
        `mem_node_fork`, `mem_node_read`, `mem_node_write` and `consolidate`. Tools for facts are `fact_add`,
        `fact_search` and `fact_history`.

        Args:
            branch_or_config: A text that is both the id of the conversation and the name of the branch to use, or the
                config of a thread. Default: the memory of the thread that calls the tool.
            include: The names of the tools, in this order; "fact_*" selects all with this prefix. Default:
                `recall_dropped`, `expand`, `mem_core_set`, `mem_core_del`, `mem_archival_write` and
                `mem_archival_search`.

        Raises:
            InvalidInput: A tool is unknown, or the id of the conversation is invalid.
        """
        from langchain_agentmem.compaction.compacted_context import ConversationOption  # noqa: PLC0415
        from langchain_agentmem.compaction.dropped_messages import dropped_tools  # noqa: PLC0415
        from langchain_agentmem.language_models.tool_factory import select_tools  # noqa: PLC0415 - only for tools
        from langchain_agentmem.layers.layer_tools import ESSENTIAL_TOOLS, layer_tools  # noqa: PLC0415

        dropped = dropped_tools(self, ConversationOption(*self._parse_conversation(branch_or_config)))
        layers = layer_tools(self, branch_or_config)
        facts = public.fact_tools(self, branch_or_config)
        names = [*(tool.name for tool in dropped), *ESSENTIAL_TOOLS] if include is None else include
        return select_tools([*dropped, *layers, *facts], names)

    def studio(
        self,
        *,
        user: str | Callable[[Mapping[str, Any]], str] | None = None,
        experiences: public.ExperienceLibrary | None = None,
    ) -> ASGIApp:
        """Return Studio, an ASGI app to inspect and correct memory (extra `[studio]`).

        The app has no authentication: mount it behind your own. The command `agentmem studio` serves Studio on this
        machine, and requires a token.

        Args:
            user: The author of corrections: a name, or a function that returns the name for the ASGI scope of a
                request. Default: the user who runs this process.
            experiences: A library to show. Default: none.

        Raises:
            MissingExtra: The extra is not installed.
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
        """Return a Runnable that adds memory to a prompt, messages or a state.

        For chains: `memory.inject() | model`. The core memory is at the beginning of the prompt, so that the provider's
        prompt cache stays valid until core memory changes. Memory recalled for the query is near the end. Both are
        between tags that mark them as data, and are escaped.

        Args:
            branch_or_config: The name of a branch, a `LayeredMemory`, or the config of a thread. Default: the
                surrounding run.
            **options: Other arguments of `MemoryInjection`, such as `kinds`, `limit`, `budget`, `role`, `query`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return _call_checked("Invalid options of inject", public.MemoryInjection, self, branch_or_config, **options)

    def written_by(self, source: SourceName, actor: str | None = None) -> AbstractContextManager[None]:
        """Set the source and actor of memory written in the block, in this task or thread.

            page = search_the_web("herons")
            with memory.written_by("tool", "web_search"):
                memory.layers(config).archival.write(page)

        Args:
            source: "user", "person", "model", "tool" or "import".
            actor: The name of the source, such as the name of a tool. Default: none.

        Raises:
            InvalidInput: An argument is wrong.
        """
        from langchain_agentmem.language_models.model_calls import written_by  # noqa: PLC0415 - imported when needed

        argument_checks.check_value(SourceName, source, "source")
        return written_by(source, None if actor is None else argument_checks.check_name(actor, "an actor"))

    # -- search ------------------------------------------------------------------------------------------------

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
        """Search messages and memory, without a model.

        By default, a run with a namespace searches all that its thread sees, including the memory shared in the
        namespace. A run without a namespace searches only its own thread.

        Args:
            query: Any text.
            namespace: The namespace to search, with all below it. Default: the namespace or thread of the run; outside
                of runs, the root without those below, or the whole namespace of a limited memory.
            limit: Maximum number of results. Default: 10.
            kinds: Only these kinds: "message", "fact", "item", "event", "record", "audit". Default: all but "audit",
                because audit entries repeat the content of messages.
            conversation_id: Only this conversation. Default: all.
            roles: Only messages of these roles. Default: all.
            before: Only results from before this time. Default time zone: UTC.
            after: Only results from this time or later.
            everything: True to search every namespace, as an administrator. Default: False.
            abandoned: True to find rewound messages of threads too. Default: False.
            order: "score" for the best first, or "time" for the oldest first, as the history of a topic. With "time",
                a near-duplicate of a result is only listed in the `also` of that result. If the words of a later result
                show that it replaces an earlier one, `replaced_by` of the earlier one refers to the later one. Default:
                "score".
            trust: The least trusted source to include. From most to least trusted: "user", "person", "model", "tool",
                "import", "unknown". Or a sequence of the sources to include. Default: all.
            config: The config of the run whose memory is searched. Default: the surrounding run.
            weights: The weight of each signal. Default: the weights of this memory.

        Returns:
            The results, best first or oldest first, each with an explanation.

        Raises:
            InvalidInput: An argument is wrong, or a key of this memory's `namespace` has no value.
        """
        from langchain_agentmem.rewinding.search_view import SearchRequest, build_search  # noqa: PLC0415 - only for searches

        request = SearchRequest(
            query, namespace, limit, kinds, conversation_id, roles, before, after, everything, abandoned, order, trust
        )
        inputs = partial(drop_none, request._asdict())
        with self.database.step("retrieval.search", inputs, "retriever", namespaces.check_config(config)) as step:
            search = build_search(self.database, request, config, self.weights if weights is None else weights)
            hits = search._replace(name=None).find(self.database)  # without a name, because this step traces the search
            step.finish(lambda: document_outputs(hits))
        return hits

    asearch = awaited(search)

    def retriever(self, **search_arguments: Unpack[SearchOptions]) -> public.AgentMemoryRetriever:
        """Return the search as a LangChain retriever, for chains.

        Example: `memory.retriever(namespace=("alice",), limit=4) | …`

        Args:
            **search_arguments: The arguments of `search` without the query and the config, which each run passes. `k`
                is an alias of `limit`. `tags`, `metadata` and `name` are the fields of every LangChain retriever.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return public.AgentMemoryRetriever(**search_arguments, memory=self)

    # -- imports -----------------------------------------------------------------------------------------------

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
    ) -> ImportSummary:
        """Import the memory of another program. The source is opened read-only.

        Ids, times, roles and tool calls are kept, if the source has them. Each conversation, checkpoint, and page of
        items or memories is imported in one transaction. Content that cannot be imported is skipped and reported.
        Existing data stays. To continue an interrupted import, run it again.

        Args:
            kind: The kind of the source. "langgraph-saver" and "langgraph-store": savers and stores of other packages.
                "langmem": LangMem's items in a LangGraph store. "chat-history": tables of `SQLChatMessageHistory`,
                files of `FileChatMessageHistory`. "mem0": the result of mem0's `get_all` as JSON. "letta": agent files
                (.af) of a Letta server, or the server's database. "memgpt": a SQLite file with core, recall and
                archival memory. "taskweaver": sessions as YAML or JSON. "marsys": a file of MARSYS's `save_to_file`.
                "opus": an agent_memory.json.
            source: A path, a folder of files, or a "postgresql://…" URL; for LangGraph also a saver or store.
            namespace: The namespace to import into. Users of mem0, agents of Letta and items of stores get namespaces
                below it. With keys in braces, such as ("users", "{user_id}"), each thread or conversation is imported
                into the namespace of its owner. The values of the keys come from the metadata of LangGraph's
                checkpoints and from `owners`. "{thread_id}" and "{session_id}" stand for the id of the thread or
                session. Default: the running config's; else, for threads and conversations, the `namespace` argument of
                this memory; else the root, which is ().
            only: The ids of the threads, sessions, users or agents to import. Default: everything.
            owners: A mapping from the ids of threads and conversations to their owners. An owner replaces the key in
                `namespace`. Default: the owners in the source.
            dry_run: True to only report what would be imported. Default: False.
            allow: Classes whose objects may be imported with LangGraph's checkpoints, as "module.Class". Default: none.
            progress: A function that is called with the progress after each conversation, page or memory.

        Returns:
            The numbers of new and existing objects by kind, and the skipped objects with the reasons.

        Raises:
            InvalidInput: An argument is wrong, or the source is missing, unreadable, or of another kind.
            MissingExtra: The package that reads the source is not installed.
        """
        from langchain_agentmem.importers.import_runner import run_import  # noqa: PLC0415 - only for imports

        options: dict[str, Any] = {"namespace": namespace, "only": only, "owners": owners}
        options |= {"dry_run": argument_checks.check_flag("dry_run", dry_run), "allow": allow, "progress": progress}
        return run_import(self, kind, source, **options)

    aimport_from = awaited(import_from, writes=True)

    # -- helpers -----------------------------------------------------------------------------------------------

    def _resolve_position(self, branch_or_config: Any, namespace: Sequence[str] | None, scope: str) -> MemoryPosition:
        """Return the position of a branch or config; of the surrounding run or "main" by default."""
        from langchain_agentmem.rewinding.thread_memory import resolve_position  # noqa: PLC0415 - only for layers and facts

        argument_checks.check_value(Literal["shared", "thread"], scope, "scope")
        return resolve_position(self.database, branch_or_config, namespace, own_only=scope == "thread")

    def _parse_conversation(self, id_or_config: str | Mapping[str, Any] | None) -> tuple[str | None, Namespace | None]:
        """Return the conversation id of an id or a config, and the namespace of a config."""
        if id_or_config is None or isinstance(id_or_config, str):
            return id_or_config, None
        thread = namespaces.configurable_of(id_or_config).get("thread_id")
        if thread is None:
            raise InvalidInput(f"Pass a conversation id or a config with thread_id, not {safe_repr(id_or_config)}.")
        return namespaces.check_id(thread, "conversation"), self.database.scopes.resolve(None, id_or_config)


def _call_checked(error_prefix: str, function: Callable[..., T], /, *args: Any, **options: Any) -> T:
    """Call a class or method after checking that it accepts the arguments.

    The message of an error begins with `error_prefix`.
    """
    try:
        inspect.signature(function).bind(*args, **options)
    except TypeError as error:
        raise InvalidInput(f"{error_prefix}: {error}.") from error
    return function(*args, **options)
