"""What a history is made of: who speaks, which results belong to which calls, and what must not leave it.

    system messages | first instruction | summary | body … | the request at hand | protected tail

Everything here looks at messages and changes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_agentmem.base.encoding import kind_of
from langchain_agentmem.messages.message_marks import FILLER, MADE, RESULT, is_filler, is_injected, summary_in

_ROLES = {"human": "user", "ai": "assistant", "function": "tool"}
_CALL_BLOCKS = frozenset({"tool_use", "tool_call"})


def role_of(message: BaseMessage) -> str:
    """Who speaks: "system", "user", "assistant", "tool", or another role."""
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, ToolMessage):
        return "tool"
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, ChatMessage):
        return "system" if message.role == "developer" else message.role
    return _ROLES.get(message.type, message.type)


def calls_of(message: BaseMessage) -> list[dict[str, Any]]:
    """The tool calls of a message, those included that could not be parsed: a provider is sent them too."""
    if not isinstance(message, AIMessage):
        return []
    calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
    if not calls and isinstance(message.content, list):
        calls = [block for block in message.content if kind_of(block) in _CALL_BLOCKS]
    return calls


class Bundle(NamedTuple):
    """Messages that stay or go together: one, or calls with their results. Places from `start` up to `stop`."""

    start: int
    stop: int


def bundles(messages: Sequence[BaseMessage], start: int, stop: int) -> list[Bundle]:
    """Cut a valid history where no call is open.

    Args:
        messages: A history in which results stand behind their calls.
        start: Where to begin.
        stop: Where to end.
    """
    cuts = [place for place in range(start, stop) if place == start or not isinstance(messages[place], ToolMessage)]
    return [Bundle(*pair) for pair in pairwise([*cuts, stop])] if start < stop else []


def protected_from(messages: Sequence[BaseMessage], grace: int) -> int:
    """Where the protected tail begins: at the so-manyth last assistant message.

    Where there are fewer, at the first of them; where there is none, at the last user message, so that there always is
    a tail; where there is no user message either, at the last message with its results.

    Args:
        messages: The history.
        grace: How many assistant messages are protected. 0 protects the last user message and what follows it.
    """
    assistants = [place for place, each in enumerate(messages) if isinstance(each, AIMessage) and not is_filler(each)]
    if grace and assistants:
        return assistants[-grace] if grace <= len(assistants) else assistants[0]
    users = [place for place, message in enumerate(messages) if is_said_by_user(message)]
    others = [place for place, message in enumerate(messages) if role_of(message) != "tool"]
    return (users or others or [max(0, len(messages) - 1)])[-1]


def is_said_by_user(message: BaseMessage) -> bool:
    """Whether a user said it; not all that is in the user's role was: a summary was not, nor what brings memory."""
    made = message.additional_kwargs.get(MADE)
    if role_of(message) != "user" or made in (FILLER, RESULT):
        return False
    return summary_in(message) is None and not is_injected(message)


class Shape(NamedTuple):
    """The parts of a valid history, as places.

    Attributes:
        systems: How many system messages it begins with.
        opening: What stands there so that a user begins, if anything does.
        first: The first thing a user said, if it is to stay.
        summary: The summary of what was there before.
        request: The last thing a user said, if it stands before the tail.
        tail: Where the protected tail begins.
    """

    systems: int
    opening: int | None
    first: int | None
    summary: int | None
    request: int | None
    tail: int

    @property
    def pinned(self) -> frozenset[int]:
        """The places before the tail that stay whatever happens."""
        kept = (place for place in (self.opening, self.first, self.summary, self.request) if place is not None)
        return frozenset({*range(self.systems), *kept})


def shape_of(messages: Sequence[BaseMessage], *, grace: int, keep_first: bool = True) -> Shape:
    """Find the parts of a valid history.

    Args:
        messages: The history: system messages first, results behind their calls.
        grace: See `protected_from`.
        keep_first: Whether the first thing a user said stays.
    """
    systems = next((place for place, each in enumerate(messages) if role_of(each) != "system"), len(messages))
    tail = max(systems, protected_from(messages, grace))
    users = [place for place in range(systems, len(messages)) if is_said_by_user(messages[place])]
    summary = next((place for place in range(systems, tail) if summary_in(messages[place]) is not None), None)
    first = users[0] if users and users[0] < tail else None
    request = users[-1] if users and users[-1] < tail and users[-1] != users[0] else None
    if not keep_first:
        request = users[-1] if users and users[-1] < tail else None
        first = None
    begins = messages[systems].additional_kwargs.get(MADE) if systems < len(messages) else None
    return Shape(systems, systems if begins == FILLER else None, first, summary, request, tail)


def droppable(messages: Sequence[BaseMessage], shape: Shape) -> list[Bundle]:
    """What may leave a history, the oldest first: all that is neither pinned nor in the tail."""
    return [each for each in bundles(messages, shape.systems, shape.tail) if each.start not in shape.pinned]


def count_rounds(messages: Sequence[BaseMessage]) -> int:
    """How many rounds a history shows: what a user said, but for the first where a summary stands for its round."""
    users = sum(map(is_said_by_user, messages))
    summarized = any(summary_in(message) is not None for message in messages)
    return max(0, users - 1) if summarized else users
