"""Where memory goes among messages: what is always there into the prefix, what was recalled right before the question.

Messages stay as every provider accepts them, and those that were said stay the same objects, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, SystemMessage, convert_to_messages

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.history_shape import calls_of, is_said_by_user, role_of
from langchain_agentmem.messages.injected import MEMORY, Part, Role, block, injected, is_injected


class Brought(NamedTuple):
    """What there is to be shown, as texts.

    Attributes:
        core: Core memory; "" for none.
        recalled: What happened last, and what was found for a question; "" for nothing.
    """

    core: str = ""
    recalled: str = ""

    def blocks(self) -> list[str]:
        """The texts of the messages that would bring it."""
        both: list[tuple[Part, str]] = [("core", self.core), ("recalled", self.recalled)]
        return [block(part, text) for part, text in both if text]


def converted(given: Sequence[Any]) -> list[BaseMessage]:
    """Messages, given in any form that LangChain knows.

    Raises:
        InvalidInput: They are none.
    """
    if all(isinstance(each, BaseMessage) for each in given):
        return list(given)
    try:
        return convert_to_messages(given)
    except (ValueError, TypeError, NotImplementedError, KeyError, AttributeError) as error:
        raise InvalidInput(f"These are no messages: {safe_repr(given)}. {error}") from error


def woven(messages: Sequence[BaseMessage], brought: Brought, role: Role = "user") -> list[BaseMessage]:
    """Messages with memory among them, in the place of memory that is there already.

    Args:
        messages: A context. It is not changed.
        brought: What is to be shown.
        role: In whose role core memory stands. What was recalled is always in the user's.
    """
    said = [message for message in messages if not is_injected(message, *MEMORY)]
    start = next((place for place, each in enumerate(said) if role_of(each) != "system"), len(said))
    place = last_said(said)
    place = start if place is None else max(start, _outside(said, place))
    core = [injected("core", brought.core, role)] if brought.core else []
    recalled = [injected("recalled", brought.recalled)] if brought.recalled else []
    return [*said[:start], *core, *said[start:place], *recalled, *said[place:]]


def with_block(system: SystemMessage | None, part: Part, text: str) -> SystemMessage:
    """A system message with a part of memory at its end.

    Args:
        system: The message, if there is one. It is not changed.
        part: What is to be shown.
        text: The same, as text.
    """
    text = block(part, text)
    if system is None:
        return SystemMessage(text)
    content: str | list[str | dict[Any, Any]] = (
        f"{system.content}\n\n{text}"
        if isinstance(system.content, str)
        else [*system.content, {"type": "text", "text": text}]
    )
    return system.model_copy(update={"content": content})


def last_said(messages: Sequence[BaseMessage]) -> int | None:
    """The place of the last message that a user said; None where there is none."""
    places = range(len(messages) - 1, -1, -1)
    return next((place for place in places if is_said_by_user(messages[place])), None)


def _outside(messages: Sequence[BaseMessage], place: int) -> int:
    """The last place up to this one that is not between a call and its result."""
    answered = {getattr(message, "tool_call_id", None) for message in messages[place:]} - {None}
    for earlier in range(place) if answered else ():
        if any(call.get("id") in answered for call in calls_of(messages[earlier])):
            return earlier
    return place
