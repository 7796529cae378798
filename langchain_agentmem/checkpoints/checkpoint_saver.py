"""`AgentMemorySaver`: a LangGraph checkpointer that stores only what changed.

    with AgentMemorySaver.from_conn_string("agent.db") as saver:
        graph = builder.compile(checkpointer=saver)

One class serves synchronous and asynchronous graphs. A message is stored once, however many checkpoints, forks, threads
and conversations contain it. If a list has grown, only its new elements are stored. A copied thread shares the content
of the original.

By default the saver uses LangGraph's own, permissive serializer. It restores pydantic models, dataclasses, enums and
named tuples with their types, and logs the name of each restored class once. If others can write to the database, use
`strict=True`, or set LANGGRAPH_STRICT_MSGPACK. Then the saver imports only the classes that LangGraph considers safe
and the classes that you allow. It returns an object of another class as plain data, and logs how to allow the class:

    saver = AgentMemorySaver("agent.db", strict=True).with_allowlist([Plan, ("my.module", "Trip")])

With LANGGRAPH_STRICT_MSGPACK, LangGraph itself allows the classes in a graph's schema. Nothing is pickled. An
`EncryptedSerializer` encrypts everything except ids, names of channels and the structure of lists. Messages are then
shared only within their thread. Any other serializer stores each version of a value as a whole.

A complete graph with this checkpointer:

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

The checkpointer of an `AgentMemory` also records messages. It adds each message of the channel "messages" once to the
conversation with the thread's id, in the transaction of the put. From then on `memory.search` finds the message. A
rewind of the thread also rewinds the conversation. `AgentMemory(url, record=("talk",))` records another channel, and
`record=()` records none.

A thread belongs to the namespace of the run that created it. A call without a namespace refers to the thread of that id
in the root namespace. If the root has no such thread, the id must be unique in the database.
`Retention(keep_last=…, max_age=…)` keeps only the newest checkpoints of each thread.
`saver.import_checkpoints(other_saver)` or `agentmem import-from langgraph-saver` copies every thread of another saver
with its history.

With LangGraph's `durability="async"` a checkpoint may still wait for the previous one while the next node runs. A node
that changes objects of the state in place can then change the waiting checkpoint. Every saver that stores checkpoints
in the background has this problem. To avoid it, use `durability="sync"`, or return new objects from nodes.
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
from langchain_agentmem.base.hooks import check_callable
from langchain_agentmem.base.namespaces import CONFIG_KEY, Namespace, ThreadKey, check_id, path_of, path_range
from langchain_agentmem.checkpoints import checkpoint_codec as codec
from langchain_agentmem.checkpoints import checkpoint_listing
from langchain_agentmem.checkpoints.checkpoint_listing import CheckpointChanges, CheckpointHistory
from langchain_agentmem.checkpoints.rewind_follower import RewindFollower, identify_loop
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.rewinding import sealing, thread_memory
from langchain_agentmem.rewinding.graph_runs import get_run_registry
from langchain_agentmem.storage import Operation, Transaction, query
from langchain_agentmem.storage.database import Database, LazyDatabase, MemoryLike, database_of
from langchain_agentmem.storage.engine import DatabaseOptions, OpeningOptions
from langchain_agentmem.threads import checkpoint_log, thread_rows
from langchain_agentmem.threads.checkpoint_log import StoredCheckpoint, next_version, shorten_version
from langchain_agentmem.threads.thread_rows import Thread, ThreadDeleted
from langchain_agentmem.threads.value_codec import SHARE_EVERYTHING, ValueReader, sharing_level

P = ParamSpec("P")
T = TypeVar("T")

Callbacks: TypeAlias = list[Callable[[], None]]
"""Functions to call after a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The progress of an import.

    Attributes:
        checkpoints: The number of copied checkpoints.
        known: The number of checkpoints that existed already.
        threads: The number of threads to import, without skipped threads.
        left_out: The reasons why threads were skipped, by thread id: they have new checkpoints in both databases.
    """

    checkpoints: int = 0
    known: int = 0
    threads: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


class AgentMemorySaver(concurrency.Closable, BaseCheckpointSaver[str]):
    """A LangGraph checkpointer.

    Threads are identified by their id and the namespace of the run, `config["configurable"]["agentmem_namespace"]`. A
    call without a namespace refers to the thread of that id in the root namespace. If the root has no such thread, the
    id must be unique in the database.

    Attributes:
        database: The database that stores the checkpoints.

    Args:
        memory: An `AgentMemory`, or a path, ":memory:" or "postgresql://…". All objects in this process that use the
            same path share one open file.
        serde: A LangGraph serializer. Default: LangGraph's own.
        strict: True to import only the classes that LangGraph considers safe and those of `with_allowlist`. Objects of
            other classes are returned as plain data. Default: the setting of the `AgentMemory`, else the value of
            LANGGRAPH_STRICT_MSGPACK. Not allowed with `serde`, which has its own rules.
        retention: The rules that select the checkpoints to keep, applied to each checkpoint namespace of a thread. The
            newest checkpoint is always kept. Threads with DeltaChannels are not pruned. Default: the setting of the
            `AgentMemory`.
        record: The channels whose messages are recorded in the conversation with the thread's id, in the transaction of
            the put. Searches find them as soon as the put is committed. () for none. Recording needs LangGraph's own
            serializer. If no message of a thread is recorded yet, the first put records all of its messages. Otherwise,
            messages that were put while recording was off are never recorded. Default: the setting of the
            `AgentMemory` without `serde`; none with `serde`.

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
            raise InvalidInput("Pass strict=True or a serde, not both: a given serializer has its own import rules.")
        super().__init__(serde=serde or codec.make_serializer(strict=strict or getattr(memory, "strict", False)))
        retention = retention if retention is not None else getattr(memory, "retention", None)
        self.retention = check_instance(Retention, retention, "retention")
        if record is None:
            record = getattr(memory, "record", ()) if serde is None else ()
        self.record = tuple(dict.fromkeys(parse_texts(record, "The channels to record")))
        if self.record and sharing_level(self.serde) != SHARE_EVERYTHING:
            raise InvalidInput(
                "Recording messages needs LangGraph's own serializer, without encryption. Pass record=(), or omit "
                "serde."
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
        """Open a database, and return a saver whose `close` closes that database.

        Args:
            conn_string: A path, ":memory:" or "postgresql://…".
            serde: See the class.
            strict: See the class.
            retention: See the class.
            record: See the class. Default: nothing is recorded.
            **options: The options of the database, as for `AgentMemory`: schema, pool_size, timeout, key and so on.

        Returns:
            The saver. Use it with `with` or `async with`, or close it manually.
        """
        database = LazyDatabase(conn_string, DatabaseOptions.of(options))
        saver = cls(database, serde=serde, strict=strict, retention=retention, record=record)
        saver._owns_database = True
        return saver

    def setup(self) -> concurrency.CompletedAwaitable:
        """Do nothing, since an open database has all tables. The result may be awaited."""
        return concurrency.CompletedAwaitable()

    def close(self) -> None:
        """Close the database if this saver opened it with `from_conn_string`."""
        if self._owns_database:
            self.database.close()
            self._codec.forget()  # the saver is in a reference cycle, which would keep the messages for longer

    # -- reading -----------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint: the one that the config names, else the newest.

        Raises:
            InvalidInput: The config names no thread, or its thread is in several namespaces.
            CheckpointUnreadable: The checkpoint is damaged, or was written with another serializer.
        """
        return self._read_tuple(config, identify_loop(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Run `get_tuple` asynchronously."""
        return await concurrency.run_in_worker(partial(self._read_tuple, config, identify_loop(config)))

    def _read_tuple(self, config: RunnableConfig, pregel_loop: Any) -> CheckpointTuple | None:
        at, ns, checkpoint_id = codec.parse_config(config, self.database.scopes)

        def load(tx: Transaction) -> StoredCheckpoint | None:
            return checkpoint_log.get(tx, at, ns, checkpoint_id, self._codec.message_cache.recall)

        saved = self._read(load, at, checkpoint_id)
        loaded = None if saved is None else self._make_tuple(config, saved, at, ns)
        thread = None if saved is None else saved.thread
        self._follower.record_read(config, loaded, pregel_loop, pinned=checkpoint_id is not None, thread=thread)
        return loaded

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Read checkpoints, newest first, a page at a time, without locks between the pages.

        Args:
            config: The config of the thread, and optionally of a subgraph or checkpoint. None for all threads.
            filter: The values that the metadata must have, by key. If the metadata has no key "a.b", the filter checks
                the value "b" within "a". Default: no filter.
            before: The config of a checkpoint. Only older checkpoints are returned. Default: no bound.
            limit: The maximum number. Default: all.

        Raises:
            InvalidInput: The config names no thread, `before` names no checkpoint, the filter is not a dictionary, or
                the limit is not a nonnegative integer.
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
        """Run `list` asynchronously."""
        pages = checkpoint_listing.list_pages(self, config, filter, before, limit)
        async for page in concurrency.iterate_in_worker(pages):
            for checkpoint in page:
                yield checkpoint

    def history(
        self,
        config: RunnableConfig,
        *,
        limit: int | None = None,
        offset: int = 0,
        around: str | None = None,
        ends: bool = False,
    ) -> CheckpointHistory:
        """Return the checkpoints of a thread without their values, which are not read.

        Args:
            config: The config of the thread, and optionally of a subgraph.
            limit: The maximum number of checkpoints. Default: all.
            offset: The number of newest checkpoints to skip. Default: 0.
            around: The id of the checkpoint in the middle of the results, instead of an offset. Default: none.
            ends: True to return only checkpoints without children, the latest of each fork. Default: False.

        Returns:
            The checkpoints, newest first, each with the id of its parent; and their total number.

        Raises:
            InvalidInput: The config names no thread, its thread is in several namespaces, or a number is not valid.
            CheckpointUnreadable: A checkpoint is damaged, or was written with another serializer.
        """
        return checkpoint_listing.history(self, config, limit, offset, around, ends=ends)

    ahistory = concurrency.awaited(history)

    def changes(self, config: RunnableConfig, since: str | None = None) -> CheckpointChanges | None:
        """Return the values in which a checkpoint differs from an earlier one of its thread.

        Args:
            config: The config of the checkpoint. Without a checkpoint id, the newest one is used.
            since: The id of the earlier checkpoint. Default: the parent.

        Returns:
            Both checkpoints with only the values that differ; None if the checkpoint or `since` does not exist. The
            first checkpoint of a thread is returned alone, with all its values. A checkpoint whose parent was removed
            is returned alone, without values.

        Raises:
            InvalidInput: The config names no thread, its thread is in several namespaces, or an id is not valid.
            CheckpointUnreadable: A checkpoint is damaged, or was written with another serializer.
        """
        return checkpoint_listing.changes(self, config, since)

    achanges = concurrency.awaited(changes)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return each DeltaChannel's last value before a checkpoint, and the writes since.

        Args:
            config: The config of the checkpoint.
            channels: The names of the channels.
        """
        at, ns, start = codec.parse_config(config, self.database.scopes)
        names = [codec.check_id(channel, "channel", empty=True) for channel in codec.check_list(channels, "channel")]
        histories: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in names}
        recall = self._codec.message_cache.recall
        ancestors = self._read(lambda tx: checkpoint_log.load_ancestors(tx, at, ns, start, names, recall), at, start)
        missing = set(names)  # the channels whose value was not found yet
        for saved in ancestors:
            reader = ValueReader(self.serde, self._codec.message_cache, saved.thread.store, saved.parts)
            with codec.report_damage(at, saved.name, decoding=True):
                for channel in sorted(missing):
                    writes = [write for write in saved.writes if write.channel == channel]
                    histories[channel]["writes"][:0] = codec.read_writes(writes, reader)
                    if channel in saved.values and (seed := reader.read_value(saved.values[channel])) is not None:
                        histories[channel]["seed"] = seed  # an empty channel needs no seed
            missing -= saved.values.keys()
        return histories

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
            config: The config of the thread and the parent checkpoint.
            checkpoint: The checkpoint.
            metadata: Its metadata; the metadata of the config is added.
            new_versions: The versions of the channels that have changed since the parent.

        Returns:
            The config of this checkpoint.

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
        """Run `put` asynchronously."""
        store = self._prepare_put(config, checkpoint, metadata, new_versions)
        return await concurrency.run_in_worker(store, writes=True)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task, which the next checkpoint applies.

        Args:
            config: The config of the thread and of the checkpoint that the task continues. The checkpoint need not be
                stored yet.
            writes: The pairs of channel and value.
            task_id: The id of the task.
            task_path: The path of the task, which determines the order in which writes are applied.

        Raises:
            InvalidInput: The config names no thread or checkpoint, or a value cannot be serialized. Nothing is stored.
        """
        self._prepare_writes(config, writes, task_id, task_path)()

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Run `put_writes` asynchronously."""
        await concurrency.run_in_worker(self._prepare_writes(config, writes, task_id, task_path), writes=True)

    def adopt(self, found: CheckpointTuple, *, dry_run: bool = False) -> bool:
        """Store a checkpoint of another saver unchanged, with its pending writes.

        Adopt the checkpoints of a thread from the oldest to the newest. Recorded messages get the time of their
        checkpoint. If the checkpoint exists already, only its missing pending writes are added.

        Args:
            found: The checkpoint, as the other saver's `list` or `get_tuple` returns it.
            dry_run: True to store nothing, and only check whether the checkpoint exists. Default: False.

        Returns:
            True if the checkpoint is new; False if it existed already.

        Raises:
            InvalidInput: The checkpoint cannot be stored. Nothing was stored.
        """
        if not isinstance(found, CheckpointTuple):
            raise InvalidInput(f"adopt needs a CheckpointTuple of another checkpointer, not {safe_repr(found)}.")
        at, ns, given_id = codec.parse_config(found.config, self.database.scopes.without_template)
        adopted_id = codec.check_id(given_id, "checkpoint")

        def is_stored(tx: Transaction) -> bool:
            thread = thread_rows.find_thread(tx, at, ns, exact=True)
            return thread is not None and bool(query.checkpoint_exists(tx, ns_id=thread.ns_id, checkpoint=adopted_id))

        exists = self._read(is_stored, at, adopted_id)
        if check_flag("dry_run", dry_run):
            return not exists
        write_plans = self._plan_imported_writes(at, found)
        if exists and not write_plans:
            return False
        checkpoint = checkpoint_log.convert_versions(dict(found.checkpoint), self._digest)
        metadata, now = dict(found.metadata), self.database.now()
        with suppress(InvalidInput, TypeError):  # raised if the checkpoint has no valid creation time
            now = min(now, to_micros(parse_time(checkpoint["ts"])))
        parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
        stored, plan = self._plan_checkpoint(at, checkpoint, metadata, parent, checkpoint["channel_versions"])
        after_commit: Callbacks = []
        follow = None
        if not ns:
            config = {"configurable": {"thread_id": at.name, "checkpoint_id": parent}}
            recorded = [channel for channel in self.record if channel in checkpoint["channel_versions"]]
            follow = self._follower.follow_put(
                config, at, checkpoint, metadata, self.serde, recorded, now, after_commit
            )

        def operation(tx: Transaction) -> bool:
            after_commit.clear()
            is_new = not is_stored(tx)
            if is_new:
                checkpoint_log.put(tx, at, ns, stored, plan, retention=None, now=now, exact=True, follow_up=follow)
            for write_plan in write_plans:  # also for an existing checkpoint, which may have more writes now
                checkpoint_log.put_writes(tx, at, ns, adopted_id, write_plan, now=now, exact=True)
            return is_new

        with codec.report_damage(at, adopted_id):
            is_new = self.database.engine.write(operation)
        for callback in after_commit:
            callback()
        return is_new

    def import_checkpoints(
        self,
        from_saver: BaseCheckpointSaver[Any],
        *,
        thread_ids: Sequence[str] | None = None,
        progress: Callable[[ImportReport], None] | None = None,
    ) -> ImportReport:
        """Copy the threads of another saver, with all checkpoints and pending writes.

        Existing checkpoints are not changed, so run an interrupted import again to continue it. If this saver records
        messages, `memory.search` finds the imported messages, with the times of their checkpoints. A thread with new
        checkpoints in both databases is skipped: import it into another namespace, or erase it in this database first.
        Use `aimport_checkpoints` for an async-only saver.

        Args:
            from_saver: Any other saver.
            thread_ids: The ids of the threads to import. Default: all.
            progress: Called with an `ImportReport` after every checkpoint.

        Raises:
            InvalidInput: A checkpoint cannot be stored. The checkpoints before it were stored.
        """
        if not all(callable(getattr(from_saver, name, None)) for name in ("list", "alist", "get_tuple", "aget_tuple")):
            raise InvalidInput(f"import_checkpoints needs another checkpointer, not {safe_repr(from_saver)}.")
        progress = check_callable(progress, "progress")
        selected: list[RunnableConfig | None] = [None]
        if thread_ids is not None:
            selected = [{"configurable": {"thread_id": name}} for name in codec.check_list(thread_ids, "thread")]
        threads: dict[tuple[str, str], list[RunnableConfig]] = {}
        for config in (config for thread in selected for config in _list_configs(from_saver, thread)):
            configurable = config["configurable"]
            key = str(configurable["thread_id"]), str(configurable.get(CONFIG_KEY))
            threads.setdefault(key, []).append(config)  # by thread id and namespace
        reasons = {key: find_refusal_reason(self.database, configs) for key, configs in threads.items()}
        left_out = {key[0]: reason for key, reason in reasons.items() if reason is not None}
        report = ImportReport(threads=list(reasons.values()).count(None), left_out=left_out)
        for key, configs in threads.items():
            for config in sorted(configs, key=_checkpoint_id) if reasons[key] is None else ():
                loaded = _read_other(partial(from_saver.get_tuple, config), partial(from_saver.aget_tuple, config))
                if loaded is None:
                    continue
                if self.adopt(loaded):
                    report = replace(report, checkpoints=report.checkpoints + 1)
                else:
                    report = replace(report, known=report.known + 1)
                if progress is not None:
                    progress(report)
        return report

    aimport_checkpoints = concurrency.awaited(import_checkpoints, writes=True)

    # -- whole threads -----------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread in the namespace of the run or memory; without one, in all namespaces.

        Raises:
            InvalidInput: The namespace template is not filled in, and several namespaces have a thread of this id.
        """
        name, (low, high) = check_id(thread_id, "thread"), path_range(self._namespace())
        now, scopes = self.database.now(), self.database.scopes
        deleted = self._change(lambda tx: thread_memory.delete_threads(tx, low, high, name, now=now, scopes=scopes))
        # Discard the cached threads, and the places of checkpoints that the run registry caches.
        self._codec.forget(deleted)
        get_run_registry(self.database).forget([thread.at for thread in deleted])

    adelete_thread = concurrency.awaited(delete_thread, writes=True)  # type: ignore[arg-type]  # self of the base class

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of some runs, with the pending writes of these runs.

        Args:
            run_ids: The ids of the runs, the "run_id" values in the metadata of checkpoints.

        Raises:
            InvalidInput: The argument is not a list of ids.
        """
        runs = [check_id(run, "run") for run in codec.check_list(run_ids, "run")]
        low, high = path_range(self._namespace())
        now = self.database.now()
        self._change(lambda tx: thread_memory.delete_for_runs(tx, runs, low, high, now=now))

    adelete_for_runs = concurrency.awaited(delete_for_runs, writes=True)  # type: ignore[arg-type]  # self of the base class

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its checkpoints; content is shared, not copied.

        Args:
            source_thread_id: The id of the thread.
            target_thread_id: The id of the copy. If an earlier copy has this id, it gets the missing checkpoints.

        Raises:
            InvalidInput: A thread that is not a copy of the source has the id of the copy.
        """
        source = ThreadKey(path_of(self._namespace()), check_id(source_thread_id, "thread"))
        target, now = check_id(target_thread_id, "thread"), self.database.now()
        self._change(lambda tx: thread_memory.copy_thread(tx, source, target, now=now))

    acopy_thread = concurrency.awaited(copy_thread, writes=True)  # type: ignore[arg-type]  # self of the base class

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove old checkpoints and free their space, in batches between which others can write.

        Args:
            thread_ids: The ids of the threads.
            strategy: "keep_latest" keeps the newest checkpoint of each checkpoint namespace. It skips threads with
                DeltaChannels, whose checkpoints need their ancestors. "delete" deletes the threads.

        Raises:
            InvalidInput: The strategy is unknown, or a thread id is not valid or is in several namespaces.
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
        """Return a version that follows the current one and is unique in all forks."""
        del channel
        return next_version(current)

    def _namespace(self) -> Namespace:
        """Return the namespace of the current run or memory; the root if there is none."""
        return self.database.scopes.resolve(None, optional=True)

    # -- helpers -----------------------------------------------------------------------------------------------

    def _prepare_put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Callable[[], RunnableConfig]:
        """Serialize a checkpoint immediately, and return the function that stores it.

        LangGraph continues while a checkpoint is being stored, and the next node may change its values.
        """
        at, ns, parent = codec.parse_config(config, self.database.scopes)
        codec.check_checkpoint(checkpoint, metadata, new_versions)
        try:
            merged: dict[str, Any] = dict(get_checkpoint_metadata(config, metadata))
        except (AttributeError, TypeError) as error:
            raise InvalidInput(
                "The metadata of a checkpoint and of its config must be dictionaries with string keys, not "
                f"{safe_repr(metadata)} and {safe_repr(config.get('metadata'))}."
            ) from error
        stored, plan = self._plan_checkpoint(at, dict(checkpoint), merged, parent, new_versions)
        after_commit: Callbacks = []  # its only element is set when the checkpoint is stored
        may_remove = self.retention is not None and not self.retention.is_off
        recorded = () if ns else tuple(name for name in self.record if name in new_versions)

        def operation(tx: Transaction) -> checkpoint_log.StoreResult:
            now = self.database.now()  # read in the transaction, so that committed writes of others are older
            follow = self._follower.follow_put(config, at, checkpoint, merged, self.serde, recorded, now, after_commit)
            check = partial(self._follower.check_thread, config, at)
            result = checkpoint_log.put(
                tx, at, ns, stored, plan, retention=self.retention, now=now, follow_up=follow, check=check
            )
            if may_remove:
                self._follower.sweep_memory(tx, result[0], ns, merged)
            return result

        def store() -> RunnableConfig:
            path = at.path
            with suppress(ThreadDeleted):  # the run continues, but does not create its deleted thread again
                thread = self._write(operation, at, ns)
                after_commit[0]()
                path = thread.path
            return codec.make_config(config["configurable"]["thread_id"], path, ns, stored.name, self.database.scopes)

        return store

    def _plan_checkpoint(
        self,
        at: ThreadKey,
        checkpoint: dict[str, Any],
        metadata: Mapping[str, Any],
        parent: str | None,
        new_versions: Mapping[str, Any],
    ) -> tuple[checkpoint_log.Checkpoint, checkpoint_log.WritePlan]:
        """Serialize a checkpoint and its new values; return its row and the plan of its values."""
        all_values = checkpoint["channel_values"]
        values = {codec.check_id(name, "channel"): all_values[name] for name in new_versions if name in all_values}
        stored = self._codec.prepare_checkpoint(self.serde, at, checkpoint, metadata, parent, values)
        with codec.report_unstorable(at, "checkpoint"):
            rows: codec.ValueRows = [{"channel": key, "version": shorten_version(new_versions[key])} for key in values]
        return stored, self._codec.plan_write(self.serde, at, rows, list(values.items()), for_channels=True)

    def _plan_imported_writes(self, at: ThreadKey, found: CheckpointTuple) -> Sequence[checkpoint_log.WritePlan]:
        """Serialize the pending writes of another saver's checkpoint."""
        plans = []
        counts: Counter[str] = Counter()
        for order, (task, channel, value) in enumerate(found.pending_writes or ()):
            # Other savers do not return task paths, so the order of the returned writes replaces the paths.
            row: dict[str, object] = {"task": codec.check_id(task, "task"), "path": f"{order:08}"}
            row |= {"idx": WRITES_IDX_MAP.get(channel, counts[task]), "channel": codec.check_id(channel, "channel")}
            counts[task] += 1
            plans.append(self._codec.plan_write(self.serde, at, [row], [(channel, value)], for_channels=False))
        return plans

    def _digest(self, value: Any) -> str:
        """Return a short digest of a value, which becomes a part of its channel version."""
        type_name, data = self.serde.dumps_typed(value)
        return blake2b(type_name.encode() + data, digest_size=6).hexdigest()

    def _prepare_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Callable[[], None]:
        """Check the writes of a task, and return the function that stores them."""
        at, ns, checkpoint_id = codec.parse_config(config, self.database.scopes)
        if checkpoint_id is None:
            raise InvalidInput('put_writes needs config["configurable"]["checkpoint_id"].')
        writes = codec.check_writes(writes)
        rows: codec.ValueRows = [
            {
                "task": codec.check_id(task_id, "task"),
                "path": codec.check_id(task_path, "task's path", empty=True),
                "channel": codec.check_id(channel, "channel", empty=True),
                "idx": WRITES_IDX_MAP.get(channel, index),
            }
            for index, (channel, _) in enumerate(writes)
        ]
        plan = self._codec.plan_write(self.serde, at, rows, writes, for_channels=False)
        now, runs = self.database.now(), get_run_registry(self.database)
        run_id = get_checkpoint_metadata(config, {}).get("run_id")
        run_id = None if run_id is None else str(run_id)
        check = partial(self._follower.check_thread, config, at)

        def finish(tx: Transaction, thread: Thread) -> None:
            sealing.finish_task(tx, runs, config["configurable"], at, thread, writes, task_id, self.database.now())

        def operation(tx: Transaction) -> checkpoint_log.StoreResult:
            return checkpoint_log.put_writes(
                tx, at, ns, checkpoint_id, plan, now=now, run_id=run_id, before_insert=finish, check=check
            )

        def store() -> None:
            with suppress(ThreadDeleted):
                self._write(operation, at, ns)

        return store

    def _read(self, operation: Operation[T], at: ThreadKey, checkpoint_id: str | None) -> T:
        with codec.report_damage(at, checkpoint_id):
            return self.database.engine.read(operation)

    def _read_traced(self, name: str, config: RunnableConfig, at: ThreadKey, operation: Operation[T]) -> T:
        """Run a read operation as a traced step."""
        configurable = config["configurable"]
        inputs = {key: configurable[key] for key in ("thread_id", "checkpoint_id") if configurable.get(key)}
        with codec.report_damage(at, configurable.get("checkpoint_id")):
            return self.database.read(name, operation, lambda: inputs, lambda found: {"found": found is not None})

    def _make_tuple(self, config: RunnableConfig, saved: StoredCheckpoint, at: ThreadKey, ns: str) -> CheckpointTuple:
        """Convert a stored checkpoint to LangGraph's tuple."""
        return self._codec.make_tuple(self.serde, saved, config["configurable"]["thread_id"], at, ns)

    def _write(self, store: Operation[checkpoint_log.StoreResult], at: ThreadKey, ns: str) -> Thread:
        """Run an operation that stores values, and return the row of the thread."""
        scopes = self.database.scopes

        def operation(tx: Transaction) -> checkpoint_log.StoreResult:
            # With a namespace template, no new thread may be created for a path whose keys are not filled in.
            may_be_refused = scopes.keys if not at.path else "{" in at.path
            if may_be_refused and thread_rows.find_thread(tx, at) is None:
                scopes.check_new(*at)
            return store(tx)

        with codec.report_damage(at, None):
            stored = self.database.engine.write(operation)
        self._codec.note_stored(at, ns, *stored)
        if self.retention is not None and not self.retention.is_off:
            self.database.engine.release()
        return stored[0]

    def _change(self, operation: Operation[T]) -> T:
        """Run an operation on whole threads, then return freed space to the system."""
        value = self.database.engine.write(operation)
        self.database.engine.release()
        return value


def find_refusal_reason(database: Database, configs: Sequence[RunnableConfig]) -> str | None:
    """Return the reason not to import a thread: it has new checkpoints in both databases.

    Args:
        database: The database that the thread is imported into.
        configs: The configs of the thread's checkpoints in the other saver, the newest first.

    Returns:
        The reason; None if the other saver has no new checkpoints, or they continue the newest checkpoint here.
    """
    at, _, _ = codec.parse_config(configs[0], database.scopes.without_template)
    source_ids = [_checkpoint_id(config) for config in configs if not config["configurable"].get("checkpoint_ns")]

    def load(tx: Transaction) -> str | None:
        thread = thread_rows.find_thread(tx, at, exact=True)
        newest = [] if thread is None or thread.ns_id is None else query.latest_checkpoint(tx, ns_id=thread.ns_id)
        if thread is None or not newest or newest[0]["name"] in source_ids:
            return None
        exists = (query.checkpoint_exists(tx, ns_id=thread.ns_id, checkpoint=name) for name in source_ids)
        if all(exists):
            return None
        return (
            "the thread also advanced here, so new checkpoints at the source do not continue its newest one: import "
            "it into another namespace, or erase it here first."
        )

    return database.engine.read(load)


def _checkpoint_id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _list_configs(saver: Any, config: RunnableConfig | None) -> list[RunnableConfig]:
    """Return the configs of the checkpoints of a thread, or of all threads, the newest first."""

    async def alist() -> list[RunnableConfig]:
        return [checkpoint.config async for checkpoint in saver.alist(config)]

    return _read_other(lambda: [checkpoint.config for checkpoint in saver.list(config)], alist)


def _read_other(read: Callable[[], T], aread: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Read from another saver; if it is async-only, on the event loop of the caller."""
    concurrency.check_cancelled()
    try:
        return read()
    except NotImplementedError:
        if not concurrency.is_in_worker():
            raise
    return concurrency.run_on_callers_loop(aread)


__all__ = ["AgentMemorySaver", "ImportReport"]
