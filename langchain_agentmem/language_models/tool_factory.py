"""An operation as a tool, which a model calls by its name and is answered with a text.

It works on the memory of the run in which it is called. Whatever goes wrong is told to the model in a sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.binding import Whose
from langchain_agentmem.language_models.tool_arguments import Arguments, faults, read
from langchain_agentmem.language_models.tool_calling import Calls, acalled, called
from langchain_agentmem.language_models.tool_results import told
from langchain_agentmem.layers.layer_operations import Operation, failure

logger = logging.getLogger(__name__)


class _Tool(StructuredTool):
    """A tool that takes its arguments under all the names that they have."""

    def _parse_input(self, tool_input: str | dict[str, Any], tool_call_id: str | None) -> str | dict[str, Any]:
        schema = self.args_schema
        if isinstance(schema, type) and issubclass(schema, Arguments):
            # LangChain drops what the model gave under a name that is no field's, even if it is an alias.
            given = {next(iter(schema.model_fields)): tool_input} if isinstance(tool_input, str) else tool_input
            tool_input = schema.spelled(given)
        return super()._parse_input(tool_input, tool_call_id)


def tool_of(operation: Operation, whose: Whose[Any]) -> BaseTool:
    """A tool by which an operation is done.

    Args:
        operation: Which.
        whose: On which memory.
    """
    # Functions of their own, since it is from them that LangChain learns that they want the run's config.

    def use(*, config: RunnableConfig, **given: Any) -> str:
        try:
            return told(called(_using(operation, whose.memory(config), given)))
        except Exception as error:  # the model is told, and the run goes on
            raise _refusal(operation, error) from error

    async def ause(*, config: RunnableConfig, **given: Any) -> str:
        try:
            return told(await acalled(_using(operation, whose.memory(config), given)))
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


def _using(operation: Operation, memory: Any, given: Mapping[str, Any]) -> Calls[Any]:
    return (yield from operation.do(memory, read(operation.arguments, given)))


def _refusal(operation: Operation, error: Exception) -> ToolException:
    if not isinstance(error, InvalidInput):
        logger.warning("The tool %s failed; the model was told.", operation.name, exc_info=error)
    return ToolException(told(f"{operation.name} was not done: {failure(error)}"))


def _misused(error: Any) -> str:
    return told(f"The tool was not used, since its arguments are wrong: {faults(error.errors())}.")
