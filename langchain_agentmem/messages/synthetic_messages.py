"""Messages that a compaction made, so that nobody takes them for what was said.

A shortened tool output has the id of the message it stands for; where a graph's state holds it, it must not be recorded
as a newer version of that.
"""

from __future__ import annotations

from typing import Any, TypeVar

from langchain_core.messages import BaseMessage

from langchain_agentmem.messages.injected import is_injected
from langchain_agentmem.messages.summary import summary_in

MADE = "agentmem_made"
"""In `additional_kwargs` of a message that a compaction made or altered."""
OPENING, RESULT = "opening", "result"
"""What `MADE` says of a message in the user's role that no user said: that it stands there so that a user begins, or
that it tells a result whose call is not there."""
NO_RESULT = "[No result was recorded for this call.]"
BEGINNING = "[The conversation begins here.]"

M = TypeVar("M", bound=BaseMessage)


def altered(message: M, **changes: Any) -> M:
    """A copy of a message with some fields changed, marked as such."""
    kwargs = changes.pop("additional_kwargs", message.additional_kwargs)
    if getattr(message, "artifact", None) is not None:
        changes["artifact"] = None  # no model is sent it, and it need not be kept twice
    return message.model_copy(update={**changes, "additional_kwargs": {MADE: True, **kwargs}})


def is_made(message: BaseMessage) -> bool:
    """Whether a compaction made a message, or altered it. The mark says so, which anybody can put on a message."""
    return MADE in message.additional_kwargs or summary_in(message) is not None


def is_filler(message: BaseMessage) -> bool:
    """Whether a message tells nothing that somebody said: a summary, memory, or what a provider wants to stand there.

    It is known by what it says, and not by its mark alone: a mark on something else hides nothing.
    """
    if summary_in(message) is not None or is_injected(message):
        return True
    return MADE in message.additional_kwargs and message.content in (BEGINNING, NO_RESULT)
