"""Branches that are named by their users: shared memory, independent of any thread.

A branch begins to exist when something is first written to it. A fork is one row, its parent and the position where it
begins; nothing is copied, and what the parent writes later the child never sees.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from langchain_agentmem.base.namespaces import Scopes, id_of, path_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import BranchMoved, InvalidInput
from langchain_agentmem.rewinding.memory_rows import FOREVER, Author, OnBranch, Place, View
from langchain_agentmem.storage import Steps, query

KIND = "layers"
MAIN = "main"
"""The branch of a namespace that its threads see too."""


class Standpoint(Protocol):
    """Whose memory is read and written, and from where.

    Attributes:
        path: The path of the namespace.
        name: What tells it from others there: a branch's name, or a thread's id.
    """

    @property
    def path(self) -> str:
        """The path of the namespace."""
        ...

    @property
    def name(self) -> str:
        """What tells it from others there."""
        ...

    @property
    def thread(self) -> str | None:
        """The id of the thread that it belongs to, if any."""
        ...

    def view(self, now: int, near: int = FOREVER) -> Steps[View]:
        """What can be seen.

        Args:
            now: The time, in microseconds since 1970.
            near: How many levels of its line are wanted, where the line is long. It may have more.
        """
        ...

    def open(self, now: int) -> Steps[tuple[View, Place]]:
        """What can be seen, and where to write; nobody else writes there until the transaction ends.

        Args:
            now: The time, in microseconds since 1970.

        Raises:
            InvalidInput: It can only be read.
        """
        ...

    def pinned(self) -> dict[str, Any]:
        """The checkpoint at which a thread is looked at, as "checkpoint_id", where it is pinned to one."""
        ...


class BranchAt(NamedTuple):
    """Which branch.

    Attributes:
        path: The path of its namespace.
        name: Its name.
        scopes: Which namespaces share their memory.
    """

    path: str
    name: str
    scopes: Scopes = Scopes()

    @property
    def thread(self) -> None:
        """A branch belongs to no thread."""
        return

    def view(self, now: int, near: int = FOREVER) -> Steps[View]:
        """What the branch shows at its end; nothing where there is none."""
        rows = yield query.find_branch(path=self.path, kind=KIND, name=self.name)
        view = View((), (), now)
        if rows:
            view = yield from view_of(rows[0]["id"], rows[0]["head"], now, near)
        return (yield from self._in_scope(view))

    def _in_scope(self, view: View) -> Steps[View]:
        """The same with what counts of the threads of its namespace, where it is "main"."""
        if self.name != MAIN or not self.scopes.shared(self.path):
            return view
        found = yield query.author_of_main(path=self.path)
        return view._replace(scope=found[0]["scope"], author=found[0]["id"] or 0) if found else view

    def open(self, now: int) -> Steps[tuple[View, Place]]:
        """The same for a write, with the branch's next position; the branch is locked, and made if need be."""
        branch, head = yield from self.locked(now)
        view = yield from view_of(branch, head, now)
        moved = yield query.move_head(branch=branch, expected=head, position=head + 1, added=0)
        if not moved:
            raise BranchMoved
        author = (yield from main_author(self.path)) if self.name == MAIN else None
        return (yield from self._in_scope(view)), OnBranch(
            branch, head + 1, len(view.line) > 1, author, shared=author is not None and self.scopes.shared(self.path)
        )

    def pinned(self) -> dict[str, Any]:
        """A branch is always seen at its end."""
        return {}

    def locked(self, now: int) -> Steps[tuple[int, int]]:
        """The branch and its head. It is made if need be, and nobody else writes to it until the transaction ends."""
        rows = yield query.lock_branch(path=self.path, kind=KIND, name=self.name)
        if not rows:
            yield query.create_namespace(path=self.path)
            yield query.create_branch(path=self.path, kind=KIND, name=self.name, now=now)
            rows = yield query.lock_branch(path=self.path, kind=KIND, name=self.name)
            if not rows:
                raise BranchMoved  # created and deleted by others in between: begin again
        return rows[0]["id"], rows[0]["head"]


def branch_at(given: str | Standpoint, namespace: Any, scopes: Scopes) -> Standpoint:
    """The branch that is meant by a name, or a standpoint as it is.

    Args:
        given: The name, or the standpoint.
        namespace: Whose branch it is; None for the running config's, else the root.
        scopes: How calls are led to their namespace.

    Raises:
        InvalidInput: It cannot be the name of a branch, or no namespace is told.
    """
    if not isinstance(given, str):
        return given
    return BranchAt(path_of(scopes.resolve(namespace)), id_of(given, "branch"), scopes)


def main_author(path: str) -> Steps[Author]:
    """The author that the branch "main" of a namespace is; made if need be."""
    [row] = yield query.author_of_main(path=path)
    made = [row] if row["id"] is not None else (yield query.create_main_author(path=path))
    if not made:
        raise BranchMoved  # somebody else made it: begin again
    return Author(made[0]["id"], row["scope"])


def view_of(branch: int, position: int, at: int, near: int = FOREVER) -> Steps[View]:
    """What a position on a branch shows, with what a subgraph's branch stands on.

    Args:
        branch: The branch.
        position: The last position of it that counts.
        at: The time by which expiry is judged.
        near: How many levels of the line are wanted.
    """
    rows = yield query.line_from(branch=branch, position=position, own=1, deepest=near - 1)
    groups = [tuple(each) for row in rows if row["groups"] for each in json.loads(row["groups"])]
    descends = all(row["based"] is None for row in rows)
    line = tuple((row["branch_id"], row["up_to"]) for row in rows)
    return View(line, tuple(groups), at, descends, cut=len(line) >= near)


def family(point: Standpoint, view: View) -> Steps[str]:
    """The name under which a search finds what was written from a standpoint: all forks of a branch share its name.

    Args:
        point: The standpoint.
        view: What it shows.
    """
    if not isinstance(point, BranchAt) or len(view.line) <= 1:
        return point.name
    [name] = yield from names_of([view.line[-1][0]])
    return name


def families(point: Standpoint, view: View) -> Steps[tuple[str, ...] | None]:
    """All names under which a search may find what a standpoint shows: a copy of a thread shows what the thread wrote.

    None where that is all that its scope has.

    Args:
        point: The standpoint.
        view: What it shows.
    """
    if view.scope is not None:
        return None
    if isinstance(point, BranchAt):
        return ((yield from family(point, view)),)
    rows = yield query.threads_seen(**view.parameters())
    return tuple(dict.fromkeys((point.name, *(row["name"] for row in rows if row["name"] is not None))))


def names_of(branches: Sequence[int]) -> Steps[list[str]]:
    """The names of branches, in their order."""
    rows = yield query.branch_names(ids=json.dumps(list(branches)))
    names = {row["id"]: row["name"] for row in rows}
    return [names[each] for each in branches]


def fork(point: BranchAt, name: str, now: int) -> Steps[BranchAt]:
    """Begin a branch at the end of another, which is made if need be. It is one row, whatever the other holds.

    Args:
        point: The branch to fork.
        name: The name of the new branch.
        now: When.

    Raises:
        InvalidInput: There is a branch of this name.
    """
    branch, head = yield from point.locked(now)
    made = yield query.create_fork(branch=branch, position=head, kind=KIND, name=name, now=now)
    if not made:
        raise InvalidInput(f"There is a branch {safe_repr(name)} already. Give the fork another name.")
    return point._replace(name=name)
