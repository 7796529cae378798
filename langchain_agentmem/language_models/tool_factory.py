"""An operation as a tool, which a model calls by its name and is answered with a text.

It works on the memory of the run in which it is called. Errors are told to the model in a sentence.

What a model is told is short text or JSON, and data. Characters that steer a terminal or a reader, hide text, or turn
it around are written as escapes.
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
from langchain_agentmem.base.concurrency import in_worker
from langchain_agentmem.base.encoding import json_value
from langchain_agentmem.base.namespaces import id_of, path_of
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, leaves_the_node, safe_repr
from langchain_agentmem.language_models.model_calls import written_by
from langchain_agentmem.language_models.tool_arguments import Arguments
from langchain_agentmem.storage.database import database_of

PASSAGE = 1_000
"""How much of one text a list shows, in characters."""
MOST = 20_000
"""How long a list may be, in characters; what does not fit is counted."""

# Controls, what turns text around or hides it, halves of characters, private and tag characters.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\ue000-\uf8ff\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)


def told(value: Any) -> str:
    """Write a value for a model: a sentence as it is, anything else as JSON, on one line.

    Args:
        value: A text, or what JSON knows, or a value of this package.
    """
    if isinstance(value, str):
        return _STEERING.sub(_escape, value)
    # Outside of its texts, JSON that is written on one line has none of these characters.
    return _STEERING.sub(_escape, json.dumps(json_value(value, "seconds"), ensure_ascii=False))


def listed(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return a list of results under its name, as many as may be shown, and how many were left out.

    Args:
        name: What they are.
        values: The results, the most important first.
    """
    shown = json_value(values, "seconds")
    sizes = accumulate(len(json.dumps(value, ensure_ascii=False)) for value in shown)
    fitting = max(1, sum(size <= MOST for size in sizes))
    left_out = {"left_out": len(values) - fitting} if len(values) > fitting else {}
    return {name: shown[:fitting], **left_out}


def passage(text: str, note: str = "", most: int = PASSAGE) -> str:
    """The beginning of a text.

    Args:
        text: Any text.
        note: What is said where it was cut.
        most: How much of it is shown, in characters.
    """
    return text if len(text) <= most else f"{text[:most]} … {note}".rstrip()


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1] if match.group() != "\x7f" else "\\u007f"


def tools_of(
    operations: Iterable[ToolOperation],
    kind: type[Any],
    part: str,
    memory: Any,
    where: str | Mapping[str, Any] | None = None,
    namespace: Sequence[str] | None = None,
    **options: Any,
) -> list[BaseTool]:
    """Tools by which operations are done on a memory of one kind.

    Args:
        operations: Which.
        kind: The kind of memory: `LayeredMemory` or `KGMemory`.
        part: The method of an `AgentMemory` that hands it out.
        memory: One of this kind; or an `AgentMemory`, or the path or URL of a database.
        where: The name of a branch, or a config that names a thread. Default: the thread of the run that asks.
        namespace: Whose it is. Default: that of the run.
        options: What else both take: settings, and the model that sums up.

    Raises:
        InvalidInput: An argument is wrong.
    """
    if isinstance(where, str):
        id_of(where, "branch")
    elif where is not None and not isinstance(where, Mapping):
        raise InvalidInput(f"Memory is that of a branch or a thread: give a name or a config, not {safe_repr(where)}.")
    if not isinstance(memory, kind):
        database_of(memory)
    elif where is not None or namespace is not None:
        raise InvalidInput(
            f"A {kind.__name__} is somebody's already: give the AgentMemory, or no branch and namespace."
        )
    if namespace is not None:
        path_of(namespace)

    def found(config: Mapping[str, Any]) -> Any:
        if isinstance(memory, kind):
            return memory
        place = config if where is None else where
        make: Any = getattr(memory, part, None)
        if make is None and not isinstance(place, str):
            raise InvalidInput("The memory of a thread is that of an AgentMemory: give one, not its path.")
        given = {"namespace": namespace, **options}
        return kind(memory, place, **given) if make is None else make(place, **given)

    return [_tool_of(operation, found) for operation in operations]


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


def _tool_of(operation: ToolOperation, memory_of: Callable[[Mapping[str, Any]], Any]) -> BaseTool:
    """Make the tool of an operation. It writes in the name of the model, and tells it of an error: the run goes on."""
    # Functions of their own, since it is from them that LangChain learns that they want the run's config.

    def use(*, config: RunnableConfig, **given: Any) -> str:
        try:
            with written_by("model", operation.name):
                return told(operation.do(memory_of(config), operation.arguments(**given)))
        except Exception as error:
            if leaves_the_node(error):
                raise
            if not isinstance(error, InvalidInput):
                logger.warning("The tool %s failed; the model was told.", operation.name, exc_info=error)
            ours = isinstance(error, AgentMemoryError)
            failure = error if ours else f"the memory failed with {type(error).__name__}"
            raise ToolException(told(f"{operation.name} was not done: {failure}")) from error

    async def ause(*, config: RunnableConfig, **given: Any) -> str:
        return await in_worker(partial(use, config=config, **given), writes=True)

    def misused(error: Any) -> str:
        fault = describe_fault(error, known=operation.arguments.model_fields)
        return told(f"The tool was not used, since its arguments are wrong: {fault}")

    return _Tool.from_function(
        func=use,
        coroutine=ause,
        name=operation.name,
        description=operation.about,
        args_schema=operation.arguments,
        handle_validation_error=misused,
        handle_tool_error=True,
    )


def chosen(tools: Sequence[BaseTool], include: Iterable[str] | None, more: str = "") -> list[BaseTool]:
    """Those of some tools that are named, in the order of the names; all, where none are. "mem_*" names several.

    Raises:
        InvalidInput: There is no tool of a name; `more` is said then, too.
    """
    if include is None:
        return [*tools]
    by_name = {tool.name: tool for tool in tools}
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise InvalidInput(f"include must be a list of names of tools, not {safe_repr(include)}.")
    names: list[str] = []
    for given in include:
        found = [name for name in by_name if isinstance(given, str) and fnmatchcase(name, given)]
        if not found:
            raise InvalidInput(f"There is no tool {safe_repr(given)}; there are {', '.join(by_name)}.{more}")
        names += found
    return [by_name[name] for name in dict.fromkeys(names)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOperation:
    """Something that a model can do with its memory.

    Attributes:
        name: Its name.
        about: What the model is told of it.
        arguments: What it takes.
        do: Does it on a `LayeredMemory`, or one on facts on a `KGMemory`, and returns what the model is told.
    """

    name: str
    about: str
    arguments: type[Arguments]
    do: Callable[[Any, Any], Any]


def within(limit: int) -> int:
    """How many results a model is given that wants so many."""
    return min(max(1, limit), LIMIT)
