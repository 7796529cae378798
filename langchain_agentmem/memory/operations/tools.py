"""Tools by which an agent keeps its own memory: notes that it always sees, events, and records that it searches.

    agent = create_agent(model, tools=layer_tools(memory), checkpointer=memory.checkpointer)

They work on the memory of the thread in which they are called, so that they rewind with it, or on a branch that is
named. What they give is data. Whatever goes wrong is told to the model in a sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.memory.operations.arguments import Arguments, faults, read
from langchain_agentmem.memory.operations.calls import Calls, acalled, called
from langchain_agentmem.memory.operations.table import OPERATIONS, Operation, failure
from langchain_agentmem.memory.operations.telling import told
from langchain_agentmem.memory.operations.whose import Whose
from langchain_agentmem.memory.settings import LayersConfig

logger = logging.getLogger(__name__)

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
    whose = Whose(memory, branch_or_config, namespace, settings=settings, model=model)
    return [_tool(operation, whose) for operation in OPERATIONS]


class _Tool(StructuredTool):
    """A tool that takes its arguments under all the names that they have."""

    def _parse_input(self, tool_input: str | dict[str, Any], tool_call_id: str | None) -> str | dict[str, Any]:
        schema = self.args_schema
        if isinstance(schema, type) and issubclass(schema, Arguments):
            # LangChain drops what the model gave under a name that is no field's, even if it is an alias.
            given = {next(iter(schema.model_fields)): tool_input} if isinstance(tool_input, str) else tool_input
            tool_input = schema.spelled(given)
        return super()._parse_input(tool_input, tool_call_id)


def _tool(operation: Operation, whose: Whose) -> BaseTool:
    # Functions of their own, since it is from them that LangChain learns that they want the run's config.

    def use(*, config: RunnableConfig, **given: Any) -> str:
        try:
            return told(called(_using(operation, whose.layers(config), given)))
        except Exception as error:  # the model is told, and the run goes on
            raise _refusal(operation, error) from error

    async def ause(*, config: RunnableConfig, **given: Any) -> str:
        try:
            return told(await acalled(_using(operation, whose.layers(config), given)))
        except Exception as error:  # the model is told, and the run goes on
            raise _refusal(operation, error) from error

    return _Tool.from_function(
        func=use,
        coroutine=ause,
        name=operation.name,
        description=operation.about,
        args_schema=operation.arguments,
        handle_validation_error=_misused,
        handle_tool_error=True,
    )


def _using(operation: Operation, layers: Any, given: Mapping[str, Any]) -> Calls[Any]:
    return (yield from operation.do(layers, read(operation.arguments, given)))


def _refusal(operation: Operation, error: Exception) -> ToolException:
    if not isinstance(error, InvalidInput):
        logger.warning("The tool %s failed; the model was told.", operation.name, exc_info=error)
    return ToolException(told(f"{operation.name} was not done: {failure(error)}"))


def _misused(error: Any) -> str:
    return told(f"The tool was not used, since its arguments are wrong: {faults(error.errors())}.")
