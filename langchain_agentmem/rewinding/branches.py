"""Branches that are named by their users: shared memory, independent of any thread.

A branch begins to exist when something is first written to it. A fork is one row, its parent and the position where it
begins; nothing is copied, and what the parent writes later the child never sees.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from langchain_agentmem.base.namespaces import Scopes, id_of, path_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import BranchMoved, InvalidInput
from langchain_agentmem.rewinding.memory_rows import FOREVER, Author, Place, View
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.threads.thread_lines import find

if TYPE_CHECKING:
    from langchain_agentmem.rewinding.thread_memory import ThreadPoint

KIND = "layers"
MAIN = "main"
"""The branch of a namespace that its threads see too."""


class BranchAt(NamedTuple):
    """The position of a named branch: its end. It can be read and written, as that of a thread can (`ThreadPoint`).

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

    def view(self, tx: Transaction, now: int, near: int = FOREVER) -> View:
        """What the branch shows at its end; nothing where there is none."""
        rows = query.find_branch(tx, path=self.path, kind=KIND, name=self.name)
        view = view_of(tx, rows[0]["id"], rows[0]["head"], now, near) if rows else View((), (), now)
        return self._in_scope(tx, view)

    def _in_scope(self, tx: Transaction, view: View) -> View:
        """The same with what counts of the threads of its namespace, where it is "main"."""
        if self.name != MAIN or not self.scopes.shared(self.path):
            return view
        found = query.author_of_main(tx, path=self.path)
        return view._replace(scope=found[0]["scope"], author=found[0]["id"] or 0) if found else view

    def open(self, tx: Transaction, now: int) -> tuple[View, Place]:
        """The same for a write, with the branch's next position; the branch is locked, and made if need be."""
        branch, head = self.locked(tx, now)
        view = view_of(tx, branch, head, now)
        moved = query.move_head(tx, branch=branch, expected=head, position=head + 1, added=0)
        if not moved:
            raise BranchMoved
        author = main_author(tx, self.path) if self.name == MAIN else None
        return self._in_scope(tx, view), Place(
            branch,
            head + 1,
            forked=len(view.line) > 1,
            author=author,
            shared=author is not None and self.scopes.shared(self.path),
        )

    def pinned(self) -> dict[str, Any]:
        """A branch is always seen at its end."""
        return {}

    def locked(self, tx: Transaction, now: int) -> tuple[int, int]:
        """The branch and its head. It is made if need be, and nobody else writes to it until the transaction ends."""
        rows = query.lock_branch(tx, path=self.path, kind=KIND, name=self.name)
        if not rows:
            query.create_namespace(tx, path=self.path)
            query.create_branch(tx, path=self.path, kind=KIND, name=self.name, now=now)
            rows = query.lock_branch(tx, path=self.path, kind=KIND, name=self.name)
            if not rows:
                raise BranchMoved  # created and deleted by others in between: begin again
        return rows[0]["id"], rows[0]["head"]


Standpoint: TypeAlias = "BranchAt | ThreadPoint"
"""The position from which memory is read and written. Both have path, name, thread, view, open and pinned."""


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


def main_author(tx: Transaction, path: str) -> Author:
    """The author that the branch "main" of a namespace is; made if need be."""
    [row] = query.author_of_main(tx, path=path)
    made = [row] if row["id"] is not None else query.create_main_author(tx, path=path)
    if not made:
        raise BranchMoved  # somebody else made it: begin again
    return Author(made[0]["id"], row["scope"])


def view_of(tx: Transaction, branch: int, position: int, at: int, near: int = FOREVER) -> View:
    """What a position on a branch shows, with what a subgraph's branch stands on.

    Args:
        tx: The transaction.
        branch: The branch.
        position: The last position of it that counts.
        at: The time by which expiry is judged.
        near: How many levels of the line are wanted.
    """
    rows = query.line_from(tx, branch=branch, position=position, own=1, deepest=near - 1)
    groups = [tuple(each) for row in rows if row["groups"] for each in json.loads(row["groups"])]
    descends = all(row["based"] is None for row in rows)
    line = tuple((row["branch_id"], row["up_to"]) for row in rows)
    return View(line, tuple(groups), at, descends, cut=len(line) >= near)


def family(tx: Transaction, point: Standpoint, view: View) -> str:
    """The name under which a search finds what was written from a standpoint: all forks of a branch share its name.

    Args:
        tx: The transaction.
        point: The standpoint.
        view: What it shows.
    """
    if not isinstance(point, BranchAt) or len(view.line) <= 1:
        return point.name
    [name] = names_of(tx, [view.line[-1][0]])
    return name


def home_of(tx: Transaction, point: Standpoint) -> str:
    """Return the path of the namespace of a standpoint. A config may name by its id alone a thread that has another.

    Args:
        tx: The transaction.
        point: The standpoint.

    Raises:
        InvalidInput: Several namespaces have a thread of this id.
    """
    thread = None if point.path or isinstance(point, BranchAt) else find(tx, point.at)
    return point.path if thread is None else thread.path


def families(tx: Transaction, point: Standpoint, view: View) -> tuple[str, ...] | None:
    """All names under which a search may find what a standpoint shows: a copy of a thread shows what the thread wrote.

    None where that is all that its scope has.

    Args:
        tx: The transaction.
        point: The standpoint.
        view: What it shows.
    """
    if view.scope is not None:
        return None
    if isinstance(point, BranchAt):
        return (family(tx, point, view),)
    rows = query.threads_seen(tx, **view.parameters())
    return tuple(dict.fromkeys((point.name, *(row["name"] for row in rows if row["name"] is not None))))


def names_of(tx: Transaction, branches: Sequence[int]) -> list[str]:
    """The names of branches, in their order."""
    rows = query.branch_names(tx, ids=json.dumps(list(branches)))
    names = {row["id"]: row["name"] for row in rows}
    return [names[each] for each in branches]


def fork(tx: Transaction, point: BranchAt, name: str, now: int) -> BranchAt:
    """Begin a branch at the end of another, which is made if need be. It is one row, whatever the other holds.

    Args:
        tx: The transaction.
        point: The branch to fork.
        name: The name of the new branch.
        now: When.

    Raises:
        InvalidInput: There is a branch of this name.
    """
    branch, head = point.locked(tx, now)
    made = query.create_fork(tx, branch=branch, position=head, kind=KIND, name=name, now=now)
    if not made:
        raise InvalidInput(f"There is a branch {safe_repr(name)} already. Give the fork another name.")
    return point._replace(name=name)
