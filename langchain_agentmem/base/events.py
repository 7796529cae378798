"""Events of a memory, and the hooks that receive them.

An event is an immutable object. A hook is any callable that takes an event:

    def announce(event: MemoryEvent) -> None:
        print(event)

    memory = AgentMemory("agent.db", hooks=[announce])

Hooks are called after the commit, in the thread of the operation. An awaitable that a hook returns is awaited in a
separate task on the caller's event loop, or immediately if the caller has no loop. Exceptions raised by
hooks are logged once for each hook and suppressed. A hook receives no events that it causes itself.

Most events contain only ids and numbers. The events of traced operations (`StepEvent`) also contain content, in the
form of `AgentMemory(trace_content=...)`. The events of failures contain exceptions, and `ExperienceSelectionFellBack`
contains the query. Both may quote messages, so do not send these events to other processes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from langchain_agentmem.base.concurrency import callers_loop
from langchain_agentmem.errors import InvalidInput, safe_repr

SETTLE_SECONDS = 1.0
"""The maximum number of seconds that `Hooks.settle` waits for asynchronous hooks."""

logger = logging.getLogger(__name__)

L = TypeVar("L")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEvent:
    """An event in a memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationEvent(MemoryEvent):
    """An event of a conversation in a namespace."""

    namespace: tuple[str, ...]
    conversation_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MessagesStored(ConversationEvent):
    """The event emitted after new messages were added to a conversation.

    Attributes:
        message_ids: The ids of the messages, in the order of the conversation.
    """

    message_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageUpdated(ConversationEvent):
    """The event emitted after a message's content was replaced. The old version is kept."""

    message_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MessagesRemoved(ConversationEvent):
    """The event emitted after messages were removed from a conversation."""

    message_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationErased(ConversationEvent):
    """The event emitted after a conversation and all its data were erased from storage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadMoved(ConversationEvent):
    """The event emitted after a thread of the root was moved to a namespace.

    Its memory and its conversation were moved, too.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryResetEvent(MemoryEvent):
    """The event emitted after an agent's memory was cleared. Plans from that memory are stale."""

    agent_name: str
    timestamp: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionEvent(MemoryEvent):
    """The event emitted when a compaction of a context starts and when it ends.

    Attributes:
        session_id: The conversation or thread.
        agent_name: The agent of the context; empty if unknown.
        status: "started", "completed" or "failed". A failed stage, such as a model that returns no summary, is
            reported as "failed" with only that stage in `stages_run`. The compaction continues without it.
        pre_tokens: The size of the context in tokens before the compaction.
        post_tokens: The size of the context in tokens after the compaction; 0 until it is completed.
        pre_messages: The number of messages before the compaction.
        post_messages: The number of messages after the compaction; 0 until it is completed.
        duration: Seconds since the start; None in the "started" event.
        stages_run: The processors that ran, in order; None in the "started" event.
        dropped_ids: The ids of the messages that this compaction dropped from the context, in order. A summary, if
            made, replaces them; messages dropped by packing or a window have no replacement. The tool `expand` shows a
            dropped message.
    """

    session_id: str
    agent_name: str
    status: str
    pre_tokens: int = 0
    post_tokens: int = 0
    pre_messages: int = 0
    post_messages: int = 0
    duration: float | None = None
    stages_run: list[str] | None = None
    dropped_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionStageFailed(MemoryEvent):
    """The event emitted after a stage of a compaction failed.

    The compaction continued without the stage. Nothing is lost.

    Attributes:
        session_id: The conversation or thread.
        stage: The name of the processor.
        error: The exception of the processor.
    """

    session_id: str
    stage: str
    error: BaseException


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionFellShort(MemoryEvent):
    """The event emitted after a compaction left a context above its target or limit.

    Attributes:
        session_id: The conversation or thread.
        tokens: The size of the context after the compaction.
        target_tokens: The maximum size of the context, in tokens; None if only messages or rounds are limited.
        reason: The reason, in a sentence: the content that fills the context and cannot be dropped.
    """

    session_id: str
    tokens: int
    target_tokens: int | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CompressionFellShort(MemoryEvent):
    """The event emitted after a text was cut because a model did not shorten it enough.

    Attributes:
        context: A short description of the text.
        characters: The original length.
        max_chars: The maximum length, to which the text was cut.
        reason: The reason, in a sentence.
        error: The exception of the model; None if it answered.
    """

    context: str
    characters: int
    max_chars: int
    reason: str
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperienceSelectionFellBack(MemoryEvent):
    """The event emitted after experiences were selected by keywords, because the model failed.

    Attributes:
        role: The role whose experiences were selected; None for no particular role.
        query: The query that selected the experiences.
        reason: The reason, in a sentence.
        error: The exception of the model; None if it answered.
    """

    role: str | None
    query: str
    reason: str
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepEvent(MemoryEvent):
    """An event of a traced operation, emitted only if a hook or tracer receives it.

    Attributes:
        step_id: The unique id of the step.
        parent_id: The id of the enclosing step, or None.
        name: The name of the operation, `memory.<part>.<verb>`.
        started_at: The start of the step, in UTC.
        inputs: The inputs of the operation, as readable plain data.
        metadata: The context of the step, such as the kind of database, the thread and the namespace.
    """

    step_id: str
    parent_id: str | None
    name: str
    started_at: datetime
    inputs: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepStarted(StepEvent):
    """The event emitted when a traced operation starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFinished(StepEvent):
    """The event emitted when a traced operation ends.

    Attributes:
        duration: The duration in seconds.
        outputs: The result, as readable plain data like the inputs; None if the operation failed.
        error: The exception of the operation; None if it succeeded.
    """

    duration: float
    outputs: Mapping[str, Any] | None
    error: BaseException | None


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
