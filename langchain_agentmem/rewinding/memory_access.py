"""What a trace shows of a layered memory: whose it is, what was written, what was found, in short.

Nothing that anybody wrote stands under a key that is a name, or is itself a key: content can be left out of traces, and
is known by that. So keys of core memory, kinds of events and tags are content too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.language_models.model_calls import NOBODY, Run, Shown, Work, Writer, writer
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchAt, Standpoint, family
from langchain_agentmem.rewinding.memory_rows import OnBranch, RowDraft, View
from langchain_agentmem.search.search_index import Series
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.database import Database, Outputs
from langchain_agentmem.tracing import RunType, brief

SWEPT = 20
"""Most rows that have expired which one call sweeps away."""


T = TypeVar("T")

LISTED = 20
"""How much of a list a trace shows."""


def standing(point: Standpoint) -> dict[str, Any]:
    """Whose memory it is, as inputs that say where a step happens.

    Args:
        point: The standpoint.
    """
    namespace = "/".join(namespace_of(point.path))
    if isinstance(point, BranchAt):
        return {"namespace": namespace, "branch": point.name}
    return {"namespace": namespace, "thread_id": point.name, **point.pinned()}


def inputs_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as they are shown: functions are called, long texts cut, and what was not given is left out."""
    told: dict[str, Any] = {}
    for name, value in given.items():
        known = value() if callable(value) and not isinstance(value, str) else value  # LangChain's texts are both
        if known is not None:
            told[name] = brief(known) if isinstance(known, str) else known
    return told


def listed(name: str, values: Sequence[T], show: Callable[[T], Any]) -> dict[str, Any]:
    """How many values there are, and the first of them.

    Args:
        name: What they are.
        values: All of them.
        show: Shows one.
    """
    return {"count": len(values), name: [show(each) for each in values[:LISTED]]}


def pairs(values: Mapping[str, str]) -> dict[str, Any]:
    """Values of core memory, by key."""
    return listed("entries", list(values.items()), lambda each: {"key": each[0], "value": brief(each[1])})


def maybe(name: str, value: T | None, show: Callable[[T], Any]) -> dict[str, Any]:
    """Something that was asked for by its id, if it is there.

    Args:
        name: What it is.
        value: It.
        show: Shows it.
    """
    return {"found": value is not None, **({} if value is None else {name: show(value)})}


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
class Footing:
    """Where a memory is.

    Attributes:
        database: Where it is kept.
        point: Whose memory it is.
    """

    database: Database
    point: Standpoint

    def now(self) -> int:
        """The time, in microseconds since 1970."""
        return self.database.now()


def looking(
    ground: Footing,
    name: str,
    look: Callable[[View], Steps[T]],
    *,
    outputs: Outputs | None = None,
    shown: bool = True,
    newest: int | None = None,
    **inputs: Any,
) -> Work[T]:
    """Read what a memory shows.

    Args:
        ground: The memory.
        name: What the step is called in a trace.
        look: Reads, given a view.
        outputs: What a trace shows of the value. Default: how much that is.
        shown: Whether it is a step. If not, it is a detail of another. Default: it is.
        newest: How many of the newest things `look` lists, at most. A long line is not followed further than for these.
        inputs: What a trace shows of it, beside whose memory it is; a function is called for it if somebody looks.
    """
    point, now = ground.point, ground.now()

    def steps() -> Steps[T]:
        if newest is not None:
            view = yield from point.view(now, newest)
            value: Any = yield from look(view)
            # Of a view that is whole, another look in this transaction may be of a later moment: a checkpoint that was
            # put meanwhile is known, and not seen.
            if not view.cut or (view.descends and len(value) >= newest):
                return cast("T", value)
        view = yield from point.view(now)
        return (yield from look(view))

    run = Run(name, steps, inputs=lambda: whose(ground, **inputs), outputs=outputs, shown=shown)
    value: T = yield run
    return value


def changing(
    ground: Footing,
    name: str,
    make: Callable[[Change], Steps[T]],
    *,
    outputs: Outputs | None = None,
    shown: bool = True,
    **inputs: Any,
) -> Work[T]:
    """Change a memory, in one transaction.

    Args:
        ground: The memory.
        name: What the step is called in a trace.
        make: Adds drafts to a `Change`, and gives the value.
        outputs: What a trace shows of the value. Default: how much that is.
        shown: Whether it is a step. If not, it is a detail of another. Default: it is.
        inputs: What a trace shows of it, beside whose memory it is; a function is called for it if somebody looks.
    """
    now, told = ground.now(), writer()
    run = Run(
        name,
        lambda: changed(ground.point, make, now, ground.database.tail, told),
        write=True,
        inputs=lambda: whose(ground, **inputs),
        outputs=outputs,
        shown=shown,
    )
    value: T = yield run
    return value


def as_step(
    ground: Footing,
    name: str,
    work: Work[T],
    *,
    outputs: Outputs | None = None,
    run_type: RunType = "chain",
    **inputs: Any,
) -> Work[T]:
    """Do work on a memory as one step, with what it wishes for beneath.

    Args:
        ground: The memory.
        name: What the step is called in a trace.
        work: The work.
        outputs: What a trace shows of the value. Default: nothing.
        run_type: What LangChain takes it for: a "retriever" has an input "query" and gives "documents". Default:
            "chain".
        inputs: What a trace shows of it, beside whose memory it is; a function is called for it if somebody looks.
    """
    value: T = yield Shown(name, work, lambda: whose(ground, **inputs), outputs, run_type)
    return value


def changed(
    point: Standpoint, make: Callable[[Change], Steps[T]], now: int, tail: int, told: Writer = NOBODY
) -> Steps[T]:
    """The same, as an operation.

    Args:
        point: Whose memory.
        make: Adds drafts to a `Change`, and gives the value.
        now: When.
        tail: How many documents may wait for the index.
        told: Where it comes from.
    """
    view, place = yield from point.open(now)
    change = Change(view=view, now=now, writer=told, thread=point.thread)
    value = yield from make(change)
    drafts = [change.signed(each) for each in change.drafts]
    if isinstance(place, OnBranch):
        expired = yield query.expired_memory(branch=place.branch, at=now, limit=SWEPT)
        # What is written anew needs no sweeping; where it is swept as well, the later draft counts.
        drafts = [*(RowDraft(row["kind"], row["key"], None, now) for row in expired), *drafts]
    if drafts:
        name = yield from family(point, view)
        yield from memory_rows.write(place, drafts, series=Series(point.path, drafts[0].kind, name), now=now, tail=tail)
    return value


def whose(ground: Footing, **inputs: Any) -> dict[str, Any]:
    """What a trace shows of a step on a memory: whose it is, and what was asked.

    Args:
        ground: The memory.
        **inputs: What was asked: functions are called, long texts cut, and what is None is left out.
    """
    return {**standing(ground.point), **inputs_of(inputs)}
