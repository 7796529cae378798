"""What a compaction tells: to hooks, to the event bus of document 003, and to LangGraph's custom stream."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from typing import Any

from langchain_agentmem.compaction.pipeline import Outcome
from langchain_agentmem.compaction.situation import Size
from langchain_agentmem.database import Database
from langchain_agentmem.events import (
    CompactionEvent,
    CompactionFellShort,
    CompactionStageFailed,
    Event,
    EventContext,
)


class Telling:
    """Tells of one compaction, from its start on.

    Args:
        database: Whose hooks are told.
        session_id: The conversation or thread.
        agent_name: Whose context it is.
        bus: The event bus, if there is one.
    """

    def __init__(
        self, database: Database, session_id: str, *, agent_name: str = "", bus: EventContext | None = None
    ) -> None:
        self._database = database
        self._bus = bus
        self._fields: dict[str, Any] = {
            "session_id": (bus.session_id if bus else None) or session_id,
            "agent_name": (bus.agent_name if bus else "") or agent_name,
        }
        self._began = time.perf_counter()

    def started(self, tokens: int, messages: int) -> None:
        """A context of so many tokens and messages is about to be compacted."""
        self._fields |= {"pre_tokens": tokens, "pre_messages": messages}
        self._tell(CompactionEvent(**self._fields, status="started"))

    def completed(self, outcome: Outcome, target: Size, *, tokens: int, messages: int) -> None:
        """It is done: these are the tokens and messages that are left."""
        for failure in outcome.failures:
            self._tell(self._failed([failure.stage]))
            session = self._fields["session_id"]
            self._tell(CompactionStageFailed(session_id=session, stage=failure.stage, error=failure.error))
        self._tell(
            CompactionEvent(
                **self._fields,
                status="completed",
                post_tokens=tokens,
                post_messages=messages,
                duration=time.perf_counter() - self._began,
                stages_run=list(outcome.stages_run),
            )
        )
        if outcome.reason is not None:
            session = self._fields["session_id"]
            self._tell(
                CompactionFellShort(
                    session_id=session, tokens=tokens, target_tokens=target.tokens, reason=outcome.reason
                )
            )

    def failed(self, stages: Sequence[str] = ()) -> None:
        """It was given up."""
        self._tell(self._failed(stages))

    def _failed(self, stages: Sequence[str]) -> CompactionEvent:
        duration = time.perf_counter() - self._began
        return CompactionEvent(**self._fields, status="failed", duration=duration, stages_run=list(stages))

    def _tell(self, event: Event) -> None:
        self._database.hooks.emit(event)
        if self._bus is not None:
            self._bus.emit(event)
        if (write := _stream_writer()) is not None:
            with self._database.tracing.unharmed("writing to the custom stream"):
                write({"event": type(event).__name__} | _plain(event))


def _plain(event: Event) -> dict[str, Any]:
    fields = {each.name: getattr(event, each.name) for each in dataclasses.fields(event)}
    return {name: repr(value) if isinstance(value, BaseException) else value for name, value in fields.items()}


def _stream_writer() -> Any:
    """LangGraph's writer to the custom stream, where this runs in one of its nodes."""
    configs = sys.modules.get("langgraph.config")
    if configs is None:
        return None
    try:
        return configs.get_stream_writer()
    except (RuntimeError, KeyError):
        return None
