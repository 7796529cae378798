"""The log of threads: operations on checkpoints, pending writes and whole threads.

A thread has a root checkpoint namespace, and one for each call of a subgraph. A namespace has checkpoints, each with a
parent. Pending writes are stored under the current checkpoint, and may arrive before it. This module uses neither
LangGraph nor the serializer: values are recipes (see `value_store`), and headers and metadata are bytes.

A *header* is a checkpoint without its values and channel versions. Channel versions are long strings that occur many
times in a checkpoint. They are stored once, in a short form, in a column of their own. Values can therefore be found,
and unused values deleted, without the serializer. In the header, `versions_seen` and `updated_channels` refer to
channels and versions by their indexes in that column.

Times are microseconds since 1970 in UTC.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.base.clock import from_micros, to_micros
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.threads import value_store
from langchain_agentmem.threads.thread_rows import ROOT_NS, Thread, find_thread, make_ns, make_thread, remove_expired
from langchain_agentmem.threads.value_store import Recall, StoredPart, StorePosition, StoreWriter

VERSION_WIDTH = 32
"""The number of digits with which a version begins, as LangGraph's savers write it."""
SHORT_WIDTH = 6
"""The minimum number of digits in the short form of a version."""
_FIELDS = ("v", "ts", "id", "channel_values", "channel_versions", "versions_seen", "updated_channels", "pending_sends")
"""The fields of a checkpoint that `pack_header` knows. Any other fields are stored as a dictionary."""


def next_version(current: str | float | None) -> str:
    """Return a version that follows another and is unique in all forks of the thread.

    Args:
        current: The previous version, from this or another saver; None for the first.

    Raises:
        InvalidInput: The version is neither a string nor a number, or no number with as many digits can follow it.
    """
    suffix = secrets.token_urlsafe(6)
    text = current if isinstance(current, str) else ""
    if current is None or (isinstance(current, int | float) and abs(current) < 10**VERSION_WIDTH):
        text = f"{int(current or 0):0{VERSION_WIDTH}}"
    number = text.partition(".")[0]
    following = f"{int(number) + 1:0{len(number)}}.{suffix}" if number.isdecimal() else ""
    if following <= text:
        problem = f"No version can follow {safe_repr(current)}."
        raise InvalidInput(f"{problem} A version must begin with a number of at most {VERSION_WIDTH} digits.")
    return following


def convert_versions(checkpoint: dict[str, Any], digest: Callable[[Any], str]) -> dict[str, Any]:
    """Convert the numeric versions of another saver's checkpoint to strings.

    Forks of a thread use the same number for different values, and no string version can follow a number. Each number
    therefore becomes a string that sorts like the number and also identifies the value.

    Args:
        checkpoint: The checkpoint.
        digest: A function that returns a string that identifies a value.
    """
    versions, values = checkpoint["channel_versions"], checkpoint["channel_values"]
    if not any(isinstance(version, int | float) for version in versions.values()):
        return checkpoint

    def to_text(channel: str, version: Any) -> Any:
        if not isinstance(version, int | float):
            return version
        is_current = channel in values and version == versions.get(channel)
        return f"{int(version):0{VERSION_WIDTH}}.{version}.{digest(values[channel]) if is_current else ''}"

    seen = {
        node: {channel: to_text(channel, version) for channel, version in channels.items()}
        for node, channels in checkpoint["versions_seen"].items()
    }
    return checkpoint | {
        "channel_versions": {channel: to_text(channel, version) for channel, version in versions.items()},
        "versions_seen": seen,
    }


def shorten_version(version: Any) -> str:
    """Return the stored short form of a version, with fewer leading zeros."""
    if type(version) is str:
        number, dot, suffix = version.partition(".")
        if dot and number.isdecimal() and number.isascii() and len(number) == VERSION_WIDTH:
            return f"{int(number):0{SHORT_WIDTH}}.{suffix}"
    return "=" + json.dumps(version)


def expand_version(text: str) -> Any:
    """Undo `shorten_version`."""
    if text.startswith("="):
        return json.loads(text[1:])
    number, _, suffix = text.partition(".")
    return f"{int(number):0{VERSION_WIDTH}}.{suffix}"


def short_versions(checkpoint: dict[str, Any]) -> dict[str, str]:
    """Return the channel versions of a checkpoint in their short form."""
    return {channel: shorten_version(version) for channel, version in checkpoint["channel_versions"].items()}


def parse_versions(text: str) -> dict[str, str]:
    """Parse the channel versions of a checkpoint.

    The checksum of the header covers this text.

    Raises:
        DamagedValue: The text is not a mapping of versions.
    """
    try:
        versions = json.loads(text)
    except ValueError as error:
        raise value_store.DamagedValue(f"its versions: {error}") from error
    if type(versions) is not dict or not all(type(version) is str for version in versions.values()):
        raise value_store.DamagedValue("its versions are not a mapping of strings")
    return versions


def pack_header(checkpoint: dict[str, Any], versions: dict[str, str]) -> list[Any]:
    """Pack a checkpoint without values and channel versions.

    Args:
        checkpoint: The checkpoint.
        versions: The result of `short_versions` for the checkpoint.

    Returns:
        The input of `unpack_header`: a list of plain values, except in pending sends.
    """
    version_indexes = {version: index for index, version in enumerate(versions.values())}
    channel_indexes = {channel: index for index, channel in enumerate(versions)}
    seen: dict[str, list[Any]] = {}  # for each node: channel, version, channel, version, …
    for node, node_versions in checkpoint.get("versions_seen", {}).items():
        seen[node] = []
        for channel, version in node_versions.items():
            text = shorten_version(version)
            seen[node] += (channel_indexes.get(channel, channel), version_indexes.get(text, text))
    updated = checkpoint.get("updated_channels")
    rest = {name: value for name, value in checkpoint.items() if name not in _FIELDS}
    header = [
        checkpoint.get("v"),
        _compact_time(checkpoint.get("ts")),
        seen,
        [channel_indexes.get(channel, channel) for channel in updated] if type(updated) is list else updated,
        checkpoint.get("pending_sends"),
        rest or None,
    ]
    while header[-1] is None:
        header.pop()
    return header


def unpack_header(header: Any, versions: dict[str, str], checkpoint_id: str, values: dict[str, Any]) -> dict[str, Any]:
    """Undo `pack_header`.

    Args:
        header: The result of `pack_header`.
        versions: The channel versions in their short form.
        checkpoint_id: The id of the checkpoint.
        values: The values of the channels.

    Raises:
        DamagedValue: The value is not a result of `pack_header`.
    """
    if type(header) is not list or len(header) < 3 or type(header[2]) is not dict:  # noqa: PLR2004 - v, ts and seen
        raise value_store.DamagedValue("it is not a checkpoint")
    v, ts, seen, updated, sends, rest = header + [None] * (6 - len(header))
    names, texts = list(versions), list(versions.values())

    def find_channel(index_or_name: Any) -> Any:
        return names[index_or_name] if type(index_or_name) is int else index_or_name

    checkpoint = {
        "v": v,
        "id": checkpoint_id,
        "ts": from_micros(*ts).isoformat() if type(ts) is list else ts,
        "channel_values": values,
        "channel_versions": {channel: expand_version(text) for channel, text in versions.items()},
        "versions_seen": {
            node: {
                find_channel(channel): expand_version(version if type(version) is str else texts[version])
                for channel, version in zip(pairs[::2], pairs[1::2], strict=True)
            }
            for node, pairs in seen.items()
        },
        "updated_channels": list(map(find_channel, updated)) if type(updated) is list else updated,
    }
    if sends is not None:
        checkpoint["pending_sends"] = sends
    return checkpoint | (rest or {})


def _compact_time(ts: Any) -> Any:
    """Compress a LangGraph time to `[microseconds since 1970]`, or return it unchanged."""
    with suppress(ValueError, TypeError, OverflowError):
        at = to_micros(datetime.fromisoformat(ts))
        if from_micros(at).isoformat() == ts:
            return [at]
    return ts


_AFTER_ALL_NAMES = "\U0010ffff" * 8
"""A text that is greater than all ids of checkpoints."""
_VALUE, _WRITE = 2, 3
"""The kinds of rows of the query `load_checkpoints` other than checkpoints."""
ANCESTORS_PAGE = 200
"""The maximum number of ancestors that one query returns."""


class TaskWrite(NamedTuple):
    """A pending write of a task to a channel; `idx` is LangGraph's index of the write."""

    task: str
    idx: int
    path: str
    channel: str
    recipe: value_store.Recipe


class StoredCheckpoint(NamedTuple):
    """A stored checkpoint, with the parts that its values need.

    Attributes:
        thread: Its thread, with its checkpoint namespace.
        name: The id of the checkpoint.
        parent: The id of its parent.
        versions: The channel versions in their short form.
        header: The rest of the checkpoint, as the serializer wrote it.
        metadata: The metadata, as the serializer wrote it.
        values: The recipes of the channels' values.
        writes: The pending writes, unordered.
        parts: The parts that the recipes need.
    """

    thread: Thread
    name: str
    parent: str | None
    versions: dict[str, str]
    header: bytes
    metadata: bytes
    values: dict[str, value_store.Recipe]
    writes: list[TaskWrite]
    parts: dict[int, Any]


FinishFollowUp: TypeAlias = Callable[[Transaction, Thread, Mapping[str, bytes], Recall], None]
FollowUp: TypeAlias = Callable[[Transaction, Thread], FinishFollowUp]
"""The type of callbacks for additional steps of `put`, in two phases.

The callback receives the thread as the saver last read it. It starts its queries without waiting for them, and returns
a function. `put` calls this function after the checkpoint is stored, with the current thread, the recipes of the new
values by channel, and a function that returns the parts that were just written.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint to be stored, without its values.

    Attributes:
        name: The id of the checkpoint.
        parent: The id of its parent, if any.
        run_id: The id of its run, if any.
        versions: The channel versions in their short form.
        header: The rest of the checkpoint, as the serializer wrote it.
        metadata: The metadata, as the serializer wrote it.
        delta: True if reading the checkpoint may need its ancestors (delta channels).
    """

    name: str
    parent: str | None
    run_id: str | None
    versions: dict[str, str]
    header: bytes
    metadata: bytes
    delta: bool


class WritePlan(NamedTuple):
    """The values to be stored, split into parts before the transaction begins.

    Attributes:
        draft: The draft of the parts.
        recipes: The recipe of each value.
        rows: The row of each value.
        split_again: A function that splits the values for a store that lacks parts on which the draft relies.
        last_seen: The thread as the saver last read it, with its root checkpoint namespace.
    """

    draft: value_store.DraftValues
    recipes: list[value_store.Recipe]
    rows: list[dict[str, object]]
    split_again: Callable[[StorePosition], tuple[value_store.DraftValues, list[value_store.Recipe]]]
    last_seen: Thread | None


StoreResult: TypeAlias = tuple[Thread, WritePlan, StoreWriter | None]
"""The written thread, the executed plan, and the writer that locked the part store (None if no part was needed)."""


class CheckpointKey(NamedTuple):
    """The key of a checkpoint, and its metadata."""

    path: str
    thread: str
    ns: str
    ns_id: int
    name: str
    metadata: bytes


def put(
    tx: Transaction,
    at: ThreadKey,
    ns: str,
    checkpoint: Checkpoint,
    plan: WritePlan,
    *,
    retention: Retention | None,
    now: int,
    exact: bool = False,
    follow_up: FollowUp | None = None,
    check: Callable[[Thread | None], None] | None = None,
) -> StoreResult:
    """Store a checkpoint with its new values.

    Args:
        tx: The transaction.
        at: The thread; created if it does not exist.
        ns: The checkpoint namespace.
        checkpoint: The checkpoint.
        plan: The new values, as rows with "channel" and "version".
        retention: The rules for checkpoints to remove afterwards; None for none.
        now: The time, in microseconds since 1970.
        exact: True to search only the namespace of `at` for the thread, see `find_thread`. Default: False.
        follow_up: Starts additional steps, which run after the checkpoint is stored and before others are removed.
        check: A function that is called with the existing thread, or None. It raises if nothing may be stored.

    Returns:
        The thread, the executed plan, and the writer that has locked the part store.
    """
    writer = _open_writer(tx, plan)
    # The queries of the additional steps start early only if no lock of the part store comes after them.
    last_seen = plan.last_seen if ns == ROOT_NS and (writer is not None or retention is None) else None
    finish = None if follow_up is None or last_seen is None or last_seen.ns_id is None else follow_up(tx, last_seen)
    existing = find_thread(tx, at, ns, exact=exact)
    if check is not None:
        check(existing)
    thread, ns_id, plan, rows, writer = _store_values(tx, existing, at, ns, plan, writer, now)
    if retention is not None and (retention.is_off or thread.delta or checkpoint.delta):
        retention = None
    if retention is not None and writer is None:
        value_store.lock_store(tx, thread.store)  # locked first: see `thread_rows`
    if rows:
        query.insert_value.run_many(tx, rows)
    fields = {name: getattr(checkpoint, name) for name in ("name", "parent", "run_id", "metadata")}
    fields |= {"versions": as_json(checkpoint.versions), "head": checkpoint.header}
    query.insert_checkpoint(tx, ns_id=ns_id, now=now, **fields)
    if checkpoint.delta and not thread.delta:
        query.mark_delta(tx, thread=thread.id)
    if follow_up is not None:
        # Repeat the early queries if the thread is another one now.
        is_same_thread = last_seen and existing and (last_seen.id, last_seen.ns_id) == (existing.id, existing.ns_id)
        if finish is None or not is_same_thread:
            finish = follow_up(tx, thread)
        recall = value_store.recall_nothing if writer is None else writer.recall
        finish(tx, thread, {str(row["channel"]): row["recipe"] for row in rows}, recall)
    if retention is not None:
        remove_expired(tx, thread, ns_id, ns, checkpoint.name, retention, now)
    return thread, plan, writer


def start_values_query(tx: Transaction, thread: Thread, channels: Sequence[str], checkpoint: str | None) -> Rows:
    """Start the query for the values of some channels in a checkpoint, without waiting.

    Args:
        tx: The transaction.
        thread: The thread, with its checkpoint namespace.
        channels: The names of the channels.
        checkpoint: The id of the checkpoint; None for none.
    """
    if checkpoint is None:
        return []
    return query.channel_values.lazy(tx, ns_id=thread.ns_id, name=checkpoint, keys=json.dumps(list(channels)))


def read_new_parts(
    tx: Transaction,
    thread: Thread,
    values: Mapping[str, bytes],
    parent_values: Rows,
    recall: Recall,
    *,
    parent: str | None,
    deltas: Sequence[str] = (),
    everything: bool = False,
) -> list[StoredPart]:
    """Return the channel parts that the parent checkpoint lacks, in channel order.

    Parts that the new values contain more often than the parent come last. There can be such parts, because equal
    messages without ids share one part.

    Args:
        tx: The transaction.
        thread: The thread, with its checkpoint namespace.
        values: The recipes of the new values, by channel.
        parent_values: The result of `start_values_query` for the parent.
        recall: The function that returns the parts that were just written.
        parent: The id of the parent.
        deltas: The channels (LangGraph's DeltaChannels) whose new parts are read from the parent's pending writes.
        everything: True to return the parts of the parent too. Default: False.
    """
    old_ranges = [each for row in parent_values for each in value_store.ranges_of(_unpack_recipe(row))]
    recipes = [value_store.unpack(recipe) for recipe in values.values()]
    if deltas and parent is not None:
        selected = {"checkpoints": json.dumps([parent]), "channels": json.dumps(list(deltas))}
        rows = query.writes_of_channels(tx, ns_id=thread.ns_id, **selected)
        recipes += [_unpack_recipe(row) for row in sorted(rows, key=itemgetter("path", "task", "idx"))]
    new_ranges = [each for recipe in recipes for each in value_store.ranges_of(recipe)]
    old_counts = value_store.count_repeats(old_ranges)
    ranges = list(value_store.subtract_ranges(new_ranges, old_ranges))
    for number, times in sorted(value_store.count_repeats(new_ranges).items()):
        if any(low <= number < high for low, high in old_ranges):
            ranges += [(number, number + 1)] * (times - (old_counts[number] or 1))
    ranges_to_read = [*old_ranges, *ranges] if everything else ranges
    recipe = [value_store.LIST, *value_store.encode_ranges(ranges_to_read)]
    parts = value_store.fetch_parts(tx, thread.store.store_id, [recipe], recall)
    return [parts[number] for low, high in ranges_to_read for number in range(low, high) if number in parts]


def put_writes(
    tx: Transaction,
    at: ThreadKey,
    ns: str,
    checkpoint: str,
    plan: WritePlan,
    *,
    now: int,
    run_id: str | None = None,
    exact: bool = False,
    before_insert: Callable[[Transaction, Thread], None] | None = None,
    check: Callable[[Thread | None], None] | None = None,
) -> StoreResult:
    """Store the pending writes of a task.

    Args:
        tx: The transaction.
        at: The thread; created if it does not exist.
        ns: The checkpoint namespace.
        checkpoint: The id of the current checkpoint, which may not be stored yet.
        plan: The values, as rows with "task", "idx", "path" and "channel".
        now: The time, in microseconds since 1970.
        run_id: The id of the task's run, if it has one.
        exact: As for `put`. Default: False.
        before_insert: Called before the writes are stored. It can still check if another run stored this task's result.
        check: As for `put`.

    Returns:
        As for `put`.
    """
    writer = _open_writer(tx, plan)
    existing = find_thread(tx, at, ns, exact=exact)
    if check is not None:
        check(existing)
    thread, _, plan, rows, writer = _store_values(tx, existing, at, ns, plan, writer, now)
    if before_insert is not None:
        before_insert(tx, thread)
    if rows:
        query.insert_write.run_many(tx, [{"checkpoint": checkpoint, "run_id": run_id, **row} for row in rows])
    return thread, plan, writer


def get(tx: Transaction, at: ThreadKey, ns: str, checkpoint: str | None, recall: Recall) -> StoredCheckpoint | None:
    """Read one checkpoint, in a fixed number of queries for any length of history.

    Args:
        tx: The transaction.
        at: The thread.
        ns: The checkpoint namespace.
        checkpoint: The id of the checkpoint; None for the newest.
        recall: A function that returns cached parts.
    """
    return next(iter(load_range(tx, at, ns, checkpoint, recall) or ()), None)


def load_range(
    tx: Transaction,
    at: ThreadKey,
    ns: str | None,
    checkpoint: str | None,
    recall: Recall,
    *,
    before: str | None = None,
    limit: int = 1,
) -> list[StoredCheckpoint] | None:
    """Read the newest checkpoints of a checkpoint namespace, newest first.

    Args:
        tx: The transaction.
        at: The thread.
        ns: The checkpoint namespace. None for all: the result is then None if the thread has subgraphs, or is not in
            the namespace of `at`.
        checkpoint: The id of the only checkpoint; None for all.
        recall: A function that returns cached parts.
        before: The exclusive upper bound of the ids. Default: none.
        limit: The maximum number. Default: 1.
    """
    rows = _start_query(tx, at, ns or ROOT_NS, checkpoint, before, limit)
    subgraphs = query.any_subgraph.lazy(tx, path=at.path, name=at.name) if ns is None else ()
    thread = find_thread(tx, at, ns or ROOT_NS, exact=ns is None)
    if ns is None and (thread is None or subgraphs):
        return None
    if thread is None or thread.ns_id is None:
        return []
    if thread.path != at.path:  # a thread of the root namespace was not found
        rows = _start_query(tx, ThreadKey(thread.path, at.name), ns or ROOT_NS, checkpoint, before, limit)
    return _finish_queries(tx, thread, [rows], recall)


def _start_query(
    tx: Transaction, at: ThreadKey, ns: str, checkpoint: str | None, before: str | None = None, limit: int = 1
) -> Rows:
    """Start the query for checkpoints with their values and pending writes, without waiting."""
    low, high = checkpoint or "", before or _AFTER_ALL_NAMES
    if checkpoint is not None:
        high = checkpoint + "\1"  # no id is between these two
    return query.load_checkpoints.lazy(tx, path=at.path, name=at.name, ns=ns, low=low, high=high, limit=limit)


def _finish_queries(
    tx: Transaction, thread: Thread, queries: Sequence[Rows], recall: Recall
) -> list[StoredCheckpoint]:  # reads the results, and the parts that their recipes need
    found: list[StoredCheckpoint] = []
    parts: dict[int, Any] = {}
    for rows in queries:
        selected: list[Row] = []
        values: dict[tuple[str, str], Row] = {}
        writes: dict[str, list[Row]] = {}
        for row in rows:
            kind = row["kind"]
            if kind == _VALUE:
                values[row["channel"], row["version"]] = row
            elif kind == _WRITE:
                writes.setdefault(row["name"], []).append(row)
            else:
                selected.append(row)
        for row in sorted(selected, key=itemgetter("name"), reverse=True):
            name, parent, header, metadata = row["name"], row["parent"], bytes(row["data"]), bytes(row["metadata"])
            try:
                versions = parse_versions(row["version"])
                stored = {key[0]: _unpack_recipe(values[key], "data") for key in versions.items() if key in values}
                task_writes = [
                    TaskWrite(each["task"], each["idx"], each["parent"], each["channel"], _unpack_recipe(each, "data"))
                    for each in writes.get(name, ())
                ]
            except value_store.DamagedValue as error:
                error.checkpoint = name
                raise
            found.append(StoredCheckpoint(thread, name, parent, versions, header, metadata, stored, task_writes, parts))
    recipes = [recipe for each in found for recipe in each.values.values()]
    recipes += [write.recipe for each in found for write in each.writes]
    parts.update(value_store.fetch_parts(tx, thread.store.store_id, recipes, recall))
    return found


class KeyFilter(NamedTuple):
    """The filter of a checkpoint listing.

    Attributes:
        at: The thread; None for all.
        low: The inclusive lower bound of the namespace paths. It is used only without a thread, as is `high`.
        high: The exclusive upper bound of the namespace paths.
        ns: The checkpoint namespace; None for all.
        name: The id of a single checkpoint; None for all.
        before: The exclusive upper bound of the checkpoint ids; None for no bound.
    """

    at: ThreadKey | None
    low: str
    high: str
    ns: str | None = None
    name: str | None = None
    before: str | None = None


def list_keys(tx: Transaction, key_filter: KeyFilter, after: CheckpointKey | None, limit: int) -> list[CheckpointKey]:
    """Return a page of checkpoint keys, newest first.

    Args:
        tx: The transaction.
        key_filter: The filter.
        after: The last key of the previous page.
        limit: The maximum number.
    """
    at, low, high, ns, name, before = key_filter
    thread = None if at is None else find_thread(tx, at, ns or ROOT_NS)
    page = {"after": None, "after_ns_id": None} if after is None else {"after": after.name, "after_ns_id": after.ns_id}
    params = {"ns": ns, "name": name, "before": before, "limit": limit} | page
    rows: Rows = ()
    if at is None:
        rows = query.checkpoint_keys(tx, low=low, high=high, **params)
    elif thread is not None and (ns is None or name is not None):
        rows = query.thread_checkpoint_keys(tx, thread=thread.id, **params)
    elif thread is not None and thread.ns_id is not None:
        rows = query.ns_checkpoint_keys(tx, ns_id=thread.ns_id, before=page["after"] or before, limit=limit)
    return [
        CheckpointKey(row["path"], row["thread"], row["ns"], row["ns_id"], row["name"], bytes(row["metadata"]))
        for row in rows
    ]


def load_keys(
    tx: Transaction, page: Sequence[CheckpointKey], recall: Recall
) -> list[tuple[CheckpointKey, StoredCheckpoint]]:
    """Load the checkpoints of a page of keys, without those removed meanwhile."""
    by_ns: dict[int, list[CheckpointKey]] = {}
    for key in page:
        by_ns.setdefault(key.ns_id, []).append(key)
    loaded: dict[tuple[int, str], StoredCheckpoint] = {}
    for ns_id, group in by_ns.items():
        at, ns = ThreadKey(group[0].path, group[0].thread), group[0].ns
        queries = [_start_query(tx, at, ns, key.name) for key in group]
        thread = find_thread(tx, at, ns, exact=True)
        if thread is not None and thread.ns_id == ns_id:
            checkpoints = _finish_queries(tx, thread, queries, recall)
            loaded.update(((ns_id, checkpoint.name), checkpoint) for checkpoint in checkpoints)
    return [(key, loaded[key.ns_id, key.name]) for key in page if (key.ns_id, key.name) in loaded]


def load_ancestors(
    tx: Transaction, at: ThreadKey, ns: str, start: str | None, channels: Iterable[str], recall: Recall
) -> list[StoredCheckpoint]:
    """Load channels of a checkpoint's ancestors, back to a stored value of each channel.

    Args:
        tx: The transaction.
        at: The thread.
        ns: The checkpoint namespace.
        start: The id of the checkpoint; None for the newest.
        channels: The names of the channels.
        recall: A function that returns cached parts.

    Returns:
        The ancestors, the parent first, with only the values and writes of these channels.
    """
    thread = find_thread(tx, at, ns)
    if thread is None or thread.ns_id is None:
        return []
    if start is None:
        start = next((row["name"] for row in query.latest_checkpoint(tx, ns_id=thread.ns_id)), None)
    found: dict[str, StoredCheckpoint] = {}
    parts: dict[int, Any] = {}
    missing = set(channels)
    while missing and (rows := query.checkpoint_ancestors(tx, ns_id=thread.ns_id, name=start, limit=ANCESTORS_PAGE)):
        # Skip known checkpoints: one that was stored twice can be its own ancestor, which would be an endless loop.
        batch = {row["name"]: parse_versions(row["versions"]) for row in rows if row["name"] not in found}
        selection = {"ns_id": thread.ns_id, "channels": json.dumps(sorted(missing))}
        versions = {each[channel] for each in batch.values() for channel in missing & each.keys()}
        stored = query.values_of_versions(tx, versions=json.dumps(sorted(versions)), **selection)
        recipes = {(row["channel"], row["version"]): row for row in stored}
        for ancestor, own_versions in batch.items():
            if missing:
                stored_rows = [recipes[key] for key in own_versions.items() if key[0] in missing and key in recipes]
                values = {row["channel"]: _unpack_recipe(row) for row in stored_rows}
                found[ancestor] = StoredCheckpoint(thread, ancestor, None, own_versions, b"", b"", values, [], parts)
                missing -= values.keys()
        reached_ids = json.dumps([ancestor for ancestor in batch if ancestor in found])
        for row in query.writes_of_channels(tx, checkpoints=reached_ids, **selection):
            found[row["checkpoint"]].writes.append(_read_task_write(row))
        start = rows[-1]["name"] if batch else None
    needed = [recipe for each in found.values() for recipe in each.values.values()]
    needed += [write.recipe for each in found.values() for write in each.writes]
    parts.update(value_store.fetch_parts(tx, thread.store.store_id, needed, recall))
    return [*found.values()]


def _open_writer(tx: Transaction, plan: WritePlan) -> StoreWriter | None:
    """Lock the part store of a plan before the thread is read, if the plan needs parts."""
    if plan.draft.store is None or not any(map(value_store.has_parts, plan.recipes)):
        return None
    return StoreWriter(tx, plan.draft.store.store_id, plan.draft.parts)


def _store_values(
    tx: Transaction,
    existing: Thread | None,
    at: ThreadKey,
    ns: str,
    plan: WritePlan,
    writer: StoreWriter | None,
    now: int,
) -> tuple[Thread, int, WritePlan, list[dict[str, Any]], StoreWriter | None]:
    """Write the parts of a plan, and return the rows to insert.

    Create the thread if it is missing. Split the values again if the store lacks parts on which the plan relies.
    """
    thread = make_thread(tx, at.path, at.name, now) if existing is None else existing
    ns_id = thread.ns_id if thread.ns_id is not None else make_ns(tx, thread, ns)
    if not value_store.has_relied_parts(tx, thread.store, plan.draft):
        draft, split = plan.split_again(thread.store)
        plan, writer = plan._replace(draft=draft, recipes=split), None
    recipes, writer = value_store.write_parts(tx, thread.store, plan.draft, plan.recipes, writer)
    rows = [{"ns_id": ns_id, **row, "recipe": each} for row, each in zip(plan.rows, recipes, strict=True)]
    return thread._replace(ns_id=ns_id), ns_id, plan, rows, writer


def _read_task_write(row: Row) -> TaskWrite:
    return TaskWrite(row["task"], row["idx"], row["path"], row["channel"], _unpack_recipe(row))


def _unpack_recipe(row: Row, column: str = "recipe") -> value_store.Recipe:
    try:
        return value_store.unpack(row[column])
    except value_store.DamagedValue as error:
        raise value_store.DamagedValue(f"the value of the channel {safe_repr(row['channel'])}: {error}") from error
