"""Threads of other savers, copied one checkpoint at a time. Nothing is written to the other saver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.store.base import BaseStore

from langchain_agentmem.base.concurrency import in_worker
from langchain_agentmem.base.events import listener_given
from langchain_agentmem.base.namespaces import CONFIG_KEY
from langchain_agentmem.checkpoints.checkpoint_codec import address, listed
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.threads.thread_lines import find


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
    saver: BaseCheckpointSaver[Any],
    thread_ids: Sequence[str] | None,
    progress: Progress,
) -> ImportReport:
    """Copy the threads of a saver.

    Args:
        adopt: Stores one checkpoint; False if it is known.
        database: Where they go.
        saver: The other saver.
        thread_ids: Only these threads; None for all.
        progress: Is told how far it is.
    """
    copying = _Copying(database, saver, progress)
    for config in _configs(thread_ids):
        for found in saver.list(config):
            copying.see(found)
    for config in copying.wanted():
        if (whole := saver.get_tuple(config)) is not None:
            copying.count(adopted=adopt(whole))
    return copying.report()


async def aimport_checkpoints(
    adopt: Callable[[CheckpointTuple], Awaitable[bool]],
    database: Database,
    saver: BaseCheckpointSaver[Any],
    thread_ids: Sequence[str] | None,
    progress: Progress,
) -> ImportReport:
    """Async version of `import_checkpoints`."""
    copying = _Copying(database, saver, progress)
    for config in _configs(thread_ids):
        async for found in saver.alist(config):
            copying.see(found)
    for config in await in_worker(copying.wanted):
        if (whole := await saver.aget_tuple(config)) is not None:
            copying.count(adopted=await adopt(whole))
    return copying.report()


class _Copying:
    """The threads that are copied, and how many of their checkpoints were."""

    def __init__(self, database: Database, saver: Any, progress: Progress) -> None:
        if isinstance(saver, BaseStore):
            raise InvalidInput(
                f"{safe_repr(saver)} is a store, not a saver: its items come with import_from, of the kind "
                "langgraph-store."
            )
        if not all(callable(getattr(saver, name, None)) for name in ("list", "alist", "get_tuple", "aget_tuple")):
            raise InvalidInput(f"Threads are imported from another checkpointer, not from {safe_repr(saver)}.")
        self._database, self._progress = database, listener_given(progress, "progress")
        self._threads: dict[tuple[str, str], list[RunnableConfig]] = {}
        self._counts = {True: 0, False: 0}
        self._left_out: dict[str, str] = {}

    def see(self, found: CheckpointTuple) -> None:
        configurable = found.config["configurable"]
        key = str(configurable["thread_id"]), str(configurable.get(CONFIG_KEY))
        self._threads.setdefault(key, []).append(found.config)

    def wanted(self) -> list[RunnableConfig]:
        """Return the checkpoints to copy, each behind its parent, as it was put at the source."""
        configs: list[RunnableConfig] = []
        for (thread_id, _), thread in self._threads.items():
            if (reason := refusal(self._database, thread)) is None:
                configs += sorted(thread, key=_checkpoint_of)
            else:
                self._left_out[thread_id] = reason
        return configs

    def count(self, *, adopted: bool) -> None:
        self._counts[adopted] += 1
        if self._progress is not None:
            self._progress(self.report())

    def report(self) -> ImportReport:
        return ImportReport(
            checkpoints=self._counts[True],
            known=self._counts[False],
            threads=len({thread for thread, _ in self._threads}) - len(self._left_out),
            left_out=dict(self._left_out),
        )


def _configs(thread_ids: Sequence[str] | None) -> Sequence[RunnableConfig | None]:
    if thread_ids is None:
        return [None]
    return [{"configurable": {"thread_id": thread_id}} for thread_id in listed(thread_ids, "thread")]
