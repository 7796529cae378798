"""Between LangGraph's checkpoints and what the log of threads keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import ormsgpack
from langgraph.checkpoint.base import CheckpointTuple, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from langchain_agentmem.base import forks
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.checkpoints.configs import config_of, readable, storable, text_of
from langchain_agentmem.threads import checkpoint_log
from langchain_agentmem.threads.checkpoint_head import fold, unfold, versions_of, written
from langchain_agentmem.threads.checkpoint_log import Saved
from langchain_agentmem.threads.thread_lines import Deleted, Thread, ThreadAt
from langchain_agentmem.threads.value_codec import Draft, Prototypes, Reading, Stamps, collecting_later
from langchain_agentmem.threads.value_recipe import guarded, opened
from langchain_agentmem.threads.value_store import Place, Shelved
from langchain_agentmem.tracing.measures import Measures

KNOWN_PLACES = 1_024
KNOWN = "messages known to be stored"
"""What the measures call messages of a state that need not be written again."""

Rows: TypeAlias = list[dict[str, object]]


class Coding:
    """What a saver knows of the messages it has read and stored. Shallow copies of a saver share it.

    Attributes:
        prototypes: The messages that were read or stored lately.

    Args:
        measures: Is told how often that helped. Default: nobody is.
    """

    def __init__(self, measures: Measures | None = None) -> None:
        self.prototypes = Prototypes(measures=measures)
        self._measures = measures
        self._stamps = Stamps()
        self._places: dict[ThreadAt, Place] = {}
        self._remembering = forks.lock()

    def plan(
        self,
        serde: SerializerProtocol,
        at: ThreadAt,
        rows: Rows,
        values: Sequence[tuple[str, Any]],
        *,
        listing: bool,
    ) -> checkpoint_log.Plan:
        """Take values apart now, outside the transaction, for the shelf as it was when the thread was last seen.

        What is changed afterwards is then not stored, unless the shelf has lost what this relies on.

        Args:
            serde: The serializer.
            at: The thread.
            rows: What is stored beside each value.
            values: Channels and values.
            listing: Whether the values are those of channels, whose lists grow.

        Raises:
            InvalidInput: The serializer refuses a value.
        """

        def take_apart(place: Place | None) -> checkpoint_log.Planned:
            draft = Draft(serde, self._stamps, place, listing=listing)
            recipes = []
            for channel, value in values:
                with storable(at, f"channel {safe_repr(channel)}"):
                    recipes.append(draft.recipe(value))
            return checkpoint_log.Planned(draft, rows, recipes)

        return checkpoint_log.Plan(take_apart(self._places.get(at)), take_apart)

    def stored(self, at: ThreadAt, thread: Thread, used: checkpoint_log.Planned, shelved: Shelved) -> None:
        """Remember where messages lie, after the commit of what was planned."""
        if self._measures is not None:
            self._measures.cache(KNOWN, *used.draft.counts())
        used.draft.stamp(thread.place, shelved.numbers, shelved.moves, self.prototypes)
        self._remember(at, thread.place)

    def reading(self, serde: SerializerProtocol, place: Place, parts: Mapping[int, Any]) -> Reading:
        """What makes values of recipes."""
        return Reading(serde, self._stamps, place, parts, self.prototypes)

    def forget(self, deleted: Iterable[Deleted] | None = None) -> None:
        """Keep nothing in memory of threads that are gone. Default: of none at all."""
        with self._remembering:
            if deleted is None:
                self._places.clear()
                self.prototypes.forget()
            for at, shelf in deleted or ():
                self._places.pop(at, None)
                self._places.pop(at._replace(path=""), None)
                self.prototypes.forget(shelf)

    def _remember(self, at: ThreadAt, place: Place) -> None:
        with self._remembering:
            self._places.pop(at, None)  # so that the one that was used last is forgotten last
            self._places[at] = place
            while len(self._places) > KNOWN_PLACES:
                del self._places[next(iter(self._places))]

    def folded(
        self,
        serde: SerializerProtocol,
        at: ThreadAt,
        checkpoint: dict[str, Any],
        metadata: Mapping[str, Any],
        parent: str | None,
        values: Mapping[str, Any],
    ) -> checkpoint_log.Checkpoint:
        """A checkpoint without its values, ready to be stored.

        Args:
            serde: The serializer.
            at: The thread.
            checkpoint: The checkpoint.
            metadata: Its metadata.
            parent: The id of its parent.
            values: The values that are new in it.

        Raises:
            InvalidInput: The serializer refuses something in it.
        """
        run_id = metadata.get("run_id")
        with storable(at, "checkpoint"):
            versions = versions_of(checkpoint)
            return checkpoint_log.Checkpoint(
                name=text_of(checkpoint["id"], "checkpoint"),
                parent=parent,
                run_id=None if run_id is None else str(run_id),
                versions=versions,
                head=_serialized(serde, fold(checkpoint, versions), written(versions)),
                metadata=_serialized(serde, metadata),
                delta=_has_deltas(metadata, values),
            )

    def tuple(self, serde: SerializerProtocol, saved: Saved, thread_id: Any, at: ThreadAt, ns: str) -> CheckpointTuple:
        """Make what LangGraph is given of what was found.

        Args:
            serde: The serializer.
            saved: What was found.
            thread_id: The thread's id, as it was asked for.
            at: The thread.
            ns: Its line.

        Raises:
            CheckpointUnreadable: It is damaged, or was written with another serializer.
        """
        self._remember(at, saved.place)
        reading = self.reading(serde, saved.place, saved.parts)
        with readable(at, saved.name, decoding=True), collecting_later():
            values = {
                channel: reading.value(saved.values[channel]) for channel in saved.versions if channel in saved.values
            }
            head = value_of(serde, saved.head, written(saved.versions))
            checkpoint: Any = unfold(head, saved.versions, saved.name, values)
            metadata = value_of(serde, saved.metadata)
            writes = in_order(saved.writes, reading)
        parent = None if saved.parent is None else config_of(thread_id, saved.path, ns, saved.parent)
        return CheckpointTuple(config_of(thread_id, saved.path, ns, saved.name), checkpoint, metadata, parent, writes)


def value_of(serde: SerializerProtocol, blob: bytes, beside: str = "") -> Any:
    """Read a head or metadata.

    Args:
        serde: The serializer.
        blob: What is stored.
        beside: The text that its checksum guards too.

    Raises:
        Exception: Whatever the serializer raises about bytes that it cannot read.
    """
    kind, data = ormsgpack.unpackb(opened(blob, beside))
    return serde.loads_typed((kind, data))


def _serialized(serde: SerializerProtocol, value: Any, beside: str = "") -> bytes:
    kind, data = serde.dumps_typed(value)
    return guarded(ormsgpack.packb([kind, bytes(data)]), beside)


def in_order(writes: Sequence[checkpoint_log.Written], reading: Reading) -> list[PendingWrite]:
    """Writes in the order in which LangGraph applies them."""
    ordered = sorted(writes, key=lambda each: writes_sort_key(each.path, each.task, each.place))
    return [(each.task, each.channel, reading.value(each.recipe)) for each in ordered]


def _has_deltas(metadata: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether a checkpoint may need its ancestors: LangGraph counts, or this is a stub or a snapshot."""
    return (
        "counters_since_delta_snapshot" in metadata
        or metadata.get("step") == -2  # noqa: PLR2004 - LangGraph's mark of a stub
        or any(type(value) is _DeltaSnapshot for value in values.values())
    )
