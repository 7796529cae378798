"""Recall memory: the timeline of what happened. Every event has an id, a kind and a time, and repeats are kept.

The newest events are in the prompt. When there are many more, the old ones are consolidated: see `consolidation.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import EllipsisType

from langchain_agentmem.base.argument_checks import ALL, EVERYTHING, limit_given, name_given, text_given, texts_given
from langchain_agentmem.base.clock import time_given
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.archival_memory import record
from langchain_agentmem.layers.consolidation import ConsolidationReport, consolidate, make_room, too_many
from langchain_agentmem.layers.layer import Event, Layer, bounded, event_of, ids_of
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import Change
from langchain_agentmem.rewinding.memory_rows import EVENT, Kept, RowDraft, View, body_of, text_of
from langchain_agentmem.rewinding.outlook import found
from langchain_agentmem.storage import Transaction
from langchain_agentmem.tracing import documents

EVICTED = "RECALL_EVICT"
"""The tag of the record of an event that was evicted."""


class RecallMemory(Layer):
    """The events of a layered memory. Every method has an awaited twin, with an `a` before its name."""

    _part = "recall"

    def append(
        self,
        kind: str | None = None,
        content: str | None = None,
        at: datetime | None = None,
        *,
        event_type: str | None = None,
    ) -> str:
        """Append an event.

        Args:
            kind: What kind of thing happened.
            content: What happened.
            at: When it happened; without a time zone it is taken as UTC. Default: now.
            event_type: The same as `kind`.

        Returns:
            Its id.

        Raises:
            InvalidInput: An argument is wrong.
        """
        new = self._event_of(event_type if kind is None else kind, content, at)

        def make(tx: Transaction, change: Change) -> bool:
            change.drafts.append(new)
            return too_many(tx, self._ground, change, 1)

        with self._step("append", event_type=new.label, content=lambda: text_of(new.body or b"")) as step:
            if self._change(None, make):
                make_room(self._ground)
            step.finish(lambda: {"event_id": new.key})
        return new.key

    aappend = awaited(append, writes=True)

    def recent(self, limit: int | EllipsisType | None = ..., kind: str | None = None) -> list[Event]:
        """The newest events, in the order in which they were appended, whatever time they were said to be of.

        Args:
            limit: How many; None for all. Default: `recall_max_events` of the settings (20).
            kind: Only events of this kind. Default: all.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._listing(limit, kind)

    arecent = awaited(recent)

    def get(self, event_id: str) -> Event | None:
        """One event by its id, or None."""
        return self._one(EVENT, "event", name_given(event_id, "the id of an event"), event_of)

    aget = awaited(get)

    def _listing(
        self, limit: int | EllipsisType | None = ..., kind: str | None = None, *, shown: bool = True
    ) -> list[Event]:
        """List events as `recent` does, perhaps as a detail of another step."""
        most = self.settings.recall_max_events if limit is ... else limit_given(limit)
        label = None if kind is None else self._kind(kind)

        def look(tx: Transaction, view: View) -> list[Event]:
            return [event_of(each) for each in events(tx, view, most, label)]

        return self._look(
            "recent" if shown else None,
            look,
            limit=bounded(most),
            newest=bounded(most),
            event_type=label,
            outputs=ids_of,
        )

    def search(self, query: str, limit: int | None = 10) -> list[Event]:
        """Find events.

        Args:
            query: Any text; "*" stands for every event, the newest first.
            limit: Most events; None for all. Default: 10.

        Returns:
            The best first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        everything = text_given(query, "A query").strip() == EVERYTHING
        most = limit_given(limit)

        with self._step("search", "retriever", query=query, limit=bounded(most)) as step:
            if everything:
                found_events = self._listing(most, shown=False)[::-1]
            else:
                hits = found(self._ground, (EVENT,), query, most)
                found_events = [event_of(hit.kept, hit.score, hit.why) for hit in hits]
            step.finish(lambda: documents(found_events, EVENT))
        return found_events

    asearch = awaited(search)

    def evict(self, ids: Sequence[str] | None = None, kind: str | None = None, oldest: int | None = None) -> int:
        """Move events to archival memory, each as a record with its text.

        Args:
            ids: These events; those that this memory does not show are left alone. Default: any.
            kind: Only events of this kind. Default: any.
            oldest: Only so many, the oldest. Default: all that are meant.

        Returns:
            How many were moved.

        Raises:
            InvalidInput: Nothing says which events, or an argument is wrong.
        """
        if ids is None and kind is None and oldest is None:
            raise InvalidInput("Say which events: give ids, a kind, or how many of the oldest.")
        wanted = None if ids is None else set(texts_given(ids, "Ids"))
        label = None if kind is None else self._kind(kind)
        most = limit_given(oldest)

        def make(tx: Transaction, change: Change) -> int:
            there = events(tx, change.view, ALL, label)
            gone = [each for each in there if wanted is None or each.key in wanted][:most]
            for each in gone:
                change.remove(EVENT, each.key)
                change.drafts.append(self._archived(each, change.now))
            return len(gone)

        told = {"event_ids": None if wanted is None else sorted(wanted), "event_type": label, "oldest": oldest}
        return self._change("evict", make, **told)

    aevict = awaited(evict, writes=True)

    def summarize(self, kind: str | None = None, keep: int | EllipsisType = ...) -> ConsolidationReport:
        """Consolidate old events now, however few they are: they become records of archival memory.

        Args:
            kind: Only events of this kind. Default: all.
            keep: How many of the newest stay. Default: `recall_max_events` of the settings (20).

        Returns:
            How many events, and the ids of the records.

        Raises:
            InvalidInput: An argument is wrong.
        """
        label = None if kind is None else self._kind(kind)
        staying = self.settings.recall_max_events if keep is ... else limit_given(keep)
        return consolidate(self._ground, keep=staying, kind=label, name="recall.summarize")

    asummarize = awaited(summarize, writes=True)

    def _event_of(self, kind: str | None, content: str | None, at: datetime | None = None) -> RowDraft:
        """An event to be appended, checked and without secrets.

        Raises:
            InvalidInput: An argument is wrong.
        """
        label = self._kind(kind)
        if content is None:
            raise InvalidInput('An event has a kind and a content: append("note", "Ana called."), for example.')
        text = self._ground.clean(text_given(content, "The content of an event"))
        time = self._ground.now() if at is None else time_given(at, "The time of an event")
        return RowDraft(EVENT, self._ground.database.new_id(), body_of(text), time, label=label, findable=True)

    def _kind(self, kind: str | None) -> str:
        return self._ground.clean(name_given(kind, "a kind of event"))

    def _archived(self, kept: Kept, now: int) -> RowDraft:
        made = record(
            self._ground.database.new_id(),
            f"[{kept.label}] {kept.text}",
            [EVICTED, f"kind:{kept.label}", f"event:{kept.key}"],
            now,
            events=[[kept.key, kept.created_at, kept.text]],
        )
        return memory_rows.moved(made, kept)


def events(tx: Transaction, view: View, limit: int, kind: str | None = None) -> list[Kept]:
    """The newest events that a view shows, oldest first."""
    return memory_rows.newest(tx, view, EVENT, limit=bounded(limit), label=kind)
