"""Hooks, which receive the events of a memory (`events.py`), and other functions that callers pass to be called.

Hooks are called after the commit, in the thread of the operation. An awaitable that a hook returns is awaited in a
separate task on the caller's event loop, or immediately if the caller has no loop. Exceptions raised by
hooks are logged once for each hook and suppressed. A hook receives no events that it causes itself.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from langchain_agentmem.base.concurrency import callers_loop
from langchain_agentmem.errors import InvalidInput, safe_repr

if TYPE_CHECKING:
    from langchain_agentmem.base.events import MemoryEvent

SETTLE_SECONDS = 1.0
"""The maximum number of seconds that `Hooks.settle` waits for asynchronous hooks."""

logger = logging.getLogger(__name__)

L = TypeVar("L")


class Hook(Protocol):
    """A callable that receives an event. An awaitable result is awaited."""

    def __call__(self, event: MemoryEvent, /) -> object:
        """Handle the event."""
        ...


class FirstFailures:
    """A logger of the first failure of each source, such as a hook.

    A function that fails usually fails at every call. Repeated warnings would hide the rest of the log.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._reported: set[Hashable] = set()

    def report(self, source: Hashable, message: str, /, *details: object, error: BaseException | None = None) -> None:
        """Log `message % details` as a warning, once for each source.

        The traceback of an error is logged, too.
        """
        if source not in self._reported:
            self._reported.add(source)
            self._log.warning(f"{message} This is logged once.", *details, exc_info=error)


class Progress(NamedTuple):
    """The progress of an operation that may take long.

    Attributes:
        stage: The current step, such as "copying".
        done: The amount done so far.
        total: The expected amount in total; None if it is unknown.
    """

    stage: str
    done: int
    total: int | None


Watch: TypeAlias = Callable[[Progress], object]
"""A function that receives the progress of an operation. An exception raised by it ends the operation."""


def report_progress(watch: Watch | None, stage: str, done: int, total: int | None) -> None:
    """Report progress to a function, if there is one."""
    if watch is not None:
        watch(Progress(stage, done, total))


def check_callable(listener: L, name: str) -> L:
    """Return a caller's function, or None, after checking that it is callable.

    Args:
        listener: The function or None.
        name: The name of the argument, for the error.

    Raises:
        InvalidInput: The value is neither callable nor None.
    """
    if listener is not None and not callable(listener):
        raise InvalidInput(f"{name} must be a function, not {safe_repr(listener)}.")
    return listener


_active_hooks: ContextVar[tuple[object, ...]] = ContextVar("agentmem_hooks", default=())
"""The hooks that the current task or thread is calling. They receive no events from their own calls."""


class Hooks:
    """The hooks of one memory, which receive every event in the order of registration.

    Without hooks, the truth value is False, so callers need not create events.

    Args:
        hooks: Callables that take an event.

    Raises:
        InvalidInput: A hook cannot be called.
    """

    __slots__ = ("_failures", "_hooks", "_tasks")

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._hooks = tuple(hooks)
        for hook in self._hooks:
            if not callable(hook):
                raise InvalidInput(f"{safe_repr(hook)} is not a hook. Pass a function that takes one event.")
        if self._hooks:  # now, since a child that is forked during an import waits for it forever
            from langchain_agentmem.base import events  # noqa: F401, PLC0415
        self._failures = FirstFailures(logger)
        self._tasks: set[asyncio.Task[None]] = set()  # keeps tasks alive, because a loop has only weak references

    def emit(self, event: MemoryEvent) -> None:
        """Call every hook with an event. Log and suppress the first `Exception` of a hook.

        Later exceptions of a hook are suppressed silently.
        """
        active = _active_hooks.get()
        for hook in self._hooks:
            if any(hook is each for each in active):
                continue
            token = _active_hooks.set((*active, hook))
            try:
                result = hook(event)
                if inspect.isawaitable(result):
                    self._await_result(hook, result)
            except Exception as error:  # noqa: BLE001 - no error of a hook may reach the agent
                self._report(hook, error)
            finally:
                _active_hooks.reset(token)

    async def settle(self) -> None:
        """Wait until the asynchronous hooks of the running loop end, at most `SETTLE_SECONDS`."""
        await asyncio.sleep(0)  # lets the hooks that were just scheduled start
        loop, current = asyncio.get_running_loop(), asyncio.current_task()
        if tasks := [task for task in list(self._tasks) if task.get_loop() is loop and task is not current]:
            await asyncio.wait(tasks, timeout=SETTLE_SECONDS)

    def __len__(self) -> int:
        return len(self._hooks)

    def _await_result(self, hook: object, result: Awaitable[object]) -> None:
        async def wait() -> None:
            try:
                await result
            except Exception as error:  # noqa: BLE001 - no error of a hook may reach the agent
                self._report(hook, error)

        def start_task() -> None:
            task = asyncio.get_running_loop().create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        coroutine = wait()
        if (loop := callers_loop()) is None:
            # With a loop_factory, the runner does not set the event loop of this thread.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(coroutine)
            return
        try:
            loop.call_soon_threadsafe(start_task, context=copy_context())
        except RuntimeError:  # the loop is closed
            coroutine.close()

    def _report(self, hook: object, error: Exception) -> None:
        self._failures.report(id(hook), "The hook %s failed; the operation continues.", safe_repr(hook), error=error)


class EventContext(Hooks):
    """The hook of an event bus, with the name of the memory's agent, for `set_event_context`.

    Args:
        agent_name: The name of the agent that owns the memory.
        event_bus: An object with `emit(event)`, sync or async, or a callable. None for no bus.
        session_id: The id of the run that the memory belongs to. Default: None.

    Raises:
        InvalidInput: The bus has no `emit`, and cannot be called.
    """

    __slots__ = ("agent_name", "event_bus", "session_id")

    def __init__(self, agent_name: str, event_bus: object, session_id: str | None = None) -> None:
        super().__init__(() if event_bus is None else [_make_bus_hook(event_bus)])
        self.agent_name, self.event_bus, self.session_id = agent_name, event_bus, session_id


def _make_bus_hook(bus: Any) -> Hook:
    """Return a function that sends an event to a bus."""
    emit = getattr(bus, "emit", bus)
    if callable(emit):
        return emit  # type: ignore[no-any-return]
    raise InvalidInput(f"{safe_repr(bus)} is not an event bus. Pass an object with emit(event), or a function.")
