"""Steps: they begin, end, and tell whoever listens.

Where a step happens: the thread, the checkpoint, the namespace and the branch, as its metadata says.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from uuid import uuid4

from langchain_agentmem.base.clock import Clock, utc_now
from langchain_agentmem.base.concurrency import is_in_worker, on_callers_loop
from langchain_agentmem.base.events import FirstFailures, Hooks, StepFinished, StepStarted
from langchain_agentmem.base.namespaces import running_config
from langchain_agentmem.tracing.langchain_runs import (
    RunType,
    end_run,
    manager_of,
    may_be_traced,
    start_run,
    surrounding,
    unseen,
    within,
)
from langchain_agentmem.tracing.shown_values import (
    Content,
    Withheld,
    checked_content,
    given_only,
    show_error,
    show_values,
)

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

WHERE = {
    "thread_id": "thread_id",
    "conversation_id": "conversation_id",
    "checkpoint_id": "checkpoint_id",
    "namespace": "agentmem_namespace",
    "branch": "agentmem_branch",
}
"""Inputs that say where a step happens, and what the metadata calls them. LangSmith groups by those of the thread."""


def _where(config: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Where a step happens: as its inputs say, else the given config, else the running one."""
    found: dict[str, Any] = {}
    for each in (running_config(), config):
        configurable = None if each is None else each.get("configurable")
        if isinstance(configurable, Mapping):
            checkpoint_ns = configurable.get("checkpoint_ns") or None
            checkpoints = configurable.get("checkpoint_map")  # of the graphs that this runs in
            graph = str(checkpoint_ns or "").rpartition("|")[0]
            running = checkpoints.get(graph) if isinstance(checkpoints, Mapping) else None
            found |= given_only(
                {
                    "thread_id": configurable.get("thread_id"),
                    "checkpoint_id": configurable.get("checkpoint_id") or running,
                    "checkpoint_ns": checkpoint_ns,
                    "agentmem_namespace": configurable.get("agentmem_namespace"),
                }
            )
    found |= given_only({name: inputs.get(key) for key, name in WHERE.items()})
    namespace = found.get("agentmem_namespace", "")
    return found if isinstance(namespace, str) else found | {"agentmem_namespace": "/".join(map(str, namespace))}


logger = logging.getLogger("langchain_agentmem.tracing")

Values: TypeAlias = Mapping[str, Any]
Thunk: TypeAlias = Callable[[], Values]

_open: ContextVar[str | None] = ContextVar("agentmem_step", default=None)
"""The step that this runs within."""


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
        """Do nothing."""


SILENT = Step()
"""The step that nobody hears, shared by all: it has no state."""


class Tracing:
    """Makes the operations of one memory visible.

    Args:
        hooks: Who gets a `StepStarted` and a `StepFinished` for each operation.
        metadata: What every step says about where it happened.
        content: How content is shown: True as it is, False not at all, else as this function from text to text gives
            it. What is not content, such as ids, counts and kinds, is always shown.
        clock: The time of day, in UTC.
        timer: Seconds that only go forward.

    Raises:
        InvalidInput: `content` is something else.
    """

    __slots__ = ("_content", "_failures", "clock", "hooked", "hooks", "metadata", "timer")

    def __init__(
        self,
        hooks: Hooks | None = None,
        metadata: Values | None = None,
        *,
        content: Content = True,
        clock: Clock = utc_now,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.hooks = Hooks() if hooks is None else hooks
        self.hooked = bool(self.hooks)
        self.metadata = dict(metadata or {})
        self.clock = clock
        self.timer = timer
        self._content = checked_content(content)
        self._failures = FirstFailures(logger)

    @property
    def shows_content(self) -> bool:
        """Whether content is shown as it is."""
        return self._content is True

    def step(
        self,
        name: str,
        *,
        run_type: RunType = "chain",
        inputs: Thunk | None = None,
        config: RunnableConfig | None = None,
    ) -> Step:
        """One operation, for `with`.

        Args:
            name: `memory.<part>.<verb>`.
            run_type: What LangChain takes it for. A "retriever" shows its input "query" and its output
                "documents", a list of LangChain documents or of mappings with "page_content", "metadata" and
                "id". Its other inputs show as metadata; its other outputs are for hooks only, because
                LangChain has no room for them.
            inputs: What the operation was given. Those that say where it happens ("namespace", "thread_id",
                "conversation_id", "checkpoint_id", "branch") are in its metadata too.
            config: The caller's config, where it has been handed one. Otherwise the surrounding one is found.

        Returns:
            A step to be entered once. It never raises on its own account, nor hides what the block raises.
        """
        traced = may_be_traced(config)
        if not traced and not self.hooked and not logger.isEnabledFor(logging.DEBUG):
            return SILENT
        return _HeardStep(self, name, run_type, inputs, config, traced=traced)

    def heard(self, config: RunnableConfig | None = None) -> bool:
        """Whether somebody may listen to a step. Ask before reading what only a trace would show.

        Args:
            config: The caller's config, where it has been handed one.
        """
        return self.hooked or logger.isEnabledFor(logging.DEBUG) or may_be_traced(config)

    within = staticmethod(within)

    def private(self) -> contextlib.AbstractContextManager[None]:
        """For what LangChain itself would show, such as a model's call: where content is withheld, no tracer hears."""
        return contextlib.nullcontext() if self.shows_content else unseen()

    @contextlib.contextmanager
    def unharmed(self, doing: str) -> Iterator[None]:
        """Keep what goes wrong in the block away from the operation, and log it the first time."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - looking on may not break what is looked at
            told = error if self.shows_content else Withheld(type(error).__name__).with_traceback(error.__traceback__)
            self._failures.report(doing, "Tracing failed %s; memory goes on.", doing, error=told)

    def evaluate(self, thunk: Thunk | None, doing: str) -> dict[str, Any]:
        """What the function says, as it is to be shown; nothing if it fails."""
        with self.unharmed(doing):
            return {} if thunk is None else show_values(thunk(), self._content)
        return {}

    def shown_error(self, error: BaseException) -> BaseException:
        """The error as it is to be shown."""
        with self.unharmed("to show an error"):
            return show_error(error, self._content)
        return Withheld(type(error).__name__)  # what should have masked its text has failed


class _HeardStep(Step):
    """A step that somebody hears."""

    def __init__(
        self,
        tracing: Tracing,
        name: str,
        run_type: RunType,
        inputs: Thunk | None,
        config: RunnableConfig | None,
        *,
        traced: bool,
    ) -> None:
        self._tracing, self._name, self._run_type, self._inputs, self._config = tracing, name, run_type, inputs, config
        self._traced = traced
        self._in_worker = is_in_worker()
        self._outputs: Thunk | None = None
        self._run: Any = None
        self._surroundings = contextlib.ExitStack()
        self._inside: Token[str | None] | None = None
        # What the events of it tell, while somebody hears of it.
        self._event: dict[str, Any] = {"name": name, "started_at": tracing.clock(), "inputs": {}, "metadata": {}}

    @property
    def listening(self) -> bool:
        return self._run is not None or self._tracing.hooked

    def finish(self, outputs: Thunk) -> None:
        self._outputs = outputs

    def __enter__(self) -> Self:
        tracing, event = self._tracing, self._event
        manager = None
        if self._traced:
            with tracing.unharmed(f"to find who listens to {self._name}"):
                from langchain_core.runnables.config import ensure_config  # noqa: PLC0415 - as in `langchain_runs`

                self._config = ensure_config(self._config)
                manager = manager_of(self._config, asynchronous=self._in_worker)
        if manager is not None or tracing.hooked:
            inputs = event["inputs"] = tracing.evaluate(self._inputs, f"to read the inputs of {self._name}")
            where = tracing.evaluate(lambda: _where(self._config, inputs), f"to see where {self._name} happens")
            event["metadata"] = {**tracing.metadata, **where}
        if manager is not None:
            start = partial(start_run, manager, self._run_type, self._name, event["inputs"], event["metadata"])
            with tracing.unharmed(f"to open {self._name}"):
                self._run = on_callers_loop(start) if self._in_worker else start()
                self._surroundings.enter_context(surrounding(self._run, self._config or {}))
        if self.listening:
            event["step_id"] = str(uuid4() if self._run is None else self._run.run_id)
            event["parent_id"] = _open.get()
            self._inside = _open.set(event["step_id"])
        if tracing.hooked:
            tracing.hooks.emit(StepStarted(**event))
        self._begun = tracing.timer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tracing = self._tracing
        duration = tracing.timer() - self._begun
        # ValueError: the block is left in another context than it was entered in, as a generator's can be. That context
        # is out of reach, and this one was never changed.
        with contextlib.suppress(ValueError):
            if self._inside is not None:
                _open.reset(self._inside)
        with contextlib.suppress(ValueError):
            self._surroundings.close()
        outputs: dict[str, Any] | None = None
        shown = None if error is None else tracing.shown_error(error)
        if error is None:
            thunk = self._outputs if self.listening else None
            outputs = tracing.evaluate(thunk, f"to read the outputs of {self._name}")
        try:
            if self._run is not None:
                end = partial(end_run, self._run, self._run_type, outputs, shown)
                with tracing.unharmed(f"to close {self._name}"):
                    on_callers_loop(end, always=True) if self._in_worker else end()
        finally:
            # Only the type of an error: its text may quote what was to be remembered.
            failure = "" if error is None else f", failed with {type(error).__name__}"
            logger.debug("%s %.1f ms%s", self._name, duration * 1000, failure)
            if tracing.hooked:
                tracing.hooks.emit(StepFinished(**self._event, duration=duration, outputs=outputs, error=shown))
