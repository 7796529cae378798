"""Tracing of memory operations as steps of the agent's run.

If LangSmith tracing is enabled, LangSmith shows the steps. Any other LangChain tracer receives the same steps:

    from langchain_core.tracers.context import collect_runs

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory, collect_runs() as collected:
        memory.conversation("monday").add_user_message("My sister Ana lives in Lisbon.")
        memory.search("Where does Ana live?")
        for run in collected.traced_runs:
            print(run.name, run.inputs, run.outputs)

`AgentMemory(trace_content=False)` omits the texts of messages and memory. A function as `trace_content` masks them.

The package traces a step like this:

    tracing = Tracing(hooks, metadata={"agentmem_database": "sqlite"})
    with tracing.step("memory.conversation.add", inputs=lambda: {"messages": 2}) as step:
        ids = store(messages)
        step.finish(lambda: {"ids": ids})

If a tracer listens, a step becomes a child of the caller's run. Like LangChain's own runs, the step is reported to the
callbacks of the surrounding config. Model calls within the step are its child runs. Hooks receive a `StepStarted` and a
`StepFinished`, and the log receives one DEBUG line.

Three requirements determine the design of this module:

- Tracing without listeners must be cheap. LangChain takes ten microseconds to detect that there are no listeners. So
  `may_be_traced` first checks the config, the context variables and the environment for listeners. It calls LangChain
  only if a listener may exist.
- Inputs and outputs are functions, called only for listeners. `Tracing.evaluate` masks every text, except under keys
  such as "kind" or "id" (`_is_name_key`). Keys are masked only below `USER_VALUE_KEYS`, so callers must not use
  a name that a user chose as another key.
- Tracing must not change the operation. Errors of tracing are suppressed, and errors of the operation pass unchanged.

In an async call, the runs of LangChain begin and end on the event loop of the caller (`base/concurrency.py`).

An operation of an agent or a user is one step with a name like `memory.<part>.<verb>`. Most code traces its steps by
`Database.read`, `Database.write` or `Database.step`, which call `Tracing.step`. A database access without a name is no
step.

If content is withheld, LangChain's own runs of the package's Runnables and models are hidden from traces. Hooks are
called in the thread of the operation, in the caller's context (`base/events.py`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar, Token, copy_context
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias
from uuid import uuid4

from langchain_agentmem.base.argument_checks import check_value
from langchain_agentmem.base.clock import utc_now
from langchain_agentmem.base.concurrency import is_in_worker, run_on_callers_loop
from langchain_agentmem.base.hooks import FirstFailures, Hooks
from langchain_agentmem.base.namespaces import running_config

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

logger = logging.getLogger("langchain_agentmem.tracing")

# --- Listeners, and the runs of LangChain ----------------------------------------------------------------------------

_STEP_EVENTS = tuple(f"on_{kind}_{event}" for kind in ("chain", "retriever") for event in ("start", "end", "error"))
_NOOP_MODULE = "langchain_core.callbacks.base"
"""The module of LangChain's base class of handlers, whose methods do nothing."""


def may_be_traced(config: Mapping[str, Any] | None) -> bool:
    """Return False if no LangChain tracer can listen, and True if one may listen.

    A module that is not imported cannot have a listener.
    """
    modules: Mapping[str, Any] = sys.modules
    try:
        for candidate in (config, running_config()):
            if candidate is not None and _has_listeners(candidate.get("callbacks")):
                return True
        callbacks_base: Any = modules.get(_NOOP_MODULE)
        # LangChain keeps some handlers in context variables, such as the handler of `collect_runs`.
        for value in () if callbacks_base is None else copy_context().values():
            if isinstance(value, callbacks_base.BaseCallbackHandler) and is_step_listener(value):
                return True
        if (langchain_globals := modules.get("langchain_core.globals")) is not None and langchain_globals.get_debug():
            return True
        langsmith = modules.get("langsmith.utils")
        return has_tracing_env() if langsmith is None else bool(langsmith.tracing_is_enabled())
    except AttributeError:  # another thread is importing one of these modules
        return True


def is_step_listener(handler: Any) -> bool:
    """Return whether a handler receives the events of steps.

    Handlers of this package that need no steps set `ignore_steps`.
    """
    handler_class: Any = type(handler)
    return _handles_steps(handler_class) and not getattr(handler, "ignore_steps", False)


@functools.lru_cache(256)
def _handles_steps(handler_class: Any) -> bool:
    """Return whether handlers of a class handle events of the run types of steps."""
    if handler_class.__module__.startswith("langgraph."):
        return False  # LangGraph's handlers only stream the output of models, tools and nodes
    # A class that computes its attributes may handle any event.
    if handler_class.__getattribute__ is not object.__getattribute__ or hasattr(handler_class, "__getattr__"):
        return True
    methods = [getattr(handler_class, event, None) for event in _STEP_EVENTS]
    return any(getattr(method, "__module__", None) != _NOOP_MODULE for method in methods)


def _has_listeners(callbacks: Any) -> bool:
    handlers = getattr(callbacks, "handlers", callbacks)
    return any(map(is_step_listener, handlers)) if isinstance(handlers, list) else handlers is not None


@functools.cache
def has_tracing_env() -> bool:
    """Return whether the environment turns on LangSmith tracing.

    The result is cached, as in LangSmith, because reading the variables takes 5 microseconds.
    """
    names = ("LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING", "LANGCHAIN_TRACING")
    return any(os.environ.get(name) == "true" for name in names)


RunType: TypeAlias = Literal["chain", "retriever"]

_CONTENT_FREE = ("langchain_agentmem.", "langchain_core.callbacks.usage", "langgraph.")
"""The module prefixes of handlers that count or record calls, but do not send content to a tracer."""


def build_manager(config: RunnableConfig, *, asynchronous: bool) -> Any | None:
    """Return the callback manager for a step with a complete config; None without listeners."""
    from langchain_core.runnables import config as configs  # noqa: PLC0415 - the import takes a quarter of a second

    get_sync, get_async = configs.get_callback_manager_for_config, configs.get_async_callback_manager_for_config
    manager: Any = (get_async if asynchronous else get_sync)(config)
    # `handlers` receive only the events of this step. Its child runs inherit `inheritable_handlers`.
    manager.handlers = list(filter(is_step_listener, manager.handlers))
    return manager if manager.handlers else None


def start_run(manager: Any, run_type: RunType, name: str, inputs: dict[str, Any], metadata: dict[str, Any]) -> Any:
    """Report the start of a step to tracers; return its run, or a coroutine if async."""
    if run_type == "retriever":
        other_inputs = {key: value for key, value in inputs.items() if key != "query"}
        manager.add_metadata({**metadata, **other_inputs}, inherit=False)
        return manager.on_retriever_start(None, str(inputs.get("query", "")), name=name)
    manager.add_metadata(metadata, inherit=False)
    return manager.on_chain_start(None, inputs, name=name)


@contextlib.contextmanager
def set_parent_run(run: Any, config: RunnableConfig) -> Iterator[None]:
    """Make a run the parent of runs in the block, for LangChain and `@traceable` functions."""
    from langchain_core.runnables.config import patch_config  # noqa: PLC0415
    from langchain_core.tracers.langchain import LangChainTracer  # noqa: PLC0415

    child = run.get_child()
    tracers = [each for each in child.handlers if isinstance(each, LangChainTracer)]
    run_trees = filter(None, (each.run_map.get(str(run.run_id)) for each in tracers))
    with use_config(patch_config(config, callbacks=child)):
        if (run_tree := next(run_trees, None)) is None:
            yield
            return
        # LangSmith keeps the parent of `@traceable` functions in its own context variable.
        from langsmith.run_helpers import set_tracing_parent  # noqa: PLC0415

        with set_tracing_parent(run_tree):
            yield


def end_run(run: Any, run_type: RunType, outputs: dict[str, Any] | None, error: BaseException | None) -> Any:
    """Report the end of a step to the tracers; return a coroutine if async."""
    if error is not None:
        return getattr(run, f"on_{run_type}_error")(error)
    if run_type == "chain":
        return run.on_chain_end(outputs or {})
    from langchain_core.documents import Document  # noqa: PLC0415

    documents = [
        Document(str(each.get("page_content", "")), metadata=each.get("metadata") or {}, id=each.get("id"))
        for each in (outputs or {}).get("documents", ())
        if isinstance(each, Mapping)  # `summarize_value` ends a shortened list with a text
    ]
    return run.on_retriever_end(documents)


@contextlib.contextmanager
def use_config(config: RunnableConfig | None) -> Iterator[RunnableConfig]:
    """Set a config, completed with LangChain's defaults, as the running config of the block."""
    from langchain_core.runnables.config import ensure_config, var_child_runnable_config  # noqa: PLC0415

    complete_config = ensure_config(config)
    token = var_child_runnable_config.set(complete_config)
    try:
        yield complete_config
    finally:
        var_child_runnable_config.reset(token)


@contextlib.contextmanager
def hide_runs() -> Iterator[None]:
    """Hide LangChain's runs in the block from all tracers that record content.

    Handlers that only count tokens, and handlers of this package, still receive events.
    """
    from langchain_core.callbacks import BaseCallbackHandler  # noqa: PLC0415
    from langchain_core.runnables import config as configs  # noqa: PLC0415
    from langsmith import tracing_context  # noqa: PLC0415

    # LangChain adds the handlers in context variables to every manager, so these variables are reset first.
    with contextlib.ExitStack() as stack:
        stack.enter_context(tracing_context(enabled=False))
        for variable, value in copy_context().items():
            if isinstance(value, BaseCallbackHandler) and not _is_content_free(value):
                stack.callback(variable.reset, variable.set(None))
        config = configs.ensure_config()
        manager = configs.get_callback_manager_for_config(config)
        for handlers in (manager.handlers, manager.inheritable_handlers):
            handlers[:] = filter(_is_content_free, handlers)
        stack.enter_context(use_config(configs.patch_config(config, callbacks=manager)))
        yield


def _is_content_free(handler: Any) -> bool:
    return type(handler).__module__.startswith(_CONTENT_FREE)


# --- The data of traces: readable values, with content shown, masked or omitted ---------------------------------------
# A text is content unless `_is_name_key` is true for its key. So texts under unknown keys are masked.

Content: TypeAlias = bool | Callable[[str], str]
"""The form of content in traces: True for the full text, False for its length, or a function that masks the text."""

NAME_KEYS = {
    "branch", "branches", "checkpoint_ns", "duration", "error_type", "from_branch", "into", "junk", "kind", "kinds",
    "layer", "layers", "level", "memory", "model", "namespace", "namespace_prefix", "namespace_suffix", "namespaces",
    "operation", "prefer", "processors", "provider", "recommendations", "role", "roles", "scope", "source", "stage",
    "status", "strategy", "trigger", "type", "verdict",
}  # fmt: skip
"""Keys whose texts are names, not content. `_is_name_key` adds ids, times, and keys of configs."""

USER_VALUE_KEYS = {"filter", "value", "values"}
"""Keys of values whose structure a user chose. The keys and numbers in them are content too."""

# The limits of `summarize_value`: nested containers, items of a container, and characters of a text. A text is only
# shortened if the omitted part is longer than the note about the length of the text.
_MAX_DEPTH = 8
_MAX_ITEMS = 20
_MAX_CHARS, _NOTE_CHARS = 300, 30


class RedactedError(Exception):
    """A stand-in for an error whose text is content. It is never raised."""


def _mask_value(key: str, value: Any, content: Content) -> Any:
    if isinstance(value, str):
        return value if _is_name_key(key) else _mask_text(value, content)
    if key in USER_VALUE_KEYS and isinstance(value, list | dict):
        return _mask_text(json.dumps(value, ensure_ascii=False), content)
    if isinstance(value, list):
        return [_mask_value(key, each, content) for each in value]
    if isinstance(value, dict):
        masked = {name: _mask_value(name, each, content) for name, each in value.items()}
        metadata = value.get("metadata")
        kind = metadata.get("kind") if isinstance(metadata, dict) else None
        if "id" in value and "item" in (value.get("kind"), kind):  # the id of a store's item is chosen by a user
            masked["id"] = _mask_text(str(value["id"]), content)
        return masked
    return value


def _mask_text(text: str, content: Content) -> str:
    return str(content(text)) if callable(content) else f"<{len(text)} characters>"


def _is_name_key(key: str) -> bool:
    return (
        key in NAME_KEYS
        or key in {"id", "ids", "at"}
        or key.endswith(("_id", "_ids", "_at"))
        or key.startswith(("agentmem_", "langgraph_"))
    )


def document_outputs(hits: Iterable[Any], kind: str | None = None) -> dict[str, Any]:
    """Return a retriever's outputs: the hits as documents, with explanations.

    Args:
        hits: The hits.
        kind: The kind of all hits. Default: the kind of each hit.
    """
    return {"documents": [_format_document(each, kind or each.kind) for each in hits]}


def _format_document(hit: Any, kind: str) -> dict[str, Any]:
    text = hit.text if hasattr(hit, "text") else hit.content
    score = None if hit.score is None else round(hit.score, 4)
    why = None if hit.why is None else str(hit.why)
    return {"id": hit.id, "page_content": text, "metadata": {"id": hit.id, "kind": kind, "score": score, "why": why}}


def format_result(value: Any, **names: str) -> dict[str, Any]:
    """Return a result as outputs of a step: its fields, or its items and their number.

    A mapping becomes items with "key" and "value", so that its keys, which a user may have chosen, can be masked too.

    Args:
        value: The result.
        **names: New keys for fields, by field name. Rename fields whose text is content, but whose name is in
            `NAME_KEYS`.
    """
    if isinstance(value, Mapping):
        value = [{"key": key, "value": each} for key, each in value.items()]
    result = summarize_value(value)
    if isinstance(result, list):
        result = {"count": len(value), "items": result}
    elif not isinstance(result, dict):
        result = {"result": result}
    for item in result.get("items", [result]) if names else ():
        for name in names.keys() & item if isinstance(item, dict) else ():
            item[names[name]] = item.pop(name)
    return result


def drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None, as inputs of a step."""
    return {name: value for name, value in values.items() if value is not None}


def shorten_text(text: str) -> str:
    """Return a text, or the first 300 characters of a long text with its length.

    Characters that cannot be encoded, such as lone surrogates, are escaped.
    """
    is_long = len(text) > _MAX_CHARS + _NOTE_CHARS
    shortened = f"{text[:_MAX_CHARS]}… ({len(text)} characters)" if is_long else text
    return shortened if shortened.isascii() else shortened.encode("utf-8", "backslashreplace").decode()


def summarize_value(value: Any, depth: int = 0) -> Any:  # noqa: C901, PLR0911 - one line for each type
    """Return readable data: ids, numbers, and the first 300 characters of texts.

    Args:
        value: Any value. Bytes are shown by their number, containers by their first 20 items, objects by their fields.
        depth: The number of containers around the value.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return shorten_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, date):
        return value.isoformat()
    if depth >= _MAX_DEPTH:  # for example in a container that contains itself
        return "…"
    if isinstance(value, Mapping):
        items = islice(value.items(), _MAX_ITEMS)
        return {shorten_text(str(key)): summarize_value(each, depth + 1) for key, each in items}
    if not isinstance(value, type):
        for name in ("_asdict", "model_dump"):  # the methods of named tuples, and of LangChain's messages
            if callable(to_dict := getattr(value, name, None)):
                return {key: summarize_value(each, depth + 1) for key, each in to_dict().items()}
    if isinstance(value, list | tuple | set | frozenset):
        first = [summarize_value(each, depth + 1) for each in islice(value, _MAX_ITEMS)]
        return first if len(value) <= _MAX_ITEMS else [*first, f"… ({len(value)} in all)"]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: summarize_value(getattr(value, each.name), depth + 1) for each in fields(value)}
    return shorten_text(str(value))


# --- Steps ------------------------------------------------------------------------------------------------------------

LOCATION_KEYS = {
    "thread_id": "thread_id",
    "conversation_id": "conversation_id",
    "checkpoint_id": "checkpoint_id",
    "namespace": "agentmem_namespace",
    "branch": "agentmem_branch",
}
"""The metadata key of each input that locates a step. LangSmith groups runs by "thread_id"."""


def _locate_step(config: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the thread, checkpoint, namespace and branch of a step, as metadata.

    Inputs take precedence, then the config, then the running config.
    """
    location: dict[str, Any] = {}
    for source in (running_config(), config):
        configurable = (source or {}).get("configurable") or {}
        location |= drop_none({name: configurable.get(name) for name in ("thread_id", "agentmem_namespace")})
        checkpoint_ns = configurable.get("checkpoint_ns") or None
        # "checkpoint_map" has the checkpoint of each surrounding graph, by the graph's checkpoint namespace. A task's
        # checkpoint namespace consists of its graph's checkpoint namespace, "|", and the name of the task.
        graph_ns = str(checkpoint_ns or "").rpartition("|")[0]
        graph_checkpoints = configurable.get("checkpoint_map") or {}
        checkpoint_id = configurable.get("checkpoint_id") or graph_checkpoints.get(graph_ns)
        location |= drop_none({"checkpoint_id": checkpoint_id, "checkpoint_ns": checkpoint_ns})
    location |= drop_none({name: inputs.get(key) for key, name in LOCATION_KEYS.items()})
    namespace = location.get("agentmem_namespace", "")
    return location if isinstance(namespace, str) else location | {"agentmem_namespace": "/".join(map(str, namespace))}


Values: TypeAlias = Mapping[str, Any]
Thunk: TypeAlias = Callable[[], Values]
"""A function that computes inputs or outputs. It is called only if there are listeners."""

_current_step_id: ContextVar[str | None] = ContextVar("agentmem_step", default=None)
"""The id of the surrounding step."""


class Step:
    """The step of an operation. This base class is the step without listeners."""

    has_listeners = False
    """True if a listener receives the outputs. Check this before preparing expensive outputs."""

    def finish(self, outputs: Thunk) -> None:
        """Report the result of the operation.

        Args:
            outputs: A function that returns the outputs. It is called only if there are listeners, when the block ends
                without an error.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Do nothing."""


NULL_STEP = Step()
"""The step without listeners. It has no state, so all operations share it."""


class Tracing:
    """The tracer of one memory's operations.

    Args:
        hooks: The hooks that receive a `StepStarted` and a `StepFinished` for each operation.
        metadata: The metadata of every step.
        content: The form of texts: True for the full text, False for its length, or a function that masks a text. Other
            data, such as ids, counts and kinds, is always shown.

    Raises:
        InvalidInput: `content` has another type.
    """

    __slots__ = ("_content", "_failures", "has_hooks", "hooks", "metadata")

    def __init__(self, hooks: Hooks | None = None, metadata: Values | None = None, *, content: Content = True) -> None:
        self.hooks = Hooks() if hooks is None else hooks
        self.has_hooks = bool(self.hooks)
        self.metadata = dict(metadata or {})
        self._content: Content = check_value(Content, content, "trace_content")
        self._failures = FirstFailures(logger)

    @property
    def shows_content(self) -> bool:
        """True if content is shown in full."""
        return self._content is True

    def step(
        self,
        name: str,
        *,
        run_type: RunType = "chain",
        inputs: Thunk | None = None,
        config: RunnableConfig | None = None,
    ) -> Step:
        """Return a step that traces one operation, for `with`.

        Args:
            name: The name, such as "memory.conversation.add".
            run_type: The LangChain run type. A "retriever" needs the input "query" and the output "documents", a list
                of LangChain documents or of mappings with "page_content", "metadata" and "id". Its other inputs become
                metadata. Only hooks receive its other outputs, because LangChain has no field for them.
            inputs: A function that returns the operation's inputs. The inputs in `LOCATION_KEYS`, such as "thread_id",
                are also added to the metadata. Default: none.
            config: The caller's config. Default: the config of the surrounding run.

        Returns:
            A step to enter once. It raises no errors of tracing, and suppresses no error of the block.
        """
        traced = may_be_traced(config)
        if not traced and not self.has_hooks and not logger.isEnabledFor(logging.DEBUG):
            return NULL_STEP
        return _TracedStep(self, name, run_type, inputs, config, traced)

    use_config = staticmethod(use_config)

    def hide_private_runs(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that hides LangChain's own runs if content is withheld."""
        return contextlib.nullcontext() if self.shows_content else hide_runs()

    @contextlib.contextmanager
    def suppress_errors(self, action: str) -> Iterator[None]:
        """Suppress errors of the block, and log the first error of each action.

        Args:
            action: The failed action in the log, such as "to find listeners of memory.search".
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - tracing must not break the operation
            redacted = RedactedError(type(error).__name__).with_traceback(error.__traceback__)
            logged = error if self.shows_content else redacted
            self._failures.report(action, "Tracing failed %s. The operation continues.", action, error=logged)

    def evaluate(self, thunk: Thunk | None, action: str) -> dict[str, Any]:
        """Call a function, and return its values shortened and masked; {} if the function fails."""
        with self.suppress_errors(action):
            values = {} if thunk is None else {key: summarize_value(value) for key, value in thunk().items()}
            content = self._content
            return values if content is True else {key: _mask_value(key, each, content) for key, each in values.items()}
        return {}

    def mask_error(self, error: BaseException) -> BaseException:
        """Return an error for listeners, with its text masked if content is withheld."""
        with self.suppress_errors("to mask an error"):
            if self._content is True:
                return error
            return RedactedError(f"{type(error).__name__}: {_mask_text(str(error), self._content)}")
        return RedactedError(type(error).__name__)  # reached only if the function that masks texts failed


@dataclass(eq=False, repr=False)
class _TracedStep(Step):
    """A step with listeners."""

    _tracing: Tracing
    _name: str
    _run_type: RunType
    _inputs: Thunk | None
    _config: RunnableConfig | None
    _traced: bool
    _in_worker: bool = field(default_factory=is_in_worker)
    _outputs: Thunk | None = None
    _run: Any = None
    _step_token: Token[str | None] | None = None
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def finish(self, outputs: Thunk) -> None:
        self._outputs = outputs

    def __enter__(self) -> Self:
        tracing = self._tracing
        event: dict[str, Any] = {"name": self._name, "started_at": utc_now(), "inputs": {}, "metadata": {}}
        self._event = event
        manager = None
        if self._traced:
            with tracing.suppress_errors(f"to find listeners of {self._name}"):
                from langchain_core.runnables.config import ensure_config  # noqa: PLC0415

                self._config = ensure_config(self._config)
                manager = build_manager(self._config, asynchronous=self._in_worker)
        if manager is not None or tracing.has_hooks:
            inputs = event["inputs"] = tracing.evaluate(self._inputs, f"to read the inputs of {self._name}")
            location = tracing.evaluate(lambda: _locate_step(self._config, inputs), f"to locate {self._name}")
            event["metadata"] = {**tracing.metadata, **location}
        if manager is not None:
            start = partial(start_run, manager, self._run_type, self._name, event["inputs"], event["metadata"])
            with tracing.suppress_errors(f"to open {self._name}"):
                self._run = run_on_callers_loop(start) if self._in_worker else start()
                self._stack.enter_context(set_parent_run(self._run, self._config or {}))
        self.has_listeners = self._run is not None or tracing.has_hooks
        if self.has_listeners:
            event["step_id"] = str(uuid4() if self._run is None else self._run.run_id)
            event["parent_id"] = _current_step_id.get()
            self._step_token = _current_step_id.set(event["step_id"])
        if tracing.has_hooks:
            from langchain_agentmem.base.events import StepStarted  # noqa: PLC0415 - not needed without hooks

            tracing.hooks.emit(StepStarted(**event))
        self._start_time = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        tracing = self._tracing
        duration = time.perf_counter() - self._start_time
        # `reset` raises ValueError if a generator leaves the block in another context than it entered the block in. The
        # current context was never changed, and the original context cannot be changed from here.
        with contextlib.suppress(ValueError):
            if self._step_token is not None:
                _current_step_id.reset(self._step_token)
        with contextlib.suppress(ValueError):
            self._stack.close()
        outputs: dict[str, Any] | None = None
        masked_error = None if error is None else tracing.mask_error(error)
        if error is None:
            thunk = self._outputs if self.has_listeners else None
            outputs = tracing.evaluate(thunk, f"to read the outputs of {self._name}")
        try:
            if self._run is not None:
                end = partial(end_run, self._run, self._run_type, outputs, masked_error)
                with tracing.suppress_errors(f"to close {self._name}"):
                    run_on_callers_loop(end, always=True) if self._in_worker else end()
        finally:
            # The log has only the type of an error, because its text may quote content.
            failure = "" if error is None else f", failed with {type(error).__name__}"
            logger.debug("%s %.1f ms%s", self._name, duration * 1000, failure)
            if tracing.has_hooks:
                from langchain_agentmem.base.events import StepFinished  # noqa: PLC0415 - not needed without hooks

                tracing.hooks.emit(StepFinished(**self._event, duration=duration, outputs=outputs, error=masked_error))
