"""What is told of a fact, in the order in which we learned it, and what that makes of it.

Nothing that was told is ever overwritten. A fact is a list of events, and what holds is made of them: `state` says what
it is, or what it was as far as we knew at some time. So a message can be taken out of it again, and a change undone.

An event is a JSON object. `n` is its number, `at` when it was learned, `do` what it does:

    said     a message, or a person, tells of it: `id`, `in`, `role`, `from`, `to`, `sure`; `given` if it said since
    when set      somebody corrects it: the fields with their new values beside   somebody says that some other facts,
    `of`, do not end it undo     the event `of` does not count, or does so again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.rewinding.memory_rows import SAID
from langchain_agentmem.rewinding.message_sources import SET, UNDO

BESIDE = "beside"
_NOBODY: frozenset[str] = frozenset()

Event: TypeAlias = Mapping[str, Any]


class State(NamedTuple):
    """What is known of a fact, of itself alone: others may have ended it.

    Attributes:
        subject: As it was first spelled, like the next two.
        predicate: What it says.
        object: Of what.
        role: Who said it first.
        start: When it began, in microseconds since 1970.
        end: When it ended, if anybody said so.
        given: Whether anybody said when it began; else it is when it was said.
        lasting: Whether anybody said that it goes on, so that it ends what was before it.
        sure: The confidence, if there is any.
        learned: When it was learned first.
        rank: Its place among what was learned at one time.
        said: What told of it.
        beside: The facts that do not end it.
    """

    subject: str
    predicate: str
    object: str
    role: str
    start: int
    end: int | None
    given: bool
    lasting: bool
    sure: float | None
    learned: int
    rank: int
    said: tuple[Event, ...]
    beside: frozenset[str]


def state(extra: Mapping[str, Any], recorded: int | None = None) -> State | None:
    """What a fact is.

    Args:
        extra: What belongs to its row: the names as they were first spelled, the role, and the events.
        recorded: What was learned later does not count. Default: everything counts.

    Returns:
        None if it was not known, or was taken back.
    """
    if len(extra["told"]) == 1:
        return _told_once(extra, recorded)
    known = counting(extra["told"], recorded)
    said = tuple(event for event in known if event["do"] == SAID)
    if not said:
        return None
    ends = [event["to"] for event in said if event["to"] is not None]
    sure = [event["sure"] for event in said if event.get("sure") is not None]
    start = min(event["from"] for event in said)
    fields: dict[str, Any] = {
        "subject": extra["subject"],
        "predicate": extra["predicate"],
        "object": extra["object"],
        "role": extra["role"],
        "start": start,
        "end": max(ends, default=None),
        "given": any(event["from"] == start and event.get("given") for event in said),
        "lasting": len(ends) < len(said),
        "sure": max(sure, default=None),
        "beside": frozenset[str](),
    }
    for event in known:
        if event["do"] == SET:
            fields.update(event["fields"])
        elif event["do"] == BESIDE:
            fields["beside"] |= set(event["of"])
    return State(**fields, learned=said[0]["at"], rank=said[0]["n"], said=said)


def _told_once(extra: Mapping[str, Any], recorded: int | None) -> State | None:
    """The same of a fact that has one event, as most have."""
    [event] = extra["told"]
    if event["do"] != SAID or (recorded is not None and event["at"] > recorded):
        return None
    return State(
        extra["subject"],
        extra["predicate"],
        extra["object"],
        extra["role"],
        event["from"],
        event["to"],
        bool(event.get("given")),
        event["to"] is None,
        event.get("sure"),
        event["at"],
        event["n"],
        (event,),
        _NOBODY,
    )


def counting(events: Sequence[Event], recorded: int | None = None) -> list[Event]:
    """The events that count, as far as they were known at some time; an undone one does not."""
    known = [event for event in events if recorded is None or event["at"] <= recorded]
    off: set[int] = set()
    for event in known:
        if event["do"] == UNDO:
            off ^= {event["of"]}
    return [event for event in known if event["do"] != UNDO and event["n"] not in off]


def said(
    number: int,
    at: int,
    *,
    role: str,
    start: int,
    end: int | None,
    given: bool,
    sure: float | None,
    message: str | None,
    conversation: str | None,
) -> dict[str, Any]:
    """The event by which a fact is told of.

    Args:
        number: Its number.
        at: When it is learned.
        role: Who says so.
        start: When the fact began.
        end: When it ended, if it did.
        given: Whether whoever says so said when it began.
        sure: How sure they are, if they say so.
        message: The message that says so, if any.
        conversation: The conversation or thread of that, if it is known.
    """
    event: dict[str, Any] = {"n": number, "at": at, "do": SAID, "role": role, "from": start, "to": end}
    if message is not None:
        event["id"] = message
    if conversation is not None:
        event["in"] = conversation
    if given:
        event["given"] = True
    if sure is not None:
        event["sure"] = sure
    return event


def undone(events: Sequence[Event]) -> int | None:
    """The number of the event that an undoing is about: the last; or the one that the last undid, to have it back."""
    last = events[-1]
    return int(last["of"]) if last["do"] == UNDO else int(last["n"])


def told(extra: Mapping[str, Any]) -> State:
    """What was told of a fact in the first place, also if it was taken back."""
    first = next(event for event in extra["told"] if event["do"] == SAID)
    known = state({**extra, "told": [first]})
    if known is None:
        raise AssertionError  # what is told of by an event is known
    return known


def says_more(known: State, event: Event) -> bool:
    """Whether a fact is not the same any more once an event tells of it.

    Args:
        known: The fact.
        event: By which it is told of.
    """
    sure = event.get("sure")
    if sure is not None and all(each.get("sure", -1) < sure for each in known.said):
        return True
    for each in known.said:
        if (
            each.get("id") == event.get("id")
            and each.get("in") == event.get("in")
            and each["role"] == event["role"]
            and each["to"] == event["to"]
            and (not event.get("given") or (each.get("given") and each["from"] == event["from"]))
        ):
            return False
    return True
