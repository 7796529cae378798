"""Every operation of memory can be seen as a step of the agent's run, and costs nothing while nobody looks.

    tracing = Tracing(hooks, metadata={"agentmem_database": "sqlite"})
    with tracing.step("memory.conversation.add", inputs=lambda: {"messages": 2}) as step:
        ids = store(messages)
        step.finish(lambda: {"ids": ids})

A step that is heard becomes a run under the caller's run, in LangSmith and in any other LangChain tracer:
it is told to them the way LangChain tells its own, through the callbacks of the surrounding config. While
the step is open it is the surrounding run, so that a model called within it shows beneath it. Hooks get one
`StepFinished`, and the log one DEBUG line.

Three things decide the shape of this module:

- Silence must be cheap. LangChain takes tens of microseconds to find out that nobody listens, LangSmith
  alone more than four. So we first look at the few places where a listener can be, and ask LangChain only
  when one may be there. Where such a place is not as we know it, because the library has moved on, the
  answer is "maybe".
- Inputs and outputs are functions, called only when somebody listens.
- Looking on never changes what happens: nothing that tracing raises reaches the operation, and what the
  operation raises passes unchanged.

One object serves `with` and `async with`, as only the waiting differs.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from langchain_agentmem.events import FirstFailures, Hooks, StepFinished

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

logger = logging.getLogger(__name__)

RunType: TypeAlias = Literal["chain", "retriever", "tool"]
Values: TypeAlias = Mapping[str, Any]
Thunk: TypeAlias = Callable[[], Values]

_DEEPEST = 8


def _now() -> datetime:
    return datetime.now(UTC)


class Step:
    """One operation, as the block of `Tracing.step` holds it. This one serves while nobody listens."""

    __slots__ = ()

    @property
    def listening(self) -> bool:
        """Whether anybody will see the outputs. Ask before gathering what would be costly to gather."""
        return False

    def finish(self, outputs: Thunk) -> None:
        """Say what the operation gave back.

        Args:
            outputs: Called when the block ends without an error, if somebody listens.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


_SILENT = Step()


class Tracing:
    """Makes the operations of one memory visible.

    Args:
        hooks: Who gets a `StepFinished` for each operation.
        metadata: What every step says about where it happened.
        clock: The time of day, in UTC.
        timer: Seconds that only go forward.
    """

    __slots__ = ("_failures", "clock", "hooks", "metadata", "timer")

    def __init__(
        self,
        hooks: Hooks | None = None,
        metadata: Values | None = None,
        *,
        clock: Callable[[], datetime] = _now,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.hooks = Hooks() if hooks is None else hooks
        self.metadata = dict(metadata or {})
        self.clock = clock
        self.timer = timer
        self._failures = FirstFailures(logger)

    def step(
        self,
        name: str,
        *,
        run_type: RunType = "chain",
        inputs: Thunk | None = None,
        metadata: Thunk | None = None,
        config: RunnableConfig | None = None,
    ) -> Step:
        """One operation, for `with` or `async with`.

        Args:
            name: `memory.<part>.<verb>`.
            run_type: What LangChain takes it for. A "retriever" shows its input "query" and its output
                "documents", a list of LangChain documents or of mappings with "page_content", "metadata" and
                "id". Its other inputs show as metadata; its other outputs are for hooks only, because
                LangChain has no room for them.
            inputs: What the operation was given.
            metadata: Where it happens, beside what `Tracing` says of every step.
            config: The caller's config, where it has been handed one. Otherwise the surrounding one is found.

        Returns:
            A step to be entered once. It never raises on its own account, nor hides what the block raises.
        """
        traced = _may_be_traced(config)
        if not traced and not self.hooks and not logger.isEnabledFor(logging.DEBUG):
            return _SILENT
        return _HeardStep(
            _tracing=self,
            _name=name,
            _run_type=run_type,
            _inputs_thunk=inputs,
            _metadata_thunk=metadata,
            _config=config,
            _traced=traced,
        )

    @contextlib.contextmanager
    def unharmed(self, doing: str) -> Iterator[None]:
        """Keep what goes wrong in the block away from the operation, and log it the first time."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - looking on may not break what is looked at
            self._failures.report(doing, "Tracing failed %s; memory goes on.", doing, error=error)

    def evaluate(self, thunk: Thunk | None, doing: str) -> dict[str, Any]:
        """What the function says, as plain data; nothing if it fails."""
        values: dict[str, Any] = {}
        if thunk is not None:
            with self.unharmed(doing):
                values = {str(key): plain(value) for key, value in thunk().items()}
        return values


@dataclass(kw_only=True, slots=True, eq=False)
class _HeardStep(Step):
    """A step that somebody hears."""

    _tracing: Tracing
    _name: str
    _run_type: RunType
    _inputs_thunk: Thunk | None
    _metadata_thunk: Thunk | None
    _config: RunnableConfig | None
    _traced: bool
    _outputs_thunk: Thunk | None = None
    _inputs: dict[str, Any] = field(default_factory=dict)
    _metadata: dict[str, Any] = field(default_factory=dict)
    _run: _Run | None = None
    _started_at: datetime = field(init=False)
    _begun: float = field(init=False)

    @property
    def listening(self) -> bool:
        return self._run is not None or bool(self._tracing.hooks)

    def finish(self, outputs: Thunk) -> None:
        self._outputs_thunk = outputs

    def __enter__(self) -> Self:
        run = self._prepare(asynchronous=False)
        if run is not None:
            with self._tracing.unharmed(f"to open {self._name}"):
                run.enter(run.start(self._name, self._inputs, self._metadata))
        self._begun = self._tracing.timer()
        return self

    async def __aenter__(self) -> Self:
        run = self._prepare(asynchronous=True)
        if run is not None:
            with self._tracing.unharmed(f"to open {self._name}"):
                run.enter(await run.start(self._name, self._inputs, self._metadata))
        self._begun = self._tracing.timer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        duration, outputs = self._result(error)
        try:
            if self._run is not None and self._run.leave():
                with self._tracing.unharmed(f"to close {self._name}"):
                    self._run.end(outputs, error)
        finally:
            self._tell(duration, outputs, error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        duration, outputs = self._result(error)
        try:
            if self._run is not None and self._run.leave():
                with self._tracing.unharmed(f"to close {self._name}"):
                    await self._run.end(outputs, error)
        finally:
            # Also when the wait was cancelled: the operation itself is over and the hooks must hear of it.
            self._tell(duration, outputs, error)

    def _prepare(self, *, asynchronous: bool) -> _Run | None:
        self._started_at = self._tracing.clock()
        if self._traced:
            with self._tracing.unharmed(f"to find who listens to {self._name}"):
                self._run = _Run.of(self._run_type, self._config, asynchronous=asynchronous)
        if self.listening:
            self._inputs = self._tracing.evaluate(self._inputs_thunk, f"to read the inputs of {self._name}")
            self._metadata = {
                **self._tracing.metadata,
                **self._tracing.evaluate(self._metadata_thunk, f"to read the metadata of {self._name}"),
            }
        return self._run

    def _result(self, error: BaseException | None) -> tuple[float, dict[str, Any] | None]:
        """How long it took in seconds, and what came of it, if it did not fail and somebody will see it."""
        duration = self._tracing.timer() - self._begun
        if error is not None:
            return duration, None
        if not self.listening:
            return duration, {}
        return duration, self._tracing.evaluate(self._outputs_thunk, f"to read the outputs of {self._name}")

    def _tell(self, duration: float, outputs: dict[str, Any] | None, error: BaseException | None) -> None:
        milliseconds = duration * 1000
        if error is None:
            logger.debug("%s %.1f ms", self._name, milliseconds)
        else:
            # Only the type: the text of an error may quote what was to be remembered.
            logger.debug("%s %.1f ms, failed with %s", self._name, milliseconds, type(error).__name__)
        if self._tracing.hooks:
            self._tracing.hooks.emit(
                StepFinished(
                    name=self._name,
                    started_at=self._started_at,
                    duration=duration,
                    inputs=self._inputs,
                    outputs=outputs,
                    error=error,
                    metadata=self._metadata,
                )
            )


class _Run:
    """A step, as LangChain's callbacks know it. In async code `start` and `end` give something to await."""

    __slots__ = ("_config", "_manager", "_run", "_surroundings", "_type")

    def __init__(self, run_type: RunType, config: RunnableConfig, manager: Any) -> None:
        self._type = run_type
        self._config = config
        self._manager = manager
        self._run: Any = None
        self._surroundings = contextlib.ExitStack()

    @classmethod
    def of(cls, run_type: RunType, config: RunnableConfig | None, *, asynchronous: bool) -> _Run | None:
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
        manager.handlers = [
            _Contained(each) if each.raise_error else each for each in manager.handlers if _listens(each)
        ]
        if not manager.handlers:
            return None
        return cls(run_type, complete, manager)

    def start(self, name: str, inputs: dict[str, Any], metadata: dict[str, Any]) -> Any:
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
        if error is not None:
            return getattr(self._run, f"on_{self._type}_error")(error)
        result = outputs or {}
        if self._type == "retriever":
            return self._run.on_retriever_end(_documents(result.get("documents", ())))
        return getattr(self._run, f"on_{self._type}_end")(result)


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


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON knows it, for a person to read. Of bytes only the number is told."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, date):
        return value.isoformat()
    return _plain_text(value) if isinstance(value, str) else _plain_parts(value, depth)


def _plain_text(text: str) -> str:
    # Half a surrogate pair cannot be sent anywhere. Storage keeps it exactly; a trace need not.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _plain_parts(value: Any, depth: int) -> Any:
    if depth >= _DEEPEST:  # which also ends cycles
        return "…"
    if isinstance(value, Mapping):
        return {_plain_text(str(key)): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth + 1) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name), depth + 1) for each in fields(value)}
    # LangChain's messages and documents are pydantic models.
    if not isinstance(value, type) and callable(dump := getattr(value, "model_dump", None)):
        return plain(dump(), depth + 1)
    return _plain_text(str(value))


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


def _may_be_traced(config: RunnableConfig | None) -> bool:
    """Whether a LangChain tracer may be listening. False is certain; True still has to ask LangChain."""
    try:
        if config is not None and _has_handlers(config.get("callbacks")):
            return True
        return _langchain_may_listen(sys.modules) or _langsmith_may_listen(sys.modules)
    except AttributeError:
        # A library half imported by another thread, or a version that keeps these things elsewhere.
        return True


def _has_handlers(callbacks: Any) -> bool:
    handlers = getattr(callbacks, "handlers", callbacks)
    return any(map(_listens, handlers)) if isinstance(handlers, list) else handlers is not None


def _listens(handler: Any) -> bool:
    """Whether a handler wants to hear of steps; the one that watches the attempts of nodes (`rewinding/`) does not."""
    return not getattr(handler, "hears_nodes_only", False)


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
            heard = given is not None and _listens(given)
            if heard or (handler is not None and os.environ.get(switch or "")):
                return True
    switches = modules.get("langchain_core.globals")
    return switches is not None and bool(switches.get_debug())


def _langsmith_may_listen(modules: Mapping[str, Any]) -> bool:
    """What `langsmith.utils.tracing_is_enabled` says, without all that it reads on its way."""
    utils = modules.get("langsmith.utils")
    if utils is None:
        return _environment_asks_for_tracing()
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
def _environment_asks_for_tracing() -> bool:
    """What LangSmith will find when somebody loads it. Looked up once, as it does: looking takes 5 us."""
    return any(
        os.environ.get(f"{library}_{switch}") == "true"
        for library in ("LANGSMITH", "LANGCHAIN")
        for switch in ("TRACING_V2", "TRACING")
    )
