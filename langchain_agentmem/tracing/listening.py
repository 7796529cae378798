"""Who may be listening to a step: looked up where listeners can be, which takes a microsecond or two."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from langchain_agentmem.base.namespaces import running_config

RUNTIME = "__pregel_runtime"
"""Where LangGraph keeps what a node is given, its stream writer among it."""

_TURNS = tuple(f"on_{kind}_{turn}" for kind in ("chain", "retriever", "tool") for turn in ("start", "end", "error"))
_SILENT = "langchain_core.callbacks.base"
"""Where LangChain keeps the methods of handlers that do nothing."""


def may_be_traced(config: Mapping[str, Any] | None) -> bool:
    """Whether a LangChain tracer may be listening. False is certain; True still has to ask LangChain."""
    try:
        if config is not None and _has_handlers(config.get("callbacks")):
            return True
        return _langchain_may_listen(sys.modules) or _langsmith_may_listen(sys.modules)
    except AttributeError:
        # A library half imported by another thread, or a version that keeps these things elsewhere.
        return True


def stream_writer(config: Mapping[str, Any] | None) -> Callable[[Any], object] | None:
    """What writes to the custom stream of the graph that surrounds this, if somebody reads it."""
    running = running_config()
    for each in (config, running):
        configurable = None if each is None else each.get("configurable")
        if isinstance(configurable, Mapping) and (runtime := configurable.get(RUNTIME)) is not None:
            writer: Callable[[Any], object] | None = getattr(runtime, "stream_writer", None)
            if writer is None or _does_nothing(writer):
                return None
            return writer if running is not None else functools.partial(_write_as_of, each, writer)
    return None


def listens(handler: Any) -> bool:
    """Whether a handler wants to hear of steps; the one that watches the attempts of nodes (`rewinding/`) does not."""
    kind: Any = type(handler)
    return _hears_steps(kind) and not getattr(handler, "hears_nodes_only", False)


@functools.lru_cache(256)
def _hears_steps(kind: Any) -> bool:
    """Whether handlers of a class do anything when a step begins or ends; those that count tokens hear models only."""
    if kind.__module__.startswith("langgraph."):
        return False  # they stream what models, tools and nodes say
    if kind.__getattribute__ is not object.__getattribute__ or hasattr(kind, "__getattr__"):
        return True
    return any(getattr(getattr(kind, turn, None), "__module__", None) != _SILENT for turn in _TURNS)


def _write_as_of(config: Any, writer: Callable[[Any], object], event: Any) -> None:
    """Write in a thread that was given the config of a node and not its context, in which the writer looks for it."""
    surrounding = sys.modules["langchain_core.runnables.config"].var_child_runnable_config
    token = surrounding.set(config)
    try:
        writer(event)
    finally:
        surrounding.reset(token)


def _does_nothing(writer: Any) -> bool:
    """Where nobody reads the custom stream, LangGraph's writer is an empty function: it knows no name of anything."""
    code = getattr(writer, "__code__", None)
    return code is not None and not code.co_names and not code.co_freevars


def _has_handlers(callbacks: Any) -> bool:
    handlers = getattr(callbacks, "handlers", callbacks)
    return any(map(listens, handlers)) if isinstance(handlers, list) else handlers is not None


def _langchain_may_listen(modules: Mapping[str, Any]) -> bool:
    """Whether the surrounding config, a context manager or a global switch brings a handler.

    A module that nobody has imported cannot have been told of a listener.
    """
    if (configs := modules.get("langchain_core.runnables.config")) is not None:
        surrounding = configs.var_child_runnable_config.get()
        if surrounding is not None and _has_handlers(surrounding.get("callbacks")):
            return True
    if (contexts := modules.get("langchain_core.tracers.context")) is not None:
        if contexts.tracing_v2_callback_var.get() is not None:
            return True
        # What `register_configure_hook` was given, `collect_runs` among it.
        for variable, _, handler, switch in contexts._configure_hooks:  # noqa: SLF001 - there is no public view of it
            given = variable.get()
            heard = given is not None and listens(given)
            if heard or (handler is not None and os.environ.get(switch or "")):
                return True
    switches = modules.get("langchain_core.globals")
    return switches is not None and bool(switches.get_debug())


def _langsmith_may_listen(modules: Mapping[str, Any]) -> bool:
    """What `langsmith.utils.tracing_is_enabled` says, without all that it reads on its way."""
    utils = modules.get("langsmith.utils")
    if utils is None:
        return environment_asks_for_tracing()
    context = modules.get("langsmith._internal._context")
    if context is None:
        return bool(utils.tracing_is_enabled())
    enabled = context._TRACING_ENABLED.get()  # noqa: SLF001 - see above
    if enabled is not None:
        return bool(enabled)
    if context.get_current_run_tree() is not None:
        return True
    if (everywhere := context._GLOBAL_TRACING_ENABLED) is not None:  # noqa: SLF001
        return bool(everywhere)
    # Cached by LangSmith, for which the environment is what it was when it first looked.
    read = utils.get_env_var
    return bool(read("TRACING_V2", default=read("TRACING", default="")) == "true")


@functools.cache
def environment_asks_for_tracing() -> bool:
    """What LangSmith will find when somebody loads it. Looked up once, as it does: looking takes 5 us."""
    return any(
        os.environ.get(f"{library}_{switch}") == "true"
        for library in ("LANGSMITH", "LANGCHAIN")
        for switch in ("TRACING_V2", "TRACING")
    )
