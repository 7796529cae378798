"""What the saver tells of its calls, so that the memory of a thread follows its checkpoints: see `rewinding/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.checkpoints.checkpoint_codec import value_of
from langchain_agentmem.checkpoints.configs import address
from langchain_agentmem.rewinding import sealing, thread_memory
from langchain_agentmem.rewinding.attempt_watch import watch
from langchain_agentmem.rewinding.graph_runs import runs_of
from langchain_agentmem.rewinding.sealing import Parent, Put
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.threads.checkpoint_head import read as versions_read
from langchain_agentmem.threads.checkpoint_head import unfold
from langchain_agentmem.threads.thread_lines import Thread, ThreadAt

SWEEP_EVERY = 32
"""Steps of a thread after which what its removed checkpoints showed is looked for."""


class Rewinding:
    """Tells the runs of a database what a saver is asked for.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        watch(runs_of(database))

    def loaded(self, config: RunnableConfig, found: CheckpointTuple | None, pregel: Any, *, addressed: bool) -> None:
        """A checkpoint was read, perhaps by a loop that begins with it.

        Args:
            config: The config of the call.
            found: The checkpoint.
            pregel: LangGraph's loop, if one is calling.
            addressed: Whether a certain checkpoint was asked for.
        """
        at, ns, _ = address(config)
        begun = runs_of(self._database).loaded(
            config["configurable"],
            at,
            ns,
            None if found is None else found.checkpoint["id"],
            {} if found is None else found.metadata,
            {} if found is None else found.checkpoint["channel_versions"],
            addressed=addressed,
            home=at if found is None else address(found.config)[0],
            results=_results(found),
            pregel=pregel,
        )
        if begun is not None:
            run, loop, task = begun
            self._database.engine.read(lambda: sealing.carry(runs_of(self._database), run, loop, task))
        if not ns and found is not None and not addressed:  # LangGraph looks whether it was told to begin earlier
            earlier = runs_of(self._database).went_back(config["configurable"], at)
            if earlier is not None:
                self._tell("memory.thread.rewind", config, at, earlier, earlier, found.checkpoint["id"])

    def listed(
        self,
        config: RunnableConfig | None,
        before: RunnableConfig | None,
        limit: int | None,
        pages: Iterator[Sequence[CheckpointTuple]],
        pregel: Any,
    ) -> Iterator[Sequence[CheckpointTuple]]:
        """What a listing gives, which may be a replayed subgraph's way to find the checkpoint that it begins with."""
        if config and before and limit == 1 and config["configurable"].get("__pregel_runtime"):
            page = next(pages, [])
            self.loaded(config, page[0] if page else None, pregel, addressed=True)
            yield page
        yield from pages

    def finish(
        self, config: Mapping[str, Any], at: ThreadAt, thread: Thread, writes: Sequence[tuple[str, Any]], task_id: str
    ) -> Steps[None]:
        """A task is handing in what it wrote."""
        configurable = config["configurable"]
        yield from sealing.finish(
            runs_of(self._database),
            configurable,
            at,
            thread.id,
            thread.line or 0,
            configurable.get("checkpoint_ns") or "",
            writes,
            task_id,
            self._database.now(),
        )

    def seal(
        self,
        config: Mapping[str, Any],
        at: ThreadAt,
        thread: Thread,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        serde: SerializerProtocol,
    ) -> Steps[Callable[[], None]]:
        """A checkpoint is being put.

        Args:
            config: The config of the call.
            at: The thread.
            thread: Its row.
            checkpoint: The checkpoint.
            metadata: Its metadata.
            serde: What its parent was written with.

        Returns:
            What is to be done when it is stored.
        """
        configurable = config["configurable"]
        line, parent = thread.line or 0, configurable.get("checkpoint_id")

        def before() -> Steps[Parent | None]:
            found = yield query.checkpoint_named(line=line, name=parent)
            if not found:
                return None
            row = found[0]
            metadata = value_of(serde, bytes(row["metadata"]))
            folded = value_of(serde, bytes(row["head"]), row["versions"])
            head = unfold(folded, versions_read(row["versions"]), row["name"], {})
            return Parent(metadata.get("step"), head["channel_versions"], head["versions_seen"])

        put = Put(
            at,
            thread.path,
            thread.id,
            configurable.get("checkpoint_ns") or "",
            line,
            parent,
            checkpoint,
            metadata,
            configurable,
            before,
            self._database.now(),
        )
        remember = yield from sealing.seal(runs_of(self._database), put)
        if put.ns or parent is None or metadata.get("source") not in ("update", "fork"):
            return remember

        def stored() -> None:
            remember()
            self._tell("memory.thread.fork", config, at, str(parent), str(checkpoint["id"]))

        return stored

    def _tell(
        self, name: str, config: Any, at: ThreadAt, earlier: str, checkpoint: str, newest: str | None = None
    ) -> None:
        """Have it seen that a thread goes on from an earlier checkpoint, if its memory does not stay as it was.

        Args:
            name: What the step is called.
            config: The config of the call.
            at: The thread.
            earlier: From where it goes on.
            checkpoint: The same, or the checkpoint that was made of it.
            newest: The newest checkpoint. Default: the newest but for `checkpoint`.
        """
        tracing = self._database.tracing
        if not tracing.heard(config):
            return
        with tracing.unharmed("to see what a rewind hides"):
            hidden = self._database.engine.read(lambda: sealing.hidden(at, checkpoint, newest))
            if hidden is None:
                return
            where = {"namespace": "/".join(namespace_of(at.path)), "thread_id": at.name, "checkpoint_id": earlier}
            with tracing.step(name, inputs=lambda: where, config=config) as step:
                step.finish(
                    lambda: {
                        "checkpoint_id": checkpoint,
                        "newest_checkpoint_id": hidden.newest,
                        "hidden": hidden.versions,
                    }
                )

    def sweep(self, thread: Thread, ns: str, metadata: Mapping[str, Any]) -> Steps[None]:
        """Old checkpoints may have been removed: what only they showed goes, now and then."""
        if not ns and metadata.get("step", -1) % SWEEP_EVERY == 0:
            yield from thread_memory.sweep(thread.id, thread.place.shelf, self._database.now())


def _results(found: CheckpointTuple | None) -> frozenset[str]:
    """The tasks whose results were stored with a checkpoint."""
    writes = found.pending_writes if found is not None else None
    return frozenset(task for task, channel, _ in writes or () if sealing.is_result((channel,)))
