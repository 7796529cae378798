"""Access to a memory from a branch or thread: reading, writing, and what traces show of it.

Nothing that anybody wrote stands under a key that is a name, or is itself a key: content can be left out of traces, and
is known by that. So keys of core memory, kinds of events and tags are content too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.language_models.model_calls import NOBODY, Writer, writer
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchAt, Standpoint, family
from langchain_agentmem.rewinding.memory_rows import RowDraft, View
from langchain_agentmem.search.search_index import Series
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database, Outputs
from langchain_agentmem.tracing import RunType, Step, given_only

SWEPT = 20
"""Most rows that have expired which one call sweeps away."""


T = TypeVar("T")

LISTED = 20
"""How much of a list a trace shows."""


def listed(name: str, values: Sequence[T], show: Callable[[T], Any]) -> dict[str, Any]:
    """How many values there are, and the first of them.

    Args:
        name: What they are.
        values: All of them.
        show: Shows one.
    """
    return {"count": len(values), name: [show(each) for each in values[:LISTED]]}


@dataclass(slots=True, kw_only=True)
class Change:
    """What a call is about to write.

    Attributes:
        view: What was there.
        now: When, in microseconds since 1970.
        drafts: What is to be written.
        evicted: The keys that leave core memory to make room.
        writer: Where it comes from, as far as drafts do not say so themselves.
        thread: The thread whose memory it is, if it is one's.
    """

    view: View
    now: int
    drafts: list[RowDraft] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    writer: Writer = NOBODY
    thread: str | None = None

    def remove(self, kind: str, key: str) -> None:
        """Have something be gone."""
        self.drafts.append(RowDraft(kind, key, None, self.now))

    def signed(self, draft: RowDraft) -> RowDraft:
        """Return a draft with the writer's source and actor, unless it was only moved."""
        if draft.moved or self.writer.source is None:
            return draft
        return draft._replace(source=self.writer.source, actor=self.writer.actor)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySession:
    """The access of layers, facts and tools to one memory: reading, writing and tracing.

    A `Change` is a type of its own: it lives as long as one transaction, and a session as long as its memory.

    Attributes:
        database: The database of the memory.
        point: The branch or thread whose memory it is.
    """

    database: Database
    point: Standpoint

    def now(self) -> int:
        """The time, in microseconds since 1970."""
        return self.database.now()

    def trace_inputs(self, **inputs: Any) -> dict[str, Any]:
        """Return the inputs of a traced step: the memory, and what was asked.

        Args:
            **inputs: None is left out.
        """
        point = self.point
        place = {"branch": point.name} if isinstance(point, BranchAt) else {"thread_id": point.name, **point.pinned()}
        return {"namespace": "/".join(namespace_of(point.path)), **place, **given_only(inputs)}

    def read(
        self,
        name: str | None,
        look: Callable[[Transaction, View], T],
        *,
        outputs: Outputs | None = None,
        newest: int | None = None,
        **inputs: Any,
    ) -> T:
        """Read what the memory shows.

        Args:
            name: The name of the step in a trace. None for a detail of another step.
            look: Reads, given a view.
            outputs: What a trace shows of the value. Default: how much that is.
            newest: The number of the newest things that `look` lists at most. A long line is followed no further.
            inputs: What a trace shows of it, next to the memory.
        """
        point, now = self.point, self.now()

        def operation(tx: Transaction) -> T:
            if newest is not None:
                view = point.view(tx, now, newest)
                value: Any = look(tx, view)
                # Of a view that is whole, another look in this transaction may be of a later moment: a checkpoint that
                # was put meanwhile is known, and not seen.
                if not view.cut or (view.descends and len(value) >= newest):
                    return cast("T", value)
            return look(tx, point.view(tx, now))

        return self.database.read(name, operation, lambda: self.trace_inputs(**inputs), outputs)

    def write(
        self,
        name: str | None,
        make: Callable[[Transaction, Change], T],
        *,
        outputs: Outputs | None = None,
        **inputs: Any,
    ) -> T:
        """Change the memory, in one transaction.

        Args:
            name: The name of the step in a trace. None for a detail of another step.
            make: Adds drafts to a `Change`, and returns the value.
            outputs: What a trace shows of the value. Default: how much that is.
            inputs: As for `read`.
        """
        now, told = self.now(), writer()

        def operation(tx: Transaction) -> T:
            return changed(tx, self.point, make, now, self.database.tail, told)

        return self.database.write(name, operation, lambda: self.trace_inputs(**inputs), outputs)

    def step(self, name: str, run_type: RunType = "chain", **inputs: Any) -> Step:
        """Open a traced step for several operations, for `with`.

        Args:
            name: The name of the step.
            run_type: LangChain's type of it: a "retriever" has an input "query" and an output "documents".
            inputs: As for `read`.
        """
        return self.database.step(name, lambda: self.trace_inputs(**inputs), run_type)


def changed(
    tx: Transaction,
    point: Standpoint,
    make: Callable[[Transaction, Change], T],
    now: int,
    tail: int,
    told: Writer = NOBODY,
) -> T:
    """The same, as an operation.

    Args:
        tx: The transaction.
        point: Whose memory.
        make: Adds drafts to a `Change`, and gives the value.
        now: When.
        tail: How many documents may wait for the index.
        told: Where it comes from.
    """
    view, place = point.open(tx, now)
    change = Change(view=view, now=now, writer=told, thread=point.thread)
    value = make(tx, change)
    drafts = [change.signed(each) for each in change.drafts]
    if place.branch is not None:
        expired = query.expired_memory(tx, branch=place.branch, at=now, limit=SWEPT)
        # What is written anew needs no sweeping; where it is swept as well, the later draft counts.
        drafts = [*(RowDraft(row["kind"], row["key"], None, now) for row in expired), *drafts]
    if drafts:
        name = family(tx, point, view)
        memory_rows.write(tx, place, drafts, series=Series(point.path, drafts[0].kind, name), now=now, tail=tail)
    return value
