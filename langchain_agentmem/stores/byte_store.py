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

A key is kept exactly: as UTF-8, unpaired surrogates included, compared byte by byte, which is the
order of code points. Nothing in a key means anything to a search. Long keys are cut in two, since an index of
PostgreSQL has no room for them; the digest of what was cut off tells them apart.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from langchain_core.stores import BaseStore

from langchain_agentmem.base.concurrency import in_worker, iterate_in_worker
from langchain_agentmem.base.namespaces import Namespace, namespace_of, path_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.database import Database, MemoryLike, database_of
from langchain_agentmem.storage.queries import digest
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.tracing import Thunk

HEAD_BYTES = 2_000
"""So much of a key is in the index; PostgreSQL allows some 2,700 bytes for the whole entry."""
KEYS_AT_ONCE = 500
"""Keys that one statement asks for, and that one page of a listing holds."""
BYTES_AT_ONCE = 8_000_000
"""Values that go through memory together in an export or a check, but for a single one that is larger."""

_BEHIND_ALL = b"\xff"  # no UTF-8 has this byte


class Cut(NamedTuple):
    """A key as it is stored."""

    head: bytes
    rest: bytes
    mark: bytes


class KeyPage(NamedTuple):
    """Some keys in order, and where the next page begins; None after the last."""

    keys: list[str]
    next: bytes | None


def cut(key: str | bytes) -> Cut:
    """A key as it is stored.

    Args:
        key: The key, or its bytes.
    """
    data = key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass")
    rest = data[HEAD_BYTES:]
    return Cut(data[:HEAD_BYTES], rest, digest(rest) if rest else b"")


def get(tx: Transaction, path: str, keys: Sequence[str]) -> list[bytes | None]:
    """The values of keys.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        keys: Any keys, in any order, also twice.

    Returns:
        A value for each key, None where there is none.
    """
    places = {cut(key): key for key in keys}
    found: dict[str, bytes] = {}
    for some in _parts(list(places)):
        rows = query.find_blobs(tx, path=path, keys=_listed_keys(some))
        found.update((places[_place(row)], bytes(row["value"])) for row in rows)
    return [found.get(key) for key in keys]


def put(tx: Transaction, path: str, values: Mapping[str, bytes], *, now: int) -> None:
    """Keep values, in the place of what their keys had.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        values: Value by key.
        now: When.
    """
    if not values:
        return
    namespace = queries.number_of(tx, path)
    # In the order of their keys, so that two writers of the same keys never wait for each other in a circle.
    rows = [_row(namespace, place, value, now) for place, value in sorted((cut(key), values[key]) for key in values)]
    query.put_blob.many(tx, rows)


def remove(tx: Transaction, path: str, keys: Iterable[str]) -> None:
    """Delete keys with their values; those that are not there are ignored.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        keys: Which.
    """
    if rows := [{"path": path, "head": at.head, "mark": at.mark} for at in sorted({cut(key) for key in keys})]:
        query.delete_blob.many(tx, rows)
        query.delete_empty_namespaces(tx, path=path)


def page(tx: Transaction, path: str, prefix: str, start: bytes | None = None, *, limit: int = KEYS_AT_ONCE) -> KeyPage:
    """A page of the keys that begin with a prefix, in order.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        prefix: What they begin with; empty for all.
        start: Where the page begins, as the page before says. Default: with the first key.
        limit: Most keys.
    """
    rows = _rows(tx, path, prefix, start, limit)
    return KeyPage([_key_of_row(row) for row in rows], _after(rows[-1]) if len(rows) == limit else None)


def counts(tx: Transaction, low: str, high: str) -> list[tuple[str, int]]:
    """The namespaces in a range of paths that hold values, and how many each holds."""
    rows = query.blob_counts(tx, low=low, high=high)
    return [(row["path"], int(row["blobs"])) for row in rows]


def erase(tx: Transaction, low: str, high: str) -> int:
    """Delete every value of the namespaces in a range of paths. Returns how many there were."""
    held = counts(tx, low, high)
    for path, _ in held:
        query.delete_blobs(tx, path=path)
        query.delete_empty_namespaces(tx, path=path)
    return sum(number for _, number in held)


def problems(tx: Transaction, low: str, high: str) -> list[str]:
    """What is wrong with the values of the namespaces in a range of paths, in sentences."""
    found: list[str] = []
    for path, held in counts(tx, low, high):
        seen = 0
        start: bytes | None = b""
        while start is not None:
            rows, start = _some(tx, path, start)
            seen += len(rows)
            for row in rows:
                data = bytes(row["head"]) + bytes(row["rest"])
                key = data.decode("utf-8", "replace")
                if not _is_key(data) or _place(row) != cut(data):
                    found.append(f"the key {safe_repr(key)} of a stored value is not what was stored")
                if zlib.crc32(row["value"]) != row["checksum"]:
                    found.append(f"the stored value of the key {safe_repr(key)} is not what was stored")
        if seen < held:
            found.append(f"the keys of {held - seen} stored values are not what was stored")
    return found


def _is_key(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _rows(tx: Transaction, path: str, prefix: str, start: bytes | None, limit: int) -> Sequence[Row]:
    first = prefix.encode("utf-8", "surrogatepass")
    low = cut(first if start is None else start)
    # No byte of UTF-8 is the last there is, so the one after it ends the range of a prefix.
    high = cut(first[:-1] + bytes((first[-1] + 1,)) if first else _BEHIND_ALL)
    return query.blob_keys(
        tx, path=path, low_head=low.head, low_rest=low.rest, high_head=high.head, high_rest=high.rest, limit=limit
    )


def _some(tx: Transaction, path: str, start: bytes | None) -> tuple[list[Row], bytes | None]:
    """Whole rows in the order of their keys, as many as may go through memory together, and where to go on."""
    listed = _rows(tx, path, "", start, KEYS_AT_ONCE)
    taken: list[Row] = []
    size = 0
    for row in listed:
        size += row["size"]
        if taken and size > BYTES_AT_ONCE:
            break
        taken.append(row)
    places = [_place(row) for row in taken]
    rows = query.find_blobs(tx, path=path, keys=_listed_keys(places))
    more = len(taken) < len(listed) or len(listed) == KEYS_AT_ONCE
    return sorted(rows, key=_place), _after(taken[-1]) if more else None


def _parts(places: list[Cut]) -> Iterator[list[Cut]]:
    for first in range(0, len(places), KEYS_AT_ONCE):
        yield places[first : first + KEYS_AT_ONCE]


def _listed_keys(places: Iterable[Cut]) -> str:
    return json.dumps([[at.head.hex(), at.mark.hex()] for at in places])


def _place(row: Row) -> Cut:
    return Cut(bytes(row["head"]), bytes(row["rest"]), bytes(row["mark"]))


def _key_of_row(row: Row) -> str:
    return (bytes(row["head"]) + bytes(row["rest"])).decode("utf-8", "surrogatepass")


def _after(row: Row) -> bytes:
    """The first key that comes behind this one."""
    return bytes(row["head"]) + bytes(row["rest"]) + b"\0"


def _row(namespace: int, at: Cut, value: bytes, now: int) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "head": at.head,
        "mark": at.mark,
        "rest": at.rest,
        "checksum": zlib.crc32(value),
        "now": now,
        "value": value,
    }


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

    def __init__(self, memory: MemoryLike = ":memory:", namespace: Sequence[str] | None = None) -> None:
        if namespace is not None:
            path_of(namespace)  # a wrong one makes no database
        database = database_of(memory)
        self._path = path_of(database.scopes.resolve(namespace))
        self._database: Database = database

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
        return self._database.read("bytes.get", lambda tx: get(tx, self._path, wanted), self._inputs(wanted))

    async def amget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Async version of `mget`."""
        return await in_worker(partial(self.mget, keys))

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
        """Async version of `yield_keys`."""
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
        values, now = _pairs(key_value_pairs), self._database.now()
        do = partial(put, path=self._path, values=values, now=now)
        self._database.write("bytes.set", do, self._inputs(values))

    async def amset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Async version of `mset`."""
        await in_worker(partial(self.mset, key_value_pairs), writes=True)

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete keys with their values, in one transaction. Those that are not there are ignored.

        Args:
            keys: Any number.

        Raises:
            InvalidInput: A key is not a string.
            StorageError: The database failed. Nothing was deleted.
        """
        given = _keys(keys)
        do = partial(remove, path=self._path, keys=given)
        self._database.write("bytes.delete", do, self._inputs(given))

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Async version of `mdelete`."""
        await in_worker(partial(self.mdelete, keys), writes=True)

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _page(self, prefix: str, start: bytes | None) -> KeyPage:
        do = partial(page, path=self._path, prefix=prefix, start=start)
        return self._database.read("bytes.list", do, lambda: {"namespace": self.namespace, "prefix": prefix})

    def _pages(self, prefix: str) -> Iterator[list[str]]:
        start: bytes | None = b""
        while start is not None:
            keys, start = self._page(prefix, start or None)
            yield keys

    def _yielded(self, prefix: str) -> Iterator[str]:
        for keys in self._pages(prefix):
            yield from keys

    async def _ayielded(self, prefix: str) -> AsyncIterator[str]:
        async for keys in iterate_in_worker(self._pages(prefix)):
            for key in keys:
                yield key

    def _inputs(self, keys: Iterable[str]) -> Thunk:
        return lambda: {"namespace": self.namespace, "keys": list(keys)}


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
