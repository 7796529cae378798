"""`AgentMemorySaver`: a LangGraph checkpointer that costs only what changed.

    with AgentMemorySaver.from_conn_string("agent.db") as saver:
        graph = builder.compile(checkpointer=saver)

One class serves synchronous and asynchronous graphs. Messages are stored once, however many checkpoints, forks, threads
and conversations hold them; a longer list costs its new elements; a copied thread shares what it copied.

The serializer is LangGraph's own, and as permissive: pydantic models, dataclasses, enums and named tuples come back as
themselves, and LangGraph logs the name of each class once. A database that others can write to is better read with
`strict=True`, or with LANGGRAPH_STRICT_MSGPACK set: then no class is imported but those that LangGraph holds to be safe
and those that are allowed. An object of any other comes back as the plain data that it was written as, and a log line
says how its class is allowed:

    saver = AgentMemorySaver("agent.db", strict=True).with_allowlist([Plan, ("my.module", "Trip")])

With LANGGRAPH_STRICT_MSGPACK LangGraph allows the classes that a graph's schema names by itself. Nothing is pickled.
With an `EncryptedSerializer` everything but ids, the names of channels and the shape of lists is encrypted; messages
are then shared within their thread only. Under any other serializer values are stored whole, each version anew.

A graph with it:

    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    from langchain_agentmem import AgentMemorySaver


    def answer(state: MessagesState):
        return {"messages": [AIMessage(f"You said: {state['messages'][-1].content}")]}


    with AgentMemorySaver.from_conn_string("agent.db") as saver:  # or AgentMemory("agent.db").checkpointer
        graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(checkpointer=saver)
        thread = {"configurable": {"thread_id": "wednesday"}}
        graph.invoke({"messages": [("user", "Hello!")]}, thread)
        print(graph.get_state(thread).values["messages"][-1].content)

The checkpointer of an `AgentMemory` also records what is said: each message of the channel "messages" enters the
conversation of the thread's id in the transaction of the put, once, and `memory.search` finds it from then on. It is
rewound with the thread. `AgentMemory(url, record=("talk",))` names other channels, `record=()` none.

Threads belong to the namespace of the run that made them. A call that names none is the administrator's: it means the
root's thread of that id, else the only one there is. `Retention(keep_last=…, max_age=…)` keeps only the newest
checkpoints of each thread. `saver.import_checkpoints(other_saver)` or `agentmem import-from langgraph-saver` copies
every thread of another saver with its history.

With LangGraph's `durability="async"` a checkpoint may still wait for the one before it while the next node runs. A
node that changes the state's objects in place can then change what that checkpoint will hold, with this saver as with
every other that really waits; `durability="sync"`, or nodes that return new objects, do not know this.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.argument_checks import check_flag, check_instance, check_value, parse_texts
from langchain_agentmem.base.clock import parse_time, to_micros
from langchain_agentmem.base.events import check_callable
from langchain_agentmem.base.namespaces import CONFIG_KEY, Namespace, ThreadKey, check_id, path_of, path_range
from langchain_agentmem.checkpoints import checkpoint_codec as codec
from langchain_agentmem.checkpoints import checkpoint_listing
from langchain_agentmem.checkpoints.checkpoint_listing import CheckpointChanges, CheckpointHistory
from langchain_agentmem.checkpoints.rewind_follower import RewindFollower, identify_loop
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.rewinding import sealing, thread_memory
from langchain_agentmem.rewinding.graph_runs import runs_of
from langchain_agentmem.storage import Operation, Transaction, query
from langchain_agentmem.storage.database import Database, LazyDatabase, MemoryLike, database_of
from langchain_agentmem.storage.engine import DatabaseOptions, OpeningOptions
from langchain_agentmem.threads import checkpoint_log, thread_rows
from langchain_agentmem.threads.checkpoint_log import StoredCheckpoint, next_version, shorten_version
from langchain_agentmem.threads.thread_rows import Thread, ThreadDeleted
from langchain_agentmem.threads.value_codec import SHARE_EVERYTHING, ValueReading, sharing_level

P = ParamSpec("P")
T = TypeVar("T")

Callbacks: TypeAlias = list[Callable[[], None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The progress of an import.

    Attributes:
        checkpoints: Number of copied checkpoints.
        known: Number of checkpoints that existed already.
        threads: Number of threads that they belong to.
        left_out: The skipped threads, which advanced both here and at the source, each with the reason.
    """

    checkpoints: int = 0
    known: int = 0
    threads: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


class AgentMemorySaver(concurrency.Closable, BaseCheckpointSaver[str]):
    """A LangGraph checkpointer.

    Threads are identified by their id and the namespace of the run, `config["configurable"]["agentmem_namespace"]`. A
    call that names no namespace means the root's thread of that id, else the only one there is.

    Attributes:
        database: The database that stores the checkpoints.

    Args:
        memory: An `AgentMemory`, or a path, ":memory:" or "postgresql://…". A file is shared with everything else in
            this process that was built from its path.
        serde: A serializer of LangGraph's. Default: LangGraph's own.
        strict: Whether to import no class but those that LangGraph holds to be safe and those of `with_allowlist`;
            objects of any other come back as plain data. Default: as the `AgentMemory` says, else as
            LANGGRAPH_STRICT_MSGPACK says. A serializer that is given says itself what it imports.
        retention: Which checkpoints of a thread to keep, for each of its lines; the newest is always kept, and threads
            of DeltaChannels stay whole. Default: as for the whole memory.
        record: The channels whose messages are recorded in the conversation of the thread's id, in the transaction of
            the put, so that they are found as soon as they are committed. () for none. Only LangGraph's own serializer
            lets them be told apart. A thread that was never recorded is read whole at its next put; what it says later,
            while recording is off, is left out. Default: as the `AgentMemory` says, where no serializer is given;
            else none.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        memory: MemoryLike,
        *,
        serde: SerializerProtocol | None = None,
        strict: bool = False,
        retention: Retention | None = None,
        record: Sequence[str] | None = None,
    ) -> None:
        if strict and serde is not None:
            raise InvalidInput("Give strict=True or a serde, not both: a serializer says itself what it imports.")
        super().__init__(serde=serde or codec.make_serializer(strict=strict or getattr(memory, "strict", False)))
        retention = retention if retention is not None else getattr(memory, "retention", None)
        self.retention = check_instance(Retention, retention, "retention")
        if record is None:
            record = getattr(memory, "record", ()) if serde is None else ()
        self.record = tuple(dict.fromkeys(parse_texts(record, "The channels to record")))
        if self.record and sharing_level(self.serde) != SHARE_EVERYTHING:
            raise InvalidInput(
                "Messages are recorded in plain text, under LangGraph's own serializer only: give record=(), or none."
            )
        self.database: Database = database_of(memory)
        self._database = self.database
        self._codec = codec.CheckpointCodec(self.database.scopes)
        self.database.caches.add(self._codec)
        self._follower = RewindFollower(self.database)
        self._owns_database = False

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str | os.PathLike[str],
        *,
        serde: SerializerProtocol | None = None,
        strict: bool = False,
        retention: Retention | None = None,
        record: Sequence[str] = (),
        **options: Unpack[OpeningOptions],
    ) -> Self:
        """Open a database for this saver alone, as the stock savers do.

        Args:
            conn_string: A path, ":memory:" or "postgresql://…".
            serde: See the class.
            strict: See the class.
            retention: See the class.
            record: See the class. Default: nothing is recorded.
            **options: Options of the database, as with `AgentMemory`: schema, pool_size, timeout, key and so on.

        Returns:
            The saver. Use it with `with` or `async with`, or close it manually.
        """
        unopened = LazyDatabase(conn_string, DatabaseOptions.of(options))
        saver = cls(unopened, serde=serde, strict=strict, retention=retention, record=record)
        saver._owns_database = True
        return saver

    def setup(self) -> concurrency.CompletedAwaitable:
        """Do nothing: the database is ready when it is open. May be awaited too."""
        return concurrency.CompletedAwaitable()

    def close(self) -> None:
        """Close the database, if this saver opened it for itself."""
        if self._owns_database:
            self.database.close()

    # -- reading -----------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint: the one that the config names, else the newest.

        Raises:
            InvalidInput: The config names no thread, or its thread is in several namespaces.
            CheckpointUnreadable: The checkpoint is damaged, or was written with another serializer.
        """
        return self._read_tuple(config, identify_loop(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async version of `get_tuple`."""
        return await concurrency.run_in_worker(partial(self._read_tuple, config, identify_loop(config)))

    def _read_tuple(self, config: RunnableConfig, pregel: Any) -> CheckpointTuple | None:
        at, ns, name = codec.parse_config(config, self.database.scopes)

        def look(tx: Transaction) -> StoredCheckpoint | None:
            return checkpoint_log.get(tx, at, ns, name, self._codec.known.recall, last_seen=self._codec.threads.get(at))

        saved = self._read(look, at, name)
        found = None if saved is None else self._make_tuple(config, saved, at, ns)
        thread = None if saved is None else saved.thread
        self._follower.record_read(config, found, pregel, pinned=name is not None, thread=thread)
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Read checkpoints, newest first, a page at a time: nothing is locked in between.

        Args:
            config: The config of the thread, and optionally of one of its lines or checkpoints. Default: all threads.
            filter: Only those whose metadata has just these values. A key with dots is one of the metadata's own, else
                the way to a nested one.
            before: Only those before this one.
            limit: The maximum number. Default: all.

        Raises:
            InvalidInput: The config names no thread, `before` no checkpoint, the filter is no dictionary, or the limit
                is no number.
            CheckpointUnreadable: A checkpoint is damaged, or was written with another serializer.
        """
        for page in checkpoint_listing.list_pages(self, config, filter, before, limit):
            yield from page

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async version of `list`."""
        pages = checkpoint_listing.list_pages(self, config, filter, before, limit)
        async for page in concurrency.iterate_in_worker(pages):
            for found in page:
                yield found

    def history(
        self,
        config: RunnableConfig,
        *,
        limit: int | None = None,
        offset: int = 0,
        around: str | None = None,
        ends: bool = False,
    ) -> CheckpointHistory:
        """Return the checkpoints of a thread without their values.

        The cost is low even if its messages are long.

        Args:
            config: The config of the thread, and optionally of one of its lines.
            limit: The maximum number, the newest first. Default: all.
            offset: The number of newest checkpoints to skip. Default: 0.
            around: The id of the middle checkpoint: half of the limit are newer, if that many exist. Default: none.
            ends: Return only checkpoints without children, at which forks end. Default: False.

        Returns:
            The checkpoints, newest first, each with its parent, and their total number.

        Raises:
            InvalidInput: The config names no thread, its thread is in several namespaces, or a number is not valid.
            CheckpointUnreadable: A checkpoint is damaged, or was written with another serializer.
        """
        return checkpoint_listing.history(self, config, limit, offset, around, ends=ends)

    ahistory = concurrency.awaited(history)

    def changes(self, config: RunnableConfig, since: str | None = None) -> CheckpointChanges | None:
        """Read the values in which a checkpoint differs from another one of its thread.

        Args:
            config: The config of the checkpoint. Default: the newest one.
            since: The id of the other one. Default: its parent.

        Returns:
            Both, with only those values; None if one of them does not exist. For the first checkpoint these are all its
            values; if its parent was removed, none.

        Raises:
            InvalidInput: The config names no thread, its thread is in several namespaces, or an id is not valid.
            CheckpointUnreadable: A checkpoint is damaged, or was written with another serializer.
        """
        return checkpoint_listing.changes(self, config, since)

    achanges = concurrency.awaited(changes)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the nearest snapshots of DeltaChannels, and all writes since them.

        Args:
            config: The checkpoint.
            channels: The names of the channels.
        """
        at, ns, name = codec.parse_config(config, self.database.scopes)
        wanted = [codec.check_id(channel, "channel", empty=True) for channel in codec.check_list(channels, "channel")]
        found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in wanted}
        recall = self._codec.known.recall
        ancestors = self._read(lambda tx: checkpoint_log.load_ancestors(tx, at, ns, name, wanted, recall), at, name)
        missing = set(wanted)
        for saved in ancestors:
            reading = ValueReading(self.serde, self._codec.known, saved.thread.store, saved.parts)
            with codec.report_damage(at, saved.name, decoding=True):
                for channel in sorted(missing):
                    writes = [each for each in saved.writes if each.channel == channel]
                    found[channel]["writes"][:0] = codec.read_writes(writes, reading)
                    if channel in saved.values and (seed := reading.read_value(saved.values[channel])) is not None:
                        found[channel]["seed"] = seed  # a channel that held nothing begins empty
            missing -= saved.values.keys()
        return found

    aget_delta_channel_history = concurrency.awaited(get_delta_channel_history)  # type: ignore[arg-type]  # self of the base class

    # -- writing -----------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint.

        Args:
            config: The thread, and the parent checkpoint.
            checkpoint: The checkpoint.
            metadata: LangGraph's metadata of it; the config's own metadata is added.
            new_versions: The channels that have changed since the parent.

        Returns:
            The config that names this checkpoint.

        Raises:
            InvalidInput: The config names no thread, or a value cannot be serialized. Nothing is stored.
        """
        return self._prepare_put(config, checkpoint, metadata, new_versions)()

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async version of `put`."""
        # The values are serialized now: nodes may change them while the checkpoint is stored.
        return await concurrency.run_in_worker(
            self._prepare_put(config, checkpoint, metadata, new_versions), writes=True
        )

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote towards the next checkpoint.

        Args:
            config: The thread, and the checkpoint that the task ran under, which may not be stored yet.
            writes: Channels and values.
            task_id: The task.
            task_path: Its path, which decides the order in which writes are applied.

        Raises:
            InvalidInput: The config names no thread or checkpoint, or a value cannot be serialized. Nothing is stored.
        """
        self._prepare_writes(config, writes, task_id, task_path)()

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Async version of `put_writes`."""
        await concurrency.run_in_worker(self._prepare_writes(config, writes, task_id, task_path), writes=True)

    def adopt(self, found: CheckpointTuple, *, dry_run: bool = False) -> bool:
        """Store a checkpoint of another saver unchanged, with its pending writes.

        Adopt the oldest checkpoint of a thread first. Its messages get the time of the checkpoint.

        Args:
            found: The checkpoint, as the other saver returns it.
            dry_run: Only report whether it exists here. Default: False.

        Returns:
            False if it exists here already; then nothing was stored.

        Raises:
            InvalidInput: The checkpoint cannot be stored. Nothing was stored.
        """
        if not isinstance(found, CheckpointTuple):
            raise InvalidInput(f"What is adopted is a CheckpointTuple of another checkpointer, not {safe_repr(found)}.")
        at, ns, named = codec.parse_config(found.config, self.database.scopes.without_template)
        name = codec.check_id(named, "checkpoint")

        def is_known(tx: Transaction) -> bool:
            thread = thread_rows.find_thread(tx, at, ns, exact=True)
            return thread is not None and bool(query.checkpoint_exists(tx, ns_id=thread.ns_id, checkpoint=name))

        known = self._read(is_known, at, name)
        if check_flag("dry_run", dry_run):
            return not known
        writes = self._plan_foreign(at, found)
        if known and not writes:
            return False
        checkpoint = checkpoint_log.convert_versions(dict(found.checkpoint), self._digest)
        metadata, now = dict(found.metadata), self.database.now()
        with suppress(InvalidInput, TypeError):  # it has no creation time
            now = min(now, to_micros(parse_time(checkpoint["ts"])))
        parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
        stored, plan = self._plan_checkpoint(at, checkpoint, metadata, parent, checkpoint["channel_versions"])
        after_commit: Callbacks = []
        follow = None
        if not ns:
            before = {"configurable": {"thread_id": at.name, "checkpoint_id": parent}}
            recorded = [each for each in self.record if each in checkpoint["channel_versions"]]
            follow = self._follower.follow_put(
                before, at, checkpoint, metadata, self.serde, recorded, now, after_commit
            )

        def operation(tx: Transaction) -> bool:
            after_commit.clear()
            new = not is_known(tx)
            if new:
                checkpoint_log.put(tx, at, ns, stored, plan, retention=None, now=now, exact=True, follow_up=follow)
            for each in writes:  # also for a checkpoint that is known: there may be more of them now
                checkpoint_log.put_writes(tx, at, ns, name, each, now=now, exact=True)
            return new

        with codec.report_damage(at, name):
            new = self.database.engine.write(operation)
        for callback in after_commit:
            callback()
        return new

    def import_checkpoints(
        self,
        from_saver: BaseCheckpointSaver[Any],
        *,
        thread_ids: Sequence[str] | None = None,
        progress: Callable[[ImportReport], None] | None = None,
    ) -> ImportReport:
        """Copy every thread of another saver: its whole history with all pending writes.

        Existing checkpoints are not changed, so run an interrupted import again to continue it. If this saver records
        messages, the imported ones can be searched, with the times of their checkpoints. A thread that advanced both
        here and there is skipped: import it into another namespace, or erase it here first. Use `aimport_checkpoints`
        for an async-only saver.

        Args:
            from_saver: Any other saver.
            thread_ids: Only these threads. Default: all.
            progress: Called with an `ImportReport` after every checkpoint.

        Raises:
            InvalidInput: A checkpoint cannot be stored. Those before it were stored.
        """
        if not all(callable(getattr(from_saver, name, None)) for name in ("list", "alist", "get_tuple", "aget_tuple")):
            raise InvalidInput(f"Threads are imported from another checkpointer, not from {safe_repr(from_saver)}.")
        progress = check_callable(progress, "progress")
        wanted: list[RunnableConfig | None] = [None]
        if thread_ids is not None:
            wanted = [{"configurable": {"thread_id": each}} for each in codec.check_list(thread_ids, "thread")]
        threads: dict[tuple[str, str], list[RunnableConfig]] = {}
        for config in (each for thread in wanted for each in _configs(from_saver, thread)):
            configurable = config["configurable"]
            key = str(configurable["thread_id"]), str(configurable.get(CONFIG_KEY))
            threads.setdefault(key, []).append(config)
        reasons = {key: refusal_reason(self.database, configs) for key, configs in threads.items()}
        left_out = {key[0]: reason for key, reason in reasons.items() if reason is not None}
        report = ImportReport(threads=len({thread for thread, _ in threads}) - len(left_out), left_out=left_out)
        for key, configs in threads.items():
            for config in sorted(configs, key=_checkpoint_id) if reasons[key] is None else ():
                found = _read_other(partial(from_saver.get_tuple, config), partial(from_saver.aget_tuple, config))
                if found is None:
                    continue
                if self.adopt(found):
                    report = replace(report, checkpoints=report.checkpoints + 1)
                else:
                    report = replace(report, known=report.known + 1)
                if progress is not None:
                    progress(report)
        return report

    aimport_checkpoints = concurrency.awaited(import_checkpoints, writes=True)

    # -- whole threads -----------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread in every namespace, or only in that of the run or memory.

        Raises:
            InvalidInput: The memory has a template of namespaces, and several have a thread of this id.
        """
        name, (low, high) = check_id(thread_id, "thread"), path_range(self._namespace())
        now, scopes = self.database.now(), self.database.scopes
        deleted = self._change(lambda tx: thread_memory.delete_threads(tx, low, high, name, now=now, scopes=scopes))
        # Discard what was read of the threads and their positions in runs.
        self._codec.forget(deleted)
        runs_of(self.database).forget([each.at for each in deleted])

    adelete_thread = concurrency.awaited(delete_thread, writes=True)  # type: ignore[arg-type]  # self of the base class

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that some runs made, with what was written towards the next ones.

        Args:
            run_ids: The ids, as in the checkpoints' metadata ("run_id").

        Raises:
            InvalidInput: They are no list of ids.
        """
        runs = [check_id(run, "run") for run in codec.check_list(run_ids, "run")]
        low, high = path_range(self._namespace())
        now = self.database.now()
        self._change(lambda tx: thread_memory.delete_for_runs(tx, runs, low, high, now=now))

    adelete_for_runs = concurrency.awaited(delete_for_runs, writes=True)  # type: ignore[arg-type]  # self of the base class

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread whole; no content is copied.

        Args:
            source_thread_id: The thread.
            target_thread_id: The copy. An earlier copy gets what is new, and keeps what it has.

        Raises:
            InvalidInput: There is another thread of this id.
        """
        source = ThreadKey(path_of(self._namespace()), check_id(source_thread_id, "thread"))
        target, now = check_id(target_thread_id, "thread"), self.database.now()
        self._change(lambda tx: thread_memory.copy_thread(tx, source, target, now=now))

    acopy_thread = concurrency.awaited(copy_thread, writes=True)  # type: ignore[arg-type]  # self of the base class

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove old checkpoints and free their space, in batches between which others write.

        Args:
            thread_ids: The threads.
            strategy: "keep_latest" keeps the newest checkpoint of each line; threads of DeltaChannels stay whole, since
                their checkpoints need their ancestors. "delete" keeps nothing.

        Raises:
            InvalidInput: The strategy is unknown, or a thread id is not valid.
        """
        check_value(Literal["keep_latest", "delete"], strategy, "strategy")
        names = [check_id(thread_id, "thread") for thread_id in codec.check_list(thread_ids, "thread")]
        if strategy == "delete":
            for name in names:
                self.delete_thread(name)
            return
        low, high = path_range(self._namespace())
        threads: list[ThreadKey] = []
        for name in names:
            rows = self.database.engine.read(partial(query.threads_within, low=low, high=high, name=name))
            if not low:
                self.database.scopes.check_unambiguous([row["path"] for row in rows], name, thread_memory.WITHIN_HINT)
            threads += [ThreadKey(row["path"], name) for row in rows]
        for at in threads:
            prune = partial(thread_memory.prune_thread, at=at, keep=1, now=self.database.now())
            while self._change(prune) >= thread_rows.BATCH_SIZE:
                continue

    aprune = concurrency.awaited(prune, writes=True)  # type: ignore[arg-type]  # self of the base class

    def get_next_version(self, current: str | float | None, channel: None) -> str:
        """Return a version that follows any saver's version and is unique in all forks."""
        del channel
        return next_version(current)

    def _namespace(self) -> Namespace:
        """Return the namespace of the run; by default the root, which means all."""
        return self.database.scopes.resolve(None, optional=True)

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _prepare_put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Callable[[], RunnableConfig]:
        """Serialize a checkpoint now, as it is, and return the function that stores it.

        LangGraph goes on while a checkpoint is being stored, and the next node may change what is in it.
        """
        at, ns, parent = codec.parse_config(config, self.database.scopes)
        codec.check_checkpoint(checkpoint, metadata, new_versions)
        try:
            full_metadata: dict[str, Any] = dict(get_checkpoint_metadata(config, metadata))
        except (AttributeError, TypeError) as error:
            raise InvalidInput(
                "The metadata of a checkpoint and of its config are dictionaries whose keys are texts, not "
                f"{safe_repr(metadata)} and {safe_repr(config.get('metadata'))}."
            ) from error
        stored, plan = self._plan_checkpoint(at, dict(checkpoint), full_metadata, parent, new_versions)
        after_commit: Callbacks = []
        retains = self.retention is not None and not self.retention.is_off
        recorded = () if ns else tuple(name for name in self.record if name in new_versions)

        def operation(tx: Transaction) -> checkpoint_log.StoreResult:
            now = self.database.now()  # in the transaction: its view goes as far as what others wrote before
            follow = self._follower.follow_put(
                config, at, checkpoint, full_metadata, self.serde, recorded, now, after_commit
            )
            check = partial(self._follower.check_thread, config, at)
            result = checkpoint_log.put(
                tx, at, ns, stored, plan, retention=self.retention, now=now, follow_up=follow, check=check
            )
            if retains:
                self._follower.sweep_memory(tx, result[0], ns, full_metadata)
            return result

        def store() -> RunnableConfig:
            path = at.path
            with suppress(ThreadDeleted):  # whoever deletes a thread does not get it back from a run that goes on
                thread = self._write(operation, at, ns)
                after_commit[0]()
                path = thread.path
            return codec.config_of(config["configurable"]["thread_id"], path, ns, stored.name, self.database.scopes)

        return store

    def _plan_checkpoint(
        self,
        at: ThreadKey,
        checkpoint: dict[str, Any],
        metadata: Mapping[str, Any],
        parent: str | None,
        new_versions: Mapping[str, Any],
    ) -> tuple[checkpoint_log.Checkpoint, checkpoint_log.WritePlan]:
        """Serialize a checkpoint and those of its values that are new."""
        given = checkpoint["channel_values"]
        values = {codec.check_id(name, "channel"): given[name] for name in new_versions if name in given}
        stored = self._codec.prepare_checkpoint(self.serde, at, checkpoint, metadata, parent, values)
        with codec.report_unstorable(at, "checkpoint"):
            rows: codec.ValueRows = [
                {"channel": name, "version": shorten_version(new_versions[name])} for name in values
            ]
        return stored, self._codec.plan_write(self.serde, at, rows, list(values.items()), for_channels=True)

    def _plan_foreign(self, at: ThreadKey, found: CheckpointTuple) -> Sequence[checkpoint_log.WritePlan]:
        """Serialize what was written towards the checkpoint after one of another saver."""
        writes = []
        counts: Counter[str] = Counter()
        for order, (task, channel, value) in enumerate(found.pending_writes or ()):
            # Other savers do not return the paths of tasks, so the order of the returned writes replaces them.
            row: dict[str, object] = {"task": codec.check_id(task, "task"), "path": f"{order:08}"}
            row |= {"idx": WRITES_IDX_MAP.get(channel, counts[task]), "channel": codec.check_id(channel, "channel")}
            counts[task] += 1
            writes.append(self._codec.plan_write(self.serde, at, [row], [(channel, value)], for_channels=False))
        return writes

    def _digest(self, value: Any) -> str:
        kind, data = self.serde.dumps_typed(value)
        return blake2b(kind.encode() + data, digest_size=6).hexdigest()

    def _prepare_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Callable[[], None]:
        """Check the writes of a task, and return the function that stores them."""
        at, ns, name = codec.parse_config(config, self.database.scopes)
        if name is None:
            raise InvalidInput('put_writes needs config["configurable"]["checkpoint_id"].')
        writes = codec.check_writes(writes)
        rows: codec.ValueRows = [
            {
                "task": codec.check_id(task_id, "task"),
                "path": codec.check_id(task_path, "task's path", empty=True),
                "channel": codec.check_id(channel, "channel", empty=True),
                "idx": WRITES_IDX_MAP.get(channel, place),
            }
            for place, (channel, _) in enumerate(writes)
        ]
        plan = self._codec.plan_write(self.serde, at, rows, writes, for_channels=False)
        now, runs = self.database.now(), runs_of(self.database)
        run_id = get_checkpoint_metadata(config, {}).get("run_id")

        def finish(tx: Transaction, thread: Thread) -> None:
            sealing.finish_task(tx, runs, config["configurable"], at, thread, writes, task_id, self.database.now())

        def operation(tx: Transaction) -> checkpoint_log.StoreResult:
            return checkpoint_log.put_writes(
                tx,
                at,
                ns,
                name,
                plan,
                now=now,
                run_id=None if run_id is None else str(run_id),
                before_insert=finish,
                check=partial(self._follower.check_thread, config, at),
            )

        def store() -> None:
            with suppress(ThreadDeleted):
                self._write(operation, at, ns)

        return store

    def _read(self, operation: Operation[T], at: ThreadKey, name: str | None) -> T:
        with codec.report_damage(at, name):
            return self.database.engine.read(operation)

    def _read_traced(self, name: str, config: RunnableConfig, at: ThreadKey, operation: Operation[T]) -> T:
        """Read as a traced step."""
        configurable = config["configurable"]
        inputs = {key: configurable[key] for key in ("thread_id", "checkpoint_id") if configurable.get(key)}
        with codec.report_damage(at, configurable.get("checkpoint_id")):
            return self.database.read(name, operation, lambda: inputs, lambda found: {"found": found is not None})

    def _make_tuple(self, config: RunnableConfig, saved: StoredCheckpoint, at: ThreadKey, ns: str) -> CheckpointTuple:
        """Return LangGraph's tuple of a stored checkpoint."""
        return self._codec.make_tuple(self.serde, saved, config["configurable"]["thread_id"], at, ns)

    def _write(self, store: Operation[checkpoint_log.StoreResult], at: ThreadKey, ns: str) -> Thread:
        """Store what was planned, and return the thread."""
        scopes = self.database.scopes

        def operation(tx: Transaction) -> checkpoint_log.StoreResult:
            doubtful = scopes.keys if not at.path else "{" in at.path
            if doubtful and thread_rows.find_thread(tx, at) is None:
                scopes.check_new(*at)
            return store(tx)

        with codec.report_damage(at, None):
            engine = self.database.engine
            stored = engine.write(operation)
        self._codec.note_stored(at, ns, *stored)
        if self.retention is not None and not self.retention.is_off:
            engine.release()
        return stored[0]

    def _change(self, operation: Operation[T]) -> T:
        value = self.database.engine.write(operation)
        self.database.engine.release()
        return value


def refusal_reason(database: Database, configs: Sequence[RunnableConfig]) -> str | None:
    """Return why a thread cannot be copied: it has advanced here and at the source.

    A thread has only one newest state.

    Args:
        database: The database that the thread is copied to.
        configs: The configs of its checkpoints at the source, the newest first.

    Returns:
        None if the source only advanced from the state here, or has nothing new.
    """
    at, _, _ = codec.parse_config(configs[0], database.scopes.without_template)
    own = [_checkpoint_id(config) for config in configs if not config["configurable"].get("checkpoint_ns")]

    def look(tx: Transaction) -> str | None:
        thread = thread_rows.find_thread(tx, at, exact=True)
        newest = [] if thread is None or thread.ns_id is None else query.latest_checkpoint(tx, ns_id=thread.ns_id)
        if thread is None or not newest or newest[0]["name"] in own:
            return None
        exists = (query.checkpoint_exists(tx, ns_id=thread.ns_id, checkpoint=name) for name in own)
        if all(exists):
            return None
        return (
            "it went on here since, so what is new at the source does not follow what is newest here: import it into "
            "another namespace, or erase it here before."
        )

    return database.engine.read(look)


def _checkpoint_id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _configs(saver: Any, config: RunnableConfig | None) -> list[RunnableConfig]:
    """Return the configs of the checkpoints of a thread, or of all, the newest first."""

    async def alist() -> list[RunnableConfig]:
        return [found.config async for found in saver.alist(config)]

    return _read_other(lambda: [found.config for found in saver.list(config)], alist)


def _read_other(read: Callable[[], T], aread: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Read from another saver; if it is async-only, on the event loop of an async call."""
    concurrency.check_cancelled()
    try:
        return read()
    except NotImplementedError:
        if not concurrency.is_in_worker():
            raise
    return concurrency.run_on_callers_loop(aread)


__all__ = ["AgentMemorySaver", "ImportReport"]
