"""LangGraph Server with the memory of langchain-agentmem: its checkpointer, its store, and its users kept apart.

Two lines of `langgraph.json` mount it:

    "checkpointer": {"path": "langchain_agentmem_langgraph_server.checkpointer"},
    "store": {"path": "langchain_agentmem_langgraph_server.store"}

Both are parts of one `AgentMemory`, which is opened once a process: that of `AGENTMEM_DATABASE`, a path or
`postgresql://…`, else of `agentmem.db` in the folder where the server runs. In nodes, `memory()` is that very memory,
so what they remember follows the server's threads. For a memory with other arguments make a `Mount` of your own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph_sdk import Auth

from langchain_agentmem import AgentMemory, AgentMemorySaver, AgentMemoryStore, InvalidInput, TokenCounter

DATABASE = "AGENTMEM_DATABASE"
"""The environment variable that says where the memory is."""

_KEY = "agentmem_namespace"
_home: ContextVar[tuple[str, ...] | None] = ContextVar("agentmem_home", default=None)
"""The namespace of the user whose request this is, where `by_user` knows it."""


class Mount:
    """A memory that is opened when it is first asked for, and closed when the server has let go of all its parts.

        mount = Mount(lambda: AgentMemory("agent.db", index={"embed": "openai:text-embedding-3-small", "dims": 1536}))
        memory, checkpointer, store = mount.memory, mount.checkpointer, mount.store

    Put this into a module that can be imported, and name it in `langgraph.json` as `module.checkpointer` and
    `module.store`. (What is named by its file, `./module.py:store`, the server may load twice.)

    Args:
        opened: Opens the memory.
    """

    def __init__(self, opened: Callable[[], AgentMemory]) -> None:
        self._opened = opened
        self._lock = threading.Lock()
        self._memory: AgentMemory | None = None
        self._holders = 0

    def memory(self) -> AgentMemory:
        """The memory; always the same one until it is closed.

        Raises:
            InvalidInput: What should open it gave something else.
            StorageError: The database cannot be opened.
        """
        with self._lock:
            return self._get()

    @asynccontextmanager
    async def checkpointer(self) -> AsyncGenerator[AgentMemorySaver]:
        """What `langgraph.json` names as checkpointer: the memory's, until the server stops."""
        async with self._held() as memory:
            yield memory.checkpointer

    @asynccontextmanager
    async def store(self) -> AsyncGenerator[AgentMemoryStore]:
        """What `langgraph.json` names as store: the memory's, until the server stops."""
        async with self._held() as memory:
            yield await asyncio.to_thread(lambda: memory.store)  # making it loads modules

    @asynccontextmanager
    async def _held(self) -> AsyncGenerator[AgentMemory]:
        memory = await asyncio.to_thread(self._take)
        try:
            yield memory
        finally:
            if self._is_last():
                await memory.aclose()

    def _get(self) -> AgentMemory:
        if self._memory is None:
            memory = self._opened()
            if not isinstance(memory, AgentMemory):
                raise InvalidInput(f"Mount needs a function that opens an AgentMemory; this gave {memory!r:.100}.")
            memory.checkpointer = _Saver(memory)
            TokenCounter().count_text("a")  # reads what tokens are counted with, which is not for an event loop to do
            self._memory = memory
        return self._memory

    def _take(self) -> AgentMemory:
        with self._lock:
            memory = self._get()
            self._holders += 1
            return memory

    def _is_last(self) -> bool:
        """Let go of the memory. Nobody holds it any more, or somebody does."""
        with self._lock:
            self._holders -= 1
            if not self._holders:
                self._memory = None
            return not self._holders


class _Saver(AgentMemorySaver):
    """A saver that finds a user's threads in the user's namespace, whatever a request says.

    A run's config names its namespace, which `by_user` sees to. What else a server does with a thread comes with a
    config that a client has a part in, and that names none, as a rule.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await super().aget_tuple(_at_home(config))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await super().aput(_at_home(config), checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await super().aput_writes(_at_home(config), writes, task_id, task_path)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        at = None if config is None else _at_home(config)
        if before is not None and "configurable" not in before:
            before = {"configurable": dict(before)}  # the server hands on a checkpoint as its API has it
        async for found in super().alist(at, filter=filter, before=before, limit=limit):
            yield found

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await super().aprune(thread_ids, strategy="delete" if strategy == "delete_all" else strategy)  # its name there


def _at_home(config: RunnableConfig) -> RunnableConfig:
    home = _home.get()
    if home is None:
        return config
    return {**config, "configurable": {**config.get("configurable", {}), _KEY: home}}


def by_user(auth: Auth, namespace: Callable[[Any], Sequence[str]] = lambda user: (user.identity,)) -> Auth:
    """Keep the users of a server apart: each has its own threads, and everything is remembered in its own namespace.

        auth = by_user(Auth())

        @auth.authenticate
        async def authenticate(authorization: str | None) -> str: ...

    Threads and crons are seen by the user who made them. Runs remember and search in the user's namespace, whatever
    their config says. Of the store's API a user reaches that namespace and what is below it; a request for anything
    else is refused (403). Assistants are shared, as the server has it.

    Args:
        auth: The server's `Auth`, which says who asks.
        namespace: Gives the namespace of a user, for instance `lambda user: (user["tenant"], user.identity)`. No
            user's may lie below another's, and none may be empty. Default: the user's identity alone.

    Returns:
        The same `Auth`.
    """

    def home(ctx: Auth.types.AuthContext) -> tuple[str, ...]:
        found = tuple(namespace(ctx.user))
        if not found:  # the root reaches everybody's
            raise Auth.exceptions.HTTPException(status_code=403, detail="This user has no namespace.")
        _home.set(found)
        return found

    async def own(ctx: Auth.types.AuthContext, value: Any) -> Any:
        home(ctx)
        owner = {"owner": ctx.user.identity}
        if value.get("metadata") is None:
            value["metadata"] = {}
        value["metadata"].update(owner)  # in place: the server goes on with this very object
        return owner

    async def run(ctx: Auth.types.AuthContext, value: Any) -> Any:
        configurable = value["kwargs"].setdefault("config", {}).setdefault("configurable", {})
        configurable[_KEY] = list(home(ctx))
        return await own(ctx, value)

    async def items(ctx: Auth.types.AuthContext, value: Any) -> None:
        begin = home(ctx)
        if tuple(value.get("namespace") or ())[: len(begin)] != begin:
            detail = f"The namespaces of this user begin with {list(begin)}."
            raise Auth.exceptions.HTTPException(status_code=403, detail=detail)

    auth.on.threads(own)
    auth.on.threads.create_run(run)
    auth.on.crons(own)
    auth.on.store()(items)
    return auth


_mount = Mount(lambda: AgentMemory(os.environ.get(DATABASE) or "agentmem.db"))
memory, checkpointer, store = _mount.memory, _mount.checkpointer, _mount.store

__all__ = ["DATABASE", "Mount", "by_user", "checkpointer", "memory", "store"]
