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

from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.base.safe_repr import format_count
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models import tool_arguments
from langchain_agentmem.language_models.model_calls import ModelLike
from langchain_agentmem.language_models.tool_factory import ToolOperation, clamp_limit, fit_results, make_tools, shorten
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.rewinding.branches import require_branch
from langchain_agentmem.search.memory_search import origin_of
from langchain_agentmem.storage.database import MemoryLike

NODE_READ_LIMIT = 10
"""The number of events and of records that `mem_node_read` shows."""
NAME_CHARS = 200  # characters of a name in a sentence
_NO_RECORD = "There is no record {}; mem_archival_search shows the ids."


# -- core ----------------------------------------------------------------------------------------------------------


def _mem_core_get(layers: Any, given: tool_arguments.CoreGet) -> Any:
    keys = [key for key in given.keys or () if key != "*"]
    values = layers.core.get(keys or None)
    missing = [key for key in keys if key not in values]
    return {"core": dict(values), **({"missing": missing} if missing else {})}


def _mem_core_set(layers: Any, given: tool_arguments.CoreSet) -> str:
    layers.core.set(given.key, given.value, given.importance, given.ttl)
    return f"The note {_quote_name(given.key)} is kept."


def _mem_core_del(layers: Any, given: tool_arguments.CoreDel) -> str:
    existed = layers.core.delete(given.key)
    return (
        f"The note {_quote_name(given.key)} is deleted." if existed else f"There is no note {_quote_name(given.key)}."
    )


# -- recall --------------------------------------------------------------------------------------------------------


def _mem_recall_append(layers: Any, given: tool_arguments.RecallAppend) -> str:
    return f"The event is recorded, with the id {layers.recall.append(given.kind, given.content)}."


def _mem_recall_search(layers: Any, given: tool_arguments.RecallSearch) -> Any:
    events = layers.recall.search(given.query, limit=clamp_limit(given.limit))
    return fit_results("events", [_event_data(event) for event in events])


def _mem_recall_evict(layers: Any, given: tool_arguments.RecallEvict) -> str:
    count = layers.recall.evict(given.ids or None, given.kind, given.oldest)
    return f"{format_count(count, 'events')} left recall memory."


def _mem_recall_summarize(layers: Any, given: tool_arguments.NoArguments) -> Any:
    del given
    return {"summarized": layers.recall.summarize()}


# -- archival ------------------------------------------------------------------------------------------------------


def _mem_archival_write(layers: Any, given: tool_arguments.ArchivalWrite) -> str:
    return f"The record is kept, with the id {layers.archival.write(given.content, given.tags)}."


def _mem_archival_update(layers: Any, given: tool_arguments.ArchivalUpdate) -> str:
    if not layers.archival.update(given.record_id, given.content, given.tags):
        return _NO_RECORD.format(_quote_name(given.record_id))
    return f"The record {_quote_name(given.record_id)} is changed."


def _mem_archival_search(layers: Any, given: tool_arguments.ArchivalSearch) -> Any:
    records = layers.archival.search(given.query, clamp_limit(given.limit), given.tags or None)
    return fit_results("records", [_record_data(record) for record in records])


def _mem_archival_get(layers: Any, given: tool_arguments.ArchivalGet) -> Any:
    record = layers.archival.get(given.record_id)
    if record is None:
        return _NO_RECORD.format(_quote_name(given.record_id))
    return {**_record_data(record), "content": record.content}


# -- branches ------------------------------------------------------------------------------------------------------


def _mem_node_fork(layers: Any, given: tool_arguments.NodeFork) -> str:
    _find_branch(layers, given.node_id).fork(given.name)
    return f"The branch {_quote_name(given.name)} begins here. mem_node_read and mem_node_write take it as node_id."


def _mem_node_read(layers: Any, given: tool_arguments.NodeRead) -> Any:
    branch = _find_branch(layers, given.node_id)
    result: dict[str, Any] = {}
    if given.scope in ("all", "core"):
        result["core"] = branch.core.get()
    if given.scope in ("all", "recall"):
        result["recall"] = [_event_data(event) for event in branch.recall.recent(limit=NODE_READ_LIMIT)]
    if given.scope in ("all", "archival"):
        result["archival"] = [_record_data(record) for record in branch.archival.all(limit=NODE_READ_LIMIT)]
    return result


def _mem_node_write(layers: Any, given: tool_arguments.NodeWrite) -> str:
    _find_branch(layers, given.node_id).write(given.core or None, given.recall or None, given.archival or None)
    return "It is written."


def _find_branch(layers: Any, name: str | None) -> Any:
    """Return the branch that a model names: this one, or a direct or indirect fork of it.

    Other branches may belong to other people.
    """
    if name is None or name == layers.name:
        return layers
    require_branch(layers._facts_context.point)
    if layers.name in layers.at(name).ancestors()[:-1]:
        return layers.at(name)
    raise InvalidInput(
        f"There is no branch {_quote_name(name)} here. Leave out node_id, or give the name of a branch that was made "
        "with mem_node_fork."
    )


# -- both ----------------------------------------------------------------------------------------------------------


def _consolidate(layers: Any, given: tool_arguments.Consolidate) -> Any:
    return {"consolidated": layers.consolidate(given.level)}


_DESCRIPTIONS = load_data_table("layers/layer_operations.yaml")
_FUNCTIONS: tuple[Callable[[Any, Any], Any], ...] = (
    _mem_core_set, _mem_core_get, _mem_core_del, _mem_archival_write, _mem_archival_update, _mem_archival_search,
    _mem_archival_get, _mem_recall_append, _mem_recall_search, _mem_recall_evict, _mem_recall_summarize, _consolidate,
    _mem_node_fork, _mem_node_write, _mem_node_read,
)  # fmt: skip


def _operation_of(do: Callable[[Any, Any], Any]) -> ToolOperation:
    name = do.__name__.removeprefix("_")
    return ToolOperation(name=name, arguments=get_type_hints(do)["given"], run=do, **_DESCRIPTIONS[name])


OPERATIONS = tuple(map(_operation_of, _FUNCTIONS))
"""The operations that a model can do with layered memory."""


def _event_data(event: Any) -> dict[str, Any]:
    data = {"id": event.id, "kind": event.kind, "content": shorten(event.content), "time": event.created_at}
    return data | _origin_data(event)


def _record_data(record: Any) -> dict[str, Any]:
    content = shorten(record.content, f"(a part; mem_archival_get shows all of {record.id})")
    return {"id": record.id, "content": content, "tags": list(record.tags), "time": record.updated_at} | _origin_data(
        record
    )


def _origin_data(entry: Any) -> dict[str, str]:
    """Return the origin of an entry as {"from": …}; empty if it is unknown."""
    origin = origin_of(entry)
    return {"from": origin} if origin else {}


def _quote_name(name: str) -> str:
    return repr(name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}…")


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
    return make_tools(
        OPERATIONS, LayeredMemory, "layers", memory, branch_or_config, namespace, settings=settings, model=model
    )
