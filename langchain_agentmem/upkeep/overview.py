"""What there is in a database: its threads and conversations, and its named branches. Used through `AgentMemory`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import Namespace, id_of, namespace_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.message_log import ALL
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Steps, query


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadSummary:
    """A LangGraph thread, a conversation, or both under one id.

    Attributes:
        namespace: Whose it is.
        thread_id: Its id.
        checkpoints: How many checkpoints the thread has, those of subgraphs included; 0 for a mere conversation.
        forks: How often its own checkpoints part: 0 where each has one child at most.
        checkpoint_id: Its newest checkpoint; None for a mere conversation.
        messages: How many messages the log of the conversation holds; 0 where there is only the thread.
        bytes: What its checkpoints and bodies take. What a copied thread shares counts for each.
        changed_at: When it was last written to, in UTC.
    """

    namespace: Namespace
    thread_id: str
    checkpoints: int
    forks: int
    checkpoint_id: str | None
    messages: int
    bytes: int
    changed_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadList:
    """Some threads and conversations, and how many there are.

    Attributes:
        threads: Those that changed last come first.
        total: How many there are without a limit.
    """

    threads: tuple[ThreadSummary, ...]
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSummary:
    """A branch of layered memory and of facts that has a name.

    Attributes:
        namespace: Whose it is.
        name: Its name.
        parent: The name of the branch that it was forked from; None for a root.
        created_at: When it began, in UTC.
        own: How many values, events, records, facts and so on lie on it itself. What it sees of its parent is not
            counted.
    """

    namespace: Namespace
    name: str
    parent: str | None
    created_at: datetime
    own: int


def threads(namespace: Sequence[str], *, thread_id: str | None = None, limit: int | None = None) -> Steps[ThreadList]:
    """The threads and conversations of a namespace and of all below it.

    Args:
        namespace: Which; empty for all.
        thread_id: Only those of this id.
        limit: Most of them. Default: all.

    Raises:
        InvalidInput: An argument is wrong.
    """
    low, high = range_of(namespace)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInput(f"limit must be a whole number, 0 or more, not {safe_repr(limit)}.")
    name = None if thread_id is None else id_of(thread_id, "thread")
    rows = yield query.known_threads(low=low, high=high, name=name, limit=ALL if limit is None else limit)
    [counted] = yield query.count_known_threads(low=low, high=high, name=name)
    found = []
    for row in rows:
        [details] = yield query.thread_details(thread=row["thread"], branch=row["branch"])
        found.append(
            ThreadSummary(
                namespace=namespace_of(row["path"]),
                thread_id=row["name"],
                checkpoints=details["checkpoints"],
                forks=int(details["forks"]),
                checkpoint_id=details["newest"],
                messages=row["messages"],
                bytes=int(details["bytes"]),
                changed_at=moment(row["changed_at"]),
            )
        )
    return ThreadList(threads=tuple(found), total=counted["found"])


def branches(namespace: Sequence[str]) -> Steps[list[BranchSummary]]:
    """The named branches of a namespace and of all below it, parents before their forks.

    Args:
        namespace: Which; empty for all.

    Raises:
        InvalidInput: This is no namespace.
    """
    low, high = range_of(namespace)
    rows = yield query.known_branches(low=low, high=high)
    return [
        BranchSummary(
            namespace=namespace_of(row["path"]),
            name=row["name"],
            parent=row["parent"],
            created_at=moment(row["created_at"]),
            own=row["own"],
        )
        for row in rows
    ]
