"""`Tenants`: the memories of many tenants, over one PostgreSQL connection pool.

    with ConnectionPool(url) as pool, Tenants(pool) as tenants:
        with tenants.of("ada") as memory:
            memory.conversation("monday").add_user_message("My sister Ana lives in Lisbon.")

`Tenants` and `of` support `async with`, too. The pool itself needs `with`.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.argument_checks import check_integer
from langchain_agentmem.base.concurrency import Closable, PerProcess
from langchain_agentmem.base.hooks import check_callable
from langchain_agentmem.base.namespaces import Namespace, check_id, path_of
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, MemoryClosed, safe_repr
from langchain_agentmem.storage import DatabaseOptions, is_pool

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

_PLAIN_ID = re.compile(r"(?!.*_[0-9a-f]{32}$)[a-z0-9_]{1,56}")
"""The pattern of ids that are used unchanged in schema names. It excludes ids that end like a digest."""


def schema_of_tenant(tenant: str) -> str:
    """Return the schema name of one tenant.

    The name is "tenant_" followed by the id. An id that is longer than 56 characters, contains characters other than
    a-z, 0-9 and _, or ends like a digest is simplified, cut to 23 characters, and followed by its digest.
    """
    if _PLAIN_ID.fullmatch(tenant):
        return f"tenant_{tenant}"
    readable = re.sub(r"[^a-z0-9]+", "_", tenant.lower())[:23]
    return f"tenant_{readable}_{blake2b(tenant.encode(), digest_size=16).hexdigest()}"


class Tenants(Closable):
    """The memories of many tenants over one psycopg pool.

    Threads and tasks may share the object. By default, each tenant has its own schema. With `schema_of`, tenants may
    share schemas. Each memory is then limited to the namespace `(tenant,)` by `AgentMemory.within`, even if no other
    tenant uses the schema. A call with a namespace outside of `(tenant,)` raises `InvalidInput`. Different tenants may
    use the same thread ids.

    Args:
        pool: The `psycopg_pool.ConnectionPool` of all memories. Close it after the `Tenants` object.
        schema_of: A function from a tenant's id to the name of its schema. Default: a separate schema for each tenant,
            see `schema_of_tenant`.
        max_open: The maximum number of memories that are kept open. Memories in use stay open even above this number.
            Default: 100.
        **options: The options of `AgentMemory` for every memory, except `schema`. With `schema_of`, also except
            `namespace`.

    Raises:
        InvalidInput: An argument is invalid.
    """

    _lock = PerProcess(threading.Lock)  # guards `_memories` and their `holders`; not held to open or close a memory

    def __init__(
        self,
        pool: ConnectionPool[Any],
        schema_of: Callable[[str], str] | None = None,
        *,
        max_open: int = 100,
        **options: Any,
    ) -> None:
        if not is_pool(pool):
            raise InvalidInput(f"pool must be a psycopg_pool.ConnectionPool, not {safe_repr(pool)}.")
        check_callable(schema_of, "schema_of")
        check_integer("max_open", max_open, 1)
        if schema_of is not None and options.get("namespace") is not None:
            raise InvalidInput("Tenants takes no namespace= with schema_of=: each memory is limited to (tenant,).")
        try:
            inspect.signature(AgentMemory).bind(pool, schema="", **options)
        except TypeError as error:
            raise InvalidInput(f"Tenants takes the options of AgentMemory without schema: {error}.") from error
        self._schema_of = schema_of
        self._max_open = max_open
        self._open_memory = partial(AgentMemory, pool, **options)
        self._memories: OrderedDict[str, _SchemaMemory] = OrderedDict()
        self._closed = False

    def of(self, tenant: str) -> TenantMemory:
        """Return a sync and async context manager that opens a tenant's memory.

        Args:
            tenant: The tenant's id.

        Raises:
            InvalidInput: The id is empty, too long or has control characters, or `schema_of` returns an invalid name.
        """
        tenant_id = check_id(tenant, "tenant")
        if self._schema_of is None:
            return TenantMemory(self, schema_of_tenant(tenant_id), None)
        path_of((tenant_id,))  # raises InvalidInput if the id cannot be a label
        return TenantMemory(self, DatabaseOptions(schema=self._schema_of(tenant_id)).check().schema, (tenant_id,))

    def close(self) -> None:
        """Close all memories, even those in use, but not the pool. Closing again has no effect."""
        with self._lock:
            self._closed = True
            memories = list(self._memories.values())
            self._memories.clear()
        with ExitStack() as stack:  # it closes every memory, even if one fails to close
            for each in memories:
                stack.callback(each.close)

    async def aclose(self) -> None:
        """Wait for running asynchronous hooks, at most 1 second per memory, then close."""
        for each in list(self._memories.values()):
            if each.memory is not None:
                await each.memory.database.hooks.settle()
        await asyncio.to_thread(self.close)

    def _acquire(self, schema: str) -> _SchemaMemory:
        """Return the memory of a schema, and protect it from `_evict` until `_release`."""
        with self._lock:
            if self._closed:
                raise MemoryClosed("This Tenants object is closed. Create a new one with Tenants(...).")
            schema_memory = self._memories.setdefault(schema, _SchemaMemory(partial(self._open_memory, schema=schema)))
            schema_memory.holders += 1
            self._memories.move_to_end(schema)
        return schema_memory

    def _release(self, schema: str) -> None:
        with self._lock:
            if schema in self._memories:  # `close` empties the mapping
                self._memories[schema].holders -= 1

    def _evict(self) -> None:
        """Close the least recently used memories in excess of `max_open`.

        Memories in use stay open. Unused memories that failed to open are removed, too.
        """
        with self._lock:
            surplus = len(self._memories) - self._max_open
            unused = [schema for schema, each in self._memories.items() if not each.holders]  # oldest use first
            evictable = [s for index, s in enumerate(unused) if index < surplus or self._memories[s].memory is None]
            evicted = [self._memories.pop(schema) for schema in evictable]
        for each in evicted:
            with suppress(AgentMemoryError):  # the call of another tenant, which evicts this memory, must not fail
                each.close()


class TenantMemory:
    """A context manager for `with` and `async with` that opens the memory of one tenant.

    The same object may be entered repeatedly and concurrently.

    Args:
        tenants: The `Tenants` object.
        schema: The tenant's schema.
        namespace: The namespace to which the memory is limited. None for no limit.
    """

    def __init__(self, tenants: Tenants, schema: str, namespace: Namespace | None) -> None:
        self._tenants, self._schema, self._namespace = tenants, schema, namespace

    def __enter__(self) -> AgentMemory:
        with ExitStack() as cleanup:
            schema_memory = self._tenants._acquire(self._schema)
            cleanup.callback(self._tenants._release, self._schema)  # if opening fails
            memory = self._open(schema_memory)
            cleanup.pop_all()
        return memory

    def __exit__(self, *_: object) -> None:
        self._tenants._release(self._schema)
        self._tenants._evict()

    async def __aenter__(self) -> AgentMemory:
        with ExitStack() as cleanup:
            schema_memory = self._tenants._acquire(self._schema)
            cleanup.callback(self._tenants._release, self._schema)  # if opening fails
            memory = await asyncio.to_thread(self._open, schema_memory)
            cleanup.pop_all()
        return memory

    async def __aexit__(self, *_: object) -> None:
        self._tenants._release(self._schema)
        await asyncio.to_thread(self._tenants._evict)

    def _open(self, schema_memory: _SchemaMemory) -> AgentMemory:
        self._tenants._evict()
        memory = schema_memory.get()
        return memory if self._namespace is None else memory.within(self._namespace)


class _SchemaMemory:
    """The memory of one schema, opened at the first use.

    Args:
        open_memory: A function that opens the memory.

    Attributes:
        memory: The memory. None before it is opened.
        holders: The number of `with` blocks that use the memory. The lock of `Tenants` guards it.
    """

    _open_lock = PerProcess(threading.Lock)

    def __init__(self, open_memory: Callable[[], AgentMemory]) -> None:
        self._open_memory = open_memory
        self._closed = False
        self.memory: AgentMemory | None = None
        self.holders = 0

    def get(self) -> AgentMemory:
        """Return the memory. Open it if it is not open, for example because a caller closed it."""
        with self._open_lock:
            if self._closed:
                raise MemoryClosed
            if self.memory is None or not self.memory.database.engine.is_open:
                self.memory = self._open_memory()
            return self.memory

    def close(self) -> None:
        """Close the memory. A later `get` raises `MemoryClosed`."""
        with self._open_lock:
            self._closed = True
            if self.memory is not None:
                self.memory.close()
