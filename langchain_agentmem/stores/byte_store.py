"""`AgentMemoryByteStore`: LangChain's key-value store for bytes, in the one database.

    store = AgentMemoryByteStore("agent.db", namespace=("embeddings",))
    store.mset([("a", b"1"), ("b", b"2")])
    store.mget(["b", "missing"])  # [b"2", None]

It serves wherever LangChain asks for a `ByteStore`, under `CacheBackedEmbeddings` for one. Nothing
is kept in the object, so any number of them, threads and processes can share one namespace.

Any text is a key:

    from langchain_agentmem import AgentMemoryByteStore

    store = AgentMemoryByteStore("agent.db", namespace=("cache",))
    store.mset([("colour:sky", b"blue"), ("colour:grass", b"green"), ("100%", b"any text is a key")])
    print(store.mget(["colour:grass", "missing"]), list(store.yield_keys(prefix="colour:")))
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from langchain_core.stores import BaseStore

from langchain_agentmem.base.apart import aside
from langchain_agentmem.base.namespaces import Namespace, namespace_of, path_of, resolve
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Operation
from langchain_agentmem.storage.database import Database, HasDatabase, Outputs, database_of
from langchain_agentmem.stores import byte_rows
from langchain_agentmem.tracing import Thunk, brief

MOST_SHOWN = 20
"""Keys that a trace shows of many."""


class AgentMemoryByteStore(BaseStore[str, bytes]):
    """Values by key, of one namespace. It sees its own keys only, not those of namespaces below.

    A key is any string, of any length, empty or with characters that no other store takes; it is kept exactly. A value
    is `bytes`, of up to the gigabyte that both databases hold.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        namespace: Whose values they are. Default: the running config's, else the root.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        memory: HasDatabase | Database | str | os.PathLike[str] = ":memory:",
        namespace: Sequence[str] | None = None,
    ) -> None:
        self._database = database_of(memory)
        self._path = path_of(resolve(namespace))

    @property
    def namespace(self) -> Namespace:
        """Whose values they are."""
        return namespace_of(self._path)

    def __repr__(self) -> str:
        return f"AgentMemoryByteStore({safe_repr(self._database.engine.path)}, {safe_repr(self.namespace)})"

    # -- reading -----------------------------------------------------------------------------------------------

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values of keys, as of one moment.

        Args:
            keys: Any number, in any order, also twice.

        Returns:
            A value for each key, None where there is none.

        Raises:
            InvalidInput: A key is not a string.
        """
        wanted = _keys(keys)
        return self._database.read("bytes.get", self._getting(wanted), self._shown(wanted), _found)

    async def amget(self, keys: Sequence[str]) -> list[bytes | None]:
        """`mget`, awaited."""
        wanted = await aside(_keys, keys)
        return await self._database.aread("bytes.get", self._getting(wanted), self._shown(wanted), _found)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """The keys, in the order of their code points, a page at a time.

        Nothing is locked between the pages, so this store may be written to meanwhile, inside the loop too. A key that
        is there the whole time is given once; one that comes or goes may be given or not.

        Args:
            prefix: Only keys that begin with this text. No character in it has a meaning. Default: all keys.

        Raises:
            InvalidInput: The prefix is not a string.
        """
        return self._yielded(_prefix(prefix))

    def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """`yield_keys`, awaited."""
        return self._ayielded(_prefix(prefix))

    # -- writing -----------------------------------------------------------------------------------------------

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Keep values, in the place of what their keys had: all of them or, after an error, none.

        Args:
            key_value_pairs: Keys with their values. Of pairs with the same key the last one counts.

        Raises:
            InvalidInput: A key is not a string, or a value is not `bytes`.
            StorageError: The database failed. Nothing was written.
        """
        values = _pairs(key_value_pairs)
        self._database.write("bytes.set", self._putting(values), self._shown(values), _written(values))

    async def amset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """`mset`, awaited."""
        values = await aside(_pairs, key_value_pairs)
        await self._database.awrite("bytes.set", self._putting(values), self._shown(values), _written(values))

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete keys with their values, in one transaction. Those that are not there are ignored.

        Args:
            keys: Any number.

        Raises:
            InvalidInput: A key is not a string.
            StorageError: The database failed. Nothing was deleted.
        """
        given = _keys(keys)
        self._database.write("bytes.delete", self._removing(given), self._shown(given), _removed(given))

    async def amdelete(self, keys: Sequence[str]) -> None:
        """`mdelete`, awaited."""
        given = await aside(_keys, keys)
        await self._database.awrite("bytes.delete", self._removing(given), self._shown(given), _removed(given))

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _yielded(self, prefix: str) -> Iterator[str]:
        start: bytes | None = None
        while True:
            page = self._database.read("bytes.list", self._listing(prefix, start), self._looking(prefix), _listed)
            yield from page.keys
            if (start := page.next) is None:
                return

    async def _ayielded(self, prefix: str) -> AsyncIterator[str]:
        start: bytes | None = None
        while True:
            make, inputs = self._listing(prefix, start), self._looking(prefix)
            page = await self._database.aread("bytes.list", make, inputs, _listed)
            for key in page.keys:
                yield key
            if (start := page.next) is None:
                return

    def _listing(self, prefix: str, start: bytes | None) -> Operation[byte_rows.Page]:
        return lambda: byte_rows.page(self._path, prefix, start)

    def _getting(self, keys: list[str]) -> Operation[list[bytes | None]]:
        return lambda: byte_rows.get(self._path, keys)

    def _putting(self, values: dict[str, bytes]) -> Operation[None]:
        now = self._database.now()
        return lambda: byte_rows.put(self._path, values, now=now)

    def _removing(self, keys: list[str]) -> Operation[None]:
        return lambda: byte_rows.remove(self._path, keys)

    def _shown(self, keys: Collection[str]) -> Thunk:
        return lambda: {"namespace": list(self.namespace), "count": len(keys), "keys": _some(keys)}

    def _looking(self, prefix: str) -> Thunk:
        return lambda: {"namespace": list(self.namespace), "prefix": brief(prefix)}


def _some(keys: Iterable[str]) -> list[str]:
    return [brief(key) for key in islice(keys, MOST_SHOWN)]


def _found(values: Sequence[bytes | None]) -> dict[str, Any]:
    there = [value for value in values if value is not None]
    return {"found": len(there), "missing": len(values) - len(there), "bytes": sum(map(len, there))}


def _written(values: Mapping[str, bytes]) -> Outputs:
    return lambda _: {"written": len(values), "bytes": sum(map(len, values.values()))}


def _removed(keys: Collection[str]) -> Outputs:
    return lambda _: {"count": len(keys)}


def _listed(page: byte_rows.Page) -> dict[str, Any]:
    return {"count": len(page.keys), "keys": _some(page.keys)}


def _keys(keys: Any) -> list[str]:
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InvalidInput(f"Keys come as a list of strings, not as {type(keys).__name__}.")
    return [_key(key) for key in keys]


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise InvalidInput(f"A key is a string, not {type(key).__name__} ({safe_repr(key)}).")
    return key


def _pairs(pairs: Any) -> dict[str, bytes]:
    if isinstance(pairs, str | bytes | Mapping) or not isinstance(pairs, Iterable):
        raise InvalidInput(f"Keys and values come as a list of pairs, not as {type(pairs).__name__}.")
    values: dict[str, bytes] = {}
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:  # noqa: PLR2004 - a pair
            raise InvalidInput(f"Keys and values come as pairs, (key, value), not as {safe_repr(pair)}.")
        key, value = pair
        if not isinstance(value, bytes):
            raise InvalidInput(
                f"The value of {safe_repr(key)} must be bytes, not {type(value).__name__}: encode it first."
            )
        values[_key(key)] = value
    return values


def _prefix(prefix: Any) -> str:
    if prefix is not None and not isinstance(prefix, str):
        raise InvalidInput(f"A prefix is a string, not {type(prefix).__name__}.")
    return prefix or ""
