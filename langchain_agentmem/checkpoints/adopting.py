"""A checkpoint of another saver, stored as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_agentmem.checkpoints.checkpoint_codec import Coding, Rows
from langchain_agentmem.checkpoints.configs import address, text_of
from langchain_agentmem.storage import Steps
from langchain_agentmem.threads import checkpoint_log
from langchain_agentmem.threads.checkpoint_head import short, with_texts
from langchain_agentmem.threads.thread_lines import has


class Adoption:
    """A checkpoint of another saver with what was written towards the next one, taken apart.

    Args:
        coding: Takes values apart.
        serde: Our serializer.
        found: The checkpoint, as the other saver gives it.

    Attributes:
        at: The thread.
        name: The checkpoint's id.
        checkpoint: The checkpoint, with versions as ours are.
        metadata: Its metadata.

    Raises:
        InvalidInput: It cannot be stored.
    """

    def __init__(self, coding: Coding, serde: SerializerProtocol, found: CheckpointTuple) -> None:
        self.at, self._ns, name = address(found.config)
        self.name = str(name)
        self.metadata: dict[str, Any] = dict(found.metadata)
        self.checkpoint = with_texts(dict(found.checkpoint), partial(_digest_of, serde))
        self._parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
        self._coding, self._serde = coding, serde
        self._writes = [
            coding.plan(serde, self.at, [_row(task, channel, place, order)], [(channel, value)], listing=False)
            for order, (place, (task, channel, value)) in enumerate(_placed(found.pending_writes or ()))
        ]
        self._put: Callable[[int], Steps[Any]] | None = None

    def is_known(self) -> Steps[bool]:
        """Whether the checkpoint is here already."""
        return (yield from has(self.at, self._ns, self.name))

    def prepare(self, *, known: bool) -> bool:
        """Take the values apart, outside the transaction, where they are needed.

        Args:
            known: Whether the checkpoint is here already.

        Returns:
            Whether there may be anything to store.
        """
        if not known:
            self._put = self._putting()
        return bool(self._writes) or not known

    def steps(self, now: int) -> Steps[bool]:
        """Store what is not here yet.

        Args:
            now: When.

        Returns:
            Whether the checkpoint is new.
        """
        new = self._put is not None and not (yield from self.is_known())
        if self._put is not None and new:
            yield from self._put(now)
        for plan in self._writes:  # also for a checkpoint that is known: there may be more of them now
            yield from checkpoint_log.put_writes(self.at, self._ns, self.name, plan, now=now, exact=True)
        return new

    def _putting(self) -> Callable[[int], Steps[Any]]:
        versions, given = self.checkpoint["channel_versions"], self.checkpoint["channel_values"]
        values = {text_of(each, "channel"): given[each] for each in given if each in versions}
        stored = self._coding.folded(self._serde, self.at, self.checkpoint, self.metadata, self._parent, values)
        rows: Rows = [{"channel": each, "version": short(versions[each])} for each in values]
        plan = self._coding.plan(self._serde, self.at, rows, list(values.items()), listing=True)
        return lambda now: checkpoint_log.put(self.at, self._ns, stored, plan, retention=None, now=now, exact=True)


def _digest_of(serde: SerializerProtocol, value: Any) -> str:
    kind, data = serde.dumps_typed(value)
    return blake2b(kind.encode() + data, digest_size=6).hexdigest()


def _placed(writes: Iterable[PendingWrite]) -> Iterator[tuple[int, PendingWrite]]:
    """Writes of another saver, each with its place among those of its task."""
    counts: dict[str, int] = {}
    for write in writes:
        place = counts.get(write[0], 0)
        counts[write[0]] = place + 1
        yield WRITES_IDX_MAP.get(write[1], place), write


def _row(task: str, channel: str, place: int, order: int) -> dict[str, object]:
    """Other savers do not tell the paths of tasks, so the order in which they give the writes takes their place."""
    return {
        "task": text_of(task, "task"),
        "place": place,
        "path": f"{order:08}",
        "channel": text_of(channel, "channel"),
    }
