"""LangChain tools created from memory operations.

A tool reads and writes the memory of the calling run, unless it was created for another memory. The model receives an
error as a sentence.

Answers are short text or JSON. Control characters, and characters that hide or reverse text, are escaped.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import accumulate
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from langchain_agentmem.base.argument_checks import describe_fault
from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.base.encoding import json_value
from langchain_agentmem.base.namespaces import check_id, path_of
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, is_graph_bubble_up, safe_repr
from langchain_agentmem.language_models.model_calls import written_by
from langchain_agentmem.language_models.tool_arguments import Arguments
from langchain_agentmem.storage.database import database_of

MAX_TEXT_LENGTH = 1_000
"""The maximum number of characters of one text in a list."""
MAX_LIST_LENGTH = 20_000
"""The maximum number of characters of a list. Results that do not fit are only counted."""

# Control characters, characters that reverse or hide text, surrogates, private and tag characters.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\ue000-\uf8ff\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)


def format_answer(value: Any) -> str:
    """Format a value for a model: text as it is, other values as JSON on one line.

    Args:
        value: A text, a JSON value, or a value of this package.
    """
    if isinstance(value, str):
        return _CONTROL_CHARACTERS.sub(_escape, value)
    # In one-line JSON, control characters occur only in strings, so the escaped text is still valid JSON.
    return _CONTROL_CHARACTERS.sub(_escape, json.dumps(json_value(value, timespec="seconds"), ensure_ascii=False))


def fit_results(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the results that fit into `MAX_LIST_LENGTH`, at least one, and count the others.

    Args:
        name: The key of the list.
        values: The results, the most important first.
    """
    encoded = json_value(values, timespec="seconds")
    total_sizes = accumulate(len(json.dumps(value, ensure_ascii=False)) for value in encoded)
    count = max(1, sum(size <= MAX_LIST_LENGTH for size in total_sizes))
    left_out = {"left_out": len(values) - count} if len(values) > count else {}
    return {name: encoded[:count], **left_out}


def shorten(text: str, note: str = "", limit: int = MAX_TEXT_LENGTH) -> str:
    """Return the beginning of a text.

    Args:
        text: Any text.
        note: The note that is appended to a shortened text.
        limit: The maximum number of characters of the text, without the note.
    """
    return text if len(text) <= limit else f"{text[:limit]} … {note}".rstrip()


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1] if match.group() != "\x7f" else "\\u007f"


def make_tools(
    operations: Iterable[ToolOperation],
    kind: type[Any],
    method: str,
    memory: Any,
    branch_or_config: str | Mapping[str, Any] | None = None,
    namespace: Sequence[str] | None = None,
    **options: Any,
) -> list[BaseTool]:
    """Create the tools for operations on a memory.

    Args:
        operations: The operations.
        kind: The class of the memory: `LayeredMemory` or `KGMemory`.
        method: The name of the method of `AgentMemory` that returns a memory of this class.
        memory: A memory of this class; or an `AgentMemory`, or the path or URL of a database.
        branch_or_config: The name of a branch, or a config that names a thread. Default: the thread of the calling run.
        namespace: The namespace of the memory. Default: the namespace of the calling run.
        options: Other arguments for `kind` or the method, such as the settings and the model for summaries.

    Raises:
        InvalidInput: An argument is invalid.
    """
    if isinstance(branch_or_config, str):
        check_id(branch_or_config, "branch")
    elif branch_or_config is not None and not isinstance(branch_or_config, Mapping):
        raise InvalidInput(
            f"branch_or_config must be a branch name or a config with a thread, got {safe_repr(branch_or_config)}."
        )
    if not isinstance(memory, kind):
        database_of(memory)  # raises InvalidInput now, not in the first call of a tool
    elif branch_or_config is not None or namespace is not None:
        raise InvalidInput(
            f"A {kind.__name__} already has a branch and a namespace. Omit both arguments, or pass an AgentMemory."
        )
    if namespace is not None:
        path_of(namespace)  # raises InvalidInput now, not in the first call of a tool

    def open_memory(config: Mapping[str, Any]) -> Any:
        if isinstance(memory, kind):
            return memory
        target = config if branch_or_config is None else branch_or_config
        open_method: Any = getattr(memory, method, None)
        if open_method is None and not isinstance(target, str):
            raise InvalidInput("The memory of a thread needs an AgentMemory. Pass it instead of the database's path.")
        settings = {"namespace": namespace, **options}
        return kind(memory, target, **settings) if open_method is None else open_method(target, **settings)

    return [_make_tool(operation, open_memory) for operation in operations]


MAX_RESULTS = 50
"""The maximum number of results of one search."""


logger = logging.getLogger(__name__)


class _Tool(StructuredTool):
    """A tool that also accepts the aliases of its arguments."""

    def _parse_input(self, tool_input: str | dict[str, Any], tool_call_id: str | None) -> str | dict[str, Any]:
        schema = self.args_schema
        if isinstance(schema, type) and issubclass(schema, Arguments):
            # LangChain drops arguments without a field of that name, so the aliases are replaced first.
            values = {next(iter(schema.model_fields)): tool_input} if isinstance(tool_input, str) else tool_input
            tool_input = schema.normalize_names(values)
        return super()._parse_input(tool_input, tool_call_id)


def _make_tool(operation: ToolOperation, open_memory: Callable[[Mapping[str, Any]], Any]) -> BaseTool:
    """Create the tool of an operation.

    Memory that the tool writes has the source "model". Errors are returned to the model, so the run continues.
    """
    # LangChain passes the run's config to functions that have a parameter `config: RunnableConfig`.

    def run_operation(*, config: RunnableConfig, **arguments: Any) -> str:
        try:
            with written_by("model", operation.name):
                return format_answer(operation.run(open_memory(config), operation.arguments(**arguments)))
        except Exception as error:
            if is_graph_bubble_up(error):
                raise
            if not isinstance(error, InvalidInput):
                message = "The tool %s failed. The error was returned to the model."
                logger.warning(message, operation.name, exc_info=error)
            is_explained = isinstance(error, AgentMemoryError)  # its text is written for the caller
            failure = error if is_explained else f"the memory failed with {type(error).__name__}"
            raise ToolException(format_answer(f"{operation.name} was not done: {failure}")) from error

    async def arun_operation(*, config: RunnableConfig, **arguments: Any) -> str:
        return await run_in_worker(partial(run_operation, config=config, **arguments), writes=True)

    def describe_invalid_arguments(error: Any) -> str:
        fault = describe_fault(error, valid_names=operation.arguments.model_fields)
        return format_answer(f"The tool was not called, because its arguments are invalid: {fault}")

    return _Tool.from_function(
        func=run_operation,
        coroutine=arun_operation,
        name=operation.name,
        description=operation.description,
        args_schema=operation.arguments,
        handle_validation_error=describe_invalid_arguments,
        handle_tool_error=True,
    )


def select_tools(tools: Sequence[BaseTool], include: Iterable[str] | None, hint: str = "") -> list[BaseTool]:
    """Select tools by name or pattern, such as "mem_*", in the order of `include`.

    None selects all tools.

    Raises:
        InvalidInput: `include` is not a list, or an entry matches no tool. `hint` is appended to the latter message.
    """
    if include is None:
        return [*tools]
    by_name = {tool.name: tool for tool in tools}
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise InvalidInput(f"include must be a list of tool names, got {safe_repr(include)}.")
    names: list[str] = []
    for pattern in include:
        matching = [name for name in by_name if isinstance(pattern, str) and fnmatchcase(name, pattern)]
        if not matching:
            raise InvalidInput(f"Unknown tool {safe_repr(pattern)}. The tools are {', '.join(by_name)}.{hint}")
        names += matching
    return [by_name[name] for name in dict.fromkeys(names)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOperation:
    """An operation on memory that a model can call.

    Attributes:
        name: The name of the operation.
        description: The description for the model.
        arguments: The class of its arguments.
        run: The function of the operation. It takes a memory (`LayeredMemory` or `KGMemory`) and the arguments, and
            returns the answer to the model.
    """

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Any, Any], Any]


def clamp_limit(limit: int) -> int:
    """Limit the number of results that a model requests to the range 1 to `MAX_RESULTS`."""
    return min(max(1, limit), MAX_RESULTS)
