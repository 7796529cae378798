"""LangChain tools made of operations. A model calls a tool by its name; the tool answers with a text.

A tool works on the memory of the run that calls it. It reports errors to the model in a sentence.

Answers are short text or JSON, and data. Characters that steer a terminal or a reader, hide text, or turn it around are
written as escapes.
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
"""Most characters of one text in a list."""
MAX_LIST_LENGTH = 20_000
"""Most characters of a list; results that do not fit are only counted."""

# Controls, what turns text around or hides it, halves of characters, private and tag characters.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\ue000-\uf8ff\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)


def format_answer(value: Any) -> str:
    """Write a value for a model: a sentence as it is, anything else as JSON, on one line.

    Args:
        value: A text, a JSON value, or a value of this package.
    """
    if isinstance(value, str):
        return _CONTROL_CHARACTERS.sub(_escape, value)
    # Outside of its texts, JSON that is written on one line has none of these characters.
    return _CONTROL_CHARACTERS.sub(_escape, json.dumps(json_value(value, "seconds"), ensure_ascii=False))


def fit_results(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the results that fit under a name, and the number of results left out.

    Args:
        name: The key of the list.
        values: The results, the most important first.
    """
    encoded = json_value(values, "seconds")
    sizes = accumulate(len(json.dumps(value, ensure_ascii=False)) for value in encoded)
    fitting = max(1, sum(size <= MAX_LIST_LENGTH for size in sizes))
    left_out = {"left_out": len(values) - fitting} if len(values) > fitting else {}
    return {name: encoded[:fitting], **left_out}


def shorten(text: str, note: str = "", limit: int = MAX_TEXT_LENGTH) -> str:
    """Return the beginning of a text.

    Args:
        text: Any text.
        note: The note at the cut.
        limit: Most characters of the text.
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
    """Make the tools of operations on a memory of one kind.

    Args:
        operations: The operations.
        kind: The kind of memory: `LayeredMemory` or `KGMemory`.
        method: The method of an `AgentMemory` that returns such a memory.
        memory: A memory of this kind; or an `AgentMemory`, or the path or URL of a database.
        branch_or_config: The name of a branch, or a config that names a thread. Default: the calling run's thread.
        namespace: The namespace of the memory. Default: that of the run.
        options: Other arguments of `kind` and the method: settings, and the model for summaries.

    Raises:
        InvalidInput: An argument is wrong.
    """
    if isinstance(branch_or_config, str):
        check_id(branch_or_config, "branch")
    elif branch_or_config is not None and not isinstance(branch_or_config, Mapping):
        raise InvalidInput(
            f"Memory is that of a branch or a thread: give a name or a config, not {safe_repr(branch_or_config)}."
        )
    if not isinstance(memory, kind):
        database_of(memory)
    elif branch_or_config is not None or namespace is not None:
        raise InvalidInput(
            f"A {kind.__name__} is somebody's already: give the AgentMemory, or no branch and namespace."
        )
    if namespace is not None:
        path_of(namespace)

    def open_memory(config: Mapping[str, Any]) -> Any:
        if isinstance(memory, kind):
            return memory
        target = config if branch_or_config is None else branch_or_config
        make: Any = getattr(memory, method, None)
        if make is None and not isinstance(target, str):
            raise InvalidInput("The memory of a thread is that of an AgentMemory: give one, not its path.")
        given = {"namespace": namespace, **options}
        return kind(memory, target, **given) if make is None else make(target, **given)

    return [_make_tool(operation, open_memory) for operation in operations]


MAX_RESULTS = 50
"""Most results of one search."""


logger = logging.getLogger(__name__)


class _Tool(StructuredTool):
    """A tool that accepts its arguments under all of their names."""

    def _parse_input(self, tool_input: str | dict[str, Any], tool_call_id: str | None) -> str | dict[str, Any]:
        schema = self.args_schema
        if isinstance(schema, type) and issubclass(schema, Arguments):
            # LangChain drops what the model gave under a name that is no field's, even if it is an alias.
            given = {next(iter(schema.model_fields)): tool_input} if isinstance(tool_input, str) else tool_input
            tool_input = schema.normalize_names(given)
        return super()._parse_input(tool_input, tool_call_id)


def _make_tool(operation: ToolOperation, memory_of: Callable[[Mapping[str, Any]], Any]) -> BaseTool:
    """Make the tool of an operation.

    Its writes name the model as their source. It reports errors to the model, and the run goes on.
    """
    # Separate functions: from their signatures LangChain learns that they take the run's config.

    def use(*, config: RunnableConfig, **given: Any) -> str:
        try:
            with written_by("model", operation.name):
                return format_answer(operation.run(memory_of(config), operation.arguments(**given)))
        except Exception as error:
            if is_graph_bubble_up(error):
                raise
            if not isinstance(error, InvalidInput):
                logger.warning("The tool %s failed; the model was told.", operation.name, exc_info=error)
            is_own = isinstance(error, AgentMemoryError)
            failure = error if is_own else f"the memory failed with {type(error).__name__}"
            raise ToolException(format_answer(f"{operation.name} was not done: {failure}")) from error

    async def ause(*, config: RunnableConfig, **given: Any) -> str:
        return await run_in_worker(partial(use, config=config, **given), writes=True)

    def describe_misuse(error: Any) -> str:
        fault = describe_fault(error, known=operation.arguments.model_fields)
        return format_answer(f"The tool was not used, since its arguments are wrong: {fault}")

    return _Tool.from_function(
        func=use,
        coroutine=ause,
        name=operation.name,
        description=operation.description,
        args_schema=operation.arguments,
        handle_validation_error=describe_misuse,
        handle_tool_error=True,
    )


def select_tools(tools: Sequence[BaseTool], include: Iterable[str] | None, hint: str = "") -> list[BaseTool]:
    """Select tools by name, in the order of the names; "mem_*" selects several.

    Without names, all tools are returned.

    Raises:
        InvalidInput: There is no tool with a name; `hint` is added to the message.
    """
    if include is None:
        return [*tools]
    by_name = {tool.name: tool for tool in tools}
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise InvalidInput(f"include must be a list of names of tools, not {safe_repr(include)}.")
    names: list[str] = []
    for given in include:
        matching = [name for name in by_name if isinstance(given, str) and fnmatchcase(name, given)]
        if not matching:
            raise InvalidInput(f"There is no tool {safe_repr(given)}; there are {', '.join(by_name)}.{hint}")
        names += matching
    return [by_name[name] for name in dict.fromkeys(names)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOperation:
    """An operation on memory that a model can call.

    Attributes:
        name: The name of the operation.
        description: The description for the model.
        arguments: The class of its arguments.
        run: Runs it on a `LayeredMemory`, or on a `KGMemory` for facts, and returns the answer to the model.
    """

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Any, Any], Any]


def clamp_limit(limit: int) -> int:
    """Limit the number of results that a model requests to between 1 and `MAX_RESULTS`."""
    return min(max(1, limit), MAX_RESULTS)
