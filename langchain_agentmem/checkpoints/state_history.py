"""The checkpoints of a thread without their values: what `history` of the checkpointer gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_agentmem.base.argument_checks import ALL
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.checkpoints.checkpoint_codec import value_of
from langchain_agentmem.checkpoints.configs import address, readable
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row
from langchain_agentmem.threads.thread_lines import ThreadAt, find


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSummary:
    """A checkpoint without its values.

    Attributes:
        checkpoint_id: Its id.
        parent_id: That of the checkpoint before it; None for the first.
        step: LangGraph's number of the step, -1 for the first input; None if nothing says so.
        source: What made it: "input", "loop", "update" or "fork"; None if nothing says so.
        created_at: When it was stored, in UTC.
    """

    checkpoint_id: str
    parent_id: str | None
    step: int | None
    source: str | None
    created_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointHistory:
    """The checkpoints of a thread.

    Attributes:
        checkpoints: The newest first; those of forks among them, as their times are.
        total: How many there are without a limit.
    """

    checkpoints: tuple[CheckpointSummary, ...]
    total: int


class Asked(NamedTuple):
    """What `history` is asked for."""

    at: ThreadAt
    ns: str
    limit: int


def asked(config: RunnableConfig, limit: int | None) -> Asked:
    """What `history` is asked for, checked.

    Raises:
        InvalidInput: The config names no thread, or the limit is no number.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInput(f"limit must be a whole number, 0 or more, not {safe_repr(limit)}.")
    at, ns, _ = address(config)
    return Asked(at, ns, ALL if limit is None else limit)


def looking(wanted: Asked) -> Steps[tuple[list[Row], int]]:
    """The rows of the checkpoints of a line, and how many there are.

    Raises:
        InvalidInput: The thread is in several namespaces.
    """
    thread = yield from find(wanted.at, wanted.ns)
    if thread is None or thread.line is None:
        return [], 0
    rows = yield query.line_history(line=thread.line, limit=wanted.limit)
    [counted] = yield query.count_line(line=thread.line)
    return list(rows), counted["found"]


def given(wanted: Asked) -> dict[str, Any]:
    """What a trace shows of the call."""
    return {"thread_id": wanted.at.name} | ({} if wanted.limit == ALL else {"limit": wanted.limit})


def shown(found: tuple[list[Row], int]) -> dict[str, Any]:
    """What it shows of the answer."""
    return {"count": len(found[0]), "total": found[1]}


def told(found: tuple[list[Row], int], wanted: Asked, serde: SerializerProtocol) -> CheckpointHistory:
    """What was found, as values.

    Raises:
        CheckpointUnreadable: A checkpoint is damaged, or was written with another serializer.
    """
    rows, total = found
    return CheckpointHistory(checkpoints=tuple(_summary(row, wanted.at, serde) for row in rows), total=total)


def _summary(row: Row, at: ThreadAt, serde: SerializerProtocol) -> CheckpointSummary:
    with readable(at, row["name"], decoding=True):
        metadata: Any = value_of(serde, bytes(row["metadata"]))
    known = metadata if isinstance(metadata, Mapping) else {}
    step, source = known.get("step"), known.get("source")
    return CheckpointSummary(
        checkpoint_id=row["name"],
        parent_id=row["parent"],
        step=step if isinstance(step, int) else None,
        source=source if isinstance(source, str) else None,
        created_at=moment(row["created_at"]),
    )
