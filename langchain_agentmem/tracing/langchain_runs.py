"""A step as a run of LangChain's, under the run that surrounds it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langchain_agentmem.tracing.listening import listens

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

RunType: TypeAlias = Literal["chain", "retriever", "tool"]

_CONTENT_FREE = ("langchain_agentmem.", "langchain_core.callbacks.usage", "langgraph.")
"""Handlers that take notes of calls without showing them to anybody else, by the module of their class."""


class StepRun:
    """A step, as LangChain's callbacks know it. In async code `start` and `end` give something to await."""

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
        # Importing these takes a quarter of a second, which nobody should pay who is not traced.
        from langchain_core.runnables.config import (  # noqa: PLC0415
            ensure_config,
            get_async_callback_manager_for_config,
            get_callback_manager_for_config,
        )

        complete = ensure_config(config)
        manager: Any = (
            get_async_callback_manager_for_config(complete)
            if asynchronous
            else get_callback_manager_for_config(complete)
        )
        # The manager is ours alone, and runs called within the step inherit from another list.
        heard_by = filter(listens, manager.handlers)
        manager.handlers = [_Contained(each) if each.raise_error else each for each in heard_by]
        if not manager.handlers:
            return None
        return cls(run_type, complete, manager)

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
        from langchain_core.runnables.config import patch_config, var_child_runnable_config  # noqa: PLC0415
        from langchain_core.tracers.langchain import LangChainTracer  # noqa: PLC0415

        self._run = run
        child = run.get_child()
        within = var_child_runnable_config.set(patch_config(self._config, callbacks=child))
        self._surroundings.callback(var_child_runnable_config.reset, within)
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
        result = outputs or {}
        if self._type == "retriever":
            return self._run.on_retriever_end(_documents(result.get("documents", ())))
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
    from langchain_core.runnables.config import (  # noqa: PLC0415
        ensure_config,
        get_callback_manager_for_config,
        patch_config,
        var_child_runnable_config,
    )
    from langchain_core.tracers import context  # noqa: PLC0415
    from langsmith import tracing_context  # noqa: PLC0415

    # Whatever LangChain would add to each run that begins is taken away first, or the manager would be given it.
    with contextlib.ExitStack() as surroundings:
        surroundings.enter_context(tracing_context(enabled=False))
        given: list[ContextVar[Any]] = [context.tracing_v2_callback_var]
        for variable in given + [hook[0] for hook in context._configure_hooks]:  # noqa: SLF001 - there is no public view
            if (handler := variable.get()) is not None and not _is_content_free(handler):
                surroundings.callback(variable.reset, variable.set(None))
        config = ensure_config()
        manager = get_callback_manager_for_config(config)
        for kept in (manager.handlers, manager.inheritable_handlers):
            kept[:] = filter(_is_content_free, kept)
        token = var_child_runnable_config.set(patch_config(config, callbacks=manager))
        surroundings.callback(var_child_runnable_config.reset, token)
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


def _documents(found: Any) -> list[Any]:
    from langchain_core.documents import Document  # noqa: PLC0415

    return [
        Document(
            page_content=str(each.get("page_content", "")),
            metadata=each.get("metadata") or {},
            id=each.get("id"),
        )
        for each in found
    ]
