"""The log of threads: operations on checkpoints, pending writes and whole threads.

A thread has lines: its own, and one for each call of a subgraph. A line has checkpoints, each with a parent; what tasks
write towards the next checkpoint is kept under the one before, and may come before it. Everything here is written as
steps, does no I/O, and knows neither LangGraph nor the serializer: values are recipes, heads and metadata are bytes.

Times are microseconds since 1970 in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.threads import checkpoint_head, value_recipe
from langchain_agentmem.threads import value_store as shelves
from langchain_agentmem.threads.thread_lines import OWN_LINE, Thread, find, make_line, make_thread, retain
from langchain_agentmem.threads.value_store import Drafted, Recall, ShelfWriter, StoredPart, StorePlace, nothing_known

ANCESTORS = 200
"""Ancestors that are read at once."""


class WrittenCheckpoint(NamedTuple):
    """What a task wrote towards the next checkpoint."""

    task: str
    place: int
    path: str
    channel: str
    recipe: value_recipe.Recipe


class Saved(NamedTuple):
    """A checkpoint as it was found, with the parts that its values need.

    Attributes:
        thread: Its thread, with its line.
        name: The checkpoint's id.
        parent: Its parent's id.
        versions: The channels' versions in their short form.
        head: The rest of the checkpoint, as the serializer wrote it.
        metadata: As the serializer wrote it.
        values: The recipes of the channels' values.
        writes: What was written towards the next checkpoint, in no order.
        parts: The parts that the recipes need.
    """

    thread: Thread
    name: str
    parent: str | None
    versions: dict[str, str]
    head: bytes
    metadata: bytes
    values: dict[str, value_recipe.Recipe]
    writes: list[WrittenCheckpoint]
    parts: dict[int, Any]


Choose: TypeAlias = Callable[[Transaction, list[Saved]], list[Saved]]
"""Gives the same checkpoints with recipes for those of their values that are wanted."""


Then: TypeAlias = Callable[[Transaction, Thread], Callable[[Transaction, Thread, Mapping[str, bytes]], None]]
"""Given a thread as it was last seen, with its line: asks ahead for what it has to know of that, and waits for nothing.
Gives what takes further steps, told the thread as it is and the recipes of the new values, by channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint to be stored, without its values."""

    name: str
    parent: str | None
    run_id: str | None
    versions: dict[str, str]
    head: bytes
    metadata: bytes
    delta: bool


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The values to be stored, taken apart for a shelf as it was last seen.

    Attributes:
        draft: The values taken apart.
        rows: The row of each value.
        recipes: The recipe of each value.
        again: Takes the values apart once more, as they are now, for a shelf that has lost what the draft relied on.
        seen: The thread as it was last seen, with its own line.
    """

    draft: Drafted
    rows: list[dict[str, object]]
    recipes: list[value_recipe.Recipe]
    again: Callable[[StorePlace], WritePlan]
    seen: Thread | None


Stored: TypeAlias = tuple[Thread, WritePlan, ShelfWriter | None]
"""The thread that was written, the plan that was carried out, and what holds its shelf."""


class Key(NamedTuple):
    """Where a checkpoint is, and its metadata."""

    path: str
    thread: str
    ns: str
    line: int
    name: str
    metadata: bytes


class DeltaHistory(NamedTuple):
    """What led to the values of some channels.

    Attributes:
        place: The thread's shelf.
        seeds: The nearest stored value of each channel, where there is one.
        writes: For each channel what was written since, a list for each checkpoint, oldest first.
        parts: The parts that the recipes need.
    """

    place: StorePlace
    seeds: dict[str, value_recipe.Recipe]
    writes: dict[str, list[list[WrittenCheckpoint]]]
    parts: dict[int, Any]


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
    then: Then | None = None,
    check: Callable[[Thread | None], None] | None = None,
) -> Stored:
    """Store a checkpoint with the values that are new in it.

    Args:
        tx: The transaction.
        at: The thread; made if it is not there.
        ns: Which of its lines.
        checkpoint: The checkpoint.
        plan: The new values, as rows with "channel" and "version".
        retention: What to remove after it.
        now: When.
        exact: The empty path stands for the root.
        then: Gives what takes further steps when it is stored, while the checkpoints before it are still there.
        check: Given the thread as it was found, raises where nothing is to be stored.

    Returns:
        The thread, the plan that its shelf was written by, and what holds the shelf.
    """
    writer = _held(tx, plan)
    seen = plan.seen if ns == OWN_LINE and (writer is not None or retention is None) else None  # the shelf comes first
    follow = None if then is None or seen is None or seen.line is None else then(tx, seen)
    found = find(tx, at, ns, exact=exact)
    if check is not None:
        check(found)
    thread, line, plan, recipes, writer = _shelved(tx, found, at, ns, plan, writer, now)
    if retention is not None and (retention.off or thread.delta or checkpoint.delta):
        retention = None
    if retention is not None and writer is None:
        shelves.hold(tx, thread.place)  # before anything that others may wait for: see `whole`
    rows: list[dict[str, Any]] = [
        {"line": line, **row, "recipe": each} for row, each in zip(plan.rows, recipes, strict=True)
    ]
    if rows:
        query.insert_value.many(tx, rows)
    fields = {name: getattr(checkpoint, name) for name in ("name", "parent", "run_id", "head", "metadata")}
    query.insert_checkpoint(tx, line=line, versions=checkpoint_head.written(checkpoint.versions), now=now, **fields)
    if checkpoint.delta and not thread.delta:
        query.mark_delta(tx, thread=thread.id)
    if then is not None:
        # A thread that is made anew may get the ids of one that is gone.
        if follow is None or seen is None or found is None or (seen.id, seen.line) != (found.id, found.line):
            follow = then(tx, thread)
        follow(tx, thread, {str(row["channel"]): row["recipe"] for row in rows})
    if retention is not None:
        retain(tx, thread, line, ns, checkpoint.name, retention, now)
    return thread, plan, writer


def held_in(tx: Transaction, thread: Thread, channels: Sequence[str], checkpoint: str | None) -> Rows:
    """What some channels hold in a checkpoint, to be looked at later.

    Args:
        tx: The transaction.
        thread: The thread, with its line.
        channels: Their names.
        checkpoint: The id of the checkpoint; None for none.
    """
    if checkpoint is None:
        return []
    return query.values_in.ahead(tx, line=thread.line, name=checkpoint, keys=json.dumps(list(channels)))


def brought(
    tx: Transaction,
    thread: Thread,
    values: Mapping[str, bytes],
    before: Rows,
    *,
    parent: str | None,
    deltas: Sequence[str] = (),
    everything: bool = False,
) -> list[StoredPart]:
    """The parts of channels that they had not in the checkpoint before, in the order of the channels.

    What they had, and have once more, comes last: messages without ids that say the same may be one part.

    Args:
        tx: The transaction.
        thread: The thread, with its line.
        values: The recipes of what they hold, by channel.
        before: What `held_in` gave of the checkpoint before.
        parent: The id of that.
        deltas: Channels that tell only what was written to them since.
        everything: Whether those that they had then are wanted too.
    """
    had = [each for row in before for each in value_recipe.ranges_of(_recipe(row))]
    held = [value_recipe.unpack(recipe) for recipe in values.values()]
    if deltas and parent is not None:
        named = {"checkpoints": json.dumps([parent]), "channels": json.dumps(list(deltas))}
        rows = query.writes_of_channels(tx, line=thread.line, **named)
        held += [_recipe(row) for row in sorted(rows, key=itemgetter("path", "task", "place"))]
    now = [each for recipe in held for each in value_recipe.ranges_of(recipe)]
    earlier = value_recipe.repeated(had)
    ranges = list(value_recipe.without(now, had))
    for number, times in sorted(value_recipe.repeated(now).items()):
        if any(low <= number < high for low, high in had):
            ranges += [(number, number + 1)] * (times - (earlier[number] or 1))
    wanted = [*had, *ranges] if everything else ranges
    parts = shelves.fetch(
        tx, thread.place.shelf, [[value_recipe.LIST, *value_recipe.written_ranges(wanted)]], nothing_known
    )
    return [parts[number] for low, high in wanted for number in range(low, high) if number in parts]


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
    before: Callable[[Transaction, Thread], None] | None = None,
    check: Callable[[Thread | None], None] | None = None,
) -> Stored:
    """Store what a task wrote towards the next checkpoint.

    Args:
        tx: The transaction.
        at: The thread; made if it is not there.
        ns: Which of its lines.
        checkpoint: The id of the checkpoint, which may not be there yet.
        plan: The values, as rows with "task", "place", "path" and "channel".
        now: When.
        run_id: The run that the task belongs to, if it has an id.
        exact: The empty path stands for the root.
        before: Takes steps before that is stored, while what other runs stored of the task can be told from it.
        check: As for `put`.

    Returns:
        As `put`.
    """
    writer = _held(tx, plan)
    found = find(tx, at, ns, exact=exact)
    if check is not None:
        check(found)
    thread, line, plan, recipes, writer = _shelved(tx, found, at, ns, plan, writer, now)
    rows = [
        {"line": line, "checkpoint": checkpoint, "run_id": run_id, **row, "recipe": each}
        for row, each in zip(plan.rows, recipes, strict=True)
    ]
    if before is not None:
        before(tx, thread)
    if rows:
        query.insert_write.many(tx, rows)
    return thread, plan, writer


def get(
    tx: Transaction,
    at: ThreadKey,
    ns: str,
    name: str | None,
    recall: Recall = nothing_known,
    choose: Choose | None = None,
    seen: Thread | None = None,
) -> Saved | None:
    """Read one checkpoint, whatever its history in a fixed number of queries.

    Args:
        tx: The transaction.
        at: The thread.
        ns: Which of its lines.
        name: The checkpoint's id; None for the newest.
        recall: What is known of parts without reading them.
        choose: Says what of its values is wanted. Default: all.
        seen: The thread as it was last seen, with its own line.
    """
    line = None if seen is None or ns != OWN_LINE else seen.line
    asked = None if line is None else _ask(tx, line, name)
    thread = find(tx, at, ns)
    if thread is None or thread.line is None:
        return None
    if asked is None or line != thread.line:
        asked = _ask(tx, thread.line, name)
    found = _load(tx, thread, [asked], recall, choose)
    return found[0] if found else None


def load(
    tx: Transaction,
    thread: Thread,
    line: int,
    names: Sequence[str | None],
    recall: Recall = nothing_known,
    choose: Choose | None = None,
) -> list[Saved]:
    """Read some checkpoints of a line, with the parts of all of them read once.

    Args:
        tx: The transaction.
        thread: The thread.
        line: Its line.
        names: The ids; None for the newest. What is not there is left out.
        recall: What is known of parts without reading them.
        choose: Given those that were found, without parts, says what of their values is wanted. Default: all.
    """
    return _load(tx, thread, [_ask(tx, line, name) for name in names], recall, choose)


def _ask(tx: Transaction, line: int, name: str | None) -> tuple[Rows, Rows, Rows]:
    """Ask for a checkpoint, its values, and what was written towards the next one, and wait for none of them."""
    if name is None:
        found = query.latest_checkpoint.ahead(tx, line=line)
    else:
        found = query.checkpoint_named.ahead(tx, line=line, name=name)
    values = query.values_of.ahead(tx, line=line, name=name)
    return found, values, query.writes_at.ahead(tx, line=line, checkpoint=name)


def _load(
    tx: Transaction, thread: Thread, asked: Sequence[tuple[Rows, Rows, Rows]], recall: Recall, choose: Choose | None
) -> list[Saved]:
    found: list[Saved] = []
    parts: dict[int, Any] = {}
    for rows, values, writes in asked:
        for row in rows:
            try:
                found.append(_saved(thread, row, values, writes, parts))
            except value_recipe.Damaged as error:
                error.checkpoint = row["name"]
                raise
    if choose is not None:
        found = choose(tx, found)
    recipes = [recipe for each in found for recipe in each.values.values()]
    recipes += [write.recipe for each in found for write in each.writes]
    parts.update(shelves.fetch(tx, thread.place.shelf, recipes, recall))
    return found


def _saved(thread: Thread, row: Row, values: Rows, writes: Rows, parts: dict[int, Any]) -> Saved:
    versions, head, metadata = checkpoint_head.read(row["versions"]), bytes(row["head"]), bytes(row["metadata"])
    recipes = {each["channel"]: _recipe(each) for each in values}
    written = [_written(each) for each in writes]
    return Saved(thread, row["name"], row["parent"], versions, head, metadata, recipes, written, parts)


def keys(
    tx: Transaction,
    at: ThreadKey | None,
    *,
    low: str,
    high: str,
    ns: str | None = None,
    name: str | None = None,
    before: str | None = None,
    after: Key | None = None,
    limit: int,
) -> list[Key]:
    """A page of checkpoints, newest first.

    Args:
        tx: The transaction.
        at: One thread; None for all.
        low: Without a thread, the first namespace path.
        high: Path after the last.
        ns: One line; None for all.
        name: One checkpoint.
        before: Only those whose ids are smaller.
        after: The last one of the page before.
        limit: Most.
    """
    edge = None if after is None else after.name
    if at is None:
        thread = None
    elif (thread := find(tx, at, ns or OWN_LINE)) is None:
        return []
    elif ns is not None and name is None:
        if thread.line is None:
            return []
        rows = query.line_keys(tx, line=thread.line, before=before if after is None else edge, limit=limit)
        return [_key(row, thread.path, thread.name, ns) for row in rows]
    wanted = {"ns": ns, "name": name, "before": before, "limit": limit}
    wanted |= {"after": edge, "after_line": None if after is None else after.line}
    if thread is not None:
        rows = query.thread_keys(tx, thread=thread.id, **wanted)
        return [_key(row, thread.path, thread.name, row["ns"]) for row in rows]
    rows = query.checkpoint_keys(tx, low=low, high=high, **wanted)
    return [_key(row, row["path"], row["thread"], row["ns"]) for row in rows]


def load_keys(tx: Transaction, page: Sequence[Key], recall: Recall = nothing_known) -> list[tuple[Key, Saved]]:
    """Read the checkpoints of a page. What was removed meanwhile is left out."""
    by_line: dict[int, list[Key]] = {}
    for key in page:
        by_line.setdefault(key.line, []).append(key)
    loaded: dict[tuple[int, str], Saved] = {}
    for line, group in by_line.items():
        thread = find(tx, ThreadKey(group[0].path, group[0].thread), group[0].ns, exact=True)
        if thread is not None and thread.line == line:
            saved = load(tx, thread, line, [key.name for key in group], recall)
            loaded.update(((line, each.name), each) for each in saved)
    return [(key, loaded[key.line, key.name]) for key in page if (key.line, key.name) in loaded]


def delta_history(
    tx: Transaction, at: ThreadKey, ns: str, name: str | None, channels: Sequence[str], recall: Recall = nothing_known
) -> DeltaHistory | None:
    """What led to the values that some channels have in a checkpoint.

    Args:
        tx: The transaction.
        at: The thread.
        ns: Which of its lines.
        name: The checkpoint's id; None for the newest.
        channels: The channels.
        recall: What is known of parts without reading them.
    """
    thread = find(tx, at, ns)
    if thread is None or thread.line is None:
        return None
    line = thread.line
    if name is None:
        rows = query.latest_checkpoint(tx, line=line)
        name = rows[0]["name"] if rows else None
    asked = json.dumps(list(channels))
    valued = {(row["channel"], row["version"]) for row in query.valued_versions(tx, line=line, channels=asked)}
    paths: dict[str, list[str]] = {channel: [] for channel in channels}
    seeds: dict[str, str] = {}
    walked: set[str] = set() if name is None else {name}
    while name is not None and len(seeds) < len(paths):
        rows = query.ancestors(tx, line=line, name=name, limit=ANCESTORS)
        name = None
        for row in rows:
            if row["name"] in walked:  # it was put again with another parent, and is its own ancestor now
                name = None
                break
            name = row["name"]
            walked.add(name)
            versions = checkpoint_head.read(row["versions"])
            for channel in paths.keys() - seeds.keys():
                paths[channel].append(name)
                if (channel, versions.get(channel)) in valued:
                    seeds[channel] = versions[channel]
    values = query.values_at(tx, line=line, versions=checkpoint_head.written(seeds))
    names = sorted({name for path in paths.values() for name in path})
    found = query.writes_of_channels(tx, line=line, checkpoints=json.dumps(names), channels=asked)
    writes: dict[tuple[str, str], list[WrittenCheckpoint]] = {}
    for row in found:
        writes.setdefault((row["channel"], row["checkpoint"]), []).append(_written(row))
    history = DeltaHistory(
        thread.place,
        {row["channel"]: _recipe(row) for row in values},
        {channel: [writes.get((channel, each), []) for each in reversed(path)] for channel, path in paths.items()},
        {},
    )
    recipes = [*history.seeds.values(), *(w.recipe for found in writes.values() for w in found)]
    history.parts.update(shelves.fetch(tx, thread.place.shelf, recipes, recall))
    return history


def _held(tx: Transaction, plan: WritePlan) -> ShelfWriter | None:
    """Hold the shelf that a plan was made for. It is nearly always the thread's, so this need not wait to know."""
    if plan.draft.shelf is None or not shelves.needs_hold(plan.recipes):
        return None
    return ShelfWriter(tx, plan.draft.shelf.shelf, plan.draft.parts)


def _shelved(
    tx: Transaction, found: Thread | None, at: ThreadKey, ns: str, plan: WritePlan, writer: ShelfWriter | None, now: int
) -> tuple[Thread, int, WritePlan, list[bytes], ShelfWriter | None]:
    """Put the values of a plan on the shelf of a thread, which is made if it was not found."""
    thread = make_thread(tx, at.path, at.name, now) if found is None else found
    line = thread.line if thread.line is not None else make_line(tx, thread, ns)
    if not shelves.fits(tx, thread.place, plan.draft):
        plan, writer = plan.again(thread.place), None
    return thread._replace(line=line), line, plan, *shelves.shelve(tx, thread.place, plan.draft, plan.recipes, writer)


def _key(row: Row, path: str, thread: str, ns: str) -> Key:
    return Key(path, thread, ns, row["line_id"], row["name"], bytes(row["metadata"]))


def _written(row: Row) -> WrittenCheckpoint:
    return WrittenCheckpoint(row["task"], row["place"], row["path"], row["channel"], _recipe(row))


def _recipe(row: Row) -> value_recipe.Recipe:
    try:
        return value_recipe.unpack(row["recipe"])
    except value_recipe.Damaged as error:
        raise value_recipe.Damaged(f"the value of the channel {safe_repr(row['channel'])}: {error}") from error
