"""What a trace shows of a layered memory: whose it is, what was written, what was found, in short.

Nothing that anybody wrote stands under a key that is a name, or is itself a key: content can be left out of traces, and
is known by that. So keys of core memory, kinds of events and tags are content too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.layers.layer_values import EVENT, RECORD, Event, Record
from langchain_agentmem.rewinding.branches import BranchAt, Standpoint
from langchain_agentmem.tracing import brief

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


def event(each: Event) -> dict[str, Any]:
    """An event."""
    return {"id": each.id, "event_type": each.kind, "content": brief(each.content), "created_at": each.created_at}


def record(each: Record) -> dict[str, Any]:
    """A record."""
    return {"id": each.id, "content": brief(each.content), "tags": each.tags, "updated_at": each.updated_at}


def found(values: Iterable[Event | Record]) -> dict[str, Any]:
    """What a search of a layer found, as documents."""
    return {
        "documents": [
            {
                "id": each.id,
                "page_content": each.content,
                "metadata": {
                    "id": each.id,
                    "kind": EVENT if isinstance(each, Event) else RECORD,
                    "score": None if each.score is None else round(each.score, 4),
                    "why": None if each.why is None else str(each.why),
                },
            }
            for each in values
        ]
    }


def maybe(name: str, value: T | None, show: Callable[[T], Any]) -> dict[str, Any]:
    """Something that was asked for by its id, if it is there.

    Args:
        name: What it is.
        value: It.
        show: Shows it.
    """
    return {"found": value is not None, **({} if value is None else {name: show(value)})}
