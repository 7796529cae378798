"""A step as a run of LangChain's, under the run that surrounds it.

Who may be listening to a step: looked up where listeners can be, which takes a microsecond or two.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langchain_agentmem.base.namespaces import running_config

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

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


class StepRun:
    """A step, as LangChain's callbacks know it. In an async call `start` and `end` return coroutines."""

    __slots__ = ("_config", "_manager", "_run", "_surroundings", "_type")

    def __init__(self, run_type: RunType, config: RunnableConfig, manager: Any) -> None:
        self._type = run_type
        self._config = config
        self._manager = manager
        self._run: Any = None
        self._surroundings = contextlib.ExitStack()

    @classmethod
    def of(cls, run_type: RunType, config: RunnableConfig | None, *, asynchronous: bool) -> StepRun | None:
        """The run to be, or None where nobody turns out to listen."""
        # Importing this takes a quarter of a second, which nobody should pay who is not traced.
        from langchain_core.runnables import config as configs  # noqa: PLC0415

        complete = configs.ensure_config(config)
        configure: Any = (
            configs.get_async_callback_manager_for_config if asynchronous else configs.get_callback_manager_for_config
        )
        # The manager is ours alone, and runs called within the step inherit from another list.
        manager = configure(complete)
        manager.handlers = [
            _Contained(each) if each.raise_error else each for each in manager.handlers if listens(each)
        ]
        return cls(run_type, complete, manager) if manager.handlers else None

    @property
    def id(self) -> str | None:
        """The id of the run, once it has started."""
        return None if self._run is None else str(self._run.run_id)

    def start(self, name: str, inputs: dict[str, Any], metadata: dict[str, Any]) -> Any:
        """Tell the tracers that it begins."""
        if self._type == "retriever":
            query = str(inputs.get("query", ""))
            others = {key: value for key, value in inputs.items() if key != "query"}
            self._manager.add_metadata({**metadata, **others}, inherit=False)
            return self._manager.on_retriever_start(None, query, name=name)
        self._manager.add_metadata(metadata, inherit=False)
        if self._type == "tool":
            return self._manager.on_tool_start({"name": name}, str(inputs), inputs=inputs, name=name)
        return self._manager.on_chain_start(None, inputs, name=name)

    def enter(self, run: Any) -> None:
        """Make the started run the surrounding one, for LangChain and for `@traceable` functions."""
        from langchain_core.runnables.config import patch_config  # noqa: PLC0415
        from langchain_core.tracers.langchain import LangChainTracer  # noqa: PLC0415

        self._run = run
        child = run.get_child()
        self._surroundings.enter_context(within(patch_config(self._config, callbacks=child)))
        for handler in child.handlers:
            # LangSmith looks for the run that its own functions belong under in a place of its own.
            if isinstance(handler, LangChainTracer) and (tree := handler.run_map.get(str(run.run_id))):
                from langsmith.run_helpers import set_tracing_parent  # noqa: PLC0415

                self._surroundings.enter_context(set_tracing_parent(tree))
                break

    def leave(self) -> bool:
        """Give the caller its surroundings back. True if there is a run to end."""
        # ValueError: the block is left in another context than it was entered in, as a generator's can be.
        # That context is out of reach, and this one was never changed.
        with contextlib.suppress(ValueError):
            self._surroundings.close()
        return self._run is not None

    def end(self, outputs: dict[str, Any] | None, error: BaseException | None) -> Any:
        """Tell the tracers what came of it."""
        if error is not None:
            return getattr(self._run, f"on_{self._type}_error")(error)
        result: Any = outputs or {}
        if self._type == "retriever":
            from langchain_core.documents import Document  # noqa: PLC0415

            documents = (
                each for each in result.get("documents", ()) if isinstance(each, Mapping)
            )  # not "… (30 in all)"
            result = [
                Document(str(each.get("page_content", "")), metadata=each.get("metadata") or {}, id=each.get("id"))
                for each in documents
            ]
        return getattr(self._run, f"on_{self._type}_end")(result)


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


class _Contained:
    """A handler that wants its errors raised, held back: LangChain logs them instead, and tells the others.

    It passes for an instance of the handler's own class, because LangChain looks for some by their class.
    """

    raise_error = False

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._handler)
