"""What is remembered because a message says so, and is forgotten when the message is.

Whoever tells of something is an event of it, among others (`memory/facts/account.py`). A message that is removed from
its conversation is taken out of every version that rests on it, wherever that lies; what nobody tells of any more goes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from langchain_agentmem.rewinding import rows
from langchain_agentmem.rewinding.rows import SAID, conversation_source, message_source, sources_of
from langchain_agentmem.storage import Steps, query

UNDO = "undo"
"""What an event does by which another, `of`, does not count, or does so again."""
BATCH = 500


def forget(low: str, high: str, conversation: str, messages: Collection[str] | None = None) -> Steps[int]:
    """Take messages out of all that rests on them.

    Args:
        low: The first path of the namespaces in which to look.
        high: The path behind the last.
        conversation: The conversation or thread that they belong to.
        messages: Their ids. Default: all of it.

    Returns:
        How many versions nobody tells of any more; they are deleted.
    """
    if messages is None:
        return (
            yield from _forget(
                low, high, [conversation_source(conversation)], lambda event: event.get("in") == conversation
            )
        )
    ids, forgotten = list(messages), 0
    for begin in range(0, len(ids), BATCH):
        some = set(ids[begin : begin + BATCH])

        def gone(event: Mapping[str, Any], some: Collection[str] = some) -> bool:
            return event.get("id") in some and event.get("in", conversation) == conversation

        forgotten += yield from _forget(low, high, [message_source(each) for each in sorted(some)], gone)
    return forgotten


def without(extra: Mapping[str, Any], gone: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any] | None:
    """What is left of something when some of what told of it does not count any more.

    Args:
        extra: What belongs to its row.
        gone: Which of what was said does not count.

    Returns:
        None if nobody tells of it now.
    """
    events = extra["told"]
    lost = {event["n"] for event in events if event["do"] == SAID and gone(event)}
    if lost and extra.get("rests_on_all"):
        return None
    left = [event for event in events if event["n"] not in lost and not (event["do"] == UNDO and event["of"] in lost)]
    return {**extra, "told": left} if any(event["do"] == SAID for event in left) else None


def _forget(low: str, high: str, names: list[str], gone: Callable[[Mapping[str, Any]], bool]) -> Steps[int]:
    found = yield query.resting_on(keys=json.dumps(names), low=low, high=high)
    unfounded = []
    for row in found:
        extra = rows.extra_of(row)
        left = without(extra, gone)
        if left is None:
            unfounded.append(row)
        elif left != extra:
            yield query.retell(id=row["id"], extra=json.dumps(left, separators=(",", ":")))
            lost = sources_of(extra) - sources_of(left)
            yield query.delete_sources.many([{"memory": row["id"], "source": name} for name in sorted(lost)])
    yield from rows.discard(unfounded)
    return len(unfounded)
