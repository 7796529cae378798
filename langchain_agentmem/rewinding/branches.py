"""Named branches: shared memory, independent of any thread.

The first write to a branch creates it. A fork is a single row with its parent branch and the position where it begins,
and no memory is copied. A fork sees the versions of its parent up to that position. Forks of one branch never see each
other's versions.

`MemorySession` reads, writes and traces the memory of a branch or thread. In traces, user content appears only in
values, never in input names or dictionary keys, so that it can be removed. The keys of core memory, the kinds of events
and the tags of records are content too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.concurrency import awaited, check_cancelled
from langchain_agentmem.base.namespaces import Namespace, Scopes, check_id, namespace_of, path_of
from langchain_agentmem.errors import BranchMoved, InvalidInput, safe_repr
from langchain_agentmem.language_models.model_calls import NO_SOURCE, SourceNote, current_source
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import CORE, EVENT, FACT, RECORD, MemoryVersion, MemoryView, VersionDraft
from langchain_agentmem.search.search_index import DocumentSeries
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database, Outputs
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.tracing import RunType, Step, drop_none

if TYPE_CHECKING:
    from langchain_agentmem.rewinding.thread_memory import ThreadPosition

NAMED_BRANCH = "layers"
"""The kind of named branches in the database. The branches of threads have another kind."""
MAIN = "main"
"""The name of the branch that the threads of a namespace also see, if they share memory."""


class BranchPosition(NamedTuple):
    """The end of a named branch, with the same methods as `ThreadPosition`.

    Attributes:
        path: The path of the branch's namespace.
        name: The name of the branch.
        scopes: The rules that determine which namespaces share memory.
    """

    path: str
    name: str
    scopes: Scopes = Scopes()

    @property
    def is_shared(self) -> bool:
        """True if the branch also shows the memory of the threads of its namespace."""
        return self.name == MAIN and self.scopes.is_shared(self.path)

    def view(self, tx: Transaction, now: int) -> MemoryView:
        """Return the view at the end of the branch; an empty view if the branch does not exist."""
        if rows := query.named_branch(tx, path=self.path, name=self.name):
            return _add_scope(_view_branch(tx, rows[0], rows[0]["head"], now), rows if self.is_shared else ())
        return _add_scope(MemoryView((), (), now), query.author_of_main(tx, path=self.path) if self.is_shared else ())

    def open_for_write(self, tx: Transaction, now: int) -> tuple[MemoryView, memory_rows.WriteTarget]:
        """Lock the branch, and return its view and next position; create the branch if missing."""
        advance = partial(query.advance_named_branch, tx, path=self.path, name=self.name, now=now)
        if not (rows := advance()):
            self.lock(tx, now)  # creates the branch
            rows = advance()
        [row] = rows
        view = _view_branch(tx, row, row["head"] - 1, now)
        author = ensure_main_author(tx, self.path, rows) if self.name == MAIN else None
        flags = {"forked": len(view.branches) > 1, "shared": self.is_shared, "has_expired": bool(row["has_expired"])}
        target = memory_rows.WriteTarget(row["id"], row["head"], author=author, **flags)
        return _add_scope(view, rows if self.is_shared else ()), target

    def lock(self, tx: Transaction, now: int) -> tuple[int, int]:
        """Lock the branch, and return its row id and last position; create the branch if missing.

        No other transaction can write to the branch until this one ends.
        """
        rows = query.lock_branch(tx, path=self.path, kind=NAMED_BRANCH, name=self.name)
        if not rows:
            query.create_namespace(tx, path=self.path)
            query.create_branch(tx, path=self.path, kind=NAMED_BRANCH, name=self.name, now=now)
            rows = query.lock_branch(tx, path=self.path, kind=NAMED_BRANCH, name=self.name)
            if not rows:
                raise BranchMoved  # others created and deleted the row meanwhile; the database repeats the transaction
        return rows[0]["id"], rows[0]["head"]


def _add_scope(view: MemoryView, author_rows: Rows) -> MemoryView:
    """Add the current memory of a namespace's threads to the view of its branch "main"."""
    if not author_rows:
        return view
    [row] = author_rows
    return view._replace(scope=row["scope"], author=row["author"] or 0, is_sole_author=bool(row["is_sole_author"]))


MemoryPosition: TypeAlias = "BranchPosition | ThreadPosition"
"""A position at which memory is read and written. Both classes have `path`, `name`, `view` and `open_for_write`."""


def get_thread_id(point: MemoryPosition) -> str | None:
    """Return the thread id of a memory position; None for a branch."""
    return None if isinstance(point, BranchPosition) else point.name


def resolve_branch(branch: str | MemoryPosition, namespace: Any, scopes: Scopes) -> MemoryPosition:
    """Return the branch of a given name; return a memory position unchanged.

    Args:
        branch: The name of a branch, or a memory position.
        namespace: The namespace of the branch. None for the namespace of the current run, else the root.
        scopes: The rules that resolve a call to its namespace.

    Raises:
        InvalidInput: The branch name or namespace is not valid, or a key of the namespace template is missing.
    """
    if isinstance(branch, str):
        return BranchPosition(path_of(scopes.resolve(namespace)), check_id(branch, "branch"), scopes)
    if not hasattr(branch, "view"):
        raise InvalidInput(f"branch must be the name of a branch or a MemoryPosition, got {safe_repr(branch)}.")
    return branch


def ensure_main_author(tx: Transaction, path: str, rows: Rows | None = None) -> memory_rows.Author:
    """Return the author row of the branch "main" of a namespace; create the author if missing.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        rows: A result with the columns of the query `author_of_main`, if there is one.
    """
    [row] = query.author_of_main(tx, path=path) if rows is None else rows
    rows = [row] if row["author"] is not None else query.create_main_author(tx, path=path)
    if not rows:
        raise BranchMoved  # another transaction created the row meanwhile; the database repeats this transaction
    return memory_rows.Author(rows[0]["author"], row["scope"])


def _view_branch(tx: Transaction, row: Row, position: int, time: int) -> MemoryView:
    """Return the view at a position of the named branch in a row, as `load_view` does."""
    if row["parent_id"] is not None:
        return load_view(tx, row["id"], position, time)
    return MemoryView(((row["id"], position),), (), time, descends=True)  # named branches have no base


def load_view(tx: Transaction, branch: int, position: int, time: int) -> MemoryView:
    """Return the view at a position of a branch.

    The view of a subgraph's branch includes its base: the memory of the outer graph that the subgraph sees.

    Args:
        tx: The transaction.
        branch: The row id of the branch.
        position: The last visible position of the branch.
        time: The time that decides which entries have expired, in microseconds since 1970.
    """
    rows = query.branch_lineage(tx, branch=branch, position=position, with_bases=1)
    groups = [tuple(group) for row in rows if row["groups"] for group in json.loads(row["groups"])]
    descends = all(row["with_base"] is None for row in rows)
    return MemoryView(tuple((row["branch_id"], row["up_to"]) for row in rows), tuple(groups), time, descends)


def find_series_name(tx: Transaction, point: MemoryPosition, view: MemoryView) -> str:
    """Return the name of the search series that receives the writes of a position.

    It is the name of the thread or of the oldest ancestor branch, so that a branch and its forks share one series.

    Args:
        tx: The transaction.
        point: The memory position.
        view: The view of the position.
    """
    if not isinstance(point, BranchPosition) or len(view.branches) <= 1:
        return point.name
    [name] = load_branch_names(tx, [view.branches[-1][0]])
    return name


def list_visible_series(tx: Transaction, point: MemoryPosition, view: MemoryView) -> tuple[str, ...] | None:
    """Return the names of all search index series that may contain the memory of a position.

    A copy of a thread also shows memory in the series of the original thread.

    Args:
        tx: The transaction.
        point: The memory position.
        view: The view of the position.

    Returns:
        The names; None if the view includes the threads of a scope, since a search then includes all series.
    """
    if view.scope is not None:
        return None
    if isinstance(point, BranchPosition):
        return (find_series_name(tx, point, view),)
    rows = query.visible_threads(tx, **view.parameters())
    return tuple(dict.fromkeys((point.name, *(row["name"] for row in rows if row["name"] is not None))))


def load_branch_names(tx: Transaction, branches: Sequence[int]) -> list[str]:
    """Return the names of branches, in the given order."""
    names = {row["id"]: row["name"] for row in query.branch_names(tx, ids=json.dumps(list(branches)))}
    return [names[branch] for branch in branches]


def create_fork(tx: Transaction, point: BranchPosition, name: str, now: int) -> BranchPosition:
    """Fork a branch at its end; create the parent branch if it is missing.

    A fork is one row, whatever the size of its parent.

    Args:
        tx: The transaction.
        point: The branch to fork.
        name: The name of the new branch.
        now: The time, in microseconds since 1970.

    Raises:
        InvalidInput: A branch of this name exists.
    """
    branch, head = point.lock(tx, now)
    if not query.create_fork(tx, branch=branch, position=head, kind=NAMED_BRANCH, name=name, now=now):
        raise InvalidInput(f"The branch {safe_repr(name)} already exists. Give the fork another name.")
    return point._replace(name=name)


T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class PendingWrite:
    """A write in preparation.

    Attributes:
        view: The view before the write.
        now: The time of the write, in microseconds since 1970.
        drafts: The versions to write.
        evicted: The keys that are removed from core memory to make room.
        writer: The source and actor of the drafts, except of drafts that move a version.
        thread: The id of the thread whose memory is written; None for a branch.
    """

    view: MemoryView
    now: int
    drafts: list[VersionDraft] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    writer: SourceNote = NO_SOURCE
    thread: str | None = None

    def remove(self, kind: str, key: str) -> None:
        """Add a draft that marks a key as deleted."""
        self.drafts.append(VersionDraft(kind, key, None, self.now))

    def add_writer(self, draft: VersionDraft) -> VersionDraft:
        """Return a draft with the writer's source and actor; a draft with `moved` keeps its own."""
        if draft.moved or self.writer.source is None:
            return draft
        return draft._replace(source=self.writer.source, actor=self.writer.actor)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySession:
    """The access of layers, facts and tools to one memory: reading, writing and tracing.

    A session may be used for any number of transactions. A `PendingWrite` belongs to one transaction.

    Attributes:
        database: The database of the memory.
        point: The branch or thread whose memory is accessed.
    """

    database: Database
    point: MemoryPosition

    def now(self) -> int:
        """Return the current time, in microseconds since 1970."""
        return self.database.now()

    def trace_inputs(self, **inputs: Any) -> dict[str, Any]:
        """Return the inputs of a traced step: the names of the memory, and the arguments.

        Args:
            **inputs: The arguments. Values of None are left out.
        """
        point = self.point
        position: dict[str, Any] = {"branch": point.name}
        if not isinstance(point, BranchPosition):
            checkpoint_id = None if point.writable else point.configurable.get("checkpoint_id")
            position = {"thread_id": point.name, "checkpoint_id": checkpoint_id}
        return drop_none({"namespace": "/".join(namespace_of(point.path)), **position, **inputs})

    def read(
        self,
        name: str | None,
        load: Callable[[Transaction, MemoryView], T],
        *,
        outputs: Outputs | None = None,
        **inputs: Any,
    ) -> T:
        """Read from the memory.

        Args:
            name: The name of the step in a trace. None if the call is part of another step.
            load: Called with a transaction and the view; returns the value.
            outputs: Called with the value; returns the outputs for the trace. Default: a summary of the value.
            **inputs: The inputs for the trace, in addition to the names of the memory.
        """
        now, trace = self.now(), partial(self.trace_inputs, **inputs)
        return self.database.read(name, lambda tx: load(tx, self.point.view(tx, now)), trace, outputs)

    def select_texts(self, kind: str, key: str | None = None) -> dict[str, str] | None:
        """Read the texts of a kind in one statement, without a transaction.

        Args:
            kind: The kind of the entries.
            key: The key of the only entry to read. Default: all entries.

        Returns:
            The texts by key, sorted by creation time, then key. None if the memory is a thread's, or may show rows of
            several branches. `read` reads any memory.
        """
        check_cancelled()
        point, now = self.point, self.now()
        if not isinstance(point, BranchPosition):
            return None
        branch = {"path": point.path, "name": point.name, "shared": int(point.is_shared)}
        select = query.named_branch_memory if key is None else query.named_branch_memory_of_key
        if not (rows := self.database.engine.select(select, **branch, kind=kind, key=key)):
            return None
        shown = sorted(memory_rows.select_visible(rows, now), key=itemgetter("created_at", "key"))
        return {row["key"]: memory_rows.decode_text(row["body"]) for row in shown}

    def write(
        self,
        name: str | None,
        prepare: Callable[[Transaction, PendingWrite], T],
        *,
        outputs: Outputs | None = None,
        **inputs: Any,
    ) -> T:
        """Change the memory, in one transaction.

        Args:
            name: The name of the step in a trace. None if the call is part of another step.
            prepare: Adds drafts to a `PendingWrite`, and returns the value.
            outputs: Called with the value; returns the outputs for the trace. Default: a summary of the value.
            **inputs: As for `read`.
        """
        now, writer, trace = self.now(), current_source(), partial(self.trace_inputs, **inputs)
        return self.database.write(name, lambda tx: apply_change(tx, self.point, prepare, now, writer), trace, outputs)

    def step(self, name: str, run_type: RunType = "chain", **inputs: Any) -> Step:
        """Open a traced step for several operations, as a context manager.

        Args:
            name: The name of the step.
            run_type: The LangChain run type. A "retriever" has an input "query" and an output "documents".
            **inputs: As for `read`.
        """
        return self.database.step(name, lambda: self.trace_inputs(**inputs), run_type)


def apply_change(
    tx: Transaction,
    point: MemoryPosition,
    prepare: Callable[[Transaction, PendingWrite], T],
    now: int,
    writer: SourceNote = NO_SOURCE,
) -> T:
    """Change the memory of a position within a transaction.

    Args:
        tx: The transaction.
        point: The memory position.
        prepare: Adds drafts to a `PendingWrite`, and returns the value.
        now: The time, in microseconds since 1970.
        writer: The source and actor of the change.
    """
    view, target = point.open_for_write(tx, now)
    change = PendingWrite(view=view, now=now, writer=writer, thread=get_thread_id(point))
    expired: Rows = ()
    if target.branch is not None and target.has_expired:
        expired = query.expired_memory.lazy(tx, branch=target.branch, at=now, limit=20)
    value = prepare(tx, change)
    # Also delete some expired entries. If one of their keys is also written, the later draft applies.
    drafts = [VersionDraft(row["kind"], row["key"], None, now) for row in expired]
    drafts += [change.add_writer(draft) for draft in change.drafts]
    if drafts:
        name = find_series_name(tx, point, view)
        memory_rows.write(tx, target, drafts, series=DocumentSeries(point.path, drafts[0].kind, name), now=now)
    return value


_KIND_OF_LAYER = {"core": CORE, "recall": EVENT, "archival": RECORD, "facts": FACT}


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedEntry:
    """An entry whose content differs between two branches.

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
        mine: The content of entries that only this branch has, by key or id.
        theirs: The content of entries that only the other branch has.
        changed: Entries that both branches have with different content.
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
        core: The differences in core memory, by key.
        recall: The differences in events, by id.
        archival: The differences in records, by id.
        facts: The differences in facts, by id. A fact with more statements on one of the branches has changed.
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
        name: The name of the branch.
        created_at: The time of its creation, in UTC; None if the branch does not exist yet.
        children: Its forks, oldest first.
    """

    name: str
    created_at: datetime | None
    children: tuple[BranchTree, ...] = ()

    def __str__(self) -> str:
        lines = []
        pending = [(self, 0)]
        while pending:
            branch, depth = pending.pop()
            lines.append(f"{'  ' * depth}{branch.name}")
            pending += [(fork, depth + 1) for fork in reversed(branch.children)]
        return "\n".join(lines)


class BranchMemory:
    """The memory of a branch of a namespace, or of a thread."""

    _context: MemorySession

    def __repr__(self) -> str:
        return f"{type(self).__name__}({safe_repr(self.name)}, namespace={safe_repr(self.namespace)})"

    @property
    def name(self) -> str:
        """The name of the branch, or the id of the thread."""
        return self._context.point.name

    @property
    def namespace(self) -> Namespace:
        """The namespace of this memory."""
        return namespace_of(self._context.point.path)

    def at(self, name: str) -> Self:
        """Return the memory of another branch of this namespace, with the same model and settings.

        Raises:
            InvalidInput: The name is not valid for a branch.
        """
        path, scopes = self._context.point.path, self._context.database.scopes
        return self._at_position(BranchPosition(path, check_id(name, "branch"), scopes))

    def fork(self, name: str) -> Self:
        """Fork a branch that sees this memory as it is now, but not later writes.

        Nothing is copied. The new branch is a branch of both `memory.layers` and `memory.facts`.

        Args:
            name: The name of the fork.

        Raises:
            InvalidInput: The name is taken, or this is the memory of a thread.
        """
        return self._at_position(fork_branch(self._context, check_id(name, "branch")))

    afork = awaited(fork, writes=True)

    def _at_position(self, point: MemoryPosition) -> Self:
        """Return the memory at another position, with the same model and settings."""
        raise NotImplementedError


def fork_branch(session: MemorySession, name: str) -> BranchPosition:
    """Fork a branch."""
    point, now = require_branch(session.point), session.now()
    return session.database.write(
        "layers.fork",
        lambda tx: create_fork(tx, point, name, now),
        lambda: session.trace_inputs(into=name),
        lambda new: {"branch": new.name, "from_branch": point.name},
    )


def list_ancestors(session: MemorySession) -> list[str]:
    """Return the names of a branch and its ancestors, root first; for a thread, its id."""
    if not isinstance(session.point, BranchPosition):
        return [session.point.name]

    def load(tx: Transaction, view: MemoryView) -> list[str]:
        names = load_branch_names(tx, [branch for branch, _ in view.branches])
        return names[::-1] or [session.point.name]

    return session.read("layers.ancestors", load)


def read_tree(session: MemorySession) -> BranchTree:
    """Return the tree of forks that a branch is part of."""
    require_branch(session.point)  # raises InvalidInput for a thread

    def load(tx: Transaction, view: MemoryView) -> BranchTree:
        if not view.branches:
            return BranchTree(name=session.point.name, created_at=None)
        rows = query.branch_family(tx, branch=view.branches[-1][0])
        children: dict[int, list[BranchTree]] = {}
        for row in reversed(rows):  # the id of a fork is greater than that of its parent
            forks = tuple(reversed(children.pop(row["id"], [])))
            tree = BranchTree(name=row["name"], created_at=from_micros(row["created_at"]), children=forks)
            children.setdefault(row["parent_id"], []).append(tree)
        [root] = children.popitem()[1]
        return root

    return session.read("layers.tree", load)


def diff_branches(session: MemorySession, other: MemoryPosition) -> BranchDiff:
    """Return the differences between the memories of two branches or threads."""

    def load(tx: Transaction, view: MemoryView) -> BranchDiff:
        other_view = other.view(tx, view.time)
        diffs = {}
        for layer, kind in _KIND_OF_LAYER.items():
            mine = {version.key: version for version in memory_rows.load_current(tx, view, kind)}
            theirs = {version.key: version for version in memory_rows.load_current(tx, other_view, kind)}
            diffs[layer] = diff_layer(mine, theirs)
        return BranchDiff(**diffs)

    return session.read("layers.diff", load, from_branch=other.name)


def require_branch(point: MemoryPosition) -> BranchPosition:
    """Return a memory position that must be a branch.

    Raises:
        InvalidInput: The position is a thread.
    """
    if not isinstance(point, BranchPosition):
        raise InvalidInput(
            "The memory of a thread is forked by LangGraph, when a run starts at an older checkpoint. To fork memory "
            'manually, use a named branch: memory.layers("name").'
        )
    return point


def diff_layer(mine: Mapping[str, MemoryVersion], theirs: Mapping[str, MemoryVersion]) -> LayerDiff:
    """Return the differences between two states of a layer."""
    return LayerDiff(
        mine={key: version.text for key, version in mine.items() if key not in theirs},
        theirs={key: version.text for key, version in theirs.items() if key not in mine},
        changed={
            key: ChangedEntry(mine=mine[key].text, theirs=theirs[key].text)
            for key in mine
            if key in theirs and _get_content(mine[key]) != _get_content(theirs[key])
        },
    )


_get_content = attrgetter("body", "label", "importance", "expires_at", "extra")
