"""Tools with which an agent reads and changes its layered memory.

    agent = create_agent(model, tools=layer_tools(memory), checkpointer=memory.checkpointer)

The tools call a value of core memory a note. Recall memory contains events; archival memory contains records. The
tools work on the memory of the calling thread, and their changes rewind with that thread. If a branch is passed to
`layer_tools`, the tools work on that branch instead. The `mem_node_*` tools take a branch name as `node_id`. Answers
are short text or JSON. Each error is reported to the model in one sentence.

Each operation is a function of the memory and the tool's arguments, and has the name of its tool. It returns the answer
to the model.
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
"""The maximum number of events, and of records, that `mem_node_read` returns."""
NAME_CHARS = 200
"""The maximum number of characters of a name in an answer."""
_NO_RECORD = "There is no record {}; mem_archival_search shows the ids."


# -- core ----------------------------------------------------------------------------------------------------------


def _mem_core_get(layers: Any, args: tool_arguments.CoreGet) -> Any:
    keys = [key for key in args.keys or () if key != "*"]  # "*" selects all keys
    values = layers.core.get(None if "*" in (args.keys or ()) else keys or None)
    missing = [key for key in keys if key not in values]
    return {"core": dict(values), **({"missing": missing} if missing else {})}


def _mem_core_set(layers: Any, args: tool_arguments.CoreSet) -> str:
    layers.core.set(args.key, args.value, args.importance, args.ttl)
    return f"The note {_quote_name(args.key)} is kept."


def _mem_core_del(layers: Any, args: tool_arguments.CoreDel) -> str:
    existed, name = layers.core.delete(args.key), _quote_name(args.key)
    return f"The note {name} is deleted." if existed else f"There is no note {name}."


# -- recall --------------------------------------------------------------------------------------------------------


def _mem_recall_append(layers: Any, args: tool_arguments.RecallAppend) -> str:
    return f"The event is recorded, with the id {layers.recall.append(args.kind, args.content)}."


def _mem_recall_search(layers: Any, args: tool_arguments.RecallSearch) -> Any:
    events = layers.recall.search(args.query, limit=clamp_limit(args.limit))
    return fit_results("events", [_describe_event(event) for event in events])


def _mem_recall_evict(layers: Any, args: tool_arguments.RecallEvict) -> str:
    count = layers.recall.evict(args.ids or None, args.kind, args.oldest)
    return f"Removed {format_count(count, 'events')} from recall memory."


def _mem_recall_summarize(layers: Any, args: tool_arguments.NoArguments) -> Any:
    del args
    return {"summarized": layers.recall.summarize()}


# -- archival ------------------------------------------------------------------------------------------------------


def _mem_archival_write(layers: Any, args: tool_arguments.ArchivalWrite) -> str:
    return f"The record is kept, with the id {layers.archival.write(args.content, args.tags)}."


def _mem_archival_update(layers: Any, args: tool_arguments.ArchivalUpdate) -> str:
    if not layers.archival.update(args.record_id, args.content, args.tags):
        return _NO_RECORD.format(_quote_name(args.record_id))
    return f"The record {_quote_name(args.record_id)} is changed."


def _mem_archival_search(layers: Any, args: tool_arguments.ArchivalSearch) -> Any:
    records = layers.archival.search(args.query, clamp_limit(args.limit), args.tags or None)
    return fit_results("records", [_describe_record(record) for record in records])


def _mem_archival_get(layers: Any, args: tool_arguments.ArchivalGet) -> Any:
    if (record := layers.archival.get(args.record_id)) is None:
        return _NO_RECORD.format(_quote_name(args.record_id))
    return {**_describe_record(record), "content": record.content}


# -- branches ------------------------------------------------------------------------------------------------------


def _mem_node_fork(layers: Any, args: tool_arguments.NodeFork) -> str:
    _find_branch(layers, args.node_id).fork(args.name)
    return f"The branch {_quote_name(args.name)} is created. Pass it to mem_node_read and mem_node_write as node_id."


def _mem_node_read(layers: Any, args: tool_arguments.NodeRead) -> Any:
    branch = _find_branch(layers, args.node_id)
    result: dict[str, Any] = {}
    if args.scope in ("all", "core"):
        result["core"] = branch.core.get()
    if args.scope in ("all", "recall"):
        result["recall"] = [_describe_event(event) for event in branch.recall.recent(limit=NODE_READ_LIMIT)]
    if args.scope in ("all", "archival"):
        result["archival"] = [_describe_record(record) for record in branch.archival.all(limit=NODE_READ_LIMIT)]
    return result


def _mem_node_write(layers: Any, args: tool_arguments.NodeWrite) -> str:
    _find_branch(layers, args.node_id).write(args.core or None, args.recall or None, args.archival or None)
    return "The entries are written."


def _find_branch(layers: Any, name: str | None) -> Any:
    """Return the branch with a name: this branch, or a direct or indirect fork of it.

    Other branches are refused, since they may belong to other users.
    """
    if name is None or name == layers.name:
        return layers
    require_branch(layers._facts_context.point)  # raises InvalidInput: the memory of a thread has no named forks
    if layers.name in layers.at(name).ancestors()[:-1]:  # without the branch `name` itself
        return layers.at(name)
    raise InvalidInput(
        f"There is no branch {_quote_name(name)} here. Omit node_id, or pass the name of a branch that was created "
        "with mem_node_fork."
    )


# -- all layers ----------------------------------------------------------------------------------------------------


def _consolidate(layers: Any, args: tool_arguments.Consolidate) -> Any:
    return {"consolidated": layers.consolidate(args.level)}


_DESCRIPTIONS = load_data_table("layers/layer_operations.yaml")
_FUNCTIONS: tuple[Callable[[Any, Any], Any], ...] = (
    _mem_core_set, _mem_core_get, _mem_core_del, _mem_archival_write, _mem_archival_update, _mem_archival_search,
    _mem_archival_get, _mem_recall_append, _mem_recall_search, _mem_recall_evict, _mem_recall_summarize, _consolidate,
    _mem_node_fork, _mem_node_write, _mem_node_read,
)  # fmt: skip


def _make_operation(function: Callable[[Any, Any], Any]) -> ToolOperation:
    name = function.__name__.removeprefix("_")
    return ToolOperation(name=name, arguments=get_type_hints(function)["args"], run=function, **_DESCRIPTIONS[name])


OPERATIONS = tuple(map(_make_operation, _FUNCTIONS))
"""The operations on layered memory that a model can call."""


def _describe_event(event: Any) -> dict[str, Any]:
    data = {"id": event.id, "kind": event.kind, "content": shorten(event.content), "time": event.created_at}
    return data | _describe_origin(event)


def _describe_record(record: Any) -> dict[str, Any]:
    content = shorten(record.content, f"(shortened; mem_archival_get returns all of {record.id})")
    data = {"id": record.id, "content": content, "tags": list(record.tags), "time": record.updated_at}
    return data | _describe_origin(record)


def _describe_origin(entry: Any) -> dict[str, str]:
    """Return the origin of an entry as {"from": …}; empty if it is unknown."""
    origin = origin_of(entry)
    return {"from": origin} if origin else {}


def _quote_name(name: str) -> str:
    return repr(name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}…")


ESSENTIAL_TOOLS = ("mem_core_set", "mem_core_del", "mem_archival_write", "mem_archival_search")
"""The most important tools: to set and delete notes, and to write and search records."""


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
        memory: An `AgentMemory`, the path or URL of a database, or the `LayeredMemory` on which all tools work.
        branch_or_config: The name of a branch, or a config with a `thread_id`. Default: the thread of the run that
            calls the tool.
        namespace: The namespace of the memory. Default: that of the run.
        settings: The settings of the memory; not for a `LayeredMemory`. Default: `LayersConfig()`.
        model: The model that compresses long texts and summarizes old events; not for a `LayeredMemory`.
            Default: none.

    Raises:
        InvalidInput: An argument is wrong.
    """
    options = {"settings": settings, "model": model}
    return make_tools(OPERATIONS, LayeredMemory, "layers", memory, branch_or_config, namespace, **options)
