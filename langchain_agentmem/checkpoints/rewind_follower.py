"""The observer through which the memory of a thread follows its checkpoints.

A *function* is a function with LangGraph's `@task` decorator. LangGraph does not report when it reuses the stored
result of a function. Only its Pregel loop has this information. The loop calls the saver, so `find_pregel_loop` finds
it on the call stack. If the stack has no loop, no run begins: for example, a program reads a checkpoint.

An *attempt* is one execution of a node or function. LangGraph retries a node without informing its saver. Unless the
failure is reported, memory that the failed attempt wrote remains if the next attempt writes none. So a LangChain
callback handler, which costs about 20 µs per node, reports all attempts. For LangChain's callbacks, each attempt is a
chain. The chain of a function is nested in its caller's chain, and has a longer checkpoint namespace.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.context import register_configure_hook
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.errors import GraphBubbleUp, ParentCommand

from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.base.namespaces import ThreadKey, configurable_of, namespace_of
from langchain_agentmem.checkpoints.checkpoint_codec import decode_blob, parse_config, read_message
from langchain_agentmem.rewinding import sealing, thread_memory
from langchain_agentmem.rewinding.graph_runs import GraphLoop, GraphRun, RunRegistry, add_identity, get_run_registry
from langchain_agentmem.rewinding.sealing import CheckpointPut, ParentCheckpoint
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import CheckpointMessage
from langchain_agentmem.storage.transaction import Rows
from langchain_agentmem.threads import checkpoint_log
from langchain_agentmem.threads.checkpoint_log import FinishFollowUp, FollowUp, parse_versions, unpack_header
from langchain_agentmem.threads.thread_rows import Thread, ThreadDeleted
from langchain_agentmem.threads.value_store import Recall


class _AttemptWatcher(BaseCallbackHandler):
    """A callback handler for the attempts of all nodes and functions in this process."""

    run_inline = ignore_steps = True
    ignore_llm = ignore_chat_model = ignore_retriever = ignore_agent = ignore_custom_event = ignore_retry = True

    def __init__(self) -> None:
        self.registries: weakref.WeakSet[RunRegistry] = weakref.WeakSet()
        # Both by the run id of a chain: checkpoint namespace and graph runs; parent's run id and checkpoint namespace.
        self._attempts: dict[UUID, tuple[str, list[tuple[RunRegistry, GraphRun]]]] = {}
        self._chains: dict[UUID, tuple[UUID | None, str]] = {}

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        del serialized, inputs, rest
        ns = metadata.get("langgraph_checkpoint_ns") if metadata else None
        if ns is None or metadata is None:
            return
        self._chains[run_id] = parent_run_id, ns
        registries = list(self.registries)
        is_attempt = any(tag.startswith("graph:step:") for tag in tags or ()) or self._is_call(parent_run_id, ns)
        if not is_attempt and not any(registry.is_graph_run(parent_run_id) for registry in registries):
            return  # a chain within an attempt, such as a LangChain runnable that the node calls
        chains, thread = list(self._yield_ancestors(parent_run_id)), str(metadata.get("thread_id"))
        pairs = [(registry, run) for registry in registries if (run := registry.find_run(chains, thread)) is not None]
        self._attempts[run_id] = ns, pairs
        for registry, run in pairs:
            registry.start_attempt(run, ns, metadata.get("langgraph_step"), run_id)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **rest: Any) -> None:
        del outputs, rest
        for registry, run, ns in self._pop_attempt(run_id):
            registry.end_attempt(run, ns, run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        del rest
        for registry, run, ns in self._pop_attempt(run_id):
            if isinstance(error, ParentCommand):  # LangGraph raises a command to the parent graph; it is a result
                registry.end_attempt(run, ns, run_id)
            else:
                registry.fail_attempt(run, ns, run_id, interrupted=isinstance(error, GraphBubbleUp))

    def _is_call(self, parent: UUID | None, ns: str) -> bool:
        """Return whether a chain is a function: its namespace extends that of its parent."""
        parent_chain = None if parent is None else self._chains.get(parent)
        return parent_chain is not None and ns.startswith(f"{parent_chain[1]}|")

    def _yield_ancestors(self, run_id: UUID | None) -> Iterator[UUID]:
        """Yield the id of a LangChain run and the ids of its ancestors, the nearest first."""
        while run_id is not None:
            yield run_id
            run_id, _ = self._chains.get(run_id, (None, ""))

    def _pop_attempt(self, run_id: UUID) -> list[tuple[RunRegistry, GraphRun, str]]:
        """Remove an ended attempt; return its graph runs, each with its registry and namespace."""
        self._chains.pop(run_id, None)
        ns, pairs = self._attempts.pop(run_id, ("", []))
        return [(registry, run, ns) for registry, run in pairs]


_WATCHER = _AttemptWatcher()
register_configure_hook(ContextVar("agentmem_watch", default=_WATCHER), inheritable=True)


def watch_attempts(registry: RunRegistry) -> None:
    """Register a run registry, to which the starts and ends of all attempts are then reported."""
    _WATCHER.registries.add(registry)


SWEEP_EVERY = 32
"""The number of LangGraph steps of a thread between deletions of memory that no remaining checkpoint shows."""


class RewindFollower:
    """An observer that reports the calls of a saver to the run registry of a database.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._runs = get_run_registry(database)
        watch_attempts(self._runs)

    def record_read(
        self,
        config: RunnableConfig,
        loaded: CheckpointTuple | None,
        pregel_loop: Any,
        *,
        pinned: bool,
        replayed: bool = False,
        thread: Thread | None = None,
    ) -> None:
        """Record that a checkpoint was read, and register the loop that starts from it, if any.

        Args:
            config: The config of the call.
            loaded: The checkpoint; None if there is none.
            pregel_loop: LangGraph's loop, if one is calling.
            pinned: True if the config names the checkpoint. False if the call asked for the newest one.
            replayed: True if a subgraph restarts from the checkpoint because its thread was rewound.
            thread: The thread that was read; None if it does not exist yet. A new run detects a later deletion of this
                thread.
        """
        scopes = self._database.scopes
        at, ns, _ = parse_config(config, scopes)
        loaded_key = at if loaded is None else parse_config(loaded.config, scopes)[0]
        new_loop = GraphLoop(ns, pinned=pinned, tasks_with_results=_find_finished_tasks(loaded))
        if loaded is not None:
            new_loop.start_id, new_loop.versions = loaded.checkpoint["id"], loaded.checkpoint["channel_versions"]
            new_loop.step_number = loaded.metadata.get("step")
            resumes = not replayed and bool(config["configurable"].get(_RESUMING))
            new_loop.last_read = _find_last_read(loaded, resumes=resumes)
        registered = self._runs.register_loop(config["configurable"], at, loaded_key, new_loop, pregel_loop, thread)
        if registered is not None:
            run, loop, calling_node = registered
            self._database.engine.read(lambda tx: sealing.note_outer_writes(tx, self._runs, run, loop, calling_node))

    def follow_pages(
        self,
        config: RunnableConfig | None,
        before: RunnableConfig | None,
        limit: int | None,
        pages: Iterator[Sequence[CheckpointTuple]],
        pregel_loop: Any,
    ) -> Iterator[Sequence[CheckpointTuple]]:
        """Yield the pages of a listing, and record the read if a replayed subgraph begins with it."""
        # LangGraph reads the first checkpoint of a replayed subgraph with `before` and a limit of 1.
        if config and before and limit == 1 and config["configurable"].get("__pregel_runtime"):
            page = next(pages, [])
            self.record_read(config, page[0] if page else None, pregel_loop, pinned=True, replayed=True)
            yield page
        yield from pages

    def check_thread(self, config: Mapping[str, Any], at: ThreadKey, thread: Thread | None) -> None:
        """Check that the thread of a writing run was not deleted.

        Raises:
            ThreadDeleted: The thread was deleted.
        """
        run = self._runs.ensure_run(config["configurable"], at)
        if run is not None and run.is_thread_deleted(thread):
            raise ThreadDeleted

    def follow_put(
        self,
        config: Mapping[str, Any],
        at: ThreadKey,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        serde: SerializerProtocol,
        recorded: Sequence[str],
        now: int,
        after_commit: list[Callable[[], None]],
    ) -> FollowUp:
        """Return the follow-up of a put, which seals memory and records messages.

        Args:
            config: The config of the call, which names the parent checkpoint.
            at: The thread.
            checkpoint: The checkpoint.
            metadata: The metadata of the checkpoint.
            serde: The serializer of the saver.
            recorded: The channels whose messages are recorded in the conversation.
            now: The time, in microseconds since 1970.
            after_commit: A list. When the follow-up has run, its only element is the function to call after the commit.
        """
        configurable = config["configurable"]
        parent = configurable.get("checkpoint_id")

        def prepare(tx: Transaction, last_seen: Thread) -> FinishFollowUp:
            prefetched = sealing.prefetch(tx, self._runs, configurable, at, last_seen, str(checkpoint["id"]))
            parent_values = checkpoint_log.start_values_query(tx, last_seen, recorded, parent) if recorded else ()

            def seal(tx: Transaction, thread: Thread, recipes: Mapping[str, bytes], recall: Recall) -> None:
                read_parent = partial(_read_parent, ns_id=thread.ns_id or 0, parent=parent, serde=serde)
                reader = None
                if recorded:
                    reader = _make_reader(thread, recorded, recipes, parent_values, recall, parent, serde)
                ns = configurable.get("checkpoint_ns") or ""
                put = CheckpointPut(
                    at, thread, ns, parent, checkpoint, metadata, configurable, read_parent, prefetched, now, reader
                )
                note_stored = sealing.seal(tx, self._runs, put)
                after_commit[:] = [partial(self._note_stored, put, note_stored)]

            return seal

        return prepare

    def _note_stored(self, put: CheckpointPut, note_stored: Callable[[], None]) -> None:
        note_stored()
        if put.stored_ids:
            self._database.emit(
                lambda: MessagesStored(
                    namespace=namespace_of(put.thread.path),
                    conversation_id=put.at.name,
                    message_ids=tuple(put.stored_ids),
                )
            )

    def sweep_memory(self, tx: Transaction, thread: Thread, ns: str, metadata: Mapping[str, Any]) -> None:
        """Delete, every `SWEEP_EVERY` steps, memory that no remaining checkpoint shows."""
        if not ns and metadata.get("step", -1) % SWEEP_EVERY == 0:
            thread_memory.sweep_thread(tx, thread.id, self._database.now())


def _read_parent(tx: Transaction, ns_id: int, parent: str | None, serde: SerializerProtocol) -> ParentCheckpoint | None:
    """Return the fields of a checkpoint that a put of its child needs; None if it is missing."""
    row = next(iter(query.find_checkpoint(tx, ns_id=ns_id, name=parent)), None)
    if row is None:
        return None
    metadata = decode_blob(serde, bytes(row["metadata"]))
    packed = decode_blob(serde, bytes(row["head"]), row["versions"])
    header = unpack_header(packed, parse_versions(row["versions"]), row["name"], {})
    return ParentCheckpoint(metadata.get("step"), header["channel_versions"], header["versions_seen"])


def _make_reader(
    thread: Thread,
    recorded: Sequence[str],
    recipes: Mapping[str, bytes],
    parent_values: Rows,
    recall: Recall,
    parent: str | None,
    serde: SerializerProtocol,
) -> Callable[..., list[CheckpointMessage]]:
    """Return the `read_messages` function of a `CheckpointPut`.

    Recorded channels without a new value are DeltaChannels: their messages are read from the pending writes.
    """
    values = {name: recipes[name] for name in recorded if name in recipes}
    deltas = [name for name in recorded if name not in values]

    def read(tx: Transaction, *, everything: bool) -> list[CheckpointMessage]:
        parts = checkpoint_log.read_new_parts(
            tx, thread, values, parent_values, recall, parent=parent, deltas=deltas, everything=everything
        )
        return [message for part in parts if (message := read_message(part, serde)) is not None]

    return read


def _find_finished_tasks(loaded: CheckpointTuple | None) -> frozenset[str]:
    """Return the ids of the tasks whose results were stored with a checkpoint."""
    writes = loaded.pending_writes if loaded is not None else None
    return frozenset(task for task, channel, _ in writes or () if sealing.is_result((channel,)))


def _find_last_read(loaded: CheckpointTuple, *, resumes: bool) -> str | None:
    """Return the id of the newest checkpoint that the nodes of a starting loop have read.

    If a loop starts from the checkpoint of an input and does not resume, a new input replaces that input before a node
    reads it. Then the result is the parent of the checkpoint.
    """
    if resumes or loaded.metadata.get("source") != "input":
        return loaded.checkpoint["id"]
    return None if loaded.parent_config is None else loaded.parent_config["configurable"]["checkpoint_id"]


MAX_FRAMES = 12
"""The maximum number of stack frames that `find_pregel_loop` searches."""

_LOOP_MODULE_PREFIX = "langgraph.pregel."
_RESUMING = "__pregel_resuming"


def get_control(config: Mapping[str, Any] | None) -> Any:
    """Return LangGraph's control object of a run; None if the config has none."""
    return getattr(configurable_of(config).get("__pregel_runtime"), "control", None)


def find_pregel_loop(config: Mapping[str, Any] | None) -> Any:
    """Return LangGraph's loop that is calling the saver; None if there is none.

    Args:
        config: The config of the call.
    """
    control = get_control(config)
    frame = None if control is None else inspect.currentframe()
    for _ in range(MAX_FRAMES):
        frame = None if frame is None else frame.f_back
        if frame is None:
            return None
        loop: Any = frame.f_locals.get("self")
        if type(loop).__module__.startswith(_LOOP_MODULE_PREFIX) and getattr(loop, "manager", None) is not None:
            return loop if get_control(loop.config) is control else None
    return None


def identify_loop(config: Mapping[str, Any] | None) -> Any:
    """Return the calling loop, and add a run identity to its configs if it has none.

    Args:
        config: The config of the call.
    """
    loop = find_pregel_loop(config)
    add_identity(loop, configurable_of(config).get("checkpoint_ns") or "")
    return loop
