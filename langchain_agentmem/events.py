"""What happened in a memory, told to whoever asked to know.

An event is a value; a hook is any callable that takes one:

    def announce(event: Event) -> None:
        print(event)

    memory = AgentMemory("agent.db", hooks=[announce])

Events are told after the fact: what they speak of is already stored. What a listener raises is logged the
first time and never reaches the agent; only what is not an `Exception`, such as a `KeyboardInterrupt`, goes
through. What it returns to be awaited is awaited.

The event bus of document 003 (`set_event_context`) is one more listener, with the same protection.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from langchain_agentmem.errors import InvalidInput

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something happened in a memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MessagesStored(Event):
    """New messages are in the log of a conversation, in the order of their ids."""

    namespace: tuple[str, ...]
    conversation_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageUpdated(Event):
    """A message has new content; its previous version is kept."""

    namespace: tuple[str, ...]
    conversation_id: str
    message_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MessagesRemoved(Event):
    """Messages have left a conversation."""

    namespace: tuple[str, ...]
    conversation_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationErased(Event):
    """A conversation is gone with everything that belonged to it, and nothing of it is left in the storage."""

    namespace: tuple[str, ...]
    conversation_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryResetEvent(Event):
    """An agent's memory was cleared, so plans made from it are stale. From document 003."""

    agent_name: str
    timestamp: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionEvent(Event):
    """A context is being compacted, or was. From document 003.

    Attributes:
        session_id: The conversation or thread.
        agent_name: Whose context it is; empty where nobody said.
        status: "started", "completed" or "failed". A stage that fails, such as a model that gives no summary, is told
        as
            "failed" with that stage alone in `stages_run`, and the compaction goes on without it.
        pre_tokens: Tokens before.
        post_tokens: Tokens after; 0 as long as it is not completed.
        pre_messages: Messages before.
        post_messages: Messages after; 0 as long as it is not completed.
        duration: Seconds since it started; None when it starts.
        stages_run: The processors that ran, in order; None when it starts.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionStageFailed(Event):
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
class CompactionFellShort(Event):
    """A context could not be made as small as its target.

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
class CompressionFellShort(Event):
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
class ExperienceSelectionFellBack(Event):
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
class StepFinished(Event):
    """One traced operation has ended. Told only when somebody listens.

    Attributes:
        name: `memory.<part>.<verb>`.
        started_at: When it began, in UTC.
        duration: How long it took, in seconds.
        inputs: What it was given, as plain data a person can read.
        outputs: What it gave back, in the same form, or None when it failed.
        error: What it raised, or None when it did not fail.
        metadata: Where it happened: the kind of database and whatever else the operation adds.
    """

    name: str
    started_at: datetime
    duration: float
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] | None
    error: BaseException | None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Hook(Protocol):
    """Anything that can be called with an event. What it returns is awaited if it can be, else ignored."""

    def __call__(self, event: Event, /) -> object:
        """Take notice of the event."""
        ...


class FirstFailures:
    """Logs the first failure of each source and keeps quiet about the rest.

    A listener that fails usually fails every time. Once is enough to find it; a thousand times would bury
    the log.
    """

    def __init__(self, to: logging.Logger) -> None:
        self._to = to
        self._known: dict[Hashable, object] = {}

    def report(self, source: Hashable, message: str, *details: object, error: BaseException) -> None:
        """Log `message % details` as a warning with its traceback, unless this source has failed before."""
        this = object()
        # setdefault is atomic, so that of two threads only one speaks.
        if self._known.setdefault(source, this) is this:
            self._to.warning(
                f"{message} This is logged once.",
                *details,
                exc_info=(type(error), error, error.__traceback__),
            )


class _Delivery:
    """Calls listeners in such a way that what goes wrong in them stays with them."""

    def __init__(self) -> None:
        self._failures = FirstFailures(logger)
        # A loop holds its tasks weakly: without this, a hook could be collected halfway through its work.
        self._running: set[asyncio.Future[object]] = set()

    def __call__(self, listener: object, call: Callable[[Event], object], event: Event) -> None:
        """Give the event to `call`, which belongs to `listener`."""
        try:
            answer = call(event)
            if answer is not None and inspect.isawaitable(answer):
                self._see_through(listener, answer)
        except Exception as error:  # noqa: BLE001 - whatever a listener raises must not reach the agent
            self._report(listener, error)

    async def settle(self) -> None:
        """Wait for what listeners still have under way on the running loop."""
        loop = asyncio.get_running_loop()
        while mine := [task for task in list(self._running) if task.get_loop() is loop]:
            await asyncio.wait(mine)

    def _see_through(self, listener: object, answer: Awaitable[object]) -> None:
        if not _a_loop_runs():
            # Nobody else would ever run it. The factory keeps this loop from becoming the thread's own.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(_wait_for(answer))
            return

        def finished(task: asyncio.Future[object]) -> None:
            self._running.discard(task)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                self._report(listener, error)

        task: asyncio.Future[object] = asyncio.ensure_future(answer)
        self._running.add(task)
        task.add_done_callback(finished)

    def _report(self, listener: object, error: Exception) -> None:
        self._failures.report(id(listener), "The listener %r failed; memory goes on without it.", listener, error=error)


class Hooks:
    """The hooks of one memory, told of every event in the order in which they were given.

    True when anybody listens. Without hooks, `emit` costs next to nothing.

    Args:
        hooks: Callables that take an event.

    Raises:
        InvalidInput: One of them cannot be called.
    """

    __slots__ = ("_deliver", "_hooks")

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._hooks = tuple(hooks)
        for hook in self._hooks:
            if not callable(hook):
                raise InvalidInput(f"{hook!r} is not a hook. Give a function that takes one event.")
        self._deliver = _Delivery()

    def emit(self, event: Event) -> None:
        """Tell every hook. Never raises an `Exception`.

        A hook's awaitable is scheduled on the running loop. Where none runs, it is run to its end here.
        """
        for hook in self._hooks:
            self._deliver(hook, hook, event)

    async def settle(self) -> None:
        """Wait until the asynchronous hooks started on the running loop are done."""
        await self._deliver.settle()

    def __iter__(self) -> Iterator[Hook]:
        return iter(self._hooks)

    def __len__(self) -> int:
        return len(self._hooks)


class EventContext:
    """Whose memory this is, and the event bus that hears of it (`set_event_context` of document 003).

    The bus may be anything with `emit_nowait(event)` or `emit(event)`, sync or async, or a callable. The
    original's `emit_nowait` lost the event wherever no loop was running, so there we prefer `emit` and see it
    through.

    Args:
        agent_name: The agent whose memory it is.
        event_bus: Where events go; None for nowhere.
        session_id: The run they belong to.

    Raises:
        InvalidInput: The bus offers no way to give it an event.
    """

    __slots__ = ("_deliver", "agent_name", "event_bus", "session_id")

    def __init__(self, agent_name: str, event_bus: object, session_id: str | None = None) -> None:
        if event_bus is not None and not _entrances(event_bus):
            raise InvalidInput(
                f"{event_bus!r} is not an event bus. Give one that has emit_nowait(event) or emit(event), "
                "or a function that takes one event."
            )
        self.agent_name = agent_name
        self.event_bus = event_bus
        self.session_id = session_id
        self._deliver = _Delivery()

    def emit(self, event: Event) -> None:
        """Put the event on the bus. Never raises an `Exception`."""
        if self.event_bus is None:
            return
        entrances = _entrances(self.event_bus)
        preferred = ("emit_nowait", "emit") if _a_loop_runs() else ("emit", "emit_nowait")
        call = next((entrances[name] for name in (*preferred, "call") if name in entrances), None)
        if call is not None:
            self._deliver(self.event_bus, call, event)

    async def settle(self) -> None:
        """Wait until the bus has taken what was put on it from the running loop."""
        await self._deliver.settle()

    def __bool__(self) -> bool:
        return self.event_bus is not None


def _entrances(bus: object) -> dict[str, Callable[[Event], object]]:
    """Every way in which this bus takes an event."""
    ways = {
        "emit_nowait": getattr(bus, "emit_nowait", None),
        "emit": getattr(bus, "emit", None),
        "call": bus,
    }
    return {name: way for name, way in ways.items() if callable(way)}


def _a_loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _wait_for(answer: Awaitable[object]) -> None:
    await answer
