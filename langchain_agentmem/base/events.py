"""What happened in a memory, told to whoever asked to know.

An event is a value; a hook is any callable that takes one:

    def announce(event: Event) -> None:
        print(event)

    memory = AgentMemory("agent.db", hooks=[announce])

Events are told after the fact: what they speak of is already stored. What a listener raises is logged the
first time and never reaches the agent; only what is not an `Exception`, such as a `KeyboardInterrupt`, goes
through. What it returns to be awaited is awaited. Each is called in a thread of its own, and one that
hangs is waited for a second, once.

Events hold ids and numbers. Steps show content as `AgentMemory(trace_content=...)` says. Those that tell of a failure
hold the error as it is, and one the query, which may quote what was said: they are for code of the same process.

The event bus of `set_event_context` is one more listener, with the same protection.

A listener is called in a thread of its own, so that one that hangs holds nobody up. Whoever has something to tell waits
until the listener has heard it, but only `PATIENCE` long. So a prompt listener has heard of everything before the
operation goes on, in order, whichever thread it happened in. One that overran once is never waited for again: what it
has not heard yet stands in line, and beyond `MOST` it is told no more. What a listener causes is told, but not waited
for.

A listener is called in a copy of the caller's context. What it returns to be awaited is awaited on the caller's loop,
or, where there is none, in its thread.

Whoever tells may be interrupted at any time, and the handler of a signal or a finalizer may have something to tell in
the middle of it. So nothing here is guarded by a lock that somebody waits for: whatever changes changes in one step of
the interpreter, and each state between two steps is one that everybody else can go on from.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import queue
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from langchain_agentmem.base.concurrency import PerProcess, call_on_callers_loop
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

PATIENCE = 1.0
"""Seconds that a listener is waited for."""
MOST = 1_000
"""Events that stand in line for a listener that nobody waits for, and tasks of one that it has begun and not ended."""
IDLE = 5.0
"""Seconds without an event after which the thread ends."""
_WAKE = 0.1
"""Seconds after which a wait looks whether the process was interrupted: a signal that comes just before it begins does
not end it."""

_within: ContextVar[_Call | None] = ContextVar("agentmem_listener", default=None)
"""The call that this is a part of, if it is what a listener does."""


class Report(Protocol):
    """Logs what goes wrong, the first time for each source."""

    def __call__(self, source: str, message: str, /, *details: object, error: BaseException | None = None) -> None:
        """Log `message % details`."""
        ...


class _Call:
    """One event on its way to a listener. Whoever waits for it holds `ended`, which its end releases."""

    __slots__ = ("answer", "call", "context", "decided", "ended", "error", "event", "loop")

    def __init__(self, call: Callable[[Any], object], event: object, *, awaited: bool) -> None:
        self.call = call
        self.event = event
        self.context: Context = copy_context()
        around = _within.get()
        self.loop: asyncio.AbstractEventLoop | None = running_loop() or (around.loop if around else None)
        self.answer: Awaitable[object] | None = None
        self.error: BaseException | None = None
        self.ended = threading.Lock()
        self.ended.acquire()
        # Taken once: by the listener's thread when the call has ended, or before by the caller, who waits no more.
        self.decided = threading.Lock()
        if not awaited:
            self.decided.acquire()

    def decide(self) -> bool:
        """Whether nobody else has decided yet what becomes of its answer; from now on it is decided."""
        return self.decided.acquire(blocking=False)

    def make(self) -> None:
        """Call the listener. What it gives to be awaited is awaited here where the caller has no loop."""
        _within.set(self)
        answer = self.call(self.event)
        if answer is None or not inspect.isawaitable(answer):
            return
        if self.loop is None:
            # The factory keeps this loop from becoming the thread's own.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(_wait_for(answer))
        else:
            self.answer = answer


class Delivery:
    """Tells one listener what happens. What goes wrong in it stays with it.

    Args:
        listener: What the log calls it.
        report: Logs what goes wrong.
    """

    _line: PerProcess[queue.SimpleQueue[tuple[Delivery, _Call]]] = PerProcess(queue.SimpleQueue)
    _served = PerProcess(threading.Lock)  # by its thread

    def __init__(self, listener: object, report: Report) -> None:
        self.listener = listener
        self._report = report
        self._prompt = True
        # A loop holds its tasks weakly: without this, a listener could be collected halfway through its work.
        self._tasks: set[asyncio.Future[object]] = set()

    def tell(self, call: Callable[[Any], object], event: object) -> None:
        """Have `call`, which belongs to the listener, called with the event. Never raises an `Exception`.

        What else it raises, such as a `KeyboardInterrupt`, goes through, unless nobody waits for it.
        """
        if running_loop() is None and call_on_callers_loop(partial(self.tell, call, event), 10 * PATIENCE):
            return
        awaited = self._prompt and not _within.get()  # listeners that cause events must not wait for each other
        if not awaited and self._line.qsize() >= MOST:
            self._lose()
            return
        this = _Call(call, event, awaited=awaited)
        try:
            self._line.put((self, this))
            if not _is_served(self._line, self._served):
                _make_calls(self._line)  # there can be no thread when the process is about to end
            if awaited:
                self._wait_for(this)
        except BaseException:  # of the listener, or an interruption at any time since it stands in line
            this.decide()
            raise

    async def settle(self, until: float) -> None:
        """Wait for what the listener still has under way on the running loop.

        Args:
            until: For how long, as the time of that loop.
        """
        loop = asyncio.get_running_loop()
        here = asyncio.current_task()
        while self._prompt and (
            mine := [task for task in list(self._tasks) if task.get_loop() is loop and task is not here]
        ):
            left = until - loop.time()
            if left <= 0:
                self._wait_no_more()
                return
            await asyncio.wait(mine, timeout=left)

    def serve(self, this: _Call) -> None:
        """Make the call, in the listener's thread."""
        try:
            this.context.run(this.make)
        except Exception as error:  # noqa: BLE001 - whatever a listener raises must not reach the agent
            self._failed(error)
        except BaseException as error:  # noqa: BLE001 - it is raised where it belongs
            this.error = error
        if this.decide():
            this.ended.release()
            return
        if this.error is not None:
            self._failed(this.error)
        if this.answer is not None and this.loop is not None:
            try:
                this.loop.call_soon_threadsafe(self._schedule, this.answer)
            except RuntimeError:  # it is closed
                _discard(this.answer)

    def _wait_for(self, this: _Call) -> None:
        begun = time.monotonic()
        while not this.ended.acquire(timeout=min(PATIENCE, _WAKE)):
            if time.monotonic() - begun >= PATIENCE and this.decide():
                self._wait_no_more()
                return
        if this.error is not None:
            raise this.error
        if this.answer is not None:
            self._schedule(this.answer)

    def _schedule(self, answer: Awaitable[object]) -> None:
        """Have it awaited on the running loop."""
        if not self._prompt and len(self._tasks) >= MOST:
            self._lose()
            _discard(answer)
            return

        def finished(task: asyncio.Future[object]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                self._failed(error)

        task: asyncio.Future[object] = asyncio.ensure_future(answer)
        self._tasks.add(task)
        task.add_done_callback(finished)

    def _failed(self, error: BaseException) -> None:
        self._report(
            "failed", "The listener %s failed; memory goes on without it.", safe_repr(self.listener), error=error
        )

    def _wait_no_more(self) -> None:
        self._prompt = False
        listener = safe_repr(self.listener)
        self._report("slow", "The listener %s does not answer; memory goes on without waiting for it.", listener)

    def _lose(self) -> None:
        message = "The listener %s is %d events behind; it will not hear of others until it has caught up."
        self._report("lost", message, safe_repr(self.listener), MOST)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if there is one."""
    return asyncio._get_running_loop()


_Line: TypeAlias = "queue.SimpleQueue[tuple[Delivery, _Call]]"


def _is_served(line: _Line, served: threading.Lock) -> bool:
    """Whether there is a thread, made now if need be. There can be none when the process is about to end."""
    if sys.is_finalizing():
        return False
    if served.locked():
        return True
    try:
        threading.Thread(target=_serve, args=(line, served), name="agentmem-listener", daemon=True).start()
    except RuntimeError:
        return False
    return True


def _serve(line: _Line, served: threading.Lock) -> None:
    """Make the calls that stand in line, unless another thread does. Between them, it keeps no listener in being."""
    # Somebody may have put a call in line while this still seemed to serve it.
    while served.acquire(blocking=False):
        try:
            _make_calls(line, IDLE)
        finally:
            served.release()
        if line.empty():
            return


def _make_calls(line: _Line, patience: float = 0) -> None:
    """Make the calls that stand in line, and those that come, until for so many seconds none comes."""
    while True:
        try:
            delivery, this = line.get(timeout=patience)
        except queue.Empty:
            return
        delivery.serve(this)
        del delivery, this


async def _wait_for(answer: Awaitable[object]) -> None:
    await answer


def _discard(answer: Awaitable[object]) -> None:
    close = getattr(answer, "close", None)  # of a coroutine, which would complain that nobody awaited it
    if callable(close):
        with contextlib.suppress(Exception):
            close()


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
class ImageUnreadable(ConversationEvent):
    """A warning: an image of a message could not be read, and a placeholder was shown in its place. Nothing is lost.

    Attributes:
        namespace: Whose conversation it is.
        conversation_id: The conversation, session or thread, or the branch of facts.
        message_id: The message that names the image. It is as it was, and is shown whole once the file is there again.
        image: The path.
        reason: Why, in a sentence: it is not there, no file, too large, or may not be read.
    """

    message_id: str
    image: str
    reason: str


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

    def emit(self, event: MemoryEvent) -> None:
        """Tell every hook. Never raises an `Exception`, and waits a second at most for a hook that does not answer.

        A hook's awaitable is scheduled on the running loop. Where none runs, it is run to its end.
        """
        for hook, each in self._deliveries:
            each.tell(hook, event)

    async def settle(self) -> None:
        """Wait until the asynchronous hooks started on the running loop are done, a second at most."""
        until = asyncio.get_running_loop().time() + PATIENCE
        for _, each in self._deliveries:
            await each.settle(until)

    def __iter__(self) -> Iterator[Hook]:
        return iter(self._hooks)

    def __len__(self) -> int:
        return len(self._hooks)


class EventContext:
    """Whose memory this is, and the event bus that hears of it (`set_event_context`).

    The bus may be anything with `emit(event)`, sync or async, with `emit_nowait(event)`, which is called where a loop
    runs, or a callable.

    Args:
        agent_name: The agent whose memory it is.
        event_bus: Where events go; None for nowhere.
        session_id: The run they belong to.

    Raises:
        InvalidInput: The bus offers no way to give it an event.
    """

    __slots__ = ("_delivery", "agent_name", "event_bus", "session_id")

    def __init__(self, agent_name: str, event_bus: object, session_id: str | None = None) -> None:
        ways = (getattr(event_bus, "emit", None), getattr(event_bus, "emit_nowait", None), event_bus)
        if event_bus is not None and not any(map(callable, ways)):
            raise InvalidInput(
                f"{safe_repr(event_bus)} is not an event bus. Give one that has emit_nowait(event) or emit(event), "
                "or a function that takes one event."
            )
        self.agent_name = agent_name
        self.event_bus = event_bus
        self.session_id = session_id
        self._delivery = _to_bus(event_bus)

    def emit(self, event: MemoryEvent) -> None:
        """Put the event on the bus. Never raises an `Exception`, and waits a second at most."""
        if self.event_bus is not None:
            self._delivery.tell(self._put, event)

    async def settle(self) -> None:
        """Wait until the bus has taken what was put on it from the running loop, a second at most."""
        await self._delivery.settle(asyncio.get_running_loop().time() + PATIENCE)

    def _put(self, event: MemoryEvent) -> object:
        bus: Any = self.event_bus
        if callable(getattr(bus, "emit", None)):
            return bus.emit(event)
        return _put_on_a_loop(bus, event) if callable(getattr(bus, "emit_nowait", None)) else bus(event)

    def __bool__(self) -> bool:
        return self.event_bus is not None


async def _put_on_a_loop(bus: Any, event: MemoryEvent) -> None:
    bus.emit_nowait(event)


_buses: weakref.WeakValueDictionary[int, Delivery] = weakref.WeakValueDictionary()
"""By the id of a bus, which its delivery keeps in being: who opens a conversation for every request waits once."""


def _to_bus(bus: object) -> Delivery:
    known = _buses.get(id(bus))
    return known or _buses.setdefault(id(bus), Delivery(bus, FirstFailures(logger).report))
