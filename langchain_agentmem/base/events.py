"""What happened in a memory, told to whoever asked to know.

An event is a value; a hook is any callable that takes one:

    def announce(event: Event) -> None:
        print(event)

    memory = AgentMemory("agent.db", hooks=[announce])

Events are told after the fact: what they speak of is already stored. What a listener raises is logged the
first time and never reaches the agent; only what is not an `Exception`, such as a `KeyboardInterrupt`, goes
through. What it returns to be awaited is awaited. Each is called in a thread of its own (`delivery.py`), and one
that hangs is waited for a second, once.

Events hold ids and numbers. Steps show content as `AgentMemory(trace_content=...)` says. Those that tell of a failure
hold the error as it is, and one the query, which may quote what was said: they are for code of the same process.

The event bus of document 003 (`set_event_context`) is one more listener, with the same protection.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from langchain_agentmem.base import delivery
from langchain_agentmem.base.delivery import Delivery, running_loop
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

logger = logging.getLogger(__name__)

L = TypeVar("L")


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
class ImageUnreadable(Event):
    """A warning: an image of a message could not be read, and a placeholder was shown in its place. Nothing is lost.

    Attributes:
        namespace: Whose conversation it is.
        conversation_id: The conversation, session or thread, or the branch of facts.
        message_id: The message that names the image. It is as it was, and is shown whole once the file is there again.
        image: The path.
        reason: Why, in a sentence: it is not there, no file, too large, or may not be read.
    """

    namespace: tuple[str, ...]
    conversation_id: str
    message_id: str
    image: str
    reason: str


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
            as "failed" with that stage alone in `stages_run`, and the compaction goes on without it.
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
class StepStarted(Event):
    """A traced operation has begun. Told only when somebody listens.

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
class StepFinished(Event):
    """One traced operation has ended. Told only when somebody listens.

    Attributes:
        step_id: What this step is called, and no other.
        parent_id: The step that it was a part of, or None.
        name: `memory.<part>.<verb>`.
        started_at: When it began, in UTC.
        duration: How long it took, in seconds.
        inputs: What it was given, as plain data a person can read.
        outputs: What it gave back, in the same form, or None when it failed.
        error: What it raised, or None when it did not fail.
        metadata: Where it happened: the kind of database, the thread, the namespace and so on.
    """

    step_id: str
    parent_id: str | None
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

    def report(self, source: Hashable, message: str, /, *details: object, error: BaseException | None = None) -> None:
        """Log `message % details` as a warning, with its traceback if any, unless this source has failed before."""
        this = object()
        # setdefault is atomic, so that of two threads only one speaks.
        if self._known.setdefault(source, this) is this:
            self._to.warning(
                f"{message} This is logged once.",
                *details,
                exc_info=error and (type(error), error, error.__traceback__),
            )


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


class Hooks:
    """The hooks of one memory, told of every event in the order in which they were given.

    True when anybody listens. Without hooks, `emit` costs next to nothing.

    Args:
        hooks: Callables that take an event.

    Raises:
        InvalidInput: One of them cannot be called.
    """

    __slots__ = ("_deliveries", "_hooks")

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._hooks = tuple(hooks)
        for hook in self._hooks:
            if not callable(hook):
                raise InvalidInput(f"{safe_repr(hook)} is not a hook. Give a function that takes one event.")
        self._deliveries = [(hook, Delivery(hook, FirstFailures(logger).report)) for hook in self._hooks]

    def emit(self, event: Event) -> None:
        """Tell every hook. Never raises an `Exception`, and waits a second at most for a hook that does not answer.

        A hook's awaitable is scheduled on the running loop. Where none runs, it is run to its end.
        """
        for hook, each in self._deliveries:
            each.tell(hook, event)

    async def settle(self) -> None:
        """Wait until the asynchronous hooks started on the running loop are done, a second at most."""
        until = asyncio.get_running_loop().time() + delivery.PATIENCE
        for _, each in self._deliveries:
            await each.settle(until)

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

    __slots__ = ("_delivery", "agent_name", "event_bus", "session_id")

    def __init__(self, agent_name: str, event_bus: object, session_id: str | None = None) -> None:
        if event_bus is not None and not _entrances(event_bus):
            raise InvalidInput(
                f"{safe_repr(event_bus)} is not an event bus. Give one that has emit_nowait(event) or emit(event), "
                "or a function that takes one event."
            )
        self.agent_name = agent_name
        self.event_bus = event_bus
        self.session_id = session_id
        self._delivery = _to_bus(event_bus)

    def emit(self, event: Event) -> None:
        """Put the event on the bus. Never raises an `Exception`, and waits a second at most."""
        if self.event_bus is not None:
            self._delivery.tell(self._put, event)

    async def settle(self) -> None:
        """Wait until the bus has taken what was put on it from the running loop, a second at most."""
        await self._delivery.settle(asyncio.get_running_loop().time() + delivery.PATIENCE)

    def _put(self, event: Event) -> object:
        entrances = _entrances(self.event_bus)
        preferred = ("emit", "emit_nowait") if running_loop() is None else ("emit_nowait", "emit")
        call = next((entrances[name] for name in (*preferred, "call") if name in entrances), None)
        return None if call is None else call(event)

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


_buses: weakref.WeakValueDictionary[int, Delivery] = weakref.WeakValueDictionary()
"""By the id of a bus, which its delivery keeps in being: who opens a conversation for every request waits once."""


def _to_bus(bus: object) -> Delivery:
    known = _buses.get(id(bus))
    return known or _buses.setdefault(id(bus), Delivery(bus, FirstFailures(logger).report))
