"""Values by key, in namespaces: the operations of a byte store, and its values as records.

A key is any string, and is kept exactly: as UTF-8, unpaired surrogates included, compared byte by byte, which is the
order of code points. Nothing in a key means anything to a search. Long keys are cut in two, since an index of
PostgreSQL has no room for them; the digest of what was cut off tells them apart.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Steps, queries, query
from langchain_agentmem.storage.queries import digest
from langchain_agentmem.storage.steps import Row

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


class Page(NamedTuple):
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


def get(path: str, keys: Sequence[str]) -> Steps[list[bytes | None]]:
    """The values of keys.

    Args:
        path: The path of the namespace.
        keys: Any keys, in any order, also twice.

    Returns:
        A value for each key, None where there is none.
    """
    places = {cut(key): key for key in keys}
    found: dict[str, bytes] = {}
    for some in _parts(list(places)):
        rows = yield query.find_blobs(path=path, keys=_listed(some))
        found.update((places[_place(row)], bytes(row["value"])) for row in rows)
    return [found.get(key) for key in keys]


def put(path: str, values: Mapping[str, bytes], *, now: int) -> Steps[None]:
    """Keep values, in the place of what their keys had.

    Args:
        path: The path of the namespace.
        values: Value by key.
        now: When.
    """
    if not values:
        return
    namespace = yield from queries.number_of(path)
    # In the order of their keys, so that two writers of the same keys never wait for each other in a circle.
    rows = [_row(namespace, place, value, now) for place, value in sorted((cut(key), values[key]) for key in values)]
    yield query.put_blob.many(rows)


def remove(path: str, keys: Iterable[str]) -> Steps[None]:
    """Delete keys with their values; those that are not there are ignored.

    Args:
        path: The path of the namespace.
        keys: Which.
    """
    if rows := [{"path": path, "head": at.head, "mark": at.mark} for at in sorted({cut(key) for key in keys})]:
        yield query.delete_blob.many(rows)
        yield query.delete_empty_namespaces(path=path)


def page(path: str, prefix: str, start: bytes | None = None, *, limit: int = KEYS_AT_ONCE) -> Steps[Page]:
    """A page of the keys that begin with a prefix, in order.

    Args:
        path: The path of the namespace.
        prefix: What they begin with; empty for all.
        start: Where the page begins, as the page before says. Default: with the first key.
        limit: Most keys.
    """
    rows = yield from _rows(path, prefix, start, limit)
    return Page([_key(row) for row in rows], _after(rows[-1]) if len(rows) == limit else None)


def counts(low: str, high: str) -> Steps[list[tuple[str, int]]]:
    """The namespaces in a range of paths that hold values, and how many each holds."""
    rows = yield query.blob_counts(low=low, high=high)
    return [(row["path"], int(row["blobs"])) for row in rows]


def erase(low: str, high: str) -> Steps[int]:
    """Delete every value of the namespaces in a range of paths. Returns how many there were."""
    held = yield from counts(low, high)
    for path, _ in held:
        yield query.delete_blobs(path=path)
        yield query.delete_empty_namespaces(path=path)
    return sum(number for _, number in held)


def dump(path: str, start: bytes | None = None) -> Steps[tuple[list[dict[str, Any]], bytes | None]]:
    """Some values of a namespace as records that JSON can hold: as many as may go through memory together.

    Args:
        path: The path of the namespace.
        start: Where to begin, as the call before says. Default: with the first.

    Returns:
        The records, and where to go on; None after the last.
    """
    rows, following = yield from _some(path, start)
    return [
        {
            "record": "blob",
            "key": _text(bytes(row["head"]) + bytes(row["rest"])),
            "value": _text(row["value"]),
            "checksum": row["checksum"],
            "updated_at": row["updated_at"],
        }
        for row in rows
    ], following


def restore(path: str, records: Iterable[Mapping[str, Any]]) -> Steps[int]:
    """Keep the values of records, but where a key has one already.

    Args:
        path: The path of the namespace.
        records: What `dump` gave.

    Returns:
        How many were added.

    Raises:
        InvalidInput: A record is damaged.
    """
    read = sorted(_read(record) for record in records)
    if not read:
        return 0
    namespace = yield from queries.number_of(path)
    added = 0
    for place, value, written in read:
        added += len((yield query.add_blob(**_row(namespace, place, value, written))))
    return added


def problems(low: str, high: str) -> Steps[list[str]]:
    """What is wrong with the values of the namespaces in a range of paths, in sentences."""
    found: list[str] = []
    for path, _ in (yield from counts(low, high)):
        start: bytes | None = b""
        while start is not None:
            rows, start = yield from _some(path, start)
            for row in rows:
                if _place(row) != cut(bytes(row["head"]) + bytes(row["rest"])):
                    found.append(f"the key {safe_repr(_key(row))} of a stored value is not what was stored")
                if zlib.crc32(row["value"]) != row["checksum"]:
                    found.append(f"the stored value of the key {safe_repr(_key(row))} is not what was stored")
    return found


def _rows(path: str, prefix: str, start: bytes | None, limit: int) -> Steps[Sequence[Row]]:
    first = prefix.encode("utf-8", "surrogatepass")
    low = cut(first if start is None else start)
    # No byte of UTF-8 is the last there is, so the one after it ends the range of a prefix.
    high = cut(first[:-1] + bytes((first[-1] + 1,)) if first else _BEHIND_ALL)
    return (
        yield query.blob_keys(
            path=path, low_head=low.head, low_rest=low.rest, high_head=high.head, high_rest=high.rest, limit=limit
        )
    )


def _some(path: str, start: bytes | None) -> Steps[tuple[list[Row], bytes | None]]:
    """Whole rows in the order of their keys, as many as may go through memory together, and where to go on."""
    listed = yield from _rows(path, "", start, KEYS_AT_ONCE)
    taken: list[Row] = []
    size = 0
    for row in listed:
        size += row["size"]
        if taken and size > BYTES_AT_ONCE:
            break
        taken.append(row)
    places = [_place(row) for row in taken]
    rows = yield query.find_blobs(path=path, keys=_listed(places))
    more = len(taken) < len(listed) or len(listed) == KEYS_AT_ONCE
    return sorted(rows, key=_place), _after(taken[-1]) if more else None


def _parts(places: list[Cut]) -> Iterator[list[Cut]]:
    for first in range(0, len(places), KEYS_AT_ONCE):
        yield places[first : first + KEYS_AT_ONCE]


def _listed(places: Iterable[Cut]) -> str:
    return json.dumps([[at.head.hex(), at.mark.hex()] for at in places])


def _place(row: Row) -> Cut:
    return Cut(bytes(row["head"]), bytes(row["rest"]), bytes(row["mark"]))


def _key(row: Row) -> str:
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


def _read(record: Mapping[str, Any]) -> tuple[Cut, bytes, int]:
    try:
        key = b64decode(record["key"], validate=True)
        key.decode("utf-8", "surrogatepass")
        value, written = b64decode(record["value"], validate=True), record["updated_at"]
        intact = zlib.crc32(value) == record["checksum"]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"A record of a stored value is damaged: {safe_repr(error)}.") from error
    if not intact or isinstance(written, bool) or not isinstance(written, int):
        raise InvalidInput(f"The record of the stored value {safe_repr(key[:100])} is damaged.")
    return cut(key), value, written


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")
