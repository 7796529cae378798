"""What happened in a memory, told to whoever asked to know.

An event is a value; a hook is any callable that takes one:

    def announce(event: Event) -> None:
        print(event)

    memory = AgentMemory("agent.db", hooks=[announce])

Hooks are called after the commit, in the thread of the operation. An awaitable that a hook returns is awaited on the
caller's event loop as a task of its own, or is run to its end where the caller has no loop. Exceptions raised by hooks
are logged once for each hook and suppressed. A hook is not told of what it causes itself.

Events hold ids and numbers. Steps show content as `AgentMemory(trace_content=...)` says. Events of a failure hold the
error, and one the query, which may quote messages: they are for code of the same process.
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
    """Something happened in a memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationEvent(MemoryEvent):
    """Something happened to a conversation, in a namespace."""

    namespace: tuple[str, ...]
    conversation_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MessagesStored(ConversationEvent):
    """New messages are in the log of a conversation, in the order of their ids."""

    message_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageUpdated(ConversationEvent):
    """A message has new content; its previous version is kept."""

    message_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MessagesRemoved(ConversationEvent):
    """Messages have left a conversation."""

    message_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationErased(ConversationEvent):
    """A conversation is gone with everything that belonged to it, and nothing of it is left in the storage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadMoved(ConversationEvent):
    """A thread of the root is in a namespace from now on, with its conversation and what it remembers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryResetEvent(MemoryEvent):
    """An agent's memory was cleared, so plans made from it are stale."""

    agent_name: str
    timestamp: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionEvent(MemoryEvent):
    """A context is being compacted, or was.

    Attributes:
        session_id: The conversation or thread.
        agent_name: Whose context it is; empty where nobody said.
        status: "started", "completed" or "failed". A stage that fails, such as a model that gives no summary, is told
            as "failed" with that stage alone in `stages_run`, and the compaction goes on without it.
        pre_tokens: Tokens before.
        post_tokens: Tokens after; 0 as long as it is not completed.
        pre_messages: Messages before.
        post_messages: Messages after; 0 as long as it is not completed.
        duration: Seconds since it started; None when it starts.
        stages_run: The processors that ran, in order; None when it starts.
        dropped_ids: The messages that left the context with it, in their order. A summary stands for them where one was
            made; what packing or a window left out nothing stands for, and `expand` brings back each by its id.
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
    """A stage of a compaction failed, and the compaction went on without it. Nothing is lost.

    Attributes:
        session_id: The conversation or thread.
        stage: The processor.
        error: What it raised.
    """

    session_id: str
    stage: str
    error: BaseException


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionFellShort(MemoryEvent):
    """A context could not be made as small as its target, or one is shown that is above its limit.

    Attributes:
        session_id: The conversation or thread.
        tokens: What it costs now.
        target_tokens: What it should cost at most; None where only messages or rounds are limited.
        reason: Why, in a sentence: what takes the room and must stay.
    """

    session_id: str
    tokens: int
    target_tokens: int | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CompressionFellShort(MemoryEvent):
    """A text was to be shortened by a model, and was cut instead.

    Attributes:
        context: What the text is, in a few words.
        characters: How long it was.
        max_chars: How long it may be, and is now at most.
        reason: Why, in a sentence.
        error: What the model raised; None where it answered.
    """

    context: str
    characters: int
    max_chars: int
    reason: str
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperienceSelectionFellBack(MemoryEvent):
    """A model was to select experiences, and they were selected by their words instead.

    Attributes:
        role: For whom; None for nobody in particular.
        query: For what.
        reason: Why, in a sentence.
        error: What the model raised; None where it answered.
    """

    role: str | None
    query: str
    reason: str
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepEvent(MemoryEvent):
    """Something of a traced operation. Told only when somebody listens.

    Attributes:
        step_id: What this step is called, and no other.
        parent_id: The step that it is a part of, or None.
        name: `memory.<part>.<verb>`.
        started_at: When it began, in UTC.
        inputs: What it was given, as plain data a person can read.
        metadata: Where it happens: the kind of database, the thread, the namespace and so on.
    """

    step_id: str
    parent_id: str | None
    name: str
    started_at: datetime
    inputs: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepStarted(StepEvent):
    """A traced operation has begun."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFinished(StepEvent):
    """A traced operation has ended.

    Attributes:
        duration: How long it took, in seconds.
        outputs: What it gave back, in the form of the inputs, or None when it failed.
        error: What it raised, or None when it did not fail.
    """

    duration: float
    outputs: Mapping[str, Any] | None
    error: BaseException | None


class Hook(Protocol):
    """Anything that can be called with an event. What it returns is awaited if it can be, else ignored."""

    def __call__(self, event: MemoryEvent, /) -> object:
        """Take notice of the event."""
        ...


class FirstFailures:
    """Logs the first failure of each source and keeps quiet about the rest.

    A listener that fails usually fails every time. Once is enough to find it; a thousand times would bury
    the log.
    """

    def __init__(self, to: logging.Logger) -> None:
        self._to = to
        self._known: set[Hashable] = set()

    def report(self, source: Hashable, message: str, /, *details: object, error: BaseException | None = None) -> None:
        """Log `message % details` as a warning, with its traceback if any, unless this source has failed before."""
        if source not in self._known:
            self._known.add(source)
            self._to.warning(f"{message} This is logged once.", *details, exc_info=error)


class Progress(NamedTuple):
    """How far something has come that may take long.

    Attributes:
        doing: What is done now, such as "copying".
        done: How much of it is done so far.
        total: How much there is in all, as far as can be told before; None where nobody knows.
    """

    doing: str
    done: int
    total: int | None


Watch: TypeAlias = Callable[[Progress], object]
"""Is told how far something has come. What it raises ends that."""


def listener_given(listener: L, name: str) -> L:
    """A function that is to be told of something, or None.

    Args:
        listener: What was given.
        name: The name of the argument.

    Raises:
        InvalidInput: It cannot be called.
    """
    if listener is not None and not callable(listener):
        raise InvalidInput(f"{name} must be a function, not {safe_repr(listener)}.")
    return listener


_inside: ContextVar[tuple[object, ...]] = ContextVar("agentmem_hooks", default=())
"""The hooks that are being called here."""


class Hooks:
    """The hooks of one memory, called with every event in the order in which they were given.

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
        """Call every hook with an event. An `Exception` of a hook is logged the first time and suppressed."""
        inside = _inside.get()
        for hook in self._hooks:
            if any(hook is each for each in inside):
                continue
            token = _inside.set((*inside, hook))
            try:
                answer = hook(event)
                if inspect.isawaitable(answer):
                    self._have_awaited(hook, answer)
            except Exception as error:  # noqa: BLE001 - whatever a hook raises must not reach the agent
                self._report(hook, error)
            finally:
                _inside.reset(token)

    async def settle(self) -> None:
        """Wait until the asynchronous hooks started on the running loop have ended, a second at most."""
        await asyncio.sleep(0)  # those of this turn begin
        loop, here = asyncio.get_running_loop(), asyncio.current_task()
        if tasks := [task for task in list(self._tasks) if task.get_loop() is loop and task is not here]:
            await asyncio.wait(tasks, timeout=SETTLE_SECONDS)

    def __len__(self) -> int:
        return len(self._hooks)

    def _have_awaited(self, hook: object, answer: Awaitable[object]) -> None:
        async def wait() -> None:
            try:
                await answer
            except Exception as error:  # noqa: BLE001 - as above
                self._report(hook, error)

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(waiting)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        waiting = wait()
        if (loop := callers_loop()) is None:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # it stays no loop of this thread
                runner.run(waiting)
            return
        try:
            loop.call_soon_threadsafe(begin, context=copy_context())
        except RuntimeError:  # the loop is closed
            waiting.close()

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
