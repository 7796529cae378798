"""Discovery of the public interface: the parts that a memory returns, and their methods."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.tools import BaseTool

from langchain_agentmem import AgentMemory, errors
from langchain_agentmem.facts.kg_memory import KGMemory

from . import values

OURS = "langchain_agentmem"
LEFT_OUT = {"close", "aclose", "with_config", "from_conn_string", "start_ttl_sweeper", "stop_ttl_sweeper"}
"""They end what others use, start threads, or make other parts; these are called when it is their turn."""
REFUSED = frozenset({"ValidationError", "ToolException"})
"""How LangChain tells a model that what it gave a tool does not fit."""
INTERNAL = ("Transaction", "PendingWrite", "MemoryVersion", "MemoryView", "Operation[")


class Method(NamedTuple):
    """A method of a part.

    Attributes:
        part: The part.
        name: The method's name.
        call: It, bound.
        signature: What it takes.
        raises: The names of errors that its docstring names, or that of the method whose awaited twin it is.
    """

    part: Any
    name: str
    call: Callable[..., Any]
    signature: inspect.Signature
    raises: frozenset[str]


def parts_of(memory: AgentMemory, folder: Path) -> list[Any]:
    """Every part that a memory hands out."""
    layers, library = memory.layers("main"), memory.experiences(folder / "experiences")
    return [
        memory, memory.conversation("c"), memory.conversation("a", namespace=("a",)), memory.session("s"),
        memory.managed_conversation("m", model=lambda messages: "A summary."),
        layers, layers.core, layers.archival, layers.recall, layers.resources,
        memory.facts("main"), memory.facts("told", model=lambda messages: '{"facts": []}'), library,
        library.selector(role="User"), memory.admin, memory.audit, memory.store,
        memory.thread_store, memory.byte_store(("a",)),
        memory.checkpointer, memory.inject("main"), memory.compaction(), memory.retriever(namespace=()),
        *memory.tools("main"),
    ]  # fmt: skip


def methods_of(part: Any) -> Iterator[Method]:
    """The public methods of a part that this package defines; of a tool, what it does."""
    if isinstance(part, BaseTool):
        names = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=str(of))
            for name, of in part.args.items()
        ]
        for way in ("invoke", "ainvoke"):
            yield Method(part, f"{part.name}.{way}", _told(part, way), inspect.Signature(names), REFUSED)
    for name, function in _functions(type(part)):
        call = getattr(part, name)
        yield Method(part, name, call, _signature(function), _raises(type(part), name))


def _told(tool: BaseTool, way: str) -> Callable[..., Any]:
    call = getattr(tool, way)
    if way == "invoke":
        return lambda **named: call(named)

    async def awaited(**named: Any) -> Any:
        return await call(named)

    return awaited


def is_part(value: Any) -> bool:
    """Whether a value has methods of its own that use a database."""
    return (type(value).__module__.startswith(OURS) and hasattr(type(value), "database")) or isinstance(
        value, AgentMemory
    )


def learns(part: Any) -> bool:
    """Whether a part writes in the background: facts that a model extracts."""
    return isinstance(part, KGMemory) and part._model is not None


@cache
def _functions(kind: type) -> tuple[tuple[str, Any], ...]:
    found = []
    for name in sorted(dir(kind)):
        static = inspect.getattr_static(kind, name)
        function = getattr(static, "__func__", static)
        if name.startswith("_") or name in LEFT_OUT or not inspect.isfunction(function):
            continue
        if function.__module__.startswith(OURS) and not any(
            each in str(inspect.signature(function)) for each in INTERNAL
        ):
            found.append((name, function))
    return tuple(found)


@cache
def _signature(function: Any) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:] if parameters[0].name in {"self", "cls"} else parameters)


@cache
def _raises(kind: type, name: str) -> frozenset[str]:
    documented = [name, name.removeprefix("a")]
    text = "\n".join(inspect.getdoc(getattr(kind, each, None)) or "" for each in documented)
    return frozenset(re.findall(r"^ {4}(\w+): ", text.partition("Raises:")[2], re.MULTILINE))


def is_expected(error: BaseException, raises: frozenset[str]) -> bool:
    """Whether an error is ours, one that a docstring names, of code that was given to be run, or LangChain's alone."""
    if isinstance(error, errors.AgentMemoryError | values.OfCodeGivenError):
        return True
    if not any(OURS in frame.filename for frame in traceback.extract_tb(error.__traceback__)):
        return True
    named = {kind.__name__ for kind in type(error).__mro__} - {"Exception", "BaseException", "object"}
    return bool(named & raises)


__all__ = ["Method", "is_expected", "is_part", "learns", "methods_of", "parts_of"]
