"""The listings of the checkpointer, and the comparison of two checkpoints.

`list_pages` returns checkpoints with their values, newest first, a page at a time. `history` returns them without
values. `changes` returns the values in which two checkpoints differ. It compares lists of messages by the numbers under
which the database stores the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_agentmem.base.argument_checks import NO_LIMIT, check_flag, check_instance, check_integer
from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.encoding import value_at
from langchain_agentmem.base.namespaces import ThreadKey, check_config, configurable_of, path_range
from langchain_agentmem.checkpoints.checkpoint_codec import check_id, decode_blob, parse_config, report_damage
from langchain_agentmem.checkpoints.rewind_follower import find_pregel_loop
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads import checkpoint_log, value_store
from langchain_agentmem.threads.checkpoint_log import CheckpointKey, KeyFilter, StoredCheckpoint
from langchain_agentmem.threads.thread_rows import ROOT_NS, find_thread
from langchain_agentmem.threads.value_codec import ELEMENTS
from langchain_agentmem.threads.value_store import LIST, MESSAGE_FORM, Range

if TYPE_CHECKING:
    from langchain_agentmem.checkpoints.checkpoint_saver import AgentMemorySaver

FIRST_BATCH, LARGEST_BATCH = 500, 8_000
"""The maximum number of checkpoint keys of the first query, and of any query.

Each query may sort all remaining keys. The maximum grows with each query, so that a long listing needs few queries.
"""
LARGEST_PAGE = 16
"""The maximum number of checkpoints per page."""
MAX_SUBGRAPHS = 50
"""The maximum number of subgraphs in a `CheckpointHistory`."""


def list_pages(
    saver: AgentMemorySaver,
    config: RunnableConfig | None,
    metadata_filter: Any,
    before: RunnableConfig | None,
    limit: int | None,
) -> Iterator[Sequence[CheckpointTuple]]:
    """Check the arguments of `list`, and return the checkpoints a page at a time.

    No lock is held between pages. Without a limit, the first page has one checkpoint, and later pages are larger. So a
    caller that needs few checkpoints reads few.

    Args:
        saver: The saver.
        config: The config of the thread, and optionally of a subgraph or checkpoint; None for all threads.
        metadata_filter: The values that the metadata must have, by key. A key with dots is a path to a nested value.
            None for no filter.
        before: The config of a checkpoint. Only checkpoints older than it are returned. None for no bound.
        limit: The maximum number of checkpoints; None for all.

    Raises:
        InvalidInput: The config names no thread, `before` names no checkpoint, the filter is not a dictionary, or the
            limit is not a nonnegative integer.
        CheckpointUnreadable: A checkpoint is damaged, or was written with another serializer.
    """
    scopes = saver.database.scopes
    at, ns, only_id = (None, None, None) if config is None else parse_config(config, scopes, whole_thread=True)
    low, high = path_range(scopes.resolve(None, config, optional=True))
    before_id = configurable_of(check_config(before)).get("checkpoint_id")
    if before is not None and before_id is None:
        raise InvalidInput(
            'before must name a checkpoint in config["configurable"]["checkpoint_id"], which '
            f"{safe_repr(before)} does not."
        )
    before_id = None if before_id is None else check_id(before_id, "checkpoint")
    required = check_instance(dict, metadata_filter, "filter") or {}
    if limit is not None:
        check_integer("limit", limit, 0)
    key_filter = KeyFilter(at, low, high, ns, only_id, before_id)
    thread_id = None if config is None else config["configurable"]["thread_id"]
    if at is None or required or (only_id is not None and before_id is not None):
        pages = _iter_pages(saver, _iter_keys(saver, key_filter, required, limit), limit, thread_id)
    else:
        pages = _iter_thread(saver, at, key_filter, limit, thread_id)
    return saver._follower.follow_pages(config, before, limit, pages, find_pregel_loop(config))


def _iter_thread(
    saver: AgentMemorySaver, at: ThreadKey, key_filter: KeyFilter, limit: int | None, thread_id: Any
) -> Iterator[Sequence[CheckpointTuple]]:
    """Yield the checkpoints of one thread in pages, each read in one round trip.

    Only if the thread has subgraphs and the filter selects no checkpoint namespace, the keys are read first.
    """
    ns, name, before = key_filter.ns, key_filter.name, key_filter.before
    size = 1 if limit is None else LARGEST_PAGE
    while limit is None or limit > 0:
        size = size if limit is None else min(size, limit)
        recall = saver._codec.message_cache.recall
        load = partial(
            checkpoint_log.load_range, at=at, ns=ns, checkpoint=name, recall=recall, before=before, limit=size
        )
        with report_damage(at, name):
            checkpoints = saver.database.engine.read(load)
        if checkpoints is None:
            keys = _iter_keys(saver, key_filter._replace(before=before), {}, limit)
            yield from _iter_pages(saver, keys, limit, thread_id)
            return
        found = at if not checkpoints else ThreadKey(checkpoints[0].thread.path, at.name)
        yield [saver._codec.make_tuple(saver.serde, saved, thread_id, found, ns or ROOT_NS) for saved in checkpoints]
        if len(checkpoints) < size or name is not None:
            return
        before, limit = checkpoints[-1].name, None if limit is None else limit - size
        size = min(size * 4, LARGEST_PAGE)


def _iter_pages(
    saver: AgentMemorySaver, keys: Iterator[CheckpointKey], limit: int | None, thread_id: Any
) -> Iterator[Sequence[CheckpointTuple]]:
    """Yield the checkpoints of keys in pages; the first page has `limit` checkpoints, or one."""
    size = 1 if limit is None else min(limit, LARGEST_PAGE)
    while page := list(islice(keys, size)):
        first = page[0]
        with report_damage(ThreadKey(first.path, first.thread), first.name):
            load = partial(checkpoint_log.load_keys, page=page, recall=saver._codec.message_cache.recall)
            checkpoints = saver.database.engine.read(load)
        tuples = []
        for key, saved in checkpoints:
            own_id = key.thread if thread_id is None else thread_id
            tuples.append(saver._codec.make_tuple(saver.serde, saved, own_id, ThreadKey(key.path, key.thread), key.ns))
        yield tuples
        size = min(size * 4, LARGEST_PAGE)


def _iter_keys(
    saver: AgentMemorySaver, key_filter: KeyFilter, required: Mapping[str, Any], limit: int | None
) -> Iterator[CheckpointKey]:
    """Yield the keys of the checkpoints that pass the filter and have the required metadata."""
    remaining, max_batch = limit, FIRST_BATCH
    after: CheckpointKey | None = None
    while remaining is None or remaining > 0:
        batch_size = max_batch if remaining is None or required else min(remaining, max_batch)
        with report_damage(key_filter.at or ThreadKey(key_filter.low, ""), key_filter.name):
            list_keys = partial(checkpoint_log.list_keys, key_filter=key_filter, after=after, limit=batch_size)
            keys = saver.database.engine.read(list_keys)
        if not keys:
            return
        after, max_batch = keys[-1], min(max_batch * 4, LARGEST_BATCH)
        matching = [key for key in keys if _has_metadata(saver, key, required)][:remaining]
        if remaining is not None:
            remaining -= len(matching)
        yield from matching


def _has_metadata(saver: AgentMemorySaver, key: CheckpointKey, required: Mapping[str, Any]) -> bool:
    """Return whether the metadata of a checkpoint has the required values."""
    if not required:
        return True
    with report_damage(ThreadKey(key.path, key.thread), key.name, decoding=True):
        metadata = decode_blob(saver.serde, key.metadata)
    return all(value_at(metadata, path) == value for path, value in required.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSummary:
    """A checkpoint without its values.

    Attributes:
        checkpoint_id: The id of the checkpoint.
        parent_id: The id of its parent; None for the first checkpoint.
        step: LangGraph's step number, -1 for the first input; None if unknown.
        source: Its origin: "input", "loop", "update" or "fork"; None if unknown.
        created_at: The time when it was stored, in UTC.
        followers: The number of its children: 0 for the last checkpoint of a fork, more than 1 if forks begin here.
    """

    checkpoint_id: str
    parent_id: str | None
    step: int | None
    source: str | None
    created_at: datetime
    followers: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointHistory:
    """The checkpoints of a thread.

    Attributes:
        checkpoints: The checkpoints, newest first, including those of forks.
        total: The number of all matching checkpoints, regardless of `limit` and `offset`.
        newer: The number of matching checkpoints that are newer than the first of `checkpoints`.
        subgraphs: The "checkpoint_ns" values of the thread's newest 50 subgraphs, newest first.
    """

    checkpoints: tuple[CheckpointSummary, ...]
    total: int
    newer: int = 0
    subgraphs: tuple[str, ...] = ()


def history(
    saver: AgentMemorySaver, config: RunnableConfig, limit: int | None, offset: int, around: str | None, *, ends: bool
) -> CheckpointHistory:
    """List checkpoints without values; see `AgentMemorySaver.history` for the arguments."""
    for name, number in (("limit", NO_LIMIT if limit is None else limit), ("offset", offset)):
        check_integer(name, number, 0)
    check_flag("ends", ends)
    at, ns, _ = parse_config(config, saver.database.scopes)
    middle = None if around is None else check_id(around, "checkpoint")
    row_limit = NO_LIMIT if limit is None else min(limit, NO_LIMIT)

    def load(tx: Transaction) -> tuple[list[Row], int, int, list[str]]:
        thread = find_thread(tx, at, ns)
        if thread is None or thread.ns_id is None:
            return [], 0, 0, []
        params = {"ns_id": thread.ns_id, "ends": int(ends)}
        [counts] = query.count_checkpoints(tx, **params, newer_than=middle)
        first = min(offset, counts["total"]) if middle is None else max(0, counts["newer"] - row_limit // 2)
        rows = query.checkpoint_history(tx, **params, limit=row_limit, offset=first)
        subgraphs = query.newest_subgraphs(tx, thread=thread.id, limit=MAX_SUBGRAPHS)
        return list(rows), counts["total"], first, [row["ns"] for row in subgraphs]

    rows, total, newer, subgraphs = saver.database.read(
        "thread.history",
        load,
        lambda: {"thread_id": at.name} | ({} if limit is None else {"limit": limit}),
        lambda loaded: {"count": len(loaded[0]), "total": loaded[1]},
    )
    summaries = tuple(_make_summary(row, at, saver.serde) for row in rows)
    return CheckpointHistory(checkpoints=summaries, total=total, newer=newer, subgraphs=tuple(subgraphs))


def _make_summary(row: Row, at: ThreadKey, serde: SerializerProtocol) -> CheckpointSummary:
    with report_damage(at, row["name"], decoding=True):
        metadata: Any = decode_blob(serde, bytes(row["metadata"]))
    fields = metadata if isinstance(metadata, Mapping) else {}
    step, source = fields.get("step"), fields.get("source")
    return CheckpointSummary(
        checkpoint_id=row["name"],
        parent_id=row["parent"],
        step=step if isinstance(step, int) else None,
        source=source if isinstance(source, str) else None,
        created_at=from_micros(row["created_at"]),
        followers=row["followers"],
    )


class CheckpointChanges(NamedTuple):
    """Two checkpoints, each with only the values that differ from the other.

    A list of messages contains only the messages that the other checkpoint lacks or has with other content.

    Attributes:
        before: The earlier checkpoint; None if the later one has no parent, or its parent was removed.
        after: The later checkpoint. If its parent was removed, it has no values.
    """

    before: CheckpointTuple | None
    after: CheckpointTuple


def changes(saver: AgentMemorySaver, config: RunnableConfig, since: str | None) -> CheckpointChanges | None:
    """Compare two checkpoints; see `AgentMemorySaver.changes` for the arguments."""
    at, ns, later_id = parse_config(config, saver.database.scopes)
    earlier_id = None if since is None else check_id(since, "checkpoint")
    recall = saver._codec.message_cache.recall

    def load(tx: Transaction) -> tuple[StoredCheckpoint, StoredCheckpoint | None] | None:
        after = checkpoint_log.get(tx, at, ns, later_id, recall)
        if after is None:
            return None
        before_id = earlier_id or after.parent
        return after, None if before_id is None else checkpoint_log.get(tx, at, ns, before_id, recall)

    pair = saver._read_traced("thread.changes", config, at, load)
    if pair is None:
        return None
    after, before = pair
    if before is None:
        if since is not None:
            return None
        changed = after if after.parent is None else after._replace(values={})  # the changes are not known
        return CheckpointChanges(None, saver._make_tuple(config, changed, at, ns))
    split_channels = _remove_shared_parts(before, after)
    tuples = [saver._make_tuple(config, saved, at, ns) for saved in (before, after)]
    old, new = (each.checkpoint["channel_values"] for each in tuples)
    for channel in split_channels:
        old_list, new_list = old.pop(channel), new.pop(channel)
        if old_list != new_list:  # a message encrypted twice has two parts, so equal messages are also removed by value
            old[channel] = [message for message in old_list if message not in new_list]
            new[channel] = [message for message in new_list if message not in old_list]
    return CheckpointChanges(*tuples)


def _remove_shared_parts(before: StoredCheckpoint, after: StoredCheckpoint) -> list[str]:
    """Remove equal values and shared parts of message lists; return the lists' channels."""
    split_channels = []
    for channel in after.values.keys() & before.values.keys():
        if after.values[channel] == before.values[channel]:
            del after.values[channel], before.values[channel]
        elif (new := _message_ranges(after, channel)) and (old := _message_ranges(before, channel)):
            split_channels.append(channel)
            after.values[channel] = [LIST, *value_store.encode_ranges(value_store.subtract_ranges(new, old))]
            before.values[channel] = [LIST, *value_store.encode_ranges(value_store.subtract_ranges(old, new))]
    return split_channels


def _message_ranges(saved: StoredCheckpoint, channel: str) -> list[Range]:
    """Return the ranges of part numbers of a list of messages; none for any other value.

    The first part shows whether a list contains messages: parts of other lists have the form `ELEMENTS`. A message that
    is cached is not among the loaded parts, so a part that was not loaded is a message.
    """
    kind, *numbers = saved.values[channel]
    ranges = list(value_store.decode_ranges(numbers)) if kind == LIST else []
    is_other_list = bool(ranges) and getattr(saved.parts.get(ranges[0][0]), "form", MESSAGE_FORM) == ELEMENTS
    return [] if is_other_list else ranges
