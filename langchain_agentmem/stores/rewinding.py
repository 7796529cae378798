"""What the saver tells of its calls, so that the memory of a thread follows its checkpoints: see `rewinding/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_agentmem.database import Database
from langchain_agentmem.rewinding import sealing, whole
from langchain_agentmem.rewinding.sealing import Parent, Put
from langchain_agentmem.rewinding.watch import watch
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.stores.coding import value_of
from langchain_agentmem.stores.configs import address
from langchain_agentmem.threads.head import read as versions_read
from langchain_agentmem.threads.head import unfold
from langchain_agentmem.threads.lines import Thread, ThreadAt

SWEEP_EVERY = 32
"""Steps of a thread after which what its removed checkpoints showed is looked for."""


class Rewinding:
    """Tells the runs of a database what a saver is asked for.

    Args:
        database: The database.
        serde: The saver's serializer.
    """

    def __init__(self, database: Database, serde: SerializerProtocol) -> None:
        self._database, self._serde = database, serde
        watch(database.runs)

    def loaded(self, config: RunnableConfig, found: CheckpointTuple | None, *, addressed: bool) -> None:
        """A checkpoint was read, perhaps by a loop that begins with it."""
        at, ns, _ = address(config)
        begun = self._database.runs.loaded(
            config["configurable"],
            at,
            ns,
            None if found is None else found.checkpoint["id"],
            {} if found is None else found.metadata,
            {} if found is None else found.checkpoint["channel_versions"],
            addressed=addressed,
        )
        if begun is not None:
            run, loop, task = begun
            self._database.engine.read(lambda: sealing.carry(self._database.runs, run, at, loop, task))

    def listed(
        self,
        config: RunnableConfig | None,
        before: RunnableConfig | None,
        limit: int | None,
        pages: Iterator[Sequence[CheckpointTuple]],
    ) -> Iterator[Sequence[CheckpointTuple]]:
        """What a listing gives, which may be a replayed subgraph's way to find the checkpoint that it begins with."""
        if config and before and limit == 1 and config["configurable"].get("__pregel_runtime"):
            page = next(pages, [])
            self.loaded(config, page[0] if page else None, addressed=True)
            yield page
        yield from pages

    def finish(
        self, config: Mapping[str, Any], at: ThreadAt, thread: Thread, writes: Sequence[tuple[str, Any]], task_id: str
    ) -> Steps[None]:
        """A task has handed in what it wrote."""
        configurable = config["configurable"]
        yield from sealing.finish(
            self._database.runs,
            configurable,
            at,
            thread.id,
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
    ) -> Steps[Callable[[], None]]:
        """A checkpoint is being put.

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
            metadata = value_of(self._serde, bytes(row["metadata"]))
            folded = value_of(self._serde, bytes(row["head"]), row["versions"])
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
        return (yield from sealing.seal(self._database.runs, put))

    def sweep(self, thread: Thread, ns: str, metadata: Mapping[str, Any]) -> Steps[None]:
        """Old checkpoints may have been removed: what only they showed goes, now and then."""
        if not ns and metadata.get("step", -1) % SWEEP_EVERY == 0:
            yield from whole.sweep(thread.id, thread.place.shelf, self._database.now())
