"""What a compaction tells: to hooks, to the event bus of document 003, to LangGraph's custom stream, and to traces."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from typing import Any

from langchain_agentmem.base.events import (
    CompactionEvent,
    CompactionFellShort,
    CompactionStageFailed,
    Event,
    EventContext,
)
from langchain_agentmem.compaction.pipeline import Outcome
from langchain_agentmem.compaction.places import place_of
from langchain_agentmem.compaction.situation import Size
from langchain_agentmem.conversations.compaction_records import Record
from langchain_agentmem.conversations.message_log import Address
from langchain_agentmem.language_models.model_calls import Shown, Work
from langchain_agentmem.messages.summary import summary_in
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import brief

COMPACT, RECOVER = "compaction.compact", "compaction.recover"
"""What the steps are called in a trace."""
NOTHING, COMPACTED, READY, NOT_SMALLER = (
    "nothing to do",
    "compacted",
    "used one made ahead",
    "cannot be made smaller",
)
"""What a trace says came of it."""


class Telling:
    """Tells of one compaction, or of the one look that found nothing to compact.

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
        self._facts: dict[str, Any] = {"status": NOTHING}
        self._came_to: tuple[Outcome, Record | None] | None = None

    def step(self, name: str, work: Work[Any], at: Address | None, trigger: str, **inputs: Any) -> Shown:
        """The work that this tells of, as a trace shows it.

        Args:
            name: `COMPACT` or `RECOVER`.
            work: The work.
            at: Where the history is recorded, if it is.
            trigger: Why it is done.
            **inputs: What else is known before.
        """
        return Shown(
            name,
            work,
            inputs=lambda: {**place_of(at), "trigger": trigger, **inputs},
            outputs=lambda _: self.told(),
        )

    def note(self, **facts: Any) -> None:
        """Something that is for traces alone."""
        self._facts |= facts

    def unchanged(self, tokens: int, messages: int) -> None:
        """There was nothing to do: this is what the context costs, and how many messages it has."""
        self.changed(NOTHING, (tokens, tokens), (messages, messages))

    def changed(self, status: str, tokens: tuple[int, int], messages: tuple[int, int]) -> None:
        """What came of it, with tokens and messages before and after."""
        self.note(
            status=status,
            tokens_before=tokens[0],
            tokens_after=tokens[1],
            messages_before=messages[0],
            messages_after=messages[1],
        )

    def told(self) -> dict[str, Any]:
        """What a trace shows of it."""
        if self._came_to is None:
            return dict(self._facts)
        outcome, record = self._came_to
        summaries = [message.id for message in outcome.messages if summary_in(message) is not None]
        details = {
            "dropped": None if record is None else len(record.dropped),
            "summary_id": next(iter(summaries), None),
            "summary": None if outcome.summary is None else brief(outcome.summary.summary),
            "failures": [{"stage": each.stage, "error_type": type(each.error).__name__} for each in outcome.failures],
            "fell_short": outcome.reason,
        }
        return self._facts | {name: value for name, value in details.items() if value not in (None, [])}

    def started(self, tokens: int, messages: int) -> None:
        """A context of so many tokens and messages is about to be compacted."""
        self._began = time.perf_counter()
        self._fields |= {"pre_tokens": tokens, "pre_messages": messages}
        self._tell(CompactionEvent(**self._fields, status="started"))

    def completed(
        self, outcome: Outcome, target: Size, *, tokens: int, messages: int, record: Record | None = None
    ) -> None:
        """It is done: these are the tokens and messages that are left, and this is what is kept of it."""
        before = self._fields["pre_tokens"], self._fields["pre_messages"]
        self.changed(COMPACTED, (before[0], tokens), (before[1], messages))
        self.note(processors=list(outcome.stages_run))
        self._came_to = outcome, record
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
        tokens, messages = self._fields["pre_tokens"], self._fields["pre_messages"]
        self.changed(NOT_SMALLER, (tokens, tokens), (messages, messages))
        self.note(processors=list(stages))
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
                write({"event": type(event).__name__} | self._plain(event))

    def _plain(self, event: Event) -> dict[str, Any]:
        fields = {each.name: getattr(event, each.name) for each in dataclasses.fields(event)}
        return {
            name: self._error(value) if isinstance(value, BaseException) else value for name, value in fields.items()
        }

    def _error(self, error: BaseException) -> str:
        shown = self._database.tracing.shown_error(error)
        return repr(error) if shown is error else str(shown)


def _stream_writer() -> Any:
    """LangGraph's writer to the custom stream, where this runs in one of its nodes."""
    configs = sys.modules.get("langgraph.config")
    if configs is None:
        return None
    try:
        return configs.get_stream_writer()
    except (RuntimeError, KeyError):
        return None
