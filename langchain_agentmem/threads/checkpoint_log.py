"""A checkpoint without its values: what it knows of versions, written briefly.

Channel versions are long strings that stand in a checkpoint many times over. They are kept once, in a short form, in a
column of their own, so that values can be found and collected without the serializer; `versions_seen` refers to them
and to their channels by their places there, and so does `updated_channels`.

The log of threads: operations on checkpoints, pending writes and whole threads.

A thread has lines: its own, and one for each call of a subgraph. A line has checkpoints, each with a parent; what tasks
write towards the next checkpoint is kept under the one before, and may come before it. Everything here is written as
steps, does no I/O, and knows neither LangGraph nor the serializer: values are recipes, heads and metadata are bytes.

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

from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.threads import value_store as shelves
from langchain_agentmem.threads.thread_lines import OWN_LINE, Thread, find, make_line, make_thread, retain
from langchain_agentmem.threads.value_store import Recall, ShelfWriter, StoredPart, StorePosition

WIDTH = 32
SHORT_WIDTH = 6
_KNOWN = ("v", "ts", "id", "channel_values", "channel_versions", "versions_seen", "updated_channels", "pending_sends")


def next_version(current: str | float | None) -> str:
    """Return a version that follows another and is unique in all forks of the thread.

    Args:
        current: The version before, as this or another saver made it; None for the first.

    Raises:
        InvalidInput: The version is neither text nor number, or no number with as many digits can follow it.
    """
    distinct = secrets.token_urlsafe(6)
    text = current if isinstance(current, str) else ""
    if current is None or (isinstance(current, int | float) and abs(current) < 10**WIDTH):
        text = f"{int(current or 0):0{WIDTH}}"
    number = text.partition(".")[0]
    following = f"{int(number) + 1:0{len(number)}}.{distinct}" if number.isdecimal() else ""
    if following <= text:
        raise InvalidInput(
            f"No version can follow {safe_repr(current)}: a version begins with its number, of up to {WIDTH} digits."
        )
    return following


def with_texts(checkpoint: dict[str, Any], digest: Callable[[Any], str]) -> dict[str, Any]:
    """Convert the versions of another saver's checkpoint to texts, if they are numbers.

    Numbers stand for different values in the forks of a thread, and no text could follow them. So each becomes a text
    that has the same order and identifies the value too.

    Args:
        checkpoint: The checkpoint.
        digest: Returns a text that identifies a value.
    """
    versions, values = checkpoint["channel_versions"], checkpoint["channel_values"]
    if not any(isinstance(version, int | float) for version in versions.values()):
        return checkpoint

    def text(channel: str, version: Any) -> Any:
        if not isinstance(version, int | float):
            return version
        own = channel in values and version == versions.get(channel)
        return f"{int(version):0{WIDTH}}.{version}.{digest(values[channel]) if own else ''}"

    seen = {
        node: {channel: text(channel, version) for channel, version in channels.items()}
        for node, channels in checkpoint["versions_seen"].items()
    }
    return checkpoint | {
        "channel_versions": {channel: text(channel, version) for channel, version in versions.items()},
        "versions_seen": seen,
    }


def short(version: Any) -> str:
    """Return the stored form of a version."""
    if type(version) is str:
        number, dot, distinct = version.partition(".")
        if dot and number.isdecimal() and number.isascii() and len(number) == WIDTH:
            return f"{int(number):0{SHORT_WIDTH}}.{distinct}"
    return "=" + json.dumps(version)


def full(text: str) -> Any:
    """Undo `short`."""
    if text.startswith("="):
        return json.loads(text[1:])
    number, _, distinct = text.partition(".")
    return f"{int(number):0{WIDTH}}.{distinct}"


def versions_of(checkpoint: dict[str, Any]) -> dict[str, str]:
    """Return the channel versions of a checkpoint in their short form."""
    return {channel: short(version) for channel, version in checkpoint["channel_versions"].items()}


def read(text: str) -> dict[str, str]:
    """Read the channel versions of a checkpoint, which the checksum of its head guards.

    Raises:
        DamagedValue: The text is no mapping of versions.
    """
    try:
        versions = json.loads(text)
    except ValueError as error:
        raise shelves.DamagedValue(f"its versions: {error}") from error
    if type(versions) is not dict or not all(type(version) is str for version in versions.values()):
        raise shelves.DamagedValue("its versions are no versions")
    return versions


def fold(checkpoint: dict[str, Any], versions: dict[str, str]) -> list[Any]:
    """Write a checkpoint without values and channel versions.

    Args:
        checkpoint: The checkpoint.
        versions: `versions_of` it.

    Returns:
        The input of `unfold`: a list of plain values, and of any values of pending sends.
    """
    places = {version: place for place, version in enumerate(versions.values())}
    channels = {channel: place for place, channel in enumerate(versions)}

    def version_at(text: str) -> int | str:
        return places.get(text, text)

    seen = {
        node: [each for one, version in there.items() for each in (channels.get(one, one), version_at(short(version)))]
        for node, there in checkpoint.get("versions_seen", {}).items()
    }
    updated = checkpoint.get("updated_channels")
    rest = {name: value for name, value in checkpoint.items() if name not in _KNOWN}
    folded = [
        checkpoint.get("v"),
        _brief(checkpoint.get("ts")),
        seen,
        [channels.get(each, each) for each in updated] if type(updated) is list else updated,
        checkpoint.get("pending_sends"),
        rest or None,
    ]
    while folded[-1] is None:
        folded.pop()
    return folded


def unfold(folded: Any, versions: dict[str, str], checkpoint_id: str, values: dict[str, Any]) -> dict[str, Any]:
    """Undo `fold`.

    Args:
        folded: The result of `fold`.
        versions: The channel versions in their short form.
        checkpoint_id: The checkpoint's id.
        values: The channels' values.

    Raises:
        DamagedValue: The value is no result of `fold`.
    """
    if type(folded) is not list or len(folded) < 3 or type(folded[2]) is not dict:  # noqa: PLR2004 - v, ts and seen
        raise shelves.DamagedValue("it is no checkpoint")
    v, ts, seen, updated, sends, rest = folded + [None] * (6 - len(folded))
    names, texts = list(versions), list(versions.values())

    def name(each: Any) -> Any:
        return names[each] if type(each) is int else each

    checkpoint = {
        "v": v,
        "id": checkpoint_id,
        "ts": moment(*ts).isoformat() if type(ts) is list else ts,
        "channel_values": values,
        "channel_versions": {channel: full(text) for channel, text in versions.items()},
        "versions_seen": {
            node: {
                name(one): full(each if type(each) is str else texts[each])
                for one, each in zip(there[::2], there[1::2], strict=True)
            }
            for node, there in seen.items()
        },
        "updated_channels": list(map(name, updated)) if type(updated) is list else updated,
    }
    if sends is not None:
        checkpoint["pending_sends"] = sends
    return checkpoint | (rest or {})


def _brief(ts: Any) -> Any:
    """Return a time in LangGraph's form as a list of its microseconds, others unchanged."""
    with suppress(ValueError, TypeError, OverflowError):
        at = micros(datetime.fromisoformat(ts))
        if moment(at).isoformat() == ts:
            return [at]
    return ts


ANCESTORS = 200
"""Ancestors per query."""


class WrittenCheckpoint(NamedTuple):
    """A value that a task wrote towards the next checkpoint."""

    task: str
    place: int
    path: str
    channel: str
    recipe: shelves.Recipe


class StoredCheckpoint(NamedTuple):
    """A checkpoint as it was found, with the parts that its values need.

    Attributes:
        thread: Its thread, with its line.
        name: The checkpoint's id.
        parent: Its parent's id.
        versions: The channels' versions in their short form.
        head: The rest of the checkpoint, as the serializer wrote it.
        metadata: The metadata, as the serializer wrote it.
        values: The recipes of the channels' values.
        writes: The pending writes, in no order.
        parts: The parts that the recipes need.
    """

    thread: Thread
    name: str
    parent: str | None
    versions: dict[str, str]
    head: bytes
    metadata: bytes
    values: dict[str, shelves.Recipe]
    writes: list[WrittenCheckpoint]
    parts: dict[int, Any]


Then: TypeAlias = Callable[[Transaction, Thread], Callable[[Transaction, Thread, Mapping[str, bytes]], None]]
"""Called with a thread as last seen, with its line: starts the queries that it needs, without waiting for them.
Returns the function for further steps, called with the current thread and the recipes of the new values by channel."""


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
        again: Takes the current values apart again, for a shelf that has lost parts that the draft relied on.
        seen: The thread as it was last seen, with its own line.
    """

    draft: shelves.DraftValues
    rows: list[dict[str, object]]
    recipes: list[shelves.Recipe]
    again: Callable[[StorePosition], WritePlan]
    seen: Thread | None


Stored: TypeAlias = tuple[Thread, WritePlan, ShelfWriter | None]
"""The written thread, the executed plan, and the writer that holds its shelf."""


class CheckpointKey(NamedTuple):
    """The location of a checkpoint, and its metadata."""

    path: str
    thread: str
    ns: str
    line: int
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
    then: Then | None = None,
    check: Callable[[Thread | None], None] | None = None,
) -> Stored:
    """Store a checkpoint with the values that are new in it.

    Args:
        tx: The transaction.
        at: The thread; created if it does not exist.
        ns: The name of its line.
        checkpoint: The checkpoint.
        plan: The new values, as rows with "channel" and "version".
        retention: The rules for checkpoints to remove afterwards; None for none.
        now: The time, in microseconds since 1970.
        exact: The empty path stands for the root.
        then: Returns the function for further steps, called when it is stored and older checkpoints still exist.
        check: Called with the existing thread; raises if nothing may be stored.

    Returns:
        The thread, the executed plan, and the writer that holds the shelf.
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
    query.insert_checkpoint(tx, line=line, versions=as_json(checkpoint.versions), now=now, **fields)
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
    """Start the query for the values of some channels in a checkpoint, to be read later.

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
    """Return the channel parts that the previous checkpoint lacks, in channel order.

    Parts that occur more often than before come last: equal messages without ids may be one part.

    Args:
        tx: The transaction.
        thread: The thread, with its line.
        values: The recipes of their values, by channel.
        before: The result of `held_in` for the previous checkpoint.
        parent: The id of that.
        deltas: Channels of which only the writes since then are known.
        everything: Return the parts of the previous checkpoint too. Default: False.
    """
    had = [each for row in before for each in shelves.ranges_of(_recipe(row))]
    held = [shelves.unpack(recipe) for recipe in values.values()]
    if deltas and parent is not None:
        named = {"checkpoints": json.dumps([parent]), "channels": json.dumps(list(deltas))}
        rows = query.writes_of_channels(tx, line=thread.line, **named)
        held += [_recipe(row) for row in sorted(rows, key=itemgetter("path", "task", "place"))]
    now = [each for recipe in held for each in shelves.ranges_of(recipe)]
    earlier = shelves.repeated(had)
    ranges = list(shelves.without(now, had))
    for number, times in sorted(shelves.repeated(now).items()):
        if any(low <= number < high for low, high in had):
            ranges += [(number, number + 1)] * (times - (earlier[number] or 1))
    wanted = [*had, *ranges] if everything else ranges
    parts = shelves.fetch(
        tx, thread.place.shelf, [[shelves.LIST, *shelves.written_ranges(wanted)]], shelves.nothing_known
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
        at: The thread; created if it does not exist.
        ns: The name of its line.
        checkpoint: The id of the checkpoint, which may not be there yet.
        plan: The values, as rows with "task", "place", "path" and "channel".
        now: The time, in microseconds since 1970.
        run_id: The run that the task belongs to, if it has an id.
        exact: The empty path stands for the root.
        before: Called before the writes are stored, when those of other runs of the task can still be distinguished.
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
    recall: Recall = shelves.nothing_known,
    seen: Thread | None = None,
) -> StoredCheckpoint | None:
    """Read one checkpoint, in a fixed number of queries for any length of history.

    Args:
        tx: The transaction.
        at: The thread.
        ns: The name of its line.
        name: The checkpoint's id; None for the newest.
        recall: Returns the parts that are known without reading them.
        seen: The thread as it was last seen, with its own line.
    """
    line = None if seen is None or ns != OWN_LINE else seen.line
    asked = None if line is None else _ask(tx, line, name)
    thread = find(tx, at, ns)
    if thread is None or thread.line is None:
        return None
    if asked is None or line != thread.line:
        asked = _ask(tx, thread.line, name)
    found = _load(tx, thread, [asked], recall)
    return found[0] if found else None


def load(
    tx: Transaction, thread: Thread, line: int, names: Sequence[str | None], recall: Recall = shelves.nothing_known
) -> list[StoredCheckpoint]:
    """Read some checkpoints of a line, with the parts of all of them read once.

    Args:
        tx: The transaction.
        thread: The thread.
        line: Its line.
        names: The ids; None for the newest. Missing checkpoints are left out.
        recall: Returns the parts that are known without reading them.
    """
    return _load(tx, thread, [_ask(tx, line, name) for name in names], recall)


def _ask(tx: Transaction, line: int, name: str | None) -> tuple[Rows, Rows, Rows]:
    """Start the queries for a checkpoint, its values and pending writes, without waiting."""
    if name is None:
        found = query.latest_checkpoint.ahead(tx, line=line)
    else:
        found = query.checkpoint_named.ahead(tx, line=line, name=name)
    values = query.values_of.ahead(tx, line=line, name=name)
    return found, values, query.writes_at.ahead(tx, line=line, checkpoint=name)


def _load(
    tx: Transaction, thread: Thread, asked: Sequence[tuple[Rows, Rows, Rows]], recall: Recall
) -> list[StoredCheckpoint]:
    found: list[StoredCheckpoint] = []
    parts: dict[int, Any] = {}
    for rows, values, writes in asked:
        for row in rows:
            name, parent, head, metadata = row["name"], row["parent"], bytes(row["head"]), bytes(row["metadata"])
            try:
                versions = read(row["versions"])
                held = {each["channel"]: _recipe(each) for each in values}
                written = [_written(each) for each in writes]
            except shelves.DamagedValue as error:
                error.checkpoint = name
                raise
            found.append(StoredCheckpoint(thread, name, parent, versions, head, metadata, held, written, parts))
    recipes = [recipe for each in found for recipe in each.values.values()]
    recipes += [write.recipe for each in found for write in each.writes]
    parts.update(shelves.fetch(tx, thread.place.shelf, recipes, recall))
    return found


class KeyFilter(NamedTuple):
    """The filter of a checkpoint listing.

    Attributes:
        at: One thread; None for all.
        low: Without a thread, the first namespace path.
        high: Path after the last.
        ns: One line; None for all.
        name: One checkpoint.
        before: Only those whose ids are smaller.
    """

    at: ThreadKey | None
    low: str
    high: str
    ns: str | None = None
    name: str | None = None
    before: str | None = None


def keys(tx: Transaction, wanted: KeyFilter, after: CheckpointKey | None, limit: int) -> list[CheckpointKey]:
    """Return a page of checkpoint keys, newest first.

    Args:
        tx: The transaction.
        wanted: The filter.
        after: The last key of the previous page.
        limit: The maximum number.
    """
    at, low, high, ns, name, before = wanted
    thread = None if at is None else find(tx, at, ns or OWN_LINE)
    edge = {"after": None, "after_line": None} if after is None else {"after": after.name, "after_line": after.line}
    asked = {"ns": ns, "name": name, "before": before, "limit": limit} | edge
    rows: Rows = ()
    if at is None:
        rows = query.checkpoint_keys(tx, low=low, high=high, **asked)
    elif thread is not None and (ns is None or name is not None):
        rows = query.thread_keys(tx, thread=thread.id, **asked)
    elif thread is not None and thread.line is not None:
        rows = query.line_keys(tx, line=thread.line, before=edge["after"] or before, limit=limit)
    return [
        CheckpointKey(row["path"], row["thread"], row["ns"], row["line_id"], row["name"], bytes(row["metadata"]))
        for row in rows
    ]


def load_keys(
    tx: Transaction, page: Sequence[CheckpointKey], recall: Recall = shelves.nothing_known
) -> list[tuple[CheckpointKey, StoredCheckpoint]]:
    """Read the checkpoints of a page. Those removed meanwhile are left out."""
    by_line: dict[int, list[CheckpointKey]] = {}
    for key in page:
        by_line.setdefault(key.line, []).append(key)
    loaded: dict[tuple[int, str], StoredCheckpoint] = {}
    for line, group in by_line.items():
        thread = find(tx, ThreadKey(group[0].path, group[0].thread), group[0].ns, exact=True)
        if thread is not None and thread.line == line:
            saved = load(tx, thread, line, [key.name for key in group], recall)
            loaded.update(((line, each.name), each) for each in saved)
    return [(key, loaded[key.line, key.name]) for key in page if (key.line, key.name) in loaded]


def ancestors(
    tx: Transaction, at: ThreadKey, ns: str, name: str | None, channels: Iterable[str], recall: Recall
) -> list[StoredCheckpoint]:
    """Read channels of a checkpoint's ancestors, back to a stored value of each.

    Args:
        tx: The transaction.
        at: The thread.
        ns: The name of the line.
        name: The id of the checkpoint. None for the newest.
        channels: The channels.
        recall: Returns the parts that are known without reading them.

    Returns:
        The ancestors, the parent first, with the values and writes of these channels alone.
    """
    thread = find(tx, at, ns)
    if thread is None or thread.line is None:
        return []
    if name is None:
        name = next((row["name"] for row in query.latest_checkpoint(tx, line=thread.line)), None)
    found: dict[str, StoredCheckpoint] = {}
    parts: dict[int, Any] = {}
    missing = set(channels)
    while missing and (rows := query.ancestors(tx, line=thread.line, name=name, limit=ANCESTORS)):
        # A checkpoint that was put again can be its own ancestor.
        batch = {row["name"]: read(row["versions"]) for row in rows if row["name"] not in found}
        wanted = {"line": thread.line, "channels": json.dumps(sorted(missing))}
        versions = {each[channel] for each in batch.values() for channel in missing & each.keys()}
        stored = query.values_named(tx, versions=json.dumps(sorted(versions)), **wanted)
        recipes = {(row["channel"], row["version"]): row for row in stored}
        for name, each in batch.items():
            if missing:
                there = [recipes[key] for key in each.items() if key[0] in missing and key in recipes]
                values = {row["channel"]: _recipe(row) for row in there}
                found[name] = StoredCheckpoint(thread, name, None, each, b"", b"", values, [], parts)
                missing -= values.keys()
        reached = json.dumps([name for name in batch if name in found])
        for row in query.writes_of_channels(tx, checkpoints=reached, **wanted):
            found[row["checkpoint"]].writes.append(_written(row))
        name = rows[-1]["name"] if batch else None
    needed = [recipe for each in found.values() for recipe in each.values.values()]
    needed += [write.recipe for each in found.values() for write in each.writes]
    parts.update(shelves.fetch(tx, thread.place.shelf, needed, recall))
    return [*found.values()]


def _held(tx: Transaction, plan: WritePlan) -> ShelfWriter | None:
    """Lock the shelf of a plan, nearly always the thread's, without waiting for the thread."""
    if plan.draft.shelf is None or not any(map(shelves.has_parts, plan.recipes)):
        return None
    return ShelfWriter(tx, plan.draft.shelf.shelf, plan.draft.parts)


def _shelved(
    tx: Transaction, found: Thread | None, at: ThreadKey, ns: str, plan: WritePlan, writer: ShelfWriter | None, now: int
) -> tuple[Thread, int, WritePlan, list[bytes], ShelfWriter | None]:
    """Put the values of a plan on the shelf of a thread, which is created if necessary."""
    thread = make_thread(tx, at.path, at.name, now) if found is None else found
    line = thread.line if thread.line is not None else make_line(tx, thread, ns)
    if not shelves.fits(tx, thread.place, plan.draft):
        plan, writer = plan.again(thread.place), None
    return thread._replace(line=line), line, plan, *shelves.shelve(tx, thread.place, plan.draft, plan.recipes, writer)


def _written(row: Row) -> WrittenCheckpoint:
    return WrittenCheckpoint(row["task"], row["place"], row["path"], row["channel"], _recipe(row))


def _recipe(row: Row) -> shelves.Recipe:
    try:
        return shelves.unpack(row["recipe"])
    except shelves.DamagedValue as error:
        raise shelves.DamagedValue(f"the value of the channel {safe_repr(row['channel'])}: {error}") from error
