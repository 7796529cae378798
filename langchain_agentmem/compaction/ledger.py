"""What is known of a history from the turn before, so that a turn costs what is new in it and not what is old.

A history is given anew each turn, longer than before. Its messages are compared with those of the last time, and only
what differs is digested, counted and checked. The digest of a place says everything that was said up to there, so what
was compacted once is found again by it: after a restart, in another process, and on another branch of the thread.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import blake2b
from operator import is_
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_agentmem.base import forks
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import sound_until
from langchain_agentmem.messages.history_shape import calls_of
from langchain_agentmem.tracing.measures import Measures

REMEMBERED = 64
"""Histories of which a ledger remembers the last state."""
CACHE = "messages counted the turn before"
"""What the measures call them."""
RECENT = 256
"""Messages at the end of a history that are looked into although they are the same objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A history with what is known of it. Lists are as long as it is, or longer by what they begin with.

    Attributes:
        messages: The history.
        keys: What each message is called: its id, or a name made of all that was said up to it.
        digests: Of everything up to a message; the first one is that of nothing.
        tokens: What everything up to a message costs, uncalibrated; the first one is 0.
        places: Where a message stands, by its key.
        sound: Up to where it needs no repair.
        contents: The content of each message, to compare with.
        calls: The ids of its calls, and maybe of what was said later.
        repeats: Whether two calls bear one id. It may be said without need, and never be missing.
    """

    messages: list[BaseMessage]
    keys: list[str]
    digests: list[bytes]
    tokens: list[int]
    places: dict[str, int]
    sound: int
    contents: list[Any]
    calls: set[Any]
    repeats: bool


_NOTHING = History(
    messages=[], keys=[], digests=[b""], tokens=[0], places={}, sound=0, contents=[], calls=set(), repeats=False
)


class Ledger:
    """Remembers histories between turns. Safe to share between threads.

    Args:
        counter: Counts tokens.
        measures: Is told how many messages were known from the turn before. Default: nobody is.
    """

    def __init__(self, counter: TokenCounter, measures: Measures | None = None) -> None:
        self._counter = counter
        self._measures = measures
        self._lock = forks.lock()
        self._known: OrderedDict[Hashable, History] = OrderedDict()

    def follow(self, name: Hashable, messages: Sequence[BaseMessage]) -> History:
        """Find out about a history, going on from what is known of the one of that name.

        Args:
            name: Which history.
            messages: What it is now.
        """
        with self._lock:
            old = self._known.get(name, _NOTHING)
        given = list(messages)
        common = _common(old, given)
        if self._measures is not None:
            self._measures.cache(CACHE, common, len(given) - common)
        new = self._extended(old, given, common)
        with self._lock:
            self._known[name] = new
            self._known.move_to_end(name)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return new

    def forget(self) -> None:
        """Forget every history."""
        with self._lock:
            self._known.clear()

    def _extended(self, old: History, messages: list[BaseMessage], common: int) -> History:
        keys, contents = old.keys[:common], old.contents[:common]
        digests, tokens = old.digests[: common + 1], old.tokens[: common + 1]
        places, calls, repeats = old.places, old.calls, old.repeats
        if common < len(old.messages) or not common:
            places = {key: place for place, key in enumerate(keys)}
            calls = set()
            repeats = sum(_repeats(message, calls) for message in messages[:common]) > 0
        elif common < len(messages):
            places = places.copy()
        for place in range(common, len(messages)):
            message = messages[place]
            digest = blake2b(digests[-1] + _bytes(message), digest_size=20).digest()
            key = message.id if message.id and message.id not in places else f"msg-{digest.hex()}"
            content = message.content
            contents.append(content if type(content) is str else deepcopy(content))
            digests.append(digest)
            tokens.append(tokens[-1] + self._counter.count_message(message))
            keys.append(key)
            places[key] = place
            repeats = _repeats(message, calls) or repeats
        sound = sound_until(messages, min(old.sound, common))
        return History(
            messages=messages,
            keys=keys,
            digests=digests,
            tokens=tokens,
            places=places,
            sound=sound,
            contents=contents,
            calls=calls,
            repeats=repeats,
        )


def _repeats(message: BaseMessage, calls: set[Any]) -> bool:
    """Whether a message makes a call whose id is among those; its own are, from then on."""
    own = [call.get("id") for call in calls_of(message)]
    repeats = not calls.isdisjoint(own)
    calls.update(own)
    return repeats


def _common(old: History, messages: list[BaseMessage]) -> int:
    """How many messages are as they were.

    A message that is the same object as before is only looked into if it is one of the newest: what somebody changes in
    place further back is noticed when the history is next read from where it is kept, and comes as new objects.
    """
    most = min(len(old.messages), len(messages))
    before, given = old.messages[:most], messages[:most]
    same = all(map(is_, before, given))
    since = max(0, most - RECENT) if same else 0
    contents = [message.__dict__["content"] for message in given[since:]]
    if contents == old.contents[since:most] and (
        same or _fields(before) == _fields(given) or _are_alike(before, given)
    ):
        return most
    return next(
        place
        for place in range(since, most)
        if contents[place - since] != old.contents[place]
        or not _are_alike(before[place : place + 1], given[place : place + 1])
    )


def _fields(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    return [message.__dict__ for message in messages]


def _are_alike(some: list[BaseMessage], others: list[BaseMessage]) -> bool:
    """Whether messages say the same beside their contents, as far as a model is told."""
    return list(map(type, some)) == list(map(type, others)) and all(
        [message.__dict__.get(name) for message in some] == [message.__dict__.get(name) for message in others]
        for name in ("id", "name", "tool_calls", "tool_call_id")
    )


def _bytes(message: BaseMessage) -> bytes:
    said = [
        message.type,
        message.id,
        message.name,
        message.content,
        getattr(message, "tool_call_id", None),
        [(call.get("id"), call.get("name"), call.get("args")) for call in getattr(message, "tool_calls", ())],
    ]
    return json.dumps(said, default=repr).encode()
