"""What a model can do with its memory: one table of operations, for tools and for the text protocol alike.

An operation is a generator of calls, written once for those who wait and those who await (`calls.py`). It returns what
the model is told.

Tools by which an agent keeps its own memory: notes that it always sees, events, and records that it searches.

    agent = create_agent(model, tools=layer_tools(memory), checkpointer=memory.checkpointer)

They work on the memory of the thread in which they are called, so that they rewind with it, or on a branch that is
named. What they give is data. Whatever goes wrong is told to the model in a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models import tool_arguments as given_as
from langchain_agentmem.language_models.tool_factory import (
    Calls,
    Operation,
    OperationCall,
    Whose,
    listed,
    passage,
    tool_of,
    within,
)
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory

NEWEST = 20
"""How many events and records a reading of a branch shows."""
TRACE = 200  # characters of a name in a sentence


# -- core ----------------------------------------------------------------------------------------------------------


def _core_get(layers: Any, given: given_as.CoreGet) -> Calls[Any]:
    keys = [key for key in given.keys or () if key != "*"]
    values = yield OperationCall(layers.core, "get", (keys or None,))
    missing = [key for key in keys if key not in values]
    return {"core": dict(values), **({"missing": missing} if missing else {})}


def _core_set(layers: Any, given: given_as.CoreSet) -> Calls[str]:
    more = {"importance": given.importance, "ttl": given.ttl}
    yield OperationCall(layers.core, "set", (given.key, given.value), more)
    return f"The note {_named(given.key)} is kept."


def _core_del(layers: Any, given: given_as.CoreDel) -> Calls[str]:
    there = yield OperationCall(layers.core, "delete", (given.key,))
    return f"The note {_named(given.key)} is deleted." if there else f"There is no note {_named(given.key)}."


# -- recall --------------------------------------------------------------------------------------------------------


def _recall_append(layers: Any, given: given_as.RecallAppend) -> Calls[str]:
    event_id = yield OperationCall(layers.recall, "append", (given.kind, given.content))
    return f"The event is recorded, with the id {event_id}."


def _recall_search(layers: Any, given: given_as.RecallSearch) -> Calls[Any]:
    events = yield OperationCall(layers.recall, "search", (given.query,), {"limit": within(given.limit)})
    return listed("events", [_event(event) for event in events])


def _recall_evict(layers: Any, given: given_as.RecallEvict) -> Calls[str]:
    which = {"ids": given.ids or None, "kind": given.kind, "oldest": given.oldest}
    count = yield OperationCall(layers.recall, "evict", (), which)
    return f"{_count(count, 'event')} left recall memory."


def _recall_summarize(layers: Any, given: given_as.Nothing) -> Calls[Any]:
    del given
    report = yield OperationCall(layers.recall, "summarize")
    return {"summarized": report}


# -- archival ------------------------------------------------------------------------------------------------------


def _archival_write(layers: Any, given: given_as.ArchivalWrite) -> Calls[str]:
    record_id = yield OperationCall(layers.archival, "write", (given.content, given.tags))
    return f"The record is kept, with the id {record_id}."


def _archival_update(layers: Any, given: given_as.ArchivalUpdate) -> Calls[str]:
    there = yield OperationCall(layers.archival, "update", (given.record_id, given.content, given.tags))
    if not there:
        return f"There is no record {_named(given.record_id)}; mem_archival_search shows the ids."
    return f"The record {_named(given.record_id)} is changed."


def _archival_search(layers: Any, given: given_as.ArchivalSearch) -> Calls[Any]:
    more = {"limit": within(given.limit), "tags": given.tags or None}
    records = yield OperationCall(layers.archival, "search", (given.query,), more)
    return listed("records", [_record(record) for record in records])


def _archival_get(layers: Any, given: given_as.ArchivalGet) -> Calls[Any]:
    record = yield OperationCall(layers.archival, "get", (given.record_id,))
    if record is None:
        return f"There is no record {_named(given.record_id)}; mem_archival_search shows the ids."
    return {**_record(record), "content": record.content}


# -- branches ------------------------------------------------------------------------------------------------------


def _node_fork(layers: Any, given: given_as.NodeFork) -> Calls[str]:
    at = yield from _branch(layers, given.node_id)
    yield OperationCall(at, "fork", (given.name,))
    name = _named(given.name)
    return f"The branch {name} begins here. mem_node_read and mem_node_write take it as node_id."


def _node_read(layers: Any, given: given_as.NodeRead) -> Calls[Any]:
    at = yield from _branch(layers, given.node_id)
    read: dict[str, Any] = {}
    if given.scope in ("all", "core"):
        read["core"] = yield OperationCall(at.core, "get")
    if given.scope in ("all", "recall"):
        events = yield OperationCall(at.recall, "recent", (), {"limit": NEWEST})
        read |= listed("recall", [_event(event) for event in reversed(events)])
        read["recall"].reverse()
    if given.scope in ("all", "archival"):
        records = yield OperationCall(at.archival, "all", (), {"limit": NEWEST})
        found = listed("archival", [_record(record) for record in reversed(records)])
        read |= {name: read.get(name, 0) + value if name == "left_out" else value for name, value in found.items()}
    return read


def _node_write(layers: Any, given: given_as.NodeWrite) -> Calls[str]:
    at = yield from _branch(layers, given.node_id)
    more = {"core": given.core, "recall": given.recall, "archival": given.archival}
    yield OperationCall(at, "write", (), {name: value for name, value in more.items() if value})
    return "It is written."


def _branch(layers: Any, name: str | None) -> Calls[Any]:
    """The branch that a model means: this one, or one that was forked from it, however far.

    Others may be other people's.
    """
    if name is None or name == layers.name:
        return layers
    trees = [(yield OperationCall(layers, "tree"))]
    forks: list[Any] = []
    while trees:
        tree = trees.pop()
        trees += tree.children
        if tree.name == layers.name:
            forks = [*tree.children]
    while forks:
        fork = forks.pop()
        forks += fork.children
        if fork.name == name:
            return layers.at(name)
    raise InvalidInput(
        f"There is no branch {_named(name)} here. Leave out node_id, or give the name of a branch that was made with "
        "mem_node_fork."
    )


# -- both ----------------------------------------------------------------------------------------------------------


def _consolidate(layers: Any, given: given_as.Consolidate) -> Calls[Any]:
    report = yield OperationCall(layers, "consolidate", (given.level,))
    return {"consolidated": report}


_NODE = "A branch sees what its parent knew when it was forked, and nothing that came later."

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="mem_core_set",
        about="Keep a short note of what always matters: who the user is, what the goal is, the current plan.",
        arguments=given_as.CoreSet,
        do=_core_set,
    ),
    Operation(
        name="mem_core_get",
        about="Read your notes, all of them or some by their keys.",
        arguments=given_as.CoreGet,
        do=_core_get,
        reads=True,
    ),
    Operation(
        name="mem_core_del",
        about="Delete a note that is no longer true or needed.",
        arguments=given_as.CoreDel,
        do=_core_del,
    ),
    Operation(
        name="mem_archival_write",
        about="Keep a record for good, such as a result or an insight. Records are found by search when needed.",
        arguments=given_as.ArchivalWrite,
        do=_archival_write,
        adds=True,
    ),
    Operation(
        name="mem_archival_update",
        about="Correct a record: its text, its tags, or both. What you leave out stays as it is.",
        arguments=given_as.ArchivalUpdate,
        do=_archival_update,
    ),
    Operation(
        name="mem_archival_search",
        about="Search the records that were kept. Gives those that fit best, with their ids.",
        arguments=given_as.ArchivalSearch,
        do=_archival_search,
        reads=True,
    ),
    Operation(
        name="mem_archival_get",
        about="Read one record whole, by its id.",
        arguments=given_as.ArchivalGet,
        do=_archival_get,
        reads=True,
    ),
    Operation(
        name="mem_recall_append",
        about="Record something that happened: a decision, an error, a step that was done. Events are kept in order.",
        arguments=given_as.RecallAppend,
        do=_recall_append,
        adds=True,
    ),
    Operation(
        name="mem_recall_search",
        about="Search the events that were recorded.",
        arguments=given_as.RecallSearch,
        do=_recall_search,
        reads=True,
    ),
    Operation(
        name="mem_recall_evict",
        about="Let events that are not needed any more leave recall memory: by ids, by kind, or so many of the oldest.",
        arguments=given_as.RecallEvict,
        do=_recall_evict,
        adds=True,
    ),
    Operation(
        name="mem_recall_summarize",
        about="Have older events replaced by a summary, which is kept as a record.",
        arguments=given_as.Nothing,
        do=_recall_summarize,
        adds=True,
    ),
    Operation(
        name="consolidate",
        about="Tidy memory when it grows too large: sums up old events and makes room among the notes.",
        arguments=given_as.Consolidate,
        do=_consolidate,
        adds=True,
    ),
    Operation(
        name="mem_node_fork",
        about=f"Begin a branch of this memory, to try something without changing it. {_NODE}",
        arguments=given_as.NodeFork,
        do=_node_fork,
    ),
    Operation(
        name="mem_node_write",
        about="Write notes, an event and records to a branch at once.",
        arguments=given_as.NodeWrite,
        do=_node_write,
        adds=True,
    ),
    Operation(
        name="mem_node_read",
        about="Read a branch: its notes, its newest events and records.",
        arguments=given_as.NodeRead,
        do=_node_read,
        reads=True,
    ),
)
"""The operations, in the order in which those of one update are done."""


def _event(event: Any) -> dict[str, Any]:
    return {"id": event.id, "kind": event.kind, "content": passage(event.content), "time": event.created_at}


def _record(record: Any) -> dict[str, Any]:
    content = passage(record.content, f"(a part; mem_archival_get shows all of {record.id})")
    return {"id": record.id, "content": content, "tags": list(record.tags), "time": record.updated_at}


def _named(name: str) -> str:
    return repr(name if len(name) <= TRACE else f"{name[:TRACE]}…")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


SMALL_SET = ("mem_core_set", "mem_core_del", "mem_archival_write", "mem_archival_search")
"""What an agent needs most: to keep something in mind, to let go of it, to note something, and to look it up."""


def layer_tools(
    memory: Any,
    branch_or_config: str | Mapping[str, Any] | None = None,
    namespace: Sequence[str] | None = None,
    *,
    settings: LayersConfig | None = None,
    model: Any = None,
) -> list[BaseTool]:
    """The tools `mem_core_get`, `mem_core_set`, `mem_recall_append`, … and `consolidate` (document 004).

    Args:
        memory: An `AgentMemory`, or the path or URL of a database; or a `LayeredMemory`, which they all work on then.
        branch_or_config: The name of a branch, or a config that names a thread. Default: the thread of the run that
            calls the tool.
        namespace: Whose it is. Default: that of the run.
        settings: How the memory behaves, unless it is a `LayeredMemory`. Default: `LayersConfig()`.
        model: Who compresses what is too long and sums up old events, unless it is a `LayeredMemory`. Default: nobody.

    Raises:
        InvalidInput: An argument is wrong.
    """
    whose = Whose(LayeredMemory, "layers", memory, branch_or_config, namespace, settings=settings, model=model)
    return [tool_of(operation, whose) for operation in OPERATIONS]
