"""Threads of other savers, copied one checkpoint at a time. Nothing is written to the other saver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.store.base import BaseStore

from langchain_agentmem.base.argument_checks import check_flag
from langchain_agentmem.base.clock import micros, time_written
from langchain_agentmem.base.concurrency import is_in_worker, on_callers_loop
from langchain_agentmem.base.events import listener_given
from langchain_agentmem.base.namespaces import CONFIG_KEY, ThreadKey
from langchain_agentmem.checkpoints.checkpoint_codec import Reading, Rows, address, listed, readable, text_of
from langchain_agentmem.checkpoints.rewind_follower import Rewinding
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.threads import checkpoint_log
from langchain_agentmem.threads.thread_lines import find, has

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """How far an import is.

    Attributes:
        checkpoints: How many checkpoints were copied.
        known: How many were there already.
        threads: How many threads they belong to.
        left_out: The threads that went on here and at the source, of which nothing was copied, each with why.
    """

    checkpoints: int = 0
    known: int = 0
    threads: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


Progress = Callable[[ImportReport], None] | None

WENT_ON = (
    "it went on here since, so what is new at the source does not follow what is newest here: import it into another "
    "namespace, or erase it here before."
)


def adopt(
    reading: Reading, rewinding: Rewinding, record: Sequence[str], found: CheckpointTuple, *, dry_run: bool
) -> bool:
    """Store a checkpoint of another saver, with what was written towards the next one.

    Args:
        reading: The access of our saver to its checkpoints.
        rewinding: Has memory follow it.
        record: The channels whose messages are recorded.
        found: The checkpoint, as the other saver gives it.
        dry_run: Whether to tell only whether it is here.

    Returns:
        False if it is here already.

    Raises:
        InvalidInput: It cannot be stored. Nothing was.
    """
    if not isinstance(found, CheckpointTuple):
        raise InvalidInput(f"What is adopted is a CheckpointTuple of another checkpointer, not {safe_repr(found)}.")
    serde, coding, database = reading
    at, ns, _ = address(found.config, database.scopes.foreign)
    name = _checkpoint_of(found.config)

    def is_known(tx: Transaction) -> bool:
        return has(tx, at, ns, name)

    with readable(at, name):
        known = database.engine.read(is_known)
    if check_flag("dry_run", dry_run):
        return not known
    writes = list(_written_towards(reading, at, found))
    if known and not writes:
        return False
    checkpoint = checkpoint_log.with_texts(dict(found.checkpoint), partial(_digest_of, serde))
    metadata, now = dict(found.metadata), _time_of(checkpoint, database.now())
    parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
    versions, given = checkpoint["channel_versions"], checkpoint["channel_values"]
    values = {text_of(each, "channel"): given[each] for each in given if each in versions}
    stored = coding.folded(serde, at, checkpoint, metadata, parent, values)
    rows: Rows = [{"channel": each, "version": checkpoint_log.short(versions[each])} for each in values]
    plan = coding.plan(serde, at, rows, list(values.items()), listing=True)
    recorded = [each for each in record if each in versions]
    before = {"configurable": {"thread_id": at.name, "checkpoint_id": parent}}
    remember: list[Callable[[], None]] = []
    follow = None
    if not ns:
        follow = rewinding.follow(before, at, checkpoint, metadata, serde, recorded, now, remember)

    def operation(tx: Transaction) -> bool:
        remember.clear()
        new = not is_known(tx)
        if new:
            checkpoint_log.put(tx, at, ns, stored, plan, retention=None, now=now, exact=True, then=follow)
        for each in writes:  # also for a checkpoint that is known: there may be more of them now
            checkpoint_log.put_writes(tx, at, ns, name, each, now=now, exact=True)
        return new

    with readable(at, name):
        new = database.engine.write(operation)
    for done in remember:
        done()
    return new


def _written_towards(reading: Reading, at: ThreadKey, found: CheckpointTuple) -> Iterator[checkpoint_log.WritePlan]:
    """Take apart what was written towards the checkpoint after one."""
    counts: Counter[str] = Counter()
    for order, (task, channel, value) in enumerate(found.pending_writes or ()):
        # Other savers do not tell the paths of tasks, so the order in which they give the writes takes their place.
        row: dict[str, object] = {"task": text_of(task, "task"), "path": f"{order:08}"}
        row |= {"place": WRITES_IDX_MAP.get(channel, counts[task]), "channel": text_of(channel, "channel")}
        counts[task] += 1
        yield reading.coding.plan(reading.serde, at, [row], [(channel, value)], listing=False)


def _time_of(checkpoint: Mapping[str, Any], now: int) -> int:
    """When a checkpoint was made, in microseconds since 1970; where it does not tell, or not yet was, `now`."""
    with suppress(InvalidInput, TypeError):
        return min(now, micros(time_written(checkpoint["ts"])))
    return now


def _digest_of(serde: SerializerProtocol, value: Any) -> str:
    kind, data = serde.dumps_typed(value)
    return blake2b(kind.encode() + data, digest_size=6).hexdigest()


def refusal(database: Database, configs: Sequence[RunnableConfig]) -> str | None:
    """Return why nothing of a thread is copied: it went on in both places, and has one newest state.

    Args:
        database: The database that the thread is copied to.
        configs: The configs of its checkpoints at the source, the newest first.

    Returns:
        None where the source only went on from what is here, or has nothing new.
    """
    at, _, _ = address(configs[0], database.scopes.foreign)
    own = [_checkpoint_of(config) for config in configs if not config["configurable"].get("checkpoint_ns")]

    def look(tx: Transaction) -> str | None:
        thread = find(tx, at, exact=True)
        newest = [] if thread is None or thread.line is None else query.latest_checkpoint(tx, line=thread.line)
        if thread is None or not newest or newest[0]["name"] in own:
            return None
        there = (query.checkpoint_there(tx, line=thread.line, checkpoint=name) for name in own)
        return None if all(there) else WENT_ON

    return database.engine.read(look)


def _checkpoint_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def import_checkpoints(
    adopt: Callable[[CheckpointTuple], bool],
    database: Database,
    saver: Any,
    thread_ids: Sequence[str] | None,
    progress: Progress,
) -> ImportReport:
    """Copy the threads of a saver. One that can only be awaited is read on the event loop of an async call.

    Args:
        adopt: Stores one checkpoint; False if it is known.
        database: Where they go.
        saver: The other saver.
        thread_ids: Only these threads; None for all.
        progress: Is told how far it is.
    """
    if isinstance(saver, BaseStore):
        raise InvalidInput(
            f"{safe_repr(saver)} is a store, not a saver: its items come with import_from, of the kind langgraph-store."
        )
    if not all(callable(getattr(saver, name, None)) for name in ("list", "alist", "get_tuple", "aget_tuple")):
        raise InvalidInput(f"Threads are imported from another checkpointer, not from {safe_repr(saver)}.")
    progress = listener_given(progress, "progress")
    listed_ids: Sequence[str | None] = [None] if thread_ids is None else listed(thread_ids, "thread")
    threads: dict[tuple[str, str], list[RunnableConfig]] = {}
    for thread_id in listed_ids:
        for config in _configs(saver, None if thread_id is None else {"configurable": {"thread_id": thread_id}}):
            configurable = config["configurable"]
            key = str(configurable["thread_id"]), str(configurable.get(CONFIG_KEY))
            threads.setdefault(key, []).append(config)
    reasons = {key: refusal(database, configs) for key, configs in threads.items()}
    left_out = {key[0]: reason for key, reason in reasons.items() if reason is not None}
    report = ImportReport(threads=len({thread for thread, _ in threads}) - len(left_out), left_out=left_out)
    for key, configs in threads.items():
        for config in sorted(configs, key=_checkpoint_of) if reasons[key] is None else ():
            found: CheckpointTuple | None = _read(partial(saver.get_tuple, config), partial(saver.aget_tuple, config))
            if found is None:
                continue
            if adopt(found):
                report = replace(report, checkpoints=report.checkpoints + 1)
            else:
                report = replace(report, known=report.known + 1)
            if progress is not None:
                progress(report)
    return report


def _configs(saver: Any, config: RunnableConfig | None) -> list[RunnableConfig]:
    """The configs of the checkpoints of a thread, or of all, as the saver lists them: the newest first."""

    async def alist() -> list[RunnableConfig]:
        return [found.config async for found in saver.alist(config)]

    return _read(lambda: [found.config for found in saver.list(config)], alist)


def _read(read: Callable[[], T], aread: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Read something of a saver; of one that can only be awaited, in an awaited call."""
    try:
        return read()
    except NotImplementedError:
        if not is_in_worker():
            raise
    return on_callers_loop(aread)
