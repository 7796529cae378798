"""Tools that let an agent keep its own memory: notes that it always sees, events, and records that it searches.

    agent = create_agent(model, tools=layer_tools(memory), checkpointer=memory.checkpointer)

They work on the memory of the thread in which they are called, so that their changes rewind with it, or on a named
branch. Their results are data. Each error is reported to the model in a sentence.

An operation is a function of the memory and its arguments, named like its tool. It returns the answer to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

from langchain_core.tools import BaseTool

from langchain_agentmem.base.data_tables import data_table
from langchain_agentmem.base.safe_repr import counted
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models import tool_arguments as given_as
from langchain_agentmem.language_models.model_calls import ModelLike
from langchain_agentmem.language_models.tool_factory import ToolOperation, listed, passage, tools_of, within
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.rewinding.branches import named_branch
from langchain_agentmem.search.memory_search import origin_of
from langchain_agentmem.storage.database import MemoryLike

NEWEST = 10
"""The number of events and of records that `mem_node_read` shows."""
TRACE = 200  # characters of a name in a sentence
_NO_RECORD = "There is no record {}; mem_archival_search shows the ids."


# -- core ----------------------------------------------------------------------------------------------------------


def _mem_core_get(layers: Any, given: given_as.CoreGet) -> Any:
    keys = [key for key in given.keys or () if key != "*"]
    values = layers.core.get(keys or None)
    missing = [key for key in keys if key not in values]
    return {"core": dict(values), **({"missing": missing} if missing else {})}


def _mem_core_set(layers: Any, given: given_as.CoreSet) -> str:
    layers.core.set(given.key, given.value, given.importance, given.ttl)
    return f"The note {_named(given.key)} is kept."


def _mem_core_del(layers: Any, given: given_as.CoreDel) -> str:
    there = layers.core.delete(given.key)
    return f"The note {_named(given.key)} is deleted." if there else f"There is no note {_named(given.key)}."


# -- recall --------------------------------------------------------------------------------------------------------


def _mem_recall_append(layers: Any, given: given_as.RecallAppend) -> str:
    return f"The event is recorded, with the id {layers.recall.append(given.kind, given.content)}."


def _mem_recall_search(layers: Any, given: given_as.RecallSearch) -> Any:
    events = layers.recall.search(given.query, limit=within(given.limit))
    return listed("events", [_event(event) for event in events])


def _mem_recall_evict(layers: Any, given: given_as.RecallEvict) -> str:
    count = layers.recall.evict(given.ids or None, given.kind, given.oldest)
    return f"{counted(count, 'events')} left recall memory."


def _mem_recall_summarize(layers: Any, given: given_as.NoArguments) -> Any:
    del given
    return {"summarized": layers.recall.summarize()}


# -- archival ------------------------------------------------------------------------------------------------------


def _mem_archival_write(layers: Any, given: given_as.ArchivalWrite) -> str:
    return f"The record is kept, with the id {layers.archival.write(given.content, given.tags)}."


def _mem_archival_update(layers: Any, given: given_as.ArchivalUpdate) -> str:
    if not layers.archival.update(given.record_id, given.content, given.tags):
        return _NO_RECORD.format(_named(given.record_id))
    return f"The record {_named(given.record_id)} is changed."


def _mem_archival_search(layers: Any, given: given_as.ArchivalSearch) -> Any:
    records = layers.archival.search(given.query, within(given.limit), given.tags or None)
    return listed("records", [_record(record) for record in records])


def _mem_archival_get(layers: Any, given: given_as.ArchivalGet) -> Any:
    record = layers.archival.get(given.record_id)
    if record is None:
        return _NO_RECORD.format(_named(given.record_id))
    return {**_record(record), "content": record.content}


# -- branches ------------------------------------------------------------------------------------------------------


def _mem_node_fork(layers: Any, given: given_as.NodeFork) -> str:
    _branch(layers, given.node_id).fork(given.name)
    return f"The branch {_named(given.name)} begins here. mem_node_read and mem_node_write take it as node_id."


def _mem_node_read(layers: Any, given: given_as.NodeRead) -> Any:
    at = _branch(layers, given.node_id)
    read: dict[str, Any] = {}
    if given.scope in ("all", "core"):
        read["core"] = at.core.get()
    if given.scope in ("all", "recall"):
        read["recall"] = [_event(event) for event in at.recall.recent(limit=NEWEST)]
    if given.scope in ("all", "archival"):
        read["archival"] = [_record(record) for record in at.archival.all(limit=NEWEST)]
    return read


def _mem_node_write(layers: Any, given: given_as.NodeWrite) -> str:
    _branch(layers, given.node_id).write(given.core or None, given.recall or None, given.archival or None)
    return "It is written."


def _branch(layers: Any, name: str | None) -> Any:
    """Return the branch that a model names: this one, or a direct or indirect fork of it.

    Other branches may belong to other people.
    """
    if name is None or name == layers.name:
        return layers
    named_branch(layers._facts_ground.point)
    if layers.name in layers.at(name).ancestors()[:-1]:
        return layers.at(name)
    raise InvalidInput(
        f"There is no branch {_named(name)} here. Leave out node_id, or give the name of a branch that was made with "
        "mem_node_fork."
    )


# -- both ----------------------------------------------------------------------------------------------------------


def _consolidate(layers: Any, given: given_as.Consolidate) -> Any:
    return {"consolidated": layers.consolidate(given.level)}


_ABOUT = data_table("layers/layer_operations.yaml")
_FUNCTIONS: tuple[Callable[[Any, Any], Any], ...] = (
    _mem_core_set, _mem_core_get, _mem_core_del, _mem_archival_write, _mem_archival_update, _mem_archival_search,
    _mem_archival_get, _mem_recall_append, _mem_recall_search, _mem_recall_evict, _mem_recall_summarize, _consolidate,
    _mem_node_fork, _mem_node_write, _mem_node_read,
)  # fmt: skip


def _operation_of(do: Callable[[Any, Any], Any]) -> ToolOperation:
    name = do.__name__.removeprefix("_")
    return ToolOperation(name=name, arguments=get_type_hints(do)["given"], do=do, **_ABOUT[name])


OPERATIONS = tuple(map(_operation_of, _FUNCTIONS))
"""The operations that a model can do with layered memory."""


def _event(event: Any) -> dict[str, Any]:
    told = {"id": event.id, "kind": event.kind, "content": passage(event.content), "time": event.created_at}
    return told | _from(event)


def _record(record: Any) -> dict[str, Any]:
    content = passage(record.content, f"(a part; mem_archival_get shows all of {record.id})")
    return {"id": record.id, "content": content, "tags": list(record.tags), "time": record.updated_at} | _from(record)


def _from(written: Any) -> dict[str, str]:
    """Return the origin of an entry as {"from": …}; empty if it is unknown."""
    origin = origin_of(written)
    return {"from": origin} if origin else {}


def _named(name: str) -> str:
    return repr(name if len(name) <= TRACE else f"{name[:TRACE]}…")


SMALL_SET = ("mem_core_set", "mem_core_del", "mem_archival_write", "mem_archival_search")
"""The tools an agent needs most: to set and delete a note, to write a record, and to search records."""


def layer_tools(
    memory: MemoryLike | LayeredMemory,
    branch_or_config: str | Mapping[str, Any] | None = None,
    namespace: Sequence[str] | None = None,
    *,
    settings: LayersConfig | None = None,
    model: ModelLike | None = None,
) -> list[BaseTool]:
    """Return the tools `mem_core_get`, `mem_core_set`, … and `consolidate`.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database; or a `LayeredMemory` for all tools to work on.
        branch_or_config: The name of a branch, or a config that names a thread. Default: the thread of the run that
            calls the tool.
        namespace: The namespace of the memory. Default: that of the run.
        settings: The settings of the memory, unless it is a `LayeredMemory`. Default: `LayersConfig()`.
        model: The model that compresses long texts and summarizes old events, unless the memory is a `LayeredMemory`.
            Default: none.

    Raises:
        InvalidInput: An argument is wrong.
    """
    return tools_of(
        OPERATIONS, LayeredMemory, "layers", memory, branch_or_config, namespace, settings=settings, model=model
    )
