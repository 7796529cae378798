"""Every thread of another saver, one checkpoint at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from langchain_agentmem.base.events import listener_given
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.checkpoints.configs import listed
from langchain_agentmem.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """How far an import is.

    Attributes:
        checkpoints: How many checkpoints were copied.
        known: How many were there already.
        threads: How many threads they belong to.
    """

    checkpoints: int = 0
    known: int = 0
    threads: int = 0


Progress = Callable[[ImportReport], None] | None


def import_checkpoints(
    adopt: Callable[[CheckpointTuple], bool],
    saver: BaseCheckpointSaver[Any],
    thread_ids: Sequence[str] | None,
    progress: Progress,
) -> ImportReport:
    """Copy the threads of a saver.

    Args:
        adopt: Stores one checkpoint; False if it is known.
        saver: The other saver.
        thread_ids: Only these threads; None for all.
        progress: Is told how far it is.
    """
    _check_saver(saver)
    count = _Count(progress)
    for config in _configs(thread_ids):
        for found in saver.list(config):
            count.add(found, adopted=adopt(found))
    return count.report()


async def aimport_checkpoints(
    adopt: Callable[[CheckpointTuple], Awaitable[bool]],
    saver: BaseCheckpointSaver[Any],
    thread_ids: Sequence[str] | None,
    progress: Progress,
) -> ImportReport:
    """`import_checkpoints`, awaited."""
    _check_saver(saver)
    count = _Count(progress)
    for config in _configs(thread_ids):
        async for found in saver.alist(config):
            count.add(found, adopted=await adopt(found))
    return count.report()


def _check_saver(given: Any) -> None:
    if not callable(getattr(given, "list", None)) or not callable(getattr(given, "alist", None)):
        raise InvalidInput(f"Threads are imported from another checkpointer, not from {safe_repr(given)}.")


class _Count:
    def __init__(self, progress: Progress) -> None:
        self._progress = listener_given(progress, "progress")
        self._threads: set[str] = set()
        self._counts = {True: 0, False: 0}

    def add(self, found: CheckpointTuple, *, adopted: bool) -> None:
        self._threads.add(str(found.config["configurable"]["thread_id"]))
        self._counts[adopted] += 1
        if self._progress is not None:
            self._progress(self.report())

    def report(self) -> ImportReport:
        return ImportReport(checkpoints=self._counts[True], known=self._counts[False], threads=len(self._threads))


def _configs(thread_ids: Sequence[str] | None) -> Iterator[RunnableConfig | None]:
    if thread_ids is None:
        yield None
        return
    for thread_id in listed(thread_ids, "thread"):
        yield {"configurable": {"thread_id": thread_id}}
