"""Which conversations there are, the one that was spoken in last first."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import Namespace, namespace_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Operation, Steps, query


class Listed(NamedTuple):
    """A conversation, without what was said in it.

    Attributes:
        conversation_id: Its id.
        namespace: Whose it is.
        messages: How many messages it has.
        first_at: When its first message was said, in UTC.
        last_at: When its last message was said.
    """

    conversation_id: str
    namespace: Namespace
    messages: int
    first_at: datetime
    last_at: datetime


def conversations(namespace: Namespace, limit: int, offset: int) -> Operation[list[Listed]]:
    """The conversations of a namespace and of all below it.

    Raises:
        InvalidInput: A number is none, or negative.
    """
    low, high = range_of(namespace)
    most, skipped = _counted("limit", limit), _counted("offset", offset)

    def steps() -> Steps[list[Listed]]:
        rows = yield query.newest_conversations(
            low=low, high=high, kind=message_log.CONVERSATION, limit=most, offset=skipped
        )
        return [_listed(row) for row in rows]

    return steps


def told(found: list[Listed]) -> dict[str, Any]:
    """What a trace shows of a list."""
    return {"count": len(found), "conversations": [each.conversation_id for each in found[:20]]}


def _listed(row: Any) -> Listed:
    return Listed(
        conversation_id=row["name"],
        namespace=namespace_of(row["path"]),
        messages=row["messages"],
        first_at=moment(row["first_at"]),
        last_at=moment(row["last_at"]),
    )


def _counted(name: str, number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidInput(f"{name} must be a whole number of 0 or more, not {safe_repr(number)}.")
    return min(number, message_log.ALL)
