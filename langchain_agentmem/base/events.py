"""Events of a memory, and the hooks that receive them.

An event is a value; a hook is any callable that takes one:

    def announce(event: Event) -> None:
        print(event)

    memory = AgentMemory("agent.db", hooks=[announce])

Hooks are called after the commit, in the thread of the operation. An awaitable that a hook returns is awaited on the
caller's event loop as a task of its own, or is run to its end where the caller has no loop. Exceptions raised by hooks
are logged once for each hook and suppressed. A hook receives no events that it causes itself.

Events hold ids and numbers. Steps show content according to `AgentMemory(trace_content=...)`. Events of a failure hold
the error, and one event the query. These may quote messages, and are meant for code of the same process.
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
"""Seconds that closing waits for the asynchronous hooks that have not ended."""

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
    """The event that new messages are in the log of a conversation, in the order of their ids."""

    message_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageUpdated(ConversationEvent):
    """The event that a message has new content; its previous version is kept."""

    message_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MessagesRemoved(ConversationEvent):
    """The event that messages have left a conversation."""

    message_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationErased(ConversationEvent):
    """The event that a conversation and all its data were erased from storage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadMoved(ConversationEvent):
    """The event that a thread of the root moved to a namespace, with its memory.

    Its conversation moved, too.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryResetEvent(MemoryEvent):
    """The event that an agent's memory was cleared, so plans made from it are stale."""

    agent_name: str
    timestamp: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionEvent(MemoryEvent):
    """The event that a compaction of a context started or ended.

    Attributes:
        session_id: The conversation or thread.
        agent_name: The agent of the context; empty if unknown.
        status: "started", "completed" or "failed". A failed stage, such as a model that returns no summary, is
            reported as "failed" with only that stage in `stages_run`. The compaction continues without it.
        pre_tokens: Tokens before.
        post_tokens: Tokens after; 0 until the compaction is completed.
        pre_messages: Messages before.
        post_messages: Messages after; 0 until the compaction is completed.
        duration: Seconds since it started; None when it starts.
        stages_run: The processors that ran, in order; None when it starts.
        dropped_ids: The ids of the messages that this compaction dropped from the context, in order. A summary, if
            made, replaces them; messages dropped by packing or a window have no replacement. `expand` shows each.
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
    """The event that a stage of a compaction failed. Nothing is lost.

    The compaction continued without the stage.

    Attributes:
        session_id: The conversation or thread.
        stage: The processor.
        error: The exception of the processor.
    """

    session_id: str
    stage: str
    error: BaseException


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionFellShort(MemoryEvent):
    """The event that a context missed its target size, or is shown above its limit.

    Attributes:
        session_id: The conversation or thread.
        tokens: The size of the context now.
        target_tokens: The maximum size of the context; None if only messages or rounds are limited.
        reason: The reason, in a sentence: the content that takes the room and must stay.
    """

    session_id: str
    tokens: int
    target_tokens: int | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CompressionFellShort(MemoryEvent):
    """The event that a text was cut because a model did not shorten it.

    Attributes:
        context: A short description of the text.
        characters: The original length.
        max_chars: The maximum length, which the text now keeps.
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
    """The event that experiences were selected by words, not by a model.

    Attributes:
        role: The role to select for; None for no particular role.
        query: The query to select for.
        reason: The reason, in a sentence.
        error: The exception of the model; None if it answered.
    """

    role: str | None
    query: str
    reason: str
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepEvent(MemoryEvent):
    """An event of a traced operation. Emitted only if somebody listens.

    Attributes:
        step_id: The unique id of the step.
        parent_id: The step that it is a part of, or None.
        name: `memory.<part>.<verb>`.
        started_at: When it began, in UTC.
        inputs: The inputs of the operation, as readable plain data.
        metadata: The location: the kind of database, the thread, the namespace and so on.
    """

    step_id: str
    parent_id: str | None
    name: str
    started_at: datetime
    inputs: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepStarted(StepEvent):
    """The event that a traced operation has begun."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFinished(StepEvent):
    """The event that a traced operation has ended.

    Attributes:
        duration: The duration in seconds.
        outputs: The result, in the form of the inputs; None if the operation failed.
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
    """A logger of the first failure of each source; further failures are not logged.

    A listener that fails usually fails every time. Once is enough to find it; a thousand times would bury
    the log.
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
        total: The expected amount in all; None if it is unknown.
    """

    stage: str
    done: int
    total: int | None


Watch: TypeAlias = Callable[[Progress], object]
"""Receives the progress of an operation. An exception raised by it ends the operation."""


def check_callable(listener: L, name: str) -> L:
    """Return a caller's listener after checking that it is callable or None.

    Args:
        listener: The argument.
        name: The name of the argument.

    Raises:
        InvalidInput: The listener cannot be called.
    """
    if listener is not None and not callable(listener):
        raise InvalidInput(f"{name} must be a function, not {safe_repr(listener)}.")
    return listener


_active_hooks: ContextVar[tuple[object, ...]] = ContextVar("agentmem_hooks", default=())
"""The hooks that are being called here."""


class Hooks:
    """The hooks of one memory, which receive every event in the order of registration.

    True if there is any. Without hooks, `emit` costs next to nothing.

    Args:
        hooks: Callables that take an event.

    Raises:
        InvalidInput: One of them cannot be called.
    """

    __slots__ = ("_failures", "_hooks", "_tasks")

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._hooks = tuple(hooks)
        for hook in self._hooks:
            if not callable(hook):
                raise InvalidInput(f"{safe_repr(hook)} is not a hook. Give a function that takes one event.")
        self._failures = FirstFailures(logger)
        self._tasks: set[asyncio.Task[None]] = set()  # a loop holds its tasks weakly

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
            except Exception as error:  # noqa: BLE001 - whatever a hook raises must not reach the agent
                self._report(hook, error)
            finally:
                _active_hooks.reset(token)

    async def settle(self) -> None:
        """Wait for the running loop's asynchronous hooks to end, at most 1 second."""
        await asyncio.sleep(0)  # those of this turn begin
        loop, current = asyncio.get_running_loop(), asyncio.current_task()
        if tasks := [task for task in list(self._tasks) if task.get_loop() is loop and task is not current]:
            await asyncio.wait(tasks, timeout=SETTLE_SECONDS)

    def __len__(self) -> int:
        return len(self._hooks)

    def _await_result(self, hook: object, result: Awaitable[object]) -> None:
        async def wait() -> None:
            try:
                await result
            except Exception as error:  # noqa: BLE001 - as above
                self._report(hook, error)

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        coroutine = wait()
        if (loop := callers_loop()) is None:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # it stays no loop of this thread
                runner.run(coroutine)
            return
        try:
            loop.call_soon_threadsafe(begin, context=copy_context())
        except RuntimeError:  # the loop is closed
            coroutine.close()

    def _report(self, hook: object, error: Exception) -> None:
        self._failures.report(id(hook), "The hook %s failed; memory goes on without it.", safe_repr(hook), error=error)


class EventContext(Hooks):
    """The agent whose memory it is, and its event bus (`set_event_context`).

    The bus has `emit(event)`, sync or async, or is a callable.

    Args:
        agent_name: The agent whose memory it is.
        event_bus: The bus; None for none.
        session_id: The run that the events belong to.

    Raises:
        InvalidInput: The bus offers no way to give it an event.
    """

    __slots__ = ("agent_name", "event_bus", "session_id")

    def __init__(self, agent_name: str, event_bus: object, session_id: str | None = None) -> None:
        super().__init__(() if event_bus is None else [_hook_of(event_bus)])
        self.agent_name, self.event_bus, self.session_id = agent_name, event_bus, session_id


def _hook_of(bus: Any) -> Hook:
    """Return a function that puts an event on a bus."""
    emit = getattr(bus, "emit", bus)
    if callable(emit):
        return emit  # type: ignore[no-any-return]
    raise InvalidInput(
        f"{safe_repr(bus)} is not an event bus. Give one that has emit(event), or a function of an event."
    )
