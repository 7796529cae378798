"""A step as a run of LangChain's, under the run that surrounds it.

Who may be listening to a step: looked up where listeners can be, which takes a microsecond or two.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

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
        for variable, _, handler, switch in contexts._configure_hooks:
            given = variable.get()
            heard = given is not None and listens(given)
            if heard or (handler is not None and os.environ.get(switch or "")):
                return True
    switches = modules.get("langchain_core.globals")
    return switches is not None and bool(switches.get_debug())


def _langsmith_may_listen(modules: Mapping[str, Any]) -> bool:
    """What `langsmith.utils.tracing_is_enabled` says, in a sixth of its time."""
    if (utils := modules.get("langsmith.utils")) is None:
        return environment_asks_for_tracing()
    context: Any = modules.get("langsmith._internal._context")
    if (enabled := context._TRACING_ENABLED.get()) is not None:
        return bool(enabled)
    if context.get_current_run_tree() is not None:
        return True
    if (everywhere := context._GLOBAL_TRACING_ENABLED) is not None:
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


RunType: TypeAlias = Literal["chain", "retriever", "tool"]

_CONTENT_FREE = ("langchain_agentmem.", "langchain_core.callbacks.usage", "langgraph.")
"""Handlers that take notes of calls without showing them to anybody else, by the module of their class."""


def manager_of(config: RunnableConfig, *, asynchronous: bool) -> Any | None:
    """Return the callback manager of a step whose config is complete; None where nobody turns out to listen."""
    from langchain_core.runnables import config as configs  # noqa: PLC0415 - it takes a quarter of a second

    # The manager is ours alone, and runs called within the step inherit from another list.
    made: Any = (
        configs.get_async_callback_manager_for_config if asynchronous else configs.get_callback_manager_for_config
    )
    manager = made(config)
    manager.handlers = list(filter(listens, manager.handlers))
    return manager if manager.handlers else None


def start_run(manager: Any, run_type: RunType, name: str, inputs: dict[str, Any], metadata: dict[str, Any]) -> Any:
    """Tell the tracers that a step begins, and return its run; an async manager returns a coroutine."""
    if run_type == "retriever":
        query = str(inputs.get("query", ""))
        others = {key: value for key, value in inputs.items() if key != "query"}
        manager.add_metadata({**metadata, **others}, inherit=False)
        return manager.on_retriever_start(None, query, name=name)
    manager.add_metadata(metadata, inherit=False)
    if run_type == "tool":
        return manager.on_tool_start({"name": name}, str(inputs), inputs=inputs, name=name)
    return manager.on_chain_start(None, inputs, name=name)


@contextlib.contextmanager
def surrounding(run: Any, config: RunnableConfig) -> Iterator[None]:
    """Make a run the surrounding one of the block, for LangChain and for `@traceable` functions."""
    from langchain_core.runnables.config import patch_config  # noqa: PLC0415
    from langchain_core.tracers.langchain import LangChainTracer  # noqa: PLC0415

    child = run.get_child()
    tracers = [each for each in child.handlers if isinstance(each, LangChainTracer)]
    trees = filter(None, (each.run_map.get(str(run.run_id)) for each in tracers))
    with within(patch_config(config, callbacks=child)):
        if (tree := next(trees, None)) is None:
            yield
            return
        # LangSmith looks for the run that its own functions belong under in a place of its own.
        from langsmith.run_helpers import set_tracing_parent  # noqa: PLC0415

        with set_tracing_parent(tree):
            yield


def end_run(run: Any, run_type: RunType, outputs: dict[str, Any] | None, error: BaseException | None) -> Any:
    """Tell the tracers what came of a step; a run of an async manager returns a coroutine."""
    if error is not None:
        return getattr(run, f"on_{run_type}_error")(error)
    result: Any = outputs or {}
    if run_type == "retriever":
        from langchain_core.documents import Document  # noqa: PLC0415

        listed = result.get("documents", ())
        documents = [each for each in listed if isinstance(each, Mapping)]  # not "… (30 in all)"
        result = [
            Document(str(each.get("page_content", "")), metadata=each.get("metadata") or {}, id=each.get("id"))
            for each in documents
        ]
    return getattr(run, f"on_{run_type}_end")(result)


@contextlib.contextmanager
def within(config: RunnableConfig | None) -> Iterator[RunnableConfig]:
    """Have a config, complete, surround the block as it does a Runnable's, without a run that LangChain would show."""
    from langchain_core.runnables.config import ensure_config, var_child_runnable_config  # noqa: PLC0415

    complete = ensure_config(config)
    token = var_child_runnable_config.set(complete)
    try:
        yield complete
    finally:
        var_child_runnable_config.reset(token)


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """What LangChain runs in the block is told to no tracer; those that only count tokens, or are ours, still hear."""
    from langchain_core.runnables import config as configs  # noqa: PLC0415
    from langchain_core.tracers import context  # noqa: PLC0415
    from langsmith import tracing_context  # noqa: PLC0415

    # Whatever LangChain would add to each run that begins is taken away first, or the manager would be given it.
    with contextlib.ExitStack() as surroundings:
        surroundings.enter_context(tracing_context(enabled=False))
        given: list[ContextVar[Any]] = [context.tracing_v2_callback_var]
        for variable in given + [hook[0] for hook in context._configure_hooks]:
            if (handler := variable.get()) is not None and not _is_content_free(handler):
                surroundings.callback(variable.reset, variable.set(None))
        config = configs.ensure_config()
        manager = configs.get_callback_manager_for_config(config)
        for kept in (manager.handlers, manager.inheritable_handlers):
            kept[:] = filter(_is_content_free, kept)
        surroundings.enter_context(within(configs.patch_config(config, callbacks=manager)))
        yield


def _is_content_free(handler: Any) -> bool:
    return type(handler).__module__.startswith(_CONTENT_FREE)
