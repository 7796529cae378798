"""The messages of model calls: kept once, and named by ranges.

Each call of a model is given the whole history again. So what the models of a conversation were given stands on a
*shelf*, message after message, and a call names ranges of it, usually one. Bodies are those that conversations and
checkpoints keep too: a message that is known anywhere is not stored again. Messages are known by what they say, not by
their ids, since a chain without a checkpointer makes new ids each time; the first id that one came with is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.errors import DatabaseUnreadable
from langchain_agentmem.messages import Message, body_text, decode_body, encode_body
from langchain_agentmem.messages.message import plain
from langchain_agentmem.storage import Steps, queries, query

MOST_RANGES = 32
"""A list of more ranges than this has the lightest half of them put on the shelf once more, as one."""
PAGE = 500
_FARTHEST = 2**40

Range: TypeAlias = tuple[int, int]
"""Numbers of a shelf, from the first to the last."""


class Part(NamedTuple):
    """A message that is to be put on a shelf.

    Attributes:
        key: Its id.
        hash: The digest of its body.
        body: Its body; None where it is stored already.
    """

    key: str
    hash: bytes
    body: bytes | None


class Placed(NamedTuple):
    """Where the messages of an entry stand.

    Attributes:
        shelf: The shelf.
        ranges: Its ranges, in order.
        identities: The digest and the id of each message.
    """

    shelf: int
    ranges: list[Range]
    identities: list[tuple[bytes, str]]


def parts_of(messages: Iterable[Message]) -> list[Part]:
    """Messages as they are stored.

    Raises:
        MessageError: One cannot be stored.
    """
    bodies = ((message.message_id, encode_body(message)) for message in messages)
    return [Part(plain(key) or "-", queries.digest(body), body) for key, body in bodies]


def put(path: str, namespace: int, name: str, parts: Sequence[Part]) -> Steps[Placed]:
    """Put messages on a shelf, but for those that stand there. Whoever calls holds the end of the chain.

    Args:
        path: The path of the namespace.
        namespace: Its row.
        name: The conversation or thread.
        parts: The messages, in order.
    """
    rows = yield query.audit_find_shelf(path=path, name=name)
    if not rows:
        rows = yield query.audit_create_shelf(namespace=namespace, name=name)
    shelf, following = int(rows[0]["id"]), int(rows[0]["next"])
    hashes = json.dumps(sorted({part.hash.hex() for part in parts}))
    known = yield query.audit_known_messages(shelf=shelf, hashes=hashes)
    numbers: dict[bytes, set[int]] = {}
    names: dict[int, str] = {}
    for row in known:
        numbers.setdefault(bytes(row["hash"]), set()).add(int(row["number"]))
        names[int(row["number"])] = row["key"]
    places = _places([part.hash for part in parts], numbers, following)
    places = _fewer_ranges(places, following)
    new = {place: part for place, part in zip(places, parts, strict=True) if place not in names}
    if new:
        bodies = {part.hash: part.body for part in new.values() if part.hash not in numbers and part.body is not None}
        yield from queries.store(bodies)
        added = [{"shelf": shelf, "number": place, "key": new[place].key, "hash": new[place].hash} for place in new]
        yield query.audit_put_message.many(added) if len(added) > 1 else query.audit_put_message(**added[0])
        yield query.audit_use_numbers(shelf=shelf, next=max(new) + 1)
    names |= {place: part.key for place, part in new.items()}
    identities = [(part.hash, names[place]) for place, part in zip(places, parts, strict=True)]
    return Placed(shelf, runs(places), identities)


def texts(shelf: int, numbers: Iterable[int]) -> Steps[dict[int, str]]:
    """What some messages of a shelf say, by their numbers. Those that are damaged are left out."""
    wanted = json.dumps(runs(sorted(set(numbers))))
    rows = yield query.audit_messages_in(shelf=shelf, ranges=wanted)
    found: dict[int, str] = {}
    for row in rows:
        with suppress(DatabaseUnreadable):
            found[int(row["number"])] = body_text(bytes(row["body"]))
    return found


def messages(shelf: int, lists: Iterable[Sequence[Range]]) -> Steps[dict[int, Message]]:
    """The messages in some ranges of a shelf, by their numbers. Those that are damaged are left out."""
    rows = yield query.audit_messages_in(shelf=shelf, ranges=json.dumps(covered(lists)))
    found: dict[int, Message] = {}
    for row in rows:
        with suppress(DatabaseUnreadable):
            found[int(row["number"])] = decode_body(bytes(row["body"]), row["key"])
    return found


def identities(shelf: int, lists: Iterable[Sequence[Range]]) -> Steps[dict[int, tuple[bytes, str]]]:
    """The digests and ids of the messages in some ranges of a shelf, by their numbers."""
    rows = yield query.audit_identities_in(shelf=shelf, ranges=json.dumps(covered(lists)))
    return {int(row["number"]): (bytes(row["hash"]), row["key"]) for row in rows}


def free(shelf: int) -> Steps[None]:
    """Take away what no entry needs any more of a shelf, and the shelf if that is all."""
    needed: list[Range] = []
    after = 0
    while rows := (yield query.audit_ranges(shelf=shelf, after=after, limit=PAGE)):
        try:
            needed = covered([needed, *(read(row["messages"]) for row in rows)])
        except ValueError:
            return  # nobody knows what a damaged entry needs
        after = rows[-1]["sequence"]
    low = 1
    hashes: set[bytes] = set()
    for first, last in [*needed, (2**62, 2**62)]:
        if low < first:
            gone = yield query.audit_message_hashes(shelf=shelf, low=low, high=first)
            if gone:
                hashes.update(bytes(row["hash"]) for row in gone)
                yield query.audit_drop_messages(shelf=shelf, low=low, high=first)
        low = last + 1
    if not needed:
        yield query.audit_drop_shelf(shelf=shelf)
    yield from queries.collect(hashes)


def written(ranges: Sequence[Range]) -> str:
    """Ranges as they are stored."""
    return json.dumps(ranges, separators=(",", ":"))


def read(text: str) -> list[Range]:
    """Ranges that were stored.

    Raises:
        ValueError: They are damaged.
    """
    ranges: Any = json.loads(text)
    try:
        if len(ranges) > MOST_RANGES:
            raise ValueError(text)
        return [_range(first, last) for first, last in ranges]
    except TypeError as error:
        raise ValueError(text) from error


def number_at(ranges: Sequence[Range], place: int) -> int:
    """The number of the message that stands at some place of a list, counted from 0.

    Raises:
        ValueError: The list is shorter, or that is no place.
    """
    if type(place) is not int or place < 0:
        raise ValueError(place)
    for first, last in ranges:
        if place <= last - first:
            return first + place
        place -= last - first + 1
    raise ValueError(place)


def numbers_in(ranges: Iterable[Range]) -> Iterator[int]:
    """The numbers of a list of ranges, one by one: there is no end of them where somebody has written a wrong one."""
    return (number for first, last in ranges for number in range(first, last + 1))


def runs(numbers: Iterable[int]) -> list[Range]:
    """Numbers in their order, as few ranges as can be."""
    found: list[Range] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def covered(lists: Iterable[Sequence[Range]]) -> list[Range]:
    """The union of ranges, ascending and apart from each other."""
    union: list[Range] = []
    for first, last in sorted({each for ranges in lists for each in ranges}):
        if union and first <= union[-1][1] + 1:
            union[-1] = union[-1][0], max(last, union[-1][1])
        else:
            union.append((first, last))
    return union


def apart(ranges: Iterable[Range], others: Sequence[Range]) -> list[Range]:
    """What some ranges have that others do not; both ascend, and do not touch each other."""
    found: list[Range] = []
    for first, last in ranges:
        low = first
        for start, end in others:
            if end >= low and start <= last:
                if low < start:
                    found.append((low, start - 1))
                low = end + 1
        if low <= last:
            found.append((low, last))
    return found


def _places(hashes: Sequence[bytes], known: Mapping[bytes, set[int]], following: int) -> list[int]:
    """The number of each message of a list, those that stand there and those that will.

    Equal messages of one list have numbers of their own: a list that named one of them twice would be two ranges. Where
    a range ends, the next begins where the following message stands behind this one too, if it does anywhere.
    """
    places: list[int] = []
    used: set[int] = set()
    last = 0
    for key, after in zip(hashes, (*hashes[1:], None), strict=True):
        number = last + 1
        if number not in known.get(key, ()) or number in used:
            there = sorted(known.get(key, set()) - used, reverse=True)
            goes_on = known.get(after, ()) if after is not None else ()
            number = next((each for each in there if each + 1 in goes_on), there[0] if there else following)
        following = max(following, number + 1)
        used.add(number)
        places.append(number)
        last = number
    return places


def _fewer_ranges(places: list[int], following: int) -> list[int]:
    """A list in which there are not too many ranges: the lightest half of them gets new numbers, as one."""
    while len(ranges := runs(places)) > MOST_RANGES:
        width = len(ranges) // 2
        ends = list(accumulate((last - first + 1 for first, last in ranges), initial=0))
        start = min(range(len(ranges) - width + 1), key=lambda at: ends[at + width] - ends[at])
        low, high = ends[start], ends[start + width]
        # What is new in any case is numbered anew as well, so that no number is used that no entry names.
        new = [number for at, number in enumerate(places) if not low <= at < high and number >= following]
        renamed = {number: following + index for index, number in enumerate(new)}
        first = following + len(new)
        places = [
            first + at - low if low <= at < high else renamed.get(number, number) for at, number in enumerate(places)
        ]
    return places


def _range(first: Any, last: Any) -> Range:
    if type(first) is not int or type(last) is not int or not 0 < first <= last < _FARTHEST:
        raise ValueError(first, last)
    return first, last
