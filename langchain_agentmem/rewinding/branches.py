"""Branches that are named by their users: shared memory, independent of any thread.

A branch begins to exist when something is first written to it. A fork is one row, its parent and the position where it
begins; nothing is copied. A fork sees its parent up to the fork, and nothing after; siblings never see each other.

`MemorySession` is the access to a memory from a branch or thread: reading, writing, and what traces show of it. Nothing
that anybody wrote stands under a key that is a name, or is itself a key: content can be left out of traces, and is
known by that. So keys of core memory, kinds of events and tags are content too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import Scopes, id_of, namespace_of, path_of
from langchain_agentmem.errors import BranchMoved, InvalidInput, safe_repr
from langchain_agentmem.language_models.model_calls import NOBODY, SourceNote, writer
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import (
    CORE,
    EVENT,
    FACT,
    RECORD,
    Author,
    MemoryVersion,
    MemoryView,
    VersionDraft,
    WriteTarget,
)
from langchain_agentmem.search.search_index import DocumentSeries
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database, Outputs
from langchain_agentmem.tracing import RunType, Step, given_only

if TYPE_CHECKING:
    from langchain_agentmem.rewinding.thread_memory import ThreadPosition

KIND = "layers"
MAIN = "main"
"""The branch of a namespace that its threads see too."""


class BranchPosition(NamedTuple):
    """The position at the end of a named branch; read and written like `ThreadPosition`.

    Attributes:
        path: The path of its namespace.
        name: Its name.
        scopes: The namespaces that share their memory.
    """

    path: str
    name: str
    scopes: Scopes = Scopes()

    def view(self, tx: Transaction, now: int) -> MemoryView:
        """Return the view at the end of the branch; an empty view if there is no branch."""
        rows = query.find_branch(tx, path=self.path, kind=KIND, name=self.name)
        view = view_of(tx, rows[0]["id"], rows[0]["head"], now) if rows else MemoryView((), (), now)
        return self._in_scope(tx, view)

    def _in_scope(self, tx: Transaction, view: MemoryView) -> MemoryView:
        """Add what counts of the namespace's threads to the view of a shared branch "main"."""
        if self.name != MAIN or not self.scopes.shared(self.path):
            return view
        found = query.author_of_main(tx, path=self.path)
        return view._replace(scope=found[0]["scope"], author=found[0]["id"] or 0) if found else view

    def open(self, tx: Transaction, now: int) -> tuple[MemoryView, WriteTarget]:
        """Lock the branch, created if missing; return its view and its next position."""
        branch, head = self.locked(tx, now)
        view = view_of(tx, branch, head, now)
        moved = query.move_head(tx, branch=branch, expected=head, position=head + 1, added=0)
        if not moved:
            raise BranchMoved
        author = main_author(tx, self.path) if self.name == MAIN else None
        return self._in_scope(tx, view), WriteTarget(
            branch,
            head + 1,
            forked=len(view.line) > 1,
            author=author,
            shared=author is not None and self.scopes.shared(self.path),
        )

    def locked(self, tx: Transaction, now: int) -> tuple[int, int]:
        """Lock the branch, created if missing; return its row and its head.

        Nobody else writes to the branch until the transaction ends.
        """
        rows = query.lock_branch(tx, path=self.path, kind=KIND, name=self.name)
        if not rows:
            query.create_namespace(tx, path=self.path)
            query.create_branch(tx, path=self.path, kind=KIND, name=self.name, now=now)
            rows = query.lock_branch(tx, path=self.path, kind=KIND, name=self.name)
            if not rows:
                raise BranchMoved  # created and deleted by others in between: begin again
        return rows[0]["id"], rows[0]["head"]


Standpoint: TypeAlias = "BranchPosition | ThreadPosition"
"""The position from which memory is read and written. Both have path, name, view and open."""


def thread_id_of(point: Standpoint) -> str | None:
    """Return the thread id of a standpoint; None for a branch."""
    return None if isinstance(point, BranchPosition) else point.name


def branch_at(given: str | Standpoint, namespace: Any, scopes: Scopes) -> Standpoint:
    """Return the branch of a given name; return a standpoint as it is.

    Args:
        given: The name, or the standpoint.
        namespace: The namespace of the branch; None for that of the running config, else the root.
        scopes: Resolves calls to their namespace.

    Raises:
        InvalidInput: The name is invalid for a branch, or no namespace is given.
    """
    if not isinstance(given, str):
        return given
    return BranchPosition(path_of(scopes.resolve(namespace)), id_of(given, "branch"), scopes)


def main_author(tx: Transaction, path: str) -> Author:
    """Return the author of the branch "main" of a namespace; create it if missing."""
    [row] = query.author_of_main(tx, path=path)
    made = [row] if row["id"] is not None else query.create_main_author(tx, path=path)
    if not made:
        raise BranchMoved  # somebody else made it: begin again
    return Author(made[0]["id"], row["scope"])


def view_of(tx: Transaction, branch: int, position: int, at: int) -> MemoryView:
    """Return the view of a position on a branch, with the base of a subgraph's branch.

    Args:
        tx: The transaction.
        branch: The branch.
        position: The last position of it that counts.
        at: The time by which expiry is judged.
    """
    rows = query.line_from(tx, branch=branch, position=position, own=1)
    groups = [tuple(each) for row in rows if row["groups"] for each in json.loads(row["groups"])]
    descends = all(row["based"] is None for row in rows)
    return MemoryView(tuple((row["branch_id"], row["up_to"]) for row in rows), tuple(groups), at, descends)


def family(tx: Transaction, point: Standpoint, view: MemoryView) -> str:
    """Return the name under which a search finds what was written from a standpoint.

    All forks of a branch share its name.

    Args:
        tx: The transaction.
        point: The standpoint.
        view: The view of the standpoint.
    """
    if not isinstance(point, BranchPosition) or len(view.line) <= 1:
        return point.name
    [name] = names_of(tx, [view.line[-1][0]])
    return name


def families(tx: Transaction, point: Standpoint, view: MemoryView) -> tuple[str, ...] | None:
    """Return all names under which a search may find what a standpoint shows.

    A copy of a thread shows what the thread wrote.

    None if the view has a scope: then nothing is left out.

    Args:
        tx: The transaction.
        point: The standpoint.
        view: The view of the standpoint.
    """
    if view.scope is not None:
        return None
    if isinstance(point, BranchPosition):
        return (family(tx, point, view),)
    rows = query.threads_seen(tx, **view.parameters())
    return tuple(dict.fromkeys((point.name, *(row["name"] for row in rows if row["name"] is not None))))


def names_of(tx: Transaction, branches: Sequence[int]) -> list[str]:
    """Return the names of branches, in the given order."""
    rows = query.branch_names(tx, ids=json.dumps(list(branches)))
    names = {row["id"]: row["name"] for row in rows}
    return [names[each] for each in branches]


def fork(tx: Transaction, point: BranchPosition, name: str, now: int) -> BranchPosition:
    """Fork a branch at its end; create the parent branch if it is missing.

    A fork is one row, whatever its parent holds.

    Args:
        tx: The transaction.
        point: The branch to fork.
        name: The name of the new branch.
        now: The time, in microseconds since 1970.

    Raises:
        InvalidInput: There is a branch of this name.
    """
    branch, head = point.locked(tx, now)
    made = query.create_fork(tx, branch=branch, position=head, kind=KIND, name=name, now=now)
    if not made:
        raise InvalidInput(f"There is a branch {safe_repr(name)} already. Give the fork another name.")
    return point._replace(name=name)


T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class PendingWrite:
    """The write that a call is about to make.

    Attributes:
        view: The view before the write.
        now: The time of the write, in microseconds since 1970.
        drafts: The versions to write.
        evicted: The keys that leave core memory to make room.
        writer: The source and actor of the drafts, except of those that were only moved.
        thread: The id of the thread whose memory it is; None for a branch.
    """

    view: MemoryView
    now: int
    drafts: list[VersionDraft] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    writer: SourceNote = NOBODY
    thread: str | None = None

    def remove(self, kind: str, key: str) -> None:
        """Add a draft that says that a thing is gone."""
        self.drafts.append(VersionDraft(kind, key, None, self.now))

    def signed(self, draft: VersionDraft) -> VersionDraft:
        """Return a draft with the writer's source and actor, unless it was only moved."""
        if draft.moved or self.writer.source is None:
            return draft
        return draft._replace(source=self.writer.source, actor=self.writer.actor)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySession:
    """The access of layers, facts and tools to one memory: reading, writing and tracing.

    A `PendingWrite` is a type of its own: it lives as long as one transaction, and a session as long as its memory.

    Attributes:
        database: The database of the memory.
        point: The branch or thread whose memory it is.
    """

    database: Database
    point: Standpoint

    def now(self) -> int:
        """Return the current time, in microseconds since 1970."""
        return self.database.now()

    def trace_inputs(self, **inputs: Any) -> dict[str, Any]:
        """Return the inputs of a traced step: the memory, and the arguments.

        Args:
            **inputs: None is left out.
        """
        point = self.point
        place: dict[str, Any] = {"branch": point.name}
        if not isinstance(point, BranchPosition):
            pinned = None if point.writable else point.configurable.get("checkpoint_id")
            place = {"thread_id": point.name, "checkpoint_id": pinned}
        return given_only({"namespace": "/".join(namespace_of(point.path)), **place, **inputs})

    def read(
        self,
        name: str | None,
        look: Callable[[Transaction, MemoryView], T],
        *,
        outputs: Outputs | None = None,
        **inputs: Any,
    ) -> T:
        """Read what the memory shows.

        Args:
            name: The name of the step in a trace. None for a detail of another step.
            look: Reads, given a view.
            outputs: Returns the outputs in a trace, given the value. Default: a summary.
            inputs: The inputs in a trace, next to the memory.
        """
        point, now = self.point, self.now()

        return self.database.read(
            name, lambda tx: look(tx, point.view(tx, now)), lambda: self.trace_inputs(**inputs), outputs
        )

    def write(
        self,
        name: str | None,
        make: Callable[[Transaction, PendingWrite], T],
        *,
        outputs: Outputs | None = None,
        **inputs: Any,
    ) -> T:
        """Change the memory, in one transaction.

        Args:
            name: The name of the step in a trace. None for a detail of another step.
            make: Adds drafts to a `PendingWrite`, and returns the value.
            outputs: Returns the outputs in a trace, given the value. Default: a summary.
            inputs: As for `read`.
        """
        now, told = self.now(), writer()

        def operation(tx: Transaction) -> T:
            return changed(tx, self.point, make, now, told)

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
    make: Callable[[Transaction, PendingWrite], T],
    now: int,
    told: SourceNote = NOBODY,
) -> T:
    """Change the memory of a standpoint within a transaction.

    Args:
        tx: The transaction.
        point: The standpoint.
        make: Adds drafts to a `PendingWrite`, and returns the value.
        now: The time, in microseconds since 1970.
        told: The source and actor of the change.
    """
    view, place = point.open(tx, now)
    change = PendingWrite(view=view, now=now, writer=told, thread=thread_id_of(point))
    value = make(tx, change)
    drafts = [change.signed(each) for each in change.drafts]
    if place.branch is not None:
        expired = query.expired_memory(tx, branch=place.branch, at=now, limit=20)
        # A key that is written anew needs no sweeping; if it is swept as well, the later draft counts.
        drafts = [*(VersionDraft(row["kind"], row["key"], None, now) for row in expired), *drafts]
    if drafts:
        name = family(tx, point, view)
        memory_rows.write(tx, place, drafts, series=DocumentSeries(point.path, drafts[0].kind, name), now=now)
    return value


_KINDS = {"core": CORE, "recall": EVENT, "archival": RECORD, "facts": FACT}


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedEntry:
    """An entry that two branches have with different content.

    Attributes:
        mine: The content on this branch.
        theirs: The content on the other branch.
    """

    mine: str
    theirs: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerDiff:
    """The differences between two branches in one layer.

    Attributes:
        mine: Entries that only this branch has, by key or id.
        theirs: Entries that only the other branch has.
        changed: Entries that both have with different content.
    """

    mine: Mapping[str, str] = field(default_factory=dict)
    theirs: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, ChangedEntry] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.mine or self.theirs or self.changed)


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchDiff:
    """The differences between two branches, by layer.

    Attributes:
        core: In their core memories, by key.
        recall: In their events, by id.
        archival: In their records, by id.
        facts: In their facts, by id; a fact with more statements on one of the branches has changed.
    """

    core: LayerDiff
    recall: LayerDiff
    archival: LayerDiff
    facts: LayerDiff = field(default_factory=LayerDiff)

    def __bool__(self) -> bool:
        return bool(self.core or self.recall or self.archival or self.facts)


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchTree:
    """A branch and the branches that were forked from it.

    Attributes:
        name: Its name.
        created_at: When it was created, in UTC; None if it does not exist yet.
        children: Its forks, the first one first.
    """

    name: str
    created_at: datetime | None
    children: tuple[BranchTree, ...] = ()

    def __str__(self) -> str:
        lines = []
        waiting = [(self, 0)]
        while waiting:
            branch, depth = waiting.pop()
            lines.append(f"{'  ' * depth}{branch.name}")
            waiting += [(each, depth + 1) for each in reversed(branch.children)]
        return "\n".join(lines)


def forking(ground: MemorySession, name: str) -> BranchPosition:
    """Fork a branch."""
    point, now = named_branch(ground.point), ground.now()
    return ground.database.write(
        "layers.fork",
        lambda tx: fork(tx, point, name, now),
        lambda: ground.trace_inputs(into=name),
        lambda new: {"branch": new.name, "from_branch": point.name},
    )


def tracing_back(ground: MemorySession) -> list[str]:
    """Return the names of a branch and its ancestors, the root first."""
    if not isinstance(ground.point, BranchPosition):
        return [ground.point.name]

    def look(tx: Transaction, view: MemoryView) -> list[str]:
        names = names_of(tx, [branch for branch, _ in view.line])
        return names[::-1] or [ground.point.name]

    return ground.read("layers.ancestors", look)


def growing(ground: MemorySession) -> BranchTree:
    """Return the tree of forks that a branch is part of."""
    named_branch(ground.point)

    def look(tx: Transaction, view: MemoryView) -> BranchTree:
        if not view.line:
            return BranchTree(name=ground.point.name, created_at=None)
        found = query.branch_family(tx, branch=view.line[-1][0])
        children: dict[int, list[BranchTree]] = {}
        for row in reversed(found):  # a fork has a greater number than what it was forked from
            below = tuple(reversed(children.pop(row["id"], [])))
            tree = BranchTree(name=row["name"], created_at=moment(row["created_at"]), children=below)
            children.setdefault(row["parent_id"], []).append(tree)
        [root] = children.popitem()[1]
        return root

    return ground.read("layers.tree", look)


def comparing(ground: MemorySession, other: Standpoint) -> BranchDiff:
    """Return the differences between two memories."""

    def look(tx: Transaction, view: MemoryView) -> BranchDiff:
        theirs = other.view(tx, view.at)
        found = {}
        for layer, kind in _KINDS.items():
            one, two = memory_rows.current(tx, view, kind), memory_rows.current(tx, theirs, kind)
            found[layer] = difference({each.key: each for each in one}, {each.key: each for each in two})
        return BranchDiff(**found)

    return ground.read("layers.diff", look, from_branch=other.name)


def named_branch(point: Standpoint) -> BranchPosition:
    """Return a standpoint that is a branch.

    Raises:
        InvalidInput: It is a thread.
    """
    if not isinstance(point, BranchPosition):
        raise InvalidInput(
            "The memory of a thread is forked by LangGraph, when a run begins at an old checkpoint. Branches that are "
            'forked manually have a name: memory.layers("name").'
        )
    return point


def difference(mine: Mapping[str, MemoryVersion], theirs: Mapping[str, MemoryVersion]) -> LayerDiff:
    """Return the differences between two states of a layer."""
    return LayerDiff(
        mine={key: each.text for key, each in mine.items() if key not in theirs},
        theirs={key: each.text for key, each in theirs.items() if key not in mine},
        changed={
            key: ChangedEntry(mine=each.text, theirs=theirs[key].text)
            for key, each in mine.items()
            if key in theirs and _content(each) != _content(theirs[key])
        },
    )


_content = attrgetter("body", "label", "importance", "expires_at", "extra")
