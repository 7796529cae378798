"""The memory of langchain-agentmem for LangGraph Server: checkpointer, store and separate users.

Two lines of `langgraph.json` mount it:

    "checkpointer": {"path": "langchain_agentmem_langgraph_server.checkpointer"},
    "store": {"path": "langchain_agentmem_langgraph_server.store"}

Both are parts of one `AgentMemory`, which each process opens once. `AGENTMEM_DATABASE` names its database: a path or
`postgresql://…`. Default: `agentmem.db` in the folder where the server runs. In nodes, `memory()` returns this memory,
so nodes read and write the memory of the server's threads. For a memory with other arguments, make your own `Mount`.
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
"""The environment variable for the path or URL of the database."""

_KEY = "agentmem_namespace"
_user_namespace: ContextVar[tuple[str, ...] | None] = ContextVar("agentmem_user_namespace", default=None)
"""The namespace of the current request's user, set by `by_user`."""


class Mount:
    """A memory that is opened on first use, and closed when the server has released all its parts.

        mount = Mount(lambda: AgentMemory("agent.db", index={"embed": "openai:text-embedding-3-small", "dims": 1536}))
        memory, checkpointer, store = mount.memory, mount.checkpointer, mount.store

    Put these lines into a module that can be imported, and name the parts in `langgraph.json` as `module.checkpointer`
    and `module.store`. Do not name them by file, as in `./module.py:store`: the server may load a file twice.

    Args:
        open_memory: The function that opens the memory.
    """

    def __init__(self, open_memory: Callable[[], AgentMemory]) -> None:
        self._open_memory = open_memory
        self._lock = threading.Lock()
        self._memory: AgentMemory | None = None
        self._open_parts = 0

    def memory(self) -> AgentMemory:
        """Return the memory; the same one until it is closed.

        Raises:
            InvalidInput: The function returned something else than an `AgentMemory`.
            StorageError: The database cannot be opened.
        """
        with self._lock:
            return self._open_if_needed()

    @asynccontextmanager
    async def checkpointer(self) -> AsyncGenerator[AgentMemorySaver]:
        """Provide the checkpointer for `langgraph.json` until the server stops."""
        async with self._open_part() as memory:
            yield memory.checkpointer

    @asynccontextmanager
    async def store(self) -> AsyncGenerator[AgentMemoryStore]:
        """Provide the store for `langgraph.json` until the server stops."""
        async with self._open_part() as memory:
            yield await asyncio.to_thread(lambda: memory.store)  # the first access imports modules

    @asynccontextmanager
    async def _open_part(self) -> AsyncGenerator[AgentMemory]:
        memory = await asyncio.to_thread(self._acquire)
        try:
            yield memory
        finally:
            if self._release():
                await memory.aclose()

    def _open_if_needed(self) -> AgentMemory:
        if self._memory is None:
            memory = self._open_memory()
            if not isinstance(memory, AgentMemory):
                raise InvalidInput(f"The function of a Mount must return an AgentMemory, not {memory!r:.100}.")
            memory.checkpointer = _Saver(memory)
            TokenCounter().count_text("a")  # loads the token counter here, so that it never blocks an event loop
            self._memory = memory
        return self._memory

    def _acquire(self) -> AgentMemory:
        with self._lock:
            memory = self._open_if_needed()
            self._open_parts += 1
            return memory

    def _release(self) -> bool:
        """Release one part of the memory, and return whether no part is open any more."""
        with self._lock:
            self._open_parts -= 1
            if not self._open_parts:
                self._memory = None
            return not self._open_parts


class _Saver(AgentMemorySaver):
    """A saver that reads and writes a user's threads only in the user's namespace.

    `by_user` sets the namespace in the configs of runs. For other operations on a thread, the server passes a config
    that the client can influence, and that usually has no namespace.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await super().aget_tuple(_in_user_namespace(config))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await super().aput(_in_user_namespace(config), checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await super().aput_writes(_in_user_namespace(config), writes, task_id, task_path)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        user_config = None if config is None else _in_user_namespace(config)
        if before is not None and "configurable" not in before:
            before = {"configurable": dict(before)}  # the server passes a checkpoint in the form of its API
        async for found in super().alist(user_config, filter=filter, before=before, limit=limit):
            yield found

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await super().aprune(
            thread_ids, strategy="delete" if strategy == "delete_all" else strategy
        )  # "delete_all" is the server's name for "delete"


def _in_user_namespace(config: RunnableConfig) -> RunnableConfig:
    namespace = _user_namespace.get()
    if namespace is None:
        return config
    return {**config, "configurable": {**config.get("configurable", {}), _KEY: namespace}}


def by_user(auth: Auth, namespace: Callable[[Any], Sequence[str]] = lambda user: (user.identity,)) -> Auth:
    """Separate the users of a server: each has its own threads and its own namespace.

        auth = by_user(Auth())

        @auth.authenticate
        async def authenticate(authorization: str | None) -> str: ...

    Threads and crons are visible only to the user who created them. Runs read and write memory in the user's namespace,
    whatever their config contains. Through the store's API, a user can reach this namespace and those below it; other
    requests are refused (403). Assistants are shared, as usual in LangGraph Server.

    Args:
        auth: The server's `Auth`, which authenticates users.
        namespace: The function that returns the namespace of a user, such as
            `lambda user: (user["tenant"], user.identity)`. A namespace must not be empty, nor below the namespace of
            another user. Default: the user's identity.

    Returns:
        The same `Auth`.
    """

    def set_namespace(ctx: Auth.types.AuthContext) -> tuple[str, ...]:
        user_namespace = tuple(namespace(ctx.user))
        if not user_namespace:  # the root would include the namespaces of all users
            raise Auth.exceptions.HTTPException(status_code=403, detail="This user has no namespace.")
        _user_namespace.set(user_namespace)
        return user_namespace

    async def set_owner(ctx: Auth.types.AuthContext, value: Any) -> Any:
        set_namespace(ctx)
        owner = {"owner": ctx.user.identity}
        if value.get("metadata") is None:
            value["metadata"] = {}
        value["metadata"].update(owner)  # in place, since the server uses this object
        return owner

    async def prepare_run(ctx: Auth.types.AuthContext, value: Any) -> Any:
        configurable = value["kwargs"].setdefault("config", {}).setdefault("configurable", {})
        configurable[_KEY] = list(set_namespace(ctx))
        return await set_owner(ctx, value)

    async def check_items(ctx: Auth.types.AuthContext, value: Any) -> None:
        prefix = set_namespace(ctx)
        if tuple(value.get("namespace") or ())[: len(prefix)] != prefix:
            detail = f"The namespaces of this user begin with {list(prefix)}."
            raise Auth.exceptions.HTTPException(status_code=403, detail=detail)

    auth.on.threads(set_owner)
    auth.on.threads.create_run(prepare_run)
    auth.on.crons(set_owner)
    auth.on.store()(check_items)
    return auth


_mount = Mount(lambda: AgentMemory(os.environ.get(DATABASE) or "agentmem.db"))
memory, checkpointer, store = _mount.memory, _mount.checkpointer, _mount.store

__all__ = ["DATABASE", "Mount", "by_user", "checkpointer", "memory", "store"]
