"""`AgentMemoryByteStore`: LangChain's key-value store for bytes, in the database of a memory.

    store = AgentMemoryByteStore("agent.db", namespace=("embeddings",))
    store.mset([("a", b"1"), ("b", b"2")])
    store.mget(["b", "missing"])  # [b"2", None]

Use the store wherever LangChain expects a `ByteStore`, for example with `CacheBackedEmbeddings`. The object caches
nothing, so any number of objects, threads and processes can share one namespace.

A key may contain any characters:

    from langchain_agentmem import AgentMemoryByteStore

    store = AgentMemoryByteStore("agent.db", namespace=("cache",))
    store.mset([("colour:sky", b"blue"), ("colour:grass", b"green"), ("100%", b"any text is a key")])
    print(store.mget(["colour:grass", "missing"]), list(store.yield_keys(prefix="colour:")))

A key is stored unchanged, as UTF-8. It may contain unpaired surrogates. Keys are sorted by their bytes, which is the
order of code points. A prefix has no wildcards.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

from langchain_core.stores import BaseStore
from pydantic import InstanceOf

from langchain_agentmem.base.argument_checks import check_value
from langchain_agentmem.base.concurrency import iterate_in_worker, run_in_worker
from langchain_agentmem.base.namespaces import Namespace, namespace_of, path_of
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.database import Database, MemoryLike, database_of
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.tracing import Thunk

MAX_KEY_BYTES = 2_000
"""The maximum length of a key in UTF-8. PostgreSQL cannot index longer keys."""
PAGE_SIZE = 500
"""The maximum number of keys in one statement, and in one page of a listing."""

_AFTER_ALL_KEYS = b"\xff"  # UTF-8 never contains this byte
_Text: TypeAlias = InstanceOf[str]  # pydantic rejects unpaired surrogates in a `str`
_KEYS, _PAIRS, _PREFIX = Sequence[_Text], Sequence[tuple[_Text, bytes]], _Text | None
"""The types of the arguments: keys, pairs of a key and its value, and a prefix."""


def encode_key(key: str) -> bytes:
    """Encode a key for storage.

    Raises:
        InvalidInput: The key is too long.
    """
    data = key.encode("utf-8", "surrogatepass")
    if len(data) > MAX_KEY_BYTES:
        raise InvalidInput(f"A key can have at most {MAX_KEY_BYTES} bytes, not {len(data)}: {safe_repr(key)}.")
    return data


def erase(tx: Transaction, low: str, high: str) -> int:
    """Delete all values of the namespaces in a range of paths. Return the number of values."""
    counts = query.blob_counts(tx, low=low, high=high)
    for row in counts:
        query.delete_blobs(tx, path=row["path"])
        query.delete_empty_namespaces(tx, path=row["path"])
    return sum(int(row["blobs"]) for row in counts)


def find_problems(tx: Transaction, low: str, high: str) -> list[str]:
    """Describe the damaged values of the namespaces in a range of paths, one sentence each."""
    problems: list[str] = []
    for counts in query.blob_counts(tx, low=low, high=high):
        start, unlisted = b"", int(counts["blobs"])  # a damaged key may not be listed
        while keys := _list_keys(tx, counts["path"], "", start):
            start = keys[-1] + b"\0"
            unlisted -= len(keys)
            for key in keys:
                [row] = _find_blobs(tx, counts["path"], [key])  # one at a time, since values may be large
                if not _is_key(key) or _checksum(key, row["value"]) != row["checksum"]:
                    key_text = safe_repr(key.decode("utf-8", "replace"))
                    problems.append(f"the stored value of the key {key_text} is damaged (checksum mismatch)")
        if unlisted > 0:
            problems.append(f"the keys of {unlisted} stored values are damaged")
    return problems


def _is_key(key: bytes) -> bool:
    try:
        return encode_key(key.decode("utf-8", "surrogatepass")) == key
    except ValueError:
        return False


def _checksum(key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key))


def _find_blobs(tx: Transaction, path: str, keys: Iterable[bytes]) -> Sequence[Row]:
    return query.find_blobs(tx, path=path, keys=json.dumps([key.hex() for key in keys]))


def _list_keys(tx: Transaction, path: str, prefix: str, start: bytes) -> list[bytes]:
    """Return a page of the sorted keys that begin with a prefix and are not less than `start`."""
    prefix_bytes = prefix.encode("utf-8", "surrogatepass")
    # The last byte of UTF-8 is never 0xff, so it can be incremented to get the end of the range.
    end = prefix_bytes[:-1] + bytes((prefix_bytes[-1] + 1,)) if prefix_bytes else _AFTER_ALL_KEYS
    rows = query.blob_keys(tx, path=path, low=max(prefix_bytes, start), high=end, limit=PAGE_SIZE)
    return [bytes(row["key"]) for row in rows]


class AgentMemoryByteStore(BaseStore[str, bytes]):
    """A key-value store of one namespace. Namespaces below it have their own keys.

    A key is any string of at most 2,000 bytes in UTF-8. It is stored unchanged. It may be empty, and may contain NULs
    and unpaired surrogates. A value is `bytes`, at most `MemoryLimits.value_bytes` long (default: 256 MiB).

    Args:
        memory: An `AgentMemory`, or the path or URL of a database. Default: a database in memory.
        namespace: The namespace of the values. Default: the namespace of the running config, else the root.

    Raises:
        InvalidInput: An argument is invalid.
        StorageError: The database cannot be opened.
    """

    def __init__(self, memory: MemoryLike = ":memory:", namespace: Sequence[str] | None = None) -> None:
        if namespace is not None:
            path_of(namespace)  # raise the error for an invalid namespace before the database is created
        database = database_of(memory)
        self._path = path_of(database.scopes.resolve(namespace))
        self._database: Database = database

    @property
    def namespace(self) -> Namespace:
        """The namespace of the values."""
        return namespace_of(self._path)

    def __repr__(self) -> str:
        return f"AgentMemoryByteStore({safe_repr(self._database.engine.path)}, {safe_repr(self.namespace)})"

    # -- reading -----------------------------------------------------------------------------------------------

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the values of keys, all from one snapshot.

        Args:
            keys: The keys, in any number and order. Duplicates are allowed.

        Returns:
            One value for each key, in the order of the keys. None for a missing key.

        Raises:
            InvalidInput: A key is not a string, or is too long.
        """
        checked_keys = check_value(_KEYS, keys, "keys")
        keys_by_bytes = {encode_key(key): key for key in checked_keys}

        def get(tx: Transaction) -> list[bytes | None]:
            values: dict[str, bytes] = {}
            for first in range(0, len(keys_by_bytes), PAGE_SIZE):
                rows = _find_blobs(tx, self._path, islice(keys_by_bytes, first, first + PAGE_SIZE))
                values.update((keys_by_bytes[bytes(row["key"])], bytes(row["value"])) for row in rows)
            return [values.get(key) for key in checked_keys]

        return self._database.read("bytes.get", get, self._make_trace_inputs(checked_keys))

    async def amget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Run `mget` asynchronously."""
        return await run_in_worker(partial(self.mget, keys))

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Return an iterator over the keys in code point order. It reads one page at a time.

        No lock is held between pages, so the store can be written during the iteration, even inside the loop. A key
        that exists during the whole iteration is yielded once. A key added or deleted meanwhile may be yielded or not.

        Args:
            prefix: Yield only keys that begin with this text. It has no wildcards. Default: all keys.

        Raises:
            InvalidInput: The prefix is not a string.
        """
        pages = self._iterate_pages(check_value(_PREFIX, prefix, "prefix") or "")
        return (key for keys in pages for key in keys)

    def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """Run `yield_keys` asynchronously."""
        pages = self._iterate_pages(check_value(_PREFIX, prefix, "prefix") or "")
        return (key async for keys in iterate_in_worker(pages) for key in keys)

    # -- writing -----------------------------------------------------------------------------------------------

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Store values in one transaction, and replace the values of existing keys.

        Args:
            key_value_pairs: Pairs of a key and its value. Of several pairs with the same key, the last is stored.

        Raises:
            InvalidInput: A key is not a string, a value is not `bytes`, or either is too long.
            StorageError: The database failed. Nothing was written.
        """
        values = dict(check_value(_PAIRS, key_value_pairs, "key_value_pairs"))
        # All writers lock the rows in the same order, so they cannot deadlock.
        rows = sorted((encode_key(key), value) for key, value in values.items())
        now = self._database.now()

        def put(tx: Transaction) -> None:
            if values:
                common = {"namespace": queries.ensure_namespace(tx, self._path), "now": now}
                columns = ({"key": key, "checksum": _checksum(key, value), "value": value} for key, value in rows)
                query.put_blob.run_many(tx, [common | row for row in columns])

        self._database.write("bytes.set", put, self._make_trace_inputs(values))

    async def amset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Run `mset` asynchronously."""
        await run_in_worker(partial(self.mset, key_value_pairs), writes=True)

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete keys with their values, in one transaction. Missing keys are ignored.

        Args:
            keys: The keys, in any number and order.

        Raises:
            InvalidInput: A key is not a string, or is too long.
            StorageError: The database failed. Nothing was deleted.
        """
        checked_keys = check_value(_KEYS, keys, "keys")
        encoded_keys = sorted({encode_key(key) for key in checked_keys})

        def delete(tx: Transaction) -> None:
            if encoded_keys:
                query.delete_blob.run_many(tx, [{"path": self._path, "key": key} for key in encoded_keys])
                query.delete_empty_namespaces(tx, path=self._path)

        self._database.write("bytes.delete", delete, self._make_trace_inputs(checked_keys))

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Run `mdelete` asynchronously."""
        await run_in_worker(partial(self.mdelete, keys), writes=True)

    # -- helpers -----------------------------------------------------------------------------------------------

    def _read_page(self, prefix: str, start: bytes) -> list[str]:
        def read(tx: Transaction) -> list[str]:
            return [key.decode("utf-8", "surrogatepass") for key in _list_keys(tx, self._path, prefix, start)]

        return self._database.read("bytes.list", read, lambda: {"namespace": self.namespace, "prefix": prefix})

    def _iterate_pages(self, prefix: str) -> Iterator[list[str]]:
        keys = self._read_page(prefix, b"")
        yield keys
        while len(keys) == PAGE_SIZE:
            keys = self._read_page(prefix, keys[-1].encode("utf-8", "surrogatepass") + b"\0")
            yield keys

    def _make_trace_inputs(self, keys: Iterable[str]) -> Thunk:
        return lambda: {"namespace": self.namespace, "keys": list(keys)}
