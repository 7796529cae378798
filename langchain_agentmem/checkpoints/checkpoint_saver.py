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
from langchain_agentmem.base.argument_checks import check_flag, check_instance, check_value, texts_given
from langchain_agentmem.base.clock import micros, time_written
from langchain_agentmem.base.events import listener_given
from langchain_agentmem.base.namespaces import CONFIG_KEY, Namespace, ThreadKey, id_of, path_of, range_of
from langchain_agentmem.checkpoints import checkpoint_codec as codec
from langchain_agentmem.checkpoints import checkpoint_listing
from langchain_agentmem.checkpoints.checkpoint_listing import CheckpointChanges, CheckpointHistory
from langchain_agentmem.checkpoints.rewind_follower import RewindFollower, beginning_loop
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.rewinding import sealing
from langchain_agentmem.rewinding import thread_memory as memories
from langchain_agentmem.rewinding.graph_runs import runs_of
from langchain_agentmem.storage import Operation, Transaction, query
from langchain_agentmem.storage.database import Database, LazyDatabase, MemoryLike, database_of
from langchain_agentmem.storage.engine import DatabaseOptions, OpeningOptions
from langchain_agentmem.threads import checkpoint_log, thread_lines
from langchain_agentmem.threads.checkpoint_log import StoredCheckpoint, next_version, short
from langchain_agentmem.threads.thread_lines import Thread, ThreadDeleted
from langchain_agentmem.threads.value_codec import EVERYTHING, ValueReading, sharing

P = ParamSpec("P")
T = TypeVar("T")

Later: TypeAlias = list[Callable[[], None]]


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
        super().__init__(serde=serde or codec.serializer(strict=strict or getattr(memory, "strict", False)))
        retention = retention if retention is not None else getattr(memory, "retention", None)
        self.retention = check_instance(Retention, retention, "retention")
        if record is None:
            record = getattr(memory, "record", ()) if serde is None else ()
        self.record = tuple(dict.fromkeys(texts_given(record, "The channels to record")))
        if self.record and sharing(self.serde) != EVERYTHING:
            raise InvalidInput(
                "Messages are recorded in plain text, under LangGraph's own serializer only: give record=(), or none."
            )
        self.database: Database = database_of(memory)
        self._database = self.database
        self._coding = codec.CheckpointCodec(self.database.scopes)
        self.database.remembering.add(self._coding)
        self._rewinding = RewindFollower(self.database)
        self._owned = False

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
        saver._owned = True
        return saver

    def setup(self) -> concurrency.CompletedAwaitable:
        """Do nothing: the database is ready when it is open. May be awaited too."""
        return concurrency.CompletedAwaitable()

    def close(self) -> None:
        """Close the database, if this saver opened it for itself."""
        if self._owned:
            self.database.close()

    # -- reading -----------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint: the one that the config names, else the newest.

        Raises:
            InvalidInput: The config names no thread, or its thread is in several namespaces.
            CheckpointUnreadable: The checkpoint is damaged, or was written with another serializer.
        """
        return self._get(config, beginning_loop(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async version of `get_tuple`."""
        return await concurrency.in_worker(partial(self._get, config, beginning_loop(config)))

    def _get(self, config: RunnableConfig, pregel: Any) -> CheckpointTuple | None:
        at, ns, name = codec.address(config, self.database.scopes)

        def look(tx: Transaction) -> StoredCheckpoint | None:
            return checkpoint_log.get(tx, at, ns, name, self._coding.known.take, seen=self._coding.threads.get(at))

        saved = self._read(look, at, name)
        found = None if saved is None else self._tuple(config, saved, at, ns)
        thread = None if saved is None else saved.thread
        self._rewinding.loaded(config, found, pregel, addressed=name is not None, thread=thread)
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
        at, ns, name = codec.address(config, self.database.scopes)
        wanted = [codec.text_of(channel, "channel", empty=True) for channel in codec.listed(channels, "channel")]
        found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in wanted}
        recall = self._coding.known.take
        line = self._read(lambda tx: checkpoint_log.ancestors(tx, at, ns, name, wanted, recall), at, name)
        missing = set(wanted)
        for saved in line:
            reading = ValueReading(self.serde, self._coding.known, saved.thread.place, saved.parts)
            with codec.readable(at, saved.name, decoding=True):
                for channel in sorted(missing):
                    writes = [each for each in saved.writes if each.channel == channel]
                    found[channel]["writes"][:0] = codec.in_order(writes, reading)
                    if channel in saved.values and (seed := reading.value(saved.values[channel])) is not None:
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
        return self._putting(config, checkpoint, metadata, new_versions)()

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async version of `put`."""
        # The values are serialized now: nodes may change them while the checkpoint is stored.
        return await concurrency.in_worker(self._putting(config, checkpoint, metadata, new_versions), writes=True)

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
        self._putting_writes(config, writes, task_id, task_path)()

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Async version of `put_writes`."""
        await concurrency.in_worker(self._putting_writes(config, writes, task_id, task_path), writes=True)

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
        at, ns, named = codec.address(found.config, self.database.scopes.foreign)
        name = codec.text_of(named, "checkpoint")

        def is_known(tx: Transaction) -> bool:
            thread = thread_lines.find(tx, at, ns, exact=True)
            return thread is not None and bool(query.checkpoint_there(tx, line=thread.line, checkpoint=name))

        known = self._read(is_known, at, name)
        if check_flag("dry_run", dry_run):
            return not known
        writes = self._taken_apart_writes(at, found)
        if known and not writes:
            return False
        checkpoint = checkpoint_log.with_texts(dict(found.checkpoint), self._digest)
        metadata, now = dict(found.metadata), self.database.now()
        with suppress(InvalidInput, TypeError):  # it has no creation time
            now = min(now, micros(time_written(checkpoint["ts"])))
        parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
        stored, plan = self._taken_apart(at, checkpoint, metadata, parent, checkpoint["channel_versions"])
        remember: Later = []
        follow = None
        if not ns:
            before = {"configurable": {"thread_id": at.name, "checkpoint_id": parent}}
            recorded = [each for each in self.record if each in checkpoint["channel_versions"]]
            follow = self._rewinding.follow(before, at, checkpoint, metadata, self.serde, recorded, now, remember)

        def operation(tx: Transaction) -> bool:
            remember.clear()
            new = not is_known(tx)
            if new:
                checkpoint_log.put(tx, at, ns, stored, plan, retention=None, now=now, exact=True, then=follow)
            for each in writes:  # also for a checkpoint that is known: there may be more of them now
                checkpoint_log.put_writes(tx, at, ns, name, each, now=now, exact=True)
            return new

        with codec.readable(at, name):
            new = self.database.engine.write(operation)
        for done in remember:
            done()
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
        progress = listener_given(progress, "progress")
        wanted: list[RunnableConfig | None] = [None]
        if thread_ids is not None:
            wanted = [{"configurable": {"thread_id": each}} for each in codec.listed(thread_ids, "thread")]
        threads: dict[tuple[str, str], list[RunnableConfig]] = {}
        for config in (each for thread in wanted for each in _configs(from_saver, thread)):
            configurable = config["configurable"]
            key = str(configurable["thread_id"]), str(configurable.get(CONFIG_KEY))
            threads.setdefault(key, []).append(config)
        reasons = {key: refusal(self.database, configs) for key, configs in threads.items()}
        left_out = {key[0]: reason for key, reason in reasons.items() if reason is not None}
        report = ImportReport(threads=len({thread for thread, _ in threads}) - len(left_out), left_out=left_out)
        for key, configs in threads.items():
            for config in sorted(configs, key=_checkpoint_of) if reasons[key] is None else ():
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
        name, (low, high) = id_of(thread_id, "thread"), range_of(self._namespace())
        now, scopes = self.database.now(), self.database.scopes
        deleted = self._change(lambda tx: memories.delete(tx, low, high, name, now=now, scopes=scopes))
        # Discard what was read of the threads and their positions in runs.
        self._coding.forget(deleted)
        runs_of(self.database).forget([each.at for each in deleted])

    adelete_thread = concurrency.awaited(delete_thread, writes=True)  # type: ignore[arg-type]  # self of the base class

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that some runs made, with what was written towards the next ones.

        Args:
            run_ids: The ids, as in the checkpoints' metadata ("run_id").

        Raises:
            InvalidInput: They are no list of ids.
        """
        runs = [id_of(run, "run") for run in codec.listed(run_ids, "run")]
        low, high = range_of(self._namespace())
        now = self.database.now()
        self._change(lambda tx: memories.delete_for_runs(tx, runs, low, high, now=now))

    adelete_for_runs = concurrency.awaited(delete_for_runs, writes=True)  # type: ignore[arg-type]  # self of the base class

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread whole; no content is copied.

        Args:
            source_thread_id: The thread.
            target_thread_id: The copy. An earlier copy gets what is new, and keeps what it has.

        Raises:
            InvalidInput: There is another thread of this id.
        """
        source = ThreadKey(path_of(self._namespace()), id_of(source_thread_id, "thread"))
        target, now = id_of(target_thread_id, "thread"), self.database.now()
        self._change(lambda tx: memories.copy(tx, source, target, now=now))

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
        names = [id_of(thread_id, "thread") for thread_id in codec.listed(thread_ids, "thread")]
        if strategy == "delete":
            for name in names:
                self.delete_thread(name)
            return
        low, high = range_of(self._namespace())
        threads: list[ThreadKey] = []
        for name in names:
            rows = self.database.engine.read(partial(query.threads_within, low=low, high=high, name=name))
            if not low:
                self.database.scopes.check_one([row["path"] for row in rows], name, memories.WITHIN)
            threads += [ThreadKey(row["path"], name) for row in rows]
        for at in threads:
            prune = partial(memories.prune, at=at, keep=1, now=self.database.now())
            while self._change(prune) >= thread_lines.BATCH:
                continue

    aprune = concurrency.awaited(prune, writes=True)  # type: ignore[arg-type]  # self of the base class

    def get_next_version(self, current: str | float | None, channel: None) -> str:
        """Return a version that follows any saver's version and is unique in all forks."""
        del channel
        return next_version(current)

    def _namespace(self) -> Namespace:
        """Return the namespace of the run; by default the root, which means all."""
        return self.database.scopes.resolve(None, bare=True)

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _putting(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Callable[[], RunnableConfig]:
        """Serialize a checkpoint now, as it is, and return the function that stores it.

        LangGraph goes on while a checkpoint is being stored, and the next node may change what is in it.
        """
        at, ns, parent = codec.address(config, self.database.scopes)
        codec.check_checkpoint(checkpoint, metadata, new_versions)
        try:
            told: dict[str, Any] = dict(get_checkpoint_metadata(config, metadata))
        except (AttributeError, TypeError) as error:
            raise InvalidInput(
                "The metadata of a checkpoint and of its config are dictionaries whose keys are texts, not "
                f"{safe_repr(metadata)} and {safe_repr(config.get('metadata'))}."
            ) from error
        stored, plan = self._taken_apart(at, dict(checkpoint), told, parent, new_versions)
        remember: Later = []
        retains = self.retention is not None and not self.retention.off
        recorded = () if ns else tuple(name for name in self.record if name in new_versions)

        def operation(tx: Transaction) -> checkpoint_log.Stored:
            now = self.database.now()  # in the transaction: its view goes as far as what others wrote before
            follow = self._rewinding.follow(config, at, checkpoint, told, self.serde, recorded, now, remember)
            check = partial(self._rewinding.check, config, at)
            done = checkpoint_log.put(
                tx, at, ns, stored, plan, retention=self.retention, now=now, then=follow, check=check
            )
            if retains:
                self._rewinding.sweep(tx, done[0], ns, told)
            return done

        def store() -> RunnableConfig:
            path = at.path
            with suppress(ThreadDeleted):  # whoever deletes a thread does not get it back from a run that goes on
                thread = self._write(operation, at, ns)
                remember[0]()
                path = thread.path
            return codec.config_of(config["configurable"]["thread_id"], path, ns, stored.name, self.database.scopes)

        return store

    def _taken_apart(
        self,
        at: ThreadKey,
        checkpoint: dict[str, Any],
        metadata: Mapping[str, Any],
        parent: str | None,
        new_versions: Mapping[str, Any],
    ) -> tuple[checkpoint_log.Checkpoint, checkpoint_log.WritePlan]:
        """Serialize a checkpoint and those of its values that are new."""
        given = checkpoint["channel_values"]
        values = {codec.text_of(name, "channel"): given[name] for name in new_versions if name in given}
        stored = self._coding.folded(self.serde, at, checkpoint, metadata, parent, values)
        with codec.storable(at, "checkpoint"):
            rows: codec.Rows = [{"channel": name, "version": short(new_versions[name])} for name in values]
        return stored, self._coding.plan(self.serde, at, rows, list(values.items()), listing=True)

    def _taken_apart_writes(self, at: ThreadKey, found: CheckpointTuple) -> Sequence[checkpoint_log.WritePlan]:
        """Serialize what was written towards the checkpoint after one of another saver."""
        writes = []
        counts: Counter[str] = Counter()
        for order, (task, channel, value) in enumerate(found.pending_writes or ()):
            # Other savers do not return the paths of tasks, so the order of the returned writes replaces them.
            row: dict[str, object] = {"task": codec.text_of(task, "task"), "path": f"{order:08}"}
            row |= {"place": WRITES_IDX_MAP.get(channel, counts[task]), "channel": codec.text_of(channel, "channel")}
            counts[task] += 1
            writes.append(self._coding.plan(self.serde, at, [row], [(channel, value)], listing=False))
        return writes

    def _digest(self, value: Any) -> str:
        kind, data = self.serde.dumps_typed(value)
        return blake2b(kind.encode() + data, digest_size=6).hexdigest()

    def _putting_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Callable[[], None]:
        """Check the writes of a task, and return the function that stores them."""
        at, ns, name = codec.address(config, self.database.scopes)
        if name is None:
            raise InvalidInput('put_writes needs config["configurable"]["checkpoint_id"].')
        writes = codec.pairs(writes)
        rows: codec.Rows = [
            {
                "task": codec.text_of(task_id, "task"),
                "path": codec.text_of(task_path, "task's path", empty=True),
                "channel": codec.text_of(channel, "channel", empty=True),
                "place": WRITES_IDX_MAP.get(channel, place),
            }
            for place, (channel, _) in enumerate(writes)
        ]
        plan = self._coding.plan(self.serde, at, rows, writes, listing=False)
        now, runs = self.database.now(), runs_of(self.database)
        run_id = get_checkpoint_metadata(config, {}).get("run_id")

        def finish(tx: Transaction, thread: Thread) -> None:
            sealing.finish(tx, runs, config["configurable"], at, thread, writes, task_id, self.database.now())

        def operation(tx: Transaction) -> checkpoint_log.Stored:
            return checkpoint_log.put_writes(
                tx,
                at,
                ns,
                name,
                plan,
                now=now,
                run_id=None if run_id is None else str(run_id),
                before=finish,
                check=partial(self._rewinding.check, config, at),
            )

        def store() -> None:
            with suppress(ThreadDeleted):
                self._write(operation, at, ns)

        return store

    def _read(self, make: Operation[T], at: ThreadKey, name: str | None) -> T:
        with codec.readable(at, name):
            return self.database.engine.read(make)

    def _read_traced(self, name: str, config: RunnableConfig, at: ThreadKey, make: Operation[T]) -> T:
        """Read as a traced step."""
        configurable = config["configurable"]
        told = {key: configurable[key] for key in ("thread_id", "checkpoint_id") if configurable.get(key)}
        with codec.readable(at, configurable.get("checkpoint_id")):
            return self.database.read(name, make, lambda: told, lambda found: {"found": found is not None})

    def _tuple(self, config: RunnableConfig, saved: StoredCheckpoint, at: ThreadKey, ns: str) -> CheckpointTuple:
        """Return LangGraph's tuple of a stored checkpoint."""
        return self._coding.tuple(self.serde, saved, config["configurable"]["thread_id"], at, ns)

    def _write(self, make: Operation[checkpoint_log.Stored], at: ThreadKey, ns: str) -> Thread:
        """Store what was planned, and return the thread."""
        scopes = self.database.scopes

        def operation(tx: Transaction) -> checkpoint_log.Stored:
            doubtful = scopes.keys if not at.path else "{" in at.path
            if doubtful and thread_lines.find(tx, at) is None:
                scopes.check_new(*at)
            return make(tx)

        with codec.readable(at, None):
            engine = self.database.engine
            stored = engine.write(operation)
        self._coding.stored(at, ns, *stored)
        if self.retention is not None and not self.retention.off:
            engine.release()
        return stored[0]

    def _change(self, make: Operation[T]) -> T:
        value = self.database.engine.write(make)
        self.database.engine.release()
        return value


def refusal(database: Database, configs: Sequence[RunnableConfig]) -> str | None:
    """Return why a thread cannot be copied: it has advanced here and at the source.

    A thread has only one newest state.

    Args:
        database: The database that the thread is copied to.
        configs: The configs of its checkpoints at the source, the newest first.

    Returns:
        None if the source only advanced from the state here, or has nothing new.
    """
    at, _, _ = codec.address(configs[0], database.scopes.foreign)
    own = [_checkpoint_of(config) for config in configs if not config["configurable"].get("checkpoint_ns")]

    def look(tx: Transaction) -> str | None:
        thread = thread_lines.find(tx, at, exact=True)
        newest = [] if thread is None or thread.line is None else query.latest_checkpoint(tx, line=thread.line)
        if thread is None or not newest or newest[0]["name"] in own:
            return None
        there = (query.checkpoint_there(tx, line=thread.line, checkpoint=name) for name in own)
        if all(there):
            return None
        return (
            "it went on here since, so what is new at the source does not follow what is newest here: import it into "
            "another namespace, or erase it here before."
        )

    return database.engine.read(look)


def _checkpoint_of(config: RunnableConfig) -> str:
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
    return concurrency.on_callers_loop(aread)


__all__ = ["AgentMemorySaver", "ImportReport"]
