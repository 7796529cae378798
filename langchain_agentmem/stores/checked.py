"""LangGraph's methods of a store, given only what they can take.

LangGraph makes operations of their arguments before a store sees them, and takes those for what they should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from langgraph.store.base import NOT_PROVIDED, BaseStore, Item, NamespacePath, NotProvided, SearchItem

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.stores.store_operations import check_writable, path_of_items


class CheckedStore(BaseStore):
    """A store whose methods tell in errors of ours what cannot be a namespace or a key."""

    def get(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """See `BaseStore.get`."""
        path_of_items(namespace)
        return super().get(namespace, _key(key), refresh_ttl=refresh_ttl)

    async def aget(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """`get`, awaited."""
        path_of_items(namespace)
        return await super().aget(namespace, _key(key), refresh_ttl=refresh_ttl)

    def search(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """See `BaseStore.search`."""
        path_of_items(namespace_prefix)
        return super().search(
            namespace_prefix, query=query, filter=filter, limit=limit, offset=offset, refresh_ttl=refresh_ttl
        )

    async def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """`search`, awaited."""
        path_of_items(namespace_prefix)
        return await super().asearch(
            namespace_prefix, query=query, filter=filter, limit=limit, offset=offset, refresh_ttl=refresh_ttl
        )

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """See `BaseStore.put`."""
        check_writable(namespace)
        super().put(namespace, _key(key), value, index, ttl=ttl)

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """`put`, awaited."""
        check_writable(namespace)
        await super().aput(namespace, _key(key), value, index, ttl=ttl)

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """See `BaseStore.delete`."""
        path_of_items(namespace)
        super().delete(namespace, _key(key))

    async def adelete(self, namespace: tuple[str, ...], key: str) -> None:
        """`delete`, awaited."""
        path_of_items(namespace)
        await super().adelete(namespace, _key(key))

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """See `BaseStore.list_namespaces`."""
        for path in (prefix, suffix):
            path_of_items(() if path is None else path)
        return super().list_namespaces(prefix=prefix, suffix=suffix, max_depth=max_depth, limit=limit, offset=offset)

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """`list_namespaces`, awaited."""
        for path in (prefix, suffix):
            path_of_items(() if path is None else path)
        return await super().alist_namespaces(
            prefix=prefix, suffix=suffix, max_depth=max_depth, limit=limit, offset=offset
        )


def _key(key: Any) -> str:
    """The text that LangGraph takes anything for that is given as a key."""
    try:
        return str(key)
    except Exception as error:
        raise InvalidInput(f"{safe_repr(key)} cannot be the key of an item: it cannot be written as text.") from error
