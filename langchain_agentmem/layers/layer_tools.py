"""Tools by which an agent keeps its own memory: notes that it always sees, events, and records that it searches.

    agent = create_agent(model, tools=layer_tools(memory), checkpointer=memory.checkpointer)

They work on the memory of the thread in which they are called, so that they rewind with it, or on a branch that is
named. What they give is data. Whatever goes wrong is told to the model in a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from langchain_agentmem.language_models.tool_factory import Whose, tool_of
from langchain_agentmem.layers.layer_operations import OPERATIONS
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.layers_config import LayersConfig

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
