"""An operation as a tool, which a model calls by its name and is answered with a text.

It works on the memory of the run in which it is called. Whatever goes wrong is told to the model in a sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, InvalidInput
from langchain_agentmem.language_models.binding import Whose
from langchain_agentmem.language_models.tool_arguments import Arguments, faults, read
from langchain_agentmem.language_models.tool_calling import Calls, acalled, called
from langchain_agentmem.language_models.tool_results import told

LIMIT = 50
"""Most results that one search gives."""


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


def chosen(tools: Sequence[BaseTool], include: Iterable[str] | None) -> list[BaseTool]:
    """Those of some tools that are named, in the order of the names; all, where none are. "mem_*" names several.

    Raises:
        InvalidInput: There is no tool of a name.
    """
    if include is None:
        return [*tools]
    by_name = {tool.name: tool for tool in tools}
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise InvalidInput(f"include must be a list of names of tools, not {safe_repr(include)}.")
    names: dict[str, None] = {}
    for given in include:
        found = [name for name in by_name if isinstance(given, str) and fnmatchcase(name, given)]
        if not found:
            raise InvalidInput(f"There is no tool {safe_repr(given)}; there are {', '.join(by_name)}.")
        names.update(dict.fromkeys(found))
    return [by_name[name] for name in names]


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """Something that a model can do with its memory.

    Attributes:
        name: Its name.
        about: What the model is told of it.
        arguments: What it takes.
        do: Does it on a `LayeredMemory`, or one on facts on a `KGMemory`, and returns what the model is told.
        reads: Whether the model wants to know what it finds.
        adds: Whether doing it again has a further effect.
    """

    name: str
    about: str
    arguments: type[Arguments]
    do: Callable[[Any, Any], Calls[Any]]
    reads: bool = False
    adds: bool = False


def failure(error: Exception) -> str:
    """What a model is told of an error: ours say what was wrong and what to do, others only what they are."""
    return str(error) if isinstance(error, AgentMemoryError) else f"the memory failed with {type(error).__name__}"


def within(limit: int) -> int:
    """How many results a model is given that wants so many."""
    return min(max(1, limit), LIMIT)
