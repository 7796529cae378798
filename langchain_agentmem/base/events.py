"""Events of a memory.

An event is an immutable object. A hook is any callable that takes an event:

    def announce(event: MemoryEvent) -> None:
        print(event)

    memory = AgentMemory("agent.db", hooks=[announce])

`hooks.py` describes when hooks are called. This module is imported with the first event.

Most events contain only ids and numbers. The events of traced operations (`StepEvent`) also contain content, in the
form of `AgentMemory(trace_content=...)`. The events of failures contain exceptions, and `ExperienceSelectionFellBack`
contains the query. Both may quote messages, so do not send these events to other processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


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
